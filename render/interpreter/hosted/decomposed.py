"""Operations as PyTorch itself writes them in smaller ones: what `torch.compile` executes in their place.

A backward pass, attention or a loss without a rule of its own is followed through these steps: each has a rule with its
error, narrow types compute in float32 inside, and what torch's own kernel gave counts as legal beside them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch._ops import OpOverload

from render.interpreter.hosted.call import Bounds, Call, inner_of
from render.ops.aten import ATEN, Form, base_name
from render.ops.dtypes import FORMAT_OF


@cache
def _table() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import decomposition_table

    return dict(decomposition_table)


@cache
def decomposition(func: Any, narrow: bool = False) -> Callable[..., Any] | None:
    """The steps of an overload, as a function with its arguments; None if there are none.

    `narrow`: without the wrappers that widen narrow types to float32 for all steps: torch's own kernels round some of
    them to the type. Most backward passes are fused kernels, which widen as well; the others are `stepwise`.
    """
    if not isinstance(func, OpOverload) or base_name(func.name()) in OTHERWISE | IN_OTHER_STEPS:
        return None
    found = _steps(func)
    name = base_name(func.name())
    fused = name.endswith("_backward") and not (name in ATEN and ATEN[name].stepwise)
    return inspect.unwrap(found) if found is not None and narrow and not fused else found


def _steps(func: OpOverload) -> Callable[..., Any] | None:
    if func.name() == "aten::_scaled_dot_product_flash_attention_for_cpu_backward":
        return attention_gradients
    if func in _table():
        return _table()[func]
    return func.decompose if composed(func) else None


OTHERWISE = frozenset(["grid_sampler_2d", "grid_sampler_3d", "upsample_bicubic2d", "_upsample_bilinear2d_aa",
                       "_upsample_bicubic2d_aa", "_upsample_lanczos2d_aa"])  # fmt: skip
"""Interpolations between places that are computed: a rounding of a place is none of the steps' errors."""


IN_OTHER_STEPS = frozenset(["binary_cross_entropy_backward", "soft_margin_loss_backward", "logit_backward",
                            "multilabel_margin_loss_forward"])  # fmt: skip
"""Kernels that take other steps than torch's table: they round differences there that cancel, or divide a sum and not
its terms."""


@cache
def composed(func: Any) -> bool:
    """Whether torch itself only ever runs it as other operations."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))


def room_beside(call: Call, found: Bounds) -> np.ndarray | None:
    """What a kernel of a backward pass may lose besides the errors of the steps; None where these are what it does.

    Fused ones have functions of their own (the vector code of gelu has another erf): 12 roundings of the terms that
    cancel, which for an activation are at most twice what they are at the end of an interval that is further from 0.
    Those that go step by step multiply the same factors in another order, and round the number among them: 4 more.
    """
    op = ATEN.get(base_name(call.op.name()))
    if op is None or op.form is not Form.GRADIENT or call.profile.muted("function"):
        return None
    fmt = FORMAT_OF.get(call.x.dtype)
    if fmt is None:
        return None
    if op.stepwise:
        return None if fmt == inner_of(fmt) else 4 * fmt.u * np.maximum(np.abs(found.lo), np.abs(found.hi))
    terms = _LATER.get(op.name, op.terms)
    if terms is None:
        return None
    g, x = (torch.from_numpy(np.maximum(*(np.abs(np.asarray(end, np.float64)) for end in call.pair(t))))
            for t in call.args[:2])  # fmt: skip
    room: np.ndarray = 24 * inner_of(fmt).u * terms(g, x, *call.args[2:], **call.kwargs).numpy()
    return room


def _of_softmax(g: torch.Tensor, y: torch.Tensor, dim: int, dtype: Any = None) -> torch.Tensor:
    """Of (g - sum(g y)) y three roundings, where the steps multiply first and lose half of that at a binade's end."""
    return (g.abs() + (g * y).abs().sum(dim, keepdim=True)) * y.abs() / 8


_LATER: dict[str, Callable[..., Any]] = {"_softmax_backward_data": _of_softmax}
"""Kernels that multiply after a difference that the steps make of products."""


def attention_gradients(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, logsumexp: torch.Tensor,
    dropout_p: float, is_causal: bool, *, attn_mask: torch.Tensor | None = None, scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Gradients of attention from what its forward pass kept, as torch's fused CPU kernel computes them.

    With P = exp(scale q k' + mask - logsumexp), dS = P (grad v' - rowsum(grad out)): scale dS k, scale dS' q, P' grad.
    Source: aten/src/ATen/native/cpu/FlashAttentionKernel.cpp; the kernel sums over blocks of keys and rows, which is
    another order of the same sums. Of narrow types P and dS are rounded to the type, and so is every sum after a block:
    blocks are multiples of `ROWS`, so that more sums are rounded here than there. Heads of the query that share one of
    the key go on with its sums, one head after the other. NotImplementedError for dropout, which that kernel has not.
    """
    times, odd = divmod(q.shape[-3], max(k.shape[-3], 1))
    if odd or not times or q.shape[:-3] != k.shape[:-3] or dropout_p:
        raise NotImplementedError("attention of another kind")
    if times > 1:
        k, v = (x.repeat_interleave(times, -3) for x in (k, v))
    given, narrow = (grad, q, k), q.dtype.itemsize < 4
    if narrow:
        grad, q, k, v, out = (x.float() for x in (grad, q, k, v, out))
        attn_mask = attn_mask.float() if attn_mask is not None and attn_mask.is_floating_point() else attn_mask
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    scores = (q @ k.transpose(-1, -2)) * factor
    if is_causal:
        unseen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril().logical_not()
        scores = scores.masked_fill(unseen, float("-inf"))
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, float("-inf")) if attn_mask.dtype == torch.bool else scores + attn_mask
    weights = (scores - logsumexp.unsqueeze(-1)).exp()
    inner = (grad * out).sum(-1, keepdim=True)
    # the scale on every term: its rounding on the sum is the smaller one
    moved = weights * (grad @ v.transpose(-1, -2) - inner) * factor
    if narrow:
        weights, moved = weights.to(given[1].dtype), moved.to(given[1].dtype)
        grad, q, k = given
    product = _in_blocks if narrow else torch.matmul
    onto_q = product(moved, k)
    if times > 1:
        moved, q, weights, grad = (x.unflatten(-3, (-1, times)).flatten(-3, -2) for x in (moved, q, weights, grad))
    return onto_q, product(moved.transpose(-1, -2), q), product(weights.transpose(-1, -2), grad)


ROWS = 32
"""Keys and rows of which every block of the fused kernels is a multiple."""


def _in_blocks(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b, every partial sum after `ROWS` terms rounded to the type."""
    total = a[..., :ROWS] @ b[..., :ROWS, :]
    for at in range(ROWS, a.shape[-1], ROWS):
        total = total + a[..., at : at + ROWS] @ b[..., at : at + ROWS, :]
    return total
