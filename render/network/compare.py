"""Which module of a model first differs from the same in another by more than rounding explains.

Both models run as they were given, with what went into and came out of every module; borders that both have are
judged one by one, each from the activations that stood before it (`walks`, `judge`). A fault therefore stays where it
is made, and what comes after it is judged as if it were right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import nn

from render.interpreter.boxes import ends_of
from render.interpreter.hosted.call import rounding_of
from render.interpreter.no_gpu import launching
from render.interpreter.session import Session, large_blocks_kept
from render.network.capture import Key, Model, ModuleRun, callers, leaves
from render.network.choices import chosen as choices_within_rounding
from render.network.closer import Loss, look, operation_of
from render.network.columns import in_columns, layer_twins, own_in_columns
from render.network.declared import declared
from render.network.divided import divided, ends, other_numbers
from render.network.joined import JoinTwin
from render.network.judge import LIMIT, Sight, decide
from render.network.layered import LayerTwin
from render.network.pairs import Pair, apart, doubtful, paired
from render.network.program import Program
from render.network.recorded import side_of
from render.network.records import LeafRecord, NetworkVerdict, worst
from render.network.spill import FREE, Spill
from render.network.twins import twins
from render.network.unused import unused
from render.network.walks import UNIT, BoundedWalk, ExactWalk
from render.result.codes import Label
from render.result.errors import RenderError, expect

TF32 = 2.0**-10
"""u of operands that are cut to TF32, as torch's switches allow matrix products on a GPU."""
Sights = dict[tuple[Key, int], Sight]


def compare_models(
    target: Any, reference: Any, *inputs: Any, device: str = "torch-cpu", match: Mapping[str, str] | None = None,
    start: str | None = None, end: str | None = None, seed: int = 0, assume_exact: Sequence[str] = (),
    bounds: str = "all",
) -> NetworkVerdict:  # fmt: skip
    """Judge every module of `target` against its counterpart in `reference`, on the same inputs.

    Modules, plain functions, or either compiled by torch.compile; either may be a run on file
    (`record_modules`), which holds its inputs.
    `device`: the profile of the target ("torch-cpu", "inductor-cpu", "cuda-eager"). `match` maps leaves of the target
    to those of the reference where names differ. Judged are the borders from the input of `start` to the results of
    `end` (modules of the target). `bounds`: "all", or "asked" for bounds only where the exact values leave something
    open (cheaper where that is rare; the published rule is then asked there alone). `assume_exact`: functions that
    are taken as exact, as in `classify`. `seed` seeds torch before each run. Raises RenderError for what cannot be
    compared.

        v = render.compare_models(fused, eager, torch.randn(4, 64), device="cuda-eager")
        v.label, v.first    # "Type-II", "layers.3.norm"
    """
    checked(device, seed, assume_exact)
    expect("match", match, Mapping, none=True)
    try:
        (mine, first), (theirs, second) = side_of(target, reference), side_of(reference, target)
    except ValueError as error:
        raise RenderError("RND902", str(error), "pass modules or functions") from None
    if bounds not in ("all", "asked"):
        raise RenderError("RND902", f"bounds={bounds!r}", 'choose "all" or "asked"')
    if not inputs:
        inputs = next((m.module.inputs() for m in (mine, theirs) if isinstance(m.module, Program)), ())
    with large_blocks_kept(FREE), launching(device):
        traces = first(inputs, seed), second(inputs, seed)
        sides = TwoSides(mine, theirs, inputs, device, seed, frozenset(assume_exact))
        sides.every = bounds == "all"
        return judged(sides, *traces, match, start, end)


def checked(device: Any, seed: Any, assume_exact: Any = ()) -> None:
    """RenderError for a target that there is not, and for words where several are meant."""
    expect("device", device, str)
    expect("seed", seed, int)
    expect("assume_exact", assume_exact, list, tuple, set, frozenset)
    for name in assume_exact:
        expect("assume_exact", name, str)
    try:
        Session(device=device, redirect=False)
    except ValueError as error:
        raise RenderError("RND902", str(error)) from None


