"""Executions under one changed assumption, to be compared with the original: real re-runs, never formulas.

Each variant gives session options. What changes is the arithmetic model, never the user's kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from interval_ops.formats import casting
from interval_ops.formats.model import FORMATS, Format
from interval_ops.profiles.profile import Profile, load_profile, profile_names
from render.interpreter.builder import Builder
from render.interpreter.handle import Handle
from render.interpreter.reduce import Reductions
from render.interpreter.types import format_of


@dataclass(frozen=True)
class Variant:
    """`options` for the session; `last_rounding`: outputs get the one rounding to their format that is left."""

    key: str
    what: str
    options: dict[str, Any]
    last_rounding: bool = False


def variants(profile: Profile, causes: set[str]) -> Iterator[Variant]:
    """What is worth asking for a run in which these causes added error, most useful first."""
    if "operand" in causes:
        yield ieee_products(profile)
    if "lowacc" in causes:
        yield wide_accumulator(profile)
    if "cast" in causes:
        yield Variant("no-casts", "no rounding in casts (the output's included)", {"mute": frozenset({"cast"})})
    if causes:
        yield from other_devices(profile)


def ieee_products(profile: Profile) -> Variant:
    """float32 products with their operands whole, as `input_precision="ieee"` multiplies them."""
    dots = dict(profile.dots)
    for kind in ("tf32", "tf32x3", "bf16x3", "bf16x6"):
        if kind in dots:
            dots[kind] = dots["ieee"]
    return Variant("ieee", 'input_precision="ieee"', {"profile": replace(profile, dots=dots)})


def wide_accumulator(profile: Profile) -> Variant:
    """Sums below float32 precision kept in float32, and rounded to their type once.

    Trap: a chain of dots with a float16 accumulator is one pending sum; its last rounding is added to the outputs.
    """
    dots = dict(profile.dots)
    for kind, model in profile.dots.items():
        if model.cause == "lowacc" and "fp16" in dots:
            wide = dots["fp16"]
            dots[kind] = replace(model, block=wide.block, fraction=wide.fraction, rho=wide.rho, acc="fp32",
                                 convert=False, overflow=wide.overflow)  # fmt: skip
    options = {"profile": replace(profile, dots=dots), "builder": WideSums}
    return Variant("fp32-accumulator", "float32 accumulators", options, last_rounding=True)


def other_devices(profile: Profile) -> Iterator[Variant]:
    """Every other GPU; correctly rounded arithmetic first, it is the best that hardware could do."""
    names = [n for n in profile_names() if n != profile.name and n.startswith(("ieee", "sm_", "gfx"))]
    names.sort(key=lambda n: (n != "ieee", not n.startswith("sm_"), n))
    for name in names:
        other = load_profile(name)
        yield Variant(f"device:{name}", f"--device {name}", {"profile": other})


class WideReductions(Reductions):
    """Sums and products of narrow blocks in float32, with one rounding at the end."""

    def _bounds(self, x: Handle, axis: int, kind: str, fmt: Format) -> Any:
        if kind in ("max", "min") or fmt.p >= 24:
            return super()._bounds(x, axis, kind, fmt)
        wide = FORMATS["fp32"]
        lo, hi = super()._bounds(x, axis, kind, wide)
        return casting.cast_interval(lo, hi, wide, fmt, self.ctx.profile, "rtne")

    def _native_scan(self, x: Handle, axis: int, kind: str, reverse: bool) -> Handle:
        fmt = format_of(x.dtype)
        if fmt is None or fmt.p >= 24 or kind in ("max", "min"):
            return super()._native_scan(x, axis, kind, reverse)
        import triton.language as tl

        builder = self.semantic.builder
        wide = builder.create_fp_ext(x, tl.float32)
        found: Handle = builder.create_fp_trunc(super()._native_scan(wide, axis, kind, reverse), x.dtype)
        return found


class WideSums(Builder):
    reductions = WideReductions
