"""Bits do not depend on the batch, on threads or on lazy broadcasts."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from block_fma import operand_pair
from dot_support import chain_interval, dot, point
from support import rng

from interval_ops.dot.rule import FLUSH, PendingDot
from interval_ops.formats.model import FP16
from interval_ops.profiles.profile import load_profile

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize("kind", ("fp16", "tf32", "fp64"))
@pytest.mark.parametrize("radius", (None, 0.01))
def test_bits_do_not_depend_on_the_batch(kind, radius):
    """Any splitting of the programs, and any number of BLAS threads, gives the same bits."""
    generator, profile = rng(51), load_profile("sm_80")
    a = generator.standard_normal((7, 48, 3 * FLUSH // 2)).astype(np.float32)
    b = generator.standard_normal((7, 3 * FLUSH // 2, 40)).astype(np.float32)
    a[2, 5] *= np.float32(2.0**-140)  # slices of different magnitude take different paths
    b[4] *= np.float32(2.0**100)
    a[4] *= np.float32(2.0**20)
    whole = chain_interval(a, b, kind, profile, 64, radius)
    for s, e in ((0, 1), (1, 4), (4, 5), (5, 7)):
        part = chain_interval(a[s:e], b[s:e], kind, profile, 64, radius)
        assert all(np.array_equal(x[s:e], y, equal_nan=True) for x, y in zip(whole, part, strict=True))
    shared = chain_interval(a, b[:1], kind, profile, 64, radius)
    spread = chain_interval(a, np.repeat(b[:1], 7, axis=0), kind, profile, 64, radius)
    assert all(np.array_equal(x, y, equal_nan=True) for x, y in zip(shared, spread, strict=True))
    threadpoolctl = pytest.importorskip("threadpoolctl")
    with threadpoolctl.threadpool_limits(1):
        alone = chain_interval(a, b, kind, profile, 64, radius)
    assert all(np.array_equal(x, y, equal_nan=True) for x, y in zip(whole, alone, strict=True))


def test_threads_have_their_own_scratch():
    generator, profile = rng(52), load_profile("sm_80")
    cases = [
        tuple(generator.standard_normal(s).astype(np.float32) for s in ((4, 32, 96), (4, 96, 32))) for _ in range(4)
    ]
    expected = [chain_interval(a, b, "fp16", profile, 32) for a, b in cases]
    wrong = []

    def work(index):
        for _ in range(5):
            got = chain_interval(*cases[index], "fp16", profile, 32)
            if not all(np.array_equal(x, y) for x, y in zip(got, expected[index], strict=True)):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_lazy_broadcasts_and_extra_axes():
    generator, profile = rng(53), load_profile("sm_80")
    a, b = operand_pair(generator, 6, 3, 4, 16, FP16, "plain")
    lo, hi = dot(a, b, "fp16", profile)
    zlo, zhi = dot(a.reshape(2, 3, 3, 16), b.reshape(2, 3, 16, 4), "fp16", profile)
    assert np.array_equal(zlo.reshape(lo.shape), lo)
    assert np.array_equal(zhi.reshape(hi.shape), hi)
    flat = dot(a[0], b[0], "fp16", profile)
    assert np.array_equal(flat[0], lo[0])
    mixed = dot(a.reshape(2, 3, 3, 16)[:, :1], b.reshape(2, 3, 16, 4)[:1], "fp16", profile)
    assert mixed[0].shape == (2, 3, 3, 4)
    ones = np.ones((1, 1, 1), np.float32)
    pending = PendingDot.start(None, (3, 4), "fp16", profile).extend(point(ones), point(b), k=16)
    assert np.array_equal(
        pending.interval()[0][:, 0], dot(np.ones((1, 3, 16), np.float32), b, "fp16", profile)[0][:, 0]
    )
    both = PendingDot.start(None, (3, 4), "fp16", profile).extend(point(ones), point(ones), k=16).interval()
    assert both[0] == 16 == both[1]
    with pytest.raises(ValueError, match="do not agree on K"):
        PendingDot.start(None, (3, 4), "fp16", profile).extend(point(a), point(b[:, :8]))
    transposed = np.ascontiguousarray(b.transpose(0, 2, 1)).transpose(0, 2, 1)
    assert np.array_equal(dot(a, transposed, "fp16", profile)[0], lo)
