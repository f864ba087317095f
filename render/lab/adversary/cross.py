"""Every kernel and every rule on every profile, pair by pair: written down after each pair, resumable.

A pair's randomness depends on its names and the seed alone, so an interrupted run that goes on reports what an
uninterrupted one would.
"""

from __future__ import annotations

import json
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from render.lab.adversary import rules
from render.lab.adversary.attack import AttackTally, Violation, attack
from render.lab.adversary.campaign import Report
from render.lab.adversary.subjects import Subject

RULES = "rules"
"""The name that stands for the direct attacks on the rule table."""

PATIENCE = 1e9


@dataclass(frozen=True)
class Attacked:
    """One thing attacked on one profile: `kernel`, or the rule table where it is None."""

    kernel: Subject | None
    profile: str

    @property
    def name(self) -> str:
        return self.kernel.name if self.kernel else RULES

    def seed(self, base: int) -> int:
        return zlib.crc32(f"{base}/{self.name}/{self.profile}".encode()) & 0x7FFFFFFF


@dataclass(frozen=True)
class Effort:
    """`runs` executions per kernel and profile, `lanes` per rule, `seed` of all of them."""

    runs: int = 12
    lanes: int = 256
    seed: int = 1

    def met(self, other: dict[str, int]) -> bool:
        """Whether a pair that was written with this effort counts as done."""
        return other["seed"] == self.seed and other["runs"] >= self.runs and other["lanes"] >= self.lanes


@cache
def commit() -> str:
    """Short name of the commit that runs, with a "+" where files differ from it; nothing outside a checkout."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--exclude=*", "--dirty=+"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def pairs(found: Sequence[Subject], profiles: Sequence[str], seed: int, direct: bool = True) -> list[Attacked]:
    """The cross product, in an order that mixes cheap and dear ones, so that the time left can be estimated."""
    attacked = (*found, None) if direct else found
    every = [Attacked(subject, profile) for profile in profiles for subject in attacked]
    return sorted(every, key=lambda pair: zlib.crc32(f"{seed} {pair.name} {pair.profile}".encode()))


def attack_pair(pair: Attacked, effort: Effort) -> Iterator[tuple[tuple[str, ...], AttackTally]]:
    """(names of rules that this measures, what was found)."""
    seed = pair.seed(effort.seed)
    if pair.kernel is not None:
        yield pair.kernel.rules, attack(pair.kernel, pair.profile, seed, PATIENCE, effort.runs)
        return
    for op, tally in rules.attack_all(pair.profile, seed, effort.lanes, 4):
        yield (op,), tally


def as_line(
    pair: Attacked, effort: Effort, seconds: float, parts: list[tuple[tuple[str, ...], AttackTally]]
) -> dict[str, Any]:
    return {
        "name": pair.name, "profile": pair.profile, "effort": asdict(effort), "seconds": round(seconds, 2),
        "commit": commit(), "parts": [{"rules": list(ops), **asdict(tally)} for ops, tally in parts],
    }  # fmt: skip


def tally_of(part: dict[str, Any]) -> AttackTally:
    known = {k: v for k, v in part.items() if k not in ("rules", "violations")}
    return AttackTally(**known, violations=[Violation(**v) for v in part["violations"]])


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The pairs written so far; a line cut short by an interruption is left out."""
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def report(lines: Sequence[dict[str, Any]]) -> Report:
    """Everything found, by kernel, rule and profile."""
    found = Report()
    for line in lines:
        name = None if line["name"] == RULES else line["name"]
        for part in line["parts"]:
            found.add(line["profile"], name, part["rules"], tally_of(part))
        found.seconds += line["seconds"]
    return found


def run(
    path: Path, found: Sequence[Subject], profiles: Sequence[str], effort: Effort,
    progress: Callable[[int, int, float, dict[str, Any]], None] | None = None, limit: float | None = None,
    direct: bool = True,
) -> list[dict[str, Any]]:  # fmt: skip
    """Attacks the pairs that `path` lacks at this effort or a greater one, appends each to it, and gives all of them.

    `progress` gets pairs done, pairs in all, the seconds that the rest may take, and the new line. `limit` stops after
    so many seconds, `direct` attacks the rule table as well.
    """
    todo = pairs(found, profiles, effort.seed, direct)
    asked = {(pair.name, pair.profile) for pair in todo}
    known = [line for line in read(path) if effort.met(line["effort"])]
    done = {key: line for line in known if (key := (line["name"], line["profile"])) in asked}
    began, new = time.perf_counter(), 0
    with path.open("a") as out:
        for pair in todo:
            if (pair.name, pair.profile) in done:
                continue
            if limit is not None and time.perf_counter() - began > limit:
                break
            start = time.perf_counter()
            parts = list(attack_pair(pair, effort))
            line = as_line(pair, effort, time.perf_counter() - start, parts)
            out.write(json.dumps(line) + "\n")
            out.flush()
            done[pair.name, pair.profile] = line
            new += 1
            if progress is not None:
                left = (time.perf_counter() - began) / new * (len(todo) - len(done))
                progress(len(done), len(todo), left, line)
    return [done[p.name, p.profile] for p in todo if (p.name, p.profile) in done]
