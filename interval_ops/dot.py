r"""The dot rule: enclosures of chains of `tl.dot` on a target, with one bound over the total K.

A matrix unit that follows the block-FMA model (`profile.DotModel`) computes c + sum p_i within

    S ((1 + theta)^B - 1) + B eta (1 + theta)^(B-1),     S = |c| + sum |p_i|,
    theta = n_t 2^-F + rho (+ extra),   eta = n_t 2^-F max(0, W - S) + omega,

for every order of the terms and every assignment to blocks; B counts the blocks, n_t the terms that alignment may
truncate, omega the spacing at the bottom of the accumulator. W = max(2^emin_acc, max_i a^_i b^_i) with
a^ = max(|a|, 2^emin) of the operand format: a subnormal operand is aligned at emin with an unnormalised significand, so
small products may be cut as if they were large. Products of normal operands are at most S; the others are at most
2^emin max(max|a|, max|b|, 2^emin), which needs only the peak of each row and column.

A chain of fused multiply-adds is the case n_t 2^-F = 0, B = K + 1 (an addend c counts once more), rho = u: the classic
(1 + u)^n - 1 in any order, with omega = u 2^emin for results that underflow.

Source: MMA-Sim (arXiv 2511.10909), Khattak and Mikaitis (arXiv 2512.07004) for the parameters; the bound follows from
E_b <= (1 + theta) E_{b-1} + theta S + eta. A common mistake is to drop W: with subnormal operands the purely relative
bound is wrong by a factor of several hundred.

tf32: fp32 operands reach the unit with their last 13 bits cut, all of them or (where a dot is not lowered to the unit)
none. The enclosure is the hull of the sums of untouched and of cut operands, each evaluated exactly: one float64 matrix
product more, and several times narrower than 2^-9 sum |a b|. Two interval operands take {x, cut x} element by element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from interval_ops import dot_kernels as kernels
from interval_ops.dot_sums import Array, Pair, Product, Sums, evaluate
from interval_ops.formats import FORMATS
from interval_ops.profile import DotModel, Profile

FLUSH = 512
"""Deferred products are summed as soon as their K reaches this; independent of the batch, so results are too."""

_INT32_END = 2.0**31


@dataclass(frozen=True)
class PendingDot:
    """c + sum of dots whose rounding is not decided yet; immutable, every step returns a new one.

    Shapes: a (..., M, K), b (..., K, N), c and the result (..., M, N); leading axes broadcast, and so does an axis of
    length 1. Operands are kept by reference until they are summed: do not write to them. `blocks` and `adds` count the
    roundings on the longest path from a term to the result: blocks of the unit, and plain additions.
    """

    shape: tuple[int, ...]
    kind: str
    profile: Profile
    queue: list[Product]
    count: int = 0
    queued: int = 0
    base: Sums | None = None
    parts: int = 0
    addends: tuple[Pair, ...] = ()
    terms: int = 0
    blocks: int = 0
    adds: int = 0

    @staticmethod
    def start(acc: Pair | None, shape: Sequence[int], kind: str, profile: Profile) -> PendingDot:
        """The empty sum plus `acc` (None is an exact zero). `shape` is the logical shape, for error messages only."""
        profile.dot(kind)
        empty = PendingDot(tuple(shape), kind, profile, [])
        return empty if acc is None else empty.add(acc, rounded=False)

    @cached_property
    def model(self) -> DotModel:
        return self.profile.dot(self.kind)

    def extend(self, a: Pair, b: Pair, *, k: int | None = None, imprecise: int | None = None) -> PendingDot:
        """dot(a, b, self). `k` is needed only where both operands are broadcast along K.

        `imprecise` is tl.dot's max_num_imprecise_acc: on a target that promotes partial sums, each `imprecise` products
        are summed by the unit alone and then added in fp32. None leaves the whole K to the unit.
        """
        size = max(a[0].shape[-1], b[0].shape[-2]) if k is None else k
        if a[0].shape[-1] not in (1, size) or b[0].shape[-2] not in (1, size):
            raise ValueError(f"dot: operands {a[0].shape} and {b[0].shape} do not agree on K")
        queue, count = self._append([Product(a, b, size)])
        blocks, adds = self._depth(size, imprecise)
        longer = replace(self, queue=queue, count=count, queued=self.queued + size, terms=self.terms + size)
        return replace(longer, blocks=blocks, adds=adds)._flushed()

    def _depth(self, size: int, imprecise: int | None) -> tuple[int, int]:
        model = self.model
        if model.promote and imprecise and imprecise < size:
            inner = model.terms * math.ceil(imprecise / model.block)
            return max(self.blocks, inner), self.adds + math.ceil(size / imprecise)
        # Split operands (tf32x3, ...) are summed from zero, the accumulator is added afterwards.
        return self.blocks + model.terms * math.ceil(size / model.block), self.adds + (model.terms > 1)

    def _append(self, more: list[Product]) -> tuple[list[Product], int]:
        """The queue with `more` behind this sum's own part, shared with this sum where nobody else appended yet."""
        queue = self.queue if len(self.queue) == self.count else self.queue[: self.count]
        queue.extend(more)
        return queue, len(queue)

    def _flushed(self) -> PendingDot:
        if self.queued < FLUSH:
            return self
        return replace(self, queue=[], count=0, queued=0, base=self._sums(), parts=self.parts + 1)

    def add(self, c: Pair, *, rounded: bool) -> PendingDot:
        """c + self, folded into the accumulator or, if `rounded`, possibly added by an instruction of its own."""
        extra = 1 if self.model.block == 1 or (rounded and self._add_counts) else 0
        return replace(self, addends=(*self.addends, c), adds=self.adds + extra)

    def join(self, other: PendingDot, *, rounded: bool = True) -> PendingDot:
        """self + other, two sums of the same kind: `acc += tl.dot(a, b)` without finalising either.

        Folded, a term of the accumulator passes the blocks of both; added by its own instruction (one more rounding to
        nearest, which a block's theta covers), only its own. Where the target promotes, the second case is certain.
        """
        if (self.kind, self.profile.name) != (other.kind, other.profile.name):
            raise ValueError(f"cannot join dots of kinds {self.kind} and {other.kind}")
        if self.profile.off != other.profile.off:
            # Causes muted on one side only: each sum gets its own bound, and self still passes the blocks of other.
            closed = self.add(other.interval(), rounded=rounded)
            return replace(closed, blocks=closed.blocks + other.blocks)
        queue, count = self._append(other.queue[: other.count])
        apart = rounded and self.model.promote
        blocks = max(self.blocks, other.blocks) if apart else self.blocks + other.blocks
        extra = 1 if rounded and (self._add_counts or not min(self.blocks, other.blocks)) else 0
        base = self.base if other.base is None else other.base if self.base is None else self.base.plus(other.base)
        return replace(
            self,
            queue=queue,
            count=count,
            queued=self.queued + other.queued,
            base=base,
            parts=self.parts + other.parts,
            addends=self.addends + other.addends,
            terms=self.terms + other.terms,
            blocks=blocks,
            adds=max(self.adds, other.adds) + extra if apart else self.adds + other.adds + extra,
        )._flushed()

    @property
    def _add_counts(self) -> bool:
        """Whether a separate addition is not covered by the block it replaces."""
        return self.model.promote or self.model.terms > 1 or self.blocks == 0

    @property
    def causes(self) -> frozenset[str]:
        """The causes that widen this sum on this target, muted ones left out."""
        found = {self.model.cause} if self.model.rho else set()
        if self.model.truncate or self.model.eps or self.model.floor:
            found.add("operand")
        return frozenset(cause for cause in found if not self.profile.muted(cause))

    def _sums(self) -> Sums:
        """All products so far, evaluated."""
        if not self.count:
            assert self.base is not None
            return self.base
        model = self.model
        integer = model.acc == "int32"
        truncate = model.truncate == "tf32" and not self.profile.muted("operand")
        # The big part of a split operand is rounded to nearest and would overflow near the end of the range.
        limit = 2.0**127 if model.terms > 1 else math.inf
        new = evaluate(
            self.queue[: self.count], truncate, narrow=model.acc != "fp64" and not integer, limit=limit, integer=integer
        )
        return new if self.base is None else self.base.plus(new)

    def interval(self) -> Pair:
        """[lo, hi] in float64: the exact value and every legal result; NaN in both ends where anything may happen."""
        return self._interval

    @cached_property
    def _interval(self) -> Pair:
        with np.errstate(all="ignore"):
            if not self.terms:
                return self._close_addends()
            return _close(self._sums(), self.addends, self._parameters())

    def _close_addends(self) -> Pair:
        """No product at all: the addends, with their own roundings."""
        shape = np.broadcast_shapes(*(c[0].shape for c in self.addends), (1,) * (len(self.shape[-2:]) + 1))
        zero = np.zeros(shape)
        rows, columns = np.zeros(shape[:-1]), np.zeros((*shape[:-2], shape[-1]))
        return _close(Sums(zero, zero, zero, zero, zero, rows, columns), self.addends, self._parameters())

    def _parameters(self) -> Array:
        """The scalars of `dot_kernels.finish`, each rounded up."""
        model, muted = self.model, self.profile.muted
        theta, align, rho = (0.0, 0.0, 0.0) if muted(model.cause) else (model.theta, model.aligned, model.rho)
        operand = 0.0 if muted("operand") else 1.0
        emin, last, adding = _accumulator(model)
        blocks, adds = self.blocks, self.adds if rho else 0
        relative = _compound(blocks * math.log1p(theta) + adds * math.log1p(adding))
        power = blocks * _up(1.0 + _compound((blocks - 1) * math.log1p(theta) + adds * math.log1p(adding)))
        omega = 2.0**emin * rho
        floor = model.floor * operand
        if model.flush:
            floor, omega = max(floor, 2.0**model.emin), omega + 2.0**-126 * (rho > 0)
        slack = 0.0 if model.acc == "int32" else (self.terms + 4 * self.parts + 4 * len(self.addends) + 16) * 2.0**-53
        count = float(self.terms)
        return np.array(
            [
                relative,
                model.eps * operand,
                model.growth,
                floor * count,
                floor * floor * count,
                align,
                omega,
                power,
                2.0**model.emin,
                2.0**emin,
                last,
                slack * 1.001,
            ]
        )


