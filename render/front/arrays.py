"""numpy on tensors of a watched script: what a function of torch says as well goes on the tape, too.

`Tensor.numpy()` gives the user's code an array that runs such functions in torch on the same operands beside numpy, so
that `np.abs(out - ref).max()` is a difference like any other and `np.exp(x)` a reference like any other. The numbers
stay numpy's. What is not followed leaves a note where a kernel's result goes through it, and is data of unknown error
elsewhere: nothing that numpy computed is taken for exact.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from render.entry.target import is_tool_file
from render.front.comparisons import listening
from render.front.names import user_frame
from render.front.numpy_functions import ACCUMULATIONS, FUNCTIONS, METHODS, REDUCTIONS, WRITING, function_of
from render.front.numpy_numbers import FOLLOWED, followed_number, own
from render.front.operands import (
    HomedArray,
    alike,
    bare,
    copied,
    in_torch,
    is_basic,
    memory,
    memory_of,
    number_of,
    numbers,
    of_kernel,
    offset,
    put_bits,
    span,
    tensor_index,
    tensor_of,
    torch_dtype,
    watching,
)
from render.front.scalars import ReadElement, flattened
from render.front.tape import plain
from render.interpreter.hosted.overloads import host_site
from render.interpreter.scope import PatchScope
from render.result.places import relative

if TYPE_CHECKING:
    from render.front.watch import Watch

_FORMS = {"reduce": REDUCTIONS, "accumulate": ACCUMULATIONS}
_WITHOUT_MEANING = {"out": (), "casting": (), "subok": (), "order": (), "where": (True,), "dtype": (None,)}
"""Keywords that say nothing about the function, with the values for which that is so (empty: all)."""
_SCALARS = 64
OPERATIONS = 20_000
"""Of numpy's on a script's own arrays: a table made element by element costs numpy itself a thousandth."""


class Followed(HomedArray):
    """Computes in torch what it computes in numpy."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        out: tuple[Any, ...] = keywords.get("out") or ()
        given = {k: bare(x) for k, x in keywords.items()}  # `where` may be followed, too

        def run() -> Any:
            return getattr(ufunc, method)(*(bare(x) for x in inputs), **given)

        if not watching or watching[-1].busy:
            return run()
        if method == "at":
            run()
            return written(inputs[0], f"numpy.{ufunc.__name__}.at")
        said = {k: v for k, v in keywords.items() if not _means_nothing(k, v)}
        if method == "reduce":
            said.setdefault("axis", 0)
        form = function_of(ufunc) if method == "__call__" else _FORMS.get(method, {}).get(ufunc)
        if form is not None:
            form = _computing_in(said.pop("dtype", None), form)
        return _beside(f"numpy.{ufunc.__name__}", form, inputs, said, run, out[0] if len(out) == 1 else None)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not watching or watching[-1].busy:
            return func(*bare(args), **{k: bare(x) for k, x in kwargs.items()})
        targets = [*_flat(kwargs.get("out")), *(args[:1] if func in WRITING else ())]
        if any(isinstance(x, Followed) for x in targets):
            result = func(*bare(args), **{k: bare(x) for k, x in kwargs.items()})
            for x in targets:
                written(x, f"numpy.{func.__name__}")
            return kwargs.get("out", result)
        if func in FUNCTIONS:
            said = {k: v for k, v in kwargs.items() if not _means_nothing(k, v)}
            result = func(*bare(args), **{k: bare(x) for k, x in kwargs.items()})
            form = _computing_in(said.pop("dtype", None), FUNCTIONS[func])
            return _beside(f"numpy.{func.__name__}", form, args, said, lambda: result)
        for x in flattened([*args, *kwargs.values()]):
            _leaves(x)
        result = super().__array_function__(func, types, args, kwargs)
        if not isinstance(result, np.ndarray) or result.ndim == 0:
            _read(args)
        missed = next(_lost(args), "") or (
            f"{_here()}: numpy.{func.__name__}" if any(map(of_kernel, flattened(args))) else ""
        )

        def marked(x: Any) -> Any:
            if isinstance(x, list | tuple):
                return type(x)(*map(marked, x)) if hasattr(x, "_fields") else type(x)(map(marked, x))
            if type(x) is not np.ndarray or x.dtype.kind != "f":
                return x
            found = follow_array(x, None)
            found.lost = missed
            return found

        return marked(result)

    def __getitem__(self, index: Any) -> Any:
        found = np.ndarray.__getitem__(self, index)
        if self.home is None or not watching or watching[-1].busy:
            return found
        if isinstance(found, np.floating):
            return followed_number(found, None, (self, index, watching[-1].tape.now))
        if isinstance(found, np.ndarray) and found.dtype.kind == "f" and not is_basic(index):
            return _beside("numpy.take", lambda x: x[tensor_index(index)], (self,), {}, lambda: bare(found))
        return found

    def astype(self, dtype: Any, *args: Any, **keywords: Any) -> Any:
        result = bare(self).astype(dtype, *args, **keywords)
        if result.dtype.kind != "f" or not _asked_by_user():
            return follow_array(result, self.home) if result.dtype.kind == "f" else result
        return _beside("numpy.astype", _to(result), (self,), {}, lambda: result)

    def copy(self, order: Any = "C") -> Any:
        result = bare(self).copy(order)
        return _beside("numpy.copy", torch.clone, (self,), {}, lambda: result) if _asked_by_user() else result


