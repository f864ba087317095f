"""Slices through torch's fused attention: scores, softmax less the maximum, and the weighted sum, as single values."""

from __future__ import annotations

import math

import numpy as np
import torch

from interval_ops.formats.model import FP64
from render.interpreter.hosted.attention import BLOCK
from render.interpreter.hosted.call import host_profile
from render.interpreter.hosted.products import kind_of
from render.trace.host_nodes import Making, Numbers
from render.trace.host_sums import or_zero
from render.trace.model import ABSENT, LEAF

WORK = 1 << 22
"""Elements of keys behind the wanted elements."""


def attended(make: Making) -> Numbers:
    """out_i = sum_j w_ij v_j / sum_j w_ij, w = exp(scale q_i k_j + mask_ij - m_i); weights are cast for the product."""
    if make.step.part or make.argument("dropout_p"):
        raise make.refuse("only the result without dropout is followed")
    q, k, v = make.step.args[:3]
    fmt, inner, n = make.fmt, make.inner, k.shape[-2]
    at = np.unravel_index(make.wanted, make.shape)
    batch = np.ravel_multi_index(at[:-2], make.shape[:-2])
    (batch, row), which = _unique(batch, at[-2])
    if len(row) * n * q.shape[-1] > WORK:
        raise make.refuse("too many keys lie behind its elements")
    times = q.shape[-3] // k.shape[-3]
    left = np.repeat(_places(q)[batch, row], n, axis=0)
    right = _places(k, times)[batch].reshape(-1, k.shape[-1])
    scores = make.dot(make.read(q, left), make.read(k, right), kind_of(fmt)).reshape(-1, n)
    given = make.argument("scale")
    factor = make.constant(1 / math.sqrt(q.shape[-1]) if given is None else float(given), inner)
    scores = make.node("fmul", {"fmt": inner.name}, scores, factor)
    scores, seen = _masked(make, scores, batch, row, n)
    weights = _weights(make, scores, seen)
    values = make.read(v, np.swapaxes(_places(v, times)[batch[which]], 1, 2)[np.arange(make.size), at[-1]])
    kept, there = np.where(seen, make.cast(weights, inner, fmt), ABSENT)[which], seen[which]
    products = make.dot(or_zero(make, kept), or_zero(make, np.where(there, values, ABSENT)), kind_of(fmt))
    sums = make.total(np.where(seen, weights, ABSENT), inner)
    return make.cast(make.node("precise_divf", {"fmt": inner.name}, products, sums[which]), inner, fmt)


def _weights(make: Making, scores: Numbers, seen: np.ndarray) -> Numbers:
    """exp(s - m), and what a running maximum may change: one exponential and product more for each block of keys, and
    arguments that are differences to an earlier maximum, at most twice as far away."""
    attrs, u = {"fmt": make.inner.name}, make.inner.u
    largest = make.join("max", attrs, np.where(seen, scores, ABSENT))
    away = make.node("fsub", attrs, scores, largest[:, None])
    far = np.abs(make.cutter.values[away])
    e = host_profile().fn("exp", make.inner.name).r
    room = (2 * (scores.shape[1] // BLOCK + 2) * (e + 2 * u) + 4 * u * far + e + 2 * u).reshape(-1)
    one = np.ones(room.shape)
    slip = make.cutter.add(LEAF, {"source": "constant", "rounded": True}, make.step, (), one, one - room, one + room)
    return make.node("fmul", {"fmt": FP64.name}, make.function("exp", make.inner, away), slip.reshape(far.shape))


def _masked(make: Making, scores: Numbers, batch: np.ndarray, row: np.ndarray, n: int) -> tuple[Numbers, np.ndarray]:
    """Scores with what the mask adds, and which keys take part."""
    seen = np.ones(scores.shape, bool)
    if make.argument("is_causal"):
        seen &= np.arange(n)[None, :] <= row[:, None]
    mask = make.argument("attn_mask")
    if mask is not None:
        full = (*make.shape[:-1], n)
        at = np.broadcast_to(np.arange(mask.numel()).reshape(tuple(mask.shape)), full).reshape(-1, *full[-2:])
        flat = at[batch, row]
        if not mask.is_floating_point():
            seen &= mask.detach().reshape(-1).numpy()[flat] != 0
        else:
            block = make.step.blocks[id(mask)]
            seen &= block.hi.reshape(-1)[flat] != -np.inf
            added = or_zero(make, make.read(mask, np.where(seen, flat, ABSENT)))
            scores = make.node("fadd", {"fmt": make.inner.name}, scores, added)
    if not seen.any(axis=1).all():
        raise make.refuse("a row sees no key")
    return scores, seen


def _places(x: torch.Tensor, times: int = 1) -> np.ndarray:
    """Flat places of the elements, (batch and heads, rows, columns); heads of keys serve several of the query's."""
    at = np.arange(x.numel()).reshape(tuple(x.shape))
    return np.repeat(at, times, axis=-3).reshape(-1, *x.shape[-2:])


def _unique(batch: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    found, which = np.unique(np.stack([batch, row]), axis=1, return_inverse=True)
    return found, which.reshape(-1)
