"""Numbers that left torch with bounds: `.item()`, `.tolist()`, `float()`, a branch on them.

`Number` is the float that host code gets, with the bounds of the element that it was; Python's arithmetic and its
comparisons keep them (outward by one unit of float64 in each step). Torch and kernels know a number again by its value,
so `float(t)` is followed as well, as far as it is handed on unchanged. Any other float that turns up afterwards, and is
neither written in the code nor lay in its variables before, may have been computed from one that left: unless an
expression of the running functions has its value (`hosted.expressions`) it is tainted, and so is an array that comes
from numpy. A comparison, or an integer made of a number, that the bounds leave open decides what the host does next:
everything from there on is tainted (RND303).
"""

from __future__ import annotations

import hashlib
import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import torch

from render.interpreter.hosted.carried import Carried
from render.interpreter.hosted.mathematics import ASKING, JOINTLY, MATH
from render.interpreter.hosted.optimisers import asked_by_optimiser, asking, numbers_of
from render.interpreter.hosted.written import constants_in, constants_of, floats_before
from render.interpreter.memory.records import NO_TAINT


@dataclass(frozen=True, slots=True)
class Ends:
    """Bounds of one number, and its taints."""

    lo: float
    hi: float
    taint: frozenset[int] = NO_TAINT

    @property
    def point(self) -> bool:
        return self.lo == self.hi


class OpenNumber(float):
    """A number that is handed in and not known to the last bit; a session makes it a `Number`."""

    __slots__ = ("ends",)
    ends: Ends

    def __new__(cls, value: float, ends: Ends) -> OpenNumber:
        self = super().__new__(cls, value)
        self.ends = ends
        return self


class LeftArray(NamedTuple):
    """An array that left as bytes, with its bounds as they were then, in one dimension."""

    tensor: torch.Tensor
    lo: np.ndarray
    hi: np.ndarray
    taint: frozenset[int]


