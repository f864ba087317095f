"""Evaluations with what values share: random computations, attacked by legal executions, and what they are for."""

from __future__ import annotations

import numpy as np
import pytest

from render.exact import intervals as iv
from render.witness import affine
from render.witness.evaluate import Evaluator
from tests.render.exact.oracle import holds
from tests.render.witness.drawn import Drawn
from tests.render.witness.legal import Execution
from tests.support import rng, trials


def width(x: iv.Interval) -> float:
    return float(x[1] - x[0])


@pytest.mark.parametrize("device", ["any", "sm_80"])
@pytest.mark.parametrize("large", [False, True], ids=["affine", "mean value"])
def test_no_execution_of_a_random_computation_is_outside(device, large, monkeypatch):
    monkeypatch.setattr(affine, "LARGEST", 0 if large else affine.LARGEST)
    known, narrower, r = 0, 0, rng(3)
    for seed in range(trials(80)):
        document = Drawn(device, seed).steps(9).document
        plain = Evaluator(document).result()
        if plain is None or iv.infinite(plain) or iv.single(plain):
            continue
        found = Evaluator(document).result(plain)
        known, narrower = known + 1, narrower + (width(found) < 0.95 * width(plain))
        for _ in range(8):
            try:
                y = Execution(document, r).result()
            except (ZeroDivisionError, ValueError, TypeError):  # where a value has no bound, executions have no value
                continue
            assert holds(found, y), (seed, y)
    assert known > trials(80) // 3 and narrower > known // 10


def softmax_of_intervals(width: float) -> tuple[Drawn, np.ndarray]:
    """sum of p_j v_j, p = e / sum(e), e = exp(s - max(s)), of scores and values that are `width` wide."""
    made = Drawn("sm_80", 5)
    made.leaves(8, 1.0)
    made.leaves(8, 1.0)
    for node, low in zip(made.nodes, (np.linspace(-1, 1, 8), np.linspace(2, 1, 8)), strict=True):
        node["low"], node["high"] = (" ".join(float(x).hex() for x in low + end) for end in (0, width))
    s, v = np.arange(8), np.arange(8, 16)
    same = np.zeros(8, np.int64)
    made.node("max", 1, [s[None]], {"fmt": "fp32"})
    made.node("fsub", 8, [s, same + 16], {"fmt": "fp32"})
    made.node("exp", 8, [np.arange(17, 25)], {"fmt": "fp32"})
    made.node("sum", 1, [np.arange(25, 33)[None]], {"fmt": "fp32"})
    made.node("fdiv", 8, [np.arange(25, 33), same + 33], {"fmt": "fp32"})
    made.node("fmul", 8, [np.arange(34, 42), v], {"fmt": "fp32"})
    made.node("sum", 1, [np.arange(42, 50)[None]], {"fmt": "fp32"})
    return made, v


@pytest.mark.parametrize("large", [False, True], ids=["affine", "mean value"])
def test_a_softmax_of_intervals_is_bounded_as_its_derivatives_say(large, monkeypatch):
    """Scores that move by h move a mean of values from 1 to 2 by h sum p |v - mean| <= h / 2; values move it by h."""
    monkeypatch.setattr(affine, "LARGEST", 0 if large else affine.LARGEST)
    h = 0.01
    document = softmax_of_intervals(2 * h)[0].document
    plain = Evaluator(document).result()
    found = Evaluator(document).result(plain)
    assert plain is not None and width(plain) > 6 * h
    assert width(found) < (3.3 if not large else 4.0) * h
    r = rng(9)
    assert all(holds(found, Execution(document, r).result()) for _ in range(trials(40)))


def test_what_is_out_of_reach_is_evaluated_once(monkeypatch):
    document = softmax_of_intervals(0.01)[0].document
    plain = Evaluator(document).result()
    monkeypatch.setattr(affine, "Forms", None)
    assert Evaluator(document).result(iv.interval(50.0, 51.0)) == plain


def test_and_so_is_what_lies_in_the_claim_as_a_whole(monkeypatch):
    document = softmax_of_intervals(0.01)[0].document
    plain = Evaluator(document).result()
    monkeypatch.setattr(affine, "Forms", None)
    assert Evaluator(document).result(iv.interval(-50.0, 51.0)) == plain
