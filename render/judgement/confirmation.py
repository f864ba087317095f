"""Asks for a second opinion on a Type-II that rests on the bound, and what follows from it.

One agreeing witness is enough: an element that cannot have the value is a bug wherever it lies. Tried are, per output
that was called Type-II, the element furthest outside, the one that lies furthest outside in units of its own bound, and
the first and the last one outside. Without an agreeing witness the verdict is Inconclusive, and that is our own defect:
a second evaluation contradicts the bound (RND306), or none could be made (RND308), so that the bound stands alone.

NaN or infinity in the kernel itself does not rest on a bound and needs no witness.

A witness takes the graph from the run, and what the host gave where that cannot be followed. So of a program whose host
computes floats a RND201 needs more: the program runs once more without any rounding, its host by torch's own float64
kernels and by no rule of ours (`render.interpreter.rederived`). Where that gives what the reference gives, and the
bound excludes it by little, the bound is wrong and not the program (a number beyond a format is excluded by much).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from interval_ops.profiles.profile import CAUSES, MissingRule
from render.entry.execution import FAILURES, Entry, Execution
from render.result.blockwise import blocks, flat, part
from render.result.decision import Case, Decision, Masks, accused, device_bound
from render.result.elements import Witness

if TYPE_CHECKING:
    from render.witness.make import Figures

CONTRADICTED, ALONE = "RND306", "RND308"
DEFECTS = frozenset([CONTRADICTED, ALONE])
"""Codes of a Type-II that no second evaluation confirms."""
ON_BOUND = frozenset(["RND201", "RND202", "RND204"])
"""Codes that can rest on the bound."""
OWN, LITTLE, FLOAT64 = 2.0**-20, 2.0**-6, 2.0**-40
"""Of the value: what constants and tables in float32 may differ by, an excess of a bound that is too narrow, and what
float64 loses."""


@dataclass(frozen=True)
class Outside:
    """An element that is claimed to be out of reach: `low` .. `high` of `side`."""

    case: Case
    place: tuple[int, ...]
    side: str
    low: float
    high: float


def second_opinion(
    entry: Entry, run: Execution, cases: Sequence[Case], masks: Sequence[Masks | None], decisions: Sequence[Decision],
    decision: Decision,
) -> tuple[Witness | None, Decision]:  # fmt: skip
    """(what the second evaluation says, the decision in its light); None where the verdict does not rest on a bound."""
    if decision.label != "Type-II" or decision.code not in ON_BOUND:
        return None, decision
    tried: list[Witness] = []
    again = cache(lambda: _rederived(entry, run))
    for case, mask, own in zip(cases, masks, decisions, strict=True):
        if own.code != decision.code or mask is None:
            continue
        if run.output(case.name).given:  # an input as it came in rests on no bound
            return None, decision
        for claim in _claims(case, mask, own.code):
            found = confirmed(entry, run, claim)
            if found.status == "agrees" and own.code == "RND201" and run.session.host_steps:
                found = _with_host(found, claim, again())
            if found.status == "agrees":
                return found, decision
            tried.append(found)
    judged = zip(cases, masks, decisions, strict=True)
    if any(own.code == decision.code and _without_a_bound(case, mask, own) for case, mask, own in judged):
        return (tried[0] if tried else None), decision
    return unconfirmed(tried, decision) if tried else (None, decision)


def without_rounding(entry: Entry) -> Entry:
    """The entry where no rounding takes place, its host by nothing of ours. It prints nothing."""
    from render.interpreter.rederived import Rederived

    settings = {
        "mute": CAUSES,
        "tracker": lambda s: Rederived(s.memory, s.mute, s.causes),
        "printer": lambda text: None,
    }
    return replace(entry, options={**entry.options, **settings})


def rests_on_given(found: Witness) -> bool:
    """Whether it took bounds that the host or another program gave."""
    from render.trace.graph import EARLIER

    return any(note.startswith(EARLIER) for note in (found.document or {}).get("notes", ()))


def _rederived(entry: Entry, run: Execution) -> dict[str, Any]:
    """Outputs by name of the program without rounding, its host in float64; empty where it cannot be run so."""
    try:
        return {o.name: o for o in without_rounding(entry).run().outputs}
    except (*FAILURES, MissingRule):
        return {}


def _with_host(found: Witness, claim: Outside, outputs: dict[str, Any]) -> Witness:
    """An agreeing witness in the light of that run."""
    output = outputs.get(claim.case.name)
    if output is None or output.taints or output.lo.shape != claim.case.lo.shape:
        why = "what the host gave could not be computed a second time"
        return replace(found, status="none", why=why) if rests_on_given(found) else found
    free = float(output.lo[claim.place]), float(output.hi[claim.place])
    bound = float(claim.case.lo[claim.place]), float(claim.case.hi[claim.place])
    size = max(map(abs, free))
    if not np.isfinite([*free, *bound]).all():
        return found
    beyond, near = max(bound[0] - free[1], free[0] - bound[1]), OWN * size
    little = max(2 * (bound[1] - bound[0]), LITTLE * size)
    same = free[0] - near <= claim.high and claim.low <= free[1] + near
    if not (same and FLOAT64 * size < beyond <= little):
        return found
    why = "without rounding, its host in float64, the program gives what the reference gives, which the bound excludes"
    return replace(found, status="disagrees", why=why)


def unconfirmed(tried: Sequence[Witness], decision: Decision) -> tuple[Witness, Decision]:
    """What is left of a Type-II of which no witness agrees."""
    against = [w for w in tried if w.status == "disagrees"]
    if against:
        detail = f"a second evaluation of {against[0].place} does not confirm it ({against[0].why})"
        return against[0], Decision("Inconclusive", CONTRADICTED, detail)
    alone = f"{decision.code} rests on the bound alone ({decision.detail})"
    detail = f"{alone}, and no second evaluation of {tried[0].place} could be made: {tried[0].why}"
    return tried[0], Decision("Inconclusive", ALONE, detail)


def _without_a_bound(case: Case, masks: Masks | None, decision: Decision) -> bool:
    """Whether this output is wrong whatever its bound says: NaN or infinity where there is a number."""
    if masks is None:
        return True
    return decision.code == "RND204" and bool((masks.nonfinite & ~np.isfinite(case.value)).any())


def _claims(case: Case, masks: Masks, code: str) -> Iterator[Outside]:
    """The elements to try, each with the numbers that lie outside its bound."""
    seen = set()
    for place in _places(case, masks, code):
        if place not in seen:
            seen.add(place)
            yield _claim(case, place, code)


def _claim(case: Case, place: tuple[int, ...], code: str) -> Outside:
    if code == "RND201":
        lo, hi = case.exact_ends()
        return Outside(case, place, "reference", float(lo[place]), float(hi[place]))
    if code == "RND204" and not np.isfinite(case.exact[place]):
        return Outside(case, place, "reference", *(float(case.exact[place]),) * 2)
    assert case.device is not None
    return Outside(case, place, "device", *_unrounded(float(case.device[place]), case))


def _unrounded(y: float, case: Case) -> tuple[float, float]:
    """Every number that becomes y where the device's format is coarser than the kernel's."""
    lo, _ = device_bound(case)
    if lo is case.lo or case.device_fmt is None or not np.isfinite(y):
        return y, y
    reach = 1.01 * case.device_fmt.u * abs(y) + case.device_fmt.half_subnormal
    return y - reach, y + reach


def _places(case: Case, masks: Masks, code: str) -> Iterator[tuple[int, ...]]:
    """Most out of bound first: in absolute terms, then against the width of the bound; then the first and the last."""
    if code == "RND204":
        yield from _patterns(case, masks)
        return
    mask = accused(case, masks) if code == "RND201" else masks.outside_device
    if mask is None or not mask.any():
        return
    worst: list[tuple[float, int]] = [(-np.inf, 0)] * 2
    for at in blocks(case.value.size):
        here = part(case, at)
        for i, score in enumerate(_scores(here, code)):
            ranked = np.where(flat(mask, at), np.nan_to_num(score, nan=0.0), -np.inf)
            k = int(np.argmax(ranked))
            if ranked[k] > worst[i][0]:
                worst[i] = float(ranked[k]), at.start + k
    outside = np.flatnonzero(mask)
    for k in (*(k for _, k in worst), outside[0], outside[-1]):
        yield tuple(int(i) for i in np.unravel_index(k, case.value.shape))


def _scores(case: Case, code: str) -> tuple[np.ndarray, np.ndarray]:
    """How far outside each element lies, and how far against the width of its bound."""
    y = case.exact if code == "RND201" else case.device
    assert y is not None
    low, high = (case.lo, case.hi) if code == "RND201" else device_bound(case)
    with np.errstate(all="ignore"):
        beyond = np.nan_to_num(np.maximum(low - y, y - high), nan=0.0)
        return beyond, beyond / (high - low + np.abs(y) * 2.0**-40 + 2.0**-1000)


def _patterns(case: Case, masks: Masks) -> Iterator[tuple[int, ...]]:
    """Elements whose value is finite, so that only the bound excludes an infinity or NaN of the other side."""
    other = ~np.isfinite(case.exact)
    if case.device is not None:
        other |= ~np.isfinite(case.device)
    found = np.argwhere(masks.nonfinite & np.isfinite(case.value) & other)
    if len(found):
        yield tuple(int(i) for i in found[0])


def confirmed(entry: Entry, run: Execution, claim: Outside, figures: Figures | None = None) -> Witness:
    """The witness of one claim; `figures` changes the target's figures in it."""
    from render.trace import slice_of

    return _witnessed(claim, lambda: slice_of(entry, run, claim.case.name, claim.place), figures)


