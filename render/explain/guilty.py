"""The line of a wrong kernel: a single change there with which it computes what the reference computes.

Every kernel that was launched is changed in one place at a time (`render.interpreter.repairs`) and run again with
values only. A change with which every element of every output comes as near to the exact reference as rounding lets the
unchanged kernel come (half the width of its bound) is a repair, and its line is the guilty one. Where the unchanged
kernel comes as near itself, roundings hide what is wrong: kernels then run without any. A float literal is
solved for: from how the outputs move with it follows the value that it should have, and that is run. Likely changes
come first, and those where the worst element leaves the reference; `RUNS` at most, of `LANES` lanes together. Where
programs know nothing of each other, a few of them refute most changes (`portion`).

A repair proves nothing about intent: several changes may repair one kernel. It names the first in order of likelihood.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from interval_ops.profiles.profile import CAUSES
from render.entry.execution import Execution
from render.explain.launched import EARLY, HandedChange, HandedNumber, applied, changes, launches
from render.explain.launcher import Launcher, host_repairs
from render.explain.portion import NEARLY, Portion, allowed, launches_allowed, near, portion_of
from render.explain.study import Study
from render.interpreter.context import is_user_file
from render.interpreter.device import unasked
from render.interpreter.repairs import Literal, Repair, literals, repaired, repairs, unread
from render.result.decision import Case
from render.result.defects import caught
from render.result.elements import Guilty

RUNS = 128
LANES = 200_000_000
CLOSE, FAR = 2, 4
"""Lines from where the element departs that count as close; by how much a line beyond is less likely."""
STEP = 2.0**-8
"""Relative change of a literal, from which the value that it should have is solved for."""
ROUNDS = 4
LEFT = 1 / 8
"""A repair leaves no more than this part of the error that it is to repair."""
CONSTANTS = 2.0**-20
"""Of a value without rounding: what its constants, numbers of float32, may leave in it."""
DEARER = 4
"""An interval run, beside one of values."""

Function = tuple[str, int]
Turn = tuple[Function, Repair | Literal | HandedChange | HandedNumber]


@dataclass
class _Trial:
    """Runs of changed kernels, counted; without any rounding if `muted`."""

    study: Study
    cost: int
    runs: int
    steps: int
    most: int
    muted: bool = False
    host: Launcher | None = None
    portion: Portion | None = None
    last: tuple[Study, dict[str, object]] | None = None
    spent: int = 0

    @property
    def _limits(self) -> dict[str, object]:
        """What keeps a change from running for ever: steps of a launch, and launches."""
        return {"steps": self.steps, "most": self.most}

    @property
    def left(self) -> int:
        """Whole runs that there is room for."""
        return min(self.runs, (LANES - self.spent) // self.cost)

    def values(self, function: Function, place: int, code: str, first: bool = False) -> list[np.ndarray] | None:
        """The outputs with a changed kernel, or a changed function around it; None where that does not run to its
        end, or where a part of the programs refutes it `first`."""
        if self.host is not None and function in self.host.trees:
            try:
                entry = replace(self.study.entry, fn=self.host.changed(function, place, code))
            except SyntaxError:
                self.runs -= 1
                return None
            return self._tried(replace(self.study, entry=entry), self._limits, first)

        def change(jit_fn: object, tree: ast.Module) -> ast.Module | None:
            return repaired(tree, place, code) if _key(jit_fn) == function else None

        return self._tried(self.study, {"change": change, **self._limits}, first)

    def given(self, change: HandedChange, first: bool = False) -> list[np.ndarray] | None:
        """The outputs with another launch."""
        return self._tried(self.study, {"hand": applied(change), **self._limits}, first)

    def _tried(self, study: Study, more: dict[str, object], first: bool) -> list[np.ndarray] | None:
        self.runs -= 1
        if first and self.portion is not None:
            self.spent += self.portion.cost
            if self.portion.refutes(study, {**self._kind(), **more}):
                return None
        self.spent += self.cost
        return self._values(study, more)

    def unchanged(self, **more: object) -> list[np.ndarray] | None:
        """The outputs of the kernel as it is, or with `more`; None where it does not run to its end."""
        return self._values(self.study, more)

    def bounded(self) -> list[Case] | None:
        """The cases of the last run with its own bounds."""
        assert self.last is not None
        study, more = self.last
        self.runs, self.spent = self.runs - DEARER, self.spent + DEARER * self.cost
        try:
            with unasked():
                return list(study.with_bounds(study.run(more)))
        except Exception as error:  # as below
            caught(error, "a changed kernel with bounds")
            return None

    def _values(self, study: Study, more: dict[str, object]) -> list[np.ndarray] | None:
        self.last = study, more
        try:
            with warnings.catch_warnings(action="ignore"), unasked():
                run = study.run({**self._kind(), **more})
        except Exception as error:  # whatever a broken kernel raises; one that does not end has spent its steps
            caught(error, "a changed kernel")
            return None
        return None if run.session.findings else self._numbers(run)

    def _kind(self) -> dict[str, object]:
        return {"mute": CAUSES} if self.muted else {"interval": False}

    def _numbers(self, run: Execution) -> list[np.ndarray] | None:
        by = {o.name: o for o in run.outputs}
        if not self.study.alike(run):
            return None  # a changed function may return something else
        if not self.muted:
            return [by[case.name].value for case in self.study.cases]
        with np.errstate(all="ignore"):
            return [by[case.name].lo / 2 + by[case.name].hi / 2 for case in self.study.cases]


def guilty(
    study: Study, run: Execution, near: int = 0, only: Function | None = None, through: Iterable[Function] = ()
) -> Guilty | None:
    """None where no single change that was tried makes the kernel right; lines around `near` come first, if given.

    `only`: the kernel (file and line of its `def`) that departs; others are left as they are, but for what it calls,
    and after it those that all that is wrong passes `through`.
    """
    cases = [c for c in study.cases if not c.mismatch]
    if len(cases) != len(study.cases) or not run.work:
        return None
    trees = _trees(study)
    mine = _within(trees, only)
    handed: list[Turn] = [(one.kernel, todo) for one in launches(study) if one.kernel in mine
                          for todo in changes(one, unread(trees[one.kernel]))]  # fmt: skip
    early = [turn for turn in handed if isinstance(turn[1], HandedChange) and turn[1].early]
    early = early[: min(EARLY, RUNS // 4, LANES // max(run.cost, 1) // 4)]
    found = _in(study, run, cases, [*early, *_turns(mine, near)], RUNS)
    if found is None:
        found = _in(study, run, cases, [turn for turn in handed if turn not in early], RUNS // 4)
    others = {key: tree for key, tree in trees.items() if key not in mine and any(_is(key, tree, k) for k in through)}
    if found is None and others:  # what departs there may be the way that the program goes, and no fault
        found = _in(study, run, cases, list(_turns(others, 0)), RUNS // 2)
    if found is not None and not isinstance(found, _Solved):
        return found
    # A number can be solved for that makes up for what is wrong elsewhere: another function of the host is likelier
    # than one of the kernel, and what departs in a kernel than one of the host.
    host = Launcher(study.entry.fn)
    seen = bool(found or near or only)
    turns: list[Turn] = [t for t in _turns(host.trees, 0, host_repairs) if isinstance(t[1], Repair) or not seen]
    return _in(study, run, cases, turns, RUNS if found is None else RUNS // 2, host) or found


class _Solved(Guilty):
    """By a number that was solved for."""


def _in(
    study: Study, run: Execution, cases: list[Case], turns: list[Turn], runs: int, host: Launcher | None = None
) -> Guilty | None:
    """The first of these turns that makes the program right, of `runs` at most."""
    if not turns:
        return None
    most = launches_allowed(run)
    trial = _Trial(study, run.cost, runs, allowed(run), most, host=host)
    rooms = [_room(case) for case in cases]
    told = not _right([case.value for case in cases], cases, rooms)
    if told:
        # Host code works on whole tensors, however few programs run.
        trial.portion = portion_of(study, run, cases, rooms) if host is None else None
        if found := _searched(trial, turns, cases, rooms):
            return found
    # Roundings hide what is wrong, or what a number should be: the same without any, of numbers alone if it is seen.
    trial = _Trial(study, run.cost, min(runs, LANES // run.cost) // DEARER, trial.steps, most, muted=True, host=host)
    free = trial.unchanged() if trial.left > 0 else None
    if free is None:
        return None
    cases = [replace(case, value=f) for case, f in zip(cases, free, strict=True)]
    rooms = [_room(case, muted=True) for case in cases]
    if _right([case.value for case in cases], cases, rooms):
        return None
    return _searched(trial, [t for t in turns if not told or isinstance(t[1], Literal | HandedNumber)], cases, rooms)


def _searched(trial: _Trial, turns: list[Turn], cases: list[Case], rooms: list[np.ndarray]) -> Guilty | None:
    for function, todo in turns:
        if trial.left <= 0:
            return None
        if isinstance(todo, Literal | HandedNumber):
            code = _solved(_moved(trial, function, todo), trial, todo.value, cases, rooms)
            fraction = code is not None and isinstance(todo, Literal) and todo.fill and not float(code).is_integer()
            if code is not None and not fraction:
                file = function[0] if isinstance(todo, Literal) else todo.file
                return _Solved(file, todo.line, f"{code} in place of {todo.value!r}")
        elif isinstance(todo, HandedChange):
            if _repaired(trial, trial.given(todo, first=True), cases, rooms):
                return Guilty(todo.file, todo.line, todo.what)
        else:
            values = trial.values(function, todo.place, todo.code, first=True)
            if _repaired(trial, values, cases, rooms):
                return Guilty(function[0], todo.line, todo.what)
    return None


def _repaired(trial: _Trial, values: list[np.ndarray] | None, cases: list[Case], rooms: list[np.ndarray]) -> bool:
    """Whether a change makes the program right. The wrong program's bounds may be narrower than rounding lets the right
    one come (a gain of 1e-3 for 1.5): what is nearly right is asked for its own."""
    if values is None or _right(values, cases, rooms):
        return values is not None
    if trial.muted or not _nearly(values, cases, rooms):
        return False
    return all(_inside(case) for case in trial.bounded() or cases)


def _nearly(values: list[np.ndarray], cases: list[Case], rooms: list[np.ndarray]) -> bool:
    """Whether every output is right, or wrong by far less than it was."""
    for value, case, room in zip(values, cases, rooms, strict=True):
        if value.shape != case.exact.shape:
            return False
        with np.errstate(invalid="ignore"):
            gap, before = np.abs(value - case.exact), np.abs(case.value - case.exact)
        small = gap.max(initial=0.0) <= NEARLY * np.abs(case.exact).max(initial=0.0)
        if not near(value, case, room).all() and not (small and gap.sum() <= LEFT * before.sum()):
            return False
    return True


def _inside(case: Case) -> bool:
    room = 4 * (case.fmt.u if case.fmt is not None else 0.0) * np.abs(case.exact)
    return bool(((case.lo - room <= case.exact) & (case.exact <= case.hi + room)).all())


def _moved(
    trial: _Trial, function: Function, number: Literal | HandedNumber
) -> Callable[[str], list[np.ndarray] | None]:
    """The outputs with another value of a number."""
    if isinstance(number, HandedNumber):
        return lambda code: trial.given(number.changed(code))
    return lambda code: trial.values(function, number.place, code)


def _within(trees: dict[Function, ast.Module], only: Function | None) -> dict[Function, ast.Module]:
    """This kernel and every function whose name stands in it; all of them where it is not known."""
    mine = [key for key, tree in trees.items() if only is not None and _is(key, tree, only)]
    if not mine:
        return trees
    names, seen = {n.id for key in mine for n in ast.walk(trees[key]) if isinstance(n, ast.Name)}, set(mine)
    return {key: tree for key, tree in trees.items() if key in seen or _named(tree) in names}


def _is(key: Function, tree: ast.Module, only: Function) -> bool:
    """Whether the function's `def` (or a decorator above it) is at this place."""
    return key[0] == only[0] and (key[1] == only[1] or tree.body[0].lineno == only[1])


