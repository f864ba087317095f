"""Numbers and places as words."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from render.report import text
from tests.support import rng, trials


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "0.0 %"), (1e-5, "<0.1 %"), (0.191, "19.1 %"), (0.9999, ">99.9 %"), (1.0, "100.0 %"), (7.0, "700 %"),
        (1e7, "1e+09 %"), (math.inf, "inf"), (math.nan, "n/a"),
    ],
)  # fmt: skip
def test_percent(share: float, words: str) -> None:
    assert text.percent(share) == words


def test_interval_keeps_enough_digits_of_the_middle() -> None:
    generator = rng(1)
    for _ in range(trials(200)):
        middle = generator.normal() * 10.0 ** generator.integers(-20, 20)
        half = abs(middle) * 10.0 ** generator.uniform(-10, 3)
        shown = text.interval(middle - half, middle + half)
        printed, width = (float(part) for part in shown.split(" +/- "))
        assert abs(printed - middle) <= 0.01 * half + 1e-15 * abs(middle)
        assert width == pytest.approx(half, rel=0.006)


@pytest.mark.parametrize(
    ("lo", "hi", "words"),
    [
        (1.5, 1.5, "1.5"), (-2.0, 2.0, "0 +/- 2"), (-math.inf, 1.0, "[-inf, 1]"), (math.inf, math.inf, "inf"),
        (math.nan, math.nan, "anything (no bound)"), (-1.7e308, 1.7e308, "[-1.7e+308, 1.7e+308]"),
    ],
)  # fmt: skip
def test_interval_special(lo: float, hi: float, words: str) -> None:
    assert text.interval(lo, hi) == words


def test_place_is_relative_below_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert text.place(str(tmp_path / "k.py"), 3, 5) == "k.py:3:5"
    assert text.place("/elsewhere/k.py", 3) == "/elsewhere/k.py:3"
    assert text.place(None, 3) == ""


def test_small_words() -> None:
    assert text.index((3,)) == "(3,)"
    assert text.index((25, 44)) == "(25, 44)"
    assert text.index(()) == "()"
    assert text.shape("torch.float16", (2, 3)) == "float16[2, 3]"
    assert text.count(1, "kernel") == "1 kernel"
    assert text.count(2, "kernel") == "2 kernels"
    assert text.seconds(0.94) == "0.9 s"
    assert text.seconds(125) == "2 min 05 s"
