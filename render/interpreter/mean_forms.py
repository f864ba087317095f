"""Reads combine functions that move or scale with both of their operands (`render.interpreter.means`)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any, NamedTuple

from render.interpreter.combine import FUNCTIONS, Expression, parsed

Degree = tuple[str, Fraction]
"""("shift", d): d c is added with c; ("weight base", d): a factor base^(d c); ("scale", d): a factor c^d."""


class _NoMean(Exception):
    """No such function."""


class Mean(NamedTuple):
    """`shifts`, else it scales; `even`: of operands of either sign it is that of their magnitudes.

    `ordered`: what the formula is where the first operand is the larger one, and where the second is.
    """

    formula: Callable[..., Any]
    ordered: tuple[Callable[..., Any], Callable[..., Any]]
    shifts: bool
    even: bool


def mean_of(source: str | None) -> Mean | None:
    """What the text of a combine function of one value is, if it is of this kind."""
    return None if source is None else _read(source)


@lru_cache(maxsize=256)
def _read(source: str) -> Mean | None:
    found = parsed(source)
    if found is None or len(found[2]) != 1:
        return None
    (a,), (b,), (out,) = found
    for shifts in (True, False):
        try:
            if _degree(out, {a: 1, b: 1}, shifts) == ("shift" if shifts else "scale", Fraction(1)):
                even = not shifts and all(_is_even(out, {a: a is x, b: b is x}) for x in (a, b))
                plain = out if shifts else _positive(out, (a, b))
                ordered = _formula(_ordered(plain, a, b), a, b), _formula(_ordered(plain, b, a), a, b)
                return Mean(_formula(out, a, b), ordered, shifts, even)
        except _NoMean:
            continue
    return None


def _formula(e: Expression, a: Expression, b: Expression) -> Callable[..., Any]:
    return lambda n, x, y: _evaluated(e, n, {a: x, b: y})


def _positive(e: Expression, operands: tuple[Expression, Expression]) -> Expression:
    """The expression of positive operands, whose magnitudes they are."""
    if e in operands or e[0] == "number":
        return e
    if e[0] == "abs" and e[1] in operands:
        return e[1]  # type: ignore[no-any-return]
    return (e[0], *(_positive(p, operands) for p in e[1:]))


def _ordered(e: Expression, high: Expression, low: Expression) -> Expression:
    """The expression where one operand is known to be at least the other: their extremes, and what cancels."""
    if e in (high, low) or e[0] == "number":
        return e
    xs = [_ordered(p, high, low) for p in e[1:]]
    if e[0] in ("max", "min") and set(xs) == {high, low}:
        return high if e[0] == "max" else low
    if e[0] == "abs" and xs[0] in (("-", high, low), ("-", low, high)):
        return "-", high, low
    if e[0] in ("-", "/") and xs[0] == xs[1]:
        return "number", 0.0 if e[0] == "-" else 1.0
    return (e[0], *xs)


def _evaluated(e: Expression, n: Any, known: dict[Expression, Any]) -> Any:
    if e in known:
        return known[e]
    if e[0] == "number":
        return n.number(e[1])
    xs = [_evaluated(p, n, known) for p in e[1:]]
    if e[0] in ("+", "*"):
        return reduce(lambda x, y: x + y if e[0] == "+" else x * y, xs)
    if e[0] in ("max", "min"):
        return reduce(n.larger if e[0] == "max" else n.smaller, xs)
    if e[0] in ("-", "/"):
        return xs[0] - xs[1] if e[0] == "-" else xs[0] / xs[1]
    return abs(xs[0]) if e[0] == "abs" else n.call(e[0], xs[0])


def _degree(e: Expression, operands: dict[Expression, int], shifts: bool) -> Degree:
    """How the value of an expression moves with both operands. Raises _NoMean where that is no one way."""
    kind = "shift" if shifts else "scale"
    if e in operands:
        return kind, Fraction(1)
    if e[0] == "number":
        return kind, Fraction(0)
    if not _arity(e[0]) or len(e) - 1 != _arity(e[0]):
        raise _NoMean
    xs = [_degree(p, operands, shifts) for p in e[1:]]
    return _of_function(e[0], xs[0], shifts) if len(xs) == 1 else _of_two(e, xs[0], xs[1], shifts)


def _arity(name: str) -> int:
    return 2 if name in "+-*/" or name in ("max", "min") else int(name in FUNCTIONS)


def _base(name: str) -> str:
    """Of an exponential or a logarithm."""
    return "weight 2" if name.endswith("2") else "weight e"


def _of_function(name: str, x: Degree, shifts: bool) -> Degree:
    still = x[1] == 0
    if name == "sqrt" and not (shifts and x[0] == "shift"):
        return x[0], x[1] / 2
    if name == "abs" and (still or x[0] != "shift"):
        return x
    if still and (x[0] in ("shift", "scale") or name.startswith("exp") or name == "log1p"):
        return ("shift" if shifts else "scale"), Fraction(0)
    if shifts and name in ("exp", "exp2") and x[0] == "shift":
        return _base(name), x[1]
    if shifts and name in ("log", "log2") and x[0] == _base(name):
        return "shift", x[1]
    raise _NoMean


def _of_two(e: Expression, x: Degree, y: Degree, shifts: bool) -> Degree:
    op = e[0]
    plain = [p[0] == "number" for p in e[1:]]
    if op == "-" and plain[0] and e[1][1] == 0 and not (shifts and y[0] == "shift"):
        return y
    if op in ("max", "min") and x == y:
        return x
    if op in ("+", "-") and shifts and x[0] == y[0] == "shift":
        return "shift", x[1] + y[1] if op == "+" else x[1] - y[1]
    if op in ("+", "-") and x == y and x[0] != "shift":
        return x
    if op in ("+", "-") and x[1] == y[1] == 0:  # ratios and numbers
        return ("shift" if shifts else "scale"), Fraction(0)
    if op in ("*", "/") and x[0] == y[0] and not (shifts and x[0] == "shift"):
        return x[0], x[1] + y[1] if op == "*" else x[1] - y[1]
    if op == "*" and any(plain) and shifts:  # a number times something that shifts
        factor, other = (e[1][1], y) if plain[0] else (e[2][1], x)
        return (other[0], Fraction(factor) * other[1]) if other[0] == "shift" else other
    if op == "/" and shifts and plain[1] and e[2][1]:
        return (x[0], x[1] / Fraction(e[2][1])) if x[0] == "shift" else x
    if x[1] == y[1] == 0:
        return ("shift" if shifts else "scale"), Fraction(0)
    raise _NoMean


def _is_even(e: Expression, odd: dict[Expression, bool]) -> bool:
    try:
        return _parity(e, odd) == 0
    except _NoMean:
        return False


def _parity(e: Expression, odd: dict[Expression, bool]) -> int:
    """0 for an even function of the operand that is `odd`, 1 for an odd one. Raises _NoMean for others."""
    if e in odd:
        return int(odd[e])
    if e[0] == "number":
        return 0
    xs = [_parity(p, odd) for p in e[1:]]
    if e[0] in ("*", "/"):
        return sum(xs) % 2
    if e[0] == "abs":
        return 0
    if any(xs) and not (e[0] in ("+", "-") and all(xs)):
        raise _NoMean
    return xs[0]
