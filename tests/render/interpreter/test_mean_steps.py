"""Numbers that formulas of combine functions are evaluated in, against plain Python's at points of the boxes."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from support import rng

from interval_ops.formats.model import BF16, FP16, FP32, FP64
from interval_ops.profiles.profile import load_profile
from render.interpreter.mean_steps import Slope, Slopes, StepErrors, errors_in

PROFILE = load_profile("sm_90")
Dual = tuple[float, float, float]
"""A number with its derivatives by both operands."""


def of_one(name: str, x: Dual) -> Dual:
    if name == "abs":
        return (abs(x[0]), *(math.copysign(1.0, x[0]) * d for d in x[1:]))
    f, slope = {"exp": (math.exp, math.exp), "log": (math.log, lambda x: 1 / x),
                "sqrt": (math.sqrt, lambda x: 0.5 / math.sqrt(x))}[name]  # fmt: skip
    v, slope = f(x[0]), slope(x[0])
    return (v, *(slope * d for d in x[1:]))


def of_two(name: str, x: Dual, y: Dual) -> Dual:
    if name in ("larger", "smaller"):
        return max(x, y, key=lambda z: z[0]) if name == "larger" else min(x, y, key=lambda z: z[0])
    if name in ("+", "-"):
        return tuple(a + b if name == "+" else a - b for a, b in zip(x, y, strict=True))
    if name == "*":
        return (x[0] * y[0], *(d * y[0] + e * x[0] for d, e in zip(x[1:], y[1:], strict=True)))
    return (x[0] / y[0], *((d - x[0] / y[0] * e) / y[0] for d, e in zip(x[1:], y[1:], strict=True)))


PLAIN: dict[str, Any] = {
    "+": lambda own, x, y: x + y, "-": lambda own, x, y: x - y, "*": lambda own, x, y: x * y,
    "/": lambda own, x, y: own.quotient(x, y), "larger": lambda own, x, y: own.larger(x, y),
    "smaller": lambda own, x, y: own.smaller(x, y),
}  # fmt: skip


def drawn(g: np.random.Generator, depth: int) -> tuple[Any, ...]:
    if depth == 0:
        return ("operand", int(g.integers(2)))
    if g.random() < 0.3:
        return (str(g.choice(["abs", "exp", "log", "sqrt"])), drawn(g, depth - 1))
    return (str(g.choice(list(PLAIN))), drawn(g, depth - 1), drawn(g, depth - int(g.integers(1, depth + 1))))


def boxed(own: Slopes, e: tuple[Any, ...], xs: tuple[Slope, Slope]) -> Slope:
    if e[0] == "operand":
        return xs[e[1]]
    of = [boxed(own, part, xs) for part in e[1:]]
    return PLAIN[e[0]](own, *of) if len(of) == 2 else abs(of[0]) if e[0] == "abs" else own.call(e[0], of[0])


def pointed(e: tuple[Any, ...], xs: tuple[Dual, Dual]) -> Dual:
    if e[0] == "operand":
        return xs[e[1]]
    of = [pointed(part, xs) for part in e[1:]]
    return of_two(e[0], *of) if len(of) == 2 else of_one(e[0], of[0])


@pytest.mark.parametrize("seed", range(60))
def test_a_box_holds_the_derivatives_at_its_points(seed: int) -> None:
    """And at a point it has them alone: a box that is one point is as narrow as arithmetic in float64."""
    g = rng(seed)
    e, low = drawn(g, 1 + seed % 3), g.uniform(-2, 2, (2, 12))
    high = low + g.choice([0.0, 0.1, 1.0], (2, 12))
    high[:, :4] = low[:, :4]
    own = Slopes()
    with np.errstate(all="ignore"):
        found = boxed(own, e, own.operands((low[0], high[0]), (low[1], high[1])))
    parts = [np.stack([np.broadcast_to(end, 12) for end in part.pair]) for part in (found.value, *found.by)]
    for k, _ in product(range(12), range(6)):
        a, b = (float(g.choice([lo, hi, g.uniform(lo, hi)])) for lo, hi in zip(low[:, k], high[:, k], strict=True))
        try:
            at = pointed(e, ((a, 1.0, 0.0), (b, 0.0, 1.0)))
        except (ZeroDivisionError, OverflowError, ValueError):
            continue
        for (lo, hi), x in zip((p[:, k] for p in parts), at, strict=True):
            if math.isnan(x) or math.isnan(lo) or abs(x) > 1e12:
                continue
            room = 1e-9 * (1 + abs(x))
            assert lo - room <= x <= hi + room, (e, a, b)
            if k < 4 and max(map(abs, at)) < 1e3:
                assert hi - lo <= 1e-6 * (1 + abs(x)), (e, a, b)


def test_a_choice_that_a_box_decides_has_one_derivative() -> None:
    """Apart, at one point, and across each other."""
    own = Slopes()
    low, high = np.array([[1.0, 3.0, 1.0], [2.0, 1.0, 1.0]]), np.array([[1.5, 4.0, 2.0], [3.0, 2.0, 2.0]])
    x, y = own.operands((low[0], high[0]), (low[1], high[1]))
    for found, wanted in ((own.larger(x, y), [(0, 0), (1, 1), (0, 1)]), (own.smaller(x, y), [(1, 1), (0, 0), (0, 1)])):
        assert list(zip(*(end.tolist() for end in found.by[0].pair), strict=True)) == wanted
        flipped = [(1 - b, 1 - a) for a, b in wanted]
        assert list(zip(*(end.tolist() for end in found.by[1].pair), strict=True)) == flipped
    signs = abs(own.operands((np.array([0.0, -1.0, -1.0]), np.array([1.0, 0.0, 1.0])), (low[1], high[1]))[0])
    assert [end.tolist() for end in signs.by[0].pair] == [[1, -1, -1], [1, -1, 1]]


@pytest.mark.parametrize(
    ("box", "wanted"), [((2, 2), 10), ((3, 4), 20), ((1, 1.5), 20), ((1, 3), None), ((2, 3), None)]
)
def test_a_test_for_one_value_is_open_where_the_box_is(box: tuple[float, float], wanted: float | None) -> None:
    own = Slopes()
    x, _ = own.operands(tuple(np.array([float(end)]) for end in box), (np.ones(1), np.ones(1)))
    found = own.equal(x, 2.0, own.constant(10.0), x * own.constant(0.0) + own.constant(20.0))
    ends = [end.item() for end in found.value.pair]
    assert all(math.isnan(end) for end in ends) if wanted is None else ends == [wanted, wanted]
    errors = StepErrors(FP32, PROFILE)
    estimate = errors.of(tuple(np.array([float(end)]) for end in box))
    one = errors.equal(estimate, 2.0, errors.number(10.0), errors.number(20.0))
    assert (math.isnan(one.lo.item()), math.isnan(one.error.item())) == (wanted is None,) * 2
    assert wanted is None or (one.lo.item(), one.hi.item(), one.error.item()) == (wanted, wanted, 0)
    off = errors.equal(replace_error(estimate, 1e-3), 2.0, errors.number(10.0), errors.number(20.0))
    assert math.isnan(off.lo.item()) is (box != (3, 4) and box != (1, 1.5))


def replace_error(x: Any, error: float) -> Any:
    return type(x)(x.lo, x.hi, np.full(x.lo.shape, error), x.own)


def test_what_is_exact_of_exact_numbers_has_no_error() -> None:
    """+0 of +0, and infinities; a number that is off by something is none of them."""
    errors = StepErrors(FP32, PROFILE)
    zero, one, some = (errors.of((np.array([a]), np.array([b]))) for a, b in ((0, 0), (1, 1), (0, 1)))
    off = replace_error(zero, 1e-9)
    assert errors.call("sqrt", zero).error.item() == 0 == (zero * one).error.item()
    assert all(errors.call("sqrt", x).error.item() > 0 for x in (one, some, off))
    assert errors.call("exp", zero).error.item() > 0
    endless = errors.made(errors.of((np.array([np.inf]),) * 2).range, 0.0)
    assert endless.error.item() == 0
    assert (off * one).error.item() > 0 and (zero + off).error.item() > 0 and (one + one).error.item() > 0
    assert (some * one).error.item() > 0 and errors.quotient(zero, one).error.item() == 0
    assert errors.quotient(one, one).error.item() > 2.0**-24 * 0.9


@pytest.mark.parametrize("seed", range(40))
def test_errors_hold_what_float32_gives(seed: int) -> None:
    """One formula, by numpy in float32 in the order of its text, at points of a box."""
    g = rng(100 + seed)
    e, lo = drawn(g, 1 + seed % 3), g.uniform(0.1, 3, (2, 8)).astype(np.float32)
    hi = (lo * g.choice([1.0, 1.25], (2, 8))).astype(np.float32)
    errors = StepErrors(FP32, PROFILE)

    def estimate(e: tuple[Any, ...]) -> Any:
        if e[0] == "operand":
            return errors.of((lo[e[1]], hi[e[1]]))
        of = [estimate(part) for part in e[1:]]
        return PLAIN[e[0]](errors, *of) if len(of) == 2 else abs(of[0]) if e[0] == "abs" else errors.call(e[0], of[0])

    def run(e: tuple[Any, ...], xs: Any) -> Any:
        if e[0] == "operand":
            return xs[e[1]]
        of = [run(part, xs) for part in e[1:]]
        named = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "larger": np.maximum}
        named |= {"smaller": np.minimum, "abs": np.abs, "exp": np.exp, "log": np.log, "sqrt": np.sqrt}
        return named[e[0]](*of)

    with np.errstate(all="ignore"):
        found = estimate(e)
        for share in (0.0, 0.5, 1.0):
            x = (lo + np.float32(share) * (hi - lo)).astype(np.float32)
            off = np.abs(run(e, x).astype(np.float64) - run(e, x.astype(np.float64)))
            known = np.isfinite(found.error) & np.isfinite(off)
            assert (off[known] <= found.error[known]).all(), e
            exact = run(e, x.astype(np.float64))
            inside = (found.lo * (1 - 1e-12 * np.sign(found.lo)) <= exact) & (exact <= found.hi + 1e-12 * abs(found.hi))
            assert inside[np.isfinite(exact) & np.isfinite(found.lo)].all(), e


def test_numbers_of_two_formats_meet_in_the_wider_one() -> None:
    """Two narrow ones in float32; one that is cast down is rounded, one that is cast up is not."""
    root = StepErrors(FP32, PROFILE)
    of = {name: root.cast(name, root.of((np.ones(1), np.ones(1)))) for name in ("float16", "bfloat16", "float64")}
    single = root.of((np.ones(1), np.ones(1)))
    for xs, wanted in (
        ((of["float16"], single), FP32), ((of["float16"], of["bfloat16"]), FP32), ((of["float16"], 2.0), FP16),
        ((of["bfloat16"], of["bfloat16"]), BF16), ((single, 2.0), FP32), ((of["float64"], of["float16"]), FP64),
        ((1.0, 2.0), FP32),
    ):  # fmt: skip
        met = root.met(list(xs))
        assert {x.own.fmt for x in met} == {wanted}, (xs, wanted)
    assert of["float16"].error.item() > 0 < of["bfloat16"].error.item() and of["float64"].error.item() == 0
    assert root.cast("float32", of["float16"]).error.item() == of["float16"].error.item()
    assert root.cast("float16", 1.0).own.fmt == FP16 and root.cast("int32", single).own.fmt == FP32
    wide = of["float64"]
    assert root.cast("float32", wide).error.item() > 0 and root.cast("float64", wide).error.item() == 0
    assert errors_in(FP32, PROFILE) is not None
