"""Dual-Delta Testing: two error distributions against one oracle, and what they say about each other.

Source: the Dual-Delta paper, Algorithm 1: for i = 1..N draw x, append e(f1(x), f_O(x)) to D1, e(f2(x), f_O(x)) to D2.

Early stopping (optional): the data are looked at after 50, 100, 200, ... and N inputs, K looks in all; a look stops the
experiment if it decides at level alpha / K. By Bonferroni's inequality over the looks no error becomes more probable
than alpha; the last look counts at alpha / K too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from render.companions.dual_delta.gates import GATES
from render.companions.dual_delta.generators import GENERATORS, redrawn
from render.companions.dual_delta.metrics import METRICS
from render.companions.dual_delta.parallel import runner
from render.companions.dual_delta.statistics import ALPHA, MARGIN, Outcome, Statistics, analysed
from render.companions.dual_delta.trial import ErrorSide, Generate, Sample, Trial
from render.entry.execution import on_cpu
from render.entry.held_state import HeldState, seeded
from render.entry.inputs import Inputs, from_mapping
from render.result.errors import RenderError, expect

FIRST_LOOK = 50
SEPARATION = 100.0
"""The oracle's own error must be so many times below the errors that are compared; a choice."""
_PROBED = 3
"""Inputs on which it is measured."""
ALIASES = {"mehe": "hybrid", "maximum hybrid": "hybrid", "normwise": "norm"}


@dataclass(frozen=True)
class GateResult:
    """`passed` of `count` inputs; `worst`: the largest value of what must not exceed 1 (a p-value for `ks`)."""

    name: str
    ok: bool
    passed: int
    count: int
    worst: float


@dataclass(frozen=True)
class DualDelta:
    """The two samples in order of their inputs, failures left out in pairs, and what was found.

    `failures`: inputs on which f1, f2 gave a NaN or infinity that the oracle has not. `separation`: median error over
    the oracle's own (None: not known). `looks`: (made, planned).
    """

    names: tuple[str, str]
    metric: str
    d1: np.ndarray
    d2: np.ndarray
    failures: tuple[int, int]
    wanted: int
    seed: int
    generator: str
    oracle: str
    separation: float | None
    looks: tuple[int, int]
    statistics: Statistics
    gates: tuple[GateResult, ...] = ()
    seconds: float = 0.0
    notes: tuple[str, ...] = field(default=())

    @property
    def outcome(self) -> Outcome:
        """The field D of the combined verdict; failures of f1 beyond those of f2 are worse than any error."""
        if self.failures[0] != self.failures[1]:
            return "worse" if self.failures[0] > self.failures[1] else "better"
        return self.statistics.outcome

    @property
    def n(self) -> int:
        return int(self.d1.size)

    def report(self) -> str:
        from render.companions.dual_delta.report import text

        return text(self)

    def to_dict(self) -> dict[str, Any]:
        from render.companions.dual_delta.report import document

        return document(self)

    def plot(self, path: Any) -> None:
        """One figure: histograms, boxes, Q-Q and scatter."""
        from render.companions.dual_delta.plots import figure

        figure(self, path)

    def html(self, path: Any) -> None:
        """A page of its own, figure included where matplotlib is there."""
        from render.companions.dual_delta.plots import page

        page(self, path)

    def __str__(self) -> str:
        return self.report()


def dual_delta(
    f1: Callable[..., Any],
    f2: Callable[..., Any],
    oracle: Callable[..., Any] | str = "fp64",
    generate: Callable[..., Any] | str = "normal",
    metric: str = "hybrid",
    n: int = 1000,
    **settings: Any,
) -> DualDelta:
    """Compares the errors of `f1` (custom) and `f2` (reference) on `n` inputs.

    `oracle`: "fp64" (f2 in float64), "bits" (f2 in more bits), or a function of float64 inputs. `generate`: a function
    of a seed that gives inputs (tuple or dict), or the name of a generator, with an example in `like=`. `metric`:
    "hybrid", "norm" or "ulp". `settings` are fields of `Trials`. Raises RenderError for an unknown one, and where
    functions and inputs do not fit each other.

        found = render.dual_delta(fast_gelu, torch.nn.functional.gelu, like=(torch.randn(1000),), n=200)
        found.outcome    # "worse"
    """
    for name, given in (("oracle", oracle), ("generate", generate)):
        if not callable(given):
            expect(name, given, str)
    return experiment(f1, f2, oracle, generate, Trials(metric=metric, n=n, **settings))


@dataclass(frozen=True)
class Trials:
    """`jobs`: processes (None: one per core); `early`: stop by the sequential rule; `progress(done, n)` is told."""

    metric: str = "hybrid"
    n: int = 1000
    seed: int = 0
    like: Any = None
    device: str = "any"
    alpha: float = ALPHA
    margin: float = MARGIN
    jobs: int | None = None
    early: bool = False
    gates: tuple[str, ...] = ()
    progress: Callable[[int, int], None] | None = None

    def __post_init__(self) -> None:
        for name in ("metric", "device"):
            expect(name, getattr(self, name), str)
        for name in ("n", "seed"):
            expect(name, getattr(self, name), int)
        for name in ("alpha", "margin"):
            expect(name, getattr(self, name), int, float)
        object.__setattr__(self, "metric", ALIASES.get(self.metric, self.metric))
        _known("metric", (self.metric,), METRICS)
        _known("gate", self.gates, GATES)
        if self.n < 1 or not 0 < self.alpha < 1 or not self.margin > 1:
            raise RenderError("RND902", f"n={self.n}, alpha={self.alpha}, margin={self.margin}",
                              "at least one input, 0 < alpha < 1, margin > 1")  # fmt: skip

    @property
    def looks(self) -> list[int]:
        found, at = [], FIRST_LOOK
        while self.early and at < self.n:
            found.append(at)
            at *= 2
        return [*found, self.n]


