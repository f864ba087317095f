"""Attention, softmax and norms attacked from inside their boxes; the rules that are known to be unsound, shown to fail.

The oracle is float64 on points of the box (corners, ends, random), torch's own kernels in each dtype, and the same sum
in other legal orders with roundings in between.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support import rng, trials
from torch.nn.attention import SDPBackend, sdpa_kernel

from render.interpreter.session import Session

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def boxed(g, shape, dtype, radius):
    v = torch.from_numpy(g.standard_normal(shape)).to(dtype)
    r = radius * np.abs(g.standard_normal(shape))
    return v, v.double().numpy() - r, v.double().numpy() + r


def bounds(function, operands, device="torch-cpu"):
    """The envelope of `function` of boxes (value, lo, hi)."""
    with Session(device=device) as session, torch.no_grad():
        given = []
        for v, lo, hi in operands:
            t = v.clone()
            session.memory.carry(t, lo, hi, frozenset())
            given.append(t)
        out = function(*given)
        found = session.envelope(out)
    assert found is not None and not found.taints, [t.message for t in session.taints.values()]
    return found, out


def picks(g, operands, count):
    for i in range(count):
        share = [g.integers(0, 2, lo.shape) if i % 2 else g.uniform(0, 1, lo.shape) for _, lo, _ in operands]
        yield [torch.from_numpy(lo + s * (hi - lo)) for s, (_, lo, hi) in zip(share, operands, strict=True)]


def inside(y, found):
    y = np.asarray(y, np.float64)
    return ((found.lo <= y) & (y <= found.hi)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("radius", [0.0, 1e-3, 0.2])
def test_attention_holds_every_choice_and_every_order(dtype, causal, radius):
    g = rng(1)
    for _ in range(trials(6)):
        n, m, d = int(g.integers(1, 9)), int(g.integers(1, 70)), int(g.integers(1, 17))
        n = min(n, m)
        shapes = (1, 2, n, d), (1, 2, m, d), (1, 2, m, d)  # of one head size: else torch takes no fused kernel
        operands = [boxed(g, s, dtype, radius) for s in shapes]
        found, out = bounds(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), operands)
        assert inside(out.double(), found)
        for q, k, v in picks(g, operands, 12):
            assert inside(F.scaled_dot_product_attention(q, k, v, is_causal=causal), found)
            q, k, v = (t.to(dtype) for t in (q, k, v))
            ends = zip((q, k, v), operands, strict=True)
            if all(inside(t.double(), type("E", (), {"lo": lo, "hi": hi})) for t, (_, lo, hi) in ends):
                assert inside(F.scaled_dot_product_attention(q, k, v, is_causal=causal).double(), found)
                assert inside(online(q, k, v, causal, g), found)


@pytest.mark.parametrize("dtype", DTYPES)
def test_heads_of_keys_serve_groups_of_the_query(dtype):
    g = rng(4)
    grouped = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)  # noqa: E731
    for heads, groups in ((4, 2), (6, 2), (3, 1)):
        shapes = (2, heads, 5, 8), (2, groups, 5, 8), (2, groups, 5, 8)
        operands = [boxed(g, s, dtype, 1e-3) for s in shapes]
        found, out = bounds(grouped, operands)
        assert inside(out.double(), found)
        for q, k, v in picks(g, operands, 12):
            assert inside(grouped(q, k, v), found)
        width = np.median((found.hi - found.lo) / (np.abs(out.double().numpy()) + 0.1))
        assert width < 0.1  # heads that are mixed up differ by more


def online(q, k, v, causal, g):
    """Softmax with a running maximum over blocks of keys, in float32, weights cast to the operands' type."""
    scores = (q.float() @ k.float().transpose(-1, -2)) / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), float("-inf"))
    top = torch.full(scores.shape[:-1], float("-inf"))
    total, out = torch.zeros(scores.shape[:-1]), torch.zeros(*scores.shape[:-1], v.shape[-1])
    size = int(g.integers(32, 65))
    for at in range(0, scores.shape[-1], size):
        part = scores[..., at : at + size]
        new = torch.maximum(top, part.amax(-1))
        kept = torch.exp(torch.where(new == top, torch.zeros(()), top - new))
        weights = torch.exp(part - new[..., None]).nan_to_num(0.0)
        total = total * kept + weights.sum(-1)
        out = out * kept[..., None] + weights.to(q.dtype).float() @ v[..., at : at + size, :].float()
        top = new
    return (out / total[..., None]).to(q.dtype).double()


