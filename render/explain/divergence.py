"""The first intermediate result that leaves what the reference implies, as far as the reference's own steps can tell.

The reference runs in float64 and every tensor that it makes is kept, with its inputs. The kernel's element is traced
back with bounds (`render.explain.trace`, through earlier launches). A result of the kernel has a counterpart if all its
lanes behind the element hold, within their bounds, a value of one and the same tensor of the reference: the bound
contains what exact arithmetic makes of it, so a result that the reference has as well is found. Lanes that may be zero
say nothing, and neither do bounds wide enough to catch a stranger: among the values of that tensor the lanes must
be alone by more than `ALONE` of their widths. Loads are compared with the inputs too, and so are operations of the host
(a cotangent is multiplied by ones on its way back); other operations with results.

A result is clean if it or something that is computed from it has a counterpart. The element departs at the first result
that is not, of operands that are. If the stored value itself has a counterpart, the reference goes on from there and
the kernel lacks that step. Trap: a kernel on another route has results without a counterpart and is right, and a
reference of one big operation has no steps; so this is asked only of an element that is wrong, and the answer is where
the stretch begins in which it went wrong. Where the last thing that happens to the value is a select, and the side that
it leaves is what the reference returns, the choice is what differs (a mask, a seed, an offset), whatever lies behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from render.entry.execution import on_cpu
from render.explain.nonfinite import is_float
from render.explain.study import Study
from render.explain.trace import Hop, Trace, trace
from render.explain.unread import unread
from render.interpreter.context import Site
from render.interpreter.events import GIVEN
from render.interpreter.handle import Handle
from render.interpreter.hosted.decomposed import decomposition
from render.interpreter.hosted.overloads import operation
from render.interpreter.hosted.table import RULES
from render.reference.oracle import Oracle
from render.reference.shadow import dispatches, in_parts
from render.result.defects import caught
from render.result.elements import Divergence
from render.trace.dependence import Reached
from render.trace.moves import at_lanes
from render.trace.nodes import CASTS
from render.trace.step import aligned

LANES, SIZE, TOTAL = 64, 1 << 20, 1 << 24
"""Lanes that are compared per result; elements of one tensor, and of all, that are kept of the reference."""
COPIES = frozenset({"detach", "clone", "alias", "_to_copy", "copy_", "view", "_unsafe_view", "t", "transpose", "expand",
                    "slice", "select", "as_strided"})  # fmt: skip
DECOMPOSED = 3
"""How deep an operation of the reference is taken apart."""
ALONE = 512
WIDEST = 2.0**-4
CERTAIN = 2.0**-9
"""Largest chance of a stranger that is accepted; one lane with no other value within 512 widths has 2^-10."""


@dataclass(frozen=True)
class Known:
    """One tensor of the reference: what made it, its values sorted; `given`: it is an input; `placed`: its values as
    they lie, where it has the shape of an output."""

    name: str
    values: np.ndarray
    given: bool = False
    placed: np.ndarray | None = None


@dataclass
class DivergenceStep:
    """One operation on the way: its counterpart (None: none; "": nothing can be said), the steps it reads.

    `data`: something that was loaded is behind it.
    """

    found: Reached
    name: str | None
    reads: list[int]
    data: bool
    clean: bool = False


def divergence(study: Study, oracle: Oracle, output: str, index: tuple[int, ...]) -> Divergence:
    """Raises RenderError as `trace` does."""
    known = reference_steps(oracle)
    if known is None:
        return Divergence(output, index, why="the reference cannot be followed in float64")
    found = trace(study, output, index, lambda hop: _stranger(hop, known), bounds=True)
    exact = next(float(case.exact[index]) for case in study.cases if case.name == output)
    return replace(departed(found, known, output, index, exact), unread=unread(found, oracle, index))


def departed(
    found: Trace, known: list[Known], output: str, index: tuple[int, ...], exact: float = np.nan
) -> Divergence:
    """`exact`: what the reference has for the element that was traced, if that is known."""
    if len(found.hops) == 1 and (spot := _other_choice(found.hops[0], exact)) is not None:
        return Divergence(output, index, op="select", file=spot.file, line=spot.line, choice=True)
    steps = _steps(found.hops[-1], known, index if len(found.hops) == 1 else ())
    if not any(s.name for s in steps):
        return Divergence(output, index, why="no result on the way to this element has a counterpart in the reference")
    mark_clean(steps)
    for step in steps:
        if step.name is None and not step.clean and all(steps[i].clean for i in step.reads):
            site = step.found.entry.site
            before = max((i for i in _behind(steps, step) if steps[i].name), default=None)
            last = {} if before is None else _after(steps[before])
            return Divergence(output, index, op=step.found.title, file=site.file, line=site.line, **last)
    end = max(i for i, s in enumerate(steps) if s.name != "")
    if steps[end].name and len(found.hops) == 1:
        so_far, site = _after(steps[end]), steps[end].found.entry.site
        if unsure := next((s for s in steps[end + 1 :] if _computes(s)), None):  # too wide to be compared
            so_far |= {"op": unsure.found.title, "line": unsure.found.entry.site.line}
            site = unsure.found.entry.site
        return Divergence(output, index, file=site.file, **so_far)
    return Divergence(output, index, why="every result on the way has a counterpart or cannot be compared")


def _computes(step: DivergenceStep) -> bool:
    """Whether it makes new numbers of what was loaded."""
    found = step.found
    moves = found.moves or found.entry.op in CASTS or found.entry.op in GIVEN
    return step.data and not moves and is_float(found.out)


def _other_choice(hop: Hop, exact: float) -> Site | None:
    """The last select before the store, if the side that it leaves has the reference's value and the taken one not."""
    for reached in hop.reached:
        if reached.entry.op == "select" and reached.lanes.size == 1:
            cond, x, y = reached.entry.args
            lane = aligned(cond, reached.out, reached.lanes)
            truth = bool(at_lanes(cond, cond.v, lane)[0])
            sides = ((_has(h, aligned(h, reached.out, reached.lanes), exact)) for h in ((x, y) if truth else (y, x)))
            taken, left = sides
            return reached.entry.site if left and not taken else None
        if not reached.moves and reached.entry.op not in CASTS:
            return None
    return None


