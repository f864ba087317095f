"""Numbers that reach tensors below torch's operations: other storages, bytes of files and arrays, Python's data.

`copy.deepcopy` and `UntypedStorage.clone` copy bytes, `torch.load`, pickles and numpy bring memory that nobody saw
being made, and `o[i] = x` makes a tensor of a number. What has the contents of numbers with bounds has their bounds;
what came from outside after others had left has a taint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from interval_ops.formats import casting
from interval_ops.formats.model import FP64
from render.interpreter.hosted.call import host_profile, values
from render.interpreter.hosted.numbers import Ends, LeftArray, Number
from render.interpreter.hosted.overloads import HostSite, host_site, is_plain, operation, start_of
from render.interpreter.memory import Envelope
from render.interpreter.memory.host_side import bits_as
from render.interpreter.memory.records import NO_TAINT
from render.interpreter.memory.registry import address
from render.ops.dtypes import FORMAT_OF

if TYPE_CHECKING:
    from render.interpreter.host import HostTracker

KEPT = 1 << 22
"""Elements of tensors of outside numbers that are kept; of what is beyond nobody asks whether it was rounded."""
Arrays = list[tuple[HostSite, torch.Tensor]]
"""What host code made of such numbers, and where."""
Brought = Callable[[torch.Tensor], tuple[np.ndarray, np.ndarray] | None]
"""Bounds for one of them; None: its numbers as they are."""
SAME = torch.ops.aten.clone.default
CAST = torch.ops.aten._to_copy.default


def copy_bytes(tracker: HostTracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """Run a copy of numbers with bounds whose bits are seen as integers, as `copy.deepcopy` makes one."""
    source = args[-1] if len(args) > 1 and isinstance(args[1], torch.Tensor) else args[0]
    if not all(is_plain(t) and t.is_contiguous() and t.dtype == source.dtype for t in (args[0], source)):
        return None
    tracker.settle(source)
    dtype = tracker.memory.stored_as(source)
    if dtype is None:
        return None
    with tracker.silent():
        made = func(*args, **kwargs) if source is args[0] else args[0]
        if made.is_contiguous() and is_plain(made):
            into, of = (bits_as(t, dtype) for t in (made, source))
            if into is not None and of is not None and tracker.memory.may_copy(into, of):
                run = (lambda *_: made) if source is args[0] else (lambda *_: func(*args, **kwargs))
                seen = tracker.before(SAME, (of,), {}, tracker.known(of))
                found: torch.Tensor = tracker.copy(run, (into, of), {})
                tracker.after(seen, into)
                return found
    return None


def moved_to(tracker: HostTracker, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A tensor gets another storage, with what is known of that, or its storage another size."""
    before = start_of(args[0]) if is_plain(args[0]) else 0
    resized = func._schema.name == "aten::resize_"
    known = resized and before and tracker.concerned(operation(func), args, kwargs)
    out = func(*args, **kwargs)
    if not is_plain(out):
        return out
    if resized and start_of(out) != before:
        if known:  # the numbers went along, their bounds did not
            message = "resize_ moves a tensor whose numbers have bounds"
            taint = tracker.memory.taint("RND302", "resize_", host_site(), message)  # type: ignore[arg-type]
            tracker.memory.carry(out, None, None, frozenset({taint}))
        else:
            tracker.memory.mark_unwritten(out)
    elif (
        not resized
        and tracker.memory.knows_bounds()
        and out.is_floating_point()
        and tracker.memory.find(address(out)) is None
    ):
        arrived(tracker, out)
    return out


def made_of_numbers(tracker: HostTracker, tensor: torch.Tensor) -> None:
    """Torch made a tensor of Python's numbers, as for `o[i] = x`: each is rounded to its type."""
    if not is_plain(tensor) or tensor.dtype not in FORMAT_OF or not tensor.numel():
        return
    with tracker.silent():
        found = [tracker.numbers.rounded(x, tensor.dtype) for x in tensor.reshape(-1).tolist()]
        if any(e is not None for e in found):
            v = values(tensor).astype(np.float64).reshape(-1)
            ends = [Ends(x, x) if e is None else e for x, e in zip(v.tolist(), found, strict=True)]
            lo, hi = (np.array([getattr(e, end) for e in ends]) for end in ("lo", "hi"))
            holds_numbers(tracker, tensor, lo, hi, NO_TAINT.union(*(e.taint for e in ends)))