@pytest.mark.parametrize("radius", [0.0, 1e-2])
def test_the_log_sums_that_attention_keeps(radius):
    g = rng(6)
    fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    for m in (1, 7, 80):
        operands = [boxed(g, (1, 2, size, 8), torch.float32, radius) for size in (m, m, m)]
        found, out = bounds(lambda q, k, v: fused(q, k, v, is_causal=True)[1], operands)
        assert inside(out.double(), found)
        for q, k, v in picks(g, operands, 10):
            scores = (q @ k.mT / 8**0.5).masked_fill(~torch.ones(m, m, dtype=torch.bool).tril(), float("-inf"))
            assert inside(scores.logsumexp(-1), found)
            assert radius or inside(fused(q.float(), k.float(), v.float(), is_causal=True)[1].double(), found)
        assert np.median(found.hi - found.lo) < 20 * radius + 1e-4


def gradients(attend, operands, weight):
    given = [x.detach().clone().requires_grad_() for x in operands]
    with torch.enable_grad():
        return torch.autograd.grad((attend(*given) * weight).sum(), given)


def by_hand(q, k, v, weight, causal, place, g):
    """The same gradients in float32 with the scale at another place and keys in another order."""
    scale, order = q.shape[-1] ** -0.5, torch.from_numpy(g.permutation(k.shape[-2]))
    unseen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril().logical_not()[:, order]
    k, v = k[..., order, :], v[..., order, :]
    scores = (q * scale) @ k.mT if place == 0 else q @ (k * scale).mT if place == 1 else (q @ k.mT) * scale
    scores = scores.masked_fill(unseen, float("-inf")) if causal else scores
    weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
    moved = weights * (weight @ v.mT - (weight * (weights @ v)).sum(-1, keepdim=True))
    back = torch.argsort(order)
    if place == 0:
        dq, dk = (moved * scale) @ k, (moved * scale).mT @ q
    else:
        dq, dk = (moved @ k) * scale, (moved.mT @ q) * scale
    return dq, dk[..., back, :], (weights.mT @ weight)[..., back, :]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("radius", [0.0, 1e-3])
def test_gradients_of_fused_attention_hold_every_choice_and_other_orders(causal, radius):
    g = rng(5)
    for _ in range(trials(3)):
        n, m, d = int(g.integers(2, 9)), int(g.integers(9, 70)), int(g.integers(2, 17))
        operands = [boxed(g, (1, 2, size, d), torch.float32, radius) for size in (n, m, m)]
        weight = torch.from_numpy(g.standard_normal((1, 2, n, d))).float()
        attend = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)  # noqa: E731
        with Session(device="torch-cpu") as session:
            given = [v.clone().requires_grad_() for v, _, _ in operands]
            for t, (_, lo, hi) in zip(given, operands, strict=True):
                session.memory.carry(t.detach(), lo, hi, frozenset())
            made = torch.autograd.grad((attend(*given) * weight).sum(), given)
            found = [session.envelope(t) for t in made]
        assert all(f is not None and not f.taints for f in found), [t.message for t in session.taints.values()]
        for f, y in zip(found, made, strict=True):
            assert inside(y.double(), f) and np.isfinite(f.hi - f.lo).all()
        for point in picks(g, operands, 6):
            for f, y in zip(found, gradients(attend, point, weight.double()), strict=True):
                assert inside(y, f)
            near = [t.float() for t in point]
            ends = zip(near, operands, strict=True)
            if all(inside(t.double(), type("E", (), {"lo": lo, "hi": hi})) for t, (_, lo, hi) in ends):
                tried = [gradients(attend, near, weight)]
                tried += [by_hand(*near, weight, causal, place, g) for place in (0, 1, 2)]
                for way in tried:
                    assert all(inside(y.double(), f) for f, y in zip(found, way, strict=True))


def test_gradients_of_other_attention_are_refused_and_not_guessed():
    x = torch.randn(1, 2, 4, 8)
    with Session(device="torch-cpu") as session:
        given = x.bfloat16().requires_grad_()
        value = given.detach().double().numpy()
        session.memory.carry(given.detach(), value - 0.1, value + 0.1, frozenset())
        (made,) = torch.autograd.grad(F.scaled_dot_product_attention(given, given, given).sum(), given)
        assert session.envelope(made).taints


