r"""How errors of the operands of one PyTorch operation reach its results: running error analysis, first order.

    sums of products     |op|(|x| + e) - |op|(|x|), |op| with magnitudes for coefficients: rigorous
    elementwise          sum over operands of max |f(x_i +- e_i) - f(x)|: exact for monotone f, else first order
    moves, max, sort     all operands together: max |f(x +- e) - f(x)|; rigorous, as each is monotone in all of them
    softmax              y e^{e_i} / sum_j y_j e^{-e_j} - y: rigorous
    anything else        the largest movement under a few random choices of signs, times `SAFETY`: an estimate

To these the operation's own error (`local_error`) is added. Source of the scheme: Higham, ASNA, sec. 3.3.

A trap: at float64's own error level, f(x + e) - f(x) is itself lost in float64 rounding. Differences are therefore
taken over a step `STEP` times as long and divided by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from interval_ops.functions.tables import FUNCTIONS, Monotone, Pole
from render.entry.left_errors import LeftErrors
from render.ops import single
from render.ops.aten import ATEN, Form, addends, of_form, scalar_arguments
from render.ops.dtypes import BEYOND
from render.ops.nested import leaves_of, refilled
from render.reference import distances, passes, softmaxes
from render.reference import local_error as noise
from render.reference.shares import magnitudes
from render.reference.twins import is_float as _is_float

F64 = torch.float64
STEP = 2.0**16
TINY = 2.0**-40
SAFETY = 4.0
TRIALS = 3
_CASTS = frozenset(["_to_copy", "copy", "fill", "full", "scalar_tensor", "full_like", "new_full"])
_PUTS = frozenset(["index_put", "_index_put_impl", "put"])
_ELEMENTWISE = noise.EXACT_OPS | noise.ARITHMETIC | noise.FUNCTIONS | noise.TERMS.keys() | _CASTS


class Movable:
    """One operation on float64 operands, to be evaluated at moved operands as often as needed.

    `errors` aligns with the tensors among the operands (None: exact). Nothing that `run` gets is written to.
    """

    def __init__(self, func: Any, args: Any, kwargs: Any, errors: list[Any], default_dtype: Callable[..., Any]) -> None:
        self.func = func
        self.name = noise.base_name(func)
        if self.name in noise.SOFTMAX:  # half_to_float wants a half operand
            args = (*args[:2], False) if self.name != "_safe_softmax" else args[:2]
        if self.name in noise.MULTILINEAR:  # factors of terms, whose magnitudes count
            places = {i for i, _ in scalar_arguments(func._schema)}
            args = tuple(float(x) if i in places and isinstance(x, int) else x for i, x in enumerate(args))
            kwargs = {k: float(x) if k in ("alpha", "beta") and isinstance(x, int) else x for k, x in kwargs.items()}
        self.args, self.kwargs = args, kwargs
        self.nested = args, kwargs
        self.leaves = leaves_of(self.nested)
        self.tensors = [i for i, x in enumerate(self.leaves) if isinstance(x, torch.Tensor)]
        self.errors = dict(zip(self.tensors, errors, strict=False)) if errors else {}
        self.errors = {i: e for i, e in self.errors.items() if e is not None}
        self.estimated = False
        self._default_dtype = default_dtype

    @property
    def adds(self) -> bool:
        """Whether a movement adds to what is there (`accumulate`, `reduce`)."""
        names = [a.name for a in self.func._schema.arguments]
        return any(
            name in ("accumulate", "reduce") and place < len(self.args) and bool(self.args[place])
            for place, name in enumerate(names)
        ) or any(self.kwargs.get(name) for name in ("accumulate", "reduce"))

    @property
    def computes(self) -> bool:
        """Whether its result is a function of its operands alone, in place or not; not where it goes into another."""
        schema = self.func._schema
        return not schema.is_mutable or schema.name.endswith("_")

    @property
    def accumulates(self) -> bool:
        """Whether it adds, and does nothing else, at the places that it is given."""
        return self.adds and (self.name in _PUTS or "add" in self._told or "sum" in self._told)

    @property
    def _told(self) -> tuple[str, ...]:
        return tuple(x for x in self.leaves if isinstance(x, str))

    def cast_operands(self, dtype: torch.dtype | None) -> None:
        """`torch.sum(x, dtype=torch.float16)` casts its operand first."""
        if dtype is None or self.name in _CASTS or self.name in noise.EXACT_OPS:
            return
        for i in self.tensors:
            error = noise.cast_error(self.leaves[i], dtype, self.errors.get(i)) if _is_float(self.leaves[i]) else None
            if error is not None:
                self.errors[i] = self.errors[i] + error if i in self.errors else error

    def run(self, change: Callable[[int, Any], Any] | None = None) -> list[Any]:
        """The flat results, with `change(place, operand)` applied to the operands."""
        leaves = self.leaves if change is None else [change(i, x) for i, x in enumerate(self.leaves)]
        if self.func._schema.is_mutable:
            leaves = [x.clone() if isinstance(x, torch.Tensor) else x for x in leaves]
        args, kwargs = refilled(self.nested, iter(leaves))
        one = None if kwargs else single.in_double(self.name, args)
        with self._default_dtype(F64):
            return leaves_of(self.func(*args, **kwargs)) if one is None else [one]

    def magnitudes(self, grown: bool = False, above: bool = False) -> list[Any]:
        """Results for magnitudes of operands and coefficients, `grown` by errors; `above`: as much or little more."""

        def positive(i: int, x: Any) -> Any:
            if _is_float(x):
                return x.abs() + self.errors[i] if grown and i in self.errors else x.abs()
            return abs(x) if isinstance(x, float) else x

        # Of exact operands alone: what errors add would be a small difference of two such bounds.
        if single.is_summed(self.name) and (above or not self.errors) and (one := self._single(positive)) is not None:
            return [one]
        found = self.run(positive)
        return [(x.abs_() if x.is_contiguous() else x.abs()) if _is_float(x) else x for x in found]

    def _single(self, positive: Callable[[int, Any], Any]) -> torch.Tensor | None:
        """Magnitudes of a convolution from float32; None where that does not hold them."""
        floats = [i for i, x in enumerate(self.leaves) if _is_float(x)]

        def run(small: Sequence[torch.Tensor]) -> torch.Tensor:
            found: torch.Tensor = self.run(lambda i, x: dict(zip(floats, small, strict=True)).get(i, x))[0]
            return found

        whole = [positive(i, self.leaves[i]) for i in floats]
        return single.above(run, whole, addends(self.name, self.args, 1), self.args)

    @property
    def is_linear(self) -> bool:
        """Whether it is a loss without weights, a mean or sum of chosen elements."""
        return self.name in noise.LOSSES and self.args[2] is None


def has_rule(op: Movable) -> bool:
    """Whether its error follows from its form, and need not be estimated."""
    known = noise.MULTILINEAR | _ELEMENTWISE | noise.SOFTMAX | distances.DISTANCES.keys()
    return op.accumulates or op.is_linear or (op.name in known and not op.adds)


def error_of(
    op: Movable, values: list[Any], dtypes: list[Any], unit: noise.Unit, round_scalars: bool
) -> list[torch.Tensor | None]:
    """Error bound of each result (None: exact). `dtypes` are those that the reference itself gives the results."""
    floats = [i for i, x in enumerate(values) if _is_float(x)]
    if op.is_linear or (op.name in noise.MULTILINEAR and op.computes):
        total = _multilinear(op, values, floats, dtypes, unit)
    elif op.name in noise.SOFTMAX:
        total = {i: softmaxes.error(op, values[i], dtypes[i], unit) for i in floats}
    elif op.name in distances.DISTANCES:
        total = {i: distances.error(op, values[i], dtypes[i], unit) for i in floats}
    elif op.name in _ELEMENTWISE and not op.adds:
        total = {} if noise.counts(op, values, dtypes) else _elementwise(op, values, floats, dtypes, unit)
    elif op.accumulates:
        total = _accumulated(op, values, floats, dtypes, unit)
    else:
        total = _sampled(op, values, floats, dtypes, unit)
    if round_scalars:
        native = dtypes if unit.native and op.name in _TAKING else ()
        add_constants(op, values, floats, total, unit.scale, next((d for d in native if d is not None), torch.float32))
    return [total.get(i) for i in range(len(values))]


Errors = dict[int, Any]


def _multilinear(op: Movable, values: list[Any], floats: list[int], dtypes: list[Any], unit: noise.Unit) -> Errors:
    sizes, grown = magnitudes(op, unit)
    found: Errors = {}
    times = 1.0 if grown is sizes or unit.attainable else 2.0
    for i in floats:
        if noise.is_transformed(op.name, op.args, dtypes[i], unit):
            sizes, grown, op.estimated = [noise.tile(x) for x in sizes], [noise.tile(x) for x in grown], True
        given = [grown[i], sizes[i], values[i]]
        per_term, u, floor = noise.sum_rates(op.name, op.args, values[i].numel(), dtypes[i], unit)
        if all(x.is_contiguous() and x.dtype == F64 for x in given):
            out = torch.empty_like(values[i])
            most, least, value = map(passes.flat, given)
            if passes.carry_sum(most, least, value, per_term, u, floor, times, passes.flat(out)):
                found[i] = out
                continue
        own = per_term * grown[i] + u * values[i].abs() + floor
        total = times * own + (grown[i] - sizes[i]).clamp(min=0)
        found[i] = _less_infinities(op, values[i], total, elementwise=False)
    return found


def _accumulated(op: Movable, values: list[Any], floats: list[int], dtypes: list[Any], unit: noise.Unit) -> Errors:
    """Sums of what is there and what is added at some places: linear, at most one addend per element and place."""
    sizes, grown = op.magnitudes(), op.magnitudes(grown=True)
    addends = max((x.numel() for x in op.leaves if _is_float(x)), default=1)
    found: Errors = {}
    for i in floats:
        u, floor = unit.rounding(dtypes[i])
        total = addends * u * grown[i] + (grown[i] - sizes[i]).clamp(min=0) + u * values[i].abs() + floor
        found[i] = _less_infinities(op, values[i], total, elementwise=False)
    return found


def _elementwise(op: Movable, values: list[Any], floats: list[int], dtypes: list[Any], unit: noise.Unit) -> Errors:
    if (whole := _at_once(op, values, dtypes, unit)) is not None:
        return {0: whole}
    together = op.name in noise.EXACT_OPS or op.name in _CASTS
    groups = [list(op.errors)] if together else [[i] for i in op.errors]
    found: Errors = (_direct(op, values) or {}) if op.errors else {}
    if (extreme := _extreme(op, values)) is not None:
        found = {0: extreme}
    for places in groups if op.errors and not found else []:
        for i, moved in _movement(op, values, floats, places).items():
            found[i] = moved if i not in found else found[i] + moved
    for i in floats:
        if op.name in _CASTS:
            own = noise.cast_error(values[i], dtypes[i], found.get(i)) if unit.casts else None
            own = own if own is None else own * unit.scale
        else:
            own = noise.local_error(op.name, op.args, values[i], dtypes[i], unit, op.kwargs)
        if own is not None:
            own = _less_infinities(op, values[i], own, elementwise=True)
            found[i] = own if i not in found else found[i] + own
    return found


def _at_once(op: Movable, values: list[Any], dtypes: list[Any], unit: noise.Unit) -> torch.Tensor | None:
    """Moved and own error of a product or sum of two, or of one and a number, in one pass; None for others."""
    if (op.name != "mul" and op.name not in noise.SUMS) or len(op.args) != 2 or op.kwargs or op.func._schema.is_mutable:
        return None
    (value,) = values
    operands = [x if _is_float(x) else float(x) for x in op.args if _is_float(x) or isinstance(x, (int, float))]
    if len(operands) < 2 or value.dtype != F64 or not value.is_contiguous():
        return None
    given, shape = [*operands, *(op.errors.get(i, 0.0) for i in (0, 1))], value.shape
    if all(x.shape == shape and x.is_contiguous() for x in given if isinstance(x, torch.Tensor)):
        given, shape = [x.view(-1) if isinstance(x, torch.Tensor) else x for x in given], value.view(-1).shape
    rows = [passes.rows(x, shape) for x in given]
    if any(x is None for x in rows):
        return None
    out, width, rounding = torch.empty_like(value), shape[-1] if shape else 1, unit.rounding(dtypes[0])
    a, b, e, f = rows
    known = passes.carry_two(passes.flat(value), width, a, b, e, f, rounding, op.name == "mul", passes.flat(out))
    return out if known else None


def _direct(op: Movable, values: list[Any]) -> Errors | None:
    """Movements that need no second evaluation: moved elements take their errors along, |a| e_b + |b| e_a of a product.

    The same as `_movement` finds; None for other operations, and where something is not finite.
    """
    schema = op.func._schema
    if schema.is_mutable or len(values) != 1 or not _is_float(values[0]):
        return None
    if op.name == "_to_copy" and values[0].dtype == F64:
        moved: torch.Tensor = op.errors[0]
        return {0: moved} if bool(moved.sum().isfinite()) and bool(values[0].sum().isfinite()) else None
    if op.name == "masked_fill" and not isinstance(op.args[2], torch.Tensor):
        out = torch.empty(values[0].shape, dtype=F64)
        given = [x.expand(out.shape).contiguous() for x in (op.errors[0], op.args[1], values[0])]
        return {0: out} if passes.carry_masked(*map(passes.flat, (*given, out))) else None
    if op.name in _MOVES and not any(str(a.type) in ("number", "float", "Optional[number]") for a in schema.arguments):
        moved = op.run(lambda i, x: op.errors.get(i, torch.zeros_like(x)) if _is_float(x) else x)[0]
    elif (op.name == "mul" or op.name in noise.SUMS) and len(op.args) == 2 and not op.kwargs:
        (a, b), (e, f) = op.args, (op.errors.get(i, 0.0) for i in (0, 1))
        if not all(_is_float(x) or isinstance(x, (int, float)) for x in (a, b)):
            return None
        moved = torch.as_tensor(abs(b) * e + abs(a) * f if op.name == "mul" else e + f, dtype=F64)
        moved = moved if moved.shape == values[0].shape else moved.expand(values[0].shape)
        if op.name in noise.SUMS and bool(moved.sum().isfinite()) and bool(values[0].isinf().any()):
            return _beside_infinities(values[0], (a, b), moved)
    else:
        return None
    return {0: moved} if bool(moved.sum().isfinite()) and bool(values[0].sum().isfinite()) else None


def _beside_infinities(value: torch.Tensor, operands: tuple[Any, Any], moved: torch.Tensor) -> Errors | None:
    """A sum with infinite operands, as a mask makes: these stay where they are. None where finite ones overflowed."""
    given = [torch.as_tensor(x, dtype=F64).isinf() for x in operands]
    infinite = value.isinf()
    if bool(value.isnan().any()) or not torch.equal(infinite, (given[0] | given[1]).expand(value.shape)):
        return None
    return {0: moved.masked_fill(infinite, 0.0)}


def _extreme(op: Movable, values: list[Any]) -> torch.Tensor | None:
    """What `_movement` finds of largest or smallest elements of rows, in one pass; None for others."""
    if op.name not in _EXTREMES or len(values) != 1 or list(op.errors) != [0] or len(op.args) < 2:
        return None
    (x, dims, *_), (error,), (value,) = op.args, op.errors.values(), values
    given = (x, error, value)
    if any(y.dtype != F64 or not y.is_contiguous() for y in given) or x.shape != error.shape or not x.numel():
        return None
    if list(dims) not in ([-1], [x.dim() - 1]):
        return None
    out = torch.empty_like(value)
    flat = [passes.flat(y) for y in (*given, out)]
    step, sign = _step(op, [0]), _EXTREMES[op.name]
    return out if passes.carry_extreme(flat[0], flat[1], flat[2], step, sign, flat[3]) else None


_EXTREMES = {"amax": 1.0, "amin": -1.0}
_CONVEX = frozenset(["exp", "exp2"])
"""Increasing functions that upward errors move further than downward ones."""
_MOVES = of_form(Form.MOVE)


def _has_poles(name: str) -> bool:
    """Whether its domain ends at a finite number other than 0, or it has poles inside."""
    known = FUNCTIONS[name]
    return isinstance(known, Pole) or (
        isinstance(known, Monotone) and any(math.isfinite(end) and end for end in known.domain)
    )


_POLES = {"logit", "digamma"} | {name for name, op in ATEN.items() if op.function and _has_poles(op.function)}
"""Functions that may be infinite at another finite number than 0."""
_FAR = 1000
"""Powers of two that finite products may reach: sums of them do not leave float64's range."""


