"""Bounds of host operations against mpmath: every point of the operands' box, computed exactly, lies in the result.

The oracles are plain formulas on lists of mpmath numbers. Points are taken at the corners, the middle and at random;
torch's own results in the dtype lie inside as well. Every operation is tried in every dtype, on several shapes, with
narrow and wide boxes and with special values.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mpmath import mpf
from support import rng, trials

from render.interpreter.host import HostTracker
from render.interpreter.memory import Memory

mpmath.mp.prec = 160
RADII = dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), (2.0 ** (-9), 2.0 ** (-6), 0.3, 0.0))
RADII[torch.float64] = (2.0**-9, 2.0**-20, 0.3)
"""Host arithmetic on points is only bounded below float64, whose rounding is that of the reference itself."""
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


class World:
    def __init__(self) -> None:
        self.memory = Memory()
        self.tracker = HostTracker(self.memory)

    def result(self, lo: np.ndarray, hi: np.ndarray, v: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
        """A tensor that a kernel wrote with these bounds."""
        out = torch.zeros(v.shape, dtype=dtype)
        with self.tracker:  # carried as any operation would
            out.copy_(torch.from_numpy(v))
        self.memory.carry(out, lo, hi, frozenset())
        return out


def points(g: np.random.Generator, lo: np.ndarray, hi: np.ndarray, count: int) -> list[np.ndarray]:
    found = [lo, hi, 0.5 * lo + 0.5 * hi]
    for _ in range(count):
        part = np.round(g.uniform(0, 1, lo.shape), 2) if g.integers(2) else g.integers(0, 2, lo.shape).astype(float)
        found.append(np.clip(lo + part * (hi - lo), lo, hi))
    return found


def box(
    g: np.random.Generator, shape: tuple[int, ...], dtype: torch.dtype, low: float, high: float, radius: float
) -> Any:
    v = torch.from_numpy(g.uniform(low, high, shape)).to(dtype).double().numpy()
    r = radius * np.abs(v) * g.integers(0, 2, shape)
    lo, hi = np.clip(v - r, low, high), np.clip(v + r, low, high)
    return np.minimum(lo, v), np.maximum(hi, v), v


def exactly(oracle: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """The oracle on nested lists of mpmath numbers, as an object array."""
    lists = [np.vectorize(mpf, otypes=[object])(a).tolist() if a.size else a.tolist() for a in arrays]
    return np.array(oracle(*lists), object)


def check(operation: Any, oracle: Any, boxes: list[Any], dtype: torch.dtype, g: np.random.Generator) -> float:
    """Share of results with finite bounds; fails where one leaves its bounds."""
    world = World()
    tensors = [world.result(*b, dtype) for b in boxes]
    with world.tracker:
        out = operation(*tensors)
    out = out[0] if isinstance(out, tuple) else out
    envelope = world.memory.envelope(out)
    if envelope is None:  # nothing was rounded
        lo = hi = out.double().numpy()
    else:
        assert not envelope.taints, [world.memory.taints.get(i) for i in envelope.taints]
        lo, hi = envelope.lo, envelope.hi
    open_ = np.isnan(lo)
    sides = [points(g, b[0], b[1], 6) for b in boxes]
    for chosen in zip(*sides, strict=True):
        exact = exactly(oracle, *chosen).reshape(lo.shape)
        for index in np.ndindex(lo.shape):
            if open_[index] or exact[index] is None:
                continue
            assert lo[index] <= exact[index] <= hi[index], (index, lo[index], exact[index], hi[index])
        seen = operation(*(torch.from_numpy(c).to(dtype) for c in chosen))
        seen = (seen[0] if isinstance(seen, tuple) else seen).double().numpy()
        # What torch makes of a point that the dtype holds.
        held = all(np.array_equal(torch.from_numpy(c).to(dtype).double().numpy(), c) for c in chosen)
        if held:
            bad = ~open_ & ~((lo <= seen) & (seen <= hi)) & ~np.isnan(seen)
            assert not bad.any(), (lo[bad], seen[bad], hi[bad])
    return float(np.isfinite(lo).mean())


def each(f: Callable[..., Any]) -> Callable[..., Any]:
    """An oracle of single numbers on nested lists of one shape."""

    def run(*xs: Any) -> Any:
        return [run(*ys) for ys in zip(*xs, strict=True)] if isinstance(xs[0], list) else f(*xs)

    return run


def rows(f: Callable[..., Any]) -> Callable[..., Any]:
    """An oracle of rows: along the last axis."""

    def run(*xs: Any) -> Any:
        return [run(*ys) for ys in zip(*xs, strict=True)] if isinstance(xs[0][0], list) else f(*xs)

    return run


m = mpmath
SELU = mpf(1.0507009873554804934193349852946), mpf(1.6732632423543772848170429916717)
FUNCTIONS: dict[str, tuple[Any, Any, float, float]] = {
    "sqrt": (torch.sqrt, m.sqrt, 0.01, 50),
    "rsqrt": (torch.rsqrt, lambda x: 1 / m.sqrt(x), 0.01, 50),
    "exp": (torch.exp, m.exp, -9, 9),
    "exp2": (torch.exp2, lambda x: mpf(2) ** x, -9, 9),
    "expm1": (torch.expm1, m.expm1, -3, 3),
    "log": (torch.log, m.log, 0.01, 50),
    "log2": (torch.log2, lambda x: m.log(x, 2), 0.01, 50),
    "log10": (torch.log10, m.log10, 0.01, 50),
    "log1p": (torch.log1p, m.log1p, -0.9, 9),
    "sigmoid": (torch.sigmoid, lambda x: 1 / (1 + m.exp(-x)), -30, 30),
    "silu": (F.silu, lambda x: x / (1 + m.exp(-x)), -30, 30),
    "gelu": (F.gelu, lambda x: x * m.erfc(-x / m.sqrt(2)) / 2, -9, 9),
    "gelu tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: x / 2 * (1 + m.tanh(m.sqrt(2 / m.pi) * (x + mpf(0.044715) * x**3))), -5, 5,
    ),
    "mish": (F.mish, lambda x: x * m.tanh(m.log1p(m.exp(x))), -9, 9),
    "softplus": (F.softplus, lambda x: x if x > 20 else m.log1p(m.exp(x)), -9, 30),
    "softplus 2": (lambda x: F.softplus(x, 2.0, 5.0), lambda x: x if 2 * x > 5 else m.log1p(m.exp(2 * x)) / 2, -9, 9),
    "logsigmoid": (F.logsigmoid, lambda x: -m.log1p(m.exp(-x)), -30, 30),
    "elu": (F.elu, lambda x: x if x > 0 else m.expm1(x), -5, 5),
    "selu": (F.selu, lambda x: SELU[0] * (x if x > 0 else SELU[1] * m.expm1(x)), -5, 5),
    "leaky": (lambda x: F.leaky_relu(x, 0.125), lambda x: x if x > 0 else x / 8, -5, 5),
    "hardswish": (F.hardswish, lambda x: x * min(max(x + 3, 0), 6) / 6, -5, 5),
    "hardsigmoid": (F.hardsigmoid, lambda x: min(max(x + 3, 0), 6) / mpf(6), -5, 5),
    "deg2rad": (torch.deg2rad, lambda x: x * mpmath.pi / 180, -400, 400),
    "rad2deg": (torch.rad2deg, lambda x: x * 180 / mpmath.pi, -7, 7),
    "softshrink": (lambda x: F.softshrink(x, 0.75), lambda x: max(x - 0.75, mpf(0)) + min(x + 0.75, mpf(0)), -5, 5),
    "logit": (torch.logit, lambda x: m.log(x / (1 - x)), 0.01, 0.98),
    "logit cut": (lambda x: torch.logit(x, 0.25), lambda x: m.log((y := min(max(x, mpf(0.25)), mpf(0.75))) / (1 - y)),
                  -1, 2),
    "tanh": (torch.tanh, m.tanh, -4, 4),
    "erf": (torch.erf, m.erf, -3, 3),
    "erfc": (torch.erfc, m.erfc, -3, 3),
    "sin": (torch.sin, m.sin, -9, 9),
    "cos": (torch.cos, m.cos, -9, 9),
    "tan": (torch.tan, m.tan, -1, 1),
    "atan": (torch.atan, m.atan, -9, 9),
    "asinh": (torch.asinh, m.asinh, -9, 9),
    "sinh": (torch.sinh, m.sinh, -5, 5),
    "cosh": (torch.cosh, m.cosh, -5, 5),
    "relu": (torch.relu, lambda x: max(x, mpf(0)), -5, 5),
    "abs": (torch.abs, abs, -5, 5),
    "neg": (torch.neg, lambda x: -x, -5, 5),
    "sign": (torch.sign, m.sign, -5, 5),
    "floor": (torch.floor, m.floor, -5, 5),
    "ceil": (torch.ceil, m.ceil, -5, 5),
    "clamp": (lambda x: x.clamp(-1.5, 2), lambda x: min(max(x, mpf(-1.5)), mpf(2)), -5, 5),
    "square": (lambda x: x**2, lambda x: x * x, -5, 5),
    "cube": (lambda x: x**3, lambda x: x**3, -5, 5),
    "pow -1": (lambda x: x**-1, lambda x: 1 / x, 0.1, 5),
    "pow .5": (lambda x: x**0.5, m.sqrt, 0.1, 5),
    "pow 2.5": (lambda x: x**2.5, lambda x: x ** mpf(2.5), 0.1, 5),
    "2 ** x": (lambda x: 2**x, lambda x: mpf(2) ** x, -5, 5),
    "reciprocal": (torch.reciprocal, lambda x: 1 / x, 0.1, 5),
    "+ 1": (lambda x: x + 1, lambda x: x + 1, -5, 5),
    "1 -": (lambda x: 1 - x, lambda x: 1 - x, -5, 5),
    "* .5": (lambda x: x * 0.5, lambda x: x / 2, -5, 5),
    "/ 4": (lambda x: x / 4, lambda x: x / 4, -5, 5),
    "// 2": (lambda x: x // 2, lambda x: m.floor(x / 2), -5, 5),
    "% 1.5": (lambda x: x % 1.5, lambda x: x - m.floor(x / mpf(1.5)) * mpf(1.5), -5, 5),
    "trunc div": (lambda x: torch.div(x, 2, rounding_mode="trunc"), lambda x: m.sign(x) * m.floor(abs(x) / 2), -5, 5),
    "nan_to_num": (torch.nan_to_num, lambda x: x, -5, 5),
    "in place": (lambda x: x.clone().exp_().mul_(0.5), lambda x: m.exp(x) / 2, -2, 2),
    "out": (lambda x: torch.exp(x, out=torch.empty_like(x)), m.exp, -2, 2),
    "threshold": (lambda x: F.threshold(x, 0.5, -2.0), lambda x: x if x > 0.5 else mpf(-2), -3, 3),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, dtype):
    operation, oracle, low, high = FUNCTIONS[name]
    for seed in range(trials(2)):
        g = rng(seed)
        for radius in RADII[dtype]:
            finite = check(operation, each(oracle), [box(g, (3, 8), dtype, low, high, radius)], dtype, g)
            assert finite > 0.9


def total(xs: list[Any]) -> Any:
    return m.fsum(xs)


def mean(xs: list[Any]) -> Any:
    return total(xs) / len(xs)


def variance(xs: list[Any], less: int = 1) -> Any:
    return total([(x - mean(xs)) ** 2 for x in xs]) / (len(xs) - less)


def length(xs: list[Any]) -> Any:
    return m.sqrt(total([x * x for x in xs]))


def scaled_by_rms(xs: list[Any]) -> list[Any]:
    return [x / m.sqrt(mean([y * y for y in xs]) + mpf(1e-6)) for x in xs]


def gated(xs: list[Any]) -> list[Any]:
    half = len(xs) // 2
    return [a / (1 + m.exp(-b)) for a, b in zip(xs[:half], xs[half:], strict=True)]


def softmax(xs: list[Any]) -> list[Any]:
    powers = [m.exp(x) for x in xs]
    return [p / total(powers) for p in powers]


def normed(xs: list[Any], eps: float = 1e-5) -> list[Any]:
    scale = 1 / m.sqrt(variance(xs, 0) + mpf(eps))
    return [(x - mean(xs)) * scale for x in xs]


def prefixes(xs: list[Any], f: Any) -> list[Any]:
    out = [xs[0]]
    for x in xs[1:]:
        out.append(f(out[-1], x))
    return out


ROWS: dict[str, tuple[Any, Any]] = {
    "sum": (lambda x: x.sum(-1), total),
    "mean": (lambda x: x.mean(-1), mean),
    "prod": (lambda x: x.prod(-1), lambda xs: m.fprod(xs)),
    "amax": (lambda x: x.amax(-1), max),
    "amin": (lambda x: x.amin(-1), min),
    "max": (lambda x: x.max(-1), max),
    "min": (lambda x: x.min(-1), min),
    "var": (lambda x: x.var(-1), variance),
    "std": (lambda x: x.std(-1, correction=0), lambda xs: m.sqrt(variance(xs, 0))),
    "norm": (lambda x: x.norm(dim=-1), lambda xs: m.sqrt(total([x * x for x in xs]))),
    "norm 1": (lambda x: torch.linalg.vector_norm(x, 1, -1), lambda xs: total([abs(x) for x in xs])),
    "norm inf": (lambda x: torch.linalg.vector_norm(x, torch.inf, -1), lambda xs: max(abs(x) for x in xs)),
    "norm 3": (lambda x: torch.linalg.vector_norm(x, 3, -1), lambda xs: m.cbrt(total([abs(x) ** 3 for x in xs]))),
    "softmax": (lambda x: F.softmax(x, -1), softmax),
    "log_softmax": (lambda x: F.log_softmax(x, -1), lambda xs: [m.log(p) for p in softmax(xs)]),
    "logsumexp": (lambda x: x.logsumexp(-1), lambda xs: m.log(total([m.exp(x) for x in xs]))),
    "safe softmax": (lambda x: torch._safe_softmax(x, -1), softmax),
    "layer_norm": (lambda x: F.layer_norm(x, x.shape[-1:]), normed),
    "cumsum": (lambda x: x.cumsum(-1), lambda xs: prefixes(xs, lambda a, b: a + b)),
    "cumprod": (lambda x: x.cumprod(-1), lambda xs: prefixes(xs, lambda a, b: a * b)),
    "cummax": (lambda x: x.cummax(-1), lambda xs: prefixes(xs, max)),
    "sort": (lambda x: x.sort(-1), sorted),
    "sort down": (lambda x: x.sort(-1, descending=True), lambda xs: sorted(xs, reverse=True)),
    "topk": (lambda x: x.topk(3, -1), lambda xs: sorted(xs, reverse=True)[:3]),
    "kthvalue": (lambda x: x.kthvalue(2, -1), lambda xs: sorted(xs)[1]),
    "median": (lambda x: x.median(-1), lambda xs: sorted(xs)[(len(xs) - 1) // 2]),
    "normalize": (lambda x: F.normalize(x, dim=-1), lambda xs: [x / max(length(xs), mpf(1e-12)) for x in xs]),
    "rms_norm": (lambda x: F.rms_norm(x, x.shape[-1:], eps=1e-6), scaled_by_rms),
    "glu": (F.glu, gated),
    "flip": (lambda x: x.flip(-1), lambda xs: xs[::-1]),
    "diff": (lambda x: x.diff(dim=-1), lambda xs: [b - a for a, b in pairwise(xs)]),
    "pad": (lambda x: F.pad(x, (1, 2), value=3.0), lambda xs: [mpf(3), *xs, mpf(3), mpf(3)]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_rows(name, dtype):
    operation, oracle = ROWS[name]
    for seed in range(trials(2)):
        g = rng(seed)
        for radius, shape in zip(RADII[dtype], ((3, 8), (2, 2, 4), (2, 6), (1, 4)), strict=False):
            finite = check(operation, rows(oracle), [box(g, shape, dtype, -3, 3, radius)], dtype, g)
            assert finite > 0.9


def huber(off: Any, delta: float) -> Any:
    return off * off / 2 if off <= delta else delta * (off - mpf(delta) / 2)


def meaned(a: Any, b: Any, f: Callable[..., Any]) -> Any:
    flat = [f(abs(x - y)) for xs, ys in zip(a, b, strict=True) for x, y in zip(xs, ys, strict=True)]
    return mean(flat)


def inner(a: Any, b: Any) -> Any:
    return total([x * y for x, y in zip(a, b, strict=True)])


def turned(a: Any) -> Any:
    return [list(column) for column in zip(*a, strict=True)]


def matmul(a: Any, b: Any) -> Any:
    return [[inner(row, column) for column in turned(b)] for row in a]


def with_bias(a: Any, b: Any, c: Any) -> Any:
    return [[x + y for x, y in zip(row, c, strict=True)] for row in matmul(a, turned(b))]


def mean_square(a: Any, b: Any) -> Any:
    return mean([(x - y) ** 2 for r, s in zip(a, b, strict=True) for x, y in zip(r, s, strict=True)])


def scattered(a: Any, b: Any) -> Any:
    first = [x + y + z for x, y, z in zip(a[0], b[0], b[1], strict=True)]
    return [first, a[1], [x + y for x, y in zip(a[2], b[2], strict=True)]]


def softmax_columns(a: Any) -> Any:
    return [list(r) for r in zip(*[softmax(list(c)) for c in zip(*a, strict=True)], strict=True)]


def conv(x: Any, w: Any) -> Any:
    """One row of three taps over the last axis: (n, c, l) and (o, c, 3)."""
    return [[[total([w[o][c][t] * x[n][c][i + t] for c in range(len(x[0])) for t in range(3)])
              for i in range(len(x[0][0]) - 2)] for o in range(len(w))] for n in range(len(x))]  # fmt: skip


PRODUCTS: dict[str, tuple[Any, Any, list[tuple[int, ...]]]] = {
    "mm": (lambda a, b: a @ b, matmul, [(3, 8), (8, 4)]),
    "bmm": (lambda a, b: a[None] @ b[None], lambda a, b: [matmul(a, b)], [(3, 8), (8, 4)]),
    "mv": (lambda a, b: a @ b, lambda a, b: [inner(r, b) for r in a], [(3, 8), (8,)]),
    "dot": (lambda a, b: a @ b, inner, [(8,), (8,)]),
    "linear": (F.linear, lambda a, b: matmul(a, turned(b)), [(3, 8), (4, 8)]),
    "linear bias": (F.linear, with_bias, [(3, 8), (4, 8), (4,)]),
    "addmm": (
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2),
        lambda c, a, b: [[y / 2 + 2 * x for x, y in zip(*r, strict=True)] for r in zip(matmul(a, b), c, strict=True)],
        [(3, 4), (3, 8), (8, 4)],
    ),
    "einsum": (lambda a, b: torch.einsum("ik,kj->ij", a, b), matmul, [(3, 8), (8, 4)]),
    "conv1d": (F.conv1d, conv, [(1, 2, 7), (3, 2, 3)]),
    "add": (lambda a, b: a + b, each(lambda x, y: x + y), [(3, 4)] * 2),
    "sub scaled": (lambda a, b: torch.sub(a, b, alpha=0.25), each(lambda x, y: x - y / 4), [(3, 4)] * 2),
    "mul": (lambda a, b: a * b, each(lambda x, y: x * y), [(3, 4)] * 2),
    "maximum": (torch.maximum, each(max), [(3, 4)] * 2),
    "where": (lambda a, b: torch.where(torch.eye(3, 4, dtype=torch.bool), a, b),
              lambda a, b: [[a[i][j] if i == j else b[i][j] for j in range(4)] for i in range(3)], [(3, 4)] * 2),
    "lerp": (lambda a, b: torch.lerp(a, b, 0.75), each(lambda x, y: x + mpf(0.75) * (y - x)), [(3, 4)] * 2),
    "addcmul": (lambda a, b, c: torch.addcmul(a, b, c, value=0.5), each(lambda x, y, z: x + y * z / 2), [(3, 4)] * 3),
    "atan2": (torch.atan2, each(lambda y, x: m.atan2(y, x)), [(3, 4)] * 2),
    "hypot": (torch.hypot, each(m.hypot), [(3, 4)] * 2),
    "logaddexp": (torch.logaddexp, each(lambda x, y: m.log(m.exp(x) + m.exp(y))), [(3, 4)] * 2),
    "logaddexp2": (torch.logaddexp2, each(lambda x, y: m.log(m.mpf(2) ** x + m.mpf(2) ** y, 2)), [(3, 4)] * 2),
    "cat": (lambda a, b: torch.cat([a, b]), lambda a, b: a + b, [(3, 4)] * 2),
    "mse": (F.mse_loss, mean_square, [(3, 4)] * 2),
    "huber": (lambda a, b: F.huber_loss(a, b, delta=0.75), lambda a, b: meaned(a, b, lambda d: huber(d, 0.75)),
              [(3, 4)] * 2),
    "smooth_l1": (lambda a, b: F.smooth_l1_loss(a, b, reduction="none"), each(lambda x, y: huber(abs(x - y), 1.0)),
                  [(3, 4)] * 2),
    "index_add": (lambda a, b: a.index_add(0, torch.tensor([0, 0, 2]), b), scattered, [(3, 4)] * 2),
    "softmax columns": (lambda a: F.softmax(a, 0), softmax_columns, [(5, 3)]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_several_operands(name, dtype):
    operation, oracle, shapes = PRODUCTS[name]
    if name == "hypot" and dtype.itemsize == 2:
        pytest.skip("torch has no such function of this type on a CPU") if dtype == torch.float16 else None
    for seed in range(trials(2)):
        g = rng(seed)
        for radius in RADII[dtype][:3]:
            boxes = [box(g, shape, dtype, -3, 3, radius) for shape in shapes]
            finite = check(operation, oracle, boxes, dtype, g)
            assert finite > (0.5 if name == "atan2" else 0.9)


SPECIAL = [
    0.0,
    -0.0,
    1e-45,
    -1e-45,
    1e-38,
    3e38,
    -3e38,
    float("inf"),
    float("-inf"),
    float("nan"),
    65504.0,
    88.8,
    -104.0,
]


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "nan_to_num"])  # whose largest number is its type's
def test_special_values_are_held_or_open(name):
    """Ends at zeros, subnormals, the largest numbers, infinities and NaN: float64 at both ends lies inside."""
    operation = FUNCTIONS[name][0]
    ends = [(a, b) for a in SPECIAL for b in SPECIAL if not a > b]
    lo, hi = (np.array(side) for side in zip(*ends, strict=True))
    loose = np.isnan(lo) | np.isnan(hi)
    lo, hi = np.where(loose, np.nan, lo), np.where(loose, np.nan, hi)
    world = World()
    x = world.result(lo, hi, lo, torch.float32)
    with world.tracker:
        out = operation(x)
    envelope = world.memory.envelope(out)
    assert envelope is not None and not envelope.taints
    low, high = envelope.lo, envelope.hi
    for end in (lo, hi):
        seen = operation(torch.from_numpy(end.copy())).numpy()
        near = np.where(np.isfinite(seen), np.abs(seen) * 1e-12 + 1e-300, 0.0)
        bad = ~((low - near <= seen) & (seen <= high + near)) & ~np.isnan(low) & ~np.isnan(high)
        assert not bad.any(), list(zip(lo[bad], hi[bad], low[bad], seen[bad], high[bad], strict=True))