def _up(x: float) -> float:
    return x * (1.0 + 2.0**-48)


def _compound(log: float) -> float:
    """Upper bound of exp(log) - 1; inf where it overflows."""
    return _up(math.expm1(log * (1.0 + 2.0**-48))) if log < 700.0 else math.inf


def _accumulator(model: DotModel) -> tuple[int, float, float]:
    """Smallest normal exponent, smallest magnitude that may overflow, unit roundoff of a plain addition."""
    if model.acc == "int32":
        return 0, _INT32_END, 0.0
    fmt = FORMATS[model.acc]
    # An accumulator of fewer fraction bits than its format (e8m13) ends a little earlier.
    return fmt.emin, fmt.max * (1.0 - 2.0 * model.rho) if model.rho > fmt.u else fmt.max, fmt.u


def _close(sums: Sums, addends: Sequence[Pair], parameters: Array) -> Pair:
    """Adds the addends and the target's rounding to the sums."""
    lo, hi, weight = np.minimum(sums.lo, sums.tlo), np.maximum(sums.hi, sums.thi), np.zeros(1)
    if sums.lo is sums.tlo:
        lo, hi = sums.lo, sums.hi
    for low, high in addends:
        lo, hi = lo + low, hi + high
        weight = weight + (np.abs(low) if low is high else np.maximum(np.abs(low), np.abs(high)))
    shape = lo.shape

    def flat(x: Array, target: tuple[int, ...]) -> Array:
        return np.ascontiguousarray(np.broadcast_to(x, target), dtype=np.float64).reshape(-1, *target[len(shape) - 2 :])

    rows = flat(sums.rows, shape[:-1]).reshape(-1, shape[-2])
    columns = flat(sums.columns, (*shape[:-2], shape[-1])).reshape(-1, shape[-1])
    out_lo, out_hi = np.empty(shape), np.empty(shape)
    kernels.finish(
        *(flat(x, shape) for x in (lo, hi, sums.mag, weight)),
        rows,
        columns,
        parameters,
        *(x.reshape(-1, *shape[-2:]) for x in (out_lo, out_hi)),
    )
    return out_lo, out_hi


def dot_int(a: Array, b: Array, acc: Array | None, profile: Profile) -> tuple[Array, bool]:
    """Integer dot: exact int32 values, and whether some lane may have left the range of int32.

    Past the range the result wraps or saturates as the profile's `int8` model says; where the profile knows neither,
    and for partial sums that saturate on the way, the second value is the warning. Shapes as in `PendingDot`.
    """
    mode = profile.dot("int8").overflow
    exact = np.rint(np.matmul(a.astype(np.float64), b.astype(np.float64))).astype(np.int64)
    reach = np.matmul(np.abs(a.astype(np.float64)), np.abs(b.astype(np.float64)))
    if acc is not None:
        exact, reach = exact + acc.astype(np.int64), reach + np.abs(acc.astype(np.float64))
    may = bool((reach >= _INT32_END).any())
    if may and mode == "saturate":
        exact = np.clip(exact, -(2**31), 2**31 - 1)
    values: np.ndarray[Any, Any] = exact.astype(np.int32)
    return values, may and (mode != "wrap" or bool((np.abs(exact) >= _INT32_END).any()))
