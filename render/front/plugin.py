"""The pytest plugin: tests written for a GPU run without one, and a failed comparison of a kernel says what it means.

It is at work for all tests with `--render` (or `render = true` in the ini file), else for those with the fixture
`render` or the marker `@pytest.mark.render`. Nothing is judged but what fails; a failure stays one, unless
`--render-accept-type-i` says that round-off is none. Verdicts go to the report's sections and, as properties, to JUnit;
each xdist worker has its own. This module imports nothing that is heavy.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from render.front.watch import Compared, Watch

_WATCH = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("render", "RENDER: is a kernel wrong, or is it rounding?")
    group.addoption("--render", action="store_true", help="Run Triton kernels of all tests on the CPU; judge failures.")
    group.addoption("--render-device", metavar="NAME", default="any", help="Device profile: any, sm_80, h100, ...")
    group.addoption(
        "--render-accept-type-i", action="store_true",
        help="A comparison that fails, and that round-off explains, is taken to succeed.",
    )  # fmt: skip
    parser.addini("render", "As --render.", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "render(device='any', accept_type_i=False): run this test's kernels on the CPU and judge failures."
    )
    if config.getoption("--render") or config.getini("render"):
        config.stash[_WATCH] = _opened(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    watch = config.stash.get(_WATCH, None)
    if watch is not None:
        watch.__exit__(None, None, None)


def _opened(config: pytest.Config, device: str | None = None, accepts: bool = False) -> Watch:
    from render.front.watch import Watch
    from render.result.errors import RenderError
    from render.result.options import Options

    accepts = accepts or bool(config.getoption("--render-accept-type-i"))
    try:
        watch = Watch(Options(device=device or config.getoption("--render-device")), later=True, accepts=accepts)
    except RenderError as error:
        raise pytest.UsageError(str(error)) from None
    return watch.__enter__()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    marker, shared = item.get_closest_marker("render"), item.config.stash.get(_WATCH, None)
    chosen = {} if marker is None else dict(marker.kwargs)
    wanted = marker is not None or "render" in getattr(item, "fixturenames", ())
    if shared is None and not wanted:
        return (yield)
    with contextlib.ExitStack() as stack:
        watch = shared
        if shared is None or chosen:
            watch = _opened(item.config, chosen.get("device"), bool(chosen.get("accept_type_i")))
            stack.push(watch.__exit__)
        assert watch is not None
        item.stash[_WATCH] = watch
        watch.forget()
        try:
            return (yield)
        finally:
            del item.stash[_WATCH]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    watch: Watch | None = item.stash.get(_WATCH, None)
    if watch is None or call.when != "call":
        return report
    if report.failed:
        watch.settle()
    item.user_properties += [("render", _line(found)) for found in watch.comparisons]  # the last report shows them
    if report.failed and watch.comparisons:
        *others, last = watch.comparisons
        lines = [_line(found) for found in others]
        report.sections.append((f"RENDER  {_line(last)}", "\n".join([*lines, _text(last)])))
    if report.failed and watch.accepts and _explained(watch.comparisons, call):
        report.outcome, report.longrepr = "passed", None
    return report


def _explained(found: list[Compared], call: pytest.CallInfo[None]) -> bool:
    """Whether the assertion that failed stands in the line of the last comparison, and that is round-off."""
    last = found[-1] if found else None
    if last is None or last.verdict is None or last.verdict.label != "Type-I" or call.excinfo is None:
        return False
    lines = [(str(entry.path), entry.lineno + 1) for entry in call.excinfo.traceback]
    return call.excinfo.errisinstance(AssertionError) and (last.file, last.line) in lines


def _line(found: Compared) -> str:
    called = f", called in line {found.called_from[1]}" if found.called_from else ""
    names = f"{found.name} against {found.reference}, line {found.line}{called}"
    if found.verdict is None:
        return f"{names}: no verdict"
    return f"{names}: {found.verdict.label} {found.verdict.code} {found.verdict.message}"


def _text(found: Compared) -> str:
    if found.verdict is None:
        return f"no verdict: {found.error}"
    from render.result import views

    text: str = views.BRIEF(found.verdict)
    return text


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    from render.result.verdict import Verdict

    if isinstance(left, Verdict) and isinstance(right, Verdict) and op == "==":
        return ["two verdicts are equal", repr(left), repr(right)]
    return None


class RenderFixture:
    """What tests get as `render`: the functions of the package, with the device of the test as default."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def _with_device(self, keywords: dict[str, Any]) -> dict[str, Any]:
        return keywords if "options" in keywords else {"device": self.watch.options.device, **keywords}

    def classify(self, *args: Any, **keywords: Any) -> Any:
        from render.judgement.question import of_call_with

        fn, *inputs = args
        ref = keywords.pop("ref", None)
        return of_call_with(fn, inputs, self._with_device(keywords), ref)

    def assert_roundoff(self, *args: Any, **keywords: Any) -> Any:
        from render.front.testing import assert_roundoff

        __tracebackhide__ = True
        if args and not callable(args[0]):
            return self._check(*args)
        return assert_roundoff(*args, **self._with_device(keywords))

    def compare(self, a: Any, b: Any) -> Any:
        """The verdict on two tensors that this test made."""
        return self.watch.judged(a, b, sys._getframe(1), self.watch.options)

    def _check(self, a: Any, b: Any) -> Any:
        __tracebackhide__ = True
        verdict = self.watch.judged(a, b, sys._getframe(2), self.watch.options)
        if verdict.label != "Type-I":
            raise AssertionError(f"\n{verdict}")
        return verdict


@pytest.fixture
def render(request: pytest.FixtureRequest) -> RenderFixture:
    """`render.classify`, `render.compare`, `render.assert_roundoff`; kernels of the test run on the CPU."""
    return RenderFixture(request.node.stash[_WATCH])
