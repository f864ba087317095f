"""numpy on tensors of a watched script: what a function of torch says as well goes on the tape, too.

`Tensor.numpy()` gives the user's code an array that runs such functions in torch on the same operands beside numpy, so
that `np.abs(out - ref).max()` is a difference like any other and `np.exp(x)` a reference like any other. The numbers
stay numpy's. What is not followed leaves a note where a kernel's result goes through it, and is data of unknown error
elsewhere: nothing that numpy computed is taken for exact.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from render.entry.target import is_tool_file
from render.front.comparisons import listening
from render.front.names import user_frame
from render.front.numpy_functions import ACCUMULATIONS, FUNCTIONS, METHODS, REDUCTIONS, UFUNCS
from render.front.scalars import ReadElement, flattened
from render.front.tape import plain
from render.interpreter.hosted.overloads import host_site
from render.interpreter.scope import PatchScope
from render.result.places import relative

if TYPE_CHECKING:
    from render.front.watch import Watch

_FORMS = {"__call__": UFUNCS, "reduce": REDUCTIONS, "accumulate": ACCUMULATIONS}
_WITHOUT_MEANING = {"out": (), "casting": (), "subok": (), "order": (), "where": (True,), "dtype": (None,)}
"""Keywords that say nothing about the function, with the values for which that is so (empty: all)."""
_AS_NEAR = 2.0**-6
"""Of the largest element of operands and result: farther apart, the libraries were asked for different things."""
_SCALARS = 64
_watching: list[Watch] = []
_scalars: OrderedDict[float, torch.Tensor | None] = OrderedDict()
"""What numpy gave as a number of its own, by its value: the last ones."""


class Followed(np.ndarray):
    """The memory of a tensor (`home`; of a view, that of its base). `lost`: where numpy computed it from a kernel's
    result in a way that is not followed."""

    lost: str
    home: torch.Tensor | None

    def __array_finalize__(self, of: Any) -> None:
        self.lost, self.home = getattr(of, "lost", ""), getattr(of, "home", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        out: tuple[Any, ...] = keywords.get("out") or ()
        bare = {**keywords, "out": tuple(_bare(x) for x in out)} if out else keywords

        def run() -> Any:
            return getattr(ufunc, method)(*(_bare(x) for x in inputs), **bare)

        if not _watching or _watching[-1].busy:
            return run()
        said = {k: v for k, v in keywords.items() if not _means_nothing(k, v)}
        if method == "reduce":
            said.setdefault("axis", 0)
        form = None if method == "reduceat" else _FORMS.get(method, {}).get(ufunc)
        return _beside(f"numpy.{ufunc.__name__}", form, inputs, said, run, out[0] if len(out) == 1 else None)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not _watching or _watching[-1].busy:
            return func(*_bare(args), **{k: _bare(x) for k, x in kwargs.items()})
        if func in FUNCTIONS:
            said = {k: v for k, v in kwargs.items() if not _means_nothing(k, v)}
            result = func(*_bare(args), **{k: _bare(x) for k, x in kwargs.items()})
            return _beside(f"numpy.{func.__name__}", FUNCTIONS[func], args, said, lambda: result)
        for x in flattened([*args, *kwargs.values()]):
            _leaves(x)
        result = super().__array_function__(func, types, args, kwargs)
        if not isinstance(result, np.ndarray) or result.ndim == 0:
            _read(args)
        missed = next(_lost(args), "") or (
            f"{_here()}: numpy.{func.__name__}" if any(map(_of_kernel, flattened(args))) else ""
        )

        def marked(x: Any) -> Any:
            if isinstance(x, list | tuple):
                return type(x)(*map(marked, x)) if hasattr(x, "_fields") else type(x)(map(marked, x))
            if type(x) is not np.ndarray or x.dtype.kind != "f":
                return x
            found = _followed(x, None)
            found.lost = missed
            return found

        return marked(result)

    def astype(self, dtype: Any, *args: Any, **keywords: Any) -> Any:
        result = _bare(self).astype(dtype, *args, **keywords)
        if result.dtype.kind != "f" or not _asked_by_user():
            return _followed(result, self.home) if result.dtype.kind == "f" else result
        to = _dtype(result) if result.dtype.itemsize <= 8 else None
        form = None if to is None else lambda x: x.clone() if x.dtype == to else x.to(to)
        return _beside("numpy.astype", form, (self,), {}, lambda: result)

    def copy(self, order: Any = "C") -> Any:
        result = _bare(self).copy(order)
        return _beside("numpy.copy", torch.clone, (self,), {}, lambda: result) if _asked_by_user() else result


def _method(name: str) -> Callable[..., Any]:
    def called(self: Followed, *args: Any, **keywords: Any) -> Any:
        return getattr(np, name)(self, *args, **keywords)

    return called


def _writer(name: str) -> Callable[..., Any]:
    def called(self: Followed, *args: Any, **keywords: Any) -> Any:
        found = getattr(np.ndarray, name)(self, *args, **keywords)
        if _watching and not _watching[-1].busy and self.home is not None and _offset(self, self.home) is not None:
            region = _watching[-1].tape.known(self.home)
            if region is not None and region.cell.kernel:
                _watching[-1].note(unfollowed(f"{_here()}: numpy.{name} into a kernel's result"))
            _watching[-1].tape.overwritten(self.home)
        return found

    return called


def _leaver(name: str) -> Callable[..., Any]:
    def called(self: Followed, *args: Any, **keywords: Any) -> Any:
        _leaves(self)
        return getattr(_bare(self), name)(*args, **keywords)

    return called


def _shower(name: str) -> Callable[..., Any]:
    def called(self: Followed) -> Any:
        if _watching and not _watching[-1].busy:
            _read((self,))
        return getattr(_bare(self), name)()

    return called


for _name in ("__str__", "__repr__"):
    setattr(Followed, _name, _shower(_name))
for _name in ("__reduce__", "__reduce_ex__", "tolist", "tobytes", "tofile", "dump", "dumps"):
    setattr(Followed, _name, _leaver(_name))
for _name in ("__setitem__", "sort", "partition", "fill", "put", "byteswap"):
    setattr(Followed, _name, _writer(_name))
for _name in METHODS:
    setattr(Followed, _name, _method(_name))
Followed.__name__ = "array"  # numpy prints the class of an array that is none of its own


def _means_nothing(keyword: str, value: Any) -> bool:
    allowed = _WITHOUT_MEANING.get(keyword)
    return allowed is not None and (not allowed or any(value is x for x in allowed))


def _beside(
    name: str, form: Callable[..., torch.Tensor] | None, inputs: Any, said: Mapping[str, Any],
    run: Callable[[], Any], out: Any = None,
) -> Any:  # fmt: skip
    """What numpy makes of it, with torch's result of the same function on the tape, if there is one."""
    place = None if out is None else _tensor(out)
    twin = None if form is None or (out is not None and place is None) else _in_torch(form, inputs, said)
    result = run()
    if out is not None:
        result = _bare(out)
    good = twin is not None and _alike(twin, result, inputs)
    missed = next(_lost(inputs), "")
    if not good and not missed and any(map(_of_kernel, flattened(inputs))):
        missed = f"{_here()}: {name}"
    if good and twin is not None:
        bits = np.array(result)
        if place is not None:
            twin = place.copy_(twin)
        with _watching[-1].tape.paused(), torch.no_grad():  # the script's numbers stay numpy's
            twin.copy_(torch.from_numpy(bits))
    if not isinstance(result, np.ndarray) or result.ndim == 0 or result.dtype == bool:
        _read(inputs)
        if isinstance(result, np.generic) and result.dtype.kind == "f":
            _remember(float(result), twin if good else None)
        if not isinstance(result, np.ndarray) or result.ndim == 0:
            return result
    if out is not None:
        out.lost = missed or out.lost if isinstance(out, Followed) else ""
        return out
    if result.dtype.kind not in "fb" or (result.dtype == bool and not good):
        return result
    found = _followed(twin.numpy() if good and twin is not None else result, twin if good else None)
    found.lost = missed
    return found


