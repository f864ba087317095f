"""Differences in units of the last place, counted, and the sentence that follows from them."""

from __future__ import annotations

import numpy as np

from interval_ops.formats.model import BF16, FP16, FP32
from render.explain.flips import flips
from render.result.decision import Case
from render.result.records import Differs, Flips


def case(value, ref, fmt=FP16, ref_fmt=None, **more):
    value, ref = np.asarray(value, float), np.asarray(ref, float)
    return Case("out", value, value, value, ref, ref, lambda: (ref, ref), fmt=fmt, ref_fmt=ref_fmt or fmt, **more)


def test_neighbours_are_one_unit_apart_and_others_are_not():
    one = 1.0 + 2.0**-10
    found = flips([case([1.0, one, 1.0, 2.0, 0.0], [one, 1.0, 1.0 + 2.0**-9, 2.0 - 2.0**-10, 2.0**-24])])
    assert found == Flips(5, 5, 4, "fp16", True)
    assert (
        found.mostly and found.sentence == "5 of 5 elements differ, 80 % of them by one unit in the last place of fp16"
    )


def test_no_difference_is_none_and_two_nans_are_none():
    assert flips([case([1.0, np.nan], [1.0, np.nan])]) is None


def test_a_nan_on_one_side_is_no_neighbour():
    found = flips([case([np.nan, np.inf], [1.0, 65504.0])])
    assert (found.different, found.one) == (2, 0)


def test_the_device_is_looked_at_where_there_is_one():
    assert flips([case([1.0], [1.0], device=np.array([1.0 + 2.0**-10]))]).one == 1


def test_sides_of_two_formats_are_told():
    found = flips([case([1.0], [1.0 + 2.0**-7], fmt=FP32, ref_fmt=BF16)])
    assert (found.one, found.fmt, found.same) == (1, "bf16", False)
    assert found.sentence == "1 of 1 elements differs, by one unit in the last place of bf16"


DIFFERS = Differs("casts", "cast", "k.py", 7, 0.99, True, "accumulation", "accumulation", "k.py", 5)


def test_a_flip_needs_a_last_rounding_one_format_and_the_outputs_to_show_it():
    from dataclasses import replace

    tipped = replace(DIFFERS, seen=Flips(9, 4, 3, "fp16", True))
    assert tipped.causes == ("cast", "accumulation")
    assert "the last rounding (casts, k.py:7) falls the other way, tipped by accumulation, k.py:5" in tipped.sentence
    for other in (None, Flips(9, 4, 1, "fp16", True), Flips(9, 4, 4, "fp16", False)):
        assert replace(DIFFERS, seen=other).causes == ("cast",)
    assert replace(tipped, last=False).causes == ("cast",)
    assert replace(tipped, last=False).sentence == "casts, k.py:7: 99 % of the mean square error of a typical execution"
