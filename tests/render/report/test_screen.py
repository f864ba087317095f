"""The first screen: a dozen lines that say what, why, who, where and what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from render.judgement.advice import advice
from render.report import terminal
from render.report.blocks import Closing, Headline
from render.report.screen import screen
from render.result.codes import CODES
from render.result.elements import Guilty, Witness
from render.result.tolerance import Tolerance
from render.result.verdict import Finding, Outputs, Verdict
from tests.render.report.verdicts import inconclusive, output, source_file, type_i, type_ii


def lines(verdict: Verdict, width: int = 100) -> list[str]:
    return [line.plain for line in terminal.short(verdict, width)]


@pytest.mark.parametrize("make", [type_i, type_ii, inconclusive])
def test_at_most_a_dozen_lines(make, tmp_path: Path) -> None:
    shown = lines(make(source_file(tmp_path)) if make is not inconclusive else make())
    assert 4 <= len(shown) <= 13
    assert not any(line != line.rstrip() for line in shown)
    blocks = screen(make())
    assert isinstance(blocks[0], Headline) and isinstance(blocks[-1], Closing)


def test_a_bug_shows_its_line_and_one_step(tmp_path: Path) -> None:
    text = "\n".join(lines(type_ii(source_file(tmp_path))))
    assert "tl_dot.py:" in text and "help: " in text and "assert_close" not in text
    assert text.count("help: ") == 1


def witness(count: int = 1) -> Witness:
    leaf = {"op": "leaf", "size": 1, "attrs": {"source": "input", "name": "X"}, "low": "0x1.8p+0"}
    return Witness("agrees", "out", (25, 44), "", {"nodes": [leaf] * count, "claim": {"side": "reference"}})


def test_a_diagnosis_stands_in_place_of_general_advice(tmp_path: Path) -> None:
    """What would repair it, what the output is instead, and the numbers behind the element; a dozen lines."""
    plain = type_ii(source_file(tmp_path))
    v = replace(
        plain, guilty=Guilty(plain.file, 9, "0.5 in place of 0.25"), resembles=("out equals the reference minus 1",),
        witness=witness(), help=("compare by hand",), findings=(),
    )  # fmt: skip
    for width in (80, 120):
        shown = lines(v, width)
        text = " ".join(" ".join(shown).split())
        assert "line 9: with 0.5 in place of 0.25" in text and "reference minus 1" in text
        assert "out[25, 44] was computed from X = 1.5" in text and "help:" not in text
        assert len(shown) <= 12
    assert "help: compare by hand" in "\n".join(lines(replace(v, guilty=None, resembles=())))


def test_many_numbers_are_counted() -> None:
    assert witness(5).inputs == "out[25, 44] was computed from 5 numbers of X"
    assert replace(witness(), document={"nodes": 3}).inputs == "" == replace(witness(), document=None).inputs


def test_a_fact_is_told_once() -> None:
    fact = Finding("RND207", "reads outside X (4 bytes)")
    said, other = (
        replace(type_ii(), message=m, findings=(fact,)) for m in ("bug: it reads outside X (4 bytes)", "bug")
    )
    assert "\n".join(lines(said)).count("reads outside") == 1 == "\n".join(lines(other)).count("reads outside")


def test_a_long_name_stands_above_its_columns() -> None:
    for name, above in (("y", False), ("a_rather_long_name_of_an_output_of_some_layer", True)):
        v = type_ii(outputs=Outputs((output(name=name, outside_exact=1, label="Type-II"),)))
        shown = next(line for line in lines(v, 80) if name + " " in line)
        assert ("in bound" not in shown) == above
        assert any("its own, +/- 0.0626" in line for line in lines(v, 80))


def test_nothing_wrong_means_no_advice(tmp_path: Path) -> None:
    """Outputs that pass allclose: the tolerance and the line that owns the bound, no step to take."""
    v = type_i(source_file(tmp_path))
    allowed = Tolerance(0.07, 0.0, "torch.testing.assert_close(actual, expected, atol=0.07, rtol=0)", 0.1, 0.0)
    passing = replace(v, outputs=Outputs(replace(o, allclose_mismatch=0, tolerance=allowed) for o in v.outputs))
    text = "\n".join(lines(passing))
    assert "help:" not in text and "tl_dot.py:9:9" in text and "atol=0.07" in text
    failing = replace(v, outputs=Outputs(replace(o, tolerance=allowed) for o in v.outputs))
    assert "help:" in "\n".join(lines(failing))


def test_the_outputs_that_decide_come_first() -> None:
    good = [output(name=f"good{i}") for i in range(4)]
    bad = output(name="bad", label="Type-II", code="RND201", outside_exact=5, usage=9.0)
    text = "\n".join(lines(type_ii(outputs=Outputs((*good, bad)))))
    assert "bad float32" in text and "good3" not in text and "3 more outputs: Type-I" in text


def test_a_value_that_no_device_gives_says_so() -> None:
    """The interpreter does not round a dot's operands; tensor cores that must are not what was run."""
    plain = type_i()
    item = replace(plain.budget[0], key="operand")
    for v, told in ((replace(plain, budget=()), False), (replace(plain, budget=(item,)), True)):
        assert ("(operands not rounded)" in " ".join(lines(v))) == told


JUDGING = [row for row in CODES.values() if row.label is not None]


@pytest.mark.parametrize("row", JUDGING, ids=lambda row: row.code)
def test_every_code_has_a_first_screen(row, tmp_path: Path) -> None:
    """With its own sentence, title and advice: a dozen lines that name it, no placeholder left, no line with blanks."""
    plain = {"Type-I": type_i, "Type-II": type_ii, "Inconclusive": inconclusive}[row.label]
    v = plain(source_file(tmp_path)) if row.label != "Inconclusive" else plain()
    detail = "3 / 8 elements of out, kernel.py:7"
    v = replace(v, code=row.code, label=row.label, message=row.sentence.format(detail=detail),
                help=tuple(advice(row.code, v.outputs)))  # fmt: skip
    shown = lines(v)
    assert 4 <= len(shown) <= 15 and row.code in shown[0] + shown[1]
    assert not any("{" in line or line != line.rstrip() for line in shown)
