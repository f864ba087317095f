"""Value lane of library functions: evaluated in float64, rounded once to the carrier."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from interval_ops.functions import elementary as functions
from interval_ops.library import joint, joint_kernels

Value = Callable[..., np.ndarray]

_KEYS = {"exp": "libdevice_exp", "rsqrt": "libdevice_rsqrt"}


def _unary(key: str) -> Value:
    if key in functions.MONOTONE:
        evaluate = functions.MONOTONE[key].evaluate
    else:
        evaluate = functions.BESSEL.get(key) or (functions.WAVES.get(key) or functions.POLES[key])[0]

    def value(x: np.ndarray) -> np.ndarray:
        flat = np.ascontiguousarray(x, np.float64).reshape(-1)
        out = np.empty_like(flat)
        with np.errstate(all="ignore"):
            evaluate(flat, out)
            return out.reshape(x.shape).astype(x.dtype)

    return value


def _wide(function: Value) -> Value:
    """A numpy function on float64 operands, rounded to the first operand's carrier."""

    def value(*x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return function(*(a.astype(np.float64) for a in x)).astype(x[0].dtype)

    return value


def _norm(inverse: bool) -> Value:
    def function(*x: np.ndarray) -> np.ndarray:
        total = x[0]
        for a in x[1:]:
            total = np.hypot(total, a)
        total = np.abs(total)
        return 1 / total if inverse else total

    return _wide(function)


def _fdim(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x > y, x - y, 0.0))


def _logb(x: np.ndarray) -> np.ndarray:
    return joint.logb((np.abs(x),) * 2)[0]


def _remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return joint.remainder((x, x), (y, y))[0]


def _fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    return x * y + z


def _saturate(x: np.ndarray) -> np.ndarray:
    return joint.saturate((x, x))[0]


def directed(operation: int, direction: str) -> Value:
    """One operation of `joint_kernels.directed_values`, by its place in that list."""
    from interval_ops.formats.model import FP32, FP64

    def value(*x: np.ndarray) -> np.ndarray:
        shape = np.broadcast_shapes(*(a.shape for a in x))
        flat = [np.ascontiguousarray(np.broadcast_to(a, shape), np.float64).reshape(-1) for a in x]
        flat += [np.zeros_like(flat[0])] * (3 - len(flat))
        out = np.empty_like(flat[0])
        fmt = FP64 if x[0].dtype == np.float64 else FP32
        joint_kernels.directed_values(operation, joint.DIRECTIONS[direction], fmt is FP64, fmt.gate, *flat, out)
        return out.reshape(shape).astype(x[0].dtype)

    return value


def _directed_family() -> dict[str, Value]:
    out: dict[str, Value] = {}
    for direction in joint.DIRECTIONS:
        add, mul, div, root, fma = (directed(k, direction) for k in range(5))
        out |= {f"add_{direction}": add, f"mul_{direction}": mul, f"div_{direction}": div, f"sqrt_{direction}": root}
        out[f"fma_{direction}"] = fma
        out[f"sub_{direction}"] = lambda x, y, add=add: add(x, -y)
        out[f"rcp_{direction}"] = lambda x, div=div: div(np.ones_like(x), x)
    return out


VALUES: dict[str, Value] = {
    **{name: _unary(_KEYS.get(name, name)) for name in functions.UNARY if not name.startswith("libdevice_")},
    "pow": _wide(np.power), "atan2": _wide(np.arctan2), "remainder": _wide(_remainder), "fmod": _wide(np.fmod),
    "hypot": _norm(False), "norm3d": _norm(False), "norm4d": _norm(False),
    "rhypot": _norm(True), "rnorm3d": _norm(True), "rnorm4d": _norm(True),
    "fdim": _wide(_fdim), "copysign": np.copysign, "nextafter": np.nextafter, "abs": np.abs,
    "saturatef": _wide(_saturate), "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
    "nearbyint": np.rint, "round": _wide(joint.away), "logb": _wide(_logb), "fma": _wide(_fma), "fma_rn": _wide(_fma),
    "add_rn": np.add, "sub_rn": np.subtract, "mul_rn": np.multiply, "div_rn": np.divide, "rcp_rn": np.reciprocal,
    **_directed_family(),
}  # fmt: skip
"""Library function -> value lane, for every entry of `render.ops.library.LIBRARY`."""
