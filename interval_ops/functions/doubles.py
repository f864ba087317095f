"""Functions at the ends of fp64 intervals, within 2^-56 of the exact value before one rounding to float64.

What a machine's float64 library may be off by (`kernels.LIBM`) is invisible beside the rounding of fp32, and four to
eight float64 numbers beside that of fp64. Here an argument is reduced exactly or in double-double numbers (`dd`) to the
step of a table (`constants`), and of the series of what is left the first two terms are double-double, the others
float64: they are below 2^-13 of the first, so that their rounding stays below 2^-62 relative.
"""

from __future__ import annotations

import math

import numpy as np

from interval_ops.arithmetic.hull import fused
from interval_ops.compiled import compiled
from interval_ops.functions import double_double as dd
from interval_ops.functions.constants import LOWEST, STEP, TABLES

ERROR = 2.0**-53 * (1 + 2.0**-3)
"""Relative, of a value rounded to float64 that was good to 2^-56: granted by the rules in place of `kernels.LIBM`."""

Double = dd.Double
_POWERS, _LOGS, _INVERSES = TABLES["POWERS"], TABLES["LOGS"], TABLES["INVERSES"]
_ANGLES, _COSINES, _SINES = TABLES["ANGLES"], TABLES["COSINES"], TABLES["SINES"]
_STEP, _RIGHT, PI, _PER_LN2, _PER_LN10, _LN10, _LN2 = ((float(high), float(low)) for high, low in TABLES["SINGLE"])
_STEPS_PER_UNIT = STEP / math.log(2.0)
_SMALL = 2.0**-100


@compiled
def _plus(x: Double, y: float) -> Double:
    """x + y for |y| <= |x|, within 2^-104."""
    h = x[0] + y
    return dd.two_sum(h, (y - (h - x[0])) + x[1])


@compiled
def scaled(x: Double, by: float) -> Double:
    """x times a power of two."""
    return x[0] * by, x[1] * by


@compiled
def _exp_parts(x: Double):  # type: ignore[no-untyped-def]
    """n, j and p with e^x = 2^(n + j / 32) (1 + p), |p| < 0.011, for |x| <= 2000: p within 2^-66 relative."""
    k = np.rint(x[0] * _STEPS_PER_UNIT)
    product = k * _STEP[0]
    r = dd.add(dd.add(x, (-product, -fused(k, _STEP[0], -product))), (-k * _STEP[1], 0.0)) if k != 0.0 else x
    h = r[0]
    tail = h * h * h * (1 / 6 + h * (1 / 24 + h * (1 / 120 + h * (1 / 720 + h * (1 / 5040 + h / 40320)))))
    p = _plus(dd.add(r, scaled(dd.multiply(r, r), 0.5)), tail)
    whole = math.floor(k / STEP)
    return int(whole), int(k - whole * STEP), p


@compiled
def exp_of(x: Double):  # type: ignore[no-untyped-def]
    """(v, n) with e^x = v 2^n and v in [0.98, 2], for any finite x: past 1500 in size it is out of float64's range."""
    x = x if abs(x[0]) < 1500.0 else (math.copysign(1500.0, x[0]), 0.0)
    n, j, p = _exp_parts(x)
    power = (_POWERS[j, 0], _POWERS[j, 1])
    return dd.add(power, dd.multiply(power, p)), n


@compiled
def _expm1_of(x: Double) -> Double:
    """e^x - 1 for |x| <= 700."""
    n, j, p = _exp_parts(x)
    if n == 0 and j == 0:
        return p
    power = (_POWERS[j, 0], _POWERS[j, 1])
    value = dd.add(power, dd.multiply(power, p))
    return dd.add(scaled(value, math.ldexp(1.0, n)), (-1.0, 0.0))


@compiled
def _log1p_series(r: Double) -> Double:
    """ln(1 + r) for |r| < 2^-6."""
    h = r[0]
    tail = 1 / 9 - h * (1 / 10 - h * (1 / 11 - h / 12))
    tail = h * h * h * (1 / 3 - h * (1 / 4 - h * (1 / 5 - h * (1 / 6 - h * (1 / 7 - h * (1 / 8 - h * tail))))))
    return _plus(dd.add(r, scaled(dd.multiply(r, r), -0.5)), tail)


