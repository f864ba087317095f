"""Dots of the adversary against the exact models of `block_fma`: bit for bit, block by block."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from block_fma import STYLES, UNITS, in_order, one_block, operand_format, operand_pair
from support import exact, rng, round_fraction, trials

from interval_ops.formats.model import FP16, FP32, FP64, Format
from interval_ops.profiles.profile import load_profile
from render.lab.adversary import dot_kernels as kernels
from render.lab.adversary import dots

M, N, K = 2, 3, 37


def case(seed: int, fmt: Format, style: str, acc: Format) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = rng(seed)
    a, b = operand_pair(generator, 1, M, N, K, fmt, style)
    c = generator.standard_normal((1, M, N)).astype(np.float16).astype(np.float64)
    return a, np.ascontiguousarray(np.swapaxes(b, -1, -2)), c * (acc.max > 1e6 or 1)


def pairs(a: np.ndarray, b: np.ndarray, m: int, n: int) -> list[tuple[Fraction, Fraction]]:
    return [(exact(float(x)), exact(float(y))) for x, y in zip(a[0, m], b[0, n], strict=True)]


def blocks(unit, model, a, b, c, mode, shared, slots, zeros) -> np.ndarray:
    out = np.empty(c.shape)
    kind, bits = dots._unit(model, unit.acc)
    count = -(-K // model.block)
    record = kernels.BlockUnit(kind, model.block, model.fraction, bits, model.emin, unit.acc.emin, unit.acc.max, zeros)
    kernels.blocks(a, b, c, out, kernels.Dealt(mode, shared), slots, count, record)
    return out


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("key", [k for k in UNITS if k[0] != "sm_70"], ids="-".join)
def test_sequential_blocks_equal_the_exact_model(key, style):
    unit, model, fmt = UNITS[key], load_profile(key[0]).dot(key[1]), operand_format(key[1])
    assert (model.block, model.fraction) == (unit.block, unit.fraction)
    a, b, c = case(1, fmt, style, unit.acc)
    out = blocks(unit, model, a, b, c, kernels.IN_ORDER, np.arange(K), np.arange(K), False)
    for m in range(M):
        for n in range(N):
            want = in_order(exact(float(c[0, m, n])), pairs(a, b, m, n), unit, fmt)
            assert abs(want) > unit.acc.max or exact(float(out[0, m, n])) == want


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("key", [("sm_80", "fp16"), ("sm_90", "fp8"), ("sm_90", "fp16acc")], ids="-".join)
def test_shuffled_blocks_equal_the_exact_model(key, zeros):
    unit, model, fmt = UNITS[key], load_profile(key[0]).dot(key[1]), operand_format(key[1])
    for seed in range(trials(4)):
        a, b, c = case(seed, fmt, STYLES[seed % len(STYLES)], unit.acc)
        generator = rng(seed)
        count = -(-K // unit.block)
        shared = generator.permutation(K)
        slots = np.sort(generator.permutation(count * unit.block)[:K])
        out = blocks(unit, model, a, b, c, kernels.SHARED, shared, slots, zeros)
        products = pairs(a, b, 1, 2)
        acc = exact(float(c[0, 1, 2]))
        for block in range(count):
            acc = one_block(acc, [products[k] for k, s in zip(shared, slots, strict=True) if s // unit.block == block],
                            unit, fmt, zeros)  # fmt: skip
        assert abs(acc) > unit.acc.max or exact(float(out[0, 1, 2])) == acc


@pytest.mark.parametrize("mode", range(8))
def test_every_order_deals_each_product_once(mode):
    """Integers of one size: every unit is exact, so a product lost or counted twice shows."""
    model, unit = load_profile("sm_80").dot("fp16"), UNITS["sm_80", "fp16"]
    generator = rng(1)
    a, b = (generator.integers(-8, 9, (1, x, K)).astype(np.float32) for x in (M, N))
    slots = np.sort(generator.permutation(-(-K // 8) * 8)[:K])
    out = blocks(unit, model, a, b, np.ones((1, M, N)), mode, generator.permutation(K), slots, False)
    assert np.array_equal(out, np.matmul(a, np.swapaxes(b, 1, 2), dtype=np.float64) + 1)


@pytest.mark.parametrize("fmt", [FP32, FP16], ids=lambda f: f.name)
def test_chains_round_each_product_into_the_accumulator_once(fmt):
    for seed in range(trials(3)):
        a, b, c = case(seed, fmt, STYLES[seed % len(STYLES)], fmt)
        generator = rng(seed)
        shared, cuts = generator.permutation(K), generator.random(K) < 0.2
        out = np.empty(c.shape)
        unit = kernels.ChainUnit(fmt.p - 1, fmt.emin, fmt.max, False)
        kernels.chains(a, b, c, out, kernels.Dealt(kernels.SHARED, shared), cuts, unit)
        products = pairs(a, b, 1, 1)
        done, acc = Fraction(0), exact(float(c[0, 1, 1]))
        for k, cut in zip(shared, cuts, strict=True):
            if cut:
                done, acc = round_fraction(done + acc, fmt), Fraction(0)
            acc = round_fraction(products[k][0] * products[k][1] + acc, fmt)
        want = round_fraction(done + acc, fmt)
        assert abs(want) > fmt.max or not math.isfinite(out[0, 1, 1]) or exact(float(out[0, 1, 1])) == want


def test_fp64_chains_are_fused():
    generator = rng(5)
    a, b, c = (generator.standard_normal(s) for s in ((1, M, K), (1, N, K), (1, M, N)))
    out = np.empty(c.shape)
    kernels.chains64(a, b, c, out, kernels.IN_ORDER, np.arange(K), np.zeros(K, bool))
    acc = exact(float(c[0, 0, 0]))
    for x, y in pairs(a, b, 0, 0):
        acc = round_fraction(x * y + acc, FP64)
    assert exact(float(out[0, 0, 0])) == acc


def test_cdna2_groups_add_pairwise():
    generator = rng(6)
    a, b = (generator.standard_normal((1, x, K)).astype(np.float16).astype(np.float32) for x in (M, N))
    c, out = np.zeros((1, M, N)), np.empty((1, M, N))
    kernels.groups(a, b, c, out, kernels.IN_ORDER, np.arange(K), 4)
    products = [x * y for x, y in pairs(a, b, 0, 0)] + [Fraction(0)] * 3
    acc = Fraction(0)
    for i in range(0, K, 4):
        p = products[i : i + 4]
        both = [round_fraction(p[0] + p[1], FP32), round_fraction(p[2] + p[3], FP32)]
        acc = round_fraction(round_fraction(both[0] + both[1], FP32) + acc, FP32)
    assert exact(float(out[0, 0, 0])) == acc


def test_cdna3_blocks_round_sum_and_accumulator_down():
    model = load_profile("gfx942").dot("fp16")
    for seed in range(trials(4)):
        a, b, c = case(seed, FP16, "plain", FP32)
        out = np.empty(c.shape)
        unit = kernels.BlockUnit(kernels.CDNA3, 8, 24, 23, model.emin, -126, FP32.max, False)
        kernels.blocks(a, b, c, out, kernels.Dealt(kernels.IN_ORDER, np.arange(K)), np.arange(K), 5, unit)
        acc, products = exact(float(c[0, 0, 0])), pairs(a, b, 0, 0)
        for i in range(0, K, 8):
            acc = cdna3(acc, products[i : i + 8])
        assert exact(float(out[0, 0, 0])) == acc


def log2(x: Fraction) -> int:
    e = abs(x.numerator).bit_length() - x.denominator.bit_length()
    return e if abs(x) >= Fraction(2) ** e else e - 1


def cdna3(acc: Fraction, operands: list[tuple[Fraction, Fraction]]) -> Fraction:
    """Products cut at 24 fraction bits, their sum rounded down at 31, the accumulator at 24, the total to nearest."""
    top = max(max(log2(x), FP16.emin) + max(log2(y), FP16.emin) for x, y in operands if x and y)
    unit = Fraction(2) ** (top - 24)
    total = sum(int(x * y / unit) * unit for x, y in operands)  # int() cuts towards zero
    top = max(top, log2(acc)) if acc else top
    fine, coarse = Fraction(2) ** (top - 31), Fraction(2) ** (top - 24)
    return round_fraction(total // fine * fine + acc // coarse * coarse, FP32)
