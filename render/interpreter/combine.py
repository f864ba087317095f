"""What a combine function of `tl.reduce` or `tl.associative_scan` computes, read from its source.

A function that Triton ships is known by identity. Of others, straight-line code of sums, products and extrema is
expanded symbolically and compared with the forms that have a rule for every order of combination; a form that is not
recognised gives None, never a guess.
"""

from __future__ import annotations

import ast
import math
import operator
import textwrap
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial, reduce
from itertools import product
from typing import Any, NamedTuple

from triton.language import standard

KNOWN = {
    "_sum_combine": "sum",
    "_prod_combine": "prod",
    "_elementwise_max": "max",
    "_elementwise_min": "min",
    "_argmax_combine_tie_break_left": "argmax",
    "_argmax_combine_tie_break_fast": "argmax",
    "_argmin_combine_tie_break_left": "argmin",
    "_argmin_combine_tie_break_fast": "argmin",
    "_xor_combine": "xor",
    "_or_combine": "or",
    "_and_combine": "and",
}
_CALLS = {"tl.maximum": "max", "tl.minimum": "min", "max": "max", "min": "min"}
_EXPONENTIALS = {"tl.exp": "exp", "tl.exp2": "exp2"}
_NAMED = {"tl.log": "log", "tl.log2": "log2", "tl.sqrt": "sqrt", "tl.sqrt_rn": "sqrt", "tl.abs": "abs",
              "abs": "abs", "libdevice.log1p": "log1p", "tl.extra.libdevice.log1p": "log1p",
              **_EXPONENTIALS}  # fmt: skip
FUNCTIONS = frozenset(_NAMED.values())
"""What a combine function calls of one value, as expressions name it."""
_TYPES = ("own", "float32", "float16", "bfloat16", "float64")
_SYMBOLS: dict[type, str] = {ast.Add: "+", ast.Mult: "*", ast.Sub: "-", ast.Div: "/", ast.BitOr: "|"}
_COMPARED: dict[type, Any] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip
_LOGIC: dict[type, Any] = {ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor}
Expression = tuple[Any, ...]


class Linear(NamedTuple):
    """(.., a, .., b, ..) of a linear recurrence: positions of factor and addend."""

    factor: int
    addend: int


class LogSumExp(NamedTuple):
    """Positions of maximum and sums, and the exponential: (max(m, n), s b^(m - max) + t b^(n - max), ..)."""

    maximum: int
    sums: tuple[int, ...]
    base: str


def combine_kind(fn: Any) -> str | None:
    """Name of the rule for a combine function of one value (argmax and argmin: of a value and its index)."""
    if not callable(getattr(fn, "fn", fn)):
        raise TypeError(f"a combine function is needed, not {fn!r}")
    name = getattr(getattr(fn, "fn", fn), "__name__", "")
    if getattr(standard, name, None) is fn and name in KNOWN:
        return KNOWN[name]
    each = componentwise(fn)
    return each[0] if each is not None and len(each) == 1 else None


def selection(fn: Any) -> str | None:
    """The rule of a function that compares and chooses: "max" or "min" of one value, "argmax" or "argmin" of a value
    and its index, the lower one of equals. It holds where no value is NaN: tests for that are taken either way.

    Such a function computes nothing, so what it chooses in each order of its operands is what it does.
    """
    source = source_of(fn)
    made = None if source is None else _choices(source)
    return None if made is None else _extreme(*made)


def chooses(fn: Any) -> bool:
    """Whether a function only compares and chooses, whatever: what it rounds on the way reaches no result."""
    source = source_of(fn)
    return source is not None and _choices(source) is not None


@lru_cache(maxsize=256)
def _choices(source: str) -> tuple[list[str], dict[Any, tuple[Any, ...]]] | None:
    """Parameters, and what is chosen in each order of them; None where it does anything else, or by other tests."""
    try:
        function = ast.parse(textwrap.dedent(source)).body[0]
    except SyntaxError:
        return None
    if not isinstance(function, ast.FunctionDef):
        return None
    names = [a.arg for a in function.args.args]
    tests = sum(isinstance(node, ast.If) for node in ast.walk(function))
    if len(names) not in (2, 4) or tests > 3:
        return None
    indices = [(0, 1), (1, 0)] if len(names) == 4 else [()]
    found: dict[Any, tuple[Any, ...]] = {}
    for values, places, taken in product(((0, 1), (1, 0), (0, 0)), indices, product((False, True), repeat=tests)):
        ranks = [("value", values[0]), *(("index", i) for i in places[:1]),
                 ("value", values[1]), *(("index", i) for i in places[1:])]  # fmt: skip
        chosen = Choice(dict(zip(names, zip(names, ranks, strict=True), strict=True)), iter(taken)).run(function.body)
        if chosen is None or len(chosen) != len(names) // 2:
            return None
        if found.setdefault((values, places), chosen) != chosen:
            return None
    return names, found


