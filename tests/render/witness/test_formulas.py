"""Everything that makes a bound has a second evaluation that agrees: a new rule without one fails here."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from render.classify import classify
from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.exact.intervals import interval
from render.interpreter.ordering import Ordering
from render.ops.library import CONVERSIONS, LIBRARY
from render.ops.table import RULES
from render.trace import slice_of
from render.trace.host_links import KNOWN as ON_HOST_KNOWN
from render.witness.check import rechecked
from render.witness.formulas import LOOSE
from render.witness.make import LIMIT, CannotMake, Claim, cost, make
from tests.render.trace import test_host_sums as host_sums
from tests.render.witness.table import EXACT, Case, N, called, conversions, host, language, library

LANGUAGE, SINGLE, DOUBLE, CONVERTED = language(), library(torch.float32), library(torch.float64), conversions()
ON_HOST = host()
ELSEWHERE = {"_convolution", "linear", "mkldnn_convolution", "mkldnn_linear", "relu6"}
"""Names that other backends and versions of torch have for operations that are held here under their usual one."""
NO_BOUND = {"atomic_load", "atomic_store", "atomic_cas", "atomic_poll"}
"""What they return is open (any number), or left to the order of programs and tainted."""


def opinion(case: Case) -> list[tuple[Any, Any, float]]:
    """(slice, answer, width of the bound) for an element of every output, claimed far outside its bound."""
    args = case.args()
    call = Entry(case.fn, of_call(case.fn, args, {}), case.device)
    run = call.run()
    found = []
    for output in run.outputs:
        width = output.hi - output.lo
        finite = np.isfinite(width)
        assert finite.any(), "there is a bound"
        places = np.argwhere(finite & (width > 0) if (finite & (width > 0)).any() else finite)
        at = tuple(int(i) for i in places[len(places) // 2])
        size = float(width[at]) + 2.0**-30 * abs(float(output.hi[at])) + 2.0**-900
        claim = float(output.hi[at]) + 100 * size
        piece = slice_of(call, run, output.name, at)
        document, answer = make(piece, Claim("reference", claim, claim))
        assert rechecked(document) == answer
        found.append((piece, answer, float(width[at])))
    return found


def agrees(case: Case) -> None:
    for piece, answer, width in opinion(case):
        assert answer.agrees, answer.why
        low, high = (float.fromhex(end) for end in answer.enclosure)
        room = max(case.room, 4.0 if any(n.op in LOOSE for n in piece.nodes) else 1.0)
        slack = 2.0**-20 if piece.profile.name == "ieee" else 0.0
        assert high - low <= room * width + slack, "as close as the bound of the run"


@pytest.mark.parametrize("case", LANGUAGE, ids=lambda c: c.name)
def test_operations_of_the_language(case: Case) -> None:
    agrees(case)


@pytest.mark.parametrize("case", [*SINGLE, *CONVERTED], ids=lambda c: c.name)
def test_functions_of_the_library(case: Case) -> None:
    agrees(case)


@pytest.mark.parametrize("case", ON_HOST, ids=lambda c: c.name)
def test_host_code_after_the_kernel(case: Case) -> None:
    agrees(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", DOUBLE, ids=lambda c: c.name)
def test_functions_of_the_library_in_double_precision(case: Case) -> None:
    agrees(case)


def test_nothing_is_left_out() -> None:
    covered = {name for case in (*LANGUAGE, *SINGLE, *CONVERTED) for name in case.covers}
    natives = {"sort", "topk", "bitonic_merge", "flip", "map_elementwise"}
    combined = {"reduce welford", "reduce componentwise", "scan linear"}
    vendor = {f"library {n}" for n in (*LIBRARY, *CONVERSIONS) if n not in EXACT}
    assert (set(RULES) - NO_BOUND) | natives | combined | vendor <= covered
    on_host = {name.removesuffix("_") for case in ON_HOST for name in case.covers}
    assert on_host | host_sums.met() | ELSEWHERE >= ON_HOST_KNOWN
    assert len(Ordering(None, None).natives()) == len(natives) - 1, "a native function without a case"


PLANTED = ("fma", "sort", "recurrence False", "welford", "map_elementwise", "dot_scaled e4m3 bf16 any")


@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_reference_is_a_type_ii_with_a_witness(name: str) -> None:
    case = next(c for c in LANGUAGE if c.name == name)
    args = case.args()
    right = Entry(case.fn, of_call(case.fn, args, {}), case.device).run().outputs

    def wrong(*_: Any) -> Any:
        found = [torch.from_numpy(np.array(o.hi + 2000 * (o.hi - o.lo) + 1e-3 * abs(o.hi))) for o in right]
        return found[0] if len(found) == 1 else tuple(found)

    verdict = classify(case.fn, *args, ref=wrong, device=case.device, budget=False)
    assert (verdict.label, verdict.code, verdict.witness.status) == ("Type-II", "RND201", "agrees")


def test_enclosures_and_bounds_meet() -> None:
    case = next(c for c in LANGUAGE if c.name == "dot tf32")
    ((piece, answer, _),) = opinion(case)
    ends = interval(*(float.fromhex(end) for end in answer.enclosure))
    bound = interval(piece.lo, piece.hi)
    assert ends is not None and bound is not None and ends[1] >= bound[0] and bound[1] >= ends[0]


def test_an_exponential_far_out_holds_what_runs() -> None:
    """2^fl(x fl(log2 e)), which the error of ex2 around e^x alone does not reach."""
    x = torch.full((N,), -79.96136)
    case = Case("fast_expf", called("fast_expf"), lambda: (x,), ("library fast_expf",))
    ((_, answer, _),) = opinion(case)
    low, high = (mpmath.mpf(float.fromhex(end)) for end in answer.enclosure)
    runs = mpmath.mpf(2) ** float(np.float32(x[0]) * np.float32(math.log2(math.e)))
    assert low <= runs <= high and abs(runs / mpmath.exp(float(x[0])) - 1) > 20 * 2.0**-23


@pytest.mark.parametrize(("op", "attrs", "size", "width", "fits"), [
    ("dot", {"kind": "fp16"}, 50_000, 64, True), ("sum", {"fmt": "fp64"}, 1, 5_000_000, True),
    ("fadd", {"fmt": "fp32"}, 2_000_000, 1, True), ("exp", {"fmt": "fp64"}, 60_000, 1, True),
    ("library erfcinv", {"fmt": "fp32"}, 300_000, 1, True), ("library erfcinv", {"fmt": "fp32"}, 500_000, 1, False),
    ("library j0", {"fmt": "fp32"}, 50_000, 1, False), ("fadd", {"fmt": "fp32"}, 50_000_000, 1, False),
])  # fmt: skip
def test_what_a_slice_costs_is_counted(op: str, attrs: dict[str, str], size: int, width: int, fits: bool) -> None:
    """No clock: the work that was measured per operand, term and value."""
    operand = np.broadcast_to(np.zeros(1, np.int64), (size, width))
    node = SimpleNamespace(op=op, attrs=attrs, size=size, operands=[operand, operand])
    assert (cost(SimpleNamespace(nodes=[node])) <= LIMIT) == fits


def test_what_would_take_too_long_is_not_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(c for c in LANGUAGE if c.name == "exp")
    monkeypatch.setattr("render.witness.make.LIMIT", 10)
    with pytest.raises(CannotMake, match="too long"):
        opinion(case)
