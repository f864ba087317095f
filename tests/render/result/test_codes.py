"""The table of codes: complete, nothing in it that nothing issues, and its examples are true."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import render
from interval_ops.profiles.profile import CAUSES
from render.report import codes_page
from render.result import codes
from render.result.decision import Decision, worst

ROOT = Path(render.__file__).parent
TABLE = ROOT / "result" / "codes"


@pytest.mark.parametrize("row", codes.ROWS, ids=lambda row: row.code)
def test_a_row_is_complete(row: codes.Code) -> None:
    assert all((row.title, row.prose, row.maths, row.example, row.steps or row.more))
    assert not row.title.endswith(".")
    words = [row.title, row.prose, row.maths, row.example, row.sentence, row.more, *row.steps]
    assert all(text.isascii() for text in words)
    row.sentence.format(detail="")
    if row.label is not None:
        assert row.rank
        assert row.subtype or row.label == "Type-I"


def test_no_code_twice_and_ranks_are_an_order() -> None:
    assert len(codes.CODES) == len(codes.ROWS)
    ranked = [(row.label, row.rank) for row in codes.ROWS if row.label]
    assert len(set(ranked)) == len(ranked)
    assert not codes.GIVEN_AWAY & codes.CODES.keys()


def issued(source: str) -> Iterator[str]:
    """Codes that a file hands out: named as a value, not only compared with."""
    tree = ast.parse(source)
    compared = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Compare) for part in ast.walk(node)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in compared else None
        if isinstance(text, str) and len(text) == 6 and text.startswith("RND"):
            yield text


def errors(source: str) -> Iterator[str]:
    """Codes that a RenderError is raised with, where they stand in the call."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "RenderError":
            yield from (arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))


SOURCES = {path: path.read_text() for path in ROOT.rglob("*.py") if TABLE not in path.parents}


def test_what_is_issued_is_in_the_table_and_nothing_else_is() -> None:
    """Codes of causes are issued by their causes: each is one that bounds are attributed to."""
    found = {code for source in SOURCES.values() for code in issued(source)}
    by_cause = {row.code for row in codes.ROWS if row.causes}
    assert found | by_cause == codes.CODES.keys()


def test_every_cause_has_a_code() -> None:
    listed = [cause for row in codes.ROWS for cause in row.causes]
    assert len(set(listed)) == len(listed)
    assert set(CAUSES) <= set(listed)


def test_errors_have_codes_of_errors() -> None:
    wrong = {(path.name, code) for path, source in SOURCES.items() for code in errors(source) if code[3] != "9"}
    assert not wrong


def test_the_scan_sees_what_it_should() -> None:
    """The test of the test."""
    assert list(issued("if code == 'RND204' or code in ('RND205',): f('RND206')")) == ["RND206"]
    assert list(errors("raise RenderError('RND304', 'x')")) == ["RND304"]


def test_the_page_is_that_of_the_table() -> None:
    page = ROOT.parent / "docs" / "codes.md"
    assert page.read_text() == codes_page.page(), "run `make docs`"


def test_a_bug_beats_a_dont_know_beats_round_off() -> None:
    listed = [("Type-I", "RND110"), ("Inconclusive", "RND301"), ("Type-II", "RND211"), ("Type-II", "RND207")]
    decisions = [Decision(label, code, "") for label, code in listed]
    assert worst(decisions).code == "RND207"
    assert worst(decisions[:2]).code == "RND301"
    assert worst([Decision("Type-I", "RND106", ""), Decision("Type-I", "RND101", "")]).code == "RND101"


@pytest.mark.parametrize("text", ["RND101", "rnd101", "101", " 101 "])
def test_spellings(text: str) -> None:
    assert codes.find(text).code == "RND101"


@pytest.mark.parametrize("text", ["RND999", "foo", ""])
def test_unknown(text: str) -> None:
    with pytest.raises(codes.UnknownCode, match="no rule code"):
        codes.find(text)


def test_hundreds_partition_the_table() -> None:
    listed = [row.code for _, rows in codes.by_hundred() for row in rows]
    assert listed == list(codes.CODES)
    assert codes.EXIT_CODES == {"Type-I": 0, "Type-II": 1, "Inconclusive": 3}


def test_example_of_accumulation_order() -> None:
    a, b, c = np.float32(2**24), np.float32(1), np.float32(-(2**24))
    assert (a + b) + c == 0
    assert (a + c) + b == 1


def test_example_of_low_precision_accumulator() -> None:
    assert np.float16(2048) + np.float16(1) == 2048


def test_example_of_casts() -> None:
    assert float(ml_dtypes.bfloat16(1.01)) == 1.0078125
    assert float(np.float16(1e-6)) == pytest.approx(1.01328e-6, rel=1e-5)


def test_example_of_fma() -> None:
    a, c = Fraction(1) + Fraction(1, 2**12), -(1 + Fraction(1, 2**11))
    assert a * a + c == Fraction(1, 2**24)
    x, z = np.float32(float(a)), np.float32(float(c))
    assert (x * x) + z == 0
