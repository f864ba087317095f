"""Runs a suite in this process: every test gives a row, whatever happens in it."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import SkipTest

from render.entry.execution import on_cpu
from render.entry.inputs import from_mapping
from render.entry.resolve import resolve
from render.entry.target import as_kernel_error, find_entry, load_module
from render.front.comparisons import NothingToJudge
from render.interpreter.compat import import_scope
from render.interpreter.refusals import is_own_failure
from render.judgement.steps import Judgement
from render.lab.suite.case import SuiteCase
from render.lab.suite.find import Found, SourceKind
from render.lab.suite.options import SuiteOptions
from render.lab.suite.rows import SKIPPED, Row, of_error, of_verdict
from render.result.errors import KernelError, RenderError, UnsupportedOp
from render.result.verdict import Verdict


class TooLong(BaseException):
    """A test has used up its time. Not an Exception, so that no handler of a library takes it."""


def run(found: Sequence[Found], options: SuiteOptions) -> Iterator[Row]:
    """The rows, as they come; files of tests go to pytest together, after the case files."""
    for file in found:
        if file.kind is not SourceKind.TESTS:
            yield from _cases(file, options)
    tests = [file for file in found if file.kind is SourceKind.TESTS]
    if tests:
        from render.lab.suite.collected import run_tests

        yield from run_tests(tests, options)


def _cases(file: Found, options: SuiteOptions) -> Iterator[Row]:
    began = time.perf_counter()
    name = str(file.path)
    try:
        with on_cpu(options.device), import_scope():
            module = load_module(file.path)
            cases = list(module.cases()) if file.kind is SourceKind.CASES else [_single(module)]
    except Exception as error:
        yield of_error(name, _of_user(error), time.perf_counter() - began)
        return
    for case in cases:
        test = f"{name}::{case.name}"
        if options.wants(test):
            yield judged(test, partial(judge_case, case, options), options)


def _single(module: Any) -> SuiteCase:
    """The one kernel of a plain file, with its own inputs and reference."""
    fn = find_entry(module)
    return SuiteCase(fn.__name__, fn, module.reference, module.make_inputs)


def judge_case(case: SuiteCase, options: SuiteOptions) -> Verdict:
    import torch

    with on_cpu(options.device):
        torch.manual_seed(options.seed)
        given = from_mapping(case.fn, case.inputs())
    settings = options.settings
    chosen = {**settings.session, **case.settings.get("session", {})}
    precision = case.settings.get("ref_precision", settings.ref_precision)
    return Judgement(case.fn, given, resolve(case.reference), None,
                     replace(settings, session=chosen, ref_precision=precision)).verdict()  # fmt: skip


def judged(test: str, verdict: Callable[[], Verdict], options: SuiteOptions) -> Row:
    """The row of one test; a failure of any kind is a row as well."""
    began = time.perf_counter()
    try:
        with _within(options.limit):
            return of_verdict(test, verdict(), time.perf_counter() - began)
    except (NothingToJudge, SkipTest) as reason:
        return Row(test, SKIPPED, message=str(reason), seconds=time.perf_counter() - began)
    except TooLong:
        message = f"not done after {options.limit:g} seconds"
        return of_error(test, RenderError("RND902", message, "more with --limit"), time.perf_counter() - began)
    except Exception as error:
        return of_error(test, _of_user(error), time.perf_counter() - began)


def _of_user(error: Exception) -> Exception:
    """An exception of the user's own code as such."""
    if isinstance(error, RenderError | UnsupportedOp | KernelError) or is_own_failure(error):
        return error
    return as_kernel_error(error)


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raises TooLong inside after so many seconds of wall time (0: never; only in the main thread, on Unix)."""
    if not seconds or threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
