"""The lane of slices through host code: what one operation does to single elements, as nodes from its operands.

Rules follow from the table of ATen operations where they can: movements are run on element numbers, functions and
formulas become nodes. The others stand here, and what has no rule is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map

from interval_ops.formats.model import Format
from render.interpreter.hosted.products import kind_of
from render.interpreter.hosted.rows import axes_of
from render.ops.aten import ATEN, Aten, Form, base_name, of_form
from render.ops.dtypes import FORMAT_OF
from render.trace.host import HostStep
from render.trace.host_nodes import Formulas, Making, Numbers
from render.trace.model import ABSENT, LEAF, NotSliceable

Rule = Callable[[Making], Numbers]


def numbers_of(make: Making) -> Numbers:
    """The values that the wanted elements are. Raises NotSliceable for an operation that is not known."""
    rule = RULES.get(base_name(make.step.name))
    if rule is None:
        raise make.refuse("it is not known which elements its result depends on")
    return make.close(rule(make))


# --- elementwise --------------------------------------------------------------------------------------------------


def _plainly(op: str, operands: Callable[[tuple[Any, ...]], list[Any]]) -> Rule:
    """One node of the engine in the format of the result."""

    def rule(make: Making) -> Numbers:
        return make.node(op, {"fmt": make.fmt.name}, *(make.elements(a) for a in operands(make.step.args)))

    return rule


def _by_function(op: Aten) -> Rule:
    def rule(make: Making) -> Numbers:
        found = make.function(op.function, make.inner, make.elements(make.step.args[0]))
        return make.cast(found, make.inner, make.fmt)

    return rule


def _by_formula(op: Aten) -> Rule:
    formula = op.computed or op.formula
    assert formula is not None

    def rule(make: Making) -> Numbers:
        names = [a.name for a in make.step.func._schema.arguments[: op.operands]]
        keywords = {name: make.argument(name) for name in op.keywords if make.argument(name) is not None}
        n = Formulas(make, make.inner)
        operands = [n.of(make.elements(make.argument(name), make.inner)) for name in names]
        return make.cast(formula(n, *operands, **keywords).numbers, make.inner, make.fmt)

    return rule


def _factored(op: Aten, plain: Rule) -> Rule:
    """add and sub, whose second operand may have a factor."""
    general = _by_formula(op)
    return lambda make: plain(make) if make.argument("alpha", 1) == 1 else general(make)


def _clamp(make: Making) -> Numbers:
    found = make.elements(make.step.args[0])
    for name, op in (("min", "maxnumf"), ("max", "minnumf")):
        given = make.argument(name)
        if given is not None:
            found = make.node(op, {"fmt": make.fmt.name}, found, make.elements(given))
    return found


def _divided(make: Making) -> Numbers:
    if make.argument("rounding_mode") is not None:
        raise make.refuse("a quotient with a rounding mode is not followed")
    return _plainly("precise_divf", lambda a: list(a[:2]))(make)


def _power(make: Making) -> Numbers:
    x, y = make.step.args[:2]
    fmt = make.inner
    if isinstance(y, (int, float)) and y == 2:
        base = make.elements(x, fmt)
        return make.cast(make.node("fmul", {"fmt": fmt.name}, base, base), fmt, make.fmt)
    if isinstance(y, (int, float)) and y in (0.5, -0.5):
        return make.cast(make.function("sqrt" if y > 0 else "rsqrt", fmt, make.elements(x, fmt)), fmt, make.fmt)
    found = make.function("pow", fmt, make.elements(x, fmt), make.elements(y, fmt))
    return make.cast(found, fmt, make.fmt)


def _jointly(name: str) -> Rule:
    def rule(make: Making) -> Numbers:
        found = make.function(name, make.inner, *(make.elements(a, make.inner) for a in make.step.args[:2]))
        return make.cast(found, make.inner, make.fmt)

    return rule


def _converted(place: int) -> Rule:
    def rule(make: Making) -> Numbers:
        x = make.step.args[place]
        if x.dtype not in FORMAT_OF:
            raise make.refuse("it converts from another type")
        return make.cast(make.elements(x), FORMAT_OF[x.dtype], make.fmt)

    return rule


def _finite(make: Making) -> Numbers:
    """nan_to_num of finite numbers is what it is given."""
    found = make.elements(make.step.args[0])
    assert make.step.out is not None
    if not all(np.isfinite(end).all() for end in make.step.out.ends(make.wanted)):
        raise make.refuse("it replaces what is not finite")
    return found


def _gated(make: Making) -> Numbers:
    x, dim = make.step.args[0], make.argument("dim", -1)
    halves = torch.arange(x.numel()).reshape(x.shape).chunk(2, dim)
    first, gate = (make.read(x, h.reshape(-1).numpy()[make.wanted]) for h in halves)
    n = Formulas(make, make.inner)
    from render.ops.formulas import glu

    return make.cast(glu(n, n.of(first), n.of(gate)).numbers, make.inner, make.fmt)


# --- rows ---------------------------------------------------------------------------------------------------------


def _rows_of(make: Making, dim: Any) -> tuple[Numbers, Format]:
    """Of a reduction: the row of each wanted element, and the operand's format."""
    x = make.step.args[0]
    axes = axes_of(dim, x.dim())
    rest = [d for d in range(x.dim()) if d not in axes]
    places = np.arange(x.numel()).reshape(tuple(x.shape)).transpose(rest + axes)
    rows = places.reshape(int(np.prod([x.shape[d] for d in rest], dtype=np.int64)), -1)[make.wanted]
    return make.read(x, rows), FORMAT_OF[x.dtype]


