"""Operations that are done again without the semantic layer give what the layer gives, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter import recipes, written_calls
from render.interpreter.events import Listener, listened
from render.interpreter.recipes import _OF
from render.interpreter.session import Session


@triton.jit
def twice_each(X, Y, Out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    for turn in range(4):  # written down, done again, compiled
        x = tl.load(X + i, mask=i < n, other=0.0)
        y = tl.load(Y + i, mask=i < n).to(tl.float32)
        same = x + x
        other = x + y
        row = x[:, None] * y[None, :]
        zero, negative = x * 0.0, x * -0.0
        whole = tl.where(i % 2 == 0, same - other, other / 3) + tl.sum(row, 1) * 0.1
        signs = tl.where(1.0 / negative < 0, 1.0, 0.0) - tl.where(1.0 / zero < 0, 1.0, 0.0)
        tl.store(Out + i + turn * n, whole + signs + (1 + turn) * 1.5 + (i + True) * x, mask=i < n)


def run(monkeypatch: pytest.MonkeyPatch, kept: bool, builder: object = None, often: int = 2):
    _OF.clear()
    g = torch.Generator().manual_seed(3)
    x, y = torch.randn(50, generator=g), torch.randn(50, generator=g).half()
    out = torch.zeros(200)
    with monkeypatch.context() as m:
        m.setattr(written_calls, "OFTEN", often)
        if not kept:
            m.setattr(recipes, "_key", lambda *_: None)
        with Session(**({} if builder is None else {"builder": builder})) as session:
            twice_each[(4,)](x, y, out, 50, 16)
        found = session.envelope(out)
        return out.numpy(), np.array(found.lo), np.array(found.hi), session.causes


def known() -> list[object]:
    return [r for one in _OF.values() for r in one._known.values() if r is not False]


@pytest.mark.parametrize(("often", "compiled"), [(1 << 30, False), (0, True), (1, True)])
def test_values_bounds_and_lines_are_those_of_the_layer(monkeypatch, often, compiled):
    with_layer, without = run(monkeypatch, False), run(monkeypatch, True, often=often)
    functions = sum(callable(r) for r in known())
    assert len(known()) > 15 and (functions > 15 if compiled else functions == 0)
    for a, b in zip(with_layer[:3], without[:3], strict=True):
        assert np.array_equal(a, b, equal_nan=True)
    assert with_layer[3] == without[3]


class Heard(Listener):
    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def event(self, op, args, outs, attrs=None) -> None:
        site = self.context.site()
        self.told.append((op, site.line, len(args), [o.v.tobytes() for o in outs if o.v.dtype.kind == "f"]))


def test_who_listens_hears_the_same(monkeypatch):
    heard = []
    for kept in (False, True):
        heard.append(one := Heard())
        run(monkeypatch, kept, listened(one))
    assert heard[0].told == heard[1].told and len(heard[0].told) > 100


def test_tensors_that_share_a_handle_are_told_from_those_that_do_not():
    with Session():
        x, out = torch.arange(8.0), torch.zeros(8)

        @triton.jit
        def sums(X, Out, B: tl.constexpr):
            i = tl.arange(0, B)
            a, b = tl.load(X + i), tl.load(X + (7 - i))
            s = a + a
            s = a + a
            s = a + a
            tl.store(Out + i, s + (a + b))

        sums[(1,)](x, out, 8)
    assert out.tolist() == [2 * i + 7 for i in range(8)]
