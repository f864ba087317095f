"""What explanations found, as plain data: reports and JSON read only this."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Evidence:
    """One fact that a verdict rests on or tells, and of what kind it is.

    "proof": it holds for every legal execution. "measurement": it was seen on these inputs. "estimate": first order, or
    a model of independent roundings. "index": a number that ranks and proves nothing. `name` is the path of the field
    in the JSON ("outputs/c/bound"), `value` what it says, `text` one line for people.
    """

    kind: Literal["proof", "measurement", "estimate", "index"]
    name: str
    value: float | str | None
    text: str


@dataclass(frozen=True)
class Counterfactual:
    """The same classification under one changed assumption.

    `shrink` is median half width before / after, of the output that gains least: above 1 the bound is narrower, below
    1 wider, infinite where no width is left. `label` and `code` are what the rules say to the changed bound ("" where
    the run failed, then `note` says why; a Type-I has no code).
    """

    key: str
    what: str
    shrink: float
    label: str
    code: str
    seconds: float
    note: str = ""

    @property
    def sentence(self) -> str:
        """`bound shrinks 260x with IEEE products`, or what else happened."""
        return f"{self.effect} with {self.what}"

    @property
    def effect(self) -> str:
        if self.note:
            return f"not known ({self.note})"
        if math.isinf(self.shrink):
            return "bound vanishes"
        if self.shrink >= 1.05:
            return f"bound shrinks {factor(self.shrink)}x"
        if self.shrink <= 1 / 1.05:
            return f"bound grows {factor(1 / self.shrink) if self.shrink else 'infinitely'}x"
        return "bound stays as it is"


def factor(ratio: float) -> str:
    """A ratio with two digits, three from a hundred on: 1.1, 26, 260, 1.3e+04."""
    return f"{ratio:.3g}" if ratio >= 100 else f"{ratio:.2g}"


@dataclass(frozen=True)
class Mutant:
    """One automatic change of the kernel and what became of it.

    `outcome`: "outside" (an output leaves the bound: noticed), "inside" (the result changes and the bound does not
    notice), "same" (no change beyond one rounding of the output), "memory" (the memory check notices), "crash" (it does
    not run to its end). `elements` counts those outside.
    """

    kind: str
    what: str
    file: str | None
    line: int
    outcome: str
    elements: int = 0


@dataclass(frozen=True)
class Power:
    """How much the bound would notice.

    `share` = outside / (outside + inside), NaN where no mutant changed a result; `smallest_fault` is, per output, the
    smallest relative error that leaves the bound when the whole output carries it (a power of two; None: not even a
    factor of two does). `zeros_fit` names outputs of which zeros would lie in the bound. `skipped` mutants were not run
    for lack of time.
    """

    share: float
    mutants: tuple[Mutant, ...]
    smallest_fault: Mapping[str, float | None] = field(default_factory=dict)
    zeros_fit: tuple[str, ...] = ()
    skipped: int = 0
    seconds: float = 0.0

    def count(self, *outcomes: str) -> int:
        return sum(m.outcome in outcomes for m in self.mutants)

    @property
    def missed(self) -> tuple[Mutant, ...]:
        return tuple(m for m in self.mutants if m.outcome == "inside")


@dataclass(frozen=True)
class LineWidth:
    """Growth of the bound at one line: the median over its results of (hi - lo) / |mid|, of the widest operation.

    `operands` is the same number for what went into the line, so `relative / operands` is what the line adds.
    """

    file: str
    line: int
    op: str
    relative: float
    operands: float
    results: int


@dataclass(frozen=True)
class Origin:
    """Where a NaN, an infinity or an infinite bound (`kind` "nan", "inf", "bound") first appeared.

    `op` is the operation whose operands had none ("load": it came in with `memory`); `kernel` and `launch` say where,
    `program` which one. `reach`: "output" (it is behind the element that was asked about; `lines` are those it passes
    on its way there), "masked" (no output element is NaN or infinite, so nothing of it arrives), "elsewhere" (it is not
    behind that element). `lanes` counts the lanes that made it, where the whole run was looked at.
    """

    kind: str
    op: str
    file: str
    line: int
    program: tuple[int, ...]
    operands: str = ""
    memory: str = ""
    kernel: str = ""
    launch: int = 0
    lines: tuple[int, ...] = ()
    reach: str = "output"
    lanes: int = 0


@dataclass(frozen=True)
class Instability:
    """`eta`: error over what a careful implementation loses, at the worst element; `reference`: that of y_ref.

    `grade`: "unstable", "degraded", or "downgrade": a format inside the kernel that is coarser than its interface
    explains the error. `digits` (decimal) that the element loses of those that its conditioning allows; `better`: a
    form that keeps them; `decision`: the jump that rests on them. `file`, `line` and `growth`: where the first result
    is worse than what it is made of, and how much, at this `element`; or else where widths grow most in the median.
    """

    output: str
    index: tuple[int, ...]
    eta: float
    reference: float
    downgrade: bool = False
    file: str | None = None
    line: int = 0
    growth: float = 0.0
    element: bool = False
    grade: str = "unstable"
    digits: float = 0.0
    better: str = ""
    decision: str = ""


@dataclass(frozen=True)
class Downgrade:
    """Formats inside the kernel coarser than `outer`, the coarsest of its interface, own `share` of an output's bound.

    `fmt` at `line` is the largest of them.
    `shrink`: how many times narrower the bound is without roundings of that kind, in a run; 1 where there was none.
    `allocated`: it is the output itself, and `line` allocates it.
    """

    fmt: str
    outer: str
    output: str
    file: str | None
    line: int
    share: float
    shrink: float = 1.0
    allocated: bool = False

    @property
    def sentence(self) -> str:
        where = f"{os.path.basename(self.file)}:{self.line}" if self.file else "inside"
        if self.allocated:
            place = f" (allocated at {where})" if self.file else ""
            text = (
                f"precision downgrade: {self.output} is {self.fmt}{place}, narrower than the reference and every float"
            )
            return f"{text} input ({self.outer}); one rounding to it is {_share(self.share)} of its bound"
        text = f"precision downgrade: {self.fmt} at {where} is coarser than the interface ({self.outer})"
        text += f" and owns {_share(self.share)} of the bound of {self.output}"
        if self.shrink > 1:
            text += f", which is {factor(self.shrink)}x narrower without such roundings (re-run)"
        return text


@dataclass(frozen=True)
class LineShare:
    """A source line's share of the bound, within one cause; `fmt`: the format that it rounds to, if the source says."""

    file: str | None
    line: int
    share: float
    fmt: str = ""


