"""What a test compares: `allclose`, `assert_close` and their like, intercepted while a test runs.

Outside of a recording, and where torch, numpy or this package itself calls them, they do what they always do. Inside,
each is taken to succeed, so that the test goes on to its
next one, and its two tensors are handed over. The names are patched before test files are imported, so a test that
says `from torch.testing import assert_close` is heard as well.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from render.entry.target import is_tool_file
from render.interpreter.scope import PatchScope
from render.result.errors import RenderError

COMPARATORS: tuple[tuple[str, str, Any], ...] = (
    ("torch", "allclose", True),
    ("torch", "equal", True),
    ("torch.Tensor", "allclose", True),
    ("torch.Tensor", "equal", True),
    ("torch.testing", "assert_close", None),
    ("numpy", "allclose", True),
    ("numpy", "array_equal", True),
    ("numpy.testing", "assert_allclose", None),
    ("numpy.testing", "assert_array_almost_equal", None),
    ("numpy.testing", "assert_almost_equal", None),
    ("numpy.testing", "assert_array_equal", None),
)
"""(owner, name, what a comparison that succeeds returns)."""
_NAMES = (("actual", "expected"), ("input", "other"), ("a", "b"), ("x", "y"), ("a1", "a2"), ("desired", "expected"))

Taken = Callable[[Any, Any, str, int], None]
_takers: list[Taken] = []


@contextlib.contextmanager
def recording(take: Taken) -> Iterator[None]:
    """Inside, `take(left, right, file, line)` gets both sides of every comparison, and each succeeds."""
    _takers.append(take)
    try:
        yield
    finally:
        _takers.pop()


@contextlib.contextmanager
def intercepted(more: Sequence[str] = ()) -> Iterator[None]:
    """The scope in which comparisons can be recorded; `more` names further ones as `module:function`."""
    with PatchScope() as scope:
        for owner, name, result in COMPARATORS:
            _patch(scope, _owner(owner), name, result)
        for spec in more:
            home, _, name = spec.partition(":")
            try:
                module = importlib.import_module(home)
                plain = getattr(module, name)
            except (ImportError, AttributeError) as error:
                raise RenderError("RND902", f"--comparator {spec}: {error}", "say module:function") from None
            wrapped = _patch(scope, module, name, None)
            _everywhere(scope, plain, wrapped)
        yield


def hear(left: Any, right: Any, file: str, line: int) -> bool:
    """Hands a comparison over that was made in another way; False outside of a recording."""
    if _takers:
        _takers[-1](left, right, file, line)
    return bool(_takers)


def _owner(path: str) -> Any:
    home, _, name = path.rpartition(".")
    return getattr(importlib.import_module(home), name) if name == "Tensor" else importlib.import_module(path)


def _patch(scope: PatchScope, owner: Any, name: str, result: Any) -> Any:
    plain = getattr(owner, name)

    def compare(*args: Any, **kwargs: Any) -> Any:
        frame = sys._getframe(1)
        if not _takers or is_tool_file(frame.f_code.co_filename):
            return plain(*args, **kwargs)
        left, right = _sides(args, kwargs)
        _takers[-1](left, right, frame.f_code.co_filename, frame.f_lineno)
        return result

    compare.__name__ = compare.__qualname__ = name
    scope.set(owner, name, compare)
    return compare


def _sides(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The two operands, by position or under the names that such functions give them."""
    found = list(args[:2])
    for names in _NAMES:
        for name in names:
            if len(found) < 2 and name in kwargs:
                found.append(kwargs[name])
    return (found[0], found[1]) if len(found) == 2 else (None, None)


def _everywhere(scope: PatchScope, plain: Any, wrapped: Any) -> None:
    """Modules that have imported the function by name."""
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is plain:
                scope.set(module, name, wrapped)
