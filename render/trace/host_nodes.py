"""Nodes that stand for one host operation: single elements, rows of them, and formulas on them.

Arrays of numbers name values of the slice. An elementwise node takes such arrays of any one shape, a joining one (sums,
extrema, dots) rows of them. Values in between have no bounds of a run: they are evaluated in real arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from interval_ops.formats.casting import holds
from interval_ops.formats.model import FP32, Format
from render.interpreter.hosted.call import host_profile, inner_of
from render.ops.dtypes import FORMAT_OF
from render.trace.check import value_of
from render.trace.host import HostStep
from render.trace.model import LEAF, Node, NotSliceable

if TYPE_CHECKING:
    from render.trace.host_cut import HostCutter

Numbers = np.ndarray
_LANGUAGE = frozenset(["exp", "exp2", "log", "log2", "sin", "cos", "erf", "rsqrt"])


class Making:
    """The nodes of one step for the elements `wanted` (flat places of its result)."""

    def __init__(self, cutter: HostCutter, k: int, step: HostStep, wanted: np.ndarray) -> None:
        assert step.out is not None
        self.cutter, self.k, self.step, self.wanted = cutter, k, step, wanted
        self.size, self.shape = len(wanted), step.out.v.shape
        self.fmt = FORMAT_OF[step.out.tensor.dtype]
        self.inner = inner_of(self.fmt)

    def argument(self, name: str, default: Any = None) -> Any:
        """An argument by its name in the operation's schema."""
        schema = self.step.func._schema.arguments
        for place, argument in enumerate(schema):
            if argument.name == name:
                if place < len(self.step.args):
                    return self.step.args[place]
                given = argument.default_value if argument.has_default_value() else default
                return self.step.kwargs.get(name, given)
        return default

    def refuse(self, why: str) -> NotSliceable:
        return NotSliceable(self.step.name, why, self.step.file, self.step.line)

    # operands
    def read(self, x: torch.Tensor, flat: np.ndarray) -> Numbers:
        """Elements of an operand by their flat places (-1: none), in the shape of these."""
        return self.cutter.operand(self.k, self.step, x, flat.reshape(-1)).reshape(flat.shape)

    def elements(self, x: Any, fmt: Format | None = None) -> Numbers:
        """The elements of an operand that broadcasts to the result, or a number."""
        if not isinstance(x, torch.Tensor):
            return np.broadcast_to(self.constant(float(x), fmt or self.fmt), (self.size,))
        places = np.arange(x.numel()).reshape(tuple(x.shape))
        return self.read(x, np.broadcast_to(places, self.shape).reshape(-1)[self.wanted])

    def constant(self, x: float, fmt: Format) -> Numbers:
        """A Python number as the operation reads it: the number itself, or the nearest one of fp32; one value."""
        near = float(np.float32(x)) if fmt.bits < 64 else x
        ends = (np.array([min(x, near)]), np.array([min(x, near)]), np.array([max(x, near)]))
        return self.cutter.add(LEAF, {"source": "constant"}, self.step, (), *ends)

    def grouped(self, x: torch.Tensor, axes: list[int]) -> tuple[Numbers, np.ndarray, np.ndarray]:
        """(rows of an operand of the result's shape along `axes`, and of each wanted element its row and place).

        Rows that several elements share come once.
        """
        rest = [d for d in range(x.dim()) if d not in axes]
        places = np.arange(x.numel()).reshape(tuple(x.shape)).transpose(rest + axes)
        rows = places.reshape(-1, int(np.prod([x.shape[d] for d in axes], dtype=np.int64)))
        owner = np.empty(x.numel(), np.int64)
        owner[rows] = np.arange(len(rows))[:, None]
        place = np.empty(x.numel(), np.int64)
        place[rows] = np.arange(rows.shape[1])[None, :]
        used, which = np.unique(owner[self.wanted], return_inverse=True)
        return self.read(x, rows[used]), which, place[self.wanted]

    # nodes
    def node(self, op: str, attrs: dict[str, Any], *operands: Numbers) -> Numbers:
        """An elementwise operation."""
        spread = np.broadcast_arrays(*operands)
        shape = spread[0].shape
        return self._add(op, attrs, *(np.ascontiguousarray(o).reshape(-1) for o in spread)).reshape(shape)

    def join(self, op: str, attrs: dict[str, Any], rows: Numbers) -> Numbers:
        """One value of every row."""
        return self._add(op, attrs, np.ascontiguousarray(rows))

    def total(self, rows: Numbers, fmt: Format) -> Numbers:
        """A sum in any order."""
        return self.join("sum", {"fmt": fmt.name, "scan": True}, rows)

    def function(self, name: str, fmt: Format, *operands: Numbers) -> Numbers:
        """A function within the error of the host's library, which the node carries along."""
        error = host_profile().fn(name, fmt.name)
        known = {"r": error.r, "a": error.a, "ftz": False}
        if math.isfinite(error.huge):
            known["huge"] = error.huge
        op = name if name in _LANGUAGE else f"library {name}"
        return self.node(op, {"fmt": fmt.name, "error": known}, *operands)

    def rank(self, ranks: Numbers, rows: Numbers) -> Numbers:
        """The element of each row that has this rank in ascending order."""
        return self._add("ranked", {"fmt": self.fmt.name}, ranks, np.ascontiguousarray(rows))

    def dot(self, left: Numbers, right: Numbers, kind: str) -> Numbers:
        """Sums of products on the target's units, in any order."""
        zero = np.zeros(len(left))
        start = self.cutter.add(LEAF, {"source": "constant"}, self.step, (), zero, zero, zero)
        attrs = {"kind": kind, "fmt": self.inner.name, "operand": self.fmt.name, "imprecise": None, "any_order": True}
        return self._add("dot", attrs, start, left, right)

    def cast(self, numbers: Numbers, src: Format, dst: Format) -> Numbers:
        """torch's conversion: to nearest even; fp64 reaches narrower formats through fp32."""
        if holds(dst, src):
            return numbers
        through = [src, FP32, dst] if src.bits == 64 and dst.bits < 32 else [src, dst]
        overflow = host_profile().cast_overflow
        for a, b in pairwise(through):
            how = overflow.get(b.name, "inf" if b.has_inf else "either")
            numbers = self.node("cast", {"src": a.name, "dst": b.name, "mode": "rtne", "overflow": how}, numbers)
        return numbers

    def _add(self, op: str, attrs: dict[str, Any], *operands: Numbers) -> Numbers:
        count = len(operands[0])
        nothing = np.full(count, np.nan)
        bare = Node(op, attrs, self.step.file, self.step.line, self.cutter.total, operands, nothing, nothing, nothing)
        with np.errstate(all="ignore"):
            v = np.asarray(value_of(bare, self.cutter.values), np.float64)
        return self.cutter.add(op, attrs, self.step, operands, v, nothing, nothing)

    def close(self, numbers: Numbers) -> Numbers:
        """The last node has the bounds that the run gave the result."""
        last = self.cutter.nodes[-1]
        assert self.step.out is not None
        if last.op == LEAF or not np.array_equal(numbers, np.arange(last.start, last.stop)):
            return numbers
        v, lo, hi = self.step.out.ends(self.wanted)
        self.cutter.nodes[-1] = replace(last, v=v, lo=lo, hi=hi)
        self.cutter.values[last.start : last.stop] = v
        return numbers