def _known(what: str, given: tuple[str, ...], table: Mapping[str, Any]) -> None:
    for name in given:
        if name not in table:
            raise RenderError("RND902", f"no {what} {name!r}", f"one of {', '.join(table)}")


def experiment(
    f1: Callable[..., Any], f2: Callable[..., Any], oracle: Callable[..., Any] | str,
    generate: Callable[..., Any] | str, plan: Trials,
) -> DualDelta:  # fmt: skip
    """See `dual_delta`."""
    if not callable(oracle):
        _known("oracle", (oracle,), {"fp64": 0, "bits": 0})
    held = HeldState([f1, f2, oracle])
    with on_cpu(plan.device), held.lent():
        return _experiment(f1, f2, oracle, generate, plan, held)


def _experiment(
    f1: Callable[..., Any], f2: Callable[..., Any], oracle: Callable[..., Any] | str,
    generate: Callable[..., Any] | str, plan: Trials, held: HeldState,
) -> DualDelta:  # fmt: skip
    began = time.perf_counter()
    checks = tuple(g for g in plan.gates if GATES[g].check is not None)
    sides = ErrorSide(f1, plan.device), ErrorSide(f2, plan.device)
    inputs = _inputs(f1, generate, plan)
    trial = Trial(*sides, oracle, lambda seed: replace(inputs(seed), held=held), plan.metric, plan.seed, checks)
    samples, separation = _probe(trial, min(_PROBED, plan.n))
    looks, made, found = plan.looks, 0, None
    with runner(trial, plan.n, plan.jobs) as run:
        for at in looks:
            for sample in run(range(len(samples), at)):
                samples.append(sample)
                if plan.progress is not None:
                    plan.progress(len(samples), plan.n)
            made += 1
            found = _found(samples, plan, len(looks))
            if found.outcome != "undecided":
                break
    assert found is not None
    d1, d2, failures = _split(samples)
    notes = [] if separation is None or separation >= SEPARATION else [
        f"the oracle's own error is only {separation:.3g} times below the errors: take one of more bits"]  # fmt: skip
    if sum(failures):
        notes.append(f"NaN or infinity where the oracle has none (or the other way round): {failures[0]} inputs of f1, "
                     f"{failures[1]} of f2; they are no samples")  # fmt: skip
    return DualDelta(
        (_name(f1), _name(f2)), plan.metric, d1, d2, failures, plan.n, plan.seed,
        generate if isinstance(generate, str) else "own", oracle if isinstance(oracle, str) else _name(oracle),
        separation, (made, len(looks)), found, _gates(samples, checks, plan, found),
        time.perf_counter() - began, tuple(notes),
    )  # fmt: skip


def _name(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__name__", type(fn).__name__)


def _inputs(fn: Callable[..., Any], generate: Callable[..., Any] | str, plan: Trials) -> Generate:
    if isinstance(generate, str):
        _known("generator", (generate,), GENERATORS)
        if plan.like is None:
            raise RenderError("RND902", f"generator {generate!r} needs an example", "pass like=(a, b)")
        like = plan.like if isinstance(plan.like, Inputs) else from_mapping(fn, plan.like)
        return lambda seed: redrawn(like, generate, seed)

    def draw(seed: int) -> Inputs:
        seeded(seed)
        given = generate(seed)
        return given if isinstance(given, Inputs) else from_mapping(fn, given)

    return draw


def _probe(trial: Trial, count: int) -> tuple[list[Sample], float | None]:
    """The first samples, and the median of their errors over the oracle's own."""
    samples, own = [], []
    for i in range(count):
        samples.append(trial(i, separate=True))
        own.append(trial.own_error)
    errors = [x for s in samples for x in (s.d1, s.d2) if x > 0]
    if not errors or all(math.isnan(x) for x in own):
        return samples, None
    return samples, float(np.median(errors)) / max(float(np.nanmax(own)), 5e-324)


def _split(samples: list[Sample]) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    d1, d2 = (np.array([s[k] for s in samples]) for k in (0, 1))
    good = np.isfinite(d1) & np.isfinite(d2)
    return d1[good], d2[good], (int((~np.isfinite(d1)).sum()), int((~np.isfinite(d2)).sum()))


def _found(samples: list[Sample], plan: Trials, looks: int) -> Statistics:
    d1, d2, _ = _split(samples)
    return analysed(d1, d2, plan.alpha, plan.margin, looks)


def _gates(samples: list[Sample], checks: tuple[str, ...], plan: Trials, found: Statistics) -> tuple[GateResult, ...]:
    results = []
    for name in plan.gates:
        if name not in checks:
            p = found.test("Kolmogorov-Smirnov").p
            results.append(GateResult(name, p > plan.alpha, int(p > plan.alpha), 1, p))
            continue
        column = [s.gates[checks.index(name)] for s in samples]
        passed = sum(ok for ok, _ in column)
        results.append(GateResult(name, passed == len(column), passed, len(column), max(x for _, x in column)))
    return tuple(results)
