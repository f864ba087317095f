"""What is said of whole groups of nodes, held against what the operations do to numbers."""

from __future__ import annotations

import numpy as np
import pytest

from render.interpreter.values import VALUES
from render.ops.rule import Shape
from render.trace.nodes import COMPOSITES, JOINED, NODES, ROUNDED

UNARY = sorted(op for op, rule in NODES.items() if rule.arity == 1 and op in VALUES and rule.shape is not Shape.CAST)


@pytest.mark.parametrize("op", UNARY)
def test_steps_are_what_does_not_move_with_its_operand(op: str) -> None:
    x = np.random.default_rng(2).uniform(0.1, 0.9, 64) + (1.0 if op == "library acosh" else 0.0)
    still = VALUES[op](x) == VALUES[op](x + 2.0**-12)
    assert NODES[op].steps == bool(still.all()) or op == "library logb"  # which steps at powers of two


def test_one_rounding_is_all_that_rounded_operations_add() -> None:
    x, y, z = np.random.default_rng(3).uniform(-1, 1, (3, 64)).astype(np.float32).astype(np.float64)
    real = {"add": x + y, "sub": x - y, "mul": x * y, "fma": x * y + z}
    for op in ROUNDED:
        name = op.removeprefix("library ").removesuffix("_rn")
        exact = real[name.removeprefix("f") if name not in real else name]
        found = VALUES[op](*(v.astype(np.float32) for v in (x, y, z)[: NODES[op].arity]))
        assert (np.abs(found - exact) <= 2.0**-24 * np.abs(exact)).all(), op


def test_joins_are_no_operations_of_single_elements() -> None:
    assert not JOINED & VALUES.keys() and {"dot", "reduce", "scan", "welford", "ranked", "scaled"} < JOINED
    assert {"cast", "from_integer", "and", "library integer_power"} <= COMPOSITES.keys() - JOINED
