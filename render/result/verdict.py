"""The answer to "is it me, or is it rounding?": frozen data, no computation.

`render.result.decision` fills these classes in, reports only read them. `Verdict.to_dict` is the canonical result; its
keys are a promise to users (`verdict.label`, `verdict.code`, ..., `exit_code`) and every other format derives from it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from render.result import codes, views
from render.result.blame import Blame
from render.result.codes import Label
from render.result.defects import Defect
from render.result.elements import Divergence, Guilty, Provenance, Witness
from render.result.errors import RenderError
from render.result.plain import plain
from render.result.records import (
    BudgetBasis,
    Counterfactual,
    Differs,
    Downgrade,
    Evidence,
    Finer,
    Instability,
    LineShare,
    LineWidth,
    Origin,
    Power,
    SourceLine,
    Unrounded,
)
from render.result.scope import Scope
from render.result.tolerance import Tolerance
from render.result.usage import Usage, counted

SCHEMA = 1
HEAD = ("label", "code", "paper_rule", "subtype", "message", "file", "line", "column", "end_column", "help")
"""Fields of a verdict that stand under "verdict" in its JSON."""
ARRAYS = ("lo", "hi", "used")
"""Fields of a bound that are not written."""
STAGES = ("provisional", "checked", "explained")
"""How far a verdict is: the rules alone on what was run; every check that can change the label made; all explained."""
UNWRITTEN = ("study", "later")
"""Fields of a verdict that are not written."""
_NUMBERS = re.compile(r"\[\n[-+0-9.eE,\s]*\]")


@dataclass(frozen=True)
class Bound:
    """The envelope T of one output: every legal result of element i lies in [lo[i], hi[i]].

    NaN in both ends: nothing is known of the element. Half width is (hi - lo) / 2 in the output's units; relative
    width is (hi - lo) / |midpoint|, 0 for a point, infinite where the midpoint is 0. Medians skip unbounded elements
    and are NaN where no bounded element is left.
    """

    lo: np.ndarray = field(repr=False, compare=False)
    hi: np.ndarray = field(repr=False, compare=False)
    used: Callable[[], np.ndarray] = field(repr=False, compare=False)
    median_relative_width: float
    max_relative_width: float
    median_half_width: float
    max_half_width: float

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled with the usage computed, for what computes it holds the run."""
        numbers = (self.median_relative_width, self.max_relative_width, self.median_half_width, self.max_half_width)
        return _bound, (np.array(self.lo), np.array(self.hi), np.array(self.usage), *numbers)

    @property
    def usage(self) -> np.ndarray:
        """Per element |y - mid| / half width, with y the device output, else the reference; computed when asked for."""
        return self.used()

    def as_torch(self) -> tuple[Any, Any]:
        """(lo, hi) as float64 tensors."""
        import torch

        return torch.from_numpy(self.lo), torch.from_numpy(self.hi)


def _bound(lo: np.ndarray, hi: np.ndarray, usage: np.ndarray, *numbers: float) -> Bound:
    return Bound(lo, hi, partial(np.asarray, usage), *numbers)


@dataclass(frozen=True)
class OutputVerdict:
    """One output. `got` is the device's value where one was given, else the value that the re-execution computed.

    `outside_*` count elements outside the bound: the reference at its own dtype, the reference recomputed in float64
    (beyond its own error), the device output. `worst_usage` is max |y - mid| / half width with y the device output,
    else the reference: 0 in the middle of the bound, 1 at its edge, more outside. `worst_index` is the element of the
    largest usage where something is outside, else of the largest |got - ref|; `got`, `ref`, `exact`, `low`, `high`
    and `usage` belong to it. `tainted` counts elements about which the bound says nothing.
    `covering_atol` is the smallest absolute tolerance around the reference that admits every legal result. `sides`
    says which of kernel, device and reference is wrong, `tolerance` is that of a Type-I. `exact_bits`: of the exact
    reference, in the elements where float64's 53 are not enough. `drawn`: `uses` of a verdict that was read back.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    reference_dtype: str
    elements: int
    label: Label
    code: str
    outside_reference: int
    outside_exact: int
    outside_device: int | None
    nonfinite_mismatch: int
    unstored: int
    tainted: int
    allclose_mismatch: int
    allclose_rtol: float
    allclose_atol: float
    max_abs_diff: float
    worst_usage: float
    worst_index: tuple[int, ...]
    got: float
    ref: float
    exact: float
    low: float
    high: float
    usage: float
    covering_atol: float
    bound: Bound
    detail: str = ""
    sides: Blame | None = None
    tolerance: Tolerance | None = None
    exact_bits: int = 53
    drawn: Usage | None = None

    @property
    def uses(self) -> Usage:
        """How much of the bound the elements use, counted; nothing of it where they have none."""
        if self.drawn is not None:
            return self.drawn
        return counted(np.where(np.isnan(self.bound.lo), np.nan, self.bound.usage))


@dataclass(frozen=True)
class BudgetItem:
    """One cause of width and its `share` of the bound; the shares of all causes sum to 1.

    `worst` and `median` are the shares at the worst and at the median element (mean over the outputs, by their number
    of elements), `lines` splits `share` by source line, largest first; `file` and `line` are the first of them.
    `shrink` is the factor by which the median half width falls without the cause, where `confirmed` by a run (else 1).
    `typical` is its share of the mean square error that an execution typically makes, None where that is not known.
    """

    cause: str
    key: str
    file: str | None
    line: int
    share: float
    shrink: float = 1.0
    worst: float | None = None
    median: float | None = None
    lines: tuple[LineShare, ...] = ()
    confirmed: bool = False
    typical: float | None = None


@dataclass(frozen=True)
class Finding:
    """A memory fact (RND207, 208, 209): not derived from the bound, so it needs no interval to be believed."""

    code: str
    message: str
    tensor: str | None = None
    program: tuple[int, ...] | int | None = None
    index: tuple[int, ...] | None = None
    file: str | None = None
    line: int = 0
    count: int = 1
    kind: str = ""


@dataclass(frozen=True)
class TaintNote:
    """A spot where no sound rule applied and what follows from it is not bounded."""

    code: str
    op: str
    message: str
    file: str | None = None
    line: int = 0
    count: int = 1


class Outputs(tuple[OutputVerdict, ...]):
    """A tuple of outputs that can also be asked by name."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            for output in self:
                if output.name == key:
                    return output
            raise KeyError(f"no output {key!r}; there are: {', '.join(o.name for o in self)}")
        return super().__getitem__(key)


