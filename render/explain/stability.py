"""Is a kernel within its bound only because its own error is huge (RND206)?

    eta = max over elements of  |v - E| / (u sum_i |dE/dx_i| |x_i|  +  u |E| + half a subnormal)

v is what the kernel computed, E the exact reference. The first term of the denominator is what inputs that are off by
one rounding do to the result (the conditioning), the second one rounding of the output; u is that of the coarsest
precision that the interface declares: inputs, outputs, the operands of a dot. A stable algorithm has eta of a few,
whatever it computes; measured on macro operations, stable forms stay below 5.2 and unstable ones exceed 500, which is
where the limit of 8 comes from. If the reference in its own precision exceeds 8 too, the kernel is not to blame.

The sum over inputs is estimated without derivatives: with x_i (1 + s c_i), c_i independent Cauchy variables and s tiny,
the change of E is Cauchy with scale s sum_i |dE/dx_i| |x_i| (Cauchy variables are stable under addition with weights
that add in absolute value), and the median of its magnitude is that scale. 24 draws give it within a factor of two,
and an unstable kernel misses the limit by orders of magnitude. Tensors that the reference makes itself (positions,
frequencies) count as inputs: a kernel that computes them in its own precision has done nothing wrong.

A cast or an accumulator inside the kernel that is coarser than its interface is the author's choice: if it explains
the error, the kernel is not unstable but downgraded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from interval_ops.formats.model import FORMATS
from render.entry.execution import Execution, on_cpu
from render.entry.inputs import Inputs
from render.explain.study import Study
from render.interpreter.cuda_redirect import on_host
from render.interpreter.events import GIVEN, Listener, listened
from render.interpreter.handle import Handle
from render.interpreter.types import format_of
from render.reference.local_error import TORCH_FORMATS
from render.reference.oracle import Oracle
from render.result.decision import Case, compare
from render.result.errors import RenderError, UnsupportedOp
from render.result.records import Instability

LIMIT = 8.0
DRAWS = 24
STEP = 2.0**-36
"""Size of a perturbation: far above the rounding of float64, far below what bends a function."""
FARTHEST = 2.0**12
TF32 = 2.0**-10
WORK = 2**31
"""The most that all perturbed runs together may cost, as `NarrowWatch.work` counts it: about ten seconds."""


@dataclass(frozen=True)
class _Errors:
    """Per element: the kernel's and the reference's error beyond E's own, and which elements count."""

    kernel: np.ndarray
    reference: np.ndarray
    size: np.ndarray
    floor: float


def instability(study: Study, run: Execution, oracle: Oracle, places: list[int]) -> Instability | None:
    """The worst output's index where it exceeds the limit and the reference's does not; None for a stable kernel.

    `places` are the outputs' places in what the reference returns. `downgrade` in the answer: a coarser format inside
    the kernel explains the error; that is also looked for where the reference exceeds the limit too, and less.
    """
    u = declared(study, run)
    errors: dict[int, _Errors] = {}
    for less_own in (False, True):  # most kernels are stable even with E's own error on top
        errors = {i: e for i, case in enumerate(study.cases) if (e := _errors(case, less_own)) is not None}
        errors = {i: e for i, e in errors.items() if _index(e.kernel, e, 0.0, u) > LIMIT}
        if not errors:
            return None
    # A scale only lowers the index, so that only the elements above the limit without one can decide.
    above = {places[i]: _above(e, u) for i, e in errors.items()}
    if not _exceeding(errors, conditioning(oracle, above), places, u):
        return None
    scales = conditioning(oracle)
    found = _exceeding(errors, scales, places, u)
    if scales is None or not found:
        return None
    eta, other, i = max([f for f in found if f[1] <= LIMIT] or found)
    e, scale = errors[i], scales[places[i]]
    inner = coarsest(study)
    downgrade = inner > u and _index(e.kernel, e, scale, inner) <= LIMIT
    if other > LIMIT and not downgrade:
        return None
    place = _worst(e.kernel, e, scale, u)
    return Instability(study.cases[i].name, place, eta, other, downgrade)


def _above(e: _Errors, u: float) -> np.ndarray:
    """Where the kernel or the reference exceeds the limit if nothing is known about the conditioning."""
    return (_ratios(e.kernel, e, 0.0, u) > LIMIT) | (_ratios(e.reference, e, 0.0, u) > LIMIT)


def _exceeding(
    errors: dict[int, _Errors], scales: list[np.ndarray] | None, places: list[int], u: float
) -> list[tuple[float, float, int]]:
    """(index, the reference's, output) of the outputs whose kernel exceeds the limit and its reference.

    Where the reference exceeds the limit too, the kernel is not unstable, but perhaps downgraded.
    """
    found = []
    for i, e in errors.items() if scales is not None else ():
        scale = scales[places[i]]  # type: ignore[index]
        eta, other = _index(e.kernel, e, scale, u), _index(e.reference, e, scale, u)
        if eta > max(LIMIT, other):
            found.append((eta, other, i))
    return found


def _errors(case: Case, less_own: bool = True) -> _Errors | None:
    """None for what has no rounding: integers, outputs that do not fit the reference. E's error is taken off if
    `less_own`: it costs a run of the reference."""
    if case.mismatch or case.fmt is None or case.ref_fmt is None:
        return None
    masks = compare(case)
    counts = masks.stored & ~masks.settled & np.isfinite(case.exact) & np.isfinite(case.value)
    with np.errstate(invalid="ignore"):
        lo, hi = case.exact_ends() if less_own else (case.exact, case.exact)
        own = np.nan_to_num((hi - lo) / 2, nan=np.inf, posinf=np.inf)
        kernel, reference = (np.abs(y - case.exact) - own for y in (case.value, case.ref))
    floor = max(case.fmt.half_subnormal, case.ref_fmt.half_subnormal)
    kernel, reference = (np.where(counts, np.nan_to_num(e, nan=0.0), 0.0) for e in (kernel, reference))
    return _Errors(np.maximum(kernel, 0), np.maximum(reference, 0), np.abs(case.exact), floor)


