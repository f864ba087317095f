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

from interval_ops.formats.model import FP64, Format
from render.interpreter.hosted.products import kind_of
from render.ops.aten import ATEN, Aten, Form, base_name, of_form
from render.ops.dtypes import FORMAT_OF
from render.ops.formulas import HALF_POWERS, Refused, glu
from render.ops.rows import Joined, along, axes_of, logsumexp, mean
from render.trace.host import HostStep
from render.trace.host_attention import attended
from render.trace.host_nodes import Formulas, Making, Numbers, Value
from render.trace.host_sums import FACTORS, added, multiplied
from render.trace.host_tables import counted, filled, spaced, tent, windowed
from render.trace.host_windows import most
from render.trace.model import ABSENT, LEAF, NotSliceable

Rule = Callable[[Making], Numbers]


def numbers_of(make: Making) -> Numbers:
    """The values that the wanted elements are. Raises NotSliceable for an operation that is not known."""
    rule = RULES.get(base_name(make.step.name))
    if rule is None:
        raise make.refuse("it is not known which elements its result depends on")
    if make.step.part and base_name(make.step.name) not in PARTED:
        raise make.refuse("only its first result is followed")
    try:
        return make.close(rule(make))
    except Refused as error:
        raise make.refuse(str(error)) from None


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
    """clamp, and hardtanh, whose ends have other names and defaults."""
    found = make.elements(make.step.args[0])
    hard = base_name(make.step.name) == "hardtanh"
    for name, op, default in (("min", "maxnumf", -1.0), ("max", "minnumf", 1.0)):
        given = make.argument(f"{name}_val", default) if hard else make.argument(name)
        if given is not None:
            found = make.node(op, {"fmt": make.fmt.name}, found, make.elements(given))
    return found


def _divided(make: Making) -> Numbers:
    found, how = _plainly("precise_divf", lambda a: list(a[:2]))(make), make.argument("rounding_mode")
    if base_name(make.step.name) == "floor_divide":
        how = "floor"
    if how is None:
        return found
    return make.node("floor" if how == "floor" else "library trunc", {"fmt": make.fmt.name}, found)


def _steps(formula: Callable[..., Value], operands: int = 1) -> Rule:
    """A formula of the first operands in the format of the result, to which a CPU rounds numbers among them first."""

    def rule(make: Making) -> Numbers:
        n = Formulas(make, make.fmt)
        given = (a if isinstance(a, torch.Tensor) else _rounded(make, float(a)) for a in make.step.args[:operands])
        return formula(n, *(n.of(make.elements(a) if isinstance(a, torch.Tensor) else a) for a in given)).numbers

    return rule


def _rounded(make: Making, x: float) -> Numbers:
    """A number as it is, or as the nearest one of fp32 or of the result's format."""
    assert make.step.out is not None
    all_ = [
        x,
        float(np.float32(x)) if make.fmt.bits < 64 else x,
        torch.tensor(x, dtype=make.step.out.tensor.dtype).item(),
    ]
    ends = (np.full(make.size, end) for end in (x, min(all_), max(all_)))
    return make.cutter.add(LEAF, {"source": "constant", "rounded": True}, make.step, (), *ends)


def _sign(n: Formulas, x: Value) -> Value:
    zero = n.number(0.0)
    return n.choose(x, lambda: n.number(1.0), lambda: n.choose(-x, lambda: n.number(-1.0), lambda: zero))


def _modulo(n: Formulas, x: Value, y: Value) -> Value:
    """With the sign of the divisor."""
    left = n.node("frem", x, y)
    return n.choose(-(_sign(n, left) * _sign(n, y)), lambda: left + y, lambda: left)


def _signed(n: Formulas, x: Value, y: Value) -> Value:
    """copysign; of a zero the sign counts as well, which no bound has."""
    return n.choose(y, lambda: abs(x), lambda: -abs(x))


def _least_or_most(make: Making) -> Numbers:
    """aminmax: of a row, or of all."""
    x, dim = make.step.args[0], make.argument("dim")
    joined = Joined(x.shape, axes_of(dim, x.dim())) if dim is not None else None
    places = np.arange(x.numel())
    rows = joined.rows(places)[make.wanted] if joined else places[None, :]
    return make.join("max" if make.step.part else "min", {"fmt": make.fmt.name}, make.read(x, rows))


def _power(make: Making) -> Numbers:
    x, y = make.step.args[:2]
    fmt = make.inner
    if isinstance(y, (int, float)) and y == 2:
        base = make.elements(x, fmt)
        return make.cast(make.node("fmul", {"fmt": fmt.name}, base, base), fmt, make.fmt)
    if isinstance(y, (int, float)) and y in HALF_POWERS:
        return make.cast(make.function(HALF_POWERS[y], fmt, make.elements(x, fmt)), fmt, make.fmt)
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
        if x.is_complex():
            raise make.refuse("it converts from another type")
        return make.cast(make.elements(x), FORMAT_OF.get(x.dtype, FP64), make.fmt)

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
    return make.cast(glu(n, n.of(first), n.of(gate)).numbers, make.inner, make.fmt)


