"""Cases of `kept_bounds`: sums, products, extrema, scans, merged means, log-sum-exp, recurrences, atomic additions.

Lengths lie about the ends of blocks; data are of one sign, cancel, are integers, span the range, overflow, underflow.
"""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
from kept_bounds import Cases, Pair, boxes, numbers, on_grid

from interval_ops.formats.model import BF16, FP16, FP32, FP64, Format
from interval_ops.profiles.profile import Profile, load_profile
from interval_ops.reduction import (
    algebra,
    atomics,
    endless,
    equal_weights,
    grid,
    kernels,
    logsumexp,
    recurrence,
    rule,
    running,
    scan,
    welford,
)

PROFILES = {"any": load_profile("any"), "tree": load_profile("sm_90").chosen(sum_order="tree")}
PROFILES["muted"] = load_profile("any").mute("accumulation", "lowacc", "arith", "function")
PROFILES["gfx90a"] = load_profile("gfx90a")
FORMATS = (FP64, FP32, FP16, BF16)
LENGTHS = (1, 2, 3, 7, 8, 9, 31, 64, 127, 128, 129, 256, 300)


def data(fmt: Format, n: int, seed: int, dyadic: bool = True) -> list[Pair]:
    """Operands of shape (6, n): rows of one sign, mixed, integers, zeros among others, large, small; then intervals.

    `dyadic`: with few bits, so that sums of magnitudes in float64 are exact whatever their order.
    """
    g = np.random.default_rng(seed)
    x = on_grid(np.exp2(g.uniform(-6, 6, (6, n))), fmt)
    x[1:] *= g.choice([-1.0, 1.0], (5, n))
    x[2] = np.rint(x[2])
    x[3] *= g.random(n) < 0.5
    x[4] = on_grid(x[4] * (fmt.max / 2**10 / n ** (n % 2)), fmt)
    x[5] = x[5] * fmt.min_normal * 4
    if dyadic:
        x[:4] = np.rint(x[:4] * 2**8) / 2**8
    width = np.where(g.random((6, n)) < 0.7, 2.0**-8, 0.0) * 2.0 ** np.floor(np.log2(np.abs(x) + fmt.min_normal))
    edged = x.copy()
    edged[0, :1], edged[1, -1:], edged[2, :1], edged[3, :2] = np.inf, -np.inf, fmt.max, -fmt.max
    rest = np.abs(x).copy()
    rest[0, :1], rest[1, :1], rest[2] = np.nan, np.inf, fmt.max / 2
    return [
        (x, x),
        (x, x + width),
        (x - width, x),
        (edged, edged),
        (edged, np.maximum(edged, x)),
        (-rest, -rest),
        (rest, rest),
    ]


def _axis(fmt: Format, profile: Profile, name: str) -> object:
    found: list[object] = []
    for n in LENGTHS:
        for x in data(fmt, n, n):
            found.append(getattr(rule, name)(x, 1, (6, n), fmt, profile))
    for shape in ((3, 64, 5), (2, 16, 40), (2, 9, 300), (4, 1, 3)):
        for k, (axis, x) in enumerate(itertools.product(range(3), (boxes(fmt, 70, int(np.prod(shape)), plain=True),))):
            pair = (x[0].reshape(shape), x[1].reshape(shape))
            found.append(getattr(rule, name)(pair if k else (pair[0],) * 2, axis, shape, fmt, profile))
            found.append(getattr(rule, name)(tuple(np.asfortranarray(e) for e in pair), axis, shape, fmt, profile))
            narrow = tuple(np.take(e, [0], axis=axis) for e in pair)
            found.append(getattr(rule, name)(narrow, axis, shape, fmt, profile))
    return found


