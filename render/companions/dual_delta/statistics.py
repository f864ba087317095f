"""What two paired samples of errors say: description first, ties, then tests, equivalence and effects.

D1 and D2 come from the same inputs, so they are paired. Every test names its null hypothesis; what is asked of the data
as a whole (location, variance, equivalence) is corrected by Holm. Sources: Hollander, Wolfe and Chicken, Nonparametric
Statistical Methods (Wilcoxon with Pratt's zeros, sign test); Wilcox, Introduction to Robust Estimation (paired
Brown-Forsythe: a paired t test of absolute deviations from the medians); Schuirmann 1987 (two one-sided tests).
Absence of a difference is no equivalence: only TOST says that two errors are equivalent.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from render.result.needs import stats

Outcome = Literal["equivalent", "worse", "better", "undecided"]
MARGIN = 1.10
"""Ratio of errors that counts as equal; a choice."""
TIGHT = 1.01
ALPHA = 0.05
_POWER = 0.9
_PAIRS = 20_000
Array = np.ndarray


@dataclass(frozen=True)
class Described:
    """Of one sample; `sd` with n - 1, `sd0` with n (what `np.std` gives), `cv` = sd / mean."""

    n: int
    mean: float
    median: float
    sd: float
    sd0: float
    cv: float
    p90: float
    p95: float
    p99: float
    largest: float


@dataclass(frozen=True)
class Test:
    """One test: its null hypothesis, statistic and p; NaN where it cannot be made, `note` says why."""

    name: str
    null: str
    statistic: float
    p: float
    note: str = ""


@dataclass(frozen=True)
class Equivalence:
    """TOST for a ratio of errors within [1 / margin, margin]."""

    margin: float
    ratio: float
    p: float
    note: str = ""


@dataclass(frozen=True)
class Statistics:
    """`adjusted`: Holm's p-values of "location", "variance" and "equivalence"; `needed`: inputs that would decide."""

    one: Described
    two: Described
    ties: int
    positive: int
    negative: int
    tests: tuple[Test, ...]
    equivalence: tuple[Equivalence, ...]
    adjusted: dict[str, float]
    effects: dict[str, float]
    alpha: float
    margin: float
    outcome: Outcome
    needed: int | None

    def test(self, name: str) -> Test:
        return next(t for t in self.tests if t.name == name)


def describe(x: Array) -> Described:
    if not x.size:
        nothing: Any = (0, *[math.nan] * 9)
        return Described(*nothing)
    sd = float(x.std(ddof=1)) if x.size > 1 else math.nan
    mean = float(x.mean())
    p90, p95, p99 = (float(q) for q in np.percentile(x, (90, 95, 99)))
    cv = sd / mean if mean else math.nan
    return Described(x.size, mean, float(np.median(x)), sd, float(x.std()), cv, p90, p95, p99, float(x.max()))


def analysed(d1: Array, d2: Array, alpha: float = ALPHA, margin: float = MARGIN, family: int = 1) -> Statistics:
    """All of it for finite samples of one length; `family`: how many of them the correction is over (shapes, looks).

    ValueError for samples of two lengths, or with NaN or infinities: those are failures and to be counted apart.
    """
    d1, d2 = np.asarray(d1, np.float64), np.asarray(d2, np.float64)
    if d1.shape != d2.shape or d1.ndim != 1 or not (np.isfinite(d1).all() and np.isfinite(d2).all()):
        raise ValueError("two samples of one length without NaN and infinities")
    d = d1 - d2
    tests = [_ks(d1, d2), *_signed_ranks(d), _sign(d), *_normality(d, d1)]
    tests += [*_paired_t(d, tests), brown_forsythe(d1, d2)]
    by_name = {t.name: t for t in tests}
    equal = tuple(tost(d1, d2, m) for m in dict.fromkeys((margin, TIGHT)))
    location = min(1.0, 2 * min(by_name["Wilcoxon, worse"].p, by_name["Wilcoxon, better"].p)) if d.size else math.nan
    raw = {"location": location, "variance": by_name["paired Brown-Forsythe"].p, "equivalence": equal[0].p}
    adjusted = holm(raw, family)
    effects = _effects(d1, d2)
    outcome = _outcome(adjusted, effects, alpha, margin)
    needed = _needed(d1, d2, alpha / family, margin) if outcome == "undecided" else None
    return Statistics(
        describe(d1), describe(d2), int((d == 0).sum()), int((d > 0).sum()), int((d < 0).sum()), tuple(tests), equal,
        adjusted, effects, alpha, margin, outcome, needed,
    )  # fmt: skip


