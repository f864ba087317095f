"""What inputs do to single elements of a reference, with signs: against derivatives in closed form."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracle_zoo import oracle

from render.reference.adjoint import CONSTANT, SECOND, affordable, reaches

D = 2.0**-20


def data():
    return torch.randn(3, 40, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def normalised(x, times=1):
    for _ in range(times):
        d = x - x.mean(-1, keepdim=True)
        x = d * torch.rsqrt((d * d).mean(-1, keepdim=True))
    return x


def reach_of(fn, *args, where=(0, 50, 119)):
    here = oracle(fn, *args)
    exact = here.exact()
    found = reaches(here, 0, exact.values[0], where, D, D)
    return found, exact, here.sensitivity(exact, D)[0][0].reshape(-1)[list(where)]


def by_hand(x, where):
    """sum_j |dy_i/dx_j| |x_j| of y = (x - mean) / deviation: dy_i/dx_j = (1_ij - 1/n - y_i y_j / n) / deviation."""
    found = []
    for i in where:
        row, k = divmod(i, x.shape[1])
        v = x[row].numpy()
        n, y = len(v), (v - v.mean()) / v.std()
        slopes = ((np.arange(n) == k) - 1 / n - y[k] * y / n) / v.std()
        found.append(float(np.abs(slopes * v).sum()))
    return np.array(found)


@pytest.mark.parametrize("times", [1, 5])
def test_normalisations_of_what_is_normalised_move_as_the_first(times):
    x, where = data(), (0, 50, 119)
    found, _, step_by_step = reach_of(lambda x: normalised(x, times), x, where=where)
    inputs = SECOND * D * by_hand(x, where)
    assert (inputs <= found).all() and (found <= inputs + SECOND * CONSTANT * 40 * times * np.sqrt(40)).all()
    assert (step_by_step > (found / SECOND if times == 1 else 20 * found)).all()


def test_no_input_moves_more_than_its_reach():
    x = data()
    found, exact, _ = reach_of(lambda x: torch.softmax(normalised(x.float(), 3).double(), -1), x)
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        signs = torch.randint(0, 2, x.shape, generator=generator) * 2 - 1
        moved = torch.softmax(normalised(x * (1 + D * signs), 3), -1).reshape(-1)[[0, 50, 119]].numpy()
        assert (np.abs(moved - exact.values[0].reshape(-1)[[0, 50, 119]]) <= found).all()


TABLE = torch.rand(40, dtype=torch.float64)


@pytest.mark.parametrize("beside", [
    lambda x: x * TABLE, lambda x: torch.rand_like(x), lambda x: (x > 0) * x, lambda x: x.round(),
    lambda x: x.clone().mul_(TABLE), lambda x: torch.cat([x, TABLE[None]])[:3],
])  # fmt: skip
def test_a_jump_is_one_of_what_is_made_of_it(beside):
    x = data()
    alone, *_ = reach_of(lambda x: normalised(x, 2), x)

    def two(x):
        other = beside(x)
        return normalised(x, 2), other

    assert (reach_of(two, x)[0] == alone).all()
    assert reach_of(lambda x: normalised(x, 2) + 0 * beside(x), x)[0] is None


@pytest.mark.parametrize("fn", [
    lambda x: x.detach() * x,
    lambda x: torch.round(x * 8) / 8 + x,
    lambda x: torch.where(x > 0, x, x * x),
    lambda x: x * x.abs().max().item(),
    lambda x: x * (x * 3).int(),
    lambda x: torch.from_numpy(np.exp(x.detach().numpy())),
    lambda x: x.remainder(0.5),
    lambda x: x + torch.tensor([0.1] * 40),
    lambda x: x.to(torch.float8_e4m3fn).double() + x,
    lambda x: torch.gather(x, 1, x.argmax(1, keepdim=True).expand(-1, 40)),
    torch.no_grad()(lambda x: x * x),
])  # fmt: skip
def test_where_derivatives_say_too_little_nothing_is_known(fn):
    assert reach_of(fn, data())[0] is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_casts_round_nothing(dtype):
    x, where = data(), (0, 50, 119)
    found, _, _ = reach_of(lambda x: (normalised(x).to(dtype) @ torch.eye(40, dtype=dtype)).float(), x, where=where)
    inputs = SECOND * D * by_hand(x, where)
    assert (inputs <= found).all() and (found <= 1.5 * inputs).all()


def test_inputs_that_are_written_to_and_lists_of_them():
    def stepping(xs):
        xs[0].mul_(xs[1])
        return xs[0]

    x, y = data(), data() + 2
    found, _, _ = reach_of(stepping, [x, y])
    assert found == pytest.approx(SECOND * (2 * D + CONSTANT) * (x * y).abs().reshape(-1)[[0, 50, 119]].numpy())


def test_work_is_counted():
    assert affordable(1, 16) == 16 and 0 < affordable(1 << 24, 16) < 16 and affordable(1 << 28, 16) == 0