def _extreme(names: list[str], found: Mapping[Any, tuple[Any, ...]]) -> str | None:
    """Which of larger and smaller all these choices are."""
    for kind, better in (("max", 1), ("min", -1)):
        if all(_is_better(names, values, places, chosen, better) for (values, places), chosen in found.items()):
            return kind if len(names) == 2 else f"arg{kind}"
    return None


def _is_better(names: list[str], values: Any, places: Any, chosen: tuple[Any, ...], better: int) -> bool:
    left, right = names[: len(names) // 2], names[len(names) // 2 :]
    if values[0] == values[1] and not places:
        return chosen[0] in (left[0], right[0])
    first = places[0] < places[1] if values[0] == values[1] else (values[0] - values[1]) * better > 0
    if values[0] == values[1]:
        return chosen[0] in (left[0], right[0]) and chosen[1] == (left if first else right)[1]
    return chosen == tuple(left if first else right)


class Choice:
    """One run of a function over truth values and parameters: (name, (role, rank among those of its role))."""

    def __init__(self, known: dict[str, Any], taken: Iterator[bool]) -> None:
        self.known, self.taken = known, taken

    def run(self, body: list[ast.stmt]) -> tuple[Any, ...] | None:
        """The names that it returns; None where it does anything but compare and choose."""
        try:
            out = self._statements(body)
        except (KeyError, TypeError, StopIteration):
            return None
        return None if out is None or not all(isinstance(x, tuple) for x in out) else tuple(x[0] for x in out)

    def _statements(self, body: list[ast.stmt]) -> list[Any] | None:
        for node in body:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue
            if isinstance(node, ast.Return) and node.value is not None:
                return [self._value(v) for v in getattr(node.value, "elts", [node.value])]
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                self.known[node.targets[0].id] = self._value(node.value)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
                self.known[name] = self._logic(node.op, self.known[name], self._value(node.value))
            elif isinstance(node, ast.If) and not node.orelse and isinstance(node.test, ast.Call):
                if next(self.taken) and self._statements(node.body) is not None:
                    raise TypeError
            else:
                raise TypeError
        return None

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return self.known[node.id]
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            (_, (role, i)), (_, (other, j)) = self._value(node.left), self._value(node.comparators[0])
            if role != other:
                raise TypeError
            return _COMPARED[type(node.ops[0])](i, j)
        if isinstance(node, ast.BinOp):
            return self._logic(node.op, self._value(node.left), self._value(node.right))
        if isinstance(node, ast.BoolOp):
            join = ast.BitAnd() if isinstance(node.op, ast.And) else ast.BitOr()
            return reduce(partial(self._logic, join), map(self._value, node.values))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
            return self._logic(ast.BitXor(), True, self._value(node.operand))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.where" and len(node.args) == 3:
            condition, x, y = map(self._value, node.args)
            if condition is not True and condition is not False:
                raise TypeError
            return x if condition else y
        raise TypeError

    def _logic(self, op: ast.operator, x: Any, y: Any) -> bool:
        if not isinstance(x, bool) or not isinstance(y, bool):
            raise TypeError
        return bool(_LOGIC[type(op)](x, y))


def componentwise(fn: Any) -> tuple[str, ...] | None:
    """Rule of each component, where every component is combined by itself ("sum", "prod", "max" or "min")."""
    found = read(fn)
    if found is None:
        return None
    left, right, outputs = found
    kinds = tuple(kind_of(out, x, y) for out, x, y in zip(outputs, left, right, strict=True))
    return kinds if all(kinds) else None  # type: ignore[return-value]


def linear_recurrence(fn: Any) -> Linear | None:
    """Which components are factor and addend, if the function is (a, b), (c, d) -> (a c, b c + d)."""
    found = read(fn)
    if found is None or len(found[2]) != 2:
        return None
    left, right, outputs = found
    for factor, addend in ((0, 1), (1, 0)):
        product = commutative("*", left[factor], right[factor])
        grown = commutative("+", commutative("*", left[addend], right[factor]), right[addend])
        if outputs[factor] == product and outputs[addend] == grown:
            return Linear(factor, addend)
    return None


def log_sum_exp(fn: Any) -> LogSumExp | None:
    """Which components are maximum and sums of exponentials, if the function merges such values."""
    found = read(fn)
    if found is None or len(found[2]) < 2:
        return None
    left, right, outputs = found
    for m in range(len(outputs)):
        largest = commutative("max", left[m], right[m])
        sums = tuple(k for k in range(len(outputs)) if k != m)
        for base in _EXPONENTIALS.values():
            scales = [(base, ("-", x[m], largest)) for x in (left, right)]
            wanted = {
                k: commutative("+", *(commutative("*", x[k], e) for x, e in zip((left, right), scales, strict=True)))
                for k in sums
            }
            if outputs[m] == largest and all(outputs[k] == e for k, e in wanted.items()):
                return LogSumExp(m, sums, base)
    return None


def kind_of(out: Expression, x: Expression, y: Expression) -> str | None:
    for symbol, kind in (("+", "sum"), ("*", "prod"), ("max", "max"), ("min", "min")):
        if out == commutative(symbol, x, y):
            return kind
    return None


Read = tuple[list[Expression], list[Expression], list[Expression]]


def read(fn: Any) -> Read | None:
    """Left parameters, right parameters and outputs as expressions; None if the body is anything but such code."""
    source = source_of(fn)
    return None if source is None else parsed(source)


def source_of(fn: Any) -> str | None:
    """The text of a jitted function."""
    source = getattr(fn, "raw_src", None)
    return None if source is None else "".join(source)


def returns_at(fn: Any) -> int | None:
    """Line of its file at which a jitted function returns; None for what has no text."""
    source, first = source_of(fn), getattr(fn, "starting_line_number", None)
    if source is None or first is None:
        return None
    lines = [node.lineno for node in ast.walk(ast.parse(textwrap.dedent(source))) if isinstance(node, ast.Return)]
    return int(first) + max(lines) - 1 if lines else None


@lru_cache(maxsize=256)
def parsed(source: str) -> Read | None:
    try:
        tree = ast.parse(textwrap.dedent(source))
    except SyntaxError:
        return None
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef):
        return None
    known: dict[str, Expression] = {a.arg: ("name", a.arg) for a in function.args.args}
    names, count = list(known.values()), len(known) // 2
    for statement in function.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement, ast.Return) and statement.value is not None:
            values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
            outputs = [_expand(v, known) for v in values]
            if len(names) != 2 * count or len(outputs) != count or None in outputs:
                return None
            return names[:count], names[count:], outputs  # type: ignore[return-value]
        if not _assign(statement, known):
            return None
    return None


