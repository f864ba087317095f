"""The slow evaluator: every value of a witness as an interval that no legal execution leaves.

One plain formula per operation (`_RULES`, `balls`, `functions`, `sums`). A truth value is a pair (surely, possibly).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mpmath import libmp
from mpmath.libmp import fone, fzero

from interval_ops.formats import FORMATS, Format
from render.witness import balls as b
from render.witness import functions, sums
from render.witness.balls import Interval, Maybe
from render.witness.document import Operation, operations

Truth = tuple[bool, bool]
Value = Any
"""Interval, None (anything) or Truth."""


class NoFormula(Exception):
    """An operation that the evaluator does not know."""


CHAINED = frozenset(["dot", "fold"])


class Evaluator:
    """Evaluates one document; `root` is the result."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.rules = document["rules"]
        self.ops = operations(document)
        self.root = int(document["root"])
        total = sum(o.size for o in self.ops)
        self.values: list[Value] = [None] * total
        self.owner = [i for i, o in enumerate(self.ops) for _ in range(o.size)]
        self.used = bytearray(total)
        self.pending = bytearray(total)

    def result(self) -> Maybe:
        self._mark()
        for op in self.ops:
            for k in range(op.size):
                if self.used[op.start + k]:
                    self.values[op.start + k] = self._value(op, k)
        found: Maybe = self.values[self.root]
        return found

    def _mark(self) -> None:
        """Which values are needed; sums inside a chain of dots are parts of its last one, never rounded between."""
        self.used[self.root] = 1
        for op in reversed(self.ops):
            for k in range(op.size):
                at = op.start + k
                if not (self.used[at] or self.pending[at]):
                    continue
                for place, operand in enumerate(op.operands):
                    for n in operand[k] if isinstance(operand[k], list) else (operand[k],):
                        if n < 0:
                            continue
                        if self._chained(op, place, n):
                            self.pending[n] = 1
                        else:
                            self.used[n] = 1

    def _chained(self, op: Operation, place: int, number: int) -> bool:
        """Whether this operand of a dot or fold is itself such a sum on the same unit."""
        if op.op not in CHAINED or (op.op == "dot" and place > 0):
            return False
        other = self.ops[self.owner[number]]
        return other.op in CHAINED and other.attrs["kind"] == op.attrs["kind"]

    def _value(self, op: Operation, k: int) -> Value:
        if op.op == "leaf":
            return _leaf(op, k)
        if op.op in CHAINED:
            chain = sums.Chain()
            model = self.rules["dots"][op.attrs["kind"]]
            self._collect(op, k, chain, model)
            return sums.dot(chain, model)
        rule = _RULES.get(op.op)
        if rule is None:
            raise NoFormula(op.op)
        return rule(self, op, k)

    def _collect(self, op: Operation, k: int, chain: sums.Chain, model: Mapping[str, Any]) -> None:
        todo = [(op, k)]
        while todo:
            op, k = todo.pop()
            places = (0,) if op.op == "dot" else (0, 1)
            if op.op == "dot":
                left, right = ([self.values[n] for n in op.operands[p][k]] for p in (1, 2))
                pairs = list(zip(left, right, strict=True))
                chain.dot(pairs, dict(model), op.attrs.get("imprecise"))
            for place in places:
                n = op.operands[place][k]
                if self._chained(op, place, n):
                    inner = self.ops[self.owner[n]]
                    todo.append((inner, n - inner.start))
                    chain.through |= op.op == "dot"
                elif self.values[n] != b.ZERO:
                    chain.add(self.values[n], dict(model), op.op == "fold")
            if op.op == "fold":
                chain.adds += all(self._chained(op, place, op.operands[place][k]) for place in places)

    # operands
    def args(self, op: Operation, k: int) -> list[Value]:
        return [self.values[operand[k]] for operand in op.operands]

    def terms(self, op: Operation, k: int) -> list[Maybe]:
        return [self.values[n] for n in op.operands[0][k] if n >= 0]

    def error(self, key: str, fmt: Format) -> dict[str, Any]:
        found: dict[str, Any] = self.rules["functions"][f"{key} {fmt.name}"]
        return found


