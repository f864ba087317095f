"""Cases of `kept_bounds`: one pass over flat arrays, of figures that decide at different elements."""

from __future__ import annotations

import itertools

import numpy as np
from kept_bounds import Cases, boxes, numbers

from interval_ops import scans
from interval_ops.formats.model import FP32, FP64

N = 40


def _arrays(seed: int, wild: bool) -> list[np.ndarray]:
    """y, ref, exact, lo, hi: near each other, some equal, some of them infinite or NaN."""
    g = np.random.default_rng(seed)
    exact = numbers(FP64, seed, N, plain=not wild)
    exact[::7] = 0.0
    with np.errstate(all="ignore"):
        y = exact * (1 + g.choice([0.0, 2.0**-24, -(2.0**-20), 2.0**-8], N))
        ref = exact * (1 + g.choice([0.0, -(2.0**-24), 2.0**-21], N))
        half = np.abs(exact) * g.choice([0.0, 2.0**-23, 2.0**-12, 1.5], N)
    return [y, ref, exact, exact - half, exact + half]


def _looked_at() -> object:
    found: list[object] = []
    for seed, wild in itertools.product(range(12), (False, True)):
        y, ref, exact, lo, hi = _arrays(seed, wild)
        g = np.random.default_rng(seed)
        pick, part = g.random(N) < 0.5, np.abs(hi - lo) / 2
        with np.errstate(all="ignore"):
            for times, u, floor in ((1.0, 2.0**-24, 0.0), (0.5, 2.0**-19, 1e-6), (1.0, 0.01, 0.0), (3.0, 2.0**-8, 1.0)):
                found += [scans.off(y, exact, times, u, floor), scans.apart(y, ref, exact, u, floor, 2.0**-21)]
                found += [
                    scans.off(y[:5], exact[:5], times, u, floor),
                    scans.apart(y[:1], ref[:1], exact[:1], u, floor, 0.003),
                ]
            for size in (1, 2, 3, N):
                args = tuple(x[:size] for x in (ref, exact, part, lo, hi))
                found += [scans.explained(pick[:size], *args), scans.explained(np.ones(size, np.bool_), *args)]
            found += [scans.same_bits(y, y.copy()), scans.same_bits(y, ref), scans.same_bits(np.zeros(2), -np.zeros(2))]
            found += [scans.same_bits(y[i : i + 1], ref[i : i + 1]) for i in range(N)]
            found += [
                scans.largest_gap(y, exact),
                scans.largest_gap(ref, y),
                [scans.largest_gap(y[i : i + 2], ref[i : i + 2]) for i in range(0, N, 2)],
            ]
            out = np.empty(N)
            scans.relative_widths(out, lo, hi)
            found.append(out.copy())
            for settled, further in ((np.zeros(N, np.bool_), False), (pick, True), (pick, False)):
                small, wide = np.full(6, np.inf), np.zeros(6)
                real = np.where(np.isfinite(exact), exact, 1.0)
                scans.binned(small, wide, 0.7, further, settled, np.minimum(lo, real), np.maximum(hi, real), real)
                found += [small, wide]
            tame = [np.where(np.isfinite(x), x, 1.0) for x in (y, y * 1.01, ref, lo, hi)]
            found += [scans.extremes(*tame, 2.0**-9, 1e-3), scans.extremes(*(x[:1] for x in tame), 0.0, 0.0)]
            found += [scans.extremes(tame[0], tame[2], tame[2], tame[2], tame[2], 0.0, 0.0)]
            for narrow, slack, few in (
                (0.5, 2.0**-20, 0.1),
                (3.0, 2.0**-7, 2.0**-3),
                (0.1, 2.0, 1e-9),
                (0.0, 0.0, 0.0),
            ):
                found += [scans.compared(ref, ref + np.abs(exact) * 2.0**-22, lo, hi, exact, narrow, slack, few)]
                found += [
                    scans.compared(
                        ref[i : i + 1],
                        y[i : i + 1].clip(ref[i : i + 1]),
                        lo[i : i + 1],
                        hi[i : i + 1],
                        exact[i : i + 1],
                        narrow,
                        slack,
                        few,
                    )
                    for i in range(N)
                ]
                found += [scans.settled(lo, hi, exact, slack), scans.settled(lo[2:5], hi[2:5], exact[2:5], slack)]
                found += [scans.settled(lo[i : i + 1], hi[i : i + 1], exact[i : i + 1], slack) for i in range(N)]
            marks = np.zeros(N, np.bool_)
            found += [
                scans.beyond(y, lo, hi, ref, exact, marks),
                marks.copy(),
                scans.extent(lo, hi, ref),
                scans.extent(*tame[3:], tame[2]),
            ]
            found += [
                scans.beyond(
                    *(np.where(np.isfinite(x), x, 1.0) for x in (y, np.minimum(lo, 1), np.maximum(hi, 1), ref, exact)),
                    marks,
                ),
                marks.copy(),
            ]
            found += [
                scans.furthest(pick, tame[0], tame[3], tame[4]),
                scans.furthest(~pick, tame[2] * 2, tame[3], tame[4]),
            ]
            for width, differs, wide in ((N, 2.0**-10, 0.1), (8, 2.0**-22, 1.0), (1, 0.0, 0.5)):
                zero = [np.minimum(lo, -np.abs(exact)), np.maximum(hi, np.abs(exact) / 2)]
                scans.hollow(y, ref, exact, (zero[0], zero[1]), width, differs, wide, marks)
                found.append(marks.copy())
            out[:] = 0
            count = scans.half_widths(lo, hi, out)
            found += [count, out.copy(), *([scans.of_half_width(lo, hi, out[0], n) for n in range(3)] if count else [])]
    return found


def _ranks() -> object:
    found: list[object] = []
    g = np.random.default_rng(3)
    for size in (1, 2, 5, 100, scans.SELECTED, scans.SELECTED + 1, 3 * scans.SELECTED):
        for x in (
            g.standard_normal(size),
            np.round(g.standard_normal(size) * 4),
            np.full(size, -2.5),
            np.exp2(g.uniform(-900, 900, size)) * g.choice([-1, 1], size),
        ):
            found += [scans.kth(x, rank) for rank in {0, size // 3, size - 1}] + [scans.median(x)]
            found.append(scans.median(np.append(x, np.nan)))
    return [
        *found,
        scans.median(np.array([1.0, 1.0, 2.0, 5.0])),
        scans.median(np.array([1.0, 3.0, 3.0, 5.0])),
        scans.median(np.array([-np.inf, np.inf])),
    ]


def _flat() -> object:
    x = boxes(FP32, 5, 24)[0].reshape(4, 6)
    made = scans.flats(x, x.T, x.astype(np.float32), x.reshape(-1))
    return [*made, [m.flags.writeable for m in made], x.flags.writeable, [np.shares_memory(m, x) for m in made]]


CASES: Cases = {"looked at": (_looked_at, 0.0), "ranks": (_ranks, 0.0), "flat": (_flat, 0.0)}