def _outcome(adjusted: dict[str, float], effects: dict[str, float], alpha: float, margin: float) -> Outcome:
    if adjusted["equivalence"] <= alpha:
        return "equivalent"
    ratio = effects["ratio of means"]
    if adjusted["location"] <= alpha and (ratio > margin or ratio < 1 / margin):
        return "worse" if ratio > 1 else "better"
    return "undecided"


def holm(raw: dict[str, float], family: int = 1) -> dict[str, float]:
    """Holm's step-down p-values; with `family` copies of the tests elsewhere. A test that was not made counts as 1."""
    p = {name: 1.0 if math.isnan(x) else x for name, x in raw.items()}
    found, largest = {}, 0.0
    for i, name in enumerate(sorted(p, key=lambda n: p[n])):
        largest = max(largest, min(1.0, (len(p) * family - i) * p[name]))
        found[name] = largest
    return found


def _missing(name: str, null: str, why: str) -> Test:
    return Test(name, null, math.nan, math.nan, why)


def _ks(d1: Array, d2: Array) -> Test:
    name, null = "Kolmogorov-Smirnov", "one distribution"
    if not d1.size:
        return _missing(name, null, "no samples")
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", RuntimeWarning
        )  # where ties forbid the exact p-value, the asymptotic one is taken
        found = stats().ks_2samp(d1, d2)
    return Test(name, null, float(found.statistic), float(found.pvalue), "conservative: the samples are paired")


def _signed_ranks(d: Array) -> list[Test]:
    null = "d is symmetric about 0"
    names = {"greater": "Wilcoxon, worse", "less": "Wilcoxon, better"}
    if not d.size or not d.any():
        p = 1.0 if d.size else math.nan
        return [Test(name, null, 0.0, p, "all pairs are tied" if d.size else "no samples") for name in names.values()]
    tests = []
    for side, name in names.items():
        found = stats().wilcoxon(d, alternative=side, zero_method="pratt")
        tests.append(Test(name, null, float(found.statistic), float(found.pvalue)))
    return tests


def _sign(d: Array) -> Test:
    name, null = "sign", "D1 > D2 as often as D1 < D2"
    up, down = int((d > 0).sum()), int((d < 0).sum())
    if not up + down:
        return Test(name, null, 0.0, 1.0 if d.size else math.nan, "all pairs are tied" if d.size else "no samples")
    return Test(name, null, up / (up + down), float(stats().binomtest(up, up + down).pvalue), f"{up + down} pairs")


def _normality(d: Array, d1: Array) -> list[Test]:
    tests = []
    for name, x in (("Shapiro-Wilk of d", d), ("Shapiro-Wilk of D1", d1)):
        null = "a normal distribution"
        if x.size < 3 or np.ptp(x) == 0:
            tests.append(_missing(name, null, "fewer than three samples" if x.size < 3 else "no variance"))
            continue
        scaled = (x - x.mean()) / np.abs(x).max()
        found = stats().shapiro(scaled[:5000])
        tests.append(Test(name, null, float(found.statistic), float(found.pvalue)))
    return tests


def _paired_t(d: Array, tests: list[Test]) -> list[Test]:
    """One-sided both ways, where normality of d was not rejected."""
    normal = next(t.p for t in tests if t.name == "Shapiro-Wilk of d")
    names = {"greater": "paired t, worse", "less": "paired t, better"}
    if not normal >= ALPHA:
        why = "d is not normal" if normal < ALPHA else "normality cannot be tested"
        return [_missing(name, "mean of d is 0", why) for name in names.values()]
    found = {side: stats().ttest_1samp(d, 0.0, alternative=side) for side in names}
    return [Test(n, "mean of d is 0", float(found[s].statistic), float(found[s].pvalue)) for s, n in names.items()]


