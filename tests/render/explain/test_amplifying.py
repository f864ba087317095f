"""Which line turns small errors into large ones: the subtraction that cancels, not the sum that merely rounds."""

from __future__ import annotations

from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.explain.amplifying import amplifying
from render.lab.corpus.case import load_case
from render.lab.corpus.judge import judge
from render.result.packaged import folder
from render.trace import slice_of
from tests.render.trace.test_typical import random, rounded, rounding


def test_a_total_less_what_follows():
    """The median over all results grows most at the sum of products, whose operands are nearly exact."""
    case = load_case(folder("datasets") / "twins/3017-suffix")
    found = judge(case, small=True)
    source = (folder("datasets") / "twins/3017-suffix/kernel.py").read_text().splitlines()
    assert found.code == "RND206" and found.instability.element
    assert "total[None, :] - following" in source[found.line - 1]
    assert any("worse than what it is made of" in note for note in found.notes)


def test_the_factor_is_the_condition_number():
    """e/e - e/e at the last line: both quotients are 1 with an error, their difference is nearly 0."""
    entry = Entry(rounded, of_call(rounded, (random(32), "cancel"), {}), "sm_80")
    found = slice_of(entry, entry.run(), "out", (3,))
    file, line, factor = amplifying(found)
    assert (file, line) == (rounding.fn.__code__.co_filename, rounding.fn.__code__.co_firstlineno + 10)
    assert 1e5 < factor < float("inf")


def test_nothing_amplifies_in_a_cast():
    entry = Entry(rounded, of_call(rounded, (random(32), "cast"), {}), "sm_80")
    assert amplifying(slice_of(entry, entry.run(), "out", (3,))) is None
