"""Large outputs one block of elements at a time: temporaries do not take many times the memory of the output.

Values of a large output are kept in float32 where that holds them (`outputs.values`); a block of them is float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from render.result.decision import Case, Masks

BLOCK = 1 << 18
_ARRAYS = ("value", "lo", "hi", "ref", "exact", "device", "unstored")


def blocks(size: int) -> Iterator[slice]:
    """Ranges of flat indices; one empty range for an empty output."""
    for start in range(0, max(size, 1), BLOCK):
        yield slice(start, min(start + BLOCK, size))


def flat(x: np.ndarray, at: slice) -> np.ndarray:
    """The elements of `x` at these flat indices, floats as float64 (a view where x is that, and contiguous)."""
    if _same(x):  # as masks often are
        found = np.full(len(range(*at.indices(x.size))), x[(0,) * x.ndim])
    else:
        found = x.reshape(-1)[at] if x.flags.c_contiguous else x.flat[at]
    return found.astype(np.float64) if found.dtype == np.float32 else found


def part(case: Case, at: slice) -> Case:
    """The elements of an output at these flat indices as an output of their own, without R."""
    arrays = {name: getattr(case, name) for name in _ARRAYS}
    chosen = {name: flat(x, at) for name, x in arrays.items() if x is not None}

    def ends() -> tuple[np.ndarray, np.ndarray]:
        lo, hi = case.exact_ends()
        return flat(lo, at), flat(hi, at)

    def proved() -> np.ndarray:
        return flat(np.broadcast_to(case.proved(), case.value.shape), at)

    def confirmed() -> np.ndarray:
        return flat(np.broadcast_to(case.confirmed(), case.value.shape), at)

    return replace(
        case, exact_ends=ends, proved=proved, confirmed=confirmed, radius=lambda: None, **cast("Any", chosen)
    )


def part_of_masks(masks: Masks, at: slice) -> Masks:
    found = {f.name: getattr(masks, f.name) for f in fields(masks)}
    chosen = {name: flat(x, at) for name, x in found.items() if x is not None}
    return replace(masks, **cast("Any", chosen))


def joined(parts: list[Masks], shape: tuple[int, ...]) -> Masks:
    """The masks of consecutive parts as one; a mask that is the same everywhere takes no memory."""
    found = {f.name: [getattr(m, f.name) for m in parts] for f in fields(parts[0])}
    whole = {name: None if x[0] is None else _join(x, shape) for name, x in found.items()}
    return replace(parts[0], **cast("Any", whole))


def _same(mask: np.ndarray) -> bool:
    """Whether it is one element everywhere, in no memory of its own: passes over such a mask are slow."""
    return bool(mask.size) and not any(mask.strides)


def some(mask: np.ndarray) -> bool:
    """Whether any element is true."""
    return bool(mask[(0,) * mask.ndim]) if _same(mask) else bool(mask.any())


def every(mask: np.ndarray) -> bool:
    """Whether all elements are true."""
    return bool(mask[(0,) * mask.ndim]) if _same(mask) else bool(mask.all())


def many(mask: np.ndarray) -> int:
    """How many elements are true."""
    return mask.size * bool(mask[(0,) * mask.ndim]) if _same(mask) else int(np.count_nonzero(mask))


def _join(parts: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    for same in (False, True):
        if all(every(part) if same else not some(part) for part in parts):
            return np.broadcast_to(np.bool_(same), shape)
    return np.concatenate(parts).reshape(shape)
