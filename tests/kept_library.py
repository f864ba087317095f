"""Cases of `kept_bounds`: library functions of several arguments, and directed rounding."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
from kept_bounds import Cases, Pair, boxes, numbers, points

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.formats.model import FP32, FP64, Format
from interval_ops.library import joint, joint_kernels
from interval_ops.profiles.profile import Profile, load_profile

PROFILES = {name: load_profile(name) for name in ("any", "sm_90", "torch-cpu")}
PROFILES["muted"] = joint.quiet(load_profile("any"))
N = 96


def operands(fmt: Format, seed: int, count: int) -> list[list[Pair]]:
    """Intervals, points, intervals of usual size, and operands of both kinds."""
    found = []
    for maker, plain in ((boxes, False), (points, False), (boxes, True)):
        found.append([maker(fmt, seed + 5 * k, N, plain) for k in range(count)])
    mixed = [*found[0][:1], *found[1][1:]]
    return [*found, mixed, mixed[::-1]] if count > 1 else found


def _powers(fmt: Format, profile: Profile) -> object:
    found = []
    for x, y in operands(fmt, 3, 2):
        found += [joint.power(x, y, fmt, profile), joint.power((np.abs(x[0]), np.abs(x[0])), y, fmt, profile)]
    g = np.random.default_rng(4)
    for (x,) in operands(fmt, 9, 1):
        for n in (g.integers(-4, 9, N), g.integers(0, 40, N), g.integers(-300, 300, N), np.zeros(N, np.int64)):
            found.append(joint.integer_power(x, (n, n), fmt, profile))
            found.append(joint.power(x, (n.astype(np.float64),) * 2, fmt, profile))
        half = n + np.where(g.random(N) < 0.5, 0.0, 0.5)
        found.append(joint.power(x, (half, half + 1), fmt, profile))
    small = points(FP64, 10, N)[0] * fmt.min_normal
    found.append(joint.power((small, np.maximum(small, small * 2)), (np.full(N, 3.0), np.full(N, 3.0)), fmt, profile))
    return found


def _angles(fmt: Format, profile: Profile) -> object:
    found = []
    for y, x in operands(fmt, 13, 2):
        found.append(joint.atan2(y, x, fmt, profile))
        signed = np.concatenate([np.array([0.0, -0.0, 1.0, -1.0]), x[0][4:]])
        zero = np.where(np.arange(N) % 2 == 0, 0.0, -0.0)
        found += [joint.atan2((zero, zero), (signed, signed), fmt, profile)]
        found += [joint.atan2((np.minimum(zero, y[0]), y[1]), (-np.abs(x[1]), np.abs(x[1])), fmt, profile)]
        tiny = numbers(FP64, 14, N, plain=True) * fmt.min_normal / 4
        found += [joint.atan2((tiny, tiny), (tiny[::-1], tiny[::-1]), fmt, profile)]
        found += [joint.atan2((tiny, tiny), x, fmt, profile), joint.atan2(y, (tiny, tiny), fmt, profile)]
    return found


def _norms(fmt: Format, profile: Profile) -> object:
    found = []
    for name, count in (("hypot", 2), ("norm3d", 3), ("norm4d", 4), ("rhypot", 2), ("rnorm3d", 3), ("rnorm4d", 4)):
        try:
            found += [joint.norm(name, tuple(args), fmt, profile) for args in operands(fmt, 17, count)]
        except LookupError:
            continue
    return found


def _exact(fmt: Format, profile: Profile) -> object:
    found: list[object] = []
    for x, y in operands(fmt, 23, 2):
        found += [joint.remainder(x, y), joint.fdim(x, y, fmt, profile), joint.copysign(x, y), joint.logb(x)]
        found += [joint.nextafter(x, y, fmt), joint.nextafter(x, y, fmt, fmt.min_normal), joint.round_away(x)]
        found += [joint.saturate(x), joint.away(x[0] / 4), joint.remainder(x, (np.full(N, 3.0), np.full(N, 3.0)))]
        n = np.random.default_rng(6).integers(-300, 300, N) * (1 if fmt is FP32 else 7)
        found += [joint.ldexp(x, (n, n), fmt, profile), joint.ldexp(x, (n // 64, n // 64), fmt, profile)]
        near = x[0] * 3 + np.where(np.arange(N) % 2 == 0, 0.0, x[0] / 2)
        found += [
            joint.remainder((near, near), (x[0], x[0])),
            joint.remainder((near, near + np.abs(x[0]) / 8), (x[0], x[0])),
        ]
        zeros = np.where(np.arange(N) % 3 == 0, -0.0, 0.0)
        found += [
            joint.copysign(x, (zeros, zeros)),
            joint.copysign(x, (zeros, np.abs(y[1]))),
            joint.copysign((zeros, zeros), y),
        ]
        exact = arithmetic.add(x, y, FP64, joint.quiet(profile))
        found += [joint.directed(way, exact, fmt) for way in joint.DIRECTIONS]
        found += [joint.directed(way, exact, fmt, True) for way in joint.DIRECTIONS]
    return found


def _directed() -> object:
    found = []
    for fmt, double in ((FP32, False), (FP64, True)):
        x, y, z = (numbers(fmt, k, 300) for k in (51, 52, 53))
        close = -(x * y)
        for kind, mode, third in itertools.product(
            range(5), (joint_kernels.DOWN, joint_kernels.UP, joint_kernels.ZERO), (z, close)
        ):
            out = np.empty_like(x)
            joint_kernels.directed_values(kind, mode, double, fmt.gate, np.abs(x) if kind == 3 else x, y, third, out)
            found.append(out)
    return found


CASES: Cases = {"directed values": (_directed, 0.0)}
for _fmt, _on in itertools.product((FP32, FP64), PROFILES):
    _part = 2.0**-36 if _fmt is FP32 else 0.0  # by the C library in fp32, by our own double words in fp64
    CASES[f"powers {_fmt.name} {_on}"] = (partial(_powers, _fmt, PROFILES[_on]), _part)
    CASES[f"angles {_fmt.name} {_on}"] = (partial(_angles, _fmt, PROFILES[_on]), _part)
    CASES[f"norms {_fmt.name} {_on}"] = (partial(_norms, _fmt, PROFILES[_on]), 0.0)
    CASES[f"exact {_fmt.name} {_on}"] = (partial(_exact, _fmt, PROFILES[_on]), 0.0)
