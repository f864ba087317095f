"""The front door as a library: compare, watch, bound, cpu, assert_roundoff; verdicts that travel."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import render


@triton.jit
def exp_kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.exp(tl.load(x + i, mask=i < n)), mask=i < n)


def exponential(x: torch.Tensor, seed: int = 0, device: str = "cuda") -> torch.Tensor:
    y = torch.empty_like(x, device=device)
    exp_kernel[(1,)](x, y, x.numel(), B=64)
    return y


def made() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    with render.cpu():
        x = torch.randn(50, device="cuda")
        return x, exponential(x)


def test_tensors_are_compared_after_the_scope_that_made_them() -> None:
    x, y = made()
    with render.cpu():
        expected, wrong = x.exp(), x.exp() + 1
    assert render.compare(y, expected).label == "Type-I"
    assert render.compare(wrong, y).code == "RND201"
    assert render.compare(expected, y, device="sm_80").device == "sm_80"


def test_a_reference_that_was_computed_elsewhere_is_no_proof_of_a_bug() -> None:
    x, y = made()
    assert render.compare(y, torch.exp(x)).label == "Type-I"
    found = render.compare(y, torch.exp(x) + 1)
    assert found.label == "Inconclusive"
    assert any("computed elsewhere" in note for note in found.notes)


def test_numbers_in_the_code_are_exact() -> None:
    with render.watch() as watched:
        x = torch.zeros(3, device="cuda")
        torch.allclose(exponential(x), torch.tensor([1.0, 1.0, 2.0], device="cuda"))
        torch.allclose(exponential(x), torch.tensor(np.exp(np.zeros(3)) + 1).float())
        torch.allclose(exponential(x), torch.tensor(np.sinc(np.zeros(3)) + 1).float())
    assert [v.label for v in watched.verdicts] == ["Type-II", "Type-II", "Inconclusive"]


def test_scopes_are_decorators_and_nest() -> None:
    @render.cpu()
    def inside() -> tuple[torch.Tensor, torch.Tensor]:
        with render.cpu("sm_90"):
            x = torch.randn(20, device="cuda")
            return exponential(x), x.exp()

    out, expected = inside()
    assert render.compare(out, expected).label == "Type-I"


def test_bounds_of_one_tensor_hold_the_exact_value() -> None:
    x, y = made()
    found = render.bound(y)
    exact = np.exp(x.double().numpy())
    assert (found.lo <= exact).all() and (exact <= found.hi).all()
    assert found.usage.max() <= 1 and 0 < found.max_relative_width < 1e-5


def test_a_verdict_travels(tmp_path: Any) -> None:
    x, y = made()
    verdict = render.compare(y, x)
    for again in (pickle.loads(pickle.dumps(verdict)), copy.deepcopy(verdict)):
        assert again.to_dict() == verdict.to_dict()
        assert np.array_equal(again.outputs[0].bound.usage, verdict.outputs[0].bound.usage)
    verdict.save(tmp_path / "v.json")
    assert render.load(tmp_path / "v.json").code == verdict.code
    assert verdict.code in str(verdict) and "assumes" in str(verdict) and "\n" not in repr(verdict)


def test_watched_code_is_as_random_as_it_was() -> None:
    def numbers(judged: bool) -> tuple[torch.Tensor, np.ndarray]:
        torch.manual_seed(3)
        np.random.seed(3)  # noqa: NPY002 - the stream that users draw from
        with render.watch() if judged else render.cpu():
            x = torch.randn(8, device="cuda")
            torch.allclose(exponential(x), x.exp())
        return torch.randn(4), np.random.rand(4)  # noqa: NPY002

    (a, b), (c, d) = numbers(True), numbers(False)
    assert torch.equal(a, c) and np.array_equal(b, d)


def test_options_have_a_place_of_their_own() -> None:
    x = torch.randn(10)
    verdict = render.classify(exponential, x, ref=torch.exp, options={"device": "sm_80"}, seed=3, device="cpu")
    assert verdict.device == "sm_80"
    with pytest.raises(render.RenderError, match="an option and a parameter"):
        render.classify(exponential, x, ref=torch.exp, device="sm_80")


def test_an_assertion_says_the_whole_report() -> None:
    x = torch.randn(10)
    assert render.testing.assert_roundoff(exponential, x, ref=torch.exp).label == "Type-I"
    with pytest.raises(AssertionError, match=r"TYPE-II.*RND201"):
        render.testing.assert_roundoff(exponential, x, ref=lambda x: x.exp() + 1)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: render.watch(devise="x"), "no option 'devise'"),
        (lambda: render.cpu("sm_999"), "unknown device profile"),
        (lambda: render.compare(torch.zeros(2), torch.zeros(2)), "nothing to judge"),
        (lambda: render.compare([1.0], torch.zeros(2)), "no dense tensor but list"),
        (lambda: render.bound(torch.zeros(2)), "no kernel had a part"),
        (lambda: render.classify(3, ref=torch.exp), "not a function"),
        (lambda: render.classify("k.py", ref=torch.exp), "render classify k.py"),
        (lambda: render.classify(exponential, torch.exp, torch.zeros(2)), "by keyword: ref="),
        (lambda: render.classify(exponential, torch.zeros(2), ref=torch.exp, options={"devise": 1}), "'devise'"),
        (lambda: render.testing.assert_roundoff(exponential, torch.zeros(2)), "no reference given"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_render_errors(call: Any, text: str) -> None:
    with pytest.raises(render.RenderError, match=text):
        call()


def test_scopes_inside_of_a_scope_tell_it() -> None:
    told: list[str] = []
    x = torch.rand(40)
    with render.watch(lambda found: told.append(found.name)) as outer:
        with render.cpu():
            one = torch.allclose(exponential(x), x.exp())
        with render.watch() as inner:
            two = torch.allclose(exponential(x), x.exp() + 1)
        three = torch.allclose(exponential(x), x.exp())
    assert (one, two, three) == (True, False, True)
    assert [v.label for v in inner.verdicts] == ["Type-II"]
    assert [v.label for v in outer.verdicts] == ["Type-I", "Type-II", "Type-I"] and len(told) == 3


@pytest.mark.parametrize("file", ["<stdin>", "<python-input-3>", "<doctest page.md[4]>"])
def test_what_is_typed_is_heard(file: str) -> None:
    names: dict[str, Any] = {"torch": torch, "exponential": exponential, "x": torch.rand(9)}
    with render.watch() as w:
        exec(compile("same = torch.allclose(exponential(x), x.exp())", file, "exec"), names)
        exec(compile("same = torch.allclose(exponential(x), x.exp())", "<generated>", "exec"), names)
    assert [c.file for c in w.comparisons] == [file] and w.verdicts[0].label == "Type-I"