def _method(name: str) -> Callable[..., Any]:
    def called(self: Followed, *args: Any, **keywords: Any) -> Any:
        return getattr(np, name)(self, *args, **keywords)

    return called


def _writer(name: str) -> Callable[..., Any]:
    def called(self: Followed, *args: Any, **keywords: Any) -> Any:
        found = getattr(np.ndarray, name)(self, *args, **keywords)
        written(self, f"numpy.{name}")
        return found

    return called


def written(x: Any, name: str = "numpy") -> None:
    """Something that is not followed wrote to the array: what it holds is data from now on."""
    if not watching or watching[-1].busy or not isinstance(x, Followed) or (home := x.home) is None:
        return
    if not np.may_share_memory(bare(x), memory(home)):
        return
    region = watching[-1].tape.known(home)
    if region is not None and region.cell.kernel:
        watching[-1].note(unfollowed(f"{_here()}: {name} into a kernel's result"))
    watching[-1].tape.overwritten(home)


def _set_item(self: Followed, index: Any, value: Any) -> None:
    """`self[index] = value`: a copy on the tape, where the index names a part of the array as it lies in memory."""
    np.ndarray.__setitem__(self, index, bare(value))
    if not watching or watching[-1].busy:
        return
    if self.home is None:
        return
    if is_basic(index):
        part = np.ndarray.__getitem__(self, index)
        target, at = (
            tensor_of(np.ndarray.__getitem__(self, span(index)) if isinstance(part, np.generic) else part),
            None,
        )
    else:
        target, at = tensor_of(self), index
    if target is None or not copied(target, at, value):
        written(self, "numpy.__setitem__")


def _leaver(name: str) -> Callable[..., Any]:
    def called(self: Followed, *args: Any, **keywords: Any) -> Any:
        _leaves(self)
        return getattr(bare(self), name)(*args, **keywords)

    return called


def _shower(name: str) -> Callable[..., Any]:
    def called(self: Followed) -> Any:
        if watching and not watching[-1].busy:
            _read((self,))
        return getattr(bare(self), name)()

    return called


def _as_float(self: Any) -> float:
    """It goes to where numpy is not: a kernel, a list, torch."""
    value = float(own(self))
    if watching and not watching[-1].busy and (twin := number_of(self)) is not None:
        _remember(value, twin)
    return value


for _kind in FOLLOWED:
    for _name in ("__float__", "item", "tolist"):
        setattr(_kind, _name, _as_float)
    setattr(_kind, "__array_ufunc__", Followed.__array_ufunc__)  # noqa: B010
for _name in ("__str__", "__repr__"):
    setattr(Followed, _name, _shower(_name))
for _name in ("__reduce__", "__reduce_ex__", "tolist", "tobytes", "tofile", "dump", "dumps"):
    setattr(Followed, _name, _leaver(_name))
