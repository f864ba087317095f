"""What is known of every border of two models, and the answer: plain data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from render.result.codes import EXIT_CODES, Label, title
from render.result.verdict import SCHEMA

RIGOROUS, FIRST_ORDER, PROBABILISTIC = "rigorous", "first-order", "probabilistic"
"""What a bound rests on; never mixed in one figure."""


@dataclass
class LeafRecord:
    """One border, judged by itself from the activations that came before it. Figures over all elements of its tensors.

    `name`: the module whose code made the tensors; `at`: the border (`layers.0 in`: what a container's own code handed
    to this module). `difference` is relative to the largest element. `apart`: how far the two unrounded functions are
    from each other, in units of what rounded constants explain. `eta_*`: error of a side in units of what the
    conditioning and one rounding of the output explain; `kappa`: the target's bound in the same unit. `*_out_*`: how
    many elements of a side lie outside a bound. `turned`: choices (experts, maxima) that fell otherwise within
    rounding. `operation`: the one that loses the digits, where one was looked for.
    """

    name: str
    at: str
    leaf: bool
    elements: int
    dtypes: str
    differing: int = 0
    difference: float = 0.0
    label: Label = "Type-I"
    code: str = "RND100"
    detail: str = ""
    apart: float = 0.0
    eta_target: float = 0.0
    eta_reference: float = 0.0
    kappa: float = 0.0
    unstable: int = 0
    width: float = 0.0
    target_out_target: int = 0
    target_out_reference: int = 0
    reference_out_target: int = 0
    reference_out_reference: int = 0
    exact_out_target: int = 0
    disjoint: int = 0
    nonfinite: int = 0
    unbounded: int = 0
    turned: int = 0
    kind: str = RIGOROUS
    operation: str = ""
    taints: tuple[str, ...] = ()
    bands: dict[str, float] = field(default_factory=dict)

    @property
    def paper_rule(self) -> Label:
        """The published rule: is the reference in the target's bound? Where there is none it says nothing."""
        if self.taints:
            return "Inconclusive"
        return "Type-II" if self.reference_out_target else "Type-I"


@dataclass
class NetworkVerdict:
    """The answer for two models: the label of the first module that leaves, or that of the largest difference."""

    label: Label
    code: str
    first: str | None
    message: str
    leaves: list[LeafRecord]
    paper_rule: Label
    device: str
    notes: list[str] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        return title(self.code)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.label]

    def __getitem__(self, name: str) -> LeafRecord:
        """The worst record of a module."""
        found = [r for r in self.leaves if r.name == name]
        if not found:
            raise KeyError(name)
        return min(found, key=lambda r: (-_RANK[r.label], -r.difference))

    def to_json(self) -> str:
        more = {"title": self.title, "exit_code": self.exit_code, "kind": "network"}
        return json.dumps({"schema": SCHEMA, **asdict(self), **more}, indent=2)

    def save(self, path: str | Path) -> None:
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from render.network.page import lines

        yield "\n".join(lines(self, options.max_width))

    def __str__(self) -> str:
        from render.network.page import lines

        return "\n".join(lines(self))


_RANK = {"Type-I": 0, "Inconclusive": 1, "Type-II": 2}


def worst(records: Sequence[LeafRecord]) -> tuple[Label, str]:
    """Label and code of a run without a bug: what is not known beats round-off, then the largest difference speaks."""
    open_ = [r for r in records if r.label == "Inconclusive"]
    if open_:
        return "Inconclusive", open_[0].code
    moved = [r for r in records if r.code != "RND100"]
    weak = [r for r in moved if r.code == "RND110"]
    if weak:
        return "Type-I", "RND110"
    return "Type-I", max(moved, key=lambda r: r.difference).code if moved else "RND100"
