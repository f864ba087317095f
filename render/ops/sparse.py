"""Sparse tensors as their elements at places: what is known of these is known of the memory that holds them.

Whoever follows operations sees plain tensors with memory. The elements of a sparse tensor are one; where a plain tensor
was made sparse, what was known of it goes to that memory. What computes with the sparse tensor computes with the dense
one that its elements make, for products with its zeros add nothing. What an operation without an entry here makes is
not known, and stays what it is to its mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

LARGEST = 1 << 24
"""Elements of a dense tensor that stands for a sparse one."""
Steps = Callable[..., Any]
_unknown = WeakTensorKeyDictionary()
"""Sparse tensors whose elements nobody followed."""
_KNOWN = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def is_sparse(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.layout is not torch.strided and x.layout is not torch.jagged


def _native(function: Steps, *args: Any, **kwargs: Any) -> Any:
    """Unseen by any mode."""
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        return function(*args, **kwargs)


def _elements(x: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """The memory of its elements, and where they are."""
    if x.layout is torch.sparse_coo:
        return _native(x._values), tuple(_native(x._indices).unbind(0))
    by_row = x.layout is torch.sparse_csr
    ends = _native(x.crow_indices if by_row else x.ccol_indices).long()
    outer = torch.repeat_interleave(torch.arange(ends.numel() - 1), ends.diff())
    inner = _native(x.col_indices if by_row else x.row_indices).long()
    return _native(x.values), (outer, inner) if by_row else (inner, outer)


def _plain(x: torch.Tensor) -> bool:
    """Whether single elements lie at places of all its axes."""
    if x.layout not in _KNOWN or x.numel() > LARGEST or not x.is_floating_point():
        return False
    return x.dim() == 2 if x.layout is not torch.sparse_coo else _native(x.dense_dim) == 0


def dense(x: torch.Tensor) -> torch.Tensor | None:
    """The dense tensor that it stands for; None where that is not known."""
    if x in _unknown or not _plain(x):
        return None
    values, places = _elements(x)
    return torch.zeros(tuple(x.shape), dtype=x.dtype).index_put(places, values, accumulate=True)


def _made(func: Any, args: Sequence[Any], kwargs: dict[str, Any], whole: torch.Tensor | None) -> Any:
    """The result of an operation, its elements those of a dense tensor."""
    if whole is None or not whole.is_floating_point() or whole.numel() > LARGEST:
        return NotImplemented
    out = _native(func, *args, **kwargs)
    if is_sparse(out) and _plain(out):
        values, places = _elements(out)
        values.copy_(whole[places])
    elif is_sparse(out):
        _unknown[out] = True
    return out


def _adds(x: torch.Tensor) -> bool:
    """Whether several elements may lie at one place."""
    return x.layout is torch.sparse_coo and not _native(x.is_coalesced)


def _converted(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    x = args[0]
    return _made(func, args, kwargs, dense(x) if is_sparse(x) else x)


def _moved(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The same movement of the dense tensor, or its product with a number."""
    others = args[1:]
    if any(is_sparse(a) or (isinstance(a, torch.Tensor) and a.dim()) for a in others):
        return NotImplemented
    x, name = dense(args[0]), func._schema.name.removeprefix("aten::")
    if x is None or (_adds(args[0]) and "coalesce" not in name):
        return NotImplemented
    if name not in ("coalesce", "_coalesce", "detach", "alias", "clone"):
        x = func._overloadpacket(x, *others, **{k: v for k, v in kwargs.items() if k == "dtype"})
    return _made(func, args, kwargs, x)


def _placed(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Of places and elements, whose memory may be another one then."""
    out = _native(func, *args, **kwargs)
    name = str(func._schema.name)
    given = args[4 if name.endswith("_with_dims_and_tensors") else 2 if "compressed" in name else 1]
    if not is_sparse(out) or not _plain(out):
        return out
    values, _ = _elements(out)
    if values.data_ptr() != given.data_ptr() and values.shape == given.shape:
        values.copy_(given)
    return out


def _computed(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The plain operation on the dense tensors."""
    given = [dense(a) if is_sparse(a) else a for a in args]
    if any(d is None and a is not None for d, a in zip(given, args, strict=True)):
        return NotImplemented
    name = func._schema.name.removeprefix("aten::_sparse_").removeprefix("aten::")
    if name in ("to_dense", "_to_dense"):
        kind = kwargs.get("dtype", args[1] if len(args) > 1 else None)
        return given[0] if kind is None or given[0] is None else given[0].to(kind)
    return getattr(torch, name)(*given, **kwargs)


_LAYOUTS = ("", "_csr", "_csc")
WAYS: dict[str, Steps] = {
    **{f"aten::{start}to_sparse{layout}": _converted for start in ("", "_") for layout in _LAYOUTS},
    **{f"aten::{n}": _moved for n in ("t", "transpose", "detach", "alias", "clone", "coalesce", "_coalesce", "_to_copy",
                                      "mul", "div", "neg")},
    **{f"aten::{n}": _placed for n in ("_sparse_coo_tensor_with_dims_and_tensors", "_sparse_coo_tensor_unsafe",
                                       "sparse_compressed_tensor", "_sparse_compressed_tensor_unsafe")},
    **{f"aten::{n}": _computed for n in ("mm", "mv", "bmm", "addmm", "addmv", "_sparse_mm", "_sparse_addmm", "to_dense",
                                         "_to_dense")},
}  # fmt: skip
MAKES = frozenset(name for name, way in WAYS.items() if way in (_converted, _placed))
"""Those that make sparse tensors of plain ones."""
_READS = frozenset(["aten::values", "aten::_values", "aten::crow_indices", "aten::col_indices", "aten::ccol_indices",
                    "aten::row_indices", "aten::indices", "aten::_indices", "aten::is_coalesced"])  # fmt: skip


def followed(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What an operation on sparse tensors gives, by plain ones; NotImplemented where it is not followed."""
    if func._schema.name in _READS:
        known = all(a not in _unknown for a in args if is_sparse(a))
        return _native(func, *args, **kwargs) if known else NotImplemented
    way = WAYS.get(func._schema.name)
    return NotImplemented if way is None else way(func, args, kwargs)


def lost(func: Any, args: Sequence[Any], out: Any) -> None:
    """What an operation that nobody followed made of sparse tensors, or wrote to them, is not known."""
    written = args if func._schema.is_mutable else ()
    for x in (*written, *(out if isinstance(out, (list, tuple)) else (out,))):
        if is_sparse(x):
            _unknown[x] = True