class TwoSides:
    """The two sides and how to run them again."""

    def __init__(
        self, target: Model, reference: Model, inputs: Sequence[Any], device: str, seed: int, assumed: frozenset[str]
    ) -> None:
        self.target, self.reference, self.inputs, self.seed, self.assumed = target, reference, inputs, seed, assumed
        self.devices = {"target": profile_of(target, device), "reference": profile_of(reference, device)}
        self.constants = constants_of(target.module, reference.module)
        self.boxes = {i: ends for i, t in enumerate(leaves(tuple(inputs))) if (ends := ends_of(t)) is not None}
        self.every, self.all_paired = True, False
        self.rounded: set[Key] = set()
        self.unit = TF32 if device.startswith("cuda") and torch.backends.cuda.matmul.allow_tf32 else UNIT

    def constants_at(self, key: Key) -> float:
        """u of the constants between the two functions of a border."""
        if key not in self.rounded:
            return self.constants
        held = (p.dtype for m in (self.target.module, self.reference.module) for p in m.parameters())
        return max((rounding_of(d)[0] for d in held if d.is_floating_point), default=self.constants)


def profile_of(model: Model, device: str) -> str:
    return "inductor-cpu" if model.compiler is not None and device == "torch-cpu" else device


def constants_of(target: nn.Module, reference: nn.Module) -> float:
    """u of the narrower side's parameters where the sides hold them in different formats, else of fp32."""
    held = [m.kept.values() if isinstance(m, Program) else m.parameters() for m in (target, reference)]
    kinds = [{p.dtype for p in found if p.is_floating_point()} for found in held]
    if kinds[0] == kinds[1]:
        return UNIT
    return max((rounding_of(d)[0] for d in kinds[0] ^ kinds[1]), default=UNIT)


def judged(
    sides: TwoSides,
    mine: ModuleRun,
    theirs: ModuleRun,
    match: Mapping[str, str] | None,
    start: str | None,
    end: str | None,
) -> NetworkVerdict:
    try:
        pairs = paired(mine, theirs, match)
        chosen = _between(pairs, start, end)
        made = any(pairs[key].target for key in chosen if key.way != "in")
        if not made and not leaves(mine.output) and not leaves(theirs.output):
            raise ValueError("nothing to compare: neither side returns a tensor")
        if not chosen:
            raise ValueError(f"nothing to compare between {start!r} and {end!r}")
        if any(isinstance(m.module, Program) and m.module.loose for m in (sides.target, sides.reference)):
            chosen = {key for key in chosen if key.way == "out"}
        sides.all_paired = (
            len(pairs) == len(mine.crossings) + len(mine.state) == len(theirs.crossings) + len(theirs.state)
        )
        if sides.boxes:  # no result is a point then, whatever the two runs gave
            for pair in pairs.values():
                entry = pair.key.name == "" and pair.key.way == "in"
                pair.equal = [entry or not t.is_floating_point() for t in pair.target]
    except ValueError as error:
        raise RenderError("RND902", str(error), "names are those of `named_modules`; models return tensors, also in "
                          "tuples, dictionaries and dataclasses") from None  # fmt: skip
    modules = sides.target.modules(), sides.reference.modules()
    sides.rounded = other_numbers(pairs, modules)
    found, other = _judged(sides, pairs, chosen, mine, theirs)
    idle = set() if found.label != "Type-II" else unused(sides.target, sides.reference, pairs, sides.inputs, sides.seed)
    if idle:
        sides.all_paired = False
        pairs, chosen = {key: pair for key, pair in pairs.items() if key not in idle}, chosen - idle
        found, other = _judged(sides, pairs, chosen, mine, theirs)
        found.notes.append(f"nothing that either side returns depends on it, so not judged: {_named(idle)}")
    pairs, chosen, found, other = _of_sure(sides, (pairs, chosen, found, other), mine, theirs)
    inside = divided(pairs, other, mine, theirs, modules)
    if not inside:
        return found
    sides.all_paired = False
    fewer = {key: pair for key, pair in pairs.items() if key not in inside}
    sides.rounded |= ends(pairs, inside)
    together, _ = _judged(sides, fewer, chosen - inside, mine, theirs)
    names = _named(key for key in pairs if key in inside)
    together.notes += [n for n in found.notes if n not in together.notes]
    together.notes.append(f"judged together with what runs next, for the sides divide the work otherwise: {names}")
    return together


Judged = tuple[dict[Key, Pair], set[Key], NetworkVerdict, set[Key]]
"""Borders, those that were looked at, the answer, and where the two unrounded functions differ."""


