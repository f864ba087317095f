"""Many attacks: every rule and every kernel on chosen profiles, with one report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from interval_ops.profiles.profile import Profile
from render.lab.adversary import rules
from render.lab.adversary.attack import AttackTally, attack
from render.lab.adversary.subjects import Subject

FAR = 0.3
"""Rules whose attacks stay below this fraction of the half-width are listed: bounds, or attacks, that may be weak."""

Progress = Callable[[str, str, AttackTally], None]


@dataclass
class Report:
    """Tallies by kernel, by rule and by profile. A rule is measured by direct attacks and by kernels of that rule."""

    kernels: dict[str, AttackTally] = field(default_factory=dict)
    rules: dict[str, AttackTally] = field(default_factory=dict)
    profiles: dict[str, AttackTally] = field(default_factory=dict)
    total: AttackTally = field(default_factory=AttackTally)
    skipped: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, profile: str, kernel: str | None, ops: Iterable[str], tally: AttackTally) -> None:
        if tally.skipped:
            self.skipped[f"{profile}: {kernel or next(iter(ops), '')}"] = tally.skipped
            return
        self.total.add(tally)
        self.profiles.setdefault(profile, AttackTally()).add(tally)
        if kernel is not None:
            self.kernels.setdefault(kernel, AttackTally()).add(tally)
        for op in ops:
            self.rules.setdefault(op, AttackTally()).add(tally)

    def merged(self, other: Report) -> Report:
        """This report and another one's findings."""
        for own, more in (
            (self.kernels, other.kernels), (self.rules, other.rules), (self.profiles, other.profiles)
        ):  # fmt: skip
            for name, tally in more.items():
                own.setdefault(name, AttackTally()).add(tally)
        self.total.add(other.total)
        self.skipped.update(other.skipped)
        self.seconds += other.seconds
        return self

    @property
    def far(self) -> dict[str, float]:
        """Kernels and rules whose results stayed far from their bounds."""
        measured = {**self.kernels, **{f"rule {op}": t for op, t in self.rules.items()}}
        return {name: t.approach for name, t in measured.items() if 0 < t.approach < FAR}

    def as_dict(self) -> dict[str, Any]:
        def brief(tallies: dict[str, AttackTally]) -> dict[str, Any]:
            return {
                name: {"checks": t.checks, "runs": t.runs, "violations": t.violated, "approach": round(t.approach, 4)}
                for name, t in tallies.items()
            }

        return {
            "checks": self.total.checks,
            "runs": self.total.runs,
            "violations": self.total.violated,
            "seconds": round(self.seconds, 1),
            "kernels": brief(self.kernels),
            "rules": brief(self.rules),
            "profiles": brief(self.profiles),
            "far": {name: round(value, 4) for name, value in self.far.items()},
            "skipped": self.skipped,
            "examples": [asdict(v) for v in self.total.violations[:20]],
        }


def run(
    profiles: Sequence[str | Profile], found: Sequence[Subject], seconds: float, seed: int = 1, runs: int = 1000,
    progress: Progress | None = None, limit: float | None = None, direct: int = 256,
    share: int = 0,
) -> Report:  # fmt: skip
    """Attacks the rules directly (`direct` lanes each), then every subject for about `seconds` on every profile.

    `limit` stops the whole after so many seconds; what was not reached is left out. With a `share`, each subject meets
    only so many profiles, in turn. A `Profile` in place of a name may assume an order (`Profile.chosen`).
    """
    report, began = Report(), time.perf_counter()

    def expired() -> bool:
        return limit is not None and time.perf_counter() - began > limit

    for profile in profiles:
        name = _name(profile)
        for op, tally in rules.attack_all(profile, seed, direct, 4) if direct else ():
            report.add(name, None, (op,), tally)
        if progress is not None and direct:
            progress(name, "rules", report.profiles[name])
    for i, subject in enumerate(found):
        turn = i * share % len(profiles)
        for profile in [*profiles[turn:], *profiles[:turn]][: share or None]:
            if expired():
                break
            tally = attack(subject, profile, seed, seconds, runs)
            report.add(_name(profile), subject.name, subject.rules, tally)
            if progress is not None:
                progress(_name(profile), subject.name, tally)
    report.seconds = time.perf_counter() - began
    return report


def _name(profile: str | Profile) -> str:
    return profile if isinstance(profile, str) else profile.name
