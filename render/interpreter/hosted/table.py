"""The lane of host bounds over the table of ATen operations: a rule for every key, or why there is none."""

from __future__ import annotations

from functools import partial

import numpy as np

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.library import joint
from interval_ops.reduction import scan
from render.interpreter.hosted import attention, made, open_places, pooling
from render.interpreter.hosted import elementwise as e
from render.interpreter.hosted import moves as m
from render.interpreter.hosted import norms as n
from render.interpreter.hosted import products as p
from render.interpreter.hosted import rows as r
from render.interpreter.hosted import softmax as s
from render.interpreter.hosted import truths as t
from render.interpreter.hosted.call import Rule
from render.ops.aten import ATEN, Aten, Form, of_form
from render.ops.rooms import ABOUT

MAX_POOLS = ("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d")
_OWN: dict[str, Rule] = {
    "_to_copy": m.to_copy,
    "copy": m.copy_,
    ABOUT: m.about,
    **dict.fromkeys(("max", "min"), m.extreme),
    **dict.fromkeys(("sort", "topk", "kthvalue", "median", "nanmedian"), m.ordered),
    **dict.fromkeys(("cummax", "cummin"), m.running),
    **dict.fromkeys(("fmax", "fmin"), m.of_numbers),
    **dict.fromkeys(("argmax", "argmin"), m.chosen),
    **dict.fromkeys(("gt", "lt", "ge", "le", "eq", "ne"), m.compared),
    **dict.fromkeys(("where", "masked_fill"), m.selected),
    **dict.fromkeys(("logical_not", "logical_and", "logical_or", "logical_xor"), t.by_truth),
    **dict.fromkeys(("any", "all", "count_nonzero"), t.by_truth),
    **dict.fromkeys(("bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor"), t.of_masks),
    **dict.fromkeys(("isposinf", "isneginf"), t.infinite),
    **dict.fromkeys(("searchsorted", "bucketize"), t.placed),
    "bincount": t.counted,
    "signbit": t.negative,
    "copysign": t.with_sign,
    "frac": t.fraction,
    **dict.fromkeys(("isnan", "isinf", "isfinite"), m.classified),
    **dict.fromkeys(("index", "gather", "take", "embedding", "index_select"), open_places.picked),
    "scatter": open_places.scattered,
    **dict.fromkeys(MAX_POOLS, pooling.pooled),
    **dict.fromkeys((f"{name}_backward" for name in MAX_POOLS), pooling.pool_gradient),
    "aminmax": m.both_extremes,
    "round": m.rounded_to_places,
    "nan_to_num": m.without_nan,
    "neg": e.negated,
    "abs": e.absolute,
    "add": open_places.of_integers(e.scaled_sum(arithmetic.add), np.add),
    "sub": open_places.of_integers(e.scaled_sum(arithmetic.sub), np.subtract),
    "rsub": e.reversed_sub,
    "mul": open_places.of_integers(e.product, np.multiply),
    "div": e.divided,
    "floor_divide": e.floor_divided,
    "remainder": e.remainder,
    "reciprocal": e.reciprocal,
    "fmod": e.jointly(arithmetic.fmod),
    "pow": e.power,
    "atan2": e.jointly(joint.atan2),
    "hypot": e.jointly(e.hypotenuse),
    "glu": e.gated(ATEN["glu"]),
    **dict.fromkeys(("index_put", "_index_put_impl", "put"), p.put(m.moved, ATEN["index_add"])),
    "scatter_reduce": p.scatter_reduced(ATEN["scatter_add"]),
    "linspace": made.linspace,
    "logspace": made.logspace,
    "arange": made.arange,
    **dict.fromkeys(made.WINDOWS, made.window),
    "kaiser_window": made.kaiser,
    **dict.fromkeys(made.FILLS, made.filled),
    "sum": r.reduced(r.total),
    "mean": r.reduced(r.average),
    "prod": r.product,
    "cumsum": r.scanned(scan.cumsum),
    "cumprod": r.scanned(scan.cumprod),
    "logcumsumexp": r.running_log_sum,
    **dict.fromkeys(("_softmax", "_safe_softmax"), s.softmax),
    "_scaled_dot_product_flash_attention_for_cpu": attention.attention,
    "_log_softmax": partial(s.softmax, logs=True),
    "logsumexp": s.logsumexp,
    **dict.fromkeys(("linalg_vector_norm", "norm"), r.vector_norm),
    "var": partial(n.spread_of, root=False, with_mean=False),
    "std": partial(n.spread_of, root=True, with_mean=False),
    "var_mean": partial(n.spread_of, root=False, with_mean=True),
    "std_mean": partial(n.spread_of, root=True, with_mean=True),
    **{name: n.norm(ATEN[name]) for name in ("native_layer_norm", "native_group_norm", "native_batch_norm")},
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), r.nll_loss),
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot"), p.multiplied),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), p.added),
    "convolution_backward": p.convolution_gradients(ATEN["convolution"]),
    "embedding_dense_backward": p.gathered_gradient(ATEN["scatter_add"]),
}

