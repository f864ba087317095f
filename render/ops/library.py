"""The table of vendor library functions, by their names in `tl.extra.cuda.libdevice`: rule, exact, or refused.

It has the form of `rules.RULES` and is filled by shape of rule in the same way. A GPU's math library is compiled with
the flush flag of the kernel, so in fp32 any function of it may read a subnormal operand as 0 and return 0 for a
subnormal result, the correctly rounded ones included (`flushed`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.bounds import Array, Pair, each
from interval_ops.formats.model import FP32, Format
from interval_ops.functions import elementary as functions
from interval_ops.library import joint
from interval_ops.profiles.profile import Profile
from render.ops import errors as rule_errors
from render.ops.rule import EVERYWHERE, NON_NEGATIVE, Apply, Domain, Rule, Shape, exact_rules

LIBRARY: dict[str, Rule] = {}
"""Functions of floating-point arguments with a floating-point result of the same format."""

_UNIT = (-1.0, 1.0)


def _subnormal(x: Array) -> Array:
    found: Array = (np.abs(x) < FP32.min_normal) & (x != 0)
    return found


def _with_zero(a: Pair) -> Pair:
    """The interval with 0 added where an end is subnormal."""
    low, high = _subnormal(a[0]), _subnormal(a[1])
    if not (low.any() or high.any()):
        return a
    return np.where(low, np.minimum(a[0], 0.0), a[0]), np.where(high, np.maximum(a[1], 0.0), a[1])


def _flush(fmt: Format, profile: Profile) -> float:
    """Magnitude below which the library may flush; 0 if it does not. The flag is that of entry `exp2`."""
    flushes = fmt.bits == 32 and not profile.muted("function") and profile.fn("exp2").ftz
    return FP32.min_normal if flushes else 0.0


def _open_at_subnormals(a: Pair, out: Pair) -> Pair:
    """`out`, and top where the argument may be subnormal: what the library breaks at."""
    broken = (a[0] < FP32.min_normal) & (a[1] > -FP32.min_normal) & ((a[0] != 0) | (a[1] != 0))
    return (np.where(broken, np.nan, out[0]), np.where(broken, np.nan, out[1])) if broken.any() else out


def flushed(apply: Apply) -> Apply:
    """The rule for a library that may flush subnormal fp32 operands and results."""

    def flushing(args: tuple[Any, ...], fmt: Format, profile: Profile) -> Any:
        if not _flush(fmt, profile):
            return apply(args, fmt, profile)
        return _with_zero(apply(tuple(_with_zero(a) for a in args), fmt, profile))

    return flushing


def _add(rule: Rule) -> None:
    if rule.op in LIBRARY:
        raise ValueError(f"{rule.op} has two rules")
    LIBRARY[rule.op] = rule


def function(
    op: str, shape: Shape, name: str = "", entry: str = "", domain: Domain = EVERYWHERE, doc: str = ""
) -> None:
    """A function of one argument: the exact function `name` within the error `entry` of the profile."""
    name = name or op
    entry = entry or name
    about = doc or "Both ends, widened by the documented error; outside the domain top."

    def apply(args: tuple[Any, ...], fmt: Format, profile: Profile) -> Pair:
        out = functions.unary(name, args[0], fmt, profile, entry)
        if fmt.bits == 64 or profile.muted("function") or not profile.fn(entry, fmt.name).breaks:
            return out
        return _open_at_subnormals(args[0], out)

    # Correct rounding has no flush of its own in the profile.
    flushing = flushed(apply) if entry.endswith("_rn") else apply
    _add(Rule(op, shape, about, flushing, 1, "function", rule_errors.function(entry), domain,
              f"[functions] {entry} of the profile", function=name, entry=entry))  # fmt: skip


def functions_of(shape: Shape, doc: str, *names: str, domain: Domain = EVERYWHERE) -> None:
    """Functions with the names and errors of their own."""
    for name in names:
        function(name, shape, domain=domain, doc=doc)


def monotone(*names: str, domain: Domain = EVERYWHERE) -> None:
    functions_of(Shape.MONOTONE, "", *names, domain=domain)


def fast(shape: Shape, doc: str, *names: str, domain: Domain) -> None:
    """NAME as `fast_NAMEf`, with the error of the approximate instruction."""
    for name in names:
        function(f"fast_{name}f", shape, name, f"fast_{name}f", domain, doc)


def jointly(name: str, arity: int, rule: Any, key: str, doc: str, tight: bool = True) -> None:
    """A function of several arguments with the error of entry `key`."""

    def apply(args: tuple[Any, ...], fmt: Format, profile: Profile) -> Pair:
        found: Pair = rule(args, fmt, profile)
        return found

    _add(Rule(name, Shape.SPECIAL, doc, apply, arity, "function", rule_errors.function(key),
              source=f"[functions] {key} of the profile", tight=tight, entry=key))  # fmt: skip


def exactly(
    name: str, arity: int, rule: Callable[[tuple[Any, ...]], Pair], doc: str, tight: bool = True, steps: bool = False
) -> None:
    """A function without rounding: only the flush of subnormals moves its result."""
    apply = flushed(lambda args, fmt, profile: rule(args))
    _add(Rule(name, Shape.SPECIAL, doc, apply, arity, None, rule_errors.flush, tight=tight, steps=steps))


def rounded(name: str, arity: int, rule: Any, doc: str, cause: str = "arith", shape: Shape = Shape.SPECIAL) -> None:
    """One rounding to nearest."""
    apply = flushed(lambda args, fmt, profile: rule(*args, fmt, profile))
    _add(Rule(name, shape, doc, apply, arity, cause, rule_errors.rounding, source="IEEE 754-2019, 4.3.1"))


def directed(name: str, arity: int, rule: Any) -> None:
    """The three directed roundings of one operation, `name`_rd, _ru and _rz."""
    for direction, where in (("rd", "downwards"), ("ru", "upwards"), ("rz", "towards zero")):
        doc = f"The exact result and its rounding {where}."
        _add(Rule(f"{name}_{direction}", Shape.SPECIAL, doc, flushed(_directed(rule, direction)), arity, "arith",
                  rule_errors.directed, source="IEEE 754-2019, 4.3.2", tight=False))  # fmt: skip


def _directed(rule: Any, direction: str) -> Apply:
    def apply(args: tuple[Any, ...], fmt: Format, profile: Profile) -> Pair:
        return joint.directed(direction, rule(*args, fmt, joint.quiet(profile)), fmt, profile.muted("arith"))

    return apply


def _one(like: Array) -> Pair:
    one = np.ones((1,) * like.ndim)
    return one, one


def reciprocal(x: Pair, fmt: Format, profile: Profile) -> Pair:
    return arithmetic.div(_one(x[0]), x, fmt, profile, "div_rn")


def root(x: Pair, fmt: Format, profile: Profile) -> Pair:
    return functions.unary("sqrt", x, fmt, profile, "sqrt_rn")


def quotient(x: Pair, y: Pair, fmt: Format, profile: Profile) -> Pair:
    return arithmetic.div(x, y, fmt, profile, "div_rn")


def integral(name: str, function: Callable[[Pair], Pair], doc: str) -> None:
    """A whole number next to the operand."""
    exactly(name, 1, lambda args: function(args[0]), f"{doc} at both ends.", steps=True)


def _floor(a: Pair) -> Pair:
    return _ends(np.floor, a)


def _ceil(a: Pair) -> Pair:
    return _ends(np.ceil, a)


def _ends(function: np.ufunc, a: Pair) -> Pair:
    return each(a, lambda end: function(end, dtype=np.float64))


function("exp", Shape.MONOTONE, entry="libdevice_exp")
function("rsqrt", Shape.MONOTONE, entry="libdevice_rsqrt", domain=NON_NEGATIVE)
function("sqrt", Shape.MONOTONE, domain=NON_NEGATIVE, doc="As tl.sqrt: the approximate instruction or the correct one.")
function("sqrt_rn", Shape.MONOTONE, "sqrt", "sqrt_rn", NON_NEGATIVE)
function("rsqrt_rn", Shape.MONOTONE, "rsqrt", "rsqrt_rn", NON_NEGATIVE)
monotone("exp2", "exp10", "expm1", "sinh", "tanh", "asinh", "atan", "cbrt", "erf", "erfc", "erfcx", "normcdf")
fast(Shape.MONOTONE, "", "log", "log2", "log10", domain=NON_NEGATIVE)
fast(Shape.MONOTONE, "As tl.exp: e^x and 2^fl(x log2 e) at both ends, widened by the error of ex2.", "exp",
     domain=EVERYWHERE)  # fmt: skip
monotone("cyl_bessel_i1")
monotone("log", "log2", "log10", domain=NON_NEGATIVE)
monotone("log1p", domain=(-1.0, math.inf))
monotone("acosh", domain=(1.0, math.inf))
monotone("asin", "acos", "atanh", "erfinv", domain=_UNIT)
monotone("erfcinv", domain=(0.0, 2.0))
monotone("normcdfinv", domain=(0.0, 1.0))
functions_of(Shape.UNIMODAL, "Both ends, and 1 where 0 lies inside.", "cosh", "cyl_bessel_i0")
functions_of(Shape.SPECIAL, "Both ends and the extrema inside; the whole range beyond 2^20.",
             "sin", "cos", "sinpi", "cospi")  # fmt: skip
fast(Shape.SPECIAL, "As sin and cos within pi, else top.", "sin", "cos", domain=(-3.14, 3.14))
function("tan", Shape.SPECIAL, doc="Both ends; the whole line where a pole may lie inside.")
function("rcbrt", Shape.SPECIAL, doc="Both ends; the whole line where 0 lies inside.")
function("tgamma", Shape.SPECIAL, doc="Both ends and the minimum at 1.4616; top where a pole lies inside.")
_LGAMMA = "Both ends and the minimum at 1.4616; below 0 points outside (-23.0001, -2.2637) only, else top."
function("lgamma", Shape.SPECIAL, doc=_LGAMMA)
_BESSEL = "Both ends and the extrema inside; beyond 8 chords and their sag"
functions_of(Shape.SPECIAL, f"{_BESSEL}.", "j0", "j1")
functions_of(Shape.SPECIAL, f"{_BESSEL}; -inf at 0, top below.", "y0", "y1", domain=NON_NEGATIVE)

jointly("pow", 2, lambda args, fmt, profile: joint.power(args[0], args[1], fmt, profile), "pow",
        "Corners of the box; a base below 0 needs one integer exponent, else top.")  # fmt: skip
jointly("atan2", 2, lambda args, fmt, profile: joint.atan2(args[0], args[1], fmt, profile), "atan2",
        "Corners of the box; [-pi, pi] where it meets the origin or the negative axis.")  # fmt: skip
for _name, _arity in (("hypot", 2), ("rhypot", 2), ("norm3d", 3), ("rnorm3d", 3), ("norm4d", 4), ("rnorm4d", 4)):
    jointly(_name, _arity, lambda args, fmt, profile, name=_name: joint.norm(name, args, fmt, profile), _name,
            "Ends of the magnitudes.")  # fmt: skip
exactly("remainder", 2, lambda args: joint.remainder(*args), "x - n y with one n, else [-|y|/2, |y|/2].", tight=False)
_add(Rule("fmod", Shape.SPECIAL, "As x % y: both the compiled sequence and the exact remainder.",
          flushed(lambda args, fmt, profile: arithmetic.fmod(args[0], args[1], fmt, profile)), 2, "function",
          rule_errors.remainder, tight=False))  # fmt: skip
exactly("copysign", 2, lambda args: joint.copysign(*args), "|x| with the sign of y; both signs where that is open.")
exactly("abs", 1, lambda args: arithmetic.abs_(args[0]), "Magnitudes; 0 if inside.")
exactly("saturatef", 1, lambda args: joint.saturate(args[0]), "Clamped to [0, 1]; NaN gives 0.")
integral("floor", _floor, "floor")
integral("ceil", _ceil, "ceil")
integral("trunc", arithmetic.trunc, "trunc")
integral("rint", arithmetic.rint, "Nearest integer, ties to even,")
integral("nearbyint", arithmetic.rint, "Nearest integer, ties to even,")
integral("round", joint.round_away, "Nearest integer, halves away from zero,")
exactly("logb", 1, lambda args: joint.logb(args[0]), "Exponent of the magnitudes at both ends.")
_add(Rule("nextafter", Shape.SPECIAL, "The neighbours of both ends; among subnormals also the smallest normal numbers.",
          flushed(lambda args, fmt, profile: joint.nextafter(args[0], args[1], fmt, _flush(fmt, profile))), 2,
          "function", rule_errors.flush, tight=False))  # fmt: skip

rounded("fdim", 2, joint.fdim, "max(x - y, 0) at the ends.")
for _name in ("fma", "fma_rn"):
    rounded(_name, 3, arithmetic.fma, "a b + c rounded once.", shape=Shape.BILINEAR)
rounded("add_rn", 2, arithmetic.add, "Sums of the ends, exact and rounded.", shape=Shape.LINEAR)
rounded("sub_rn", 2, arithmetic.sub, "Differences of the ends, exact and rounded.", shape=Shape.LINEAR)
rounded("mul_rn", 2, arithmetic.mul, "Products of the ends, exact and rounded.", shape=Shape.BILINEAR)
rounded("div_rn", 2, quotient, "Quotients of the ends; a divisor with 0 inside gives [-inf, inf].", "function")
rounded("rcp_rn", 1, reciprocal, "1 / x at both ends.", "function")
directed("add", 2, arithmetic.add)
directed("sub", 2, arithmetic.sub)
directed("mul", 2, arithmetic.mul)
directed("fma", 3, arithmetic.fma)
directed("div", 2, quotient)
directed("rcp", 1, reciprocal)
directed("sqrt", 1, root)

_DIRECTIONS = ("rn", "rz", "rd", "ru")
_TO_INTEGER = [f"{a}2{b}_{d}" for a in ("float", "double") for b in ("int", "uint", "ll", "ull") for d in _DIRECTIONS]
_TO_FLOAT = [f"{a}2float_{d}" for a in ("int", "uint", "ll", "ull", "double") for d in _DIRECTIONS]
_TO_FLOAT += ["int2double_rn", "uint2double_rn", *(f"{a}2double_{d}" for a in ("ll", "ull") for d in _DIRECTIONS)]

CONVERSIONS: dict[str, Rule] = {}
"""Functions that change the type or take integers beside floating-point numbers."""


def conversion(shape: Shape, doc: str, *names: str, cause: str | None = None, entry: str = "") -> None:
    CONVERSIONS.update({name: Rule(name, shape, doc, None, 1, cause, tight=False, entry=entry) for name in names})


_INTEGRAL = "both ends rounded to integers; tainted where the type may not hold one"
conversion(Shape.INTEGER, _INTEGRAL, *_TO_INTEGER, "llrint", "llround")
conversion(Shape.CAST, "the exact value and its rounding", *_TO_FLOAT, cause="cast")
conversion(Shape.INTEGER, "an integer; tainted where the bounds leave it open", "ilogb")
_BITS = "bits of a point; tainted for an interval"
conversion(Shape.BITS, _BITS, "float_as_int", "float_as_uint", "double_as_longlong", "double2loint", "double2hiint")
conversion(Shape.BITS, _BITS, "int_as_float", "uint_as_float", "longlong_as_double", "hiloint2double")
conversion(Shape.COMPARISON, "surely, possibly, or not at all", "isnan", "isinf", "finitef", "isfinited")
conversion(Shape.INTEGER, "an integer; tainted where the bounds leave the sign open", "signbit")
conversion(
    Shape.SPECIAL, "within 2.2e-6 (fp64: 5e-12) for n = 128, the one order with a documented error; others are refused",
    "jn", cause="function", entry="jn",
)  # fmt: skip
conversion(
    Shape.SPECIAL,
    "ceil(2 + 2.5 n) ulp for x < n (fp32), within 2.2e-6 beyond (fp64: 5e-12 past 1.5 n, else top); n < 0: top",
    "yn", cause="function", entry="yn",
)  # fmt: skip
conversion(Shape.SPECIAL, "x 2^n: exact but for overflow and subnormal results", "ldexp", "scalbn", cause="arith")

_OF_INTEGERS = "clz popc ffs brev byte_perm mulhi mul24 sad hadd rhadd"
INTEGERS: dict[str, Rule] = exact_rules(Shape.INTEGER, "An integer, exact.", _OF_INTEGERS)
"""Functions of integers, exact; `abs` has an integer form too."""

APPROXIMATE: dict[str, int] = {"tanh": 75}
"""Functions with a PTX instruction of their own error (NAME_approx in the profiles): the first compute capability."""

_FAST = "its error is documented for part of the range, or not at all; use the function without fast_"
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        ("fast_tanf", "fast_exp10f", "fast_powf", "fast_tanhf", "fast_dividef"),
        _FAST,
    ),
    "rcp64h": "an approximation of unknown error to the high half of a reciprocal",
}  # fmt: skip
"""Functions without a rule, and why."""

ASSUMED = {name: name.removeprefix("fast_").removesuffix("f") for name in REFUSED if name.startswith("fast_")} | {
    "fast_dividef": "div_rn"
}
"""Refused functions that a user may declare exact, and the function whose exact values then stand in."""
