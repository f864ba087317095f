"""Softmax and layer norm rows under attack: how much of their bounds the worst execution uses up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import triton
import triton.language as tl

from interval_ops.profiles.profile import NEWEST, load_profile
from render.lab.adversary.attack import AttackTally, Climber, Target
from render.lab.adversary.kernels import softmax_kernel
from render.lab.adversary.subjects import Subject

TARGET = "sm_90"
SIZES = (256, 1024)
COUNT = 8
"""Rows per launch."""


@triton.jit
def layer_norm_kernel(x, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + at)
    d = v - tl.sum(v, 0) / N
    tl.store(out + at, d * (1 / tl.sqrt(tl.sum(d * d, 0) / N + 1e-5)))


@dataclass(frozen=True)
class Row:
    """`half_width` is the median over elements; `worst` and `median` are shares of it that executions used up."""

    kernel: str
    n: int
    order: str
    half_width: float
    worst: float
    median: float
    runs: int
    outside: int


def subject(name: str, n: int) -> Subject:
    kernel = {"softmax": softmax_kernel, "layer norm": layer_norm_kernel}[name]

    def run(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernel[(len(x),)](x, out, n)
        return out

    def inputs(rng: np.random.Generator, style: str) -> tuple[torch.Tensor]:
        return (torch.from_numpy(rng.standard_normal((COUNT, n)).astype(np.float32)),)

    return Subject(name, run, inputs, (), ("normal",))


class Recorder(Climber):
    """Keeps, for every element, how far executions came from the middle of its bound, in half-widths."""

    def __init__(self, target: Target, seed: int, tally: AttackTally) -> None:
        super().__init__(target, seed, tally)
        self.reached = np.zeros(1)

    def execute(self, plan):  # type: ignore[no-untyped-def]
        places = super().execute(plan)
        assert places[0] is not None
        self.reached = np.fmax(self.reached, np.abs(places[0]))
        return places


def measure_rows(runs: int, seed: int) -> list[Row]:
    return list(_rows(runs, seed))


def _rows(runs: int, seed: int) -> Iterator[Row]:
    for name in ("softmax", "layer norm"):
        for n in SIZES:
            for order in ("any", "tree"):
                profile, tally = load_profile(TARGET).chosen(order, triton=NEWEST), AttackTally()
                target = Target(subject(name, n), profile, "normal", seed)
                climber = Recorder(target, seed, tally)
                while tally.runs < runs:
                    climber.climb(min(12, runs - tally.runs) - 1)
                assert target.bounds[0] is not None
                lo, hi = target.bounds[0]
                yield Row(
                    name, n, order, float(np.median(hi - lo) / 2), float(climber.reached.max()),
                    float(np.median(climber.reached)), tally.runs, tally.violated,
                )  # fmt: skip
