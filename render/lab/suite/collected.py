"""Tests, collected by pytest itself and run by us: its fixtures, parameters and marks stay what they are."""

from __future__ import annotations

import contextlib
import inspect
import io
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from render.entry.execution import on_cpu
from render.front.comparisons import hear, intercepted
from render.interpreter.compat import import_scope
from render.lab.suite.find import Found
from render.lab.suite.judged import judge
from render.lab.suite.options import SuiteOptions
from render.lab.suite.rows import ERROR, SKIPPED, Row
from render.result.errors import RenderError

FLAGS = ("-q", "-p", "no:cacheprovider", "--no-header", "--no-summary")


def run_tests(found: Sequence[Found], options: SuiteOptions) -> Iterator[Row]:
    """The rows of all tests in these files. Raises RenderError where pytest is not installed."""
    try:
        import pytest
    except ImportError:
        raise RenderError("RND902", "files of tests need pytest", "pip install pytest") from None
    plugin = Judge(options)
    said = io.StringIO()
    with on_cpu(options.device), import_scope(), intercepted(options.comparators), contextlib.redirect_stdout(said):
        status = pytest.main([*FLAGS, *(file.argument for file in found)], plugins=[plugin])
    if status in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR) and not plugin.rows:
        text = [line for line in said.getvalue().splitlines() if line.strip()]
        raise RenderError("RND902", f"pytest could not run: {text[-1] if text else status}")
    yield from plugin.rows


@dataclass(eq=False)  # pytest keeps its plugins in sets
class Judge:
    """The pytest plugin that judges each test in place of running it once."""

    options: SuiteOptions
    rows: list[Row] = field(default_factory=list)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        from _pytest.unittest import TestCaseFunction

        items[:] = [item for item in items if self.options.wants(item.nodeid)]
        for item in items:
            if isinstance(item, TestCaseFunction):
                item.runtest = partial(self._unittest, item)  # type: ignore[method-assign]

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            text = str(report.longrepr).strip().splitlines()
            self.rows.append(Row(report.nodeid, ERROR, "RND902", message=f"cannot be imported: {text[-1]}"))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Tests that their marks, fixtures or set-up kept from running."""
        if report.skipped and report.when == "setup":
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.rows.append(Row(report.nodeid, SKIPPED, message=reason.removeprefix("Skipped: ")))
        elif report.failed and report.when == "setup":
            text = str(report.longrepr).strip().splitlines()
            self.rows.append(Row(report.nodeid, ERROR, "", message=f"its fixtures failed: {text[-1]}"))

    def pytest_pyfunc_call(self, pyfuncitem: Any) -> bool:
        """Called before pytest's own, which it replaces."""
        from render.lab.suite.runner import judged

        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        began = time.perf_counter()
        self.rows.append(self._row(pyfuncitem, arguments, judged, began))
        return True

    def _unittest(self, item: Any) -> None:
        """A test of a unittest.TestCase, with an instance and a set-up of its own in each run."""
        from render.lab.suite.runner import judged

        run = partial(run_method, item.parent.obj, item.name)
        began = time.perf_counter()
        self.rows.append(self._row(item, {}, judged, began, run))

    def _row(self, item: Any, arguments: dict[str, Any], judged: Any, began: float, test: Any = None) -> Row:
        import pytest

        if inspect.iscoroutinefunction(item.obj):
            return Row(item.nodeid, SKIPPED, message="asynchronous tests are not judged")
        try:
            verdict = partial(judge, test or item.obj, arguments, self.options.settings)
            found: Row = judged(item.nodeid, verdict, self.options)
        except pytest.skip.Exception as skipped:
            found = Row(item.nodeid, SKIPPED, message=str(skipped), seconds=time.perf_counter() - began)
        return found


def run_method(owner: type, name: str) -> None:
    """One test method of a TestCase; its `assertEqual` on tensors is a comparison like any other."""
    import torch

    instance: Any = owner(name)
    plain = instance.assertEqual

    def equal(first: Any, second: Any, *args: Any, **kwargs: Any) -> None:
        caller = sys._getframe(1)
        tensors = isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)
        if not (tensors and hear(first, second, caller.f_code.co_filename, caller.f_lineno)):
            plain(first, second, *args, **kwargs)

    instance.assertEqual = equal
    instance.setUp()
    try:
        getattr(instance, name)()
    finally:
        instance.tearDown()
