"""Arrays of watched code that numpy itself makes, followed from their beginning: drawn, written down, allocated.

A script that draws its inputs by `rng.standard_normal`, computes its reference by numpy and hands the kernel a copy has
no tensor before the launch; without these the reference were data of unknown error. What is drawn or stands in the code
is exact; what numpy computes to make an array (`linspace`) is data of unknown error, which both sides may start from.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from render.entry.target import is_tool_file
from render.front.arrays import Followed, converted, follow_array, stacked, written
from render.front.operands import bare, tensor_of
from render.front.scalars import LISTED, ReadElement, flattened
from render.interpreter.hosted.overloads import host_site
from render.interpreter.scope import PatchScope

if TYPE_CHECKING:
    from render.front.watch import Watch

_CONVERTING = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray")
_ALLOCATING = ("zeros", "ones", "empty", "zeros_like", "ones_like", "empty_like", "eye", "identity")
_FILLING = ("full", "full_like")
_COMPUTING = ("arange", "linspace", "logspace", "geomspace")
_NO_DRAWS = frozenset(["seed", "get_state", "set_state", "bytes", "default_rng", "spawn", "get_bit_generator",
                       "set_bit_generator"])  # fmt: skip
_REARRANGING = frozenset(["permutation", "permuted", "choice"])
"""Of an array, they give its elements: computed, perhaps."""
LARGEST = 1 << 28
"""Bytes of an array that is followed."""
_IN_PLACE = frozenset(["shuffle", "permuted"])


class _Kinds(type):
    """Of classes that stand in for numpy's: what numpy made by itself is of them, too."""

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, cls.__mro__[1])


def follow_sources(scope: PatchScope, watch: Watch) -> None:
    """Arrays that user's code asks numpy for are followed while `scope` lasts."""
    random = np.random
    for name in dir(random):
        function = getattr(random, name)
        draws = not name.startswith("_") and callable(function) and name not in _NO_DRAWS
        if draws and not isinstance(function, type):
            scope.set(random, name, _drawing(name, function, watch))
    generator, state = random.Generator, random.RandomState
    followed = _following(generator, watch)
    scope.set(random, "Generator", followed)
    scope.set(random, "RandomState", _following(state, watch))
    made = random.default_rng

    @wraps(made)
    def default_rng(seed: Any = None) -> Any:
        found = made(seed)
        same = found is seed or is_tool_file(sys._getframe(1).f_code.co_filename)
        return found if same else followed(found.bit_generator)

    scope.set(random, "default_rng", default_rng)
    for name in _CONVERTING:
        scope.set(np, name, _made(getattr(np, name), watch, _converted))
    for name in (*_ALLOCATING, *_COMPUTING):
        begin = _computed if name in _COMPUTING else _allocated
        scope.set(np, name, _made(getattr(np, name), watch, begin))
    scope.set(np.vectorize, "__call__", _vectorized(np.vectorize.__call__, watch))
    for name in _FILLING:
        scope.set(np, name, _made(getattr(np, name), watch, _filled))


def _following(plain: Any, watch: Watch) -> Any:
    """A class like numpy's whose draws are followed."""
    methods = {
        name: _drawing(name, method, watch)
        for name, method in ((name, getattr(plain, name)) for name in dir(plain))
        if not name.startswith("_") and callable(method) and name not in _NO_DRAWS
    }
    return _Kinds(plain.__name__, (plain,), {**methods, "__module__": plain.__module__, "__doc__": plain.__doc__})


def _followable(watch: Watch, caller: str) -> bool:
    """`caller`: the file that asks; "" where it does not matter."""
    return not watch.busy and watch.tape.open and not (caller and is_tool_file(caller))


