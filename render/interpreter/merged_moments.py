"""Which combine functions merge (mean, M2, weight) as Chan, Golub and LeVeque do, in whatever spelling."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any, NamedTuple

from render.interpreter.combine import Expression, commutative, read


class Welford(NamedTuple):
    """Positions of mean, M2 and weight; `guarded`: the share is 0 where both weights are 0; `weighted`: the mean is
    (w_a mean_a + w_b mean_b) / w; `raw`: with max(w, 1) for w, and M2 is a difference of raw squares."""

    mean: int
    m2: int
    weight: int
    guarded: bool
    weighted: bool = False
    raw: bool = False


def welford(fn: Any) -> Welford | None:
    """Which components are mean, M2 and weight, if the function combines them by the formula of Chan et al."""
    found = read(fn)
    if found is None or len(found[2]) != 3:
        return None
    left, right, outputs = found
    outputs = [_inverted(_asked_once(e)) for e in outputs]
    for mean, m2, weight in permutations(range(3)):
        total = commutative("+", left[weight], right[weight])
        if outputs[weight] != total:
            continue
        if _by_raw_squares(left, right, outputs, (mean, m2, weight)):
            return Welford(mean, m2, weight, True, True, True)
        for inverse, guarded, inside in _inverses(total):
            made = [_with_inverse(outputs[k], total, inverse) if inside else outputs[k] for k in (mean, m2)]
            weighted = _merged(left, right, made, (mean, m2, weight), inverse, guarded and not inside)
            if weighted is not None and not (weighted and guarded and not inside):
                return Welford(mean, m2, weight, guarded, weighted)
    return None


def _inverses(total: Expression) -> Iterator[tuple[Expression, bool, bool]]:
    """(1 / w, whether w = 0 is asked for, whether within the divisor)."""
    yield ("inverse", total), True, False
    yield ("inverse", total), False, False
    yield ("inverse", ("guarded", total)), True, True


def _with_inverse(e: Expression, total: Expression, inverse: Expression) -> Expression:
    """With divisors that are w, or for w = 0 another number, told as such: of weights that are whole numbers and not
    negative, max(w, c) is one for 0 < c <= 1."""
    if e[0] in ("name", "number"):
        return e
    if e[0] == "inverse" and _is_guarded(e[1], total):
        return inverse
    return _resorted(e[0], [_with_inverse(p, total, inverse) for p in e[1:]])


def _is_guarded(divisor: Expression, total: Expression) -> bool:
    if divisor[0] == "where zero" and divisor[1] == divisor[3] == total:
        return bool(divisor[2][0] == "number" and divisor[2][1] != 0)
    others = [p for p in divisor[1:] if p[0] == "number"]
    if divisor[0] != "max" or len(others) != 1 or not 0 < others[0][1] <= 1:
        return False
    return divisor == commutative("max", total, others[0])


def _merged(
    left: list[Expression], right: list[Expression], made: list[Expression], places: tuple[int, int, int],
    inverse: Expression, guarded: bool,
) -> bool | None:  # fmt: skip
    """Whether mean and M2 are merged with this inverse of w, the mean as a weighted one (True) or by a share of the
    difference; None where they are not. The difference is of either sign: with the other, every step has it."""
    mean, m2, weight = places
    total = inverse[1][1] if inverse[1][0] == "guarded" else inverse[1]
    for (a, b), sign in product(((left, right), (right, left)), (1, -1)):
        delta = ("-", b[mean], a[mean]) if sign > 0 else ("-", a[mean], b[mean])
        share = commutative("*", b[weight], inverse)
        share = ("where zero", total, ("number", 0.0), share) if guarded else share
        between = commutative("*", delta, delta, a[weight], share)
        if made[1] != commutative("+", left[m2], right[m2], between):
            continue
        moved = commutative("*", delta, share)
        if made[0] == (commutative("+", a[mean], moved) if sign > 0 else ("-", a[mean], moved)):
            return False
        both = commutative("+", *(commutative("*", x[weight], x[mean]) for x in (left, right)))
        if made[0] == commutative("*", both, inverse):
            return True
    return None


def _asked_once(e: Expression, zero: frozenset[Expression] = frozenset(), other: frozenset[Expression] = frozenset()
                ) -> Expression:  # fmt: skip
    """Without tests for zero whose answer is known where they stand."""
    if e[0] in ("name", "number"):
        return e
    if e[0] == "where positive":  # of what is not negative, as weights are
        e = ("where zero", e[1], e[3], e[2])
    if e[0] != "where zero":
        return _resorted(e[0], [_asked_once(p, zero, other) if isinstance(p, tuple) else p for p in e[1:]])
    _, x, if_so, if_not = e
    if x in zero or x in other:
        return _asked_once(if_so if x in zero else if_not, zero, other)
    return ("where zero", x, _asked_once(if_so, zero | {x}, other), _asked_once(if_not, zero, other | {x}))


def _resorted(symbol: str, parts: list[Expression]) -> Expression:
    return commutative(symbol, *parts) if symbol in ("+", "*", "max", "min") else (symbol, *parts)


def _by_raw_squares(
    left: list[Expression], right: list[Expression], outputs: list[Expression], places: tuple[int, int, int]
) -> bool:
    """Whether the mean is sum(w mean) / max(w, 1), and M2 the sum of M2 + w mean^2 less w mean^2 of both."""
    mean, m2, weight = places
    total = commutative("+", left[weight], right[weight])
    both = commutative("+", *(commutative("*", x[weight], x[mean]) for x in (left, right)))
    made = commutative("*", both, ("inverse", commutative("max", total, ("number", 1.0))))
    squares = (commutative("*", x[weight], x[mean], x[mean]) for x in (left, right))
    parts = commutative("+", left[m2], right[m2], *squares)
    return outputs[mean] == made and outputs[m2] == ("-", parts, commutative("*", total, made, made))


def _inverted(e: Expression) -> Expression:
    """Quotients as products with an inverse, in whatever order: as many roundings."""
    if e[0] in ("name", "number"):
        return e
    parts = [_inverted(p) for p in e[1:]]
    if e[0] == "/" and parts[0][0] != "number":
        return commutative("*", parts[0], ("inverse", parts[1]))
    return commutative(e[0], *parts) if e[0] in ("+", "*") else (e[0], *parts)
