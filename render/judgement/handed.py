"""Numbers that the kernel is handed and the reference computes itself: tables, saved statistics, scales.

Inputs are exact: both sides start from the same bits. Of an input that the reference does not read that says nothing.
It stands for something that the reference computes on its own way, and somebody rounded it before it was handed over:
the cosines of a rotary embedding, mean and deviation in a backward pass, a folded batch norm; so do tables that the
host code of the function makes by numpy or of Python's numbers. Held against E, which
rounds nothing, a right kernel is as far off as its input is. Tensors that the function holds (buffers of a module, what
it closes over, globals) are inputs as well.

So where a program is accused, what the reference does not read (the numbers are not among those that its operations
read, and others in their place change no bit of what it returns) is taken as a rounding of what it stands for:
everything within one rounding to its format and `SLACK`'s 16 float32 roundings of computing it. Where the reference as
it was returned lies in that bound everywhere, it agrees with the kernel as far as it is exact itself, and E is known no
better than by the reference's own rounding R: a table's error may be many roundings (the angle of a cosine). What is no
bug then is none; what would be none if half of the digits were wrong cannot be told (RND315); anything beyond is as
wrong as it was. Python's numbers are inputs like any other (`1 / x.norm().item()`), of float32, which is what kernels
make of them; alone they leave E as it is, and in the place of half of their digits stands `NUMBER`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from interval_ops.formats.model import FP32
from interval_ops.profiles.profile import CAUSES
from render.entry.execution import Entry, Execution, Tensor, on_cpu
from render.entry.held import held_by
from render.entry.inputs import Inputs
from render.entry.left_arrays import watched
from render.explain.study import Study
from render.interpreter.boxes import around, ends_of, parts_of
from render.interpreter.hosted.overloads import HostSite
from render.judgement.composition import Judged
from render.judgement.references import References
from render.judgement.unrounded import CODE as ANOTHER_FUNCTION
from render.judgement.unrounded import SLACK, comparable
from render.reference.local_error import TORCH_FORMATS
from render.reference.shadow import in_parts
from render.result import margins
from render.result.decision import Case, Decision, compare
from render.result.defects import caught
from render.result.errors import RenderError

ACCUSED = frozenset(["RND201", "RND307", ANOTHER_FUNCTION])
"""What rests on E and may rest on such an input alone."""
UNTOLD = "RND315"
RUNS = 16
"""Inputs that are tried, each by a run of the reference."""
NUMBER = 2.0**-16
"""How far off a number may be until it is a bug: 256 float32 roundings, more than torch's sums in blocks lose."""
SHOWN = 3
"""Names in a sentence."""
_FROM_OUTSIDE = "aten::lift_fresh"
_LIKE = ("_like", "new_empty", "new_zeros", "new_ones", "new_full")
"""Ends of the names of operations that take no more than shape and type."""


class Handed(NamedTuple):
    """The entry with what the reference does not read as wide as its rounding, and the names of that."""

    entry: Entry
    names: tuple[str, ...]
    tables: bool = True
    """Whether tensors are among them, which may be off by more than their rounding where E's way is another one."""
    half: bool = False
    """Whether half of their digits are open, and not only their roundings."""

    @property
    def sentence(self) -> str:
        shown = [*self.names[:SHOWN], *([f"{len(self.names) - SHOWN} more"] if len(self.names) > SHOWN else [])]
        listed = " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
        return f"the reference does not read {listed}, of which the kernel gets the rounded value"


@dataclass(frozen=True)
class Unread:
    """What the kernel may read and the reference does not: inputs by name, and tensors that its function holds."""

    inputs: tuple[str, ...] = ()
    held: tuple[tuple[str, torch.Tensor], ...] = ()
    made: tuple[tuple[str, torch.Tensor], ...] = ()
    """Tables that its host code makes of numpy's or Python's numbers."""

    def __bool__(self) -> bool:
        return bool(self.inputs or self.held or self.made)

    def widened(self, entry: Entry) -> Handed:
        """With one rounding to their format, and what computing them takes, around each number."""
        return self._wide(entry, lambda u: u + SLACK / FP32.u * min(u, FP32.u), half=False)

    def halved(self, entry: Entry) -> Handed:
        """With half of their digits unknown."""
        return self._wide(entry, lambda u: u**0.5, half=True)

    def _wide(self, entry: Entry, share: Callable[[float], float], half: bool) -> Handed:
        def wide(x: Any) -> Any:
            if not _fractional(x) or ends_of(x) is not None:
                return x
            return around(x, NUMBER if half and isinstance(x, float) else share(_unit(x)))

        inputs = entry.inputs
        for name in self.inputs:
            inputs = _changed(inputs, name, wide)
        held = tuple((x, around(x, share(_unit(x)))) for _, x in self.held)
        names = (*self.inputs, *(name for name, _ in (*self.held, *self.made)))
        given = [inputs.values[name] for name in self.inputs]
        tensors = (x for x in tree_leaves(given) if isinstance(x, torch.Tensor))
        tables = bool(held) or any(map(_fractional, tensors)) or any(len(_long(x)) > 1 for _, x in self.made)

        def brought(x: torch.Tensor) -> Any:
            if not any(x.shape == t.shape and torch.equal(x, t) for _, t in self.made):
                return None
            by, digits = (NUMBER if half and x.numel() == 1 else share(_unit(x))), x.detach().double().numpy()
            reach = np.where(_is_long(x) & np.isfinite(digits), by * np.abs(digits), 0.0)
            return digits - reach, digits + reach

        options = {**entry.options, "brought": brought} if self.made else entry.options
        return Handed(replace(entry, inputs=inputs, held=held, options=options), names, tables, half)