def _has(h: Handle, lane: np.ndarray, exact: float) -> bool:
    """Whether the bound of this lane holds the value."""
    lo, hi = (float(at_lanes(h, end, lane)[0]) for end in h.pair)
    slack = 2.0**-50 * abs(exact)
    return lo - slack <= exact <= hi + slack


def _after(step: DivergenceStep) -> dict[str, Any]:
    found = step.found
    return {"after_op": found.title, "after_line": found.entry.site.line, "counterpart": step.name or ""}


def _steps(hop: Hop, known: list[Known], index: tuple[int, ...]) -> list[DivergenceStep]:
    """In the order of execution."""
    steps: list[DivergenceStep] = []
    maker: dict[int, int] = {}
    for reached in reversed(hop.reached):
        reads = sorted({maker[id(h)] for h, _ in reached.links if id(h) in maker})
        data = bool(reached.outside.size) or any(steps[i].data for i in reads)
        arithmetic_of_arguments = not data and reached.out.shape == ()
        name = "" if arithmetic_of_arguments else _counterpart(reached, known, index)
        steps.append(DivergenceStep(reached, name, reads, data))
        maker[id(reached.out)] = len(steps) - 1
    return steps


class Stepwise(Protocol):
    """A step of an execution: `name` as in `DivergenceStep`, `clean` where what it made agrees with the reference."""

    name: str | None
    clean: bool

    @property
    def reads(self) -> list[int]: ...


def mark_clean(steps: Sequence[Stepwise]) -> None:
    """What goes into a step that has a counterpart is clean, and so is what clean steps alone go into."""
    for step in reversed(steps):
        step.clean = step.clean or bool(step.name)
        if step.clean:
            for i in step.reads:
                steps[i].clean = True
    for step in steps:
        if step.name == "" and all(steps[i].clean for i in step.reads):
            step.clean = True


def _behind(steps: list[DivergenceStep], step: DivergenceStep) -> set[int]:
    found, todo = set[int](), list(step.reads)
    while todo:
        i = todo.pop()
        if i not in found:
            found.add(i)
            todo += steps[i].reads
    return found


def _counterpart(reached: Reached, known: list[Known], index: tuple[int, ...] = ()) -> str | None:
    """The reference's tensor with these values; None where there is none, "" where nothing can be said.

    `index` of the element that is asked about: a single lane is compared with that element of tensors of its shape.
    """
    if reached.moves or reached.entry.op in CASTS or reached.entry.op in GIVEN:
        return ""
    out, at = reached.out, reached.lanes
    ends = telling(*(at_lanes(out, end, at).astype(np.float64) for end in out.pair)) if is_float(out) else None
    if ends is None:
        return ""
    answer: str | None = None
    for tensor in known if at.size == 1 and index else ():
        if tensor.placed is not None and not tensor.given and there(tensor, index, *ends):
            return tensor.name
    for tensor in known:
        if reached.entry.op == "load" or reached.entry.op in RULES or not tensor.given:
            alone = holds(tensor.values, *ends)
            if alone:
                return tensor.name
            if alone is None:
                answer = ""
    return answer


