"""Executions of dots on a modelled matrix unit, in orders chosen to do harm.

Written from the published block-FMA model (MMA-Sim; Khattak and Mikaitis), without the rules under test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Unit:
    """L products a block, F fraction bits, `bits` fraction bits of the result, to nearest or cut; L = 1: fma chain."""

    block: int
    fraction: int
    bits: int = 23
    nearest: bool = False
    emin: int = -126


def _round(x: np.ndarray, bits: int, nearest: bool, emin: int) -> np.ndarray:
    exponent = np.maximum(np.frexp(x)[1] - 1, emin) - bits
    scaled = np.ldexp(x, -exponent)
    return np.ldexp(np.rint(scaled) if nearest else np.trunc(scaled), exponent)


def execute(products: np.ndarray, exponents: np.ndarray, unit: Unit) -> np.ndarray:
    """Sums over the last axis, block after block, as the unit computes them. Products are exact float64 numbers.

    An fma is rounded from its float64 sum here: exact but for one case in 2^29.
    """
    acc = np.zeros(products.shape[:-1])
    for start in range(0, products.shape[-1], unit.block):
        part = products[..., start : start + unit.block]
        if unit.block == 1:
            acc = _round(acc + part[..., 0], unit.bits, True, unit.emin)
            continue
        top = np.where(part != 0, exponents[..., start : start + unit.block], -10000).max(-1)
        top = np.maximum(top, np.where(acc != 0, np.frexp(acc)[1] - 1, -10000))
        last = np.maximum(top, -1000) - unit.fraction
        total = np.trunc(np.ldexp(part, -last[..., None])).sum(-1) + np.trunc(np.ldexp(acc, -last))
        acc = _round(np.ldexp(total, last), unit.bits, unit.nearest, unit.emin)
    return acc


def orders(products: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Index arrays along the last axis: as given, at random, by size both ways, by value both ways, one-sided."""
    yield np.broadcast_to(np.arange(products.shape[-1]), products.shape)
    yield np.argsort(rng.random(products.shape), axis=-1)
    for key in (np.abs(products), -np.abs(products), products, -products):
        yield np.argsort(key, axis=-1)
    for sign in (1.0, -1.0):
        for share in (0.3, 0.6, 0.9):
            yield one_sided(sign * products, share)


def one_sided(products: np.ndarray, share: float) -> np.ndarray:
    """The order in which a unit that cuts loses from the positive terms alone, and much from each.

    Small negative terms come first, beside small sums; then the positive ones, the largest first, so that the others
    meet a large sum; then the large negative terms. `share` of the negative terms are small.
    """
    size, negative = np.abs(products), products < 0
    most = negative.sum(-1, keepdims=True) * share
    small = negative & (np.argsort(np.argsort(np.where(negative, size, np.inf), axis=-1), axis=-1) < most)
    stage = np.where(products >= 0, 1, np.where(small, 0, 2))
    return np.lexsort((np.where(stage == 1, -size, size), stage), axis=-1)


def worst(a: np.ndarray, b: np.ndarray, emin: int, unit: Unit, rng: np.random.Generator) -> np.ndarray:
    """Per output, the computed value farthest from the float64 sum over all orders; a (M, K), b (K, N)."""
    left, right = a[:, None, :].astype(np.float64), b.T[None].astype(np.float64)
    products = left * right
    exponents = sum(np.maximum(np.frexp(x)[1] - 1, emin) for x in (left, right))
    true, found = products.sum(-1), None
    for order in orders(products, rng):
        value = execute(np.take_along_axis(products, order, -1), np.take_along_axis(exponents, order, -1), unit)
        found = value if found is None else np.where(np.abs(value - true) > np.abs(found - true), value, found)
    assert found is not None
    return found


def in_order(a: np.ndarray, b: np.ndarray, unit: Unit) -> np.ndarray:
    """The chain of fused multiply-adds along k; a (M, K), b (K, N)."""
    products = a[:, None, :].astype(np.float64) * b.T[None].astype(np.float64)
    return execute(products, np.zeros(products.shape), unit)
