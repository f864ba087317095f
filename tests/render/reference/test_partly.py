"""A part of what a reference may lose is never more than all of it, and much of it where scores are many."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracle_zoo import CASES, FLOAT64_ONLY, oracle

from render.explain import stability
from render.ops.aten import Form, of_form
from render.reference import partly
from render.reference.local_error import MULTILINEAR

F = torch.nn.functional
SCALE = 8.0


def attention(q, k, v, causal):
    scores = q @ k.T / q.shape[-1] ** 0.5
    scores = scores.masked_fill(~torch.ones_like(scores).tril().bool(), float("-inf")) if causal else scores
    p = torch.exp(scores - scores.amax(-1, keepdim=True))
    return (p @ v) / p.sum(-1, keepdim=True)


def by_heads(q, k, v):
    out = torch.empty(2, len(q), v.shape[1])
    for h in range(2):
        out[h] = torch.softmax((h + 1) * q @ k.T, -1) @ v
    return out


def distances(x, y):
    near = torch.exp(-((x[:, None, :] - y[None, :, :]) ** 2).sum(-1))
    return near @ y, near.amax(1), torch.log(near.sum(1))


def gated(x, w, y):
    h = x @ w
    return (torch.sigmoid(h) * h) @ y.T, torch.sin(40 * h), h.abs().floor()


def drawn(seed: int, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    kinds = (torch.float32, torch.float32, torch.float16, torch.bfloat16, torch.float64)
    return [torch.randn(s, generator=g).to(kinds[seed % 5]) for s in shapes]


MANY = {
    "attention": (lambda *a: attention(*a, False), ((24, 3), (20, 3), (20, 5))),
    "causal": (lambda *a: attention(*a, True), ((24, 3), (24, 3), (24, 5))),
    "by heads": (by_heads, ((24, 3), (20, 3), (20, 5))),
    "distances": (distances, ((24, 3), (20, 3))),
    "gated": (gated, ((20, 3), (3, 18), (17, 18))),
    "outer": (lambda a, b: torch.outer(a, b).cumsum(0).sum(1), ((30,), (40,))),
    "biased": (lambda x, w, b: F.linear(x, w, b).relu().mean(0), ((30, 2), (40, 2), (40,))),
    "convolved": (lambda x, w: F.conv2d(x, w).amax((2, 3)), ((1, 1, 8, 8), (9, 1, 2, 2))),
}


def both(monkeypatch, fn, args, inputs, least):
    monkeypatch.setattr(partly, "MUCH", 0)
    found = oracle(fn, *args)
    whole, part = (found.attainable(inputs, least, SCALE, partly=some) for some in (False, True))
    assert whole is not None
    return whole, part


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", MANY)
def test_a_part_is_never_more(monkeypatch, name, seed):
    fn, shapes = MANY[name]
    whole, part = both(monkeypatch, fn, drawn(seed, *shapes), 2.0**-10 if seed % 2 else 2.0**-24, 2.0**-24)
    for all_, some in zip(whole, part or [], strict=True) if part else ():
        assert (some <= all_ * (1 + 1e-12)).all()


@pytest.mark.parametrize("name", [*CASES, *FLOAT64_ONLY])
def test_nor_of_other_references(monkeypatch, name):
    fn, args = (CASES | FLOAT64_ONLY)[name]
    found = oracle(fn, *args)
    monkeypatch.setattr(partly, "MUCH", 0)
    whole, part = (found.attainable(2.0**-11, 2.0**-24, SCALE, partly=some) for some in (False, True))
    for all_, some in zip(whole, part, strict=True) if whole is not None and part is not None else ():
        assert (np.nan_to_num(some) <= np.nan_to_num(all_, nan=np.inf) * (1 + 1e-12)).all()


def test_what_a_part_holds_of_an_attention(monkeypatch):
    fn, shapes = MANY["attention"]
    args = drawn(0, *shapes)
    (whole,), (part,) = both(monkeypatch, fn, args, 2.0**-10, 2.0**-24)
    size = oracle(lambda q, k, v: attention(q, k, v.abs(), False), *args).exact().values[0]
    assert (part >= SCALE * 2.0**-10 * size * (1 - 1e-3)).all()  # the inputs of the last product
    assert (part < whole).all()


def test_what_a_part_holds_of_scores(monkeypatch):
    q, k = drawn(0, (24, 3), (20, 3))
    (whole,), (part,) = both(monkeypatch, lambda q, k: (q @ k.T).amax(1), (q.abs(), k.abs()), 2.0**-10, 2.0**-24)
    assert (part >= 0.99 * whole).all()


def test_a_small_reference_has_no_part():
    assert oracle(lambda a: a + 1, torch.ones(3)).attainable(0.1, 0.1, 8.0, partly=True) is None


@pytest.mark.parametrize("off", [0.0, 1e-3])
def test_what_a_part_explains_needs_no_more(monkeypatch, off):
    """Of an attention whose last product lost what inputs lose, and of one that lost a thousand times as much."""
    fn, shapes = MANY["attention"]
    found = oracle(fn, *drawn(0, *shapes))
    exact = found.exact().values[0]
    asked = []
    monkeypatch.setattr(partly, "MUCH", 0)
    careful = stability.Careful(found, 2.0**-24, 2.0**-24)
    monkeypatch.setattr(type(found), "_reach", lambda self, *a: asked.append(a) or ([np.full(exact.shape, 1e-9)], None))
    case = type("Case", (), {"exact": exact, "fmt": stability.FORMATS["fp32"], "ref_fmt": stability.FORMATS["fp32"]})
    suspects = careful.suspects({0: (case, np.full(exact.shape, 1e-8 + off))}, [0])
    assert (bool(asked), bool(suspects)) == (off > 0, off > 0)


def test_errors_go_on_through_no_curve():
    """Of a function's errors a part may be more than the whole: its slope falls where the operand is off by more."""
    assert not partly._GO_ON & (of_form(Form.FUNCTION, Form.COMPOSITE, Form.GRADIENT) - MULTILINEAR)
    assert partly._GO_ON & of_form(Form.ARITHMETIC) == {"add", "sub", "rsub", "mul"}
    assert {"add", "sub", "rsub", "mul", "div"} == partly._OF_TWO
