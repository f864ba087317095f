"""One search, and what it proposes: the choices that were looked at, a ready kernel file, a table and a picture."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from render.companions.called import Called
from render.companions.demotion.certify import FORMATS_TRIED, Bench, Certified
from render.companions.demotion.search import search
from render.companions.demotion.sites import BITS, Spot
from render.entry.inputs import Inputs
from render.result.errors import RenderError
from render.result.needs import drawn, pyplot
from render.trace.adjoint import contributions
from render.trace.element import slice_of
from render.trace.model import NotSliceable

_EVALUATIONS = 100


@dataclass(frozen=True)
class Tried:
    """A choice that was looked at; errors over the tolerance. `probable`: 6 standard deviations of the typical error of
    the element that is worst certified (an estimate; None where it was not computed)."""

    what: str
    certified: Certified
    probable: float | None

    def to_dict(self) -> dict[str, Any]:
        c = self.certified
        return {
            "choice": {site.name: fmt for site, fmt in c.choice}, "what": self.what, "saved_bits": c.saved,
            "certified": _finite(c.usage), "observed": _finite(c.observed), "probabilistic": self.probable,
            "error": _finite(c.error), "passes": c.passes, "why": c.why,
        }  # fmt: skip


@dataclass(frozen=True)
class Proposal:
    """`best`: the certified choice that saves most bits; `source`: the file with it carried out."""

    file: str
    sites: tuple[Spot, ...]
    base: Tried
    singles: tuple[Tried, ...]
    best: Tried
    source: str
    evaluations: int
    atol: float
    rtol: float
    scope: str

    @property
    def choice(self) -> dict[str, str]:
        """Name of a site -> format."""
        return {site.name: fmt for site, fmt in self.best.certified.choice}

    def save(self, path: str | Path) -> None:
        Path(path).write_text(self.source, encoding="utf-8")

    def to_dict(self) -> dict[str, Any]:
        return {
            "file": self.file, "atol": self.atol, "rtol": self.rtol, "scope": self.scope,
            "evaluations": self.evaluations, "base": self.base.to_dict(), "best": self.best.to_dict(),
            "singles": [r.to_dict() for r in self.singles],
            "sites": [{"name": s.name, "kind": s.kind, "function": s.function, "lines": s.lines} for s in self.sites],
        }  # fmt: skip

    def report(self) -> str:
        tolerance = f"{self.atol:g} + {self.rtol:g} |exact|"
        done = self.best.certified
        if not self.base.certified.passes:
            head = f"the kernel as it is uses {self.base.certified.usage:.3g} of the tolerance: nothing can be demoted"
        else:
            head = f"{len(done.choice)} of {len(self.sites)} values demoted, {done.saved} bits saved, error certified"
        lines = [f"demote {Path(self.file).name}: {head}", f"  tolerance {tolerance}; {self.scope}; "
                 f"{self.evaluations} evaluations", "",
                 f"  {'choice':42}{'certified':>11}{'probable':>11}{'observed':>11}   of the tolerance"]  # fmt: skip
        for row in (self.base, *sorted(self.singles, key=lambda r: r.certified.usage), self.best):
            c = row.certified
            probable = "" if row.probable is None else f"{row.probable:.3g}"
            mark = f"  {c.why}" if c.why else "" if c.passes else "  too much"
            lines.append(f"  {row.what:42}{c.usage:>11.3g}{probable:>11}{c.observed:>11.3g}{mark}")
        for site, fmt in done.choice:
            lines.append(f"    {fmt:8}{site.title} (line {', '.join(map(str, site.lines))})")
        return "\n".join(lines)

    def plot(self, path: Any) -> None:
        """Every choice that was looked at: bits saved against certified, probabilistic and observed error."""
        plt = pyplot()
        rows = [self.base, *self.singles, self.best]
        figure, axes = plt.subplots(figsize=(8, 0.32 * len(rows) + 1.6), layout="constrained")
        kinds = (
            ("certified (proof)", "o", lambda r: r.certified.usage),
            ("probable (estimate)", "d", lambda r: r.probable),
            ("observed (measurement)", "x", lambda r: r.certified.observed),
        )
        for name, marker, value in kinds:
            points = [(v, i) for i, r in enumerate(rows) if (v := value(r)) is not None and 0 < v < math.inf]
            axes.plot([v for v, _ in points], [i for _, i in points], marker, label=name)
        axes.set_yticks(range(len(rows)), [r.what for r in rows], fontsize=8)
        axes.invert_yaxis()
        axes.axvline(1.0, color="0.4", lw=0.8)
        axes.set(xscale="log", xlabel="error over tolerance")
        axes.legend(fontsize=8)
        drawn(figure, path, 140)


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None


def propose(
    called: Called, inputs: Inputs, atol: float, rtol: float, formats: tuple[str, ...] = FORMATS_TRIED,
    device: str = "any", budget: int | None = None, box: Callable[..., Any] | None = None, scope: str = "these inputs",
) -> Proposal:  # fmt: skip
    """Searches, and collects what is worth telling. Raises RenderError for what cannot be demoted."""
    for name in formats:
        if name not in BITS or name == "fp32":
            raise RenderError(
                "RND902", f"no format {name!r} to demote to", f"one of {', '.join(k for k in BITS if k != 'fp32')}"
            )
    bench = Bench(called, inputs, atol, rtol, device, box)
    sites = bench.sites(formats)
    if not sites:
        raise RenderError("RND902", f"{called.path.name} has no fp32 values to demote", "only fp32 kernels are demoted")
    best = search(bench, sites, _EVALUATIONS if budget is None else budget)
    base = bench({})
    singles = [c for c in bench.known.values() if len(c.choice) == 1]
    rows = [Tried(f"{c.choice[0][1]} {c.choice[0][0].title}", c, _probable(bench, c)) for c in singles]
    return Proposal(
        str(called.path), tuple(sites), Tried("as it is", base, _probable(bench, base)), tuple(rows),
        Tried("proposed", best, _probable(bench, best)), bench.text(dict(best.choice)), bench.evaluations, atol, rtol,
        scope,
    )  # fmt: skip


def _probable(bench: Bench, found: Certified) -> float | None:
    """The probabilistic band (`margins.probable`) of the element with the widest bound, over its tolerance.

    At most the certificate: of a few roundings six standard deviations reach beyond what they can do together.
    """
    if not math.isfinite(found.usage):
        return None
    try:
        entry = bench.entry(dict(found.choice))
        run = entry.run()
        worst = 0.0
        for out in run.outputs:
            if not out.tracked or not out.value.size:
                continue
            allowed = bench.atol + bench.rtol * np.abs(out.value)
            with np.errstate(divide="ignore", invalid="ignore"):
                at = np.unravel_index(int(np.nan_to_num((out.hi - out.lo) / allowed).argmax()), out.value.shape)
            worst = max(
                worst, contributions(slice_of(entry, run, out.name, [int(i) for i in at])).band / float(allowed[at])
            )
    except NotSliceable:
        return None
    return min(worst, found.usage)
