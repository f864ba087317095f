"""Attacks on one subject: bounds from an interval run, then executions that climb towards them."""

from __future__ import annotations

import copy
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from triton.compiler.errors import CompilationError

from interval_ops.profiles.profile import MissingRule, Profile, load_profile
from render.interpreter.context import Context
from render.interpreter.session import Session
from render.lab.adversary.builder import AdversaryBuilder
from render.lab.adversary.material import Inputs
from render.lab.adversary.plan import AttackPlan
from render.lab.adversary.subjects import Subject
from render.result.errors import UnsupportedOp

Array = np.ndarray

_SCHEDULE = ("chunk", "programs")
"""Choices that matter to few kernels."""

REFUSED = (MissingRule, UnsupportedOp, CompilationError)
"""No rule here, or Triton refuses the kernel for this target."""


@dataclass
class Violation:
    """A value outside its bounds, and the execution that produced it."""

    subject: str
    profile: str
    style: str
    seed: int
    choices: dict[str, str]
    output: int
    index: tuple[int, ...]
    value: float
    lo: float
    hi: float


@dataclass
class AttackTally:
    """What the attacks on a subject found. `approach` is the largest |value - mid| / half-width over all elements
    whose bounds have a width."""

    checks: int = 0
    runs: int = 0
    approach: float = 0.0
    violations: list[Violation] = field(default_factory=list)
    violated: int = 0
    skipped: str = ""

    def add(self, other: AttackTally) -> None:
        self.checks += other.checks
        self.runs += other.runs
        self.violated += other.violated
        self.violations += other.violations
        self.approach = max(self.approach, other.approach)


