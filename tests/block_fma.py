"""Exact, slow executions of dots: block-FMA tensor cores and fused multiply-add chains, in integer arithmetic.

Written from the published descriptions alone (MMA-Sim; Khattak and Mikaitis); nothing of the code under test is used.
A number is a dyadic pair (m, q) with value m * 2**q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from support import exact, round_fraction

from interval_ops.formats.model import FORMATS, FP16, FP32, Format


@dataclass(frozen=True)
class Unit:
    """L products per block, F fraction bits, output kept with `bits` fraction bits; `rne` or truncation."""

    block: int
    fraction: int
    bits: int = 23
    acc: Format = FP32
    nearest: bool = False


UNITS: dict[tuple[str, str], Unit] = {
    ("sm_70", "fp16"): Unit(4, 23),
    ("sm_80", "fp16"): Unit(8, 24),
    ("sm_80", "bf16"): Unit(8, 24),
    ("sm_80", "tf32"): Unit(4, 24),
    ("sm_80", "fp16acc"): Unit(8, 24, 10, FP16, True),
    ("sm_89", "fp8"): Unit(16, 13, 13),
    ("sm_90", "fp16"): Unit(16, 25),
    ("sm_90", "bf16"): Unit(16, 25),
    ("sm_90", "tf32"): Unit(8, 25),
    ("sm_90", "fp8"): Unit(32, 13, 13),
    ("sm_90", "fp16acc"): Unit(16, 25, 10, FP16, True),
    ("sm_90", "fp8_fp16acc"): Unit(32, 13, 10, FP16, True),
    ("sm_100", "fp8"): Unit(32, 25),
}


def dyadic(x: Fraction) -> tuple[int, int]:
    """x = m * 2**q exactly."""
    shift = x.denominator.bit_length() - 1
    assert x.denominator == 1 << shift
    return x.numerator, -shift


def exponent(x: Fraction, emin: int) -> int:
    """The exponent under which a unit aligns x: floor(log2 |x|), but never below emin (unnormalised subnormals)."""
    m, q = dyadic(x)
    return max(abs(m).bit_length() - 1 + q, emin)


def cut(x: Fraction, unit: int) -> int:
    """x / 2**unit truncated towards zero."""
    m, q = dyadic(x)
    shift = q - unit
    magnitude = abs(m) << shift if shift >= 0 else abs(m) >> -shift
    return magnitude if m >= 0 else -magnitude


def one_block(
    acc: Fraction, pairs: Sequence[tuple[Fraction, Fraction]], unit: Unit, operand: Format, zeros: bool = False
) -> Fraction:
    """acc + sum of products through one block.

    The two published models differ for zero operands: they do not take part in the alignment, or have exponent -126.
    """
    terms = [(acc, exponent(acc, unit.acc.emin))] if acc else []
    for a, b in pairs:
        if zeros or (a and b):
            terms.append((a * b, sum(exponent(x, operand.emin) if x else -126 for x in (a, b))))
    if not terms:
        return Fraction(0)
    last = max(e for _, e in terms) - unit.fraction
    total = sum(cut(x, last) for x, _ in terms) * Fraction(2) ** last
    shape = Format("", 32, unit.bits + 1, unit.acc.emin, unit.acc.max, 127)
    return round_fraction(total, shape, "rtne" if unit.nearest else "rtz")


def run(
    acc: Fraction, pairs: Sequence[tuple[Fraction, Fraction]], unit: Unit, operand: Format, rng: np.random.Generator
) -> Fraction:
    """acc + all products, in random order, dealt at random to ceil(K / L) blocks of at most L products."""
    count = -(-len(pairs) // unit.block)
    slots = rng.permutation(count * unit.block)[: len(pairs)]
    blocks: list[list[tuple[Fraction, Fraction]]] = [[] for _ in range(count)]
    for pair, slot in zip(pairs, slots, strict=True):
        blocks[slot // unit.block].append(pair)
    zeros = bool(rng.random() < 0.5)
    for block in blocks:
        acc = one_block(acc, block, unit, operand, zeros)
    return acc


def in_order(acc: Fraction, pairs: Sequence[tuple[Fraction, Fraction]], unit: Unit, operand: Format) -> Fraction:
    for start in range(0, len(pairs), unit.block):
        acc = one_block(acc, pairs[start : start + unit.block], unit, operand)
    return acc


def chain(acc: Fraction, pairs: Sequence[tuple[Fraction, Fraction]], fmt: Format, rng: np.random.Generator) -> Fraction:
    """A chain of correctly rounded fused multiply-adds in random order, cut at random into partial chains."""
    parts: list[Fraction] = [acc]
    for index in rng.permutation(len(pairs)):
        a, b = pairs[index]
        if rng.random() < 0.05:
            parts.append(Fraction(0))
        parts[-1] = round_fraction(parts[-1] + a * b, fmt)
    while len(parts) > 1:
        i, j = sorted(rng.choice(len(parts), 2, replace=False))
        parts[i] = round_fraction(parts[i] + parts.pop(j), fmt)
    return parts[0]


def fractions(a: np.ndarray, b: np.ndarray) -> list[tuple[Fraction, Fraction]]:
    return [(exact(x), exact(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def quantise(x: np.ndarray, fmt: Format) -> np.ndarray:
    """Nearest values of the format, clamped to its range, as float32."""
    _, e = np.frexp(np.asarray(x, np.float64))
    last = np.maximum(e - 1, fmt.emin) - fmt.p + 1
    near = np.ldexp(np.rint(np.ldexp(x, -last)), last)
    return np.clip(near, -fmt.max, fmt.max).astype(np.float32)


def operands(rng: np.random.Generator, shape: tuple[int, ...], fmt: Format, style: str) -> np.ndarray:
    """Test operands: plain, wide (many exponents), subnormal (mostly below the normal range), sparse, positive."""
    x = rng.standard_normal(shape)
    if style == "wide":
        reach = {"fp8e4nv": 6, "fp8e5": 12, "fp16": 13}.get(fmt.name, 30)
        x = x * np.exp2(rng.integers(-reach, reach // 4, shape).astype(float))
    elif style == "subnormal":
        x = x * np.where(rng.random(shape) < 0.7, fmt.min_normal * np.exp2(rng.integers(-6, 1, shape).astype(float)), 1)
    elif style == "sparse":
        x = x * (rng.random(shape) < 0.3)
    elif style == "positive":
        x = abs(x)
    return quantise(x, fmt)


STYLES = ("plain", "wide", "subnormal", "sparse", "positive", "cancelling")


def operand_pair(
    rng: np.random.Generator, b: int, m: int, n: int, k: int, fmt: Format, style: str
) -> tuple[np.ndarray, ...]:
    """a (b, m, k) and b (b, k, n); style `cancelling` pairs each product with (nearly) its opposite."""
    left, right = operands(rng, (b, m, k), fmt, style), operands(rng, (b, k, n), fmt, style)
    if style == "cancelling":
        half = k // 2
        left[..., half : 2 * half] = left[..., :half]
        right[:, half : 2 * half] = -right[:, :half]
        right = quantise(right * np.where(rng.random(right.shape) < 0.1, 1 + 2.0**-fmt.p, 1), fmt)
    return left, right


def operand_format(kind: str) -> Format:
    return FORMATS[{"fp8": "fp8e4nv", "fp16acc": "fp16", "fp8_fp16acc": "fp8e4nv", "ieee": "fp32"}.get(kind, kind)]
