"""References in many bits against the same formulas in mpmath, and what cannot be followed."""

from __future__ import annotations

from dataclasses import replace

import mpmath
import numpy as np
import pytest
import torch
from oracle_zoo import CASES, oracle
from support import trials

from render.exact.numbers import Numbers
from render.ops.formulas import Refused
from render.reference.precise.evaluation import evaluate, record

F = torch.nn.functional
MP = mpmath.mp.clone()
MP.prec = 700


def close(i, e):
    """The error is about that of storing the value in float64."""
    return bool((e.hi - e.lo <= 2.0**-50 * np.abs(e.value)).all())


def evaluated(fn, *args, enough=close, places=None, **options):
    """(outcome, outputs) of all elements (of output 0: of `places`)."""
    found = oracle(fn, *args)
    recording = record(found, found.exact().widened)
    wanted = {i: np.arange(x.size) for i, x in enumerate(recording.outputs) if x is not None}
    if places is not None:
        wanted = {0: np.asarray(places)}
    outcome = evaluate(recording, wanted, enough, **options)
    return outcome, [outcome.found[i] for i in outcome.found]


def holds(found, exact):
    """Does every enclosure hold its exact value, and is it as narrow as float64 allows?"""
    exact = list(exact)
    assert len(exact) == found.value.size
    for lo, value, hi, x in zip(found.lo, found.value, found.hi, exact, strict=True):
        assert MP.mpf(float(lo)) <= x <= MP.mpf(float(hi)), (lo, x, hi)
        assert abs(MP.mpf(float(value)) - x) <= abs(x) * MP.mpf(2) ** -51


def randn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def numbers(x):
    return [[MP.mpf(v) for v in row] for row in x.double().tolist()]


def mean(xs):
    return MP.fsum(xs) / len(xs)


def one_pass(x):
    return (x * x).mean(1) - x.mean(1) ** 2


def taylor(x, terms=160):
    total, term = torch.ones_like(x), torch.ones_like(x)
    for k in range(1, terms):
        term = term * x / k
        total += term
    return total


def mp_taylor(x):
    return MP.fsum(x**k / MP.factorial(k) for k in range(160))


def softmax(row):
    powers = [MP.exp(x) for x in row]
    return [p / MP.fsum(powers) for p in powers]


def hilbert(n):
    return torch.tensor([[1.0 / (i + j + 1) for j in range(n)] for i in range(n)], dtype=torch.float64)


def test_a_one_pass_variance_at_a_mean_of_1e8():
    for trial in range(trials(3)):
        x = randn(4, 50, seed=trial) + 1e8
        rows = numbers(x)
        _, (found,) = evaluated(one_pass, x)
        holds(found, (mean([v * v for v in r]) - mean(r) ** 2 for r in rows))


def test_an_alternating_series_needs_more_than_128_bits():
    x = torch.tensor([-40.0, -20.5, 3.0])
    outcome, (found,) = evaluated(taylor, x)
    holds(found, (mp_taylor(MP.mpf(v)) for v in x.tolist()))
    far, (found,) = evaluated(lambda x: (x + 1e60) - 1e60, torch.tensor([0.1, 3.0], dtype=torch.float64))
    holds(found, (MP.mpf(0.1), MP.mpf(3)))
    assert (outcome.bits, far.bits) == (256, 256) and outcome.rigorous == Numbers.rigorous


