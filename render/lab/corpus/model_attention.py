"""Modelled flash attention, forward: the kernels' online softmax, row by row, block of keys by block of keys.

Everything is fp32 with one rounding per operation, sums in the order of their index. Where the kernel allows TF32 the
operands of its products are cut to TF32, but the sums stay fp32: the block model would take minutes at the published
size, and what it adds to truncated operands is below 2^-20.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numba import njit

from render.lab.corpus.tensor_core import truncate_tf32

Values = Mapping[str, Any]
LOG2_E = np.float32(1.44269504)


def attention2(values: Values, block: int) -> list[Any]:
    """Flash attention 2 without mask in TF32: (o, m + log2 l)."""
    q, k, v = (truncate_tf32(values[name].numpy()) for name in ("q", "k", "v"))
    factor = np.float32(values["sm_scale"]) * LOG2_E
    out, lse = np.empty_like(q), np.empty(q.shape[:3], np.float32)
    for head in np.ndindex(q.shape[:2]):
        _attend2(q[head], np.ascontiguousarray(k[head].T), v[head], factor, block, out[head], lse[head])
    return [torch.from_numpy(out), torch.from_numpy(lse)]


@njit(cache=True, nogil=True)
def _attend2(q, k, v, factor, block, out, lse):  # type: ignore[no-untyped-def]
    rows, dim = q.shape
    row, acc, part = np.empty(rows, np.float32), np.empty(dim, np.float32), np.empty(dim, np.float32)
    for r in range(rows):
        top, total = np.float32(-np.inf), np.float32(1.0)
        acc[:] = 0
        _scores(q[r], k, row)
        for start in range(0, rows, block):
            scores = row[start : start + block]
            bits = scores.view(np.uint32)
            now = max(top, np.float32(scores.max() * factor))
            added = np.float32(0.0)
            for j in range(block):
                scores[j] = np.exp2(np.float32(scores[j] * factor - now))
                added += scores[j]
                bits[j] &= np.uint32(0xFFFFE000)
            alpha = np.exp2(np.float32(top - now))
            total = np.float32(total * alpha + added)
            _accumulate(acc, alpha, scores, v, start, part)
            top = now
        for t in range(dim):
            out[r, t] = acc[t] / total
        lse[r] = top + np.float32(np.log2(total))


@njit(cache=True, nogil=True)
def _scores(query, k, out):  # type: ignore[no-untyped-def]
    """The products of one row of q with the first keys, each summed in the order of t, four terms at a time."""
    out[:] = 0
    whole = query.size - query.size % 4
    for t in range(0, whole, 4):
        w, x, y, z = query[t], query[t + 1], query[t + 2], query[t + 3]
        for j in range(out.size):
            out[j] = (((out[j] + w * k[t, j]) + x * k[t + 1, j]) + y * k[t + 2, j]) + z * k[t + 3, j]
    for t in range(whole, query.size):
        for j in range(out.size):
            out[j] += query[t] * k[t, j]


@njit(cache=True, nogil=True)
def _accumulate(acc, factor, p, v, start, part):  # type: ignore[no-untyped-def]
    """acc * factor + p @ v: the product is summed by itself first, as `acc += tl.dot(p, v)` may do."""
    part[:] = 0
    whole = p.size - p.size % 4
    for j in range(0, whole, 4):
        w, x, y, z, i = p[j], p[j + 1], p[j + 2], p[j + 3], start + j
        for t in range(acc.size):
            part[t] = (((part[t] + w * v[i, t]) + x * v[i + 1, t]) + y * v[i + 2, t]) + z * v[i + 3, t]
    for j in range(whole, p.size):
        for t in range(acc.size):
            part[t] += p[j] * v[start + j, t]
    for t in range(acc.size):
        acc[t] = np.float32(acc[t] * factor) + part[t]


def attention1(values: Values, block: int, fault: str = "") -> list[Any]:
    """Causal flash attention 1 in fp32: (o, l, m), the accumulator renormalised at every block of keys.

    Fault "row-sum": in odd rows the sum of every block of keys but the first counts twice, the symptom of a reduction
    that takes the threads of a warp for twice as many as they are (Triton issue 1821, fixed by pull request 1913).
    """
    q, k, v = (values[name].numpy() for name in ("q", "k", "v"))
    scale = np.float32(values["sm_scale"])
    out, flat = np.empty_like(q), (q.shape[0] * q.shape[1], q.shape[2])
    sums, tops = np.empty(flat, np.float32), np.empty(flat, np.float32)
    for i, head in enumerate(np.ndindex(q.shape[:2])):
        twice = fault == "row-sum"
        _attend1(q[head], np.ascontiguousarray(k[head].T), v[head], scale, block, twice, out[head], sums[i], tops[i])
    return [torch.from_numpy(out), torch.from_numpy(sums), torch.from_numpy(tops)]


@njit(cache=True, nogil=True)
def _attend1(q, k, v, scale, block, twice, out, sums, tops):  # type: ignore[no-untyped-def]
    rows, dim = q.shape
    row, acc, part = np.empty(rows, np.float32), np.empty(dim, np.float32), np.empty(dim, np.float32)
    for r in range(rows):
        top, total = np.float32(-np.inf), np.float32(0.0)
        acc[:] = 0
        _scores(q[r], k, row[: min(rows, r + block - r % block)])
        for start in range(0, r + 1, block):
            scores = row[start : start + block]
            for j in range(block):
                scores[j] = scores[j] * scale if start + j <= r else np.float32(-np.inf)
            now = max(scores.max(), top)
            before = np.float32(total * np.exp(np.float32(top - now)))
            added = np.float32(0.0)
            for j in range(block):
                scores[j] = np.exp(np.float32(scores[j] - now))
                added += scores[j]
            if twice and start > 0 and r % 2 == 1:
                added *= np.float32(2.0)
            total = np.float32(added + before)
            share = np.float32(np.float32(1.0) / total)
            for j in range(block):
                scores[j] *= share
            _accumulate(acc, np.float32(before * share), scores, v, start, part)
            top = now
        out[r] = acc
        sums[r], tops[r] = total, top


MODELS = {"attention2": attention2, "attention1": attention1}