@dataclass(frozen=True, eq=False)
class Value:
    """A number of `render.ops.formulas`: values of the slice."""

    numbers: Numbers
    own: Formulas

    def _two(self, op: str, a: Any, b: Any) -> Value:
        first, second = (v.numbers if isinstance(v, Value) else self.own.number(v).numbers for v in (a, b))
        return Value(self.own.make.node(op, {"fmt": self.own.fmt.name}, first, second), self.own)

    def __add__(self, other: Any) -> Value:
        return self._two("fadd", self, other)

    def __radd__(self, other: Any) -> Value:
        return self._two("fadd", other, self)

    def __sub__(self, other: Any) -> Value:
        return self._two("fsub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return self._two("fsub", other, self)

    def __mul__(self, other: Any) -> Value:
        return self._two("fmul", self, other)

    def __rmul__(self, other: Any) -> Value:
        return self._two("fmul", other, self)

    def __truediv__(self, other: Any) -> Value:
        return self._two("precise_divf", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return self._two("precise_divf", other, self)

    def __neg__(self) -> Value:
        return Value(self.own.make.node("fneg", {"fmt": self.own.fmt.name}, self.numbers), self.own)

    def __abs__(self) -> Value:
        return Value(self.own.make.node("fabs", {"fmt": self.own.fmt.name}, self.numbers), self.own)

    def __pow__(self, count: int) -> Value:
        assert count == 2
        return self * self


class Formulas:
    """Formulas as nodes in `fmt`."""

    def __init__(self, make: Making, fmt: Format) -> None:
        self.make, self.fmt = make, fmt

    def of(self, numbers: Numbers) -> Value:
        return Value(numbers, self)

    def number(self, x: float) -> Value:
        return Value(self.make.constant(float(x), self.fmt), self)

    def call(self, name: str, x: Value) -> Value:
        return Value(self.make.function(name, self.fmt, x.numbers), self)

    def larger(self, a: Value, b: Value) -> Value:
        return Value(self.make.node("maximumf", {"fmt": self.fmt.name}, a.numbers, b.numbers), self)

    def smaller(self, a: Value, b: Value) -> Value:
        return Value(self.make.node("minimumf", {"fmt": self.fmt.name}, a.numbers, b.numbers), self)

    def pi(self) -> Value:
        return self.number(math.pi)

    def choose(self, x: Value, above: Callable[[], Value], below: Callable[[], Value]) -> Value:
        attrs = {"fmt": self.fmt.name}
        zero = self.number(0.0).numbers
        first, second = above().numbers, below().numbers
        side = self.make.node("fcmpOGT", attrs, x.numbers, zero)
        return Value(self.make.node("select", attrs, side, first, second), self)
