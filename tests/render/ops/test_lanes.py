"""Every lane has a rule or a reason for every operation of its key set, and none for one that does not exist."""

from __future__ import annotations

import pytest

from render.interpreter.builder import Builder
from render.interpreter.values import OWN, VALUES
from render.interpreter.vendor.conversions import METHODS
from render.interpreter.vendor.integers import VALUES as INTEGER_VALUES
from render.ops.library import CONVERSIONS, INTEGERS, LIBRARY
from render.ops.rule import Lane, NoRule, Rule, Shape
from render.ops.table import EXACT, RULES
from render.trace.check import REAL
from render.trace.integers import CUTS, OPERATIONS
from render.trace.links import _RULES as RULES_OF_READS
from render.trace.moves import MOVES
from render.trace.nodes import NODES
from render.trace.slopes import SLOPES
from render.trace.typical import DERIVATIVES
from render.witness.formulas import KNOWN

LANES = [REAL, SLOPES, DERIVATIVES]
BOUNDED = {op for op, rule in RULES.items() if rule.apply is not None}


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
def test_a_lane_has_a_rule_or_a_reason_for_every_operation(lane: Lane[object]) -> None:
    assert lane.keys is NODES
    assert not lane.missing() and not lane.stale()
    assert all(len(reason.split()) > 2 for reason in lane.reasons.values())


WITHOUT_FORMULA = {
    "clampf": "it is told as a maximum and a minimum",
    **{name: "it is told as a conversion of the language" for name in NODES
       if name.startswith("library ") and "2" in name and name.endswith("_rn") and NODES[name].shape is Shape.CAST},
    **{f"int {op}": "it is taken by value" for op, rule in EXACT.items()
       if rule.shape is Shape.INTEGER and op not in OPERATIONS},
}  # fmt: skip


def test_the_witness_has_a_formula_or_a_reason_for_every_operation() -> None:
    assert {op for op, rule in NODES.items() if op not in KNOWN and rule.function not in KNOWN} == set(WITHOUT_FORMULA)


READ_ELSEWHERE: dict[str | Shape, str] = {
    Shape.MEMORY: "memory is followed by its addresses",
    "dot_scaled": "it is told as scaled numbers and a dot",
    **dict.fromkeys(CUTS, "it makes an integer, which is followed as one"),
}


def test_what_every_operation_reads_is_known_or_has_a_reason() -> None:
    """Movements by themselves, nodes by their operands, the rest by a rule of its own."""
    known = {*NODES, *RULES_OF_READS} & {*RULES}
    reads = Lane("reads", RULES, dict.fromkeys(known, True), {Shape.PASSTHROUGH: True}, READ_ELSEWHERE)
    assert not reads.missing() and not reads.stale()
    assert {op for op, rule in RULES.items() if rule.shape is Shape.PASSTHROUGH} == MOVES


def test_every_bounded_operation_has_a_value() -> None:
    assert set(VALUES) == BOUNDED | {f"library {name}" for name in LIBRARY}
    assert set(METHODS) == set(CONVERSIONS) and set(INTEGER_VALUES) == {*INTEGERS, "abs"}


def test_every_operation_of_the_language_runs() -> None:
    """As a method of the builder, or as a function of the language that is replaced whole."""
    replaced = {"reduce", "scan"} | {op for op, rule in EXACT.items() if rule.shape in (Shape.STRUCTURE, Shape.ADDRESS)}
    assert all(hasattr(Builder, f"create_{op}") for op in {*RULES, *EXACT} - replaced)
    assert BOUNDED >= OWN


def test_functions_name_what_they_approximate_and_their_error() -> None:
    from interval_ops.functions.elementary import FUNCTIONS

    for rule in NODES.values():
        assert not rule.function or (rule.function in FUNCTIONS and rule.entry and rule.cause == "function")
    assert {rule.function for rule in NODES.values()} - {""} == set(FUNCTIONS)


def test_a_lane_finds_what_is_missing_or_stale() -> None:
    keys = {name: Rule(name, Shape.LINEAR, "A test.") for name in "abc"} | {"d": Rule("d", Shape.DOT, "A test.")}
    lane = Lane("test", keys, {"a": 1, "z": 2}, {}, {"b": "it is left out", "a": "twice", Shape.DOT: "no dots here"})
    assert lane.missing() == {"c"} and lane.stale() == {"a", "z"}
    whole = Lane("test", keys, {"a": 1}, {Shape.LINEAR: 7, Shape.DOT: 8}, {"b": "it is left out"})
    assert (whole["a"], whole["c"], whole["d"]) == (1, 7, 8) and not whole.missing()
    with pytest.raises(NoRule, match="'b': it is left out"):
        whole["b"]
    with pytest.raises(NoRule, match="no rule for 'unheard'"):
        whole["unheard"]
