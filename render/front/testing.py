"""For tests: an assertion whose message is the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from render.front.api import compare
from render.judgement.question import of_call_with
from render.result.verdict import Verdict


def assert_roundoff(
    fn: Callable[..., Any] | torch.Tensor,
    *inputs: Any,
    ref: str | Callable[..., Any] | None = None,
    allow_inconclusive: bool = False,
    **keywords: Any,
) -> Verdict:
    """The verdict on `fn(*inputs)` against `ref` (or on two tensors, as `render.compare`), if it is Type-I.

    Raises AssertionError with the whole report for a Type-II, and for an Inconclusive unless that is allowed
    (`allow_inconclusive`). `keywords` are those of `render.classify`.

        render.testing.assert_roundoff(matmul, a, b, ref=torch.matmul, device="sm_90")
    """
    __tracebackhide__ = True
    verdict = compare(fn, *inputs, **keywords) if isinstance(fn, torch.Tensor) else of_call_with(
        fn, inputs, keywords, ref)  # fmt: skip
    if verdict.label == "Type-I" or (allow_inconclusive and verdict.label == "Inconclusive"):
        return verdict
    raise AssertionError(f"\n{verdict}")