def _of_sure(sides: TwoSides, before: Judged, mine: ModuleRun, theirs: ModuleRun) -> Judged:
    """The same without borders that are none, and without guesses at all where nothing leaves then.

    As it was where a guess was right: where what is next leaves without it.
    """
    if before[2].label != "Type-II":
        return before
    classes = [{name: type(m) for name, m in side.modules().items()} for side in (sides.target, sides.reference)]
    order, now = list(before[0]), before
    while doubts := doubtful(now[0], now[3] | (now[0].keys() - now[1]), classes):
        now = _without(sides, now, doubts, mine, theirs)
    bold = now
    for _ in range(GUESSES):
        guesses = {key for key in bold[3] if not bold[0][key].sure and apart(bold[0][key])}
        if not guesses:
            break
        bold = _without(sides, bold, guesses, mine, theirs)
    if bold[2].label != "Type-II":
        now = bold
    elif now is not before:
        first = min((key for key in order if key not in now[0] and key in before[3]), key=order.index)
        after = next((key for key in order[order.index(first) + 1 :] if key in now[0] and key.way != "in"), None)
        now = before if after in now[3] and after not in before[3] else now
    if now is not before:
        gone = dict.fromkeys(key.name for key in order if key not in now[0])
        now[2].notes.append(f"judged together with what runs next, for the sides run other modules: {', '.join(gone)}")
    return now


GUESSES = 4
"""So often guessed borders that leave are left out; each time the models run again."""


def _without(sides: TwoSides, judged: Judged, doubts: set[Key], mine: ModuleRun, theirs: ModuleRun) -> Judged:
    pairs, chosen, found, _ = judged
    sides.all_paired = False
    fewer = {key: pair for key, pair in pairs.items() if key not in doubts}
    again, leaving = _judged(sides, fewer, chosen - doubts, mine, theirs)
    again.notes += [n for n in found.notes if n not in again.notes]
    return fewer, chosen - doubts, again, leaving


def _named(keys: Iterable[Key]) -> str:
    return ", ".join(dict.fromkeys(key.name for key in keys if key.way == "out"))


def _judged(
    sides: TwoSides, pairs: dict[Key, Pair], chosen: set[Key], mine: ModuleRun, theirs: ModuleRun
) -> tuple[NetworkVerdict, set[Key]]:
    """The answer, and the borders where the two unrounded functions differ."""
    results = [leaves(t.output) for t in (mine, theirs)]
    shapes = [[tuple(t.shape) for t in r] for r in results]
    sights = _sights(sides, pairs, chosen)
    notes: list[str] = []
    causes: dict[Key, frozenset[str]] = {}
    if sights:
        walked = _walked(sides, pairs, sights, [])
        if isinstance(walked, list):
            sights = _sights(sides, pairs, chosen)
            walked = _walked(sides, pairs, sights, walked)
            assert isinstance(walked, tuple)
        causes, notes = walked
    found = _verdict(sides, pairs, chosen, sights, causes, notes, shapes, callers(mine.crossings))
    return found, {key for (key, _), sight in sights.items() if sight.record.apart > 1}


def _sights(sides: TwoSides, pairs: dict[Key, Pair], chosen: set[Key]) -> Sights:
    seen: set[tuple[int, int]] = set()
    sights: Sights = {
        (key, i): Sight(pair, i, sides.constants_at(key), sides.unit)
        for key, pair in pairs.items() if key in chosen
        for i in _news(pair, seen) if not pair.equal[i]
    }  # fmt: skip
    for (key, place), sight in sights.items():
        entry = pairs.get(key._replace(way="in"))
        sight.slopes = key.way == "out" and not place and entry is not None and entry.all_equal
    return sights


def _news(pair: Pair, seen: set[tuple[int, int]]) -> list[int]:
    """Places of tensors that no earlier border had: what a module returned is handed on as it is most of the time."""
    found = [(id(a), id(b)) for a, b in zip(pair.target, pair.reference, strict=True)]
    fresh = [i for i, ids in enumerate(found) if ids not in seen]
    seen.update(found)
    return fresh


def _between(pairs: Mapping[Key, Pair], start: str | None, end: str | None) -> set[Key]:
    """The borders after the input of `start` up to the results of `end`."""
    keys = list(pairs)
    names = {k.name for k in keys}
    for name in (start, end):
        if name is not None and name not in names:
            raise ValueError(f"both sides run no module {name!r}")
    first = 0 if start is None else keys.index(next(k for k in keys if k.name == start)) + 1
    last = len(keys) if end is None else max(i for i, k in enumerate(keys) if k.name == end) + 1
    return set(keys[first:last])


