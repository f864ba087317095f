"""E and its error against exact arithmetic, R against what references really return."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from oracle_zoo import CASES, FLOAT64_ONLY, SQUARE, half_inside, in_place, oracle, randn
from support import trials

from render.reference.oracle import FALLBACK, Oracle, deviation

F = torch.nn.functional


def inside(value, exact, i=0):
    return (exact.lo[i] <= value) & (value <= exact.hi[i])


def explained(found, exact, i=0):
    """Is y_ref within R of E?"""
    radius = found.radius(exact)[i]
    y = found.native[i][1].double().numpy()
    return deviation(y, exact.values[i]) <= radius + (exact.hi[i] - exact.lo[i]) / 2


@pytest.mark.parametrize("name", [*CASES, *FLOAT64_ONLY])
def test_the_reference_is_within_its_own_rounding(name):
    fn, args = (CASES | FLOAT64_ONLY)[name]
    found = oracle(fn, *args)
    exact = found.exact()
    assert not exact.notes
    for i in range(len(exact.values)):
        assert explained(found, exact, i).all()
        assert np.isfinite(exact.values[i]).all()


@pytest.mark.parametrize("name", ["matmul fp16", "half inside", "dtype assert", "in place fp16", "fp8 inside"])
def test_exact_values_do_not_carry_the_rounding_of_low_precision(name):
    fn, args = CASES[name]
    exact = oracle(fn, *args).exact()
    wide = {
        "matmul fp16": lambda a, b: a @ b,
        "half inside": lambda a, b: a @ b,
        "dtype assert": lambda a: torch.softmax(a, -1),
        "in place fp16": in_place,
        "fp8 inside": lambda a, b: a @ b,
    }[name](*(a.double() for a in args))
    assert np.allclose(exact.values[0], wide.numpy(), rtol=1e-13, atol=1e-13)


def test_casts_widen_the_exact_value():
    exact = oracle(half_inside, *SQUARE).exact()
    rounded = (SQUARE[0].half().double() @ SQUARE[1].half().double()).numpy()
    assert inside(rounded, exact).all()
    assert (np.median(exact.hi[0] - exact.lo[0])) > 1e-4
    kept = oracle(half_inside, *(x.half().float() for x in SQUARE)).exact()
    # Inputs that fp16 holds lose nothing on the way in; the product is still rounded.
    assert np.median(kept.hi[0] - kept.lo[0]) < np.median(exact.hi[0] - exact.lo[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_bound_of_a_dot_contains_the_exact_sum(dtype):
    for trial in range(trials(10)):
        scale = torch.exp(randn(1, 64, seed=trial) * 6)
        a, b = (randn(3, 64, seed=trial + 50) * scale).to(dtype), randn(64, 2, seed=trial + 90).to(dtype)
        exact = oracle(torch.matmul, a, b).exact()
        with mpmath.workprec(400):
            for i in range(3):
                for j in range(2):
                    pairs = zip(a[i].tolist(), b[:, j].tolist(), strict=True)
                    total = sum(mpmath.mpf(x) * mpmath.mpf(y) for x, y in pairs)
                    assert mpmath.mpf(float(exact.lo[0][i, j])) <= total <= mpmath.mpf(float(exact.hi[0][i, j]))


def test_the_bound_of_a_softmax_contains_the_exact_one():
    x = randn(4, 12) * 10
    exact = oracle(lambda x: torch.softmax(x, -1), x).exact()
    with mpmath.workprec(200):
        for i, row in enumerate(x.tolist()):
            powers = [mpmath.exp(v) for v in row]
            for j, p in enumerate(powers):
                y = p / sum(powers)
                assert mpmath.mpf(float(exact.lo[0][i, j])) <= y <= mpmath.mpf(float(exact.hi[0][i, j]))


def test_constants_are_those_of_the_program():
    exact = oracle(lambda x: x * 0.1, SQUARE[0]).exact()
    rounded = SQUARE[0].double().numpy() * float(np.float32(0.1))
    assert inside(rounded, exact).all()
    assert inside(SQUARE[0].double().numpy() * 0.1, exact).all()
    assert np.median((exact.hi[0] - exact.lo[0]) / np.abs(exact.values[0])) < 1e-7


def test_a_float64_reference_has_no_float32_constants():
    exact = oracle(lambda x: x * 0.1, SQUARE[0].double()).exact()
    assert np.median((exact.hi[0] - exact.lo[0]) / np.abs(exact.values[0])) < 1e-14


def test_bits_that_are_read_as_integers_are_taken_as_they_are():
    def truncated(x):
        return (x.view(torch.int32) & ~0x1FFF).view(torch.float32) * 2

    found = oracle(truncated, SQUARE[0])
    exact = found.exact()
    assert np.array_equal(exact.values[0], truncated(SQUARE[0]).double().numpy())


def test_integer_outputs_are_the_hull_of_what_rounding_decides():
    x = torch.tensor([[1.0, 1.0 + 2.0**-30, 0.5]], dtype=torch.float64)
    exact = oracle(lambda x: (x.float() * 3).argmax(-1), x).exact()
    assert exact.lo[0].item() == 0
    assert exact.hi[0].item() <= 1


def test_random_numbers_are_taken_as_given():
    def noisy(x):
        torch.manual_seed(3)
        return x.half() + torch.rand(x.shape, dtype=torch.float16)

    found = oracle(noisy, SQUARE[0])
    exact = found.exact()
    assert explained(found, exact).all()
    assert any("random" in note for note in exact.notes)


def test_a_reference_that_draws_its_inputs_draws_the_same_in_float64():
    """float64 random numbers are others than float32 ones of the same seed."""
    found = oracle(lambda x: x * torch.randn(50), torch.ones(50))
    exact = found.exact()
    torch.manual_seed(0)
    assert np.array_equal(exact.values[0], torch.randn(50).double().numpy())


@pytest.mark.parametrize(
    ("start", "end", "count"), [(-1.0, 1.0, 256), (0.1, 7.3, 99), (5.0, -3.0, 1000), (1e-3, 1e3, 77)]
)
def test_a_table_that_float32_interpolates_is_one_of_its_constants(start, end, count):
    """A launcher that makes the same table gets the float32 one: it must not count as another function."""
    exact = oracle(lambda x: x * torch.linspace(start, end, count), torch.ones(count)).exact()
    table = torch.linspace(start, end, count)
    assert table.dtype == torch.float32 and inside(table.double().numpy(), exact).all()


def test_infinite_and_nan_elements_are_points():
    x = torch.tensor([-1.0, 0.0, 4.0])
    exact = oracle(torch.log, x).exact()
    assert np.isnan(exact.lo[0][0])
    assert exact.lo[0][1] == exact.hi[0][1] == -np.inf
    assert np.isfinite(exact.lo[0][2])


def test_numpy_inside_is_seen_in_float64():
    found = oracle(lambda x: torch.from_numpy(np.exp(x.numpy())), SQUARE[0])
    assert np.allclose(found.exact().values[0], np.exp(SQUARE[0].double().numpy()), rtol=1e-15)


def test_a_reference_that_cannot_be_carried_is_said_to_be_assumed(monkeypatch):
    found = oracle(torch.exp, SQUARE[0])
    monkeypatch.setattr(found, "_carried", lambda *a, **k: 1 / 0)
    exact = found.exact()
    assert "decides nothing" in exact.assumption
    assert exact.hi[0].shape == (SQUARE[0].shape) and "assumed" in exact.assumption
    assert (exact.hi[0] - exact.values[0]).max() >= FALLBACK * exact.values[0].max() / 2
    assert found.radius(exact) == [None]
    # A failure of our own must not look like a property of the reference.
    assert [note.split(": ", 1)[1] for note in exact.notes] == ["ZeroDivisionError: division by zero"] * 2
    monkeypatch.setenv("RENDER_FULL_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        found.exact().ends(0)


def test_the_error_of_e_is_carried_once_and_only_when_asked_for(monkeypatch):
    found = oracle(torch.exp, SQUARE[0])
    runs = []
    plain = found._carried
    monkeypatch.setattr(found, "_carried", lambda *a, **k: runs.append(a) or plain(*a, **k))
    exact = found.exact()
    assert not runs
    assert (exact.lo[0] < exact.values[0]).all() and (exact.ends(0)[1] > exact.values[0]).all()
    assert len(runs) == 1 and "bounded" in exact.assumption


def test_sensitivity_bounds_what_moved_inputs_do():
    a, b = randn(8, 16), randn(16, 8, seed=1)
    found = oracle(half_inside, a, b)
    exact = found.exact()
    reach, estimated = found.sensitivity(exact, 2.0**-20)
    size = (a.double().abs() @ b.double().abs()).numpy()
    assert not estimated
    # Both operands move, casts to half do not count, and the scheme is tight for a product of magnitudes.
    assert (reach[0] >= 2 * 2.0**-20 * size).all()
    assert (reach[0] <= 2.01 * 2.0**-20 * size).all()


def test_sensitivity_of_what_cannot_be_carried_is_not_known(monkeypatch):
    found = oracle(half_inside, randn(4, 4), randn(4, 4))
    exact = found.exact()
    monkeypatch.setattr(Oracle, "_carried", lambda *a, **k: 1 / 0)
    assert found.sensitivity(exact, 2.0**-20) is None
    assert any("is not known" in note for note in exact.notes)


def test_a_first_use_under_the_cuda_redirect():
    """In a fresh process: a dispatch mode must not import torch's compiler, which chokes on redirected functions."""
    code = (
        "import sys; sys.path[:0] = ['.', 'tests/render/reference']\n"
        "from render.entry.execution import on_cpu\n"
        "from test_oracle import oracle, torch\n"
        "with on_cpu():\n    exact = oracle(lambda x: x.cuda() + 1, torch.ones(2)).exact()\n    exact.ends(0)\n"
        "assert not exact.notes, exact.notes\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    root = Path(__file__).parents[3]
    environment = os.environ | {"PYTHONPATH": f"{root}:{root / 'tests'}", "RENDER_FULL_TRACEBACK": "1"}
    done = subprocess.run([sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_tf32_products_widen_the_radius():
    plain, tf32 = oracle(torch.matmul, *SQUARE), oracle(torch.matmul, *SQUARE, tf32=True)
    exact = plain.exact()
    assert (tf32.radius(exact)[0] > 50 * plain.radius(exact)[0]).all()


def rows_in_place(x, scale):
    for row in x:  # small parts of what came from outside, and then all of it
        row.mul_(scale).add_(row.half().float())
    return x * x.flip(0)


def rows_apart(x, scale):
    rows = [(row * scale).clone() for row in x]
    return (whole := torch.stack([row + row.half().float() for row in rows])) * whole.flip(0)


@pytest.mark.parametrize("inputs", [0.0, 2.0**-20])
def test_inputs_that_are_overwritten_part_by_part_are_those_that_came(inputs):
    x, scale = randn(6, 8), randn(8, seed=1)
    before, found = x.clone(), []
    for fn in (rows_in_place, rows_apart):
        here = oracle(fn, x, scale)
        exact = here.exact()
        found.append((exact.values[0], *exact.ends(0), *here.sensitivity(exact, inputs)[0]))
    assert torch.equal(x, before)
    for one, other in zip(*found, strict=True):
        assert np.allclose(one, other, rtol=1e-4, atol=0)  # movements are differences


@pytest.mark.parametrize("scale", [1.0, 30.0, 400.0])
def test_running_log_sum_exp_is_bounded(scale):
    """Against mpmath; what lies too far below the largest is not known, and nothing says that it were."""
    import mpmath

    x = randn(4, 30) * scale
    x[1, :3] = -torch.inf
    here = oracle(lambda x: torch.logcumsumexp(x, 1), x)
    exact = here.exact()
    lo, hi = exact.ends(0)
    assert "bounded" in exact.assumption and not here.sensitivity(exact, 2.0**-20)[1]
    with mpmath.workprec(300):
        for row, (low, high) in enumerate(zip(lo, hi, strict=True)):
            total = mpmath.mpf(0)
            for k, v in enumerate(x[row].tolist()):
                total += mpmath.exp(v)
                assert low[k] <= (mpmath.log(total) if total else -mpmath.inf) <= high[k]
    with np.errstate(invalid="ignore"):
        width = hi - lo
    known = np.isfinite(width)
    assert width[known].max() < 1e-9 * scale and (scale > 100 or known[[0, 2, 3]].all())
