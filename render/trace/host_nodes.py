"""Nodes that stand for one host operation: single elements, rows of them, and formulas on them.

Arrays of numbers name values of the slice. An elementwise node takes such arrays of any one shape, a joining one (sums,
extrema, dots) rows of them. Values in between have no bounds of a run: they are evaluated in real arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from interval_ops.formats.casting import holds
from interval_ops.formats.model import FP32, Format
from render.interpreter.hosted.call import host_profile, inner_of
from render.ops.aten import named
from render.ops.dtypes import FORMAT_OF
from render.ops.rows import Joined
from render.ops.table import RULES
from render.trace.check import value_of
from render.trace.host import HostStep
from render.trace.model import LEAF, Node, NotSliceable

if TYPE_CHECKING:
    from render.trace.host_cut import HostCutter

Numbers = np.ndarray


class Making:
    """The nodes of one step for the elements `wanted` (flat places of its result)."""

    def __init__(self, cutter: HostCutter, k: int, step: HostStep, wanted: np.ndarray) -> None:
        assert step.out is not None
        self.cutter, self.k, self.step, self.wanted = cutter, k, step, wanted
        self.size, self.shape = len(wanted), step.out.v.shape
        self.fmt = FORMAT_OF[step.out.tensor.dtype]
        self.inner = inner_of(self.fmt)
        self.named = named(step.func._schema, step.args, step.kwargs)

    def argument(self, name: str, default: Any = None) -> Any:
        """An argument by its name in the operation's schema."""
        return self.named.get(name, default)

    def refuse(self, why: str) -> NotSliceable:
        return NotSliceable(self.step.name, why, self.step.file, self.step.line)

    # operands
    def read(self, x: torch.Tensor, flat: np.ndarray) -> Numbers:
        """Elements of an operand by their flat places (-1: none), in the shape of these."""
        return self.cutter.operand(self.k, self.step, x, flat.reshape(-1)).reshape(flat.shape)

    def elements(self, x: Any, fmt: Format | None = None, side: tuple[int, ...] | None = None) -> Numbers:
        """The elements of an operand that broadcasts to the result, seen in the shape `side`, or a number."""
        if not isinstance(x, torch.Tensor):
            return np.broadcast_to(self.constant(float(x), fmt or self.fmt), (self.size,))
        places = np.arange(x.numel()).reshape(tuple(x.shape) if side is None else side)
        found = self.read(x, np.broadcast_to(places, self.shape).reshape(-1)[self.wanted])
        if x.dim() == 0 and x.dtype == torch.float64 and self.inner.bits < 64:  # a number, which is read as one of fp32
            return self.cast(found, FORMAT_OF[x.dtype], FP32)
        return found

    def constant(self, x: float, fmt: Format) -> Numbers:
        """A Python number as the operation reads it: the number itself, or the nearest one of fp32; one value."""
        return self.constants(np.array([x]), fmt)

    def constants(self, x: np.ndarray, fmt: Format) -> Numbers:
        """As `constant`, one value of each."""
        near = np.float32(x).astype(np.float64) if fmt.bits < 64 else x
        low, high = np.minimum(x, near), np.maximum(x, near)
        return self.cutter.add(LEAF, {"source": "constant"}, self.step, (), low, low, high)

    def grouped(self, x: torch.Tensor, joined: Joined) -> tuple[Numbers, np.ndarray, np.ndarray, np.ndarray]:
        """(rows of an operand of the result's shape, which ones, and of each wanted element its row among them and its
        place in it). Rows that several elements share come once."""
        rows = joined.rows(np.arange(x.numel()))
        owner, place = np.empty((2, x.numel()), np.int64)
        owner[rows], place[rows] = np.indices(rows.shape)
        used, which = np.unique(owner[self.wanted], return_inverse=True)
        return self.read(x, rows[used]), used, which, place[self.wanted]

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
        op = name if name in RULES else f"library {name}"
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