def brown_forsythe(d1: Array, d2: Array) -> Test:
    """Paired: a t test of |D1 - med D1| against |D2 - med D2|, which holds its level for skewed and correlated errors
    (the variance ratio and Pitman-Morgan tests do not)."""
    name, null = "paired Brown-Forsythe", "equal spread"
    if d1.size < 3:
        return _missing(name, null, "fewer than three samples")
    gap = np.abs(d1 - np.median(d1)) - np.abs(d2 - np.median(d2))
    if np.ptp(gap) == 0:
        return Test(name, null, 0.0, 1.0 if gap[0] == 0 else 0.5 ** (gap.size - 1), "the same deviations: by signs")
    found = stats().ttest_1samp(gap, 0.0)
    return Test(name, null, float(found.statistic), float(found.pvalue))


def tost(d1: Array, d2: Array, margin: float) -> Equivalence:
    """The larger of two one-sided t tests on ln D1 - ln D2 against ln margin; with zero errors on d against an additive
    margin of (margin - 1) times the mean of D2. Where all differences are one number there is no t: then p is that of a
    sign test, 2^-n, of n pairs in a row within the margin if at most half of all are."""
    note, limit = "", math.log(margin)
    if d1.size and (d1 > 0).all() and (d2 > 0).all():
        x = np.log(d1) - np.log(d2)
        ratio = math.exp(x.mean())
    else:
        x, note = d1 - d2, "exact zeros: additive margin"
        limit = (margin - 1) * float(d2.mean()) if d2.size else math.nan
        ratio = float(d1.mean() / d2.mean()) if d2.size and d2.any() else 1.0 if not d1.any() else math.inf
    if d1.size < 2:
        return Equivalence(margin, ratio, math.nan, "fewer than two samples")
    if np.ptp(x) == 0:
        inside = abs(x[0]) < limit or x[0] == 0
        return Equivalence(margin, ratio, 0.5**x.size if inside else 1.0, note or "no variance: by signs")
    error = float(x.std(ddof=1)) / math.sqrt(x.size)
    if not limit > 0 or not error > 0:
        return Equivalence(margin, ratio, 1.0, note)
    t = stats().t
    p = max(t.sf((x.mean() + limit) / error, x.size - 1), t.cdf((x.mean() - limit) / error, x.size - 1))
    return Equivalence(margin, ratio, float(p), note)


def _effects(d1: Array, d2: Array) -> dict[str, float]:
    """dz = mean(d) / sd(d); P(sup): share of inputs on which D1 is larger, ties as halves; ratios; the median of
    pairwise means of d (Hodges-Lehmann, on a fixed subsample)."""
    d, n = d1 - d2, d1.size
    nothing = math.nan
    sd = float(d.std(ddof=1)) if n > 1 else nothing
    mean2 = float(d2.mean()) if n else nothing
    ratio = float(d1.mean()) / mean2 if n and mean2 else 1.0 if not d1.any() else math.inf
    positive = n and (d1 > 0).all() and (d2 > 0).all()
    drawn = np.random.default_rng(0).integers(0, n, (2, _PAIRS)) if n else np.zeros((2, 0), int)
    return {
        "dz": float(d.mean()) / sd if sd > 0 else 0.0 if n and not d.any() else nothing,
        "P(sup)": float(((d > 0).sum() + (d == 0).sum() / 2) / n) if n else nothing,
        "ratio of means": ratio if n else nothing,
        "geometric ratio": math.exp(float((np.log(d1) - np.log(d2)).mean())) if positive else nothing,
        "Hodges-Lehmann": float(np.median(d[drawn].mean(axis=0))) if n else nothing,
    }


def _needed(d1: Array, d2: Array, alpha: float, margin: float) -> int | None:
    """Inputs after which TOST, or else the location test, would decide with a power of 90 % if the mean and the spread
    of what was seen are the true ones."""
    if d1.size < 2:
        return None
    z = float(stats().norm.isf(alpha) + stats().norm.isf(1 - _POWER))
    logs = bool((d1 > 0).all() and (d2 > 0).all())
    x = np.log(d1) - np.log(d2) if logs else d1 - d2
    limit = math.log(margin) if logs else (margin - 1) * float(d2.mean())
    room = limit - abs(float(x.mean()))
    away = abs(room) if room else math.nan
    n = (z * float(x.std(ddof=1)) / away) ** 2 if away > 0 else math.inf
    return max(d1.size + 1, math.ceil(n)) if math.isfinite(n) and n < 1e9 else None


def to_dict(found: Statistics) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(found)