def _walked(
    sides: TwoSides, pairs: dict[Key, Pair], sights: Sights, tape: list[torch.Tensor]
) -> tuple[dict[Key, frozenset[str]], list[str]] | list[torch.Tensor]:
    """The walks, each over what the ones before it leave open: E once where both sides are one module.

    `tape`: random numbers of the target for E of the reference. Found to be wanted, it comes back.
    """

    once = twins(sides.target, sides.reference, pairs, sides.all_paired)
    linear = layer_twins(sides.reference, pairs, {key for key in once if (key, 0) in sights and key.way == "out"})
    profile = Session(device=sides.devices["target"]).profile
    later = Spill()
    wanted: set[tuple[Key, int]] = set()
    finished: dict[tuple[Key, int], str] = {}
    joins: dict[tuple[Key, int], JoinTwin] = {}
    plain = not sides.boxes and sides.target.compiler is None and sides.reference.compiler is None
    between = joins if plain else None

    def weigh(at: tuple[Key, int]) -> None:
        """Errors of both sides, as soon as the target's function is known."""
        sight = sights[at]
        if sight.stability(own=False):
            wanted.add(at)
        sight.let_go()
        sight.put_away(later)

    def closed(at: tuple[Key, int], twin: LayerTwin) -> bool:
        """Whether all is known of it, a part at a time."""
        if sides.boxes or not twin.possible() or not in_columns(sights[at], twin, profile, sides.every):
            return False
        finished[at] = twin.cause
        wanted.update({at} if sights[at].record.eta_reference > LIMIT else ())
        return True

    def of_reference(pair: Pair, place: int, found: Any) -> None:
        at = pair.key, place
        if isinstance(found, JoinTwin) and pair.key not in once:
            joins[at] = found  # whether the target's function is this one as well, its walk will tell
            return
        if isinstance(found, LayerTwin):
            if closed(at, found):
                return
            found = found.whole(UNIT)
        sights[at].of_reference(found)
        if pair.key in once:
            weigh(at)
        else:
            sights[at].put_away(later)

    def of_target(pair: Pair, place: int, found: Any) -> None:
        at = pair.key, place
        sights[at].drawn = walk.drawn.get(pair.key) != exact.drawn.get(pair.key)
        twin = joins.pop(at, None)
        if isinstance(found, JoinTwin):
            if closed(at, found):
                return
            found = found.whole(UNIT)
        if twin is not None:
            sights[at].of_reference(twin.whole(UNIT))
        sights[at].of_target(found)
        weigh(at)

    def of_own(pair: Pair, place: int, found: Any) -> None:
        sight = sights[pair.key, place]
        if isinstance(found, LayerTwin):
            own_in_columns(sight, found)
            return
        sight.of_own(found)
        sight.stability(own=True)
        if not sight.record.unstable and sight.exact is None:
            sight.own = sight.moved = None

    exact = ExactWalk(sides.reference, "reference", pairs, of_reference, sights, linear=linear, joins=between)
    exact.mode.tape = tape
    exact.run(sides.inputs, sides.seed)
    notes = list(exact.mode.notes)
    exact.mode.release()
    other = {at for at in sights if at[0] not in once}
    walk = ExactWalk(sides.target, "target", pairs, of_target, other, errors=False, joins=between)
    walk.run(sides.inputs, sides.seed)
    walk.mode.release()
    for at, twin in joins.items():
        sights[at].of_reference(twin.whole(UNIT))
    if not tape and [x.dtype for x in exact.mode.drawn] != [x.dtype for x in walk.mode.drawn]:
        return walk.mode.drawn
    may = exact.may_declare or walk.may_declare  # both ran all code that might
    precision = cache(
        lambda: declared(sides.target, sides.reference, pairs, sides.inputs, sides.seed) if may else _none
    )
    if wanted:
        near = all(sights[at].near() for at in wanted)
        own = ExactWalk(sides.reference, "reference", pairs, of_own, wanted, own=True, errors=not near, linear=linear)
        own.ending().run(sides.inputs, sides.seed)
        own.mode.release()
        for sight in (sights[at] for at in wanted):
            if sight.record.unstable:
                sight.declare(precision()(sight.pair.key))
    open_ = {at: sight for at, sight in sights.items() if at not in finished or sight.record.unstable}
    asked = {at for at, sight in open_.items() if sides.every or sides.boxes or not sight.settled()} - finished.keys()
    causes = _bounded(sides, "target", pairs, sights, asked) if asked else {}
    for (key, _), cause in finished.items():
        causes[key] = causes.get(key, frozenset()) | ({cause} - {""})
    beyond = {at for at, sight in open_.items() if sight.asks_reference()}
    if beyond:
        _bounded(sides, "reference", pairs, sights, beyond)
    look(list(open_.values()), pairs, sides.reference, lambda key: precision()(key))
    choices_within_rounding(sides, pairs, sights, lambda key: precision()(key))
    return causes, notes


