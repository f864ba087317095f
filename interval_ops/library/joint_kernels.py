"""Flat numba kernels of library functions of several arguments, and of directed rounding."""

from __future__ import annotations

import math
from math import isnan

import numpy as np

from interval_ops.arithmetic.hull import FP64_MAX, down, fused, sum_error, up
from interval_ops.compiled import compiled
from interval_ops.formats.rounding import TINY, rd, ru, rz
from interval_ops.functions import doubles
from interval_ops.functions.kernels import LIBM, libm_down, outward

DOWN, UP, ZERO = 0, 1, 2


@compiled
def _power(x, y, libm):  # type: ignore[no-untyped-def]
    """x^y for x >= 0 within libm: the machine's, or for less than that is good for one that is proved."""
    return math.pow(x, y) if libm >= LIBM else doubles.power(x, y)


@compiled
def _powers(x0, x1, y0, y1, libm):  # type: ignore[no-untyped-def]
    """Least and greatest at the corners of a box: the range there, as x^y is monotone in each argument."""
    a, b, c, d = _power(x0, y0, libm), _power(x0, y1, libm), _power(x1, y0, libm), _power(x1, y1, libm)
    return min(min(a, b), min(c, d)), max(max(a, b), max(c, d))


@compiled
def _integer_power(x0, x1, n, libm):  # type: ignore[no-untyped-def]
    """Range of x^n on an interval that holds 0 and something below it, n an integer."""
    odd = np.fmod(n, 2.0) != 0.0
    p, q = _power(-x0, n, libm), _power(x1, n, libm)
    if n < 0.0:
        return (-math.inf if odd else min(p, q)), math.inf
    if odd:
        return -p, q
    return (1.0 if n == 0.0 else 0.0), max(p, q)


@compiled
def _odd_between(y0, y1):  # type: ignore[no-untyped-def]
    """Whether [y0, y1] holds an odd integer."""
    n = np.ceil(y0)
    if abs(n) >= 2.0**53:  # all of them even; the next odd ones lie towards 0
        return y0 != y1
    return (n if np.fmod(n, 2.0) != 0.0 else n + 1.0) <= y1


@compiled
def close_pow(xlo, xhi, ylo, yhi, lo, hi, error):  # type: ignore[no-untyped-def]
    """x^y: corners for x >= 0, where it is monotone in either argument; below 0 for one integer y only, else top.

    x^0 and 1^y are 1 (C99 F.10.4.4). A zero end of the base has either sign, a point that is zero its own.
    """
    r, a, flush, gate, limit, libm = error
    same = True
    for i in range(lo.size):
        x0, x1, y0, y1 = xlo[i], xhi[i], ylo[i], yhi[i]
        point = (x0 == x1) & (y0 == y1)
        x0 = 0.0 if 0.0 < x0 < flush else x0
        x1 = 0.0 if -flush < x1 < 0.0 else x1
        top = isnan(x0) or isnan(y0)
        low, high, odd, mirrored = 0.0, 0.0, False, False
        if not top and x0 >= 0.0:
            known = point and np.signbit(xlo[i]) == np.signbit(xhi[i])
            low, high = _powers(x0 if known else abs(x0), x1, y0, y1, libm)
            if x0 == 0.0 and y0 < 0.0 and not known and _odd_between(y0, min(y1, -1.0)):
                low = -math.inf  # (-0)^y for an odd y
        elif not top and y0 == y1 and y0 == np.rint(y0) and abs(y0) <= FP64_MAX:
            odd = np.fmod(y0, 2.0) != 0.0
            mirrored = odd and x1 < 0.0  # magnitudes first, the sign at the end
            low, high = _powers(-x1, -x0, y0, y0, libm) if x1 < 0.0 else _integer_power(x0, x1, y0, libm)
        else:
            top = True
        one = (y0 == 0.0 and y1 == 0.0) or (x0 == 1.0 and x1 == 1.0)
        special = one or (
            x0 == x1
            and low == high
            and (abs(low) == 0.0 or abs(low) > FP64_MAX)
            and (x0 == 0.0 or abs(x0) > FP64_MAX or (y0 == y1 and abs(y0) > FP64_MAX))
        )
        if not special and not top:
            floor = 0.0 if low >= 0.0 and (x0 >= 0.0 or not odd or x1 < 0.0) else -math.inf
            low, high = libm_down(low, libm, TINY), -libm_down(-high, libm, TINY)
            low, high = outward(low, high, r, a, floor, flush, gate, limit)
        low, high = (-high, -low) if mirrored else (low, high)
        same &= (low == high) and not top
        lo[i], hi[i] = (np.nan if top else low), (np.nan if top else high)
    return same


