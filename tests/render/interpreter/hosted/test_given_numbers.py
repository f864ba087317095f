"""Numbers with bounds among arguments: their type, how a call reads them, and which of two answers stands."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from render.interpreter.hosted.call import Bounds, Exact, host_profile
from render.interpreter.hosted.given_numbers import _joined, _read, meeting
from render.interpreter.hosted.numbers import Ends

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.bool]


def of(lo, hi):
    return Bounds(np.asarray(lo, np.float64), np.asarray(hi, np.float64))


@pytest.mark.parametrize("dims", list(product((0, 1), repeat=2)))
def test_a_number_gives_results_the_type_that_one_which_is_written_does(dims):
    for dtypes in product(DTYPES, repeat=2):
        tensors = [torch.ones([2] * dim, dtype=dtype) for dim, dtype in zip(dims, dtypes, strict=True)]
        for some in ([], tensors[:1], tensors):
            held = torch.tensor(2.5, dtype=meeting(some))
            together = sum(some[1:], some[0]) if some else torch.ones(2, dtype=torch.float64)
            assert (together * held).dtype == (together * 2.5).dtype, (some, held)


def test_bounds_stand_where_those_of_an_end_hardly_lie_beyond():
    found = of([1.0, -2.0], [2.0, 3.0])
    whole = _joined(found, of([1.5, -2.0 - 1e-8], [1.75, 3.0 + 1e-8]), 1e-6)
    assert isinstance(whole, Bounds)
    assert whole.lo.tolist() == [1.0, -2.0 - 1e-8] and whole.hi.tolist() == [2.0, 3.0 + 1e-8]
    for end in (of([0.9, -2.0], [2.0, 3.0]), of([1.0, -2.0], [2.0, 3.1]), None, Exact(), (found, found)):
        assert _joined(found, end, 1e-6) is (None if not isinstance(end, Exact) else found)
        if not isinstance(end, Exact):
            assert _joined((found, found), (found, end), 1e-6) is None
            assert _joined((found, found), end, 1e-6) is None or isinstance(end, tuple)
    several = _joined((found, found), (found, of([1.5, 0.0], [1.75, 0.0])), 1e-6)
    assert isinstance(several, tuple) and [p.lo.tolist() for p in several] == [[1.0, -2.0]] * 2
    assert _joined(Exact(), found, 1e-6) is None and isinstance(_joined(Exact(), Exact(), 0.0), Exact)
    everything = of([-np.inf, -np.inf], [np.inf, np.inf])
    assert _joined(everything, found, 1e-6).hi.tolist() == [np.inf, np.inf]
    assert _joined(of([1.0], [np.inf]), of([0.5], [2.0]), 1e-6) is None


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("dtype", DTYPES[:4])
def test_a_number_is_read_as_it_is_and_as_each_format_on_its_way_holds_it(dtype, typed):
    lo, hi = 1.0 + 2.0**-40, 1.0 + 2.0**-30
    low, high = _read(Ends(lo, hi), dtype, typed, host_profile())
    seen = [x for end in (lo, hi) for x in (
        [end, *([] if dtype == torch.float64 else [float(np.float32(end))]),
         *([float(torch.tensor(end, dtype=dtype))] if typed else [])])]  # fmt: skip
    assert (float(low), float(high)) == (min(seen), max(seen))
    if dtype.itemsize == 2:
        third, near = _read(Ends(1 / 3, 1 / 3), dtype, typed, host_profile()), float(torch.tensor(1 / 3, dtype=dtype))
        assert (near in map(float, third)) == typed
