"""Whole programs, foreign executions of them, and what RENDER says of both."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from foreign.executor import Draws, foreign
from foreign.figures import CHIPS, INSIDE
from foreign.host import Host
from render.interpreter.session import Session
from render.result.errors import UnsupportedOp


@dataclass(frozen=True)
class Foreign:
    """A program under attack: `entry` launches and computes; `in_order`: its programs read each other's results."""

    name: str
    entry: Callable[..., torch.Tensor]
    inputs: tuple[torch.Tensor, ...]
    in_order: bool = False


@dataclass
class Outcome:
    """`outside`: (execution, output, place, value, lo, hi) of the first values that left their bounds."""

    checks: int = 0
    runs: int = 0
    violated: int = 0
    reach: float = 0.0
    outside: list[tuple[Any, ...]] = field(default_factory=list)
    taints: tuple[str, ...] = ()
    left_out: str = ""

    def add(self, other: Outcome) -> None:
        self.checks, self.runs = self.checks + other.checks, self.runs + other.runs
        self.violated += other.violated
        self.reach = max(self.reach, other.reach)
        self.outside += other.outside


def tensors(result: Any) -> list[torch.Tensor]:
    parts = result if isinstance(result, (tuple, list)) else [result]
    return [t for t in parts if isinstance(t, torch.Tensor) and t.is_floating_point()]


def executed(program: Foreign, chip: str, seed: int) -> list[torch.Tensor]:
    """What the program returns on this chip, in one execution."""
    draws, given = Draws(CHIPS[chip], seed), copy.deepcopy(program.inputs)
    with torch.no_grad(), foreign(draws, program.in_order), Host(draws):
        return tensors(program.entry(*given))


def executions(program: Foreign, device: str, runs: int, seed: int) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Executions on the chips that a profile stands for, in turn, without those that have not all of its operations."""
    chips = list(INSIDE.get(device, (device,)))
    for k in range(runs):
        chip = chips[k % len(chips)]
        try:
            found = executed(program, chip, seed + k)
        except NotImplementedError:
            chips.remove(chip)
            if not chips:
                raise
            chip = chips[k % len(chips)]
            found = executed(program, chip, seed + k)
        yield f"{chip} {seed + k}", found


def attack(program: Foreign, device: str = "any", runs: int = 6, seed: int = 0) -> Outcome:
    """Bounds from one interval run, and every value of some foreign executions against them."""
    found = Outcome()
    try:
        with Session(device) as session:
            own = tensors(program.entry(*copy.deepcopy(program.inputs)))
            envelopes = [session.envelope(t) for t in own]
    except UnsupportedOp as refused:  # the target does not compile it
        found.left_out = str(refused)
        return found
    reached = {i for envelope in envelopes if envelope is not None for i in envelope.taints}
    found.taints = tuple(sorted({session.taints[i].op for i in reached}))
    try:
        for name, values in executions(program, device, runs, seed):
            found.runs += 1
            for i, (envelope, value) in enumerate(zip(envelopes, values, strict=True)):
                _compare(found, envelope, value, (name, i))
    except (NotImplementedError, KeyError) as missing:  # no document says what this target does there
        found.left_out = str(missing)
    return found


def _compare(found: Outcome, envelope: Any, value: torch.Tensor, run: tuple[str, int]) -> None:
    """Elements without a finite bound, and those of a tainted output, promise nothing and are not counted."""
    if envelope is None or envelope.taints:
        return
    lo, hi, x = envelope.lo, envelope.hi, value.detach().double().numpy()
    counted = ~np.isnan(lo) & ~np.isnan(hi)
    outside = counted & ~((x >= lo) & (x <= hi)) & ~(np.isnan(x) & ~(np.isfinite(lo) & np.isfinite(hi)))
    found.checks += int(counted.sum())
    found.violated += int(outside.sum())
    with np.errstate(all="ignore"):
        place = np.abs(x - (lo + hi) / 2) / ((hi - lo) / 2)
    found.reach = max(found.reach, float(np.nanmax(np.where(np.isfinite(place), place, 0.0), initial=0.0)))
    for at in np.argwhere(outside)[:3]:
        j = tuple(int(k) for k in at)
        found.outside.append((*run, j, float(x[j]), float(lo[j]), float(hi[j])))
