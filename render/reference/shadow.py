"""Run a reference as written and, beside it, the same operations in float64.

Every float storage that the reference touches gets a float64 shadow of the same geometry. Each operation runs twice:
natively, so that dtypes, asserts, branches and shapes are what the author wrote, and on the shadows, where a cast down
is a copy and `dtype=` arguments read float64. Views need nothing (a view of the storage is a view of the shadow), and
in-place operations write the shadow in place. Keyed by storage, not by tensor object: autograd replaces the objects.

With a `Unit`, a second shadow holds a bound of each element's error, carried by `render.reference.running_error`.

A common mistake: running the native operation first and building shadows of new operands afterwards; an in-place
operation has overwritten them by then.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from render.entry.execution import default_dtype as default_dtype
from render.entry.kernels import ShadowedKernels as ShadowedKernels
from render.entry.left_errors import LeftErrors, Number, arrays, math_functions
from render.ops.aten import Form, of_form
from render.ops.nested import leaves_of as leaves_of
from render.ops.nested import mapped as mapped
from render.ops.nested import refilled
from render.ops.parts import dispatches as dispatches
from render.ops.parts import in_parts as in_parts
from render.ops.unseen import Unseen as Unseen
from render.reference import local_error as noise
from render.reference.counts import counted
from render.reference.definitions import STEPS
from render.reference.normalised import carried
from render.reference.partly import LeastErrors
from render.reference.running_error import Movable, add_constants, add_numbers, error_of, has_rule
from render.reference.systems import solved
from render.reference.trail import Trail
from render.reference.twins import F64 as F64
from render.reference.twins import Shadows
from render.reference.twins import is_float as is_float
from render.result.defects import caught

Made = tuple[str, torch.Tensor, torch.Tensor]
"""An operation's name, a float result of it in float64, and the error of that."""
Lost = tuple[str, str, int, float]
"""An operation's name, its file and line, and how far its result is off, beside the largest element."""


def _line() -> tuple[str, int]:
    """The line of the reference that is running: the innermost that is neither ours nor torch's."""
    frame = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).split(".")[0] not in ("render", "torch", "contextlib"):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return "", 0


def _is_fixed(operation: Movable) -> bool:
    """Whether no operand moves by more than float64's own roundings."""
    pairs = [(operation.leaves[i], error) for i, error in operation.errors.items()]
    for x, error in pairs:  # nearly always the first few elements tell
        for _ in range(error.dim() - 1):
            x, error = (y[0] if len(y) else y for y in (x, error))
        if error.dim() and bool((error[:64] > FIXED * x[:64].abs()).any()):
            return False
    return not any(bool((error > FIXED * x.abs()).any()) for x, error in pairs)


def _of_shape(x: Any) -> Any:
    """Something in float64 of the shape of a float tensor, in no memory of its own."""
    if is_float(x):
        return torch.zeros((1,) * x.dim(), dtype=F64).expand(x.shape)
    return F64 if isinstance(x, torch.dtype) and x.is_floating_point else x


FIXED = 2.0**-40
MADE = of_form(Form.MADE)
LIKE = MADE & {"empty_like", "zeros_like", "ones_like", "new_empty", "new_zeros", "new_ones"}
"""What takes of a tensor its shape and type alone."""