# --- rows ---------------------------------------------------------------------------------------------------------


def _by_rows(op: Aten) -> Rule:
    """A formula of rows, for the wanted elements alone; then the factor and addend of a norm."""
    row = op.row
    assert row is not None
    of_pairs = None if op.formula is None else _by_formula(op)

    def rule(make: Making) -> Numbers:
        x, n = make.step.args[0], Formulas(make, make.inner)
        if of_pairs is not None and isinstance(make.argument("other"), torch.Tensor):
            return of_pairs(make)
        joined, whole = row.layout(make.named, x.shape), row.results[make.step.part] == "x"
        if whole:
            rows, used, which, place = make.grouped(x, joined)
        else:
            rows, used = make.read(x, joined.rows(np.arange(x.numel()))[make.wanted]), make.wanted
        given = [make.argument(name) for name in row.beside]
        beside = [None if t is None else n.of(make.read(t, used)[:, None], FORMAT_OF[t.dtype]) for t in given]
        value = row.evaluated(n, n.of(rows, FORMAT_OF[x.dtype]), beside, make.named)[make.step.part]
        found, fmt = value.picked(which, place) if whole else value.numbers[:, 0], value.fmt
        for name, step in (("weight", "fmul"), ("bias", "fadd")):
            if make.argument(name) is not None and not make.step.part:
                found = make.node(step, {"fmt": fmt.name}, found, make.elements(make.argument(name), None, joined.side))
        return make.cast(found, fmt, make.fmt)

    return rule


def _loss(op: Aten) -> Rule:
    """An elementwise formula of two operands, then nothing, the mean or the sum of all."""
    elements, formula = _by_formula(op), op.formula
    assert formula is not None

    def rule(make: Making) -> Numbers:
        how = int(make.argument("reduction", 1))
        if how == 0:
            return elements(make)
        n, pair = Formulas(make, make.inner), make.step.args[:2]
        if pair[0].shape != pair[1].shape:
            raise make.refuse("its operands have two shapes")
        keywords = {name: make.argument(name) for name in op.keywords}
        found = formula(n, *(n.of(make.read(x, np.arange(x.numel())[None])) for x in pair), **keywords)
        found = mean(n, found) if how == 1 else n.sum(found)
        return make.cast(found.numbers[:, 0], make.inner, make.fmt)

    return rule


def _scanned(kind: str) -> Rule:
    def rule(make: Making) -> Numbers:
        x, dim = make.step.args[0], int(make.argument("dim"))
        rows, _, which, place = make.grouped(x, Joined(x.shape, axes_of(dim, x.dim())))
        inside = np.arange(rows.shape[1])[None, :] <= place[:, None]
        return make.join(kind, {"fmt": make.fmt.name, "scan": True}, np.where(inside, rows[which], ABSENT))

    return rule


def _as_made(make: Making) -> Numbers:
    """A table of numbers alone, as the run bounded it."""
    assert make.step.out is not None
    return make.cutter.add(LEAF, {"source": "constant"}, make.step, (), *make.step.out.ends(make.wanted))


def _running_log_sum(make: Making) -> Numbers:
    x, dim = make.step.args[0], int(make.argument("dim"))
    rows, _, which, place = make.grouped(x, Joined(x.shape, axes_of(dim, x.dim())))
    inside, n = np.arange(rows.shape[1])[None, :] <= place[:, None], Formulas(make, make.inner)
    nothing = make.constants(np.array([-np.inf]), make.inner)
    found = logsumexp(n, n.of(np.where(inside, rows[which], nothing), FORMAT_OF[x.dtype]))
    return make.cast(found.numbers[:, 0], make.inner, make.fmt)


def _ranked(make: Making) -> Numbers:
    """The element of a rank in its row: sort, topk, kthvalue, median."""
    x, name = make.step.args[0], base_name(make.step.name)
    if not x.dim():
        return make.elements(x)
    joined = along(make.named, x.shape)
    rows, count, rest, axes = joined.rows(np.arange(x.numel())), joined.n, joined.rest, joined.axes
    if name in ("kthvalue", "median", "nanmedian"):
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
    numbers: np.ndarray = (found[step.part] if isinstance(found, (list, tuple)) else found).numpy()
    return numbers


def _put(make: Making) -> Numbers:
    """index_put sets elements, or adds to them."""
    return added(make) if make.argument("accumulate", False) else _moved(make)