def _extrema() -> object:
    found: list[object] = []
    for n in LENGTHS:
        for x in data(FP32, n, n):
            found += [rule.max_axis(x, 1, (6, n)), rule.min_axis(x, 1, (6, n))]
            v = 0.5 * x[0] + 0.5 * x[1]
            found += [rule.argmax_axis(x, v, 1, (6, n)), rule.argmin_axis(x, v, 1, (6, n))]
            tied = tuple(np.rint(e / 8) for e in x)
            found += [rule.argmax_axis(tied, tied[0], 1, (6, n)), rule.argmin_axis(tied, tied[1], 1, (6, n))]
    x = boxes(FP32, 71, 4 * 12 * 5)
    pair = (x[0].reshape(4, 12, 5), x[1].reshape(4, 12, 5))
    for axis in range(3):
        found += [rule.max_axis(pair, axis, (4, 12, 5)), rule.min_axis(pair, axis, (4, 12, 5))]
        found += [scan.cummax(pair, axis, r) for r in (False, True)] + [
            scan.cummin(pair, axis, r) for r in (False, True)
        ]
        found += [scan.cummax((pair[0],) * 2, axis), scan.cummin((pair[1],) * 2, axis, True)]
        start = np.random.default_rng(2).random((4, 12, 5)) < 0.3
        found += [scan.segments(pair, axis, r, larger, start) for r in (False, True) for larger in (False, True)]
    return found


def _scans(fmt: Format, profile: Profile) -> object:
    found: list[object] = []
    for n in (1, 2, 5, 33, 130):
        start = np.random.default_rng(n).random((6, n)) < 0.2
        for x in data(fmt, n, n):
            for reverse, begins in ((False, None), (True, None), (False, start), (True, start)):
                found.append(scan.cumsum(x, 1, reverse, fmt, profile, begins))
                if n < 40:
                    found.append(scan.cumprod(x, 1, reverse, fmt, profile, begins))
    x = boxes(fmt, 72, 60, plain=True)
    pair = (x[0].reshape(3, 4, 5), x[1].reshape(3, 4, 5))
    return [*found, [scan.cumsum(pair, axis, False, fmt, profile) for axis in range(3)]]


def _welford(fmt: Format, profile: Profile) -> object:
    found: list[object] = []
    g = np.random.default_rng(8)
    for n in (1, 2, 3, 16, 33):
        for x in data(fmt, n, n, dyadic=False)[:4]:
            m2 = np.abs(x[0]) * 0.5
            for w in (
                np.ones((6, n)),
                g.integers(0, 5, (6, n)) * 1.0,
                (g.random((6, n)) < 0.6) * 4.0,
                np.full((6, n), 0.5),
            ):
                for guarded, weighted, raw in (
                    (True, False, False),
                    (False, False, False),
                    (True, True, False),
                    (True, True, True),
                ):
                    found.append(welford.reduce_axis(x, (m2, m2 * 1.25), w, 1, fmt, profile, guarded, weighted, raw))
            found += [equal_weights.moments(x, [(fmt, profile), (FP64, profile)])]
    return found


def _logsumexp(fmt: Format, profile: Profile) -> object:
    found: list[object] = []
    for n, base, ordered in itertools.product((1, 2, 5, 40), ("exp", "exp2"), (False, True)):
        for x in data(fmt, n, n, dyadic=False)[:3]:
            m = tuple(np.log2(np.abs(e) + 1e-3) * (1 + k) for k, e in enumerate((x[0], x[0])))
            m = (np.minimum(*m), np.maximum(*m))
            gap = (np.where(np.arange(n) % 3 == 1, -np.inf, m[0]), np.where(np.arange(n) % 3 == 1, -np.inf, m[1]))
            for ends in (m, (m[0], m[0]), gap, (m[0] * 40, m[1] * 40)):
                found.append(
                    logsumexp.reduce_axis(ends, [x, (np.abs(x[0]), np.abs(x[0]))], 1, fmt, profile, base, ordered)
                )
    return found


def _recurrence(fmt: Format, profile: Profile) -> object:
    found: list[object] = []
    for n in (1, 2, 9, 40):
        for x, factor, reverse in itertools.product(data(fmt, n, n), (0.01, 0.0625, 1.0), (False, True)):
            a = tuple(e * factor for e in x)
            found.append(recurrence.linear(a, (x[1], x[1]), 1, reverse, fmt, profile))
            found.append(recurrence.linear((a[0], a[0]), x, 1, reverse, fmt, profile))
    return found


