r"""Scaled dot-product attention as torch's fused CPU kernel computes it, in one rule: parts lose sum_j p_j = 1.

    out_i = sum_j p_ij v_j = c + sum_j p_ij (v_j - c),   p_i = softmax(scale q_i k_j + mask_ij),   any c

exactly: scores as dots of the target, p by its exact monotone range, the last product around c = the mean of v by
midpoints and radii. Computed, the weights are e^{s - m} with a running maximum m: each is off by exp twice, its
argument by u |s - m|, the rescaling e^{m_old - m_new} of `BLOCK` keys at a time by the same again, their sum by n
additions. They are cast to the operands' type before the product, whose n terms then add in any order.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.bounds import Pair, each
from interval_ops.formats.model import Format
from render.interpreter.hosted.call import Bounds, Call, Result, finished, inner_of, number, same_rank
from render.interpreter.hosted.products import dot
from render.interpreter.hosted.rows import relative, unit
from render.interpreter.hosted.softmax import all_masked, exact_softmax
from render.ops.dtypes import FORMAT_OF

BLOCK = 32
"""Keys per step of the running maximum: at least so many, in every kernel of torch."""
_UP = 1.0 + 2.0**-20


def attention(call: Call) -> Result:
    """Without dropout; heads of key and value serve as many neighbouring heads of the query each."""
    q, k, v = call.args[:3]
    fmt = FORMAT_OF.get(q.dtype)
    if fmt is None or q.dim() < 3 or k.dim() != q.dim() or k.shape[:-1] != v.shape[:-1] or not k.shape[-3]:
        return None
    times, odd = divmod(q.shape[-3], k.shape[-3])
    if odd or q.shape[:-3] != k.shape[:-3]:
        return None
    if call.get("dropout_p") or not k.shape[-2] or not q.numel():
        return None
    inner, n = inner_of(fmt), k.shape[-2]

    def rows(x: torch.Tensor, often: int = 1) -> Pair:
        whole = each(call.pair(x), lambda e: np.repeat(e, often, -3) if often > 1 else e)
        return each(whole, lambda e: np.ascontiguousarray(e, np.float64).reshape(-1, *e.shape[-2:]))

    queries, keys, weights = rows(q), rows(k, times), rows(v, times)
    scores = dot(call, queries, each(keys, lambda e: np.ascontiguousarray(e.transpose(0, 2, 1))), fmt)
    if scores is None:
        return None
    given = call.get("scale")
    factor = number(1 / math.sqrt(q.shape[-1]) if given is None else float(given), inner)
    with np.errstate(all="ignore"):
        scores, factor = same_rank([scores, factor])
        scores = arithmetic.mul(scores, factor, inner, call.profile)
        scores = _masked_scores(call, scores, inner)
        low, high = _weighted(scores, weights, n, call, fmt)
        logs = _log_sums(scores, n, inner, call)
    shape = (*q.shape[:-1], v.shape[-1])
    found = finished((low.reshape(shape), high.reshape(shape)), fmt, call.profile)
    return found, Bounds(*(end.reshape(q.shape[:-1]) for end in logs))


def _log_sums(scores: Pair, n: int, inner: Format, call: Call) -> Pair:
    """m + log(sum_j e^{s_j - m}) of each row with a running maximum m; NaN where a row is not finite or all masked."""
    profile = call.profile
    u, add = unit(inner, profile, "arith"), unit(inner, profile, "accumulation")
    e, g = relative("exp", inner, profile), relative("log", inner, profile)
    fine = (np.isfinite(scores[0]) & np.isfinite(scores[1])).all(-1, keepdims=True) | all_masked(*scores)
    steps, ends = 2 * (n // BLOCK + 2), []
    for x, way in zip(scores, (-1, 1), strict=True):
        top = x.max(-1)
        value = top + np.log(np.exp(x - top[..., None]).sum(-1))
        # the sum: exponentials, their arguments, additions, a rescaling per block; the logarithm, and m + it
        lost = (steps + 1) * (e + 2 * u) + n * add + u * (math.log(n) + 1)
        room = (lost + g * math.log(n) + 2 * u * (np.abs(value) + np.abs(top) + math.log(n))) * _UP
        room = room + (n + 16) * 2.0**-50 * (1 + np.abs(top) + np.abs(value))
        ends.append(np.where(fine[..., 0], value + way * room, np.nan))
    return ends[0], ends[1]


def _masked_scores(call: Call, scores: Pair, inner: Format) -> Pair:
    lo, hi = scores
    if call.get("is_causal"):
        seen = np.tril(np.ones(lo.shape[-2:], bool))
        lo, hi = (np.where(seen, e, -np.inf) for e in (lo, hi))
    mask = call.get("attn_mask")
    if mask is None:
        return lo, hi
    ends = call.pair(mask)
    full = (*call.x.shape[:-1], lo.shape[-1])
    first, last = (np.broadcast_to(np.asarray(e, np.float64), full).reshape(lo.shape) for e in ends)
    if not mask.is_floating_point():
        lo, hi = (np.where(first != 0, e, -np.inf) for e in (lo, hi))
        return lo, hi
    blocked = (first == -np.inf) & (last == -np.inf)
    shift = np.where(blocked, 0.0, first), np.where(blocked, 0.0, last)
    low, high = arithmetic.add((lo, hi), shift, inner, call.profile)
    return np.where(blocked, -np.inf, low), np.where(blocked, -np.inf, high)


def _weighted(scores: Pair, values: Pair, n: int, call: Call, fmt: Format) -> Pair:
    lo, hi = scores
    fine = (np.isfinite(lo) & np.isfinite(hi)).all(-1, keepdims=True) | all_masked(lo, hi)
    least, most = exact_softmax(lo, hi)
    profile, inner = call.profile, inner_of(fmt)
    u, add, e = unit(inner, profile, "arith"), unit(inner, profile, "accumulation"), relative("exp", inner, profile)
    cast = 0.0 if inner == fmt or profile.muted("cast") else fmt.u
    depth = -np.log(np.maximum(most, 5e-324)) + 2 * math.log(n) + 1
    steps = 2 * (n // BLOCK + 2)
    slip = np.expm1(np.minimum((2 * u * depth + 2 * e + steps * (e + 2 * u) + n * add + 4 * u + 2 * cast) * _UP, 700.0))
    middle, radius = 0.5 * (least + most), 0.5 * (most - least) * _UP
    centre = (0.5 * (values[0] + values[1])).mean(-2, keepdims=True)
    inner_mid = 0.5 * (values[0] + values[1]) - centre
    inner_radius = np.maximum(values[1] - values[0], 0.0) * 0.5 * _UP + 2.0**-51 * (np.abs(inner_mid) + np.abs(centre))
    size = np.maximum(np.abs(values[0]), np.abs(values[1]))
    reach = radius @ (np.abs(inner_mid) + inner_radius) + middle @ inner_radius
    lost = (most * slip) @ size + (math.expm1((n + 4) * add) + (n + 16) * 2.0**-51) * (most @ size)
    tiny = 0.0 if profile.muted("function") else 4 * n * inner.half_subnormal * size.max(-2, keepdims=True)
    # exp underflows below its subnormals, and so do weights that are cast: each weight may lose that much.
    floor = 0.0 if not cast else n * fmt.half_subnormal * size.max(-2, keepdims=True)
    exact = centre + middle @ inner_mid
    total = (reach + lost) * _UP + tiny + floor
    return tuple(np.where(fine, end, np.nan) for end in (exact - total, exact + total))  # type: ignore[return-value]
