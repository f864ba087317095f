"""The second evaluator: its intervals hold every legal execution that random choices produce, and its own roundings."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from interval_ops.formats.model import FORMATS
from interval_ops.profiles.profile import load_profile
from render.exact import intervals as iv
from render.exact.formats import to_format
from render.exact.points import INF, NINF, ZERO, number
from render.witness import chains, errors, sums
from render.witness.evaluate import Evaluator
from tests.render.exact.oracle import holds
from tests.support import rng, special_values, trials

FP32, FP16 = FORMATS["fp32"], FORMATS["fp16"]


def document(nodes, root, rules=None):
    return {"nodes": nodes, "root": root, "rules": rules or {}}


@pytest.mark.parametrize("name", ["fp32", "fp16", "bf16", "fp8e5", "fp8e4nv"])
def test_rounding_picks_the_nearest_number_of_the_format(name):
    fmt = FORMATS[name]
    for x in special_values(fmt, halfway=True):
        if not np.isfinite(x) or abs(x) > fmt.max:
            continue
        got = Fraction(float(to_format(number(float(x)), fmt)))
        step = Fraction(2) ** (max(int(np.floor(np.log2(abs(x)))) if x else fmt.emin, fmt.emin) - fmt.p + 1)
        below = (Fraction(float(x)) / step).__floor__()
        near = min((below, below + 1), key=lambda k: (abs(k * step - Fraction(float(x))), k % 2))
        assert got == near * step, x


def test_truncation_never_grows_a_number():
    for x in special_values(FP32):
        if np.isfinite(x):
            cut = float(to_format(number(float(x)), FORMATS["tf32"], "rtz"))
            assert abs(cut) <= abs(x) and abs(x - cut) <= max(abs(x) * 2.0**-10, 2.0**-136)


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "tanh", "erf", "rsqrt", "sqrt", "sin", "cos"])
def test_functions_hold_every_result_within_the_documented_error(name):
    r = rng(len(name))
    error = load_profile("sm_80").fn(name)
    figures = {"r": error.r, "a": error.a, "ftz": error.ftz}
    for _ in range(trials(60)):
        x = float(np.float32(abs(r.normal()) * 10.0 ** r.integers(-3, 2)))
        width = float(r.random()) * 1e-3 * (r.random() < 0.5)
        bound = errors.apply(name, iv.interval(x, x + width), figures, FP32)
        at = x + width * float(r.random())
        with mpmath.workprec(300):
            special = {"exp2": lambda v: mpmath.power(2, v), "rsqrt": lambda v: 1 / mpmath.sqrt(v)}
            y = special.get(name, getattr(mpmath, name, None))(mpmath.mpf(at))
            for sign in (-1, 0, 1):
                assert holds(bound, y * (1 + sign * mpmath.mpf(error.r)))
            assert holds(bound, np.float32(float(y)))


def test_exp_through_exp2_is_inside():
    r = rng(5)
    error = load_profile("sm_80").fn("exp")
    figures = {"r": error.r, "a": error.a, "ftz": error.ftz}
    for x in r.uniform(-80, 80, trials(80)).astype(np.float32):
        p = np.float32(x) * np.float32(1.4426950408889634)
        bound = errors.apply("exp", iv.point(float(x)), figures, FP32, True)
        assert holds(bound, np.float32(2.0 ** np.float64(p)))
        with mpmath.workprec(300):
            assert holds(bound, mpmath.exp(mpmath.mpf(float(x))))


def test_sums_hold_every_order():
    r = rng(7)
    for fmt, dtype in ((FP32, np.float32), (FP16, np.float16)):
        for _ in range(trials(40)):
            x = (r.normal(size=int(r.integers(2, 40))) * 10.0 ** r.integers(-2, 3)).astype(dtype)
            bound = sums.plain_sum([iv.point(float(v)) for v in x], len(x), fmt)
            assert holds(bound, mpmath.fsum(map(float, x)))
            for _ in range(5):
                parts = list(r.permutation(x))
                while len(parts) > 1:
                    i, j = sorted(r.choice(len(parts), 2, replace=False))
                    parts[i] = dtype(parts[i] + parts[j])
                    del parts[j]
                assert holds(bound, float(parts[0]))


def test_sums_on_a_grid_are_exact():
    assert sums.plain_sum([iv.point(v) for v in (3.0, -8.0, 0.5)], 3, FP32) == iv.point(-4.5)
    assert sums.plain_sum([iv.point(v) for v in (2.0**24, 1.0, -(2.0**24))], 3, FP32) != iv.point(1.0)


@pytest.mark.parametrize("kind", ["fp16", "tf32", "ieee", "fp8", "fp16acc"])
@pytest.mark.parametrize("device", ["sm_80", "sm_89", "sm_90"])
def test_dots_hold_the_block_model_in_any_order(device, kind):
    """Blocks of L products aligned to the largest exponent, cut to F bits, rounded towards zero (as the units do)."""
    from dataclasses import asdict

    model = asdict(load_profile(device).dot(kind))
    if model["acc"] != "fp32" or model["promote"]:
        pytest.skip("summed by another model")
    r = rng(11)
    fmt = FORMATS["fp8e5" if kind == "fp8" else "fp32" if kind in ("tf32", "ieee") else "fp16"]
    for _ in range(trials(25)):
        k = int(r.integers(1, 70))
        scale = 2.0 ** r.integers(-8, 8, (2, k))
        a, c = ([float(to_format(number(v), fmt)) for v in r.normal(size=k) * s] for s in scale)
        start = float(np.float32(r.normal()))
        chain = chains.Chain()
        chain.dot([(iv.point(x), iv.point(y)) for x, y in zip(a, c, strict=True)], model, None)
        chain.add(iv.point(start), model, False)
        bound = chains.dot(chain, model)
        exact = sum((Fraction(x) * Fraction(y) for x, y in zip(a, c, strict=True)), Fraction(start))
        assert bound is not None
        assert Fraction(float(bound[0])) - Fraction(1, 2**80) <= exact
        assert exact <= Fraction(float(bound[1])) + Fraction(1, 2**80)
        for _ in range(3):
            assert holds(bound, float(_unit(a, c, start, model, r.permutation(k), kind)))


def _unit(a, c, start, model, order, kind):
    """One legal execution, in exact rationals."""
    if kind == "tf32":
        a, c = ([float(chains.cut_tf32(number(v))) for v in x] for x in (a, c))
    acc = Fraction(start)
    if model["block"] == 1:
        for i in order:
            acc = _near(acc + Fraction(a[i]) * Fraction(c[i]))
        return acc
    for first in range(0, len(order), model["block"]):
        terms = [acc, *(Fraction(a[i]) * Fraction(c[i]) for i in order[first : first + model["block"]])]
        top = max(_exponent(t) for t in terms)
        grid = Fraction(2) ** (top - model["fraction"])
        total = sum(((abs(t) // grid) * grid * (1 if t > 0 else -1) for t in terms), Fraction(0))
        bits = round(-np.log2(model["rho"]))
        cut = Fraction(2) ** (_exponent(total) - bits)
        acc = (abs(total) // cut) * cut * (1 if total > 0 else -1)
    return acc


def _exponent(x):
    if not x:
        return -200
    guess = abs(x).numerator.bit_length() - x.denominator.bit_length()
    return guess if Fraction(2) ** guess <= abs(x) else guess - 1


def _near(x):
    return Fraction(float(np.float32(float(x)))) if abs(x) < 1e30 else x


def test_a_chain_is_rounded_once_per_block_not_once_per_dot():
    leaf = {"op": "leaf", "size": 4, "attrs": {}, "low": "0x1p+0 0x1.8p+0 0x1.4p-3 0x0p+0"}
    dot = {"op": "dot", "size": 1, "attrs": {"kind": "ieee"},
           "operands": [{"runs": "3"}, {"width": 2, "runs": "0 1"}, {"width": 2, "runs": "1 2"}]}  # fmt: skip
    more = {**dot, "operands": [{"runs": "4"}, *dot["operands"][1:]]}
    from dataclasses import asdict

    rules = {"dots": {"ieee": asdict(load_profile("sm_80").dot("ieee"))}}
    evaluator = Evaluator(document([leaf, dot, more], 5, rules))
    bound = evaluator.result()
    assert evaluator.values[4] is None, "the inner sum is never looked at by itself"
    assert holds(bound, 2 * (1.5 + 1.5 * 0.15625))


def test_undecided_conditions_give_both_sides():
    leaf = {"op": "leaf", "size": 3, "attrs": {}, "low": "-0x1p+0 0x0p+0 0x1.4p+2", "high": "0x1p+0 0x0p+0 0x1.4p+2"}
    test = {"op": "fcmpOLT", "size": 1, "attrs": {"fmt": "fp32"}, "operands": [{"runs": "0"}, {"runs": "1"}]}
    pick = {"op": "select", "size": 1, "attrs": {}, "operands": [{"runs": "3"}, {"runs": "1"}, {"runs": "2"}]}
    assert Evaluator(document([leaf, test, pick], 4)).result() == iv.interval(0.0, 5.0)


def test_casts_overflow_as_the_target_does():
    leaf = {"op": "leaf", "size": 1, "attrs": {}, "low": "0x1.2cp+16"}
    cast = {
        "op": "cast",
        "size": 1,
        "attrs": {"src": "fp32", "dst": "fp16", "mode": "rtne"},
        "operands": [{"runs": "0"}],
    }
    rules = {"double_rounding": {}, "overflow": {"fp16": "inf"}}
    bound = Evaluator(document([leaf, cast], 1, rules)).result()
    assert bound == (number(76800.0), INF)
    rules["overflow"] = {"fp16": "saturate"}
    assert Evaluator(document([leaf, cast], 1, rules)).result() == iv.interval(65504.0, 76800.0)


def test_functions_far_outside_every_format_stay_cheap_and_right():
    exact = {"r": 2.0**-53, "a": 0.0, "ftz": False}
    fp64 = FORMATS["fp64"]
    assert errors.apply("exp", iv.point(1e300), exact, fp64)[1] == INF
    low, high = errors.apply("exp", iv.point(-1e300), exact, fp64)
    assert low == ZERO and float(high) == 0.0
    low, high = errors.apply("sinh", iv.point(-1e9), exact, fp64)
    assert low == NINF