@compiled
def _angle(y, x, libm):  # type: ignore[no-untyped-def]
    return math.atan2(y, x) if libm >= LIBM else doubles.angle_of_point(y, x)


@compiled
def _angles(y0, y1, x0, x1, libm):  # type: ignore[no-untyped-def]
    """As `_powers`."""
    a, b, c, d = _angle(y0, x0, libm), _angle(y0, x1, libm), _angle(y1, x0, libm), _angle(y1, x1, libm)
    return min(min(a, b), min(c, d)), max(max(a, b), max(c, d))


@compiled
def close_atan2(ylo, yhi, xlo, xhi, lo, hi, error):  # type: ignore[no-untyped-def]
    """atan2(y, x): angles of the corners of a box that neither holds the origin nor meets the cut x < 0, y = 0.

    A box that does gives [-pi, pi]; a y that is a zero of known sign stays on its side of the cut.
    """
    r, a, flush, gate, limit, libm = error
    same = True
    for i in range(lo.size):
        y0, y1, x0, x1 = ylo[i], yhi[i], xlo[i], xhi[i]
        top = isnan(x0) or isnan(y0)
        known = y0 == y1 and np.signbit(y0) == np.signbit(y1)
        y0, y1 = (0.0 if 0.0 < y0 < flush else y0), (-0.0 if -flush < y1 < 0.0 else y1)
        x0, x1 = (0.0 if 0.0 < x0 < flush else x0), (0.0 if -flush < x1 < 0.0 else x1)
        # 0 and -0 as x are half a turn apart for y = 0.
        zero = y0 <= 0.0 <= y1 and x0 <= 0.0
        one_zero = known and y0 == y1 == 0.0 and (x1 < 0.0 or (x0 == x1 == 0.0 and xlo[i] == xhi[i] and
                   np.signbit(xlo[i]) == np.signbit(xhi[i])))  # fmt: skip
        if zero and not one_zero:
            low, high = -math.pi, math.pi
        elif zero and x0 == 0.0:
            low = high = _angle(y0, xlo[i], libm)
        else:
            low, high = _angles(y0, y1, x0, x1, libm)
        low, high = libm_down(low, libm, TINY), -libm_down(-high, libm, TINY)
        low, high = outward(low, high, r, a, -math.inf, flush, gate, limit)
        if known and ylo[i] == 0.0 and x0 > 0.0:
            low = high = ylo[i]
        same &= (low == high) and not top
        lo[i], hi[i] = (np.nan if top else low), (np.nan if top else high)
    return same


@compiled
def _norm(x, y, libm):  # type: ignore[no-untyped-def]
    return math.hypot(x, y) if libm >= LIBM else doubles.norm(x, y)


@compiled
def norm(xlo, xhi, ylo, yhi, lo, hi, libm):  # type: ignore[no-untyped-def]
    """sqrt(x^2 + y^2) of magnitudes in float64, outward; no rounding of the target."""
    for i in range(lo.size):
        low, high = _norm(xlo[i], ylo[i], libm), _norm(xhi[i], yhi[i], libm)
        top = isnan(xlo[i]) or isnan(ylo[i])
        exact = xlo[i] == 0.0 or ylo[i] == 0.0 or max(xlo[i], ylo[i]) > FP64_MAX
        lo[i] = np.nan if top else (low if exact else max(libm_down(low, libm, TINY), 0.0))
        exact = xhi[i] == 0.0 or yhi[i] == 0.0 or max(xhi[i], yhi[i]) > FP64_MAX
        hi[i] = np.nan if top else (high if exact else -libm_down(-high, libm, TINY))
    return False