def _less_infinities(op: Movable, value: torch.Tensor, own: torch.Tensor, elementwise: bool) -> torch.Tensor:
    """Own errors with 0 at infinities that are exact: they come of an infinite operand, or stand at a pole.

    -inf + 1, exp(-inf), log(0) and 1/0 are what real arithmetic extended by two infinities gives; an infinity that
    finite operands away from a pole give is float64's overflow, and nothing is known of its value.
    """
    if bool(value.sum().isfinite()):
        return own
    infinite = value.isinf()
    if not bool(infinite.any()):
        return own
    operands = [x for x in op.leaves if _is_float(x) or isinstance(x, float)]
    tensors = [torch.as_tensor(x, dtype=F64) for x in operands]
    if elementwise:
        exact = infinite if op.name in _POLES else torch.zeros_like(infinite)
        for x in tensors:
            at = x.isinf() | (x == 0)
            exact = (
                exact | (at if at.shape == exact.shape else at.expand(exact.shape))
                if passes.fits(at, exact.shape)
                else exact
            )
    else:
        largest = [float(x.masked_fill(x.isinf(), 0).abs().nan_to_num().max()) for x in tensors if x.numel()]
        given = any(bool(x.isinf().any()) for x in tensors)
        exact = infinite & (given and max(largest, default=0.0) < 2.0 ** (_FAR / len(largest)))
    return torch.where(infinite & exact, 0.0, own)


