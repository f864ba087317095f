"""Operands of `tl.dot_scaled`: block-scaled (mx) numbers as a target multiplies them.

An operand is a tensor of e2m1, e4m3, e5m2, bf16 or fp16 numbers and, unless it has none, a scale per group of 32 along
K (e8m0, a power of two) or per group of 16 (e4m3, nvfp4). Its exact value is the product of both, at most eight
significant bits. What the unit sees depends on both formats and the target (`scaled_kind`):

- one operand fp16: both become fp16. The scale is rounded to fp16 first (0 below 2^-25, inf from 2^16 on), then the
  product.
- one operand bf16, an operand without scale, or a target without block-scaled instructions: both become bf16, which is
  exact unless the product underflows (below 2^-126 to a multiple of 2^-133) or overflows (inf).
- otherwise the target multiplies the numbers as they are: kinds `mxfp8` and `mxfp4` of the profile, no operand error.

`scaled_operands` returns the exact value where the target's is the same, the hull of both elsewhere. A dot is then

    kind = scaled_kind(lhs_format, rhs_format, profile, lhs_scale is not None and rhs_scale is not None)
    a = scaled_operands(lhs_bits, lhs_scale_bits, lhs_format, profile, kind=kind)
    b = scaled_operands(rhs_bits, rhs_scale_bits, rhs_format, profile, kind=kind, axis=-2)
    PendingDot.start(acc, shape, kind, profile).extend(a, b)

Source: PTX and amdgcn of Triton 3.9 for sm_80 to sm_120 and gfx942; OCP Microscaling Formats 1.0. A common mistake: the
scales of the right operand are laid out (N, K / 32), not like the operand.
"""

from __future__ import annotations

import numpy as np

from interval_ops.bounds import Pair, is_point
from interval_ops.dot.sums import Array
from interval_ops.formats.casting import round_value
from interval_ops.formats.model import BF16, E2M1, E8M0, FP8E4NV, FP8E5, FP16, Format
from interval_ops.formats.tables import decode
from interval_ops.profiles.profile import Profile

SCALED_FORMATS: dict[str, Format] = {"e2m1": E2M1, "e4m3": FP8E4NV, "e5m2": FP8E5, "bf16": BF16, "fp16": FP16}
"""Names that `tl.dot_scaled` takes for its operands."""


def scaled_kind(lhs_format: str, rhs_format: str, profile: Profile, both_scaled: bool = True) -> str:
    """Kind of the dot, for `Profile.dot` and `PendingDot`: fp16, bf16, mxfp8 or mxfp4."""
    formats = {lhs_format, rhs_format}
    for name in formats - set(SCALED_FORMATS):
        raise ValueError(f"unknown format {name!r} of dot_scaled; known: {', '.join(SCALED_FORMATS)}")
    if "fp16" in formats:
        return "fp16"
    native = "mxfp4" if formats == {"e2m1"} else "mxfp8"
    return "bf16" if "bf16" in formats or not both_scaled or native not in profile.dots else native


def unpack(bits: Array, fmt: str, axis: int = -1) -> Array:
    """Numbers (float32) behind the bits of an operand; two e2m1 numbers per byte along `axis`, the low half first."""
    if fmt != "e2m1":
        return decode(bits, SCALED_FORMATS[fmt])
    packed = np.asarray(bits, np.uint8)
    halves = np.stack([decode(packed & np.uint8(15), E2M1), decode(packed >> np.uint8(4), E2M1)], axis=-1)
    place = axis % packed.ndim
    shape = tuple(2 * n if i == place else n for i, n in enumerate(packed.shape))
    return np.moveaxis(halves, -1, place + 1).reshape(shape)


def scaled_operands(
    values_bits: Array,
    scale_bits: Array | None,
    format: str,
    profile: Profile,
    *,
    kind: str | None = None,
    axis: int = -1,
    pack_axis: int | None = None,
    scale_format: Format = E8M0,
) -> Pair:
    """Operand of a dot of `kind` from its bits: (..., M, K) with axis -1 or (..., K, N) with axis -2.

    scale_bits: (..., M, K / group) or (..., N, K / group), or None. `kind` defaults to that of two such operands.
    `pack_axis`: the axis along which e2m1 numbers are packed (`axis` unless lhs_k_pack or rhs_k_pack is False).
    """
    values = unpack(values_bits, format, axis if pack_axis is None else pack_axis)
    chosen = scaled_kind(format, format, profile, scale_bits is not None) if kind is None else kind
    return scaled_pair((values, values), scale_bits, profile, chosen, axis=axis, scale_format=scale_format)


def scaled_pair(
    values: Pair,
    scale_bits: Array | None,
    profile: Profile,
    kind: str,
    *,
    axis: int = -1,
    scale_format: Format = E8M0,
) -> Pair:
    """As `scaled_operands`, for numbers or intervals of numbers (one array twice for points).

    Monotone in the values, because scales are not negative: the ends decide. NaN scales give NaN (anything). A muted
    "operand" leaves the exact product.
    """
    if scale_bits is None:
        return values
    scale = _spread(decode(scale_bits, scale_format), values[0].shape, axis)
    model = profile.dot(kind)
    widened = model.truncate == "bf16" if kind.startswith("mx") else True
    with np.errstate(all="ignore"):
        ends = [_scaled(v, scale, kind if widened and not profile.muted("operand") else "") for v in _distinct(values)]
        lo = np.minimum(*ends[0])
        hi = np.maximum(*ends[-1])
    return _point(lo) if len(ends) == 1 and np.array_equal(lo, hi, equal_nan=True) else (lo, hi)


def scaled_values(
    values: Array, scale_bits: Array | None, kind: str, *, axis: int = -1, scale_format: Format = E8M0
) -> Array:
    """The numbers a target multiplies, in float32: as widened to fp16 or bf16, or the exact ones."""
    if scale_bits is None:
        return values
    with np.errstate(all="ignore"):
        scale = _spread(decode(scale_bits, scale_format), values.shape, axis)
        exact, widened = _scaled(values, scale, kind)
        return (exact if kind.startswith("mx") else widened).astype(np.float32)


def _distinct(pair: Pair) -> tuple[Array, ...]:
    return (pair[0],) if is_point(pair) else pair


def _spread(scale: Array, shape: tuple[int, ...], axis: int) -> Array:
    """One scale per number: repeated within groups, and turned to (..., K, N) for a right operand."""
    size = shape[axis]
    group, rest = divmod(size, scale.shape[-1])
    if rest:
        raise ValueError(f"dot_scaled: {scale.shape[-1]} scales do not divide K = {size}")
    full = np.repeat(scale.astype(np.float64), group, axis=-1)
    return full if axis == -1 else np.swapaxes(full, -1, -2)


def _scaled(values: Array, scale: Array, kind: str) -> Pair:
    """(exact product, product as widened); float64 holds both."""
    exact = values * scale
    if kind == "fp16":
        # 0 * inf: a scale past fp16 turns zeros into NaN.
        widened = round_value(values * round_value(scale, FP16).astype(np.float64), FP16)
    else:
        widened = round_value(exact, BF16) if kind else exact
    return exact, np.asarray(widened, np.float64)


def _point(x: Array) -> Pair:
    """x as a point, in float32 where that holds it."""
    with np.errstate(all="ignore"):
        narrow = x.astype(np.float32)
    one = narrow if np.array_equal(narrow, x, equal_nan=True) else x
    return one, one
