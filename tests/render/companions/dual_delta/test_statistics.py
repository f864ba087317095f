"""What is said of two samples: by hand where the answer is known, by simulation where a level is promised."""

import math

import numpy as np
import pytest
from scipy import stats

from render.companions.dual_delta.statistics import analysed, brown_forsythe, describe, holm, tost


def paired(kind: str, n: int, g, rho: float = 0.7, scale: float = 1.0):
    """Two samples of one distribution, correlated through a Gaussian copula; errors are skewed like a Gumbel."""
    z = g.standard_normal((n, 2)) @ np.linalg.cholesky([[1, rho], [rho, 1]]).T
    u = np.clip(stats.norm.cdf(z), 1e-12, 1 - 1e-12)
    quantile = {"normal": lambda p: 10 + stats.norm.ppf(p), "gumbel": lambda p: 5 + stats.gumbel_r.ppf(p),
                "lognormal": lambda p: stats.lognorm.ppf(p, 0.75)}[kind]  # fmt: skip
    x = quantile(u)
    return x[:, 0] * scale, x[:, 1]


def test_description():
    x = np.array([1.0, 2.0, 3.0, 10.0])
    d = describe(x)
    assert (d.mean, d.median, d.largest, d.n) == (4, 2.5, 10, 4)
    assert d.sd**2 * 3 == pytest.approx(d.sd0**2 * 4) == pytest.approx(50)
    assert d.cv == d.sd / 4


def test_ties_come_out_and_do_not_decide():
    x = np.linspace(1, 2, 100)
    y = x.copy()
    y[:10] *= 1.001
    found = analysed(x, y)
    assert (found.ties, found.positive, found.negative) == (90, 0, 10)
    assert found.outcome == "equivalent"
    assert found.test("sign").p == pytest.approx(2 * 0.5**10)
    assert [e.margin for e in found.equivalence] == [1.10, 1.01]


def test_worse_better_and_undecided():
    g = np.random.default_rng(0)
    a, b = paired("gumbel", 300, g)
    assert analysed(a * 3, b).outcome == "worse"
    assert analysed(a / 3, b).outcome == "better"
    few = analysed(a[:4], b[:4])
    assert few.outcome == "undecided" and few.needed > 4
    enough = analysed(*paired("gumbel", few.needed * 3, g))
    assert enough.outcome == "equivalent"


def test_a_significant_difference_within_the_margin_is_no_difference():
    g = np.random.default_rng(0)
    a, b = paired("normal", 4000, g, rho=0.99)
    found = analysed(a * 1.02, b)
    assert found.adjusted["location"] < 1e-6 and found.outcome == "equivalent"
    assert found.equivalence[1].p > 0.5  # not within one percent


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_few_samples(n):
    found = analysed(np.arange(1.0, n + 1), np.arange(2.0, n + 2))
    assert found.one.n == n and found.outcome in ("undecided", "worse", "better")
    assert all(0 <= t.p <= 1 or math.isnan(t.p) for t in found.tests)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_no_variance_and_zeros(value):
    x = np.full(30, value)
    found = analysed(x, x)
    assert found.outcome == "equivalent" and found.ties == 30
    assert math.isnan(found.test("Shapiro-Wilk of d").p) and "variance" in found.test("Shapiro-Wilk of d").note
    other = analysed(x + 1, x)
    assert other.outcome == "worse"


def test_some_zeros_take_an_additive_margin():
    a = np.array([0.0, *[1.0] * 99])
    found = tost(a, np.ones(100), 1.1)
    assert "additive" in found.note and found.p < 0.01
    assert tost(a, np.zeros(100), 1.1).p == 1


def test_what_is_no_sample_is_refused():
    for bad in ([np.nan, 1.0], [np.inf, 1.0]):
        with pytest.raises(ValueError, match="NaN"):
            analysed(np.array(bad), np.ones(2))
    with pytest.raises(ValueError, match="length"):
        analysed(np.ones(3), np.ones(2))


