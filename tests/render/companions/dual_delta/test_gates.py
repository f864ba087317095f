"""Gates on cases whose answer follows from their rule."""

import numpy as np
import pytest

from interval_ops.formats.model import FORMATS
from render.companions.dual_delta.gates import GATES, checked

E = np.linspace(-4, 4, 2000)


def verdicts(y, r, fmt="fp16"):
    return {g: checked(g, [np.asarray(y)], [np.asarray(r)], [E], [FORMATS[fmt]])[0] for g in GATES if GATES[g].check}


def test_equal_outputs_pass():
    assert all(verdicts(E, E).values())


@pytest.mark.parametrize(
    ("shift", "failing"),
    [
        (2e-4, {"flash-attn"}),
        (0.005, {"flash-attn", "dynamo", "titan"}),
        (0.2, {"flash-attn", "dynamo", "titan", "helion", "matched-ratio"}),
    ],
)
def test_a_constant_shift_of_an_exact_reference(shift, failing):
    assert {g for g, ok in verdicts(E + shift, E).items() if not ok} == failing


def test_one_bad_element_in_two_thousand():
    y = E.copy()
    y[7] += 1
    found = verdicts(y, E)
    assert not found["helion"] and found["matched-ratio"]
    y[8] = np.nan
    assert not verdicts(y, E)["flash-attn"]


def test_fp8_is_compared_bit_for_bit():
    y = E.copy()
    y[3] += 1e-3
    assert not verdicts(y, E, "fp8e4nv")["helion"] and verdicts(y, E)["helion"]


def test_errors_like_those_of_the_reference_pass():
    g = np.random.default_rng(0)
    y, r = (E + g.uniform(-1e-3, 1e-3, E.size) for _ in range(2))
    assert all(verdicts(y, r).values())
