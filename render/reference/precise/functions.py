"""PyTorch's functions above its operations: values that leave PyTorch, and attention by its definition."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from render.ops.formulas import Refused
from render.reference.precise.cells import RecordedCells
from render.reference.twins import is_float

_LEAVING = frozenset(["numpy", "tolist", "__array__", "__dlpack__", "data_ptr"])


class Functions(TorchFunctionMode):
    """Refuses values that leave PyTorch for numpy or Python, where nothing is followed.

    PyTorch's own composition of attention scales both operands by a square root rounded to float64; the definition has
    an exact scale.
    """

    def __init__(self, cells: RecordedCells) -> None:
        super().__init__()
        self.cells = cells

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _LEAVING and args and (is_float(args[0]) or self.cells.loose(args[0])):
            raise Refused(f"values leave PyTorch ({name})")
        if func is torch.nn.functional.scaled_dot_product_attention:
            return attention(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> torch.Tensor:  # fmt: skip
    """softmax(q k^T scale + mask) v; scale is 1 / sqrt(d) unless given. A row without any key gives zeros."""
    if dropout_p:
        raise Refused("attention with dropout has no rule")
    if enable_gqa:
        k, v = (x.repeat_interleave(q.size(-3) // x.size(-3), -3) for x in (k, v))
    scores = q @ k.transpose(-1, -2)
    scores = scores / torch.full((), q.size(-1), dtype=q.dtype).sqrt() if scale is None else scores * scale
    if is_causal:
        kept = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).tril()
        attn_mask = kept if attn_mask is None else attn_mask
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(attn_mask.logical_not(), -torch.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return torch._safe_softmax(scores, -1) @ v
