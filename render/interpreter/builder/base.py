"""Constants, types and the plumbing that every group of builder methods shares."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import triton.language as tl

from interval_ops.formats.casting import round_value
from interval_ops.formats.model import FORMATS
from interval_ops.profiles.facts import DeviceFacts
from render.interpreter import device
from render.interpreter.builder import sentinels
from render.interpreter.context import Context
from render.interpreter.handle import Handle
from render.interpreter.types import carrier, float_format
from render.ops.table import UNSUPPORTED
from render.result.errors import UnsupportedOp


class TargetOptions:
    """What Triton's semantic layer asks about the target."""

    sanitize_overflow = False
    debug = True
    backend_name = "render"
    supported_fp8_dtypes = ("fp8e5", "fp8e5b16", "fp8e4nv", "fp8e4b8", "fp8e4b15")
    deprecated_fp8_dtypes: tuple[str, ...] = ()
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    allowed_dot_input_precisions = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default = 0
    enable_iisan = False
    enable_fp_fusion = True
    instrumentation_mode = ""
    extern_libs: dict[str, str] | None = None

    def __init__(self, ctx: Context) -> None:
        self.default_dot_input_precision = ctx.profile.default_input_precision
        self.arch = ctx.profile.name
        self.num_warps = ctx.num_warps


@cache
def _smallest_dot(facts: DeviceFacts | None) -> Callable[[Any, Any], tuple[int, int, int]]:
    """The least M, N and K of a dot, as the installed compiler says it for the device; none where it has no say."""
    from triton.backends import backends
    from triton.compiler.compiler import make_backend

    if facts is None or not any(b.compiler.supports_target(device.target_of(facts)) for b in backends.values()):
        return lambda lhs, rhs: (1, 1, 1)
    backend = make_backend(device.target_of(facts))
    found: Callable[[Any, Any], tuple[int, int, int]]
    with warnings.catch_warnings():  # it announces defaults of versions to come
        warnings.simplefilter("ignore")
        options = backend.parse_options({})
    found = backend.get_codegen_implementation(options)["min_dot_size"]
    return found


def wrapped_name(frame: Any) -> str | None:
    """Name of the outermost `tl` function between `frame` and the user's code, as the language wrapper records it."""
    name = None
    while frame is not None:
        if frame.f_code.co_name == "__render_builtin__":
            name = frame.f_locals["name"]
        frame = frame.f_back
    return name


def _unheard(op: str, args: Sequence[Any], outs: Sequence[Handle], attrs: Any = None) -> None:
    """What a builder without listeners does with a report."""


@lru_cache(maxsize=1 << 12)
def _rounded(number: str, fmt: str) -> tuple[np.ndarray, bool]:
    """(a literal, written in hexadecimal, in its format; whether that is all there is to it)."""
    exact = float.fromhex(number)
    v = round_value(np.array([exact]), FORMATS[fmt], "rtne", "inf")
    return v, float(v[0]) == exact or not math.isfinite(exact)


