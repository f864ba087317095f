"""Pieces of outputs are the elements of the flattened output, whatever its layout."""

import numpy as np
import pytest

from render.result.blockwise import every, flat, many, some

LAYOUTS = {
    "contiguous": np.arange(24.0).reshape(4, 6),
    "transposed": np.arange(24.0).reshape(6, 4).T,
    "rows repeated": np.broadcast_to(np.arange(6.0), (4, 6)),
    "one element": np.broadcast_to(np.float32(2.5), (4, 6)),
    "one truth": np.broadcast_to(np.bool_(True), (4, 6)),
    "size one": np.ones((1, 1)),
    "empty": np.empty((0, 6)),
}


@pytest.mark.parametrize("x", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("at", [slice(0, 5), slice(3, 24), slice(20, 30)])
def test_a_piece_holds_the_flat_elements(x, at):
    found = flat(x, at)
    assert np.array_equal(found, np.array(x).reshape(-1)[at])
    assert found.dtype == (np.bool_ if x.dtype == np.bool_ else np.float64)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
@pytest.mark.parametrize("kind", ["no", "yes", "mixed"])
def test_masks_of_one_element_are_asked_as_others(shape, kind):
    one = np.broadcast_to(np.bool_(kind == "yes"), shape)
    x = np.random.default_rng(1).random(shape) < 0.5 if kind == "mixed" else one
    for mask in (np.asarray(x), np.array(x)):
        assert (some(mask), every(mask), many(mask)) == (bool(mask.any()), bool(mask.all()), np.count_nonzero(mask))
