"""Tests, collected and run by pytest itself, and judged at whatever they compare a kernel's result with.

What is heard as a comparison is what `render run` hears (`front/watch`). A comparison by a function that fails is taken
to succeed once it is judged, so that those behind it are judged, too: a verdict asks for no tolerance.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from render.front.api import TAPE
from render.front.watch import Compared, Watch
from render.lab.suite.errors import of_user, within
from render.lab.suite.find import Found
from render.lab.suite.options import SuiteOptions
from render.lab.suite.rows import ERROR, SKIPPED, Row, of_error, of_verdict, worst
from render.result.errors import RenderError

FLAGS = ("-q", "-p", "no:cacheprovider", "--no-header", "--no-summary")


def run_tests(found: Sequence[Found], options: SuiteOptions, tell: Callable[[Row], None]) -> None:
    """Tells the rows of all tests in these files. Raises RenderError where pytest cannot run."""
    watch = Watch(options.settings, tape=TAPE, goes_on=True, comparators=options.comparators)
    plugin = Judge(options, watch, tell)
    said = io.StringIO()
    with watch, contextlib.redirect_stdout(said):
        status = pytest.main([*FLAGS, *(file.argument for file in found)], plugins=[plugin])
    if status in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR) and not plugin.told:
        text = [line for line in said.getvalue().splitlines() if line.strip()]
        raise RenderError("RND902", f"pytest could not run: {text[-1] if text else status}")


@dataclass(eq=False)  # pytest keeps its plugins in sets
class Judge:
    """The pytest plugin that hears what each test compares; `told`: rows so far."""

    options: SuiteOptions
    watch: Watch
    tell: Callable[[Row], None]
    told: int = 0
    _error: BaseException | None = None
    _reports: list[Any] = field(default_factory=list)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if self.options.wants(item.nodeid)]

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            text = str(report.longrepr).strip().splitlines()
            self._tell(Row(report.nodeid, ERROR, "RND902", message=f"cannot be imported: {text[-1]}"))

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._reports.append(report)

    def pytest_exception_interact(self, call: Any) -> None:
        self._error = self._error or call.excinfo.value

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Generator[None, Any, Any]:
        if inspect.iscoroutinefunction(item.obj):
            pytest.skip("asynchronous tests are not judged")
        with within(self.options.limit):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Generator[None, Any, Any]:
        self.watch.forget()
        self._error, self._reports = None, []
        from render.entry.held_state import seeded

        seeded(self.options.seed)
        began, launches = time.perf_counter(), self.watch.launches
        done = yield
        self.watch.settle()
        row = self._row(item.nodeid, self.watch.launches > launches)
        self._tell(replace(row, seconds=time.perf_counter() - began))
        return done

    def _tell(self, row: Row) -> None:
        self.told += 1
        self.tell(row)

    def _row(self, name: str, launches: bool) -> Row:
        failed = next((report for report in self._reports if report.failed), None)
        skipped = next((report for report in self._reports if report.skipped), None)
        compared = [_of(name, one) for one in self.watch.comparisons]
        if failed is not None and not (compared and failed.when == "call" and isinstance(self._error, AssertionError)):
            return self._failed(name, failed)
        if compared:
            return replace(worst(compared), outputs=len(compared))
        if skipped is not None:
            reason = skipped.longrepr[2] if isinstance(skipped.longrepr, tuple) else str(skipped.longrepr)
            return Row(name, SKIPPED, message=reason.removeprefix("Skipped: "))
        return Row(name, SKIPPED, message=_NOTHING if launches else "launches no kernel")

    def _failed(self, name: str, report: Any) -> Row:
        error = self._error
        if report.when != "call" or not isinstance(error, Exception):
            text = str(report.longrepr).strip().splitlines()
            what = "" if report.when == "call" else "its fixtures failed: "
            return Row(name, ERROR, "", message=f"{what}{text[-1] if text else type(error).__name__}")
        return of_error(name, of_user(error))


_NOTHING = "compares no kernel's result by a function that is known; name its own one with --comparator"


def _of(name: str, compared: Compared) -> Row:
    if compared.verdict is not None:
        return of_verdict(name, compared.verdict)
    assert compared.error is not None
    return of_error(name, compared.error)