@compiled
def log_of(x: Double) -> Double:
    """ln x for finite x > 0: m 2^e, m times a short number near 1 / m is exact, and what it is off from 1 is small."""
    m, e = math.frexp(x[0])
    if m < 0.7071067811865476:
        m, e = 2.0 * m, e - 1
    rest = math.ldexp(x[1], -e) if x[1] != 0.0 else 0.0
    j = int(np.rint(64.0 * m)) - 45
    inverse = _INVERSES[j]
    product = m * inverse
    series = _log1p_series(dd.two_sum(product - 1.0, fused(m, inverse, -product) + rest * inverse))
    if e == 0 and inverse == 1.0:
        return series
    return dd.add(dd.add(dd.multiply((float(e), 0.0), _LN2), (_LOGS[j, 0], _LOGS[j, 1])), series)


@compiled
def log1p_of(x: Double) -> Double:
    return _log1p_series(x) if abs(x[0]) < 2.0**-7 else log_of(dd.add((1.0, 0.0), x))


@compiled
def root_of(x: Double) -> Double:
    """sqrt x for x = 0 or of a size whose residual does not underflow."""
    s = math.sqrt(x[0])
    return dd.two_sum(s, (x[1] - fused(s, s, -x[0])) / (2.0 * s)) if x[0] > 0.0 else (0.0, 0.0)


@compiled
def exponential(kind, x, out):  # type: ignore[no-untyped-def]
    """e^x, 2^x, 10^x, e^x - 1, tanh, sinh, cosh."""
    for i in range(out.size):
        v = x[i]
        size = abs(v)
        if size < _SMALL and 3 <= kind <= 5:
            out[i] = v
        elif not size < math.inf:
            one = math.copysign(1.0, v) if v == v else v
            special = (math.exp(v), math.exp(v), math.exp(v), math.expm1(v), one, v, size)
            out[i] = special[kind]
        elif kind < 3:
            given = (v, 0.0)
            if kind > 0:
                given = dd.multiply((min(max(v, -3000.0), 3000.0), 0.0), _LN2 if kind == 1 else _LN10)
            value, n = exp_of(given)
            out[i] = math.ldexp(value[0], n)
        elif kind < 5:
            e = _expm1_of((min(max(v, -100.0), 709.0) if kind == 3 else 2.0 * min(max(v, -30.0), 30.0), 0.0))
            out[i] = e[0] if kind == 3 else dd.quotient(e, dd.add(e, (2.0, 0.0)))[0]
            if kind == 3 and v > 709.0:
                value, n = exp_of((v, 0.0))
                out[i] = math.ldexp(value[0], n)
        elif size > 40.0:
            value, n = exp_of((size, 0.0))
            out[i] = math.copysign(math.ldexp(value[0], n - 1), v if kind == 5 else 1.0)
        else:
            e = _expm1_of((size, 0.0))
            other = dd.add(e, (1.0, 0.0))
            both = dd.add(e, dd.quotient(e, other)) if kind == 5 else dd.add(other, dd.quotient((1.0, 0.0), other))
            out[i] = math.copysign(0.5 * both[0], v if kind == 5 else 1.0)


@compiled
def logarithm(kind, x, out):  # type: ignore[no-untyped-def]
    """ln, log2, log10, ln(1 + x), asinh, acosh, atanh; NaN outside the domain."""
    for i in range(out.size):
        v = x[i]
        size = abs(v)
        if size < _SMALL and kind > 2 and kind != 5:
            out[i] = v
            continue
        if not size < math.inf:
            out[i] = v if kind == 4 or (v > 0.0 and kind != 6) else math.nan
            continue
        if kind < 3:
            if v <= 0.0:
                out[i] = -math.inf if v == 0.0 else math.nan
                continue
            value = log_of((v, 0.0))
            if kind > 0:
                value = dd.multiply(value, _PER_LN2 if kind == 1 else _PER_LN10)
        elif kind == 3:
            if v <= -1.0:
                out[i] = -math.inf if v == -1.0 else math.nan
                continue
            value = log1p_of((v, 0.0))
        elif kind < 6 and size > 2.0**500:
            value = dd.add(log_of((size, 0.0)), _LN2)
        elif kind == 4:
            square = dd.multiply((size, 0.0), (size, 0.0))
            below = dd.add((1.0, 0.0), root_of(dd.add((1.0, 0.0), square)))
            value = log1p_of(dd.add((size, 0.0), dd.quotient(square, below)))
        elif kind == 5:
            t = dd.two_sum(v, -1.0)
            value = log1p_of(dd.add(t, root_of(dd.multiply(t, dd.add(t, (2.0, 0.0))))))
        elif size < 1.0:
            value = scaled(log1p_of(dd.quotient((2.0 * size, 0.0), dd.two_sum(1.0, -size))), 0.5)
        else:
            value = (math.inf if size == 1.0 else math.nan, 0.0)
        bad = kind == 5 and v < 1.0
        out[i] = math.nan if bad else (math.copysign(value[0], v) if kind in (4, 6) else value[0])


