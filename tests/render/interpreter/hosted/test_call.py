"""How a call of a host operation reads its operands, against what torch makes of them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from interval_ops.formats.model import FP32, FP64
from interval_ops.profiles.profile import load_profile
from render.interpreter.hosted.call import Call, held_in, host_profile, number, same_rank, stored, typed_number
from render.interpreter.memory import Envelope
from render.ops.dtypes import FORMAT_OF

ATEN, PROFILE = torch.ops.aten, load_profile("torch-cpu")
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def known(t, lo, hi):
    return {id(t): Envelope(np.array(lo), np.array(hi), np.ones(t.shape, np.bool_), True, frozenset())}


def call(op, *args, ends=None, **kwargs):
    return Call(op, args, kwargs, ends or {}, PROFILE)


def test_bytes_overflow_as_torch_does():
    for dtype, fmt in FORMAT_OF.items():
        if fmt.bits == 8:
            made = torch.tensor([1e30]).to(dtype).double().item()
            wanted = "nan" if made != made else "inf" if made == float("inf") else "saturate"
            assert host_profile().cast_overflow[fmt.name] == wanted


@pytest.mark.parametrize("dims", list(product((0, 1), repeat=2)))
def test_results_have_the_format_that_torch_gives_them(dims):
    for dtypes in product([*FLOATS, torch.int32, torch.bool], repeat=2):
        x, y = (torch.ones([2] * dim, dtype=dtype) for dim, dtype in zip(dims, dtypes, strict=True))
        for other in (y, 2.5, 3):
            wanted = FORMAT_OF.get((x + other).dtype)
            assert call(ATEN.add.Tensor, x, other).format(x, other) == wanted
        assert call(ATEN.div.Tensor, x, y).format(x, y) == FORMAT_OF.get((x / y).dtype)
        whole = FORMAT_OF.get(torch.div(x, y, rounding_mode="floor").dtype) if torch.bool not in dtypes else None
        if whole is not None:
            assert call(ATEN.div.Tensor_mode, x, y, rounding_mode="floor").format(x, y) == whole
    assert call(ATEN.sqrt.default, torch.ones(2, dtype=torch.int64)).format(torch.ones(2, dtype=torch.int64)) == FP32


def test_operands_are_read_in_the_format_of_the_operation():
    wide = torch.tensor([1 / 3, 2.5], dtype=torch.float64)
    assert call(ATEN.add.Tensor, wide, wide).operand(wide, FP32) is None
    assert call(ATEN.add.Tensor, wide, wide).operand(wide, FP64) is not None
    one = torch.tensor(1 / 3, dtype=torch.float64)
    lo, hi = call(ATEN.add.Tensor, torch.ones(2), one).operand(one, FP32)
    assert lo <= np.float32(1 / 3) <= hi and hi - lo < 1e-7
    whole = torch.tensor([1, -(2**24)], dtype=torch.int64)
    lo, hi = call(ATEN.add.Tensor, whole, 2.5).operand(whole, FP32)
    assert lo is hi and lo.tolist() == [1.0, -(2.0**24)]
    for x in (torch.tensor([2**24 + 1]), torch.tensor([-(2**24) - 1]), torch.ones(2, dtype=torch.complex64), None, "x"):
        assert call(ATEN.add.Tensor, x, 2.5).operand(x, FP32) is None
    open_ = torch.tensor([1, 2])
    ends = known(open_, [1.0, 1.0], [1.0, 3.0])
    lo, hi = call(ATEN.add.Tensor, open_, 2.5, ends=ends).operand(open_, FP32)
    assert lo.tolist() == [1, 1] and hi.tolist() == [1, 3]
    assert call(ATEN.add.Tensor, open_, 2.5, ends=ends).is_open(open_)
    assert not call(ATEN.add.Tensor, open_, 2.5).is_open(open_)
    assert not call(ATEN.add.Tensor, open_, 2.5, ends=known(open_, [1.0, 2.0], [1.0, 2.0])).is_open(open_)
    real = torch.tensor([1.0, 2.0])
    assert not call(ATEN.add.Tensor, real, 2.5, ends=known(real, [0.0, 1.0], [2.0, 3.0])).is_open(real)


@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers_are_both_what_is_written_and_what_the_type_holds(dtype):
    fmt, near = FORMAT_OF[dtype], float(torch.tensor(1 / 3, dtype=dtype))
    single = float(np.float32(1 / 3))
    assert stored(1 / 3, dtype) == near
    assert sorted(map(float, number(1 / 3, FP64))) == [1 / 3] * 2
    if fmt != FP64:
        assert sorted(map(float, number(1 / 3, fmt))) == sorted((1 / 3, single))
        held = sorted(map(float, typed_number(1 / 3, fmt)))
        assert held == [min(1 / 3, single, near), max(1 / 3, single, near)]
        assert float(number(0.5, fmt)[0]) == float(number(0.5, fmt)[1]) == 0.5
    x = torch.ones(2, dtype=dtype)
    held = sorted(map(float, call(ATEN.clamp.default, x, 1 / 3).held(1 / 3)))
    assert held == sorted((1 / 3, near))
    assert sorted(map(float, call(ATEN.clamp.default, x, 0.5).held(0.5))) == [0.5, 0.5]
    assert held_in(ATEN.clamp.default, (x, 1 / 3), {}) == dtype
    assert held_in(ATEN.clamp.default, (torch.tensor(1.0), x), {}) == dtype
    assert held_in(ATEN.full_like.default, (x, 1.0), {"dtype": torch.float64}) == torch.float64
    assert held_in(ATEN.arange.default, (3,), {}) == torch.float32
    pairs = same_rank([(np.ones(3), np.ones(3)), (np.ones((2, 3)), np.ones((2, 3))), (np.ones(()), np.ones(()))])
    assert [p[0].shape for p in pairs] == [(1, 3), (2, 3), (1, 1)]


def test_an_operand_without_dimensions_takes_the_type_of_the_others():
    x, one = torch.ones(2).bfloat16(), torch.tensor(1 / 3)
    for other, narrow in ((x, True), (x.float(), False)):
        made = call(ATEN.where.self, torch.tensor([True, False]), one, other)
        taken = [float(made.at(end)(one)) for end in (0, 1)]
        assert taken == sorted((float(one), float(one.bfloat16()) if narrow else float(one)))
