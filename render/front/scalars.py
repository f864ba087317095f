"""Numbers that left torch in watched code, so that what was made of them can be made again.

`.item()` and `.tolist()` hand out a `Scalar`: a float that knows its recipe, the element it was and what Python's
arithmetic did with it since; so does `float(t)` where it stands in a script or a cell. Torch hands such a number on by
its value, so it is found again by its value; where the user's code writes the same number it is taken as written. In
other files `float(t)` is a plain float: handed on as it is, it is found by its value; a float that turns up later and
was neither written nor there before may have been computed from it.

Where one number is subtracted from another, or asked whether it equals it, the tensors that they were read from are
put against each other (`met`); numbers that Python computed, or of tensors that differ in shape, as they are.
"""

from __future__ import annotations

import json
import math
import operator
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, wraps
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import torch

from render.entry.target import is_tool_file
from render.front.script import CalledFloat
from render.interpreter.hosted.mathematics import math_functions
from render.interpreter.hosted.numbers import ARITHMETIC, Ends, LeftNumbers
from render.interpreter.hosted.overloads import HostSite, host_site
from render.interpreter.scope import PatchScope

if TYPE_CHECKING:
    from render.front.steps import Cell, Region
    from render.front.tape import Tape

LookedAt = Callable[["Region", FrameType], bool]
Decides = Callable[[Callable[[], "Recipe"], FrameType], None]
Met = Callable[["Scalar", "Scalar"], None]
LISTED = 1 << 14
"""Lists of more elements are handed out as plain floats."""
_LAST = 64
"""So many single numbers are kept while nobody holds them."""


@dataclass(frozen=True, eq=False)
class ReadElement:
    """An element of a tensor that nothing writes any more, read in a line of host code."""

    place: Region
    index: int
    site: HostSite

    def value(self, at: Callable[[Region], torch.Tensor]) -> Any:
        return _reader(self.site)(at(self.place).reshape(-1)[self.index])


@dataclass(frozen=True, eq=False)
class Recipe:
    """A function of numbers that left torch."""

    function: Callable[..., Any]
    operands: tuple[Any, ...]

    def value(self, at: Callable[[Region], torch.Tensor]) -> Any:
        """Operands first; a sum over a list is as deep as the list is long."""
        known: dict[int, Any] = {}
        todo: list[Any] = [self]
        while todo:
            x = todo[-1]
            operands = x.operands if isinstance(x, Recipe) else ()
            left = [y for y in operands if isinstance(y, ReadElement | Recipe) and id(y) not in known]
            if left:
                todo += left
                continue
            if id(x) not in known:
                known[id(x)] = x.value(at) if isinstance(x, ReadElement) else x.function(
                    *(known.get(id(y), y) if isinstance(y, ReadElement | Recipe) else y for y in operands))  # fmt: skip
            todo.pop()
        return known[id(self)]


@dataclass(frozen=True, eq=False)
class Untold:
    """A float that Python may have computed from one that left torch as a plain float."""

    number: float


@dataclass(frozen=True, eq=False)
class Assembled:
    """`torch.tensor` of numbers: their recipes, or values, in its order."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def __call__(self, *numbers: Any) -> torch.Tensor:
        made = [torch.full((), x, dtype=self.dtype) for x in numbers]
        return torch.stack(made).reshape(self.shape) if made else torch.empty(self.shape, dtype=self.dtype)


class Scalar(float):
    """A float that left torch. Pickled and copied, it is a plain one."""

    recipe: ReadElement | Recipe
    left: LeftScalars
    source: tuple[Region, int] | None
    """The tensor that it was read from as it is, and when."""
    alone: Region | None
    """A tensor of this number alone, if one was made."""

    def __reduce__(self) -> tuple[type[float], tuple[float]]:
        return float, (float(self),)

    def _made(self, function: Callable[..., Any], *operands: Any) -> Any:
        value = function(*(float(x) if isinstance(x, Scalar) else x for x in operands))
        if not isinstance(value, float):
            return value
        told = tuple(x.recipe if isinstance(x, Scalar) else x for x in operands)
        return self.left.scalar(value, Recipe(function, told))

    def of_math(self, name: str, plain: Callable[[float], float]) -> Any:
        return self.left.scalar(plain(float(self)), Recipe(_mathematical(name), (self.recipe,)))

    def _met(self, other: object) -> None:
        """Two numbers are put against each other: a comparison of the tensors that they were read from, perhaps."""
        if isinstance(other, Scalar):
            self.left.met(self, other)

    __hash__ = float.__hash__

    def __neg__(self) -> Any:
        return self._made(operator.neg, self)

    def __abs__(self) -> Any:
        return self._made(operator.abs, self)

    def __round__(self, ndigits: Any = None) -> Any:
        return self._made(round, self, ndigits)


def _binary(name: str, function: Callable[[Any, Any], Any]) -> None:
    def forward(self: Scalar, other: Any) -> Any:
        if name == "sub":
            self._met(other)
        return self._made(function, self, other) if isinstance(other, int | float) else NotImplemented

    def swapped(self: Scalar, other: Any) -> Any:
        return self._made(function, other, self) if isinstance(other, int | float) else NotImplemented

    setattr(Scalar, f"__{name}__", forward)
    setattr(Scalar, f"__r{name}__", swapped)


def _comparison(name: str, function: Callable[[Any, Any], bool]) -> None:
    def compared(self: Scalar, other: Any) -> Any:
        if name in ("eq", "ne"):
            self._met(other)
        if isinstance(other, int | float):
            operands = self.recipe, other.recipe if isinstance(other, Scalar) else other
            self.left.decides(lambda: Recipe(function, operands), sys._getframe(1))
        return getattr(float, f"__{name}__")(self, other)

    setattr(Scalar, f"__{name}__", compared)


for _function in ARITHMETIC:
    _binary(_function.__name__, _function)
for _function in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
    _comparison(_function.__name__, _function)


@cache
def _mathematical(name: str) -> Callable[[Any], Any]:
    """The function of Python's `math`, as it is when it is called: within a session it keeps bounds."""
    return lambda x: getattr(math, name)(x)


