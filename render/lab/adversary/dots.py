"""tl.dot of the adversary: chains of dots stay open, so that products meet in any order over the total K."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from interval_ops.formats.model import FORMATS, FP32, Format
from interval_ops.profiles.profile import DotModel, MissingRule, Profile, load_profile
from render.interpreter.builder.dots import dot_kind
from render.interpreter.handle import METER, Handle
from render.interpreter.types import carrier, format_of
from render.lab.adversary import dot_kernels as kernels
from render.lab.adversary import numbers
from render.lab.adversary.elementwise import Elementwise
from render.lab.adversary.numbers import Array

ORDERS = ("in order", "shared", "random", "growing", "shrinking", "rising", "falling", "spread")

MEMBERS = {"any": ("any", "sm_80", "sm_89", "sm_90", "sm_100")}
"""Targets that a profile stands for."""

WIDENING = ("sm_90", "sm_100", "sm_103")
"""Targets whose small tiles of fp8 are widened to fp16; the rest of them is multiplied as it is."""

NATIVE = {"sm_100": "sm_120", "sm_103": "sm_121"}
"""Where the profile's model of fp8 holds both units: the profile that has the fp8 unit alone."""


@dataclass(frozen=True)
class OpenSum:
    """An open sum: operands of every dot so far, (..., M, K) and (..., K, N), and the value it started from."""

    builder: LegalDots
    model: DotModel
    kind: str
    start: Array
    operands: tuple[tuple[Array, Array], ...]
    order: str
    fresh: bool

    def evaluate(self) -> Array:
        return self.builder.sum_of(self)


class LazyDot(Handle):
    """A dot whose value is computed when it is first looked at."""

    __slots__ = ("_value", "chain")

    def __init__(self, chain: OpenSum, dtype: Any, shape: tuple[int, ...]) -> None:
        self.dtype, self.shape, self.chain = dtype, shape, chain
        self._value: Array | None = None
        self._lo = self._hi = self.pend = self.origin = self.place = self.grown = self.open = self.lost = None
        self.taint = frozenset()
        meter = METER.get()
        meter.largest = max(meter.largest, math.prod(shape))

    @property  # type: ignore[misc]
    def v(self) -> Array:
        if self._value is None:
            self._value = self.chain.evaluate()
        return self._value

    @property
    def computed(self) -> Array:
        return self.v


