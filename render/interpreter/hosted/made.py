"""Tables that torch makes of numbers alone: what their own roundings may be off. u is that of the table's own format,
in which torch computes them, bf16 and fp16 too (ATen's RangeFactories and TensorFactories); m = max(|start|, |end|).

linspace   start + i step up to the middle, end - (n - 1 - i) step from there. Both ends are rounded, their difference,
           n - 1, the step, i, the product (at most m) and the sum: 8 u m, and products of these.
arange     start + i step in float32 for narrower formats: 4 u of the last element.
logspace   base^x, x of a linspace: relative |ln base| times the error of x, and the error of pow.
windows    sums of at most three cosines c_k cos(2 pi k i / N), sum |c_k| <= 1, or of i / N, each operation rounded: the
           argument is at most 4 pi and off by 4 u of itself, the cosine by 2 ulp, products and sums by u each: 64 u.
kaiser     i0(b sqrt(y)) / i0(b) <= 1, y = 1 - r^2. i0 is a function of b^2 y with d log i0 <= 1/4;
           r has 3 roundings, y is off by 8 u at most: relative b^2 2 u + 4 |b| u for b itself and the root, of i0
           twice 4.0e-7 (5.8e-16 in fp64; Cephes), and the quotient.

Where numbers and table are whole and exact in the format, as in `arange(n)`, nothing rounds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from interval_ops.bounds import Pair
from interval_ops.formats.model import Format
from render.interpreter.hosted.call import Bounds, Call, Exact, Result, finished, inner_of
from render.ops.dtypes import FORMAT_OF

FILLS = ("full", "full_like", "new_full", "fill", "scalar_tensor")
WINDOWS = ("hann_window", "hamming_window", "blackman_window", "bartlett_window")


def _format(call: Call) -> Format | None:
    return FORMAT_OF.get(call.kwargs.get("dtype") or torch.get_default_dtype())


def _numbers(call: Call) -> list[float] | None:
    found = [float(x) for x in call.args if isinstance(x, (int, float)) and not isinstance(x, bool)]
    return found if len(found) == len(call.args) else None


def _wide(call: Call) -> np.ndarray:
    kept: dict[str, Any] = {k: v for k, v in call.kwargs.items() if k not in ("dtype", "out", "generator")}
    found: np.ndarray = call.op(*call.args, **kept, dtype=torch.float64).numpy()
    return found


def _around(call: Call, value: np.ndarray, error: np.ndarray | float, fmt: Format) -> Bounds:
    reach = 0.0 if call.profile.muted("arith") else error
    own = 2.0**-49 * np.abs(value)
    pair: Pair = value - reach - own, value + reach + own
    return finished(pair, fmt, call.profile)


def filled(call: Call) -> Result:
    """One number everywhere: as it is written, and as the type holds it."""
    x = next((x for name in ("fill_value", "value", "s") if (x := call.get(name)) is not None), None)
    if isinstance(x, torch.Tensor):
        return Bounds(call.end(0).numpy(), call.end(1).numpy())
    return Bounds(*call.held(x)) if isinstance(x, (int, float)) else None


def _spaced(call: Call) -> tuple[tuple[np.ndarray, np.ndarray], float] | None:
    """The exact table at the lower and at the upper ends of the two numbers that it goes between, which grows with
    both, and their largest magnitude. A tensor without dimensions is a number, and may be open."""
    given = call.args[:2]
    if any(isinstance(x, bool | complex) or (isinstance(x, torch.Tensor) and x.is_complex()) for x in given):
        return None
    ends = [call.pair(x) if isinstance(x, torch.Tensor) else (np.array(float(x)),) * 2 for x in given]
    kept: dict[str, Any] = {k: v for k, v in call.kwargs.items() if k not in ("dtype", "out")}
    low, high = (
        call.op.overloadpacket(*(float(e[side]) for e in ends), *call.args[2:], **kept, dtype=torch.float64).numpy()
        for side in (0, 1)
    )
    return (low, high), float(np.max(np.abs(ends)))


def _hull(x: Bounds, y: Bounds) -> Bounds:
    return Bounds(np.minimum(x.lo, y.lo), np.maximum(x.hi, y.hi))


def linspace(call: Call) -> Result:
    fmt, found = _format(call), _spaced(call)
    if fmt is None or found is None:
        return None
    tables, size = found
    return _hull(*(_around(call, x, 9 * fmt.u * size, fmt) for x in tables))


def arange(call: Call) -> Result:
    fmt, numbers = _format(call), _numbers(call)
    if fmt is None or numbers is None:
        return None
    value = _wide(call)
    size = max([abs(x) for x in numbers] + [float(np.abs(value).max(initial=0.0))])
    if all(x.is_integer() for x in numbers) and size <= 2.0**fmt.p:
        return Exact()
    return _around(call, value, 4 * inner_of(fmt).u * size, fmt)


def logspace(call: Call) -> Result:
    fmt, found = _format(call), _spaced(call)
    base = float(call.get("base", 10.0))
    if fmt is None or found is None or base <= 0:
        return None
    tables, size = found
    relative = abs(math.log(base)) * 9 * fmt.u * size + call.profile.fn("pow", inner_of(fmt).name).r + 2 * fmt.u
    return _hull(*(_around(call, x, np.expm1(relative) * np.abs(x), fmt) for x in tables))


def window(call: Call) -> Result:
    fmt = _format(call)
    return None if fmt is None else _around(call, _wide(call), 64 * fmt.u, fmt)


def kaiser(call: Call) -> Result:
    fmt = _format(call)
    if fmt is None:
        return None
    b, i0 = abs(float(call.get("beta", 12.0))), 7.0 if inner_of(fmt).bits == 32 else 6.0
    value = _wide(call)
    return _around(call, value, ((2 * b + 4) * b + 2 * i0 + 4) * fmt.u * np.abs(value), fmt)
