"""Runs a suite in this process: every test gives a row, whatever happens in it."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import SkipTest

from render.entry.execution import on_cpu
from render.entry.inputs import from_mapping
from render.entry.resolve import resolve
from render.entry.target import find_entry, load_module
from render.interpreter.compat import import_scope
from render.judgement.steps import Judgement
from render.lab.suite.case import SuiteCase
from render.lab.suite.errors import TooLong, of_user, within
from render.lab.suite.find import Found, SourceKind
from render.lab.suite.options import SuiteOptions
from render.lab.suite.rows import SKIPPED, Row, of_error, of_verdict
from render.result.errors import RenderError
from render.result.verdict import Verdict


def run(found: Sequence[Found], options: SuiteOptions, tell: Callable[[Row], None] = lambda row: None) -> list[Row]:
    """The rows, which are told as they come; files of tests go to pytest together, after the case files.

    Raises RenderError where there are tests and pytest is not installed.
    """
    rows: list[Row] = []

    def told(row: Row) -> None:
        rows.append(row)
        tell(row)

    for file in found:
        if file.kind is not SourceKind.TESTS:
            for row in _cases(file, options):
                told(row)
    tests = [file for file in found if file.kind is SourceKind.TESTS]
    if tests:
        if importlib.util.find_spec("pytest") is None:
            raise RenderError("RND902", "files of tests need pytest", "pip install pytest")
        from render.lab.suite.collected import run_tests

        run_tests(tests, options, told)
    return rows


def _cases(file: Found, options: SuiteOptions) -> Iterator[Row]:
    began = time.perf_counter()
    name = str(file.path)
    try:
        with on_cpu(options.device), import_scope():
            module = load_module(file.path)
            cases = list(module.cases()) if file.kind is SourceKind.CASES else [_single(module)]
    except Exception as error:
        yield of_error(name, of_user(error), time.perf_counter() - began)
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
        with within(options.limit):
            return of_verdict(test, verdict(), time.perf_counter() - began)
    except SkipTest as reason:
        return Row(test, SKIPPED, message=str(reason), seconds=time.perf_counter() - began)
    except TooLong:
        message = f"not done after {options.limit:g} seconds"
        return of_error(test, RenderError("RND902", message, "more with --limit"), time.perf_counter() - began)
    except Exception as error:
        return of_error(test, of_user(error), time.perf_counter() - began)
