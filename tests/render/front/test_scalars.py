"""Numbers that watched code reads and hands on: what rests on them is judged with their bounds, not as exact."""

from __future__ import annotations

import copy
import json
import math
import pickle
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import render
from render.front.script import Invocation, run
from render.front.watch import Watch
from render.result.options import Options

N = 60


@triton.jit
def scale_kernel(x, y, s, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * s, mask=i < n)


@triton.jit
def times_kernel(x, y, t, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * tl.load(t + i, mask=i < n), mask=i < n)


def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    y = torch.empty_like(x)
    scale_kernel[(1,)](x, y, by, x.numel(), B=64)
    return y


def times(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    times_kernel[(1,)](x, y, by, x.numel(), B=64)
    return y


def one_by_one(x: torch.Tensor, by: float) -> torch.Tensor:
    out = torch.empty_like(x)
    for i, value in enumerate(x[:20]):
        out[i] = value.item() * by
    out[20:] = x[20:].mean().item() * by
    return out


Side = Callable[[torch.Tensor], torch.Tensor]
FORMS: dict[str, tuple[Side, Side]] = {
    "item": (lambda x: scaled(x, x.sum().item()), lambda x: x * x.sum()),
    "arithmetic": (lambda x: scaled(x, 3.0 / (1 + x.mean().item())), lambda x: x * (3.0 / (1 + x.mean()))),
    "power": (lambda x: scaled(x, x.square().mean().item() ** -0.5), lambda x: x * x.square().mean().rsqrt()),
    "math": (lambda x: scaled(x, math.exp(-x.mean().item())), lambda x: x * torch.exp(-x.mean())),
    "two": (lambda x: scaled(x, x.std().item() - x.mean().item()), lambda x: x * (x.std() - x.mean())),
    "tolist": (lambda x: scaled(x, x.reshape(6, 10).sum(1).tolist()[2]), lambda x: x * x[20:30].sum()),
    "float": (lambda x: scaled(x, float(x.sum())), lambda x: x * x.sum()),
    "full": (lambda x: times(x, torch.full((N,), x.mean().item())), lambda x: x * x.mean()),
    "tensor": (lambda x: times(x, torch.tensor([x.mean().item()] * N)), lambda x: x * x.mean()),
    "torch operation": (lambda x: times(x, x.new_ones(N) * x.mean().item()), lambda x: x * x.mean()),
    "result of a kernel": (lambda x: scaled(x, scaled(x, 0.7).sum().item()), lambda x: x * (x * 0.7).sum()),
    "reference": (lambda x: times(x, x.sum().expand(N).contiguous()), lambda x: x * x.sum().item()),
    "elements": (lambda x: one_by_one(scaled(x, 0.7), 2.0),
                 lambda x: torch.cat([x[:20] * 0.7 * 2, ((x[20:] * 0.7).mean() * 2).expand(N - 20)])),
    "shared": (lambda x: scaled(x, 0.3), lambda x: x * 0.3),
}  # fmt: skip


def judged(form: str, factor: float) -> Any:
    kernel, reference = FORMS[form]
    x = torch.rand(N, generator=torch.Generator().manual_seed(3)) + 0.1
    with render.watch(diagnose=False) as w:
        torch.allclose(kernel(x) * factor, reference(x), rtol=1e-12, atol=0)
    (verdict,) = w.verdicts
    return verdict


@pytest.mark.parametrize("form", FORMS)
def test_a_number_carries_its_bounds(form: str) -> None:
    right, wrong = judged(form, 1.0), judged(form, 1.01)
    assert (right.label, wrong.label) == ("Type-I", "Type-II"), (right.code, wrong.code)


def test_a_rounded_number_reaches_the_bound() -> None:
    """The sum may be rounded in any order: a bound that holds only for the one that was read would be unsound."""
    verdict, alone = judged("item", 1.0), judged("shared", 1.0)
    assert verdict.unit_width > 4 * alone.unit_width if hasattr(verdict, "unit_width") else True
    assert verdict.width.max() > 4 * alone.width.max() if hasattr(verdict, "width") else True


def test_what_python_made_of_a_plain_float_is_not_taken_for_exact() -> None:
    x = torch.rand(N, generator=torch.Generator().manual_seed(3)) + 0.1
    with render.watch(diagnose=False) as w:
        torch.allclose(scaled(x, 0.9173 / float(x.sum())), x * (0.9173 / x.sum()), rtol=1e-12, atol=0)
    (verdict,) = w.verdicts
    assert verdict.label == "Inconclusive" and "left torch" in str(verdict)


def test_a_difference_that_is_looked_at_goes_nowhere() -> None:
    x = torch.rand(N, generator=torch.Generator().manual_seed(3)) + 0.1
    with render.watch(diagnose=False) as w:
        for i in (3, 7):
            y = scaled(x, math.pi / i)
            assert float((y - x * (math.pi / i)).abs().max()) < 1
    assert [v.label for v in w.verdicts] == ["Type-I"] * 2, str(w.verdicts[0])


def test_it_is_a_float_to_everybody_else() -> None:
    with render.watch(diagnose=False):
        (value,), listed = torch.rand(1).tolist(), torch.rand(2, 3).double().tolist()
        found = torch.tensor(2.0).item()
        made = [found + 1, 2**found, found % 3, -found, abs(found), round(found, 1), math.sqrt(found), found // 1]
        assert made == [3.0, 4.0, 2.0, -2.0, 2.0, 2.0, math.sqrt(2.0), 2.0] and all(isinstance(x, float) for x in made)
        assert int(found) == 2 and f"{found:.1f}" == "2.0" and json.dumps(found) == "2.0" and {2.0: 1}[found] == 1
        assert type(pickle.loads(pickle.dumps(found))) is type(copy.deepcopy(found)) is float
        assert torch.tensor(found).dtype == torch.float32 and np.array([found]).dtype == np.float64
        assert found + torch.ones(1) == 3 and np.ones(1) * found == 2 and isinstance(value, float)
        assert [len(row) for row in listed] == [3, 3]
    assert type(torch.tensor(2.0).item()) is float and math.sqrt.__class__.__name__ == "builtin_function_or_method"


def given_elsewhere(form: str, factor: float) -> Any:
    generator = np.random.RandomState(0)
    a = (generator.rand(N) + 0.1).astype(np.float32)
    x = torch.tensor(a)
    cosine = np.cos(a.astype(np.float64)).astype(np.float32)
    references: dict[str, Callable[[], torch.Tensor]] = {
        "then arithmetic": lambda: torch.from_numpy(cosine) * 0.3,
        "then cast": lambda: torch.from_numpy(np.cos(a)).double().float() + 0,
        "table": lambda: torch.tensor(cosine).add(1) - 1,
        "the same input": lambda: torch.tensor(a) * 0.3,
        "widened input": lambda: (torch.from_numpy(a.astype(np.float64)) * 0.3).float(),
        "permuted input": lambda: torch.from_numpy(a[::-1].copy()).flip(0) * 0.3,
        "mask": lambda: torch.tensor(a) * 0.3 * torch.from_numpy(np.tri(N, dtype=np.float32)[-1]),
        "filled": lambda: torch.from_numpy(np.zeros(N, np.float32)).add_(torch.tensor(a), alpha=0.3),
    }
    with render.watch(diagnose=False) as w:
        torch.allclose(scaled(x, 0.3 * factor), references[form](), rtol=1e-12, atol=0)
    (verdict,) = w.verdicts
    return verdict


@pytest.mark.parametrize("form", ["then arithmetic", "then cast", "table"])
def test_torch_makes_nothing_exact_that_numpy_computed(form: str) -> None:
    verdict = given_elsewhere(form, 1.0)
    assert verdict.label == "Inconclusive" and "computed elsewhere" in str(verdict), str(verdict)


@pytest.mark.parametrize("form", ["the same input", "widened input", "permuted input", "mask", "filled"])
def test_an_input_that_is_given_twice_is_one(form: str) -> None:
    right, wrong = given_elsewhere(form, 1.0), given_elsewhere(form, 1.01)
    assert (right.label, wrong.label) == ("Type-I", "Type-II"), (right.code, wrong.code)


def test_a_number_that_is_printed_or_compared_goes_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.rand(N, generator=torch.Generator().manual_seed(3)) + 0.1
    with render.watch(diagnose=False) as w:
        assert float(x.sum()) > -float(x.norm()) / 2
        print("norm", float(x.norm()), f"{float(x.sum()) / N:.3f}")
        by = math.pi / len([*w.verdicts, 3, 4, 5])
        torch.allclose(scaled(x, by), x * by)
    assert [v.label for v in w.verdicts] == ["Type-I"] and "norm" in capsys.readouterr().out


@triton.jit
def total_kernel(x, y, n, F, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y, tl.sum(tl.load(x + i, i < n, 0.0), 0) * F)


def total(x: torch.Tensor, factor: float) -> torch.Tensor:
    y = torch.empty(1)
    total_kernel[(1,)](x, y, x.numel(), factor, 64)
    return y


def almost(a: torch.Tensor, b: torch.Tensor) -> None:
    unittest.TestCase().assertAlmostEqual(a.item(), b.sum(0, keepdim=True).item(), delta=1e9)  # noqa: PT009


MEETINGS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: abs(a.item() - b.sum(0, keepdim=True).item()),
    lambda a, b: b.sum(0, keepdim=True).item() - a.item() > 0.1,
    lambda a, b: a.tolist() == pytest.approx([b.sum(0, keepdim=True).item()]),
    lambda a, b: abs(a.item() - b.sum().item()),
    lambda a, b: a.item() == sum(b.tolist()),
    lambda a, b: round(2 * a.item(), 3) == round(2 * b.sum().item(), 3),
    lambda a, b: math.isclose(float(a), float(b.sum())),
    lambda a, b: (a - b.sum()).abs().item() > 1,
    almost,
]


@pytest.mark.parametrize("form", MEETINGS, ids=range(len(MEETINGS)))
@pytest.mark.parametrize(("factor", "label"), [(1.0, "Type-I"), (1.01, "Type-II")])
def test_numbers_are_compared(form: Callable[[Any, Any], Any], factor: float, label: str) -> None:
    x = torch.linspace(0.5, 2, 50)
    with Watch(Options(budget=False, diagnose=False)) as watch:
        form(total(x, factor), x)
    assert [v.label for v in watch.verdicts] == [label]
    assert watch.comparisons[0].file == __file__


def test_a_course_of_results_is_no_comparison() -> None:
    x = torch.linspace(0.5, 2, 50)
    with Watch(Options(budget=False)) as watch:
        a, b = total(x, 1.0).item(), total(x, 1.01).item()
        assert abs(a - b) > 0 and a != b and a < b
        assert a - 1.0 > 0 and x[0].item() != a
    assert not watch.comparisons


def test_a_sum_of_a_long_list_is_made_again() -> None:
    x = torch.linspace(0.5, 2, 3000)
    with Watch(Options(budget=False, diagnose=False)) as watch:
        torch.allclose(scaled(x[:N], 1 / sum(x.tolist())), x[:N] / x.sum())
    assert [v.label for v in watch.verdicts] == ["Type-I"]


def test_of_many_numbers_in_a_line_the_first_are_judged() -> None:
    x = torch.linspace(0.5, 2, 12)
    with Watch(Options(budget=False, diagnose=False)) as watch:
        for got, want in zip(scaled(x, 0.3).tolist(), x.tolist(), strict=True):
            assert abs(got - 0.3 * want) < 1
    assert [v.label for v in watch.verdicts] == ["Type-I"] * 8 and "the first 8 numbers" in watch.notes[0]


SCRIPT = """
import torch
from {module} import total
def number(t):
    return float(t)
x = torch.linspace(0.5, 2, 50)
a = number(total(x, {factor}))
b = number(x.sum())
assert isinstance(a, float) and float("2.5") == 2.5 and float() == 0.0
print(abs(a - b) / b)
"""


@pytest.mark.parametrize(("factor", "label"), [(1.0, "Type-I"), (1.01, "Type-II")])
@pytest.mark.parametrize("own", [False, True])
def test_float_is_followed_in_a_script(own: bool, factor: float, label: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    text = SCRIPT.format(module=__name__, factor=factor)
    script.write_text(text + "def of(float):\n    return float\n" if own else text)
    with Watch(Options(budget=False, diagnose=False)) as watch:
        ended = run(Invocation("file", str(script)))
    assert ended.exit_code == 0
    assert [v.label for v in watch.verdicts] == ([] if own else [label])


def test_what_a_number_brings_along_has_a_place() -> None:
    x = torch.rand(N, generator=torch.Generator().manual_seed(3)) + 0.1
    with render.watch(diagnose=False) as w:
        torch.allclose(scaled(x, 0.3 / x.sum().item()), x * (0.3 / x.sum()), rtol=1e-12, atol=0)
    (verdict,) = w.verdicts
    place = (__file__, scale_kernel.fn.__code__.co_firstlineno + 1)
    assert (verdict.file, verdict.line) == place and "<unknown>" not in verdict.to_json()


def refined(x: torch.Tensor, step: Side, least: float) -> torch.Tensor:
    """Python decides when it is done."""
    before = 0.0
    for _ in range(4):
        x = step(x)
        now = x.norm().item()
        if abs(now - before) < least:
            break
        before = now
    return x


def chosen(x: torch.Tensor, step: Side, least: float) -> torch.Tensor:
    if step(x).norm() > least:
        return step(x) * 1.5
    return step(x)


def told(x: torch.Tensor, step: Side, least: float) -> torch.Tensor:
    """A check that goes nowhere."""
    if step(x).sum().item() > least:
        print("much")
    assert step(x).norm().item() != least
    return step(x)


WAYS: list[tuple[Callable[[torch.Tensor, Side, float], torch.Tensor], Callable[[torch.Tensor], float]]] = [
    (refined, lambda x: float((x * 0.3).norm() - (x * 0.3 * 0.3).norm())),
    (chosen, lambda x: float((x * 0.3).norm())),
    (told, lambda x: float((x * 0.3).sum())),
]


@pytest.mark.parametrize(("way", "edge"), WAYS, ids=[way.__name__ for way, _ in WAYS])
@pytest.mark.parametrize("near", [True, False])
def test_what_python_decides_by_an_open_number_is_told(way: Any, edge: Any, near: bool) -> None:
    x = torch.rand(N, generator=torch.Generator().manual_seed(3)) + 0.1
    least = edge(x) if near else 0.25 * edge(x)
    with Watch(Options(budget=False, diagnose=False)) as watch:
        torch.allclose(way(x, lambda x: scaled(x, 0.3), least), way(x, lambda x: x * 0.3, least))
    last = watch.verdicts[-1]
    assert last.label == "Type-I"  # the same one way and the other
    assert any("leave decisions open" in note for note in last.notes) == (near and way is not told)


def test_what_decides_for_both_sides_is_no_matter_of_theirs() -> None:
    x = torch.rand(N, generator=torch.Generator().manual_seed(3)) + 0.1
    least = float((x * 0.3).sum())
    with Watch(Options(budget=False, diagnose=False)) as watch:
        for factor in (0.3, 0.7):
            y, ref = scaled(x, factor), x * factor
            if y.sum().item() < 0.5 * least:
                break
            torch.allclose(y, ref)
    assert [v.label for v in watch.verdicts] == ["Type-I", "Type-I"]