@compiled
def close_norm(alo, ahi, lo, hi, inverse, error):  # type: ignore[no-untyped-def]
    """The target's error around a norm, or around its reciprocal (infinite at 0)."""
    r, a, flush, gate, limit, libm = error
    same = True
    for i in range(lo.size):
        low, high = alo[i], ahi[i]
        top = isnan(low)
        special = low == high and (low == 0.0 or low > FP64_MAX)
        if inverse:
            low, high = 1.0 / max(high, 0.0), 1.0 / max(low, 0.0)
            low, high = libm_down(low, libm, TINY), -libm_down(-high, libm, TINY)
        exact = (math.inf if alo[i] == 0.0 else 0.0) if inverse else alo[i]
        low, high = outward(low, high, r, a, 0.0, flush, gate, limit)
        low, high = (exact if special else low), (exact if special else high)
        same &= (low == high) and not top
        lo[i], hi[i] = (np.nan if top else low), (np.nan if top else high)
    return same


@compiled
def ieee_remainder(x, y):  # type: ignore[no-untyped-def]
    """x - n y with n the integer nearest to x / y, ties to even; exact (every step is)."""
    size, step = abs(x), abs(y)
    if not (size <= FP64_MAX and step > 0.0):
        return math.nan
    if step > FP64_MAX:
        return x
    rest = np.fmod(size, step)
    odd = (np.fmod(size, 2.0 * step) >= step) if step <= 0.5 * FP64_MAX else size >= step
    if rest > step - rest or (rest == step - rest and odd):
        rest -= step
    return math.copysign(rest, x) if rest == 0.0 else (rest if x > 0.0 else -rest)


@compiled
def remainders(xlo, xhi, ylo, yhi, lo, hi):  # type: ignore[no-untyped-def]
    """IEEE remainder: x - n y where every choice has the same n, else [-|y|/2, |y|/2]. A divisor with 0 gives top."""
    same = True
    for i in range(lo.size):
        x0, x1 = xlo[i], xhi[i]
        y0, y1 = min(abs(ylo[i]), abs(yhi[i])), max(abs(ylo[i]), abs(yhi[i]))
        straddles = ylo[i] <= 0.0 <= yhi[i]
        top = isnan(x0) or isnan(ylo[i]) or straddles or max(abs(x0), abs(x1)) > FP64_MAX
        low, high = 0.0, 0.0
        if not top and x0 == x1 and y0 == y1:
            low = high = ieee_remainder(x0, y0)
        elif not top:
            low, high = -0.5 * y1, 0.5 * y1
            if max(abs(x0), abs(x1)) < 0.5 * y0:
                low, high = x0, x1
            else:
                # Quotients of the corners, with room for their rounding.
                q0 = min(min(x0 / y0, x0 / y1), min(x1 / y0, x1 / y1))
                q1 = max(max(x0 / y0, x0 / y1), max(x1 / y0, x1 / y1))
                n = np.rint(0.5 * (q0 + q1))
                room = abs(n) * 2.0**-48 + 2.0**-50
                if abs(n) < 2.0**40 and q0 > n - 0.5 + room and q1 < n + 0.5 - room:
                    a, b = n * y0, n * y1
                    slack = (max(abs(x0), abs(x1)) + max(abs(a), abs(b))) * 2.0**-50
                    low, high = max(low, x0 - max(a, b) - slack), min(high, x1 - min(a, b) + slack)
        same &= (low == high) and not top
        lo[i], hi[i] = (np.nan if top else low), (np.nan if top else high)
    return same


