"""The pytest plugin, in runs of pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
KERNEL = """
import pytest, torch, triton, triton.language as tl

@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.exp(tl.load(x + i, mask=i < n)), mask=i < n)

def exponential(x):
    y = torch.empty_like(x)
    kernel[(1,)](x, y, x.numel(), B=64)
    return y

def inputs():
    torch.manual_seed(0)
    return torch.randn(50, device="cuda")
"""
TESTS = (
    KERNEL
    + """
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_strict():
    x = inputs()
    torch.testing.assert_close(exponential(x), torch.exp2(x * 1.4426950408889634), rtol=0, atol=0)

def test_scalar():
    x = inputs()
    assert (exponential(x) - torch.exp2(x * 1.4426950408889634)).abs().max() == 0

def test_wrong():
    x = inputs()
    torch.testing.assert_close(exponential(x), x.exp() + 0.1)

def test_right():
    x = inputs()
    torch.testing.assert_close(exponential(x), x.exp())

def test_plain():
    assert 1 == 2
"""
)
MARKED = (
    KERNEL
    + """
@pytest.mark.render(device="sm_80", accept_type_i=True)
def test_marked():
    x = inputs()
    torch.testing.assert_close(exponential(x), torch.exp2(x * 1.4426950408889634), rtol=0, atol=0)

def test_fixture(render):
    x = inputs()
    assert render.compare(exponential(x), x.exp()).label == "Type-I"
    render.assert_roundoff(exponential, x, ref=torch.exp)
    render.assert_roundoff(exponential(x), x.exp() + 1)

def test_neither():
    assert not torch.cuda.is_available()

@pytest.mark.render
def test_strict():
    x = inputs()
    torch.testing.assert_close(exponential(x), torch.exp2(x * 1.4426950408889634), rtol=0, atol=0)
"""
)
CACHES = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
"""Of whoever runs the tests: pytester has a home of its own, where everything would be compiled anew."""
PLUGIN = ("-p", "no:render", "-p", "render.front.plugin", "-p", "no:cacheprovider")
"""By its module: the entry point may be installed or not."""


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", CACHES)


@pytest.mark.slow
def test_a_failure_comes_with_its_verdict_and_stays_one(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_subprocess(*PLUGIN, "--render", "--junitxml=j.xml")
    done.assert_outcomes(passed=1, failed=4)
    done.stdout.fnmatch_lines(["*RENDER  exponential(x) against *, line 20: Type-I RND105*", "*TYPE-II*RND201*"])
    cases = {c.get("name"): c for c in ElementTree.parse(pytester.path / "j.xml").iter("testcase")}
    said = {name: [p.get("value") for p in case.iter("property")] for name, case in cases.items()}
    assert "Type-II RND201" in said["test_wrong"][0] and "Type-I" in said["test_scalar"][0]
    assert said["test_plain"] == said["test_right"] == []
    assert "render/front" not in done.stdout.str()


@pytest.mark.slow
def test_round_off_passes_by_explicit_choice_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_subprocess(*PLUGIN, "--render", "--render-accept-type-i")
    done.assert_outcomes(passed=3, failed=2)


def test_marker_and_fixture_concern_their_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(MARKED)
    done = pytester.runpytest_subprocess(*PLUGIN)
    done.assert_outcomes(passed=2, failed=2)
    done.stdout.fnmatch_lines(["*TYPE-II*", "*, line 34: Type-I RND105*"])


@pytest.mark.slow
def test_an_unknown_device_is_a_usage_error(pytester: pytest.Pytester) -> None:
    done = pytester.runpytest_subprocess(*PLUGIN, "--render", "--render-device", "sm_1")
    assert done.ret == pytest.ExitCode.USAGE_ERROR


def test_the_plugin_imports_nothing_heavy() -> None:
    code = "import sys, render.front.plugin; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"torch", "triton", "numba", "numpy", "rich", "typer"}


@pytest.mark.slow
def test_workers_of_xdist_have_their_own(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_subprocess(*PLUGIN, "--render", "-n", "2", "--junitxml=j.xml")
    done.assert_outcomes(passed=1, failed=4)
    done.stdout.fnmatch_lines(["*TYPE-II*RND201*"])
    assert "Type-II RND201" in Path(pytester.path / "j.xml").read_text()
