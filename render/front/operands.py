"""The tensors behind arrays: what numpy is given, as torch is given it.

An array of watched code lies in the memory of a tensor that the tape knows (`home`), or is a copy of which nothing is
known. numpy's own numbers are found again by their value.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from render.front.numpy_numbers import FOLLOWED, own
from render.front.scalars import flattened

if TYPE_CHECKING:
    from render.front.watch import Watch

_AS_NEAR = 2.0**-6
"""Of the largest element of operands and result: farther apart, the libraries were asked for different things."""
_DTYPES = {np.dtype(str(t)[6:]): t for t in (torch.float16, torch.float32, torch.float64, torch.bool, torch.int8,
                                            torch.int16, torch.int32, torch.int64)}  # fmt: skip
_numpy, _array, _from_numpy = torch.Tensor.numpy, np.asarray, torch.from_numpy
"""As they are where nobody watches."""
watching: list[Watch] = []
"""The scopes that follow arrays, the innermost last."""
numbers: OrderedDict[float, torch.Tensor | None] = OrderedDict()
"""What numpy gave as a number of its own, by its value: the last ones."""


class HomedArray(np.ndarray):
    """The memory of a tensor (`home`; of a view, that of its base). `lost`: where numpy computed it from a kernel's
    result in a way that is not followed."""

    lost: str
    home: torch.Tensor | None

    def __array_finalize__(self, of: Any) -> None:
        self.lost, self.home = getattr(of, "lost", ""), getattr(of, "home", None)


def bare(x: Any) -> Any:
    if isinstance(x, list | tuple):  # a shape of torch's and a tuple with names are tuples to numpy
        return [bare(y) for y in x] if isinstance(x, list) else tuple(bare(y) for y in x)
    return x.view(np.ndarray) if isinstance(x, HomedArray) else own(x)


def offset(x: np.ndarray, home: torch.Tensor) -> int | None:
    """Where an array begins in the memory of a tensor, in elements; None where it lies elsewhere.

    The storage is asked: a tensor whose own address is asked for has left.
    """
    if home.itemsize != x.itemsize or any(s % x.itemsize for s in x.strides):
        return None
    apart = (x.ctypes.data - home.untyped_storage().data_ptr()) // x.itemsize
    return apart if 0 <= apart < home.untyped_storage().nbytes() // x.itemsize else None


def memory(home: torch.Tensor) -> np.ndarray:
    """All of the storage of a tensor."""
    with watching[-1].tape.paused(), torch.no_grad():
        count = home.untyped_storage().nbytes() // home.itemsize
        found: np.ndarray = torch.as_strided(home, (count,), (1,), 0).numpy()
        return found


def tensor_of(x: Any) -> torch.Tensor | None:
    """The tensor over the memory of an array."""
    if (
        not isinstance(x, np.ndarray)
        or x.dtype.kind not in "fbi"
        or x.dtype.itemsize > 8
        or any(s < 0 for s in x.strides)
    ):
        return None
    home = x.home if isinstance(x, HomedArray) else None
    if home is not None and (start := offset(x, home)) is not None:
        with torch._C.DisableTorchFunction():
            return torch.as_strided(home, x.shape, tuple(s // x.itemsize for s in x.strides), start)
    return _from_numpy(bare(x)) if x.flags.writeable else None


def taken(array: Any, made: torch.Tensor) -> torch.Tensor:
    """`made` by torch of an array: a copy of the tensor that the array is, where it is one."""
    if isinstance(array, FOLLOWED) and (number := number_of(array)) is not None:
        with torch.no_grad():
            return number.to(made.dtype, copy=True)
    home = array.home if isinstance(array, HomedArray) else None
    if home is None or offset(array, home) is None or (source := tensor_of(array)) is None:
        return made
    with torch.no_grad():
        found = source.to(made.dtype, copy=True)
    return found.requires_grad_(made.requires_grad)


def in_torch(form: Callable[..., torch.Tensor], inputs: Any, said: Mapping[str, Any]) -> torch.Tensor | None:
    """The same function by torch, in memory of its own; None where torch does not take these arguments."""
    try:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            given = [operand(x) for x in inputs]
            arrays = [x.dtype for x in flattened(inputs) if isinstance(x, np.ndarray | np.generic)]
            common = np.result_type(*arrays) if arrays else None
            if common is not None and common.kind == "f":
                given = [_widened(x, torch_dtype(common)) for x in given]
            found = form(*given, **said)
            if common is not None and common.kind == "i" and found.is_floating_point():  # numpy computes in float64
                found = form(*(_widened(x, torch.float64) for x in given), **said)
            return found.clone() if any(x is found for x in given) else found
    except (NoTensor, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return None


def _widened(x: Any, dtype: torch.dtype) -> Any:
    same = not isinstance(x, torch.Tensor) or x.dtype in (dtype, torch.bool)
    return x if same else x.to(dtype)


def torch_dtype(x: Any) -> torch.dtype:
    """Torch's name of an array's format, or of a format as numpy takes it. Raises NoTensor for one that it lacks."""
    found = _DTYPES.get(x.dtype if isinstance(x, np.ndarray | np.generic) else np.dtype(x))
    if found is None:
        raise NoTensor
    return found


class NoTensor(Exception):
    """An operand that is not followed."""


def operand(x: Any) -> Any:
    if isinstance(x, list | tuple) and any(isinstance(y, np.ndarray | np.generic) for y in x):
        return type(x)(operand(y) for y in x)
    if isinstance(x, np.ndarray):
        found = tensor_of(x)
    elif isinstance(x, FOLLOWED):
        found = number_of(x)
    elif isinstance(x, np.generic) and x.dtype.kind == "f" and float(x) in numbers:
        found = numbers[float(x)]
    elif isinstance(x, np.generic):  # perhaps computed from one of those
        number = watching[-1].tape.left.of(float(x)) if x.dtype.kind == "f" else 0.0
        found = torch.full((), x.item(), dtype=torch_dtype(x)) if isinstance(number, float) else None
    else:
        return x
    if found is None:
        raise NoTensor
    return found


def number_of(x: Any) -> torch.Tensor | None:
    """The tensor of a followed number; None where the array that it was read from was written to since."""
    if x.twin is None and x.element is not None:
        array, index, time = x.element
        part = tensor_of(np.ndarray.__getitem__(array, span(index)))
        place = None if part is None else watching[-1].tape.known(part)
        if part is not None and place is not None and place.cell.steps[-1].time <= time:
            with torch._C.DisableTorchFunction(), torch.no_grad():
                x.twin = part.reshape(()).clone()
        x.element = None
    found: torch.Tensor | None = x.twin
    return found


def alike(twin: torch.Tensor, result: Any, inputs: Any) -> bool:
    """Whether it is the same function's value, apart from rounding."""
    if not isinstance(result, np.ndarray | np.generic) or result.shape != tuple(twin.shape):
        return False
    mine = memory_of(twin)
    if mine.dtype != result.dtype:
        return False
    if bool((mine == result).all()):
        return True
    if result.dtype == bool:
        return False
    with np.errstate(all="ignore"):
        one, two = (np.nan_to_num(x.astype(np.float64)) for x in (mine, result))
        given = [x.view(np.ndarray) if isinstance(x, np.ndarray) else _array(x) for x in (*flattened(inputs), two)]
        scale = max(float(np.abs(x[np.isfinite(x)]).max(initial=0)) for x in given if x.dtype.kind == "f")
        return bool((np.abs(one - two) <= _AS_NEAR * scale).all())


