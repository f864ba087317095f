"""Statements of kernels are refused as Triton's own front end refuses them, and no others."""

from __future__ import annotations

import random
import warnings
from typing import Any

import feature_zoo
import pytest
import refusal_zoo
import torch
import triton
import triton.language as tl
from feature_zoo import FEATURES
from statement_zoo import BODIES, made, own, stock
from support import trials
from triton import knobs
from wrong_zoo import WRONG

from render.interpreter import frontend
from render.interpreter.session import Session

LANGUAGE = {
    "chained targets": "`a = b = x` runs here",
    "not": "on a number that is no truth value",
    "string sum": "`'a' + 'b'`",
    "constexpr function runtime": "of a block",
    "int block": "`int(x)`",
    "range call": "outside of a loop",
    "static assert runtime": "a condition that the call knows",
    "while block": "the verifier refuses it, without a line",
}
"""What functions of the language refuse on 3.9, and plain Python does not."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BODIES)
def test_statements_are_refused_with_the_class_and_the_line_of_the_front_end(name: str) -> None:
    expected, found = stock(made(BODIES[name])), own(made(BODIES[name]))
    if name in LANGUAGE:
        assert found is None or expected is not None
    else:
        assert found == expected


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(4))
def test_wrong_calls_are_refused_with_class_line_and_words_of_the_front_end(seed: int, capfd: Any) -> None:
    """1 to 3 of 100 differ: what a binding of the compiler alone refuses (`ravel(can_reorder=block)`) runs here."""
    g, n, refused, differ = random.Random(seed), trials(100), 0, []
    for _ in range(n):
        text = refusal_zoo.wrong(g)
        expected = stock(made(refusal_zoo.body(text)), refusal_zoo.said)
        if (
            expected is not None and expected[0] == "RuntimeError"
        ):  # the verifier of the intermediate code, without a line
            continue
        found = own(made(refusal_zoo.body(text)), refusal_zoo.said)
        refused += expected is not None
        differ += [(text, expected, found)] if found != expected else []
    assert refused > 0.5 * n
    assert len(differ) <= 0.1 * n, differ


LISTED = {**{f"feature {n}": b for n, b in FEATURES.items()}, **{f"wrong {n}": b for n, b in WRONG.items()}}
QUICK = 12
"""Of the listed programs, one in so many is tried in the quick tests."""


@pytest.mark.skipif(tuple(map(int, triton.__version__.split(".")[:2])) < (3, 9), reason="features of 3.9")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", [pytest.param(i, marks=pytest.mark.slow if i else ()) for i in range(QUICK)])
def test_programs_run_or_are_refused_as_the_front_end_does_it(part: int, capfd: Any) -> None:
    """The expectation is Triton's own, asked here; both directions count."""
    differ, accepted, names = [], 0, sorted(LISTED)[part::QUICK]
    for name in names:
        expected, found = stock(feature_zoo.made(LISTED[name])), own(feature_zoo.made(LISTED[name]))
        accepted += expected is None
        differ += [(name, expected, found)] if found != expected else []
    assert not differ
    assert 0.2 * len(names) < accepted < 0.8 * len(names)


@triton.jit
def straight(p, out, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(p + i) * 2.0
    tl.store(out + i, tl.sum(x, 0) + x)


@triton.jit
def looping(p, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(p + i)
    for _ in range(n):
        x += 1
    tl.store(out + i, x)


def test_one_kind_of_call_is_asked_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    plain = frontend._asked
    monkeypatch.setattr(frontend, "_known", {})
    monkeypatch.setattr(frontend, "_asked", lambda *a: asked.append(a[0]) or plain(*a))
    p, out = torch.arange(8.0), torch.zeros(8)
    for _ in range(2):
        with Session():
            straight[(1,)](p, out, B=8)
            looping[(1,)](p, out, 3, B=8)
            looping[(1,)](p, out, 4, B=8)
    assert asked == [looping]
    with Session():
        looping[(1,)](p, out, 1, B=8)
        looping[(1,)](p.half(), out, 3, B=8)
    assert asked == [looping] * 3


def test_checks_leave_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = made("for k in range(n):\n    tl.static_print('once', C)")
    with warnings.catch_warnings(), Session(printer=print):
        warnings.simplefilter("error")
        kernel[(1,)](torch.arange(8.0), torch.zeros(8), 1, C=2)
    assert capsys.readouterr().out.count("once") <= 1


def test_hooks_around_compilation_are_told_of_each_kind_of_call_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, str, bool]] = []

    def hook(what: str, answer: bool = False):
        def called(*, key, repr, fn, compile, is_manual_warmup, already_compiled):
            told.append((what, fn.name.split(".")[-1], is_manual_warmup))
            assert compile["num_warps"] == 8 and "looping" in repr and not already_compiled
            return answer

        return called

    monkeypatch.setattr(knobs.runtime, "jit_cache_hook", hook("before"))
    monkeypatch.setattr(knobs.runtime, "jit_post_compile_hook", hook("after"))
    p, out = torch.arange(8.0), torch.zeros(8)
    with Session() as session:
        for n in (3, 4):
            looping[(1,)](p, out, n, B=8, num_warps=8)
        assert told == [("before", "looping", False), ("after", "looping", False)]
        looping.warmup(p, out, 3, B=4, num_warps=8, grid=(1,))
        assert told[2:] == [("before", "looping", True), ("after", "looping", True)]
        assert len(session.launches) == 2
        monkeypatch.setattr(knobs.runtime, "jit_cache_hook", hook("refuses", True))
        assert looping[(1,)](p, out, 3, B=2, num_warps=8) is None
        assert told[4:] == [("refuses", "looping", False)] and len(session.launches) == 2


def test_the_listener_hears_what_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = [triton.Config({"B": b}) for b in (16, 8, 4)]
    tuned = triton.autotune(configs, key=["n"])(looping)
    told = []
    monkeypatch.setattr(knobs.autotuning, "listener", lambda **what: told.append(what), raising=False)
    with Session(config=1):
        for _ in range(2):
            tuned[(1,)](torch.arange(16.0), torch.zeros(16), 2)
    (one,) = told
    assert one["fn"] is looping and one["best_config"] is configs[1] and one["cache_hit"] is False
    assert min(one["configs_timings"], key=one["configs_timings"].get) is configs[1]


def test_numbers_are_one_kind_where_the_compiler_gives_them_one_type() -> None:
    kinds = {
        1: 1, 0: "i32", 2: "i32", -1: "i32", 2**31 - 1: "i32", -(2**31): "i32", 2**31: "i64", -(2**31) - 1: "i64",
        2**63 - 1: "i64", 2**63: "u64", 2**64 - 1: "u64",
    }  # fmt: skip
    assert {x: frontend._kind(x) for x in kinds} == kinds
    assert [frontend._kind(x) for x in (1.0, True, None, torch.ones(2))] == ["fp32", "True", "None", "torch.float32"]
