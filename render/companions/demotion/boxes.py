r"""A certificate for all inputs of a box: |computed - exact| <= sum_i |w_i| e_i, for elements that were followed.

Let y(x, d) be what the kernel computes where every operation i makes an error d_i with |d_i| <= e_i. By the mean value
theorem y(x, d) - y(x, 0) = sum_i (dy/dd_i) d_i with the derivatives taken somewhere between; so w_i, the interval of
dy/dd_i over the box and over all errors, bounds it without a rest. Ranges go forwards over the slice of the rewritten
kernel, derivatives backwards, with their signs: what cancels along two paths does cancel. e_i is one rounding of the
largest value that the operation may have, the profile's error of a function, or gamma_n times the sum of magnitudes of
a reduction. float64's own rounding is covered by widening every range by 2^-45 of itself and the result by 2^-30.

No certificate where the kernel makes a truth or an integer of a float (a condition, an index), a divisor may vanish, a
function leaves its domain or a value may overflow. An operation without a rule here is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from interval_ops.formats.model import FORMATS
from interval_ops.functions import derivatives
from interval_ops.reduction.rule import rounding_unit
from render.companions.demotion.certify import Uncertified
from render.entry.execution import Entry, Execution
from render.entry.inputs import Inputs
from render.interpreter.events import Listener, listened
from render.interpreter.handle import Handle
from render.interpreter.hosted.call import exact_profile
from render.result.errors import RenderError
from render.trace.accumulation.swamping import spread
from render.trace.element import slices_of
from render.trace.model import ABSENT, LEAF, Node, Slice
from render.trace.nodes import NODES

Array = np.ndarray
Pair = tuple[Array, Array]
ELEMENTS = 16
_SLACK, _LAST = 2.0**-45, 1 + 2.0**-30
_TRUNCATED = 2.0**-9 + 2.0**-20
"""What a product loses where a unit cuts both operands to ten fraction bits."""


class Decisions(Listener):
    """Notices the first operation that makes no float of a float: for other inputs it may decide otherwise."""

    def __init__(self) -> None:
        self.first = ""

    def event(self, op: str, args: Sequence[Any], outs: Sequence[Handle], attrs: Any = None) -> None:
        taken = any(isinstance(a, Handle) and a.dtype.scalar.is_floating() for a in args)
        if taken and not self.first and (op == "branch" or any(not o.dtype.scalar.is_floating() for o in outs)):
            self.first = f"{op} of a float (line {self.context.site().line})"


class Remembered(Inputs):
    """Inputs that know the memory of all their copies, so that what a slice reads can be told apart by its address."""

    def clone(self) -> Inputs:
        found = super().clone()
        self.__dict__.setdefault("copies", []).append(found)
        return found

    def named(self, addresses: Array) -> list[str]:
        """The input that each address lies in; Uncertified for one in none of them."""
        names = []
        for address in addresses.tolist():
            if not address:  # a lane that is masked off
                names.append("")
                continue
            name = next((n for copy in self.__dict__.get("copies", []) for n, x in copy.values.items()
                         if isinstance(x, torch.Tensor) and _holds(x, address)), None)  # fmt: skip
            if name is None:
                raise Uncertified("it reads memory that is no input")
            names.append(name)
        return names


def _holds(x: torch.Tensor, address: int) -> bool:
    start = x.untyped_storage().data_ptr()
    return bool(start <= address < start + x.untyped_storage().nbytes())


Ranges = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Box:
    """Ranges of inputs by name; the other inputs stay as they are. Called, it gives the certificate of a run."""

    ranges: Ranges

    def __call__(self, entry: Entry, run: Execution) -> tuple[Array, Array]:
        """(error, |exact| at least) of the followed elements, valid for all inputs of the box. Raises Uncertified."""
        seen = Decisions()
        replace(entry, options={"interval": False, "builder": listened(seen)}).given()
        if seen.first:
            raise Uncertified(f"{seen.first}: what it decides may differ over the box")
        wanted = [(o.name, at) for o in run.outputs if o.tracked for at in spread(o.value.shape, ELEMENTS)]
        errors, least = [], []
        for found in slices_of(entry, run, wanted):
            if not isinstance(found, Slice):
                raise Uncertified(str(found))
            error, small = bound(found, self.ranges, entry.inputs)
            errors.append(error)
            least.append(small)
        return np.array(errors), np.array(least)

    def draw(self, given: Inputs, seed: int) -> Remembered:
        """The inputs with values of the box, uniform; the first two elements of each are its ends."""
        stream = torch.Generator().manual_seed(seed)
        values = dict(given.values)
        for name, (low, high) in self.ranges.items():
            x = values[name]
            fresh = torch.empty_like(x)
            fresh.copy_(low + (high - low) * torch.rand(x.shape, generator=stream, dtype=torch.float64))
            fresh.clamp_(low, high)
            fresh.view(-1)[:2] = torch.tensor([low, high])[: fresh.numel()]
            values[name] = fresh
        return Remembered(tuple(values[n] for n in given.names), {n: values[n] for n in given.kwargs}, given.names)


def box(given: Inputs, specs: Sequence[str]) -> Box:
    """The box of NAME=LO:HI specs. Raises RenderError for one that cannot be read."""
    ranges: dict[str, tuple[float, float]] = {}
    for spec in specs:
        name, _, ends = (part.strip() for part in spec.partition("="))
        low, _, high = ends.partition(":")
        try:
            ranges[name] = float(low), float(high)
        except ValueError:
            raise RenderError("RND901", f"cannot read --box {spec!r}", 'write e.g. --box "x=-1:1"') from None
        x = given.values.get(name)
        if not isinstance(x, torch.Tensor) or not x.is_floating_point() or not ranges[name][0] <= ranges[name][1]:
            raise RenderError("RND901", f"--box {spec!r}: no such float tensor, or an empty range",
                              f"inputs: {', '.join(given.values)}")  # fmt: skip
    return Box(ranges)


def bound(found: Slice, ranges: Ranges, inputs: Inputs) -> tuple[float, float]:
    """(error bound, least |exact|) of one element over the ranges. Raises Uncertified."""
    assert isinstance(inputs, Remembered)
    if len(found.nodes) == 1 and found.nodes[0].op == LEAF:
        return 0.0, 0.0  # a copy of what lay there
    with np.errstate(all="ignore"):
        return _Box(found, ranges, inputs).result()


class _Box:
    def __init__(self, found: Slice, ranges: Ranges, inputs: Remembered) -> None:
        self.found, self.ranges, self.inputs = found, ranges, inputs
        self.lo, self.hi, self.own = (np.zeros(found.size + 1) for _ in range(3))
        self.terms = sum(int(n.operands[1].size) for n in found.nodes if n.op == "dot") + sum(
            n.size for n in found.nodes if n.op == "fold")  # fmt: skip

    def result(self) -> tuple[float, float]:
        for node in self.found.nodes:
            self._forward(node)
        low, high = np.zeros(self.found.size + 1), np.zeros(self.found.size + 1)
        low[self.found.root] = high[self.found.root] = 1.0
        for node in reversed(self.found.nodes):
            if node.op != LEAF:
                self._back(node, low, high)
        error = float((np.maximum(np.abs(low), np.abs(high)) * self.own)[:-1].sum()) * _LAST
        if not math.isfinite(error):
            raise Uncertified("no finite bound")
        a, b = float(self.lo[self.found.root]), float(self.hi[self.found.root])
        least = 0.0 if a <= 0 <= b else max(0.0, min(abs(a), abs(b)) - error)
        return error, least

    def _forward(self, node: Node) -> None:
        at = slice(node.start, node.stop)
        if node.op == LEAF:
            lo, hi = node.lo.copy(), node.hi.copy()
            if not np.isfinite(lo).all():
                raise Uncertified("an input is not bounded")
            if node.attrs.get("source") == "input":
                for i, name in enumerate(self.inputs.named(node.attrs.get("addresses", np.array([-1])))):
                    lo[i], hi[i] = self.ranges.get(name, (lo[i], hi[i]))
            elif node.attrs.get("source") == "memory":
                raise Uncertified("it reads what an earlier launch computed")
            else:
                self.own[at] = hi - lo  # a constant as it is written, or rounded
            self.lo[at], self.hi[at] = lo, hi
            return
        given = [(self.lo[o], self.hi[o]) for o in node.operands]
        if node.op not in _DERIVATIVES:
            raise Uncertified(f"{node.op} (line {node.line}) has no rule over a box")
        lo, hi = _range_of(node, given)
        own = self._own(node, given, np.maximum(np.abs(lo), np.abs(hi)))
        wide = own + _SLACK * np.maximum(np.abs(lo), np.abs(hi)) + 1e-300
        self.lo[at], self.hi[at], self.own[at] = lo - wide, hi + wide, own
        if not (np.isfinite(self.lo[at]).all() and np.isfinite(self.hi[at]).all()):
            raise Uncertified(f"{node.op} (line {node.line}) may leave its domain or overflow")
        self._in_range(node, at)

    def _in_range(self, node: Node, at: slice) -> None:
        fmt = FORMATS.get(node.attrs.get("dst") or node.attrs.get("fmt") or "fp64")
        if fmt is not None and max(np.abs(self.lo[at]).max(), np.abs(self.hi[at]).max()) > fmt.max:
            raise Uncertified(f"{node.op} (line {node.line}) may overflow {fmt.name}")

    def _own(self, node: Node, given: Sequence[Pair], large: Array) -> Array:
        if node.op in ("cast", "from_integer"):
            return _cast(node, large)
        if node.op in ("dot", "fold"):
            return self._dot(node, given, large)
        if node.op in _EXACT:
            return np.zeros(node.size)
        fmt = FORMATS[node.attrs["fmt"]]
        u = rounding_unit(fmt)
        if node.op in ("sum", "atomic_sum"):
            n = (node.operands[0] != ABSENT).sum(axis=1)
            size = np.maximum(np.abs(given[0][0]), np.abs(given[0][1])).sum(axis=1)
            return np.asarray(np.expm1(np.maximum(n - 1, 1) * math.log1p(u)) * size)
        entry = NODES[node.op].entry
        if not entry:
            return (2 if node.op == "fma" and fmt.p < 11 else 1) * u * large + fmt.half_subnormal
        error = self.found.profile.fn(entry, fmt.name)
        reach = np.maximum(np.abs(given[0][0]), np.abs(given[0][1]))
        if (reach >= error.until).any() or (large >= error.huge).any() or error.breaks:
            raise Uncertified(f"{node.op} (line {node.line}) leaves the range of its error")
        r = error.r + (u if fmt.name in ("fp16", "bf16") else 0.0)
        if self.found.profile.through_exp2(entry):
            r = r + 2.0**-22 * reach
        floor = error.a + fmt.half_subnormal
        found: Array = r * large + (floor + _flushed(node, given) if error.ftz else floor)
        return found

    def _dot(self, node: Node, given: Sequence[Pair], large: Array) -> Array:
        model = self.found.profile.dot(node.attrs["kind"])
        sizes = [np.maximum(np.abs(lo), np.abs(hi)) for lo, hi in given]
        gamma = math.expm1((self.terms + 1) * math.log1p(max(model.theta, FORMATS[model.acc].u)))
        if node.op == "fold":
            return np.asarray(gamma * (sizes[0] + sizes[1]))
        products = (sizes[1] * sizes[2]).sum(axis=1)
        cut = _TRUNCATED if model.truncate == "tf32" else 0.0
        count = node.operands[1].shape[1]
        found: Array = (gamma * (1 + model.growth) + 2 * model.eps + cut) * (products + sizes[0]) + count * (
            model.floor + FORMATS["fp32"].min_normal * model.flush
        )
        return np.asarray(found + (FORMATS[model.acc].u * large if model.convert else 0.0))

    def _back(self, node: Node, low: Array, high: Array) -> None:
        at = slice(node.start, node.stop)
        mine = low[at], high[at]
        if not (mine[0].any() or mine[1].any()):
            return
        given = [(self.lo[o], self.hi[o]) for o in node.operands]
        slopes = _DERIVATIVES[node.op](node, given)
        for o, slope in zip(node.operands, slopes, strict=True):
            weight = tuple(w[:, None] if o.ndim == 2 else w for w in mine)
            a, b = _times(weight, slope)
            room = _SLACK * np.maximum(np.abs(a), np.abs(b))
            np.add.at(low, o, a - room)
            np.add.at(high, o, b + room)


def _flushed(node: Node, given: Sequence[Pair]) -> Array:
    """What reading subnormal operands as 0, and returning 0 for a subnormal result, may change: the mean value theorem
    between the operand and 0. Not finite where the derivative is not, as of a root, or a divisor may be subnormal."""
    tiny = FORMATS["fp32"].min_normal
    found = np.full(node.size, tiny)
    for k, (lo, hi) in enumerate(given):
        near = (lo < tiny) & (hi > -tiny) & ((lo != 0) | (hi != 0))
        if near.any():
            around = [*given[:k], (np.clip(lo, -tiny, 0.0), np.clip(hi, 0.0, tiny)), *given[k + 1 :]]
            slope = np.maximum(*map(np.abs, _DERIVATIVES[node.op](node, around)[k]))
            found = found + np.where(near, tiny * slope, 0.0)
    return found


def _cast(node: Node, large: Array) -> Array:
    source, target = FORMATS.get(node.attrs.get("src", "")), FORMATS.get(node.attrs.get("dst") or node.attrs["fmt"])
    if source is None and target is not None and (large <= 2.0**target.p).all():
        return np.zeros(node.size)  # an integer that fits
    if target is None:
        raise Uncertified(f"a conversion to {node.attrs['dst']}")
    if source is not None and source.p <= target.p and source.max <= target.max and source.emin >= target.emin:
        return np.zeros(node.size)
    twice = 2.0**-11 if target.bits == 8 else 0.0  # by way of a wider format
    found: Array = (target.u + twice) * large * (1 + 2.0**-10) + 2 * target.half_subnormal
    return found


# ranges, and derivatives over ranges


def _times(x: tuple[Array, ...], y: Pair) -> Pair:
    ends = np.stack(np.broadcast_arrays(x[0] * y[0], x[0] * y[1], x[1] * y[0], x[1] * y[1]))
    return ends.min(axis=0), ends.max(axis=0)


def _ones(node: Node, given: Sequence[Pair]) -> list[Pair]:
    return [(np.ones(o.shape), np.ones(o.shape)) for o in node.operands]


def _any(node: Node, given: Sequence[Pair]) -> list[Pair]:
    return [(np.zeros(o.shape), np.ones(o.shape)) for o in node.operands]


def _summed(n: Node, g: Sequence[Pair]) -> Pair:
    return g[0][0].sum(axis=1), g[0][1].sum(axis=1)


def _dotted(n: Node, g: Sequence[Pair]) -> Pair:
    lo, hi = _times(g[1], g[2])
    return g[0][0] + lo.sum(axis=1), g[0][1] + hi.sum(axis=1)


def _signs(n: Node, g: Sequence[Pair]) -> list[Pair]:
    lo, hi = g[0]
    return [(np.where(lo >= 0, 1.0, -1.0), np.where(hi <= 0, -1.0, 1.0))]


def _same(n: Node, g: Sequence[Pair]) -> Pair:
    return g[0]


def _over(n: Node, g: Sequence[Pair]) -> list[Pair]:
    inverse = 1 / g[1][1], 1 / g[1][0]
    return [inverse, _minus(_times(_times(g[0], inverse), inverse))]


def _rows(f: str) -> Callable[[Node, Sequence[Pair]], Pair]:
    gone = {"max": -np.inf, "min": np.inf}[f]

    def range_of(n: Node, g: Sequence[Pair]) -> Pair:
        there = [np.where(n.operands[0] == ABSENT, gone, x) for x in g[0]]
        low, high = (np.asarray(getattr(x, f)(axis=1)) for x in there)
        return low, high

    return range_of


def _minus(x: Pair) -> Pair:
    return -x[1], -x[0]


_EXACT = frozenset(op for op, rule in NODES.items() if rule.cause is None)
_RANGES: dict[str, Callable[[Node, Sequence[Pair]], Pair]] = {
    "fold": lambda n, g: (g[0][0] + g[1][0], g[0][1] + g[1][1]),
    "cast": _same, "from_integer": _same, "from_truth": _same, "sum": _summed, "atomic_sum": _summed, "dot": _dotted,
    "max": _rows("max"), "min": _rows("min"),
}  # fmt: skip
"""Ranges of what the engine has no rule of two ends for."""
_ONE = np.ones(1), np.ones(1)
_DERIVATIVES: dict[str, Callable[[Node, Sequence[Pair]], list[Pair]]] = {
    "fadd": _ones, "fold": _ones, "sum": _ones, "atomic_sum": _ones,
    "cast": _ones, "from_integer": _ones, "from_truth": _ones,
    "fsub": lambda n, g: [_ONE, _minus(_ONE)],
    "fmul": lambda n, g: [g[1], g[0]],
    "fma": lambda n, g: [g[1], g[0], _ONE],
    "fdiv": _over, "precise_divf": _over,
    "fneg": lambda n, g: [_minus(_ONE)],
    "fabs": _signs, "dot": lambda n, g: [_ONE, g[2], g[1]],
    "max": _any, "min": _any, "maxnumf": _any, "maximumf": _any, "minnumf": _any, "minimumf": _any,
    **{op: lambda n, g, name=rule.function: [derivatives.over(name, g[0])]  # type: ignore[misc]
       for op, rule in NODES.items()
       if rule.function in derivatives.DERIVATIVES and not (op.startswith("library ") and rule.entry.endswith("_rn"))},
}  # fmt: skip
"""Derivatives by each operand, over ranges of the operands; what is not here has no rule over a box: so too what the
library rounds correctly, whose flush of subnormal numbers stands in no entry of its own."""


def _range_of(node: Node, given: Sequence[Pair]) -> Pair:
    """In real arithmetic: a rule of the engine's in float64 with every rounding silent, else one of the above."""
    apply = NODES[node.op].apply
    if node.op in _RANGES or apply is None:
        return _RANGES[node.op](node, given)
    lo, hi = apply(tuple(given), FORMATS["fp64"], exact_profile())
    return lo, hi