def memory_of(t: torch.Tensor) -> np.ndarray:
    """A tensor that is ours as an array."""
    with watching[-1].tape.paused(), torch._C.DisableTorchFunction():
        found: np.ndarray = _numpy(t)
        return found


def put_bits(twin: torch.Tensor, result: Any) -> None:
    """The script's numbers stay numpy's."""
    memory_of(twin)[...] = result


def is_basic(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    whole = all(isinstance(x, int | np.integer | slice) or x is None or x is Ellipsis for x in parts)
    return whole and not any(isinstance(x, bool) for x in parts)


def span(index: Any) -> Any:
    """The place of one element as a part of one element."""
    parts = index if isinstance(index, tuple) else (index,)
    return tuple(slice(int(i), int(i) + 1 or None) for i in parts)


def tensor_index(index: Any) -> Any:
    """The same index of a tensor: arrays of integers and of truth values as tensors."""
    if isinstance(index, tuple):
        return tuple(map(tensor_index, index))
    return _from_numpy(bare(index).copy()) if isinstance(index, np.ndarray) else index


def copied(target: torch.Tensor, index: Any, value: Any) -> bool:
    """Puts a value that is followed, or stands in the code, into a followed array, or into its elements at an index.
    Its bits stay numpy's."""
    try:
        source = value if isinstance(value, int | float) and not isinstance(value, np.generic) else operand(value)
        if isinstance(source, torch.Tensor) and source.dim() > target.dim():
            return False
        with torch._C.DisableTorchFunction(), torch.no_grad():
            with watching[-1].tape.paused():
                bits = target.clone()
            if index is not None:
                target[tensor_index(index)] = source
            elif isinstance(source, torch.Tensor):
                target.copy_(source)
            else:
                target.fill_(source)
            with watching[-1].tape.paused():
                same = torch.allclose(target, bits, rtol=_AS_NEAR, atol=0.0, equal_nan=True)
                target.copy_(bits)
        return same
    except (NoTensor, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        return False


def of_kernel(x: Any) -> bool:
    tensor = tensor_of(x) if isinstance(x, HomedArray) else None
    region = None if tensor is None else watching[-1].tape.known(tensor)
    return region is not None and region.cell.kernel
