"""The figure of a verdict: what is drawn, read from the marks, and what cannot be drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from interval_ops.formats.model import FORMATS
from render.cli.files import writable
from render.report import plot
from render.result.decision import Case
from render.result.errors import RenderError
from render.result.verdict import Outputs
from tests.render.report.verdicts import output, type_i, usage

SHAPE = (40, 60)


def case(outside: int = 0, unknown: int = 0) -> Case:
    """Bounds of 0 +- 0.1 about references that use at most half of them; the first elements are outside."""
    reference = usage(SHAPE, 0.5) * 0.1
    reference.reshape(-1)[:outside] = 3.0
    lo, hi = np.full(SHAPE, -0.1), np.full(SHAPE, 0.1)
    lo.reshape(-1)[SHAPE[1] :][:unknown] = np.nan
    fmt = FORMATS["fp32"]
    ends = (reference, reference)
    return Case("out", reference * 0, lo, hi, reference, reference, lambda: ends, fmt, fmt)


@pytest.mark.parametrize(("outside", "unknown"), [(0, 0), (1, 0), (5, 3)])
def test_no_element_outside_is_lost_among_its_neighbours(outside: int, unknown: int) -> None:
    of, given = output(usage(SHAPE)), case(outside, unknown)
    marks = plot._marks(of, given)
    assert marks.at.size <= plot.POINTS and marks.run == -(-given.ref.size // plot.POINTS)
    flat = np.abs(given.ref.reshape(-1))
    assert np.array_equal(marks.error, flat[marks.at]) and np.allclose(marks.used, marks.error / 0.1)
    assert bool((marks.used > 1).any()) is bool(outside) and bool(marks.unknown.size) is bool(unknown)
    worst = np.nanmax(np.where(np.isnan(given.lo), np.nan, np.abs(given.ref) / 0.1))
    assert marks.used.max() == pytest.approx(worst)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_figure_is_written_and_may_be_written_again(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"figure{suffix}"
    of = replace(type_i(outputs=Outputs((output(usage(SHAPE)),))), study=SimpleNamespace(cases=(case(2, 1),)))
    of.plot(path)
    assert path.stat().st_size > 5000
    writable(path)


def test_what_cannot_be_drawn_says_so(tmp_path: Path) -> None:
    with pytest.raises(RenderError, match="saved verdict has no elements"):
        type_i().plot(tmp_path / "a.png")
    with pytest.raises(RenderError, match="compares no elements"):
        replace(type_i(), study=SimpleNamespace(cases=())).plot(tmp_path / "a.png")
    with pytest.raises(RenderError, match="cannot draw into"):
        type_i().plot(tmp_path / "a.gif")
