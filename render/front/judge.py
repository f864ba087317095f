"""One comparison judged: the two histories become an entry function and a reference of a classification."""

from __future__ import annotations

import contextlib
import inspect
import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from render.entry.execution import described_as, on_cpu, open_session
from render.entry.inputs import Inputs
from render.entry.resolve import Reference
from render.front.comparisons import NothingToJudge
from render.front.history import Apart, apart, history, launches, moves, rerun
from render.front.steps import Cell, DecidedByPython, Given, HostOperation, Region, TapeStep
from render.interpreter.no_gpu import Untracked
from render.interpreter.session import Session
from render.judgement.steps import Judgement
from render.result.errors import RenderError
from render.result.options import Options
from render.result.places import relative
from render.result.verdict import Verdict

NOT_AGAIN = "RND907"
_APART = 2.0**-6
"""A tensor that is made again may differ from the first by so much of its largest element (libraries choose their
order of summation by alignment); by more, a step is missing."""


@dataclass(frozen=True)
class ComparedSide:
    """One operand: where it lies, what the user calls it, and its value when it was compared, where it was at hand."""

    place: Region
    name: str
    value: torch.Tensor | None


def judge(left: ComparedSide, right: ComparedSide, until: int, options: Options, names: Mapping[Cell, str]) -> Verdict:
    """The verdict on what two tensors held at `until`; `names` of storages that are inputs.

    Where a kernel made both, each is judged with the other as its reference and the worse verdict counts. Raises
    NothingToJudge, and RenderError for a history that cannot be run again.
    """
    with aside(), described_as(options.device):
        with on_cpu(), open_session(options.device, interval=False, **_quiet(options)):
            pair = apart(left.place.cell, right.place.cell, until)
        sides = [(left, pair.left), (right, pair.right)]
        kernels = [launches(steps.values()) for _, steps in sides]
        if not any(kernels):
            raise NothingToJudge("no kernel's result is on one side alone")
        inputs = _inputs(pair, names)
        quiet = replace(options, session=_quiet(options))
        if all(kernels):
            one, two = (_verdict(a, b, inputs, quiet, _bounds) for a, b in (sides, sides[::-1]))
            return _worse(one, two, right.name)
        mine, other = sides if kernels[0] else sides[::-1]
        if (source := _elsewhere(mine[0].place.cell, other[0].place.cell, until)) is not None:
            return _verdict(mine, other, inputs, quiet, _unknown, (_told(other[0].name, source),))
        return _verdict(mine, other, inputs, quiet, None)


def _worse(one: Verdict, two: Verdict, other: str) -> Verdict:
    """Of two kernels that were each judged with the other as reference. Which one is wrong, their difference does not
    say."""
    if one.label == two.label == "Type-II" and two.file:
        at = f"{relative(two.file)}:{two.line}"
        help = f"{other} is made by a kernel, too, and may be the wrong one: judged by itself, look at {at}"
        return replace(one, help=(help, *one.help))
    return min(one, two, key=lambda verdict: (verdict.label != "Type-II", verdict.label != "Inconclusive"))


def _quiet(options: Options) -> dict[str, Any]:
    """Kernels printed when the script ran them; not again."""
    return {**options.session, "printer": _unprinted}


def _unprinted(text: str) -> None:
    """In place of print."""


@dataclass(frozen=True)
class _Start:
    """Storages that both sides start from, by the name of the input that holds their elements."""

    cells: Mapping[str, Cell]
    values: Mapping[str, torch.Tensor]


def _inputs(pair: Apart, names: Mapping[Cell, str]) -> _Start:
    cells: dict[str, Cell] = {}
    for cell in pair.start:
        name = names.get(cell) or "input"
        number = 1 + sum(known.rstrip("0123456789_") == name for known in cells)
        cells[name if name not in cells and name != "input" else f"{name}_{number}"] = cell
    return _Start(cells, {name: pair.start[cell] for name, cell in cells.items()})


Which = tuple[ComparedSide, Mapping[int, TapeStep]]


Known = tuple[list[np.ndarray], list[tuple[np.ndarray, np.ndarray]]]
"""Values, and [lo, hi] of the exact ones."""


def _verdict(
    mine: Which, other: Which, start: _Start, options: Options,
    bounds: Callable[[Which, _Start, Options, Inputs], Known] | None, told: tuple[str, ...] = (),
) -> Verdict:  # fmt: skip
    """`bounds`: what is known of the other side where float64 says nothing of it."""
    name = mine[0].name if mine[0].name != other[0].name else "out"
    kernel = launches(other[1].values())
    reference = Reference(Again(other, start, name, options, kernel), other[0].name)
    if bounds is not None:
        reference = replace(reference, bounds=partial(bounds, other, start, options))
    entry = Again(mine, start, name, options)
    return Judgement(entry, Inputs((), start.values, ()), reference, None, options, told).verdict()


