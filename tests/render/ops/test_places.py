"""Knowledge about operations stands in few places: a ceiling on the literal tables, lowered as they go."""

from __future__ import annotations

import ast

from operation_tables import NAMES, entries, is_table, places, tables

from render.ops.library import CONVERSIONS, INTEGERS, LIBRARY, REFUSED
from render.ops.table import EXACT, RULES, UNSUPPORTED

TABLES = 47
"""Literal tables keyed by operation names, those of companions, networks and instruments included. Lower it whenever
one goes; a new lane over the table of operations derives its rules. What the second evaluation knows is its own."""
FILES = {"rsqrt": 22, "tanh": 13, "cyl_bessel_i0": 3}
"""Source files in which the name of one elementwise function stands."""


def test_tables_of_operations_do_not_grow() -> None:
    found = tables()
    listed = "\n".join(f"{count:3} {path}" for path, count in found.most_common())
    assert found.total() <= TABLES, f"{listed}\n{found.total()} tables: derive the new one from render/ops"


def test_a_function_stands_in_few_files() -> None:
    for name, most in FILES.items():
        assert len(places(name)) <= most, places(name)


def test_the_count_looks_for_names_that_exist() -> None:
    recorded = "all any atomic_sum cast fold from_integer from_truth max min prod ranked recurrence scaled sum welford"
    tensors = "clamp cumprod cumsum div gelu maximum mean minimum relu sigmoid silu softmax square where"
    known = {*RULES, *EXACT, *UNSUPPORTED, *LIBRARY, *CONVERSIONS, *INTEGERS, *REFUSED}
    assert NAMES - {*recorded.split(), *tensors.split()} <= known


def test_what_counts_as_a_table() -> None:
    def count(text: str) -> int:
        return sum(is_table(entries(node)) for node in ast.walk(ast.parse(text)))

    assert count('A = {"exp": 1, "log": 2, "tanh": 3}') == count('B = frozenset(["fadd", "fsub", "fmul"])') == 1
    assert count('C = "splat trans join".split()') == count('D = ("library exp", "library tanh", "int add")') == 1
    assert count('E = {"exp": 1, "log": 2}') == count('F = ("exp", "log", "sin", "a", "b", "c", "d")') == 0
