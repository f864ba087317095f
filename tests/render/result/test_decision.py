"""Every row of the verdict table, every pair of rows in order, and the bounds they rest on."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from support import rng, special_values, trials

from interval_ops.formats.model import BF16, FORMATS, FP8E4NV, FP8E5, FP16, FP32, FP64
from render.result.decision import (
    Case,
    Decision,
    compare,
    decide,
    equal,
    fits_zero,
    follows_paper,
    hardly,
    widen,
    worst,
)

NAN, INF = float("nan"), float("inf")


def case(**changes):
    """Two elements, everything inside: v = E = y_ref = (1, 2), T = (1, 2) +- 0.1."""
    centre = np.array([1.0, 2.0])
    base = {
        "name": "out", "value": centre, "lo": centre - 0.1, "hi": centre + 0.1, "ref": centre, "exact": centre,
        "exact_lo": centre - 1e-12, "exact_hi": centre + 1e-12, "fmt": FP32, "ref_fmt": FP32,
        "radius": lambda: np.array([1e-6, 1e-6]),
    }  # fmt: skip
    if "exact" in changes and "exact_lo" not in changes:
        changes |= {"exact_lo": np.asarray(changes["exact"]), "exact_hi": np.asarray(changes["exact"])}
    arrays = base | {k: np.asarray(v, float) if isinstance(v, list) else v for k, v in changes.items()}
    ends = arrays.pop("exact_lo"), arrays.pop("exact_hi")
    return Case(**arrays, exact_ends=lambda: ends)


# One change per row, so that rows can be combined; each touches fields of its own as far as the row allows.
ROWS = {
    "RND204": {"value": [1.0, NAN]},
    "RND205": {"unstored": np.array([True, False])},
    "RND302": {"taints": frozenset({"RND302"})},
    "RND201": {"exact": [5.0, 2.0]},
    "RND202": {"device": [1.0, 9.0]},
    "RND110": {"ref": [1.5, 2.0], "radius": lambda: np.array([0.6, 0.6])},
    "RND305": {"taints": frozenset({"RND305"})},
    "RND304": {"lo": [-INF, 1.9]},
    "RND301": {"lo": [-3.0, -3.0]},
}
FAR = {"exact": [5.0, 2.0]}
LABELS = {"2": "Type-II", "1": "Type-I", "3": "Inconclusive"}


def test_both_sides_that_overflow_behind_a_taint_accuse_nobody():
    same = {"value": [INF, 2.0], "ref": [INF, 2.0], "taints": frozenset({"RND302"})}
    assert decide(case(**same)).code == "RND302"
    assert decide(case(**{**same, "value": [INF, 2.5]})).code == "RND204"
    assert decide(case(**{**same, "taints": frozenset()})).code == "RND204"


def test_everything_inside_is_type_one_with_the_cause():
    assert decide(case(), cause="RND101") == Decision("Type-I", "RND101", "")
    assert decide(case(device=[1.05, 1.95]), cause="RND104").code == "RND104"


def test_an_exact_value_that_lies_outside_alone_needs_a_second_evaluation():
    """All that the reference returned is in the bound: only its exact value, recomputed, is not."""
    alone = decide(case(**FAR, confirmed=lambda: False))
    assert (alone.label, alone.code) == ("Inconclusive", "RND307") and "confirms" in alone.detail
    assert decide(case(**FAR, confirmed=lambda: np.array([True, False]))).code == "RND201"
    assert decide(case(**FAR, confirmed=lambda: False, ref=[5.0, 2.0])).code == "RND201"


@pytest.mark.parametrize("ref", [[1.0, 2.0], [5.0, 2.0]])
def test_an_estimated_margin_accuses_nobody(ref):
    known = decide(case(**FAR, proved=lambda: False, ref=ref))
    assert (known.label, known.code) == ("Inconclusive", "RND307")
    assert decide(case(**FAR, proved=lambda: np.array([True, False]), ref=ref)).code == "RND201"


@pytest.mark.parametrize("ends", [(-INF, INF), (NAN, NAN), (-INF, 6.0)])
def test_an_unknown_margin_accuses_nobody(ends):
    lo, hi = np.array([ends[0], 2.0]), np.array([ends[1], 2.0])
    assert decide(case(**FAR, exact_lo=lo, exact_hi=hi, ref=[5.0, 2.0])).label != "Type-II"


@pytest.mark.parametrize(
    ("changes", "same"),
    [({}, True), ({"device": [1.0, 2.0]}, True), ({"device": [1.0, 2.5]}, False), ({"ref": [1.0, 2.0000001]}, False),
     ({"value": [0.0, 2.0], "ref": [-0.0, 2.0]}, False), ({"value": [NAN, 2.0], "ref": [NAN, 2.0]}, True),
     ({"ref_fmt": FP16}, False), ({"unstored": np.array([True, False])}, False)],
)  # fmt: skip
def test_equal_in_every_bit(changes, same):
    assert equal(case(**changes)) is same


@pytest.mark.parametrize("code", ROWS)
def test_row(code):
    decision = decide(case(**ROWS[code]))
    assert decision.code == code
    assert decision.label == LABELS[code[3]]
    assert decision.detail


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(ROWS, 2)))
def test_the_earlier_row_wins(first, second):
    assert decide(case(**{**ROWS[second], **ROWS[first]})).code == first


def test_shape_comes_before_all_arrays():
    assert decide(case(mismatch="out is [2], the reference is [3]", value=[NAN, NAN])).code == "RND205"


@pytest.mark.parametrize("code", ["RND302", "RND303"])
@pytest.mark.parametrize("wrong", [{"exact": [5.0, 2.0]}, {"device": [1.0, 9.0]}, {"ref": [1.5, 2.0]}])
def test_a_bound_that_encloses_too_little_is_no_evidence(code, wrong):
    """sin() on the host leaves a point as "bound" of a correct result: E is outside it, and that means nothing."""
    assert decide(case(**wrong, taints=frozenset({code}))).code == code
    assert decide(case(**wrong, taints=frozenset({code, "RND305"}))).code == code
    assert decide(case(value=[NAN, 2.0], taints=frozenset({code}))).code == "RND204"


def test_a_race_leaves_a_bound_of_the_order_that_ran():
    assert decide(case(exact=[5.0, 2.0], taints=frozenset({"RND305"}))).code == "RND201"


def test_the_error_of_the_exact_reference_is_not_held_against_the_kernel():
    just_out = {"exact": [1.1001, 2.0], "exact_lo": [1.0999, 2.0], "exact_hi": [1.1003, 2.0]}
    assert decide(case(**just_out)).label == "Type-I"
    assert decide(case(**(just_out | {"exact_lo": [1.10005, 2.0]}))).code == "RND201"


def test_a_reference_far_from_its_own_float64_value_is_not_judged():
    unexplained = case(ref=[1.5, 2.0])
    assert decide(unexplained).code == "RND302"
    assert decide(case(ref=[1.5, 2.0], radius=lambda: None)).label == "Inconclusive"
    # R does not reach E, yet reaches T: round-off.
    meets = case(ref=[1.15, 2.0], radius=lambda: np.array([0.08, 0.08]))
    assert decide(meets, cause="RND102") == Decision("Type-I", "RND102", "")


def test_a_reference_that_overflows_in_its_own_dtype_carries_the_error():
    assert decide(case(ref=[INF, 2.0])).code == "RND110"


def test_the_radius_is_not_computed_when_it_does_not_matter():
    def never():
        raise AssertionError

    assert decide(case(radius=never)).label == "Type-I"
    assert decide(case(radius=never, exact=[5.0, 2.0])).label == "Type-II"


@pytest.mark.parametrize(
    ("value", "exact", "lo", "hi", "code"),
    [
        (NAN, 1.0, NAN, NAN, "RND204"),  # nothing is known of the bound, but v is NaN where E is a number
        (INF, 1.0, 0.9, INF, "RND204"),
        (1.0, NAN, 0.9, 1.1, "RND204"),
        (1.0, INF, 0.9, 1.1, "RND204"),
        (NAN, INF, NAN, NAN, "RND204"),
        (INF, -INF, INF, INF, "RND204"),
        (1.0, 1.0, NAN, NAN, "RND304"),
        (1.0, 1.0, -INF, INF, "RND304"),
        (1.0, INF, 0.9, INF, "RND304"),  # T admits the infinity of E, v did not get there
        (1.0, NAN, NAN, NAN, "RND304"),
        (INF, INF, INF, INF, "RND100"),
        (-INF, -INF, -INF, -INF, "RND100"),
        (NAN, NAN, NAN, NAN, "RND100"),
        (INF, INF, NAN, NAN, "RND100"),
    ],
)
def test_pattern_of_one_element(value, exact, lo, hi, code):
    one = case(value=[value, 2.0], exact=[exact, 2.0], ref=[exact, 2.0], lo=[lo, 1.9], hi=[hi, 2.1])
    assert decide(one).code == code


def test_an_exact_value_beyond_the_output_format_may_be_infinite():
    big = {"exact": [70000.0, 2.0], "ref": [INF, 2.0], "fmt": FP16, "ref_fmt": FP16, "lo": [65504.0, 1.9]}
    assert decide(case(value=[INF, 2.0], hi=[INF, 2.1], **big)).label == "Type-I"
    assert decide(case(value=[-INF, 2.0], hi=[INF, 2.1], **big)).code == "RND204"
    assert decide(case(value=[NAN, 2.0], hi=[INF, 2.1], **big)).label == "Type-I"
    small = big | {"exact": [60000.0, 2.0], "ref": [60000.0, 2.0]}
    assert decide(case(value=[INF, 2.0], hi=[INF, 2.1], **small)).code == "RND204"


@pytest.mark.parametrize(
    ("device", "lo", "hi", "code"),
    [(NAN, 0.9, 1.1, "RND204"), (INF, 0.9, 1.1, "RND204"), (INF, 0.9, INF, "RND304"), (NAN, NAN, NAN, "RND304")],
)
def test_a_device_value_of_another_pattern(device, lo, hi, code):
    assert decide(case(device=[device, 2.0], lo=[lo, 1.9], hi=[hi, 2.1])).code == code


def test_nan_is_never_inside():
    masks = compare(case(ref=[NAN, 2.0], lo=[NAN, 1.9], hi=[NAN, 2.1]))
    assert masks.outside_ref.tolist() == [True, False]
    assert compare(case(device=[NAN, 2.0])).outside_device.tolist() == [True, False]


def test_unstored_elements_are_judged_by_nothing_else():
    garbage = case(value=[NAN, 2.0], lo=[NAN, 1.9], hi=[NAN, 2.1], unstored=np.array([True, False]))
    assert decide(garbage).code == "RND205"


def test_zeros_fit():
    wide = case(lo=[-3.0, -3.0])
    assert fits_zero(wide, compare(wide))
    one_tells = case(lo=[-3.0, 1.9])
    assert not fits_zero(one_tells, compare(one_tells))
    all_zero = case(value=[0.0, 0.0], exact=[0.0, 0.0], ref=[0.0, 0.0], lo=[0.0, 0.0], hi=[0.0, 0.0])
    assert decide(all_zero).code == "RND100"


def test_a_coarser_reference_is_judged_after_its_own_rounding():
    third = np.array([1 / 3, 2 / 3])
    tight = {"value": third, "lo": third - 1e-9, "hi": third + 1e-9, "exact": third}
    ref = third.astype(np.float16).astype(float)
    assert decide(case(ref=ref, ref_fmt=FP16, **tight)).label == "Type-I"
    assert decide(case(ref=ref, ref_fmt=FP32, **tight)).code == "RND302"
    assert decide(case(ref=third, device=ref, device_fmt=FP16, **tight)).label == "Type-I"
    assert decide(case(ref=third, device=ref, device_fmt=FP32, **tight)).code == "RND202"


@pytest.mark.parametrize("fmt", [FP16, BF16, FP32, FP8E5, FP8E4NV])
def test_widen_contains_every_rounding(fmt):
    import ml_dtypes

    kinds = {
        "fp16": np.float16, "fp32": np.float32, "bf16": ml_dtypes.bfloat16, "fp8e5": ml_dtypes.float8_e5m2,
        "fp8e4nv": ml_dtypes.float8_e4m3fn,
    }  # fmt: skip
    values = np.concatenate([special_values(fmt), rng(7).normal(size=trials(2000)) * fmt.max ** rng(8).random()])
    values = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        rounded = values.astype(kinds[fmt.name]).astype(float)
    lo, hi = widen(values, values, fmt)
    spilled = np.isnan(rounded)  # e4m3 has no infinity
    assert ((lo <= rounded) & (rounded <= hi) | spilled).all()
    assert np.isinf(hi[spilled] - lo[spilled]).all()
    assert (lo <= values).all()
    assert (values <= hi).all()


def test_widen_keeps_infinite_points_and_wide_formats():
    ends = np.array([INF, -INF, 1.0])
    assert [e.tolist()[:2] for e in widen(ends, ends, FP16)] == [[INF, -INF], [INF, -INF]]
    assert widen(ends, ends, FP64)[0] is ends
    assert widen(ends, ends, None)[0] is ends


def test_the_published_rule_alone():
    inside, outside = case(), case(ref=[1.5, 2.0])
    assert follows_paper(inside, compare(inside), False)
    assert not follows_paper(outside, compare(outside), False)
    # An element fed by a bad read has no bound; with zeros for the read it is v, and v is not the reference.
    fed = case(value=[0.0, 2.0], lo=[NAN, 1.9], hi=[NAN, 2.1])
    assert not follows_paper(fed, compare(fed), True)
    assert follows_paper(fed, compare(fed), False)
    assert not follows_paper(case(mismatch="x"), compare(inside), False)


def test_worst_of_several_outputs():
    right, errs = Decision("Type-I", "RND101", ""), Decision("Type-I", "RND110", "")
    unsure, bug = Decision("Inconclusive", "RND301", ""), Decision("Type-II", "RND202", "")
    assert worst([right, errs]) is errs
    assert worst([errs, unsure]) is unsure
    assert worst([unsure, bug, errs]) is bug
    assert worst([bug, Decision("Type-II", "RND204", "")]).code == "RND204"


def test_formats_are_those_of_the_interpreter():
    assert {"fp16", "bf16", "fp32", "fp64", "fp8e5", "fp8e4nv"} <= FORMATS.keys()


def unasked():
    raise AssertionError("E lies in T: its own error decides nothing")


@pytest.mark.parametrize("device", [None, [1.05, 2.0], [1.0, 9.0]])
def test_an_e_inside_t_needs_no_error_bound(device):
    given = dataclasses.replace(case(device=device), exact_ends=unasked)
    assert decide(given).label == ("Type-II" if device and device[1] == 9.0 else "Type-I")


def test_an_e_outside_t_is_judged_with_its_error():
    given = case(exact=[1.1001, 2.0])
    assert decide(given).code == "RND201"
    ends = np.array([1.0999, 2.0]), np.array([1.1003, 2.0])
    assert decide(dataclasses.replace(given, exact_ends=lambda: ends)).code == "RND100"


def test_zeros_do_not_fit_where_one_element_excludes_them():
    """Also if E itself could be zero there: an output of zeros would be noticed."""
    given = case(lo=[-3.0, 0.5], exact_lo=[0.9, -1.0], exact_hi=[1.1, 3.0])
    assert not fits_zero(given, compare(given))


@pytest.mark.parametrize("seed", range(40))
def test_one_look_gives_the_masks_that_all_questions_give(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    value = rng.normal(size=6)
    ref, exact = (value + rng.choice([0.0, 1e-3, 2.0, np.inf], 6, p=[0.5, 0.4, 0.05, 0.05]) for _ in range(2))
    case = Case("y", value, value - 0.01, value + 0.01, ref, exact, lambda: (exact, exact))
    found = compare(case)
    monkeypatch.setattr("render.result.decision._at_once", lambda case: None)
    for name, mask in vars(compare(case)).items():
        assert np.array_equal(mask, getattr(found, name)), name


def test_an_erring_reference_explains_nothing_where_the_bound_is_anything():
    found = decide(case(ref=[1.5, 2.0], radius=lambda: np.array([0.6, 0.6]), lo=[0.9, NAN], hi=[1.1, NAN]))
    assert (found.label, found.code) == ("Inconclusive", "RND304")


def bits_away(x: float, roundings: float) -> float:
    return x * (1 + roundings * 2.0**-24)


@pytest.mark.parametrize("fmt", [FP32, BF16, FP16])
@pytest.mark.parametrize("way", [-1, 1])
def test_half_a_rounding_of_float32_is_the_least_that_accuses(fmt, way):
    """A polynomial as good as its format is no bug, and no part of a rounding of a coarser output is forgiven."""
    point = {"lo": [1.5, 2.5], "hi": [1.5, 2.5], "fmt": fmt, "ref_fmt": fmt, "value": [1.5, 2.5], "ref": [1.5, 2.5]}
    near = case(**point, exact=[bits_away(1.5, 0.4 * way), 2.5])
    masks = compare(near)
    assert not masks.outside_exact.any() and masks.beside.tolist() == [True, False]
    assert decide(near).label == "Type-I"
    assert "by at most 0.4 of a rounding" in hardly(near, masks)
    far = case(**point, exact=[bits_away(1.5, 0.6 * way), 2.5])
    assert compare(far).outside_exact.tolist() == [True, False] and not hardly(far, compare(far))
    assert decide(dataclasses.replace(far, ref=far.exact)).code == "RND201"


def test_integers_and_zeros_have_no_rounding_to_forgive():
    whole = case(lo=[1.0, 2.0], hi=[1.0, 2.0], exact=[1.0 + 2.0**-40, 2.0], fmt=None, ref_fmt=None)
    assert compare(whole).outside_exact.any()
    for least, accuses in ((2.0**-140, True), (2.0**-1000, False)):
        nought = case(lo=[0.0, 2.0], hi=[0.0, 2.0], value=[0.0, 2.0], exact=[least, 2.0], ref=[0.0, 2.0])
        assert bool(compare(nought).outside_exact.any()) is accuses


@pytest.mark.parametrize("supposed", [False, True])
def test_a_reference_that_is_nearer_to_its_exact_value_than_the_kernel_carries_no_error(supposed):
    """E at the end of T: y_ref lies outside by its last rounding, and what differs is what the kernel lost."""
    near = {"exact": [1.1, 2.0], "value": [0.9, 2.0], "radius": lambda: np.array([1e-6, 1e-6])}
    assert decide(case(ref=[1.1 + 1e-7, 2.0], **near), cause="RND105", supposed=supposed)[:2] == ("Type-I", "RND105")
    far = near | {"value": [1.1, 2.0]}
    assert decide(case(ref=[1.1 + 1e-7, 2.0], **far), cause="RND105", supposed=supposed).code == "RND110"
