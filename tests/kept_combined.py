"""Cases of `kept_bounds`: reductions and scans by combine functions of every kind that is read, and by others.

Forwards and backwards, along either axis, in fp32, fp16 and integers, of points and of intervals.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import combine_zoo as zoo
import kept_hosted
import numpy as np
import torch
import triton
import triton.language as tl
from kept_bounds import Cases

from render.interpreter.session import Session

M, N = 4, 8


@triton.jit
def soft(a, b):
    m = tl.maximum(a, b)
    return m + tl.log(tl.exp(a - m) + tl.exp(b - m))


@triton.jit
def hypotenuse(a, b):
    return tl.sqrt(a * a + b * b)


@triton.jit
def middle(a, b):
    return (a + b) * 0.5


@triton.jit
def last(a, b):
    return b


@triton.jit
def total(a, b):
    return a + b


@triton.jit
def products(a, b):
    return b * a


@triton.jit
def of_bits(a, b):
    return a | b


@triton.jit
def segments(f, v, g, w):
    return f | g, tl.where(g == 0, v + w, w)


@triton.jit
def sums_of_exponentials(m, s, n, t):
    k = tl.maximum(m, n)
    return k, s * tl.exp(m - k) + t * tl.exp(n - k)


@triton.jit
def complex_products(a, b, c, d):
    return a * c - b * d, a * d + b * c


@triton.jit
def combined(X, Out, M: tl.constexpr, N: tl.constexpr, FN: tl.constexpr, HOW: tl.constexpr, DT: tl.constexpr,
             AXIS: tl.constexpr):  # fmt: skip
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(X + at).to(DT)
    second = (at % 3).to(tl.int32) if HOW == "indexed" else x * 0 + 1
    if HOW == "flagged":
        _, y = tl.associative_scan(((at % 3 == 0).to(tl.int32), x), AXIS, FN)
        tl.store(Out + at, y)
        _, y = tl.associative_scan(((at % 5 == 0).to(tl.int32), x), AXIS, FN, reverse=True)
        tl.store(Out + M * N + at, y)
    elif HOW == "one":
        tl.store(Out + at, tl.associative_scan(x, AXIS, FN))
        tl.store(Out + M * N + at, tl.associative_scan(x, AXIS, FN, reverse=True))
        tl.store(Out + 2 * M * N + at, tl.reduce(x, AXIS, FN, keep_dims=True) + at * 0)
    elif HOW == "three":
        a, b, c = tl.reduce((x, x * 0, second), AXIS, FN, keep_dims=True)
        tl.store(Out + at, a + at * 0)
        tl.store(Out + M * N + at, b + c + at * 0)
        a, b, c = tl.associative_scan((x, x * 0, second), AXIS, FN)
        tl.store(Out + 2 * M * N + at, a + b)
    else:
        a, b = tl.reduce((x, second), AXIS, FN, keep_dims=True)
        tl.store(Out + at, a + at * 0)
        tl.store(Out + M * N + at, b + at * 0)
        if HOW == "two":
            a, b = tl.associative_scan((x, second), AXIS, FN, reverse=True)
            tl.store(Out + 2 * M * N + at, a + b)


FUNCTIONS: dict[str, tuple[Any, str]] = {
    **{f.fn.__name__: (f, "one") for f in (soft, hypotenuse, middle, last, total, products, of_bits, zoo.larger,
                                           zoo.smaller, zoo.exact_combine, zoo.first, zoo.against_zero,
                                           zoo.rounded_larger)},
    **{f.fn.__name__: (f, "two") for f in (sums_of_exponentials, complex_products, zoo.linear, zoo.linear_by_fma,
                                           zoo.not_linear)},
    **{f.fn.__name__: (f, "indexed") for f in (zoo.larger_with_index, zoo.smaller_with_index, zoo.last_with_index,
                                               zoo.first_of, zoo.mixed_roles)},
    **{f.fn.__name__: (f, "three") for f in (zoo.welford, zoo.not_welford, zoo.by_component)},
    "segments": (segments, "flagged"),
}  # fmt: skip


def _kept(name: str, dtype: Any, width: float, axis: int) -> object:
    fn, how = FUNCTIONS[name]
    v = (np.arange(M * N) * 7 % 23 - 5.0) / 8
    x, out = torch.from_numpy(v.astype(np.float32)), torch.zeros(3 * M * N)
    with Session(device="any") as session:
        session.memory.carry(x, v - width, v + width, frozenset())
        try:
            combined[(1,)](x, out, M, N, fn, how, dtype, axis)
        except Exception as refusal:
            return [float(sum(map(ord, type(refusal).__name__)))]
    return kept_hosted.told(session, out)


def _all(name: str) -> object:
    return [
        _kept(name, dtype, width, axis)
        for dtype, width, axis in (
            (tl.float32, 0.0, 1),
            (tl.float32, 0.1, 0),
            (tl.float16, 0.03, 1),
            (tl.int32, 0.0, 0),
        )
    ]


CASES: Cases = {name: (partial(_all, name), 2.0**-30) for name in FUNCTIONS}
