r"""How large the error of an element typically is, by cause: what an execution does, where a bound says what it may do.

A bound is the worst case over all executions. That of a sum of n terms grows with n u; what an execution loses grows
with sqrt(n) u, because roundings fall either way. So the cause that owns a bound need not be the one that makes two
results differ. Here every operation gets the error that it makes on average, a mean m and a variance s^2, and

    size(cause)^2 = (sum_i w_i m_i)^2 + sum_i w_i^2 s_i^2,    w_i = d result / d value_i at the values of the run.

Roundings are taken as independent and uniform in the interval that they round (variance (2 h)^2 / 12 for the half
spacing h), what a unit cuts towards zero has mean -h. Sources: Higham and Mary, A New Approach to Probabilistic
Rounding Error Analysis, SIAM J. Sci. Comput. 41(5), 2019; Widrow and Kollar, Quantization Noise, 2008. Sums are taken
in the order of their terms, which is one legal execution. Operands that a unit reads with fewer bits are known, and so
is what that changes. No size exceeds the whole width of the cause's part of the bound. The probabilistic band of an
element (`margins.probable`) is made of the same sums, with their signs; what an earlier launch left as a mere bound,
and was not followed into, counts in it with its whole half width.

This is no bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from interval_ops.dot.readings import truncate_tf32
from interval_ops.formats.model import FORMATS
from interval_ops.profiles.profile import DotModel
from interval_ops.reduction.rule import rounding_unit
from render.ops.rule import Lane, Shape
from render.result.margins import probable
from render.trace.batch import sums
from render.trace.model import ABSENT, Node
from render.trace.nodes import NODES

if TYPE_CHECKING:
    from render.trace.adjoint import Key, Sweep
    from render.trace.batch import Batch

_EXPONENT = np.uint64(0x7FF0000000000000)
"""All of a float64 but its sign and fraction."""

_POWER = 0.54
"""Mean of (largest power of two below |x| over |x|)^2 where log |x| is uniform: 3 / (8 ln 2)."""

Array = np.ndarray
_HULLS = frozenset(["cast", "arith", "narrow", "contraction"])
Error = tuple[str, Array, Array]
"""Cause, mean and variance of what an operation does to each of its values."""


EARLIER = "earlier"
"""Cause of a bound that an earlier launch, another program or the host gave, and that was not followed."""


def typical(
    sweep: Sweep, batch: Batch, largest: Sequence[dict[Key, float]]
) -> list[tuple[dict[Key, float], float, float]]:
    """Of every member: (mean square error by cause and line, that of the last rounding alone, half width of its band).

    `largest`: parts of the members' bounds.
    """
    weight = np.zeros(len(sweep.v))
    weight[list(batch.roots)] = 1.0
    members = range(len(largest))
    means: list[dict[Key, float]] = [{} for _ in members]
    squares: list[dict[Key, float]] = [{} for _ in members]
    last, fixed = [0.0 for _ in members], [0.0 for _ in members]
    with np.errstate(all="ignore"):
        for i in range(len(batch.nodes) - 1, -1, -1):
            node, bounds = batch.nodes[i], batch.bounds[i]
            mine = weight[node.start : node.stop]
            for cause, mean, variance in _errors(sweep, i):
                key = (cause, node.file, node.line)
                if cause == EARLIER:
                    for m, reach in enumerate(sums(np.abs(mine) * np.sqrt(3 * variance), bounds)):
                        fixed[m] += reach
                shifts, spreads = mine * mean, mine**2 * variance
                for m, shift, spread in zip(members, sums(shifts, bounds), sums(spreads, bounds), strict=True):
                    means[m][key] = means[m].get(key, 0.0) + shift
                    squares[m][key] = squares[m].get(key, 0.0) + spread
                if any(node.start <= root < node.stop for root in batch.roots):
                    ends = sums(shifts**2 + spreads, bounds)
                    for m, root in enumerate(batch.roots):
                        last[m] += ends[m] if node.start <= root < node.stop else 0.0
            if node in sweep.slopes:
                _back(sweep, node, mine, weight)
    return [
        (_sizes(mean, square, most), end, _band(mean, square, rest))
        for mean, square, most, end, rest in zip(means, squares, largest, last, fixed, strict=True)
    ]


def _band(means: dict[Key, float], squares: dict[Key, float], fixed: float) -> float:
    chance = sum(square for key, square in squares.items() if key[0] != EARLIER)
    return probable(chance, abs(sum(means.values())) + fixed)


def _sizes(means: dict[Key, float], squares: dict[Key, float], largest: dict[Key, float]) -> dict[Key, float]:
    sizes = {key: min(means[key] ** 2 + squares[key], (2 * largest.get(key, 0.0)) ** 2) for key in means}
    return {key: size for key, size in sizes.items() if size > 0}


def _back(sweep: Sweep, node: Node, mine: Array, weight: Array) -> None:
    for o, slope in zip(node.operands, DERIVATIVES[node.op](sweep, node), strict=True):
        known = slope if np.isfinite(slope).all() else np.nan_to_num(slope, posinf=0.0, neginf=0.0)
        np.add.at(weight, o, known * (mine[:, None] if o.ndim == 2 else mine))


# what an operation does to its values


def _errors(sweep: Sweep, i: int) -> list[Error]:
    node = sweep.found.nodes[i]
    at = slice(node.start, node.stop)
    if node.op == "dot":
        return _dot(sweep, node)
    if node.op == "fold":
        variance = (rounding_unit(FORMATS[node.attrs["fmt"]]) * _power(sweep.v[at])) ** 2 / 3
        return [(sweep.profile.dot(node.attrs["kind"]).cause, np.zeros(node.size), variance)]
    found: list[Error] = []
    for cause, own in sweep.own[i]:
        if node.op in ("sum", "atomic_sum"):
            variance = np.minimum(_partial_sums(sweep, node), own**2)
        elif cause in _HULLS and node.operands and _points(sweep, node):
            variance = (2 * own) ** 2  # the hull of a number and its rounding: the error is all of its width
        else:
            variance = np.minimum(own, _nominal(sweep, node)) ** 2 / 3
        found.append((cause, np.zeros(node.size), variance))
    return found


def _nominal(sweep: Sweep, node: Node) -> Array:
    """Half the spacing at the value, where one rounding to nearest is all: a wide bound's is that of its larger end."""
    name = node.attrs.get("dst" if node.op == "cast" else "fmt")
    if name not in FORMATS or not (node.op == "cast" or NODES[node.op].shape in (Shape.LINEAR, Shape.BILINEAR)):
        return np.full(node.size, np.inf)
    fmt, steps = FORMATS[name], 2 if node.op.endswith("fma") else 1
    found: Array = steps * rounding_unit(fmt) * _power(sweep.v[node.start : node.stop]) + fmt.half_subnormal
    return found