def _leaf(op: Operation, k: int) -> Value:
    if op.attrs.get("source") == "truth":
        truth = float.fromhex(op.low[k]) != 0
        return truth, truth
    return b.interval(float.fromhex(op.low[k]), float.fromhex(op.high[k]))


def _fmt(op: Operation) -> Format:
    return FORMATS[op.attrs["fmt"]]


Rule = Callable[[Evaluator, Operation, int], Value]


def _rounding(formula: Callable[..., Maybe]) -> Rule:
    """A correctly rounded operation."""
    return lambda e, op, k: b.rounded(formula(*e.args(op, k)), _fmt(op))


def _product(e: Evaluator, op: Operation, k: int) -> Maybe:
    first, second = (operand[k] for operand in op.operands)
    x, y = e.args(op, k)
    return b.rounded(b.square(x) if first == second else b.mul(x, y), _fmt(op))


def _fma(e: Evaluator, op: Operation, k: int) -> Maybe:
    """One rounding; formats of few bits have no fused instruction everywhere, so two as well."""
    x, y, z = e.args(op, k)
    fused = b.rounded(b.add(b.mul(x, y), z), _fmt(op))
    if _fmt(op).p >= 11:
        return fused
    return b.hull(fused, b.rounded(b.add(b.rounded(b.mul(x, y), _fmt(op)), z), _fmt(op)))


def _quotient(key: str) -> Rule:
    def rule(e: Evaluator, op: Operation, k: int) -> Maybe:
        x, y = e.args(op, k)
        fmt = _fmt(op)
        wide = fmt if fmt.bits == 64 else b.FP32
        out = functions.within(b.div(x, y), e.error(key, fmt), wide, False)
        return out if out is None or fmt.bits >= 32 else b.hull(out, tuple(b.nearest(end, fmt) for end in out))  # type: ignore[arg-type]

    return rule


def _function(name: str, key: str) -> Rule:
    def rule(e: Evaluator, op: Operation, k: int) -> Maybe:
        fmt = _fmt(op)
        through = name == key == "exp" and bool(e.rules["exp_via_exp2"])
        return functions.apply(name, e.args(op, k)[0], e.error(key, fmt), fmt, through)

    return rule


def _remainder(e: Evaluator, op: Operation, k: int) -> Maybe:
    """x - n y with one rounding, n = trunc(x / y) of a quotient that may be off by u."""
    x, y = e.args(op, k)
    quotient = b.div(x, y)
    if quotient is None or b.infinite(quotient):
        return None
    fmt = _fmt(op)
    u = b.power(-23 if fmt.bits < 64 else -50)
    about = b.spread(quotient, b.times_up(b.magnitude(quotient), u))
    assert about is not None and x is not None and y is not None
    first, last = (_truncated(end) for end in about)
    if first == last:
        return b.rounded(b.sub(x, b.mul((first, first), y)), fmt)
    small = b.times_up(b.magnitude(x), u)
    reach = b.up(b.magnitude(y), small)
    low = libmp.mpf_neg(reach if b.less(x[0], fzero) else small)
    return b.rounded((low, reach if b.less(fzero, x[1]) else small), fmt)


def _truncated(x: Any) -> Any:
    return libmp.mpf_floor(x, b.PREC) if not b.less(x, fzero) else libmp.mpf_ceil(x, b.PREC)


def _integral(way: Any) -> Rule:
    def rule(e: Evaluator, op: Operation, k: int) -> Maybe:
        (x,) = e.args(op, k)
        if _fmt(op).bits == 32:
            x = functions.with_zero(x, b.FP32)
        return None if x is None else tuple(end if b.infinite((end, end)) else way(end, b.PREC) for end in x)  # type: ignore[return-value]

    return rule


def _extremum(pick: Any) -> Rule:
    return lambda e, op, k: _extreme(pick, e.args(op, k))


def _extreme(pick: Any, xs: list[Maybe]) -> Maybe:
    known = [x for x in xs if x is not None]
    if len(known) < len(xs):
        return None
    return pick(x[0] for x in known), pick(x[1] for x in known)