def _step(op: Movable, places: list[int]) -> float:
    """`STEP` where every error is tiny beside its operand, so that the longer step still sees a straight line."""
    return STEP if all(passes.is_within(op.errors[i], op.leaves[i], TINY) for i in places) else 1.0


def _movement(op: Movable, values: list[Any], floats: list[int], places: list[int]) -> Errors:
    """How far the results move when the operands at `places` move by their errors, up or down, all alike."""
    step = _step(op, places)
    found: Errors = {}
    for sign in (step,) if op.name in _CONVEX else (step, -step):
        moved = op.run(lambda i, x, sign=sign: x + sign * op.errors[i] if i in places else x)  # type: ignore[misc]
        for i in floats:
            found[i] = _gap(moved[i], values[i], step, found.get(i))
    return found


def _gap(
    moved: torch.Tensor, value: torch.Tensor, step: float = 1.0, least: torch.Tensor | None = None
) -> torch.Tensor:
    """|moved - value| / step; 0 where they are the same infinity or NaN, infinite where one of them is not finite.

    At least `least`, which is overwritten. `step` is a power of two.
    """
    if moved.shape != value.shape or moved.dtype != F64 or value.dtype != F64:
        moved, value = (x.to(F64) for x in torch.broadcast_tensors(moved, value))
    out = torch.zeros(value.shape, dtype=F64) if least is None else least
    one, other = (x.detach().contiguous().view(-1).numpy() for x in (moved, value))
    passes.gaps(one, other, 1 / step, out.view(-1).numpy())
    return out


