"""Modelled matrix products: TF32, fp16 and fp8 tensor cores, and a chain of fp32 fused multiply-adds.

TF32: Triton hands raw fp32 registers to the unit, which reads 10 fraction bits of them (both operands truncated), then
the block model. Evidence: on issue 5895 this gives a maximum difference of 0.018645 where 0.01866 was reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from render.lab.corpus.fused import multiply_add
from render.lab.corpus.tensor_core import UNITS, multiply, truncate_tf32

Values = Mapping[str, Any]


def tensor_core(a: np.ndarray, b: np.ndarray, unit: str) -> np.ndarray:
    """a @ b on the named unit, float32; a TF32 unit truncates its operands first."""
    if unit.endswith("tf32"):
        a, b = truncate_tf32(a), truncate_tf32(b)
    return multiply(a, b, UNITS[unit])


def fma_chain(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b as one chain of correctly rounded fp32 fused multiply-adds per element, in the order of K."""
    acc = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        acc = multiply_add(a[:, k, None].astype(np.float32), b[None, k].astype(np.float32), acc)
    return acc


def pair(values: Values) -> tuple[np.ndarray, np.ndarray]:
    """The two matrices of a case, its first two inputs, in float32."""
    a, b = list(values.values())[:2]
    return a.to(torch.float32).numpy(), b.to(torch.float32).numpy()


def product(a: np.ndarray, b: np.ndarray, unit: str) -> np.ndarray:
    return fma_chain(a, b) if unit == "fma" else tensor_core(a, b, unit)


def matmul(values: Values, unit: str, transpose: str = "", out: str = "float32", lost: Sequence[int] = ()) -> list[Any]:
    """a @ b; `transpose` names the operand ("a" or "b") stored transposed.

    `lost` = [row, column, rows, columns] is a part of the result that the device leaves at zero.
    """
    a, b = pair(values)
    result = product(a.T if transpose == "a" else a, b.T if transpose == "b" else b, unit)
    if lost:
        row, col, rows, cols = lost
        result[row : row + rows, col : col + cols] = 0
    return [torch.from_numpy(result).to(getattr(torch, out))]


def indexed_matmul(values: Values, unit: str) -> list[Any]:
    """Row i times the weight that index i names."""
    x, w, index = values["x"], values["w"].numpy(), values["index"].numpy().ravel()
    rows = x.numpy().reshape(-1, x.shape[-1])
    out = np.empty_like(rows)
    for which in np.unique(index):
        out[index == which] = product(rows[index == which], w[which], unit)
    return [torch.from_numpy(out.reshape(x.shape))]


def split_k(
    values: Values, unit: str, split: int, block: int, tile: list[int], order_seed: int, drop: int = -1
) -> list[Any]:
    """`split` partial products, each of every `split`-th block of K, added per tile in a seeded random order.

    The partials and every single addition are rounded to the dtype of the inputs: that is what atomic adds in memory of
    this dtype do. `unit` "sum" means fp32 sums in the order of the BLAS (the block model would take minutes at the
    published size; its effect is far below the rounding of the fp16 partials). `drop` leaves out one partial.
    """
    dtype = next(iter(values.values())).dtype
    a, b = pair(values)
    parts = []
    for z in range(split):
        ks = (np.arange(a.shape[1]) // block) % split == z
        left, right = a[:, ks], b[ks]
        whole = left @ right if unit == "sum" else product(left, right, unit)
        parts.append(torch.from_numpy(whole).to(dtype))
    rng = np.random.default_rng(order_seed)
    out = torch.zeros_like(parts[0])
    for row in range(0, out.shape[0], tile[0]):
        for col in range(0, out.shape[1], tile[1]):
            place = (slice(row, row + tile[0]), slice(col, col + tile[1]))
            for z in rng.permutation(split):
                if z != drop:
                    out[place] += parts[z][place]
    return [out]


def gated_mlp(values: Values, unit: str) -> list[Any]:
    """RMSNorm, gate and up projection, SiLU, projection back: products on the unit, everything else in fp32."""
    x = values["x"]
    scale = torch.rsqrt((x * x).sum(1) / x.shape[1] + values["eps"])
    normed = (x * scale[:, None] * values["w0"]).numpy()
    gate = torch.from_numpy(product(normed, values["w1"].numpy(), unit))
    up = torch.from_numpy(product(normed, values["w2"].numpy(), unit))
    hidden = (gate * torch.sigmoid(gate) * up).numpy()
    return [torch.from_numpy(product(hidden, values["w3"].numpy(), unit)), scale]


MODELS = {
    "matmul": matmul,
    "indexed-matmul": indexed_matmul,
    "split-k": split_k,
    "gated-mlp": gated_mlp,
}
