"""Dots as finished intervals, and where exact values lie in them."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from types import MappingProxyType

import numpy as np
from block_fma import quantise
from support import exact, round_fraction

from interval_ops.dot.rule import PendingDot
from interval_ops.formats.model import FP16, FP32, TF32
from interval_ops.profiles.profile import DotModel, Profile, load_profile


def target(name: str, kind: str) -> Profile:
    """A shipped profile, or one made from the published parameters of an architecture that has none yet."""
    extra = {("sm_70", "fp16"): DotModel(4, 23, 2.0**-23, emin=-14, chops=True)}  # as Triton 3.2 used Volta
    if (name, kind) not in extra:
        return load_profile(name)
    return dataclasses.replace(load_profile("any"), name=name, dots=MappingProxyType({kind: extra[name, kind]}))


def point(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x, x


def dot(a, b, kind, profile, acc=None):
    """One dot as a finished interval."""
    return PendingDot.start(acc, (a.shape[-2], b.shape[-1]), kind, profile).extend(point(a), point(b)).interval()


def accumulators(generator, shape, kind):
    fmt = FP16 if kind.endswith("fp16acc") else FP32
    c = generator.standard_normal(shape) * np.exp2(generator.integers(-10, 4, shape).astype(float))
    return quantise(np.where(generator.random(shape) < 0.6, c, 0.0), fmt)


def inside(lo, hi, x: Fraction) -> bool:
    return (math.isnan(lo) and math.isnan(hi)) or exact(float(lo)) <= x <= exact(float(hi))


def usage(lo, hi, true: Fraction, x: Fraction) -> float:
    """How much of the bound on its side x reaches: 0 at the exact value, 1 at the end point."""
    end = hi if x > true else lo
    return 0.0 if x == true or not math.isfinite(end) else float((x - true) / (exact(float(end)) - true))


def adversarial(name: str, k: int) -> tuple[np.ndarray, np.ndarray, str, str, float]:
    """Operands that make truncation lose as much as it can: a, b, target, kind, least share of the bound to reach."""
    a, b, i = np.full(k, 1.0), np.full(k, 1.0), np.arange(k)
    if name == "V100":
        a[1:], b[1:] = 2.0**-11, 2.0**-12 * (1 - 2.0**-10)
        return a, b, "sm_70", "fp16", 0.7
    if name == "A100":
        a[1:] = 2.0**-12
        b[1:] = np.where(i[1:] % 8 == 7, 2.0**-12 * (1 - 2.0**-11), 2.0**-12 * (2 - 2.0**-9))
        return a, b, "sm_80", "fp16", 0.8
    if name == "H100":
        a[1:], b[1:] = 2.0**-12, 2.0**-13 * (1 - 2.0**-10)
        return a, b, "sm_90", "fp16", 0.7
    kind = {"Ada fp8": "sm_89", "H100 fp8": "sm_90"}[name]
    a[1:], b[1:] = 15 * 2.0**-9, 2.0**-8
    return a, b, kind, "fp8", 0.7


def tf32_cut(x: Fraction) -> Fraction:
    return round_fraction(x, TF32, "rtz")


def chain_interval(a, b, kind, profile, step, ball_of=None):
    pending = PendingDot.start(None, (a.shape[-2], b.shape[-1]), kind, profile)
    for s in range(0, a.shape[-1], step):
        x, y = a[..., s : s + step], b[..., s : s + step, :]
        pending = pending.extend(point(x) if ball_of is None else (x - ball_of, x + ball_of), point(y))
    return pending.interval()