class LeftNumbers:
    """What left torch in one session: ends by value."""

    rounding = 0.0
    """Of each result of Python's arithmetic, beside float64's own: where it stands for that of a coarser format."""

    def __init__(
        self, taint: Callable[[str, str, str], int], outside: Callable[[str], bool],
        otherwise: Callable[[bool], bool] | None = None,
    ) -> None:  # fmt: skip
        """`taint` makes one of (code, operation, message) at the host's line; `outside`: is a file the user's?

        `otherwise`: what an open comparison gives where such are decided one way (`render.interpreter.choices`).
        """
        self.taint, self.outside, self.otherwise = taint, outside, otherwise
        self.known: dict[float, Ends] = {}
        self.branched: frozenset[int] = NO_TAINT
        """Of what the host decided by an open number: they hold for everything after."""
        self.last: Ends | None = None
        """Of the element that is leaving now."""
        self.kept = False
        """Whether what leaves now becomes a `Number`."""
        self.inside = False
        """Whether it stays one: no float that turns up afterwards was computed from it unseen."""
        self.taken = False
        """Whether an optimiser of torch's took an open value as a plain float: its numbers may come of that."""
        self.plain: set[float] = set()
        """Values that left as plain floats (`float(t)`): one of them may be equal to a number that is written."""
        self.suspect = False
        """Whether something left, so that a float that turns up may have been computed from it."""
        self.arrays = False
        """Whether an array with bounds left as bytes: for numpy, pickle, a file."""
        self.held: dict[bytes, LeftArray] = {}
        """Bounds of such arrays by their contents: the same bytes that come back have them still."""
        self.making = False
        """Whether a tensor is being made whose numbers are looked at afterwards."""
        self._rounded: dict[torch.dtype, tuple[int, dict[float, list[float]]]] = {}
        self._constants: frozenset[float] = frozenset()
        self._expressions: Any = None
        self._decisions: Any = None
        self.literal: set[float] = set()
        """Numbers that somebody else knows to be of the code: frames of a replay do not show them."""

    def leave(self, value: Any, ends: Ends) -> None:
        """An element leaves torch: a float with its bounds, an integer or a truth value as a decision."""
        if ends.point and not ends.taint and (ends.lo == value or value != value):
            return
        if isinstance(value, float):
            self.last = ends
            if self.inside or asked_by_optimiser():
                self.keep(value, ends)
                self.taken = self.taken or not self.kept
            else:
                self.keep(value, ends)
                self.begin(Carried.NUMBER if self.kept else Carried.FLOAT)
            if not self.kept:
                self.plain.add(value)
                if not self.inside:
                    self.goes(ends, value, Carried.FLOAT, sys._getframe(1))
        else:
            self.branch("a value that rounding leaves open" if not ends.taint else "a value without a sound bound")

    def given(self, value: float, ends: Ends) -> Number:
        """A number that the caller hands in with bounds. What is computed from it has them as far as it is followed;
        no other float is suspected of it, as it would be of one whose bounds a verdict rests on."""
        return Number(value, ends, self)

    def note(self, value: float, ends: Ends) -> None:
        self.begin()
        self.keep(value, ends)

    def keep(self, value: float, ends: Ends) -> None:
        old = self.known.get(value)
        if old is not None:
            ends = Ends(min(old.lo, ends.lo), max(old.hi, ends.hi), old.taint | ends.taint)
        self.known[value] = ends

    def begin(self, kind: Carried = Carried.ARRAY) -> None:
        """The first one leaves to where nobody reads on: numbers that lie about now were not computed from it."""
        if not self.suspect and not (kind is not Carried.ARRAY and self._unseen().confines(kind, sys._getframe(1))):
            self.suspect = True
            self._constants = frozenset(floats_before(self._frames()))

    def array_leaves(self, ends: Ends) -> None:
        if not ends.point or ends.taint:
            self.begin()
            self.arrays = True

    def hold(self, tensor: torch.Tensor, lo: np.ndarray, hi: np.ndarray, taint: frozenset[int]) -> None:
        """An array leaves as bytes."""
        key, (lo, hi) = _contents(tensor), (np.ravel(lo), np.ravel(hi))
        old = self.held.get(key)
        if old is not None:  # two with the same numbers: which one comes back nobody can tell
            lo, hi, taint = np.minimum(lo, old.lo), np.maximum(hi, old.hi), taint | old.taint
        self.held[key] = LeftArray(tensor.detach(), lo, hi, taint)

    def held_of(self, tensor: torch.Tensor) -> LeftArray | None:
        """Bounds of a tensor that has the contents of an array that left; None for any other."""
        return self.held.get(_contents(tensor)) if self.held else None

    def goes(self, ends: Ends, value: float | None, kind: Carried, frame: FrameType) -> None:
        """What left without seeing what is decided by it may decide something in the functions that run: a plain float
        (of some `value`), an array (None), or a number that is made one of these."""
        found = self._unseen().by(ends, value, kind, frame)
        if found is not None:
            self.branch(f"{found} on a value that rounding leaves open")

    def _unseen(self) -> Any:
        if self._decisions is None:
            from render.interpreter.hosted.decisions import UnseenDecisions

            self._decisions = UnseenDecisions(self)
        return self._decisions

    def branch(self, what: str) -> None:
        message = f"{what} decides what the host does; the other way was not run"
        self.branched |= {self.taint("RND303", "host branch", message)}

    def __bool__(self) -> bool:
        return bool(self.known) or self.arrays

    def of(self, value: float) -> Ends | None:
        """Ends of a float that is handed to torch or to a kernel; None for one that did not leave."""
        if not self or not isinstance(value, float):
            return None
        value = float(value)
        found = self.known.get(value)
        if found is not None and self.is_written(value):  # which of the two it is, its value does not say
            return Ends(min(found.lo, value), max(found.hi, value), found.taint)
        if found is not None or not math.isfinite(value):
            return found
        if not self.suspect or not self.is_telling(value):
            return None
        return None if self._of_optimiser() else self._in_sight(value, float) or self.unknown(value)

    def _of_optimiser(self) -> bool:
        """Whether torch's optimiser made a number, of such alone that the user's code writes or computes in sight."""
        of = None if self.taken else asking()
        return of is not None and all(x not in self.known and self._innocent(x) for x in numbers_of(of))

    def _innocent(self, x: float) -> bool:
        found = self._in_sight(x, float) if self.is_telling(x) else Ends(x, x)
        return found is not None and found.point and not found.taint

    def unknown(self, value: float) -> Ends:
        message = "a float that Python may have computed from one that left torch"
        return Ends(value, value, frozenset({self.taint("RND302", "host number", message)}))

    def _in_sight(self, value: float, inside: Callable[[float], float]) -> Ends | None:
        """What the expressions of the running functions say of it, once `inside` made it of their values."""
        if self._expressions is None:
            from render.interpreter.hosted.expressions import InSight

            self._expressions = InSight(self)
        found: Ends | None = self._expressions.of(value, self._frames(), inside)
        return found

    def rounded(self, value: float, dtype: torch.dtype) -> Ends | None:
        """`of` for a number that was rounded to a type before anybody saw it."""
        if not self or not math.isfinite(value) or (value.is_integer() and abs(value) <= 2):
            return None
        count, seen = self._rounded.get(dtype, (0, {}))
        for key in islice(self.known, count, None):
            seen.setdefault(_in(dtype, key), []).append(key)
        self._rounded[dtype] = len(self.known), seen
        written = any(_in(dtype, c) == value for c in self._written())
        ends = [self.known[key] for key in seen.get(value, ())]
        if written:
            ends.append(Ends(value, value))
        if ends:
            taint = NO_TAINT.union(*(e.taint for e in ends))
            return Ends(min(e.lo for e in ends), max(e.hi for e in ends), taint)
        if not self.suspect:
            return None
        return None if self._of_optimiser() else self._in_sight(value, _rounding(dtype)) or self.unknown(value)

    def _written(self) -> Iterator[float]:
        yield from self._constants
        yield from self.literal
        for frame in self._frames():
            yield from constants_of(frame.f_code)

    def is_telling(self, value: float) -> bool:
        """Whether a float of this value is asked where it comes from: small integers and written ones are not."""
        return not ((value.is_integer() and abs(value) <= 2) or self.is_written(value))

    def is_written(self, value: float) -> bool:
        """Whether the user's code writes this number, or had it before anything left."""
        if value in self._constants or value in self.literal:
            return True
        return any(
            value in constants_of(f.f_code) or value in constants_in(f.f_code.co_filename) for f in self._frames()
        )

    def _frames(self) -> Iterator[Any]:
        frame = sys._getframe(1)
        while frame is not None:
            if self.outside(frame.f_code.co_filename):
                yield frame
            frame = frame.f_back  # type: ignore[assignment]

    def array(self) -> frozenset[int]:
        """The taint of an array that comes from outside torch after an open number or array left."""
        if not self:
            return NO_TAINT
        message = "an array that was made outside of torch after a number with bounds had left"
        return frozenset({self.taint("RND302", "host array", message)})


