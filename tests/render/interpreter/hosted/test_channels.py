"""Batch norm with given statistics: torch's values, exact ones and those of every way to write it lie inside."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from interval_ops.profiles.profile import load_profile
from render.interpreter.hosted import channels
from render.interpreter.hosted.call import Bounds, Call
from render.interpreter.hosted.table import RULES
from render.interpreter.memory import Envelope

CHANNELS, EPS = 7, 1e-5


def ways(x: np.ndarray, m: np.ndarray, v: np.ndarray, w: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    """In float32: over the root, by its reciprocal, by a factor and a shift."""
    one, eps = np.float32(1), np.float32(EPS)
    m, v, w, b = (t[:, None] for t in (m, v, w, b))
    root = np.sqrt(v + eps)
    inverse, factor = one / root, w * (one / root)
    contracted = (x.astype(np.float64) * factor + (b - m * factor)).astype(np.float32)
    return [(x - m) / root * w + b, (x - m) * inverse * w + b, (x - m) * factor + b, x * factor + (b - m * factor),
            contracted]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_every_way_to_write_it_lies_inside(seed: int) -> None:
    random = np.random.default_rng(seed)
    size = 10.0 ** random.uniform(-3, 3)
    x, m, w, b = (
        (random.standard_normal(n) * s).astype(np.float32)
        for n, s in (((CHANNELS, 400), size), (CHANNELS, 10 * size), (CHANNELS, 1.0), (CHANNELS, 10.0 ** (seed - 3)))
    )
    v = (random.random(CHANNELS) * size**2 * 10.0 ** (seed - 4)).astype(np.float32)
    y = (x * (1 + 2.0 ** random.uniform(-24, -2) * random.standard_normal(x.shape))).astype(np.float32)
    lo, hi = np.minimum(x, y), np.maximum(x, y)
    shaped = torch.from_numpy(x[None].copy())
    given = [torch.from_numpy(t) for t in (w, b, m, v)]
    known = {id(shaped): Envelope(lo[None], hi[None], np.ones(1, np.bool_), True, frozenset())}
    args = (shaped, *given, False, 0.1, EPS)
    call = Call(torch.ops.aten.native_batch_norm.default, args, {}, known, load_profile("torch-cpu"))
    found = RULES["native_batch_norm"](call)
    assert isinstance(found, tuple)
    bounds = found[0]
    assert isinstance(bounds, Bounds)
    for part in (0.0, 1.0, random.random(x.shape)):
        z = np.clip((lo + (hi - lo) * part).astype(np.float32), lo, hi)
        t = torch.from_numpy(z[None])
        made = [F.batch_norm(k, given[2].to(k.dtype), given[3].to(k.dtype), given[0].to(k.dtype),
                             given[1].to(k.dtype), eps=EPS)[0].double().numpy() for k in (t, t.double())]  # fmt: skip
        for value in (*made, *ways(z, m, v, w, b)):
            assert (bounds.lo[0] <= value).all()
            assert (value <= bounds.hi[0]).all()
    wide = (bounds.hi - bounds.lo)[0] - np.abs(hi - lo) * np.abs(w / np.sqrt(v + EPS))[:, None]
    terms = (np.abs(hi) + np.abs(lo) + np.abs(m)[:, None]) * np.abs(w / np.sqrt(v + EPS))[:, None] + np.abs(b)[:, None]
    assert (wide <= 64 * 2.0**-24 * terms + 1e-30).all()


def test_what_may_overflow_has_no_bound() -> None:
    one = np.ones(1)
    rows = np.array([[1.0, 1e38, np.inf, np.nan]])
    lo, hi = channels.around((rows, rows), one, (one * 0.125, one * 0.125), None, None)
    assert list(np.isnan(lo[0])) == [False, True, True, True]
    assert list(np.isnan(hi[0])) == [False, True, True, True]
    assert lo[0, 0] <= 0.0 <= hi[0, 0]
