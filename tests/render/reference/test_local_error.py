"""What torch's own kernels lose in gradients of activations and in losses, against mpmath and exact sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from oracle_zoo import oracle

from render.reference.local_error import TORCH_FORMATS, Unit, cast_error, local_error
from tests.support import rng, trials

aten = torch.ops.aten
mpf = mpmath.mpf


def _sigmoid(x: mpf) -> mpf:
    return 1 / (1 + mpmath.exp(-x))


def _gelu_tanh(g: mpf, x: mpf) -> mpf:
    k = mpmath.sqrt(2 / mpmath.pi)
    t = mpmath.tanh(k * (x + mpf(0.044715) * x**3))
    return g * ((1 + t) / 2 + x / 2 * (1 - t * t) * k * (1 + 3 * mpf(0.044715) * x * x))


GRADIENTS: dict[str, tuple[Callable[..., torch.Tensor], Callable[[mpf, mpf], mpf], dict[str, str]]] = {
    "sigmoid_backward": (aten.sigmoid_backward, lambda g, y: g * (1 - y) * y, {}),
    "tanh_backward": (aten.tanh_backward, lambda g, y: g * (1 - y * y), {}),
    "silu_backward": (aten.silu_backward, lambda g, x: g * _sigmoid(x) * (1 + x * (1 - _sigmoid(x))), {}),
    "gelu_backward": (aten.gelu_backward, lambda g, x: g * (mpmath.ncdf(x) + x * mpmath.npdf(x)), {}),
    "gelu_backward tanh": (aten.gelu_backward, _gelu_tanh, {"approximate": "tanh"}),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_activations_are_within_their_error(name: str, dtype: torch.dtype) -> None:
    native, exact, kwargs = GRADIENTS[name]
    g, x = (torch.from_numpy(rng(seed).normal(size=max(trials(1000), 200))) for seed in (1, 2))
    x = x * torch.tensor([0.3, 1.0, 3.0, 10.0]).repeat(x.numel() // 4 + 1)[: x.numel()]
    x[:4] = torch.tensor([0.0, -0.7517916, -0.7525, 1e-6])  # gelu has its least value at the second
    x = torch.tanh(x) if name in ("tanh_backward", "sigmoid_backward") else x
    g, x = g.to(dtype), x.to(dtype)
    found = native(g, x, **kwargs).double()
    with mpmath.workdps(60):
        wanted = torch.tensor(
            [float(exact(mpf(float(a)), mpf(float(b)))) for a, b in zip(g, x, strict=True)], dtype=torch.float64
        )
    bound = local_error(name.split()[0], (g.double(), x.double()), wanted, dtype, Unit(native=True), kwargs)
    gap = (found - wanted).abs()
    assert bool((gap <= bound + 2.0**-52 * wanted.abs()).all()), float((gap / bound).max())


SPECIAL: dict[str, tuple[Callable[..., torch.Tensor], Callable[[mpf], mpf]]] = {
    "i0": (torch.special.i0, lambda x: mpmath.besseli(0, x)),
    "special_i0e": (torch.special.i0e, lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x))),
    "special_i1": (torch.special.i1, lambda x: mpmath.besseli(1, x)),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", SPECIAL)
def test_bessel_functions_are_within_their_error_where_they_are_flat_as_well(name: str, dtype: torch.dtype) -> None:
    native, exact = SPECIAL[name]
    rows = [torch.from_numpy(rng(7).normal(size=trials(200))) * s for s in (1e-4, 0.1, 1.0, 3.0, 12.0)]
    x = torch.cat([*rows, torch.tensor([0.0, 8.0, 7.999999, -8.000001, 3.75, 60.0], dtype=torch.float64)]).to(dtype)
    with mpmath.workdps(40):
        wanted = torch.tensor([float(exact(mpf(float(a)))) for a in x], dtype=torch.float64)
    bound = local_error(name, (x.double(),), wanted, dtype, Unit(native=True), {})
    assert bound is not None
    gap = (native(x).double() - wanted).abs()
    assert bool((gap <= bound + 2.0**-52 * wanted.abs()).all()), float((gap / bound).max())
    assert bool((bound <= 80 * torch.finfo(dtype).eps * wanted.abs() + 2.0**-120).all())


@pytest.mark.parametrize("reduction", [0, 1, 2], ids=["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("logits", [False, True])
def test_cross_entropies_are_within_their_error_where_their_terms_cancel(
    logits: bool, weighted: bool, dtype: torch.dtype, reduction: int
) -> None:
    """torch takes (1 - t) x - log sigmoid(x), of which little is left for large |x| and t near 0 or 1."""
    for seed, (n, scale) in enumerate([(3, 1.0), (50, 8.0), (max(trials(500), 100), 30.0)]):
        x, t, w, p = (torch.from_numpy(a) for a in rng(seed).uniform(size=(4, n)))
        x = (torch.from_numpy(rng(seed + 9).normal(size=n)) * scale).to(dtype)
        t, w, p = (v.to(dtype) for v in (t.round() if seed else t, w + 0.1, 3 * p))
        weight = w if weighted else None
        name, args = "binary_cross_entropy", (torch.sigmoid(x), t, weight, reduction)
        if logits:
            name, args = f"{name}_with_logits", (x, t, weight, p if weighted else None, reduction)
        found = getattr(aten, name)(*args).double()
        wide = tuple(v.double() if isinstance(v, torch.Tensor) else v for v in args)
        wanted = getattr(aten, name)(*wide)
        bound = local_error(name, wide, wanted, dtype, Unit(native=True), {})
        known = torch.isfinite(found)
        assert bool(((found - wanted).abs() <= bound)[known].all()), float(
            ((found - wanted).abs() / bound)[known].max()
        )


def test_a_reference_that_errs_near_a_stationary_point_is_explained() -> None:
    """torch.i0 in float32 is off by up to 4 ulp around 0, where moved arguments move nothing."""
    x = torch.linspace(-0.3, 0.3, 601)
    made = oracle(torch.special.i0, x)
    lost = (torch.special.i0(x).double() - torch.special.i0(x.double())).abs().numpy()
    reach = made.radius(made.exact())[0]
    assert reach is not None and lost.max() > 2.0**-24 and bool((lost <= reach).all())


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_a_loss_of_chosen_elements_is_proved(reduction: str) -> None:
    torch.manual_seed(0)
    x, target = torch.randn(40, 7), torch.randint(0, 7, (40,))
    known = oracle(lambda x, t: torch.nn.functional.nll_loss(x, t, reduction=reduction), x, target).exact()
    chosen = [-Fraction(float(row[t])) for row, t in zip(x, target, strict=True)]
    wanted = {"none": chosen, "sum": [sum(chosen)], "mean": [sum(chosen) / 40]}[reduction]
    lo, hi = (np.atleast_1d(end) for end in known.ends(0))
    assert all(Fraction(float(a)) <= y <= Fraction(float(b)) for a, b, y in zip(lo, hi, wanted, strict=True))
    assert known.proved(0).all() and float((hi - lo).max()) < 1e-11


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float8_e5m2])
def test_casts_of_moved_values_are_those_of_tensor_expressions(dtype):
    g = torch.Generator().manual_seed(0)
    x, e = torch.randn(4, 50, generator=g, dtype=torch.float64), torch.rand(4, 50, generator=g, dtype=torch.float64)
    x[0], e = x[0].to(dtype).double(), e * 1e-3 * x.abs()
    x[1, :3] = torch.tensor([math.inf, math.nan, 1e300])
    e[2, :3], e[0, :9] = torch.tensor([math.inf, math.nan, 0.0]), 0.0
    fmt = TORCH_FORMATS[dtype]
    for value, error in ((x, e), (x.T, e.T), (x[:, :1], e[:, :1]), (x, e[:, :1])):
        rounding = fmt.u * (value.abs() + error) + fmt.half_subnormal
        lost = value.to(dtype).double() != value
        wanted = torch.where(lost, rounding, torch.minimum(rounding, error))
        assert np.array_equal(cast_error(value, dtype, error).numpy(), wanted.numpy(), equal_nan=True)
