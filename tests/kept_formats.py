"""Cases of `kept_bounds`: conversions between formats, integers, bit patterns."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
from kept_bounds import Cases, boxes, numbers, points

from interval_ops.formats import casting, tables
from interval_ops.formats.model import FORMATS, FP32, FP64, Format
from interval_ops.profiles.profile import Profile, load_profile

PROFILES = {name: load_profile(name) for name in ("any", "sm_80", "sm_90", "gfx942")}
PROFILES["older"] = load_profile("sm_80").chosen(triton=(3, 7))
PROFILES["older any"] = load_profile("any").chosen(triton=(3, 6))
PROFILES["muted"] = load_profile("any").mute("cast")
N = 96


def near(fmt: Format) -> np.ndarray:
    """Numbers of a format, halves between neighbours, beside those, and past its largest."""
    x = numbers(fmt, 61, N)
    with np.errstate(all="ignore"):
        half = np.maximum(np.ldexp(1.0, np.frexp(np.where(np.isfinite(x), x, 0.0))[1] - 1 - fmt.p), fmt.half_subnormal)
        tie = x + half
        beyond = fmt.max * np.array([1.0, 1 + fmt.u / 2, 1 + fmt.u, 1 + 2 * fmt.u, 1.5, 2.0, 2.5])
    return np.concatenate(
        [x, tie, np.nextafter(tie, np.inf), np.nextafter(tie, -np.inf), beyond, -beyond, numbers(FP64, 62, N)]
    )


def _values(fmt: Format) -> object:
    x = near(fmt)
    with np.errstate(all="ignore"):
        return [
            casting.round_value(v, fmt, mode, overflow)  # type: ignore[arg-type]
            for v, mode, overflow in itertools.product(
                (x, x.astype(np.float32)), ("rtne", "rtz"), ("inf", "nan", "saturate", "either"))
        ]  # fmt: skip


def _casts(src: Format, profile: Profile) -> object:
    found: list[object] = []
    for dst in FORMATS.values():
        with np.errstate(all="ignore"):
            x = (
                np.clip(near(dst), -src.max, src.max)
                if src is FP64
                else np.float64(casting.round_value(near(dst), src))
            )
            low, high = x - np.abs(x) * src.u, x + np.abs(x) * dst.u
        for mode in ("rtne", "rtz"):
            for pair in ((x, x), (low, high), boxes(src, 63, N), points(src, 64, N)):
                found.append(casting.cast_interval(*pair, src, dst, profile, mode))  # type: ignore[arg-type]
    return found


INTEGERS = (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64)


def _integers(dtype: type) -> object:
    info = np.iinfo(dtype)
    g = np.random.default_rng(7)
    x = np.concatenate([g.integers(info.min, info.max, 60, dtype=dtype, endpoint=True), np.array(
        [info.min, info.max, info.max - 1, 0, 1, info.max // 2, info.max // 3], dtype)])  # fmt: skip
    if info.bits > 16:
        x = np.concatenate([x, np.array([2**k + d for k in (8, 11, 24, 30) for d in (-1, 0, 1, 3)], dtype)])
    if info.bits == 64:
        x = np.concatenate([x, np.array([2**k + d for k in (53, 54, 60, 62) for d in (-1, 0, 1, 3, 127)], dtype)])
    found: list[object] = []
    for fmt in FORMATS.values():
        found += [casting.int_to_float_value(x, fmt), casting.int_to_float_value(x, fmt, "saturate")]
        found += [
            casting.int_to_float_interval(part, fmt, PROFILES["any"])
            for part in (x, x[:0], x >> 3, x >> 6, x >> max(info.bits - 9, 0))
        ]
    v = np.concatenate([near(FP32), np.float64(info.max) + np.arange(-2, 3), np.float64(info.min) + np.arange(-2, 3)])
    with np.errstate(all="ignore"):
        low, high = v - 0.25, v + np.where(np.arange(v.size) % 2 == 0, 0.25, 0.0)
        return [*found, casting.float_to_int_value(v, dtype), casting.float_to_int_value(v[np.abs(v) < 100], dtype),
                casting.float_to_int_decided(v, v, dtype), casting.float_to_int_decided(low, high, dtype)]  # fmt: skip


def _truths() -> object:
    v = near(FP32)
    low, high = v - 0.25, v + 0.25
    found: list[object] = [
        casting.int_to_float_value(np.array([True, False]), FP32),
        casting.float_to_int_value(v, np.bool_),
    ]
    found += [
        casting.float_to_int_decided(*pair, kind)
        for pair in ((v, v), (low, high), (v * 0, v * 0), (np.abs(v) * 0, np.abs(v)))
        for kind in (None, np.bool_)
    ]
    return [*found, [casting.holds(a, b) for a in FORMATS.values() for b in FORMATS.values()]]


def _patterns(fmt: Format) -> object:
    x = near(fmt)
    with np.errstate(all="ignore"):
        x = x if fmt is FP64 else casting.round_value(x, fmt)
    bits = tables.encode(x, fmt)
    found: list[object] = [
        bits.astype(np.float64),
        tables.encode(x.astype(np.float64), fmt).astype(np.float64),
        tables.decode(bits, fmt),
    ]
    if fmt.bits <= 16:
        every = np.arange(0, 2**fmt.bits, 1 if fmt.bits <= 8 else 37).astype(bits.dtype)
        found += [tables.decode(every, fmt), tables.lut(fmt)[every.astype(np.int64)], tables.encode_max(fmt)]
    return [*found, fmt.u, fmt.min_normal, fmt.min_subnormal, fmt.half_subnormal, fmt.overflow_threshold, fmt.gate]


CASES: Cases = {"truths": (_truths, 0.0)}
for _fmt in FORMATS.values():
    CASES[f"values {_fmt.name}"] = (partial(_values, _fmt), 0.0)
    CASES[f"patterns {_fmt.name}"] = (partial(_patterns, _fmt), 0.0)
for _name, _on in itertools.product(("fp64", "fp32", "fp16", "bf16", "fp8e5", "fp8e4nv"), PROFILES):
    CASES[f"casts of {_name} {_on}"] = (partial(_casts, FORMATS[_name], PROFILES[_on]), 0.0)
for _type in INTEGERS:
    CASES[f"integers {_type.__name__}"] = (partial(_integers, _type), 0.0)