@dataclass(frozen=True)
class BudgetBasis:
    """What the budget was taken from.

    `method`: "first order" (contributions of single operations to single elements), "re-run" (each cause left out in
    turn) or "" (not measured). `covered`: sum of first-order contributions over the half width, per element taken.
    """

    method: str = ""
    covered: tuple[tuple[str, tuple[int, ...], str, float], ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """How far first order explains the bound."""
        if self.method == "first order" and self.covered:
            ends = [f"{100 * f(c[3] for c in self.covered):.3g}" for f in (min, max)]
            return f"to first order, which gives {' to '.join(dict.fromkeys(ends))} % of the bound's width"
        return "measured by leaving out one cause at a time" if self.method == "re-run" else ""


WITHOUT = "without any rounding"


@dataclass(frozen=True)
class Unrounded:
    """One output of the kernel against the reference's, both without any rounding (`render.judgement.unrounded`).

    Of `elements`, `compared` could be; in `differing` the two differ by more than roundings of inputs and constants
    explain, in `visible` by more than one rounding of the output as well. `kernel`, `reference` and `gap` are those of
    the element at `index`, the largest difference, `slack` is what is explained there; `share` is the largest
    difference in half widths of the bound. `estimated`: `slack` is no bound. `systematic`: the elements that differ are
    too many for chance; in the part `one_way` of them the kernel's is the larger one (or the smaller, or in magnitude).
    `relative`: the largest difference beside the largest element, `fmt`: the coarser format of the two outputs.
    `sampled`: so many elements were looked at, each by its slice.
    """

    output: str
    compared: int
    elements: int
    differing: int
    visible: int
    index: tuple[int, ...]
    kernel: float
    reference: float
    gap: float
    slack: float
    share: float
    estimated: bool = False
    systematic: bool = False
    one_way: float = 0.0
    relative: float = 0.0
    fmt: str = ""
    sampled: int = 0

    @property
    def shown(self) -> bool:
        """Whether it makes two functions of them: outputs show it, or it is no matter of chance."""
        return bool(self.visible) or self.systematic

    @property
    def sentence(self) -> str:
        """What the comparison says, in one line."""
        if not self.differing:
            return self._agreement
        where = f"{self.output}{list(self.index)}"
        many = f"{self.differing} of {self.sampled or self.elements}{' sampled' * bool(self.sampled)} elements"
        text = (
            f"{WITHOUT}, kernel and reference differ in {many} of {self.output}: at {where} by {self.gap:.2g}, "
            f"{self.kernel:.7g} against {self.reference:.7g}"
        )
        if self.visible or not self.systematic:
            return text
        return (
            f"{text}; {_share(self.one_way)} of them to one side, at most {self.relative:.2g} of the largest element. "
            f"One rounding of {self.fmt} would hide that in each, but it is no rounding: a divisor (n for n - 1), a "
            "constant or scale, or an approximation on purpose"
        )

    @property
    def _agreement(self) -> str:
        if not self.compared:
            left = "what is left open of them is as large as a difference would be"
            return f"kernel and reference cannot be compared without rounding in {self.output}: {left}"
        if self.sampled:
            return f"kernel and reference agree in {self.compared} sampled elements of {self.elements} of {self.output}"
        if self.compared < self.elements:
            part = f"the {self.compared} of {self.elements} elements of {self.output} that can be compared"
            return f"kernel and reference agree in {part}"
        return f"kernel and reference agree in every element of {self.output}: the same function"


@dataclass(frozen=True)
class Finer:
    """Elements of the exact reference E that float64 does not give well enough (`render.judgement.precision`).

    In `open` of `elements` the `error` of float64 matters beside `room`, the bound's half width or one rounding of the
    output (both at the worst element). `evaluated` of them were computed again in `bits` bits, in ball arithmetic if
    `rigorous`, else with an estimate of the error. In `unknown` the value stays too uncertain; `why`: what hindered.
    """

    output: str
    open: int
    elements: int
    evaluated: int
    bits: int
    rigorous: bool
    error: float
    room: float
    unknown: int
    why: str = ""

    @property
    def sentence(self) -> str:
        """What was done and why, in one line."""
        margin = f"its error there is up to {self.error:.2g}, the bound and one rounding leave {self.room:.2g}"
        if not self.evaluated:
            lacking = f"float64 is not enough for {self._share(self.open)} ({margin})"
            return f"{lacking}, and more bits cannot be had: {self.why}"
        how = "" if self.rigorous else " (its error there is an estimate)"
        done = f"evaluated in {self.bits} bits{how} in {self._share(self.evaluated)}: float64 was not enough ({margin})"
        return f"{done}; {self.why}" if self.why else done

    def _share(self, count: int) -> str:
        return f"{count} of {self.elements} elements of {self.output}"


@dataclass(frozen=True)
class Differs:
    """What makes the kernel's result differ: the cause with the largest `share` of the typical mean square error.

    `last`: that is the last rounding, which a reference of the same format makes as well; it makes a difference only
    where something before tips it, foremost `by`. `seen`: what the outputs themselves show, once they are looked at.
    """

    cause: str
    key: str
    file: str | None
    line: int
    share: float
    last: bool = False
    by: str = ""
    by_key: str = ""
    by_file: str | None = None
    by_line: int = 0
    seen: Flips | None = None

    @property
    def causes(self) -> tuple[str, ...]:
        """Keys of the cause and of what tips it."""
        return (self.key, self.by_key) if self.tipped else (self.key,)

    @property
    def leading(self) -> str:
        """The key of what makes the difference: behind a last rounding that both sides make, what tips it."""
        return self.by_key if self.tipped else self.key

    @property
    def place(self) -> tuple[str | None, int]:
        return (self.by_file, self.by_line) if self.tipped else (self.file, self.line)

    @property
    def tipped(self) -> bool:
        """Whether the outputs show it: both sides end in one format, and most differences are one unit of it."""
        return self.last and self.seen is not None and self.seen.same and self.seen.mostly

    @property
    def sentence(self) -> str:
        """Why the outputs differ, in one line."""
        here = f"{self.cause}{_at(self.file, self.line)}"
        if self.tipped:
            assert self.seen is not None
            tip = f"{self.by}{_at(self.by_file, self.by_line)}" if self.by != self.cause else "roundings before it"
            return f"{self.seen.sentence}: the last rounding ({here}) falls the other way, tipped by {tip}"
        return f"{here}: {_share(self.share)} of the mean square error of a typical execution"


@dataclass(frozen=True)
class Flips:
    """How many elements of kernel (or device) and reference differ, and how many of them by one unit of format `fmt`.

    `same`: both sides are of that format.
    """

    elements: int
    different: int
    one: int
    fmt: str
    same: bool

    @property
    def mostly(self) -> bool:
        return 2 * self.one > self.different

    @property
    def sentence(self) -> str:
        share = "all" if self.one == self.different else _share(self.one / self.different)
        unit = f"one unit in the last place of {self.fmt}"
        if self.different == 1:
            return f"1 of {self.elements} elements differs, by {unit if self.one else 'more than ' + unit}"
        return f"{self.different} of {self.elements} elements differ, {share} of them by {unit}"


def _at(file: str | None, line: int) -> str:
    return f", {os.path.basename(file)}:{line}" if file else ""


def _share(share: float) -> str:
    return f"{100 * share:.3g} %" if share < 0.9995 or share == 1 else "more than 99.9 %"


AROUND = 2
"""Lines of source that are kept before and after one that has a width."""


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's source that the verdict points to, or beside one, as it was when it was judged."""

    file: str
    line: int
    text: str
