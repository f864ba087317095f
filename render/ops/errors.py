"""One-line texts of the error terms of a profile, for the rule table and its reports."""

from __future__ import annotations

import math
from collections.abc import Callable

from interval_ops.arithmetic.rule import correctly_rounded
from interval_ops.formats.model import FP32
from interval_ops.profiles.profile import DotModel, FnError, Profile, describe

Text = Callable[[Profile], str]


def function(name: str) -> Text:
    """r, a and flush of a function entry. Raises MissingRule where the profile has none."""

    def text(profile: Profile) -> str:
        if profile.muted("function"):
            return "muted"
        error = profile.fn(name)
        argument = "argument fl32(x log2 e), then " if profile.through_exp2(name) else ""
        return f"{argument}{_function_error(error)} [{error.source}]"

    return text


def _function_error(error: FnError) -> str:
    if correctly_rounded(error, FP32):
        return "correctly rounded, 2^-24"
    absolute = f" +- {describe(error.a)}" if error.a else ""
    more = (", subnormals may be 0" if error.ftz else "") + (
        f", infinite from {describe(error.huge)} on" if error.huge < math.inf else ""
    )
    more += ", anything for subnormals" if error.breaks else ""
    if error.until < math.inf:
        there = f"within {error.beyond:.3g} of the rounded value" if error.beyond < math.inf else "anything"
        more += f"; from |x| = {error.until:g} on {there}"
    return f"x(1 +- {describe(error.r)}){absolute}{more}"


def rounding(profile: Profile) -> str:
    """One rounding to nearest, or none where an fma contracts it away."""
    return (
        "muted"
        if profile.muted("arith")
        else "u |x|, u = 2^-24 fp32, 2^-11 fp16, 2^-8 bf16, 2^-53 fp64 [IEEE 754-2019]"
    )


def flush(profile: Profile) -> str:
    """Exact but for a library that flushes subnormals."""
    flushes = not profile.muted("function") and profile.fn("exp2").ftz
    return "exact, fp32 subnormals may count as 0" if flushes else "exact"


def directed(profile: Profile) -> str:
    """One directed rounding."""
    return "muted" if profile.muted("arith") else "2u |x|, one directed rounding [IEEE 754-2019, 4.3.2]"


def remainder(profile: Profile) -> str:
    if profile.muted("function"):
        return "muted"
    return "x - trunc(fl(x/y)) y: 2^-24 |x|, +- |y| near multiples [PTX of Triton 3.9: div.rn, cvt.rzi, fma]"


def integral(profile: Profile) -> str:
    flush = not profile.muted("function") and profile.fn("exp2").ftz
    return "exact, a subnormal may count as 0 [PTX: cvt.rmi.ftz]" if flush else "exact"


def cast(profile: Profile) -> str:
    """Rounding of the destination and what overflow does there."""
    if profile.muted("cast"):
        return "muted"
    overflow = ", ".join(f"{name} {mode}" for name, mode in profile.cast_overflow.items())
    via = ", ".join(f"{pair} via {middle}" for pair, middle in profile.cast_double_rounding.items() if middle)
    older = ", ".join(
        f"{pair} before Triton {'.'.join(map(str, o.below))}{' via ' + o.via if o.via else ''}"
        f"{' with ties away' if o.ties_away else ''}"
        for pair, o in profile.older_casts.items()
    )
    return "; ".join(filter(None, (f"nearest even of the destination; overflow: {overflow}", via, older)))


def int_to_float(profile: Profile) -> str:
    return "muted" if profile.muted("cast") else "nearest even, exact for |i| <= 2^p [IEEE 754-2019, 5.4.1]"


def summation(profile: Profile) -> str:
    """Sums in any order, per precision of the accumulator."""
    wide = "muted" if profile.muted("accumulation") else "2^-24 fp32, 2^-53 fp64"
    low = "muted" if profile.muted("lowacc") else "2^-11 fp16, 2^-8 bf16"
    return f"((1 + u)^(n-1) - 1) sum |x|, u = {wide}, {low} [Higham 2002, sec. 4.2]"


def atomic(profile: Profile) -> str:
    flush = ", each fp32 add loses up to 2^-126" if profile.atomic_flush_fp32 else ""
    return f"adds: ((1 + u)^n - 1)(|base| + sum |x|), any order{flush}; others exact"


def dot(profile: Profile) -> str:
    """theta per block of the commonest kinds."""
    kinds = [k for k in ("fp16", "bf16", "tf32", "fp8", "ieee") if k in profile.dots]
    source = profile.dot(kinds[0]).source if kinds else "no dot"
    return "; ".join(f"{kind} {_dot_model(profile.dot(kind))}" for kind in kinds) + f" [{source}]"


def scaled_dot(profile: Profile) -> str:
    """theta of the block-scaled kinds; without one operands become bf16 or fp16."""
    kinds = [kind for kind in ("mxfp8", "mxfp4") if kind in profile.dots]
    if not kinds:
        return "operands widened to bf16 or fp16, then as dot [interval_ops.dot.scaled]"
    source = profile.dot(kinds[0]).source
    return "; ".join(f"{kind} {_dot_model(profile.dot(kind))}" for kind in kinds) + f" [{source}]"


def _dot_model(model: DotModel) -> str:
    if model.block == 1:
        return f"{describe(model.rho)} per fma"
    return f"{describe(model.theta)} per {model.block}"
