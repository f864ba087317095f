"""Cases of `kept_bounds`: elementwise arithmetic and selection, in all formats, of points and intervals."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
from kept_bounds import Cases, Pair, boxes, numbers, points

from interval_ops.arithmetic import broadcast, fused, rule, selection
from interval_ops.formats.model import BF16, FP8E4NV, FP8E5, FP16, FP32, FP64, Format
from interval_ops.profiles.profile import Profile, load_profile

FORMATS = (FP64, FP32, FP16, BF16, FP8E5, FP8E4NV)
MUTED = load_profile("any").mute("arith", "function", "cast")
PROFILES = {
    "any": load_profile("any"),
    "sm_90": load_profile("sm_90"),
    "gfx90a": load_profile("gfx90a"),
    "muted": MUTED,
}
KINDS = ("ii", "pp", "ip", "pi")
N = 96


def operands(kind: str, fmt: Format, seed: int) -> list[Pair]:
    return [(boxes if letter == "i" else points)(fmt, seed + 7 * k, N) for k, letter in enumerate(kind)]


def _binary(name: str, fmt: Format, profile: Profile) -> list[Pair]:
    found = []
    for kind in KINDS:
        x, y = operands(kind, fmt, len(name) + fmt.bits)
        found.append(getattr(rule, name)(x, y, fmt, profile))
    return found


def _fma(fmt: Format, profile: Profile) -> list[Pair]:
    return [rule.fma(*operands(kind, fmt, 5), fmt, profile) for kind in ("iii", "ppp", "ipp", "ppi")]


def _unary(fmt: Format, profile: Profile) -> list[Pair]:
    found = []
    for kind in "ip":
        (x,) = operands(kind, fmt, 3)
        found += [rule.square(x, fmt, profile), rule.neg(x), rule.abs_(x), rule.trunc(x), rule.rint(x)]
        found += [rule.floor(x, fmt, profile), rule.ceil(x, fmt, profile), rule.floor(x), rule.ceil(x)]
        small = numbers(fmt, 9, N) * fmt.min_normal
        found += [rule.floor((small, small), fmt, profile), rule.ceil((small, np.abs(small)), fmt, profile)]
    return found


def _close(fmt: Format, profile: Profile) -> list[Pair]:
    """Sums and quotients of near equal numbers, where roundings are small or none."""
    x = numbers(fmt, 21, N, plain=True)
    y = np.concatenate([x[:32], -x[32:64], x[64:] * (1 + fmt.u * 4)])
    found = [f((x, x), (y, y), fmt, profile) for f in (rule.add, rule.sub, rule.mul, rule.div, rule.fmod)]
    wide = (x - np.abs(x) * fmt.u, x + np.abs(x) * fmt.u)
    found += [f(wide, (y, y), fmt, profile) for f in (rule.add, rule.sub, rule.mul, rule.div, rule.fmod)]
    return [*found, rule.fma((x, x), (y, y), (-x * y, -x * y), fmt, profile), rule.fma(wide, wide, wide, fmt, profile)]


def _selection(fmt: Format) -> list[object]:
    found: list[object] = []
    for kind in KINDS:
        x, y = operands(kind, fmt, 31)
        (z,) = operands(kind[0], fmt, 77)
        for nan in (False, True):
            found += [selection.maximum(x, y, nan), selection.minimum(x, y, nan), selection.clamp(z, x, y, nan)]
        found += [selection.hull(x, y)]
        found += [selection.compare(op, x, y) for op in ("lt", "le", "gt", "ge", "eq", "ne")]  # type: ignore[arg-type]
        g = np.random.default_rng(3)
        low = g.random(N) < 0.5
        found += [selection.select(low, low | (g.random(N) < 0.5), x, y), selection.select(low, low, x, y)]
    return found


SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), ()), ((1,), (5,)), ((5,), (5,)), ((3, 1), (1, 4)), ((3, 4), (1, 4)), ((2, 3, 4), (1, 3, 1)),
    ((2, 1, 4), (1, 3, 1)), ((0,), (1,)), ((70, 400), (1, 400)), ((70, 1), (70, 400)), ((1, 1), (1, 1)),
    ((1, 300, 40), (2, 1, 40)),
)  # fmt: skip


def _broadcast() -> list[object]:
    found: list[object] = []
    for shapes, dtype in itertools.product(SHAPES, (np.float64, np.float32)):
        a, b = (
            numbers(FP32, 11 + k, int(np.prod(s)), plain=True).reshape(s).astype(dtype) for k, s in enumerate(shapes)
        )
        out = rule.add((a, a), (b, b), FP32, PROFILES["any"])
        turned = rule.mul((a.T, a.T), (b.T, (b + abs(b)).T), FP32, PROFILES["any"])
        found += [out[0].shape, [x.reshape(-1)[::7] for x in (*out, *turned)], broadcast.common_shape(shapes)]
        if len(shapes[0]) == 1:
            found.append(rule.sub((a[::2], a[::2] + 1), (b[::2], b[::2]), FP32, PROFILES["any"]))
    return found


def _fused() -> np.ndarray:
    x, y, z = (numbers(FP32, k, 400).astype(np.float32) for k in (1, 2, 3))
    cancelling = (-x.astype(np.float64) * y).astype(np.float32)
    return np.concatenate([fused.fma_value(x, y, z), fused.fma_value(x, y, cancelling)])


CASES: Cases = {}
for _name, _fmt, _on in itertools.product(("add", "sub", "mul", "div", "fmod"), FORMATS, PROFILES):
    CASES[f"{_name} {_fmt.name} {_on}"] = (partial(_binary, _name, _fmt, PROFILES[_on]), 0.0)
for _fmt, _on in itertools.product(FORMATS, PROFILES):
    CASES[f"fma {_fmt.name} {_on}"] = (partial(_fma, _fmt, PROFILES[_on]), 0.0)
    CASES[f"one operand {_fmt.name} {_on}"] = (partial(_unary, _fmt, PROFILES[_on]), 0.0)
    CASES[f"close {_fmt.name} {_on}"] = (partial(_close, _fmt, PROFILES[_on]), 0.0)
for _fmt in FORMATS:
    CASES[f"selection {_fmt.name}"] = (partial(_selection, _fmt), 0.0)
CASES["broadcast"] = (_broadcast, 0.0)
CASES["fused"] = (_fused, 0.0)
