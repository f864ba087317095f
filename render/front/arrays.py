"""numpy on tensors of a watched script: what torch computes to the last bit as numpy does goes on the tape, too.

`Tensor.numpy()` gives the user's code an array that runs such operations in torch, on the same memory, so that
`np.abs(out - ref).max()` is a difference like any other. What is not followed leaves a note where a kernel's result
goes through it: nothing that numpy computed is taken for exact.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from render.entry.target import is_tool_file
from render.front.names import user_frame
from render.front.tape import plain
from render.interpreter.scope import PatchScope
from render.result.places import relative

if TYPE_CHECKING:
    from render.front.watch import Watch

_SAME: dict[np.ufunc, Callable[..., torch.Tensor]] = {
    np.add: torch.add, np.subtract: torch.sub, np.multiply: torch.mul, np.true_divide: torch.div,
    np.negative: torch.neg, np.absolute: torch.abs, np.sqrt: torch.sqrt, np.square: torch.square,
}  # fmt: skip
"""Rounded once by both libraries; the results are compared all the same."""
_watching: list[Watch] = []


class Followed(np.ndarray):
    """The memory of a tensor (`home`; of a view, that of its base). `lost`: where numpy computed it from a kernel's
    result in a way that is not followed."""

    lost: str
    home: torch.Tensor | None

    def __array_finalize__(self, of: Any) -> None:
        self.lost, self.home = getattr(of, "lost", ""), getattr(of, "home", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        given = [_bare(x) for x in inputs]
        if keywords.get("out"):
            keywords["out"] = tuple(_bare(x) for x in keywords["out"])
        result = getattr(ufunc, method)(*given, **keywords)
        if not _watching or _watching[-1].busy:
            return result
        if not isinstance(result, np.ndarray) or result.ndim == 0 or result.dtype == bool:
            _read(inputs)
            return result
        twin = _in_torch(ufunc, inputs, result) if method == "__call__" and not keywords else None
        found = _followed(result if twin is None else twin.numpy(), twin)
        found.lost = next(iter(_lost(inputs)), "")
        if twin is None and not found.lost and any(_of_kernel(x) for x in inputs):
            found.lost = f"{_here()}: numpy.{ufunc.__name__}"
        return found

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = super().__array_function__(func, types, args, kwargs)
        if np.ndim(result) == 0 and _watching and not _watching[-1].busy:
            _read(args)
        return result


def _bare(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, Followed) else x


def _lost(inputs: Any) -> Iterator[str]:
    yield from (why for x in inputs if isinstance(x, Followed) and (why := lost(x)))


def lost(x: Any) -> str:
    """Where a kernel's result went a way that is not followed; "" if that is not so."""
    home = x.home if isinstance(x, Followed) else None
    if home is None or x.lost or not x.size or _offset(x, home) is not None:
        return getattr(x, "lost", "")
    region = _watching[-1].tape.known(home) if _watching else None  # a copy: astype, take, sort, ...
    return f"{_here()}: numpy.{x.dtype} copy" if region is not None and region.cell.kernel else ""


def _here() -> str:
    frame = user_frame()
    return f"{relative(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else ""


def _offset(x: np.ndarray, home: torch.Tensor) -> int | None:
    """Where an array begins in the memory of a tensor, in elements; None where it lies elsewhere."""
    if home.itemsize != x.itemsize or any(s % x.itemsize for s in x.strides):
        return None
    apart = (x.ctypes.data - home.data_ptr()) // x.itemsize + int(home.storage_offset())
    return apart if 0 <= apart < home.untyped_storage().nbytes() // x.itemsize else None


def _followed(array: Any, home: torch.Tensor | None) -> Followed:
    found: Followed = array.view(Followed)
    found.home = home
    return found


def _tensor(x: Any) -> torch.Tensor | None:
    """The tensor over the memory of an array."""
    if not isinstance(x, np.ndarray) or x.dtype.kind != "f" or x.dtype.itemsize > 8 or any(s < 0 for s in x.strides):
        return None
    home = x.home if isinstance(x, Followed) else None
    if home is not None and (start := _offset(x, home)) is not None:
        return torch.as_strided(home, x.shape, tuple(s // x.itemsize for s in x.strides), start)
    return torch.from_numpy(_bare(x)) if x.flags.writeable else None


def _of_kernel(x: Any) -> bool:
    tensor = _tensor(x) if isinstance(x, Followed) else None
    region = None if tensor is None else _watching[-1].tape.known(tensor)
    return region is not None and region.cell.kernel


def _in_torch(ufunc: np.ufunc, inputs: Any, result: Any) -> torch.Tensor | None:
    """The same operation by torch, if its result is the same in every bit."""
    func = _SAME.get(ufunc)
    if func is None or any(x.dtype != result.dtype for x in inputs if isinstance(x, np.ndarray)):
        return None
    operands = [_tensor(x) if isinstance(x, np.ndarray) else _number(x) for x in inputs]
    if any(x is None for x in operands):
        return None
    with torch.no_grad():
        found = func(*operands)
    same = str(found.dtype) == f"torch.{result.dtype}" and np.array_equal(found.numpy(), result, equal_nan=True)
    return found if same else None


def _number(x: Any) -> float | None:
    """A literal; a scalar of numpy's may come from a kernel's result."""
    return float(x) if isinstance(x, int | float) and not isinstance(x, np.generic) else None


def unfollowed(where: str) -> str:
    return f"{where} is not followed: compute it with torch, or compare what it was computed from"


def _read(inputs: Any) -> None:
    """A number is read from these arrays: perhaps a difference."""
    watch = _watching[-1]
    for x in inputs:
        if isinstance(x, Followed):
            if x.lost:
                watch.note(
                    f"{x.lost} of a kernel's result is not followed: compare before it, or compute it with torch"
                )
            elif (tensor := _tensor(x)) is not None:
                watch.read(tensor)
    watch.flush()


def follow(scope: PatchScope, watch: Watch) -> Callable[[], None]:
    """Arrays of the user's code are followed until the function that it returns is called."""
    before = torch.Tensor.numpy

    def numpy(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        found = before(tensor, *args, **kwargs)
        if watch.busy or not plain(tensor) or is_tool_file(sys._getframe(1).f_code.co_filename):
            return found
        if (place := watch.tape.known(tensor)) is not None:
            watch.tape.seen(place.cell)
        return _followed(found, tensor.detach()) if found.dtype.kind == "f" else found

    scope.set(torch.Tensor, "numpy", numpy)
    _watching.append(watch)
    return lambda: _watching.remove(watch)