def unread(references: References, entry: Entry, arrays: Sequence[tuple[HostSite, torch.Tensor]] = ()) -> Unread:
    """Of what has fractions; a tensor of which all numbers occur in what the reference reads was only moved. `arrays`:
    what the host code of the run made of numbers from outside torch, and where."""
    oracle, inputs = references.oracle, references.inputs
    named = [name for name, x in inputs.values.items() if any(_fractional(leaf) for leaf in tree_leaves(x))]
    held = [(name, x) for name, x in held_by(entry.fn) if _fractional(x)]
    tables = [(f"what {Path(site.file).name}:{site.line} makes of numbers", x) for site, x in arrays if len(_long(x))]
    if not (named or held or tables):
        return Unread()
    with on_cpu():
        seen = _ReadTensors()
        try:
            with watched(seen.leaves, "numpy", "tolist", "__dlpack__"):
                oracle.run_native(seen)
        except Exception as error:  # it ran before: what it does now is not known
            caught(error, "what the reference reads")
            return Unread()
        known = seen.numbers()
        news = [n for n in named if any(_fractional(x) and not _moved(x, known) for x in tree_leaves(inputs.values[n]))]
        tensors = [n for n in named if any(isinstance(x, torch.Tensor) for x in tree_leaves(inputs.values[n]))]
        if tensors and set(tensors) <= set(
            news
        ):  # it reads no input at all: a recorded answer, which computes nothing itself
            return Unread()
        ignored = tuple(n for n in news[:RUNS] if oracle.ignores(_changed(inputs, n, _other)))
    others = [tuple((n, x) for n, x in group if not _moved(x, known)) for group in (held, tables)]
    return Unread(ignored, *others)


class _ReadTensors(TorchDispatchMode):
    """The tensors of floats that no operation made and that one reads."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its whole compiler to keep it away from this mode; nothing is compiled here."""
        return False

    def __init__(self) -> None:
        super().__init__()
        self.made: set[int] = set()
        self.read: dict[int, np.ndarray] = {}
        """Their numbers as they were then: what is read may be written to afterwards."""
        self._left = False

    @in_parts
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        operands = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor) and _plain(x)]
        of_bits = func is torch.ops.aten.view.dtype  # who reads those reads no floats
        if of_bits or (not func.is_view and not func._schema.name.endswith(_LIKE)):
            for x in operands:
                if self._left and (func._schema.name == _FROM_OUTSIDE or not x.untyped_storage().resizable()):
                    self.made.add(x.untyped_storage()._cdata)  # numpy computed it
                self._note(x)
        before = {x.untyped_storage()._cdata for x in operands}
        out = func(*args, **(kwargs or {}))
        made = (x.untyped_storage()._cdata for x in tree_leaves(out) if isinstance(x, torch.Tensor) and _plain(x))
        self.made.update(key for key in made if key not in before)
        return out

    def leaves(self, x: torch.Tensor) -> None:
        """It is read by what is not torch."""
        self._left = True
        self._note(x)

    def _note(self, x: torch.Tensor) -> None:
        if _plain(x) and (key := x.untyped_storage()._cdata) not in self.made and key not in self.read:
            self.read[key] = _numbers(torch.empty(0, dtype=x.dtype.to_real()).set_(x.untyped_storage()))

    def numbers(self) -> np.ndarray:
        """All of their numbers, each once."""
        found: np.ndarray = np.unique(np.concatenate([np.zeros(1), *self.read.values()]))
        return found


def _numbers(x: torch.Tensor) -> np.ndarray:
    found: np.ndarray = np.unique(np.abs(x.double().numpy().ravel()))
    return found


def _plain(x: torch.Tensor) -> bool:
    return x.layout is torch.strided and (x.is_floating_point() or x.is_complex()) and not x.is_meta


def _moved(x: Any, known: np.ndarray) -> bool:
    """Whether all of its numbers are among these."""
    return isinstance(x, torch.Tensor) and bool(np.isin(np.abs(parts_of(x).double().numpy()), known).all())


def _unit(x: Any) -> float:
    return TORCH_FORMATS[x.dtype.to_real()].u if isinstance(x, torch.Tensor) else FP32.u


def _fractional(x: Any) -> bool:
    """Whether a rounding can be in it: whole numbers and masks are what they are."""
    if isinstance(x, torch.Tensor):
        known = x.dtype.to_real() in TORCH_FORMATS and x.layout is torch.strided and not x.is_meta and x.numel() > 0
        return known and not bool((parts_of(x).double() == parts_of(x).double().round()).all())
    return isinstance(x, float) and math.isfinite(x) and not x.is_integer()