def _points(sweep: Sweep, node: Node) -> bool:
    return not any(sweep.half[o].any() or not sweep.known[o].all() for o in node.operands)


def _partial_sums(sweep: Sweep, node: Node) -> Array:
    """Variance of rounding every partial sum; the first term is not rounded.

    That of the terms in their order, or, where it is larger, the mean over all orders: a partial sum of k of n terms
    has the mean (k / n) S and the variance k (n - k) / (n (n - 1)) sum (x - S / n)^2 over them.
    """
    (o,) = node.operands
    terms = sweep.v[o]
    partial = np.cumsum(terms, axis=1)
    rounded = (terms != 0) & (np.cumsum(terms != 0, axis=1) > 1)
    half = rounding_unit(FORMATS[node.attrs["fmt"]]) * _power(partial)
    in_order = (np.where(rounded, half, 0.0) ** 2).sum(axis=1)
    n = np.maximum((terms != 0).sum(axis=1), 1)
    total, square = terms.sum(axis=1), (terms**2).sum(axis=1)
    spread = np.maximum(square - total**2 / n, 0.0)
    # sums over k = 2 .. n of (k / n)^2 and of k (n - k) / (n (n - 1))
    drift, scatter = (n + 1) * (2 * n + 1) / (6 * n) - 1 / n**2, (n + 1) / 6
    mean = rounding_unit(FORMATS[node.attrs["fmt"]]) ** 2 * _POWER * (drift * total**2 + scatter * spread)
    found: Array = np.maximum(in_order, np.where(n > 1, mean, 0.0)) / 3
    return found


