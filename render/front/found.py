"""What a file's own script part says: the call of the entry with its inputs, or the comparison that it makes.

For files that have neither `make_inputs()` nor `reference()`: the script is run for its values, and then its tests if
it has any. With a reference named, the first call of the entry gives the inputs; without one, what they compare is
judged.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from render.entry.inputs import Inputs
from render.front.script import Invocation, run
from render.front.watch import Watch
from render.interpreter.script import source_of
from render.judgement.question import of_file
from render.result.errors import RenderError
from render.result.footing import Footing
from render.result.options import Options, split
from render.result.verdict import Verdict


class _Called(BaseException):
    """The entry is called. Not an Exception, so that no handler of the script takes it."""


def in_script(file: Path, keywords: Mapping[str, Any], why: RenderError) -> Verdict | None:
    """The verdict on what the script part does; None where it does nothing of the kind. `why`: what was missing."""
    options, others = split(keywords)
    if others.get("ref") is not None or "no reference" not in why.message:
        found = _with_its_call(file, options, others)
        if found is not None or others.get("ref") is not None:
            return found
    worst = {"Type-II": 0, "Inconclusive": 1, "Type-I": 2}
    for way in _ways(file):
        with _hushed(), Watch(options) as watch:
            watch.footing = Footing()
            run(way, watch.footing)
        if watch.verdicts:
            return min(watch.verdicts, key=lambda verdict: worst[verdict.label])
    return None


def _ways(file: Path) -> Iterator[Invocation]:
    """How a file is run: as a script, and as tests."""
    yield Invocation("file", str(file))
    if re.search(r"^\s*def test", source_of(file), re.MULTILINE) and importlib.util.find_spec("pytest"):
        yield Invocation("pytest", "pytest", ("-q", "-p", "no:cacheprovider", str(file)))


def _with_its_call(file: Path, options: Options, others: Mapping[str, Any]) -> Verdict | None:
    """The entry with the inputs of its first call in the script, against the reference that was named."""

    def call(fn: Callable[..., Any]) -> Inputs:
        found = first_call(file, fn, options.device)
        if found is None:
            raise _Unfound
        return found

    entry, ref = others.get("entry"), others.get("ref")
    try:
        return of_file(file, entry, ref, None, (), None, options, others.get("ref_args", ()), call)
    except _Unfound:
        return None
    except RenderError:
        if ref is not None:
            raise
        return None


class _Unfound(Exception):
    """The script does not call the entry."""


def first_call(file: Path, fn: Callable[..., Any], device: str) -> Inputs | None:
    """The arguments of the first call of `fn` when the script runs."""
    code = getattr(fn, "__code__", None)
    if code is None:
        return None
    caught: list[Inputs] = []

    def look(frame: FrameType, event: str, arg: Any) -> None:
        other = frame.f_code
        same = event == "call" and (other.co_name, other.co_firstlineno) == (code.co_name, code.co_firstlineno)
        if same and Path(other.co_filename).resolve() == Path(code.co_filename).resolve():
            sys.setprofile(None)
            caught.append(_arguments(frame))
            raise _Called

    before = sys.getprofile()
    with _hushed(), Watch(Options(device=device), listens=False), contextlib.suppress(_Called):
        try:
            for way in _ways(file):
                sys.setprofile(look)
                run(way)
        finally:
            sys.setprofile(before)
    return caught[0] if caught else None


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """The script's own output was not asked for."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def _arguments(frame: FrameType) -> Inputs:
    """The arguments of a call that has just begun."""
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount
    names = code.co_varnames[:count]
    keywords = {n: values[n] for n in code.co_varnames[count : count + code.co_kwonlyargcount]}
    rest = values.get(code.co_varnames[count + code.co_kwonlyargcount], ()) if code.co_flags & 0x04 else ()
    args = (*(values[n] for n in names), *rest)
    return Inputs(args, keywords, (*names, *(f"arg{i}" for i in range(len(rest))))).clone()
