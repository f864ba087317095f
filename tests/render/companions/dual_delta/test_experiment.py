"""Algorithm 1: same inputs for all three, inputs made once, failures apart, any number of processes."""

import math

import numpy as np
import pytest
import torch

import render
from render.companions.dual_delta.experiment import Trials
from render.companions.dual_delta.generators import GENERATORS, redrawn
from render.companions.dual_delta.metrics import format_of, hybrid, measured, normwise, ulp
from render.entry.inputs import of_call
from render.result.errors import RenderError
from tests.render.companions.kernels import matmul

FP16 = format_of(torch.float16)


def draw(seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(16, 32, generator=g).half(), torch.randn(32, 16, generator=g).half()


def single(a, b):
    return (a.float() @ b.float()).half()


def coarse(a, b):
    return (a.float() @ b.float()).bfloat16().half()


def exact(a, b):
    assert a.dtype == torch.float64
    return a @ b


def test_metrics():
    y, e = np.array([1.0, 2.0, 0.0]), np.array([1.0, 3.0, 0.5])
    assert hybrid(y, e, FP16) == max(1 / 4, 0.5 / 1.5)
    assert normwise(y, e, FP16) == pytest.approx(math.sqrt(1.25) / math.sqrt(10.25))
    assert normwise(y, np.zeros(3), FP16) == pytest.approx(math.sqrt(5))
    assert ulp(np.array([1 + 2**-10]), np.array([1.0]), FP16) == 1
    assert ulp(np.array([2**-24]), np.array([0.0]), FP16) == 1  # subnormal spacing
    assert ulp(np.array([1.0]), np.array([1 - 2**-11]), FP16) == 1  # spacing below one
    assert hybrid(np.float64([1.0]), np.float64([1.0]), FP16) == 0 == hybrid(np.zeros(0), np.zeros(0), FP16)


def test_hybrid_is_the_smallest_tolerance_of_allclose():
    g = np.random.default_rng(0)
    y, e = g.standard_normal(50), g.standard_normal(50)
    tol = hybrid(y, e, FP16)
    assert np.allclose(y, e, rtol=tol * (1 + 1e-12), atol=tol * (1 + 1e-12))
    assert not np.allclose(y, e, rtol=tol * (1 - 1e-12), atol=tol * (1 - 1e-12))


def test_nan_and_infinity_are_failures_unless_the_oracle_has_them():
    e = np.array([1.0, np.inf, np.nan])
    assert measured(hybrid, [np.array([1.5, np.inf, np.nan])], [e], [FP16]) == 0.25
    for y in ([1.0, -np.inf, np.nan], [np.nan, np.inf, np.nan], [1.0, np.inf, 1.0]):
        assert math.isnan(measured(hybrid, [np.array(y)], [e], [FP16]))


def test_both_samples_against_the_definition():
    found = render.dual_delta(single, coarse, exact, draw, "hybrid", 20, jobs=1)
    for i in (0, 7):
        a, b = draw(int(np.random.SeedSequence((0, i)).generate_state(1)[0]))
        e = a.double() @ b.double()
        for d, y in ((found.d1, single(a, b)), (found.d2, coarse(a, b))):
            assert d[i] == float(((y.double() - e).abs() / (1 + e.abs())).max())
    assert (found.outcome, found.n, found.looks) == ("better", 20, (1, 1))


def test_processes_change_nothing():
    one, two = (render.dual_delta(single, coarse, exact, draw, n=48, jobs=j) for j in (1, 2))
    assert one.d1.tolist() == two.d1.tolist() and one.d2.tolist() == two.d2.tolist()


def test_a_kernel_in_the_value_lane_and_references_in_float64():
    """f2 casts down at its end; the oracle must not. Three values of K fill the accumulator alike."""
    found = render.dual_delta(matmul, single, n=12, generate=draw, jobs=1, gates=("flash-attn", "ks"))
    other = render.dual_delta(matmul, single, exact, draw, n=12, jobs=1)
    assert found.d1 == pytest.approx(other.d1, rel=1e-9) and found.separation > 1e6
    assert other.separation is None
    assert [g.ok for g in found.gates] == [True, True]


def test_more_bits():
    found = render.dual_delta(single, single, "bits", draw, n=3, jobs=1)
    assert found.separation > 1e9


def test_an_oracle_that_is_too_coarse_is_noted():
    def half(a, b):
        return (a.half() @ b.half()) * 1.0

    found = render.dual_delta(torch.matmul, torch.matmul, n=4, generate=lambda s: [x.double() for x in draw(s)], jobs=1)
    assert found.separation is None or found.separation < 100
    assert render.dual_delta(single, half, exact, draw, n=4, jobs=1).notes == ()


def test_failures_are_counted_and_left_out():
    def wrong(a, b):
        out = single(a, b)
        out[0, 0] = torch.nan if a[0, 0] > 0 else out[0, 0]
        return out

    found = render.dual_delta(wrong, single, exact, draw, n=30, jobs=1)
    assert found.failures[0] == 30 - found.n > 0 and found.failures[1] == 0
    assert found.outcome == "worse" and "NaN or infinity" in found.report()
    assert render.dual_delta(single, wrong, exact, draw, n=30, jobs=1).outcome == "better"


def test_early_stopping():
    found = render.dual_delta(single, coarse, exact, draw, n=1000, jobs=1, early=True)
    assert found.n == 50 and found.looks == (1, 6) and found.outcome == "better"
    assert Trials(n=1000, early=True).looks == [50, 100, 200, 400, 800, 1000]
    assert Trials(n=30, early=True).looks == [30] == Trials(n=30).looks


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_generators_keep_shapes_and_dtypes(name, dtype):
    a, n = torch.zeros(8, 12, dtype=dtype), torch.arange(3)
    like = of_call(matmul, (a, torch.zeros(12, 8, dtype=dtype), n, a, 5), {})
    found = redrawn(like, name, 3)
    assert [getattr(x, "dtype", int) for x in found.args] == [dtype, dtype, torch.int64, dtype, int]
    assert found.args[0] is found.args[3] and found.args[2] is n and found.args[4] == 5
    assert found.args[0].shape == (8, 12) and found.args[0].isfinite().all() and found.args[0].any()
    again = redrawn(like, name, 3)
    assert torch.equal(again.args[1], found.args[1])
    assert not torch.equal(redrawn(like, name, 4).args[1], found.args[1])


def test_generators_do_what_they_are_called():
    like = of_call(matmul, (torch.zeros(64, 64, dtype=torch.float16), torch.zeros(64, 64, dtype=torch.float16)), {})
    a, b = (x.double() for x in redrawn(like, "cancelling", 0).args)
    assert float(((a @ b).abs() / (a.abs() @ b.abs())).max()) < 0.01
    sparse = redrawn(like, "sparse", 0).args[0]
    assert 0.85 < float((sparse == 0).double().mean()) < 0.95
    wide = redrawn(like, "wide", 0).args[0].abs().double()
    assert float(wide.max() / wide[wide > 0].min()) > 2**9
    found = render.dual_delta(single, single, exact, "sparse", n=6, jobs=1, like=like)
    assert found.outcome == "equivalent"


@pytest.mark.parametrize(
    "bad", [{"metric": "cosine"}, {"gates": ("tight",)}, {"n": 0}, {"margin": 1.0}, {"generate": "gauss"},
            {"oracle": "fp128"}, {"generate": "normal"}],
)  # fmt: skip
def test_usage(bad):
    with pytest.raises(RenderError):
        render.dual_delta(single, single, **{"oracle": exact, "generate": draw, "n": 3, **bad})


def test_documents(tmp_path):
    import json

    found = render.dual_delta(single, coarse, exact, draw, n=25, jobs=1, gates=("ks", "helion"))
    said = json.loads(json.dumps(found.to_dict()))
    assert said["outcome"] == "better" and said["statistics"]["one"]["n"] == 25 and len(said["d1"]) == 25
    found.plot(tmp_path / "a.png")
    found.html(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert "data:image/png" in page and "Wilcoxon" in page and "http" not in page
    for word in ("mean", "P99", "tied", "TOST within 1.01", "Holm", "gate helion", "Hodges-Lehmann"):
        assert word in found.report()


def test_inputs_are_tried_on_functions_as_they_were():
    def make(gain):
        calls = 0

        def f(x):
            nonlocal calls
            calls += 1
            return x * (gain * calls)

        return f

    one = make(0.1)
    found = render.dual_delta(one, lambda x: x * 0.1, like=(torch.ones(8),), n=40, early=False, jobs=1)
    assert found.d1.max() < 1e-6
    assert one(torch.ones(1)).item() == pytest.approx(0.1)