def _remember(value: float, twin: torch.Tensor | None) -> None:
    """A number of numpy's own; None where nothing is known of its error."""
    _scalars[value] = twin
    _scalars.move_to_end(value)
    if len(_scalars) > _SCALARS:
        _scalars.popitem(last=False)
    watch, frame = _watching[-1], user_frame()
    if twin is None:
        watch.tape.left.lost(value)
    elif (place := watch.tape.known(twin)) is not None and frame is not None and not watch._looked_at(place, frame):
        watch.tape.left.leaves(value, ReadElement(place, 0, host_site()))


def _leaves(x: Any) -> None:
    """It may come back, from a file or a list."""
    if isinstance(x, Followed) and _watching and not _watching[-1].busy and (tensor := _tensor(x)) is not None:
        _watching[-1].tape.leaves(tensor)


def _asked_by_user() -> bool:
    """Whether the caller of the function that asks is the user's code, and not numpy's."""
    return bool(_watching) and not _watching[-1].busy and not is_tool_file(sys._getframe(2).f_code.co_filename)


def _bare(x: Any) -> Any:
    if isinstance(x, list | tuple):
        return type(x)(_bare(y) for y in x)
    return x.view(np.ndarray) if isinstance(x, Followed) else x


def _lost(inputs: Any) -> Iterator[str]:
    yield from (why for x in flattened(inputs) if isinstance(x, Followed) and (why := lost(x)))


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
    if (
        not isinstance(x, np.ndarray)
        or x.dtype.kind not in "fbi"
        or x.dtype.itemsize > 8
        or any(s < 0 for s in x.strides)
    ):
        return None
    home = x.home if isinstance(x, Followed) else None
    if home is not None and (start := _offset(x, home)) is not None:
        return torch.as_strided(home, x.shape, tuple(s // x.itemsize for s in x.strides), start)
    return torch.from_numpy(_bare(x)) if x.flags.writeable else None


def taken(array: Any, made: torch.Tensor) -> torch.Tensor:
    """`made` by torch of an array: a copy of the tensor that the array is, where it is one."""
    home = array.home if isinstance(array, Followed) else None
    if home is None or _offset(array, home) is None or (source := _tensor(array)) is None:
        return made
    with torch.no_grad():
        found = source.to(made.dtype, copy=True)
    return found.requires_grad_(made.requires_grad)


def _of_kernel(x: Any) -> bool:
    tensor = _tensor(x) if isinstance(x, Followed) else None
    region = None if tensor is None else _watching[-1].tape.known(tensor)
    return region is not None and region.cell.kernel


def _in_torch(form: Callable[..., torch.Tensor], inputs: Any, said: Mapping[str, Any]) -> torch.Tensor | None:
    """The same function by torch, in memory of its own; None where torch does not take these arguments."""
    try:
        given = [_operand(x) for x in inputs]
        arrays = [x.dtype for x in flattened(inputs) if isinstance(x, np.ndarray | np.generic)]
        common = np.result_type(*arrays) if arrays else None
        if common is not None and common.kind == "f" and common.itemsize <= 8:
            wide = _dtype(np.empty(0, common))
            given = [
                x.to(wide) if isinstance(x, torch.Tensor) and x.dtype not in (wide, torch.bool) else x for x in given
            ]
        with torch.no_grad():
            found = form(*given, **said)
            return found.clone() if any(x is found for x in given) else found
    except (_NoTensor, NotImplementedError, RuntimeError, TypeError, ValueError):
        return None


def _dtype(x: Any) -> torch.dtype:
    """Torch's name of an array's format."""
    return torch.from_numpy(np.empty(0, x.dtype)).dtype


class _NoTensor(Exception):
    """An operand that is not followed."""


def _operand(x: Any) -> Any:
    if isinstance(x, list | tuple) and any(isinstance(y, np.ndarray) for y in x):
        return type(x)(_operand(y) for y in x)
    if isinstance(x, np.ndarray):
        found = _tensor(x)
    elif isinstance(x, np.generic) and x.dtype.kind == "f" and float(x) in _scalars:
        found = _scalars[float(x)]
    elif isinstance(x, np.generic):  # perhaps computed from one of those
        number = _watching[-1].tape.left.of(float(x)) if x.dtype.kind == "f" else 0.0
        found = torch.full((), x.item(), dtype=_dtype(x)) if isinstance(number, float) else None
    else:
        return x
    if found is None:
        raise _NoTensor
    return found


def _alike(twin: torch.Tensor, result: Any, inputs: Any) -> bool:
    """Whether it is the same function's value, apart from rounding."""
    if not isinstance(result, np.ndarray | np.generic) or result.shape != tuple(twin.shape):
        return False
    with _watching[-1].tape.paused():
        mine = twin.numpy()
    if mine.dtype != result.dtype:
        return False
    if result.dtype == bool:
        return bool(np.array_equal(mine, result))
    with np.errstate(all="ignore"):
        one, two = (np.nan_to_num(np.asarray(x, np.float64)) for x in (mine, result))
        given = [np.asarray(_bare(x)) for x in flattened(inputs)]
        finite = [np.abs(x[np.isfinite(x)]) for x in (*given, two) if x.dtype.kind == "f"]
        scale = max(float(x.max(initial=0)) for x in finite)
        return bool((np.abs(one - two) <= _AS_NEAR * scale).all())


def unfollowed(where: str) -> str:
    return f"{where} is not followed: compute it with torch, or compare what it was computed from"


def _read(inputs: Any) -> None:
    """A number is read from these arrays: perhaps a difference."""
    watch = _watching[-1]
    for x in inputs:
        if isinstance(x, Followed):
            if x.lost and listening():  # a comparison that is judged computes, too
                watch.note(
                    f"{x.lost} of a kernel's result is not followed: compare before it, or compute it with torch"
                )
            elif (tensor := _tensor(x)) is not None:
                watch.read(tensor)
    watch.flush()


_MAKERS: tuple[tuple[Any, str], ...] = (
    (np, "load"), (np, "fromfile"), (np, "frombuffer"), (np, "loadtxt"), (np, "genfromtxt"), (np, "fromiter"),
    (np, "array"), (np, "asarray"), (np.lib.npyio.NpzFile, "__getitem__"),
)  # fmt: skip
"""Functions that make arrays of what is no array of one size: bytes, text, Python's numbers."""


def _maker(plain: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    @wraps(plain)
    def made(*args: Any, **keywords: Any) -> Any:
        result = plain(*args, **keywords)
        if type(result) is not np.ndarray or watch.busy or is_tool_file(sys._getframe(1).f_code.co_filename):
            return result
        return _arrived(result)

    return made


def _arrived(array: np.ndarray) -> np.ndarray:
    """Followed, where its numbers left before."""
    tape = _watching[-1].tape
    if array.dtype.kind != "f" or not array.size or (tensor := _tensor(array)) is None:
        return array
    with _watching[-1]._own():
        place = tape.place(tensor)
    return _followed(array, tensor) if tape.came_back(place.cell) else array


def follow(scope: PatchScope, watch: Watch) -> Callable[[], None]:
    """Arrays of the user's code are followed until the function that it returns is called."""
    before = torch.Tensor.numpy

    def numpy(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        found = before(tensor, *args, **kwargs)
        if watch.busy or not plain(tensor):
            return found
        asked = sys._getframe(1).f_code
        if is_tool_file(asked.co_filename):
            if asked.co_name == "__array__":  # a function of numpy that was handed the tensor
                watch.tape.leaves(tensor)
            return found
        if (place := watch.tape.known(tensor)) is not None:
            watch.tape.seen(place.cell)
            watch.tape.leaves(tensor)
        return _followed(found, tensor.detach()) if found.dtype.kind == "f" else found

    scope.set(torch.Tensor, "numpy", numpy)
    for owner, name in _MAKERS:
        scope.set(owner, name, _maker(getattr(owner, name), watch))
    _watching.append(watch)
    _scalars.clear()
    return lambda: _watching.remove(watch)
