"""The stages of a verdict: what the rules say first, what checks make of it, and what is told only to who asks."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import render
from render.entry.execution import Entry, Execution
from render.judgement.later import STALE, changed
from render.result.verdict import STAGES, Verdict

N = 32


@triton.jit
def spread(X, Out, LESS: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i[:, None] * N + i[None, :]).to(tl.float32)
    away = x - tl.sum(x, 1)[:, None] / N
    tl.store(Out + i, tl.sum(away * away, 1) / (N - LESS))


def variances(x: torch.Tensor, less: float) -> torch.Tensor:
    out = torch.empty(N, dtype=torch.bfloat16)
    spread[(1,)](x, out, less, N)
    return out


def exactly(x: torch.Tensor) -> torch.Tensor:
    return x.float().var(1, correction=0).bfloat16()


def given() -> torch.Tensor:
    return torch.randn(N, N, generator=torch.Generator().manual_seed(3))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with each run of the entry."""
    plain, made = Entry.run, list[int]()

    def run(self: Entry, *args: Any) -> Execution:
        made.append(1)
        return plain(self, *args)

    monkeypatch.setattr(Entry, "run", run)
    return made


def judged(less: float = 0, **options: Any) -> Verdict:
    return render.classify(variances, given(), less, ref=lambda x, less: exactly(x), **options)


def test_the_stages_come_in_order_and_the_last_only_where_it_is_asked_for(runs: list[int]) -> None:
    seen: list[Verdict] = []
    found = judged(on_stage=seen.append)
    assert [v.stage for v in seen] == ["provisional", "checked"] and found is seen[-1]
    assert (found.label, seen[0].label, found.changed) == ("Type-I", "Type-I", "")
    before, top = len(runs), found.budget[0]
    assert not top.confirmed and len(found.outputs) == 1
    whole = found.wait()
    assert (whole.stage, whole.later, len(runs)) == ("explained", None, before + 1)
    assert whole.budget[0].confirmed and (whole.code, whole.line, whole.notes) == (found.code, found.line, found.notes)
    found.wait(), found.to_dict(), str(found), found._repr_html_()
    assert len(runs) == before + 1, "a run that was made is not made again"
    assert whole.wait() is whole


def test_who_does_not_wait_has_the_first_label_after_one_run(runs: list[int]) -> None:
    first = judged(wait=False)
    assert (first.stage, first.label, len(runs)) == (STAGES[0], "Type-I", 1)
    assert "provisional" in first._repr_html_() and len(runs) == 1
    whole = judged().wait()
    assert first.wait().to_dict()["budget"] == whole.to_dict()["budget"]
    assert pickle.loads(pickle.dumps(first)).stage == STAGES[-1]


def test_a_label_that_checks_change_says_so_and_why() -> None:
    first = judged(0.02, wait=False)
    found = first.wait("checked")
    assert (first.label, found.label, found.code) == ("Type-I", "Type-II", "RND211")
    assert found.changed == f"before the checks it was Type-I ({first.code})"
    assert found.changed.split(",")[0] in str(found).replace("\n", " ")
    assert changed(found, found).changed == found.changed


def test_other_inputs_than_were_judged_explain_nothing() -> None:
    x = given()
    found = render.classify(variances, x, 0, ref=lambda x, less: exactly(x))
    x += 1
    whole = found.wait()
    assert STALE in whole.notes and not whole.budget[0].confirmed and whole.stage == "explained"


def test_in_a_notebook_the_final_verdict_takes_the_place_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    display = pytest.importorskip("IPython.display")
    shown: list[str] = []

    class Handle:
        def update(self, html: Any) -> None:
            shown.append(html.data)

    def show(html: Any, display_id: bool) -> Handle:
        shown.append(html.data)
        return Handle()

    monkeypatch.setattr(display, "display", show)
    first = judged(wait=False)
    first._ipython_display_()
    assert ["provisional: " in html for html in shown] == [True, False]
    with pytest.raises(NotImplementedError):
        first.wait()._ipython_display_()
