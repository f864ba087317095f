"""Formulas for many values of one operation at once: `formulas` in float64.

Ends are float64 numbers, rounded outward (`floats`): a million exponentials take a fifth of a second instead of half a
minute. A sample of every operation is evaluated by its plain formula as well and has to lie inside. Formats of 64 bits
are left to those as long as it is not too much: float64's own rounding counts there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from interval_ops.formats.model import FORMATS, Format
from render.exact import intervals as iv
from render.exact.functions import NEVER_NEGATIVE
from render.exact.points import PREC, Point, endless, power, times_up, up
from render.witness import casts, errors
from render.witness import floats as f
from render.witness.document import Operation
from render.witness.library import KEYS
from render.witness.values import Ends

if TYPE_CHECKING:
    from render.witness.evaluate import Evaluator

MANY = 256
"""Operands of an operation from which on it is evaluated so."""
VERY_MANY = 65_536
"""The same for formats of 64 bits."""
SAMPLE = 4
WIDE = 256
"""Terms of one value that a sample may have."""
SPARE = 8
"""Last bits of a plain end that its few outward roundings may have moved."""
_FP32 = FORMATS["fp32"]
Formula = Callable[["Evaluator", Operation, np.ndarray], Ends]
"""(evaluator, operation, places in it) -> ends of those values."""


def applies(op: str, attrs: Mapping[str, Any], operands: int, exact: bool = False) -> bool:
    """Whether there is such a formula, and enough to do. `exact`: nothing is rounded but by float64."""
    if op == "leaf":
        return attrs.get("source") != "truth"
    wide = FORMATS.get(attrs.get("fmt", ""), _FP32).bits == 64 and not exact
    if operands < (VERY_MANY if wide else MANY):
        return False
    return op in RULES and (op != "cast" or _plain_cast(attrs))


def evaluate(e: Evaluator, op: Operation, rows: np.ndarray) -> Ends:
    """Raises ArithmeticError where the plain formula does not confirm a sample."""
    with np.errstate(all="ignore"):
        found = RULES[op.op](e, op, rows)
    if op.op != "leaf":
        from render.witness.formulas import RULES as PLAIN

        compared(op, rows, found, lambda k: PLAIN[op.op](e, op, k))
    return found


def compared(op: Operation, rows: np.ndarray, found: Ends, plain_of: Callable[[int], Any]) -> None:
    """Raises ArithmeticError where the plain formula of a sample leaves what was found."""
    if any(o.ndim == 2 and o.shape[1] > WIDE for o in op.operands):
        return
    for i in np.unique(np.linspace(0, len(rows) - 1, SAMPLE).astype(int)).tolist():
        plain = plain_of(int(rows[i]))
        many = iv.interval(float(found[0][i]), float(found[1][i]))
        if many is not None and (plain is None or _inward(plain[0], 1) < many[0] or many[1] < _inward(plain[1], -1)):
            raise ArithmeticError(f"two evaluations of {op.op} differ (line {op.line})")


def _inward(end: Point, sign: int) -> Point:
    """A plain end without its own rounding: float64 may round a sum (`1e38 - 1e-30`) to where so many bits do not."""
    return end if endless(end) else up(end, times_up(abs(end), power(SPARE - PREC)) * sign)


def _operands(e: Evaluator, op: Operation, rows: np.ndarray) -> list[Ends]:
    found = []
    for o in op.operands:
        lo, hi = e.values.ends(o[rows])
        found.append((lo, lo) if np.array_equal(lo, hi) else (lo, hi))
    return found


def _leaf(e: Evaluator, op: Operation, rows: np.ndarray) -> Ends:
    return op.low[rows], op.high[rows]


def _rounding(formula: Callable[..., Ends]) -> Formula:
    return lambda e, op, rows: f.rounded(formula(*_operands(e, op, rows)), FORMATS[op.attrs["fmt"]])


def _difference(e: Evaluator, op: Operation, rows: np.ndarray) -> Ends:
    (xl, xh), (yl, yh) = _operands(e, op, rows)
    lo, hi = f.rounded(f.sub((xl, xh), (yl, yh)), FORMATS[op.attrs["fmt"]])
    for low, high in e.sentinels:
        same = (xl == low) & (xh == high) & (yl == low) & (yh == high)
        lo, hi = np.where(same, 0.0, lo), np.where(same, 0.0, hi)
    return lo, hi


def _product(e: Evaluator, op: Operation, rows: np.ndarray) -> Ends:
    x, y = _operands(e, op, rows)
    exact, same = f.mul(x, y), op.operands[0][rows] == op.operands[1][rows]
    if same.any():
        exact = tuple(np.where(same, s, p) for s, p in zip(f.square(x), exact, strict=True))  # type: ignore[assignment]
    return f.rounded(exact, FORMATS[op.attrs["fmt"]])


def _fma(e: Evaluator, op: Operation, rows: np.ndarray) -> Ends:
    x, y, z = _operands(e, op, rows)
    fmt, inner = FORMATS[op.attrs["fmt"]], f.mul(x, y)
    once = f.rounded(f.add(inner, z), fmt)
    return once if fmt.p >= 11 else _hull(once, f.rounded(f.add(f.rounded(inner, fmt), z), fmt))


def _hull(*xs: Ends) -> Ends:
    return f.whole(np.minimum.reduce([x[0] for x in xs]), np.maximum.reduce([x[1] for x in xs]))


def _extremum(pick: Any) -> Formula:
    def rule(e: Evaluator, op: Operation, rows: np.ndarray) -> Ends:
        args = _operands(e, op, rows)
        return f.whole(pick.reduce([x[0] for x in args]), pick.reduce([x[1] for x in args]))

    return rule


def _extreme(pick: Any, neutral: float) -> Formula:
    """The largest or smallest term of each value."""

    def rule(e: Evaluator, op: Operation, rows: np.ndarray) -> Ends:
        (numbers,) = (o[rows] for o in op.operands)
        there = numbers >= 0
        lo, hi = e.values.ends(np.maximum(numbers, 0))
        return f.whole(*(pick.reduce(np.where(there, end, neutral), axis=1) for end in (lo, hi)))

    return rule


def _quotient(key: str) -> Formula:
    def rule(e: Evaluator, op: Operation, rows: np.ndarray) -> Ends:
        fmt = FORMATS[op.attrs["fmt"]]
        out = within(f.div(*_operands(e, op, rows)), e.error(key, fmt), _wide(fmt), False)
        return _narrowed(out, fmt)

    return rule


def _wide(fmt: Format) -> Format:
    return fmt if fmt.bits == 64 else _FP32


def _narrowed(out: Ends, fmt: Format) -> Ends:
    return out if fmt.bits >= 32 else _hull(out, tuple(f.nearest(end, fmt) for end in out))  # type: ignore[arg-type]


def _with_zero(x: Ends, fmt: Format) -> Ends:
    """As `errors.with_zero`."""
    low, high = f.magnitudes(x)
    tiny = (low < fmt.min_normal) & (high != 0)
    return np.where(tiny, np.minimum(x[0], 0.0), x[0]), np.where(tiny, np.maximum(x[1], 0.0), x[1])


def within(y: Ends, error: Mapping[str, Any], fmt: Format, positive: bool) -> Ends:
    """As `errors.within`."""
    r, a, huge = float(error["r"]), float(error["a"]), error.get("huge")
    if r <= fmt.u and a <= max(fmt.half_subnormal, 2.0**-1074) and not error["ftz"]:
        return f.rounded(y, fmt)
    by = [np.where(np.isinf(end), 0.0, f.up(f.up(np.abs(end) * r) + a)) for end in y]
    low, high = (
        np.where(np.isinf(y[0]), y[0], f.down(y[0] - by[0])),
        np.where(np.isinf(y[1]), y[1], f.up(y[1] + by[1])),
    )
    low = np.maximum(low, 0.0) if positive else low
    edge = fmt.max if huge is None else min(fmt.max, huge)
    high = np.where((high >= edge) & ((high > fmt.max) | (huge is not None)), np.inf, high)
    low = np.where((low <= -edge) & ((low < -fmt.max) | (huge is not None)), -np.inf, low)
    return f.whole(*(_with_zero((low, high), fmt) if error["ftz"] else (low, high)))


def _function(name: str, key: str) -> Formula:
    """As `errors.apply`, without its exact results at 0 and infinities."""

    def rule(e: Evaluator, op: Operation, rows: np.ndarray) -> Ends:
        fmt = FORMATS[op.attrs["fmt"]]
        wide = _wide(fmt)
        error = e.error_of(op, key)
        (given,) = _operands(e, op, rows)
        x = _with_zero(given, wide) if error["ftz"] else given
        y = f.function(name, x)
        if name == key == "exp" and e.rules["exp_via_exp2"] and wide is _FP32 and "error" not in op.attrs:
            factor = np.array(float(errors.LOG2E))
            power = f.mul(x, (factor, factor))
            power = f.nearest(power[0], _FP32), f.nearest(power[1], _FP32)
            out = _hull(f.rounded(y, _FP32), within(f.function("exp2", power), error, _FP32, True))
        else:
            out = within(y, error, wide, name in NEVER_NEGATIVE)
        out = f.whole(np.where(f.endless(given), np.minimum(out[0], y[0]), out[0]),
                      np.where(f.endless(given), np.maximum(out[1], y[1]), out[1]))  # fmt: skip
        if error.get("breaks") and wide is _FP32:
            low, high = f.magnitudes(given)
            out = f.whole(np.where((low < _FP32.min_normal) & (high != 0), np.nan, out[0]), out[1])
        return _narrowed(out, fmt)

    return rule


# conversions


def _plain_cast(attrs: Mapping[str, Any]) -> bool:
    dst, src, mode = attrs["dst"], FORMATS[attrs["src"]], attrs["mode"]
    if dst in ("e8m0", "e2m1", "fp8e4b15") or mode not in ("rtne", "rtz"):
        return False
    return "overflow" in attrs or src.bits < 64 or dst in ("fp64", "fp32", "fp16")


def _cast(e: Evaluator, op: Operation, rows: np.ndarray) -> Ends:
    """As `casts.cast`; one by one where the target converts in several steps."""
    src, dst, mode = op.attrs["src"], FORMATS[op.attrs["dst"]], op.attrs["mode"]
    key = f"{src}->{dst.name}"
    if "overflow" not in op.attrs and (e.rules["double_rounding"].get(key) or key in e.rules.get("older", {})):
        found = [casts.cast(e, op, int(k)) for k in rows]
        return e.values.many(found)
    (x,) = _operands(e, op, rows)
    overflow = op.attrs.get("overflow") or e.rules["overflow"][dst.name]
    lows, highs = [x[0]], [x[1]]
    for end in x:
        y = f.to_format(end, dst, mode == "rtz")
        over = (np.abs(y) > dst.max) | np.isinf(end)
        largest, endless = np.copysign(dst.max, end), np.copysign(np.inf, end)
        if mode == "rtz":
            y, over = np.where(over & np.isfinite(end), largest, y), np.isinf(end)
        for there in _overflowed(dst, overflow, largest, endless):
            lows.append(np.where(over, there, y))
            highs.append(np.where(over, there, y))
    return f.whole(np.minimum.reduce(lows), np.maximum.reduce(highs))


def _overflowed(dst: Format, overflow: str, largest: np.ndarray, endless: np.ndarray) -> list[np.ndarray]:
    if (not dst.has_nan and not dst.has_inf) or overflow == "saturate":
        return [largest]
    if overflow == "nan" or not dst.has_inf:
        return [np.full_like(largest, np.nan)]
    return [endless] if overflow == "inf" else [endless, largest]


RULES: dict[str, Formula] = {
    "leaf": _leaf,
    "fadd": _rounding(f.add),
    "fsub": _difference,
    "fmul": _product,
    "fma": _fma,
    "fdiv": _quotient("div"),
    "precise_divf": _quotient("div_rn"),
    "fneg": lambda e, op, rows: f.neg(_operands(e, op, rows)[0]),
    "fabs": lambda e, op, rows: f.whole(*f.magnitudes(_operands(e, op, rows)[0])),
    **dict.fromkeys(("maxnumf", "maximumf"), _extremum(np.maximum)),
    **dict.fromkeys(("minnumf", "minimumf"), _extremum(np.minimum)),
    "max": _extreme(np.maximum, -np.inf),
    "min": _extreme(np.minimum, np.inf),
    **{name: _function(name, name) for name in f.NUMPY},
    "precise_sqrt": _function("sqrt", "sqrt_rn"),
    **{f"library {name}": _function(name, KEYS.get(name, name)) for name in f.NUMPY},
    "cast": _cast,
}

__all__ = ["MANY", "RULES", "applies", "evaluate"]