def _named(tree: ast.Module) -> str:
    return getattr(tree.body[0], "name", "")


def _key(jit_fn: object) -> Function:
    code = jit_fn.fn.__code__  # type: ignore[attr-defined]
    return code.co_filename, code.co_firstlineno


def _trees(study: Study) -> dict[Function, ast.Module]:
    trees: dict[Function, ast.Module] = {}

    def collect(jit_fn: object, tree: ast.Module) -> None:
        if is_user_file(_key(jit_fn)[0]):
            trees.setdefault(_key(jit_fn), tree)

    study.run({"interval": False, "change": collect})
    return trees


def _turns(
    trees: dict[Function, ast.Module], near: int, of: Callable[[ast.Module], list[Repair]] = repairs
) -> Iterator[tuple[Function, Repair | Literal]]:
    """Everything to try: by rank over all kernels, literals after the likeliest; what lies close is of a lower rank."""
    todo: list[tuple[int, Function, Repair | Literal]] = []
    for function, tree in trees.items():
        every: list[Repair | Literal] = [*of(tree), *literals(tree)]
        for one in every:
            rank = 2 * one.rank if isinstance(one, Repair) else 1
            far = near and abs(one.line - near) > CLOSE
            todo.append((rank + (FAR if far else 0), function, one))
    yield from ((function, one) for _, function, one in sorted(todo, key=lambda t: t[0]))


