"""Formulas of truth values: comparisons, logic, selection."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from render.exact import intervals as iv
from render.exact.intervals import Interval
from render.exact.points import ONE, ZERO
from render.witness.document import Operation
from render.witness.rule import Rule, Truth, Value

if TYPE_CHECKING:
    from render.witness.evaluate import Evaluator

Test = Callable[[Interval, Interval], bool]


def from_truth(e: Evaluator, op: Operation, k: int) -> Interval:
    surely, possibly = e.args(op, k)[0]
    return (ONE if surely else ZERO), (ONE if possibly else ZERO)


def select(e: Evaluator, op: Operation, k: int) -> Value:
    """The chosen operand; where that is open, either."""
    (surely, possibly), x, y = e.args(op, k)
    if surely == possibly:
        return x if surely else y
    truths = isinstance(x, tuple) and isinstance(x[0], bool)
    return (x[0] and y[0], x[1] or y[1]) if truths else iv.hull(x, y)


def compared(certain: Test, excluded: Test) -> Rule:
    def rule(e: Evaluator, op: Operation, k: int) -> Truth:
        x, y = e.args(op, k)
        if x is None or y is None:
            return False, True
        return certain(x, y), not excluded(x, y)

    return rule


def lt(x: Interval, y: Interval) -> bool:
    found: bool = x[1] < y[0]
    return found


def le(x: Interval, y: Interval) -> bool:
    found: bool = y[0] >= x[1]
    return found


def swap(test: Test) -> Test:
    return lambda x, y: test(y, x)


def same(x: Interval, y: Interval) -> bool:
    return bool(x[0] == x[1] == y[0] == y[1])


def apart(x: Interval, y: Interval) -> bool:
    return lt(x, y) or lt(y, x)


def logic(formula: Callable[[Truth, Truth], Truth]) -> Rule:
    return lambda e, op, k: formula(*e.args(op, k))


def joined(what: Callable[[Iterable[bool]], bool]) -> Rule:
    """Any or all of the terms."""

    def rule(e: Evaluator, op: Operation, k: int) -> Truth:
        terms: list[Truth] = [e.values[n] for n in op.terms(0, k).tolist()]
        return what(x[0] for x in terms), what(x[1] for x in terms)

    return rule


def xor(x: Truth, y: Truth) -> Truth:
    if x[0] != x[1] or y[0] != y[1]:
        return False, True
    return (x[0] != y[0],) * 2


def negated(x: Truth) -> Truth:
    return not x[1], not x[0]


def is_infinite(e: Evaluator, op: Operation, k: int) -> Truth:
    (x,) = e.args(op, k)
    return (False, True) if x is None else (x[0] == x[1] and iv.infinite(x), iv.infinite(x))


def is_nan(e: Evaluator, op: Operation, k: int) -> Truth:
    return False, e.args(op, k)[0] is None


def is_finite(e: Evaluator, op: Operation, k: int) -> Truth:
    (x,) = e.args(op, k)
    return (False, True) if x is None else (not iv.infinite(x), x[0] != x[1] or not iv.infinite(x))


RULES: dict[str, Rule] = {
    "from_truth": from_truth,
    "select": select,
    "fcmpOLT": compared(lt, swap(le)),
    "fcmpOLE": compared(le, swap(lt)),
    "fcmpOGT": compared(swap(lt), le),
    "fcmpOGE": compared(swap(le), lt),
    "fcmpOEQ": compared(same, apart),
    "fcmpUNE": compared(apart, same),
    "and": logic(lambda x, y: (x[0] and y[0], x[1] and y[1])),
    "or": logic(lambda x, y: (x[0] or y[0], x[1] or y[1])),
    "xor": logic(xor),
    "icmpNE": logic(xor),
    "icmpEQ": logic(lambda x, y: negated(xor(x, y))),
    "any": joined(any),
    "all": joined(all),
    "library isnan": is_nan,
    "library isinf": is_infinite,
    "library finitef": is_finite,
    "library isfinited": is_finite,
}
