"""The front door as a library: watched code, comparisons of tensors, bounds of one tensor.

with render.cpu():                   # code written for a GPU runs here; what it computes is remembered
    y = softmax(x.cuda())
render.compare(y, torch.softmax(x, 1)).label
render.bound(y).lo

with render.watch(device="sm_90") as w:   # besides, every comparison inside is judged
    main()
w.verdicts
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import torch

from render.entry.execution import on_cpu, open_session
from render.entry.outputs import values
from render.front.comparisons import NothingToJudge
from render.front.history import history, rerun
from render.front.judge import aside
from render.front.steps import Given
from render.front.tape import Tape, plain
from render.front.watch import Tell, Watch
from render.result.errors import RenderError
from render.result.options import Options, listing_options, split
from render.result.verdict import Bound, Verdict

TAPE = Tape()
"""What all scopes of `cpu` and `watch` of this process remember; what no living tensor rests on is let go."""


@listing_options
def watch(tell: Tell = lambda found: None, **options: Any) -> Watch:
    """A scope in which every comparison with a kernel's result is judged: `w.verdicts`, `w.comparisons`.

    `tell` is called with each as it happens; options as those of `classify`. Code written for a GPU runs without one.
    Raises RenderError for an option that there is not.

        with render.watch() as w:
            assert torch.allclose(softmax(x), torch.softmax(x, 1))
        w.verdicts[0].label
    """
    return Watch(_options(options, "watch"), tell, TAPE)


def cpu(device: str = "any") -> Watch:
    """A scope, also a decorator, in which code written for a GPU runs on the CPU, kernels in the interpreter.

    Nothing is judged by itself; `compare` and `bound` know the tensors that it made. `device`: the profile that host
    code is told of. Raises RenderError for an unknown one.

        with render.cpu("a100"):
            out = softmax(torch.randn(8, 100, device="cuda"))
    """
    return Watch(Options(device=device), tape=TAPE, listens=False)


@listing_options
def compare(a: torch.Tensor, b: torch.Tensor, **options: Any) -> Verdict:
    """The verdict on two tensors `a` and `b`, whichever of them a kernel made (or both), inside of a scope or after it.

    Options as those of `classify`, as keywords or all in `options`. Raises RenderError where no kernel's result is on
    one side: it was made outside of `render.cpu()` and `render.watch()`, or both are the same.

        with render.cpu():
            out = kernel_function(x)
        render.compare(out, torch.relu(x), device="sm_80")
    """
    chosen = _options(options, "compare")
    for x, side in ((a, "first"), (b, "second")):
        if not isinstance(x, torch.Tensor) or not plain(x):
            raise RenderError(
                "RND903", f"the {side} operand is no dense tensor but {_kind(x)}", "compare(out, expected)"
            )
    try:
        return Watch(chosen, tape=TAPE).judged(a, b, sys._getframe(1), chosen)
    except NothingToJudge as why:
        hint = "run the kernel inside `with render.cpu():` or `with render.watch():`"
        raise RenderError("RND904", f"nothing to judge: {why}", hint) from None


@listing_options
def bound(tensor: torch.Tensor, **options: Any) -> Bound:
    """What a legal execution may have left in a tensor that kernels (or host code behind them) computed.

    Returned are `lo` and `hi`, float64 arrays in the shape of `tensor`; NaN where nothing is known. `options` are
    those of `classify`. Raises RenderError for a tensor that no kernel had a part in.

        with render.cpu("sm_90"):
            out = softmax(x)
        render.bound(out).hi - render.bound(out).lo
    """
    chosen, tape = _options(options, "bound"), TAPE
    place = tape.known(tensor) if isinstance(tensor, torch.Tensor) and plain(tensor) else None
    if place is None or not place.cell.kernel:
        hint = "run the kernel inside `with render.cpu():` or `with render.watch():`"
        raise RenderError("RND904", "no kernel had a part in this tensor", hint)
    with aside(), tape.paused(), on_cpu(chosen.device):
        steps = list(history(place.cell, tape.now).values())
        with open_session(chosen.device, **chosen.for_session) as session:
            found = rerun(steps, place, {s.writes[0]: s.data for s in steps if isinstance(s, Given)})
            envelope = session.envelope(found, take=True)
    value = values(found).astype(np.float64)
    known = envelope is not None and not envelope.taints
    lo, hi = (np.broadcast_to(e, value.shape).astype(np.float64) for e in (envelope.lo, envelope.hi)) if known else (
        np.full(value.shape, np.nan),) * 2  # fmt: skip
    return _described(lo, hi, value)


def _described(lo: np.ndarray, hi: np.ndarray, value: np.ndarray) -> Bound:
    with np.errstate(all="ignore"):
        half, middle = (hi - lo) / 2, np.abs((hi + lo) / 2)
        relative = np.where(half == 0, 0.0, 2 * half / middle)
        usage = np.where(half == 0, np.where(value == lo, 0.0, np.inf), np.abs(value - (hi + lo) / 2) / half)
    bounded = np.isfinite(half)
    median = [float(np.median(x[bounded])) if bounded.any() else float("nan") for x in (relative, half)]
    most = [float(np.max(x, initial=0.0, where=~np.isnan(x))) for x in (relative, half)]
    return Bound(lo, hi, partial(np.copy, usage), median[0], most[0], median[1], most[1])


def _options(keywords: dict[str, Any], of: str) -> Options:
    chosen, others = split(keywords)
    if others:
        raise RenderError("RND902", f"{of}() has no option {next(iter(others))!r}", "see help(render.classify)")
    return chosen


def _kind(x: Any) -> str:
    return f"{type(x).__name__} of layout {x.layout}" if isinstance(x, torch.Tensor) else type(x).__name__