def outputs(result: Any) -> list[torch.Tensor]:
    """Tensors among the results of a launcher."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict):
        result = list(result.values())
    return [t for part in result for t in outputs(part)] if isinstance(result, (tuple, list)) else []


def call(subject: Subject, inputs: Inputs) -> list[torch.Tensor]:
    own = copy.deepcopy(inputs)
    return outputs(subject.run(**own) if isinstance(own, dict) else subject.run(*own))


def _called(subject: Subject, inputs: Inputs, profile: Profile) -> list[torch.Tensor]:
    try:
        return call(subject, inputs)
    except AssertionError as error:
        if torch.cuda.is_available():
            raise
        raise MissingRule("a launcher that asks for a CUDA device", profile.name, str(error)) from error


def as_array(t: torch.Tensor) -> Array:
    return t.detach().to(torch.float64).numpy()


class Target:
    """One subject with one set of inputs on one profile, and its bounds. `mute` narrows them (to test the attack)."""

    def __init__(
        self, subject: Subject, profile: str | Profile, style: str, seed: int, mute: Iterable[str] = ()
    ) -> None:
        self.subject, self.style, self.seed = subject, style, seed
        self.profile = load_profile(profile) if isinstance(profile, str) else profile
        with Session(profile=self.profile, interval=False):
            self.inputs = subject.inputs(np.random.default_rng(seed), style)
        with Session(profile=self.profile, mute=mute) as session:
            found = _called(subject, self.inputs, self.profile)
        self.own = [as_array(t) for t in found]
        self.bounds: list[tuple[Array, Array] | None] = []
        for t in found:
            envelope = session.envelope(t)
            usable = envelope is not None and not envelope.taints
            self.bounds.append((envelope.lo, envelope.hi) if usable else None)  # type: ignore[union-attr]
        self.findings = session.findings
        self.sequential = any(launch.sequential for launch in session.launches)

    def run(self, plan: AttackPlan) -> list[Array]:
        """One execution: float64 values of the outputs."""

        def builder(ctx: Context) -> AdversaryBuilder:
            return AdversaryBuilder(ctx, plan)

        if self.subject.in_order or (self.sequential and not self.subject.locks):
            plan.fixed = {**plan.fixed, "programs": "numbered"}
        chunk = {"all": None, "one": 1, "three": 3}[plan.pick("chunk", ("all", "one", "three"))]
        with Session(profile=self.profile, interval=False, chunk=chunk, builder=builder):
            return [as_array(t) for t in call(self.subject, self.inputs)]

    def places(self, found: list[Array]) -> list[Array | None]:
        """Where values lie in their bounds: -1 and 1 are the ends; NaN where bounds have no finite width."""
        out: list[Array | None] = []
        for value, bounds in zip(found, self.bounds, strict=True):
            if bounds is None:
                out.append(None)
                continue
            lo, hi = bounds
            low, high = lo.astype(np.longdouble), hi.astype(np.longdouble)
            half = high / 2 - low / 2
            with np.errstate(all="ignore"):
                place = ((value - (low / 2 + high / 2)) / half).astype(np.float64)
            out.append(np.where((half > 0) & np.isfinite(half), place, np.nan))
        return out

    def check(self, found: list[Array], plan: AttackPlan, tally: AttackTally) -> list[Array | None]:
        """Counts the elements outside and notes the first of each output; gives the places of all."""
        tally.runs += 1
        choices = {name: plan.pick(name, options) for name, options in plan.seen.items()}
        self._count(found, plan.seed, choices, tally)
        places = self.places(found)
        for place in places:
            if place is not None and np.isfinite(place).any():
                tally.approach = max(tally.approach, float(np.nanmax(np.abs(place))))
        return places

    def check_own(self, tally: AttackTally) -> None:
        """The same for the values that go with the bounds (the value lane), which must lie inside them as well."""
        self._count(self.own, self.seed, {"values": "of the interval run"}, tally)

    def _count(self, found: list[Array], seed: int, choices: dict[str, str], tally: AttackTally) -> None:
        for i, (value, bounds) in enumerate(zip(found, self.bounds, strict=True)):
            if bounds is None:
                continue
            lo, hi = bounds
            tally.checks += value.size
            outside = ~((value >= lo) & (value <= hi)) & ~np.isnan(lo)
            if outside.any():
                tally.violated += int(outside.sum())
                if len(tally.violations) < 5:
                    at = tuple(int(j) for j in np.argwhere(outside)[0])
                    tally.violations.append(Violation(
                        self.subject.name, self.profile.name, self.style, seed, choices, i, at,
                        float(value[at]), float(lo[at]), float(hi[at]),
                    ))  # fmt: skip


class Climber:
    """Coordinate search: change one choice at a time, keep what brings the values closer to a goal."""

    def __init__(self, target: Target, seed: int, tally: AttackTally) -> None:
        self.target, self.tally = target, tally
        self.rng = np.random.default_rng(seed)

    def execute(self, plan: AttackPlan) -> list[Array | None]:
        return self.target.check(self.target.run(plan), plan, self.tally)

    def climb(self, steps: int) -> None:
        """The best of a few random starts for a random goal (all up, all down, outwards, one element), then changes."""
        plan = AttackPlan(int(self.rng.integers(1 << 31)))
        places = self.execute(plan)
        score = self.goal(places)
        best = score(places)
        for step in range(steps):
            trial = AttackPlan(int(self.rng.integers(1 << 31))) if step < steps // 3 else self.neighbour(plan)
            reached = score(self.execute(trial))
            if reached >= best:
                plan, best = trial, reached

    def neighbour(self, plan: AttackPlan) -> AttackPlan:
        """`plan` with one choice changed, or the same choices with new randomness within them."""
        fixed = {n: plan.pick(n, options) for n, options in plan.seen.items()}
        sites = [n for n in fixed if n not in _SCHEDULE or self.rng.random() < 0.2]
        if not sites or self.rng.random() < 0.2:
            return AttackPlan(int(self.rng.integers(1 << 31)), fixed)
        name = sites[int(self.rng.integers(len(sites)))]
        others = [o for o in plan.seen[name] if o != fixed[name]]
        return AttackPlan(plan.seed, fixed).changed(name, others[int(self.rng.integers(len(others)))])

    def goal(self, places: list[Array | None]) -> Any:
        kind = self.rng.choice(["up", "down", "out", "one"])
        usable = [i for i, p in enumerate(places) if p is not None and np.isfinite(p).any()]
        if not usable:
            return lambda _: 0.0
        at = int(self.rng.choice(usable))
        if kind == "one":
            finite = np.flatnonzero(np.isfinite(places[at]))  # type: ignore[arg-type]
            lane = int(self.rng.choice(finite))
            sign = float(self.rng.choice([-1.0, 1.0]))
            return lambda found: sign * float(found[at].reshape(-1)[lane])
        if kind == "out":
            return lambda found: float(np.nanmax(np.abs(found[at])))
        sign = 1.0 if kind == "up" else -1.0
        return lambda found: float(np.nanmean(np.clip(sign * found[at], -2, 2)))


def attack(
    subject: Subject,
    profile: str | Profile,
    seed: int,
    seconds: float = 1.0,
    runs: int = 1000,
    mute: Iterable[str] = (),
) -> AttackTally:
    """Attacks in the styles of the subject until time or runs are used up.

    Few runs take few styles, other ones on each profile: a climb needs a dozen runs.
    """
    tally = AttackTally()
    name = profile if isinstance(profile, str) else profile.name
    first = (seed + zlib.crc32(name.encode())) % len(subject.styles)
    styles = (*subject.styles[first:], *subject.styles[:first])[: max(1, runs // 12)]
    share, end = seconds / len(styles), time.perf_counter()
    for i, style in enumerate(styles):
        end += share
        try:
            target = Target(subject, profile, style, seed + i, mute)
        except REFUSED as missing:
            tally.skipped = str(missing)
            return tally
        if not mute:
            target.check_own(tally)
        climber = Climber(target, seed + i, tally)
        most = (i + 1) * runs // len(styles)
        while True:
            climber.climb(min(12, max(0, most - tally.runs - 1)))
            if time.perf_counter() >= end or tally.runs >= most:
                break
    return tally
