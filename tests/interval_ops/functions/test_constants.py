"""The digits of 2 / pi and the tables of fp64 functions, against mpmath."""

from __future__ import annotations

from decimal import Decimal, localcontext

import mpmath

from interval_ops.functions import constants


def test_quarter_turns_are_the_digits_of_two_over_pi() -> None:
    table = constants.quarter_turns()
    with mpmath.workprec(4000):
        for i in (0, 1, len(table) // 2, len(table) - 1):
            turns = mpmath.ldexp(2 / mpmath.pi, constants.LOWEST + i) % 4
            found = sum(mpmath.mpf(float(part)) for part in table[i])
            # modulo 4 of a digit string that is cut: a difference of a whole 4 is none
            apart = abs(found - turns)
            assert min(apart, abs(apart - 4)) < mpmath.mpf(2) ** -150, i


def test_sine_and_cosine_of_decimals() -> None:
    with localcontext() as context, mpmath.workdps(60):
        context.prec = 50
        for text in ("0.1", "-1.5", "3.9", "0"):
            for found, true in zip(constants.circle(Decimal(text)), (mpmath.cos, mpmath.sin), strict=True):
                assert abs(mpmath.mpf(str(found)) - true(mpmath.mpf(text))) < mpmath.mpf(10) ** -46