def telling(lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The bounds of some lanes: narrow ones that do not hold zero; None without any."""
    step = max(1, lo.size // LANES)
    lo, hi = lo[::step], hi[::step]
    with np.errstate(invalid="ignore"):
        fit = (lo * hi > 0) & (hi - lo <= WIDEST * np.minimum(np.abs(lo), np.abs(hi))) & np.isfinite(lo + hi)
    return (lo[fit], hi[fit]) if fit.any() else None


def holds(values: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> bool | None:
    """Is there a value in every [lo, hi]? None: yes, but with so many others around that it may be chance."""
    slack = 2.0**-50 * np.abs(hi)
    lo, hi = lo - slack, hi + slack
    if not (np.searchsorted(values, hi, "right") > np.searchsorted(values, lo, "left")).all():
        return False
    far = ALONE * (hi - lo)
    around = np.searchsorted(values, hi + far, "right") - np.searchsorted(values, lo - far, "left")
    certain = np.log2(np.minimum(around / (2 * ALONE), 1.0)).sum() <= np.log2(CERTAIN)
    return True if certain else None


def there(tensor: Known, index: tuple[int, ...], lo: np.ndarray, hi: np.ndarray) -> bool:
    """Whether the tensor's element at `index` lies in [lo, hi], where few of its others would by chance.

    A tensor of another shape, as of another output, may have no such element.
    """
    assert tensor.placed is not None
    if tensor.placed.ndim != len(index) or not np.less(index, tensor.placed.shape).all():
        return False
    value, far = tensor.placed[index], ALONE * (hi - lo)
    around = np.searchsorted(tensor.values, hi + far, "right") - np.searchsorted(tensor.values, lo - far, "left")
    chance = around / (tensor.values.size * (2 * ALONE + 1))
    slack = 2.0**-50 * np.abs(hi)
    return bool((lo - slack <= value).all() and (value <= hi + slack).all() and (chance <= CERTAIN).all())


def _stranger(hop: Hop, known: list[Known]) -> int | None:
    """The address behind the first load that has no counterpart: an earlier launch may have stored it."""
    for reached in reversed(hop.reached):
        if reached.entry.op == "load" and _counterpart(reached, known) is None:
            return int(reached.outside[0]) if reached.outside.size else None
    return None


# the reference
def reference_steps(oracle: Oracle) -> list[Known] | None:
    """Every float tensor of the reference in float64, the inputs first; None if it does not run with float64 beside."""
    kept = _Kept({tuple(x.shape) for _, x in oracle.native})
    for name, value in oracle.inputs.upcast().values.items():
        for leaf in tree_leaves(value):
            kept.keep(f"input {name}", leaf, given=True)
    try:
        with on_cpu():
            made = oracle.steps()
    except Exception as error:  # whatever a reference raises under a dispatch mode
        caught(error, "the steps of the reference")
        return None
    for name, value, _ in made:
        if name not in COPIES:
            kept.keep(name, value)
    try:
        with on_cpu():
            oracle.run_under(_Parts(kept))
    except Exception as error:  # what stands in `kept` by then is right all the same
        caught(error, "the parts of the reference's operations")
    return kept.known


class _Parts(TorchDispatchMode):
    """Keeps what torch's own decompositions compute on the way: the product inside of a linear layer, a row's mean."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its whole compiler to keep it away from this mode; nothing is compiled here."""
        return False

    def __init__(self, kept: _Kept) -> None:
        super().__init__()
        self.kept, self.depth = kept, 0

    @in_parts
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = operation(func).name
        out = func(*args, **kwargs)
        whole = func._schema.is_mutable or self.depth == DECOMPOSED or name == "_to_copy"  # its steps import a compiler
        steps = None if whole else decomposition(func)
        if self.depth and func.namespace == "aten" and name not in COPIES:
            for leaf in tree_leaves(out):
                self.kept.keep(name, leaf)
        if steps is not None and torch.Tag.nondeterministic_seeded not in func.tags:
            self.depth += 1
            try:
                with self:
                    steps(*args, **kwargs)
            finally:
                self.depth -= 1
        return out


class _Kept:
    def __init__(self, shapes: set[tuple[int, ...]]) -> None:
        self.known: list[Known] = []
        self.total, self.shapes = 0, shapes

    def keep(self, name: str, value: Any, given: bool = False) -> None:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.numel() > SIZE:
            return
        if value.is_meta or value.layout != torch.strided or dispatches(type(value)):
            return
        if self.total + value.numel() <= TOTAL:
            self.total += value.numel()
            found = value.detach().double().cpu().numpy()
            placed = found.copy() if not given and found.shape in self.shapes else None
            self.known.append(Known(name, np.unique(found), given, placed))