def _contents(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().contiguous().reshape(-1)
    return str(tensor.dtype).encode() + hashlib.blake2b(flat.view(torch.uint8).numpy().tobytes()).digest()


def _in(dtype: torch.dtype, value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value)) if dtype == torch.float32 else float(torch.tensor(value, dtype=dtype))


@cache
def _rounding(dtype: torch.dtype) -> Callable[[float], float]:
    return lambda x: _in(dtype, x)


class Number(float):
    """A float that left torch: `ends` are its bounds, `own` the numbers of its session."""

    __slots__ = ("ends", "own")
    __array_priority__ = -1.0
    """Above numpy's scalars, which leave arithmetic with a number to it, and below its arrays."""
    ends: Ends
    own: LeftNumbers

    def __new__(cls, value: float, ends: Ends | None = None, own: LeftNumbers | None = None) -> Number:
        if ends is None or own is None:  # somebody asks for the type of a number and makes another one of that
            return float(value)  # type: ignore[return-value]
        self = super().__new__(cls, value)
        self.ends, self.own = ends, own
        own.keep(float(value), ends)
        return self

    def _made(self, value: Any, corners: Iterable[float], *others: Ends) -> Any:
        found = [float(c) for c in corners]
        if isinstance(value, complex) or any(c != c for c in found):
            lo, hi = -math.inf, math.inf
        else:
            room = self.own.rounding * abs(float(value))
            lo, hi = math.nextafter(min(found) - room, -math.inf), math.nextafter(max(found) + room, math.inf)
        taint = self.ends.taint.union(*(o.taint for o in others))
        return value if isinstance(value, complex) else Number(value, Ends(lo, hi, taint), self.own)

    def of_math(self, name: str, plain: Callable[[float], float]) -> Any:
        return self._made(plain(float(self)), MATH[name](plain, self.ends))

    def of_any(self, name: str, value: Any, given: Sequence[Any]) -> Any:
        """What a function of `math` makes of numbers of which this is one; `value`: what it gave."""
        ends = [_ends_of(x, self.own) or Ends(-math.inf, math.inf) for x in given]
        if name in JOINTLY:
            return self._made(value, _joint(name, ends), *ends)
        if name in ASKING and all(math.isfinite(e.lo + e.hi) and not e.taint for e in ends):
            return value
        if isinstance(value, int) and not isinstance(value, bool):  # which the number made of itself, and was asked
            return value
        if not isinstance(value, float):
            self._open()
            return value
        return Number(value, self.own.unknown(value), self.own)

    def _open(self) -> None:
        self.own.branch("a number that rounding leaves open")

    def __neg__(self) -> Any:
        return Number(-float(self), Ends(-self.ends.hi, -self.ends.lo, self.ends.taint), self.own)

    def __pos__(self) -> Number:
        return self

    def __abs__(self) -> Any:
        lo, hi = self.ends.lo, self.ends.hi
        least = 0.0 if lo <= 0 <= hi else min(abs(lo), abs(hi))
        return Number(abs(float(self)), Ends(least, max(abs(lo), abs(hi)), self.ends.taint), self.own)

    def __bool__(self) -> bool:
        return bool(self != 0.0)

    def _whole(self, to: Callable[[float], int]) -> int:
        if self.ends.taint or not math.isfinite(self.ends.lo + self.ends.hi) or to(self.ends.lo) != to(self.ends.hi):
            self._open()
        return to(float(self))

    def __int__(self) -> int:
        return self._whole(int)

    __trunc__ = __int__

    def __floor__(self) -> int:
        return self._whole(math.floor)

    def __ceil__(self) -> int:
        return self._whole(math.ceil)

    def __round__(self, ndigits: Any = None) -> Any:
        if ndigits is None:
            return self._whole(round)
        return self._made(round(float(self), ndigits), [round(self.ends.lo, ndigits), round(self.ends.hi, ndigits)])

    def is_integer(self) -> bool:
        if not self.ends.point or self.ends.taint:
            self._open()
        return float(self).is_integer()

    def as_integer_ratio(self) -> tuple[int, int]:
        if not self.ends.point or self.ends.taint:
            self._open()
        return float(self).as_integer_ratio()

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return float, (float(self),)

    def __copy__(self) -> Number:
        return self

    def __deepcopy__(self, memo: Any) -> Number:
        return self

    @property
    def real(self) -> Number:  # type: ignore[override]
        return self

    def conjugate(self) -> Number:
        return self

    __hash__ = float.__hash__


