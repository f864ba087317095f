"""Matrix products and convolutions on numbers of many bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from render.ops.formulas import Refused
from render.reference.precise.elementwise import Rule
from render.reference.precise.graph import Ids, ProductNode

if TYPE_CHECKING:
    from render.reference.precise.cells import RecordedCells


def product(r: RecordedCells, a: Ids, b: Ids) -> Ids:
    """a @ b for two or three dimensions each."""
    flat = a.ndim == 2
    a, b = (a[None], b[None]) if flat else (a, b)
    shape = (a.shape[0], a.shape[1], b.shape[2])
    if not a.shape[2]:
        return r.constant(0.0, shape[1:] if flat else shape)
    found = r.graph.add(ProductNode(np.ascontiguousarray(a), np.ascontiguousarray(b)), shape)
    return found[0] if flat else found


def _mv(r: RecordedCells, a: Ids, v: Ids) -> Ids:
    return product(r, a, v[:, None])[:, 0]


def _dot(r: RecordedCells, a: Ids, b: Ids, **_: Any) -> Ids:
    found: Ids = product(r, a[None, :], b[:, None])[0, 0]
    return found


def _added(rule: Rule) -> Rule:
    """addmm and the like: beta c + alpha (a @ b)."""

    def fn(r: RecordedCells, c: Ids, a: Ids, b: Ids, beta: Any = 1, alpha: Any = 1, **_: Any) -> Ids:
        made = rule(r, a, b)
        if beta == 0:
            return r.map("mul", lambda n, p, k: p * k, made, alpha)
        return r.map("addmm", lambda n, z, p, k, m: k * z + m * p, c, made, beta, alpha, weight=3)

    return fn


def _linear(r: RecordedCells, x: Ids, w: Ids, bias: Any = None) -> Ids:
    made = product(r, x.reshape(-1, x.shape[-1]), w.T).reshape(*x.shape[:-1], w.shape[0])
    return made if bias is None else r.map("add", lambda n, a, b: a + b, made, bias)


def _convolution(
    r: RecordedCells, x: Ids, w: Ids, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, _: Any,
    groups: int,
) -> Ids:  # fmt: skip
    """Windows of the cells' numbers (zeros are cell 0), then one product per group; one or two dimensions."""
    if transposed or x.ndim not in (3, 4) or w.ndim != x.ndim:
        raise Refused("convolution: no rule for this form")
    flat = x.ndim == 3
    if flat:
        x, w, stride, padding, dilation = x[:, :, None], w[:, :, None], [1, *stride], [0, *padding], [1, *dilation]
    numbers = torch.from_numpy(np.array(x, np.float64))
    windows = torch.nn.functional.unfold(numbers, w.shape[2:], dilation, padding, stride).to(torch.int64).numpy()
    batch, places = x.shape[0], windows.shape[-1]
    parts = windows.reshape(batch, groups, -1, places)
    weights = w.reshape(groups, w.shape[0] // groups, -1)
    made = [product(r, np.broadcast_to(weights[g], (batch, *weights[g].shape)), parts[:, g]) for g in range(groups)]
    pads = [x.shape[2 + d] + 2 * padding[d] - dilation[d] * (w.shape[2 + d] - 1) - 1 for d in (0, 1)]
    found = np.concatenate(made, 1).reshape(batch, w.shape[0], *(p // s + 1 for p, s in zip(pads, stride, strict=True)))
    if bias is not None:
        found = r.map("add", lambda n, a, b: a + b, found, bias[:, None, None])
    return found[:, :, 0] if flat else found


PRODUCTS: dict[str, Rule] = {
    "mm": product,
    "bmm": product,
    "mv": _mv,
    "dot": _dot,
    "vdot": _dot,
    "addmm": _added(product),
    "baddbmm": _added(product),
    "addmv": _added(_mv),
    "linear": _linear,
    "convolution": _convolution,
}
