"""Every autotune configuration of a call, judged one after another: the worst verdict is that of the call.

A tuner on a device picks whichever is fastest there, so each of them is the kernel. Where a call tunes several kernels,
run number i takes each one's i-th configuration: every configuration is judged, not every combination of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from render.interpreter.tuning import configurations
from render.result.codes import severity
from render.result.scope import Configurations, ConfigurationVerdict
from render.result.verdict import Verdict

Judge = Callable[[Mapping[str, int]], tuple[Verdict, Any]]
"""The verdict of a run that tries this configuration first, by kernel, and its session (None: it came to no end)."""


@dataclass
class Kernels:
    """What became of the configurations of each kernel, over all sessions that were added."""

    texts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    run: dict[str, set[int]] = field(default_factory=dict)
    refused: dict[str, set[int]] = field(default_factory=dict)

    def add(self, session: Any) -> tuple[str, ...]:
        """What ran in this session, in words."""
        settings = []
        for kernel, tuned in configurations(session) if session is not None else ():
            self.texts[kernel] = max(self.texts.get(kernel, ()), tuned.texts, key=len)
            self.run.setdefault(kernel, set()).update(tuned.run)
            self.refused.setdefault(kernel, set()).update(tuned.refused)
            settings += [f"{kernel}: {tuned.texts[i]}" for i in sorted(tuned.run)]
        return tuple(settings)

    @property
    def left(self) -> dict[str, list[int]]:
        """Those that neither ran nor refused themselves, of kernels that have any."""
        known = {k: self.run[k] | self.refused[k] for k in self.texts}
        found = {k: [i for i in range(len(t)) if i not in known[k]] for k, t in self.texts.items()}
        return {kernel: places for kernel, places in found.items() if places}

    @property
    def counts(self) -> tuple[Configurations, ...]:
        """Run of those that there are to choose from: those that refuse themselves are no choice."""
        return tuple(
            Configurations(kernel, len(self.run[kernel]), len(texts) - len(self.refused[kernel] - self.run[kernel]))
            for kernel, texts in self.texts.items()
        )


def counted(session: Any) -> tuple[Configurations, ...]:
    """What one session judged of what there is to choose from."""
    kernels = Kernels()
    kernels.add(session)
    return kernels.counts


def worst_of_all(judge: Judge) -> Verdict:
    """Runs until each configuration of each kernel has run or is refused by its own assertions."""
    kernels = Kernels()
    found: list[tuple[Verdict, tuple[str, ...]]] = []
    left: dict[str, list[int]] = {}
    while True:
        verdict, session = judge({kernel: places[0] for kernel, places in left.items()})
        settings, before = kernels.add(session), left
        left = kernels.left
        if found and left == before:  # a kernel that these configurations do not launch
            break
        found.append((verdict, settings))
        if not left:
            break
    worst, ran = min(found, key=lambda f: severity(f[0].label, f[0].code))
    each = tuple(ConfigurationVerdict(s, v.label, v.code) for v, s in found) if len(found) > 1 else ()
    spent = {name: sum(v.timing.get(name) or 0.0 for v, _ in found) for name in ("interval_s", "total_s")}
    scope = replace(worst.scope, configurations=kernels.counts, each=each)
    told = [f"{'; '.join(c.sentence for c in kernels.counts)}; worst with {'; '.join(ran)}"] if each else []
    return replace(worst, scope=scope, timing={**worst.timing, **spent}, notes=(*worst.notes, *told))
