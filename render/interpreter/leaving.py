"""Where values leave torch and come back: `.item()`, `.tolist()`, `int()`, numpy, `torch.tensor`.

Below these names dispatch sees an element at best; the patches give host code numbers that know their bounds
(`hosted.numbers`) and give these back to tensors that are made of such numbers.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch.optim import _adafactor, lr_scheduler

from render.interpreter.arriving import arrived, brought, holds_numbers
from render.interpreter.host import HostTracker
from render.interpreter.hosted.call import values
from render.interpreter.hosted.carried import Carried
from render.interpreter.hosted.expressions import extreme
from render.interpreter.hosted.mathematics import math_functions
from render.interpreter.hosted.numbers import Ends, LeftNumbers, Number
from render.interpreter.hosted.optimisers import of_optimiser
from render.interpreter.hosted.overloads import is_plain
from render.interpreter.memory import Envelope
from render.interpreter.memory.records import NO_TAINT
from render.interpreter.scope import PatchScope
from render.ops.dtypes import FORMAT_OF

_BETWEEN = frozenset(["__array__", "__dlpack__", "integer", "handle_torch_function", "__torch_function__"])
"""Functions that ask on behalf of who called them."""


class _Asking(type):
    """A `float` whose calls somebody else answers."""

    of: Callable[..., Any]

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, float)

    def __call__(cls, x: Any = 0.0) -> Any:
        return cls.of(x)


def watch(scope: PatchScope, tracker: HostTracker) -> None:
    """Follow what leaves torch while `scope` lasts and the tracker is not paused."""
    numbers, tensor = tracker.numbers, torch.Tensor
    item, tolist, numpy_, whole = tensor.item, tensor.tolist, tensor.numpy, tensor.__int__
    reduce_, dlpack = tensor.__reduce_ex__, tensor.__dlpack__

    def left(self: torch.Tensor) -> None:
        """What a kernel stored may be in anything that Python makes from here on."""
        if not tracker.is_paused and is_plain(self):
            tracker.memory.read_by_host(self)

    def number(self: torch.Tensor) -> Any:
        inside = not tracker.is_paused and of_optimiser(sys._getframe(1).f_code.co_filename)
        if not inside and not _asked_outside(tracker):
            return item(self)  # the user's call
        return followed(self, inside)

    def scheduled(x: Any = 0.0) -> Any:
        """`float` in torch's schedules, which compare what they make of a metric: a number sees how."""
        if tracker.is_paused or not isinstance(x, tensor) or x.numel() != 1:
            return x if isinstance(x, Number) else float(x)
        return followed(x, True)

    def followed(self: torch.Tensor, inside: bool) -> Any:
        numbers.last, numbers.kept, numbers.inside = None, True, inside
        value = item(self)  # the user's call
        ends, numbers.last, numbers.kept, numbers.inside = numbers.last, None, False, False
        if ends is None or not isinstance(value, float):
            return value
        if not inside:
            numbers.goes(ends, value, Carried.NUMBER, sys._getframe(2))
        return Number(value, ends, numbers)

    def integer(self: torch.Tensor) -> int:
        value = number(self) if _asked_outside(tracker) else None
        return int(value) if isinstance(value, Number) else whole(self)  # the user's call

    def elements(self: torch.Tensor) -> Any:
        left(self)
        known, found = _open(tracker, self) if _asked_outside(tracker) else None, tolist(self)  # the user's call
        return found if known is None else _listed(numbers, found, self, known)

    def shared(self: torch.Tensor, asked: bool, frame: FrameType) -> None:
        """All of its numbers leave at once, to be read in the frame."""
        left(self)
        known = _open(tracker, self) if asked else None
        if known is not None:
            _as_bytes(tracker, self, known)
            numbers.goes(Ends(0.0, 1.0, known.taints), None, Carried.ARRAY, frame)

    def array(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        asked = _asked_outside(tracker)
        shared(self, asked, sys._getframe(1))
        found = numpy_(self, *args, **kwargs)  # the user's call
        if asked and is_plain(self):
            with tracker.silent():
                tracker.lent.lend(self, found)
        return found

    def capsule(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """For `np.from_dlpack` and others that share the memory."""
        shared(self, _asked_outside(tracker), sys._getframe(1))
        return dlpack(self, *args, **kwargs)  # the user's call

    def reduced(self: torch.Tensor, protocol: Any) -> Any:
        """For pickle, `torch.save` and `copy.copy`."""
        left(self)
        known = None if tracker.is_paused else _open(tracker, self)
        if known is not None:
            _as_bytes(tracker, self, known)
        with tracker.silent():
            return reduce_(self, protocol)  # the user's call

    scope.set(tensor, "item", number)
    scope.set(tensor, "tolist", elements)
    scope.set(tensor, "numpy", array)
    scope.set(tensor, "__reduce_ex__", reduced)
    scope.set(tensor, "__int__", integer)
    scope.set(tensor, "__dlpack__", capsule)
    scope.update(math, math_functions())
    scope.set(lr_scheduler, float.__name__, _Asking(float.__name__, (), {"of": staticmethod(scheduled)}))
    scope.update(_adafactor, {plain.__name__: extreme(plain) for plain in (max, min)})
    for name in ("tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_dlpack"):
        _watch_maker(scope, name, tracker)
    scope.set(tensor, "new_tensor", _maker(tensor.new_tensor, 1, tracker))
    _watch_one_hot(scope, tracker)


def _watch_maker(scope: PatchScope, name: str, tracker: HostTracker) -> None:
    scope.set(torch, name, _maker(getattr(torch, name), 0, tracker))


def _maker(plain: Callable[..., Any], place: int, tracker: HostTracker) -> Callable[..., Any]:
    """A function that makes a tensor of data outside torch: of its argument at a place, or that is called `data`."""
    numbers = tracker.numbers

    @wraps(plain)
    def maker(*args: Any, **kwargs: Any) -> Any:
        numbers.making = True
        try:
            out = plain(*args, **kwargs)  # the user's call
        finally:
            numbers.making = False
        data = args[place] if len(args) > place else kwargs.get("data", kwargs.get("obj", kwargs.get("buffer")))
        if _asked_outside(tracker):
            with tracker.silent():
                if tracker.memory.knows_bounds():
                    _come_back(tracker, data, out)
                brought(tracker, data, out)
        return out

    return maker


def _watch_one_hot(scope: PatchScope, tracker: HostTracker) -> None:
    """one_hot of a given width as the scatter that it is: its C++ asks for the least and the largest index first, only
    to refuse them, which would look like branches of the host on integers that are open."""
    plain = torch.nn.functional.one_hot

    def one_hot(tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
        if tracker.is_paused or num_classes <= 0 or tensor.dtype != torch.int64 or not tensor.numel():
            return plain(tensor, num_classes)  # the user's call
        out = torch.zeros(*tensor.shape, num_classes, dtype=torch.int64, device=tensor.device)
        return out.scatter_(-1, tensor.unsqueeze(-1), 1)

    scope.set(torch.nn.functional, "one_hot", one_hot)


def _as_bytes(tracker: HostTracker, tensor: torch.Tensor, known: Envelope) -> None:
    """All numbers of a tensor leave at once."""
    tracker.numbers.array_leaves(Ends(0.0, 1.0, known.taints))
    if known.lo.shape == tuple(tensor.shape) and known.written.all():
        with tracker.silent():
            tracker.numbers.hold(tensor, known.lo, known.hi, known.taints)


def _asked_outside(tracker: HostTracker) -> bool:
    """Whether the user's code asked, and none of ours or torch's, which use the same names."""
    if tracker.is_paused:
        return False
    frame = sys._getframe(2)
    while frame.f_code.co_name in _BETWEEN and frame.f_back is not None:
        frame = frame.f_back
    return tracker.numbers.outside(frame.f_code.co_filename)


def _open(tracker: HostTracker, tensor: torch.Tensor) -> Envelope | None:
    """What is known of a tensor, if that is no point."""
    found = tracker.ends_of(tensor)
    if found is None or (not found.taints and (not found.lo.size or _is_point(found, tensor))):
        return None
    return found


def _is_point(found: Envelope, tensor: torch.Tensor) -> bool:
    """Of what is written: what is not may be about to be."""
    v = values(tensor).astype(np.float64)
    if found.lo.shape != v.shape:
        return False
    lo, hi, v = (a[np.broadcast_to(found.written, v.shape)] for a in (found.lo, found.hi, v))
    return np.array_equal(lo, hi) and np.array_equal(lo, v)


def _listed(numbers: LeftNumbers, values: Any, tensor: torch.Tensor, known: Envelope) -> Any:
    if not tensor.is_floating_point():
        numbers.branch("integers that rounding leaves open")
        return values
    numbers.begin(Carried.NUMBER)
    numbers.goes(Ends(0.0, 1.0, known.taints), None, Carried.NUMBER, sys._getframe(2))
    wide = known.lo.shape == tuple(tensor.shape)

    def build(v: Any, lo: Any, hi: Any) -> Any:
        if isinstance(v, list):
            return [build(x, lo[i] if wide else v, hi[i] if wide else v) for i, x in enumerate(v)]
        ends = Ends(float(lo), float(hi), known.taints) if wide else Ends(v, v, known.taints)
        return v if ends.point and ends.lo == v and not ends.taint else Number(v, ends, numbers)

    return build(values, known.lo, known.hi)


def _come_back(tracker: HostTracker, data: Any, out: torch.Tensor) -> None:
    """Bounds for a tensor made of Python numbers, or a taint where nobody followed how it was made."""
    if isinstance(data, torch.Tensor) or not out.numel():
        return
    if not isinstance(data, (list, tuple, float)):
        if is_plain(out) and out.is_floating_point() and not tracker.memory.is_known(out):
            arrived(tracker, out)
        return
    flat = list(_flattened(data))
    ends = [_ends_of(tracker, x) for x in flat]
    if not any(e is not None for e in ends) or len(flat) != out.numel():
        return
    taint = NO_TAINT.union(*(e.taint for e in ends if e is not None))
    if out.dtype not in FORMAT_OF:
        tracker.numbers.branch("integers made of open numbers")
        return
    lo, hi = (
        np.array([float(x) if e is None else side(e) for x, e in zip(flat, ends, strict=True)])
        for side in (lambda e: e.lo, lambda e: e.hi)
    )
    holds_numbers(tracker, out, lo, hi, taint)


def _ends_of(tracker: HostTracker, x: Any) -> Ends | None:
    """Of a number among those that a tensor is made of, or of a tensor of one element."""
    if not isinstance(x, torch.Tensor):
        return tracker.numbers.of(x)
    found = _open(tracker, x)
    if found is None:
        return None
    lo, hi = (float(end.reshape(-1)[0]) if end.size else float(x) for end in (found.lo, found.hi))
    return Ends(lo, hi, found.taints)


def _flattened(data: Any) -> Iterator[Any]:
    if isinstance(data, (list, tuple)):
        for x in data:
            yield from _flattened(x)
    else:
        yield data
