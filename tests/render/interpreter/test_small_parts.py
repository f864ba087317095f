"""Small parts of the interpreter by themselves: memory that is lent, values that are the same, kinds of arguments."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import triton.language as tl

from render.interpreter import contract
from render.interpreter.builder.floats import same_value
from render.interpreter.handle import Handle
from render.interpreter.hosted.call import is_wide
from render.interpreter.lent import LentMemory


def test_memory_is_lent_where_somebody_may_write_it() -> None:
    lent, t = LentMemory(), torch.arange(4.0)
    fixed = t.numpy().copy()
    fixed.flags.writeable = False
    for tensor, array in ((t, fixed), (t[:0], t[:0].numpy()), (t + 1j, (t + 1j).numpy()), (t, t.tolist())):
        lent.lend(tensor, array)
        assert not lent
    held = t.numpy()
    lent.lend(t, held)
    assert lent and not list(lent.written())
    held[2] = 9
    (told,) = lent.written()
    assert told.data_ptr() == t.data_ptr()
    lent.refresh()
    assert lent and not list(lent.written())
    del held
    lent.refresh()
    assert not lent


def test_one_value_is_itself_and_what_shares_its_memory() -> None:
    whole = np.arange(8.0, dtype=np.float32).reshape(1, 8)

    def handle(v: np.ndarray, **ends: np.ndarray) -> Handle:
        return Handle(v, tl.float32, v.shape[1:], **ends)

    x = handle(whole)
    assert same_value(x, x) and same_value(x, handle(whole)) and same_value(x, handle(whole[:]))
    assert same_value(handle(whole[:, 2:4]), handle(whole[:, 2:4]))
    others = whole.copy(), whole[:, ::-1], whole[:, :4], whole.reshape(2, 4), whole[:, 1:5]
    assert not any(same_value(x, handle(v)) for v in others)
    assert not same_value(handle(whole[:, :4]), handle(whole[:, 4:])) and not same_value(handle(whole[:, :4]), x)
    assert not same_value(handle(whole[:, ::2]), handle(whole[:, :4]))
    wide = handle(whole, lo=whole - 1.0, hi=whole + 1.0)
    assert not same_value(x, wide) and same_value(wide, wide)
    assert not same_value(x, Handle(whole, tl.int32, (8,)))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, int), (-(1 << 63), int), ((1 << 63) - 1, int), (1 << 63, None), (-(1 << 63) - 1, None), (True, bool),
        (2.5, float), (None, type(None)), ("text", None), (np.float32(1), None), (torch.zeros(1).half(), torch.float16),
        (torch.nn.Parameter(torch.zeros(1)), None), (torch.zeros(1, dtype=torch.int8), torch.int8),
    ],
)  # fmt: skip
def test_what_decides_whether_an_argument_is_taken(value: object, kind: object) -> None:
    assert contract._kind(value) is kind


def test_bounds_are_wide_where_their_ends_differ() -> None:
    one = np.array([1.0, 2.0])
    for lo, hi, wide in ((one, one, False), (one, one.copy(), False), (one, one + np.array([0, 1]), True)):
        assert is_wide(SimpleNamespace(lo=lo, hi=hi)) is wide
    assert not is_wide(SimpleNamespace(lo=np.zeros(0), hi=np.zeros(0)))
