"""Spellings of one merge of (mean, M2, weight), and of functions that look like it."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import pytest

from render.interpreter.merged_moments import welford

DELTAS = {"d = mb - ma": "ma + {moved}", "d = ma - mb": "ma - {moved}"}
SHARES = {
    "r = nb / n": False,
    "r = tl.where(n == 0.0, 0.0, nb / n)": True,
    "r = tl.where(n > 0, nb / tl.where(n > 0, n, 1.0), 0.0)": True,
    "r = tl.where(n == 0, 0.0, nb / tl.where(n == 0, 1.0, n))": True,
    "r = nb / tl.where(n == 0.0, 1.0, n)": True,
    "r = nb / tl.where(n != 0, n, 7)": True,
    "r = nb / tl.maximum(n, 1.0)": True,
    "r = nb / tl.maximum(0.5, n)": True,
    "r = 1.0 / tl.maximum(n, 1)\n    r = nb * r": None,
}
"""Whether it asks for a weight of 0; None for what is not read (and stays without a rule)."""
SQUARES = ("d * d * na * r", "na * r * (d * d)", "(d * r) * (na * d)")
WRONG = {
    "r = na / n": "r = nb / n",
    "r = nb / tl.maximum(n, 2.0)": "r = nb / n",
    "r = nb / tl.where(n == 0.0, n, 1.0)": "r = nb / n",
    "r = nb / tl.where(n == 0.0, na, n)": "r = nb / n",
    "r = tl.where(n == 0.0, 1.0, nb / n)": "r = nb / n",
    "r = tl.where(n == 0.0, nb / n, 0.0)": "r = nb / n",
    "d = mb + ma": "d = mb - ma",
    "n = na * nb": "n = na + nb",
}


def jitted(*lines: str) -> SimpleNamespace:
    text = "\n    ".join(["def merged(ma, sa, na, mb, sb, nb):", *lines])
    return SimpleNamespace(raw_src=[text + "\n"])


def merged(delta: str, share: str, square: str, mean: str) -> SimpleNamespace:
    last = f"return {mean.format(moved='d * r')}, s, n"
    return jitted("n = na + nb", delta, share, "s = sa + sb", f"s += {square}", last)


@pytest.mark.parametrize(("delta", "share", "square"), list(product(DELTAS, SHARES, SQUARES)))
def test_every_spelling_is_read(delta: str, share: str, square: str) -> None:
    found, guarded = welford(merged(delta, share, square, DELTAS[delta])), SHARES[share]
    assert found == (None if guarded is None else (0, 1, 2, guarded, False, False))


@pytest.mark.parametrize("least", ["n", "tl.maximum(n, 1.0)", "tl.where(n == 0, 1.0, n)"])
def test_means_by_weights_are_read(least: str) -> None:
    mean = f"(na * ma + nb * mb) / {least}"
    found = welford(merged("d = ma - mb", f"r = nb / {least}", SQUARES[0], mean))
    assert found == (0, 1, 2, least != "n", True, False)


@pytest.mark.parametrize("wrong", WRONG)
def test_other_functions_are_none(wrong: str) -> None:
    lines = ["n = na + nb", "d = mb - ma", "r = nb / n", "return ma + d * r, sa + sb + d * d * na * r, n"]
    assert welford(jitted(*lines)) is not None
    assert welford(jitted(*[wrong if line == WRONG[wrong] else line for line in lines])) is None


def test_a_difference_of_the_other_sign_is_taken_away() -> None:
    for delta, other in (("d = mb - ma", "ma - d * r"), ("d = ma - mb", "ma + d * r")):
        assert welford(merged(delta, "r = nb / n", SQUARES[0], other)) is None