def holds_numbers(
    tracker: HostTracker, tensor: torch.Tensor, lo: np.ndarray, hi: np.ndarray, taint: frozenset[int]
) -> None:
    """A tensor of numbers with these bounds, which its type rounds."""
    v, fmt = values(tensor).astype(np.float64), FORMAT_OF[tensor.dtype]
    lo, hi = lo.reshape(v.shape), hi.reshape(v.shape)
    seen = _before_rounding(tracker, tensor, v, lo, hi)
    low, high = (lo, hi) if fmt == FP64 else casting.cast_interval(lo, hi, FP64, fmt, host_profile())
    tracker.memory.carry(tensor, np.minimum(np.minimum(lo, low), v), np.maximum(np.maximum(hi, high), v), taint)
    tracker.after(seen, tensor)


def _before_rounding(tracker: HostTracker, tensor: torch.Tensor, v: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> Any:
    """To whoever writes operations down, a tensor of numbers is a cast of the numbers themselves: of the nearest ones
    within their bounds, which round to `v` as they do."""
    source = torch.as_tensor(np.clip(v, lo, hi), dtype=torch.float64)
    known = {id(source): Envelope(lo, hi, np.ones(v.shape, np.bool_), True, NO_TAINT)}
    return tracker.before(CAST, (source,), {"dtype": tensor.dtype}, known)


def returned(tracker: HostTracker, value: Any, tensor: torch.Tensor) -> None:
    """A tensor was made of a number or an array that is returned: it has the bounds of what left, or a taint."""
    if not is_plain(tensor) or not tracker.numbers or tracker.memory.is_known(tensor):
        return
    if isinstance(value, float) and not isinstance(value, np.generic):
        ends = value.ends if isinstance(value, Number) else tracker.numbers.of(value)
        if ends is not None:
            holds_numbers(tracker, tensor, np.array(ends.lo), np.array(ends.hi), ends.taint)
    elif tensor.is_floating_point():  # of numpy's, or complex
        arrived(tracker, tensor)


def brought(tracker: HostTracker, data: Any, tensor: torch.Tensor) -> None:
    """A tensor of fractions that host code makes of numpy's or Python's numbers: known to the bit, but somebody may
    have rounded them (`Settings.brought`)."""
    if isinstance(data, torch.Tensor) or not is_plain(tensor) or tensor.dtype not in FORMAT_OF:
        return
    if not tensor.numel() or tracker.memory.is_known(tensor):
        return
    if sum(t.numel() for _, t in tracker.arrays) + tensor.numel() <= KEPT:
        tracker.arrays.append((host_site(), tensor.detach().clone()))
    ends = None if tracker.wide is None else tracker.wide(tensor)
    if ends is not None:
        tracker.memory.carry(tensor, *ends, NO_TAINT)


def arrived(tracker: HostTracker, tensor: torch.Tensor) -> None:
    """A tensor whose numbers come from outside torch: those that left before, or who knows which."""
    held = tracker.numbers.held_of(tensor) or _same_bytes(tracker, tensor)
    if held is None:
        if tracker.numbers:
            tracker.memory.carry(tensor, None, None, tracker.numbers.array())
        return
    source = held.tensor.reshape(tensor.shape)
    seen = tracker.before(SAME, (source,), {}, tracker.known(source)) if torch.equal(source, tensor) else None
    tracker.memory.carry(tensor, held.lo.reshape(tensor.shape), held.hi.reshape(tensor.shape), held.taint)
    if seen is not None:
        tracker.after(seen, tensor)


def _same_bytes(tracker: HostTracker, tensor: torch.Tensor) -> LeftArray | None:
    """Memory with bounds that has the contents of this tensor: nobody saw them leave, by an address for example."""
    bits = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    for storage in tracker.memory.registry:
        if storage.nbytes != bits.size or not storage.shadows or not np.array_equal(storage.raw, bits):
            continue
        source = torch.empty(0, dtype=tensor.dtype).set_(storage.keep, 0, (tensor.numel(),), (1,))
        found = tracker.memory.host_envelope(source)
        if found is not None and found.lo.shape == source.shape and found.written.all():
            return LeftArray(source, found.lo, found.hi, found.taints)
    return None