for _name in ("sort", "partition", "fill", "put", "byteswap", "resize"):
    setattr(Followed, _name, _writer(_name))
for _name in METHODS:
    setattr(Followed, _name, _method(_name))
Followed.__setitem__ = _set_item  # type: ignore[method-assign,assignment]
Followed.__name__ = "array"  # numpy prints the class of an array that is none of its own


def _computing_in(dtype: Any, form: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The function of operands that are cast first."""
    if dtype is None:
        return form

    def cast(x: Any) -> Any:
        return x.to(torch_dtype(dtype)) if isinstance(x, torch.Tensor) else x

    return lambda *args, **keywords: form(*map(cast, args), **keywords)


def _to(result: np.ndarray) -> Callable[[torch.Tensor], torch.Tensor]:
    """A cast to the format of an array."""

    def cast(x: torch.Tensor) -> torch.Tensor:
        to = torch_dtype(result)
        return x.clone() if x.dtype == to else x.to(to)

    return cast


class _Left:
    """How many operations are followed yet, of those in which no kernel's result takes part."""

    operations = OPERATIONS


def _goes_on(inputs: Any) -> bool:
    """Beyond the limit: whether it is followed all the same, because a kernel's result takes part."""
    if any(map(of_kernel, flattened(inputs))):
        return True
    watching[-1].note(f"{_here()}: after {OPERATIONS} operations of numpy, what it computes is data of unknown error")
    return False


def _means_nothing(keyword: str, value: Any) -> bool:
    allowed = _WITHOUT_MEANING.get(keyword)
    return allowed is not None and (not allowed or any(value is x for x in allowed))


def _beside(
    name: str, form: Callable[..., torch.Tensor] | None, inputs: Any, said: Mapping[str, Any],
    run: Callable[[], Any], out: Any = None,
) -> Any:  # fmt: skip
    """What numpy makes of it, with torch's result of the same function on the tape, if there is one."""
    if _Left.operations <= 0 and not _goes_on(inputs):
        found = run()
        written(out, name)
        return found
    _Left.operations -= 1
    place = None if out is None else tensor_of(out)
    twin = None if form is None or (out is not None and place is None) else in_torch(form, inputs, said)
    result = run()
    if out is not None:
        result = bare(out)
    good = twin is not None and alike(twin, result, inputs)
    if out is not None and not good:
        written(out, name)
    missed = next(_lost(inputs), "")
    if not good and not missed and any(map(of_kernel, flattened(inputs))):
        missed = f"{_here()}: {name}"
    if good and twin is not None:
        bits = result if place is None else result.copy()
        if place is not None:
            twin = place.copy_(twin)
        put_bits(twin, bits)
    if not isinstance(result, np.ndarray) or result.ndim == 0 or result.dtype == bool:
        _read(inputs)
        if isinstance(result, np.generic) and result.dtype.kind == "f":
            _remember(float(result), twin if good else None)
        if not isinstance(result, np.ndarray) or result.ndim == 0:
            return followed_number(result, twin) if good and twin is not None else result
    if out is not None:
        out.lost = missed or out.lost if isinstance(out, Followed) else ""
        return out
    if result.dtype.kind not in "fb" or (result.dtype == bool and not good):
        return result
    found = follow_array(memory_of(twin) if good and twin is not None else result, twin if good else None)
    found.lost = missed
    return found


def _remember(value: float, twin: torch.Tensor | None) -> None:
    """A number of numpy's own; None where nothing is known of its error."""
    numbers[value] = twin
    numbers.move_to_end(value)
    if len(numbers) > _SCALARS:
        numbers.popitem(last=False)
    watch, frame = watching[-1], user_frame()
    if twin is None:
        watch.tape.left.lost(value)
    elif (place := watch.tape.known(twin)) is not None and frame is not None and not watch._looked_at(place, frame):
        watch.tape.left.leaves(value, ReadElement(place, 0, host_site()))


def _leaves(x: Any) -> None:
    """It may come back, from a file or a list."""
    if isinstance(x, Followed) and watching and not watching[-1].busy and (tensor := tensor_of(x)) is not None:
        watching[-1].tape.leaves(tensor)


def _asked_by_user() -> bool:
    """Whether the caller of the function that asks is the user's code, and not numpy's."""
    return bool(watching) and not watching[-1].busy and not is_tool_file(sys._getframe(2).f_code.co_filename)


def _lost(inputs: Any) -> Iterator[str]:
    yield from (why for x in flattened(inputs) if isinstance(x, Followed) and (why := lost(x)))


def lost(x: Any) -> str:
    """Where a kernel's result went a way that is not followed; "" if that is not so."""
    home = x.home if isinstance(x, Followed) else None
    if home is None or x.lost or not x.size or offset(x, home) is not None:
        return getattr(x, "lost", "")
    region = watching[-1].tape.known(home) if watching else None  # a copy: astype, take, sort, ...
    return f"{_here()}: numpy.{x.dtype} copy" if region is not None and region.cell.kernel else ""


def _here() -> str:
    frame = user_frame()
    return f"{relative(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else ""


def follow_array(array: Any, home: torch.Tensor | None) -> Followed:
    found: Followed = array.view(Followed)
    found.home = home
    return found


def converted(x: Followed, result: np.ndarray) -> Any:
    """`result` of numpy's conversion of an array to an array: the same memory, or a copy."""
    if x.home is not None and x.dtype == result.dtype and offset(result, x.home) is not None:
        found = follow_array(result, x.home)
        found.lost = x.lost
        return found
    return _beside("numpy.array", _to(result), (x,), {}, lambda: result)


def stacked(rows: Any, result: np.ndarray) -> Any:
    """`result` of an array made of a list of arrays or of numpy's numbers."""
    told = [x for x in flattened(rows) if isinstance(x, np.generic) and x.dtype.kind == "f"]
    if any(float(x) not in numbers for x in told):
        return result  # read from an array, or computed from what was: data of unknown error
    cast = _to(result)
    return _beside("numpy.array", lambda ys: cast(torch.stack(list(ys))), (list(rows),), {}, lambda: result)


def _flat(out: Any) -> tuple[Any, ...]:
    return out if isinstance(out, tuple) else () if out is None else (out,)


def unfollowed(where: str) -> str:
    return f"{where} is not followed: compute it with torch, or compare what it was computed from"


def _read(inputs: Any) -> None:
    """A number is read from these arrays: perhaps a difference."""
    watch = watching[-1]
    for x in inputs:
        if isinstance(x, Followed):
            if x.lost and listening():  # a comparison that is judged computes, too
                watch.note(
                    f"{x.lost} of a kernel's result is not followed: compare before it, or compute it with torch"
                )
            elif (tensor := tensor_of(x)) is not None:
                watch.read(tensor)
    watch.flush()


_MAKERS: tuple[tuple[Any, str], ...] = (
    (np, "load"), (np, "fromfile"), (np, "frombuffer"), (np, "loadtxt"), (np, "genfromtxt"), (np, "fromiter"),
    (np.lib.npyio.NpzFile, "__getitem__"),
)  # fmt: skip
"""Functions that make arrays of what is no array of one size: bytes, text, Python's numbers."""


def _maker(plain: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    @wraps(plain)
    def made(*args: Any, **keywords: Any) -> Any:
        result = plain(*args, **keywords)
        if type(result) is not np.ndarray or watch.busy or is_tool_file(sys._getframe(1).f_code.co_filename):
            return result
        return arrived(result)

    return made


def arrived(array: np.ndarray) -> np.ndarray:
    """Followed, where its numbers left before."""
    tape = watching[-1].tape
    if array.dtype.kind != "f" or not array.size or (tensor := tensor_of(array)) is None:
        return array
    with watching[-1]._own():
        place = tape.place(tensor)
    return follow_array(array, tensor) if tape.came_back(place.cell) else array


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
        return follow_array(found, tensor.detach()) if found.dtype.kind == "f" else found

    scope.set(torch.Tensor, "numpy", numpy)
    for owner, name in _MAKERS:
        scope.set(owner, name, _maker(getattr(owner, name), watch))
    watching.append(watch)
    numbers.clear()
    _Left.operations = OPERATIONS
    return lambda: watching.remove(watch)
