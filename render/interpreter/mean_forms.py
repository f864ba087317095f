"""Reads combine functions of one value, and how they move with both operands (`render.interpreter.means`)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any, NamedTuple

from render.interpreter.combine import FUNCTIONS, Expression, parsed

Degree = tuple[str, Fraction]
"""("shift", d): d c is added with c; ("weight base", d): a factor base^(d c); ("scale", d): a factor c^d."""


_OF_TWO: dict[str, Callable[..., Any]] = {
    "+": operator.add, "*": operator.mul, "-": operator.sub, "/": operator.truediv, "max": max, "min": min,
}  # fmt: skip


class _NoMean(Exception):
    """No such function."""


class Motion(Enum):
    SHIFTS = "shift"
    SCALES = "scale"
    FREE = "in no way that is known"


class Mean(NamedTuple):
    """`kind`: how it moves with both operands; `even`: of operands of either sign it is that of their magnitudes.

    `ordered`: what the formula is where the first operand is the larger one, and where the second is.
    """

    formula: Callable[..., Any]
    ordered: tuple[Callable[..., Any], Callable[..., Any]]
    kind: Motion
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
    out = _folded(out)
    for kind in (Motion.SHIFTS, Motion.SCALES):
        with suppress(_NoMean):
            if _degree(out, {a: 1, b: 1}, kind is Motion.SHIFTS) == (kind.value, Fraction(1)):
                return _mean(out, a, b, kind)
    return _mean(out, a, b, Motion.FREE)


def _mean(out: Expression, a: Expression, b: Expression, kind: Motion) -> Mean | None:
    if not _known(out, (a, b)):
        return None
    even = kind is Motion.SCALES and all(_is_even(out, {a: a is x, b: b is x}) for x in (a, b))
    plain = _positive(_uncast(out), (a, b)) if even else _uncast(out)
    ordered = _formula(_ordered(plain, a, b), a, b), _formula(_ordered(plain, b, a), a, b)
    return Mean(_formula(out, a, b), ordered, kind, even)


def _uncast(e: Expression) -> Expression:
    """The expression without its casts: its exact value is the same."""
    if e[0] in ("name", "number"):
        return e
    xs = [_uncast(p) for p in e[1:]]
    return xs[0] if e[0].startswith("to ") else (e[0], *xs)


def _known(e: Expression, operands: tuple[Expression, Expression]) -> bool:
    """Whether `_evaluated` knows all of it."""
    if e in operands or e[0] == "number":
        return True
    one = e[0] in FUNCTIONS or e[0].startswith("to ")
    return (one or e[0] in _OF_TWO or e[0] == "where equal") and all(_known(p, operands) for p in e[1:])


def _folded(e: Expression) -> Expression:
    """Numbers alone are computed and compared, a test for 0 is one for a number."""
    if e[0] in ("name", "number"):
        return e
    xs = [_folded(p) for p in e[1:]]
    if e[0] == "where zero":
        xs = [xs[0], ("number", 0.0), *xs[1:]]
    if e[0] in ("where zero", "where equal"):
        if xs[0][0] == "number":
            return xs[2 if xs[0] == xs[1] else 3]
        return "where equal", *xs
    if e[0] in _OF_TWO and all(x[0] == "number" for x in xs) and (e[0] != "/" or xs[1][1]):
        return "number", reduce(_OF_TWO[e[0]], (x[1] for x in xs))
    return (e[0], *xs)


def _formula(e: Expression, a: Expression, b: Expression) -> Callable[..., Any]:
    return lambda n, x, y: n.cast("own", _evaluated(e, n, {a: x, b: y}))


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
        return n.constant(e[1])
    if e[0] == "where equal":
        x, yes, no = (_evaluated(p, n, known) for p in (e[1], *e[3:]))
        return n.equal(x, e[2][1], yes, no)
    xs = [_evaluated(p, n, known) for p in e[1:]]
    if e[0].startswith("to "):
        return n.cast(e[0].removeprefix("to "), xs[0])
    xs = n.met(xs)
    if e[0] in ("max", "min"):
        return reduce(n.larger if e[0] == "max" else n.smaller, xs)
    if e[0] in _OF_TWO:
        return n.quotient(*xs) if e[0] == "/" else reduce(_OF_TWO[e[0]], xs)
    return abs(xs[0]) if e[0] == "abs" else n.call(e[0], xs[0])


def _degree(e: Expression, operands: dict[Expression, int], shifts: bool) -> Degree:
    """How the value of an expression moves with both operands. Raises _NoMean where that is no one way."""
    kind = "shift" if shifts else "scale"
    if e in operands:
        return kind, Fraction(1)
    if e[0] == "number":
        return kind, Fraction(0)
    if e[0] == "where equal":
        asked, _, no = (_degree(p, operands, shifts) for p in (e[1], *e[3:]))
        return _of_choice(asked, no, e[2][1], shifts)
    if e[0].startswith("to "):
        return _degree(e[1], operands, shifts)
    if e[0] in ("+", "*", "max", "min") and len(e) > 3:
        e = (e[0], e[:-1], e[-1])
    if not _arity(e[0]) or len(e) - 1 != _arity(e[0]):
        raise _NoMean
    xs = [_degree(p, operands, shifts) for p in e[1:]]
    return _of_function(e[0], xs[0], shifts) if len(xs) == 1 else _of_two(e, xs[0], xs[1], shifts)


def _arity(name: str) -> int:
    return 2 if name in "+-*/" or name in ("max", "min") else int(name in FUNCTIONS)


def _of_choice(asked: Degree, no: Degree, number: float, shifts: bool) -> Degree:
    """Where a value is this number, which does not hang on how operands move. Boxes in which it is are none."""
    if math.isinf(number) or asked[1] == 0 or (number == 0 and not shifts):
        return no
    raise _NoMean


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
    if e[0].startswith("to "):
        return xs[0]
    if any(xs) and not (e[0] in ("+", "-") and all(xs)):
        raise _NoMean
    return xs[0]
