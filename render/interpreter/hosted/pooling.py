r"""Largest elements of windows and their gradients, where bounds leave open which element of a window is the largest.

    candidates of a window w     j with hi_j >= max lo over w
    gradient at p                sum over windows that only p can win of g_w, and of hull(0, g_w) where p may win

An exact tie is open as well: which of equal elements a kernel takes is its own affair. Where windows overlap, at most
prod ceil(k / s) addends meet (k where they are spread), added in the type itself
(aten/src/ATen/native/cpu/MaxPoolKernel.cpp).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from interval_ops.bounds import each
from render.interpreter.hosted.call import Bounds, Call, Exact, Result
from render.ops.dtypes import FORMAT_OF

Array = np.ndarray[Any, Any]


class Windows(NamedTuple):
    """Windows over the last axes: element k of window w is at `step * w + spread * k - pad`."""

    size: tuple[int, ...]
    step: tuple[int, ...]
    pad: tuple[int, ...]
    spread: tuple[int, ...]
    results: tuple[int, ...]

    @classmethod
    def of(cls, call: Call, results: tuple[int, ...]) -> Windows | None:
        """Those of a call of max_pool or its gradient; of adaptive ones where all are of one size."""
        rank = len(results)
        sizes = tuple(call.get("self").shape[-rank:])
        if "adaptive" in call.op._schema.name:
            if any(n % m for n, m in zip(sizes, results, strict=True)):
                return None
            size = tuple(n // m for n, m in zip(sizes, results, strict=True))
            return cls(size, size, (0,) * rank, (1,) * rank, results)

        def given(name: str, default: Any) -> tuple[int, ...]:
            found = tuple(call.get(name) or default)
            return found * rank if len(found) == 1 else found

        size = given("kernel_size", ())
        return cls(size, given("stride", size), given("padding", (0,)), given("dilation", (1,)), results)

    def lengths(self) -> list[int]:
        """Of the padded axes that all windows lie in."""
        parts = zip(self.results, self.size, self.step, self.spread, strict=True)
        return [s * (n - 1) + d * (k - 1) + 1 for n, k, s, d in parts]

    def padded(self, x: Array, fill: float) -> Array:
        rank, shape = len(self.results), list(x.shape)
        out = [max(n + p, m) for n, p, m in zip(shape[-rank:], self.pad, self.lengths(), strict=True)]
        found = np.full((*shape[:-rank], *out), fill, x.dtype)
        found[self.inside(shape)] = x
        return found

    def inside(self, shape: list[int] | tuple[int, ...]) -> tuple[Any, ...]:
        """Where the operand of this shape lies in what is padded."""
        rank = len(self.results)
        return (..., *(slice(p, p + n) for n, p in zip(shape[-rank:], self.pad, strict=True)))

    def places(self) -> Iterator[tuple[Any, ...]]:
        """For each element of a window, where it is for all windows, in the order that kernels go."""
        for at in product(*map(range, self.size)):
            parts = zip(at, self.results, self.step, self.spread, strict=True)
            yield (..., *(slice(d * k, d * k + s * (n - 1) + 1, s) for k, n, s, d in parts))

    def largest(self, x: Array) -> Array:
        """Of every window, axis by axis from the outermost one: elements of a row then lie side by side."""
        found, rank = self.padded(x, -np.inf), len(self.results)
        for axis, (n, k, s, d) in enumerate(zip(self.results, self.size, self.step, self.spread, strict=True)):
            rest: tuple[Any, ...] = (slice(None),) * (rank - 1 - axis)
            cuts: list[tuple[Any, ...]] = [(..., slice(d * i, d * i + s * (n - 1) + 1, s), *rest) for i in range(k)]
            parts = [found[cut] for cut in cuts]
            found = parts[0].copy() if k == 1 else np.maximum(*parts[:2])
            for part in parts[2:]:
                np.maximum(found, part, out=found)
        return found

    def overlap(self) -> int:
        """Windows that one element lies in, at most."""
        parts = zip(self.size, self.step, self.spread, strict=True)
        return math.prod(k if d > 1 else -(-k // max(s, 1)) for k, s, d in parts)


def _candidates(windows: Windows, lo: Array, hi: Array) -> tuple[list[Array], Array]:
    """Which elements may be the largest, place by place; and how many of a window. What may be NaN may always be."""
    low, high = windows.padded(lo, -np.inf), windows.padded(hi, -np.inf)
    outside = windows.padded(np.zeros_like(lo), 1.0) != 0
    most = np.maximum.reduce([low[at] for at in windows.places()])
    may = [~(high[at] < most) & ~outside[at] for at in windows.places()]
    return may, np.add.reduce([m.astype(np.int64) for m in may])


def pooled(call: Call) -> Result:
    """The values, and places: exact where bounds decide all of them, else any where they do not."""
    lo, hi = (call.end(end)[0].numpy() for end in (0, 1))
    own = each(call.pair(call.x), lambda e: np.asarray(e, np.float64))
    rank = int(call.op._schema.name.split("pool")[1][0])
    windows = Windows.of(call, lo.shape[-rank:])
    if np.array_equal(*own):
        return Bounds(lo, hi), Exact()
    if windows is None:
        return Bounds(lo, hi), None
    decided = _candidates(windows, *own)[1] == 1
    if decided.all():
        return Bounds(lo, hi), Exact()
    found = call.run(call.at(0))[1].numpy().astype(np.float64)
    last = float(math.prod(call.x.shape[-rank:]) - 1)
    return Bounds(lo, hi), Bounds(np.where(decided, found, 0.0), np.where(decided, found, last))


def pool_gradient(call: Call) -> Result:
    """max_pool..._backward, from the bounds of what was pooled; its open indices are not needed."""
    fmt, rank = FORMAT_OF.get(call.x.dtype), int(call.op._schema.name.split("pool")[1][0])
    grad, own = (each(call.pair(call.get(name)), lambda e: np.asarray(e, np.float64))
                 for name in ("grad_output", "self"))  # fmt: skip
    windows = Windows.of(call, grad[0].shape[-rank:])
    if fmt is None or windows is None or not grad[0].size:
        return None
    may, count = _candidates(windows, *own)
    sure, zero = count == 1, windows.padded(np.zeros_like(own[0]), 0.0)
    ends = []
    for end, least in zip(grad, (np.minimum, np.maximum), strict=True):
        shared, total, size = least(end, 0.0), zero.copy(), zero.copy()
        for at, here in zip(windows.places(), may, strict=True):
            part = np.where(here, np.where(sure, end, shared), 0.0)
            total[at] += part
            size[at] += np.abs(part)
        ends.append((total, size))
    (low, a), (high, b) = ends
    steps, u = windows.overlap() - 1, 0.0 if call.profile.muted("accumulation") else fmt.u
    room = (math.expm1(steps * u) + steps * 2.0**-52) * np.maximum(a, b) * (1 + 2.0**-40)
    inside = windows.inside(own[0].shape)
    return Bounds((low - room)[inside], (high + room)[inside])


__all__ = ["pool_gradient", "pooled"]
