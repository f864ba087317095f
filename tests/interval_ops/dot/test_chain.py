"""Chains of fused multiply-adds in a known order: exact rational executions lie inside, other orders need not."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from support import exact, rng, round_fraction, trials

from interval_ops.dot.chain import chain_interval
from interval_ops.dot.replay import chain_value
from interval_ops.dot.rule import PendingDot
from interval_ops.formats.model import FP16, FP32, Format
from interval_ops.profiles.profile import load_profile

ORDERED, ANY = load_profile("sm_90").chosen("tree"), load_profile("sm_90")
TURING = load_profile("sm_75").chosen("tree")


def fma_chain(start: Fraction, pairs: list[tuple[Fraction, Fraction]], fmt: Format) -> Fraction:
    for x, y in pairs:
        start = round_fraction(start + x * y, fmt)
    return start


def material(generator: np.random.Generator, shape: tuple[int, ...], style: str) -> np.ndarray:
    x = generator.standard_normal(shape)
    if style == "positive":
        x = np.abs(x) + 0.5
    elif style == "wide":
        x = x * np.exp2(generator.integers(-20, 20, shape).astype(float))
    elif style == "tiny":
        x = x * 2.0**-74
    elif style == "holes":
        x = np.where(generator.random(shape) < 0.5, 0.0, x)
    elif style == "cancelling":
        x = np.where(np.arange(shape[-1]) % 2 == 0, 1.0, -1.0) * (1.0 + x * 2.0**-20)
    return x.astype(np.float32)


def pairs(a: np.ndarray, b: np.ndarray) -> list[tuple[Fraction, Fraction]]:
    return [(exact(float(x)), exact(float(y))) for x, y in zip(a, b, strict=True)]


def holds(lo: float, hi: float, value: Fraction) -> bool:
    return exact(float(lo)) <= value <= exact(float(hi))


Part = list[tuple[Fraction, Fraction]]


def executions(start: Fraction, parts: list[Part], generator: np.random.Generator) -> list[Fraction]:
    """The exact sum, and every dot continued, every dot apart, some of them apart; c first or, after one dot, last."""
    true = start + sum((x * y for part in parts for x, y in part), Fraction(0))
    found = [true]
    for apart in (np.zeros(len(parts), bool), np.ones(len(parts), bool), generator.random(len(parts)) < 0.5):
        value = start
        for part, alone in zip(parts, apart, strict=True):
            value = (
                round_fraction(value + fma_chain(Fraction(0), part, FP32), FP32)
                if alone
                else fma_chain(value, part, FP32)
            )
        found.append(value)
    return found


@pytest.mark.parametrize("style", ["normal", "positive", "wide", "tiny", "holes", "cancelling"])
def test_chains_lie_inside(style: str) -> None:
    """Continued from the accumulator, or dots summed from zero and added: the replay and the running bound hold all."""
    generator, worst = rng(301), 0.0
    for _ in range(trials(12)):
        sizes = [int(n) for n in generator.integers(1, 24, int(generator.integers(1, 4)))]
        parts = [(material(generator, (1, 2, k), style), material(generator, (1, 2, k), style)) for k in sizes]
        c = material(generator, (1, 2, 2), style) * np.float32(generator.random() < 0.5)
        total = PendingDot.start((c, c) if c.any() else None, (2, 2), "ieee", ORDERED)
        for a, b in parts:
            y = np.ascontiguousarray(np.swapaxes(b, 1, 2))
            total = total.join(PendingDot.start(None, (2, 2), "ieee", ORDERED).extend((a, a), (y, y)))
        lo, hi = total.interval()
        products = total.queue[: total.count]
        running = chain_interval(products, total.addends, (1, 2, 2), FP32.u, -126, FP32.max, total.work.adds, FP32.u)
        for at in np.ndindex(1, 2, 2):
            found = [pairs(a[0, at[1]], b[0, at[2]]) for a, b in parts]
            true, *others = executions(exact(float(c[at])), found, generator)
            for value in (true, *others):
                assert holds(lo[at], hi[at], value) and holds(running[0][at], running[1][at], value)
                end = exact(float(running[1][at] if value > true else running[0][at]))
                worst = max(worst, float((value - true) / (end - true)) if value != true else 0.0)
    print(f"{style}: worst {worst:.3f} of the running bound")
    assert worst > 0.01


def test_an_accumulator_may_come_first_or_last() -> None:
    """c + dot(a, b), then more products: the chain begins with c, or c is added where the source says so."""
    generator = rng(306)
    for _ in range(trials(20)):
        a, b, c = (material(generator, (1, 1, 9), "normal") for _ in range(3))
        y = np.ascontiguousarray(np.swapaxes(b, 1, 2))
        addend = 100 * c[:, :, :1]
        total = PendingDot.start(None, (1, 1), "ieee", ORDERED).extend((a, a), (y, y))
        total = total.add((addend, addend), rounded=True).extend((c, c), (y, y))
        lo, hi = total.interval()
        one, two, start = pairs(a[0, 0], b[0, 0]), pairs(c[0, 0], b[0, 0]), exact(float(addend[0, 0, 0]))
        last = fma_chain(round_fraction(fma_chain(Fraction(0), one, FP32) + start, FP32), two, FP32)
        for value in (last, fma_chain(start, one + two, FP32)):
            assert holds(lo.item(), hi.item(), value)
        assert hi.item() - lo.item() < 1e-4


@pytest.mark.parametrize("style", ["normal", "positive"])
@pytest.mark.parametrize("k", [64, 1024, 4096])
def test_width_against_the_published_rule(style: str, k: int) -> None:
    """Algorithm 1 of the RENDER paper as its package charges an fp32 dot, over points: at most 0.002 of its width."""
    generator = rng(308)
    a, b = material(generator, (1, 4, k), style), np.ascontiguousarray(material(generator, (1, 4, k), style)[0].T)[None]
    lo, hi = PendingDot.start(None, (4, 4), "ieee", ORDERED).extend((a, a), (b, b)).interval()
    magnitude = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    published = magnitude * ((1 + 2.0**-10) ** 3 * (1 + (k - 1) * 2.0**-23) - 1)
    assert np.median((hi - lo) / 2 / published) <= 0.002


def test_points_leave_few_results() -> None:
    """A chain on points that nothing interrupts has one result: the bound is it and the exact sum."""
    generator = rng(307)
    a, b = material(generator, (1, 1, 300), "positive"), material(generator, (1, 1, 300), "positive")
    y = np.ascontiguousarray(np.swapaxes(b, 1, 2))
    lo, hi = PendingDot.start(None, (1, 1), "ieee", ORDERED).extend((a, a), (y, y)).interval()
    found = pairs(a[0, 0], b[0, 0])
    ends = sorted((fma_chain(Fraction(0), found, FP32), sum((p * q for p, q in found), Fraction(0))))
    assert float(ends[0]) == pytest.approx(lo.item(), rel=1e-12) and float(ends[1]) == pytest.approx(
        hi.item(), rel=1e-12
    )


def test_sums_of_several_dots_may_start_anywhere_between() -> None:
    """other = dot(a2, b2, dot(a1, b1)) is summed on its own before it is added: large running sums of its own."""
    one = np.ones((1, 1, 1), np.float32)

    def product(x: float) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        p = np.float32(x) * one
        return (p, p), (one, one)

    first = PendingDot.start(None, (1, 1), "ieee", ORDERED).extend(*product(-(2.0**30)))
    other = PendingDot.start(None, (1, 1), "ieee", ORDERED).extend(*product(2.0**30)).extend(*product(1.0))
    lo, hi = first.join(other).interval()
    apart = np.float32(-(2.0**30)) + (np.float32(2.0**30) + np.float32(1.0))
    assert apart == 0.0 and lo.item() <= 0.0 and hi.item() >= 1.0


def test_intervals_of_operands() -> None:
    generator = rng(302)
    for _ in range(trials(20)):
        k = int(generator.integers(1, 40))
        mid = material(generator, (1, 1, k), "normal").astype(float)
        rad = np.abs(generator.standard_normal((1, 1, k))) * 2.0 ** float(generator.integers(-30, 1))
        b = material(generator, (1, k, 1), "normal")
        lo, hi = PendingDot.start(None, (1, 1), "ieee", ORDERED).extend((mid - rad, mid + rad), (b, b)).interval()
        for _ in range(8):
            a = np.clip((mid + rad * generator.uniform(-1, 1, rad.shape)).astype(np.float32), mid - rad, mid + rad)
            a = a.astype(np.float32)
            inside = (a >= mid - rad) & (a <= mid + rad)
            a, y = a[0, 0][inside[0, 0]], b[0, :, 0][inside[0, 0]]
            if inside.all():
                assert holds(lo.item(), hi.item(), fma_chain(Fraction(0), pairs(a, y), FP32))


def test_half_precision_chains() -> None:
    """fma.rn.f16 on Turing: overflow is open, everything else inside."""
    generator = rng(303)
    for _ in range(trials(20)):
        k = int(generator.integers(1, 64))
        a, b = (np.float32(np.float16(generator.standard_normal((1, 1, k)))) for _ in range(2))
        y = np.ascontiguousarray(np.swapaxes(b, 1, 2))
        lo, hi = PendingDot.start(None, (1, 1), "fp16acc", TURING).extend((a, a), (y, y)).interval()
        assert holds(lo.item(), hi.item(), fma_chain(Fraction(0), pairs(a[0, 0], b[0, 0]), FP16))


def test_narrower_than_any_order_and_for_this_order_only() -> None:
    generator = rng(304)
    a = generator.standard_normal((1, 8, 512)).astype(np.float32)
    b = generator.standard_normal((1, 512, 8)).astype(np.float32)
    bounds = [PendingDot.start(None, (8, 8), "ieee", p).extend((a, a), (b, b)).interval() for p in (ANY, ORDERED)]
    (wide_lo, wide_hi), (lo, hi) = bounds
    assert (wide_lo <= lo).all() and (hi <= wide_hi).all()
    assert np.median((hi - lo) / (wide_hi - wide_lo)) < 0.1
    # Positive terms first: an order that the lowering does not have.
    found = pairs(a[0, 0], b[0, :, 0])
    sorted_chain = fma_chain(Fraction(0), sorted(found, key=lambda p: -p[0] * p[1]), FP32)
    assert holds(wide_lo[0, 0, 0], wide_hi[0, 0, 0], sorted_chain)
    assert holds(lo[0, 0, 0], hi[0, 0, 0], fma_chain(Fraction(0), found, FP32))


def test_special_operands() -> None:
    one = np.ones((1, 1, 3), np.float32)
    for bad, column in ((math.inf, [0.0, 1.0, 1.0]), (math.nan, [0.0, 1.0, 1.0])):
        a = np.array([[[0.0, 1.0, 1.0]]], np.float32)
        b = np.array(column, np.float32).reshape(1, 3, 1)
        b[0, 0] = bad  # 0 * inf is NaN, although the step looks exact
        assert np.isnan(PendingDot.start(None, (1, 1), "ieee", ORDERED).extend((a, a), (b, b)).interval()[0]).all()
    zero = np.zeros((1, 3, 1), np.float32)
    assert PendingDot.start(None, (1, 1), "ieee", ORDERED).extend((one, one), (zero, zero)).interval()[1].item() == 0.0
    big = np.full((1, 3, 1), 3.0e38, np.float32)
    assert np.isnan(PendingDot.start(None, (1, 1), "ieee", ORDERED).extend((one, one), (big, big)).interval()[0]).all()


def test_the_value_is_the_chain() -> None:
    generator = rng(305)
    a, b = material(generator, (2, 3, 17), "normal"), material(generator, (1, 17, 2), "normal")
    c = material(generator, (1, 3, 2), "normal")
    v = chain_value(a, b, c)
    for g, i, j in np.ndindex(2, 3, 2):
        assert exact(float(v[g, i, j])) == fma_chain(exact(float(c[0, i, j])), pairs(a[g, i], b[0, :, j]), FP32)


def test_chosen_orders_are_checked() -> None:
    with pytest.raises(ValueError, match="unknown sum order 'sorted'; known: any, tree"):
        ANY.chosen("sorted")
    with pytest.raises(ValueError, match="unknown fp contraction"):
        ANY.chosen(contraction="maybe")
    with pytest.raises(ValueError, match="'torch-cpu'; only any order is"):
        load_profile("torch-cpu").chosen("tree")
    assert ORDERED.trees and not ORDERED.chosen(triton=(3, 7)).trees
    assert hash(ORDERED) != hash(ANY) and ORDERED != ANY
