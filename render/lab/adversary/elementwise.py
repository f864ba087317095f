"""Elementwise operations of the adversary: contraction, approximate functions, flushes and conversions, per op site."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from interval_ops.formats.model import FORMATS, FP16, FP32, FP64, Format
from interval_ops.profiles.profile import FnError
from render.interpreter.builder import Builder
from render.interpreter.context import Context
from render.interpreter.handle import Handle
from render.interpreter.types import format_of
from render.lab.adversary import approximate, numbers, older
from render.lab.adversary.numbers import Array
from render.lab.adversary.plan import AttackPlan
from render.ops.library import LIBRARY
from render.ops.rule import Rule
from render.ops.table import RULES

_TWINS = {"div_rn": "precise_divf", "fmod": "frem"}
"""Library functions that a builder method of another name does as well."""


class ContractibleProduct(Handle):
    """The rounded product of two handles, which remembers its factors: an add that uses it may be contracted."""

    __slots__ = ("factors",)

    def __init__(self, v: Array, like: Handle, factors: tuple[Array, Array]) -> None:
        super().__init__(v, like.dtype, like.shape)
        self.factors = factors


class Elementwise(Builder):
    """A builder whose float operations return one legal value per lane, chosen by a plan."""

    def __init__(self, ctx: Context, plan: AttackPlan) -> None:
        super().__init__(ctx)
        self.plan = plan
        self.rng = plan.generator()

    def pick(self, op: str, *options: str) -> str:
        """A choice for the op at the user's line, the same each time that line runs."""
        site = self.ctx.site()
        return self.plan.pick(f"{op}@{site.file.rsplit('/', 1)[-1]}:{site.line}", options)

    def everywhere(self, name: str, *options: str) -> str:
        """A choice that a target makes once for all."""
        return self.plan.pick(name, options)

    def overflow(self, fmt: Format) -> str:
        mode = self.ctx.profile.cast_overflow.get(fmt.name, "inf" if fmt.has_inf else "either")
        if mode != "either":
            return mode
        return self.everywhere(f"overflow {fmt.name}", "saturate", "inf" if fmt.has_inf else "nan")

    # + - * fma
    def create_fadd(self, x: Handle, y: Handle) -> Handle:
        return self._sum(x, y, 1.0)

    def create_fsub(self, x: Handle, y: Handle) -> Handle:
        return self._sum(x, y, -1.0)

    def _sum(self, x: Handle, y: Handle, sign: float) -> Handle:
        fmt = format_of(x.dtype)
        assert fmt is not None
        fusable = [side for side, h in (("left", x), ("right", y)) if isinstance(h, ContractibleProduct)]
        fusable = fusable if fmt.bits > 8 and self.ctx.profile.contraction != "off" else []
        how = self.pick("contract", "apart", *fusable) if fusable else "apart"
        one = np.float32(sign)
        if how == "left" and isinstance(x, ContractibleProduct):
            left, right = x.factors
            v = numbers.fma(left, right, one * y.v, fmt)
        elif how == "right" and isinstance(y, ContractibleProduct):
            left, right = y.factors
            v = numbers.fma(one * left, right, x.v, fmt)
        else:
            v = numbers.add(x.v, one * y.v, fmt, self.overflow(fmt))
        return Handle(v, x.dtype, x.shape)

    def create_fmul(self, x: Handle, y: Handle) -> Handle:
        fmt = format_of(x.dtype)
        assert fmt is not None
        return ContractibleProduct(numbers.mul(x.v, y.v, fmt, self.overflow(fmt)), x, (x.v, y.v))

    def create_fma(self, x: Handle, y: Handle, z: Handle) -> Handle:
        fmt = format_of(x.dtype)
        assert fmt is not None
        # Some targets have no fused instruction for bf16 and fp8.
        fused = fmt.p >= 11 or self.pick("fma", "fused", "apart") == "fused"
        if fused:
            return Handle(numbers.fma(x.v, y.v, z.v, fmt, self.overflow(fmt)), x.dtype, x.shape)
        return Handle(self._sum(Handle(self.create_fmul(x, y).v, x.dtype, x.shape), z, 1.0).v, x.dtype, x.shape)

    # division and remainder
    def create_fdiv(self, x: Handle, y: Handle) -> Handle:
        return self._quotient(x, y, "div")

    def create_precise_divf(self, x: Handle, y: Handle) -> Handle:
        return self._quotient(x, y, "div_rn")

    def _quotient(self, x: Handle, y: Handle, kind: str) -> Handle:
        fmt = format_of(x.dtype)
        assert fmt is not None
        error = self.ctx.profile.fn(kind, fmt.name)
        wide = np.longdouble if fmt == FP64 else np.float64
        exact = np.divide(x.v, y.v, dtype=wide)
        v = approximate.around(exact, error, fmt, *self._where(kind, error), self.rng)
        if fmt.bits < 32:
            v = numbers.to_format(v, fmt, "rtne", self.overflow(fmt))
        return Handle(v, x.dtype, x.shape)

    def _where(self, name: str, error: FnError) -> tuple[str, str]:
        """(where in the documented range, whether subnormal results are flushed)."""
        return self.pick(name, *approximate.BIASES), self.pick(f"flush {name}", *approximate.FLUSHES)

    def create_frem(self, x: Handle, y: Handle) -> Handle:
        """x - trunc(x / y) y in one fma with a correctly rounded quotient, or the exact remainder of C."""
        fmt = format_of(x.dtype)
        assert fmt is not None
        wide = fmt if fmt.bits >= 32 else FP32
        if self.pick("frem", "compiled", "exact") == "exact":
            v = np.fmod(x.v, y.v)
        else:
            quotient = np.trunc(np.divide(x.v, y.v, dtype=numbers.carrier(wide)))
            v = numbers.fma(-quotient, y.v, x.v, wide)
        return Handle(v if fmt.bits >= 32 else numbers.to_format(v, fmt), x.dtype, x.shape)

    # functions
    def function(self, rule: Rule, x: Handle) -> Handle:
        """A function of one argument: any value within the error of the rule's entry in the profile."""
        fmt = format_of(x.dtype)
        assert fmt is not None
        wide = fmt.bits == 64
        entry = rule.entry.removeprefix("libdevice_") if wide else rule.entry
        error = self.ctx.profile.fn(entry, fmt.name)
        bias, flush = self._where(entry, error)
        argument = self.pick(f"read {entry}", *approximate.FLUSHES) if error.ftz else "keep"
        through = self.ctx.profile.through_exp2(entry)
        v = approximate.function(rule.function, x.v, fmt, error, through, bias, flush, argument, self.rng)
        return Handle(v, x.dtype, x.shape)

    def vendor(self, name: str) -> Callable[..., Handle] | None:
        rule, twin = LIBRARY.get(name), _TWINS.get(name, name)
        if rule is None or rule.function:
            known = rule is not None and approximate.exact(rule.function) and rule.entry in self.ctx.profile.functions
            return (lambda self, x: self.function(rule, x)) if known else None
        return getattr(type(self), f"create_{twin}") if twin in RULES else None

    def create_floor(self, x: Handle) -> Handle:
        return self._integral(x, np.floor, "floor")

    def create_ceil(self, x: Handle) -> Handle:
        return self._integral(x, np.ceil, "ceil")

    def _integral(self, x: Handle, ufunc: Any, name: str) -> Handle:
        v = x.v
        if (
            format_of(x.dtype) == FP32
            and self.ctx.profile.fn("exp2").ftz
            and self.pick(name, "keep", "flush") != "keep"
        ):
            v = np.where(numbers.subnormal(v), v * 0, v)
        return Handle(ufunc(v), x.dtype, x.shape)

    # conversions
    def _cast(self, x: Handle, ty: Any, mode: str) -> Handle:
        src, dst = format_of(x.dtype), format_of(ty)
        if src == dst:
            return x
        assert src is not None and dst is not None
        v = self._convert(x.v, src, dst, mode)
        return Handle(v.astype(numbers.carrier(dst), copy=False), ty.scalar, x.shape)

    def _convert(self, v: Array, src: Format, dst: Format, mode: str) -> Array:
        if dst.p >= src.p and dst.emin <= src.emin and dst.max >= src.max:
            return v
        profile = self.ctx.profile
        known = older.variants(profile.name, profile.triton, src, dst) if mode == "rtne" else {}
        chosen = known[self.everywhere(f"older {src.name}->{dst.name}", *known)] if known else None
        if chosen is not None:
            return chosen(v)
        overflow = self.overflow(dst)
        middle = self.ctx.profile.cast_double_rounding.get(f"{src.name}->{dst.name}", "")
        if not middle and src == FP64 and dst not in (FP32, FP16):
            middle = "fp32"
        if middle and self.pick("cast", "through", "direct") == "through":
            name = middle.removesuffix("rz")
            v = numbers.to_format(v, FORMATS[name], "rtz" if name != middle else "rtne")
        if dst.name == "fp8e4b15":  # adds half and cuts
            mode = self.pick("tie", "rtne", "away")
        return numbers.to_format(v, dst, mode, overflow)

    def create_si_to_fp(self, x: Handle, ty: Any) -> Handle:
        if x.dtype.scalar.is_int1():
            return super().create_si_to_fp(x, ty)
        fmt = format_of(ty)
        assert fmt is not None
        v = x.v.astype(numbers.carrier(fmt)) if fmt.bits >= 32 else self._small_float(x.v, fmt)
        return Handle(v, ty.scalar, x.shape)

    create_ui_to_fp = create_si_to_fp

    def _small_float(self, x: Array, fmt: Format) -> Array:
        if x.dtype.itemsize == 8 or self.pick("int", "direct", "through") == "through":
            return numbers.to_format(x.astype(np.float32), fmt, "rtne", self.overflow(fmt))
        return numbers.to_format(x.astype(np.float64), fmt, "rtne", self.overflow(fmt))


def _unary(rule: Rule) -> Callable[[Elementwise, Handle], Handle]:
    return lambda self, x: self.function(rule, x)


for _op, _rule in RULES.items():
    if _rule.function:
        setattr(Elementwise, f"create_{_op}", _unary(_rule))
