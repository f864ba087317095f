"""The rule table covers Triton's builder, and every rule in it holds what it promises.

The property tests are parametrised from the table: a rule without an oracle here fails.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import triton
import triton.language as tl
from containment import Pair, assert_inside, hard_intervals, rounded, sample, well_formed
from support import rng, trials
from triton._C.libtriton import ir

from interval_ops.formats.model import FP32, FP64
from interval_ops.profiles.profile import CAUSES, MissingRule, load_profile, profile_names
from render.ops.rule import Rule, Shape
from render.ops.table import EXACT, RULES, UNSUPPORTED

SM80 = load_profile("sm_80")
APPLIED = [op for op, rule in RULES.items() if rule.apply is not None]
COMPARISONS = [op for op, rule in RULES.items() if rule.shape is Shape.COMPARISON]

# float64 references of fp32 arguments: exact, or right to well below the widths asserted.
ORACLE: dict[str, Callable[..., np.ndarray]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt, "precise_sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "erf": np.vectorize(math.erf, otypes=[float]),
    "floor": np.floor, "ceil": np.ceil, "fneg": np.negative, "fabs": np.abs, "sin": np.sin, "cos": np.cos,
    "fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "fma": lambda x, y, z: x * y + z,
    "fdiv": np.divide, "precise_divf": np.divide, "frem": np.fmod,
    "select": lambda c, x, y: np.where(c, x, y), "clampf": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "maxnumf": np.fmax, "minnumf": np.fmin, "maximumf": np.maximum, "minimumf": np.minimum,
    "fcmpOLT": np.less, "fcmpOLE": np.less_equal, "fcmpOGT": np.greater, "fcmpOGE": np.greater_equal,
    "fcmpOEQ": np.equal, "fcmpUNE": np.not_equal,
}  # fmt: skip


def language_methods() -> set[str]:
    """Builder methods that triton.language can call, read from its sources."""
    folder = Path(tl.__file__).parent
    text = "".join(p.read_text() for p in folder.glob("*.py")) + "".join(
        p.read_text() for p in folder.glob("extra/**/*.py")
    )
    return set(re.findall(r"builder\.create_([a-zA-Z0-9_]+)", text))


def test_every_method_of_the_language_is_covered_once() -> None:
    called = language_methods()
    assert len(called) > 100
    covered = [*RULES, *EXACT, *UNSUPPORTED]
    assert not called - set(covered), "without a rule, not exact and not refused"
    assert len(covered) == len(set(covered)), "in two places"


NEWEST = (3, 9)
GONE = {"make_block_ptr", "advance", "tensor_pointer_load", "tensor_pointer_store"}
"""Methods of older Tritons that the table still has."""


@pytest.mark.skipif(
    tuple(map(int, triton.__version__.split(".")[:2])) < NEWEST, reason="the table is of the newest Triton"
)
def test_no_entry_is_stale() -> None:
    known = {name.removeprefix("create_") for name in dir(ir.builder)} | language_methods()
    assert not {*RULES, *EXACT, *UNSUPPORTED} - known - GONE


def test_every_applied_rule_has_an_oracle() -> None:
    assert set(ORACLE) == set(APPLIED)
    assert all(reason for reason in UNSUPPORTED.values())


@pytest.mark.parametrize("op", RULES)
def test_entries_are_documented(op: str) -> None:
    rule = RULES[op]
    assert rule.op == op and rule.doc.endswith(".")
    assert rule.cause is None or rule.cause in CAUSES
    for name in profile_names():
        if rule.error is not None:
            text = rule.error(load_profile(name))
            assert text and "\n" not in text
            assert rule.cause is None or rule.error(load_profile(name).mute(*CAUSES)) is not None
        else:
            assert rule.cause is None


def test_a_profile_without_an_entry_says_so() -> None:
    from dataclasses import replace

    silent = replace(SM80, functions={})
    for op in ("exp", "fdiv", "sin"):
        with pytest.raises(MissingRule):
            RULES[op].error(silent)  # type: ignore[misc]


def operands(generator: np.random.Generator, rule: Rule, n: int) -> list[Pair]:
    """Hard fp32 intervals inside the domain; arguments of waves and exponentials of a size that matters."""
    out = []
    for _ in range(rule.arity):
        lo, hi = hard_intervals(generator, FP32, n)
        if rule.arity == 1 and generator.random() < 0.5:
            lo, hi = lo % np.float32(60), hi % np.float32(60)
            lo, hi = (
                np.minimum(lo, hi).astype(np.float32).astype(float),
                np.maximum(lo, hi).astype(np.float32).astype(float),
            )
        out.append((np.clip(lo, *rule.domain), np.clip(hi, *rule.domain)))
    return out


def apply(rule: Rule, args: list[Pair], profile=SM80):
    return rule.apply(tuple(args), FP32, profile)  # type: ignore[misc]


@pytest.mark.parametrize("op", [op for op in APPLIED if op not in COMPARISONS and op != "select"])
def test_rules_hold_every_choice(op: str) -> None:
    """Exact values and the IEEE fp32 result of sampled operands lie inside, for intervals and for points."""
    generator, rule = rng(81), RULES[op]
    for _ in range(3):
        args = operands(generator, rule, trials(400))
        out = apply(rule, args)
        well_formed(out)
        for _ in range(2):
            x = [sample(generator, a, FP32) for a in args]
            with np.errstate(all="ignore"):
                value = ORACLE[op](*x)
                ieee = value.astype(np.float32).astype(float)
            for pair in (out, apply(rule, [(v, v) for v in x])):
                for candidate in (value, ieee):
                    # 0/0 and its like are NaN, which only top holds; x/0 is top by convention.
                    assert_inside(pair, np.where(np.isnan(candidate), pair[0], _near(candidate, pair)), *x)


def _near(value: np.ndarray, pair: Pair) -> np.ndarray:
    """Values moved to an end that they miss by the error of the float64 oracle only (a few units in 2^-52)."""
    for end in pair:
        with np.errstate(invalid="ignore"):
            close = np.abs(value - end) <= 2.0**-50 * np.abs(end) + 2.0**-1070
        value = np.where(close, end, value)
    return value


@pytest.mark.parametrize("op", [op for op in APPLIED if op not in COMPARISONS and op != "select"])
def test_smaller_operands_give_smaller_results(op: str) -> None:
    generator, rule = rng(82), RULES[op]
    args = operands(generator, rule, trials(500))
    x = [sample(generator, a, FP32) for a in args]
    zero_divisor = np.zeros(x[0].shape, bool) if op not in ("fdiv", "precise_divf") else x[1] == 0
    inner = [(np.minimum(v, a[1]), a[1]) for v, a in zip(x, args, strict=True)]
    if op in ("fdiv", "precise_divf"):
        zero_divisor |= inner[1][1] == 0
    outer, part = apply(rule, args), apply(rule, inner)
    low, high = (np.where(np.isinf(end), 0, 2.0**-45 * np.abs(end) + 2.0**-1070) for end in part)
    ok = np.isnan(outer[0]) | zero_divisor | ((outer[0] - low <= part[0]) & (part[1] <= outer[1] + high))
    assert ok.all(), [v[~ok][0] for pair in (*args, *inner, outer, part) for v in pair]


@pytest.mark.parametrize("op", [op for op in APPLIED if op not in COMPARISONS and op != "select"])
def test_layouts_and_float32_points_give_the_same_bits(op: str) -> None:
    generator, rule = rng(83), RULES[op]
    args = [np.abs(generator.standard_normal((3, 1))).astype(np.float32) if k else
            np.abs(generator.standard_normal((3, 50))).astype(np.float32) for k in range(rule.arity)]  # fmt: skip
    mixed = apply(rule, [(v, v) for v in args])
    full = [np.ascontiguousarray(np.broadcast_to(v, (3, 50)), np.float64) for v in args]
    plain = apply(rule, [(v, v) for v in full])
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(mixed, plain, strict=True))
    assert mixed[0].dtype == np.float64 and mixed[0].shape == (3, 50)


@pytest.mark.parametrize("op", [op for op in APPLIED if op not in COMPARISONS and op != "select"])
def test_every_target_encloses_correct_rounding(op: str) -> None:
    """The profile `ieee` is inside every other one, so a correctly rounded value never lies outside an envelope."""
    generator, rule = rng(88), RULES[op]
    args = operands(generator, rule, trials(300))
    inner = apply(rule, args, load_profile("ieee"))
    for name in profile_names():
        outer = apply(rule, args, load_profile(name))
        low, high = (np.where(np.isinf(end), 0, 2.0**-48 * np.abs(end)) for end in inner)
        ok = np.isnan(outer[0]) | ((outer[0] - low <= inner[0]) & (inner[1] <= outer[1] + high))
        assert ok.all(), (name, [v[~ok][0] for pair in (*args, outer, inner) for v in pair])


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons_hold_every_choice(op: str) -> None:
    generator = rng(84)
    args = operands(generator, RULES[op], trials(2000))
    surely, possibly = apply(RULES[op], args)
    assert not np.any(surely & ~possibly)
    for _ in range(3):
        answer = ORACLE[op](*(sample(generator, a, FP32) for a in args))
        assert not np.any(surely & ~answer) and not np.any(answer & ~possibly)


def test_select_holds_every_choice() -> None:
    generator = rng(85)
    a, b = operands(generator, RULES["fadd"], trials(1000))
    possibly = generator.random(a[0].shape) < 0.7
    surely = possibly & (generator.random(a[0].shape) < 0.5)
    out = RULES["select"].apply(((surely, possibly), a, b), FP32, SM80)  # type: ignore[misc]
    for choice in (surely, possibly):
        x, y = sample(generator, a, FP32), sample(generator, b, FP32)
        assert_inside(out, ORACLE["select"](choice, x, y), x, y)


@pytest.mark.parametrize("op", APPLIED)
def test_muted_rules_are_exact_up_to_float64(op: str) -> None:
    rule = RULES[op]
    if rule.cause is None:
        return
    generator = rng(86)
    x = [np.abs(generator.standard_normal(200)) + 0.1 for _ in range(rule.arity)]
    quiet = SM80.mute(*CAUSES)
    lo, hi = rule.apply(tuple((v, v) for v in x), FP32, quiet)  # type: ignore[misc]
    value = ORACLE[op](*x)
    jump = 2.0**-48 * np.abs(x[0]) if op == "frem" else 0
    assert np.all(hi - lo <= 2.0**-46 * np.abs(value) + jump + 2.0**-48)
    near = 2.0**-50 * np.abs(value) + jump
    assert np.all((lo <= value + near) & (value - near <= hi))


def test_fp64_rules_round_outward() -> None:
    generator = rng(87)
    x, y = (generator.standard_normal(trials(300)) for _ in range(2))
    for op, function in (("fadd", Fraction.__add__), ("fsub", Fraction.__sub__), ("fmul", Fraction.__mul__)):
        lo, hi = RULES[op].apply(((x, x), (y, y)), FP64, SM80)  # type: ignore[misc]
        for i in range(x.size):
            value = function(Fraction(x[i]), Fraction(y[i]))
            assert Fraction(lo[i]) <= value <= Fraction(hi[i])
            assert lo[i] <= rounded(value, FP64) <= hi[i]
