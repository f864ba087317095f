"""Tables of `doubles`, computed once by decimal arithmetic: numbers as two float64 each, good to 2^-106.

`decimal` rounds ln and exp correctly at any precision (General Decimal Arithmetic Specification); sine and cosine are
their Taylor series here, arctangent and pi Newton's method on them.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from math import atan, ldexp

import numpy as np

from interval_ops.functions import double_double as dd

_DIGITS = 50
STEP = 32
"""Steps of the tables: exp in ln 2 / 32, sine and cosine in pi / 32, arctangent in 1 / 32."""

LOWEST, _WORDS = -53, 4


def circle(x: Decimal) -> tuple[Decimal, Decimal]:
    """cos x and sin x for |x| <= 4, to the precision of the context."""
    c, s, term, k = Decimal(1), x, x, 1
    while k < 12 or s + term != s:
        term = -term * x / (k + 1)
        c, term = c + term, term * x / (k + 2)
        s, k = s + term, k + 2
    return c, s


def _angle(t: Decimal) -> Decimal:
    """atan t: sin(a - y) = (t cos y - sin y) cos a for a = atan t, and three steps leave less than the context does."""
    y = Decimal(atan(float(t)))
    for _ in range(3):
        c, s = circle(y)
        y += (t * c - s) / (c + t * s)
    return y


def _pi() -> Decimal:
    y = Decimal("3.14159265358979")
    for _ in range(5):
        y += circle(y)[1]
    return y


@cache
def quarter_turns() -> np.ndarray:
    """2^e 2 / pi modulo 4 for e from LOWEST on, as four float64 of 53 bits each, so that m of them is exact."""
    with localcontext() as context:
        context.prec = 420
        scale = 1400
        bits = int(2 / _pi() * 2**scale)
    rows = []
    for e in range(LOWEST, 972):
        rest, row = (bits << (e - LOWEST)) % (1 << (scale + 2 - LOWEST)), []
        for _ in range(_WORDS):
            drop = max(rest.bit_length() - 53, 0)
            row.append(ldexp(rest >> drop, drop - scale + LOWEST))
            rest &= (1 << drop) - 1
        rows.append(row)
    return np.array(rows)


def _tables() -> dict[str, np.ndarray]:
    with localcontext() as context:
        context.prec = _DIGITS
        pi, ln2 = _pi(), Decimal(2).ln()
        inverse = [Fraction(256 * 64 // j if j != 64 else 256, 256) for j in range(45, 92)]
        turns = [circle((j if j <= STEP else j - 2 * STEP) * pi / STEP) for j in range(2 * STEP)]
        ten = Decimal(10).ln()
        given = {
            "POWERS": [(ln2 * j / STEP).exp() for j in range(STEP)],
            "LOGS": [-(Decimal(i.numerator) / i.denominator).ln() for i in inverse],
            "ANGLES": [_angle(Decimal(j) / STEP) for j in range(STEP + 1)],
            "COSINES": [c for c, _ in turns],
            "SINES": [s for _, s in turns],
            "SINGLE": [ln2 / STEP, pi / 2, pi, 1 / ln2, 1 / ten, ten, ln2],
        }  # fmt: skip
        made = {name: dd.table([Fraction(x) for x in row]) for name, row in given.items()}
    for name, zeros in (("COSINES", (STEP // 2, 3 * STEP // 2)), ("SINES", (0, STEP))):
        made[name][zeros, :] = 0.0  # what is left of pi's own digits
    return {**made, "INVERSES": np.array([float(i) for i in inverse])}


TABLES = _tables()