def _drawing(name: str, plain: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    @wraps(plain)
    def drawn(*args: Any, **keywords: Any) -> Any:
        if not _followable(watch, sys._getframe(1).f_code.co_filename):
            return plain(*args, **keywords)
        result = plain(*map(_own, args), **{k: _own(x) for k, x in keywords.items()})
        out = keywords.get("out")
        for x in (*(args if name in _IN_PLACE else ()), out):
            if isinstance(x, Followed):
                written(x)
        if isinstance(out, np.ndarray):
            return out
        return result if name in _REARRANGING else begun(result, watch, exact=True)

    return drawn


def _own(x: Any) -> Any:
    """numpy's array in the same memory, for functions that write to it; a list is the user's own, too."""
    return bare(x) if isinstance(x, Followed) else x


def begun(array: Any, watch: Watch, exact: bool) -> Any:
    """An array that was just made, of numbers that are `exact` or whose error is unknown."""
    if type(array) not in (np.ndarray, Followed) or array.dtype.kind not in "fi" or not array.size:
        return array
    if array.nbytes > LARGEST:  # its elements would lie twice; what is allocated and not used lies nowhere yet
        watch.note(
            f"arrays of numpy of more than {LARGEST >> 20} MB are not followed: what is computed of them is data"
        )
        return array
    own = array.view(np.ndarray)
    if own.dtype.itemsize > 8 or not own.flags.writeable or (tensor := tensor_of(own)) is None:
        return array
    with watch._own():
        watch.tape.give(tensor, made=exact)
    return follow_array(own, tensor)


_Made = Callable[["Watch", Any, tuple[Any, ...], dict[str, Any]], Any]


def _made(plain: Callable[..., Any], watch: Watch, begin: _Made) -> Callable[..., Any]:
    @wraps(plain)
    def made(*args: Any, **keywords: Any) -> Any:
        result = plain(*args, **keywords)
        again = begin is _converted and bool(args) and isinstance(args[0], Followed)  # libraries convert, too
        caller = "" if again else sys._getframe(1).f_code.co_filename
        return begin(watch, result, args, keywords) if _followable(watch, caller) else result

    return made


def _allocated(watch: Watch, result: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Integers are left alone: scripts fill tables of them, one by one."""
    whole = isinstance(result, np.ndarray) and result.dtype.kind == "i"
    return result if whole else begun(result, watch, exact=True)


def _computed(watch: Watch, result: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    return begun(result, watch, exact=isinstance(result, np.ndarray) and result.dtype.kind == "i")


def _filled(watch: Watch, result: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    value = args[1] if len(args) > 1 else keywords.get("fill_value")
    written_down = isinstance(value, int) or (type(value) is float and watch.tape.left.of(value) == value)
    return begun(result, watch, exact=True) if written_down else result


def _converted(watch: Watch, result: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    data = args[0] if args else keywords.get("object", keywords.get("a"))
    if not isinstance(result, np.ndarray) or result.dtype.kind != "f" or not result.size:
        return result
    if isinstance(data, Followed):
        return converted(data, result)
    if not isinstance(data, list | tuple):
        return result
    if any(isinstance(x, Followed | np.generic) for x in data):
        return stacked(data, result)
    if not all(isinstance(x, int | float) for x in flattened(data)) or (tensor := tensor_of(result)) is None:
        return result
    with watch._own():
        watch.tape.assembled(tensor, data)
    return follow_array(result.view(np.ndarray), tensor)


def _vectorized(plain: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    """`np.vectorize(f)(x)`: the function of Python's numbers, which are followed as those of `x.tolist()` are."""

    def called(self: Any, *args: Any, **keywords: Any) -> Any:
        simple = not keywords and self.signature is None and not self.excluded and self.otypes in (None, "d", "f")
        followed = [x for x in args if isinstance(x, Followed) and 0 < x.size <= LISTED]
        if not (simple and followed and _followable(watch, sys._getframe(1).f_code.co_filename)):
            return plain(self, *args, **keywords)
        shape = np.broadcast_shapes(*(np.shape(x) for x in args))
        columns = [_numbers_of(x, shape, watch) for x in args]
        given = [self.pyfunc(*numbers) for numbers in zip(*columns, strict=True)]
        if not all(isinstance(x, float) for x in given):
            return plain(self, *args)
        result = np.array([float(x) for x in given], self.otypes or "d").reshape(shape)
        if (tensor := tensor_of(result)) is None:
            return result
        with watch._own():
            watch.tape.assembled(tensor, given)
        return follow_array(result.view(np.ndarray), tensor)

    return called


def _numbers_of(x: Any, shape: tuple[int, ...], watch: Watch) -> list[Any]:
    """The numbers of an array in this shape, each of a followed one with the element that it is."""
    values: list[Any] = np.broadcast_to(bare(x), shape).reshape(-1).tolist()
    tensor = tensor_of(x) if isinstance(x, Followed) else None
    if tensor is None:
        return values
    with torch.no_grad():
        place = watch.tape.place(tensor.expand(shape).reshape(-1).clone())
    source, site = (watch.tape.place(tensor), watch.tape.now), host_site()
    scalar = watch.tape.left.scalar
    return [scalar(value, ReadElement(place, i, site), source) for i, value in enumerate(values)]
