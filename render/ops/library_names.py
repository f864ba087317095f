"""Names of the vendor library beside the table of rules: conversions, functions of integers, and what is refused."""

from __future__ import annotations

_DIRECTIONS = ("rn", "rz", "rd", "ru")
_FROM_FLOAT = [f"{a}2{b}_{d}" for a in ("float", "double") for b in ("int", "uint", "ll", "ull") for d in _DIRECTIONS]
_TO_FLOAT = [f"{a}2float_{d}" for a in ("int", "uint", "ll", "ull", "double") for d in _DIRECTIONS]
_TO_DOUBLE = ["int2double_rn", "uint2double_rn", *(f"{a}2double_{d}" for a in ("ll", "ull") for d in _DIRECTIONS)]

CONVERSIONS: dict[str, str] = {
    **dict.fromkeys(_FROM_FLOAT, "both ends rounded to integers; tainted where the type may not hold one"),
    **dict.fromkeys(_TO_FLOAT, "the exact value and its rounding"),
    **dict.fromkeys(_TO_DOUBLE, "the exact value and its rounding"),
    **dict.fromkeys(("llrint", "llround"), "both ends rounded to integers; tainted where the type may not hold one"),
    "ilogb": "an integer; tainted where the bounds leave it open",
    **dict.fromkeys(
        ("int_as_float", "float_as_int", "uint_as_float", "float_as_uint", "longlong_as_double", "double_as_longlong",
         "hiloint2double", "double2loint", "double2hiint"), "bits of a point; tainted for an interval",
    ),
    **dict.fromkeys(("isnan", "isinf", "finitef", "isfinited"), "surely, possibly, or not at all"),
    "signbit": "an integer; tainted where the bounds leave the sign open",
    "jn": "within 2.2e-6 (fp64: 5e-12) for n = 128, the one order with a documented error; others are refused",
    "yn": "ceil(2 + 2.5 n) ulp for x < n (fp32), within 2.2e-6 beyond (fp64: 5e-12 past 1.5 n, else top); n < 0: top",
    "ldexp": "x 2^n: exact but for overflow and subnormal results",
    "scalbn": "x 2^n: exact but for overflow and subnormal results",
}  # fmt: skip
"""Functions that change the type or take integers beside floating-point numbers."""

INTEGERS = frozenset(["clz", "popc", "ffs", "brev", "byte_perm", "mulhi", "mul24", "sad", "hadd", "rhadd"])
"""Functions of integers, exact; `abs` has an integer form too."""

_FAST = "its error is documented for part of the range, or not at all; use the function without fast_"
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        ("fast_sinf", "fast_cosf", "fast_tanf", "fast_log2f", "fast_logf", "fast_log10f", "fast_expf", "fast_exp10f",
         "fast_powf", "fast_tanhf", "fast_dividef"), _FAST,
    ),
    "rcp64h": "an approximation of unknown error to the high half of a reciprocal",
}  # fmt: skip
"""Functions without a rule, and why."""

ASSUMED = {name: name.removeprefix("fast_").removesuffix("f") for name in REFUSED if name.startswith("fast_")} | {
    "fast_dividef": "div_rn"
}
"""Refused functions that a user may declare exact, and the function whose exact values then stand in."""