def _assign(statement: ast.stmt, known: dict[str, Expression]) -> bool:
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        made = _operation(ast.BinOp(ast.Name(statement.target.id), statement.op, statement.value), known)
        if made is None:
            return False
        known[statement.target.id] = made
        return True
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target, value = statement.targets[0], _expand(statement.value, known)
    if not isinstance(target, ast.Name) or value is None:
        return False
    known[target.id] = value
    return True


def _expand(node: ast.expr, known: dict[str, Expression]) -> Expression | None:
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return ("number", float(node.value))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _expand(node.operand, known)
        if inner is not None and inner[0] == "number":
            return ("number", -inner[1])
        return None if inner is None else ("-", ("number", 0.0), inner)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compared(type(node.ops[0]), node.left, node.comparators[0], known)
    if isinstance(node, ast.BinOp):
        return _operation(node, known)
    if isinstance(node, ast.Call) and not node.keywords:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "to" and len(node.args) == 1:
            return _cast(node.func.value, node.args[0], known)
        return _call(ast.unparse(node.func), node.args, known)
    return None


def _cast(value: ast.expr, dtype: ast.expr, known: dict[str, Expression]) -> Expression | None:
    """("to float32", x), or "to own" for the type of the operands."""
    x, text = _expand(value, known), ast.unparse(dtype)
    name = text.removeprefix("tl.")
    if text.endswith(".dtype") and known.get(text.removesuffix(".dtype"), ("",))[0] == "name":
        name = "own"
    return (f"to {name}", x) if x is not None and name in _TYPES else None