@pytest.mark.parametrize(
    ("name", "fn", "exact"),
    [
        ("expm1", lambda x: torch.exp(x) - 1, lambda x: MP.expm1(x)),
        ("log1p", lambda x: torch.log(1 + x), lambda x: MP.log1p(x)),
        ("tanh", lambda x: 2 / (1 + torch.exp(-2 * x)) - 1, lambda x: MP.tanh(x)),
        ("x - tanh", lambda x: x - torch.tanh(x), lambda x: x - MP.tanh(x)),
        ("1 - cos", lambda x: 1 - torch.cos(x), lambda x: 1 - MP.cos(x)),
        ("x - sin", lambda x: x - torch.sin(x), lambda x: x - MP.sin(x)),
        ("square roots", lambda x: torch.sqrt(1 + x) - 1, lambda x: MP.sqrt(1 + x) - 1),
        ("powers", lambda x: (1 + x).pow(3) - 1, lambda x: (1 + x) ** 3 - 1),
        ("erf", lambda x: torch.erf(x) - torch.erf(-x), lambda x: 2 * MP.erf(x)),
        ("atan", lambda x: torch.atan(1 + x) - torch.atan(1 - x), lambda x: MP.atan(1 + x) - MP.atan(1 - x)),
        ("softshrink", lambda x: F.softshrink(x, 0.25) + x.clamp(-0.25, 0.25), lambda x: x),
        ("softplus", lambda x: F.softplus(x) - F.softplus(-x), lambda x: x),
        ("gelu", lambda x: F.gelu(x) + F.gelu(-x), lambda x: x * MP.erf(x / MP.sqrt(2))),
        ("sigmoid", lambda x: torch.sigmoid(x) - torch.sigmoid(-x), lambda x: MP.tanh(x / 2)),
        ("silu", lambda x: F.silu(x) + F.silu(-x), lambda x: x * MP.tanh(x / 2)),
        ("lgamma", lambda x: torch.lgamma(1 + x), lambda x: MP.loggamma(1 + x)),
    ],
)
def test_differences_of_functions(name, fn, exact):
    x = torch.cat([randn(6) * 10.0**-k for k in range(1, 11, 3)]).abs()
    _, (found,) = evaluated(fn, x)
    holds(found, (exact(MP.mpf(v)) for v in x.tolist()))


def test_large_logits():
    x = randn(3, 8) * 200 + 600
    rows = numbers(x)
    _, (found,) = evaluated(lambda x: torch.logsumexp(x, -1) - x.amax(-1), x)
    holds(found, (MP.log(MP.fsum(MP.exp(v) for v in r)) - max(r) for r in rows))
    _, (found,) = evaluated(lambda x: torch.softmax(x, -1), x)
    holds(found, (p for r in rows for p in softmax(r)))
    _, (found,) = evaluated(lambda x: torch.log_softmax(x, -1), x)
    holds(found, (MP.log(p) for r in rows for p in softmax(r)))


def test_products_that_cancel():
    scale = torch.exp(randn(1, 40, seed=5) * 10)
    a, b = randn(3, 40) * scale, randn(40, 2, seed=1)
    b = torch.cat([b, -b], 0)
    a = torch.cat([a, a * (1 + 2.0**-40)], 1)
    exact = [MP.fdot(zip(r, c, strict=True)) for r in numbers(a) for c in numbers(b.T)]
    _, (found,) = evaluated(torch.matmul, a, b)
    holds(found, exact)
    _, (found,) = evaluated(lambda a, b: torch.einsum("ik,kj->ij", a, b), a, b)
    holds(found, exact)
    _, (found,) = evaluated(lambda a, b: torch.stack([a, 2 * a]) @ b, a, b)
    holds(found, [*exact, *(2 * x for x in exact)])
    _, (found,) = evaluated(torch.matmul, a, b, places=[4, 1])
    holds(found, [exact[4], exact[1]])


def test_matrices_that_are_nearly_singular():
    h = hilbert(8)
    exact = MP.matrix(h.tolist())
    _, (found,) = evaluated(torch.linalg.det, h)
    holds(found, [MP.det(exact)])
    inverse = MP.inverse(exact)
    _, (found,) = evaluated(torch.linalg.inv, h)
    holds(found, (inverse[i, j] for i in range(8) for j in range(8)))
    _, (found,) = evaluated(torch.linalg.solve, h, torch.eye(8, dtype=torch.float64)[:, :2])
    holds(found, (inverse[i, j] for i in range(8) for j in range(2)))