def _room(case: Case, muted: bool = False) -> np.ndarray:
    """How far rounding may take each element from E; where the bound hides the bug, `LEFT` of the largest error.

    Where the fault made an element a point (cut off at 0, masked), its bound says nothing of the right one: the middle
    of the others' stands for it. Without rounding, what constants may leave.
    """
    u, floor = (0.0, 0.0) if case.fmt is None else (case.fmt.u, case.fmt.half_subnormal)
    u, floor = (CONSTANTS / 4, 0.0) if muted else (u, floor)
    with np.errstate(all="ignore"):
        half = np.nan_to_num((case.hi - case.lo) / 2, nan=0.0, posinf=0.0)
        half = np.where(half == 0, np.median(half[half > 0]) if (half > 0).any() else 0.0, half)
        gap = np.abs(case.value - case.exact)
        half = np.minimum(half, LEFT * np.where(np.isfinite(gap), gap, 0.0).max(initial=0.0))
        found: np.ndarray = half + 4 * u * np.abs(case.exact) + floor
    return found


def _right(values: list[np.ndarray], cases: list[Case], rooms: list[np.ndarray]) -> bool:
    return all(
        value.shape == case.exact.shape and bool(near(value, case, room).all())
        for value, case, room in zip(values, cases, rooms, strict=True)
    )


