"""Operations that are several plain ones: on lists of tensors, on complex numbers, layers as a whole, and on tensors of
another class.

Whoever follows operations follows the plain ones, in place of the whole (`in_parts`). PyTorch documents
`torch._foreach_*`, which optimisers and the clipping of gradients call, as the plain operation on every tensor of the
list, and its kernels on a CPU are that loop (aten/src/ATen/native/ForeachOpsKernels.cpp). Complex numbers are taken
apart by `render.ops.complexes`, layers by `render.ops.layers`. In inference mode, and below autograd, conversions and
reshapes arrive whole, which are views at one time and copies at another: they are followed as what they then do. A
subclass of tensor with a `__torch_dispatch__` of its own (jagged, quantised, distributed, masked tensors) computes with
the plain tensors that it holds: those steps are what a mode follows. Fake tensors and those on the meta device have
shapes and no elements: there is nothing to follow. Nor is there where a tensor changes its geometry in place: what is
known of memory stays. Sparse tensors are followed as dense ones (`render.ops.sparse`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial, wraps
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from render.ops import sparse
from render.ops.complexes import of_parts, plain_of
from render.ops.layers import LAYERS, Layer

_PREFIX = "aten::_foreach_"
_NAMED = {"norm": torch.linalg.vector_norm}
"""Those whose plain operation goes by another name."""
_STRIDED = frozenset(f"aten::_nested_{n}" for n in ("tensor_from_tensor_list", "tensor_from_mask", "from_padded",
                                                    "view_from_buffer"))  # fmt: skip
_RESHAPING = frozenset(f"aten::{n}_" for n in ("transpose", "t", "squeeze", "unsqueeze", "swapaxes", "swapdims"))
_PLAIN = torch.Tensor.__torch_dispatch__
_TRACED = frozenset(["torch._subclasses.fake_tensor", "torch._subclasses.functional_tensor"])
"""Classes that compute under a mode of their own, which torch asks next."""
_OF_NUMBERS = {"maximum": torch.clamp_min, "minimum": torch.clamp_max}
_KEYWORDS = frozenset(["alpha", "dtype", "memory_format"])


def each(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Callable[[], Any]] | None:
    """Calls of the plain operation, one a tensor, that together are `func`; None where it is no operation on lists."""
    schema = func._schema
    if not schema.name.startswith(_PREFIX):
        return None
    name, in_place = schema.name.removeprefix(_PREFIX).removesuffix("_"), schema.name.endswith("_")
    plain = _NAMED.get(name) or getattr(torch, name, getattr(torch.Tensor, f"{name}_", None) if in_place else None)
    if plain is None:
        return None
    lists = [(s.name, v) for s, v in zip(schema.arguments, args, strict=False)] + list(kwargs.items())
    # factors of a list of products may come as a tensor of numbers
    lists = [(n, v.tolist() if n == "scalars" and isinstance(v, torch.Tensor) else v) for n, v in lists]
    calls: list[Callable[[], Any]] = []
    for k in range(len(args[0] if isinstance(args[0], list | tuple) else args[1])):
        own = [(n, v[k] if isinstance(v, list | tuple) else v) for n, v in lists]
        named = {n: v for n, v in own if n in _KEYWORDS}
        one = [v for n, v in own if n not in _KEYWORDS]
        if name in ("addcmul", "addcdiv") and len(one) == 4:
            named["value"] = one.pop()
        chosen = _OF_NUMBERS.get(name, plain) if not isinstance(one[-1], torch.Tensor) else plain
        calls.append(partial(_written if in_place else _called, chosen, name, one, named))
    return calls


def _called(plain: Callable[..., Any], _: str, one: Sequence[Any], named: dict[str, Any]) -> Any:
    return plain(*one, **named)


def _written(plain: Callable[..., Any], name: str, one: Sequence[Any], named: dict[str, Any]) -> Any:
    """In place, where a tensor has such a method."""
    method = getattr(torch.Tensor, f"{name}_", None)
    return method(*one, **named) if method is not None else one[0].copy_(plain(*one, **named))


@cache
def _way(func: Any) -> Callable[..., Any] | Layer | bool | None:
    """True for an operation on lists, what puts one on complex numbers together, or None: looked up at each step."""
    if type(func) is not torch._ops.OpOverload:
        return None
    if func._schema.name in _STRIDED:
        return _refused
    if func._schema.name in _RESHAPING:
        return _reshaped
    if func._schema.name == "aten::_neg_view":
        return _negated
    if func._schema.name == "aten::_efficientzerotensor":
        return _zeros
    if any(a.alias_info and not a.alias_info.is_write for a in func._schema.returns) and _composite(func):
        return _composite
    if func._overloadname == "vec" and _composite(func):  # interpolations by factors, whole in inference mode
        return _composite
    return func._schema.name.startswith(_PREFIX) or LAYERS.get(func._schema.name) or plain_of(func)


def _composite(func: Any) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))


def _refused(*_: Any, **__: Any) -> Any:
    message = "nested tensors of the strided layout, which have no shape, are not followed"
    raise NotImplementedError(f"{message}: use layout=torch.jagged, or a loop over the tensors")


def _reshaped(mode: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """What waits for the tensor as it is is computed first, by a mode that puts things off."""
    getattr(mode, "settle", lambda _: None)(args[0])
    return func(*args, **kwargs)  # the user's call


def _negated(x: torch.Tensor) -> torch.Tensor:
    """A view whose elements are those of its memory with another sign: as numbers of its own."""
    return x.neg()


def _zeros(size: Sequence[int], **kwargs: Any) -> torch.Tensor:
    """A tensor of zeros without memory, as forward derivatives begin: with memory."""
    return torch.zeros(size, **kwargs)


def dispatches(kind: type) -> bool:
    """Whether a class of tensors says itself what operations do, with other tensors inside; it may have no memory."""
    return getattr(kind, "__torch_dispatch__", _PLAIN) is not _PLAIN


def of_shapes(args: Sequence[Any], kwargs: dict[str, Any] | None) -> bool:
    """Whether an operation computes shapes alone, on the meta device."""
    for x in args:
        x = x[0] if isinstance(x, (list, tuple)) and x else x
        if isinstance(x, torch.Tensor) and x.is_meta:
            return True
    where = kwargs.get("device") if kwargs else None
    return where is not None and torch.device(where).type == "meta"


@contextmanager
def _again(mode: TorchDispatchMode) -> Iterator[None]:
    """The mode sees operations from within its own dispatch; what it does besides when it is entered was done."""
    TorchDispatchMode.__enter__(mode)
    try:
        yield
    finally:
        TorchDispatchMode.__exit__(mode, None, None, None)


def in_parts(dispatch: Callable[..., Any]) -> Callable[..., Any]:
    """For `__torch_dispatch__` of a mode that follows operations: it sees the plain ones."""

    @wraps(dispatch)
    def dispatched(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, HigherOrderOperator):
            return dispatch(self, func, types, args, kwargs)
        if types and any(map(dispatches, types)):
            if not any(kind.__module__ in _TRACED for kind in types):
                return NotImplemented  # torch asks the subclass, with the mode in place
            return func(*args, **(kwargs or {}))  # the user's call
        if of_shapes(args, kwargs):
            return func(*args, **(kwargs or {}))  # the user's call
        if func._schema.name in sparse.MAKES or any(map(sparse.is_sparse, args)):
            with _again(self):
                out = sparse.followed(func, args, kwargs or {})
            if out is not NotImplemented:
                return out
            out = dispatch(self, func, types, args, kwargs)
            sparse.lost(func, args, out)
            return out
        way = _way(func)
        if way is True and (calls := each(func, args, kwargs or {})) is not None:
            with _again(self):
                out = [call() for call in calls]
            return out if func._schema.returns else None
        if way is _reshaped:
            return _reshaped(self, func, args, kwargs or {})
        if way is _refused or way is _negated or way is _zeros:
            with _again(self):
                return way(*args, **(kwargs or {}))
        if way is _composite:
            with _again(self):
                return func.decompose(*args, **(kwargs or {}))  # the user's call
        if isinstance(way, Layer) and way.fits(*args, **(kwargs or {})):
            with _again(self):
                return way.steps(*args, **(kwargs or {}))
        if callable(way) and (whole := of_parts(func, way, args, kwargs or {})) is not None:
            with _again(self):
                return whole()
        return dispatch(self, func, types, args, kwargs)

    return dispatched
