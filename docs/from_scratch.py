"""RENDER from scratch: an interval interpreter of small Triton kernels, in less than 300 lines of numpy.

The question is always the same: a kernel and its reference differ; is that rounding, or a bug? The idea is also the
same: run the kernel, unedited, and carry beside every number an interval that holds (a) the exact value of the
kernel's formula and (b) whatever a legal execution could have computed in its place. If the reference lies outside,
no rounding explains it. This page builds that from nothing, for float32 kernels with loads, stores, + - * /, exp, max
and sum. `python docs/from_scratch.py` judges four kernels; a test runs the page. RENDER itself has the same parts,
each for the whole language: docs/how-it-works.md says where.
"""

from __future__ import annotations

import math
import random
import types
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

# 1. Rounding ----------------------------------------------------------------------------------------------------------
# A float32 operation rounds once: |fl(x) - x| <= U |x| + TINY (Higham, section 2.2; TINY is half a subnormal). Our own
# bounds are float64 and must not lose anything either: every end is moved outward by one float64 after it is computed.

U, TINY, MAX = 2.0**-24, 2.0**-150, float(np.finfo(np.float32).max)


def down(x: Any) -> Any:
    return np.nextafter(x, -np.inf)


def up(x: Any) -> Any:
    return np.nextafter(x, np.inf)


def rounded(lo: Any, hi: Any) -> tuple[Any, Any]:
    """[lo, hi] with every float32 rounding of its numbers. x -+ U|x| grows with x, so the two ends are enough."""
    low = np.where(np.isfinite(lo), down(lo - up(up(U * np.abs(lo)) + TINY)), lo)
    high = np.where(np.isfinite(hi), up(hi + up(up(U * np.abs(hi)) + TINY)), hi)
    return np.where(low < -MAX, -np.inf, low), np.where(high > MAX, np.inf, high)  # beyond MAX it may be an infinity


# 2. A block of numbers with their intervals ---------------------------------------------------------------------------


class Block:
    """`v`: float32, what a plain execution computes. [lo, hi]: float64, all that a legal execution may compute."""

    def __init__(self, v: Any, lo: Any = None, hi: Any = None) -> None:
        self.v = np.asarray(v, np.float32)
        self.lo = np.asarray(self.v if lo is None else lo, np.float64)
        self.hi = np.asarray(self.v if hi is None else hi, np.float64)

    def __add__(self, b: Block) -> Block:
        return made(self.v + b.v, down(self.lo + b.lo), up(self.hi + b.hi))

    def __sub__(self, b: Block) -> Block:
        return self + Block(-b.v, -b.hi, -b.lo)

    def __mul__(self, b: Block) -> Block:
        """The ends of a product are among the four products of ends.

        The interval holds the unrounded product, too. So a*b + c holds what an fma gives, which rounds only once.
        """
        return made(self.v * b.v, *corners(np.multiply, self, b))

    def __truediv__(self, b: Block) -> Block:
        zero = (b.lo <= 0) & (b.hi >= 0)  # nothing is known of a quotient by something that may be zero
        return made(self.v / b.v, *(np.where(zero, np.nan, end) for end in corners(np.divide, self, b)))


def corners(op: Any, a: Block, b: Block) -> tuple[Any, Any]:
    ends = np.broadcast_arrays(op(a.lo, b.lo), op(a.lo, b.hi), op(a.hi, b.lo), op(a.hi, b.hi))
    return down(np.min(ends, axis=0)), up(np.max(ends, axis=0))


def made(v: Any, lo: Any, hi: Any) -> Block:
    """The result of one rounded operation; ends that are NaN (inf - inf, 0 * inf) mean anything."""
    unknown = np.isnan(lo) | np.isnan(hi)
    return Block(v, *rounded(np.where(unknown, -np.inf, lo), np.where(unknown, np.inf, hi)))


# 3. Functions ---------------------------------------------------------------------------------------------------------

EXP = 2.0**-22  # relative error that we grant the device's exp; a real profile cites the vendor's document


def exp(x: Block) -> Block:
    """Monotone: ends go to ends, moved by the documented error; 2^-50 is far more than float64's own exp errs."""
    slack = EXP + 2.0**-50
    lo, hi = np.exp(x.lo) * (1 - slack), np.exp(x.hi) * (1 + slack) + TINY
    return Block(np.exp(x.v), np.maximum(down(lo) - TINY, 0.0), np.where(hi > MAX, np.inf, up(hi)))


