"""Convolutions, in float32 on a CPU whatever torch's switches for CUDA say, and their gradients against definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import rng

from interval_ops.profiles.profile import load_profile
from render.interpreter.host import HostTracker
from render.interpreter.hosted.call import Call
from render.interpreter.hosted.table import RULES
from render.interpreter.memory import Envelope, Memory
from render.ops.aten import addends


@pytest.mark.parametrize("switch", [True, False])
def test_operands_are_cut_where_the_target_has_such_units(switch):
    torch.manual_seed(0)
    x, w = torch.randn(1, 4, 9, 9), torch.randn(3, 4, 3, 3)
    args = (x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    size = torch.nn.functional.conv2d(x.abs().double(), w.abs().double()).numpy()
    exact = torch.nn.functional.conv2d(x.double(), w.double()).numpy()
    kept = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = switch
    try:
        widths = {}
        for name in ("torch-cpu", "cuda-eager"):
            found = RULES["convolution"](Call(torch.ops.aten.convolution.default, args, {}, {}, load_profile(name)))
            assert ((found.lo <= exact) & (exact <= found.hi)).all()
            widths[name] = float(np.max((found.hi - found.lo) / size))
    finally:
        torch.backends.cudnn.allow_tf32 = kept
    assert widths["torch-cpu"] < 4 * (36 + 8) * 2.0**-24  # two sides, one rounding per addend, and some
    assert (widths["cuda-eager"] > 2.0**-9) == switch


def by_definition(
    g: np.ndarray, x: np.ndarray, w: np.ndarray, stride: int, pad: int, dilation: int, groups: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of a convolution over one axis: each product of the forward sum once, for input and for weight."""
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for b, o, i in np.ndindex(*g.shape):
        first = o // (w.shape[0] // groups) * w.shape[1]
        for c, k in np.ndindex(*w.shape[1:]):
            at = i * stride - pad + k * dilation
            if 0 <= at < x.shape[2]:
                dx[b, first + c, at] += g[b, o, i] * w[o, c, k]
                dw[o, c, k] += g[b, o, i] * x[b, first + c, at]
    return dx, dw, g.sum((0, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("stride", "pad", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 1), (3, 1, 2, 4)]
)
def test_gradients_of_a_convolution_hold_those_of_every_point(stride, pad, dilation, groups, dtype):
    r = rng(7 + stride)
    x, w = r.normal(size=(2, 4, 11)), r.normal(size=(8, 4 // groups, 3))
    n = (11 + 2 * pad - 2 * dilation - 1) // stride + 1
    given = [torch.from_numpy(a).to(dtype) for a in (r.normal(size=(2, 8, n)), x, w)]
    mask, how = [True, True, True], ([8], [stride], [pad], [dilation], False, [0], groups)
    op = torch.ops.aten.convolution_backward.default
    for radius in (0.0, 0.01):
        known, boxes = {}, []
        for t in given:
            v = t.double().numpy()
            boxes.append((v - radius * np.abs(v), v + radius * np.abs(v)))
            known[id(t)] = Envelope(*boxes[-1], np.ones(v.shape, np.bool_), True, frozenset())
        found = RULES["convolution_backward"](Call(op, (*given, *how, mask), {}, known, load_profile("torch-cpu")))
        sizes = by_definition(*(np.abs(t.double().numpy()) for t in given), stride, pad, dilation, groups)
        for trial in range(4):
            points = [lo + (hi - lo) * r.integers(0, 2, lo.shape) for lo, hi in boxes] if trial else [
                t.double().numpy() for t in given]  # fmt: skip
            for bound, exact in zip(found, by_definition(*points, stride, pad, dilation, groups), strict=True):
                assert ((bound.lo <= exact) & (exact <= bound.hi)).all()
        for bound, own, size in zip(found, op(*given, *how, mask), sizes, strict=True):
            v = own.double().numpy()
            assert ((bound.lo <= v) & (v <= bound.hi)).all()
            u, least = {
                torch.float32: (2.0**-24, 1e-36),
                torch.float16: (2.0**-11, 1e-6),
                torch.float64: (2e-15, 1e-40),
            }[dtype]
            assert (bound.hi - bound.lo <= 8 * radius * size + 4 * 48 * u * size + least).all()
        weight = RULES["convolution_backward"](
            Call(op, (*given, *how, [False, True, False]), {}, known, load_profile("torch-cpu"))
        )
        assert len(weight) == 1 and np.array_equal(weight[0].lo, found[1].lo)


def test_gradients_of_inputs_round_as_well():
    memory = Memory()
    with HostTracker(memory):
        w = torch.randn(2, 3, 3, requires_grad=True)
        (found,) = torch.autograd.grad(torch.nn.functional.conv1d(torch.randn(1, 3, 9), w).sum(), w)
        memory.deferred(found)
    known = memory.host_envelope(found)
    assert known is not None and (known.lo < known.hi).all() and not known.taints


def test_averages_count_their_window():
    x = torch.zeros(1, 1, 20, 20)
    assert addends("avg_pool2d", (x, [9, 9], [1, 1]), 144) == addends("avg_pool2d", (x, [9], [1]), 144) == 82
    assert addends("avg_pool1d", (x[0], [100]), 1) == 101


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_linear_layer_may_round_its_product_before_the_bias(dtype):
    """As torch does with a batch of another layout; in inference mode the layer arrives as one operation."""
    generator = torch.Generator().manual_seed(3)
    x, w = (torch.randn(*shape, generator=generator).to(dtype) for shape in ((64, 48), (96, 48)))
    b = (3 * torch.randn(96, generator=generator)).to(dtype)
    both = [(x.float() @ w.float().T).to(dtype) + b, (x.float() @ w.float().T + b.float()).to(dtype)]
    found = RULES["linear"](Call(torch.ops.aten.linear.default, (x, w, b), {}, {}, load_profile("torch-cpu")))
    for y in both:
        y = y.double().numpy()
        assert ((found.lo <= y) & (y <= found.hi)).all()
    apart = (both[0] - both[1]).abs().double().numpy()
    assert apart.max() > 0 and (found.hi - found.lo).max() < 8 * apart.max()


def _from_the_first(c: np.ndarray, a: np.ndarray, b: np.ndarray, alpha: float) -> np.ndarray:
    """c + sum of alpha a b in float32, one fused multiply-add after the other, as kernels for small matrices do it."""
    total = c.astype(np.float32)
    for k in range(a.shape[1]):
        term = np.float64(np.float32(alpha) * a[:, k])[:, None] * np.float64(b[k])[None]
        total = np.float32(np.float64(total) + term)
    return total


@pytest.mark.parametrize("alpha", [1.0, -1.0, 0.75])
@pytest.mark.parametrize("name", ["addmm", "baddbmm", "addmv", "linear"])
def test_a_sum_may_begin_with_what_is_added_to_it(name, alpha):
    torch.manual_seed(1)
    c, a, b = torch.randn(16, 16) * 1e3, torch.randn(16, 24), torch.randn(24, 16)
    forms = {
        "addmm": lambda: torch.addmm(c, a, b, alpha=alpha),
        "baddbmm": lambda: torch.baddbmm(c[None], a[None], b[None], alpha=alpha)[0],
        "addmv": lambda: torch.addmv(c[0], b.t(), a[0], alpha=alpha)[None],
        "linear": lambda: torch.nn.functional.linear(a, b.t() * alpha, c[0]),
    }
    memory = Memory()
    with HostTracker(memory):
        for x in (a, b, c):
            memory.carry(x, x.double().numpy(), x.double().numpy(), frozenset())
        found = memory.envelope(forms[name]())
    first = c if name in ("addmm", "baddbmm") else c[:1].expand(16, 16)
    given = (a.numpy(), (b * alpha).numpy(), 1.0) if name == "linear" else (a.numpy(), b.numpy(), alpha)
    value = _from_the_first(first.numpy(), *given)[: found.lo.shape[0]]
    assert ((found.lo <= value) & (value <= found.hi)).all()
    assert (found.hi - found.lo).max() < 4 * 26 * 2.0**-24 * 6e3


def test_batches_are_added_in_the_narrow_type():
    torch.manual_seed(3)
    c, a, b = torch.zeros(4, 4).half(), torch.randn(6, 4, 8).half(), torch.randn(6, 8, 4).half()
    memory = Memory()
    with HostTracker(memory):
        for x in (a, b):
            memory.carry(x, x.double().numpy(), x.double().numpy(), frozenset())
        found = memory.envelope(torch.addbmm(c, a, b))
    for order in (range(6), range(5, -1, -1), (3, 0, 5, 1, 4, 2)):
        total = c
        for k in order:
            total = (total.double() + a[k].double() @ b[k].double()).half()
        value = total.double().numpy()
        assert ((found.lo <= value) & (value <= found.hi)).all()


@pytest.mark.parametrize("name", ["mm", "linear", "addmm"])
def test_subnormal_numbers_of_bf16_may_count_as_zero(name):
    tiny, large = torch.full((8, 8), 1e-39).bfloat16(), torch.full((8, 8), 1e38).bfloat16()
    forms = {
        "mm": lambda: torch.mm(tiny, large),
        "linear": lambda: torch.nn.functional.linear(tiny, large, torch.zeros(8).bfloat16()),
        "addmm": lambda: torch.addmm(tiny, tiny, large),
    }
    memory, half = Memory(), tiny / 2
    with HostTracker(memory):  # at the end of the box it does not matter what torch makes of these here
        memory.carry(tiny, half.double().numpy(), tiny.double().numpy(), frozenset())
        found = memory.envelope(forms[name]())
    assert (found.lo <= 0.0).all() and (found.hi >= 8 * float(tiny[0, 0]) * float(large[0, 0])).all()