def _absolute(e: Evaluator, op: Operation, k: int) -> Maybe:
    (x,) = e.args(op, k)
    return None if x is None else b.sorted_magnitudes(x)


def _cast(e: Evaluator, op: Operation, k: int) -> Maybe:
    (x,) = e.args(op, k)
    src, dst, mode = FORMATS[op.attrs["src"]], FORMATS[op.attrs["dst"]], op.attrs["mode"]
    if dst.name in ("fp8e4b15", "e8m0", "e2m1"):
        raise NoFormula(f"cast to {dst.name}")
    middle = e.rules["double_rounding"].get(f"{src.name}->{dst.name}")
    if middle:
        name = middle.removesuffix("rz")
        x = _converted(x, FORMATS[name], "rtz" if name != middle else "rtne", "inf")
    elif src.bits == 64 and dst.name not in ("fp32", "fp16"):
        x = _converted(x, b.FP32, "rtne", "inf")
    return _converted(x, dst, mode, e.rules["overflow"][dst.name])


def _converted(x: Maybe, dst: Format, mode: str, overflow: str) -> Maybe:
    """Hull of x and its roundings; past the largest number what the target's conversion does there."""
    if x is None:
        return None
    ends = []
    for end in x:
        if b.infinite((end, end)):
            y, over = end, True
        else:
            y = b.to_format(end, dst, mode)
            over = b.too_large(y, dst)
        if over and mode == "rtz" and not b.infinite((end, end)):
            ends.append(_largest(end, dst))
        elif over:
            made = _overflowed(end, dst, overflow)
            if made is None:
                return None
            ends += made
        else:
            ends.append(y)
    return b.least([x[0], *ends]), b.most([x[1], *ends])


def _largest(x: Any, dst: Format) -> Any:
    top = b.raw(dst.max)
    return libmp.mpf_neg(top) if b.less(x, fzero) else top


def _overflowed(x: Any, dst: Format, overflow: str) -> list[Any] | None:
    """What |x| past the largest number may become; None for NaN."""
    endless = libmp.fninf if b.less(x, fzero) else libmp.finf
    if overflow == "saturate" or (overflow == "either" and not dst.has_inf and not dst.has_nan):
        return [_largest(x, dst)]
    if overflow == "nan" or not dst.has_inf:
        return None
    return [endless] if overflow == "inf" else [endless, _largest(x, dst)]


def _from_integer(e: Evaluator, op: Operation, k: int) -> Maybe:
    return b.rounded(e.args(op, k)[0], FORMATS[op.attrs["dst"]])


def _from_truth(e: Evaluator, op: Operation, k: int) -> Interval:
    surely, possibly = e.args(op, k)[0]
    return (fone if surely else fzero), (fone if possibly else fzero)


def _select(e: Evaluator, op: Operation, k: int) -> Maybe:
    (surely, possibly), x, y = e.args(op, k)
    if surely == possibly:
        return x if surely else y
    return b.hull(x, y)


def _compared(certain: Callable[[Interval, Interval], bool], excluded: Callable[[Interval, Interval], bool]) -> Rule:
    def rule(e: Evaluator, op: Operation, k: int) -> Truth:
        x, y = e.args(op, k)
        if x is None or y is None:
            return False, True
        return certain(x, y), not excluded(x, y)

    return rule


def _lt(x: Interval, y: Interval) -> bool:
    return b.less(x[1], y[0])


def _le(x: Interval, y: Interval) -> bool:
    return not b.less(y[0], x[1])


def _swap(test: Callable[[Interval, Interval], bool]) -> Callable[[Interval, Interval], bool]:
    return lambda x, y: test(y, x)


def _same(x: Interval, y: Interval) -> bool:
    return bool(x[0] == x[1] == y[0] == y[1])


def _apart(x: Interval, y: Interval) -> bool:
    return _lt(x, y) or _lt(y, x)


def _logic(formula: Callable[[Truth, Truth], Truth]) -> Rule:
    return lambda e, op, k: formula(*e.args(op, k))


