"""Modified Bessel functions I of orders 0 and 1 in float64, good to `function_kernels.LIBM` relative; as `special`.

The mean over a circle has positive terms only, so that nothing cancels.
"""

from __future__ import annotations

import math

import numpy as np

from interval_ops.compiled import compiled
from interval_ops.functions import double_double as dd

_NODES = 256
_SINES = np.array([math.sin(math.pi * j / _NODES) ** 2 for j in range(_NODES // 2 + 1)])
_COSINES = np.array([math.cos(2 * math.pi * j / _NODES) for j in range(_NODES // 4)])


@compiled
def _i0(x: float) -> float:
    """The mean of exp(x cos t) over n nodes of a circle (DLMF 10.32.1): exact but for 2 (I_n + I_2n + ...)(x).

    That is 2^-60 of I0 for n = 64 up to 40 and for n = 256 up to 714, where I0 overflows. All terms are positive:
    exp(x) exp(-2 x sin^2(t/2)), summed with compensation, have an error of a few 2^-53.
    """
    x = abs(x)
    if not x < 720.0:
        return x if x != x else math.inf
    stride = 4 if x <= 40.0 else 1
    total = (1.0, 0.0)
    for j in range(stride, _NODES // 2, stride):
        s, e = dd.two_sum(total[0], 2.0 * math.exp(-2.0 * x * _SINES[j]))
        total = (s, total[1] + e)
    half = math.exp(0.5 * x)
    return half * ((total[0] + (total[1] + math.exp(-2.0 * x))) * (stride / _NODES)) * half


@compiled
def _i1(x: float) -> float:
    """As `_i0` with the weight cos t; opposite nodes are taken together, which leaves positive terms:
    cos t exp(-2 x sin^2(t/2)) (1 - exp(-2 x cos t)) for |t| < pi/2."""
    v = abs(x)
    if v < 2.0**-30:
        return 0.5 * x
    if not v < 720.0:
        return x if x != x else math.copysign(math.inf, x)
    stride = 4 if v <= 40.0 else 1
    total = (-math.expm1(-2.0 * v), 0.0)
    for j in range(stride, _NODES // 4, stride):
        c = _COSINES[j]
        s, e = dd.two_sum(total[0], -2.0 * c * math.exp(-2.0 * v * _SINES[j]) * math.expm1(-2.0 * v * c))
        total = (s, total[1] + e)
    half = math.exp(0.5 * v)
    return math.copysign(half * ((total[0] + total[1]) * (stride / _NODES)) * half, x)


@compiled
def i0(x, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = _i0(x[i])


@compiled
def i1(x, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):
        out[i] = _i1(x[i])
