"""The certificate of one choice: an interval run of the rewritten kernel itself, never of a model of it.

T, the envelope of the rewritten kernel, holds what every legal execution computes; T32, that of the original, holds the
exact result. So |computed - exact| <= max(hi - lo32, hi32 - lo) per element, for these inputs and this target.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from interval_ops.profiles.profile import MissingRule
from render.companions.called import Called
from render.companions.demotion.sites import BITS, Choice, FloatLines, Spot, found_sites, rewritten
from render.entry.execution import Entry, Execution, on_cpu
from render.entry.inputs import Inputs
from render.entry.outputs import flatten, stored_arguments
from render.entry.target import load_module
from render.interpreter.events import listened
from render.interpreter.lift import lifted_session, wide_values
from render.interpreter.script import source_of
from render.result.errors import KernelError, RenderError, UnsupportedOp

FORMATS_TRIED = ("fp16", "bf16")


@dataclass(frozen=True)
class Certified:
    """One choice: `usage`, `observed`: certified and observed error over the tolerance, largest element (infinite: no
    bound); `error`: the certified error itself at that element's output. `why`: it cannot be compiled or bounded."""

    choice: tuple[tuple[Spot, str], ...]
    usage: float
    error: float
    observed: float
    why: str = ""

    @property
    def passes(self) -> bool:
        return self.usage <= 1

    @property
    def saved(self) -> int:
        """Bits that the demoted sites save together."""
        return saved(dict(self.choice))


def saved(choice: Choice) -> int:
    return sum(32 - BITS[fmt] for fmt in choice.values())


Failed = (KernelError, UnsupportedOp, MissingRule, RenderError)
"""What a rewritten kernel may raise."""


class Uncertified(Exception):
    """There is no certificate; the message says why."""


@dataclass
class Bench:
    """The kernel on its bench: evaluates choices, each once. `evaluations` counts runs of rewritten kernels."""

    called: Called
    inputs: Inputs
    atol: float
    rtol: float
    device: str = "any"
    certificate: Callable[[Entry, Execution], tuple[np.ndarray, np.ndarray]] | None = None
    """Another certificate than that for these inputs: (error, |exact| at least) per element (`boxes`)."""
    evaluations: int = field(default=0, init=False)
    _files: int = field(default=0, init=False)
    known: dict[frozenset[tuple[Spot, str]], Certified] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.source = source_of(self.called.path)
        self.folder = tempfile.TemporaryDirectory(prefix="render-demote-")
        self.base = self._run(self.called.fn)
        self.exact = self.exact_of(self.called.fn)

    def sites(self, formats: tuple[str, ...] = FORMATS_TRIED) -> list[Spot]:
        """What may be demoted, from a run of the original."""
        seen = FloatLines()
        Entry(self.called.fn, self.inputs, self.device, 0, {"interval": False, "builder": listened(seen)}).given()
        return found_sites(self.source, seen, formats)

    def __call__(self, choice: Choice) -> Certified:
        key = frozenset(choice.items())
        if key not in self.known:
            self.evaluations += 1
            self.known[key] = self._certified(choice)
        return self.known[key]

    def text(self, choice: Choice) -> str:
        """The file with the choice carried out."""
        return rewritten(self.source, choice)

    def entry(self, choice: Choice) -> Entry:
        """The rewritten kernel with the same inputs."""
        return self.entry_of(self.text(choice))

    def entry_of(self, text: str) -> Entry:
        """Another text of the file, with the same inputs."""
        self._files += 1
        path = Path(self.folder.name) / f"{self.called.path.stem}_{self._files}.py"
        path.write_text(text, encoding="utf-8")
        with on_cpu():
            module = load_module(path)
        return Entry(getattr(module, self.called.fn.__name__), self.inputs, self.device)

    def _run(self, fn: Any) -> Execution:
        return Entry(fn, self.inputs, self.device).run()

    def exact_of(self, fn: Any) -> list[np.ndarray]:
        """Values one format wider (float64 for fp32): what errors are observed against."""
        inputs = self.inputs.clone()
        with lifted_session(self.device) as session:
            result = fn(*inputs.args, **inputs.kwargs)
        named = flatten(result) or stored_arguments(inputs, session.envelope)
        return [wide_values(session, x) for _, x in named]

    def _certified(self, choice: Choice) -> Certified:
        items = tuple(choice.items())
        try:
            entry = self.entry(choice)
            run = entry.run()
            if self.certificate is not None:
                return self._boxed(items, entry, run)
            usage, error, observed = self._compared(run)
        except Failed as failed:
            return Certified(items, np.inf, np.inf, np.inf, str(failed).splitlines()[0])
        return Certified(items, usage, error, observed)

    def _compared(self, run: Execution) -> tuple[float, float, float]:
        worst = error = seen = 0.0
        for mine, base, exact in zip(run.outputs, self.base.outputs, self.exact, strict=True):
            if mine.taints or base.taints:
                return np.inf, np.inf, np.inf
            if not mine.tracked:
                continue
            with np.errstate(invalid="ignore"):
                gap = np.maximum(mine.hi - base.lo, base.hi - mine.lo)
                least = np.where((base.lo <= 0) & (base.hi >= 0), 0.0, np.minimum(np.abs(base.lo), np.abs(base.hi)))
                gap = np.where(np.isnan(gap), np.inf, np.nextafter(gap, np.inf))
                allowed = self.atol + self.rtol * least
                used = gap / np.where(allowed > 0, allowed, np.finfo(float).tiny)
                real = np.abs(mine.value - exact)
                ratio = np.where(np.isnan(real), np.inf, real) / (self.atol + self.rtol * np.abs(exact))
            if used.size:
                at = int(used.argmax())
                if used.flat[at] >= worst:
                    worst, error = float(used.flat[at]), float(gap.flat[at])
                seen = max(seen, float(ratio.max()))
        return worst, error, seen

    def _boxed(self, items: Any, entry: Entry, run: Execution) -> Certified:
        assert self.certificate is not None
        _, _, observed = self._compared(run)
        try:
            error, least = self.certificate(entry, run)
        except Uncertified as why:
            return Certified(items, np.inf, np.inf, observed, str(why))
        used = error / np.maximum(self.atol + self.rtol * least, np.finfo(float).tiny)
        return Certified(items, float(used.max()), float(error[used.argmax()]), observed)
