"""A call is bound as Python binds it, and kinds of arguments that were taken once are not asked about again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton._C import libtriton

from render.interpreter.arguments import bind, constexpr_names, warps_of
from render.interpreter.session import Session


@triton.jit
def kernel(X, n, scale=2.0, BLOCK: tl.constexpr = 16, num_warps: "tl.constexpr" = 4):  # noqa: UP037
    pass


@triton.jit
def only_named(X, *, n):
    pass


@triton.jit
def annotated(X, n: int, m: "tl.int32", B: tl.constexpr, C: "tl.constexpr" = 3):  # noqa: UP037
    pass


def test_constants_are_those_that_are_annotated_so() -> None:
    assert constexpr_names(annotated) == {"B", "C"}


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1, 2), {}), ((1,), {"n": 2}), ((), {"n": 2, "X": 1}), ((1, 2, 3.0, 4, 5), {}), ((1, 2), {"BLOCK": 4, "scale": 0}),
    ((), {}), ((1,), {}), ((1, 2), {"X": 3}), ((1, 2, 3, 4, 5, 6), {}), ((1, 2, 3, 4, 5), {"n": 1}),
]  # fmt: skip


def outcome(call: Any) -> Any:
    try:
        found = call()
    except TypeError as error:
        return str(error)
    return list(found.arguments.items()), found.args, found.kwargs


@pytest.mark.parametrize("jitted", [kernel, only_named])
def test_a_call_is_bound_as_python_binds_it(jitted: Any) -> None:
    parameters = jitted.signature.parameters

    def by_python(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = jitted.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound

    for args, kwargs in CALLS:
        named = {k: v for k, v in kwargs.items() if k in parameters}
        expected = outcome(lambda args=args, named=named: by_python(args, named))
        assert outcome(lambda args=args, named=named: bind(jitted, args, named).bound) == expected
        if not isinstance(expected, str):
            call = bind(jitted, args, named)
            assert call.given(call.arguments) == (call.bound.args, call.bound.kwargs)


def test_constexpr_parameters_are_told_by_annotations_of_any_form() -> None:
    assert constexpr_names(kernel) == {"BLOCK", "num_warps"} and constexpr_names(only_named) == set()


@triton.jit
def copy(X, Out, n, flag, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(Out + i, tl.load(X + i, mask=i < n), mask=i < n)


def test_what_was_taken_once_is_not_asked_about_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    plain = libtriton.native_specialize_impl
    monkeypatch.setattr(libtriton, "native_specialize_impl", lambda *a: (asked.append(a[1]), plain(*a))[1])
    x, out = torch.rand(16), torch.zeros(16)
    with Session("ieee"):
        copy[(1,)](x, out, 16, 1.5, BLOCK=16)
        asked.clear()
        copy[(1,)](torch.rand(16), out, 12, float("inf"), BLOCK=16)
        assert asked == []
        copy[(1,)](x, out, 1 << 63, 1.5, BLOCK=16)
        assert asked == [1 << 63]
        for wrong in (1 << 64, object(), {}):
            with pytest.raises((TypeError, OverflowError, KeyError)):
                copy[(1,)](x, out, wrong, True, BLOCK=16)


@pytest.mark.parametrize(("told", "warps"), [(None, 4), (1, 1), (8, 8), ("16", 16), (0, 4)])
def test_a_program_has_the_warps_that_the_launch_says(told: Any, warps: int) -> None:
    assert (warps_of({"num_warps": told}), warps_of({"num_stages": told})) == (warps, 4)
    with pytest.raises(TypeError, match="num_warps is an int, not 'many'"):
        warps_of({"num_warps": "many"})