class Base:
    """Shared state; `ctx` belongs to the launch that owns this builder.

    `emit(op, args, outs, attrs)` reports an operation that is no method of the builder to who listens (`events`).
    """

    reductions: type | None = None
    """Class that runs reductions and scans instead of `reduce.Reductions`."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.emit: Callable[..., None] = _unheard
        self.options = TargetOptions(ctx)
        self.codegen_fns = {
            "min_dot_size": _smallest_dot(ctx.profile.device),
            "convert_custom_types": self._convert_custom,
        }

    @property
    def heard(self) -> bool:
        """Whether anybody listens, who takes the rows of a pass for its programs."""
        return self.emit is not _unheard

    @property
    def first_alone(self) -> bool:
        """Whether the first program of the launch runs by itself."""
        return False

    def order(self, programs: int) -> np.ndarray:
        """The order in which the programs of the launch run."""
        part = self.ctx.part
        if part is None:
            return np.arange(programs, dtype=np.int32)
        wanted = part if isinstance(part, int) else math.ceil(part * programs)
        return np.unique(np.linspace(0, max(programs - 1, 0), min(max(wanted, 1), programs)).astype(np.int32))

    def begin_pass(self, linear: np.ndarray) -> None:
        """The kernel's body is about to run for these programs; what an undone pass did never happened."""

    def given(self, values: Mapping[str, Any]) -> None:
        """The launch's arguments, as the kernel's body gets them."""

    def ended(self) -> None:
        """The launch is over, its atomic sums are closed; the host goes on after this."""

    def mark(self) -> Any:
        """A point of the pass to come back to (`undo_to`)."""

    def undo_to(self, mark: Any) -> None:
        """What this builder did since then is undone."""

    def vendor(self, name: str) -> Callable[..., Handle] | None:
        """What runs the vendor function `name` on (builder, handles...); None: the rules of `libdevice`."""
        return None

    def __getattr__(self, name: str) -> Any:
        if name == "create_inline_asm":
            return self._assembly
        if name.startswith(("create_", "get_")):
            self.unsupported(name)
        raise AttributeError(name)

    def _assembly(
        self, text: str, constraints: str, operands: Any, types: Any = (), pure: Any = True, pack: int = 1
    ) -> Any:
        """Triton before 3.9 writes its grid dependencies so, and these have no value."""
        from render.interpreter.builder.assembly import run

        if text.startswith("griddepcontrol."):
            return SimpleNamespace(get_result=lambda _: self.int_constant(0, tl.int32))
        return SimpleNamespace(get_result=run(self, text, constraints, operands, types, int(pack)).__getitem__)

    def unsupported(self, method: str, reason: str | None = None) -> None:
        """Raises UnsupportedOp with the user's line; nothing is computed in place of the missing rule."""
        site = self.ctx.site()
        op = wrapped_name(sys._getframe(1)) or method.removeprefix("create_")
        op = method if "." in method else op
        why = reason or UNSUPPORTED.get(method.removeprefix("create_"), "it has no sound rule yet")
        raise UnsupportedOp(f"tl.{op}", why, site.file, site.line)

    def _convert_custom(self, arg: Any, dst_ty: Any, fp_downcast_rounding: Any = None, _semantic: Any = None) -> Any:
        """Conversions of Triton's own fp8e4b15, which the language routes past the ordinary casts."""
        handle = self.create_fp_to_fp(arg.handle, dst_ty, fp_downcast_rounding)  # type: ignore[attr-defined]
        return tl.tensor(handle, dst_ty)

    # Types are Triton's own: `to_ir` of the patched language returns the language type itself.
    def get_int64_ty(self) -> Any:
        return tl.int64

    def get_int32_ty(self) -> Any:
        return tl.int32

    def get_void_ty(self) -> Any:
        return tl.void

    def get_loc(self) -> None:
        return None

    def set_loc(self, loc: Any) -> None:
        return None

    def int_constant(self, value: int, ty: Any) -> Handle:
        return Handle(np.array([value]).astype(carrier(ty)), ty, ())

    def float_constant(self, value: float, ty: Any) -> Handle:
        """A literal: the format's value, with the real number that the user wrote inside the bounds.

        The reference computes with the literal itself, so the hull of both keeps it inside the envelope.
        """
        exact = float(value)
        v, held = _rounded(exact.hex(), float_format(ty).name)
        v = v.copy()  # each literal is a value of its own
        if not self.ctx.interval or held:
            return Handle(v, ty, ())
        low, high = sentinels.ends(self.ctx, exact, float(v[0]))
        return Handle(v, ty, (), np.array([low]), np.array([high]))

    def get_int1(self, value: bool) -> Handle:
        return self.int_constant(bool(value), tl.int1)

    def get_fp16(self, value: float) -> Handle:
        return self.float_constant(value, tl.float16)

    def get_bf16(self, value: float) -> Handle:
        return self.float_constant(value, tl.bfloat16)

    def get_fp32(self, value: float) -> Handle:
        return self.float_constant(value, tl.float32)

    def get_fp64(self, value: float) -> Handle:
        return self.float_constant(value, tl.float64)

    def get_null_value(self, ty: Any) -> Handle:
        scalar = ty.scalar
        zero = Handle(np.zeros(1, carrier(scalar)), scalar, ())
        return self.create_splat(ty, zero) if ty.is_block() else zero  # type: ignore[attr-defined]

    def get_all_ones_value(self, ty: Any) -> Handle:
        scalar = ty.scalar
        ones = np.ones(1, np.bool_) if scalar.is_int1() else np.array([-1]).astype(carrier(scalar))
        handle = Handle(ones, scalar, ())
        return self.create_splat(ty, handle) if ty.is_block() else handle  # type: ignore[attr-defined]


def _int_getter(name: str) -> Any:
    """As the compiler's: it takes what its 64 bits hold, of an unsigned type no negative number."""
    low, high = (0, 1 << 64) if name.startswith("u") else (-(1 << 63), 1 << 63)

    def get(self: Base, value: int) -> Handle:
        if not low <= value < high:
            raise TypeError(f"get_{name}(): no constant for {value}")
        return self.int_constant(value, tl.dtype(name))

    get.__name__ = f"get_{name}"
    return get


for _name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
    setattr(Base, f"get_{_name}", _int_getter(_name))
