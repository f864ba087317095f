"""Failures that were caught: counted where they are ours, and nothing catches all exceptions without counting them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

import render
from render.report import saved
from render.report.compose import compose
from render.report.terminal import full
from render.result.defects import Defect, caught, collected
from render.result.errors import RenderError
from render.result.plain import put_back

ROOT = Path(render.__file__).parent
BOUNDARIES = ("cli/exits.py", "cli/doctor.py", "lab/")
"""Files that turn an exception into a message or a failed case: nothing goes on as if it had not been."""


def ours() -> Exception:
    try:
        put_back({}, {"a/b": "inf"})
    except KeyError as error:
        return error
    raise AssertionError


def theirs() -> Exception:
    try:
        raise KeyError("a")
    except KeyError as error:
        return error


def test_only_our_own_failures_count_and_each_once() -> None:
    with collected() as outer, collected() as found:
        for _ in range(3):
            caught(ours(), "reading back")
        caught(theirs(), "reading back")
        caught(RenderError("RND901", "an answer to the user"), "reading back")
    (defect,) = found.values()
    assert (defect.doing, defect.error, defect.count) == ("reading back", "KeyError: 'a'", 3)
    assert defect.place.startswith("render/result/plain.py:")
    assert outer == found
    caught(ours(), "nobody collects")


@triton.jit
def double(X, OUT, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(OUT + i, tl.load(X + i) * 2)


def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    double[(1,)](x, out, N=16)
    return out


def test_a_verdict_carries_what_was_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from render.reference.oracle import Oracle

    def broken(*_: object, **__: object) -> None:
        put_back({}, {"a/b": "inf"})

    assert not render.classify(doubled, torch.ones(16), ref=lambda x: 2 * x).defects
    monkeypatch.setattr(Oracle, "_carried", broken)
    found = render.classify(doubled, torch.full((16,), 0.3), ref=lambda x: (x.half() * 2).float()).wait()
    assert any("KeyError" in defect.error for defect in found.defects)
    shown = "\n".join(line.plain for line in full(found, 400, verbose=True))
    assert found.defects[0].sentence in shown
    assert any(getattr(block, "kind", "") == "defects" for block in compose(found))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    saved.keep(found)
    saved.keep(found)
    assert set(saved.tallied().values()) == {2 * d.count for d in found.defects}


def test_a_tally_that_cannot_be_read_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    saved.folder().mkdir()
    (saved.folder() / "defects.json").write_text("[")
    assert saved.tallied() == {}
    saved.tally([Defect("a", "b", "c", 2)])
    assert saved.tallied() == {"a: b at c": 2}


def swallows(source: str) -> Iterator[int]:
    """Lines of handlers of all exceptions that neither raise (they or their function), nor keep it, nor count."""
    tree = ast.parse(source)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    for handler in (n for n in ast.walk(tree) if isinstance(n, ast.ExceptHandler)):
        if handler.type is not None and getattr(handler.type, "id", "") not in ("Exception", "BaseException"):
            continue
        around = min((f for f in functions if any(n is handler for n in ast.walk(f))), key=lambda f: len(ast.dump(f)))
        counts = any(getattr(getattr(n, "func", None), "id", "") == "caught" for n in ast.walk(handler))
        kept = any(isinstance(n, ast.Assign) and getattr(n.value, "id", "-") == handler.name for n in ast.walk(handler))
        if not counts and not kept and not any(isinstance(n, ast.Raise) for n in ast.walk(around)):
            yield handler.lineno


def test_nothing_swallows_everything_in_silence() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in ROOT.rglob("*.py") if not str(path.relative_to(ROOT)).startswith(BOUNDARIES)
        for line in swallows(path.read_text())
    ]  # fmt: skip
    assert not wrong


def test_the_scan_sees_what_it_should() -> None:
    """The test of the test."""
    assert list(swallows("def f():\n try:\n  g()\n except Exception:\n  return None")) == [4]
    assert not list(swallows("def f():\n try:\n  g()\n except Exception as e:\n  caught(e, 'g')"))
    assert not list(swallows("def f():\n try:\n  g()\n except Exception:\n  raise"))
    assert not list(swallows("def f():\n try:\n  g()\n except Exception as e:\n  self.error = e"))
    assert not list(swallows("def f():\n try:\n  g()\n except KeyError:\n  pass"))