def is_complex(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_complex()


ALIKE = 2.0**-20
"""Of its largest element, which a definition may be off by from what torch computes: in float32, of some types."""


def _agree(values: list[Any], bounds: dict[int, torch.Tensor], operation: Movable) -> bool:
    """Whether steps give what the operation gives in float64, wherever anything is known of their error."""
    try:
        given = operation.run()
    except RuntimeError:  # it takes no float64
        return True
    for i, own in enumerate(given):
        if not is_float(own) or not own.numel():
            continue
        known, own = bounds[i].isfinite(), own.to(F64)
        room = ALIKE * float(own.abs().masked_fill(~own.isfinite(), 0.0).max())
        if not torch.allclose(values[i][known], own[known], ALIKE, room, equal_nan=True):
            return False
    return True


def _constant(value: Any, bound: torch.Tensor | None, error: float) -> torch.Tensor | None:
    """What anybody who computes the same in float32 rounds, at most once; nothing where that holds the value."""
    if not is_float(value) or bool((value.float().double() == value).all()):
        return bound
    found = value.abs() * error
    return found if bound is None else torch.maximum(found, bound)


def _numbers(data: Any) -> bool:
    """Whether all of it are Python's own numbers."""
    return all(map(_numbers, data)) if isinstance(data, (list, tuple)) else isinstance(data, (int, float))


class ShadowMode(TorchDispatchMode):
    """Carries float64 through whatever runs inside and, with `unit`, the bound of its error.

    Integers and truth values are those of the run itself; with `decides`, those of the float64 beside it.
    `round_scalars`: Python numbers stand for their float32 roundings. `estimated` turns true when an error could only
    be estimated; `notes` names the operations that could not be carried. `made`, if it is a list, gets every float
    result with its error.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its whole compiler to keep it away from this mode; nothing is compiled here."""
        return False

    def __init__(self, unit: noise.Unit | None = None, round_scalars: bool = False, decides: bool = False) -> None:
        super().__init__()
        self.unit = unit
        self.decides = decides
        self.round_scalars = round_scalars
        self.shadows = Shadows(unit.inputs if unit else 0.0)
        self.estimated = self.narrow = False
        """Whether an error was an estimate; whether something of 16 bits or less was made."""
        self._least = LeastErrors()
        self.notes: list[str] = []
        self.drawn: list[torch.Tensor] = []
        """Random numbers, in their order."""
        self.tape: list[torch.Tensor] = []
        """Those of another run, which stand in the places of such of another type: torch draws others there."""
        self.made: list[Made] | None = None
        self.lost: list[Lost] | None = None
        self.left = LeftErrors(self._estimate, unit.rounding(F64)[0] if unit and unit.attainable else 0.0)
        """Numbers that left torch, as float64 has them, and what Python made of them, with their errors."""
        self._plain: list[tuple[Any, str, Any]] = []
        self._numbers_left = 0

    def __enter__(self) -> ShadowMode:
        tolist, own = torch.Tensor.tolist, vars(torch.Tensor).get("tolist")
        new = vars(torch.Tensor).get("new_tensor")
        self._plain = [(torch.Tensor, "tolist", own), (torch.Tensor, "new_tensor", new)]
        self._plain += [(torch, n, getattr(torch, n)) for n in ("tensor", "as_tensor")]
        like = torch.Tensor.new_tensor
        item = torch.Tensor.item
        self._plain += [(torch.Tensor, n, vars(torch.Tensor).get(n)) for n in ("item", "numpy")]
        self._plain += [(math, n, getattr(math, n)) for n in math_functions()]
        torch.Tensor.new_tensor = lambda x, *a, **k: self._come_back(partial(like, x), *a, **k)  # type: ignore[method-assign]
        told = self.left.told
        setattr(torch.Tensor, "tolist", lambda x: told(tolist(self._leaving(x) if is_float(x) else x)))  # noqa: B010
        setattr(torch.Tensor, "item", lambda x: self._told_if_seen(item, x))  # noqa: B010
        setattr(torch.Tensor, "numpy", arrays(torch.Tensor.numpy, self._is_off, self._estimate))  # noqa: B010
        vars(math).update(math_functions())
        for name in ("tensor", "as_tensor"):
            setattr(torch, name, partial(self._come_back, getattr(torch, name)))
        super().__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        for owner, name, plain in self._plain:
            delattr(owner, name) if plain is None else setattr(owner, name, plain)

    def _leaving(self, x: torch.Tensor) -> torch.Tensor:
        """The float64 values of a tensor whose elements become Python numbers; their errors are kept by value."""
        with Unseen():
            values, errors = self.value(x).detach(), self.error(x)
            flat = (x.reshape(-1).numpy().tolist() for x in (values, errors))
            for value, error in zip(*flat, strict=True):  # a function mode around calls this name twice
                self.left.put(value, max(error, self.left.get(value, 0.0)))
        return values

    def _number(self, func: Any, x: torch.Tensor) -> Any:
        """`item()`: the float64 value, unless a whole number lies between it and what the reference itself sees."""
        native, wide = func(x), float(self.value(x))
        error = float(self.error(x))
        if math.isfinite(native) and math.isfinite(wide) and math.floor(native) != math.floor(wide):
            wide, error = native, error + abs(native - wide)
        self.left.put(wide, error)
        self.left.as_plain(wide, error, sys._getframe(1))
        self._numbers_left += 1
        return wide

    def _told_if_seen(self, item: Callable[[torch.Tensor], Any], x: torch.Tensor) -> Any:
        """A number of the reference's; one that is asked for where no mode looks is ours."""
        self._numbers_left = 0
        value = item(x)
        return self.left.told(value) if self._numbers_left else value

    def _is_off(self, x: torch.Tensor) -> bool:
        with Unseen():
            return self.unit is not None and is_float(x) and bool((self.error(x) > 0).any())

    def _estimate(self) -> None:
        self.estimated = True

    def _come_back(self, plain: Callable[..., Any], data: Any, *args: Any, **kwargs: Any) -> Any:
        """A tensor made of numbers stands for them, as they were written or left torch before, off by its rounding."""
        out = plain(data, *args, **kwargs)
        if is_float(out) and isinstance(data, (list, tuple, float)) and _numbers(data):
            with Unseen():
                wide = plain(data, dtype=F64)
                unknown = np.nan if self.left.is_unknown(data, sys._getframe(1)) else 0.0
                known = [self.left.get(v, unknown) for v in wide.reshape(-1).numpy().tolist()]
                errors = (wide - out).abs() + torch.from_numpy(np.array(known)).reshape(wide.shape)
                self.shadows.put(out, wide, errors)
        return out

    def value(self, x: torch.Tensor) -> torch.Tensor:
        """The float64 value of a tensor that came out of the run."""
        return self.shadows.of(x) if is_float(x) else x.detach()

    def error(self, x: torch.Tensor) -> torch.Tensor:
        found = self.shadows.error_of(x) if is_float(x) else None
        return torch.zeros(x.shape, dtype=F64) if found is None else found

    def found(self, x: torch.Tensor, value: np.ndarray, error: np.ndarray, estimated: bool) -> None:
        """A kernel left this in a tensor (`render.entry.kernels`)."""
        self.estimated = self.estimated or estimated
        self.shadows.put(x, torch.from_numpy(value), torch.from_numpy(error))

    def widen(self, x: torch.Tensor, more: torch.Tensor) -> None:
        """The error of x is larger by `more`."""
        self.shadows.put(x, self.value(x).clone(), self.error(x) + more)

    def release(self) -> None:
        """Forget every shadow: those of large inputs would otherwise live as long as the notes."""
        self.shadows = Shadows()

    @in_parts
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if noise.base_name(func) == "nan_to_num":  # what it puts in their place is a number of the operand's own type
            args = (*args, *(None,) * (4 - len(args)))
            least, most = torch.finfo(args[0].dtype).min, torch.finfo(args[0].dtype).max
            args = (*args[:2], most if args[2] is None else args[2], least if args[3] is None else args[3])
        if noise.base_name(func) == "_local_scalar_dense" and is_float(args[0]):
            return self._number(func, args[0])
        if noise.base_name(func) == "copy" and all(is_complex(x) and not x.is_conj() for x in args[:2]):
            self.__torch_dispatch__(func, types, (*map(torch.view_as_real, args[:2]), *args[2:]), kwargs)
            return args[0]
        if noise.base_name(func) == "set":  # another storage, with the shadow that it has
            return func(*args, **kwargs)
        if noise.base_name(func) == "copy" and not is_float(args[0]) and self.shadows.copied(args[0], args[1]):
            return func(*args, **kwargs)
        inputs = [x for x in leaves_of((args, kwargs)) if isinstance(x, torch.Tensor)]
        known = {x.untyped_storage()._cdata for x in inputs}
        mutable = func._schema.is_mutable
        if func.is_view:  # nothing to repeat, and no shadow of all that it is a part of
            out = func(*args, **kwargs)
            if known.issuperset(x.untyped_storage()._cdata for x in leaves_of(out) if is_float(x)):
                return out
        like = not mutable and noise.base_name(func) in LIKE  # a shape is no number: no shadow of all of it is made
        twins, errors = self._beside((args, kwargs), inputs, mutable, like)
        out = func(*args, **kwargs)
        self.narrow = self.narrow or any(x.dtype.itemsize < 4 for x in leaves_of(out) if is_float(x))
        if mutable:
            self._drop_reinterpreted(func, args)
        if self.decides and any(map(is_float, inputs)):
            self._decide(func, twins, out)
        changed = [x for x in leaves_of(out) if is_float(x) and (mutable or x.untyped_storage()._cdata not in known)]
        strange = [x for x in leaves_of(out) if is_complex(x) and (mutable or x.untyped_storage()._cdata not in known)]
        if strange and noise.base_name(func) not in MADE:
            self._of_complex(func, [torch.view_as_real(x.conj() if x.is_conj() else x) for x in strange])
        if changed and any(map(is_complex, inputs)):
            self._of_complex(func, changed)
        elif changed:
            self._follow(func, twins, errors, out, changed, kwargs.get("dtype"))
        return out

    def _beside(self, nested: Any, inputs: list[Any], mutable: bool, like: bool = False) -> tuple[Any, list[Any]]:
        """What an operation is computed of in float64, and errors of its tensors; `like`: its shape alone counts."""
        twins = mapped(_of_shape if like else self._twin(mutable), nested)
        known = () if self.unit is None or like else inputs
        errors = [self.shadows.error_of(x) if is_float(x) else None for x in known]
        errors = [e.clone() if mutable and e is not None else e for e in errors]
        for x in (x for x in inputs if mutable and is_float(x)):
            self.shadows.keep(x)
        return twins, errors

    def _twin(self, mutable: bool) -> Callable[[Any], Any]:
        """Shadows for tensors, float64 for dtypes; copies if the operation is going to write."""

        def twin(x: Any) -> Any:
            if isinstance(x, torch.Tensor):
                x = self.shadows.of(x) if is_float(x) else x
                return x.clone() if mutable else x
            if isinstance(x, Number):
                return float(x)  # what is asked of it from here on is no decision of the reference's
            return F64 if isinstance(x, torch.dtype) and x.is_floating_point else x

        return twin

    def _decide(self, func: Any, twins: Any, out: Any) -> None:
        """Integers and truth values that come of floats, as they come of the float64 ones."""
        told = [x for x in leaves_of(out) if isinstance(x, torch.Tensor) and not (is_float(x) or x.is_complex())]
        if not told or noise.base_name(func) in noise.RANDOM:
            return
        args, kwargs = mapped(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, twins)
        wide = [x for x in leaves_of(func(*args, **kwargs)) if isinstance(x, torch.Tensor) and not is_float(x)]
        for x, other in zip(told, wide, strict=True):
            x.copy_(other)

    def _drop_reinterpreted(self, func: Any, args: Any) -> None:
        """A float storage written through an integer view has bits that its shadow knows nothing of."""
        for spec, value in zip(func._schema.arguments, args, strict=False):
            written = spec.alias_info is not None and spec.alias_info.is_write
            if written and isinstance(value, torch.Tensor) and not self.shadows.matches(value):
                self.shadows.drop(value)

    def _follow(
        self, func: Any, twins: Any, errors: list[Any], out: Any, changed: list[torch.Tensor], dtype: Any
    ) -> None:
        """Repeat `func` on the shadows and record the results as the shadows of `out`."""
        operation = Movable(func, twins[0], twins[1], errors, default_dtype)
        if self.unit is not None and self.unit.casts:
            operation.cast_operands(dtype)
        if operation.name in noise.RANDOM:
            self._note(f"{operation.name}: random numbers are taken as given")
            for x in changed:
                given = self.tape[len(self.drawn)] if len(self.drawn) < len(self.tape) else None
                self.drawn.append(x.detach().clone())
                self.shadows.drop(x)
                if given is not None and given.shape == x.shape and given.dtype != x.dtype:
                    self.shadows.lend(x, given)
            return
        natives = leaves_of(out)
        try:
            values, bounds = self._carried(operation, natives)
        except Exception as error:
            caught(error, f"float64 beside {operation.name}")
            self._note(f"{operation.name} was taken at the reference's own precision ({type(error).__name__})")
            self._taken_natively(changed)
            return
        held = [*operation.leaves, *operation.errors.values()]
        for x, value, bound in zip(natives, values, bounds, strict=True):
            if any(x is c for c in changed):
                keep = self.shadows.put if self.made is not None else partial(self.shadows.adopt, among=held)
                keep(x, value, bound)
                held += [value, bound]
                if self.lost is not None and value.numel():
                    off = (x.detach().to(F64) - value).abs().max() / value.abs().max().clamp(min=1e-300)
                    self.lost.append((operation.name, *_line(), float(off)))
                if self.made is not None:
                    self.made.append((operation.name, value, torch.zeros_like(value) if bound is None else bound))

    def carried(self, operation: Movable, like: torch.Tensor) -> tuple[list[Any], list[torch.Tensor | None]]:
        """Results in float64 and their errors, of an operation whose own results have the type of `like`."""
        return self._carried(operation, [like] * len(operation.func._schema.returns))

    def _carried(self, operation: Movable, natives: list[Any]) -> tuple[list[Any], list[torch.Tensor | None]]:
        return self._in_steps(operation) or self._at_once(operation, natives)

    def _at_once(self, operation: Movable, natives: list[Any]) -> tuple[list[Any], list[torch.Tensor | None]]:
        values = operation.run()
        if self.unit is None:
            return values, [None] * len(values)
        dtypes = [getattr(x, "dtype", None) for x in natives]
        if self.unit.partly and not has_rule(operation):
            return values, [None] * len(values)
        if self.unit.partly and (known := self._least.of(operation, values, dtypes[0], self.unit)) is not None:
            return values, known
        bounds = error_of(operation, values, dtypes, self.unit, self.round_scalars)
        if self.unit.constants and operation.name not in noise.EXACT_OPS and _is_fixed(operation):
            bounds = [_constant(x, bound, self.unit.constants) for x, bound in zip(values, bounds, strict=True)]
        if self.left:
            add_numbers(operation, values, bounds, self.left)
        self.estimated = self.estimated or operation.estimated
        return values, bounds

    def _in_steps(self, operation: Movable) -> tuple[list[Any], list[torch.Tensor | None]] | None:
        """(values, bounds) of a composite operation, by its definition as steps that have rules; None without one.

        torch's own decompositions are the definition; the value is theirs as well, so that the bound belongs to it. How
        a fused kernel rounds at the reference's own dtype does not follow from them: that stays an estimate.
        """
        if self.unit is None or self.unit.native or operation.func._schema.is_mutable or has_rule(operation):
            return None
        found = next(filter(None, (rule(operation, self.unit) for rule in (carried, solved, counted))), None)
        found = found or self._decomposed(operation)
        if found is None or not self.round_scalars:
            return found
        values, bounds = found
        total = {i: bound for i, bound in enumerate(bounds) if is_float(values[i])}
        add_constants(operation, values, list(total), total)
        return values, [total.get(i) for i in range(len(values))]

    def _decomposed(self, operation: Movable) -> tuple[list[Any], list[torch.Tensor | None]] | None:
        from torch._decomp import decomposition_table

        own = STEPS.get(operation.name)
        steps = own or decomposition_table.get(operation.func, operation.func.decompose)
        inner, leaves = ShadowMode(self.unit), list(operation.leaves)
        for i in operation.tensors:
            if is_float(leaves[i]):
                leaves[i] = leaves[i].detach().contiguous()
                inner.shadows.put(leaves[i], leaves[i], operation.errors.get(i))
        args, kwargs = refilled(operation.nested, iter(leaves))
        with default_dtype(F64), inner:
            found = steps(*args, **kwargs)
        if found is NotImplemented:
            return None
        results = leaves_of(found)
        values = [inner.value(x) if isinstance(x, torch.Tensor) else x for x in results]
        bounds = {i: inner.error(x) for i, x in enumerate(results) if is_float(x)}
        if own is not None and not _agree(values, bounds, operation):
            return None
        self.estimated = self.estimated or inner.estimated
        return values, [bounds.get(i) for i in range(len(values))]

    def _of_complex(self, func: Any, changed: list[torch.Tensor]) -> None:
        """Complex numbers that do not go by their parts (`render.ops.complexes`) have no float64 beside them."""
        self._note(f"{noise.base_name(func)} of complex numbers was taken at the reference's own precision")
        self._taken_natively(changed)

    def _taken_natively(self, changed: list[torch.Tensor]) -> None:
        self.estimated = True
        for x in changed:
            self.shadows.drop(x)
            if self.unit is not None:
                u, floor = noise.Unit(native=True).rounding(x.dtype)
                value = self.shadows.of(x)
                self.shadows.put(x, value, noise.OPERAND_FACTOR * (u * value.abs() + floor))

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


class FusedAttention(TorchFunctionMode):
    """Fused attention rounds its probabilities to the dtype of the values, which its definition does not.

    |sum_j (p_j - fl(p_j)) v_j| <= u sum_j p_j |v_j|: attention to the magnitudes of the values. Twice that, for
    probabilities that are rescaled from block to block.
    """

    def __init__(self, mode: ShadowMode) -> None:
        super().__init__()
        self.mode = mode

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func is not torch.nn.functional.scaled_dot_product_attention or not is_float(out):
            return out
        given = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args, strict=False))
        given |= kwargs or {}
        unit = noise.Unit(native=True)
        u = unit.rounding(out.dtype)[0]
        if u > unit.inner(out.dtype) and not given.get("dropout_p"):
            size = func(**{**given, "value": given["value"].abs()})
            self.mode.widen(out, 2 * u * self.mode.value(size))
        return out


class NarrowWatch(Trail):
    """Notices whether anything narrower than float64 is computed or drawn inside, and counts all elements computed.

    Random numbers of another dtype are other numbers: a run that draws float64 ones is no run of the same reference.
    """

    def __init__(self) -> None:
        super().__init__()
        self.narrow: str | None = None
        self.dtypes: set[torch.dtype] = set()
        self.drawn = False
        self.elements = 0

    @in_parts
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = super().__torch_dispatch__(func, types, args, kwargs)
        made = [x for x in leaves_of(out) if is_float(x)]
        self.elements += sum(x.numel() for x in made)
        self.drawn = self.drawn or noise.base_name(func) in noise.RANDOM
        self.dtypes.update(x.dtype for x in made)
        if self.narrow is None and any(x.dtype != F64 for x in made):
            self.narrow = noise.base_name(func)
        return out