def _reduced(make_value: Callable[[Making, Numbers], Numbers]) -> Rule:
    def rule(make: Making) -> Numbers:
        rows, _ = _rows_of(make, make.argument("dim"))
        return make.cast(make_value(make, rows), make.inner, make.fmt)

    return rule


def _extreme(kind: str) -> Rule:
    def rule(make: Making) -> Numbers:
        if len(make.step.args) > 1 and isinstance(make.step.args[1], torch.Tensor):
            return _plainly(f"{kind}imumf", lambda a: list(a[:2]))(make)
        rows, fmt = _rows_of(make, make.argument("dim"))
        return make.join(kind, {"fmt": fmt.name}, rows)

    return rule


def _divide(make: Making, numbers: Numbers, count: float) -> Numbers:
    return make.node("precise_divf", {"fmt": make.inner.name}, numbers, make.constant(count, make.inner))


def _mean(make: Making, rows: Numbers) -> Numbers:
    return _divide(make, make.total(rows, make.inner), float(rows.shape[1]))


def _centred(make: Making, rows: Numbers) -> tuple[Numbers, Numbers]:
    """(x - mean, sum of their squares) of every row."""
    attrs = {"fmt": make.inner.name}
    apart = make.node("fsub", attrs, rows, _mean(make, rows)[:, None])
    return apart, make.total(make.node("fmul", attrs, apart, apart), make.inner)


def _spread(root: bool) -> Rule:
    def rule(make: Making) -> Numbers:
        rows, _ = _rows_of(make, make.argument("dim"))
        less = make.argument("correction", 1)
        count = rows.shape[1] - (1.0 if less is None else float(less))
        if count <= 0:
            raise make.refuse("of too few elements")
        found = _divide(make, _centred(make, rows)[1], count)
        return make.cast(make.function("sqrt", make.inner, found) if root else found, make.inner, make.fmt)

    return rule


def _vector_norm(make: Making) -> Numbers:
    order = make.argument("ord", 2)
    rows, fmt = _rows_of(make, make.argument("dim"))
    attrs = {"fmt": make.inner.name}
    if order == 1:
        return make.cast(make.total(make.node("fabs", attrs, rows), make.inner), make.inner, make.fmt)
    if order in (np.inf, -np.inf):
        return make.join("max" if order > 0 else "min", {"fmt": fmt.name}, make.node("fabs", attrs, rows))
    if order not in (2, None):
        raise make.refuse("a norm of this order is not followed")
    squares = make.total(make.node("fmul", attrs, rows, rows), make.inner)
    return make.cast(make.function("sqrt", make.inner, squares), make.inner, make.fmt)