def test_holm():
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})
    assert holm({"a": 0.01, "b": math.nan}) == {"a": 0.02, "b": 1.0}
    assert holm({"a": 0.01}, family=4)["a"] == pytest.approx(0.04)


def test_paired_t_only_for_normal_differences():
    g = np.random.default_rng(2)
    normal = analysed(*paired("normal", 200, g))
    assert not math.isnan(normal.test("paired t, worse").p)
    x = g.exponential(size=300)
    skewed = analysed(x**3, np.full(300, 1e-3))
    assert math.isnan(skewed.test("paired t, worse").p) and skewed.test("paired t, worse").note == "d is not normal"


LEVEL, REPEATS = 0.05, 1000
LIMIT = LEVEL + 3 * math.sqrt(LEVEL * (1 - LEVEL) / REPEATS)


@pytest.mark.parametrize(("n", "equal"), [(2, False), (5, False), (6, True), (20, True)])
def test_few_pairs_that_are_all_tied_are_no_proof(n, equal):
    """Six in a row within the margin: 2^-6, times three by Holm."""
    x = np.linspace(1, 2, n)
    found = analysed(x, x.copy())
    assert found.equivalence[0].p == 0.5**n and (found.outcome == "equivalent") == equal
    same = brown_forsythe(np.tile([0.0, 2.0], 2), np.ones(4))  # every deviation is larger by one
    assert same.p == 2 * 0.5**4


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.0, 0.9])
@pytest.mark.parametrize("kind", ["normal", "gumbel", "lognormal"])
def test_false_positives_at_their_nominal_rate(kind, rho):
    """Errors of one distribution: each test of the family rejects in at most 5 % (3 standard errors above)."""
    g = np.random.default_rng(1)
    wrong = {"location": 0, "variance": 0, "worse or better": 0}
    for _ in range(REPEATS):
        a, b = paired(kind, 100, g, rho)
        found = analysed(a, b)
        both = [found.test(f"Wilcoxon, {side}").p for side in ("worse", "better")]
        wrong["location"] += 2 * min(both) <= LEVEL
        wrong["variance"] += found.test("paired Brown-Forsythe").p <= LEVEL
        wrong["worse or better"] += found.outcome in ("worse", "better")
    assert all(count / REPEATS <= LIMIT for count in wrong.values()), wrong
    if kind == "normal":  # not by never rejecting
        assert wrong["location"] / REPEATS > 0.02 and wrong["variance"] / REPEATS > 0.02


@pytest.mark.slow
def test_equivalence_at_the_margin_at_its_nominal_rate():
    g = np.random.default_rng(4)
    wrong = sum(tost(*_at_the_margin(g), 1.1).p <= LEVEL for _ in range(REPEATS))
    assert 0.02 < wrong / REPEATS <= LIMIT


def _at_the_margin(g):
    a, b = paired("lognormal", 150, g)
    return a * 1.1, b


@pytest.mark.slow
def test_early_stopping_keeps_the_level():
    """Looks at 50, 100, 200, 400 inputs, each at alpha / 4: wrongly worse or better in at most alpha of the runs."""
    g, wrong = np.random.default_rng(5), 0
    for _ in range(400):
        a, b = paired("lognormal", 400, g, rho=0.2)
        for n in (50, 100, 200, 400):
            outcome = analysed(a[:n], b[:n], family=4).outcome
            wrong += outcome in ("worse", "better")
            if outcome != "undecided":
                break
    assert wrong / 400 <= LEVEL + 3 * math.sqrt(LEVEL * (1 - LEVEL) / 400)


@pytest.mark.slow
def test_power_for_spread():
    """At a ratio of 1.2 the paired Brown-Forsythe test finds nearly every difference (rho = 0.9, n = 200)."""
    g = np.random.default_rng(6)
    found = sum(brown_forsythe(*paired("normal", 200, g, 0.9, 1.2)).p <= LEVEL for _ in range(200))
    assert found > 190
