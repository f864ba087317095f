"""What a launch hands to its kernel, and single changes of that which may undo one mistake.

A mistake in the launch is seen in the kernel, which is right: a stride of the wrong tensor, two arguments in each
other's place, a size or a block that is off, a grid that is too small, a number. Likely changes come before those of
the kernel itself (`guilty`), but where the text of the call says that it is meant so: a pair is exchanged only if the
call's own words then fit the kernel's names, or its strides stand in their order.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from typing import Any

import torch

from render.explain.study import Study
from render.interpreter.arguments import KernelCall, constexpr_names, grid_of
from render.interpreter.context import is_user_file

Function = tuple[str, int]
EARLY = 40
"""Changes of launches that are tried before changes of kernels."""


@dataclass(frozen=True)
class HandedChange:
    """What launch number `launch` hands over instead: arguments by name, or the extents of its grid."""

    launch: int
    file: str
    line: int
    what: str
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)
    grid: tuple[int, ...] | None = None
    early: bool = True


@dataclass(frozen=True)
class HandedNumber:
    """A float that a launch hands over, and that may have another value."""

    launch: int
    file: str
    line: int
    name: str
    value: float

    def changed(self, code: str) -> HandedChange:
        return HandedChange(self.launch, self.file, self.line, "", {self.name: float(code)})


@dataclass(frozen=True)
class LaunchSite:
    """One launch as it was: `texts` are the call's own words for its arguments, with their lines."""

    place: int
    kernel: Function
    arguments: Mapping[str, Any]
    constants: frozenset[str]
    grid: tuple[int, int, int]
    file: str
    line: int
    texts: Mapping[str, tuple[str, int]]


def launches(study: Study) -> list[LaunchSite]:
    """Those of the function under test whose calls stand in the user's files."""
    found: list[LaunchSite] = []

    def note(place: int, kernel: Any, grid: Any, call: KernelCall) -> tuple[Any, KernelCall]:
        if (frame := _caller()) is not None:
            code, site = kernel.fn.__code__, (frame.f_code.co_filename, frame.f_lineno)
            texts = _texts(*site, tuple(call.bound.signature.parameters))
            key = code.co_filename, code.co_firstlineno
            extents = grid_of(grid, call.arguments)
            constants = constexpr_names(kernel)
            found.append(LaunchSite(place, key, call.arguments, constants, extents, *site, texts))
        return grid, call

    study.run({"interval": False, "hand": note})
    return found


def _caller() -> Any:
    """The frame in the user's files whose text hands the arguments over: what takes `*args` passes on what others gave
    it (a library's own launcher), unless nobody else is there."""
    frame, first = sys._getframe(2), None
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            first = first or frame
            if not frame.f_code.co_flags & inspect.CO_VARARGS:
                return frame
        frame = frame.f_back  # type: ignore[assignment]
    return first


def applied(change: HandedChange) -> Any:
    """The session's `hand` that makes this change."""

    def hand(place: int, kernel: Any, grid: Any, call: KernelCall) -> tuple[Any, KernelCall]:
        if place != change.launch:
            return grid, call
        if change.grid is not None:
            return change.grid, call
        values = {k: call.arguments[v.name] if isinstance(v, _Other) else v for k, v in change.arguments.items()}
        bound = inspect.BoundArguments(call.bound.signature, OrderedDict({**call.arguments, **values}))
        return grid, replace(call, bound=bound)

    return hand


@dataclass(frozen=True)
class _Other:
    """The argument of this name."""

    name: str