@compiled
def copysigns(xlo, xhi, ylo, yhi, lo, hi):  # type: ignore[no-untyped-def]
    """|x| with the sign of y; both signs where y may have either, a NaN included."""
    same = True
    for i in range(lo.size):
        x0, x1 = abs(xlo[i]), abs(xhi[i])
        x0, x1 = (0.0 if xlo[i] <= 0.0 <= xhi[i] else min(x0, x1)), max(x0, x1)
        # A zero end next to other numbers, or zeros of two signs in whichever order, may have either sign.
        below, above = bool(np.signbit(ylo[i])), not np.signbit(yhi[i])
        minus = isnan(ylo[i]) or below or (ylo[i] == 0.0 and (yhi[i] > 0.0 or not above))
        plus = isnan(ylo[i]) or above or (yhi[i] == 0.0 and (ylo[i] < 0.0 or not below))
        low, high = (-x1 if minus else x0), (x1 if plus else -x0)
        top = isnan(xlo[i])
        same &= (low == high) and not top
        lo[i], hi[i] = (np.nan if top else low), (np.nan if top else high)
    return same


@compiled
def directed(alo, ahi, lo, hi, mode, gate):  # type: ignore[no-untyped-def]
    """Hull of the exact ends and of the same rounded downwards, upwards or towards zero; NaN stays."""
    same = True
    for i in range(lo.size):
        low, high = alo[i], ahi[i]
        if mode == DOWN:
            low = min(low, rd(low, gate))
            high = max(high, rd(high, gate))
        elif mode == UP:
            low = min(low, ru(low, gate))
            high = max(high, ru(high, gate))
        else:
            low = min(low, rz(low, gate))
            high = max(high, rz(high, gate))
        top = isnan(alo[i])
        same &= (low == high) and not top
        lo[i], hi[i] = (np.nan if top else low), (np.nan if top else high)
    return same


@compiled
def _fma_error(a, b, c, s):  # type: ignore[no-untyped-def]
    """a b + c - s for s = fma(a, b, c). Source: Boldo and Muller, Exact and approximated error of the FMA."""
    p = a * b
    rest = fused(a, b, -p)
    t = c + rest
    low = sum_error(c, rest, t)
    high = p + t
    return ((high - s) + sum_error(p, t, high)) + low


@compiled
def directed_values(kind, mode, double, gate, x, y, z, out):  # type: ignore[no-untyped-def]
    """x + y, x y, x / y, sqrt x or x y + z rounded in a direction. `kind` is its place in that list.

    A float64 result that is a number of the format, though not exact, is moved by the sign of what it lost.
    """
    for i in range(out.size):
        a, b, c = x[i], y[i], z[i]
        if kind == 0:
            s = a + b
            lost = sum_error(a, b, s)
        elif kind == 1:
            s = a * b
            lost = fused(a, b, -s)
        elif kind == 2:
            s = a / b
            lost = -fused(s, b, -a) * math.copysign(1.0, b)
        elif kind == 3:
            s = math.sqrt(a)
            lost = -fused(s, s, -a)
        else:
            s = fused(a, b, c)
            lost = _fma_error(a, b, c, s)
        if abs(s) <= FP64_MAX and lost != 0.0:
            if double:
                lower = mode == DOWN or (mode == ZERO and s > 0.0)
                if lower == (lost < 0.0):
                    s = np.nextafter(s, math.inf if lost > 0.0 else -math.inf)
            elif rd(s, gate) == s:
                s = np.nextafter(s, math.inf if lost > 0.0 else -math.inf)
        if not double:
            s = rd(s, gate) if mode == DOWN else (ru(s, gate) if mode == UP else rz(s, gate))
        out[i] = s


@compiled
def outward_twice(alo, ahi, lo, hi):  # type: ignore[no-untyped-def]
    """Float64 slack for any directed rounding of a fp64 result: twice one spacing."""
    for i in range(lo.size):
        lo[i] = down(down(alo[i], True), True)
        hi[i] = up(up(ahi[i], True), True)
    return False
