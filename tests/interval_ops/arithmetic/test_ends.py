"""Ends of boxes are met, not only enclosed: corners in exact rationals and their roundings, over every kind of end.

Ends lie at zeros of either sign, on subnormal numbers, at the edge of the range, on both sides of a binade: where a
rule tells signs apart, a `<=` in place of a `<` gives a bound that is sound and too wide.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from containment import rounded

from interval_ops.arithmetic import rule
from interval_ops.formats.model import BF16, FP32, FP64, Format
from interval_ops.profiles.profile import load_profile

IEEE = load_profile("ieee")
Box = tuple[float, float]


def boxes(fmt: Format) -> list[Box]:
    """Two ends each of these numbers, in order, zeros of either sign among them."""
    small, unit = fmt.min_subnormal, 2 * fmt.u
    numbers = [
        -3.0,
        -1.0 - unit,
        -1.0,
        -fmt.min_normal,
        -small,
        -0.0,
        0.0,
        small,
        3 * small,
        0.75,
        1.0,
        1.0 + unit,
        5.0,
    ]
    pairs = [(a, b) for a, b in itertools.combinations_with_replacement(numbers, 2) if a <= b]
    if fmt.bits == 64:
        return pairs
    return [*pairs, (-fmt.max, -1.0), (1.0, fmt.max), (fmt.max / 2, fmt.max), (0.0, fmt.max)]


def met(fmt: Format, found: Box, exact: list[Fraction], seen: tuple[object, ...]) -> None:
    """The hull of the corners, exact and rounded; outwards by no more than two steps of float64 and their rounding."""
    (lo, hi), values = found, [*exact, *(rounded(e, fmt) for e in exact)]
    assert lo <= min(values) and max(values) <= hi, seen
    assert lo >= _outwards(min(exact), fmt, -math.inf), (seen, lo, float(min(exact)))
    assert hi <= _outwards(max(exact), fmt, math.inf), (seen, hi, float(max(exact)))


def _outwards(exact: Fraction, fmt: Format, way: float) -> float:
    near = float(exact)
    for _ in range(2 if Fraction(near) == exact else 3):
        near = math.nextafter(near, way)
    both = (near, rounded(Fraction(near), fmt))
    return min(both) if way < 0 else max(both)


BINARY = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y}


def columns(chosen: list[tuple[Box, ...]]) -> list[tuple[np.ndarray, np.ndarray]]:
    ends = np.array(chosen)
    return [(ends[:, k, 0].copy(), ends[:, k, 1].copy()) for k in range(ends.shape[1])]


@pytest.mark.parametrize(
    ("op", "fmt"), [(op, fmt) for op in BINARY for fmt in (FP32, FP64) if (op, fmt) != ("div", FP64)]
)
def test_two_operands(op: str, fmt: Format) -> None:
    every = boxes(fmt)
    pairs = list(itertools.product(every, every))[:: 23 if fmt != FP32 else 11]
    if op == "div":
        pairs = [(a, b) for a, b in pairs if not b[0] <= 0 <= b[1]]
    a, b = columns(pairs)
    lo, hi = rule.div(a, b, fmt, IEEE, "div_rn") if op == "div" else getattr(rule, op)(a, b, fmt, IEEE)
    for i, (x, y) in enumerate(pairs):
        corners = [BINARY[op](Fraction(p), Fraction(q)) for p, q in itertools.product(x, y)]
        met(fmt, (lo[i].item(), hi[i].item()), corners, (op, x, y))


def test_a_square_and_a_product_with_a_sum() -> None:
    fmt = FP32
    every = boxes(fmt)
    (a,) = columns([(x,) for x in every])
    lo, hi = rule.square(a, fmt, IEEE)
    for i, (p, q) in enumerate(every):
        corners = [Fraction(p) ** 2, Fraction(q) ** 2, *([Fraction(0)] if p <= 0 <= q else [])]
        met(fmt, (lo[i].item(), hi[i].item()), corners, ("square", p, q))
        assert lo[i] >= 0
    triples = [(every[i], every[(7 * i + j) % len(every)], every[(3 * i + 5 * j) % len(every)])
               for i in range(len(every)) for j in range(0, len(every), 17)]  # fmt: skip
    triples = [t for t in triples if max(abs(e) for x in t for e in x) < fmt.max]
    a, b, c = columns(triples)
    lo, hi = rule.fma(a, b, c, fmt, IEEE)
    for i, (x, y, z) in enumerate(triples):
        corners = [Fraction(p) * Fraction(q) + Fraction(r) for p, q, r in itertools.product(x, y, z)]
        met(fmt, (lo[i].item(), hi[i].item()), corners, ("fma", x, y, z))


def of_remainder(x: Box, y: Box, u: Fraction) -> tuple[Fraction, Fraction] | None:
    """By its statement: linear where all quotients have one integer part, else by sign of x; None: nothing is known."""
    if y[0] <= 0 <= y[1]:
        return None
    quotients = [Fraction(p) / Fraction(q) for p, q in itertools.product(x, y)]
    whole = {math.trunc(q + way * abs(q) * u) for q in quotients for way in (-1, 1)}
    if len(whole) == 1:
        (n,) = whole
        ends = [Fraction(p) - n * Fraction(q) for p, q in itertools.product(x, y)]
        return min(ends), max(ends)
    error = max(abs(Fraction(e)) for e in x) * u
    reach = max(abs(Fraction(e)) for e in y) + error
    return (-error if x[0] >= 0 else -reach), (error if x[1] <= 0 else reach)


def test_a_remainder() -> None:
    u = Fraction(FP32.u) * (1 + Fraction(1, 2**20))
    every = [b for b in boxes(FP32) if max(map(abs, b)) < FP32.max]
    pairs = list(itertools.product(every, every))[::3]
    a, b = columns(pairs)
    lo, hi = rule.fmod(a, b, FP32, IEEE)
    known = 0
    for i, (x, y) in enumerate(pairs):
        wanted = of_remainder(x, y, u)
        if wanted is None or not max(abs(Fraction(e)) for e in x) / min(abs(Fraction(e)) for e in y) < FP32.max / 4:
            assert math.isnan(lo[i]) or wanted is not None
            continue
        known += 1
        low, high = wanted
        room = [abs(w) * Fraction(1, 2**23) + Fraction(FP32.min_subnormal) for w in wanted]  # their own rounding
        assert low - room[0] <= Fraction(lo[i].item()) <= low, (x, y)
        assert high <= Fraction(hi[i].item()) <= high + room[1], (x, y)
    assert known > 600


@pytest.mark.parametrize("fmt", [FP32, BF16], ids=lambda f: f.name)
def test_what_one_operand_tells(fmt: Format) -> None:
    every = boxes(fmt)
    (a,) = columns([(x,) for x in every])
    lo, hi = rule.abs_(a)
    for i, (p, q) in enumerate(every):
        least = 0.0 if p <= 0 <= q else min(abs(p), abs(q))
        assert (lo[i], hi[i]) == (least, max(abs(p), abs(q))) and not np.signbit(lo[i])
    lo, hi = rule.neg(a)
    assert np.array_equal(lo, -a[1]) and np.array_equal(hi, -a[0])
    assert np.array_equal(np.signbit(lo), ~np.signbit(a[1])) and np.array_equal(np.signbit(hi), ~np.signbit(a[0]))
