"""How far an output lies from the oracle's: one number per input, over all outputs of a function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from interval_ops.formats.model import FORMATS, Format

Array = np.ndarray
Metric = Callable[[Array, Array, Format], float]


def differs(y: Array, e: Array) -> bool:
    """Whether y has a NaN or an infinity where e has none, or the other way round: a failure, not a sample."""
    if y.shape != e.shape:
        return True
    finite = np.isfinite(e)
    if not np.array_equal(np.isfinite(y), finite):
        return True
    return not finite.all() and not np.array_equal(y[~finite], e[~finite], equal_nan=True)


def hybrid(y: Array, e: Array, fmt: Format) -> float:
    """max |y - e| / (1 + |e|): the smallest tol at which allclose(rtol=tol, atol=tol) passes."""
    return float((np.abs(y - e) / (1 + np.abs(e))).max(initial=0.0))


def normwise(y: Array, e: Array, fmt: Format) -> float:
    """||y - e|| / ||e||; ||y - e|| where e is zero everywhere."""
    scale = float(np.abs(e).max(initial=0.0)) or 1.0  # squares of float64's extremes would leave its range
    whole = float(np.linalg.norm((e / scale).ravel()))
    return float(np.linalg.norm(((y - e) / scale).ravel())) / (whole or 1.0)


def ulp(y: Array, e: Array, fmt: Format) -> float:
    """max |y - e| in units of the last place of e in the output's format."""
    _, exponent = np.frexp(np.abs(e))
    exponent = np.where(e == 0, fmt.emin, exponent - 1)
    spacing = np.ldexp(1.0, np.maximum(exponent, fmt.emin) - (fmt.p - 1))
    return float((np.abs(y - e) / spacing).max(initial=0.0))


METRICS: dict[str, Metric] = {"hybrid": hybrid, "norm": normwise, "ulp": ulp}
SAID = {
    "hybrid": "max |y - e| / (1 + |e|)", "norm": "||y - e|| / ||e||", "ulp": "max |y - e| in ulp of the output",
}  # fmt: skip


def measured(metric: Metric, ys: Sequence[Array], es: Sequence[Array], formats: Sequence[Format]) -> float:
    """The largest over the outputs; NaN for a failure. Elements on whose infinity or NaN both agree are left out."""
    worst = 0.0
    for y, e, fmt in zip(ys, es, formats, strict=True):
        if differs(y, e):
            return math.nan
        finite = np.isfinite(e)
        y, e = (y, e) if finite.all() else (y[finite], e[finite])
        with np.errstate(over="ignore"):
            found = metric(np.asarray(y, np.float64), np.asarray(e, np.float64), fmt)
        worst = max(worst, found)
    return worst


_TORCH = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8_e5m2": "fp8e5",
          "float8_e4m3fn": "fp8e4nv", "float8_e4m3fnuz": "fp8e4b8", "float8_e5m2fnuz": "fp8e5b16"}  # fmt: skip


def format_of(dtype: object) -> Format:
    """The format of a torch dtype; integers count as float64."""
    return FORMATS[_TORCH.get(str(dtype).removeprefix("torch."), "fp64")]