def _logsumexp(make: Making) -> Numbers:
    rows, fmt = _rows_of(make, make.argument("dim"))
    attrs = {"fmt": make.inner.name}
    top = make.join("max", {"fmt": fmt.name}, rows)
    powers = make.function("exp", make.inner, make.node("fsub", attrs, rows, top[:, None]))
    found = make.node("fadd", attrs, make.function("log", make.inner, make.total(powers, make.inner)), top)
    return make.cast(found, make.inner, make.fmt)


def _softmax(logs: bool) -> Rule:
    def rule(make: Making) -> Numbers:
        x = make.step.args[0]
        rows, which, place = make.grouped(x, axes_of(int(make.argument("dim")), x.dim()))
        attrs, inner = {"fmt": make.inner.name}, make.inner
        top = make.join("max", {"fmt": FORMAT_OF[x.dtype].name}, rows)
        below = make.node("fsub", attrs, rows, top[:, None])
        powers = make.function("exp", inner, below)
        whole = make.total(powers, inner)
        if logs:
            found = make.node("fsub", attrs, below[which, place], make.function("log", inner, whole)[which])
        else:
            found = make.node("precise_divf", attrs, powers[which, place], whole[which])
        return make.cast(found, inner, make.fmt)

    return rule


def _normalised(make: Making, axes: list[int], eps: float, weights: list[Any]) -> Numbers:
    """(x - mean) / sqrt(var + eps), then a factor and an addend by element."""
    x, attrs = make.step.args[0], {"fmt": make.inner.name}
    rows, which, place = make.grouped(x, axes)
    apart, squares = _centred(make, rows)
    spread = make.node("fadd", attrs, _divide(make, squares, float(rows.shape[1])), make.constant(eps, make.inner))
    scale = make.function("rsqrt", make.inner, spread)
    found = make.node("fmul", attrs, apart[which, place], scale[which])
    for op, operand in zip(("fmul", "fadd"), weights, strict=True):
        if operand is not None:
            found = make.node(op, attrs, found, operand)
    return make.cast(found, make.inner, make.fmt)


def _layer_norm(make: Making) -> Numbers:
    x, shape = make.step.args[0], make.argument("normalized_shape")
    weights = [None if w is None else make.elements(w) for w in (make.argument("weight"), make.argument("bias"))]
    return _normalised(make, list(range(x.dim() - len(shape), x.dim())), float(make.argument("eps")), weights)


def _scanned(kind: str) -> Rule:
    def rule(make: Making) -> Numbers:
        x, dim = make.step.args[0], int(make.argument("dim"))
        rows, which, place = make.grouped(x, axes_of(dim, x.dim()))
        inside = np.arange(rows.shape[1])[None, :] <= place[:, None]
        return make.join(kind, {"fmt": make.fmt.name, "scan": True}, np.where(inside, rows[which], ABSENT))

    return rule