def changes(launch: LaunchSite, unread: Collection[str]) -> Iterator[HandedChange | HandedNumber]:
    """Everything to try at one launch, likely ones first; `unread`: parameters that the kernel does not read."""
    yield from _exchanged(launch)
    yield from _other_sizes(launch, {launch.arguments[name] for name in unread if name in launch.arguments})
    for axis, extent in enumerate(launch.grid):
        if extent > 1 or axis == 0:
            grid = tuple(n + (k == axis) for k, n in enumerate(launch.grid))
            yield _change(launch, None, f"one program more along axis {axis} of the grid", grid=grid)
    for name, value in launch.arguments.items():
        if isinstance(value, int) and not isinstance(value, bool):
            others = (2 * value, value // 2) if name in launch.constants else (value + 1, value - 1)
            for other in (v for v in others if v > 0):
                yield _change(launch, name, f"{name} = {other} in place of {value}", {name: other}, early=False)
    for name, value in launch.arguments.items():
        if isinstance(value, float) and abs(value) < 1e6:
            yield HandedNumber(launch.place, launch.file, launch.texts.get(name, ("", launch.line))[1], name, value)


def _change(launch: LaunchSite, name: str | None, what: str, arguments: Any = None, **more: Any) -> HandedChange:
    line = launch.texts.get(name or "", ("", launch.line))[1]
    return HandedChange(launch.place, launch.file, line, f"{what} in the launch", arguments or {}, **more)


def _exchanged(launch: LaunchSite) -> Iterator[HandedChange]:
    """Pairs of arguments of one kind in each other's place."""
    given = [(k, v) for k, v in launch.arguments.items() if k in launch.texts and k not in launch.constants]
    for (a, x), (b, y) in combinations(given, 2):
        if _alike(x, y) and _fits(launch, a, b):
            what = f"{launch.texts[a][0]} and {launch.texts[b][0]} in each other's place"
            yield _change(launch, a, what, {a: _Other(b), b: _Other(a)})


def _alike(x: Any, y: Any) -> bool:
    if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
        return x is not y and x.shape == y.shape and x.dtype == y.dtype
    return type(x) is type(y) and isinstance(x, int | float) and not isinstance(x, bool) and x != y


def _fits(launch: LaunchSite, a: str, b: str) -> bool:
    """Whether the call's words for both are more like the kernel's names the other way round, or in order then."""
    (x, _), (y, _) = launch.texts[a], launch.texts[b]
    own, other = _likeness(a, x) + _likeness(b, y), _likeness(a, y) + _likeness(b, x)
    if own != other:
        return other > own
    if _is_number(x) and _is_number(y):
        return True
    return re.sub(r"\d+", "", x) == re.sub(r"\d+", "", y) and x > y


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[\d.]+(e[-+]?\d+)?", text) is not None


def _likeness(name: str, text: str) -> int:
    """How many words of a parameter's name stand in an argument, or begin a word of it."""
    words = {w for w in re.split(r"[^a-z0-9]+", text.lower()) if w}
    return sum(any(w.startswith(part) for w in words) for part in name.lower().split("_") if part)


def _other_sizes(launch: LaunchSite, unread: Collection[Any]) -> Iterator[HandedChange]:
    """Whole numbers in place of which another one of the launch may be meant. One that the kernel has and does not
    read is missing there, and not in the launch."""
    sizes = list(dict.fromkeys(_sizes(launch)))
    for name, value in launch.arguments.items():
        if isinstance(value, int) and not isinstance(value, bool) and name not in launch.constants:
            for other in sizes:
                if other != value:
                    what = f"{name} = {other} in place of {value}"
                    yield _change(launch, name, what, {name: other}, early=other not in unread)


def _sizes(launch: LaunchSite) -> Iterator[int]:
    for value in launch.arguments.values():
        if isinstance(value, torch.Tensor):
            yield from (*value.shape, *value.stride())
        elif isinstance(value, int) and not isinstance(value, bool):
            yield value


@cache
def _texts(file: str, line: int, parameters: tuple[str, ...]) -> dict[str, tuple[str, int]]:
    """What the launch at this line of a file writes for each parameter, and where; a name that is assigned once in the
    function around it stands for that."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return {}
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript)
             and n.lineno <= line <= (n.end_lineno or n.lineno)]  # fmt: skip
    if len(calls) != 1 or any(isinstance(a, ast.Starred) for a in calls[0].args):
        return {}
    call = calls[0]
    given = dict(zip(parameters, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
    return {name: (ast.unparse(node), _meant(tree, node, line)) for name, node in given.items()}


def _meant(tree: ast.Module, node: ast.expr, line: int) -> int:
    """The line of an argument, or of the one assignment that made it what it is."""
    if not isinstance(node, ast.Name):
        return node.lineno
    around = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and f.lineno <= line <= (f.end_lineno or 0)]
    made = [s.lineno for f in around[-1:] for s in ast.walk(f) if isinstance(s, ast.Assign) for t in s.targets
            if isinstance(t, ast.Name) and t.id == node.id]  # fmt: skip
    return made[0] if len(made) == 1 else node.lineno
