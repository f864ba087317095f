"""Inputs that numpy made and references that numpy computed of them: right kernels are Type-I, wrong ones Type-II."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
import torch
import triton
import triton.language as tl

import render
from render.front import arrays, sources
from render.front.arrays import Followed

N = 120


@triton.jit
def exp_kernel(x, y, n, F, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.exp(tl.load(x + i, mask=i < n)) * F, mask=i < n)


def on_kernel(x: Any, factor: float) -> Any:
    given = torch.from_numpy(x)
    y = torch.empty_like(given)
    exp_kernel[(2,)](given, y, N, factor, B=64)
    return y.numpy()


SOURCES: dict[str, Callable[[], Any]] = {
    "generator": lambda: np.random.default_rng(0).standard_normal(N, dtype=np.float32),
    "class": lambda: np.random.Generator(np.random.PCG64(1)).uniform(-1, 1, (N,)).astype(np.float32),
    "module": lambda: np.random.randn(N).astype(np.float32),  # noqa: NPY002
    "state": lambda: np.random.RandomState(3).rand(2, N // 2).reshape(-1).astype("float32"),
    "integers": lambda: np.random.default_rng(2).integers(-3, 3, N).astype(np.float32),
    "scaled": lambda: (np.random.default_rng(2).random(N) * 2 - 1).astype(np.float32),
    "linspace": lambda: np.linspace(-2, 2, N, dtype=np.float32),
    "divided": lambda: (np.arange(N) / N).astype(np.float32),
    "arange": lambda: np.arange(0, 1.2, 0.01, dtype=np.float32),
    "list": lambda: np.array([0.01 * i for i in range(N)], dtype=np.float32),
    "asarray": lambda: np.asarray(np.random.default_rng(1).random(N), dtype=np.float32),
    "contiguous": lambda: np.ascontiguousarray(np.random.default_rng(1).random((N, 2), dtype=np.float32)[:, 0]),
    "filled": lambda: np.full(N, 0.3, np.float32),
    "written": lambda: _written(),
}


def _written() -> Any:
    x = np.zeros(N, np.float32)
    x[: N // 2] = np.random.default_rng(4).random(N // 2)
    x[N // 2] = 0.7
    x[N // 2 + 1 :] -= 0.25
    return x


def _loop(x: Any) -> Any:
    r = np.zeros_like(x)
    for i in range(0, N, 40):
        r[i : i + 40] = np.exp(x[i : i + 40])
    return r


def _masked(x: Any) -> Any:
    r = np.exp(-np.abs(x))
    r[x > 0] = 1 / r[x > 0]
    r[[3, 5]] = np.exp(x[[3, 5]])
    return r


REFERENCES: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "loop": _loop,
    "float64": lambda x: np.exp(x.astype(np.float64)),
    "list of rows": lambda x: np.array([np.exp(x[i : i + 40]) for i in range(0, N, 40)]).reshape(-1),
    "out": lambda x: np.exp(x, out=np.empty_like(x)),
    "numbers": lambda x: np.exp(x - x.mean()) * (1 / np.exp(-np.mean(x) + 0.0) ** 1) * np.sqrt(x.var() * 0 + 1.0),
    "stacked numbers": lambda x: np.exp(x + (np.array([x.max() * 2, -x.max()]).sum() - x.max())),
    "elements": lambda x: np.array([np.exp(v) for v in x]),
    "vectorized": lambda x: np.vectorize(lambda v: math.exp(v))(x),
    "by a column": lambda x: np.exp(x - x[3]) * np.exp(x[3]),
    "average": lambda x: np.exp(x) * np.average(np.ones_like(x), weights=np.abs(x) + 0.5),
    "of a library": lambda x: np.exp(scipy.special.logsumexp(np.stack([x, x * 0 - 90]), axis=0)),
    "masked": lambda x: _masked(x),
    "copied": lambda x: np.roll(np.exp(np.roll(np.copy(x), 1)), -1),
}
COMPARISONS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda y, r: np.allclose(y, r, rtol=1),
    lambda y, r: np.abs(y - r).max(),
    lambda y, r: np.linalg.norm(y - r),
    lambda y, r: np.isclose(y, r).all(),
)
CASES = [*((s, "exp") for s in SOURCES), *(("generator", r) for r in REFERENCES), ("divided", "loop")]


def labels(source: str, reference: str, compare: Callable[[Any, Any], Any], factor: float) -> set[str]:
    with render.watch() as w:
        x = SOURCES[source]()
        compare(on_kernel(x, factor), REFERENCES[reference](x))
    return {v.label for v in w.verdicts}


@pytest.mark.parametrize(("source", "reference"), CASES)
def test_right_and_wrong(source: str, reference: str) -> None:
    compare = COMPARISONS[CASES.index((source, reference)) % len(COMPARISONS)]
    assert labels(source, reference, compare, 1.0) == {"Type-I"}
    assert labels(source, reference, compare, 1.01) == {"Type-II"}


def test_what_numpy_computed_unseen_is_of_unknown_error() -> None:
    with render.watch() as w:
        x = np.random.default_rng(0).random(N, dtype=np.float32)
        grid = np.linspace(-1, 2, 1000)
        reference = np.interp(x, grid, np.exp(grid)).astype(np.float32)
        y = on_kernel(x, 1.01)
        np.abs(y - reference).max()
        assert not w.verdicts and any("taken for a loss" in note for note in w.notes)
        np.allclose(y, reference)
    assert [(v.label, v.code) for v in w.verdicts] == [("Inconclusive", "RND302")]
    assert "error that is not known" in w.verdicts[0].message


@pytest.mark.parametrize("spoil", [
    lambda rng, x: rng.shuffle(x), lambda rng, x: rng.standard_normal(out=x, dtype=np.float32),
    lambda rng, x: rng.permuted(x, out=x), lambda rng, x: np.put(x, 3, 5.0), lambda rng, x: x.view(np.int32).fill(0),
])  # fmt: skip
def test_what_is_written_unseen_is_not_what_was_there(spoil: Callable[[Any, Any], Any]) -> None:
    with render.watch() as w:
        rng = np.random.default_rng(0)
        x = rng.random(N, dtype=np.float32)
        spoil(rng, x)
        np.allclose(on_kernel(x, 1.0), np.exp(x))
        np.allclose(on_kernel(x, 1.01), np.exp(x))
    assert [v.label for v in w.verdicts] == ["Type-I", "Type-II"]


def test_an_element_is_what_it_was_when_it_was_read() -> None:
    with render.watch() as w:
        x = np.random.default_rng(0).random(N, dtype=np.float32)
        first, second = x[0] * 1, x[1]
        x[0], x[1] = 0.25, 0.5
        np.allclose(on_kernel(x, 1.0), np.exp(x - first) * np.exp(first))
        np.allclose(on_kernel(x, 1.0), np.exp(x - second) * np.exp(second))
    assert w.verdicts[0].label == "Type-I" and w.verdicts[1].code in ("RND102", "RND105", "RND302")


def test_a_table_made_element_by_element_ends_being_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "OPERATIONS", 200)
    with render.watch() as w:
        x = np.random.default_rng(0).random(N, dtype=np.float32)
        np.allclose(on_kernel(x, 1.01), np.exp(x))
        for _ in range(100):
            x = np.abs(x * 0.999)
        np.allclose(on_kernel(x, 1.01), np.exp(x))
    assert [v.code for v in w.verdicts] == ["RND201", "RND302"]
    assert any("after 200 operations" in note for note in w.notes)


def test_the_users_own_lists_and_shapes_are_theirs() -> None:
    def made() -> list[Any]:
        rng, cards = np.random.default_rng(3), list(range(20))
        np.random.seed(4)  # noqa: NPY002
        np.random.shuffle(cards)  # noqa: NPY002
        more = list("abcdefgh")
        rng.shuffle(more)
        x = rng.random(torch.empty(3, 4).shape)
        return [cards, more, x[np.argsort(x[:, 0])[::-1]], x[:, [2, 0]], np.broadcast_to(x[0], torch.Size((2, 4)))]

    plain = made()
    with render.watch():
        inside = made()
    assert plain[0] != sorted(plain[0]) and plain[:2] == inside[:2]
    assert all(np.array_equal(a, b) for a, b in zip(plain[2:], inside[2:], strict=True))


def test_what_is_written_in_part_is_data() -> None:
    with render.watch() as w:
        x = np.random.default_rng(0).random(N, dtype=np.float32)
        r = np.zeros_like(x)
        np.exp(x, out=r, where=x > -1)
        np.allclose(on_kernel(x, 1.0), r)
        np.allclose(on_kernel(x, 1.01), r)
        x[np.arange(N)[::-1]] = x.copy()
        np.allclose(on_kernel(x, 1.01), np.exp(x))
    assert [v.label for v in w.verdicts] == ["Type-I", "Inconclusive", "Type-II"]


def test_a_large_array_lies_in_memory_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LARGEST", 1 << 10)
    with render.watch() as w:
        assert isinstance(np.zeros(100), Followed) and type(np.zeros(1000)) is np.ndarray
    assert any("not followed" in note for note in w.notes)


def test_classes_of_formats_are_formats() -> None:
    """What numpy's own tests of closeness hand on where they fail."""
    with render.watch():
        x = np.random.default_rng(0).random(N, dtype=np.float32)
        assert np.sum(x > 0.5, dtype=np.int64) == np.count_nonzero(np.array(x) > 0.5)
        assert x.astype(np.longdouble).sum(dtype=np.float64) > 0 and np.mean(x, dtype="f8").dtype == np.float64
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            np.testing.assert_allclose(on_kernel(x, 1.5), np.exp(x))


def test_numbers_and_classes_stay_what_numpy_says() -> None:
    def made() -> list[Any]:
        rng, old = np.random.default_rng(5), np.random.RandomState(5)
        return [rng.random(4), rng.permutation(6), rng.integers(9), old.rand(3), np.array([1.5, 2]), np.eye(2),
                np.linspace(0, 1, 5), np.full((2, 2), 0.1), np.asarray([1, 2]), rng.choice([0.5, 1.5], 3)]  # fmt: skip

    plain = made()
    classes = np.random.Generator, np.random.RandomState
    outside = np.random.default_rng(1)
    with render.watch():
        inside = made()
        mine = np.random.default_rng(1)
        assert isinstance(mine, np.random.Generator) and isinstance(outside, np.random.Generator)
        assert isinstance(mine, classes[0]) and np.random.default_rng(mine) is mine
        assert pickle.loads(pickle.dumps(mine)).random() == outside.random()
    assert all(np.array_equal(a, b) and np.asarray(a).dtype == np.asarray(b).dtype
               for a, b in zip(plain, inside, strict=True))  # fmt: skip
    assert (np.random.Generator, np.random.RandomState) == classes
    assert type(np.random.default_rng(1)) is classes[0] and type(np.ones(2)) is not Followed
