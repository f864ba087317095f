"""A tile of a matrix product that stays in the registers: C += A B, `ROWS` rows and three vectors of C.

    A  rows of k numbers, `left` apart        B  three vectors of float32 for each of k, at `shifts` of it
    C  rows in C's own type, `right` apart

Each element is a chain of k fused multiply-adds from 0 and one addition onto C. 24 of 32 registers hold sums, so that
eight instructions use what a load brings (K. Goto, R. van de Geijn, Anatomy of High-Performance Matrix Multiplication,
ACM TOMS 34, 2008). Compilers make no such code of loops: it is written in LLVM's own language, for vectors of 512 bits.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

ROWS, VECTORS, BYTES = 8, 3, 64
DOUBLES, SINGLES = (VECTORS * BYTES // size for size in (8, 4))
"""Columns of a tile."""
SQUARE = 16
_PLACE, _FLOAT = ir.IntType(64), ir.FloatType()


def is_fast() -> bool:
    """Whether this processor has vectors of 512 bits."""
    return bool(binding.get_host_cpu_features().get("avx512f"))


def _at(builder: Any, start: Any, place: Any, kind: Any) -> Any:
    return builder.bitcast(builder.gep(start, [place]), kind.as_pointer())


def _function(builder: Any, name: str, kind: Any, count: int) -> Any:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * count), name)


class _Tile:
    """`double`: sums in float64, else those of |B| in float32."""

    def __init__(self, builder: Any, double: bool) -> None:
        self.builder, self.double = builder, double
        self.number, self.size = (ir.DoubleType(), 8) if double else (_FLOAT, 4)
        self.lanes = BYTES // self.size
        self.vector = ir.VectorType(self.number, self.lanes)
        self.kind = f"v{self.lanes}f{8 * self.size}"

    def column(self, start: Any, j: int) -> Any:
        """A vector of B."""
        b, given = self.builder, ir.VectorType(_FLOAT, self.lanes)
        x = b.load(_at(b, start, _PLACE(j * self.lanes), given), align=4)
        return b.fpext(x, self.vector) if self.double else b.call(_function(b, f"llvm.fabs.{self.kind}", given, 1), [x])

    def spread(self, x: Any) -> Any:
        index = ir.IntType(32)
        none = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(none, x, index(0))
        return self.builder.shuffle_vector(first, none, ir.Constant(ir.VectorType(index, self.lanes), [0] * self.lanes))

    def multiply(self, a: Any, b: Any, c: Any, depth: Any, shifts: Any, left: Any, right: Any) -> None:
        make, place = self.builder, _PLACE
        a, b, c, shifts = (make.inttoptr(x, kind.as_pointer()) for x, kind in
                           ((a, self.number), (b, _FLOAT), (c, self.number), (shifts, place)))  # fmt: skip
        rows = [make.gep(a, [make.mul(left, place(row))]) for row in range(ROWS)]
        entry, loop, done = make.block, *(make.append_basic_block(name) for name in ("tile", "tile.done"))
        make.branch(loop)
        make.position_at_end(loop)
        k, sums = make.phi(place), [make.phi(self.vector) for _ in range(ROWS * VECTORS)]
        k.add_incoming(place(0), entry)
        for one in sums:
            one.add_incoming(self.vector([self.number(0.0)] * self.lanes), entry)
        start = make.gep(b, [make.load(make.gep(shifts, [k]))])
        columns = [self.column(start, j) for j in range(VECTORS)]
        fused = _function(make, f"llvm.fma.{self.kind}", self.vector, 3)
        after = []
        for row, base in enumerate(rows):
            x = self.spread(make.load(make.gep(base, [k])))
            after += [make.call(fused, [x, y, sums[row * VECTORS + j]]) for j, y in enumerate(columns)]
        following = make.add(k, place(1))
        k.add_incoming(following, loop)
        for one, then in zip(sums, after, strict=True):
            one.add_incoming(then, loop)
        make.cbranch(make.icmp_signed("<", following, depth), loop, done)
        make.position_at_end(done)
        for row in range(ROWS):
            line = make.gep(c, [make.mul(right, place(row))])
            for j in range(VECTORS):
                where = _at(make, line, place(j * self.lanes), self.vector)
                held = make.load(where, align=self.size)
                make.store(make.fadd(held, after[row * VECTORS + j]), where, align=self.size)


def _tile(double: bool) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _Tile(builder, double).multiply(*args)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 7), codegen


@intrinsic
def tile64(typingctx, a, b, c, depth, shifts, left, right):  # type: ignore[no-untyped-def]
    """C += A B in float64, of `DOUBLES` columns; places of A, B and C, k (1 or more), place of k shifts in numbers."""
    return _tile(True)


@intrinsic
def tile32(typingctx, a, b, c, depth, shifts, left, right):  # type: ignore[no-untyped-def]
    """C += A |B| in float32, of `SINGLES` columns."""
    return _tile(False)


@intrinsic
def turned(typingctx, source, apart, target, beside):  # type: ignore[no-untyped-def]
    """A square of `SQUARE` rows of float32, `apart` numbers apart, as columns of rows `beside` numbers apart."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector, index = ir.VectorType(_FLOAT, SQUARE), ir.VectorType(ir.IntType(32), SQUARE)
        source, target = (builder.inttoptr(x, _FLOAT.as_pointer()) for x in (args[0], args[2]))
        lines = [builder.load(_at(builder, source, builder.mul(args[1], _PLACE(i)), vector), align=4)
                 for i in range(SQUARE)]  # fmt: skip
        for step in (1, 2, 4, 8):  # each exchanges one bit of row and column
            for i in (i for i in range(SQUARE) if not i & step):
                one, two = lines[i], lines[i + step]
                first = [c - step + SQUARE if c & step else c for c in range(SQUARE)]
                last = [c + SQUARE if c & step else c + step for c in range(SQUARE)]
                lines[i] = builder.shuffle_vector(one, two, ir.Constant(index, first))
                lines[i + step] = builder.shuffle_vector(one, two, ir.Constant(index, last))
        for i, line in enumerate(lines):
            builder.store(line, _at(builder, target, builder.mul(args[3], _PLACE(i)), vector), align=4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), codegen
