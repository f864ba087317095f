"""What is attacked: a launcher, inputs in several styles, and the rules that it exercises."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from render import data
from render.adversary import kernels

Array = np.ndarray
Inputs = Any
DTYPES = {
    "fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16,
    "fp8e5": torch.float8_e5m2, "fp8e4nv": torch.float8_e4m3fn,
}  # fmt: skip
_RANGE = {"fp64": (-300, 300), "fp32": (-60, 60), "bf16": (-60, 60), "fp16": (-13, 7), "fp8e5": (-13, 7),
          "fp8e4nv": (-6, 4)}  # fmt: skip
_BOTTOM = {"fp64": -1040, "fp32": -135, "bf16": -128, "fp16": -17, "fp8e5": -15, "fp8e4nv": -8}
_BITS = {"fp64": 52, "fp32": 23, "bf16": 7, "fp16": 10, "fp8e5": 2, "fp8e4nv": 3}

STYLES = ("normal", "wide", "cancelling", "tiny", "giant", "stagnant", "powers")
"""Of inputs: plain; many exponents; near-opposite neighbours; around the subnormal range; one large number among small
ones that alignment cuts; one large number to which each other one adds half a unit; powers of two and neighbours."""


def values(rng: np.random.Generator, shape: tuple[int, ...], fmt: str, style: str) -> torch.Tensor:
    """Random numbers of a format, in a style."""
    x = rng.standard_normal(shape)
    if style == "wide":
        x = np.ldexp(x, rng.integers(*_RANGE[fmt], shape) // 4)
    elif style == "cancelling":
        flat = x.reshape(-1)
        flat[1::2] = -flat[: len(flat) // 2 * 2 : 2] * (1 + 2.0 ** -_BITS[fmt] * rng.integers(0, 3, len(flat) // 2))
    elif style == "tiny":
        x = np.ldexp(x, np.where(rng.random(shape) < 0.7, _BOTTOM[fmt] + rng.integers(0, 8, shape), 0))
    elif style == "giant":
        x = np.where(rng.random(shape) < 0.1, 1.0, np.abs(x) * 2.0 ** -_BITS[fmt])
    elif style == "stagnant":
        x = stagnant(rng, shape, _BITS[fmt] + 1, _BITS[fmt])
    elif style == "powers":
        e = rng.integers(*_RANGE[fmt], shape) // 6
        x = np.ldexp(1 + 2.0 ** -_BITS[fmt] * rng.integers(-1, 2, shape), e) * rng.choice([-1.0, 1.0], shape)
    limit = float(torch.finfo(DTYPES[fmt]).max)
    return torch.from_numpy(np.clip(x, -limit, limit)).to(DTYPES[fmt])


def stagnant(rng: np.random.Generator, shape: tuple[int, ...], shift: int, bits: int) -> Array:
    """Ones at the start of each row, then numbers near 2**-shift that round all up, all down or are all cut."""
    rows = (*shape[:-1], 1)
    scale = np.ldexp(1.0, -shift - rng.integers(-1, 2, rows))
    parts = rng.choice([1.0, 1 + 2.0**-bits, 1.5, 2 - 2.0 ** (1 - bits)], rows)
    x = np.broadcast_to(scale * parts, shape) * rng.choice([-1.0, 1.0], rows)
    x = x.copy()
    x[..., 0] = 1.0
    return x


@dataclass(frozen=True)
class Subject:
    """`run` launches kernels on copies of the inputs and returns its outputs; `inputs` makes them for a style.

    `rules` names the entries of the rule table whose approach this kernel measures (none for whole kernels). Programs
    of an `in_order` subject read each other's results, so that only their numbered order is legal; with `locks` they
    exclude each other and may come in any order, although the interpreter runs them one by one.
    """

    name: str
    run: Callable[..., Any]
    inputs: Callable[[np.random.Generator, str], Inputs]
    rules: tuple[str, ...] = ()
    styles: tuple[str, ...] = ("normal", "wide", "cancelling", "tiny")
    in_order: bool = False
    locks: bool = False


SIZE = 2048
_BLOCK = 512
_GRID = (SIZE // _BLOCK,)

_UNARY = {
    "exp": ("exp",), "exp2": ("exp2",), "log": ("log",), "log2": ("log2",), "sin": ("sin",), "cos": ("cos",),
    "erf": ("erf",), "sqrt": ("sqrt",), "sqrt_rn": ("precise_sqrt",), "rsqrt": ("rsqrt",), "floor": ("floor",),
    "ceil": ("ceil",), "abs": ("fabs", "fneg"), "sigmoid": (),
}  # fmt: skip
_POSITIVE = ("log", "log2", "sqrt", "sqrt_rn", "rsqrt")

_BINARY = {
    "add": ("fadd",), "sub": ("fsub",), "mul": ("fmul",), "div": ("fdiv",), "div_rn": ("precise_divf",),
    "rem": ("frem",), "fma": ("fma",), "fold": ("fadd", "fmul"), "cross": ("fsub", "fmul"), "chain": (),
    "maximum": ("maxnumf",), "minimum": ("minimumf",), "clamp": ("clampf",), "where": ("select", "fcmpOGT"), "mean": (),
}  # fmt: skip
_ROWS = ("sum", "square_sum", "max", "norm", "logsumexp", "variance", "prod")
_SCANS = ("cumsum", "reverse", "cumprod", "twice")


def unary(op: str, fmt: str) -> Subject:
    def inputs(rng: np.random.Generator, style: str) -> Inputs:
        x = values(rng, (SIZE,), fmt, style)
        return (x.abs() if op in _POSITIVE else x,)

    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.unary_kernel[_GRID](x, out, x.numel(), op, _BLOCK)
        return out

    return Subject(f"{op} {fmt}", run, inputs, _UNARY[op], ("normal", "wide", "tiny", "powers"))


def binary(op: str, fmt: str) -> Subject:
    def inputs(rng: np.random.Generator, style: str) -> Inputs:
        return values(rng, (SIZE,), fmt, style), values(rng, (SIZE,), fmt, style)

    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.binary_kernel[_GRID](x, y, out, x.numel(), op, _BLOCK)
        return out

    return Subject(f"{op} {fmt}", run, inputs, _BINARY[op], ("normal", "wide", "cancelling", "tiny", "powers"))


def cast(src: str, dst: str, how: str = "plain") -> Subject:
    middle = getattr(tl, {"fp16": "float16", "bf16": "bfloat16", "fp8e5": "float8e5", "fp8e4nv": "float8e4nv",
                          "fp8e4b15": "float8e4b15", "fp32": "float32"}[dst])  # fmt: skip

    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.shape, dtype=torch.float32)
        kernels.cast_kernel[_GRID](x, out, x.numel(), how, middle, _BLOCK)
        return out

    def inputs(rng: np.random.Generator, style: str) -> Inputs:
        x = values(rng, (SIZE,), src, style)
        if style == "tiny" and dst in _BOTTOM:  # of the narrower format
            x = values(rng, (SIZE,), dst, style).to(DTYPES[src]) * 1.03
        return (x,)

    return Subject(f"cast {src}->{dst} {how}", run, inputs, ("fp_trunc", "fp_to_fp"), ("normal", "wide", "tiny"))


def integers(bits: int) -> Subject:
    dtype = {32: torch.int32, 64: torch.int64}[bits]

    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.shape, dtype=torch.float32)
        kernels.integer_kernel[_GRID](x, out, x.numel(), tl.float32, _BLOCK)
        return out

    def inputs(rng: np.random.Generator, style: str) -> Inputs:
        return (torch.from_numpy(rng.integers(-(2 ** (bits - 2)), 2 ** (bits - 2), SIZE)).to(dtype),)

    return Subject(f"int{bits} to fp32", run, inputs, ("si_to_fp",), ("normal",))


def rows(op: str, fmt: str, n: int) -> Subject:
    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(len(x), dtype=x.dtype)
        kernels.row_kernel[(len(x),)](x, out, op, n)
        return out

    named = {"sum": ("reduce",), "square_sum": ("reduce",)}.get(op, ())
    return Subject(f"{op} {fmt} {n}", run, lambda g, s: (values(g, (128, n), fmt, s),), named,
                   ("normal", "wide", "cancelling", "giant", "stagnant"))  # fmt: skip


def scans(op: str, fmt: str, n: int) -> Subject:
    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.scan_kernel[(len(x),)](x, out, op, n)
        return out

    return Subject(f"{op} {fmt} {n}", run, lambda g, s: (values(g, (8, n), fmt, s),),
                   ("scan",) if op == "cumsum" else (), ("normal", "wide", "cancelling", "stagnant"))  # fmt: skip


def softmax() -> Subject:
    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.softmax_kernel[(len(x),)](x, out, x.shape[1])
        return out

    return Subject("softmax", run, lambda g, s: (values(g, (16, 64), "fp32", s) * 4,), (), ("normal", "powers"))


def moves() -> Subject:
    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.moves_kernel[(1,)](x, out, len(x))
        return out

    return Subject("moves", run, lambda g, s: (values(g, (256,), "fp32", s),), ("gather", "split", "join"))


def dots(fmt: str, how: str, precision: str = "ieee", acc: str = "fp32", bk: int = 32) -> Subject:
    m, n, k, g = 16, 16, 64, 2
    accumulator = {"fp32": tl.float32, "fp16": tl.float16, "fp64": tl.float64}[acc]

    def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = torch.empty((g, m, n), dtype=DTYPES[acc])
        kernels.dot_kernel[(g,)](a, b, out, k, m, n, bk, how, precision, accumulator)
        return out

    def inputs(rng: np.random.Generator, style: str) -> Inputs:
        a, b = values(rng, (g, m, k), fmt, style), values(rng, (g, k, n), fmt, style)
        if style == "stagnant":
            a, b = _stagnant_operands(rng, fmt, acc, (g, m, k), (g, n, k))
        if style == "cancelling":  # along K: each product next to (nearly) its opposite
            b[:, 1::2] = b[:, ::2]
        return a, b

    name = f"dot {fmt} {how} {precision} {acc} {bk}"
    return Subject(name, run, inputs, ("dot",), ("normal", "wide", "cancelling", "tiny", "giant", "stagnant"))


def _stagnant_operands(
    rng: np.random.Generator, fmt: str, acc: str, left: tuple[int, ...], right: tuple[int, ...]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Products of one 1 and many near the unit in which the accumulator, or a block of the unit, is cut."""
    depth = int(
        rng.choice([13, 12] if fmt.startswith("fp8e4") else [13, 14, 24, 25, 26] if acc == "fp32" else [11, 12])
    )
    depth = 53 if acc == "fp64" else depth
    a, b = stagnant(rng, left, depth // 2, 30), stagnant(rng, right, depth - depth // 2, _BITS[fmt])
    a = np.where(np.arange(left[-1]) == 0, 1.0, np.ldexp(1.0, -(depth // 2))) + 0 * a
    pair = torch.from_numpy(a), torch.from_numpy(np.ascontiguousarray(np.swapaxes(b, -1, -2)))
    return pair[0].to(DTYPES[fmt]), pair[1].to(DTYPES[fmt])


def attend(fmt: str, precision: str = "ieee") -> Subject:
    def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = torch.empty((16, 16), dtype=torch.float32)
        kernels.attend_kernel[(1,)](a, b, out, 64, 16, 16, precision)
        return out

    def inputs(rng: np.random.Generator, style: str) -> Inputs:
        return values(rng, (16, 64), "fp32", style), values(rng, (64, 16), fmt, style)

    return Subject(f"attend {fmt} {precision}", run, inputs, ("dot",), ("normal",))


def atomics(fmt: str, slots: int) -> Subject:
    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(slots, dtype=x.dtype)
        kernels.atomic_kernel[(len(x) // 64,)](x, out, len(x), slots, 64)
        return out

    def inputs(rng: np.random.Generator, style: str) -> Inputs:
        x = values(rng, (slots, SIZE // slots), fmt, style)  # a row per address
        return (x.T.reshape(-1).contiguous(),)

    styles = ("normal", "wide", "cancelling", "giant", "tiny", "stagnant")
    return Subject(f"atomic {fmt} {slots}", run, inputs, ("atomic_rmw",), styles)


def atomic_partials() -> Subject:
    def run(x: torch.Tensor) -> torch.Tensor:
        out, most = torch.zeros(1), torch.zeros(16)
        kernels.partial_sums_kernel[(len(x) // 64,)](x, out, len(x), 64)
        kernels.atomic_max_kernel[(len(x) // 64,)](x, most, 16, 64)
        return torch.cat([out, most])

    return Subject("atomic partial sums", run, lambda g, s: (values(g, (SIZE,), "fp32", s),), ("atomic_rmw",))


def small() -> Iterator[Subject]:
    """Kernels of `kernels.py`, in every format that the language allows."""
    for op in _UNARY:
        yield unary(op, "fp32")
    for op in ("exp", "log", "sqrt", "sin"):
        yield unary(op, "fp64")
    for op in _BINARY:
        yield binary(op, "fp32")
    for fmt in ("fp16", "bf16"):
        yield from (binary(op, fmt) for op in ("add", "mul", "fold", "cross", "chain", "where"))
    yield from (binary(op, "fp64") for op in ("fold", "div", "chain"))
    yield from (binary("div", fmt) for fmt in ("fp16", "bf16"))
    yield from (binary("fma", fmt) for fmt in ("fp16", "bf16", "fp64"))
    for dst in ("fp16", "bf16", "fp8e5", "fp8e4nv", "fp8e4b15"):
        yield cast("fp32", dst)
    yield from (cast("fp32", "fp16", "rtz"), cast("fp32", "bf16", "rtz"), cast("fp32", "fp16", "after"))
    yield from (cast("bf16", "fp8e5"), cast("fp16", "fp8e5"), cast("fp64", "fp16"), cast("fp64", "bf16"))
    yield from (integers(32), integers(64))
    for op in _ROWS:
        yield rows(op, "fp32", 128)
    yield from (rows("sum", fmt, 64) for fmt in ("fp16", "bf16", "fp64"))
    yield rows("square_sum", "fp16", 32)
    yield from (rows("sum", "fp32", n) for n in (4, 16))
    for op in _SCANS:
        yield scans(op, "fp32", 64)
    yield from (scans("cumsum", fmt, 32) for fmt in ("fp16", "bf16", "fp64"))
    yield from (softmax(), moves(), atomic_partials())
    yield from dot_subjects()
    yield from (attend("fp16"), attend("bf16"), attend("fp32", "tf32"), attend("fp32"))
    yield from (
        atomics(fmt, slots) for fmt, slots in (("fp32", 4), ("fp32", 64), ("fp16", 8), ("bf16", 8), ("fp64", 8))
    )


def dot_subjects() -> Iterator[Subject]:
    for fmt in ("fp16", "bf16", "fp8e5", "fp8e4nv"):
        yield from (dots(fmt, how) for how in ("chained", "added"))
    yield from (dots(fmt, "chained", bk=16) for fmt in ("fp16", "fp8e5"))
    for precision in ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"):
        yield dots("fp32", "chained", precision)
    yield from (dots("fp32", "added", precision) for precision in ("ieee", "tf32", "tf32x3"))
    yield from (dots("fp16", how, acc="fp16") for how in ("chained", "added"))
    yield from (dots("fp8e5", "chained", acc="fp16"), dots("fp8e4nv", "imprecise", bk=64))
    yield dots("fp64", "chained", acc="fp64")


_PACKAGED: dict[str, tuple[str, dict[str, Any]]] = {
    "batch_cumsum": ("scan", {"rows": 5, "cols": 33}),
    "block_pointer_matmul": ("matmul_block_pointer", {"m": 33, "n": 40, "k": 48}),
    "cross_entropy": ("cross_entropy", {"rows": 9, "classes": 64}),
    "dropout": ("seeded_dropout", {"n": 513}),
    "flash_attention": ("attention", {"z": 1, "h": 2, "n_ctx": 33, "head_dim": 16}),
    "fused_softmax": ("softmax", {"rows": 5, "cols": 100}),
    "gelu": ("gelu", {"n": 200}),
    "grouped_gemm": ("grouped_gemm", {"sizes": ((7, 9, 11), (20, 16, 33))}),
    "layer_norm": ("layer_norm", {"rows": 5, "cols": 64}),
    "matmul": ("matmul", {"m": 31, "n": 33, "k": 40}),
    "matmul_bf16": ("linear", {"m": 33, "n": 32, "k": 64}),
    "matmul_descriptor": ("matmul_descriptor", {"m": 33, "n": 40, "k": 36}),
    "matmul_fp8": ("matmul_fp8", {"m": 33, "n": 31, "k": 48}),
    "matmul_persistent": ("matmul_persistent", {"m": 40, "n": 24, "k": 72}),
    "matmul_split_k": ("matmul_split_k", {"m": 33, "n": 20, "k": 128}),
    "mse_loss": ("mse_loss", {"n": 257}),
    "rms_norm": ("rms_norm", {"rows": 7, "cols": 64}),
    "rotary": ("rotary", {"n_ctx": 17, "dim": 32}),
    "swiglu": ("swiglu", {"rows": 3, "cols": 33}),
    "varlen_sum": ("varlen_sum", {"lengths": (0, 9, 16), "cols": 16}),
    "vector_add": ("vector_add", {"n": 1025}),
}
"""Entry and sizes of the packaged kernels; their own inputs, small."""


def packaged() -> Iterator[Subject]:
    """The kernels that come with RENDER, as their files launch them."""
    folder = data.folder("kernels")
    for name, (entry, sizes) in _PACKAGED.items():
        path = None if folder is None else folder / f"{name}.py"
        if path is not None and path.is_file():
            yield _packaged(name, path, entry, sizes)


def _packaged(name: str, path: Any, entry: str, sizes: dict[str, Any]) -> Subject:
    spec = importlib.util.spec_from_file_location(f"adversary_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def inputs(rng: np.random.Generator, style: str) -> Inputs:
        torch.manual_seed(int(rng.integers(1 << 31)))
        return module.make_inputs(**sizes)

    return Subject(f"{name}.py", getattr(module, entry), inputs, (), ("normal",))


def every() -> list[Subject]:
    return [*small(), *packaged()]


__all__ = ["STYLES", "Subject", "every", "packaged", "small", "triton", "values"]
