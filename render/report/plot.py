"""A figure of a verdict by matplotlib: how far every element lies from the middle of its bound, against its half width.

Left along the flattened output, right one against the other. What is compared is the device output, else the reference.
What a test allows around the reference is drawn beside it. Of a large output, each run of neighbours is drawn by the
element that uses most of its bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from render.report.svg import INSIDE, OUTSIDE, UNKNOWN
from render.report.text import index, number, shape
from render.result.decision import Case, device_bound, ref_bound
from render.result.errors import RenderError
from render.result.needs import drawable, drawn, pyplot

if TYPE_CHECKING:
    from render.result.verdict import OutputVerdict, Verdict

POINTS, OUTPUTS, WORST = 500, 3, 3
"""Marks per panel, outputs and named elements that are drawn at most."""


@dataclass(frozen=True)
class _Marks:
    """One mark per element, or for the worst of `run` neighbours: places in the flat output, distances from the middle
    of the bound, half widths, allowances of a test, usage. `unknown`: places without a bound."""

    at: np.ndarray
    error: np.ndarray
    half: np.ndarray
    allowed: np.ndarray
    used: np.ndarray
    unknown: np.ndarray
    run: int


def figure(verdict: Verdict, path: Path) -> None:
    """Draws into `path`. Raises RenderError for a verdict without elements, and for what cannot be drawn into."""
    drawable(path)
    if verdict.study is None:
        raise RenderError("RND905", "a saved verdict has no elements to draw", "--plot belongs to `render classify`")
    cases = {case.name: case for case in verdict.study.cases}
    shown = [o for o in verdict.outputs if o.elements and o.name in cases]
    shown = sorted(shown, key=lambda o: o.label == "Type-I")[:OUTPUTS]
    if not shown:
        raise RenderError("RND905", "this verdict compares no elements: there is nothing to draw", verdict.message)
    plt = pyplot()
    fig, axes = plt.subplots(
        len(shown), 2, figsize=(11, 0.9 + 3.9 * len(shown)), layout="constrained", squeeze=False, width_ratios=(3, 2)
    )
    for (left, right), output in zip(axes, shown, strict=True):
        _panels(left, right, output, cases[output.name], verdict)
    fig.suptitle(f"{verdict.label} {verdict.code}: {verdict.message}", fontsize=11, wrap=True)
    drawn(fig, path)


def _marks(output: OutputVerdict, case: Case) -> _Marks:
    y = case.ref if case.device is None else case.device
    lo, hi = (ref_bound if case.device is None else device_bound)(case)
    flat = [np.asarray(x, np.float64).reshape(-1) for x in (y, lo, hi, case.ref)]
    run = -(-flat[0].size // POINTS)
    pad = run * -(-flat[0].size // run) - flat[0].size
    places = np.arange(flat[0].size + pad).reshape(-1, run)
    y, lo, hi, ref = (np.pad(x, (0, pad), constant_values=np.nan).reshape(-1, run) for x in flat)
    with np.errstate(all="ignore"):
        half = (hi - lo) / 2
        error = np.abs(y - (lo + half))
        used = np.where(half > 0, error / half, np.where(error == 0, 0.0, np.inf))
        used = np.where((lo <= y) & (y <= hi), np.minimum(used, 1.0), used)
        bounded = np.isfinite(half) & np.isfinite(error)
        allowed = output.allclose_atol + output.allclose_rtol * np.abs(ref)
    used = np.where(bounded, used, -1.0)
    rows, best = np.arange(len(used)), used.argmax(axis=1)
    known = used[rows, best] >= 0
    at, error, half, allowed, used = (x[rows, best][known] for x in (places, error, half, allowed, used))
    return _Marks(at, error, half, allowed, used, places[(~bounded & ~np.isnan(y)).any(axis=1), 0], run)


def _panels(left: Any, right: Any, output: OutputVerdict, case: Case, verdict: Verdict) -> None:
    m = _marks(output, case)
    side = verdict.reference or "reference" if case.device is None else "device"
    outside = m.used > 1
    positive = np.concatenate([x[(x > 0) & np.isfinite(x)] for x in (m.error, m.half, m.allowed)])
    floor = float(positive.min()) / 3 if positive.size else 1e-300
    error, half = np.maximum(m.error, floor), np.maximum(m.half, floor)
    per = "" if m.run == 1 else f" (the worst of each {m.run} elements)"
    left.plot(m.at, m.allowed, "_", color="0.6", ms=3, label=_test(output))
    left.plot(m.at, half, "_", color=INSIDE, ms=4, label=f"half width of the bound{per}")
    left.vlines(m.at, floor, half, color=INSIDE, alpha=0.15, lw=1)
    for axes, x in ((left, m.at), (right, half)):
        axes.plot(x[~outside], error[~outside], ".", ms=3, color="#1b4f80", label=f"{side}: inside")
        if outside.any():
            axes.plot(x[outside], error[outside], "x", ms=4, color=OUTSIDE, label=f"{side}: outside")
        axes.set_yscale("log")
        axes.tick_params(labelsize=8)
    if m.unknown.size:
        left.plot(m.unknown, np.full(m.unknown.shape, floor), "|", color=UNKNOWN, ms=8, label="no bound")
    ends = np.array([half.min(), half.max()]) if half.size else np.array([floor, 1.0])
    ends = ends * (0.7, 1.4)
    right.plot(ends, ends, color="0.35", lw=0.9)
    right.text(0.97, 0.03, "above the line: outside", ha="right", transform=right.transAxes, fontsize=8)
    right.set_xscale("log")
    worst = [int(i) for i in np.lexsort((-error, -m.used))[:WORST] if m.used[i] > 0]
    left.plot(m.at[worst], error[worst], "o", ms=8, mfc="none", mec="black", mew=0.8)
    named = [f"{_place(int(m.at[i]), output)} {_share(m.used[i])}" for i in worst]
    left.set(xlabel="element, in the order of memory", ylabel="distance from the middle of the bound")
    title = f"{output.name} {shape(output.dtype, output.shape)}: {output.label} {output.code}"
    told = f"\nuse most of their bound (circles): {', '.join(named)}" if named else ""
    left.set_title(title + told, fontsize=9)
    right.set(xlabel="half width of the bound", ylabel="distance from its middle")
    right.set_title(f"{int(outside.sum())} of {m.used.size} marks outside", fontsize=9)
    left.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False, handletextpad=0.3)


def _test(output: OutputVerdict) -> str:
    return f"allclose: atol {number(output.allclose_atol, 2)} + rtol {number(output.allclose_rtol, 2)} |reference|"


def _place(flat: int, output: OutputVerdict) -> str:
    return index(tuple(int(i) for i in np.unravel_index(flat, output.shape)))


def _share(used: float) -> str:
    if used == np.inf:
        return "off a point"
    return f"{100 * used:.0f} %" if used <= 10 else f"{used:.2g} half widths"