def _sampled(op: Movable, values: list[Any], floats: list[int], dtypes: list[Any], unit: noise.Unit) -> Errors:
    """No rule: move every operand by its error and a few roundings, at random signs."""
    op.estimated = True
    dtype = next((d for d in dtypes if d is not None and d.is_floating_point), F64)
    sums = noise.gradient_sums(op.name, op.args) if unit.native else None
    # In the operands' own type: sums of gradients, and factors and shifts of channels of a batch norm.
    own = sums is not None or (unit.native and "batch_norm" in op.name and not op.name.endswith("backward"))
    relative = (1.0 if unit.attainable else noise.OPERAND_FACTOR) * unit.inner(dtype) + (
        unit.rounding(dtype)[0] if own else 0.0
    )
    generator = torch.Generator().manual_seed(0x5EED)
    step = 1.0 if unit.native else _step(op, list(op.errors))

    def move(i: int, x: Any) -> Any:
        if not _is_float(x):
            return x
        reach = relative * x.abs().masked_fill(x.isinf(), 0.0) + op.errors.get(i, 0.0)
        signs = torch.randint(0, 2, x.shape, generator=generator).to(F64).mul_(2).sub_(1)
        return x + step * reach * signs

    found: Errors = {i: torch.zeros_like(values[i]) for i in floats}
    for _ in range(TRIALS):
        moved = op.run(move)
        for i in floats:
            found[i] = torch.maximum(found[i], _gap(moved[i], values[i]) / step)
    for i in floats:
        u, floor = unit.rounding(dtypes[i])
        found[i] = SAFETY * found[i] + 2 * u * values[i].abs() + floor
    if sums is not None:
        addends, *sizes = sums
        for i, size in zip((1, 2), sizes, strict=True):
            if i in found:
                found[i] = found[i] + addends * unit.rounding(dtype)[0] * size.reshape(found[i].shape)
    return found