def test_long_products_and_sums():
    x = 1 + randn(400) / 50
    partial, product, total = [], MP.mpf(1), []
    for v in x.tolist():
        product *= MP.mpf(v)
        partial.append(product)
        total.append(MP.mpf(v) + (total[-1] if total else 0))
    _, (found,) = evaluated(lambda x: torch.cumprod(x, 0), x)
    holds(found, partial)
    _, (found,) = evaluated(lambda x: torch.cumsum(x, 0), x)
    holds(found, total)
    _, (found,) = evaluated(torch.prod, x)
    holds(found, [product])


def test_statistics_and_norms():
    x = randn(3, 20) + 1e6
    rows = numbers(x)
    spreads = [MP.fsum((v - mean(r)) ** 2 for v in r) for r in rows]
    _, (found,) = evaluated(lambda x: x.var(1), x)
    holds(found, (s / 19 for s in spreads))
    _, (found,) = evaluated(lambda x: x.std(1, correction=0), x)
    holds(found, (MP.sqrt(s / 20) for s in spreads))
    _, (found,) = evaluated(lambda x: torch.linalg.vector_norm(x, dim=1), x)
    holds(found, (MP.sqrt(MP.fsum(v * v for v in r)) for r in rows))
    normed = [(v - mean(r)) / MP.sqrt(s / 20 + MP.mpf(1e-5)) for r, s in zip(rows, spreads, strict=True) for v in r]
    for fn in (
        lambda x: F.layer_norm(x, (20,)),
        lambda x: F.group_norm(x.reshape(3, 4, 5), 1).reshape(3, 20),
        lambda x: F.batch_norm(x.T, None, None, training=True).T,
    ):
        _, (found,) = evaluated(fn, x)
        holds(found, normed)


def test_a_loss_and_its_gradient():
    x, goal = randn(3, 5), torch.tensor([1, 4, -100])
    _, (found,) = evaluated(lambda x: F.cross_entropy(x, goal), x)
    rows = [softmax(r) for r in numbers(x)]
    holds(found, [-(MP.log(rows[0][1]) + MP.log(rows[1][4])) / 2])

    def gradient(x):
        x = x.detach().requires_grad_(True)
        (torch.exp(x) - x).sum().backward()
        return x.grad

    _, (found,) = evaluated(gradient, randn(4, 4) * 1e-9)
    holds(found, (MP.expm1(v) for r in numbers(randn(4, 4) * 1e-9) for v in r))


def moves(x):
    y = torch.zeros(6, 8, dtype=x.dtype)
    y[1:5, ::2] = x[:, :4] + 1e30
    y[1:5, ::2] -= 1e30
    y = torch.where(torch.arange(8) % 4 == 0, y, 2 * y)
    y = torch.cat([y.flip(1), F.pad(x.t(), (0, 4))[:2]])
    y = torch.tril(y, 3).masked_fill(torch.arange(8) == 7, 5)
    y.view(-1)[3] = 0.1
    return y.contiguous()[:, torch.tensor([7, 0, 2, 3])]


def test_data_that_only_moves():
    x = randn(4, 5)
    grid = torch.zeros(6, 8, dtype=torch.float64)
    grid[1:5, ::2] = x[:, :4]
    grid = torch.where(torch.arange(8) % 4 == 0, grid, 2 * grid)
    grid = torch.cat([grid.flip(1), F.pad(x.t(), (0, 4))[:2]])
    grid = torch.tril(grid, 3).masked_fill(torch.arange(8) == 7, 5)
    grid.view(-1)[3] = 0.1
    _, (found,) = evaluated(moves, x)
    holds(found, (MP.mpf(v) for v in grid[:, torch.tensor([7, 0, 2, 3])].reshape(-1).tolist()))


