"""One execution as a point in the space of legal choices: every choice is a named coordinate.

A coordinate's value follows from the seed and its name alone, so that a climber can change one of them and leave the
others as they were.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np


@dataclass
class AttackPlan:
    """`fixed` overrides what the seed would draw; `seen` collects the coordinates that a run met."""

    seed: int
    fixed: Mapping[str, str] = field(default_factory=dict)
    seen: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def pick(self, name: str, options: Sequence[str]) -> str:
        """The choice at coordinate `name`, the same for the whole run."""
        if len(options) == 1:
            return options[0]
        self.seen[name] = tuple(options)
        if self.fixed.get(name) in options:
            return self.fixed[name]
        return options[zlib.crc32(f"{self.seed}/{name}".encode()) % len(options)]

    def generator(self) -> np.random.Generator:
        """Randomness within a choice, e.g. one direction per lane."""
        return np.random.default_rng(self.seed)

    def changed(self, name: str, value: str) -> AttackPlan:
        return replace(self, fixed={**self.fixed, name: value}, seen={})
