"""Inner loops of `casting`: one rounding of every element, branch-free so that they vectorise.

`raw` functions round with no largest exponent; `_limit` then applies what the conversion does past the largest finite
value. Both follow `rounding.rn` and `rounding.rz`, whose early returns would keep the loop scalar.
"""

from __future__ import annotations

import math

from interval_ops.compiled import compiled, inlined
from interval_ops.formats.rounding import binade


@inlined
def _nearest_raw(x, gate):  # type: ignore[no-untyped-def]
    """x to nearest, ties to even; anything past 2 * max (infinities too) comes out as a number above max."""
    bound = 2.0 * gate[3]
    y = bound if x > bound else x
    y = -bound if y < -bound else y
    c = binade(y, gate) * gate[1]
    return (y + c) - c


@inlined
def _truncated_raw(x, gate):  # type: ignore[no-untyped-def]
    """x towards zero; finite magnitudes stop at max, infinities stay."""
    a = abs(x)
    y = 2.0 * gate[3] if a > 2.0 * gate[3] else a
    c = binade(y, gate)
    r = (y + c * gate[1]) - c * gate[1]
    r = r - c * gate[2] if r > y else r
    r = gate[3] if r > gate[3] else r
    r = a if a == math.inf else r
    return -r if x < 0.0 else r


@inlined
def _limit(r, largest, above, below):  # type: ignore[no-untyped-def]
    r = above if r > largest else r
    return below if r < -largest else r


@compiled
def round_values(x, out, gate, truncate, over, signed_zero):  # type: ignore[no-untyped-def]
    """`over` stands for magnitudes past max (with their sign); without `signed_zero` results of 0 are +0."""
    for i in range(x.size):
        v = float(x[i])
        r = _truncated_raw(v, gate) if truncate else _nearest_raw(v, gate)
        r = math.copysign(_limit(abs(r), gate[3], over, over), v)
        out[i] = r if signed_zero else r + 0.0


@compiled
def hull_point(x, lo, hi, gate, truncate, inner, outer):  # type: ignore[no-untyped-def]
    """[lo, hi] = hull {x, rounded x}; past max the latter spans magnitudes `inner` to `outer` (NaN: anything)."""
    for i in range(x.size):
        v = float(x[i])
        r = _truncated_raw(v, gate) if truncate else _nearest_raw(v, gate)
        a = _limit(r, gate[3], inner, -outer)
        b = _limit(r, gate[3], outer, -inner)
        lo[i] = v if v < a else a
        hi[i] = v if v > b else b


@compiled
def hull_pair(x, y, lo, hi, gate, truncate, inner, outer):  # type: ignore[no-untyped-def]
    """As `hull_point` for an interval [x, y]; NaN at either end comes out at both."""
    for i in range(x.size):
        v, w = float(x[i]), float(y[i])
        r = _truncated_raw(v, gate) if truncate else _nearest_raw(v, gate)
        s = _truncated_raw(w, gate) if truncate else _nearest_raw(w, gate)
        a = _limit(r, gate[3], inner, -outer)
        b = _limit(s, gate[3], outer, -inner)
        a = v if v < a else a
        b = w if w > b else b
        a = b if math.isnan(b) else a
        b = a if math.isnan(a) else b
        lo[i] = a
        hi[i] = b