def test_a_mask_hides_and_an_additive_one_shifts():
    g = rng(2)
    operands = [boxed(g, s, torch.float32, 1e-3) for s in ((1, 1, 4, 8), (1, 1, 6, 8), (1, 1, 6, 8))]
    seen = torch.from_numpy(g.integers(0, 2, (4, 6)).astype(bool))
    seen[:, 0] = True
    for mask in (seen, torch.randn(4, 6)):
        found, out = bounds(lambda q, k, v, m=mask: F.scaled_dot_product_attention(q, k, v, attn_mask=m), operands)
        assert inside(out.double(), found)
        wide = mask if mask.dtype == torch.bool else mask.double()
        for q, k, v in picks(g, operands, 20):
            assert inside(F.scaled_dot_product_attention(q, k, v, attn_mask=wide), found)


def test_the_fused_kernel_and_its_definition_overlap():
    g = rng(3)
    operands = [boxed(g, (1, 2, 16, 8), torch.float32, 0.0) for _ in range(3)]
    fused, _ = bounds(F.scaled_dot_product_attention, operands)
    with sdpa_kernel([SDPBackend.MATH]):
        plain, out = bounds(F.scaled_dot_product_attention, operands)
    assert inside(out.double(), fused) and ((fused.lo <= plain.hi) & (plain.lo <= fused.hi)).all()


# --- rules that others use, and that are wrong ---------------------------------------------------------------------


def _attack(function, operands, g, low, high, count=200):
    """How many of all outputs at sampled points are outside [low, high]."""
    outs = np.stack([function(*x).numpy() for x in picks(g, operands, count)])
    return int(((outs < low - 1e-15) | (outs > high + 1e-15)).sum()), outs


def test_softmax_by_the_width_of_its_own_element_is_unsound_ours_is_not():
    g = rng(4)
    operands = [boxed(g, (4, 64), torch.float32, 0.05)]
    _, lo, hi = operands[0]
    p = torch.softmax(operands[0][0].double(), -1).numpy()
    wrong, outs = _attack(lambda x: torch.softmax(x, -1), operands, g, p * np.exp(lo - hi), p * np.exp(hi - lo))
    assert wrong
    found, _ = bounds(lambda x: torch.softmax(x, -1), operands)
    assert inside(outs, found)


def test_layer_norm_at_both_ends_is_unsound_ours_is_not():
    g = rng(5)
    operands = [boxed(g, (4, 64), torch.float32, 0.05)]
    v, lo, hi = operands[0]
    norm = lambda x: F.layer_norm(x, (64,))  # noqa: E731
    ends = np.stack([norm(torch.from_numpy(x)).numpy() for x in (lo, hi, v.double().numpy())])
    wrong, outs = _attack(norm, operands, g, ends.min(0), ends.max(0))
    assert wrong > outs.size / 4
    found, _ = bounds(norm, operands)
    assert inside(outs, found)


def test_a_maximum_by_the_branch_seen_is_unsound_ours_is_not():
    a, b = torch.tensor([1.9]), torch.tensor([1.85])
    operands = [(a, np.array([1.89]), np.array([1.91])), (b, np.array([1.5]), np.array([2.5]))]
    found, _ = bounds(torch.maximum, operands)
    assert found.lo[0] <= 1.89 and found.hi[0] >= 2.5
    assert float(torch.maximum(torch.tensor(1.89), torch.tensor(2.5))) > 1.91  # what the branch seen would exclude


@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "rms_norm", "batch_norm", "gelu", "silu", "log_softmax"])
def test_macro_rules_hold_every_choice(name):
    g = rng(6)
    function = {
        "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]), "group_norm": lambda x: F.group_norm(x, 2),
        "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]), "gelu": F.gelu, "silu": F.silu,
        "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
        "log_softmax": lambda x: torch.log_softmax(x, -1),
    }[name]  # fmt: skip
    for radius in (0.0, 1e-3, 0.1):
        for dtype in (torch.float32, torch.bfloat16):
            operands = [boxed(g, (4, 6, 10), dtype, radius)]
            found, out = bounds(function, operands)
            if (name, dtype) != ("batch_norm", torch.bfloat16):  # the CPU kernel keeps its statistics in bfloat16
                assert inside(out.double(), found)
            for (x,) in picks(g, operands, trials(20)):
                assert inside(function(x), found)