def all_confirmed(entry: Entry, run: Execution, claims: Sequence[Outside], figures: Figures | None) -> list[Witness]:
    """The witnesses of several claims, which share the repetitions of launches that they need."""
    from render.trace import Contradiction, NotSliceable
    from render.trace.element import slices_of

    try:
        found = slices_of(entry, run, [(claim.case.name, claim.place) for claim in claims])
    except (Contradiction, *FAILURES):
        return [confirmed(entry, run, claim, figures) for claim in claims]

    def given(one: Any) -> Any:
        if isinstance(one, NotSliceable):
            raise one
        return one

    return [_witnessed(c, lambda s=s: given(s), figures) for c, s in zip(claims, found, strict=True)]  # type: ignore[misc]


def _witnessed(claim: Outside, sliced: Callable[[], Any], figures: Figures | None) -> Witness:
    from render.trace import Contradiction, NotSliceable
    from render.trace.model import MISHAPS
    from render.witness.document import Malformed
    from render.witness.formulas import LOOSE
    from render.witness.make import CannotMake, Claim, make
    from render.witness.rule import NoFormula

    def answer(status: str, why: str, document: dict[str, Any] | None = None) -> Witness:
        return Witness(status, claim.case.name, claim.place, why, document)

    try:
        found = sliced()
        document, said = make(found, Claim(claim.side, claim.low, claim.high), figures)
    except Contradiction as error:
        return answer("disagrees", str(error))
    except NotSliceable as error:
        return answer("none", f"not sliceable: {error}")
    except CannotMake as error:
        return answer("none", str(error))
    except (NoFormula, Malformed) as error:
        return answer("none", f"no second formula: {error}")
    except FAILURES as error:
        return answer("none", f"the run cannot be repeated: {str(error).splitlines()[0]}")
    except MISHAPS as error:
        return answer("none", f"{error!r}: please report this")
    if said.enclosure is None:
        return answer("none", said.why)
    if not said.agrees and any(n.op in LOOSE for n in found.nodes):
        return answer("none", "the second evaluation bounds a step more widely than the run")
    if not said.agrees and found.profile.known_order:
        return answer("none", "the second evaluation leaves an order of sums open that the bound does not")
    answered = answer("agrees" if said.agrees else "disagrees", said.why, document)
    return replace(answered, put_by=_put_by(found))


def _put_by(found: Any) -> tuple[str, int] | None:
    """The line of host code that put an input or a number of the code where the element lies."""
    from render.trace.model import HOST, LEAF

    if found.kernel != HOST:
        return None
    last = next(n for n in found.nodes if n.start <= found.root < n.stop)
    return (last.file, last.line) if last.op == LEAF and last.attrs.get("source") != "memory" else None