class LegalDots(Elementwise):
    """Dots by the unit that the profile describes, in a chosen order."""

    def dot_model(self, kind: str) -> DotModel:
        """The model of this profile, or of one of the targets that it stands for."""
        name = self.ctx.profile.name
        found: dict[str, DotModel] = {}
        for member in MEMBERS.get(name, (name,)):
            try:
                found |= _units(member, kind, self.ctx.profile if member == name else load_profile(member))
            except MissingRule:
                continue
        return found[self.everywhere(f"unit {kind}", *found)] if len(found) > 1 else self.ctx.profile.dot(kind)

    def create_dot(self, a: Handle, b: Handle, acc: Handle, precision: Any, imprecise: int | None) -> Handle:
        out = acc.dtype.scalar
        if out.is_int():
            return super().create_dot(a, b, acc, precision, imprecise)
        kind = dot_kind(format_of(a.dtype), out, precision)
        self.ctx.profile.dot(kind)  # a missing rule is the same error here
        model = self.dot_model(kind)
        x, y = _whole(a), _whole(b)
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            return Handle(np.matmul(x, y, dtype=carrier(out)) + acc.v, out, acc.shape)
        ordered = self.ctx.profile.known_order and model.sequential
        order = "in order" if ordered else self.pick("dot", *ORDERS)
        if model.terms > 1 or model.convert:
            return Handle(self._closed(model, kind, x, y, acc, order), out, acc.shape)
        if model.promote and imprecise and imprecise < x.shape[-1]:
            return Handle(self._promoted(model, kind, x, y, acc, order, imprecise), out, acc.shape)
        x, y = self._operands(model, x), self._operands(model, y)
        if isinstance(acc, LazyDot) and acc._value is None and acc.chain.model == model:
            chain = replace(acc.chain, operands=(*acc.chain.operands, (x, y)), fresh=False)
        else:
            zero = acc.v.size == 1 and not acc.v.any()
            chain = OpenSum(self, model, kind, acc.full(acc.v), ((x, y),), order, zero)
        return LazyDot(chain, out, acc.shape)

    def _sum(self, x: Handle, y: Handle, sign: float) -> Handle:
        """`c + dot(a, b)` may accumulate into c instead."""
        for c, dot in ((x, y), (y, x)):
            if (
                sign > 0
                and isinstance(dot, LazyDot)
                and dot.chain.fresh
                and dot._value is None
                and dot.shape == c.shape
            ):
                chain = dot.chain
                if chain.model.promote or self.pick("fold", "fold", "apart") == "apart":
                    continue
                if isinstance(c, LazyDot) and c._value is None and c.chain.model == chain.model:
                    longer = replace(c.chain, operands=c.chain.operands + chain.operands, fresh=False)
                else:
                    longer = replace(chain, start=c.full(c.v), fresh=False)
                return LazyDot(longer, dot.dtype, dot.shape)
        return super()._sum(x, y, sign)

    # operands as the unit sees them
    def _operands(self, model: DotModel, x: Array) -> Array:
        if model.truncate == "tf32":
            read = self.everywhere("tf32", *(("cut", "whole", "nearest") if model.rounds else ("cut", "whole")))
            if read != "whole":
                x = numbers.truncate_fraction(x, 10) if read == "cut" else numbers.nearest_fraction(x, 10)
        if model.flush and self.everywhere("denormals", "flush", "keep") == "flush":
            x = np.where(np.abs(x) < 2.0**model.emin, x * 0, x)
        return x

    def _split(self, kind: str, x: Array) -> list[Array]:
        """The parts of a split operand, largest first."""
        if kind == "tf32x3":
            big = _nearest_tf32(x)
            return [big, numbers.truncate_fraction(x - big, 10)]
        parts, rest = [], x
        for _ in range(2 if kind == "bf16x3" else 3):
            parts.append(numbers.to_format(rest, FORMATS["bf16"]))
            rest = rest - parts[-1]
        return parts

    def _closed(self, model: DotModel, kind: str, x: Array, y: Array, acc: Handle, order: str) -> Array:
        """Dots that do not stay open: split operands (summed from zero, c added), fp32 sums converted per dot."""
        c = acc.full(acc.v)
        if model.terms > 1:
            left, right = self._split(kind, x), self._split(kind, y)
            most = 2 if model.terms == 3 else 3
            pairs = [(i, j) for i in range(len(left)) for j in range(len(right)) if i + j < most]
            operands = tuple((self._operands(model, left[i]), self._operands(model, right[j])) for i, j in pairs)
            total = self.sum_of(OpenSum(self, model, kind, np.zeros_like(c), operands, order, True))
            found: Array = np.add(c, total, dtype=np.float32)
            return found
        operands = ((self._operands(model, x), self._operands(model, y)),)
        total = self.sum_of(OpenSum(self, replace(model, acc="fp32"), kind, c, operands, order, True))
        return numbers.to_format(total, FORMATS[model.acc])

    def _promoted(self, model: DotModel, kind: str, x: Array, y: Array, acc: Handle, order: str, size: int) -> Array:
        total = acc.full(acc.v)
        for k in range(0, x.shape[-1], size):
            part = (x[..., k : k + size], y[..., k : k + size, :])
            zero = np.zeros_like(total)
            total = np.add(total, self.sum_of(OpenSum(self, model, kind, zero, (part,), order, True)), dtype=np.float32)
        return total

    # evaluation
    def sum_of(self, chain: OpenSum) -> Array:
        lead = np.broadcast_shapes(chain.start.shape[:-2], *(x.shape[:-2] for pair in chain.operands for x in pair))
        m, n = chain.start.shape[-2:]
        wide = chain.model.acc == "fp64"
        dtype = np.float64 if wide else np.float32
        a = np.concatenate([np.broadcast_to(x, (*lead, *x.shape[-2:])) for x, _ in chain.operands], -1, dtype=dtype)
        b = np.concatenate([np.broadcast_to(y, (*lead, *y.shape[-2:])) for _, y in chain.operands], -2, dtype=dtype)
        k = a.shape[-1]
        a = np.ascontiguousarray(a.reshape(-1, m, k))
        b = np.ascontiguousarray(np.swapaxes(b, -1, -2).reshape(-1, n, k))
        c = np.ascontiguousarray(np.broadcast_to(chain.start, (*lead, m, n)).reshape(-1, m, n), np.float64)
        out = np.empty(c.shape)
        self._run(chain, a, b, c, out)
        return out.reshape(*lead, m, n).astype(dtype)

    def _run(self, chain: OpenSum, a: Array, b: Array, c: Array, out: Array) -> None:
        model, k = chain.model, a.shape[2]
        mode = ORDERS.index(chain.order)
        shared = np.arange(k) if chain.order == "in order" else self.rng.permutation(k)
        kernels.seed(int(self.rng.integers(1 << 30)))
        acc = FORMATS[model.acc]
        if model.block > 1:
            self._blocks(chain, a, b, c, out, kernels.Dealt(mode, shared))
            return
        cuts = self.rng.random(k) < (0.0 if chain.order == "in order" else self.rng.choice([0.0, 0.05, 0.3]))
        if model.acc == "fp64":
            kernels.chains64(a, b, c, out, mode, shared, cuts)
        elif model.flush and chain.kind != "ieee" and self.everywhere("tree", "groups", "chain") == "groups":
            kernels.groups(a, b, c, out, mode, shared, 2 if model.emin == -126 else 4)
        else:
            unit = kernels.ChainUnit(acc.p - 1, acc.emin, acc.max, model.flush)
            kernels.chains(a, b, c, out, kernels.Dealt(mode, shared), cuts, unit)

    def _blocks(self, chain: OpenSum, a: Array, b: Array, c: Array, out: Array, dealt: kernels.Dealt) -> None:
        model = chain.model
        count = sum(-(-x.shape[-1] // model.block) for x, _ in chain.operands)
        k = a.shape[2]
        slots = np.arange(k) if chain.order == "in order" else np.sort(self.rng.permutation(count * model.block)[:k])
        acc = FORMATS[model.acc]
        kind, bits = _unit(model, acc)
        zeros = self.everywhere("zero operands", "aligned", "left out") == "aligned"
        unit = kernels.BlockUnit(kind, model.block, model.fraction, bits, model.emin, acc.emin, acc.max, zeros)
        kernels.blocks(a, b, c, out, dealt, slots, count, unit)


def _unit(model: DotModel, acc: Format) -> tuple[int, int]:
    """Kind of block unit and fraction bits of its result."""
    if model.extra:
        return (kernels.HALVES if model.block == 16 else kernels.CDNA3), 23
    if model.chops:
        return kernels.CHOP, round(-math.log2(model.rho))
    return kernels.NEAREST, acc.p - 1


def _units(name: str, kind: str, profile: Profile) -> dict[str, DotModel]:
    """What one target may multiply with, which may depend on the tile."""
    model = profile.dot(kind)
    if name not in WIDENING or not kind.startswith(("fp8e5", "fp8e4nv")):
        return {name: model}
    native = load_profile(NATIVE[name]).dot(kind) if name in NATIVE else model
    widened = profile.dot("fp16acc" if kind.endswith("acc") else "fp16")
    return {name: native, f"{name} widened": replace(widened, promote=native.promote)}


def _whole(h: Handle) -> Array:
    return np.ascontiguousarray(h.full(h.v))


def _nearest_tf32(x: Array) -> Array:
    """To 10 fraction bits, ties away from zero (cvt.rna): half a unit added to the raw bits, the rest cut."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32) + np.uint32(0x1000)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


__all__ = ["FP32", "ORDERS", "LazyDot", "LegalDots", "OpenSum"]