_TAKING = noise.EXACT_OPS | {name for name, op in ATEN.items() if op.typed}
"""Operations in which torch rounds Python numbers to the operands' own type."""


def add_constants(
    op: Movable, values: list[Any], floats: list[int], total: Errors, scale: float = 1.0,
    dtype: torch.dtype = torch.float32,
) -> None:  # fmt: skip
    """A Python number in a float32 program is its rounding to `dtype`: add how far that takes the results.

    Numbers beyond any data are what is written: they stand for infinities, and what depends on their roundings, as
    each element of a row that is masked as a whole would, is no matter of a rounding (`interpreter.memory.symbols`).
    """
    dtype = dtype if dtype in noise.TORCH_FORMATS and dtype != F64 else torch.float32
    most = min(torch.finfo(dtype).max, BEYOND)

    def rounded(i: int, x: Any) -> Any:
        return torch.tensor(x, dtype=dtype).item() if isinstance(x, float) and abs(x) < most else x

    if op.name == "linspace":
        _add_interpolated(op, values, floats, total)
    if all(rounded(i, x) == x for i, x in enumerate(op.leaves) if isinstance(x, float)):
        return
    moved = op.run(rounded)
    for i in floats:
        gap = scale * _gap(moved[i], values[i])
        total[i] = gap if total.get(i) is None else total[i] + gap


def add_numbers(op: Movable, values: list[Any], bounds: list[torch.Tensor | None], left: LeftErrors) -> None:
    """A Python number that left torch before is off by its error there: add how far that takes the results."""
    if not any(left.get(x) for x in op.leaves if isinstance(x, float)):
        return
    moved = op.run(lambda i, x: x + left.get(x, 0.0) if isinstance(x, float) else x)
    for i, value in enumerate(values):
        if _is_float(value):
            gap, own = _gap(moved[i], value), bounds[i]
            bounds[i] = gap if own is None else own + gap


def _add_interpolated(op: Movable, values: list[Any], floats: list[int], total: Errors) -> None:
    """The table that a float32 program makes: `start + i step` up to the middle, `end - (n - 1 - i) step` from there.

    Step, product and sum round: |error| <= (|end - start| + 2 max(|start|, |end|)) u <= 4 u max(|start|, |end|).
    """
    for i in floats:
        own = torch.full_like(values[i], 4 * 2.0**-24 * max(abs(float(x)) for x in op.args[:2]))
        total[i] = own if total.get(i) is None else total[i] + own
