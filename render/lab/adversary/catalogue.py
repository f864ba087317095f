"""Every kernel that is attacked: the small ones in each format, and the ones that come with RENDER."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from render.lab.adversary import quantized
from render.lab.adversary import subjects as make
from render.lab.adversary.material import DTYPES, Inputs, stagnant_operands, values
from render.lab.adversary.subjects import Subject
from render.result import packaged as data


def small() -> Iterator[Subject]:
    """Kernels of `kernels.py`, in every format that the language allows."""
    for op in make.UNARY:
        yield make.unary(op, "fp32")
    for op in ("exp", "log", "sqrt", "sin"):
        yield make.unary(op, "fp64")
    for op in ("rint", *make.LIBRARY_FUNCTIONS):
        yield make.library(op)
    for op in make.BINARY:
        yield make.binary(op, "fp32")
    for fmt in ("fp16", "bf16"):
        yield from (make.binary(op, fmt) for op in ("add", "mul", "fold", "cross", "chain", "where"))
    yield from (make.binary(op, "fp64") for op in ("fold", "div", "chain"))
    yield from (make.binary("div", fmt) for fmt in ("fp16", "bf16"))
    yield from (make.binary("fma", fmt) for fmt in ("fp16", "bf16", "fp64"))
    for dst in ("fp16", "bf16", "fp8e5", "fp8e4nv", "fp8e4b15"):
        yield make.cast("fp32", dst)
    yield from (make.cast("fp32", "fp16", "rtz"), make.cast("fp32", "bf16", "rtz"), make.cast("fp32", "fp16", "after"))
    yield from (
        make.cast("bf16", "fp8e5"),
        make.cast("fp16", "fp8e5"),
        make.cast("fp64", "fp16"),
        make.cast("fp64", "bf16"),
    )
    yield from (make.integers(32), make.integers(64))
    for op in make.ROWS:
        yield make.rows(op, "fp32", 128)
    yield from (make.rows("sum", fmt, 64) for fmt in ("fp16", "bf16", "fp64"))
    yield make.rows("square_sum", "fp16", 32)
    yield from (make.rows("sum", "fp32", n) for n in (4, 16))
    for op in make.SCANS:
        yield make.scans(op, "fp32", 64)
    yield from (make.scans("cumsum", fmt, 32) for fmt in ("fp16", "bf16", "fp64"))
    yield from (make.softmax(), make.moves(), make.atomic_partials())
    yield from (quantized.places(), *(quantized.quantized(how) for how in quantized.HOW))
    yield from dot_subjects()
    yield from (make.attend("fp16"), make.attend("bf16"), make.attend("fp32", "tf32"), make.attend("fp32"))
    yield from (
        make.atomics(fmt, slots) for fmt, slots in (("fp32", 4), ("fp32", 64), ("fp16", 8), ("bf16", 8), ("fp64", 8))
    )


def dot_subjects() -> Iterator[Subject]:
    for fmt in ("fp16", "bf16", "fp8e5", "fp8e4nv", "fp8e4b8"):
        yield from (make.dots(fmt, how) for how in ("chained", "added"))
    yield from (make.dots(fmt, "chained", bk=bk) for fmt, bk in (("fp16", 16), ("fp8e5", 64)))
    for precision in ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"):
        yield make.dots("fp32", "chained", precision)
    yield from (make.dots("fp32", "added", precision) for precision in ("ieee", "tf32", "tf32x3"))
    yield from (make.dots("fp32", "chained", precision, bk=64) for precision in make.SPLIT)
    yield from (make.dots("fp16", how, acc="fp16") for how in ("chained", "added"))
    yield from (make.dots("fp8e5", "chained", acc="fp16"), make.dots("fp8e4nv", "imprecise", bk=64))
    yield make.dots("fp64", "chained", acc="fp64")


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
    "quantize_int8": ("int8_linear", {"m": 17, "n": 20, "k": 40}),
    "rms_norm": ("rms_norm", {"rows": 7, "cols": 64}),
    "rotary": ("rotary", {"n_ctx": 17, "dim": 32}),
    "swiglu": ("swiglu", {"rows": 3, "cols": 33}),
    "varlen_sum": ("varlen_sum", {"lengths": (0, 9, 16), "cols": 16}),
    "vector_add": ("vector_add", {"n": 1025}),
}
"""Entry and sizes of the packaged kernels; their own inputs, small."""


_HARD: dict[str, tuple[str, ...]] = {
    "cross_entropy": ("logs",),
    "fused_softmax": ("logs",),
    "layer_norm": ("roots, constant", "stagnant, constant"),
    "matmul": ("operands 25",),
    "matmul_descriptor": ("operands 25",),
    "matmul_fp8": ("operands 13",),
    "matmul_split_k": ("operands 24",),
    "mse_loss": ("roots, zeros",),
    "rms_norm": ("roots, constant",),
    "vector_add": ("wide",),
}
"""Styles of inputs in which the errors of these kernels add up: one per tensor, the last for the rest."""


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
        own = module.make_inputs(**sizes)
        return own if style == "normal" else _restyled(rng, own, style)

    return Subject(f"{name}.py", getattr(module, entry), inputs, (), ("normal", *_HARD.get(name, ())))


def _restyled(rng: np.random.Generator, own: Any, style: str) -> Inputs:
    """The kernel's own arguments with other numbers in its tensors: one style each, the last for the rest."""
    if isinstance(own, dict):
        return dict(zip(own, _restyled(rng, tuple(own.values()), style), strict=True))
    styles, found = style.split(", "), []
    names = {dtype: fmt for fmt, dtype in DTYPES.items()}
    if style.startswith("operands"):
        (m, k), (_, n), fmt = own[0].shape, own[1].shape, names[own[0].dtype]
        depth = int(style.removeprefix("operands") or 0)
        return (*stagnant_operands(rng, fmt, "fp32", (m, k), (n, k), depth), *own[2:])
    for x in own:
        if isinstance(x, torch.Tensor) and x.dtype in names:
            how = styles.pop(0) if len(styles) > 1 else styles[0]
            x = values(rng, tuple(x.shape), names[x.dtype], how)
        found.append(x)
    return tuple(found)


def every() -> list[Subject]:
    return [*small(), *packaged()]


def quick() -> list[Subject]:
    """A few kernels that between them meet every kind of rule."""
    return [
        make.dots("fp16", "chained"), make.dots("fp8e5", "added"), make.dots("fp32", "chained", "tf32"),
        make.attend("fp16"), make.rows("sum", "fp32", 32), make.rows("variance", "fp32", 64),
        make.scans("cumsum", "fp16", 32), make.atomics("fp32", 8), make.softmax(),
        make.unary("exp", "fp32"), make.unary("rsqrt", "fp32"), make.binary("chain", "fp32"),
        make.binary("div", "fp32"), make.binary("where", "fp16"), make.cast("fp32", "fp8e5"),
    ]  # fmt: skip
