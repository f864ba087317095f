"""What is attacked: a launcher, inputs in several styles, and the rules that it exercises."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton.language as tl

from interval_ops.profiles.profile import load_profile
from render.lab.adversary import approximate, kernels
from render.lab.adversary.aligned import split_operands
from render.lab.adversary.material import BOTTOM, DTYPES, Inputs, stagnant_operands, values
from render.ops.library import LIBRARY
from render.ops.rule import EVERYWHERE, Rule
from render.ops.table import RULES


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
_PROFILE = load_profile("sm_80")

UNARY: dict[str, tuple[str, ...]] = {
    **{rule.entry: (op,) for op, rule in RULES.items() if rule.function},
    "floor": ("floor",), "ceil": ("ceil",), "abs": ("fabs", "fneg"), "sigmoid": (),
}  # fmt: skip
"""Functions of `tl` with one argument, and the rules that they exercise."""
LIBRARY_FUNCTIONS = [name for name, rule in LIBRARY.items() if rule.function and approximate.exact(rule.function)]

BINARY = {
    "add": ("fadd",), "sub": ("fsub",), "mul": ("fmul",), "div": ("fdiv",), "div_rn": ("precise_divf",),
    "rem": ("frem",), "fma": ("fma",), "fold": ("fadd", "fmul"), "cross": ("fsub", "fmul"), "chain": (),
    "maximum": ("maxnumf",), "minimum": ("minimumf",), "clamp": ("clampf",), "where": ("select", "fcmpOGT"), "mean": (),
}  # fmt: skip
ROWS = ("sum", "square_sum", "max", "norm", "logsumexp", "variance", "prod")
SCANS = ("cumsum", "reverse", "cumprod", "twice")
_ALIGNED = {
    "square_sum": ("roots",), "norm": ("roots",), "variance": ("roots",), "logsumexp": ("logs",), "prod": ("climbing",),
    "cumprod": ("climbing",), "twice": ("roots",),
}  # fmt: skip
"""Styles in which the errors of these kernels add up."""


def _inside(x: torch.Tensor, rule: Rule | None) -> torch.Tensor:
    """Numbers of every size as arguments: in the domain, on both sides of where the documented error changes."""
    low, high = rule.domain if rule is not None else EVERYWHERE
    if high < math.inf:
        return low + (high - low) * (0.5 + 0.5 * x / (1 + x.abs()))
    far = rule is not None and rule.function and _PROFILE.functions[rule.entry].until < math.inf
    x = x * 6.0 if far else x
    return low + x.abs() if low > -math.inf else x


def unary(op: str, fmt: str) -> Subject:
    rule = RULES.get(UNARY[op][0]) if UNARY[op] else None

    def inputs(rng: np.random.Generator, style: str) -> Inputs:
        return (_inside(values(rng, (SIZE,), fmt, style), rule),)

    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.unary_kernel[_GRID](x, out, x.numel(), op, _BLOCK)
        return out

    return Subject(f"{op} {fmt}", run, inputs, UNARY[op], ("normal", "wide", "tiny", "powers"))


def library(op: str, fmt: str = "fp32") -> Subject:
    """A function of the vendor's library."""

    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.library_kernel[_GRID](x, out, x.numel(), op, _BLOCK)
        return out

    def inputs(rng: np.random.Generator, style: str) -> Inputs:
        return (_inside(values(rng, (SIZE,), fmt, style), LIBRARY[op]),)

    styles = ("normal", "wide", "tiny", "powers")
    return Subject(f"libdevice {op} {fmt}", run, inputs, (), styles)


def binary(op: str, fmt: str) -> Subject:
    def inputs(rng: np.random.Generator, style: str) -> Inputs:
        return values(rng, (SIZE,), fmt, style), values(rng, (SIZE,), fmt, style)

    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.binary_kernel[_GRID](x, y, out, x.numel(), op, _BLOCK)
        return out

    return Subject(f"{op} {fmt}", run, inputs, BINARY[op], ("normal", "wide", "cancelling", "tiny", "powers"))


def cast(src: str, dst: str, how: str = "plain") -> Subject:
    middle = getattr(tl, {"fp16": "float16", "bf16": "bfloat16", "fp8e5": "float8e5", "fp8e4nv": "float8e4nv",
                          "fp8e4b15": "float8e4b15", "fp32": "float32"}[dst])  # fmt: skip

    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.shape, dtype=torch.float32)
        kernels.cast_kernel[_GRID](x, out, x.numel(), how, middle, _BLOCK)
        return out

    def inputs(rng: np.random.Generator, style: str) -> Inputs:
        x = values(rng, (SIZE,), src, style)
        if style == "tiny" and dst in BOTTOM:  # of the narrower format
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
                   ("normal", "wide", "cancelling", "giant", "stagnant", "constant",
                    *_ALIGNED.get(op, ())))  # fmt: skip


def scans(op: str, fmt: str, n: int) -> Subject:
    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.scan_kernel[(len(x),)](x, out, op, n)
        return out

    return Subject(f"{op} {fmt} {n}", run, lambda g, s: (values(g, (8, n), fmt, s),),
                   ("scan",) if op == "cumsum" else (),
                   ("normal", "wide", "cancelling", "stagnant", *_ALIGNED.get(op, ())))  # fmt: skip


def softmax() -> Subject:
    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.softmax_kernel[(len(x),)](x, out, x.shape[1])
        return out

    return Subject("softmax", run, lambda g, s: (values(g, (16, 64), "fp32", s) * (1 if s == "logs" else 4),), (),
                   ("normal", "powers", "logs"))  # fmt: skip


def moves() -> Subject:
    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernels.moves_kernel[(1,)](x, out, len(x))
        return out

    return Subject("moves", run, lambda g, s: (values(g, (256,), "fp32", s),), ("gather", "split", "join"))


SPLIT = ("tf32x3", "bf16x3", "bf16x6")
"""Input precisions that multiply fp32 operands in parts."""


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
            a, b = stagnant_operands(rng, fmt, acc, (g, m, k), (g, n, k))
        if style == "split":
            a, b = (torch.from_numpy(x).float() for x in split_operands(rng, precision, (g, m, k), (g, n, k), bk))
            b = b.mT.contiguous()
        if style in ("constant", "halves"):  # along K as well
            b = values(rng, (g, n, k), fmt, style).mT.contiguous()
        if style == "cancelling":  # along K: each product next to (nearly) its opposite
            b[:, 1::2] = b[:, ::2]
        return a, b

    name = f"dot {fmt} {how} {precision} {acc} {bk}"
    styles = ("normal", "wide", "cancelling", "tiny", "giant", "stagnant", "constant")
    more = ("split", "halves") if precision in SPLIT else ()
    return Subject(name, run, inputs, ("dot",), (*styles, *more))


def attend(fmt: str, precision: str = "ieee") -> Subject:
    def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = torch.empty((16, 16), dtype=torch.float32)
        kernels.attend_kernel[(1,)](a, b, out, 64, 16, 16, precision)
        return out

    def inputs(rng: np.random.Generator, style: str) -> Inputs:
        if style == "logs":
            return values(rng, (16, 64), "fp32", style), values(rng, (64, 16), fmt, "flat constant")
        return values(rng, (16, 64), "fp32", style), values(rng, (64, 16), fmt, style)

    return Subject(f"attend {fmt} {precision}", run, inputs, ("dot",), ("normal", "logs"))


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

    return Subject("atomic partial sums", run, lambda g, s: (values(g, (SIZE,), "fp32", s),), ("atomic_rmw",),
                   ("normal", "wide", "tiny", "roots"))  # fmt: skip
