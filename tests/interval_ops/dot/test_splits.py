"""The error of split products (tf32x3, bf16x3, bf16x6): from every significand of fp32, exact in float64."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from support import rng, trials

from interval_ops.profiles.profile import MissingRule, load_profile, profile_names

PARTS = {"tf32x3": 2, "bf16x3": 2, "bf16x6": 3}


def nearest(x: np.ndarray, fraction: int, away: bool) -> np.ndarray:
    """Rounded to 1 + `fraction` bits, ties to even or away from zero."""
    last = np.ldexp(1.0, np.frexp(x)[1] - 1 - fraction)
    scaled = np.abs(x) / last
    whole = np.floor(scaled + 0.5) if away else np.rint(scaled)
    return np.copysign(whole * last, x)


@cache
def split(kind: str) -> list[np.ndarray]:
    """Parts of every number in [1, 2), then what they leave."""
    x = 1.0 + np.arange(1 << 23) * 2.0**-23
    parts, rest = [], x
    for i in range(PARTS[kind]):
        if kind != "tf32x3":
            part = nearest(rest, 7, away=False)
        elif i == 0:
            part = nearest(rest, 10, away=True)
        else:
            last = np.ldexp(1.0, np.frexp(rest)[1] - 11)
            part = np.trunc(rest / last) * last
        part = np.where(rest == 0, 0.0, part)
        parts.append(part)
        rest = rest - part
    return [*parts, rest]


LIMITS = {"tf32x3": (2.0**-11, 2.0**-23), "bf16x3": (2.0**-8, 2.0**-17), "bf16x6": (2.0**-8, 2.0**-17, 0.0)}
"""Largest second part, third part, and what is left, of a number in [1, 2)."""


@pytest.mark.parametrize("kind", PARTS)
def test_parts_are_as_small_as_the_sources_say(kind: str) -> None:
    found = tuple(float(np.abs(part).max()) for part in split(kind)[1:])
    assert all(f <= limit for f, limit in zip(found, LIMITS[kind], strict=True))
    assert found[0] == LIMITS[kind][0]


def lost(kind: str, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """|a b - (sum of the products that are kept)| / (a b), exactly enough: only small terms are formed."""
    a, b = [p[i] for p in split(kind)], [p[j] for p in split(kind)]
    kept = {(p, q) for p in range(3) for q in range(3) if p + q <= (2 if kind == "bf16x6" else 1)}
    gone = sum(a[p] * b[q] for p in range(len(a)) for q in range(len(b)) if (p, q) not in kept or len(a) - 1 in (p, q))
    return np.abs(gone) / (sum(a) * sum(b))


@pytest.mark.parametrize("kind", PARTS)
def test_the_declared_error_holds_and_is_approached(kind: str) -> None:
    """Random pairs, pairs of the numbers with the largest parts of one sign, and neighbours of those."""
    g, n = rng(71), trials(200_000)
    parts = split(kind)
    worst = np.concatenate([np.argsort(s * parts[1] * 4 + s * parts[-1])[-64:] for s in (1, -1)])
    low = np.flatnonzero(np.abs(parts[1]) > 0.9 * LIMITS[kind][0])
    low = low[low < 1 << 17]  # just above 1, where a part is large against the number
    pools = [np.arange(1 << 23), worst, low]
    found = max(float(lost(kind, g.choice(p, n), g.choice(q, n)).max()) for p in pools for q in pools)
    for name in profile_names():
        profile = load_profile(name)
        try:
            eps = profile.dot(kind).eps
        except MissingRule:
            continue
        # Where no document says whether parts are cut or rounded, the figure covers both: twice as much.
        near = 0.3 if profile.confidence == "low" else 0.6
        assert eps == 0 or near * eps < found <= eps, name
