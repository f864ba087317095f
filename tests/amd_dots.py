"""Exact, slow executions of AMD matrix instructions, from the published descriptions (MMA-Sim) alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from block_fma import cut, dyadic, exponent
from support import round_fraction

from interval_ops.formats.model import FORMATS, FP32, Format

Products = Sequence[tuple[Fraction, Fraction]]
Step = Callable[[Fraction, Products, Format], Fraction]


def flushed(x: Fraction, least: float) -> Fraction:
    return x if abs(x) >= Fraction(least) else Fraction(0)


def cdna2(acc: Fraction, pairs: Products, operand: Format) -> Fraction:
    """Groups of 4 products (2 of bf16): pairwise fp32 sums to nearest, then the accumulator; subnormals become 0."""

    def add(x: Fraction, y: Fraction) -> Fraction:
        return flushed(round_fraction(x + y, FP32), FP32.min_normal)

    terms = [flushed(a, operand.min_normal) * flushed(b, operand.min_normal) for a, b in pairs]
    terms = [flushed(x, FP32.min_normal) for x in terms]
    while len(terms) > 1:
        terms = [add(x, y) for x, y in zip(terms[::2], [*terms[1::2], Fraction(0)], strict=False)]
    return add(acc, terms[0])


def floor_at(x: Fraction, unit: int) -> Fraction:
    """x rounded down to a multiple of 2**unit."""
    m, q = dyadic(x)
    shift = q - unit
    return (m << shift if shift >= 0 else m >> -shift) * Fraction(2) ** unit


def _aligned(pairs: Products, operand: Format) -> tuple[Fraction, int] | None:
    """Sum of products cut 24 bits below their largest exponent, and that exponent."""
    terms = [(a * b, exponent(a, operand.emin) + exponent(b, operand.emin)) for a, b in pairs if a and b]
    if not terms:
        return None
    top = max(e for _, e in terms)
    return sum(cut(x, top - 24) for x, _ in terms) * Fraction(2) ** (top - 24), top


def cdna3(acc: Fraction, pairs: Products, operand: Format) -> Fraction:
    """Products cut, then their sum rounded down at 2^-31 and the accumulator at 2^-24 of the largest exponent."""
    products = _aligned(pairs, operand)
    if products is None:
        return acc
    total, top = products
    e = max(top, exponent(acc, FP32.emin)) if acc else top
    return round_fraction(floor_at(total, e - 31) + floor_at(acc, e - 24), FP32)


def cdna3_fp8(acc: Fraction, pairs: Products, operand: Format) -> Fraction:
    """Products at even and at odd places apart, each sum rounded down; a small accumulator is dropped."""
    halves = [h for h in (_aligned(pairs[::2], operand), _aligned(pairs[1::2], operand)) if h is not None]
    if not halves:
        return acc
    e = max(top for _, top in halves)
    if acc and exponent(acc, FP32.emin) < e - 25:
        acc = Fraction(0)
    e = max(e, exponent(acc, FP32.emin)) if acc else e
    total = sum((floor_at(x, e - 24) for x, _ in halves), Fraction(0))
    return round_fraction(total + floor_at(acc, e - 24), FP32)


INSTRUCTIONS: dict[tuple[str, str], tuple[Step, int]] = {
    ("gfx90a", "fp16"): (cdna2, 4),
    ("gfx90a", "bf16"): (cdna2, 2),
    ("gfx90a", "fp8e5"): (cdna2, 4),
    ("gfx942", "fp16"): (cdna3, 8),
    ("gfx942", "bf16"): (cdna3, 8),
    ("gfx942", "tf32"): (cdna3, 4),
    ("gfx942", "fp8e5"): (cdna3, 8),
    ("gfx942", "fp8e4b8"): (cdna3_fp8, 16),
    ("gfx942", "fp8e5b16"): (cdna3_fp8, 16),
}
"""(target, kind) -> instruction and how many products it takes."""


def unit_format(name: str, kind: str) -> Format:
    """The format in which the unit sees the operands: OCP fp8 is widened to fp16."""
    return FORMATS["fp16" if kind in ("fp8e5", "fp8e4nv") else kind]


def run(acc: Fraction, pairs: Products, name: str, kind: str, rng: np.random.Generator | None) -> Fraction:
    """All products through the instruction, in random order (in the given one without a generator)."""
    step, size = INSTRUCTIONS[name, kind]
    order = list(pairs) if rng is None else [pairs[i] for i in rng.permutation(len(pairs))]
    for start in range(0, len(order), size):
        acc = step(acc, order[start : start + size], unit_format(name, kind))
    return acc
