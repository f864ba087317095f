"""Explanations as rows of text."""

from __future__ import annotations

import math
from dataclasses import replace

from render.report import details
from render.result.elements import Witness
from render.result.records import Counterfactual, LineShare, Mutant, Origin, Power
from render.result.verdict import BudgetItem, Outputs, Verdict
from tests.render.report.verdicts import output

PLAIN = Verdict("Type-I", "RND101", "", "Type-I", "round-off")


def test_shares_tell_what_the_table_does_not() -> None:
    plain = BudgetItem("casts", "cast", "k.py", 9, 0.5, worst=0.5, median=0.504, typical=0.5)
    assert list(details.shares([plain])) == []
    lines = (LineShare("k.py", 9, 0.3), LineShare(None, 0, 0.2))
    told = replace(plain, worst=0.9, median=0.1, typical=0.2, shrink=2.0, lines=lines)
    first, *rest = details.shares([told])
    assert first == ("50.0 %", "casts", "worst element 90.0 %, median 10.0 %; of the typical error 20.0 %; "
                     "without it the bound is 2x narrower (re-run)")  # fmt: skip
    assert rest == [("30.0 %", "", "k.py:9"), ("20.0 %", "", "arguments")]
    assert "narrower" not in str(list(details.shares([replace(told, shrink=math.inf)])))


def test_widths_of_bounded_outputs_only() -> None:
    bounded = output()
    unbounded = replace(bounded, name="free", bound=replace(bounded.bound, median_relative_width=math.nan))
    rows = list(details.widths(Outputs((bounded, unbounded))))
    assert rows == [("out", "median relative width 0.02, worst usage 19.1 %")]


def test_devices_with_one_answer_share_a_row() -> None:
    same = [Counterfactual(d, f"--device {d}", 2.0, "Type-I", "", 0.1) for d in ("sm_80", "sm_90")]
    other = Counterfactual("ieee", "IEEE products", 260.0, "Type-II", "RND201", 0.1)
    rows = list(details.what_if_rows((*same, other), "Type-I"))
    assert rows[0] == ("--device sm_80, sm_90", "bound shrinks 2x")
    assert rows[1] == ("IEEE products", "bound shrinks 260x, and the verdict becomes Type-II RND201")


def test_power() -> None:
    mutants = (Mutant("zero", "c is all zeros", None, 0, "outside", 4), Mutant("mask", "n + 1", "k.py", 7, "inside"),
               Mutant("trip", "one turn less", "k.py", 8, "crash"))  # fmt: skip
    rows = list(details.power_rows(Power(0.5, mutants, {"out": 2.0**-9, "q": None}, ("s",), skipped=2)))
    assert rows[0] == "0.50: 1 of 2 seeded faults that change the result would leave this bound"
    assert "missed: n + 1  k.py:7" in rows
    assert "besides: 1 did not run to the end, 2 not run for lack of time" in rows
    assert "smallest fault noticed in out: a relative error of 2^-9" in rows
    assert "smallest fault noticed in q: not even a factor of two" in rows
    assert rows[-1] == "zeros would fit in s"


def test_origins() -> None:
    made = Origin("nan", "fdiv", "k.py", 12, (0, 1, 0), operands="fdiv(0, 0)")
    assert details.origin(made) == ("nan", "fdiv(0, 0) (program (0, 1, 0))", "k.py:12")
    read = replace(made, memory="x", reach="masked", lanes=3)
    assert details.origin(read)[1] == "read from x (program (0, 1, 0), masked, 3 lanes)"


def test_a_witness_is_offered_where_it_can_be_asked_again() -> None:
    witness = Witness("agrees", "c", (0, 1), "", {"claim": {"side": "reference"}})
    assert (
        details.second_opinion(PLAIN)
        == ""
        == details.second_opinion(replace(PLAIN, witness=replace(witness, document=None)))
    )
    assert details.second_opinion(replace(PLAIN, witness=witness)).endswith("render explain --check REPORT")


def test_what_was_not_asked_for_is_offered() -> None:
    assert details.more(PLAIN) == "render classify ... --counterfactuals --power --lines"
    assert details.more(replace(PLAIN, power=Power(1.0, ()))) == "render classify ... --counterfactuals --lines"