def test_convolutions():
    x, w = randn(1, 2, 5, 6), randn(4, 1, 2, 3, seed=1)
    big = x * 1e20

    def fn(x, w):
        return F.conv2d(x + big, w, stride=2, padding=1, groups=2) - F.conv2d(big, w, stride=2, padding=1, groups=2)

    moved = [[[MP.mpf(v) for v in row] for row in plane] for plane in x[0].tolist()]
    exact = []
    for o in range(4):
        for i in range(-1, 5, 2):
            for j in range(-1, 5, 2):
                taps = [(a, b) for a in range(2) for b in range(3) if 0 <= i + a < 5 and 0 <= j + b < 6]
                exact.append(MP.fsum(MP.mpf(float(w[o, 0, a, b])) * moved[o // 2][i + a][j + b] for a, b in taps))
    _, (found,) = evaluated(fn, x, w)
    holds(found, exact)


def narrow(x):
    assert x.dtype == torch.float16
    return (x.float() + 1e20).half().float() - 1e20


def test_a_reference_that_must_run_as_written_rounds_nothing_there():
    x = torch.tensor([0.5, 1.25], dtype=torch.float16)
    _, (found,) = evaluated(narrow, x)
    assert found.value.tolist() == [0.5, 1.25] and (found.lo == found.hi).all()


@pytest.mark.parametrize("name", CASES)
def test_both_evaluations_of_e_agree(name):
    """What float64 gives, with the bound of its error, and what many bits give."""
    fn, args = CASES[name]
    found = oracle(fn, *args)
    exact = found.exact()
    recording = record(found, exact.widened)
    wanted = {i: np.arange(x.size) for i, x in enumerate(recording.outputs) if x is not None}
    for i, e in evaluate(recording, wanted, close).found.items():
        assert (e.lo <= exact.hi[i].ravel()).all() and (e.hi >= exact.lo[i].ravel()).all()
        size = np.abs(e.value).max()
        assert np.abs(e.value - exact.values[i].ravel()).max() <= 1e-14 * size
        assert ((e.hi - e.lo) / 2 <= 2.0**-52 * size).all()


class Odd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x + 1e25 - 1e25

    @staticmethod
    def backward(ctx, g):
        return g


def test_fused_attention_and_custom_functions():
    q, k, v = (randn(1, 1, 3, 4, seed=s) for s in range(3))
    _, (found,) = evaluated(F.scaled_dot_product_attention, q, k, v)
    scores = [[MP.fdot(zip(a, b, strict=True)) / 2 for b in numbers(k[0, 0])] for a in numbers(q[0, 0])]
    columns = numbers(v[0, 0].T)
    holds(found, (MP.fdot(zip(softmax(row), c, strict=True)) for row in scores for c in columns))
    masked = [softmax(row[: i + 1]) for i, row in enumerate(scores)]
    _, (found,) = evaluated(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v)
    holds(found, (MP.fdot(zip(row, c, strict=False)) for row in masked for c in columns))
    _, (found,) = evaluated(Odd.apply, randn(5))
    holds(found, (MP.mpf(v) for v in randn(5).tolist()))


def rounded(x):
    return (x * 3.3).round() * 2, (x * 7).to(torch.int32).to(x.dtype) / 3


def routed(x):
    y = x * 1.1
    best = torch.topk(y, 2, dim=1)
    ordered = torch.sort(y, dim=0, descending=True)
    return (
        y.gather(1, y.argmax(1, keepdim=True)),
        best.values,
        torch.zeros_like(y).scatter(1, best.indices, best.values),
        ordered.values,
        y.min(1).values - y.gather(1, y.min(1).indices[:, None])[:, 0],
        y[y > 1],
    )


def test_choices_among_computed_values_are_decided_again():
    x = randn(4, 5)
    _, found = evaluated(lambda x: dict(enumerate(routed(x))), x)
    rows = [[v * MP.mpf(1.1) for v in row] for row in numbers(x)]
    columns = [sorted(c, reverse=True) for c in zip(*rows, strict=True)]
    holds(found[0], (max(r) for r in rows))
    holds(found[1], (v for r in rows for v in sorted(r, reverse=True)[:2]))
    holds(found[2], (v if v >= sorted(r)[-2] else MP.mpf(0) for r in rows for v in r))
    holds(found[3], (c[i] for i in range(4) for c in columns))
    holds(found[4], [MP.mpf(0)] * 4)
    holds(found[5], (v for r in rows for v in r if v > 1))
    _, found = evaluated(lambda x: dict(enumerate(rounded(x))), x)
    holds(found[0], (2 * MP.nint(v * MP.mpf(3.3)) for r in numbers(x) for v in r))
    holds(found[1], (MP.mpf(int(v * 7)) / 3 for r in numbers(x) for v in r))
    _, (half,) = evaluated(lambda x: (x * 1.0).round(), torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5]))
    assert half.value.tolist() == [0, 2, 2, 0, -2]


def test_sums_over_places():
    x, at = randn(6, 3), torch.tensor([0, 2, 2, 0, 1, 2])
    big = torch.full((3, 3), 1e40, dtype=torch.float64)
    exact = [[MP.fsum(v[j] for v, i in zip(numbers(x), at.tolist(), strict=True) if i == t) for j in range(3)]
             for t in range(3)]  # fmt: skip
    _, (found,) = evaluated(lambda x: big.index_add(0, at, x) - big, x)
    holds(found, (v for row in exact for v in row))
    _, (found,) = evaluated(lambda x: big.scatter_add(0, at[:, None].expand(6, 3), x) - big, x)
    holds(found, (v for row in exact for v in row))


def in_place_lists(x):
    y = [x + 1]
    scaled = {"grad_scale": torch.ones(1), "found_inf": torch.zeros(1)}
    torch._fused_sgd_(
        y, [x], [], weight_decay=0.0, momentum=0.0, lr=0.1, dampening=0.0, nesterov=False, maximize=False,
        is_first_step=True, **scaled,
    )  # fmt: skip
    return y[0]


def unscaled(x):
    y = [x + 1]
    torch._amp_foreach_non_finite_check_and_unscale_(y, torch.zeros(1), torch.ones(1))
    return y[0]


def close_calls(x):
    y = torch.stack([x + 1e20, x * 2 + 1e20], -1)
    return y.argmax(-1) * x


def draws_in_place(x):
    y = x * 1.1
    y[0].normal_()
    return y * 3


def flips(x):
    y = (x + 1e20) - 1e20  # float64 gives 0, more bits x
    return torch.where(y > 0, y, -y)


@pytest.mark.parametrize(
    ("fn", "named"),
    [
        (lambda x: torch.linalg.svdvals(x), "_linalg_svd"),
        (lambda x: torch.special.hermite_polynomial_h(x, 3), "special_hermite_polynomial_h"),
        (lambda x: torch.from_numpy(np.exp(x.numpy())), "numpy"),
        (lambda x: x * float((x * 1.5).sum()), "item"),
        (close_calls, r"comparison \(ge\)"),
        (lambda x: x if torch.equal(x * 2, x + x) else -x, "equal"),
        (lambda x: x[int((x * 1.1).flatten().median(0).indices) % 4], "median"),
        (lambda x: torch.native_dropout(x * 1.1, 0.5, True)[0], "dropout"),
        (lambda x: torch.view_as_real(torch.linalg.eigvals(x)), "complex"),
        (in_place_lists, "_fused_sgd"),
        (unscaled, "isfinite"),
        (lambda x: torch.linalg.vector_norm(x * 1.1, 0), "order 0"),
        (lambda x: (x * 1.1).put(torch.tensor([0, 0]), x[0, :2], accumulate=True), "put that adds"),
        (lambda x: (x * 1.1).index_put((torch.tensor([0, 0]),), x[:2], accumulate=True), "index_put that adds"),
        (lambda x: (x * 1.1).view(torch.int64).view(torch.float64), "bits"),
        (lambda x: torch.linspace(0, 1, 4, dtype=x.dtype) + x, "linspace"),
        (lambda x: torch.arange(0, 0.4, 0.1, dtype=x.dtype) + x, "arange"),
    ],
)
def test_what_cannot_be_followed_is_named(fn, named):
    with pytest.raises(Refused, match=named):
        evaluated(fn, randn(4, 4).abs())


def test_draws_are_taken_as_they_are():
    x = randn(3, 4)
    _, (found,) = evaluated(draws_in_place, x)
    holds(ending(found, 4), (3 * (MP.mpf(1.1) * v) for row in numbers(x)[1:] for v in row))


def ending(found, at):
    return replace(found, **{k: getattr(found, k)[at:] for k in ("value", "lo", "hi", "places")})


def test_a_comparison_that_goes_another_way_in_more_bits_is_refused():
    with pytest.raises(Refused, match=r"comparison \(gt\)"):
        evaluated(flips, randn(4).abs())
    _, (found,) = evaluated(lambda x: torch.where(x * 3 > 1, x, 2 * x), torch.tensor([0.1, 0.9]))
    assert found.value.tolist() == [2 * float(np.float32(0.1)), float(np.float32(0.9))]


def inexact_flip(x):
    y = torch.exp(x) - 1 - x  # 0 or worse in float64
    return torch.where(y > 0, y, -y)


def test_a_comparison_of_inexact_values_is_decided_again_too():
    x = torch.tensor([1e-17, 0.3], dtype=torch.float64)
    with pytest.raises(Refused, match="another way"):
        evaluated(inexact_flip, x)
    with pytest.raises(Refused, match="too close"):
        evaluated(lambda x: torch.where(x.exp() >= x.exp() + 0, x, -x), x)
    outcome, _ = evaluated(lambda x: torch.where((x + 1e60) / 3 >= torch.full_like(x, 1e60) / 3, x, -x), 1 + x)
    assert outcome.bits == 256  # 128 do not tell the two sides apart
    _, (found,) = evaluated(lambda x: (x / 3).argmax(1) + x[:, 0], torch.tensor([[1.0, 2.0, 0.5]]))
    assert found.value.tolist() == [2.0]
    masked = torch.tensor([[-torch.inf, 0.25], [0.5, 1.0]], dtype=torch.float64)
    _, (found,) = evaluated(lambda x: torch.where(x * 2 == -torch.inf, 0.0, x), masked)
    assert found.value.tolist() == [0, 0.25, 0.5, 1]


def test_only_what_is_wanted_is_evaluated_and_paid_for():
    x = randn(50, 50)
    whole, _ = evaluated(lambda x: torch.softmax(x @ x, -1), x)
    one, (found,) = evaluated(lambda x: torch.softmax(x @ x, -1), x, places=[77])
    assert one.cost < whole.cost / 4 and found.places.tolist() == [77]


def test_a_small_budget_takes_the_first_elements_and_says_how_many_are_left():
    x = randn(64, 64)
    outcome, (found,) = evaluated(
        lambda x: torch.exp(x).sum(1), x, places=np.arange(63, -1, -1), budget=6000 * Numbers.cost
    )
    assert 0 < found.places.size < 64 and found.places[0] == 63
    assert outcome.left == 64 - found.places.size and outcome.cost <= 6000 * Numbers.cost
    with pytest.raises(Refused, match="limit"):
        evaluated(lambda x: torch.exp(x).sum(1), x, budget=100)


def test_the_size_of_a_recording_is_limited(monkeypatch):
    monkeypatch.setattr("render.reference.precise.graph.CELLS", 1000)
    with pytest.raises(Refused, match="more than 1000"):
        evaluated(torch.exp, randn(100, 100))


def test_the_precision_of_arb_is_restored():
    ctx = pytest.importorskip("flint").ctx
    before = ctx.prec
    evaluated(torch.exp, randn(3))
    with pytest.raises(Refused):
        evaluated(flips, randn(4).abs())
    assert ctx.prec == before
