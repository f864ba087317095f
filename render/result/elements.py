"""What is said of single elements, as plain data: the second opinion, where one departs, what made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FEW = 4
"""Numbers behind an element that are told one by one."""


@dataclass(frozen=True)
class Witness:
    """What the second evaluation of an element outside its bound says.

    `status`: "agrees" (the value cannot be reached), "disagrees", or "none" (there is no witness; `why` gives the
    reason). `document` is the computation itself, as `render.witness` wrote it. `put_by`: file and line of the host
    code that put a number there which no kernel computed.
    """

    status: str
    output: str
    index: tuple[int, ...]
    why: str
    document: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    put_by: tuple[str, int] | None = None

    @property
    def place(self) -> str:
        return f"{self.output}{list(self.index)}"

    @property
    def ends(self) -> tuple[float, float] | None:
        """What the second evaluation holds possible; None where there was none."""
        ends = self.document.get("enclosure") if self.document else None
        return None if ends is None else (float.fromhex(ends[0]), float.fromhex(ends[1]))

    @property
    def inputs(self) -> str:
        """The numbers that the element was computed from, where they are few; "" without a second evaluation."""
        try:
            nodes = (self.document or {})["nodes"]
            read = [n for n in nodes if n["op"] == "leaf" and n["attrs"].get("source") == "input"]
            count, names = sum(n["size"] for n in read), dict.fromkeys(n["attrs"]["name"] for n in read)
            told = ", ".join(names)
            if count == len(read) <= FEW:
                told = ", ".join(f"{n['attrs']['name']} = {float.fromhex(n['low']):.7g}" for n in read)
        except (KeyError, TypeError, ValueError, AttributeError):  # none, or a file that somebody has edited
            return ""
        some = f"{count} numbers of " if count != len(read) or count > FEW else ""
        own = self.output in names  # nothing stored it: what lay in memory is what is there
        return f"{self.place} was computed from {some}{told}" if read and not own else ""

    @property
    def sentence(self) -> str:
        """One line for a report."""
        if self.status == "agrees":
            side = "device" if self.document and self.document["claim"]["side"] == "device" else "reference"
            return f"witness: other code evaluated {self.place} again and does not reach the {side}'s value either"
        if self.status == "disagrees":
            return f"the second evaluation of {self.place} does not agree: {self.why}; please report this"
        return f"no witness for {self.place}: {self.why}"


@dataclass(frozen=True)
class Divergence:
    """Where an element leaves the way that the reference takes.

    The result of `op` at `line`, and all that is computed from it, is nothing that the reference has; behind it, that
    of `after_op` at `after_line` equals what its `counterpart` (an operation or input) gives. No `op`: the stored value
    has a counterpart, so the kernel lacks what the reference does next. `choice`: the select at `line` leaves the side
    that the reference takes. `why`: why nothing could be established. `unread`: which elements of the inputs it is
    computed without, though the reference's value depends on them.
    """

    output: str
    index: tuple[int, ...]
    why: str = ""
    op: str = ""
    file: str | None = None
    line: int = 0
    after_op: str = ""
    after_line: int = 0
    counterpart: str = ""
    choice: bool = False
    unread: str = ""

    @property
    def established(self) -> bool:
        return not self.why

    @property
    def sentence(self) -> str:
        """Where it leaves the reference, and which inputs it lacks, as far as either is established."""
        if self.unread and self.why:
            return f"{self.output}{list(self.index)}: {self.unread}"
        return f"{self._place}; {self.unread}" if self.unread else self._place

    @property
    def _place(self) -> str:
        element = f"{self.output}{list(self.index)}"
        if self.why:
            return f"where {element} leaves the reference is not established: {self.why}"
        if self.choice:
            return f"{element}: the select at line {self.line} takes one side, the reference has the other's value"
        if not self.op:
            return f"{element} is what the reference has after {self.counterpart}: a step is missing behind it"
        text = f"{element} leaves the reference at line {self.line} ({self.op}): from there on it has no such results"
        if not self.counterpart:
            return text
        return f"{text}; before, line {self.after_line} ({self.after_op}) equals its {self.counterpart}"


@dataclass(frozen=True)
class Guilty:
    """A single change of a line with which the kernel computes what the reference computes: `what`."""

    file: str
    line: int
    what: str

    @property
    def sentence(self) -> str:
        return f"line {self.line}: with {self.what} the outputs equal the reference, rounding apart"


@dataclass(frozen=True)
class Maker:
    """An earlier launch (its number in the order of the run) that stored elements, the programs, and the line."""

    launch: int
    kernel: str
    programs: tuple[int, ...]
    file: str
    line: int

    def __str__(self) -> str:
        several = "programs" if len(self.programs) > 1 else "program"
        numbers = ", ".join(map(str, self.programs))
        return f"stored by {several} {numbers} of {self.kernel} (launch {self.launch}), {self.file}:{self.line}"


@dataclass(frozen=True)
class Source:
    """Elements of one tensor that an output element was computed from; `indices` lists the first of `count`.

    `makers` are the earlier launches that the listed elements come from; none where the host or the caller made them.
    """

    tensor: str
    count: int
    indices: tuple[tuple[int, ...], ...]
    lines: tuple[int, ...]
    makers: tuple[Maker, ...] = ()


@dataclass(frozen=True)
class Provenance:
    """Which program and line stored an element, and what it was computed from."""

    output: str
    index: tuple[int, ...]
    kernel: str
    program: tuple[int, ...]
    file: str
    line: int
    sources: tuple[Source, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = f"{self.output}{list(self.index)}: stored by program {self.program} of {self.kernel}"
        lines = [f"{place}, {self.file}:{self.line}"]
        for s in self.sources:
            shown = ", ".join(str(list(i)) for i in s.indices) + (", ..." if s.count > len(s.indices) else "")
            lines.append(f"  from {s.tensor}: {s.count} element{'s' * (s.count != 1)} {shown}")
            lines += [f"    {maker}" for maker in s.makers]
        return "\n".join([*lines, *(f"  note: {n}" for n in self.notes)])