class Again:
    """One side as a function of the inputs by name. `own`: it launches kernels, in a session of its own.

    `alone`: what else kernels store is no part of this comparison; the script has others, or is told at its end.
    """

    alone = True

    def __init__(self, which: Which, start: _Start, name: str, options: Options, own: bool = False) -> None:
        self.side, self.steps = which[0], list(which[1].values())
        self.start, self.options, self.own = start, options, own
        self.name, self.checked = name, False
        self.__name__ = self.__qualname__ = which[0].name
        parameters = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in start.cells]
        self.__signature__ = inspect.Signature(parameters)

    def __call__(self, **values: torch.Tensor) -> dict[str, torch.Tensor]:
        contents = {self.start.cells[name]: x for name, x in values.items()}
        with self._session():
            found = rerun(self.steps, self.side.place, contents)
        if not self.checked and self.side.value is not None and found.dtype == self.side.value.dtype:
            self._check(found, self.side.value)
        return {self.name: found}

    def _session(self) -> contextlib.AbstractContextManager[Any]:
        if not self.own:
            return contextlib.nullcontext()
        return open_session(self.options.device, interval=False, **self.options.for_session)  # type: ignore[no-any-return]

    def _check(self, found: torch.Tensor, before: torch.Tensor) -> None:
        """The first run gives what the script had: nothing that the tape did not see took part."""
        self.checked = True
        if _far(found, before) and _far(self._as_watched(), before):
            raise RenderError(
                NOT_AGAIN,
                f"{self.side.name} cannot be made again: something beside torch operations and kernels wrote it",
                "compare tensors that torch or a kernel computed, or classify the function by itself",
            )

    def _as_watched(self) -> torch.Tensor:
        """What the script's own session makes of it: there, kernels read memory that nothing wrote as it is."""
        contents = {cell: self.start.values[name].clone() for name, cell in self.start.cells.items()}
        plain = {**self.options.for_session, "interval": False, "tracker": lambda session: Untracked()}
        with _disable_current_modes(), Session(self.options.device, **plain):
            return rerun(self.steps, self.side.place, contents)


def _far(found: torch.Tensor, before: torch.Tensor) -> bool:
    with torch.no_grad(), _disable_current_modes():  # a question of ours, no decision of the script's
        one, two = (torch.nan_to_num(x.detach().to(torch.float64)) for x in (found, before))
        return bool(((one - two).abs() > _APART * two.abs().max()).any()) if two.numel() else False


def _elsewhere(mine: Cell, other: Cell, until: int) -> Given | None:
    """Where the other side, or a part of it, was computed elsewhere: data from outside that the kernel was not given.

    Whatever torch does with an array that numpy computed, the error of its floats stays unknown. Floats that the
    kernel was given, too, in any order, are no such; nor are the constants of masks.
    """
    known = history(mine, until)
    steps = [step for time, step in history(other, until).items() if time not in known]
    given = [step for step in steps if isinstance(step, Given) and not step.made]
    if not given:
        return None
    if all(isinstance(s, Given | DecidedByPython) or (isinstance(s, HostOperation) and moves(s)) for s in steps):
        return given[0]
    inputs = np.concatenate([_MASKS, *(_floats(s) for s in known.values() if isinstance(s, Given))])
    return next((s for s in given if s.foreign and not np.isin(_floats(s), inputs).all()), None)


_MASKS = np.array([0.0, 1.0, np.inf, -np.inf])


def _floats(step: Given) -> np.ndarray:
    """What was given, NaN left out: it is the same in every array."""
    x = step.data
    if not x.is_floating_point():
        return np.empty(0)
    found = x.detach().to(torch.float64).numpy()
    return np.asarray(found[~np.isnan(found)])


def _told(name: str, source: Given) -> str:
    seen = f"{os.path.basename(source.site.file)}:{source.site.line}"
    where = f"by numpy or another library, first seen at {seen}" if source.foreign else "before it was watched"
    return f"{name} was computed elsewhere ({where}): nothing is known of its error"


def _unknown(which: Which, start: _Start, options: Options, inputs: Inputs) -> Known:
    """Of a reference that somebody computed elsewhere: its value, and nothing of its error."""
    (found,) = Again(which, start, "out", options)(**inputs.clone().values).values()
    value = found.detach().to(torch.float64).numpy()
    nothing = np.full(value.shape, np.inf)
    return [value], [(-nothing, nothing)]


def _bounds(which: Which, start: _Start, options: Options, inputs: Inputs) -> Known:
    """Value and envelope of a reference that kernels computed."""
    again = Again(which, start, "out", options)
    with open_session(options.device, **options.for_session) as session:
        (found,) = again(**inputs.clone().values).values()
        envelope = session.envelope(found, take=True)
    value = found.detach().to(torch.float64).numpy()
    if envelope is None:
        return [value], [(value, value)]
    unknown = bool(envelope.taints)
    ends = [np.full(value.shape, side * np.inf) if unknown else np.broadcast_to(end, value.shape).astype(np.float64)
            for side, end in ((-1, envelope.lo), (1, envelope.hi))]  # fmt: skip
    return [value], [(ends[0], ends[1])]


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """What runs inside leaves random streams, gradients' mode and the default dtype as they are."""
    numbers, python = np.random.get_state(), random.getstate()  # noqa: NPY002 - the user's code may draw from it
    default = torch.get_default_dtype()
    try:
        with torch.random.fork_rng(devices=()), torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        np.random.set_state(numbers)  # noqa: NPY002
        random.setstate(python)
        torch.set_default_dtype(default)
