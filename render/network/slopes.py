r"""Beyond intervals: a region linearised in its own roundings, by reverse mode, for a few outputs.

The module's core ATen graph runs in float64 with a zero d_k added to every result that rounds, |d_k| <= e_k by the
table's local errors. One sweep back per output y_j gives all slopes:

    first-order      B = sum_k |dy/dd_k| e_k                      attained within a few percent by d_k = +-e_k
    probabilistic    H = 6 sqrt(sum_k (dy/dd_k)^2 e_k^2 / 3)      independent roundings of mean zero: `margins`
    conditioning     C = sum_i |dy/dx_i| |x_i| u                  over inputs and parameters, signs kept

`valid` is False where an operand of a kink (max, where, atan2, floor, a quotient near 0) lies nearer to it than its own
error, so that the slope is not that of the other side: then only the interval says anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import fx

from render.interpreter.hosted.call import rounding_of
from render.network.capture import leaves
from render.network.records import FIRST_ORDER, PROBABILISTIC
from render.reference.local_error import Unit, base_name
from render.reference.running_error import Movable, error_of
from render.reference.shadow import F64, default_dtype, is_float
from render.result.margins import probable

LARGEST = 2000
"""Nodes of a graph that is still worth a sweep."""


@dataclass(frozen=True)
class Linearised:
    """Of one output element: E, the three sums, and whether they hold. Kinds as in the records."""

    exact: float
    first_order: float
    probabilistic: float
    conditioning: float
    valid: bool

    def bands(self) -> dict[str, float]:
        found = {FIRST_ORDER: self.first_order, PROBABILISTIC: min(self.first_order, self.probabilistic)}
        return found if self.valid else {}


def linearised(
    call: Callable[..., Any], inputs: Sequence[Any], places: Sequence[int], known: tuple[Hashable, ...] = ()
) -> list[Linearised]:
    """For flat `places` of the first tensor that `call(*inputs)` returns. ValueError where its graph is too large.

    `known`: what says which graph of these tensors it is, so that one is traced once.
    """
    graph = _known(call, inputs, known) if known else _traced(call, inputs)
    if len(graph.graph.nodes) > LARGEST:
        raise ValueError(f"{len(graph.graph.nodes)} operations are too many for a sweep back")
    run = _Linear(graph)
    with torch.enable_grad(), default_dtype(F64):
        out = run.run(*[x.to(F64).requires_grad_() if is_float(x) else x for x in inputs])
    flat = next(iter(leaves(out))).reshape(-1)
    return [run.swept(flat[j]) for j in places]


def _known(call: Callable[..., Any], inputs: Sequence[torch.Tensor], told: tuple[Hashable, ...]) -> fx.GraphModule:
    key = *told, *((x.shape, x.dtype) for x in inputs)
    if key not in _GRAPHS:
        if len(_GRAPHS) >= MANY:
            _GRAPHS.clear()
        _GRAPHS[key] = _traced(call, inputs)
    return _GRAPHS[key]


_GRAPHS: dict[Hashable, fx.GraphModule] = {}
MANY = 64
"""Graphs of one operation each."""


def _traced(call: Callable[..., Any], inputs: Sequence[Any]) -> fx.GraphModule:
    """The core ATen graph at the program's own dtypes, without in-place operations."""
    from torch.fx.experimental.proxy_tensor import make_fx

    plain = torch.func.functionalize(call, remove="mutations_and_views")
    with torch.no_grad():
        found: fx.GraphModule = make_fx(plain, _decompositions())(*inputs)
    return found


@cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    """To the core operations; torch makes the table anew, which takes as long as tracing a layer."""
    from torch._decomp import core_aten_decompositions

    return dict(core_aten_decompositions().items())


