"""One report: every view prints the same blocks, and a verdict that was saved has those of the one that was judged."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from render.classify import classify_file
from render.lab.corpus.case import load_case
from render.lab.replay.judging import judge
from render.report import html, markdown, terminal
from render.report.blocks import Closing, Headline, Listing, Quote, Table
from render.report.compose import compose
from render.result import schema
from render.result.elements import Guilty
from render.result.loading import verdict_of
from render.result.records import Counterfactual, Mutant, Power
from render.result.verdict import BudgetItem, Outputs, Verdict
from tests.render.report.verdicts import inconclusive, output, source_file, type_i, type_ii
from tests.render.result.test_schema import conforms

ROOT = Path(__file__).resolve().parents[3]
SOURCE = """\
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(X, Y, OUT, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(X + offs, mask=mask, other=0.0)
    y = tl.load(Y + offs, mask=mask, other=0.0)
    tl.store(OUT + offs, tl.exp(x) * y, mask=mask)


def product(x, y):
    out = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 64),)](x, y, out, x.numel(), BLOCK=64)
    return out


def reference(x, y):
    return torch.exp(x) * y


def make_inputs():
    return dict(x=torch.randn(200), y=torch.randn(200))
"""
FOLDERS = [path.parent for path in (ROOT / "datasets").glob("*/*/case.toml") if path.parent.parent.name != "network"]
KINDS = {
    "round-off": ("", "", "RND105"),
    "exact": ("tl.exp(x) * y", "x", "RND201"),
    "scaled": ("tl.exp(x) * y", "tl.exp(x) * y * 1.01", "RND201"),
    "infinite": ("tl.exp(x) * y", "tl.exp(x) / (y - y)", "RND204"),
    "ragged grid": ("triton.cdiv(x.numel(), 64)", "x.numel() // 64", "RND205"),
    "no mask": ("tl.load(Y + offs, mask=mask, other=0.0)", "tl.load(Y + offs + 100)", "RND207"),
    "one place": ("tl.store(OUT + offs, tl.exp(x) * y, mask=mask)", "tl.store(OUT + offs * 0, x)", "RND205"),
    "bits": ("tl.exp(x) * y", "(tl.exp(x) * y).to(tl.int32, bitcast=True).to(tl.float32)", "RND302"),
    "branch": ("    tl.store(", "    if tl.sum(tl.exp(x)) == 0.5:\n        x = y\n    tl.store(", "RND105"),
    "overflow": ("tl.exp(x) * y", "tl.exp(x * 1e4) * y", "RND204"),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_saved_verdict_reads_as_the_live_one(name: str, tmp_path: Path) -> None:
    old, new, _ = KINDS[name]
    path = tmp_path / "k.py"
    path.write_text(SOURCE.replace(old, new) if old else SOURCE)
    asked = ("counterfactuals", "lines", "nonfinite") if name in ("round-off", "infinite") else ()
    live = classify_file(path, explain=asked)
    data = json.loads(live.to_json())
    conforms(data, schema.schema(), schema.schema()["$defs"])
    path.write_text("# the file changes after it was judged\n" * 40)
    agree(live, verdict_of(data))


@pytest.mark.slow
@pytest.mark.parametrize("folder", sorted(FOLDERS), ids=lambda f: f.name)
def test_verdicts_on_the_corpus_read_as_the_live_ones(folder: Path) -> None:
    live = judge(load_case(folder), small=True).verdict
    data = json.loads(live.to_json())
    conforms(data, schema.schema(), schema.schema()["$defs"])
    agree(live, verdict_of(data))


def test_a_repair_is_told_once_and_is_the_advice() -> None:
    """In every view; and nothing is advised where nothing is wrong."""
    guilty = Guilty("k.py", 9, "0.5 in place of 0.25")
    v = replace(type_ii(), guilty=guilty, notes=(guilty.sentence, "another"), help=("compare by hand",))
    found = {block.kind: block for block in compose(v) if isinstance(block, Table)}
    assert found["diagnosis"].rows == ((guilty.sentence,),) and "help" not in found
    assert found["note"].rows == (("another",),)
    passing = Outputs(replace(o, allclose_mismatch=0) for o in type_i().outputs)
    for outputs, told in ((type_i().outputs, True), (passing, False)):
        w = replace(type_i(), outputs=outputs, help=("a wider accumulator",))
        assert ("a wider accumulator" in "".join(terminal.plain_text(w))) == told


def test_no_width_under_a_bug() -> None:
    """How wide a bound is explains only the bugs that are about its width."""
    budget = type_i().budget
    for code, told in (("RND201", False), ("RND207", False), ("RND206", True), ("RND211", True)):
        found = compose(replace(type_ii(), code=code, budget=budget))
        kinds = {block.kind for block in found if isinstance(block, Table)}
        assert ("budget" in kinds) == told


def agree(live: Verdict, saved: Verdict) -> None:
    """The same blocks, so the same text in every view."""
    assert compose(saved) == compose(live)
    assert html.page(saved) == html.page(live)
    assert markdown.page(saved) == markdown.page(live)
    for verbose in (False, True):
        lines = [[line.plain for line in terminal.full(v, 100, verbose)] for v in (saved, live)]
        assert lines[0] == lines[1]


NUMBERS = ("worst_usage", "usage", "got", "ref", "exact", "max_abs_diff")
COUNTS = ("outside_exact", "outside_reference", "unstored", "tainted", "nonfinite_mismatch")
ODD = (0.0, -0.0, 1.0, 0.25, 1e-300, 7.5, math.inf, -math.inf, math.nan)


def drawn(seed: int, folder: Path) -> Verdict:
    """A verdict with odd numbers and texts in every place."""
    draw = random.Random(seed)
    used = np.array(draw.choices(ODD, k=12)).reshape(3, 4)
    numbers = {name: draw.choice(ODD) for name in NUMBERS}
    numbers["low"], numbers["high"] = sorted(draw.sample(ODD[:-1], 2)) if draw.random() < 0.8 else (math.nan, math.nan)
    counts = {name: draw.choice((0, 3)) for name in COUNTS}
    file = draw.choice((None, source_file(folder)))
    made: Any = draw.choice((type_i, type_ii, inconclusive))
    what_if = Counterfactual("k", "IEEE <products> | *so*", draw.choice(ODD), "Type-I", "", 0.1)
    mutant = Mutant("zero", "c is `zero`", None, 0, "outside", 4)
    power = Power(draw.choice(ODD), (mutant,), {"out": draw.choice((None, 0.5))})
    shrink, median = draw.choice((1.0, 2.0, math.inf)), draw.choice((None, 0.25))
    more: dict[str, Any] = {"counterfactuals": (what_if,), "power": draw.choice((None, power))}
    more["budget"] = (BudgetItem("casts", "cast", file, 9, 0.75, shrink, 0.5, median),)
    if made is not inconclusive:
        more["file"] = file
    return made(outputs=Outputs((output(used, **numbers, **counts),)), notes=("a | b", "<c> & *d*"), **more)


@pytest.mark.parametrize("seed", range(40))
def test_odd_numbers_and_texts_survive(seed: int, tmp_path: Path) -> None:
    live = drawn(seed, tmp_path)
    agree(live, verdict_of(json.loads(live.to_json())))


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def handle_data(self, data: str) -> None:
        self.text += data


def _squeezed(text: str) -> str:
    return "".join(text.replace("\xa0", " ").split())


@pytest.mark.parametrize("seed", range(12))
def test_every_view_prints_every_block(seed: int, tmp_path: Path) -> None:
    """All text of all blocks is in the verbose terminal, the page and the Markdown."""
    verdict = drawn(seed, tmp_path)
    page = _Text()
    page.feed(html.page(verdict))
    plain = "".join(line.plain.strip() for line in terminal.full(verdict, 4000, verbose=True))
    written = markdown.page(verdict)
    for view in (plain, page.text, markdown.unescaped(written)):
        for text in texts(verdict):
            assert _squeezed(text) in _squeezed(view), text


def texts(verdict: Verdict) -> list[str]:
    found: list[str] = []
    for block in compose(verdict):
        if isinstance(block, Headline):
            found += [block.label.upper(), block.message, block.code, block.title]
        elif isinstance(block, Table):
            found += [cell for row in block.rows for cell in row] + [block.note]
        elif isinstance(block, Quote):
            found += [block.place, *(text for _, text in block.lines)]
        elif isinstance(block, Listing):
            found += block.lines
        elif isinstance(block, Closing):
            found += [block.summary, f"exit {block.exit_code}"]
    return found