def _operation(node: ast.BinOp, known: dict[str, Expression]) -> Expression | None:
    symbol = _SYMBOLS.get(type(node.op))
    if symbol in ("+", "*", "|"):
        return _joined(symbol, [node.left, node.right], known)
    left, right = _expand(node.left, known), _expand(node.right, known)
    return None if symbol is None or left is None or right is None else (symbol, left, right)


def _call(called: str, args: list[ast.expr], known: dict[str, Expression]) -> Expression | None:
    if called in _CALLS and len(args) == 2:
        return _joined(_CALLS[called], args, known)
    if called in ("tl.fma", "tl.math.fma") and len(args) == 3:
        product, addend = _joined("*", args[:2], known), _expand(args[2], known)
        return None if product is None or addend is None else commutative("+", product, addend)
    if called == "tl.where" and len(args) == 3:
        return _where(args, known)
    if called == "tl.cast" and len(args) == 2:
        return _cast(args[0], args[1], known)
    if called == "float" and isinstance(args[0], ast.Constant):
        return _infinity(args[0].value)
    if (name := _NAMED.get(called.replace(".math.", "."))) is not None and len(args) == 1:
        inner = _expand(args[0], known)
        return None if inner is None else (name, inner)
    return None


_TESTS: dict[tuple[Any, float], str] = {
    (ast.Eq, 0.0): "zero", (ast.NotEq, 0.0): "nonzero", (ast.Gt, 0.0): "positive", (ast.GtE, 1.0): "flag",
    (ast.Eq, 1.0): "flag", (ast.Gt, 0.5): "flag", (ast.Lt, 1.0): "no flag", (ast.LtE, 0.0): "not positive",
    (ast.NotEq, 1.0): "no flag", (ast.Lt, 0.5): "no flag",
}  # fmt: skip
"""What a comparison with a number asks; the flags of a value that is 0 or 1 alone."""
_AT_AN_END: dict[float, tuple[type, ...]] = {-math.inf: (ast.LtE, ast.Gt), math.inf: (ast.GtE, ast.Lt)}
"""What asks whether a value is infinite, as == and != do."""
_SELECTS = {"zero": ("where zero", 1), "nonzero": ("where zero", -1), "flag": ("where flag", 1),
            "no flag": ("where flag", -1), "positive": ("where positive", 1),
            "not positive": ("where positive", -1)}  # fmt: skip


def _infinity(text: Any) -> Expression | None:
    try:
        return ("number", float(text))
    except (TypeError, ValueError):
        return None


def _compared(op: type, left: ast.expr, right: ast.expr, known: dict[str, Expression]) -> Expression | None:
    x, y = _expand(left, known), _expand(right, known)
    if x is None or y is None or y[0] != "number":
        return None
    test, infinite = _TESTS.get((op, y[1])), op in _AT_AN_END.get(y[1], ())
    if test is None and (infinite or op in (ast.Eq, ast.NotEq)):
        return ("is" if op in (ast.Eq, ast.LtE, ast.GtE) else "is not", x, y)
    return None if test is None else (test, x)


def _where(args: list[ast.expr], known: dict[str, Expression]) -> Expression | None:
    """`tl.where` of a comparison with 0 or 1, or of a flag as it is: ("where zero", x, if 0, else); of another number:
    ("where equal", x, number, if so, else)."""
    parts = [_expand(n, known) for n in args]
    if None in parts:
        return None
    condition, *values = parts
    assert condition is not None
    if condition[0] in ("is", "is not"):
        return ("where equal", *condition[1:], *values[:: 1 if condition[0] == "is" else -1])
    name, turn = _SELECTS.get(condition[0], ("where zero", -1))
    asked = condition[1] if condition[0] in _SELECTS else condition
    return (name, asked, *values[::turn])


def _joined(symbol: str, nodes: list[ast.expr], known: dict[str, Expression]) -> Expression | None:
    parts = [_expand(n, known) for n in nodes]
    return None if None in parts else commutative(symbol, *parts)  # type: ignore[arg-type]


def commutative(symbol: str, *parts: Expression) -> Expression:
    flat = [q for p in parts for q in (p[1:] if p[0] == symbol else (p,))]
    return (symbol, *sorted(flat, key=repr))