@compiled
def _angle_of(y: Double, x: Double) -> Double:
    """Angle of the point (x, y), neither negative, not both 0."""
    steep = y[0] > x[0]
    q = dd.quotient(x, y) if steep else dd.quotient(y, x)
    j = np.rint(q[0] * STEP)
    if j != 0.0:
        c = j / STEP
        q = dd.quotient(dd.add(q, (-c, 0.0)), dd.add((1.0, 0.0), _times(q, c)))
    h = q[0] * q[0]
    tail = -q[0] * h * (1 / 3 - h * (1 / 5 - h * (1 / 7 - h * (1 / 9 - h * (1 / 11 - h / 13)))))
    angle = dd.add((_ANGLES[int(j), 0], _ANGLES[int(j), 1]), _plus(q, tail))
    return dd.add(_RIGHT, (-angle[0], -angle[1])) if steep else angle


@compiled
def _times(x: Double, c: float) -> Double:
    return dd.multiply(x, (c, 0.0))


@compiled
def angle(kind, x, out):  # type: ignore[no-untyped-def]
    """atan, asin, acos; NaN outside the domain."""
    for i in range(out.size):
        v = x[i]
        size = abs(v)
        if kind == 0 and not size < math.inf:
            out[i] = math.atan(v)
        elif size < _SMALL and kind < 2:
            out[i] = v
        elif kind == 0:
            out[i] = math.copysign(_angle_of((size, 0.0), (1.0, 0.0))[0], v)
        elif not size <= 1.0:
            out[i] = math.nan
        else:
            other = root_of(dd.multiply(dd.two_sum(1.0, -size), dd.two_sum(1.0, size)))
            if kind == 1:
                out[i] = math.copysign(_angle_of((size, 0.0), other)[0], v)
            else:
                value = _angle_of(other, (size, 0.0))
                out[i] = value[0] if v >= 0.0 else dd.add(PI, (-value[0], -value[1]))[0]


@compiled
def angle_of_point(y: float, x: float) -> float:
    """atan2(y, x)."""
    if not (abs(y) < math.inf and abs(x) < math.inf) or y == 0.0 or x == 0.0:
        return math.atan2(y, x)
    fy, ey = math.frexp(abs(y))
    fx, ex = math.frexp(abs(x))
    if ey - ex < -70 and x > 0.0:
        return y / x
    shift = min(max(ey - ex, -70), 70)
    value = _angle_of((math.ldexp(fy, shift), 0.0), (fx, 0.0))
    value = value if x > 0.0 else dd.add(PI, (-value[0], -value[1]))
    return math.copysign(value[0], y)