_UNDERIVED = {
    "nansum": "skips NaN, which a bound may or may not be",
}
_NO_FUNCTION = "its error is not documented and not measured"
REFUSED: dict[str, str] = {
    **dict.fromkeys(of_form(Form.MADE, Form.RANDOM), "reads no element of its operands"),
    **dict.fromkeys(of_form(Form.GRADIENT), "host code rarely calls backward passes on kernel results"),
    **dict.fromkeys(of_form(Form.COMPOSITE), "of too many steps for a bound that says anything"),
    **dict.fromkeys(of_form(Form.FUNCTION), _NO_FUNCTION),
    **dict.fromkeys(of_form(Form.CHOICE), "truth values of bounds that overlap are open"),
    **dict.fromkeys(of_form(Form.EXACT), "neither monotone nor a choice of elements that bounds decide"),
    **_UNDERIVED,
}


def _derived(op: Aten) -> Rule | None:
    """The rule that follows from the shape."""
    if op.name in _UNDERIVED:
        return None
    if op.form is Form.MOVE:
        return m.moved
    if op.form is Form.ORDER:
        return m.ends
    if op.function:
        return e.by_function(op)
    if op.loss:
        return r.loss(op)
    if op.formula is not None:
        return e.by_formula(op)
    if op.form in (Form.SUM, Form.PRODUCT):
        return p.linear(op)
    return None


SUMMED = of_form(Form.PRODUCT) | {"convolution_backward", "_scaled_dot_product_flash_attention_for_cpu"}
"""Sums of products: torch's switches and backends decide whether they are that (`render.ops.single`)."""
RULES: dict[str, Rule] = {
    name: p.summed(rule) if name in SUMMED else rule
    for name, op in ATEN.items()
    if (rule := _OWN.get(name) or _derived(op))
}
REFUSED = {name: why for name, why in REFUSED.items() if name not in RULES}
"""Operations that taint what they return, and why."""

MOVES = of_form(Form.MOVE) & RULES.keys() - {"copy", ABOUT}
"""Results that hold elements of their operands, which may never have been written."""
ROUNDS = {
    **{name: ATEN[name].cause for name in RULES if ATEN[name].cause},
    "copy": "cast",
    **dict.fromkeys(("linspace", "logspace", "arange", ABOUT, *made.WINDOWS, "kaiser_window"), "arith"),
    **dict.fromkeys(("convolution_backward", "embedding_dense_backward"), "accumulation"),
    **dict.fromkeys((f"{name}_backward" for name in MAX_POOLS), "accumulation"),
}
"""Cause of the rounding of every operation that rounds."""
_GIVEN = of_form(Form.MADE, Form.RANDOM, Form.MOVE, Form.ORDER, Form.CHOICE, Form.EXACT, Form.CAST) | {"frac"}


def opaque(name: str) -> bool:
    """Whether an operation computes floats in a way that no rule knows."""
    return name not in RULES and name not in _GIVEN and not name.startswith(("__", "bitwise_"))


OF_INTEGERS = (
    of_form(Form.FUNCTION) - {"prod", "pow"}
    | {name for name, op in ATEN.items() if op.instruction}
    | {"true_divide", "mean"}
)
"""Integers come out of these as floats."""
