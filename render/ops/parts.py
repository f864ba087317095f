"""Operations that are several plain ones: on lists of tensors, on complex numbers, a recurrent layer as a whole, and
on tensors of another class.

Whoever follows operations follows the plain ones, in place of the whole (`in_parts`). PyTorch documents
`torch._foreach_*`, which optimisers and the clipping of gradients call, as the plain operation on every tensor of the
list, and its kernels on a CPU are that loop (aten/src/ATen/native/ForeachOpsKernels.cpp). Complex numbers are taken
apart by `render.ops.complexes`. oneDNN's layer of an LSTM is the recurrence that `torch.nn.LSTM` documents. A subclass
of tensor with a `__torch_dispatch__` of its own (jagged, quantised, distributed, masked tensors) computes with the
plain tensors that it holds: those steps are what a mode follows. Fake tensors and those on the meta device have shapes
and no elements: there is nothing to follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial, wraps
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from render.ops.complexes import of_parts, plain_of

_PREFIX = "aten::_foreach_"
_NAMED = {"norm": torch.linalg.vector_norm}
"""Those whose plain operation goes by another name."""
_STRIDED = frozenset(f"aten::_nested_{n}" for n in ("tensor_from_tensor_list", "tensor_from_mask", "from_padded",
                                                    "view_from_buffer"))  # fmt: skip
_PLAIN = torch.Tensor.__torch_dispatch__
_TRACED = frozenset(["torch._subclasses.fake_tensor", "torch._subclasses.functional_tensor"])
"""Classes that compute under a mode of their own, which torch asks next."""
_LSTM = 2
"""How ATen numbers the kinds of recurrent cells."""
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


def lstm_layer(*args: Any) -> tuple[torch.Tensor | None, ...]:
    """One direction of one layer, over (time, batch, features).

    All addends of a gate are one sum in no order: oneDNN accumulates the products with the state onto those with the
    input, torch's own layer adds two sums and two biases.
    """
    x, w, u, b, d, h, c, reverse, _, _, size, _, biases = args[:13]
    ones, shape = x.new_ones(x.shape[1], 2), h.shape
    weights = torch.cat([w, u, b[:, None], d[:, None]] if biases else [w, u], 1)
    h, c, found = h.reshape(-1, size), c.reshape(-1, size), []
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        gates = torch.nn.functional.linear(torch.cat([x[t], h, ones] if biases else [x[t], h], 1), weights)
        i, f, g, o = gates.chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        found.append(h)
    y = torch.stack(found[::-1] if reverse else found)
    return y, h.reshape(shape), c.reshape(shape), None


def _is_lstm(args: Sequence[Any]) -> bool:
    """Whether these are the arguments of such a layer: of whole batches, without what its backward pass wants."""
    return len(args) == 16 and args[9] == _LSTM and not args[8] and not args[15] and len(args[0]) > 0


def weighed(x: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0) -> torch.Tensor | None:
    """bincount with weights, a sum at the places of whole numbers; None without: a count.

    In float32 for weights of that type, in float64 for all others (aten/src/ATen/native/SummaryOps.cpp).
    """
    if weights is None or not x.numel():
        return None
    dtype = torch.float32 if weights.dtype == torch.float32 else torch.float64
    places = max(int(x.max()) + 1, minlength)
    return torch.zeros(places, dtype=dtype).index_add(0, x, weights.to(dtype))


@cache
def _way(func: Any) -> Callable[..., Any] | bool | None:
    """True for an operation on lists, what puts one on complex numbers together, or None: looked up at each step."""
    if type(func) is not torch._ops.OpOverload:
        return None
    if func._schema.name in _STRIDED:
        return _refused
    if func._schema.name == "aten::_neg_view":
        return _negated
    if func._schema.name in _LAYERS:
        return _LAYERS[func._schema.name]
    return func._schema.name.startswith(_PREFIX) or plain_of(func)


_LAYERS: dict[str, Callable[..., Any]] = {"aten::mkldnn_rnn_layer": lstm_layer, "aten::bincount": weighed}
"""Operations that are followed through steps of our own, for the arguments that these take."""


def _refused(*_: Any) -> Any:
    message = "nested tensors of the strided layout, which have no shape, are not followed"
    raise NotImplementedError(f"{message}: use layout=torch.jagged, or a loop over the tensors")


def _negated(x: torch.Tensor) -> torch.Tensor:
    """A view whose elements are those of its memory with another sign: as numbers of its own."""
    return x.neg()


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
        if types and any(map(dispatches, types)):
            if not any(kind.__module__ in _TRACED for kind in types):
                return NotImplemented  # torch asks the subclass, with the mode in place
            return func(*args, **(kwargs or {}))
        if of_shapes(args, kwargs):
            return func(*args, **(kwargs or {}))
        way = _way(func)
        if way is True and (calls := each(func, args, kwargs or {})) is not None:
            with _again(self):
                out = [call() for call in calls]
            return out if func._schema.returns else None
        if way is _refused or way is _negated or (way is lstm_layer and _is_lstm(args)):
            with _again(self):
                return way(*args)
        if way is weighed:
            with _again(self):
                if (sums := weighed(*args, **(kwargs or {}))) is not None:
                    return sums
        if (
            callable(way)
            and way not in _LAYERS.values()
            and (whole := of_parts(func, way, args, kwargs or {})) is not None
        ):
            with _again(self):
                return whole()
        return dispatch(self, func, types, args, kwargs)

    return dispatched
