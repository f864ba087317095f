"""Kernels on Triton's stock interpreter, with the arithmetic of a target in place of its own.

The stock interpreter runs the Python of a kernel, its addresses and its memory; every operation that rounds is
replaced. What a target leaves open is drawn for each operation: the error of approximate instructions, contraction of
products and sums, orders of reductions and programs.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock
from triton.runtime.jit import JITFunction

from foreign import numbers, ptx
from foreign.figures import FMA, Chip, Unit
from foreign.numbers import Array

LEANS = {"any": (-1.0, 1.0), "low": (-1.0, -1.0), "high": (1.0, 1.0), "close": (-0.1, 0.1)}
"""Where in the documented errors a whole execution lies."""
_LOG2E = np.float32(1.4426950408889634)
_KIND = {"bf16": "bf16", "fp8e5": "fp8e5", "fp8e4nv": "fp8e4nv", "fp16": "fp16", "fp32": "fp32", "fp64": "fp64"}
_COMPARE = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
_EXACT: dict[str, Callable[[Array], Array]] = {
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": lambda x: np.vectorize(math.erf, otypes=[np.float64])(x).astype(np.longdouble),
}


def exact(name: str, x: Array) -> Array:
    """A function in the extended precision of the host."""
    with np.errstate(all="ignore"):
        return _EXACT.get(name, getattr(np, name, np.abs))(np.asarray(x, np.longdouble))


class Draws:
    """The choices of one execution on one chip."""

    def __init__(self, chip: Chip, seed: int) -> None:
        self.chip, self.rng = chip, np.random.default_rng(seed)
        self.low, self.high = LEANS[str(self.rng.choice(list(LEANS)))]
        self.fuse = float(self.rng.choice([0.0, 0.5, 1.0]))

    def chance(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def near(self, value: Array, error: float, kind: str = "fp32") -> Array:
        return numbers.near(value, error, self.low, self.high, self.rng, kind)

    def at(self, name: str, x: Array, error: float, kind: str = "fp32") -> Array:
        """Within the error of the function, and the values at zero that tables of special values give: exp(0) = 1."""
        value = exact(name, x)
        return np.where(x == 0, value.astype(x.dtype), self.near(value, error, kind))

    def function(self, name: str, x: Array) -> Array:
        """`name` at float32 (or float64) numbers as an instruction or a library computes it."""
        if x.dtype == np.float64:
            return self.at(name, x, self.chip.wide[name], "fp64")
        error, flush = self.chip.functions[name]
        if flush:
            x = np.where(np.abs(x) < 2.0**-126, x * 0, x)
        out = self.at(name, x, error)
        return np.where(np.abs(out) < 2.0**-126, out * 0, out) if flush else out

    def sum(self, x: Array, kind: str, pairs: tuple[Array, Array] | None = None) -> Array:
        """Along axis 0 as threads do: some numbers each, one after the other (fused where they are products), then
        halves onto halves across threads and warps."""
        n = len(x)
        threads = 2 ** int(self.rng.integers(0, int(math.log2(n)) + 1))
        vector = 2 ** int(self.rng.integers(0, int(math.log2(n // threads)) + 1))
        at = np.arange(n).reshape(-1, threads, vector).transpose(0, 2, 1).reshape(-1, threads)
        total = x[at[0]]
        for row in at[1:]:
            if pairs is not None and self.chance(self.fuse):
                total = fused(pairs[0][row], pairs[1][row], total, kind)
            else:
                total = plain(np.add, kind, total, x[row])
        while len(total) > 1:
            total = plain(np.add, kind, total[: len(total) // 2], total[len(total) // 2 :])
        first: Array = total[0]
        return first

    def scan(self, x: Array, kind: str) -> Array:
        """Prefixes along axis 0: pieces one after the other, their sums in front of the next piece."""
        size, out, before = 2 ** int(self.rng.integers(0, int(math.log2(len(x))) + 1)), [], None
        for start in range(0, len(x), size):
            piece = [x[start]]
            for term in x[start + 1 : start + size]:
                piece.append(plain(np.add, kind, piece[-1], term))
            found = np.stack(piece) if before is None else plain(np.add, kind, before, np.stack(piece))
            before = found[-1]
            out.append(found)
        return np.concatenate(out)


def plain(op: Callable[..., Array], kind: str, *args: Array) -> Array:
    """One correctly rounded operation on numbers of a format."""
    with np.errstate(all="ignore"):
        if kind in ("fp32", "fp64"):
            return np.asarray(op(*args))
        return numbers.read(numbers.stored(op(*(a.astype(np.float64) for a in args)), kind), kind)


def fused(x: Array, y: Array, z: Array, kind: str) -> Array:
    x, y, z = np.broadcast_arrays(x, y, z)
    if kind in ("fp32", "fp64"):
        op = stock._interpreter.fma_fp32 if kind == "fp32" else stock._interpreter.fma_fp64
        found: Array = op(*(np.ascontiguousarray(a) for a in (x, y, z))).reshape(x.shape)
        return found
    wide = x.astype(np.longdouble) * y + z
    return numbers.read(numbers.stored(wide, kind), kind)


def matrix(a: Array, b: Array, c: Array, unit: Unit, kinds: tuple[str, str, str]) -> Array:
    """c + a @ b in blocks along k; `kinds` of a, of b and of the result."""
    if unit is FMA:
        out = c
        for k in range(a.shape[-1]):
            out = fused(a[..., :, k, None], b[..., None, k, :], out, kinds[2])
        return out
    x, y, total = a.astype(np.float64), b.astype(np.float64), c.astype(np.float64)
    ex, ey = (numbers.exponent(v, numbers.KINDS[k].least) for v, k in ((x, kinds[0]), (y, kinds[1])))
    result = {24: "fp32", 14: "e8m13", 11: "fp16"}[unit.bits]
    least = numbers.KINDS[result].least
    for k in range(0, x.shape[-1], unit.length):
        part = slice(k, k + unit.length)
        terms = [*(x[..., :, i, None] * y[..., None, i, :] for i in range(x.shape[-1])[part]), total]
        heights = [*(ex[..., :, i, None] + ey[..., None, i, :] for i in range(x.shape[-1])[part])]
        top = numbers.exponent(total, least)
        for h, t in zip(heights, terms, strict=False):
            top = np.where(t == 0, top, np.maximum(top, h))
        step = np.ldexp(1.0, top - unit.fraction)
        total = np.sum([np.trunc(t / step) * step for t in terms], axis=0)
        total = numbers.rounded(total, result, "nearest" if unit.bits == 11 else "zero")
    return total.astype(np.float16 if kinds[2] == "fp16" else np.float32)


class Builder(stock.InterpreterBuilder):  # type: ignore[misc]
    """The stock builder with a target's arithmetic. Handles remember constants, products and dots in `attr`, for what
    compilers make of them later."""

    def __init__(self, draws: Draws) -> None:
        super().__init__()
        self.draws, self.chip = draws, draws.chip

    # numbers in and out of handles
    def _kind(self, h: Any) -> str | None:
        return _KIND.get(str(getattr(h, "dtype", h).scalar))

    def _read(self, h: Any) -> Array:
        kind = self._kind(h)
        return numbers.read(h.data, kind) if kind else h.data

    def _made(self, x: Array, like: Any, how: str = "nearest", saturate: bool = False, **attr: Any) -> Any:
        ty = getattr(like, "dtype", like).scalar
        kind = self._kind(ty)
        data = numbers.stored(np.asarray(x), kind, how, saturate) if kind else x
        return stock.TensorHandle(data, ty, attr)

    def binary_op(self, lhs: Any, rhs: Any, op: Any) -> Any:
        kind = self._kind(lhs)
        if kind is None:
            return super().binary_op(lhs, rhs, op)
        x, y = self._read(lhs), self._read(rhs)
        if op in _COMPARE:
            return stock.TensorHandle(op(x, y), tl.int1)
        return self._made(plain(op, kind, x, y), lhs, **self._constant(lhs, rhs))

    def unary_op(self, arg: Any, op: Any) -> Any:
        kind = self._kind(arg)
        return super().unary_op(arg, op) if kind is None else self._made(plain(op, kind, self._read(arg)), arg)

    def create_fabs(self, arg: Any) -> Any:
        return self._made(np.abs(self._read(arg)), arg)

    def create_clampf(self, x: Any, lo: Any, hi: Any, nans: Any) -> Any:
        return self.binary_op(self.binary_op(x, lo, np.fmax), hi, np.fmin)

    @staticmethod
    def _constant(*handles: Any) -> dict[str, Any]:
        return {"constant": True} if all(h.attr.get("constant") for h in handles) else {}

    # sums and products
    def create_fmul(self, lhs: Any, rhs: Any) -> Any:
        out = self.binary_op(lhs, rhs, np.multiply)
        out.attr["product"] = (self._read(lhs), self._read(rhs))
        return out

    def create_fadd(self, lhs: Any, rhs: Any) -> Any:
        for one, other in ((lhs, rhs), (rhs, lhs)):
            if "dot" in one.attr:
                a, b, cut = one.attr["dot"]
                return self._dot(a, b, cut, other)
        return self._sum(lhs, rhs, 1.0)

    def create_fsub(self, lhs: Any, rhs: Any) -> Any:
        return self._sum(lhs, rhs, -1.0)

    def _sum(self, lhs: Any, rhs: Any, sign: float) -> Any:
        kind, x, y = self._kind(lhs), self._read(lhs), self._read(rhs)
        if kind and self.draws.chance(self.draws.fuse):
            if "product" in lhs.attr:
                a, b = lhs.attr["product"]
                return self._made(fused(a, b, y * y.dtype.type(sign), kind), lhs)
            if "product" in rhs.attr:
                a, b = rhs.attr["product"]
                return self._made(fused(a * a.dtype.type(sign), b, x, kind), lhs)
        return self.binary_op(lhs, rhs, np.add if sign > 0 else np.subtract)

    def create_fma(self, x: Any, y: Any, z: Any) -> Any:
        return self._made(fused(self._read(x), self._read(y), self._read(z), self._kind(z) or ""), z)

    def create_fdiv(self, lhs: Any, rhs: Any) -> Any:
        x, y = self._read(lhs), self._read(rhs)
        if x.dtype == np.float64:
            return self.binary_op(lhs, rhs, np.divide)
        with np.errstate(all="ignore"):
            x, y = x.astype(np.float32), y.astype(np.float32)
            if rhs.attr.get("constant") and self.chip.constant is not None:
                q = x * self.draws.near(1 / y.astype(np.longdouble), self.chip.constant)
            else:
                q = self.draws.near(x.astype(np.longdouble) / y, self.chip.functions["div"][0])
        return self._made(q, lhs)

    # functions
    def _function(self, name: str, arg: Any) -> Any:
        return self._made(self.draws.function(name, self._read(arg)), arg)

    def create_exp(self, arg: Any) -> Any:
        x = self._read(arg)
        if x.dtype == np.float64:
            return self._function("exp", arg)
        error, flush = self.chip.functions["exp"]
        with np.errstate(all="ignore"):
            out = self.draws.at("exp2", (x * _LOG2E).astype(np.float32), error)
        return self._made(np.where(np.abs(out) < 2.0**-126, out * 0, out) if flush else out, arg)

    # matrices
    def create_dot(self, a: Any, b: Any, d: Any, precision: Any, most: Any) -> Any:
        kinds = self._kind(a), self._kind(b)
        if None in kinds:
            return super().create_dot(a, b, d, precision, most)
        if kinds[0] == "fp32" and str(precision).rpartition(".")[2] not in ("IEEE", "TF32"):
            raise NotImplementedError(f"dots with input precision {precision}")
        cut = kinds[0] == "fp32" and str(precision).endswith("TF32") and "tf32" in self.chip.units
        out = self._dot(a, b, cut, d)
        if not np.any(self._read(d)):
            unit = self._unit(a, cut, d)
            if unit is FMA or unit.fold:
                out.attr["dot"] = (a, b, cut)
        return out

    def _unit(self, a: Any, cut: bool, d: Any) -> Unit:
        kind = "tf32" if cut else (self._kind(a) or "")[:4].replace("fp8e", "fp8")
        kind = "fp8" if kind.startswith("fp8") else kind
        return self.chip.units.get("fp16acc" if self._kind(d) == "fp16" else kind, FMA)

    def _dot(self, a: Any, b: Any, cut: bool, d: Any) -> Any:
        x, y = self._read(a), self._read(b)
        kinds = self._kind(a) or "", self._kind(b) or "", self._kind(d) or ""
        if cut:
            x, y = (numbers.rounded(v.astype(np.float64), "tf32", self.chip.operands) for v in (x, y))
            kinds = "tf32", "tf32", kinds[2]
        unit = self._unit(a, cut, d)
        if unit is FMA and kinds[2] in ("fp32", "fp64"):
            x, y = (v.astype(np.float32 if kinds[2] == "fp32" else np.float64) for v in (x, y))
        if unit.bits == 14 and unit.fold is False:  # from zero, then added in fp32
            acc = self._read(d)
            return self._made(matrix(x, y, acc * 0, unit, kinds) + acc, d)
        return self._made(matrix(x, y, self._read(d), unit, kinds), d)

    # inline assembly
    def create_inline_asm(
        self, text: str, constraints: str, values: list[Any], kinds: list[Any], pure: bool, pack: int
    ) -> Any:
        if not self.chip.cuda or len(kinds) != 1:
            raise NotImplementedError("inline PTX of one result runs on NVIDIA's chips")
        given = [self._read(v).astype(np.float32) for v in values]
        made = self._made(ptx.run(text, given, [self._kind(v) or "" for v in values], self.draws), kinds[0])
        return types.SimpleNamespace(get_result=lambda i: made)

    # casts
    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        to, kind = self._kind(dst_type), self._kind(src)
        attr = self._constant(src)
        if to is None:
            data = self._read(src)
            out = data.astype(stock._get_np_dtype(dst_type.scalar))
            return stock.TensorHandle(out, dst_type.scalar, attr)
        if to == "fp8e4nv" and not self.chip.fp8e4nv:
            raise NotImplementedError("Triton has fp8e4nv from sm_89 on")
        x = self._read(src) if kind else src.data.astype(np.longdouble)
        return self._made(x, dst_type, "nearest", to.startswith("fp8"), **attr)

    def create_fp_to_fp(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        cut = str(rounding_mode).endswith("RTZ")
        return self._made(self._read(src), dst_type, "zero") if cut else self.cast_impl(src, dst_type)

    # shapes keep what handles remember
    def create_splat(self, ret_ty: Any, arg: Any) -> Any:
        out = super().create_splat(ret_ty, arg)
        out.attr.update(self._constant(arg))
        return out

    def create_broadcast(self, arg: Any, shape: Any) -> Any:
        out = super().create_broadcast(arg, shape)
        out.attr.update(self._constant(arg))
        return out

    # atomics
    def create_atomic_rmw(self, op: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        """Lanes in any order; fp32 sums may lose subnormals."""
        order = self.draws.rng.permutation(ptr.data.size)
        flat = [np.ascontiguousarray(h.data).reshape(-1)[order] for h in (ptr, val, mask)]
        if self.chip.flushes_atomics and self._kind(val) == "fp32" and self.draws.chance():
            flat[1] = np.where(np.abs(flat[1]) < 2.0**-126, flat[1] * 0, flat[1])
        handles = [stock.TensorHandle(v, h.dtype) for v, h in zip(flat, (ptr, val, mask), strict=True)]
        got = super().create_atomic_rmw(op, *handles, sem, scope)
        back = np.empty_like(got.data)
        back[order] = got.data
        return stock.TensorHandle(back.reshape(ptr.data.shape), got.dtype)


for _name in ("sqrt", "rsqrt", "exp2", "log", "log2", "sin", "cos", "erf"):
    setattr(Builder, f"create_{_name}", lambda self, arg, name=_name: self._function(name, arg))
for _name in ("fp16", "bf16", "fp32", "fp64", "int32", "int64", "uint8", "int8"):

    def _get(self: Any, value: Any, name: str = _name) -> Any:
        found = getattr(stock.InterpreterBuilder, f"get_{name}")(self, value)
        found.attr["constant"] = True
        return found

    setattr(Builder, f"get_{_name}", _get)


def _reductions(draws: Draws) -> tuple[type, type]:
    """Stand-ins for the stock reductions and scans: sums in orders of threads, the rest on numbers instead of bits."""
    builder: Any = draws

    def numbers_of(t: Any) -> tuple[str, Array]:
        return _KIND[str(t.dtype.scalar)], numbers.read(t.handle.data, _KIND[str(t.dtype.scalar)])

    class Reduce(stock.ReduceOps):  # type: ignore[misc]
        def sum(self, input: Any) -> Any:
            if str(input.dtype.scalar) not in _KIND:
                return super().sum(input)
            kind, x = numbers_of(input)
            pairs = input.handle.attr.get("product")
            axis = self.axis
            if axis is None:
                x, axis = x.reshape(-1), 0
                pairs = pairs and tuple(np.broadcast_to(p, input.handle.data.shape).reshape(-1) for p in pairs)
            front = [np.moveaxis(np.broadcast_to(p, x.shape), axis, 0) for p in pairs] if pairs else None
            out = builder.sum(np.moveaxis(x, axis, 0), kind, front)
            if self.keep_dims:
                shape = [1] * input.handle.data.ndim if self.axis is None else None
                out = out.reshape(shape) if shape else np.expand_dims(out, axis)
            return self._packed(out, input.dtype, kind)

        def _packed(self, out: Any, dtype: Any, kind: str) -> Any:
            data = numbers.stored(np.asarray(out), kind)
            ty = tl.block_type(dtype.scalar, list(data.shape)) if data.ndim else dtype.scalar
            return tl.core.tensor(stock.TensorHandle(data if data.ndim else data.reshape(1), dtype.scalar), ty)

    class Scan(stock.ScanOps):  # type: ignore[misc]
        def cumsum(self, input: Any) -> Any:
            if str(input.dtype.scalar) not in _KIND:
                return super().cumsum(input)
            kind, x = numbers_of(input)
            out = np.moveaxis(builder.scan(np.moveaxis(x, self.axis, 0), kind), 0, self.axis)
            return [self.to_tensor(numbers.stored(out, kind), input.dtype)]

    return Reduce, Scan


@contextmanager
def foreign(draws: Draws, in_order: bool = False) -> Iterator[None]:
    """Inside, launches of Triton kernels run here."""
    builder = Builder(draws)
    scope = stock._LangPatchScope()
    reduce, scan = _reductions(draws)
    for name, value in (("interpreter_builder", builder), ("ReduceOps", reduce), ("ScanOps", scan)):
        scope.set_attr(stock, name, value)
    scope.set_attr(stock.interpreter_semantic, "builder", builder)

    def rewritten(jit: Any) -> Any:
        return stock.InterpretedFunction(jit.fn).rewrite()

    def run(jit: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> None:
        fn = rewritten(jit)
        names = inspect.signature(fn).parameters
        bound = inspect.getcallargs(fn, *args, **{k: v for k, v in kwargs.items() if k in names})
        size = grid(bound) if callable(grid) else grid
        size = (*size, *(1,) * (3 - len(size)))
        fixed = {p.name for p in jit.params if p.is_constexpr}
        given = {k: v if k in fixed else _argument(v) for k, v in bound.items()}
        builder.set_grid_dim(*size)
        order = np.arange(math.prod(size)) if in_order else draws.rng.permutation(math.prod(size))
        for program in order:
            builder.set_grid_idx(*(int(i) for i in np.unravel_index(program, size)))
            fn(**given)

    scope.set_attr(JITFunction, "run", run)
    scope.set_attr(JITFunction, "__call__", lambda jit, *a, **k: rewritten(jit)(*a, **k))
    patched = stock._patch_lang(types.FunctionType((lambda: None).__code__, {"tl": tl, "core": tl.core}))
    try:
        yield
    finally:
        patched.restore()
        scope.restore()


def _argument(value: Any) -> Any:
    """What a kernel sees of an argument: floats are fp32 numbers, not constants."""
    if isinstance(value, float):
        return tl.tensor(stock.TensorHandle(np.array([value], np.float32), tl.float32), tl.float32)
    return stock._implicit_cvt(value)