def maximum(x: Block) -> Block:
    return Block(x.v.max(), x.lo.max(), x.hi.max())  # picks, rounds nothing


def total(x: Block) -> Block:
    """A sum in ANY order: |fl(sum) - sum| <= ((1 + U)^(n-1) - 1) sum |x_i| (Higham, section 4.2).

    A GPU adds in an order of its own, and which one we cannot know; math.fsum gives our sums of ends exactly rounded.
    """
    n, most = x.v.size, np.maximum(np.abs(x.lo), np.abs(x.hi))
    error = np.expm1((n - 1) * np.log1p(U)) * math.fsum(most) * (1 + 2.0**-48)  # sums that underflow are exact
    if not math.fsum(most) + error <= MAX:  # on the way it may overflow, even where the sum does not
        return Block(x.v.sum(), -np.inf, np.inf)
    return Block(x.v.sum(), down(down(math.fsum(x.lo)) - error), up(up(math.fsum(x.hi)) + error))


# 4. Memory ------------------------------------------------------------------------------------------------------------
# Integers are exact and stay numpy's. A pointer is a tensor and offsets; every active lane's address is looked at
# BEFORE it is touched, so a wrong mask is a finding with program and index, and never a crash.


class Tensor:
    """Storage with the interval of each element beside it: bounds survive a store and a load."""

    def __init__(self, name: str, data: Any) -> None:
        self.name = name
        self.v = np.asarray(data, np.float32).ravel().copy()
        self.lo, self.hi = self.v.astype(np.float64), self.v.astype(np.float64)
        self.stored = np.zeros(self.v.size, bool)

    def __add__(self, offsets: Any) -> Pointer:
        return Pointer(self, np.asarray(offsets))


@dataclass
class Pointer:
    tensor: Tensor
    offsets: np.ndarray

    def __add__(self, offsets: Any) -> Pointer:
        return Pointer(self.tensor, self.offsets + offsets)


# 5. The language ------------------------------------------------------------------------------------------------------


class Language:
    """What a kernel calls `tl`, for one launch."""

    constexpr = int
    exp, max, sum = staticmethod(exp), staticmethod(maximum), staticmethod(total)
    arange = staticmethod(np.arange)

    def __init__(self) -> None:
        self.pid, self.findings = 0, list[str]()

    def program_id(self, axis: int) -> int:
        return self.pid

    def load(self, pointer: Pointer, mask: Any = True, other: float = 0.0) -> Any:
        t, at, active = self._reach("reads", pointer, mask)
        v, lo, hi = (np.where(active, x[at], other) for x in (t.v, t.lo, t.hi))
        return Block(v, lo, hi)

    def store(self, pointer: Pointer, value: Any, mask: Any = True) -> None:
        t, at, active = self._reach("writes", pointer, mask)
        for ours, theirs in ((t.v, value.v), (t.lo, value.lo), (t.hi, value.hi)):
            ours[at[active]] = np.broadcast_to(theirs, active.shape)[active]
        t.stored[at[active]] = True

    def _reach(self, doing: str, p: Pointer, mask: Any) -> tuple[Tensor, np.ndarray, np.ndarray]:
        """(tensor, addresses that exist, which lanes are active and have one)."""
        at, inside = p.offsets, (p.offsets >= 0) & (p.offsets < p.tensor.v.size)
        active = np.broadcast_to(mask, at.shape)
        if bad := np.flatnonzero(active & ~inside).tolist():
            self.findings.append(f"{doing} outside {p.tensor.name} in program {self.pid}, offset {at[bad[0]]}")
        return p.tensor, np.where(inside, at, 0), active & inside


def launch(kernel: Callable[..., None], grid: int, tl: Any, *args: Any) -> Any:
    """Runs the kernel as it stands: the same code, with our language under the name `tl`."""
    ours = types.FunctionType(kernel.__code__, {**kernel.__globals__, "tl": tl})
    for tl.pid in range(grid):
        ours(*args)
    return tl


# 6. The verdict -------------------------------------------------------------------------------------------------------


