"""Numbers that the user's code writes, and those that lay in its variables before anything left torch."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from render.interpreter.hosted.optimisers import numbers_in


def constants_of(code: CodeType) -> set[float]:
    found = {float(c) for c in code.co_consts if isinstance(c, (int, float))}
    for c in code.co_consts:
        if isinstance(c, CodeType):
            found |= constants_of(c)
        elif isinstance(c, tuple):
            found |= {float(x) for x in c if isinstance(x, (int, float))}
    return found | {-c for c in found}


@lru_cache(64)
def constants_in(file: str) -> frozenset[float]:
    """Those of a whole file, as the parameters of a test that stand in a decorator."""
    try:
        return frozenset(constants_of(compile("".join(linecache.getlines(file)), file, "exec", dont_inherit=True)))
    except (SyntaxError, ValueError):
        return frozenset()


def floats_before(frames: Iterable[Any]) -> Iterator[float]:
    """Numbers written in the code of these frames' modules, and those in their variables."""
    seen: set[int] = set()
    for frame in frames:
        yield from _floats_in(frame.f_locals.values())
        if id(frame.f_globals) not in seen:
            seen.add(id(frame.f_globals))
            values = list(frame.f_globals.values())
            yield from _floats_in(values)
            for function in values:
                if isinstance(function, FunctionType):
                    yield from constants_of(function.__code__)


def _floats_in(values: Iterable[Any]) -> Iterator[float]:
    for value in values:
        if type(value) in (int, float) and abs(value) < 2**1000:
            yield float(value)
        elif isinstance(value, (tuple, list)) and len(value) < 64:
            yield from (x for x in value if type(x) is float)
        elif not isinstance(value, type) and hasattr(value, "__dict__"):
            yield from numbers_in(value)