def _none(key: Key) -> float:
    """No border has a precision that autocast declares."""
    return 0.0


def _bounded(
    sides: TwoSides,
    side: str,
    pairs: dict[Key, Pair],
    sights: Sights,
    wanted: set[tuple[Key, int]],
) -> dict[Key, frozenset[str]]:
    model = sides.target if side == "target" else sides.reference

    def see(pair: Pair, place: int, envelope: Any) -> None:
        found = [walk.session.taints[i] for i in sorted(envelope.taints)]
        told = [t.message for t in found if t.op.split(":")[-1] not in sides.assumed]
        sight = sights[pair.key, place]
        sight.of_bound(side, envelope, told)
        if sight.widths is not None:
            sight.widths.into(sight.record)
        sight.widths = sight.sample = None

    boxes = {(Key("", 0, "in"), i): ends for i, ends in sides.boxes.items()}
    walk = BoundedWalk(model, side, pairs, see, wanted, device=sides.devices[side], boxes=boxes)
    if sides.every and not boxes:  # else what rounds in regions that nobody asks for is told as well
        walk.ending()
    walk.run(sides.inputs, sides.seed)
    walk.forget()
    return {p.key: walk.causes.get(p.key if side == "target" else p.other, frozenset()) for p in pairs.values()}


def _verdict(
    sides: TwoSides, pairs: Mapping[Key, Pair], chosen: set[Key], sights: Sights,
    causes: Mapping[Key, frozenset[str]], notes: list[str], shapes: list[list[tuple[int, ...]]],
    containers: frozenset[str],
) -> NetworkVerdict:  # fmt: skip
    records: list[LeafRecord] = []
    for key, pair in pairs.items():
        if key not in chosen:
            continue
        for i in range(len(pair.target)):
            sight = sights.get((key, i))
            if sight is not None:
                record = sight.record
                record.label, record.code, record.detail = decide(sight, causes.get(key, frozenset()))
                record.leaf = record.leaf and record.name not in containers
                records.append(record)
            elif key.way != "in":
                records.append(Sight(pair, i, UNIT, UNIT).record)
    device = sides.devices["target"]
    told = [f"{name} is exact, as you said: not sound" for name in sorted(sides.assumed)]
    paper: Label = max((r.paper_rule for r in records), key=_PAPER.index, default="Type-I")
    if shapes[0] != shapes[1]:
        text = f"results of shapes {shapes[0]} and {shapes[1]}"
        return NetworkVerdict("Type-II", "RND205", "", text, records, "Type-II", device, notes, told)
    bug = next((r for r in records if r.label == "Type-II"), None)
    if bug is not None:
        if bug.code in ("RND206", "RND202"):
            _by_operation(bug, operation_of(next(s for s in sights.values() if s.record is bug), pairs, sides.target))
        where = bug.name or "the model's own code"
        return NetworkVerdict(
            "Type-II", bug.code, bug.name, f"{where}: {bug.detail}", records, paper, device, notes, told
        )  # type: ignore[arg-type]
    label, code = worst(records)
    return NetworkVerdict(label, code, None, "no module leaves", records, paper, device, notes, told)


_PAPER: tuple[Label, ...] = ("Type-I", "Inconclusive", "Type-II")


def _by_operation(bug: LeafRecord, found: Loss) -> None:
    """Names the operation; one that is off by roundings of larger numbers is unstable, by more than these wrong."""
    bug.operation = found.name
    if found.name:
        bug.code = "RND202" if found.gross and bug.code == "RND202" else "RND206"
        bug.detail += f"; {found.name} loses them"


__all__ = ["compare_models"]
