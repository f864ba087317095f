"""What the wrong outputs are instead of the reference: the cheap questions, asked of whole arrays.

Of each output that is not the reference by the same measure: is it the reference transposed, reversed, negated, times a
number, plus a number, one place further along an axis, another output, an input? Of the reference run again in float64:
with an input left out (0, or 1), a switch turned over, a triangular mask moved by one, is that what the kernel
computes? And where are the wrong elements: which rows, columns, blocks? Each answer is a sentence; none decides
anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from render.entry.execution import on_cpu
from render.entry.inputs import Inputs
from render.explain.study import Study
from render.reference.oracle import Oracle
from render.reference.shadow import in_parts
from render.result.decision import Case, compare
from render.result.defects import caught

ALIKE = 2.0**-8
"""Relative difference, beyond the half width of the bound, that is still the same number here."""
RUNS = 16
"""Runs of the reference with something changed."""
MOST = 3
"""Sentences that are worth reading."""


def resembles(study: Study, oracle: Oracle, places: Sequence[int]) -> list[str]:
    found: list[str] = []
    wrong = [(case, place) for case, place in zip(study.cases, places, strict=True) if _wrong(case) is not None]
    for case, _ in wrong:
        found += list(_arrays(case, study, oracle))[:1]
    if wrong and not found and not all(_same(case, case.exact) for case, _ in wrong):
        found += list(_references(wrong, oracle))[:1]
    for case, _ in wrong:
        found += _where(case)
    return list(dict.fromkeys(found))[:MOST]


def _wrong(case: Case) -> np.ndarray | None:
    if case.mismatch:
        return None
    masks = compare(case)
    bad: np.ndarray = masks.outside_exact | masks.nonfinite
    if not bad.any():
        bad = ~_alike(case.value, case.exact, case)
    return bad if bad.any() else None


def _alike(value: np.ndarray, other: np.ndarray, case: Case) -> np.ndarray:
    with np.errstate(all="ignore"):
        half = np.nan_to_num((case.hi - case.lo) / 2, nan=0.0, posinf=0.0)
        room = np.minimum(half, ALIKE * np.abs(case.value)) + 2.0**-16 * np.abs(other)
        return np.asarray((np.abs(value - other) <= room) | (value == other) | (np.isnan(value) & np.isnan(other)))


def _same(case: Case, other: np.ndarray) -> bool:
    return other.shape == case.value.shape and bool(_alike(case.value, other, case).all())


def _arrays(case: Case, study: Study, oracle: Oracle) -> Iterator[str]:
    v, e, name = case.value, case.exact, case.name
    if v.size < 2 or not np.isfinite(e).any() or _same(case, e):
        return
    if e.ndim >= 2:
        if e.shape[-1] == e.shape[-2] and _same(case, np.swapaxes(e, -1, -2)):
            yield f"{name} equals the reference transposed"
        elif e.shape[-1] != e.shape[-2] and _same(case, np.swapaxes(e, -1, -2).reshape(e.shape)):
            yield f"{name} holds the reference's elements in the order of its transpose"
    for other in study.cases:
        if other.name != name and _same(case, other.exact):
            yield f"{name} equals the reference of {other.name}: outputs change places"
    for key, x in oracle.inputs.values.items():
        if not isinstance(x, torch.Tensor) or x.is_complex() or x.layout != torch.strided or x.shape != v.shape:
            continue
        if _same(case, x.detach().double().numpy()):
            yield f"{name} equals the input {key}"
    with np.errstate(all="ignore"):
        big = np.isfinite(v) & np.isfinite(e) & (np.abs(e) > 2.0**-10 * np.nanmax(np.abs(e)))
        if big.sum() > 1:
            factor = float(np.median(v[big] / e[big]))
            if factor and abs(factor - 1) > ALIKE / 4 and _same(case, e * factor):
                yield f"{name} equals the reference times {factor:.6g}"
            offset = float(np.median((v - e)[big]))
            if offset and _same(case, e + offset):
                yield f"{name} equals the reference {'plus' if offset > 0 else 'minus'} {abs(offset):.6g}"
    for axis in range(e.ndim):
        if e.shape[axis] > 2:
            if _same(case, np.flip(e, axis)):
                yield f"{name} equals the reference reversed along axis {axis}"
            for step in (1, -1):
                moved = np.roll(e, step, axis)
                inner = [slice(None)] * e.ndim
                inner[axis] = slice(1, None) if step == 1 else slice(None, -1)
                if _alike(v, moved, case)[tuple(inner)].all():
                    yield f"{name} equals the reference moved by {step:+d} along axis {axis}"


def _where(case: Case) -> list[str]:
    """Where the wrong elements lie, if that is a part of the output: rows, columns, the last block."""
    bad = _wrong(case)
    if bad is None or bad.all() or bad.ndim == 0:
        return []
    box = []
    for axis, n in enumerate(bad.shape):
        hit = np.flatnonzero(bad.any(axis=tuple(a for a in range(bad.ndim) if a != axis)))
        if len(hit) == n:
            box.append(":")
        elif len(hit) == hit[-1] - hit[0] + 1:
            box.append(f"{hit[0]}:{hit[-1] + 1}")
        else:
            return []
    inside = bad[tuple(slice(*(int(p) if p else None for p in part.split(":"))) for part in box)]
    return (
        [f"wrong are {'only' if inside.all() else 'elements of'} {case.name}[{', '.join(box)}]"]
        if set(box) != {":"}
        else []
    )


def _references(wrong: Sequence[tuple[Case, int]], oracle: Oracle) -> Iterator[str]:
    """The reference with one thing changed."""
    for left, (text, inputs, mode) in enumerate(_changes(oracle)):
        if left == RUNS:
            return
        with on_cpu():
            try:
                with mode:
                    outputs = oracle.changed(text, inputs)._plain()
            except Exception as error:  # whatever a reference raises that is run otherwise than it was written for
                caught(error, "the reference with one thing changed")
                outputs = None
        if outputs is not None and all(_same(case, outputs[place]) for case, place in wrong):
            yield f"the kernel computes the reference {text}"
            return


def _changes(oracle: Oracle) -> Iterator[tuple[str, Inputs, Any]]:
    for name, x in oracle.inputs.values.items():
        if isinstance(x, bool):
            yield f"with {name}={not x}", _with(oracle.inputs, name, not x), _Masks(0)
        elif isinstance(x, torch.Tensor) and x.is_floating_point():
            yield f"without {name} (as if it were 0)", _with(oracle.inputs, name, torch.zeros_like(x)), _Masks(0)
            yield f"without {name} (as if it were 1)", _with(oracle.inputs, name, torch.ones_like(x)), _Masks(0)
        elif isinstance(x, float):
            for value in (0.0, 1.0):
                if value != x:
                    yield f"with {name} = {value:g}", _with(oracle.inputs, name, value), _Masks(0)
    for step in (1, -1):
        yield f"with its mask moved by {step:+d}", oracle.inputs, _Masks(step)
    yield "without its mask", oracle.inputs, _Masks(None)


def _with(inputs: Inputs, name: str, value: Any) -> Inputs:
    if name in inputs.names:
        args = tuple(value if n == name else x for n, x in zip(inputs.names, inputs.args, strict=True))
        return replace(inputs, args=args)
    return replace(inputs, kwargs={**inputs.kwargs, name: value})


class _Masks(TorchDispatchMode):
    """Triangles and comparisons of whole numbers moved by `step`; None: masks let everything in."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its whole compiler to keep it away from this mode; nothing is compiled here."""
        return False

    def __init__(self, step: int | None) -> None:
        super().__init__()
        self.step = step

    @in_parts
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if self.step == 0:
            return func(*args, **(kwargs or {}))
        if name in ("tril", "triu"):
            diagonal = args[1] if len(args) > 1 else (kwargs or {}).get("diagonal", 0)
            return args[0].clone() if self.step is None else func(args[0], diagonal + self.step)
        if name == "masked_fill" and self.step is None:
            return args[0].clone()
        if name in ("ge", "gt", "le", "lt") and self.step and not args[0].is_floating_point():
            return func(args[0] + self.step, *args[1:])
        return func(*args, **(kwargs or {}))
