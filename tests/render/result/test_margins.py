"""What a margin supports: an unknown one nothing, in whichever question."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from render.result import margins

NUMBERS = st.floats(width=64)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # no clock decides on a busy machine
@given(NUMBERS, NUMBERS, st.floats(-10, 10), st.floats(-10, 10))
def test_clear_and_held_exclude_each_other_and_need_a_known_margin(a: float, b: float, c: float, d: float) -> None:
    lo, hi, low, high = (np.array([v]) for v in (*sorted((a, b)), *sorted((c, d))))
    clear, held = bool(margins.clear(lo, hi, low, high)[0]), bool(margins.held(lo, hi, low, high)[0])
    assert not (clear and held)
    if not (math.isfinite(a) and math.isfinite(b)):
        assert not clear and not held
    else:
        meets = max(lo[0], low[0]) <= min(hi[0], high[0])
        assert clear == (not meets) and held == (low[0] <= lo[0] and hi[0] <= high[0])


def test_an_end_that_is_nan_excludes_nothing() -> None:
    one, nan = np.ones(1), np.full(1, math.nan)
    assert not margins.clear(one, one, nan, nan).any() and not margins.held(one, one, nan, nan).any()


def test_small_beside_what_it_explains() -> None:
    reach = np.array([1.0, 1.0, 0.0, math.inf, math.nan])
    beside = np.array([16.0, 15.0, 0.0, math.inf, 1.0])
    assert margins.small(reach, beside).tolist() == [True, False, True, False, False]
    assert margins.known(reach).tolist() == [True, True, True, False, False]


def test_the_band_is_six_deviations_and_the_whole_of_the_mean() -> None:
    assert margins.probable(4.0) == 12.0 and margins.probable(4.0, -1.0) == 13.0
