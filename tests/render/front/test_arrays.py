"""numpy in watched code: differences are judged, what is not followed is named, numbers stay what numpy says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import render
from render.front.arrays import Followed


@triton.jit
def exp_kernel(x, y, n, F, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.exp(tl.load(x + i, mask=i < n)) * F, mask=i < n)


def sides(factor: float) -> tuple[Any, Any]:
    """A kernel's result and its reference as arrays."""
    x = torch.linspace(-2, 2, 60)
    y = torch.empty_like(x)
    exp_kernel[(1,)](x, y, 60, factor, B=64)
    return y.numpy(), torch.exp(x).numpy()


FORMS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: np.abs(a - b).max(),
    lambda a, b: float(np.max(np.abs(b - a))),
    lambda a, b: np.mean((a - b) ** 2),
    lambda a, b: np.linalg.norm(a - b),
    lambda a, b: np.abs(a[3:40] - b[3:40]).sum() / 37,
    lambda a, b: (np.abs(2 * a - 2.0 * b) < 1e-9).all(),
    lambda a, b: np.allclose(a, b),
    lambda a, b: np.isclose(a, b).mean(),
    lambda a, b: np.histogram(a - b, bins=4)[0],
    lambda a, b: np.testing.assert_array_less(np.abs(a - b), 9) is None,
    lambda a, b: np.testing.assert_array_max_ulp(a, b, 10**6),
    lambda a, b: np.abs(a - b.astype(np.float64)).max(),
    lambda a, b: np.abs(a.astype(np.float64) - b).max(),
    lambda a, b: np.abs(a.reshape(6, 10).T - b.reshape(6, 10).T).max(),
)


@pytest.mark.parametrize("form", FORMS, ids=range(len(FORMS)))
@pytest.mark.parametrize(("factor", "label"), [(1.0, "Type-I"), (1.01, "Type-II")])
def test_differences(form: Callable[[Any, Any], Any], factor: float, label: str) -> None:
    with render.watch(diagnose=False) as w:
        a, b = sides(factor)
        found = form(a, b)
    assert {v.label for v in w.verdicts} == {label}
    assert np.array_equal(found, form(np.array(a), np.array(b)))


def _rows(x: Any) -> Any:
    return x.reshape(6, 10)


UNFOLLOWED: tuple[Callable[[Any], Any], ...] = (
    lambda a: np.partition(a, 3) * 2, lambda a: a.astype(np.float64) * np.float64(3) + np.interp(a, a, a), np.sinc,
    lambda a: np.convolve(a, a), lambda a: np.fft.irfft(np.fft.rfft(a)), lambda a: a.argsort() * 1.5,
)  # fmt: skip


@pytest.mark.parametrize("form", UNFOLLOWED, ids=range(len(UNFOLLOWED)))
def test_what_is_not_followed_is_named(form: Callable[[Any], Any]) -> None:
    with render.watch(diagnose=False) as w:
        a, b = sides(1.0)
        np.abs(form(a) - form(b)).max()
    assert not w.verdicts or {v.label for v in w.verdicts} == {"Inconclusive"}


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "base two": lambda x: np.exp2(x * np.float32(1.4426950408889634)),
    "scalar": lambda x: np.exp(x - x.max() + x.max()),
    "widened": lambda x: np.exp(x.astype(np.float64)),
    "cast back": lambda x: np.exp(x.astype(np.float64)).astype(np.float32),
    "where": lambda x: np.where(x > 9, 0, np.exp(x)),
    "quotient": lambda x: 1 / np.exp(-x),
    "power": lambda x: np.exp(x / 2) ** 2,
    "root": lambda x: np.sqrt(np.exp(2 * x)),
    "in place": lambda x: np.exp(x, out=x.copy()),
    "hyperbolic": lambda x: np.cosh(x) + np.sinh(x),
    "clip": lambda x: np.exp(np.clip(x, -5, 5)),
    "one less": lambda x: np.expm1(x) + 1,
    "log": lambda x: np.exp(np.log(np.exp(x))),
    "shape": lambda x: np.exp(x.reshape(6, 10).T).T.reshape(-1),
    "joined": lambda x: np.concatenate([np.exp(x[:9]), np.exp(x[9:])]),
    "matrix": lambda x: (np.exp(x).reshape(6, 10) @ np.eye(10, dtype=np.float32)).reshape(-1),
    "statistics": lambda x: np.exp((x - x.mean()) / x.std() * x.std() + x.mean()),
    "rows": lambda x: np.exp(_rows(x) - _rows(x).max(1, keepdims=True) + np.max(_rows(x), axis=1)[:, None]).ravel(),
    "accumulated": lambda x: np.exp(np.cumsum(x)[-1:] - np.cumsum(x)[-1:] + x),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("wrong", [1.0, 1.001])
def test_references_of_numpys_are_followed(name: str, wrong: float) -> None:
    """A reference in numpy is judged as the same one in torch is; its numbers are numpy's."""
    x = torch.linspace(-2, 2, 60)
    y = torch.empty_like(x)
    with render.watch(diagnose=False) as w:
        exp_kernel[(1,)](x, y, 60, wrong, B=64)
        reference = FUNCTIONS[name](x.numpy())
        np.testing.assert_allclose(y.numpy(), reference, rtol=0.1)
    (verdict,) = w.verdicts
    assert verdict.label == ("Type-I" if wrong == 1 else "Type-II"), str(verdict)
    assert np.array_equal(np.asarray(reference), FUNCTIONS[name](x.numpy()))


