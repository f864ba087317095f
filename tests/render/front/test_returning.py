"""Results that go through files, pickles, text and lists are still what a kernel or a reference computed."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from third_kernel import kernel

import render
from render.front.returning import _TELLING, _told


def _buffered(save: Callable[[Any, Any], Any], load: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def there_and_back(x: Any) -> Any:
        buffer = io.BytesIO()
        save(x, buffer)
        buffer.seek(0)
        return load(buffer)

    return there_and_back


def _zipped(x: torch.Tensor) -> Any:
    def load(buffer: Any) -> Any:
        return np.load(buffer)["second"]

    return _buffered(lambda a, f: np.savez(f, first=np.zeros(3), second=a), load)(x.numpy())


def _in_numbers(x: torch.Tensor) -> Any:
    out = np.zeros(20)
    for i, row in enumerate(x.reshape(20, 2)):
        out[i] = row.sum().item()
    return out


WAYS: dict[str, Callable[[torch.Tensor], Any]] = {
    "torch.save": _buffered(torch.save, torch.load),
    "in a dictionary": lambda x: _buffered(torch.save, torch.load)({"state": [x, 1]})["state"][0],
    "safetensors": lambda x: safetensors.torch.load(safetensors.torch.save({"a": x, "b": x + 1}))["a"],
    "np.save": lambda x: _buffered(lambda a, f: np.save(f, a), np.load)(x.numpy()),
    "np.savez": _zipped,
    "text": lambda x: _buffered(lambda a, f: np.savetxt(f, a), np.loadtxt)(x.numpy()),
    "bytes": lambda x: np.frombuffer(x.numpy().tobytes(), np.float32).copy(),
    "pickled array": lambda x: pickle.loads(pickle.dumps(x.numpy() * 2)),
    "json": lambda x: torch.tensor(json.loads(json.dumps(x.tolist()))),
    "np.array of a list": lambda x: np.array(x.tolist(), np.float32),
    "np.array of numbers": lambda x: np.array([v.item() for v in x]),
    "into np.zeros": _in_numbers,
    "np.array of arrays": lambda x: np.array([row.numpy() for row in x.reshape(4, 10)]),
    "in part": lambda x: torch.from_numpy(np.load(io.BytesIO(_saved(x)))[5:25].copy()),
    "in another precision": lambda x: torch.from_numpy(np.load(io.BytesIO(_saved(x.bfloat16().float())))),
}  # fmt: skip


def _saved(x: torch.Tensor) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, x.numpy())
    return buffer.getvalue()


@pytest.mark.parametrize(
    "name", [n if i % 4 == 0 else pytest.param(n, marks=pytest.mark.slow) for i, n in enumerate(WAYS)]
)
@pytest.mark.parametrize(("factor", "label"), [(1.0, "Type-I"), pytest.param(1.01, "Type-II", marks=pytest.mark.slow)])
def test_what_comes_back_is_what_left(name: str, factor: float, label: str) -> None:
    way = WAYS[name]
    with render.watch(diagnose=False) as w:
        x = torch.linspace(0.3, 2, 40)
        one, two = way(kernel(x, factor)), way(x * (1 / 3))
        (np if isinstance(one, np.ndarray) else torch).allclose(one, two)
    assert [v.label for v in w.verdicts] == [label]


def test_a_difference_of_loaded_arrays_is_heard() -> None:
    with render.watch(diagnose=False) as w:
        x = torch.linspace(0.3, 2, 40)
        one, two = (np.load(io.BytesIO(_saved(y))) for y in (kernel(x, 1.01), x / 3))
        print(np.abs(one - two).max())
    assert [v.label for v in w.verdicts] == ["Type-II"]


def test_equal_in_every_bit_each_is_found_once() -> None:
    with render.watch(diagnose=False) as w:
        x = torch.linspace(0.3, 2, 40)
        one, two = (np.load(io.BytesIO(_saved(y))) for y in (kernel(x, 1.0), x / 3))
        np.testing.assert_array_equal(one, two)
    assert [(v.label, v.code) for v in w.verdicts] == [("Type-I", "RND100")]


def test_a_golden_file_that_equals_the_result_is_no_result() -> None:
    golden = (torch.linspace(0.3, 2, 40) / 3).numpy().tobytes()
    with render.watch(diagnose=False) as w:
        out = kernel(torch.linspace(0.3, 2, 40), 1.0).numpy()
        np.testing.assert_array_equal(out, np.frombuffer(golden, np.float32))
    assert [v.label for v in w.verdicts] == ["Type-I"]


def test_constants_tell_nothing() -> None:
    """A kernel stored zeros; an array of zeros is not what it stored."""
    with render.watch(diagnose=False) as w:
        out = kernel(torch.zeros(40), 1.0)
        assert not out.numpy().any()
        shift = torch.from_numpy(np.zeros(40, np.float32))
        torch.allclose(kernel(torch.ones(40), 1.0), torch.ones(40) / 3 + shift)
    assert [v.label for v in w.verdicts] == ["Type-I"]
    assert all(_told(torch.tensor(x)) < _TELLING for x in ([0.0, 1.0, float("inf")], [3.0, 5.0, 0.25]))


def test_numbers_of_elsewhere_are_not_taken_for_results() -> None:
    with render.watch(diagnose=False) as w:
        y = kernel(torch.linspace(0.3, 2, 40), 1.0).numpy()
        other = np.array([0.1, 0.2, float(np.float32(0.3)) / 3])
        np.allclose(y[:3], other)
    assert "computed elsewhere" in w.verdicts[0].message or w.verdicts[0].label != "Type-I"
