"""The simulator against exact rationals, rounded by other code."""

from fractions import Fraction

import numpy as np
import pytest

from render.trace.accumulation.simulate import simulate_accumulator, suffices


def rounded(x: Fraction, bits: int, mode: str) -> Fraction:
    """x to `bits` significant bits, from the definition."""
    if x == 0:
        return x
    size, exponent = abs(x), 0
    while size >= 2**bits:
        size, exponent = size / 2, exponent + 1
    while size < 2 ** (bits - 1):
        size, exponent = size * 2, exponent - 1
    whole, rest = int(size), size - int(size)
    if mode == "nearest" and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2)):
        whole += 1
    return Fraction(whole) * Fraction(2) ** exponent * (1 if x > 0 else -1)


def by_hand(row, bits: int, mode: str, chunk: int | None = None, tree: bool = False) -> float:
    terms = [Fraction(float(t)) for t in row]
    if tree:
        while len(terms) > 1:
            terms = [rounded(sum(terms[i : i + 2]), bits, mode) if len(terms[i : i + 2]) == 2 else terms[i]
                     for i in range(0, len(terms), 2)]  # fmt: skip
        return float(terms[0])
    parts = [terms] if chunk is None else [terms[i : i + chunk] for i in range(0, len(terms), chunk)]
    total = Fraction(0)
    for part in parts:
        s = Fraction(0)
        for t in part:
            s = rounded(s + t, bits, mode)
        total = s if chunk is None else rounded(total + s, bits, mode)
    return float(total)


def terms(kind: str) -> np.ndarray:
    g = np.random.default_rng(3)
    x = g.standard_normal((6, 75))
    return {
        "normal": x, "same sign": np.abs(x), "wide": x * 2.0 ** g.integers(-60, 60, x.shape),
        "ties": g.integers(-8, 9, x.shape) * 2.0 ** g.integers(-3, 4, x.shape), "zeros": x * (x > 0.7),
        "cancelling": np.concatenate([x, -x[:, ::-1]], axis=1),
    }[kind]  # fmt: skip


@pytest.mark.parametrize("mode", ["nearest", "truncate"])
@pytest.mark.parametrize("kind", ["normal", "same sign", "wide", "ties", "zeros", "cancelling"])
@pytest.mark.parametrize("m", [2, 5, 10, 23])
def test_every_partial_sum_is_rounded_once(kind, mode, m):
    x = terms(kind)
    for chunk, tree in ((None, False), (7, False), (25, False), (None, True)):
        found = simulate_accumulator(m, mode, chunk, x, tree=tree)
        assert found.sums.tolist() == [by_hand(row, m + 1, mode, chunk, tree) for row in x]
        assert found.exact.tolist() == [float(sum(Fraction(float(t)) for t in row)) for row in x]


def test_just_below_a_power_of_two_truncation_keeps_the_finer_grid():
    for m in (3, 10, 23):
        x = np.array([1.0, -(2.0**-60)])
        assert simulate_accumulator(m, "truncate", None, x).sums == 1 - 2.0 ** -(m + 1)
        assert simulate_accumulator(m, "nearest", None, x).sums == 1


def test_formats_have_their_range():
    assert simulate_accumulator("fp16", "nearest", None, [65504.0, 15.0]).sums == 65504
    assert simulate_accumulator("fp16", "nearest", None, [65504.0, 16.0]).sums == np.inf
    assert simulate_accumulator("fp16", "truncate", None, [65504.0, 500.0]).sums == 65504
    assert simulate_accumulator("bf16", "nearest", None, [65504.0, 15.0]).sums == 65536
    tiny = 2.0**-24
    assert simulate_accumulator("fp16", "nearest", None, [tiny, 0.4 * tiny]).sums == tiny
    x = np.float16(np.random.default_rng(0).standard_normal((20, 64)) * 1e-5).astype(np.float64)
    ours = simulate_accumulator("fp16", "nearest", None, x).sums
    half = [np.float16(0)] * len(x)
    for column in np.float16(x).T:
        half = [a + b for a, b in zip(half, column, strict=True)]
    assert ours.tolist() == [float(h) for h in half]


def test_stochastic_rounding_has_no_bias():
    """Steps of 1/4 below the grid: to nearest nothing is added, on average all of it is (within 5 standard errors)."""
    x = np.full((4000, 41), 0.25)
    x[:, 0] = 8.0
    found = simulate_accumulator(3, "stochastic", None, x)
    assert simulate_accumulator(3, "nearest", None, x).sums[0] == 8
    error = found.sums - 18
    assert abs(error.mean()) < 5 * error.std() / np.sqrt(len(error))
    assert (simulate_accumulator(3, "stochastic", None, x, seed=1).sums != found.sums).any()


def test_swamped_terms_are_counted():
    found = simulate_accumulator(3, "nearest", None, [16.0, 1.0, 0.0, 1.0, 4.0])
    assert found.sums == 20 and found.exact == 22 and found.swamped == 0.5
    assert found.loss == pytest.approx(2 / 22)


def test_what_suffices_does_and_less_does_not():
    x = np.abs(terms("normal"))
    bits, chunk = suffices(x, 0.01, 6, "truncate")
    assert (
        simulate_accumulator(bits, "truncate", None, x).loss
        <= 0.01
        < simulate_accumulator(bits - 1, "truncate", None, x).loss
    )
    assert chunk is None or simulate_accumulator(6, "truncate", chunk, x).loss <= 0.01


def test_edges():
    assert simulate_accumulator(4, "nearest", None, []).sums == 0
    assert simulate_accumulator(4, "nearest", None, np.zeros((3, 5))).loss == 0
    assert simulate_accumulator(4, "nearest", None, [np.inf, 1.0]).sums == np.inf
    for bad in ({"m_acc": 0}, {"m_acc": "fp12"}, {"rounding": "up"}, {"chunk": 0}):
        with pytest.raises(ValueError, match=r"accumulator|format|rounding|chunk"):
            simulate_accumulator(**{"m_acc": 4, "terms": [1.0], **bad})
