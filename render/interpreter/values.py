"""Value lane: what each floating-point operation computes, exact and then rounded once to the format by `in_format`.

Keys are names of builder methods without `create_` and, with `library` before them, of vendor functions. A function of
one argument is that of `interval_ops.functions`, in float64. Arithmetic is numpy's in the operands' own precision where
that is correctly rounded; with float64 operands every entry is the operation in real arithmetic, to float64's accuracy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from interval_ops import threads
from interval_ops.arithmetic.fused import fma_value
from interval_ops.formats import casting
from interval_ops.formats.model import FP32, FP64, Format
from interval_ops.functions.elementary import FUNCTIONS
from interval_ops.library import joint, joint_kernels
from render.ops.library import LIBRARY
from render.ops.rule import Shape
from render.ops.table import RULES

Value = Callable[..., np.ndarray]


def in_format(v: np.ndarray, fmt: Format) -> np.ndarray:
    """A result, in the carrier or exact in float64, rounded to its format."""
    if fmt.p >= 24:
        return v.astype(np.float32) if fmt.bits == 32 and v.dtype == np.float64 else v
    return casting.round_value(v, fmt, "rtne", "saturate" if not fmt.has_inf else "inf")


def function(name: str) -> Value:
    """A function of one argument, in float64."""
    evaluate = FUNCTIONS[name].evaluate

    def value(x: np.ndarray) -> np.ndarray:
        flat = np.ascontiguousarray(x, np.float64).reshape(-1)
        out = np.empty_like(flat)
        with np.errstate(all="ignore"):
            threads.spread(lambda start, stop: evaluate(flat[start:stop], out[start:stop]), flat.size)
        return out.reshape(x.shape)

    return value


def wide(operation: Value) -> Value:
    """A numpy function on float64 operands."""

    def value(*x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return operation(*(a.astype(np.float64, copy=False) for a in x))

    return value


def _norm(*x: np.ndarray) -> np.ndarray:
    total = x[0]
    for a in x[1:]:
        total = np.hypot(total, a)
    found: np.ndarray = np.abs(total)
    return found


def _inverse_norm(*x: np.ndarray) -> np.ndarray:
    return 1 / _norm(*x)


def _fdim(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - y, 0.0))


def _logb(x: np.ndarray) -> np.ndarray:
    return joint.logb((np.abs(x),) * 2)[0]


def _remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return joint.remainder((x, x), (y, y))[0]


def _fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    found: np.ndarray = x * y + z
    return found


def _saturate(x: np.ndarray) -> np.ndarray:
    return joint.saturate((x, x))[0]


def _clamped(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.fmin(np.fmax(x, low), high)
    return found


def _directed(operation: int, direction: str) -> Value:
    """One operation of `joint_kernels.directed_values`, by its place in that list."""

    def value(*x: np.ndarray) -> np.ndarray:
        shape = np.broadcast_shapes(*(a.shape for a in x))
        flat = [np.ascontiguousarray(np.broadcast_to(a, shape), np.float64).reshape(-1) for a in x]
        first, second, third = flat + [np.zeros_like(flat[0])] * (3 - len(flat))
        out = np.empty_like(first)
        fmt = FP64 if x[0].dtype == np.float64 else FP32
        mode = joint.DIRECTIONS[direction]
        joint_kernels.directed_values(operation, mode, fmt is FP64, fmt.gate, first, second, third, out)
        return out.reshape(shape).astype(x[0].dtype)

    return value


def _directed_values() -> dict[str, Value]:
    out: dict[str, Value] = {}
    for direction in joint.DIRECTIONS:
        add, mul, div, root, fma = (_directed(k, direction) for k in range(5))
        out |= {f"add_{direction}": add, f"mul_{direction}": mul, f"div_{direction}": div, f"sqrt_{direction}": root}
        out[f"fma_{direction}"] = fma
        out[f"sub_{direction}"] = lambda x, y, add=add: add(x, -y)
        out[f"rcp_{direction}"] = lambda x, div=div: div(np.ones_like(x), x)
    return out


_VENDOR: dict[str, Value] = {
    **{name: function(rule.function) for name, rule in LIBRARY.items() if rule.function},
    "pow": wide(np.power), "atan2": wide(np.arctan2), "remainder": wide(_remainder), "fmod": wide(np.fmod),
    "hypot": wide(_norm), "norm3d": wide(_norm), "norm4d": wide(_norm),
    "rhypot": wide(_inverse_norm), "rnorm3d": wide(_inverse_norm), "rnorm4d": wide(_inverse_norm),
    "fdim": wide(_fdim), "copysign": np.copysign, "nextafter": np.nextafter, "abs": np.abs,
    "saturatef": wide(_saturate), "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
    "nearbyint": np.rint, "round": wide(joint.away), "logb": wide(_logb), "fma": wide(_fma), "fma_rn": wide(_fma),
    "add_rn": np.add, "sub_rn": np.subtract, "mul_rn": np.multiply, "div_rn": np.divide, "rcp_rn": np.reciprocal,
    **_directed_values(),
}  # fmt: skip

VALUES: dict[str, Value] = {
    **{op: function(rule.function) for op, rule in RULES.items() if rule.function},
    # numpy's square root is correctly rounded in fp32 too, and three times faster there.
    "sqrt": np.sqrt, "precise_sqrt": np.sqrt,
    "fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "fma": fma_value, "fdiv": np.divide,
    "precise_divf": np.divide, "frem": np.fmod, "fneg": np.negative, "fabs": np.abs, "floor": np.floor,
    "ceil": np.ceil, "maxnumf": np.fmax, "minnumf": np.fmin, "maximumf": np.maximum, "minimumf": np.minimum,
    "clampf": _clamped, "select": np.where, "fcmpOLT": np.less, "fcmpOLE": np.less_equal, "fcmpOGT": np.greater,
    "fcmpOGE": np.greater_equal, "fcmpOEQ": np.equal, "fcmpUNE": np.not_equal,
    **{f"library {name}": value for name, value in _VENDOR.items()},
}  # fmt: skip
"""Value of every operation of floats that has bounds of its own."""

OWN = frozenset(["clampf", "select"])
"""Operations whose builder methods are written out: they have no one format, or are made of others."""
ARITHMETIC = {op: VALUES[op] for op, rule in RULES.items() if op in VALUES and op not in OWN}
"""Builder methods that are nothing but a value and a rule."""
COMPARISONS = frozenset(op for op in ARITHMETIC if RULES[op].shape is Shape.COMPARISON)
