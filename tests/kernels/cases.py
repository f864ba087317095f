"""The launcher of every packaged kernel, a second set of sizes for it, and small helpers around both."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from tests.kernels.bugs import KERNELS


@dataclass(frozen=True)
class Case:
    """`sizes` are arguments for make_inputs: other masks, other trip counts than the defaults. `configs` counts the
    autotune configurations that are left after pruning."""

    kernel: str
    entry: str
    sizes: dict[str, Any] = field(default_factory=dict)
    configs: int = 1

    def __str__(self) -> str:
        return self.kernel

    @property
    def path(self) -> Path:
        return KERNELS / f"{self.kernel}.py"


CASES = [
    Case("batch_cumsum", "scan", {"rows": 5, "cols": 33}),
    Case("block_pointer_matmul", "matmul_block_pointer", {"m": 33, "n": 70, "k": 16}),
    Case("cross_entropy", "cross_entropy", {"rows": 9, "classes": 64}),
    Case("dropout", "seeded_dropout", {"n": 513}),
    Case("flash_attention", "attention", {"z": 1, "h": 3, "n_ctx": 33, "head_dim": 16}),
    Case("fused_softmax", "softmax", {"rows": 5, "cols": 300}),
    Case("gelu", "gelu", {"n": 77}),
    Case("grouped_gemm", "grouped_gemm", {"sizes": ((7, 9, 11), (40, 16, 33))}, configs=2),
    Case("layer_norm", "layer_norm", {"rows": 3, "cols": 64}),
    Case("matmul", "matmul", {"m": 31, "n": 65, "k": 40}, configs=3),
    Case("matmul_bf16", "linear", {"m": 33, "n": 64, "k": 64}),
    Case("matmul_descriptor", "matmul_descriptor", {"m": 33, "n": 40, "k": 36}),
    Case("matmul_fp8", "matmul_fp8", {"m": 33, "n": 31, "k": 48}),
    Case("matmul_persistent", "matmul_persistent", {"m": 40, "n": 24, "k": 72}),
    Case("matmul_split_k", "matmul_split_k", {"m": 33, "n": 20, "k": 128}, configs=2),
    Case("mse_loss", "mse_loss", {"n": 257}),
    Case("quantize_int8", "int8_linear", {"m": 17, "n": 33, "k": 40}),
    Case("rms_norm", "rms_norm", {"rows": 7, "cols": 64}),
    Case("rotary", "rotary", {"n_ctx": 17, "dim": 64}),
    Case("swiglu", "swiglu", {"rows": 3, "cols": 17}),
    Case("varlen_sum", "varlen_sum", {"lengths": (0, 9, 16), "cols": 16}),
    Case("vector_add", "vector_add", {"n": 1025}),
]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call(function: Any, inputs: Any) -> list[torch.Tensor]:
    """The results of `function` on the tuple or dict of make_inputs, as a list."""
    results = function(**inputs) if isinstance(inputs, dict) else function(*inputs)
    return list(results) if isinstance(results, (tuple, list)) else [results]


def upcast(value: Any) -> Any:
    """`value` with every floating point tensor in float64."""
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: upcast(item) for key, item in value.items()}
    return type(value)(map(upcast, value)) if isinstance(value, (tuple, list)) else value
