"""A reference that multiplies with TF32 operands, on a CPU that has none: rounds them before each product.

`tf32` truncates to 10 mantissa bits, as tensor cores that read raw float32 bits do (PyTorch numerical_accuracy.rst:
"only the first 10 bits of the input mantissa are read"); `tf32-rna` rounds to nearest, ties away (PTX cvt.rna.tf32).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from render.ops.aten import Form, of_form
from render.ops.parts import in_parts
from render.reference.local_error import base_name
from render.result.errors import RenderError

PRECISIONS = ("ieee", "tf32", "tf32-rna")
_PRODUCTS = of_form(Form.PRODUCT)
_DROPPED = 0x1FFF
_HALF = 0x1000


def to_tf32(x: torch.Tensor, nearest: bool) -> torch.Tensor:
    """float32 numbers with 10 mantissa bits; infinities and NaN stay as they are."""
    bits = x.contiguous().view(torch.int32)
    kept = ((bits + (_HALF if nearest else 0)) & ~_DROPPED).view(torch.float32)
    return torch.where(torch.isfinite(x), kept, x)


class Tf32Products(TorchDispatchMode):
    """Rounds the float32 factors of matrix products; an addend (`addmm`'s first operand) keeps its bits."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its whole compiler to keep it away from this mode; nothing is compiled here."""
        return False

    def __init__(self, nearest: bool) -> None:
        super().__init__()
        self.nearest = nearest

    @in_parts
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = base_name(func)
        if name in _PRODUCTS:
            keep = 1 if name.startswith(("addmm", "baddbmm", "addbmm", "addmv")) else 0
            args = (*args[:keep], *tree_map(self._round, args[keep:]))
        return func(*args, **(kwargs or {}))

    def _round(self, x: Any) -> Any:
        return to_tf32(x, self.nearest) if isinstance(x, torch.Tensor) and x.dtype == torch.float32 else x


def reference_precision(name: str) -> AbstractContextManager[Any]:
    """The scope that gives float32 products of the reference this precision."""
    if name not in PRECISIONS:
        raise RenderError("RND902", f"unknown reference precision {name}", f"known: {', '.join(PRECISIONS)}")
    return nullcontext() if name == "ieee" else Tf32Products(nearest=name.endswith("rna"))
