"""The published tables of the Dual-Delta paper, by N = 1000 inputs of the same distribution."""

import pytest
import torch

import render


def draw(k):
    def inputs(seed):
        g = torch.Generator().manual_seed(seed)
        return torch.randn(128, k, generator=g).half(), torch.randn(k, 128, generator=g).half()

    return inputs


def single(a, b):
    return (a.float() @ b.float()).half()


def split_k(a, b, parts=16):
    """Partial products of K / 16 terms, stored in fp16 and added in fp32."""
    k = a.shape[1] // parts
    partial = torch.bmm(a.float().view(-1, parts, k).transpose(0, 1), b.float().view(parts, k, -1))
    return partial.half().float().sum(0).half()


def exact(a, b):
    return a @ b


@pytest.mark.slow
def test_128_cubed():
    """Tables 1: mean 4.5708e-4; the fp16 product of the CPU and fp32 accumulation are equivalent."""
    found = render.dual_delta(single, torch.matmul, exact, draw(128), n=1000)
    assert found.d1.mean() == pytest.approx(4.5708e-4, rel=2e-3)
    assert found.d1.std() == pytest.approx(6.0796e-6, rel=0.15)
    assert found.outcome == "equivalent" and found.statistics.equivalence[1].p < 0.05


@pytest.mark.slow
def test_k_4096_and_split_k():
    """Tables 2 and 3: 4.768e-4 for fp32 accumulation; 3.106e-2 with the sd 5.46e-3 for split-K with fp16 partials."""
    found = render.dual_delta(split_k, single, exact, draw(4096), n=1000)
    assert found.d2.mean() == pytest.approx(4.768e-4, rel=2e-3)
    assert found.d1.mean() == pytest.approx(3.106e-2, rel=0.02)
    assert found.d1.std() == pytest.approx(5.461e-3, rel=0.1)
    assert found.outcome == "worse" and found.statistics.equivalence[0].p == 1