def _ranked(make: Making) -> Numbers:
    """The element of a rank in its row: sort, topk, kthvalue, median."""
    x, name = make.step.args[0], base_name(make.step.name)
    axes = axes_of(int(make.argument("dim", -1)), max(x.dim(), 1))
    if not x.dim():
        return make.elements(x)
    count = x.shape[axes[0]]
    rest = [d for d in range(x.dim()) if d not in axes]
    rows = np.arange(x.numel()).reshape(tuple(x.shape)).transpose(rest + axes).reshape(-1, count)
    if name in ("kthvalue", "median"):
        which = make.wanted
        rank = np.full(make.size, int(make.argument("k", (count + 1) // 2)) - 1)
    else:
        shape = [make.shape[d] for d in rest]
        at = np.unravel_index(make.wanted, make.shape)
        which = np.ravel_multi_index([at[d] for d in rest], shape) if rest else np.zeros(make.size, np.int64)
        rank = at[axes[0]]
        if make.argument("largest", True) if name == "topk" else make.argument("descending", False):
            rank = count - 1 - rank
        if name == "topk" and not make.argument("sorted", True):
            raise make.refuse("its results have no order")
    whole = rank.astype(np.float64)
    ranks = make.cutter.add(LEAF, {"source": "integer"}, make.step, (), whole, whole, whole)
    return make.rank(ranks, make.read(x, rows[which]))


# --- products -----------------------------------------------------------------------------------------------------


def _dots(make: Making, a: torch.Tensor, b: torch.Tensor) -> tuple[Numbers, Format]:
    """Rows of a and columns of b for each wanted element, as dots of the target; and the format of the sums."""
    fmt = FORMAT_OF[a.dtype]
    left = np.arange(a.numel()).reshape(tuple(a.shape))
    right = np.arange(b.numel()).reshape(tuple(b.shape))
    left = left[None, :] if a.dim() == 1 else left
    right = right[:, None] if b.dim() == 1 else right
    full = (*left.shape[:-2], left.shape[-2], right.shape[-1])
    at = np.unravel_index(make.wanted, full)
    first = left[(*at[:-2], at[-2])]
    second = np.moveaxis(right, -1, -2)[(*at[:-2], at[-1])]
    return make.dot(make.read(a, first), make.read(b, second), kind_of(fmt)), make.inner


def _multiplied(make: Making) -> Numbers:
    found, fmt = _dots(make, make.step.args[0], make.step.args[1])
    return make.cast(found, fmt, make.fmt)


def _added(make: Making) -> Numbers:
    c, a, b = make.step.args[:3]
    found, fmt = _dots(make, a, b)
    attrs = {"fmt": fmt.name}
    alpha, beta = make.argument("alpha", 1), make.argument("beta", 1)
    if alpha != 1:
        found = make.node("fmul", attrs, found, make.constant(float(alpha), fmt))
    if beta != 0:
        own = make.elements(c)
        if beta != 1:
            own = make.node("fmul", attrs, own, make.constant(float(beta), fmt))
        found = make.node("fadd", attrs, found, own)
    return make.cast(found, fmt, make.fmt)


# --- movements ----------------------------------------------------------------------------------------------------


def _moved(make: Making) -> Numbers:
    """The operation on element numbers, twice with other offsets: what does not move with them is a constant."""
    step = make.step
    tensors = [b.tensor for b in step.blocks.values()]
    starts, total = {}, 0
    for t in tensors:
        starts[id(t)] = total
        total += t.numel()
    found = [_run(step, starts, offset).reshape(-1)[make.wanted] for offset in (2.0**40, 2.0**41)]
    moves = found[1] - found[0] == 2.0**40
    number = np.where(moves, found[0] - 2.0**40, -1).astype(np.int64)
    numbers = np.full(make.size, ABSENT)
    for t in tensors:
        mine = (number >= starts[id(t)]) & (number < starts[id(t)] + t.numel())
        theirs = make.read(t, np.where(mine, number - starts[id(t)], -1))
        numbers = np.where(numbers == ABSENT, theirs, numbers)
    left = np.flatnonzero(numbers == ABSENT)
    if left.size:
        assert step.out is not None
        ends = (end[left] for end in step.out.ends(make.wanted))
        numbers[left] = make.cutter.add(LEAF, {"source": "constant"}, step, (), *ends)
    return numbers


def _run(step: HostStep, starts: dict[int, int], offset: float) -> np.ndarray:
    def pick(t: Any) -> Any:
        if not isinstance(t, torch.Tensor) or id(t) not in starts:
            return t
        first = starts[id(t)] + offset
        return torch.arange(t.numel(), dtype=torch.float64).reshape(t.shape) + first

    kwargs = {k: v for k, v in step.kwargs.items() if k not in ("out", "memory_format")}
    found = step.func._overloadpacket(*tree_map(pick, step.args), **tree_map(pick, kwargs))
    numbers: np.ndarray = (found[0] if isinstance(found, (list, tuple)) else found).numpy()
    return numbers


_INTEGRAL = {"floor": "floor", "ceil": "ceil", "trunc": "library trunc", "round": "library rint"}
_OWN: dict[str, Rule] = {
    "add": _factored(ATEN["add"], _plainly("fadd", lambda a: list(a[:2]))),
    "sub": _factored(ATEN["sub"], _plainly("fsub", lambda a: list(a[:2]))),
    "rsub": _factored(ATEN["rsub"], _plainly("fsub", lambda a: [a[1], a[0]])),
    "mul": _plainly("fmul", lambda a: list(a[:2])),
    "div": _divided,
    "reciprocal": _plainly("precise_divf", lambda a: [1.0, a[0]]),
    "neg": _plainly("fneg", lambda a: [a[0]]),
    "abs": _plainly("fabs", lambda a: [a[0]]),
    "relu": _plainly("maxnumf", lambda a: [a[0], 0.0]),
    "maximum": _plainly("maxnumf", lambda a: list(a[:2])),
    "minimum": _plainly("minnumf", lambda a: list(a[:2])),
    "clamp": _clamp,
    "clamp_min": _plainly("maxnumf", lambda a: list(a[:2])),
    "clamp_max": _plainly("minnumf", lambda a: list(a[:2])),
    **{name: _plainly(op, lambda a: [a[0]]) for name, op in _INTEGRAL.items()},
    "pow": _power,
    "atan2": _jointly("atan2"),
    "hypot": _jointly("hypot"),
    "glu": _gated,
    "nan_to_num": _finite,
    "_to_copy": _converted(0),
    "copy": _converted(1),
    **dict.fromkeys(("amax", "max"), _extreme("max")),
    **dict.fromkeys(("amin", "min"), _extreme("min")),
    "sum": _reduced(lambda make, rows: make.total(rows, make.inner)),
    "mean": _reduced(_mean),
    "prod": _reduced(lambda make, rows: make.join("prod", {"fmt": make.inner.name}, rows)),
    "var": _spread(root=False),
    "std": _spread(root=True),
    "linalg_vector_norm": _vector_norm,
    "logsumexp": _logsumexp,
    "_softmax": _softmax(logs=False),
    "_log_softmax": _softmax(logs=True),
    "native_layer_norm": _layer_norm,
    "cumsum": _scanned("sum"),
    "cumprod": _scanned("prod"),
    "cummax": _scanned("max"),
    "cummin": _scanned("min"),
    **dict.fromkeys(("sort", "topk", "kthvalue", "median"), _ranked),
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot"), _multiplied),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), _added),
}
_NOT_TRACED = "nothing is traced to truth values and integers"
REFUSED: dict[str, str] = {
    **dict.fromkeys(of_form(Form.CHOICE), _NOT_TRACED),
    **dict.fromkeys(of_form(Form.MADE, Form.RANDOM), "reads no element of its operands"),
    **dict.fromkeys(of_form(Form.SUM, Form.PRODUCT), "which elements it adds is not followed"),
    **dict.fromkeys(of_form(Form.COMPOSITE, Form.GRADIENT), "of too many steps"),
    **dict.fromkeys(of_form(Form.FUNCTION, Form.ARITHMETIC, Form.EXACT), "no node stands for it"),
    **dict.fromkeys(of_form(Form.ORDER), "which element it picks is not followed"),
}


def _derived(op: Aten) -> Rule | None:
    if op.form is Form.MOVE:
        return _moved
    if op.function:
        return _by_function(op)
    return None if op.formula is None else _by_formula(op)


RULES: dict[str, Rule] = {name: rule for name, op in ATEN.items() if (rule := _OWN.get(name) or _derived(op))}
REFUSED = {name: why for name, why in REFUSED.items() if name not in RULES}
"""Operations that end a slice, and why."""
KNOWN = frozenset(_OWN)
__all__ = ["KNOWN", "REFUSED", "RULES", "NotSliceable", "numbers_of"]
