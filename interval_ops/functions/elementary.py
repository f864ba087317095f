"""Elementary functions of one argument, within the error that a profile documents for the target.

Every result contains f(x) for any real x in the operand and any value within f(x)(1 +- r) +- a, r and a from
`profile.fn(name)`. A flushing function may read a subnormal argument as 0 and return 0 for a subnormal result. Results
are not clipped to the range of f (1 + 1 ulp is a legal sine); only a negative exp, exp2, sqrt or rsqrt is excluded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from interval_ops.arithmetic.broadcast import BLOCK, elementwise
from interval_ops.arithmetic.hull import EXACT, rounding_gate
from interval_ops.arithmetic.kernels import round_outward
from interval_ops.arithmetic.rule import FLOAT64_SLACK, abs_, correctly_rounded
from interval_ops.bounds import Array, Pair, is_point
from interval_ops.formats.model import FP32, Format
from interval_ops.formats.rounding import TINY, Gate
from interval_ops.functions import bessel_kernels, doubles, kernels
from interval_ops.functions.tables import FUNCTIONS, Bessel, Evaluate, Function, Monotone, Pole, Wave
from interval_ops.profiles.profile import Profile

_F64 = (np.float64, np.float64)


def unary(name: str, a: Pair, fmt: Format, profile: Profile, entry: str = "", quick: bool = False) -> Pair:
    """Bounds of the function `name` over the interval `a`, computed in `fmt` (below fp32: in fp32, then rounded).

    `entry`: the profile's entry with the error, where it is not that of the function's own name. `quick`: fp64 by the
    machine's library, granted `kernels.LIBM` in place of `doubles.ERROR`. An argument outside the domain gives top.
    Raises MissingRule where the profile has no error bound, KeyError for an unknown function. A common mistake: sin and
    cos at the end points only, which misses their interior extrema.
    """
    wide, function, entry = (fmt if fmt.bits == 64 else FP32), FUNCTIONS[name], entry or name
    error = error_of(entry, fmt, wide, profile)
    a = abs_(a) if isinstance(function, Monotone | Bessel) and function.even else a
    if wide is FP32 and profile.through_exp2(entry) and not profile.muted("function"):
        kernel = _exp_through_exp2(is_point(a), error)
    else:
        evaluate = function.evaluate
        if wide.bits == 64 and function.double is not None and not quick:
            evaluate, error = function.double, replace(error, libm=doubles.ERROR)
        kernel = _kernel(function, evaluate, is_point(a), error)
    lo, hi, same = elementwise(kernel, a, _F64)
    if error.until < math.inf and not isinstance(function, Bessel):  # nothing is documented from there on
        far = np.maximum(np.abs(a[0]), np.abs(a[1])) >= error.until
        lo, hi = np.where(far, np.nan, lo), np.where(far, np.nan, hi)
    if fmt.bits < 32 and not profile.muted("function"):
        same = round_outward(lo.reshape(-1), hi.reshape(-1), fmt.gate)
    return (lo, lo) if same and not (profile.muted("function") and fmt.bits < 64) else (lo, hi)


def _kernel(function: Function, evaluate: Evaluate, point: bool, error: Error) -> Callable[..., bool]:
    match function:
        case Wave():
            return _wave(function, evaluate, point, error)
        case Pole():
            return _blockwise(evaluate, point, True, lambda *arrays: function.close(*arrays, *error.params))
        case Bessel():
            return _bessel(function, evaluate, point, error)
        case Monotone():
            return _monotone(function, evaluate, point, error)


@dataclass(frozen=True, slots=True)
class Error:
    """What a kernel needs: relative and absolute error, flush threshold, gate of one rounding, overflow threshold.

    Arguments from `until` on: u relative and `beyond` absolute in place of r and a. `libm`: of the values at first.
    """

    r: float
    a: float
    flush: float
    gate: Gate
    limit: float
    until: float = math.inf
    beyond: float = 0.0
    u: float = 0.0
    libm: float = kernels.LIBM

    @property
    def params(self) -> kernels.ErrorParams:
        return kernels.ErrorParams(self.r, self.a, self.flush, self.gate, self.limit, self.libm)


def error_of(entry: str, fmt: Format, wide: Format, profile: Profile) -> Error:
    """An entry of the profile as the kernels take it; raises MissingRule."""
    if profile.muted("function"):
        return Error(0.0, 0.0, 0.0, EXACT, math.inf)
    # In fp64 the language's own functions are the library's: one entry for both.
    key = entry.removeprefix("libdevice_") if fmt.bits == 64 else entry
    error = profile.fn(key, fmt.name)
    gate = rounding_gate(wide, False)
    if correctly_rounded(error, wide):
        return Error(0.0, 0.0, 0.0, gate, math.inf)
    flush = wide.min_normal if error.ftz else 0.0
    limit, u = min(wide.max, error.huge), wide.u + FLOAT64_SLACK
    return Error(error.r + FLOAT64_SLACK, error.a, flush, gate, limit, error.until, error.beyond, u)


def _blockwise(evaluate: Evaluate, point: bool, up: bool, finish: Callable[..., bool]) -> Callable[..., bool]:
    """A block kernel: values of the function into the outputs, then `finish`, in pieces that stay in the cache."""

    def kernel(alo: Array, ahi: Array, lo: Array, hi: Array) -> bool:
        same = True
        with np.errstate(all="ignore"):
            for start in range(0, lo.size, BLOCK):
                cut = slice(start, start + BLOCK)
                x, y, low, high = alo[cut], ahi[cut], lo[cut], hi[cut]
                evaluate(x, low if up else high)
                if point:
                    np.copyto(high if up else low, low if up else high)
                else:
                    evaluate(y, high if up else low)
                same &= bool(finish(x, y, low, high))
        return same

    return kernel


def _monotone(f: Monotone, evaluate: Evaluate, point: bool, error: Error) -> Callable[..., bool]:
    tiny = min(f.tiny, TINY) if error.libm < kernels.LIBM else f.tiny
    function, given = kernels.MonotoneParams(f.domain, tiny, f.floor, f.f0), error.params

    def finish(x: Array, y: Array, lo: Array, hi: Array) -> bool:
        if f.rounded:
            return bool(kernels.close_root(x, y, lo, hi, f.floor, given))
        same = kernels.close(x, y, lo, hi, function, given)
        if f.f0 == math.inf and not point:
            same &= kernels.zero_pole(x, y, lo, hi)
        return same

    return _blockwise(evaluate, point, f.up, finish)


def _exp_through_exp2(point: bool, error: Error) -> Callable[..., bool]:
    r"""exp(x) = ex2(fl(x fl(log2 e))), as every NVIDIA target compiles it.

    Hull of e^x, its correct rounding, and 2^p (1 +- r) +- a with p = fl32(x fl32(log2 e)), r and a the error of ex2
    itself. The error of the argument, up to 1.224 |x| 2^-24 relative, is therefore exact for a point instead of a worst
    case. 2^p = e^x e^t with t = p ln 2 - x, so one exponential per end serves for both.
    Source: PTX ISA 8, ex2.approx.f32 (2 ulp from the correctly rounded value); sequence read in Triton's PTX.
    A common mistake: a fixed number of ulps for exp, which |x| > 5 exceeds by the argument's rounding alone.
    """
    return _blockwise(np.exp, point, True, lambda x, y, lo, hi: kernels.close_exp(x, y, lo, hi, *error.params))


def _wave(f: Wave, evaluate: Evaluate, point: bool, error: Error) -> Callable[..., bool]:
    wave, given = kernels.WaveParams(f.turn, f.phase, f.f0), error.params
    return _blockwise(evaluate, point, True, lambda x, y, lo, hi: kernels.close_wave(x, y, lo, hi, wave, given))


def _bessel(f: Bessel, evaluate: Evaluate, point: bool, error: Error) -> Callable[..., bool]:
    function = bessel_kernels.BesselParams(f.odd, not f.even and not f.odd, np.array(f.turns), f.at_far)
    params = (function, bessel_kernels.FarError(error.until, error.beyond, error.u), error.params)
    return _blockwise(evaluate, point, True, lambda x, y, lo, hi: bessel_kernels.close_bessel(x, y, lo, hi, *params))


__all__ = ["FUNCTIONS", "Error", "error_of", "unary"]
