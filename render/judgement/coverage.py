"""What a verdict covers: the record of it (`Scope`), and what keeps a Type-I from being one.

Tensors that a kernel stored to and that the caller can see are compared, or passed on (a later launch or the host read
them, so that what is compared rests on them), or vouched for: the value that is stored is also a step on the way to a
compared output, by the slices of a few elements (statistics that a forward pass keeps for the backward one). Of any
other nobody knows whether it is right, and exit 0 would say that it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from render.entry.execution import Entry, Execution, Tensor
from render.entry.inputs import Inputs
from render.entry.outputs import visible
from render.entry.recording import sha256
from render.interpreter.memory.records import Use
from render.judgement.composition import Judged
from render.judgement.configurations import counted
from render.result.decision import Decision
from render.result.scope import InputRecord, Scope

if TYPE_CHECKING:
    from render.trace.model import Slice

CODE, PART = "RND310", "RND314"
LOOKED_AT = 3
"""Elements of a tensor without counterpart whose values are looked for on the way to a compared output."""


class HandedOn(Enum):
    """Whether what kernels stored can be in what is compared. (What the host reads by an address, unseen, looks as if
    nothing had read it.)"""

    SOME = "kernels stored to what is compared, or something read what they stored"
    NOT_READ = "no kernel stored to what is compared, and nothing is seen to read what kernels stored"
    STORED_NOTHING = "no element was ever stored by a kernel: what is compared is what the host made"


@dataclass(frozen=True)
class Coverage:
    """Names of what was stored, compared, and judged by nobody; `vouched`: notes on what is not compared and why.

    `finite`: elements with a finite exact value that were compared. `reached`: whether
    anything that a kernel stored can be among these.
    """

    stored: tuple[str, ...]
    compared: tuple[str, ...]
    unjudged: tuple[str, ...]
    vouched: tuple[str, ...]
    finite: int
    reached: HandedOn = HandedOn.SOME

    @property
    def complete(self) -> bool:
        """Whether something finite was compared that kernels had a part in, and nothing was left."""
        return self.finite > 0 and self.reached is HandedOn.SOME and not self.unjudged

    def decided(self, decision: Decision) -> Decision:
        if decision.label != "Type-I":
            return decision
        if self.reached is HandedOn.STORED_NOTHING:
            return Decision("Type-II", "RND205", self.reached.value)
        if self.reached is HandedOn.NOT_READ:
            return Decision("Inconclusive", CODE, self.reached.value)
        if not self.finite:
            return Decision("Inconclusive", "RND301", "no element with a finite value was compared")
        if not self.unjudged:
            return decision
        names = ", ".join(self.unjudged)
        verb = "was" if len(self.unjudged) == 1 else "were"
        return Decision("Inconclusive", CODE, f"{names} {verb} stored by a kernel and not compared with anything")


def coverage(entry: Entry, run: Execution, judged: Sequence[Judged], decision: Decision) -> Coverage:
    """Slices are cut only where a Type-I depends on them."""
    compared = [j.ours for j in judged]
    bases = {x.base for x in compared}
    others = [o for o in run.outputs if o.base not in bases]
    uses = [(o.name, o.use) for o in others] + list(run.aside)
    unjudged, vouched = [], []
    for name, use in uses:
        if use is Use.PASSED_ON:
            vouched.append(f"{name} was not compared: what is compared was computed from it")
        elif use is Use.STORED:
            known = next((o for o in others if o.name == name), None)
            if decision.label == "Type-I" and known is not None and _on_the_way(entry, run, known, compared):
                vouched.append(
                    f"{name} was not compared: its values are steps on the way to what is compared (sampled)"
                )
            else:
                unjudged.append(name)
    stored = [o.name for o in run.outputs if o.use in (Use.STORED, Use.PASSED_ON)] + [name for name, _ in run.aside]
    finite = sum(int(np.isfinite(j.case.exact).sum()) for j in judged if not j.case.mismatch)
    reached = _reach(run, compared)
    return Coverage(tuple(stored), tuple(o.name for o in compared), tuple(unjudged), tuple(vouched), finite, reached)


def _reach(run: Execution, compared: Sequence[Tensor]) -> HandedOn:
    stored = any(o.use in (Use.STORED, Use.PASSED_ON) or o.left is not None for o in compared)
    if stored or not run.apart or not any(o.value.size for o in compared):
        return HandedOn.SOME
    return HandedOn.NOT_READ if run.session.memory.stored_to else HandedOn.STORED_NOTHING


def sampled(run: Execution, judged: Sequence[Judged]) -> tuple[str, ...]:
    """What was left out because a part of the programs ran, in words."""
    if run.session.programs is None:
        return ()
    ran = [(x.kernel, x.stats.programs, int(np.prod(x.grid))) for x in run.session.launches]
    said = [f"{some} of {all_} programs of {kernel} ran" for kernel, some, all_ in ran if some < all_]
    left = [j.case for j in judged if j.case.left]
    return (*said, *(f"{c.value.size - c.left} of {c.value.size} elements of {c.name} were judged" for c in left))


def in_part(run: Execution, judged: Sequence[Judged], decision: Decision) -> Decision:
    """No Type-I of what was judged in part."""
    said = sampled(run, judged)
    return Decision("Inconclusive", PART, "; ".join(said)) if said and decision.label == "Type-I" else decision


def _on_the_way(entry: Entry, run: Execution, kept: Tensor, compared: Sequence[Tensor]) -> bool:
    """Whether the values stored at some places of `kept` are steps in slices of compared elements."""
    from render.trace.element import slices_of
    from render.trace.model import NotSliceable

    if not kept.value.size:
        return False
    for flat in sorted({0, kept.value.size // 2, kept.value.size - 1})[:LOOKED_AT]:
        wanted = [(kept.name, _place(kept, flat))]
        wanted += [(x.name, _place(x, flat * x.value.size // kept.value.size)) for x in compared if x.value.size]
        found = slices_of(entry, run, wanted)
        one, rest = found[0], [s for s in found[1:] if not isinstance(s, NotSliceable)]
        if isinstance(one, NotSliceable) or not any(_holds(other, one) for other in rest):
            return False
    return True


def _place(x: Tensor, flat: int) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, x.value.shape))


def _holds(other: Slice, one: Slice) -> bool:
    """Whether a step of `other` is what `one` stores, or what it rounds to store it: line, operation and numbers."""
    node, number = one.node_of(one.root), one.root
    while True:
        i = number - node.start
        ends = (node.lo[i], node.hi[i])
        for step in other.nodes:
            same = (step.op, step.file, step.line) == (node.op, node.file, node.line) and step.op != "leaf"
            if same and bool(((step.lo == ends[0]) & (step.hi == ends[1])).any()):
                return True
        if node.op not in ("cast", "store") or len(node.operands) != 1:
            return False
        number = int(node.operands[0].reshape(-1)[min(i, node.operands[0].size - 1)])
        node = one.node_of(number)


def scope_of(
    run: Execution, inputs: Inputs, seed: int, found: Coverage, left_out: Iterable[str], device_output: str
) -> Scope:
    return Scope(
        configurations=counted(run.session), inputs=tuple(hashed(inputs)), seed=seed, source=_source(run.session),
        stored=found.stored, compared=found.compared, unjudged=found.unjudged,
        left_out=tuple(dict.fromkeys(left_out)), device_output=device_output,
    )  # fmt: skip


def hashed(inputs: Inputs) -> Iterable[InputRecord]:
    for name, x in visible(inputs):
        if not name.endswith(".grad"):
            yield InputRecord(name, tuple(x.shape), str(x.dtype).removeprefix("torch."), sha256(x))


def _source(session: Any) -> str:
    """sha256 of the files of the launched kernels, in the order of their names; "" where one cannot be read."""
    digest = hashlib.sha256()
    for file in sorted({launch.file for launch in session.launches}):
        try:
            digest.update(Path(file).read_bytes())
        except OSError:
            return ""
    return digest.hexdigest()
