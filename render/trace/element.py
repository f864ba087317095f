"""From output elements to their slices: which programs made them, one run of those alone, the cut, and its check.

The stored bounds of the re-run must be those of the run that was judged, bit for bit. Where they are not (programs of
the launch that read what others wrote), all programs run again, and if that does not help the element is not sliceable.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from interval_ops.allocator import large_blocks_mapped
from interval_ops.profiles.profile import CAUSES
from render.entry.execution import FAILURES, Execution, Tensor
from render.entry.execution import Entry as Call
from render.interpreter.events import listened
from render.interpreter.memory.registry import address
from render.trace.batch import Batch, asked
from render.trace.check import check
from render.trace.follow import follow
from render.trace.graph import pruned
from render.trace.host import logged
from render.trace.host_cut import HostCutter
from render.trace.model import HOST, LEAF, MISHAPS, Node, NotSliceable, Slice
from render.trace.places import Place, places
from render.trace.recorder import BYTES, Enough, Recorder
from render.trace.roots import Root, roots

Wanted = tuple[str, tuple[int, ...]]
"""Name of an output and an index into it."""


def slice_of(call: Call, run: Execution, output: str, index: Sequence[int]) -> Slice:
    """The slice of `output[index]` of a finished run. Raises NotSliceable, and RenderError for an unknown element."""
    (found,) = slices_of(call, run, [(output, tuple(int(i) for i in index))])
    if isinstance(found, NotSliceable):
        raise found
    return found


def slices_of(call: Call, run: Execution, wanted: Sequence[Wanted]) -> list[Slice | NotSliceable]:
    """Slices of several elements, or why there is none; elements that one launch made share its re-run."""
    if "builder" in call.options:
        return [NotSliceable("the session", "it runs with a builder of its own")] * len(wanted)
    if not hasattr(run.session, "writers"):
        return [NotSliceable("the session", "it keeps no record of stores")] * len(wanted)
    call = replace(call, options={**call.options, "together": _together(run)})
    unstored = [NotSliceable("the host", f"no kernel stored {name}{list(where)}") for name, where in wanted]
    found: list[Slice | NotSliceable] = list(unstored)
    todo: dict[int, list[Place]] = {}
    for i, (name, where) in enumerate(wanted):
        tensor = run.output(name)
        try:
            at = tensor.address + tensor.offset(where)
            todo[i] = list(places(run.session.writers, at, tensor.base))
        except NotSliceable as error:
            found[i] = error
    first = True
    run_all = whole = run.recording is not None
    while todo := {i: p for i, p in todo.items() if p}:
        groups: dict[int, dict[int, Place]] = {}
        for i, p in todo.items():
            groups.setdefault(p[0].launch, {})[i] = p[0]
        if not whole and not first:
            groups = {max(groups): groups[max(groups)]}
        results = _attempt(call, run, wanted, groups, run_all)
        for i, result in results.items():
            if result is not None:
                found[i] = result
            if isinstance(result, Slice):
                todo.pop(i)
            elif run_all:  # one that alone stores nothing may do so beside the others
                todo[i] = todo[i][1:]
        # What is more than a recording keeps of several launches may be none of one.
        apart = first and len(groups) > 1 and not any(isinstance(r, Slice) for r in results.values())
        run_all = whole or not (apart or run_all or all(isinstance(r, Slice) for r in results.values()))
        first = False
    _through_host(call, run, wanted, found)
    return [_left_alone(run, w, f) if f is none else f for w, f, none in zip(wanted, found, unstored, strict=True)]


def _together(run: Execution) -> dict[int, int]:
    """How many programs of each launch ran at once where nothing kept them apart: as many may when it is repeated."""
    stats = [launch.stats for launch in run.session.launches]
    return {i: s.chunk_size for i, s in enumerate(stats) if not (s.sequential or s.in_turns or s.rollbacks)}


def _left_alone(run: Execution, wanted: Wanted, none: Slice | NotSliceable) -> Slice | NotSliceable:
    """An element that no program stored: the number that lay there before the run."""
    name, where = wanted
    tensor = run.output(name)
    ends = float(tensor.value[where]), float(tensor.lo[where]), float(tensor.hi[where])
    if not ends[0] == ends[1] == ends[2]:
        return none  # something made a bound for it
    leaf = Node(LEAF, {"source": "input", "name": name}, "", 0, 0, (), *(np.array([end]) for end in ends))
    note = f"no program stores {name}{list(where)}; its value is what lay there before"
    return Slice(name, where, "no kernel", (), (leaf,), 0, *ends, (note,), run.session.profile)


def _through_host(call: Call, run: Execution, wanted: Sequence[Wanted], found: list[Slice | NotSliceable]) -> None:
    """Fills in what host code computed from kernel results; an element that it did not touch stays as it is."""
    left = [i for i, result in enumerate(found) if isinstance(result, NotSliceable)]
    if not left:
        return
    try:
        log, again = logged(call)
    except FAILURES:
        return  # said already
    for i in left:
        name, where = wanted[i]
        try:
            if log.full or again is None:
                raise NotSliceable("the host", "it computes too many elements")
            cutter = HostCutter(log)
            tensor = again.output(name)
            number = cutter.number(tensor.address + tensor.offset(where))
            if number is None:
                continue
            node = next(n for n in cutter.nodes if n.start <= number < n.stop)
            k = number - node.start
            v, lo, hi = (float(end[k]) for end in (node.v, node.lo, node.hi))
            nodes, profile = tuple(cutter.nodes), run.session.profile
            whole = Slice(name, where, HOST, (), nodes, number, v, lo, hi, profile=profile)
            confirmed = _confirmed(call, run, {i: whole})[i]
            assert confirmed is not None
            found[i] = confirmed
        except NotSliceable as error:
            found[i] = error
        except MISHAPS as error:
            found[i] = _mishap(error)


TOGETHER = 40_000_000
"""Counted lanes of a run up to which all launches are recorded at once, with all their programs."""


def _attempt(
    call: Call, run: Execution, wanted: Sequence[Wanted], groups: dict[int, dict[int, Place]], run_all: bool
) -> dict[int, Slice | NotSliceable | None]:
    """One re-run for elements of these launches; None for an element that none of the programs stored.

    No re-run where the run itself was recorded.
    """
    if run.recording is not None:
        return _out_of(run.recording, call, run, wanted, groups, {o.name: o.address for o in run.outputs})
    every = {i: place for group in groups.values() for i, place in group.items()}
    programs: dict[int, np.ndarray | None] = {
        launch: np.unique(np.concatenate([p.programs for p in group.values()])) for launch, group in groups.items()
    }
    if run.work <= TOGETHER and max(groups) and not run.apart:
        programs = dict.fromkeys(range(max(groups) + 1))  # leaves of earlier launches are looked for in them
    recorder = Recorder(programs, run_all, run.apart)
    try:
        again = record(call, recorder)
    except FAILURES as error:
        return dict.fromkeys(every, NotSliceable("the run", f"it cannot be repeated: {str(error).splitlines()[0]}"))
    if recorder.waits:
        return dict.fromkeys(every, NotSliceable("the programs", "they wait for what others store"))
    if recorder.full:
        why = NotSliceable("the programs", f"what they compute takes more than {BYTES >> 20} MB")
        return dict.fromkeys(every, why)
    if recorder.launch < max(groups) or (again is not None and not {wanted[i][0] for i in every} <= again.keys()):
        why = NotSliceable("the run", "the launch was not met again: the entry does not do the same twice")
        return dict.fromkeys(every, why)
    starts = None if again is None else {name: address(tensor) for name, tensor in again.items()}
    results = _out_of(recorder, call, run, wanted, groups, starts)
    recorder.close()
    return results


def _out_of(
    recorder: Recorder, call: Call, run: Execution, wanted: Sequence[Wanted], groups: dict[int, dict[int, Place]],
    starts: dict[str, int] | None,
) -> dict[int, Slice | NotSliceable | None]:  # fmt: skip
    """The elements out of a recording; `starts`: addresses of the outputs in it, if their places ask for them."""
    results: dict[int, Slice | NotSliceable | None] = {}
    for launch, group in groups.items():
        results.update(_cut(recorder.of(launch), run, wanted, group, starts))
    whole = {i: one for i, one in results.items() if isinstance(one, Slice)}
    results.update(_confirmed(call, run, whole, recorder))
    return results


def _cut(
    recorder: Recorder, run: Execution, wanted: Sequence[Wanted], group: dict[int, Place],
    starts: dict[str, int] | None,
) -> dict[int, Slice | NotSliceable | None]:  # fmt: skip
    """The elements of one launch, out of its recording."""
    targets = []
    for i, place in group.items():
        offset = place.offset
        if place.name is None:
            output, where = wanted[i]
            offset = 0 if starts is None else starts[output] + run.output(output).offset(where)
        targets.append((place.name, offset))
    try:
        cutter, made = roots(recorder, targets)
    except NotSliceable as error:
        return dict.fromkeys(group, error)
    except MISHAPS as error:
        return dict.fromkeys(group, _mishap(error))
    kernel, nodes = run.session.launches[recorder.launch_of_last].kernel, tuple(cutter.nodes)
    results: dict[int, Slice | NotSliceable | None] = {}
    for i, root in zip(group, made, strict=True):
        if not isinstance(root, Root):
            results[i] = root
            continue
        name, where = wanted[i]
        results[i] = Slice(name, where, kernel, root.programs, nodes, root.number, *root.ends,
                           tuple(cutter.notes), run.session.profile)  # fmt: skip
    return results


def _confirmed(
    call: Call, run: Execution, whole: dict[int, Slice], recorder: Recorder | None = None
) -> dict[int, Slice | NotSliceable | None]:
    """The slices of these elements alone, followed into earlier launches and checked."""
    results: dict[int, Slice | NotSliceable | None] = {}
    alike, silent = {}, run.session.mute >= set(CAUSES)
    for i, one in whole.items():
        if same(one, run.output(one.output), silent):
            alike[i] = one
        else:
            why = "run again, the element has another value or bound: another program or the host changes it"
            results[i] = NotSliceable("the run", why)
    sound = _sound(alike)
    alone = [pruned(one) for one in alike.values()]
    try:
        followed = follow(call, alone, recorder)
    except NotSliceable as error:
        return {**results, **dict.fromkeys(alike, error)}
    except MISHAPS as error:
        return {**results, **dict.fromkeys(alike, _mishap(error))}
    left = {i: one for i, one, cut in zip(alike, followed, alone, strict=True) if one is not cut or i not in sound}
    results.update(zip(alike, followed, strict=True))
    return {**results, **dict(zip(left, _checked(list(left.values())), strict=True))}


def _sound(slices: Mapping[int, Slice]) -> set[int]:
    """Those that are right because all the nodes are that their launch's elements share; no other check is needed."""
    passed: dict[int, bool] = {}
    for one in slices.values():
        if id(one.nodes) not in passed:
            try:
                check(one)
                passed[id(one.nodes)] = True
            except (NotSliceable, *MISHAPS):
                passed[id(one.nodes)] = False  # whose they are, the check of each will tell
    return {i for i, one in slices.items() if passed[id(one.nodes)]}


