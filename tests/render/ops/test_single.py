"""Sums of magnitudes in float32 are bounds: against float64, for convolutions of many forms and sizes."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import render
from interval_ops.profiles.profile import load_profile
from render.interpreter.hosted.call import Call
from render.interpreter.hosted.products import convolution_gradients, linear
from render.interpreter.session import Session
from render.ops import single
from render.ops.aten import ATEN
from render.reference.local_error import Unit
from render.reference.running_error import Movable, error_of
from render.reference.shadow import default_dtype

pytestmark = pytest.mark.filterwarnings("ignore:TF32 acceleration")  # torch's, of setting any flag of oneDNN
PLAIN = None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1
FORMS = [
    lambda x, w: F.conv2d(x, w, padding=1),
    lambda x, w: F.conv2d(x, w, stride=2, dilation=2),
    lambda x, w: F.conv_transpose2d(x, w.transpose(0, 1), stride=2),
    lambda x, w: F.conv2d(x.repeat(1, 2, 1, 1), w, groups=2),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e-38, 1e15])
def test_a_sum_in_float32_is_no_less_than_in_float64(form, scale):
    torch.manual_seed(0)
    x = scale * torch.rand(2, 8, 9, 9, dtype=torch.float64) ** 8
    w = torch.rand(6, 8, 3, 3, dtype=torch.float64) ** 8
    found = single.above(lambda p: form(*p), [x, w], 73, (x, w, *PLAIN))
    exact = form(x, w)
    assert found is not None and bool((found >= exact).all())
    assert scale < 1e-30 or bool((found <= exact * 1.001).all())


def test_what_float32_does_not_hold_is_left_to_float64():
    x, w = torch.ones(1, 1, 4, 4, dtype=torch.float64), torch.ones(1, 1, 3, 3, dtype=torch.float64)
    args = x, w, *PLAIN
    assert single.above(lambda p: F.conv2d(*p), [1e30 * x, w], 10, args) is None
    assert single.above(lambda p: F.conv2d(*p), [torch.nan * x, w], 10, args) is None
    assert single.above(lambda p: F.conv2d(*p), [x, w], single.LONGEST, args) is None
    assert single.above(lambda p: F.conv2d(*p), [x, w], 10, args) is not None


def test_switches_that_let_torch_cut_float32_are_seen():
    with precision("medium"):
        assert not single.is_plain() and not single.is_plain("matmul") and single.is_plain("conv")
    assert single.is_plain()


@contextmanager
def precision(told):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(told)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("told", ["high", "medium"])
@pytest.mark.parametrize("form", [torch.mm, lambda a, b: torch.addmm(b, a, b), lambda a, b: (a[None] @ b[None])[0]])
def test_products_that_may_be_cut_have_no_bound_on_a_cpu(told, form):
    a = torch.randn(4, 4)
    with Session(device="torch-cpu", redirect=False) as session:
        with precision(told):
            cut = form(a, a)  # asked for later, when the switch is back
        found = [session.envelope(x) for x in (cut, form(a, a))]
    assert found[0].taints and not found[1].taints
    assert all("may cut" in t.message for t in session.taints.values())
    with Session(device="sm_80", redirect=False) as session, precision(told):  # there it stands for tensor cores
        assert not session.envelope(form(a, a)).taints


@pytest.mark.parametrize("name", ["ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE"])
def test_the_environment_of_onednn_is_seen(monkeypatch, name):
    for told, plain in (("BF16", False), ("any", False), ("Strict", True), ("", True)):
        monkeypatch.setenv(name, told)
        assert single.is_plain() is plain
        assert (single.otherwise("mm", [torch.ones(1)], False) is None) is plain
        assert single.otherwise("mm", [torch.ones(1, dtype=torch.float64)], True) is None


CONVOLUTIONS = [
    (lambda x, w: F.conv2d(x, w, padding=1), (16, 8, 24, 24), (8, 8, 3, 3)),
    (lambda x, w: F.conv2d(x, w, torch.ones(8)), (17, 4, 16, 16), (8, 4, 3, 3)),
    (lambda x, w: F.conv2d(x, w, groups=2), (16, 8, 16, 16), (4, 4, 3, 3)),
    (lambda x, w: F.conv2d(x, w, stride=2), (16, 4, 16, 16), (4, 4, 5, 5)),
    (lambda x, w: F.conv1d(x, w), (16, 4, 64), (4, 4, 3)),
    (lambda x, w: F.conv2d(x, w), (16, 8, 16, 16), (8, 8, 1, 1)),
]


@pytest.mark.parametrize("device", ["torch-cpu", "cuda-eager", "any"])
@pytest.mark.parametrize(("form", "image", "weight"), CONVOLUTIONS)
def test_transformed_convolutions_have_no_bound(form, image, weight, device):
    torch.manual_seed(0)
    x, w = torch.randn(image), torch.randn(weight)
    with Session(device=device, redirect=False) as session:
        with torch.backends.mkldnn.flags(enabled=False):
            open_ = form(x, w)
        found = [session.envelope(y) for y in (open_, form(x, w))]
    assert found[0].taints and not found[1].taints
    assert {t.code for t in session.taints.values()} == {"RND302"}
    assert all("Winograd" in t.message for t in session.taints.values())


def test_a_transformed_convolution_leaves_the_bound_of_the_sum():
    """What the refusal is for: else it would be one for nothing."""
    torch.manual_seed(0)
    x, w = torch.randn(32, 8, 32, 32), torch.randn(8, 8, 3, 3)
    args = x, w, *PLAIN
    assert single.is_direct(args)
    with torch.backends.mkldnn.flags(enabled=False):
        if single.is_direct(args):
            pytest.skip("this torch has no NNPACK")
        y = F.conv2d(x, w)
        found = linear(ATEN["convolution"])(
            Call(torch.ops.aten.convolution.default, args, {}, {}, load_profile("torch-cpu"))
        )
    assert ((y.numpy() < found.lo) | (y.numpy() > found.hi)).any()
    assert single.above(lambda p: F.conv2d(*p), [x.double().abs(), w.double().abs()], 73, args) is not None
    with torch.backends.mkldnn.flags(enabled=False):
        assert single.above(lambda p: F.conv2d(*p), [x.double().abs(), w.double().abs()], 73, args) is None


def test_gradients_of_convolutions_are_sums_without_onednn():
    torch.manual_seed(0)
    x, w, dy = torch.randn(16, 4, 12, 12), torch.randn(4, 4, 3, 3), torch.randn(16, 4, 10, 10)
    args = None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1, (True, True, False)
    with torch.backends.mkldnn.flags(enabled=False), Session(device="torch-cpu", redirect=False) as session:
        found = torch.ops.aten.convolution_backward(dy, x, w, *args)[:2]
        bounds = [session.envelope(y) for y in found]
    exact = torch.ops.aten.convolution_backward(dy.double(), x.double(), w.double(), *args)[:2]
    rule = convolution_gradients(ATEN["convolution"])
    call = Call(torch.ops.aten.convolution_backward.default, (dy, x, w, *args), {}, {}, load_profile("torch-cpu"))
    for y, e, b, own in zip(found, exact, bounds, rule(call), strict=False):
        assert not b.taints
        for values in (y, e):  # the envelope is joined with what came out, the rule's own answer is not
            assert ((own.lo <= values.numpy()) & (values.numpy() <= own.hi)).all()


def test_a_layer_says_why_it_has_no_bound_and_which_operation_loses_digits():
    torch.manual_seed(0)
    layer, x = torch.nn.Conv2d(4, 4, 3), torch.randn(16, 4, 12, 12)

    def in_parts(x):  # 8 images are a sum of products with NNPACK, too
        return torch.cat([layer(part) for part in x.split(8)])

    with torch.backends.mkldnn.flags(enabled=False):
        if single.is_direct((x, layer.weight, *PLAIN)):
            pytest.skip("this torch has no NNPACK")
        found = [render.compare_models(*sides, x) for sides in ((layer, in_parts), (in_parts, layer))]
    assert [(v.label, v.code) for v in found] == [("Type-II", "RND206"), ("Type-I", "RND110")]
    record = found[0].leaves[-1]
    assert record.operation == "convolution" and record.kind == "first-order"
    assert any("Winograd" in why for why in record.taints)


@pytest.mark.parametrize("open_weight", [False, True])
def test_the_rule_holds_corners_of_its_operands(open_weight):
    torch.manual_seed(1)
    x, w, b = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3), torch.randn(4)
    session = Session(device=load_profile("torch-cpu").name, redirect=False)
    open_ = (x, w, b) if open_weight else (x, b)
    for t in open_:
        v = t.double().numpy()
        session.memory.carry(t, v - 1e-3 * np.abs(v), v + 1e-3 * np.abs(v), frozenset(), None)
    with session:
        y = F.conv2d(x, w, b, padding=1)
        found = session.envelope(y)
    assert found is not None and not found.taints
    for _ in range(20):
        moved = [
            t.double() * (1 + 1e-3 * (torch.randint(0, 2, t.shape) * 2 - 1))
            if any(t is o for o in open_)
            else t.double()
            for t in (x, w, b)
        ]
        exact = F.conv2d(*moved, padding=1).numpy()
        assert ((found.lo <= exact) & (exact <= found.hi)).all()
    assert np.median(found.hi - found.lo) < (3e-2 if open_weight else 1.6e-2) * float(y.abs().max())


def test_the_error_of_a_reference_that_transforms_is_an_estimate():
    torch.manual_seed(0)
    x, w = torch.randn(16, 8, 24, 24), torch.randn(8, 8, 3, 3)
    native, wide = Unit(native=True), Unit(native=False)
    args = tuple(t.double() for t in (x, w)) + PLAIN
    with torch.backends.mkldnn.flags(enabled=False):
        if single.is_direct((x, w, *PLAIN)):
            pytest.skip("this torch has no NNPACK")
        gap = (F.conv2d(x, w).double() - F.conv2d(*args[:2])).abs()
        for unit, estimated in ((native, True), (wide, False)):
            op = Movable(torch.ops.aten.convolution.default, args, {}, [], default_dtype)
            (found,) = error_of(op, [F.conv2d(*args[:2])], [torch.float32], unit, False)
            assert op.estimated is estimated and bool((gap <= found).all()) is estimated


@pytest.mark.parametrize("least", [1.0, 2.0**-70])
@pytest.mark.parametrize(("rows", "terms", "columns"), [(1, 1, 1), (5, 37, 3), (64, 300, 80), (3, 4096, 130)])
def test_a_product_is_off_by_no_more_than_a_sum_of_products(rows, terms, columns, least):
    """Subnormal products, too: their errors are half a unit of the last place there is."""
    torch.manual_seed(rows)
    x, weight = torch.rand(rows, terms) * least, torch.rand(columns, terms) * least
    for a, b in ((x, weight), (x[:, ::2], weight[:, ::2])):
        exact = torch.mm(a.double(), b.double().t())
        room = (a.shape[1] + 2) * (2.0**-24 * exact + 2.0**-149)
        assert bool(((single.product(a, b).double() - exact).abs() <= room).all())


CONVOLUTIONS = [
    ((2, 3, 80, 90), (5, 3, 7, 7), [2, 2], [3, 3], [1, 1]),
    ((1, 16, 40, 40), (9, 16, 3, 3), [1, 1], [1, 1], [1, 1]),
    ((1, 16, 41, 37), (4, 16, 2, 3), [1, 3], [0, 2], [2, 1]),
]


def _convolution(sizes, bias=True, groups=1, transposed=False):
    shape, kernel, stride, padding, dilation = sizes
    x, w = (torch.randn(s).double() for s in (shape, kernel))
    b = torch.randn(kernel[0], dtype=torch.float64) if bias else None
    return [x, w, b, stride, padding, dilation, transposed, [0, 0], groups]


@pytest.mark.parametrize("sizes", CONVOLUTIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_the_convolution_of_torch(sizes, bias):
    torch.manual_seed(0)
    args = _convolution(sizes, bias)
    found, known = single.in_double("convolution", args), torch.ops.aten.convolution(*args)
    size = torch.ops.aten.convolution(*(t.abs() if isinstance(t, torch.Tensor) else t for t in args))
    assert found.shape == known.shape and found.dtype == torch.float64
    assert bool(((found - known).abs() <= 2 * (args[1][0].numel() + 2) * 2.0**-53 * size).all())


def test_what_is_left_to_torch():
    torch.manual_seed(0)
    args = _convolution(CONVOLUTIONS[1])
    assert single.in_double("convolution", args) is not None
    assert single.in_double("linear", args) is None
    x, w = args[:2]
    infinite = x.index_put((torch.tensor(0),), torch.tensor(torch.inf).double())
    for place, other in [(0, x / 3), (1, w + 2.0**-40), (0, x.float()), (0, x[:, :, :20, :20]), (6, True), (8, 2),
                         (0, infinite), (1, torch.full_like(w, torch.nan)), (0, x * 2.0**200),
                         (1, w.clone().requires_grad_())]:  # fmt: skip
        assert single.in_double("convolution", [*args[:place], other, *args[place + 1 :]]) is None, (place, other)