@dataclass(frozen=True)
class Verdict:
    """What `classify` returns. A label has three values, so `bool(verdict)` raises: compare `label` instead.

        verdict = render.classify(matmul, a, b, ref=torch.matmul)
        verdict.label, verdict.code, verdict.message  # "Type-I", "RND102", one sentence why
        verdict.outputs["c"].bound.lo  # float64 bounds of every element

    `paper_rule` is the published rule alone: does the reference, at its own dtype, lie in the bound. `file`, `line`,
    `column`, `end_column` (1-based) are the place to look at first; `help` says what to do, most useful first.
    `stage` is one of `STAGES`, `changed` says why the label is not that of the provisional verdict, `later` finds what
    the next stage adds.
    """

    label: Label
    code: str
    subtype: str
    paper_rule: str
    message: str
    kernels: tuple[str, ...] = ()
    grid: tuple[int, ...] = ()
    device: str = "any"
    reference: str = ""
    outputs: Outputs = field(default_factory=lambda: Outputs())
    budget: tuple[BudgetItem, ...] = ()
    findings: tuple[Finding, ...] = ()
    taints: tuple[TaintNote, ...] = ()
    notes: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    timing: Mapping[str, float | None] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    exit_code: int = 0
    file: str | None = None
    line: int = 0
    column: int = 0
    end_column: int = 0
    help: tuple[str, ...] = ()
    counterfactuals: tuple[Counterfactual, ...] = ()
    power: Power | None = None
    lines: tuple[LineWidth, ...] = ()
    origins: tuple[Origin, ...] = ()
    divergence: Divergence | None = None
    guilty: Guilty | None = None
    resembles: tuple[str, ...] = ()
    instability: Instability | None = None
    witness: Witness | None = None
    compiler: Mapping[str, str] = field(default_factory=dict)
    budget_basis: BudgetBasis = field(default_factory=BudgetBasis)
    differs: Differs | None = None
    downgrade: Downgrade | None = None
    unrounded: tuple[Unrounded, ...] = ()
    finer: tuple[Finer, ...] = ()
    source: tuple[SourceLine, ...] = ()
    defects: tuple[Defect, ...] = ()
    scope: Scope = field(default_factory=Scope)
    evidence: tuple[Evidence, ...] = ()
    stage: str = STAGES[-1]
    changed: str = ""
    study: Any = field(default=None, repr=False, compare=False)
    later: Callable[[Verdict], Verdict] | None = field(default=None, repr=False, compare=False)

    def wait(self, stage: str = STAGES[-1]) -> Verdict:
        """The verdict of that stage (or a later one, if it is that far): what is left is done now, in this thread.

            first = render.classify(matmul, a, b, ref=torch.matmul, wait=False)
            first.wait("checked").label  # every check that can change the label is made

        `stage`: one of `STAGES`. Raises ValueError for another word, and what a run of the kernel raises.
        """
        found = self
        while found.later is not None and STAGES.index(found.stage) < STAGES.index(stage):
            found = found.later(found)
        return found

    @property
    def headline(self) -> str:
        """The label, or that the outputs are equal."""
        return "Equal" if self.subtype == "equal" else self.label

    @property
    def title(self) -> str:
        """The meaning of the code in a few words."""
        return codes.title(self.code) or self.code

    def __bool__(self) -> bool:
        raise TypeError(f"a verdict is not true or false, it is {self.label}: compare verdict.label")

    def __getstate__(self) -> dict[str, Any]:
        """All that can be said, and nothing that could run it again."""
        return {**vars(self.wait()), **dict.fromkeys(UNWRITTEN)}

    def __str__(self) -> str:
        text: str = views.TEXT(self.wait())
        return text

    def __repr__(self) -> str:
        return f"<Verdict {self.label} {self.code} {self.title!r}{self._counts()}>"

    def _counts(self) -> str:
        total = sum(o.elements for o in self.outputs)
        if not total:
            return ""
        device = [o.outside_device for o in self.outputs if o.outside_device is not None]
        outside = sum(device) if device else sum(o.outside_reference for o in self.outputs)
        used = max(o.worst_usage for o in self.outputs)
        share = f", worst {100 * used:.0f}% used" if used <= 10 else f", worst at {used:.2g} half widths"
        return f": {total - outside}/{total} in bound{share if math.isfinite(used) else ''}"

    def to_dict(self) -> dict[str, Any]:
        """The canonical result in JSON types, of the last stage.

            verdict.to_dict()["verdict"]["label"]

        Keys are only ever added.
        """
        return self.wait().as_far()

    def as_far(self) -> dict[str, Any]:
        """`to_dict` of the stage that this is.

            first.as_far()["stage"]  # "provisional"

        Nothing is run for it.
        """
        drawn = Outputs(replace(o, drawn=o.uses) for o in self.outputs)
        lost: dict[str, str] = {}
        flat = plain(replace(self, outputs=drawn, study=None, later=None), lost)
        for name in UNWRITTEN:
            del flat[name]
        head = {name: flat.pop(name) for name in HEAD}
        return {"schema": SCHEMA, "verdict": head, **flat, "nonfinite": lost}

    def to_json(self) -> str:
        """`to_dict` as text.

            print(verdict.to_json())

        Keys in its order, lists of numbers on one line each.
        """
        return written(self.to_dict())

    def save(self, path: str | Path) -> None:
        """Writes `to_json` to the file `path`; `render.load` reads it back.

            verdict.save("v.json")

        Raises OSError where it cannot be written.
        """
        Path(path).write_text(self.to_json(), encoding="utf-8")

    def plot(self, path: str | Path) -> None:
        """Draws errors against their bounds, element by element, into the file `path`: a .png, .svg or .pdf (needs
        matplotlib).

            verdict.plot("errors.png")

        Raises RenderError for a verdict that was read back, which has no elements, and for one that compares none.
        """
        views.PLOT(self, Path(path))

    def tolerance(self, output: str | None = None) -> str:
        """The bound as a line for a test: the smallest tolerance that every legal execution passes.

            verdict.tolerance()  # "torch.testing.assert_close(actual, expected, atol=0.00031, rtol=0.00098)"

        Of one `output` by its name, or of all (one that would do for each of them). Raises RenderError where there is
        none: the verdict is not Type-I, or an element has no finite bound.
        """
        wanted = [self.outputs[output]] if output is not None else list(self.outputs)
        found = [o.tolerance for o in wanted]
        if self.label != "Type-I" or not found or None in found:
            raise RenderError("RND905", "no tolerance follows from this verdict", "only a bounded Type-I has one")
        known = [t for t in found if t is not None]
        if len(known) == 1:
            return known[0].line
        atol, rtol = max(t.atol for t in known), max(t.rtol for t in known)
        more = "".join(f", {flag}" for flag in ("check_dtype=False", "equal_nan=True")
                       if any(flag in t.line for t in known))  # fmt: skip
        return f"torch.testing.assert_close(actual, expected, atol={atol:.2g}, rtol={rtol:.2g}{more})"

    def provenance(self, output: str, index: tuple[int, ...]) -> Provenance:
        """Which program and line stored `output[index]`, and which elements it was computed from (runs it again).

            verdict.provenance("c", (3, 70))

        Raises RenderError for an output or an element that there is not, for one that no kernel stored, and for a
        verdict that was read back from a file.
        """
        if self.study is None:
            raise RenderError("RND905", "this verdict cannot be run again", "ask the one that `classify` returned")
        found: Provenance = views.PROVENANCE(self.study, output, index)
        return found

    def _repr_html_(self) -> str:
        text: str = views.HTML(self if self.stage == STAGES[0] else self.wait())
        return text

    def _ipython_display_(self) -> None:
        """In a notebook a provisional verdict stands there at once, and the final one takes its place."""
        if self.stage != STAGES[0]:
            raise NotImplementedError  # then `_repr_html_` is asked
        from IPython.display import HTML, display

        shown = display(HTML(self._repr_html_()), display_id=True)
        final = HTML(self.wait()._repr_html_())
        shown.update(final) if shown is not None else display(final)

    def __rich_console__(self, console: Any, options: Any) -> Any:
        yield from views.TERMINAL(self.wait(), console, options)


def written(document: Mapping[str, Any]) -> str:
    """The text of a document of `to_dict`."""
    text = json.dumps(document, indent=2, allow_nan=False)
    return _NUMBERS.sub(lambda found: " ".join(found[0].split()), text) + "\n"