def _table(k: int, terms: list[tuple[int, int, int, int]], roundings: int, products: int) -> algebra.Algebra:
    c = np.zeros((k + 1, k + 1, k + 1))
    c[0, 0, 0] = 1
    for o, i, j, factor in terms:
        c[o, i, j] = factor
    return algebra.Algebra(c, np.abs(c), roundings, products)


COMPLEX = _table(2, [(1, 1, 1, 1), (1, 2, 2, -1), (2, 1, 2, 1), (2, 2, 1, 1)], 2, 2)
LINEAR = _table(2, [(1, 1, 1, 1), (2, 2, 1, 1), (2, 0, 2, 1)], 2, 1)
ALONE = _table(2, [(1, 1, 1, 1), (2, 1, 2, 1)], 1, 1)
MATRIX = _table(4, [(1 + 2 * i + j, 1 + 2 * i + m, 1 + 2 * m + j, 1)
                    for i in (0, 1) for j in (0, 1) for m in (0, 1)], 2, 2)  # fmt: skip
"""Two by two: its unit is longer than 1."""
OPEN = _table(2, [(1, 1, 2, 1), (2, 1, 1, 1)], 1, 1)


def _algebras(fmt: Format, profile: Profile) -> object:
    found: list[object] = []
    for known in (COMPLEX, LINEAR, ALONE, OPEN, MATRIX):
        found += [known.associative, known.commutes, known.by_components, known.used.c.shape, known.unit]
        for n, factor in itertools.product((1, 2, 8), (0.0625, 1.0, 2.0**-70)):
            for x in data(fmt, n, n)[:4]:
                parts = [tuple(e[::step] * factor for e in x) for step in (1, -1)]
                parts += [tuple(np.roll(e, k, 0) * factor for e in x) for k in range(1, len(known.c) - 2)]
                found.append(algebra.prefixes(parts, 1, n == 8, known, fmt, profile))
    return found


def _atomics(fmt: Format, profile: Profile) -> object:
    found: list[object] = []
    for n in (0, 1, 2, 5, 64, 5000):
        for x in data(fmt, max(n, 1) % 400, n):
            low, high = (e.sum(1) if n else np.zeros(6) for e in x)
            mag = (
                np.where(np.isfinite(x[0]) & np.isfinite(x[1]), np.maximum(*np.abs(x)), 0.0).sum(1)
                if n
                else np.zeros(6)
            )
            for base in (np.zeros(6), numbers(fmt, 73, 6), boxes(fmt, 74, 6), (np.zeros(6), np.ones(6))):
                found.append(atomics.close_sum(base, low, high, mag, np.full(6, n), fmt, profile))
    return found


PARTIAL = (
    ((3.0, 3.0), (3.0, 3.0), 1.0), ((-2.0, 5.0), (9.0, 9.5), 4.0), ((-7.0, -6.0), (7.0, 6.0), 2.0),
    ((0.0, 0.0), (1e308, 1e308), 1e308), ((1e-310, 1e-310), (1e-310, 1e-310), 1e-310),
)  # fmt: skip
"""Sums of the ends and of their magnitudes, and the largest addend."""


