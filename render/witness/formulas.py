"""The table of formulas: every operation that the evaluator knows, by its name in `render.trace`."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from render.exact import functions
from render.exact import intervals as iv
from render.exact.intervals import Maybe
from render.exact.points import least, most
from render.witness import arithmetic as a
from render.witness import casts, integers, library, scaled, sums, truths, welford
from render.witness.library import function
from render.witness.rule import Rule, fmt_of

if TYPE_CHECKING:
    from render.witness.document import Operation
    from render.witness.evaluate import Evaluator


def _sum(e: Evaluator, op: Operation, k: int) -> Maybe:
    tree = bool(e.rules["trees"]) and "scan" not in op.attrs
    return sums.plain_sum(e.each(op, k), op.terms(0, k).size, fmt_of(op), tree)


def _atomic_sum(e: Evaluator, op: Operation, k: int) -> Maybe:
    return sums.atomic_sum(e.each(op, k), op.terms(0, k).size, fmt_of(op), bool(e.rules["atomic_flush"]))


RULES: dict[str, Rule] = {
    "fadd": a.addition,
    "fsub": a.difference,
    "fmul": a.product,
    "fma": a.fma,
    "fdiv": a.quotient("div"),
    "precise_divf": a.quotient("div_rn"),
    "frem": a.remainder,
    "fneg": lambda e, op, k: iv.neg(e.args(op, k)[0]),
    "fabs": a.absolute,
    "floor": a.integral("floor"),
    "ceil": a.integral("ceil"),
    **dict.fromkeys(("maxnumf", "maximumf"), a.extremum(most)),
    **dict.fromkeys(("minnumf", "minimumf"), a.extremum(least)),
    **{name: function(name, name) for name in functions.KNOWN},
    "precise_sqrt": function("sqrt", "sqrt_rn"),
    "sum": _sum,
    "prod": lambda e, op, k: sums.product(e.terms(op, k), fmt_of(op)),
    "max": lambda e, op, k: a.extreme(most, e.terms(op, k)),
    "min": lambda e, op, k: a.extreme(least, e.terms(op, k)),
    "atomic_sum": _atomic_sum,
    "recurrence": lambda e, op, k: sums.recurrence(e.terms(op, k), e.terms(op, k, 1), fmt_of(op)),
    "welford": welford.formula,
    "ranked": a.ranked,
    "scaled": scaled.formula,
    "cast": casts.cast,
    "from_integer": casts.from_integer,
    **integers.RULES,
    **truths.RULES,
    **library.RULES,
}

CHAINED = frozenset(["dot", "fold"])
"""Parts of a chain of dots, which the evaluator adds up itself (`chains`)."""

SUMS = frozenset(["sum", "atomic_sum"])
BESSEL = frozenset(f"library {name}" for name in map("".join, product("jy", "01n")))


def rule_of(op: Operation) -> Rule | None:
    """The formula of an operation: by its name, or that of the exact function and the error that it names."""
    name = op.attrs.get("function")
    return RULES.get(op.op) or (function(name, op.attrs["entry"]) if name in functions.KNOWN else None)


LOOSE = frozenset(["welford"])
"""Formulas that are knowingly wider than the bound of the run: where they reach a value, that proves nothing."""

KNOWN = frozenset(RULES) | CHAINED | {"leaf"}
"""Operations that can stand in a witness by their names."""