def _dot(sweep: Sweep, node: Node) -> list[Error]:
    model = sweep.profile.dot(node.attrs["kind"])
    acc, a, b = node.operands
    x, y = sweep.v[a], sweep.v[b]
    products = x * y
    mean, variance = np.zeros(node.size), np.zeros(node.size)
    if model.truncate == "tf32":
        read = truncate_tf32(x) * truncate_tf32(y)
        mean, products = (read - products).sum(axis=1), read
    if model.eps:
        variance = ((model.eps * products) ** 2).sum(axis=1) / 3
    off, spread = _blocks(sweep.v[acc], products, model)
    return [("operand", mean, variance), (model.cause, off, spread * model.terms)]


def _blocks(start: Array, products: Array, model: DotModel) -> tuple[Array, Array]:
    """(mean, variance) of a block-FMA unit: terms cut at the largest one's exponent, the sum of a block rounded."""
    size, k = products.shape
    count = -(-k // model.block)
    padded = np.zeros((size, count * model.block))
    padded[:, :k] = products
    terms = padded.reshape(size, count, model.block)
    after = start[:, None] + np.cumsum(terms.sum(axis=2), axis=1)
    kept = model.rho * (1 if model.chops else 2)
    grid = kept * _power(after)
    cut = np.zeros_like(after)
    mean, variance = np.zeros_like(after), np.zeros_like(after)
    if model.block > 1:
        held = np.concatenate([start[:, None], after[:, :-1] - _below(after[:, :-1], grid[:, :-1])], axis=1)
        full = np.concatenate([terms, held[:, :, None]], axis=2)
        cut = _power(np.abs(full).max(axis=2)) * 2.0**-model.fraction
        mean -= _below(full, cut[:, :, None]).sum(axis=2)  # what lies below the cut
    coarser = grid > cut  # else the sum of the cut terms is rounded already
    variance += np.where(coarser, grid**2 - cut**2, 0.0) / 12
    if model.chops:
        mean -= np.where(coarser, (grid - cut) / 2, 0.0) * np.sign(after)
    if model.convert:
        variance[:, -1] += _half(after[:, -1], model) ** 2 / 3
    busy = (terms != 0).any(axis=2)
    return np.where(busy, mean, 0.0).sum(axis=1), np.where(busy, variance, 0.0).sum(axis=1)


def _half(x: Array, model: DotModel) -> Array:
    return FORMATS[model.acc].u * _power(x)


def _power(x: Array) -> Array:
    """The largest power of two that is at most |x|; 0 for 0."""
    return (np.asarray(x, np.float64).view(np.uint64) & _EXPONENT).view(np.float64)


def _below(x: Array, power: Array) -> Array:
    """`np.fmod` by a power of two, without its loop: every step is exact."""
    found: Array = x - np.trunc(x / power) * power
    return found


# derivatives, with their signs


def _as_bounded(sweep: Sweep, node: Node) -> list[Array]:
    """The slopes of the bound, which are 0 and 1 or not signed, or those of a function."""
    return sweep.signed.get(node) or sweep.slopes[node]


def _product(sweep: Sweep, node: Node) -> list[Array]:
    x, y = node.operands[:2]
    return [sweep.v[y], sweep.v[x], *(np.ones(o.shape) for o in node.operands[2:])]


def _quotient(sweep: Sweep, node: Node) -> list[Array]:
    x, y = node.operands
    return [1 / sweep.v[y], -sweep.v[x] / sweep.v[y] ** 2]


def _prod(sweep: Sweep, node: Node) -> list[Array]:
    (o,) = node.operands
    whole = sweep.v[node.start : node.stop][:, None]
    return [np.where((o == ABSENT) | (sweep.v[o] == 0), 0.0, whole / sweep.v[o])]


DERIVATIVES: Lane[Callable[[Sweep, Node], list[Array]]] = Lane("derivatives", NODES, {
    **dict.fromkeys(("fsub", "library sub_rn"), lambda s, n: [np.ones(n.size), -np.ones(n.size)]),
    "fneg": lambda s, n: [-np.ones(n.size)],
    "fabs": lambda s, n: [np.sign(s.v[n.operands[0]])],
    "dot": lambda s, n: [np.ones(n.size), s.v[n.operands[2]], s.v[n.operands[1]]],
    "fdiv": _quotient,
    "precise_divf": _quotient,
    "prod": _prod,
}, {**dict.fromkeys(Shape, _as_bounded), Shape.BILINEAR: _product})  # fmt: skip

__all__ = ["DERIVATIVES", "typical"]
