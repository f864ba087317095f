"""Inputs that are not known to the last bit: `render.interval(lo, hi)` and `render.hull(x, y)`, as tensors.

What comes out is an ordinary tensor (the middle, or x) that carries its ends. Kernels and models run on the tensor;
their bounds hold for every input between the ends. `around` makes one of a tensor, or of a Python number, that is known
to a part of itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from render.interpreter.hosted.call import values
from render.interpreter.hosted.numbers import Ends as NumberEnds
from render.interpreter.hosted.numbers import OpenNumber
from render.interpreter.memory import Memory
from render.result.errors import RenderError, expect

_ENDS = "_render_ends"
Ends = tuple[np.ndarray, np.ndarray]


def interval(lo: torch.Tensor, hi: torch.Tensor) -> torch.Tensor:
    """A tensor in the middle of [`lo`, `hi`], of the dtype of `lo`, that stands for all between them.

    Raises RenderError for ends that are none.

        render.classify(softmax, render.interval(x - 1e-3, x + 1e-3), ref=lambda x: torch.softmax(x, 1))
    """
    expect("lo", lo, torch.Tensor)
    expect("hi", hi, torch.Tensor)
    _real(lo, hi)
    if lo.shape != hi.shape or not lo.is_floating_point() or not bool((lo <= hi).all()):
        raise RenderError("RND901", "interval(lo, hi) wants floats of one shape with lo <= hi everywhere")
    middle = (0.5 * lo.double() + 0.5 * hi.double()).to(lo.dtype)
    found: torch.Tensor = _with_ends(torch.minimum(torch.maximum(middle, lo), hi.to(lo.dtype)), lo, hi)
    return found


def hull(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """`x`, and everything between it and `y`: an input that is not known to the last bit, for kernels and for models.

    Raises RenderError for tensors of two shapes or types.

        render.classify(softmax, render.hull(logits, logits_of_another_run), ref=lambda x: torch.softmax(x, 1))
    """
    expect("x", x, torch.Tensor)
    expect("y", y, torch.Tensor)
    _real(x, y)
    if x.shape != y.shape or not x.is_floating_point() or not bool((x.isfinite() & y.isfinite()).all()):
        raise RenderError("RND901", "hull(x, y) wants two finite floats of one shape")
    found: torch.Tensor = _with_ends(
        x.detach().clone(), torch.minimum(x, y.to(x.dtype)), torch.maximum(x, y.to(x.dtype)), y
    )
    return found


def _real(*tensors: torch.Tensor) -> None:
    if any(t.device.type == "meta" for t in tensors):
        raise RenderError("RND901", "a tensor of the meta device has no numbers", "give one that has")


def around(x: Any, share: float) -> Any:
    """x and everything within `share` |x| of it, element by element; what is infinite or NaN stays as it is."""
    if isinstance(x, float):
        return OpenNumber(x, NumberEnds(x - share * abs(x), x + share * abs(x)))
    wide = parts_of(x).double()
    reach = torch.where(wide.isfinite(), share * wide.abs(), 0.0)
    found: torch.Tensor = _with_ends(x.detach().clone(), wide - reach, wide + reach)
    return found


def parts_of(x: torch.Tensor) -> torch.Tensor:
    """Its real numbers; of complex ones real and imaginary parts, in another dimension."""
    return torch.view_as_real(x.detach().resolve_conj()) if x.is_complex() else x.detach()


def _with_ends(tensor: Any, *given: torch.Tensor) -> Any:
    ends = [values(t).astype(np.float64) for t in given]
    setattr(tensor, _ENDS, (np.minimum.reduce(ends), np.maximum.reduce(ends)))
    return tensor


def ends_of(x: Any) -> Ends | None:
    """The ends that an input carries."""
    if isinstance(x, OpenNumber):
        return np.array(x.ends.lo), np.array(x.ends.hi)
    found: Ends | None = getattr(x, _ENDS, None) if isinstance(x, torch.Tensor) else None
    return found


def carried(memory: Memory, given: Any, copies: Any) -> None:
    """Puts the ends of `given` beside the memory of `copies`, made of it in the same structure."""
    for mine, copy in zip(tree_leaves(given), tree_leaves(copies), strict=True):
        ends = ends_of(mine)
        if ends is not None and isinstance(copy, torch.Tensor):
            memory.carry(parts_of(copy), *ends, frozenset(), None)