def _checked(slices: Sequence[Slice]) -> list[Slice | NotSliceable]:
    """The slices, or what is wrong with each."""

    def sound(batch: Batch) -> Sequence[Slice]:
        check(batch)
        return batch.members

    found = asked(slices, sound)
    return [_mishap(one) if isinstance(one, Exception) and not isinstance(one, NotSliceable) else one for one in found]


def _mishap(error: Exception) -> NotSliceable:
    return NotSliceable("the cut", f"{error!r}: please report this")


def same(found: Slice, tensor: Tensor, silent: bool = False) -> bool:
    """Whether the slice ends in the bound and value that were judged.

    `silent`: a run without any rounding, whose host may have computed by other code than the one that is recorded: both
    enclose one number then, each with its own error of float64.
    """
    where = found.index
    value, lo, hi = tensor.value[where], tensor.lo[where], tensor.hi[where]
    if silent and found.v == value and found.lo <= hi and lo <= found.hi:
        return True
    return bool(np.array_equal((found.v, found.lo, found.hi), (value, lo, hi), equal_nan=True))


def record(call: Call, recorder: Recorder) -> dict[str, torch.Tensor] | None:
    """Runs the entry until everything is recorded; the tensors that it gave, if it came to its end.

    Their bounds are not read: all that is asked of a recording is in its passes.
    """
    options = {**call.options, "printer": lambda text: None, "builder": listened(recorder)}
    found = None
    with large_blocks_mapped(), contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Enough):
        found = dict(replace(call, options=options).given())
    recorder.took()
    return found
