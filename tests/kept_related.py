"""Cases of `kept_bounds`: values that are bounded by what they are made of.

Quotients by their own sum, norms by their own squares, differences from their own extreme, corrections of compensated
sums; of lanes of one row, of columns, of casts between, and of what only looks like them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import kept_hosted
import numpy as np
import torch
import triton
import triton.language as tl
from kept_bounds import Cases

from render.interpreter.session import Session

M, N = 4, 8


@triton.jit
def related(X, Out, M: tl.constexpr, N: tl.constexpr, KIND: tl.constexpr, DT: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(X + at).to(DT)
    t = tl.sum(x, 1)
    if KIND == "share":
        y = x * (1.0 / t)[:, None]
    elif KIND == "shares":
        y = x / t[:, None] + x / tl.sum(x, 0)[None, :] - x / tl.sum(x)
    elif KIND == "scaled":
        y = x / (t * 0.5)[:, None] - (t / 3.0)[:, None] / x
    elif KIND == "moved":
        y = x / (t + 1e-3)[:, None] + x / (t - 1e-3)[:, None]
    elif KIND == "of others":
        y = x / tl.sum(x * 1.5, 1)[:, None]
    elif KIND == "cast":
        y = (x / t.to(tl.float32)[:, None]).to(tl.float16).to(tl.float32)
    elif KIND == "root of the sum":
        y = x / tl.sqrt(t.to(tl.float32))[:, None] + x * tl.rsqrt(t.to(tl.float32))[:, None]
    elif KIND == "rms":
        s = tl.sum(x * x, 1).to(tl.float32)
        y = x * tl.rsqrt(s / N + 1e-5)[:, None]
    elif KIND == "l2":
        y = x / tl.sqrt(tl.sum(x * x, 1).to(tl.float32) + 1e-12)[:, None]
    elif KIND == "squares":
        p = x * x
        y = p / tl.sum(p, 1)[:, None]
    elif KIND == "magnitudes":
        y = x / (tl.sum(tl.abs(x), 1) + 1e-6)[:, None] + tl.abs(x) / tl.sum(tl.abs(x))
    elif KIND == "below":
        p = x * 1.3
        y = (p - tl.max(p, 1)[:, None]) - (tl.max(p, 1)[:, None] - p)
    elif KIND == "above":
        y = (tl.min(x, 0)[None, :] - x) + (x - tl.min(x, 0)[None, :]) + (x - tl.max(x))
    elif KIND == "softmax":
        e = tl.exp(x.to(tl.float32) - tl.max(x.to(tl.float32), 1)[:, None])
        y = e / tl.sum(e, 1)[:, None]
    elif KIND == "exponentials":
        e = tl.exp2(x.to(tl.float32))
        y = e / tl.sum(e, axis=1, keep_dims=True) + tl.log(e / tl.sum(e, 1)[:, None])
    elif KIND == "centred":
        d = x - (t / N)[:, None]
        y = d * tl.rsqrt((tl.sum(d * d, 1) / N).to(tl.float32) + 1e-5)[:, None]
    elif KIND == "repeated":
        b = tl.broadcast_to(tl.sum(x, 1)[:, None], (M, N))
        y = tl.broadcast_to(x, (M, N)) / b + x / (b + b)
    elif KIND == "compensated":
        y = tl.zeros((M, N), tl.float32)
        c = tl.zeros((M, N), tl.float32)
        for k in range(3):
            z = x * (k + 0.5) - c
            s = y + z
            c = (s - y) - z
            y = s
    else:
        s = x + 0.75
        b = s - x
        y = ((x - (s - b)) + (0.75 - b)) * 1e6 + tl.where(tl.abs(x) >= 0.75, (x - s) + 0.75, (0.75 - s) + x)
    tl.store(Out + at, y)


KINDS = ["share", "shares", "scaled", "moved", "of others", "cast", "root of the sum", "rms", "l2", "squares",
         "magnitudes", "below", "above", "softmax", "exponentials", "centred", "repeated", "compensated",
         "two sums"]  # fmt: skip


def _kept(kind: str, dtype: Any, width: float, signed: bool, options: dict[str, Any]) -> object:
    v = (np.arange(M * N) * 7 % 23 + 1.0) / 8 * (np.where(np.arange(M * N) % 3 == 1, -1, 1) if signed else 1)
    x, out = torch.from_numpy(v.astype(np.float32)), torch.zeros(M * N)
    with Session(**options) as session:
        session.memory.carry(x, v - width * np.abs(v), v + width * np.abs(v), frozenset())
        related[(1,)](x, out, M, N, kind, dtype)
    return kept_hosted.told(session, out)


TARGETS: dict[str, dict[str, Any]] = {
    "any": {"device": "any"}, "sm_90": {"device": "sm_90"},
    "no arithmetic": {"device": "sm_90", "mute": frozenset({"arith", "accumulation", "function"})},
}  # fmt: skip


def _all(kind: str, options: dict[str, Any]) -> object:
    """Of a narrow box, a wide one, one with signs, and in fp16."""
    return [
        _kept(kind, dtype, width, signed, options)
        for dtype, width, signed in (
            (tl.float32, 2.0**-7, False),
            (tl.float32, 0.4, False),
            (tl.float32, 0.125, True),
            (tl.float16, 2.0**-7, False),
        )
    ]


CASES: Cases = {
    f"{kind} on {target}": (partial(_all, kind, options), 2.0**-30)
    for kind in KINDS
    for target, options in TARGETS.items()
}