def _ratios(error: np.ndarray, e: _Errors, scale: np.ndarray | float, u: float) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.where(error > 0, error / (u * (scale + e.size) + e.floor), 0.0)


def _index(error: np.ndarray, e: _Errors, scale: np.ndarray | float, u: float) -> float:
    ratios = _ratios(error, e, scale, u)
    return float(np.nanmax(ratios)) if ratios.size else 0.0


def _worst(error: np.ndarray, e: _Errors, scale: np.ndarray | float, u: float) -> tuple[int, ...]:
    ratios = np.nan_to_num(_ratios(error, e, scale, u))
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(ratios)), ratios.shape))


def declared(study: Study, run: Execution) -> float:
    """Unit roundoff of the coarsest precision of the interface."""
    formats = [TORCH_FORMATS.get(x.dtype) for x in study.entry.inputs.values.values() if isinstance(x, torch.Tensor)]
    formats += [f for case in study.cases for f in (case.fmt, case.ref_fmt)]
    units = [f.u for f in formats if f is not None]
    if any(cause[0] == "operand" for cause in run.session.causes):
        units.append(TF32)
    return max(units, default=FORMATS["fp32"].u)


class _Formats(Listener):
    """The coarsest float format of any result."""

    def __init__(self) -> None:
        self.unit = 0.0

    def event(self, op: str, args: Sequence[Any], outs: Sequence[Handle], attrs: Any = None) -> None:
        for out in () if op in ("load", "atomic") or op in GIVEN else outs:
            if (fmt := format_of(out.dtype)) is not None:
                self.unit = max(self.unit, fmt.u)


def coarsest(study: Study) -> float:
    """Unit roundoff of the coarsest format that the kernel, or the host before it, computes in (by a re-run)."""
    formats = _Formats()
    run = study.run({"interval": False, "builder": listened(formats)})
    found: float = max([formats.unit, *run.session.host_roundings.values()])
    return found


def conditioning(
    oracle: Oracle, only: Mapping[int, np.ndarray] | None = None, draws: int = DRAWS
) -> list[np.ndarray] | None:
    """sum_i |dE/dx_i| |x_i| per output of the reference; None if it cannot be run in float64, or costs too much.

    `only`: masks of the elements that are wanted, by output; the scale of others is given as 0.
    """
    with on_cpu():
        counted = oracle._counted()
        if counted is None or counted[1].work * draws > WORK:
            return None
        base = counted[0]
        wanted = [np.ones(b.shape, bool) if only is None else only.get(i, np.zeros(b.shape, bool))
                  for i, b in enumerate(base)]  # fmt: skip
        generator = np.random.default_rng(0)
        changes: list[list[np.ndarray]] = []
        for _ in range(draws):
            with _Factories(generator):
                moved = replace(oracle, inputs=_perturbed(oracle.inputs, generator))._plain()
            if moved is None:
                return None
            with np.errstate(invalid="ignore"):
                changes.append([np.abs(m[w] - b[w]) / STEP for m, b, w in zip(moved, base, wanted, strict=True)])
    found = [np.zeros(b.shape) for b in base]
    for i, (scale, w) in enumerate(zip(found, wanted, strict=True)):
        scale[w] = np.median([np.nan_to_num(c[i], nan=np.inf) for c in changes], axis=0)
    return found


def _perturbed(inputs: Inputs, generator: np.random.Generator) -> Inputs:
    def change(x: Any) -> Any:
        if isinstance(x, torch.nn.Module):
            for parameter in x.parameters():
                parameter.data.mul_(_factors(parameter, generator))
            return x
        if isinstance(x, torch.Tensor) and x.is_floating_point():
            return (x.detach() * _factors(x, generator)).requires_grad_(x.requires_grad)
        return x

    return inputs.upcast().map(change)


class _Factories(TorchDispatchMode):
    """Perturbs the tensors that the reference makes out of nothing (arange, full): they are inputs as well."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its whole compiler to keep it away from this mode; nothing is compiled here."""
        return False

    def __init__(self, generator: np.random.Generator) -> None:
        super().__init__()
        self.generator = generator

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        made = isinstance(out, torch.Tensor) and out.is_floating_point() and on_host(out)
        if made and not any(isinstance(a, torch.Tensor) for a in tree_leaves((args, kwargs))):
            return (out * _factors(out, self.generator)).to(out.dtype)
        return out


def _factors(x: torch.Tensor, generator: np.random.Generator) -> torch.Tensor:
    """1 + tiny Cauchy variables; the farthest ones are cut off, so that the change stays linear."""
    draws = np.clip(generator.standard_cauchy(tuple(x.shape)), -FARTHEST, FARTHEST)
    return torch.as_tensor(1 + STEP * draws, dtype=torch.float64)


def cancelling_line(study: Study) -> tuple[str, int, float] | None:
    """(file, line, factor) where the relative width of the bound grows most over that of its operands."""
    from render.explain.lines import line_widths

    try:
        widths = line_widths(study)
    except (RenderError, UnsupportedOp):
        return None
    grown = [(w.relative / w.operands, w) for w in widths if w.operands > 0 and np.isfinite(w.relative)]
    if not grown:
        return None
    factor, width = max(grown, key=lambda g: g[0])
    return width.file, width.line, factor