@compiled
def _reduced(quarters, x: float):  # type: ignore[no-untyped-def]
    """j and r with x = j pi / 32 + r modulo 2 pi, |r| <= pi / 64, for finite x.

    x = m 2^e, and m times each word of 2^e 2 / pi is exact. No float64 is nearer than 2^-62 to a multiple of pi / 2
    (relative to 1); each sum is good to 2^-104 of itself, and the words left out are below 2^-155.
    """
    m, e = math.frexp(x)
    m, e = m * 2.0**53, e - 53
    if e < LOWEST:
        m, e = math.ldexp(m, e - LOWEST), LOWEST  # below 1/2 the factor may be any float64: all is relative then
    total, j = (0.0, 0.0), 0.0
    for word in range(4):
        p = quarters[e - LOWEST, word]
        h = m * p
        low = fused(m, p, -h)
        h -= 4.0 * np.rint(0.25 * h)
        if word == 0:
            j = np.rint(h * (STEP // 2))
            h -= j / (STEP // 2)
        total = dd.add(total, dd.two_sum(h, low))
        if word == 1:  # the first word may have been off by a step
            more = np.rint(total[0] * (STEP // 2))
            total, j = dd.add(total, (-more / (STEP // 2), 0.0)), j + more
    return int(j) & (2 * STEP - 1), dd.multiply(total, _RIGHT)


@compiled
def wave_of(j, r: Double):  # type: ignore[no-untyped-def]
    """cos and sin of j pi / 32 + r."""
    c, s = (_COSINES[j, 0], _COSINES[j, 1]), (_SINES[j, 0], _SINES[j, 1])
    h = r[0] * r[0]
    tail = -r[0] * h * (1 / 6 - h * (1 / 120 - h * (1 / 5040 - h * (1 / 362880 - h / 39916800))))
    sine = _plus(r, tail)
    tail = h * h * (1 / 24 - h * (1 / 720 - h * (1 / 40320 - h / 3628800)))
    cosine = _plus(dd.add((1.0, 0.0), scaled(dd.multiply(r, r), -0.5)), tail)
    minus = dd.multiply(s, sine)
    cos = dd.add(dd.multiply(c, cosine), (-minus[0], -minus[1]))
    return cos, dd.add(dd.multiply(s, cosine), dd.multiply(c, sine))


@compiled
def wave(kind, quarters, x, out):  # type: ignore[no-untyped-def]
    """sin, cos, tan, and sin and cos of pi x; NaN at infinities. `quarters`: `constants.quarter_turns`."""
    for i in range(out.size):
        v = x[i]
        size = abs(v)
        if not size < math.inf:
            out[i] = math.nan
            continue
        if size < _SMALL and (kind == 0 or kind == 2):
            out[i] = v
            continue
        if kind > 2:
            turns = size - 2.0 * np.rint(0.5 * size)  # exact
            j = np.rint(turns * STEP)
            rest = turns - j / STEP
            if size < 2.0**-500 and kind == 3:
                out[i] = dd.multiply((v * 2.0**600, 0.0), PI)[0] * 2.0**-600
                continue
            cos, sin = wave_of(int(j) & (2 * STEP - 1), dd.multiply((rest, 0.0), PI))
        else:
            step, rest = _reduced(quarters, size)
            cos, sin = wave_of(step, rest)
        if kind == 1 or kind == 4:
            out[i] = cos[0]
        else:
            value = dd.quotient(sin, cos) if kind == 2 else sin
            out[i] = value[0] if v >= 0.0 else -value[0]


@compiled
def root(kind, x, out):  # type: ignore[no-untyped-def]
    """1 / sqrt x, cube root, its reciprocal. One step of Newton's method squares the 2^-49 of the first guess."""
    for i in range(out.size):
        v = x[i]
        size = abs(v)
        if not 0.0 < size < math.inf or (kind == 0 and v < 0.0):
            out[i] = 1.0 / math.sqrt(v) if kind == 0 else (v if kind == 1 else 1.0 / v)
            continue
        m, e = math.frexp(size)
        parts = 2 if kind == 0 else 3
        q = e // parts
        m = math.ldexp(m, e - parts * q)
        if kind == 0:
            value = root_of((m, 0.0))
        else:
            guess = math.pow(m, 1 / 3)
            square = dd.multiply((guess, 0.0), (guess, 0.0))
            rest = dd.add((m, 0.0), dd.multiply(square, (-guess, 0.0)))
            value = dd.two_sum(guess, rest[0] / (3.0 * square[0]))
        if kind != 1:
            value, q = dd.quotient((1.0, 0.0), value), -q
        out[i] = math.copysign(math.ldexp(value[0], q), v)


@compiled
def power(x: float, y: float) -> float:
    """x^y for x >= 0; the error of y ln x, 2^-66 relative, is at most 2^-56 where the result is in range."""
    if not (0.0 < x < math.inf and abs(y) < math.inf):
        return math.pow(x, y)
    log = log_of((x, 0.0))
    size = y * log[0]
    if not abs(size) < 800.0:
        return math.inf if size > 0.0 else 0.0
    value, n = exp_of(_times(log, y))
    return math.ldexp(value[0], n)


@compiled
def norm(x: float, y: float) -> float:
    """sqrt(x^2 + y^2) for x, y >= 0."""
    large, small = max(x, y), min(x, y)
    if not large < math.inf or small == 0.0:
        return math.inf if large == math.inf else large + small
    m, e = math.frexp(large)
    n = math.ldexp(small, -e) if small > large * 2.0**-60 else 0.0
    total = dd.add(dd.multiply((m, 0.0), (m, 0.0)), dd.multiply((n, 0.0), (n, 0.0)))
    return math.ldexp(root_of(total)[0], e)