_OWN: dict[str, Rule] = {
    "index_put": _put,
    "add": _factored(ATEN["add"], _plainly("fadd", lambda a: list(a[:2]))),
    "sub": _factored(ATEN["sub"], _plainly("fsub", lambda a: list(a[:2]))),
    "rsub": _factored(ATEN["rsub"], _plainly("fsub", lambda a: [a[1], a[0]])),
    "mul": _plainly("fmul", lambda a: list(a[:2])),
    **dict.fromkeys(("div", "floor_divide"), _divided),
    "fmod": _steps(lambda n, x, y: n.node("frem", x, y), 2),
    "remainder": _steps(_modulo, 2),
    "sign": _steps(_sign),
    "copysign": _steps(_signed, 2),
    "frac": _steps(lambda n, x: x - n.node("library trunc", x)),
    "aminmax": _least_or_most,
    "reciprocal": _plainly("precise_divf", lambda a: [1.0, a[0]]),
    "neg": _plainly("fneg", lambda a: [a[0]]),
    "abs": _plainly("fabs", lambda a: [a[0]]),
    "relu": _plainly("maxnumf", lambda a: [a[0], 0.0]),
    "relu6": _steps(lambda n, x: n.smaller(n.larger(x, n.number(0.0)), n.number(6.0))),
    **dict.fromkeys(("maximum", "fmax"), _plainly("maxnumf", lambda a: list(a[:2]))),
    **dict.fromkeys(("minimum", "fmin"), _plainly("minnumf", lambda a: list(a[:2]))),
    **dict.fromkeys(("clamp", "hardtanh"), _clamp),
    "clamp_min": _plainly("maxnumf", lambda a: list(a[:2])),
    "clamp_max": _plainly("minnumf", lambda a: list(a[:2])),
    "floor": _plainly("floor", lambda a: [a[0]]),
    "ceil": _plainly("ceil", lambda a: [a[0]]),
    "trunc": _plainly("library trunc", lambda a: [a[0]]),
    "round": _plainly("library rint", lambda a: [a[0]]),
    "pow": _power,
    "atan2": _jointly("atan2"),
    "hypot": _jointly("hypot"),
    "glu": _gated,
    "nan_to_num": _finite,
    "_to_copy": _converted(0),
    "copy": _converted(1),
    "cumsum": _scanned("sum"),
    "cumprod": _scanned("prod"),
    "logcumsumexp": _running_log_sum,
    "cummax": _scanned("max"),
    "cummin": _scanned("min"),
    **dict.fromkeys(("linspace", "logspace"), spaced),
    "arange": counted,
    **dict.fromkeys(("full", "full_like", "new_full", "fill", "scalar_tensor"), filled),
    "hann_window": windowed(lambda make: (0.5, -0.5)),
    "hamming_window": windowed(lambda make: (make.argument("alpha", 0.54), -make.argument("beta", 0.46))),
    "blackman_window": windowed(lambda make: (0.42, -0.5, 0.08)),
    "bartlett_window": tent,
    "kaiser_window": _as_made,
    **dict.fromkeys(("sort", "topk", "kthvalue", "median", "nanmedian"), _ranked),
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot"), _multiplied),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), _added),
    **dict.fromkeys(FACTORS, multiplied),
    **dict.fromkeys(
        ("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d"), most
    ),
    **dict.fromkeys(("nll_loss_forward", "scatter_reduce"), added),
    "_scaled_dot_product_flash_attention_for_cpu": attended,
}
_NOT_TRACED = "nothing is traced to truth values and integers"
REFUSED: dict[str, str] = {
    **dict.fromkeys(of_form(Form.CHOICE), _NOT_TRACED),
    **dict.fromkeys(of_form(Form.MADE, Form.RANDOM), "reads no element of its operands"),
    **dict.fromkeys(of_form(Form.COMPOSITE, Form.GRADIENT), "of too many steps"),
    **dict.fromkeys(of_form(Form.FUNCTION, Form.ARITHMETIC, Form.EXACT), "no node stands for it"),
    **dict.fromkeys(of_form(Form.ORDER), "which element it picks is not followed"),
}


def _derived(op: Aten) -> Rule | None:
    if op.form is Form.MOVE:
        return _moved
    if op.function:
        return _by_function(op)
    if op.row is not None:
        return _by_rows(op)
    if op.loss:
        return _loss(op)
    if op.form is Form.SUM and op.formula is None:
        return added
    return None if op.formula is None else _by_formula(op)


RULES: dict[str, Rule] = {name: rule for name, op in ATEN.items() if (rule := _OWN.get(name) or _derived(op))}
PARTED = frozenset(name for name, op in ATEN.items() if op.form is Form.MOVE or op.row is not None) | {"aminmax"}
"""Operations all of whose results are followed."""
REFUSED = {name: why for name, why in REFUSED.items() if name not in RULES}
"""Operations that end a slice, and why."""
KNOWN = frozenset(_OWN) | {name for name, op in ATEN.items() if op.row is not None or op.loss} - {"_fused_rms_norm"}
"""Those that host code on a CPU reaches; of the last one torch has a kernel on GPUs alone."""
__all__ = ["KNOWN", "REFUSED", "RULES", "NotSliceable", "numbers_of"]