class Value:
    """A number of formulas: values of the slice, made when they are needed, in the format `fmt`.

    Elements are flat. Of rows an array (rows, elements), or (rows, 1) for one number per row; so those of `picked`
    places alone can be made where nothing asked for whole rows.
    """

    def __init__(
        self, own: Formulas, fmt: Format, shape: tuple[int, ...], made: Callable[..., Numbers],
        operands: tuple[Value, ...] = (),
    ) -> None:  # fmt: skip
        self.own, self.fmt, self.shape, self.operands = own, fmt, shape, operands
        self._made, self._numbers = made, None if operands else made()

    @property
    def numbers(self) -> Numbers:
        if self._numbers is None:
            self._numbers = self._made(*(x.numbers for x in self.operands))
        return self._numbers

    def picked(self, which: np.ndarray, place: np.ndarray) -> Numbers:
        """The elements at `place` of rows `which`; one number per row, or for all, is that of the row."""
        if len(self.shape) < 2:
            return self.numbers
        if self._numbers is not None or self.shape[1] == 1:
            found: Numbers = self.numbers[which, place if self.shape[1] > 1 else 0]
            return found
        return self._made(*(x.picked(which, place) for x in self.operands))

    def _two(self, op: str, a: Any, b: Any) -> Value:
        return self.own.node(op, *(v if isinstance(v, Value) else self.own.number(v) for v in (a, b)))

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
        return self.own.node("fneg", self, fmt=self.fmt)

    def __abs__(self) -> Value:
        return self.own.node("fabs", self, fmt=self.fmt)

    def __pow__(self, count: int) -> Value:
        assert count == 2
        return self * self


class Formulas:
    """Formulas as nodes in `fmt`, of elements or of rows of them."""

    def __init__(self, make: Making, fmt: Format) -> None:
        self.make, self.fmt = make, fmt

    def of(self, numbers: Numbers, fmt: Format | None = None) -> Value:
        return Value(self, fmt or self.fmt, numbers.shape, lambda: numbers)

    def node(self, op: str, *operands: Value, fmt: Format | None = None) -> Value:
        attrs = {"fmt": (fmt or self.fmt).name}
        return self._value(lambda *xs: self.make.node(op, attrs, *xs), operands, fmt)

    def _value(self, made: Callable[..., Numbers], operands: tuple[Value, ...], fmt: Format | None = None) -> Value:
        shape = np.broadcast_shapes(*(x.shape for x in operands))
        return Value(self, fmt or self.fmt, shape, made, operands)

    def number(self, x: float) -> Value:
        return self.of(self.make.constant(float(x), self.fmt))

    def call(self, name: str, x: Value) -> Value:
        return self._value(lambda v: self.make.function(name, self.fmt, v), (x,))

    def power(self, x: Value, y: Value) -> Value:
        return self._value(lambda a, b: self.make.function("pow", self.fmt, a, b), (x, y))

    def larger(self, a: Value, b: Value) -> Value:
        return self.node("maximumf", a, b)

    def smaller(self, a: Value, b: Value) -> Value:
        return self.node("minimumf", a, b)

    def pi(self) -> Value:
        return self.number(math.pi)

    def choose(self, x: Value, above: Callable[[], Value], below: Callable[[], Value]) -> Value:
        return self.node("select", self.node("fcmpOGT", x, self.number(0.0)), above(), below())

    # rows
    def _joined(self, op: str, x: Value, fmt: Format, **more: Any) -> Value:
        return self.of(self.make.join(op, {"fmt": fmt.name, **more}, x.numbers)[:, None], fmt)

    def sum(self, x: Value) -> Value:
        """In any order."""
        return self._joined("sum", x, self.fmt, scan=True)

    def product(self, x: Value) -> Value:
        return self._joined("prod", x, self.fmt)

    def most(self, x: Value) -> Value:
        return self._joined("max", x, x.fmt)

    def least(self, x: Value) -> Value:
        return self._joined("min", x, x.fmt)

    def count(self, x: Value) -> int:
        return x.shape[1]
