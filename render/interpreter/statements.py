"""What rewritten kernel code calls: assignment, logic, comparison chains, loops and scalar truth."""

from __future__ import annotations

import builtins
import enum
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.language import core, math, semantic

from render.interpreter import rewrite
from render.interpreter.context import Context
from render.interpreter.control import Diverge
from render.interpreter.handle import Handle
from render.interpreter.lockstep import Rounds, Trips, active, uniform
from render.interpreter.recipes import Recipes
from render.interpreter.types import carrier

# Triton's own layers ask `if mask` to see whether there is one; only user code asks for a value.
_PRESENCE_FILES = {semantic.__file__, core.__file__, math.__file__}


def is_tensor(x: Any) -> bool:
    return isinstance(x, core.tensor)


def unwrap(x: Any) -> Any:
    return x.value if isinstance(x, core.constexpr) else x


def value_of(x: Any, parameter: bool) -> Any:
    """`x.value` in a kernel. Constants are plain values here, so one that is no constexpr stands for itself.

    `parameter`: x is one of the function's own; then an enumeration's member is what the constexpr holds.
    """
    if isinstance(x, enum.Enum) and parameter:
        return x
    return x.value if is_tensor(x) or hasattr(x, "value") else x


def scalar(ctx: Context, x: Any, what: str) -> Any:
    """A tensor of one element as a Python-usable value, for control flow; undecided truths taint what follows."""
    h: Handle = x.handle
    if int(np.prod(h.shape)) != 1:
        raise TypeError(f"a block of shape {list(h.shape)} cannot be used as {what}; reduce it to a scalar first")
    if h.lo is not None and h.dtype.scalar.is_int1() and (active(ctx, h.lo) != active(ctx, h.pair[1])).any():
        ctx.control_taint = ctx.control_taint | ctx.taint("RND303", "if", "the bounds leave open which branch is taken")
    if h.taint:
        ctx.control_taint = ctx.control_taint | h.taint
    return uniform(ctx, h.v)