def _xor(x: Truth, y: Truth) -> Truth:
    if x[0] != x[1] or y[0] != y[1]:
        return False, True
    return (x[0] != y[0],) * 2


_RULES: dict[str, Rule] = {
    "fadd": _rounding(b.add),
    "fsub": _rounding(b.sub),
    "fmul": _product,
    "fma": _fma,
    "fdiv": _quotient("div"),
    "precise_divf": _quotient("div_rn"),
    "frem": _remainder,
    "fneg": lambda e, op, k: b.neg(e.args(op, k)[0]),
    "fabs": _absolute,
    "floor": _integral(libmp.mpf_floor),
    "ceil": _integral(libmp.mpf_ceil),
    **dict.fromkeys(("maxnumf", "maximumf"), _extremum(b.most)),
    **dict.fromkeys(("minnumf", "minimumf"), _extremum(b.least)),
    **{name: _function(name, name) for name in ("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf")},
    "precise_sqrt": _function("sqrt", "sqrt_rn"),
    "sum": lambda e, op, k: sums.plain_sum(e.terms(op, k), _fmt(op), bool(e.rules["trees"]) and "scan" not in op.attrs),
    "prod": lambda e, op, k: sums.product(e.terms(op, k), _fmt(op)),
    "max": lambda e, op, k: _extreme(b.most, e.terms(op, k)),
    "min": lambda e, op, k: _extreme(b.least, e.terms(op, k)),
    "atomic_sum": lambda e, op, k: sums.atomic_sum(e.terms(op, k), _fmt(op), bool(e.rules["atomic_flush"])),
    "cast": _cast,
    "from_integer": _from_integer,
    "from_truth": _from_truth,
    "select": _select,
    "fcmpOLT": _compared(_lt, _swap(_le)),
    "fcmpOLE": _compared(_le, _swap(_lt)),
    "fcmpOGT": _compared(_swap(_lt), _le),
    "fcmpOGE": _compared(_swap(_le), _lt),
    "fcmpOEQ": _compared(_same, _apart),
    "fcmpUNE": _compared(_apart, _same),
    "and": _logic(lambda x, y: (x[0] and y[0], x[1] and y[1])),
    "or": _logic(lambda x, y: (x[0] or y[0], x[1] or y[1])),
    "xor": _logic(_xor),
    **{
        f"library {name}": _function(name, key)
        for name, key in [
            *((n, n) for n in functions.KNOWN if n not in ("exp", "rsqrt", "tan")),
            ("exp", "libdevice_exp"),
            ("rsqrt", "libdevice_rsqrt"),
        ]
    },
    "library sqrt_rn": _function("sqrt", "sqrt_rn"),
    "library abs": _absolute,
    "library floor": _integral(libmp.mpf_floor),
    "library ceil": _integral(libmp.mpf_ceil),
    "library trunc": _integral(lambda x, prec: _truncated(x)),
    "library rint": _integral(libmp.mpf_nint),
    "library nearbyint": _integral(libmp.mpf_nint),
}
"""Formula of every operation that the evaluator knows, by its name in `render.slice`."""

FUNCTIONS: dict[str, str] = {
    "fdiv": "div",
    "precise_divf": "div_rn",
    "precise_sqrt": "sqrt_rn",
    "library sqrt_rn": "sqrt_rn",
    "library exp": "libdevice_exp",
    "library rsqrt": "libdevice_rsqrt",
    **{n: n for n in ("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf")},
    **{f"library {n}": n for n in functions.KNOWN if n not in ("exp", "rsqrt")},
}
"""Operations with a documented error, and the profile's name of it."""

KNOWN = frozenset(_RULES) | CHAINED | {"leaf"}


def hexed(x: Any, direction: str) -> str:
    """A bound as a hexadecimal float64, rounded outward ("f" down, "c" up)."""
    value = libmp.to_float(libmp.mpf_pos(x, 53, direction), strict=False)
    return value.hex()


__all__ = ["FUNCTIONS", "KNOWN", "Evaluator", "NoFormula", "hexed"]