def judge(tl: Language, out: Tensor, exact: np.ndarray) -> tuple[str, str]:
    """`exact`: the reference in float64, from the same inputs. The first row that holds, as in the decision table."""
    e, slack = exact.ravel(), 2.0**-40 * np.abs(exact.ravel())  # E errs, too: RENDER bounds that, here it is a guess
    if tl.findings:
        return "Type-II", f"RND207: the kernel {tl.findings[0]}"
    if not out.stored.all():
        return "Type-II", f"RND205: {np.count_nonzero(~out.stored)} elements are never stored"
    outside = (e + slack < out.lo) | (e - slack > out.hi)
    if outside.any():
        i = int(np.argmax(outside))
        return "Type-II", f"RND201: element {i} should be {e[i]:.9g}, legal is [{out.lo[i]:.9g}, {out.hi[i]:.9g}]"
    if not (np.isfinite(out.lo) & np.isfinite(out.hi)).all():
        return "Inconclusive", "RND304: the bound is infinite"
    if ((out.lo <= 0) & (out.hi >= 0)).all() and e.any():
        return "Inconclusive", "RND301: zeros would fit as well"
    return "Type-I", f"round-off explains it; bound {np.max((out.hi - out.lo) / np.abs(e)):.1e} wide, relative"


# 7. The adversary -----------------------------------------------------------------------------------------------------
# How do we know that the bounds are right? Other code, which knows nothing of them, executes the kernel at random
# within what is legal, and must never leave them. It computes in exact rationals, so that an fma is one rounding.


@np.vectorize
def nearest(x: Fraction) -> Fraction:
    near = np.float32(float(x))
    around = (np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf)))
    return min((Fraction(float(c)) for c in around), key=lambda c: abs(c - x))


class Legal:
    """One legal execution: `v` rounded numbers; `product`, what a compiler may contract into the next addition."""

    def __init__(self, v: Any, product: Any = None) -> None:
        self.v, self.product = v, product

    def __add__(self, other: Legal) -> Legal:
        fused = self.product is not None and random.random() < 0.5
        return Legal(nearest((self.product if fused else self.v) + other.v))

    def __mul__(self, other: Legal) -> Legal:
        return Legal(nearest(self.v * other.v), self.v * other.v)


class Attack(Language):
    """The language of one random legal execution; it leaves its numbers in the tensors."""

    def load(self, pointer: Pointer, mask: Any = True, other: float = 0.0) -> Any:
        return Legal(np.array([Fraction(float(x)) for x in super().load(pointer, mask, other).v], object))

    def store(self, pointer: Pointer, value: Any, mask: Any = True) -> None:
        super().store(pointer, Block(np.asarray(value.v, np.float32)), mask)

    @staticmethod
    def sum(x: Any) -> Any:  # type: ignore[override]
        left = list(x.v)  # any two of them are added, until one is left
        while len(left) > 1:
            random.shuffle(left)
            left.append(nearest(left.pop() + left.pop()).item())
        return Legal(np.array(left, object))


# 8. Kernels, as one writes them for Triton ----------------------------------------------------------------------------

tl: Any = Language()  # each launch puts its own in this place


def dot(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row, offs = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + offs, mask=offs < n, other=0.0)
    y = tl.load(y_ptr + row * n + offs, mask=offs < n, other=0.0)
    tl.store(out_ptr + row + tl.arange(0, 1), tl.sum(x * y + x))


def softmax(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row, offs = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + offs, mask=offs < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * n + offs, e / tl.sum(e), mask=offs < n)


def no_maximum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row, offs = tl.program_id(0), tl.arange(0, BLOCK)
    e = tl.exp(tl.load(x_ptr + row * n + offs, mask=offs < n, other=0.0))  # exp(0) of masked lanes is counted
    tl.store(out_ptr + row * n + offs, e / tl.sum(e), mask=offs < n)


def no_mask(x_ptr, out_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, x + x)


def examples() -> dict[str, tuple[str, str]]:
    rng = np.random.default_rng(0)
    x, y = (Tensor(name, rng.normal(size=(4, 24))) for name in ("x", "y"))
    a, b = (t.v.reshape(4, 24).astype(np.float64) for t in (x, y))
    e = np.exp(a - a.max(1, keepdims=True))
    soft = e / e.sum(1, keepdims=True)
    found = {}
    for name, kernel, ins, shape, exact in (
        ("dot", dot, (x, y), 4, (a * b + a).sum(1)), ("softmax", softmax, (x,), (4, 24), soft),
        ("no maximum", no_maximum, (x,), (4, 24), soft), ("no mask", no_mask, (x,), (4, 24), 2 * a),
    ):  # fmt: skip
        out = Tensor("out", np.zeros(shape))
        found[name] = judge(launch(kernel, 4, Language(), *ins, out, 24, 32), out, exact)
    return found


if __name__ == "__main__":
    for title, (label, why) in examples().items():
        print(f"{title:<12} {label:<8} {why}")