class _Linear(fx.Interpreter):
    """Runs a graph in float64 with a leaf beside each result that rounds."""

    def __init__(self, graph: fx.GraphModule) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.roundings: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.sources: list[torch.Tensor] = []
        self.errors: dict[int, torch.Tensor] = {}
        self.near: list[tuple[int, torch.Tensor]] = []

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self._source(super().placeholder(target, args, kwargs))

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self._source(super().get_attr(target, args, kwargs))

    def _source(self, x: Any) -> Any:
        if not is_float(x):
            return x
        x = x.detach().to(F64).requires_grad_()
        self.sources.append(x)
        return x

    def run_node(self, n: fx.Node) -> Any:
        if n.op != "call_function" or not isinstance(n.target, torch._ops.OpOverload):
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if any(isinstance(v, torch.dtype) and v.is_floating_point for v in kwargs.values()):
            kwargs = {**kwargs, "dtype": F64}
        name = base_name(n.target)
        with default_dtype(F64):
            out = args[0] * 1 if name == "_to_copy" and is_float(args[0]) else n.target(*args, **kwargs)
        if isinstance(out, (tuple, list)):
            first = self._rounded(n, name, args, kwargs, out[0], out) if out and is_float(out[0]) else out[0]
            return type(out)([first, *out[1:]]) if type(out) in (tuple, list) else (first, *out[1:])
        return self._rounded(n, name, args, kwargs, out, out) if is_float(out) else out

    def _rounded(self, n: fx.Node, name: str, args: Any, kwargs: Any, out: torch.Tensor, every: Any) -> torch.Tensor:
        """`out` with its rounding beside it; `every` result of the operation."""
        given = n.meta.get("val", out)
        given = given[0] if isinstance(given, (tuple, list)) else given
        outputs = [x.detach() if isinstance(x, torch.Tensor) else x for x in (every if every is not out else [out])]
        errors = [
            self.errors.get(id(t))
            for t in torch.utils._pytree.tree_leaves((args, kwargs))
            if isinstance(t, torch.Tensor)
        ]
        with torch.no_grad():
            own, total = (
                error_of(Movable(n.target, *_bare(args, kwargs), given_errors, default_dtype), outputs,
                         [getattr(given, "dtype", F64)] * len(outputs), Unit(native=True), False)[0]
                for given_errors in ([], errors)
            )  # fmt: skip
        near = self._guard(name, args, out)
        if near is not None:
            self.near.append((len(self.roundings), near))
            own = torch.zeros_like(out) if own is None else own
        if own is not None:
            delta = torch.zeros_like(out, requires_grad=True)
            self.roundings.append((delta, own))
            out = out + delta
        if total is not None:
            self.errors[id(out)] = total
        return out

    def _guard(self, name: str, args: Sequence[Any], out: torch.Tensor) -> torch.Tensor | None:
        """Where an operand of a kink is nearer to it than its error."""
        distance = _KINKS.get(name)
        tensors = [a for a in args if is_float(a)]
        if distance is None or not tensors:
            return None
        with torch.no_grad():
            apart = distance(*args).abs()
            room = sum((self.errors[id(t)] for t in tensors if id(t) in self.errors), torch.zeros(()))
            return ((apart <= room) & (room > 0)).expand(out.shape)

    def swept(self, y: torch.Tensor) -> Linearised:
        leaves = [d for d, _ in self.roundings]
        slopes = torch.autograd.grad(y, leaves + self.sources, retain_graph=True, allow_unused=True)
        parts = [(s.abs() * e).reshape(-1) for s, (_, e) in zip(slopes, self.roundings, strict=False) if s is not None]
        first = sum(float(p.sum()) for p in parts)
        square = sum(float((p * p).sum()) for p in parts)
        u = rounding_of(torch.float32)[0]
        own = zip(slopes[len(leaves) :], self.sources, strict=True)
        conditioning = (
            sum(float((s.abs() * x.detach().abs()).nan_to_num(0.0, 0.0, 0.0).sum()) for s, x in own if s is not None)
            * u
        )
        reached = ((slopes[i], near) for i, near in self.near)
        valid = math.isfinite(first) and not any(s is not None and bool(((s != 0) & n).any()) for s, n in reached)
        return Linearised(float(y.detach()), first, probable(square / 3), conditioning, valid)


def _bare(args: Any, kwargs: Any) -> tuple[Any, Any]:
    strip = lambda x: x.detach() if isinstance(x, torch.Tensor) else x  # noqa: E731
    found: tuple[Any, Any] = torch.utils._pytree.tree_map(strip, (args, kwargs))
    return found


def _of_first(*args: Any) -> torch.Tensor:
    found: torch.Tensor = args[0]
    return found


def _between(*args: Any) -> torch.Tensor:
    found: torch.Tensor = args[0] - args[1]
    return found


_KINKS: dict[str, Callable[..., torch.Tensor]] = {
    **dict.fromkeys(("relu", "sign", "abs", "leaky_relu", "elu"), _of_first),
    **dict.fromkeys(("maximum", "minimum", "gt", "lt", "ge", "le"), _between),
    "atan2": lambda y, x: torch.where(x.abs() < y.abs(), x, torch.where(x < 0, y, torch.ones_like(x))),
    "div": lambda x, y, **_: y if isinstance(y, torch.Tensor) else torch.ones(()),
    "reciprocal": _of_first,
    "floor": lambda x: x - x.round(),
    "round": lambda x, *_: x - x.floor() - 0.5,
}
"""How far the operands are from where the slope changes."""