class LeftScalars:
    """What left torch under one tape."""

    def __init__(self, met: Met = lambda one, two: None, decides: Decides = lambda ask, frame: None) -> None:
        """`met` is told of two numbers that are put against each other, `decides` of what a frame asks of a number."""
        self.met, self.decides = met, decides
        self._alive: WeakValueDictionary[float, Scalar] = WeakValueDictionary()
        self._last: deque[Scalar] = deque(maxlen=_LAST)
        self._backs: Counter[ReadElement | Recipe | None] = Counter()
        self._plain: dict[float, list[ReadElement]] = {}
        self._numbers = LeftNumbers(lambda *_: 0, lambda file: not is_tool_file(file))

    def __bool__(self) -> bool:
        """Whether any number has left."""
        return bool(self._last or self._plain)

    def fresh(self) -> LeftScalars:
        """As if nothing had left."""
        return LeftScalars(self.met, self.decides)

    def scalar(self, value: float, recipe: ReadElement | Recipe, source: tuple[Region, int] | None = None) -> Scalar:
        found = Scalar(value)
        found.recipe, found.left, found.source, found.alone = recipe, self, source, None
        self._alive[float(value)] = found
        self._last.append(found)
        return found

    def back(self, value: float) -> ReadElement | Recipe | None:
        """One that left and may have come back by way of something else; of equal ones each in its turn."""
        known = [x.recipe for x in self._last if x == value] + self._plain.get(value, [])
        found = min(known, key=lambda recipe: self._backs[recipe], default=None)
        self._backs[found] += 1
        return found

    def pair(self, *values: Any) -> list[Any]:
        """Floats that left as plain ones, as they are followed: equal ones are the last two. Others as they are."""
        known = [self._plain.get(x, []) if type(x) is float else [] for x in values]
        back = [2 if values[0] == values[1] and len(known[1]) > 1 else 1, 1]
        return [self.scalar(x, k[-i]) if k else x for x, k, i in zip(values, known, back, strict=True)]

    def leaves(self, value: float, element: ReadElement) -> None:
        """As a plain float."""
        self._plain[value] = [*self._plain.get(value, [])[-1:], element]
        self._numbers.note(value, Ends(value, value))

    def lost(self, value: float) -> None:
        """As a plain float of unknown error."""
        self._numbers.note(value, Ends(value, value, frozenset({0})))

    def of(self, value: float) -> ReadElement | Recipe | Untold | float:
        """How a float that is handed to torch or to a kernel was made; itself where it is a number of the code."""
        if isinstance(value, Scalar):
            return value.recipe
        known = self._alive.get(value)
        if known is not None:
            return float(value) if self._numbers.is_written(value) else known.recipe
        if not self._numbers or (found := self._numbers.of(value)) is None:
            return value
        if found.taint:
            return Untold(value)
        if found.point and value not in self._plain:
            return value  # computed in plain sight of what is written
        if self._numbers.is_written(value):
            return value
        return self._plain[value][-1] if value in self._plain else Untold(value)


def rests_on(values: Iterable[Any]) -> list[Cell]:
    """The storages that numbers among these values were read from."""
    return list(dict.fromkeys(x.place.cell for x in elements(values)))


def elements(values: Iterable[Any]) -> Iterator[ReadElement]:
    """What numbers among these values were read from, each once."""
    todo: list[Any] = list(values)
    seen: set[int] = set()
    while todo:
        x = todo.pop()
        if isinstance(x, ReadElement | Recipe) and id(x) not in seen:
            seen.add(id(x))
            if isinstance(x, ReadElement):
                yield x
            else:
                todo += x.operands