def _is_long(x: torch.Tensor) -> np.ndarray:
    """Which elements take more than half of the digits of their format: of what is shorter nobody rounded anything."""
    digits = round(-math.log2(_unit(x))) // 2
    scaled = np.ldexp(np.frexp(x.detach().double().numpy())[0], digits)
    found: np.ndarray = scaled != np.rint(scaled)
    return found


def _long(x: torch.Tensor) -> np.ndarray:
    return np.flatnonzero(_is_long(x)) if x.dtype in TORCH_FORMATS else np.zeros(0, np.int64)


def _other(x: Any) -> Any:
    """Other numbers of the same kind."""
    if not _fractional(x):
        return x
    if isinstance(x, float):
        return 1.25 * x + 0.5
    if x.is_complex():
        return torch.view_as_complex(_other(parts_of(x)))
    moved = 1.25 * x.detach().double().nan_to_num(0.0, 1.0, -1.0) + 0.5
    return torch.as_strided(_memory(moved, x), x.size(), x.stride())


def _memory(numbers: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """These numbers in memory with the strides of `like`."""
    extent = 1 + sum((n - 1) * s for n, s in zip(like.size(), like.stride(), strict=True))
    memory = torch.zeros(extent, dtype=like.dtype)
    torch.as_strided(memory, like.size(), like.stride()).copy_(numbers)
    return memory


def _changed(inputs: Inputs, name: str, change: Callable[[Any], Any]) -> Inputs:
    if name in inputs.names:
        args = tuple(tree_map(change, x) if n == name else x for n, x in zip(inputs.names, inputs.args, strict=True))
        return replace(inputs, args=args)
    return replace(inputs, kwargs={**inputs.kwargs, name: tree_map(change, inputs.kwargs[name])})


def as_far_as_known(case: Case, where: np.ndarray) -> Case:
    """E of these elements as well as the reference's own rounding knows it, where what it returned lies in the bound
    everywhere."""
    if case.mismatch or case.fmt is None or not where.any() or not _agrees(case):
        return case

    def ends() -> tuple[np.ndarray, np.ndarray]:
        lo, hi = case.exact_ends()
        reach = np.where(where, _radius(case), 0.0)
        return lo - reach, hi + reach

    unknown = None if case.unknown is None or not (left := case.unknown & ~where).any() else left
    return replace(case, exact_ends=ends, unknown=unknown)


def _moves(before: Tensor, after: Tensor) -> np.ndarray:
    """Elements that other numbers in place of the inputs move: nothing else is computed from them."""
    moved = np.zeros(before.lo.shape, bool)
    for x, y in ((before.lo, after.lo), (before.hi, after.hi)):
        moved |= (x != y) & ~(np.isnan(x) & np.isnan(y))
    return moved


def _agrees(case: Case) -> bool:
    return not compare(case).outside_ref.any()


def _radius(case: Case) -> np.ndarray:
    """R where it is known."""
    radius = case.radius()
    if radius is None:
        return np.zeros(case.lo.shape)
    found: np.ndarray = np.where(margins.known(np.asarray(radius)), radius, 0.0)
    return found


def _as_large(study: Study, run: Execution) -> Execution:
    """The run; RenderError where its outputs have other shapes than those that are judged."""
    if not study.alike(run):
        raise RenderError("RND902", "the function returns outputs of other shapes", "choose other inputs")
    return run


def rejudged(study: Study, judged: Sequence[Judged], wider: Handed) -> tuple[Execution, list[Judged]]:
    """(its run, the outputs judged on its bounds)."""
    run = _as_large(study, replace(study, entry=wider.entry).run({}))
    found = []
    for j, case in zip(judged, study.with_bounds(run), strict=True):
        ours = run.output(case.name)
        taints = case.taints | {run.session.taints[t].code for t in ours.taints if t in run.session.taints}
        case = replace(case, taints=frozenset(taints))
        found.append(replace(j, case=as_far_as_known(case, _moves(j.ours, ours)) if wider.tables else case, ours=ours))
    return run, found


def reach(study: Study, wider: Handed) -> dict[str, np.ndarray]:
    """How far F of each output may move with it, and E by the reference's own rounding as above."""
    plain, run = (_as_large(study, s.run({"mute": CAUSES})) for s in (study, replace(study, entry=wider.entry)))
    found = {}
    for case in study.cases:
        if comparable(case):
            ours = run.output(case.name)
            with np.errstate(invalid="ignore"):
                half = np.nan_to_num((ours.hi - ours.lo) / 2, nan=np.inf)
            half = half + (_radius(case) if wider.tables and _agrees(case) else 0.0)
            found[case.name] = np.where(_moves(plain.output(case.name), ours), half, 0.0)
    return found


def accused(decision: Decision) -> bool:
    return decision.code in ACCUSED


def untold(handed: Handed, decision: Decision) -> Decision:
    """What cannot be told because of the input."""
    return Decision("Inconclusive", UNTOLD, f"{decision.detail}; {handed.sentence}, and may be off by more than that")