BACK: dict[str, Callable[[Any], torch.Tensor]] = {
    "from_numpy": lambda x: torch.from_numpy(np.exp(x)),
    "from_numpy, then torch": lambda x: torch.from_numpy(np.exp(x)) * 2 - torch.from_numpy(np.exp(x)),
    "tensor": lambda x: torch.tensor(np.exp(x)),
    "widened": lambda x: torch.tensor(np.exp(x), dtype=torch.float64).float(),
    "as_tensor": lambda x: torch.as_tensor(np.exp(x[5:45])),
}


@pytest.mark.parametrize("name", BACK)
def test_what_comes_back_is_followed_on(name: str) -> None:
    found = []
    for wrong in (1.0, 1.001):
        x = torch.linspace(-2, 2, 60)
        y = torch.empty_like(x)
        with render.watch(diagnose=False) as w:
            exp_kernel[(1,)](x, y, 60, wrong, B=64)
            reference = BACK[name](x.numpy())
            torch.allclose(y if len(reference) == 60 else y[5:45], reference, rtol=1e-12, atol=0)
        found += [v.label for v in w.verdicts]
    assert found == ["Type-I", "Type-II"]


@pytest.mark.parametrize("write", [
    lambda a: a.sort(), lambda a: np.add.at(a, 3, 1.0),
    lambda a: np.copyto(a, a[::-1].copy()), lambda a: np.clip(a, 0, 1, out=a),
    lambda a: np.fill_diagonal(a.reshape(6, 10), 1.0), lambda a: a.fill(1.0), lambda a: a.put(3, 4.0),
])  # fmt: skip
def test_what_numpy_writes_is_not_taken_for_the_kernels(write: Callable[[Any], Any]) -> None:
    """Bytes that numpy stored have no bound: nothing is said of them, and that is said."""
    x = torch.linspace(2, -2, 60)
    y = torch.empty_like(x)
    with render.watch(diagnose=False) as w:
        exp_kernel[(1,)](x, y, 60, 1.0, B=64)
        write(y.numpy())
        torch.allclose(y, torch.exp(x))
    assert not w.verdicts and any("is not followed" in note for note in w.notes)


PUT: tuple[Callable[[Any], Any], ...] = (
    lambda y: y.numpy().__setitem__(slice(0, 5), 7.0), lambda y: y.numpy().__setitem__(4, 7.0),
    lambda y: y.numpy().__setitem__(np.arange(5), 7.0), lambda y: y.numpy().__setitem__(np.arange(60) < 5, 7.0),
    lambda y: y.numpy()[2:6].__setitem__(Ellipsis, y.numpy()[:4] * 2), lambda y: y[:5].fill_(7.0), lambda y: y.zero_(),
    lambda y: y[:5].copy_(torch.arange(5.0)), lambda y: y.masked_fill_(torch.arange(60) < 5, 7.0),
)  # fmt: skip


@pytest.mark.parametrize("put", PUT, ids=range(len(PUT)))
def test_what_host_code_puts_into_a_result_is_judged_with_its_line(put: Callable[[Any], Any]) -> None:
    x = torch.linspace(2, -2, 60)
    y = torch.empty_like(x)
    with render.watch() as w:
        exp_kernel[(1,)](x, y, 60, 1.0, B=64)
        put(y)
        torch.allclose(y, torch.exp(x))
    (found,) = w.verdicts
    assert (found.label, found.code) == ("Type-II", "RND201")
    first = put.__code__.co_firstlineno
    assert found.file == __file__ and found.line == first


def test_only_inside_and_only_the_users() -> None:
    plain = torch.ones(3).numpy()
    with render.watch(diagnose=False):
        inside = torch.ones(3).numpy()
        integers = torch.arange(3).numpy()
    assert type(plain) is type(integers) is np.ndarray and isinstance(inside, Followed)
    assert (inside + 1).tolist() == [2.0, 2.0, 2.0] and type(torch.ones(3).numpy()) is np.ndarray


@pytest.mark.parametrize("later", [lambda b: b, lambda b: b + 1, lambda b: torch.exp(b).log() + 1])
def test_what_numpy_computed_is_never_exact(later: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Half precision inside of a reference of numpy's: the kernel is right, whatever torch does with it afterwards."""
    x = torch.linspace(-2, 2, 60)
    coarse = torch.from_numpy(np.exp(x.numpy().astype(np.float16)).astype(np.float32))
    with render.watch(diagnose=False) as w:
        y = torch.empty_like(x)
        exp_kernel[(1,)](x, y, 60, 1.0, B=64)
        torch.allclose(later(y), later(coarse))
        torch.allclose(later(y), later(torch.from_numpy(np.exp(x.numpy().astype(np.float16)).astype(np.float32))))
    unseen, seen = w.verdicts
    assert unseen.label == "Inconclusive" and seen.label == "Type-I", "what is followed rounds as torch's half does"