def follow(scope: PatchScope, tape: Tape, busy: Callable[[], bool], looked_at: LookedAt) -> None:
    """Numbers that the user's code reads are followed while `scope` lasts. `looked_at`: this value, read in this frame,
    goes nowhere."""
    tensor = torch.Tensor
    item, tolist, plain, reduce_ = tensor.item, tensor.tolist, tensor.__float__, tensor.__reduce_ex__

    def taken(self: torch.Tensor) -> list[ReadElement] | None:
        """Its elements as they are now; None where nobody is to follow them."""
        if busy() or is_tool_file(sys._getframe(2).f_code.co_filename) or not tape.follows(self):
            return None
        return copied(self, host_site())

    def leaves(self: torch.Tensor) -> None:
        if not busy():
            tape.leaves(self)

    def copied(self: torch.Tensor, site: HostSite) -> list[ReadElement]:
        with torch.no_grad():
            place = tape.place(self.detach().clone())
        return [ReadElement(place, i, site) for i in range(self.numel())]

    def number(self: torch.Tensor) -> Any:
        value = item(self)
        found = taken(self) if isinstance(value, float) else None
        return value if found is None else tape.left.scalar(value, found[0], (tape.place(self), tape.now))

    def elements(self: torch.Tensor) -> Any:
        leaves(self)
        if not busy() and tape.follows(self):
            tape.read(self)
        values = tolist(self)
        found = taken(self) if self.is_floating_point() and self.numel() <= LISTED else None
        if found is None:
            return values
        return _filled(values, iter(found), tape.left, (tape.place(self), tape.now))

    def reduced(self: torch.Tensor, protocol: Any) -> Any:
        """For pickle and `torch.save`."""
        leaves(self)
        return reduce_(self, protocol)

    def whole(self: torch.Tensor) -> float:
        value = plain(self)
        found = taken(self) if self.is_floating_point() else None
        if found is not None and not looked_at(tape.place(self), sys._getframe(1)):
            tape.left.leaves(value, found[0])
        return value

    def real(x: Any = 0.0) -> float:
        """`float(x)` where it is written so."""
        if isinstance(x, str | bytes):
            return float(x) if busy() else tape.from_text(float(x))
        found = taken(x) if isinstance(x, tensor) and x.is_floating_point() and x.numel() == 1 else None
        value = float(x) if found is None else plain(x)
        return value if found is None else tape.left.scalar(value, found[0], (tape.place(x), tape.now))

    truth = tensor.__bool__

    def decided(self: torch.Tensor) -> bool:
        if self.numel() == 1 and tape.follows(self):
            tape.left.decides(lambda: Recipe(bool, (copied(self, host_site())[0],)), sys._getframe(1))
        return truth(self)

    scope.set(tensor, "__bool__", decided)
    scope.set(CalledFloat, "of", real)
    scope.set(tensor, "item", number)
    scope.set(tensor, "tolist", elements)
    scope.set(tensor, "__float__", whole)
    scope.set(tensor, "__reduce_ex__", reduced)
    scope.update(math, math_functions())
    for name in ("load", "loads"):
        scope.set(json, name, _reading(getattr(json, name), real))
    near = math.isclose

    def isclose(a: Any, b: Any, **tolerances: Any) -> bool:
        one, two = tape.left.pair(a, b)
        if isinstance(one, Scalar) and not busy():
            one._met(two)
        return near(a, b, **tolerances)

    scope.set(math, "isclose", isclose)


def _reading(plain: Callable[..., Any], number: Callable[[str], float]) -> Callable[..., Any]:
    """A function of `json` whose numbers are read by `number` where user's code calls it."""

    @wraps(plain)
    def load(*args: Any, **keywords: Any) -> Any:
        if not is_tool_file(sys._getframe(1).f_code.co_filename):
            keywords.setdefault("parse_float", number)
        return plain(*args, **keywords)

    return load


def _filled(values: Any, elements: Iterator[ReadElement], left: LeftScalars, source: tuple[Region, int]) -> Any:
    if isinstance(values, list):
        return [_filled(x, elements, left, source) for x in values]
    return left.scalar(values, next(elements), source)


def flattened(data: Any) -> Iterator[Any]:
    if isinstance(data, list | tuple):
        for x in data:
            yield from flattened(x)
    else:
        yield data


@cache
def _reader(site: HostSite) -> Callable[[torch.Tensor], Any]:
    """Reads an element from the line that read it before: what the session follows leaves there."""
    code = (lambda x: x.item()).__code__.replace(co_filename=site.file, co_firstlineno=max(site.line, 1))
    named: Callable[[torch.Tensor], Any] = FunctionType(code, {})
    return named