def _rooms() -> object:
    """Each formula of what roundings add up to, over its arguments."""
    found: list[object] = [running.power_floor(x) for x in (1e-320, 2.0**-1022, 0.7, 1.0, 3.9, 4.0, 1e300)]
    for count, start, step, top in itertools.product(
        (0.0, 1.0, 5.0, 300.0), (0.5, 3.0), (0.3, 1.0, 40.0), (0.7, 9.0, 1e4)
    ):
        found += [running.ramp(count, start, step, max(top, start), least) for least in (0.0, 2.0)]
    for whole, total, top, peak, levels in itertools.product(
        (1.0, 300.0), (0.5, 200.0), (64.0, 1e3), (1.5, 1e-300), (0.0, 3.0, 9.0)
    ):
        found.append(running.tree_steps(whole, total, top, peak, levels))
    for n, u in itertools.product((0.0, 1.0, 7.0, 1e3, 1e6, 1e9), (2.0**-53, 2.0**-24, 2.0**-11, 2.0**-8, 0.0)):
        found += [running.stagnation(n, u), kernels.growth(n, u)]
        found += [kernels.sum_growth(n, levels, u) for levels in (1.0, 10.0, np.inf)]
        for ends, sizes, peak in PARTIAL:
            for levels, quick in ((np.inf, False), (np.inf, True), (4.0, False)):
                found.append(running.running_error(ends, sizes, n, peak, u, 0.01, 2.0**-48, levels, quick))
    return found


def _grids() -> object:
    x = np.concatenate([numbers(FP64, 75, 60), [0.0, np.inf, 12.0, 2.0**-1074, 3.0 * 2.0**-1070]])
    shaped = x[:60].reshape(3, 4, 5)
    rows, columns = np.empty((3, 4)), np.empty((3, 5))
    grid.row_grid(shaped, rows)
    grid.column_grid(shaped, columns)
    narrow = np.empty((3, 4))
    with np.errstate(all="ignore"):
        grid.row_grid(shaped.astype(np.float32), narrow)
    return grid.last_bits(x), rows, columns, narrow


def _endless() -> object:
    found: list[object] = []
    for n, (u, limit) in itertools.product(
        (1, 2, 5, 20), ((2.0**-24, FP32.max), (2.0**-53, FP64.max), (0.0, FP32.max))
    ):
        for x in data(FP32, n, n):
            lo, hi = (np.ascontiguousarray(e[..., None]) for e in x)
            out = np.zeros((2, 6, 1))
            for levels in (np.inf, 3.0):
                endless.whole(lo, hi, np.ones((6, 1), np.bool_), out[0], out[1], u, limit, levels)
                found.append(out.copy())
            start = np.random.default_rng(n).random(lo.shape) < 0.2
            for begins in (kernels.NOWHERE, start):
                ends = np.zeros((2, *lo.shape))
                endless.prefixes(lo, hi, begins, ends[0], ends[1], u, limit)
                found.append(ends)
    return found


SUMS = 2.0**-46
"""Where numpy adds up."""
CASES: Cases = {"extrema": (_extrema, 0.0), "rooms": (_rooms, 0.0), "grids": (_grids, 0.0), "endless": (_endless, 0.0)}
for _fmt, _on in itertools.product(FORMATS, ("any", "tree", "muted")):
    CASES[f"sums {_fmt.name} {_on}"] = (partial(_axis, _fmt, PROFILES[_on], "sum_axis"), 0.0)
    CASES[f"products {_fmt.name} {_on}"] = (partial(_axis, _fmt, PROFILES[_on], "prod_axis"), 0.0)
    CASES[f"scans {_fmt.name} {_on}"] = (partial(_scans, _fmt, PROFILES[_on]), 0.0)
    CASES[f"recurrence {_fmt.name} {_on}"] = (partial(_recurrence, _fmt, PROFILES[_on]), 0.0)
    CASES[f"algebras {_fmt.name} {_on}"] = (partial(_algebras, _fmt, PROFILES[_on]), SUMS)
for _fmt, _on in itertools.product(FORMATS, ("any", "gfx90a", "muted")):
    CASES[f"atomics {_fmt.name} {_on}"] = (partial(_atomics, _fmt, PROFILES[_on]), SUMS)
for _fmt, _on in itertools.product((FP64, FP32, FP16), ("any", "tree", "muted")):
    CASES[f"means {_fmt.name} {_on}"] = (partial(_welford, _fmt, PROFILES[_on]), SUMS)
    CASES[f"logsumexp {_fmt.name} {_on}"] = (partial(_logsumexp, _fmt, PROFILES[_on]), SUMS)