def _solved(
    values_with: Callable[[str], list[np.ndarray] | None], trial: _Trial, at: float,
    cases: list[Case], rooms: list[np.ndarray],
) -> str | None:  # fmt: skip
    """The value of a number with which the kernel is right, by secants from what the outputs do when it moves from
    `at`.

    One wrong element is met by some value of nearly every literal: there only one that a person would write counts.
    """
    before = [c.value for c in cases]
    wrong = sum(int((~near(c.value, c, room)).sum()) for c, room in zip(cases, rooms, strict=True))
    for _ in range(ROUNDS):
        if trial.left < 2:
            return None
        step = STEP * (abs(at) or 1.0)
        moved = values_with(repr(at + step))
        if moved is None:
            return None
        to = at + step * _wanted(before, moved, cases)
        if not np.isfinite(to) or to == at:
            return None
        # A number that is nothing beside the one before is 0 as far as the step tells.
        zero = abs(to) <= STEP * abs(at)
        values, short = None, ["0.0"] if zero else [f"{to:.2g}", f"{to:.4g}"]
        for code in dict.fromkeys([*short, f"{to:.6g}", repr(float(np.float32(to)))]):
            if abs(float(code) - to) <= STEP * abs(at if zero else to):
                values = values_with(code)
                if values is not None and _right(values, cases, rooms) and (wrong > 1 or code in short):
                    return code
        if values is None:
            return None
        if not _nearer(values, before, cases):
            return None
        at, before = float(code), values
    return None


def _wanted(before: list[np.ndarray], moved: list[np.ndarray], cases: list[Case]) -> float:
    """The median, over the elements that move most, of how many steps the literal is away from what is wanted."""
    steps = []
    for v, m, case in zip(before, moved, cases, strict=True):
        with np.errstate(all="ignore"):
            slope, gap = (m - v).reshape(-1), (case.exact - v).reshape(-1)
            fit = np.isfinite(slope) & np.isfinite(gap) & (np.abs(slope) > 0)
            picked = np.argsort(-np.abs(np.where(fit, slope, 0.0)), kind="stable")[:256]
            steps.append((gap / slope)[picked[fit[picked]]])
    every = np.concatenate(steps) if steps else np.empty(0)
    return float(np.median(every)) if every.size else float("nan")


def _nearer(values: list[np.ndarray], before: list[np.ndarray], cases: list[Case]) -> bool:
    gaps = [[np.nansum(np.abs(v - c.exact)) for v, c in zip(side, cases, strict=True)] for side in (values, before)]
    return bool(sum(gaps[0]) < 0.5 * sum(gaps[1]))
