"""Formulas of integers: both ends, in arbitrary precision.

Sums, differences, products and conversions between integers wrap around, as LLVM's add, sub, mul and trunc do where
nothing promises that they will not (Triton gives no such flag): a result is one of its residues, and any number of the
type where the ends fall into different periods.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING

from render.exact import intervals as iv
from render.exact.intervals import Maybe
from render.exact.points import integer, number
from render.witness.document import Operation
from render.witness.rule import Rule, Truth
from render.witness.truths import apart, compared, le, lt, negated, same, swap

if TYPE_CHECKING:
    from render.witness.evaluate import Evaluator

FEW = 4
"""Integers of an interval that are tried one by one."""


def limits(op: Operation) -> tuple[int, int]:
    name = str(op.attrs["type"])
    bits = int(name.lstrip("uint"))
    return (0, 2**bits - 1) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def within(lo: int, hi: int, op: Operation) -> Maybe:
    """The interval, if the type holds it: what leaves it wraps, saturates or is undefined."""
    least, most = limits(op)
    return (number(lo), number(hi)) if least <= lo and hi <= most else None


def whole(x: Maybe) -> tuple[int, int] | None:
    return None if x is None or iv.infinite(x) else (integer(x[0]), integer(x[1]))


def cut(e: Evaluator, op: Operation, k: int) -> Maybe:
    """Towards zero, which keeps the order."""
    found = whole(e.args(op, k)[0])  # to_int truncates
    return None if found is None else within(*found, op)


def corners(function: Callable[..., int]) -> Rule:
    """An operation that is monotone in each operand."""

    def rule(e: Evaluator, op: Operation, k: int) -> Maybe:
        ends = [whole(x) for x in e.args(op, k)]
        if any(pair is None for pair in ends):
            return None
        values = [function(*choice) for choice in product(*(set(pair) for pair in ends if pair is not None))]
        return wound(min(values), max(values), op)

    return rule


def wound(lo: int, hi: int, op: Operation) -> Maybe:
    """The interval in the type, whole turns taken off."""
    least, most = limits(op)
    turns = (lo - least) // (most - least + 1)
    if turns != (hi - least) // (most - least + 1):
        return number(least), number(most)
    return number(_wrapped(lo, op)), number(_wrapped(hi, op))


def tried(function: Callable[..., int]) -> Rule:
    """An operation on bits: every integer of the operands, where these are few."""

    def rule(e: Evaluator, op: Operation, k: int) -> Maybe:
        ranges = []
        for x in e.args(op, k):
            pair = whole(x)
            if pair is None or pair[1] - pair[0] >= FEW:
                return None
            ranges.append(range(pair[0], pair[1] + 1))
        values = [_wrapped(function(*choice), op) for choice in product(*ranges)]
        return number(min(values)), number(max(values))

    return rule


def _wrapped(value: int, op: Operation) -> int:
    least, most = limits(op)
    return (value - least) % (most - least + 1) + least


def dot(e: Evaluator, op: Operation, k: int) -> Maybe:
    """acc + sum of a b, if no sum of magnitudes leaves the type: it is the same in every order."""
    found = whole(e.values[op.operands[0][k]])
    if found is None:
        return None
    (lo, hi), reach = found, max(map(abs, found))
    for x, y in zip(e.terms(op, k, 1), e.terms(op, k, 2), strict=True):
        a, b_ = whole(x), whole(y)
        if a is None or b_ is None:
            return None
        ends = [p * q for p in a for q in b_]
        lo, hi, reach = lo + min(ends), hi + max(ends), reach + max(map(abs, ends))
    return within(lo, hi, op) if reach < 2**31 else None


def absolute(e: Evaluator, op: Operation, k: int) -> Maybe:
    pair = whole(e.args(op, k)[0])
    if pair is None:
        return None
    lo, hi = pair
    return within(0 if lo <= 0 <= hi else min(abs(lo), abs(hi)), max(abs(lo), abs(hi)), op)


def _different(e: Evaluator, op: Operation, k: int) -> Truth:
    truth: Truth = compared(same, apart)(e, op, k)
    return negated(truth)


RULES: dict[str, Rule] = {
    "to_integer": cut,
    "int dot": dot,
    "int add": corners(lambda x, y: x + y),
    "int sub": corners(lambda x, y: x - y),
    "int mul": corners(lambda x, y: x * y),
    **dict.fromkeys(("int minsi", "int minui"), corners(min)),
    **dict.fromkeys(("int maxsi", "int maxui"), corners(max)),
    "int int_cast": corners(lambda x: x),
    "int iabs": absolute,
    "int and": tried(lambda x, y: x & y),
    "int or": tried(lambda x, y: x | y),
    "int xor": tried(lambda x, y: x ^ y),
    "int shl": tried(lambda x, n: x << n if 0 <= n < 64 else 0),
    "int ashr": tried(lambda x, n: x >> min(max(n, 0), 64)),
    **dict.fromkeys(("int icmpSLT", "int icmpULT"), compared(lt, swap(le))),
    **dict.fromkeys(("int icmpSLE", "int icmpULE"), compared(le, swap(lt))),
    **dict.fromkeys(("int icmpSGT", "int icmpUGT"), compared(swap(lt), le)),
    **dict.fromkeys(("int icmpSGE", "int icmpUGE"), compared(swap(le), lt)),
    "int icmpEQ": compared(same, apart),
    "int icmpNE": _different,
}
