"""References in numpy: E rounds nothing there either, and tables of a right kernel are tables."""

import numpy as np
import pytest
import torch

from render.entry.left_arrays import WidenedArray, widened_arrays
from tests.render.judgement.test_handed import scaled
from tests.verdicts import classify

X = torch.randn(16, 32, generator=torch.Generator().manual_seed(1))
ONES, HALVES = torch.ones(16, 32), torch.full((16, 32), 0.5)
TABLE = torch.exp(-torch.arange(512.0) / 100).view(16, 32)


def affine(x):
    return np.asarray(x) * 0.3 + 0.5


def in_steps(x):
    given, out = x.numpy().astype(np.float32), np.zeros((16, 32), dtype=np.float16)
    for i, row in enumerate(given):
        out[i] = row * 0.3 + 0.5
    return out


def of_floats(x):
    return torch.from_numpy(np.asarray(x.float().numpy(), dtype=np.float32) * 0.3 + 0.5).to(x.dtype)


def regrouped(x):
    return (x.numpy() + np.float32(0.5) / np.float32(0.3)) * np.float32(0.3)


def by_table(x):
    return x.numpy() * np.exp(-np.arange(512, dtype=np.float32) / 100).reshape(16, 32)


PROGRAMS = {
    "ufuncs": (torch.float32, affine, 0.3), "a loop": (torch.float16, in_steps, 0.3),
    "casts": (torch.bfloat16, of_floats, 0.3), "other roundings": (torch.float32, regrouped, 0.3),
    "tables": (torch.float32, by_table, None),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(("gain", "label"), [(1.0, "Type-I"), (1.02, "Type-II")])
def test_a_reference_in_numpy_judges(name, gain, label):
    dtype, reference, factor = PROGRAMS[name]

    def entry(x):
        out = scaled(x.float(), TABLE if factor is None else ONES * factor, HALVES * (factor is not None), gain)
        return out.to(dtype)

    assert classify(entry, X.to(dtype), ref=reference).label == label


def test_another_function_by_its_type_is_not_taken_for_exact():
    def reference(x):
        given = x.numpy()
        return given * (0.3 if given.dtype == np.float32 else 0.6)

    zeros = torch.zeros(16, 32)
    assert classify(lambda x: scaled(x, ONES * 0.3, zeros), X, ref=reference).label == "Type-I"
    assert classify(lambda x: scaled(x, ONES * 0.6, zeros), X, ref=reference).label == "Inconclusive"


def test_arrays_stay_float64_where_the_user_makes_them():
    x = torch.arange(3.0, dtype=torch.float64)
    with widened_arrays(True, lambda x: x + 0.125):
        made = x.numpy(), np.zeros(2, np.float32), np.asarray(x, np.float16), np.array([0.1], np.float32)
        assert [a.dtype for a in made] == [np.float64] * 4 and isinstance(made[0].astype(np.float16), WidenedArray)
        assert made[0].tolist() == [0.125, 1.125, 2.125] and made[3][0] == np.float32(0.1), "constants as they are"
        assert np.arange(3).dtype.kind == "i" and made[0].astype(np.int32).dtype == np.int32
        z = np.zeros
        assert z(2, np.float32).dtype == np.float32, "by a name of the user's own it may be anybody's"
        drawn = np.random.default_rng(3).random(5, dtype=np.float32)
    assert drawn.tolist() == np.random.default_rng(3).random(5, dtype=np.float32).tolist(), "compiled code fills it"
    assert np.zeros(2, np.float32).dtype == np.float32 and type(x.numpy()) is np.ndarray


@pytest.mark.parametrize(("gain", "label"), [(1.0, "Type-I"), (1.02, "Type-II")])
def test_what_compiled_code_of_numpy_fills_is_what_it_is(gain, label):
    zeros = torch.zeros(16, 32)

    def entry(x):
        drawn = np.random.default_rng(1).random((16, 32), dtype=np.float32)
        return scaled(x, torch.from_numpy(drawn), zeros, gain)

    def reference(x):
        out, drawn = np.empty((16, 32), dtype=np.float32), np.random.default_rng(1)
        drawn.random(dtype=np.float32, out=(kept := np.ndarray((16, 32), np.float32)))
        out[...] = kept
        return x * torch.from_numpy(out)

    assert classify(entry, X, ref=reference).label == label
