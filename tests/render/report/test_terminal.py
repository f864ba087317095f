"""The terminal form: everything that ux promises is there, in words, at any width."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from render.report import terminal
from render.result.verdict import Verdict
from tests.render.report.verdicts import inconclusive, output, source_file, type_i, type_ii


def shown(verdict: Verdict, width: int = 100, verbose: bool = False, color: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=color, highlight=False)
    for line in terminal.full(verdict, width, verbose):
        console.print(line, soft_wrap=True)
    return out.getvalue()


def test_type_i(tmp_path: Path) -> None:
    text = shown(type_i(source_file(tmp_path)))
    lines = text.splitlines()
    assert any(line.strip().startswith("TYPE-I  round-off explains") and line.endswith("RND101") for line in lines)
    assert "inputs rounded to TF32" in text
    assert "fails on 4069 / 4096 elements (99.3 %), rtol 1.3e-06 atol 1e-05" in text
    assert "4096 / 4096, worst element uses 19.1 % of its bound" in text
    told = " ".join(text.split())
    assert "got -5.935534 (operands not rounded) ref -5.926005 bound -5.926 +/- 0.0626 [15.2 % used]" in told
    assert text.index("99.6 %") < text.index("0.4 %")
    assert "help: input_precision" in text
    assert "note: the first configuration" in text
    assert "device sm_80 (documented); order-free sums" in text
    assert lines[-1].startswith("1 kernel, 1 Type-I, 0 Type-II")
    assert lines[-1].endswith("exit 0")


def test_caret_stands_under_the_call(tmp_path: Path) -> None:
    lines = shown(type_i(source_file(tmp_path))).splitlines()
    source = next(line for line in lines if "tl.dot" in line)
    caret = next(line for line in lines if "^" in line)
    assert caret.index("^") == source.index("tl.dot")
    assert caret.count("^") == len("tl.dot(x, y)")
    assert any(line.strip().startswith("--> ") and line.endswith("tl_dot.py:9:9") for line in lines)


def test_type_ii(tmp_path: Path) -> None:
    text = shown(type_ii(source_file(tmp_path)))
    assert "TYPE-II" in text
    assert "3670 / 4054 elements that have a bound" in text
    assert "3674 / 4054 in bound when the reference is recomputed in float64" in text
    assert "4044 / 4054 of the device output in bound, worst element lies 7 half widths" in text
    assert "[outside, 7x]" in text
    assert "3 / 4096 elements were never stored" in text
    assert "42 / 4096 elements have no bound" in text
    assert "RND207  read outside a, 261632 lanes, first in program (3,) at (0, 1)" in text
    assert "RND302  inline assembly" in text
    assert text.rstrip().endswith("exit 1")


def test_inconclusive_is_counted() -> None:
    assert "1 Inconclusive" in shown(inconclusive())


def test_source_that_cannot_be_read_leaves_the_place() -> None:
    text = shown(type_i("/nowhere/k.py"))
    assert "--> /nowhere/k.py:9:9" in text
    assert "^" not in text


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_a_long_headline_is_wrapped_and_keeps_its_code(width: int) -> None:
    message = "cannot tell: an operation of the host has no rule, at a place with a long name, somewhere in it"
    verdict = replace(inconclusive(), message=message)
    screen = [line.plain for line in terminal.short(verdict, width)]
    head = screen[: next(i for i, line in enumerate(screen) if line.startswith("  out"))]
    assert head[0].endswith("  RND301") and head[0].startswith("  INCONCLUSIVE  cannot tell")
    assert all(len(line) <= width for line in head)
    assert " ".join(" ".join(head).split()).replace(" RND301", "").startswith(f"INCONCLUSIVE {message}")


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120, 200])
def test_any_width(tmp_path: Path, width: int) -> None:
    text = shown(type_ii(source_file(tmp_path)), width)
    assert text.isascii()
    assert not any(line.endswith(" ") for line in text.splitlines())
    assert "RND201" in text
    if width >= 80:
        assert all(len(line) <= width for line in text.splitlines() if "-->" not in line)


def test_colour_repeats_words_only(tmp_path: Path) -> None:
    verdict = type_ii(source_file(tmp_path))
    coloured = shown(verdict, color=True)
    assert "\x1b[" in coloured
    assert Text.from_ansi(coloured).plain.rstrip() == shown(verdict).rstrip()


def test_few_unless_verbose() -> None:
    verdict = type_i(notes=tuple(f"note number {i}" for i in range(9)))
    assert "note number 8" not in shown(verdict)
    assert "6 more notes" in shown(verdict)
    assert "note number 8" in shown(verdict, verbose=True)


def test_brief_has_label_code_and_exit() -> None:
    text = "\n".join(line.plain for line in terminal.brief(type_ii()))
    assert "TYPE-II" in text
    assert "RND201" in text
    assert "exit 1" in text


def test_rich_prints_a_verdict() -> None:
    out = io.StringIO()
    Console(file=out, width=90).print(type_i())
    assert "TYPE-I" in out.getvalue()


def test_summary_of_several() -> None:
    line = terminal.summary([type_i(), type_ii(), inconclusive()]).plain
    assert line.startswith("3 verdicts, 1 Type-I, 1 Type-II, 1 Inconclusive")
    assert line.endswith("exit 1")


def test_empty_and_unbounded_outputs() -> None:
    nan = float("nan")
    odd = output(worst_usage=nan, usage=nan, low=nan, high=nan, got=nan)
    text = shown(type_i(outputs=(odd, output(elements=0, shape=(0,)))))
    assert "anything (no bound)" in text
    assert "float32[0]" in text


def test_equal_outputs_have_no_worst_element() -> None:
    text = shown(type_i(outputs=(output(max_abs_diff=0.0),)))
    assert "worst |d|   0, equal to the reference in every element" in text
    assert "got" not in text


def test_no_bound_at_all_is_not_called_inside() -> None:
    text = shown(type_i(outputs=(output(tainted=4096),)))
    assert "no element has a bound" in text
    assert "4096 / 4096, worst" not in text


def test_outputs_that_cannot_be_compared_say_why() -> None:
    text = shown(type_ii(outputs=(output(elements=0, detail="shape (3,) against (4,)"),)))
    assert "shape (3,) against (4,)" in text
    assert "allclose" not in text


def test_grid_is_shown_as_it_is_written() -> None:
    assert "grid (8, 1, 2)" in shown(type_i(grid=(8, 1, 2)))
    assert "grid (8,)" in shown(type_i(grid=(8, 1, 1)))
    assert "grid (1,)" in shown(type_i(grid=(1, 1, 1)))


def test_no_cause_is_claimed_where_the_line_is_only_a_start(tmp_path: Path) -> None:
    file = source_file(tmp_path)
    for code, note in (("RND110", ""), ("RND201", ""), ("RND101", "inputs rounded to TF32")):
        lines = shown(type_i(file, code=code)).splitlines()
        assert next(line for line in lines if "^" in line).endswith("^ " + note if note else "^")
