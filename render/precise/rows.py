"""Reductions, scans and whole-matrix operations on numbers of many bits, by the base name of PyTorch's operation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from render.precise.elementwise import HEAVY, Rule
from render.precise.graph import Ids, Product, Refused
from render.precise.numbers import Num, Numbers

if TYPE_CHECKING:
    from render.precise.recorder import Recorder

Reducer = Callable[[Numbers, list[Num]], Num]


def _mean(n: Numbers, xs: list[Num]) -> Num:
    return n.sum(xs) / len(xs)


def _prod(n: Numbers, xs: list[Num]) -> Num:
    return math.prod(xs, start=n.number(1.0))


def _extreme(largest: bool) -> Reducer:
    def fn(n: Numbers, xs: list[Num]) -> Num:
        found = xs[0]
        for x in xs[1:]:
            found = n.larger(found, x) if largest else n.smaller(found, x)
        return found

    return fn


def _variance(n: Numbers, xs: list[Num], less: float) -> Num:
    """Two passes: sum (x - mean)^2 / max(0, N - less)."""
    middle = _mean(n, xs)
    return n.sum([(x - middle) ** 2 for x in xs]) / n.number(max(0.0, len(xs) - less))


def _logsumexp(n: Numbers, xs: list[Num]) -> Num:
    most = _extreme(True)(n, xs)
    return most + n.call("log", n.sum([n.call("exp", x - most) for x in xs]))


def _norm(n: Numbers, xs: list[Num], order: float) -> Num:
    if order == 2:
        return n.call("sqrt", n.sum([x * x for x in xs]))
    if order == 1:
        return n.sum([abs(x) for x in xs])
    if math.isinf(order):
        return _extreme(order > 0)(n, [abs(x) for x in xs])
    p = n.number(float(order))
    return n.sum([abs(x) ** p for x in xs]) ** (1 / p)


def _reduced(name: str, fn: Reducer, weight: float = 1.0) -> Rule:
    def rule(r: Recorder, x: Ids, dim: Any = None, keepdim: bool = False, **_: Any) -> Ids:
        return r.reduce(name, fn, x, dim, keepdim, weight)

    return rule


def _with_index(name: str, fn: Reducer) -> Rule:
    """max.dim: the index is an integer, and integers are not followed."""

    def rule(r: Recorder, x: Ids, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, np.ndarray):
            return r.map(name, lambda n, a, b: fn(n, [a, b]), x, dim)
        found = r.reduce(name, fn, x, dim, keepdim)
        return found if dim is None else (found, None)

    return rule


def _correction(named: dict[str, Any], unbiased: bool) -> float:
    given = named.get("correction", 1 if named.get("unbiased", unbiased) else 0)
    return 1.0 if given is None else float(given)


def _var(name: str, root: bool, mean: bool) -> Rule:
    def rule(r: Recorder, x: Ids, dim: Any = None, unbiased: Any = True, keepdim: bool = False, **named: Any) -> Any:
        if isinstance(dim, bool):  # var(Tensor, bool unbiased)
            dim, unbiased = None, dim
        less = _correction(named, bool(unbiased))

        def fn(n: Numbers, xs: list[Num]) -> Num:
            found = _variance(n, xs, less)
            return n.call("sqrt", found) if root else found

        spread = r.reduce(name, fn, x, dim, keepdim, 4)
        return (spread, r.reduce("mean", _mean, x, dim, keepdim)) if mean else spread

    return rule


def _vector_norm(r: Recorder, x: Ids, order: Any = 2, dim: Any = None, keepdim: bool = False, **_: Any) -> Ids:
    return r.reduce("norm", lambda n, xs: _norm(n, xs, 2.0 if order is None else float(order)), x, dim, keepdim, 2)


def _scanned(name: str, fn: Callable[[Numbers, list[Num]], Sequence[Num]], weight: float = 1.0) -> Rule:
    def rule(r: Recorder, x: Ids, dim: int, *_: Any, **__: Any) -> Ids:
        return r.scan(name, fn, x, dim, weight)

    return rule


def _softmax(n: Numbers, xs: list[Num], logs: bool = False, safe: bool = False) -> Sequence[Num]:
    if safe and all(n.sign(x) == -1 and x == n.number(-math.inf) for x in xs):
        return [n.number(0.0)] * len(xs)
    most = _extreme(True)(n, xs)
    powers = [n.call("exp", x - most) for x in xs]
    total = n.sum(powers)
    if logs:
        total = n.call("log", total)
        return [x - most - total for x in xs]
    return [p / total for p in powers]


def _softmax_backward(r: Recorder, grad: Ids, y: Ids, dim: int, *_: Any) -> Ids:
    inner = r.reduce("sum", lambda n, xs: n.sum(xs), r.map("mul", lambda n, a, b: a * b, grad, y), dim, True)
    return r.map("_softmax_backward_data", lambda n, g, p, s: p * (g - s), grad, y, inner, weight=2)


def _log_softmax_backward(r: Recorder, grad: Ids, y: Ids, dim: int, *_: Any) -> Ids:
    inner = r.reduce("sum", lambda n, xs: n.sum(xs), grad, dim, True)
    fn = lambda n, g, p, s: g - n.call("exp", p) * s  # noqa: E731
    return r.map("_log_softmax_backward_data", fn, grad, y, inner, weight=HEAVY)


def _layer_norm(r: Recorder, x: Ids, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Any:
    dims = list(range(-len(shape), 0))
    mean = r.reduce("mean", _mean, x, dims, True)
    spread = r.reduce("var", lambda n, xs: _variance(n, xs, 0.0), x, dims, True, 4)
    scale = r.map("rsqrt", lambda n, v: 1 / n.call("sqrt", v + n.number(float(eps))), spread, weight=3)
    y = r.map("native_layer_norm", lambda n, a, m, s: (a - m) * s, x, mean, scale, weight=2)
    y = y if weight is None else r.map("mul", lambda n, a, b: a * b, y, weight)
    y = y if bias is None else r.map("add", lambda n, a, b: a + b, y, bias)
    return y, mean, scale


# products
def _product(r: Recorder, a: Ids, b: Ids) -> Ids:
    """a @ b for two or three dimensions each."""
    flat = a.ndim == 2
    a, b = (a[None], b[None]) if flat else (a, b)
    shape = (a.shape[0], a.shape[1], b.shape[2])
    if not a.shape[2]:
        return r.constant(0.0, shape[1:] if flat else shape)
    found = r.graph.add(Product(np.ascontiguousarray(a), np.ascontiguousarray(b)), shape)
    return found[0] if flat else found


def _mv(r: Recorder, a: Ids, v: Ids) -> Ids:
    return _product(r, a, v[:, None])[:, 0]


def _dot(r: Recorder, a: Ids, b: Ids, **_: Any) -> Ids:
    return _product(r, a[None, :], b[:, None])[0, 0]


def _added(rule: Rule) -> Rule:
    """addmm and the like: beta c + alpha (a @ b)."""

    def fn(r: Recorder, c: Ids, a: Ids, b: Ids, beta: Any = 1, alpha: Any = 1, **_: Any) -> Ids:
        made = rule(r, a, b)
        if beta == 0:
            return r.map("mul", lambda n, p, k: p * k, made, alpha)
        return r.map("addmm", lambda n, z, p, k, m: k * z + m * p, c, made, beta, alpha, weight=3)

    return fn


def _linear(r: Recorder, x: Ids, w: Ids, bias: Any = None) -> Ids:
    made = _product(r, x.reshape(-1, x.shape[-1]), w.T).reshape(*x.shape[:-1], w.shape[0])
    return made if bias is None else r.map("add", lambda n, a, b: a + b, made, bias)


def _convolution(
    r: Recorder, x: Ids, w: Ids, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, _: Any,
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
    made = [_product(r, np.broadcast_to(weights[g], (batch, *weights[g].shape)), parts[:, g]) for g in range(groups)]
    pads = [x.shape[2 + d] + 2 * padding[d] - dilation[d] * (w.shape[2 + d] - 1) - 1 for d in (0, 1)]
    found = np.concatenate(made, 1).reshape(batch, w.shape[0], *(p // s + 1 for p, s in zip(pads, stride, strict=True)))
    if bias is not None:
        found = r.map("add", lambda n, a, b: a + b, found, bias[:, None, None])
    return found[:, :, 0] if flat else found


# whole matrices
def _matrices(name: str, shape: Callable[..., tuple[int, ...]], outputs: int) -> Rule:
    """`solved` of every matrix of a batch; the factors that PyTorch returns beside it are not followed."""

    def rule(r: Recorder, *given: Any, left: bool = True, **_: Any) -> Any:
        ids = [x for x in given if isinstance(x, np.ndarray)]
        if not left or any(x.ndim < 2 or x.shape[:-2] != ids[0].shape[:-2] for x in ids):
            raise Refused(f"no rule for this form of {name}")
        sizes = [x.shape[-2:] for x in ids]
        rows = [x.reshape(-1, x.shape[-2] * x.shape[-1]) for x in ids]

        def fn(n: Numbers, *flat: list[Num]) -> Sequence[Num]:
            made = []
            for values, size in zip(flat, sizes, strict=True):
                matrix = np.empty(len(values), object)
                matrix[:] = values
                made.append(matrix.reshape(size))
            return n.solved(name, *made).ravel().tolist()

        inner = shape(*sizes)
        width = int(np.prod(inner, dtype=np.int64))
        found = r.rows(name, fn, rows, (*ids[0].shape[:-2], *inner), width, 2.0 * sizes[0][0])
        return (found, *[None] * (outputs - 1))

    return rule


ROWS: dict[str, Rule] = {
    "sum": _reduced("sum", lambda n, xs: n.sum(xs)),
    "mean": _reduced("mean", _mean),
    "prod": _reduced("prod", _prod),
    "amax": _reduced("amax", _extreme(True)),
    "amin": _reduced("amin", _extreme(False)),
    "max": _with_index("max", _extreme(True)),
    "min": _with_index("min", _extreme(False)),
    "logsumexp": _reduced("logsumexp", _logsumexp, HEAVY),
    "var": _var("var", root=False, mean=False),
    "std": _var("std", root=True, mean=False),
    "var_mean": _var("var_mean", root=False, mean=True),
    "std_mean": _var("std_mean", root=True, mean=True),
    "linalg_vector_norm": _vector_norm,
    "norm": _vector_norm,
    "cumsum": _scanned("cumsum", lambda n, xs: list(accumulate(xs))),
    "cumprod": _scanned("cumprod", lambda n, xs: list(accumulate(xs, lambda a, b: a * b))),
    "_softmax": _scanned("softmax", _softmax, HEAVY),
    "_safe_softmax": _scanned("softmax", lambda n, xs: _softmax(n, xs, safe=True), HEAVY),
    "_log_softmax": _scanned("log_softmax", lambda n, xs: _softmax(n, xs, logs=True), HEAVY),
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _log_softmax_backward,
    "native_layer_norm": _layer_norm,
    "mm": _product,
    "bmm": _product,
    "mv": _mv,
    "dot": _dot,
    "vdot": _dot,
    "addmm": _added(_product),
    "baddbmm": _added(_product),
    "addmv": _added(_mv),
    "linear": _linear,
    "convolution": _convolution,
    "_linalg_det": _matrices("det", lambda a: (), 3),
    "_linalg_solve_ex": _matrices("solve", lambda a, b: b, 4),
    "linalg_inv_ex": _matrices("inv", lambda a: a, 2),
}
