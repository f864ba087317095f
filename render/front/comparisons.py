"""What code compares: `allclose`, `assert_close` and their like, intercepted, wherever they were imported from.

A listener gets both sides of every comparison that the user's own code makes; calls from torch, numpy or this package
are left alone. It says whether the comparison is to happen as it always does or is taken to succeed (a suite goes on to
the next one). Names are patched before the user's files are imported, so one that says
`from torch.testing import assert_close` is heard as well.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import threading
import unittest
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    ("torch.testing", "assert_allclose", None),
    ("numpy", "allclose", True),
    ("numpy", "array_equal", True),
    ("numpy.testing", "assert_allclose", None),
    ("numpy.testing", "assert_array_almost_equal", None),
    ("numpy.testing", "assert_almost_equal", None),
    ("numpy.testing", "assert_array_equal", None),
    ("numpy.testing", "assert_equal", None),
    ("numpy.testing", "assert_array_almost_equal_nulp", None),
    ("numpy.testing", "assert_array_max_ulp", None),
    ("triton.testing", "assert_close", None),
    ("triton.testing", "allclose", True),
)
"""(owner, name, what a comparison that succeeds returns); of another version what is not there is passed over."""
__unittest = True
"""Tracebacks of unittest end before frames of modules that say so."""
_BROADCASTING = (("torch", "allclose"), ("torch.Tensor", "allclose"))
"""Those that take tensors of two shapes for what they are when they are broadcast."""
_NAMES = (
    ("actual", "expected"),
    ("input", "other"),
    ("a", "b"),
    ("x", "y"),
    ("a1", "a2"),
    ("desired", "expected"),
    ("first", "second"),
)


class NothingToJudge(Exception):
    """No kernel's result is compared with anything; the text says why."""


Operands = Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, Any]]
Taken = Callable[[Any, Any, str, int], bool | Callable[[], bool] | None]
"""Called with (left, right, file, line); something true: the comparison is to happen as it always does. A function is
asked if it fails then, and may say that it is taken to succeed all the same."""
_takers: list[Taken] = []


class _Silent(threading.local):
    depth = 0


_silent = _Silent()


@contextlib.contextmanager
def recording(take: Taken) -> Iterator[None]:
    """Inside, `take` is told of every comparison."""
    _takers.append(take)
    try:
        yield
    finally:
        _takers.remove(take)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Inside, comparisons are made and nobody is told; those of other threads are."""
    _silent.depth += 1
    try:
        yield
    finally:
        _silent.depth -= 1


@contextlib.contextmanager
def intercepted(more: Sequence[str] = ()) -> Iterator[None]:
    """The scope in which comparisons can be recorded; `more` names further ones as `module:function`."""
    with PatchScope() as scope:
        replaced: dict[int, Any] = {}
        for owner, name, result in COMPARATORS:
            home = _owner(owner)
            if hasattr(home, name):
                taken = _broadcast if (owner, name) in _BROADCASTING else _operands
                replaced[id(getattr(home, name))] = _patch(scope, home, name, result, taken)
        if importlib.util.find_spec("pytest") is not None:
            approximate = _approximate_array()
            _patch(scope, approximate, "__eq__", True, lambda args, _: (args[1], args[0].expected))
        for spec in more:
            home, _, name = spec.partition(":")
            try:
                module = importlib.import_module(home)
                plain = getattr(module, name)
            except (ImportError, AttributeError) as error:
                raise RenderError("RND902", f"--comparator {spec}: {error}", "say module:function") from None
            replaced[id(plain)] = _patch(scope, module, name, None, _operands)
        _in_test_cases(scope)
        _everywhere(scope, replaced)
        yield


def listening() -> bool:
    """Whether anybody would be told of a comparison."""
    return bool(_takers) and not _silent.depth


def hear(left: Any, right: Any, file: str, line: int) -> bool:
    """Hands a comparison over that was made in another way; whether it is taken to succeed."""
    return listening() and not _takers[-1](left, right, file, line)


def _owner(path: str) -> Any:
    home, _, name = path.rpartition(".")
    return getattr(importlib.import_module(home), name) if name == "Tensor" else importlib.import_module(path)


def _approximate_array() -> Any:
    """The class of `pytest.approx(array)`, wherever pytest has it."""
    import numpy as np
    import pytest

    return type(pytest.approx(np.ones(1)))


def _patch(scope: PatchScope, owner: Any, name: str, result: Any, operands: Operands) -> Any:
    compare = _heard(getattr(owner, name), name, result, operands)
    scope.set(owner, name, compare)
    return compare


def _in_test_cases(scope: PatchScope) -> None:
    """`assertEqual` of unittest's cases, and of torch's, which have one of their own for tensors."""
    plain = unittest.TestCase.run

    def run(self: unittest.TestCase, *args: Any, **kwargs: Any) -> Any:
        self.assertEqual = _heard(self.assertEqual, "assertEqual", None, _operands)  # type: ignore[method-assign]
        try:
            return plain(self, *args, **kwargs)
        finally:
            del self.assertEqual

    scope.set(unittest.TestCase, "run", run)


def _heard(plain: Any, name: str, result: Any, operands: Operands) -> Any:
    def compare(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # a failed test ends in the line of the user's
        frame = sys._getframe(1)
        if not listening() or is_tool_file(frame.f_code.co_filename):
            return plain(*args, **kwargs)
        left, right = operands(args, kwargs)
        answer = _takers[-1](left, right, frame.f_code.co_filename, frame.f_lineno)
        if not answer:
            return result
        try:
            with silent():
                found = plain(*args, **kwargs)
        except AssertionError:
            if callable(answer) and answer():
                return result
            raise
        return result if found is False and callable(answer) and answer() else found

    compare.__name__ = compare.__qualname__ = name
    compare.__wrapped__ = plain  # type: ignore[attr-defined]
    return compare


def _operands(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The two operands, by position or under the names that such functions give them."""
    found = list(args[:2])
    for names in _NAMES:
        for name in names:
            if len(found) < 2 and name in kwargs:
                found.append(kwargs[name])
    return (found[0], found[1]) if len(found) == 2 else (None, None)


def _broadcast(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The operands in one shape, where the function itself takes them so."""
    import torch

    left, right = _operands(args, kwargs)
    if not (isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor)) or left.shape == right.shape:
        return left, right
    try:
        shape = torch.broadcast_shapes(left.shape, right.shape)
    except RuntimeError:
        return left, right
    return left.expand(shape), right.expand(shape)


def _everywhere(scope: PatchScope, replaced: Mapping[int, Any]) -> None:
    """Modules of the user's that have imported such a function by name."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if is_tool_file(file) if file else getattr(module, "__name__", "") != "__main__":
            continue
        for name, value in list(vars(module).items()):
            if id(value) in replaced:
                scope.set(module, name, replaced[id(value)])


def tensors_of(operand: Any) -> list[Any]:
    """The leaves of an operand; an array stands for the tensor whose memory it shares, a list of numbers for one."""
    import torch
    from torch.utils._pytree import tree_leaves

    if isinstance(operand, list) and operand and all(isinstance(x, float) for x in operand):
        return [torch.tensor(operand, dtype=torch.float64)]
    return [_as_tensor(x) for x in tree_leaves(operand)]


def _as_tensor(x: Any) -> Any:
    import numpy as np
    import torch

    numbers = isinstance(x, np.ndarray) and x.dtype.kind in "fiub" and all(s >= 0 for s in x.strides)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of arrays that must not be written: nobody writes here
        return torch.from_numpy(x) if numbers else x