class Statements:
    """The helpers, bound to the launch's context and semantic layer."""

    def __init__(self, ctx: Context, semantic_layer: Any, recipes: Recipes | None = None) -> None:
        self.ctx = ctx
        self.semantic = semantic_layer
        self.recipes = recipes

    def helpers(self) -> dict[str, Any]:
        return {
            rewrite.ASSIGN: self.assign,
            rewrite.AND: self.logical_and,
            rewrite.OR: self.logical_or,
            rewrite.NOT: self.logical_not,
            rewrite.CHAIN: self.chain,
            rewrite.ASSERT: self.device_assert,
            rewrite.LOOP: lambda names, free, idle: Rounds(self.semantic.builder, names, free, idle, self.recipes),
            rewrite.AGAIN: self.again,
            rewrite.VALUE: value_of,
        }

    def overrides(self) -> dict[str, Any]:
        """Python builtins that mean something else inside a kernel."""
        return {
            "range": self.range,
            "min": self.minimum,
            "max": self.maximum,
            "abs": self.absolute,
            "int": self.to_int,
            "float": self.to_float,
            "print": self.print,
        }

    def assign(self, value: Any) -> Any:
        if is_tensor(value):
            return value
        value = unwrap(value)
        if isinstance(value, (bool, int, float)):
            return self.semantic.to_tensor(value)
        if type(value) is builtins.tuple:
            return builtins.tuple(self.assign(v) for v in value)
        return value

    def _logic(self, thunks: tuple[Callable[[], Any], ...], method: str, stop: bool) -> Any:
        result = unwrap(thunks[0]())
        for thunk in thunks[1:]:
            if not is_tensor(result) and bool(result) is stop:
                return result
            right = unwrap(thunk())
            if not is_tensor(result):
                result = right
            elif is_tensor(right):
                result = getattr(self.semantic, method)(result, right)
            elif bool(right) is stop:
                return right
        return result

    def truth(self, x: Any) -> Any:
        """A tensor (or number) as int1, for conditions: Triton tests integers against zero."""
        x = self.semantic.to_tensor(x if is_tensor(x) else bool(x))
        if x.dtype.is_int1():
            return x
        return self.semantic.not_equal(x, self.semantic.to_tensor(0))

    def logical_and(self, *thunks: Callable[[], Any]) -> Any:
        return self._logic(thunks, "logical_and", False)

    def logical_or(self, *thunks: Callable[[], Any]) -> Any:
        return self._logic(thunks, "logical_or", True)

    def logical_not(self, x: Any) -> Any:
        return self.semantic.not_(x) if is_tensor(x) else not unwrap(x)

    def chain(self, operands: tuple[Any, ...], compare: tuple[Callable[[Any, Any], Any], ...]) -> Any:
        results = [c(x, y) for c, x, y in zip(compare, operands[:-1], operands[1:], strict=True)]
        return self.logical_and(*[lambda r=r: r for r in results])

    def device_assert(self, cond: Any, message: Any = "") -> None:
        """Fails when the kernel runs, whatever is asserted: `tl.static_assert` is what refuses to compile."""
        self.semantic.device_assert(self.truth(unwrap(cond)), str(unwrap(message)), None)

    def bool_of(self, x: Any) -> bool:
        """Truth of a tensor; called by the patched `__bool__`, whose caller decides what is being asked."""
        if sys._getframe(2).f_code.co_filename in _PRESENCE_FILES:
            return True
        if x.dtype.scalar.is_floating():  # compared with zero, within its bounds
            x = self.truth(x)
        return bool(self._uniform(x, "a condition"))

    def index_of(self, x: Any) -> int:
        return int(self._uniform(x, "a Python integer"))

    def _uniform(self, x: Any, what: str) -> Any:
        self.ctx.decisions += 1
        self.semantic.builder.emit("branch", (x.handle,), ())
        return scalar(self.ctx, x, what)

    def minimum(self, *args: Any, **kwargs: Any) -> Any:
        return self._extremum(builtins.min, self.semantic.minimum, args, kwargs)

    def maximum(self, *args: Any, **kwargs: Any) -> Any:
        return self._extremum(builtins.max, self.semantic.maximum, args, kwargs)

    def _extremum(self, plain: Any, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not any(is_tensor(a) for a in args):
            return plain(*(unwrap(a) for a in args), **kwargs)
        result = unwrap(args[0])
        for other in args[1:]:
            result = op(result, unwrap(other), core.PropagateNan.NONE)
        return result

    def absolute(self, x: Any) -> Any:
        return math.abs(x, _semantic=self.semantic) if is_tensor(x) else builtins.abs(unwrap(x))

    def to_int(self, x: Any) -> Any:
        return x if is_tensor(x) else builtins.int(unwrap(x))

    def to_float(self, x: Any) -> Any:
        return self.semantic.cast(x, tl.float32) if is_tensor(x) else builtins.float(unwrap(x))

    def print(self, *args: Any, **kwargs: Any) -> None:
        if wrong := kwargs.keys() - {"hex"}:
            raise TypeError(f"device_print() got an unexpected keyword argument {min(wrong)!r}")
        self.ctx.memory.say(" ".join(str(a.handle.v if is_tensor(a) else a) for a in args))

    def static_range(self, start: Any, stop: Any = None, step: Any = None, **hints: Any) -> Iterator[int]:
        first, last = (0, start) if stop is None else (start, stop)
        by = 1 if step is None else int(unwrap(step))
        for i in builtins.range(int(unwrap(first)), int(unwrap(last)), by):
            self.ctx.steps.tick()
            yield i

    def again(self, turns: Rounds, condition: Any) -> bool:
        """Whether a `while` goes on."""
        values = None
        if is_tensor(condition):
            try:
                condition = self.bool_of(condition)
            except Diverge as split:
                values = split.values.astype(np.bool_)
        return turns.again(condition, values, sys._getframe(1))

    def range(self, start: Any, stop: Any = None, step: Any = None, **hints: Any) -> Trips:
        """A device loop: the induction variable is a tensor; programs may begin anywhere."""
        if stop is None:
            start, stop = 0, start
        self.ctx.decisions += 1
        bounds = [self.semantic.to_tensor(unwrap(b)) for b in (start, stop, 1 if step is None else step)]
        for b in bounds:
            if b.handle.taint:
                self.ctx.control_taint = self.ctx.control_taint | b.handle.taint
        ty = bounds[0].dtype
        for b in bounds[1:]:
            ty = self.semantic.integer_promote_impl(ty, b.dtype)
        first, last, by = (b.handle.v.reshape(-1).astype(np.int64) for b in bounds)
        if (active(self.ctx, by) == 0).any():
            raise ValueError("range() arg 3 must not be zero")
        trips = np.maximum(0, -(-(last - first) // np.where(by == 0, 1, by)))
        held = carrier(ty)
        return Trips(self.ctx, first, by, trips, lambda i: core.tensor(Handle(i.astype(held), ty, ()), ty))