def _joint(name: str, ends: Sequence[Ends]) -> list[float]:
    """Ends of a function of several numbers; NaN where its own refuses one of them, or infinities that meet."""
    try:
        return JOINTLY[name](*ends)
    except (OverflowError, ValueError):
        return [math.nan]


def _ends_of(x: Any, own: LeftNumbers) -> Ends | None:
    if isinstance(x, Number):
        return x.ends
    if isinstance(x, np.number | np.bool_) and not isinstance(x, np.complexfloating):
        x = x.item()
    if isinstance(x, (int, float)):
        computed = x in own.plain or not own.is_written(x)
        return (own.of(x) if computed else None) or Ends(float(x), float(x))
    return None


def _corners(function: Callable[[Any, Any], Any], a: Ends, b: Ends) -> list[float]:
    """The function at the corners, where it is monotone in each operand; NaN where nothing is known."""
    if function in (operator.truediv, operator.floordiv, operator.mod) and b.lo <= 0 <= b.hi:
        return [math.nan]
    if function is operator.mod:
        return [0.0, b.lo, b.hi]
    if function is operator.pow and not (a.lo > 0 or (b.point and b.lo in (1.0, 2.0, 3.0))):
        return [math.nan]
    found = []
    for x in (a.lo, a.hi):
        for y in (b.lo, b.hi):
            try:
                found.append(float(function(x, y)))
            except (OverflowError, ZeroDivisionError, ValueError, TypeError):
                return [math.nan]
    if function is operator.pow:
        error = 4 * 2.0**-52 * max(map(abs, found))  # of the C library
        found = [min(found) - error, max(found) + error, *([0.0] if a.lo <= 0 <= a.hi else [])]
    return found


def _binary(name: str, function: Callable[[Any, Any], Any]) -> None:
    def plain(self: Number, other: Any, swapped: bool) -> Any:
        if isinstance(other, np.generic) and (swapped or not isinstance(other, float)):
            self.own.begin()  # numpy makes a scalar of its own of it, which nobody follows
            return function(other, float(self)) if swapped else function(float(self), other)
        theirs = _ends_of(other, self.own)
        if theirs is None:
            return NotImplemented
        x, y = (float(other), float(self)) if swapped else (float(self), float(other))
        a, b = (theirs, self.ends) if swapped else (self.ends, theirs)
        return self._made(function(x, y), _corners(function, a, b), theirs)

    setattr(Number, f"__{name}__", lambda self, other: plain(self, other, False))
    setattr(Number, f"__r{name}__", lambda self, other: plain(self, other, True))


def _comparison(name: str, function: Callable[[Any, Any], bool]) -> None:
    def compared(self: Number, other: Any) -> Any:
        theirs = _ends_of(other, self.own)
        if theirs is None:
            return NotImplemented
        mine = self.ends
        if name in ("eq", "ne"):
            decided = mine.hi < theirs.lo or mine.lo > theirs.hi or (mine.point and theirs.point)
        else:
            ways = {function(x, y) for x in (mine.lo, mine.hi) for y in (theirs.lo, theirs.hi)}
            decided = len(ways) == 1
        value = function(float(self), float(other))
        tainted = bool(mine.taint or theirs.taint)
        if not decided and not tainted and self.own.otherwise is not None:
            return self.own.otherwise(value)
        if not decided or tainted:
            self._open()
        return value

    setattr(Number, f"__{name}__", compared)


ARITHMETIC: tuple[Callable[[Any, Any], Any], ...] = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
)  # fmt: skip
"""Python's operators of two numbers that a followed number keeps."""
for _function in ARITHMETIC:
    _binary(_function.__name__, _function)
for _function in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
    _comparison(_function.__name__, _function)
