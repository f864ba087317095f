"""Modelled element-wise kernels and reductions: contraction of a product and a sum, fp16 sums, and a lost carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from render.lab.corpus.fused import multiply_add

Values = Mapping[str, Any]


def contracted(values: Values, contract: bool = True) -> list[Any]:
    """x * y + x as a compiler makes it: one fma, hence one rounding; two roundings where a reload stands between."""
    x, y = values["x"], values["y"]
    if not contract:
        return [x * y + x]
    return [torch.from_numpy(multiply_add(x.numpy(), y.numpy(), x.numpy()))]


def half_column_sums(values: Values, block: int, carry: str = "float32") -> list[Any]:
    """Column sums: blocks of rows added in fp16, the blocks added in `carry`, one cast at the end.

    `float32` is what compiled code does with a Python scalar that starts at 0.0 (Triton IR of 3.9); `float16` is a
    replay that keeps the first block's dtype.
    """
    x = values["inp"]
    acc = torch.zeros(x.shape[1], dtype=getattr(torch, carry))
    for start in range(0, x.shape[0], block):
        part = torch.zeros(x.shape[1], dtype=torch.float16)
        for row in x[start : start + block]:
            part = part + row
        acc = (acc + part).to(acc.dtype)
    return [acc.to(torch.float16)]


def scan_then_sum(values: Values, fault: str = "") -> list[Any]:
    """Running sums of outer products, summed over d. Fault "carry": each pair of rows starts its scan at zero.

    Rows 0 and 1 stay right and 14 of 16 rows go wrong, the number of the issue; which rows failed there was not said.
    """
    k, v = values["k"], values["v"]
    products = k[:, :, None] * v[:, None, :]
    if fault == "carry":
        pairs = products.reshape(-1, 2, *products.shape[1:])
        return [torch.cumsum(pairs, 1).reshape(products.shape).sum(1)]
    return [torch.cumsum(products, 0).sum(1)]


MODELS = {"multiply-add": contracted, "column-sums": half_column_sums, "scan-then-sum": scan_then_sum}
