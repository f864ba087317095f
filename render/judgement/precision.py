"""Where float64's own error of E matters to the decision, E is evaluated in more bits (`render.reference.precise`).

Let s be the error that float64 may have made in an element of E, and c what casts and constants of the reference
itself may do to it. The element is open where E - s .. E + s is neither inside the bound T (widened by c) nor clear of
it, and s is not small beside `room`, the larger of T's half width and one rounding of the output. Open elements are
evaluated again. What then stays open with s > room is not known well enough for any verdict (RND307), unless s is what
float64 loses in thousands of well-conditioned steps (2^-40 of E): then it is told and decides nothing.

An element whose margin is only an estimate, and which lies outside of the bound by it, accuses nobody: the worst few of
them (`ASKED`) are evaluated again for a proof. So are those of an output of which E alone lies outside, while all that
the reference returned lies inside: there E is looked at twice before it accuses. A margin that is unknown even then
supports no verdict either (RND307).

Constants of an fp64 kernel are float64 roundings of what they stand for (log2(e), 1/sqrt(d)), so up to 16 roundings of
E itself are not held against it, as in `render.judgement.unrounded` for float32.

s takes ten times as long as E itself. It is computed for references of up to `SMALL` elements, for fp64 outputs, where
E lies outside of T, and where the reference's own error, as seen, is so large that float64's may matter: the second is
smaller by 2^-29 (2^-20 is taken, for what cancels by chance).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from interval_ops.compiled import compiled
from render.entry.execution import on_cpu
from render.judgement.composition import Judged
from render.judgement.references import References
from render.reference.oracle import Oracle, OracleResult
from render.result import margins
from render.result.blockwise import blocks, flat
from render.result.decision import VOID, Case, compare, decide
from render.result.decision import least as least_told
from render.result.defects import caught
from render.result.options import Progress
from render.result.records import Finer

SMALL = 1 << 17
"""Elements that a reference computes, up to which float64's error is always looked at."""
SEEN = 2.0**16
"""|y_ref - E| in rooms from which it is looked at for larger ones."""
PART = 1 / 16
"""s beside `room` that is small."""
FP64 = 2.0**-49
"""Of E: 16 roundings of float64."""
ILL = 2.0**-40
"""s beside E that comes of bad conditioning, and not of many steps."""
FEW = 16
"""A part of the work is enough where nothing depends on it."""
TIGHT = 1 / 64
"""Radius in rooms up to which more bits are tried."""
ASKED = 4
"""Elements outside by an estimated margin of which a proof is looked for: one is enough."""


@dataclass
class OpenElements:
    """One output: c, s and `room` of every element, the flat places that are open (most important first).

    `lost`: c is not known there, so that no number of bits helps.
    """

    i: int
    case: Case
    casts: np.ndarray
    error: np.ndarray
    room: np.ndarray
    places: np.ndarray
    lost: np.ndarray


def finer(
    references: References, places: Sequence[int], judged: list[Judged], progress: Progress | None = None
) -> tuple[list[Judged], tuple[Finer, ...]]:
    """The outputs with better values of E where it matters, and what was done; `places`: theirs in the reference."""
    exact = references.exact
    looked = [(i, j.case) for i, j in zip(places, judged, strict=True) if exact.trusted and _matters(exact, j.case)]
    if not looked:
        return judged, ()
    with on_cpu():
        found = _all_open(references.oracle, exact, looked)
        if found and any(_wrong_anyway(j.case) for j in judged):
            return judged, ()
        said = _evaluated(references.oracle, exact, found, progress)
    by_place = {o.i: (o, f) for o, f in zip(found, said, strict=True)}
    return [_with(j, exact, by_place.get(i)) for i, j in zip(places, judged, strict=True)], tuple(said)


def _with(j: Judged, exact: OracleResult, known: tuple[OpenElements, Finer] | None) -> Judged:
    if known is None:
        return j
    o, said = known
    unknown = np.zeros(j.case.exact.shape, bool)
    unknown.reshape(-1)[_unknown(o, exact)] = True
    case = replace(
        j.case,
        exact=exact.values[o.i],
        unknown=unknown if unknown.any() else None,
        why=said.sentence,
        unproved=f" ({said.why})" if said.why else "",
        bits=said.bits or 53,
    )
    return replace(j, case=case)


def _wrong_anyway(case: Case) -> bool:
    """Is this output a bug whatever E is where it is open? (A device output is judged apart.)"""
    return decide(replace(case, device=None, device_fmt=None)).label == "Type-II"


def _matters(exact: OracleResult, case: Case) -> bool:
    """Is float64's own error to be looked at in this output?"""
    if case.mismatch or case.fmt is None or case.ref_fmt is None or case.taints & VOID.keys() or not case.exact.size:
        return False
    if case.fmt.p >= 53 or case.ref_fmt.p >= 53 or exact.bounded or exact.work <= SMALL:
        return True
    fmt = max(case.fmt, case.ref_fmt, key=lambda f: f.u)
    arrays = (case.ref, case.exact, case.lo, case.hi)
    for at in blocks(case.exact.size):
        ref, value, lo, hi = (flat(x, at) for x in arrays)
        if _seen(ref, value, lo, hi, fmt.u, fmt.half_subnormal):
            return True
    return False


@compiled
def _seen(ref, exact, lo, hi, u, floor):  # type: ignore[no-untyped-def]
    # One pass over large outputs: E outside of the bound, or the reference's error many rooms large.
    for i in range(exact.size):
        e = exact[i]
        if not abs(e) < np.inf:
            continue
        if e < lo[i] or e > hi[i]:
            return True
        half, least = (hi[i] - lo[i]) / 2, u * abs(e) + floor
        if SEEN * (half if half > least else least) < abs(ref[i] - e) < np.inf:
            return True
    return False


def _room(case: Case, lo: np.ndarray, hi: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The larger of the bound's half width and one rounding of the output."""
    assert case.fmt is not None and case.ref_fmt is not None
    fmt = max(case.fmt, case.ref_fmt, key=lambda f: f.u)
    found: np.ndarray = np.fmax((hi - lo) / 2, fmt.u * np.abs(exact) + fmt.half_subnormal)
    return found


def _all_open(oracle: Oracle, exact: OracleResult, looked: list[tuple[int, Case]]) -> list[OpenElements]:
    """What is open with c = 0 holds what is open: c takes another run, and is asked for where that is anything."""
    found = [_open(exact, i, case, None) for i, case in looked]
    if any(o.places.size for o in found):
        casts = _casts(oracle, exact)
        found = [_open(exact, i, case, casts) for i, case in looked]
    return [o for o in found if o.places.size]


def _casts(oracle: Oracle, exact: OracleResult) -> list[np.ndarray] | None:
    """c of every output; None where it cannot be had: then all of E's error counts as float64's."""
    try:
        return oracle.casts(exact)
    except Exception as error:
        caught(error, "casts and constants of the reference")
        return None


def _open(exact: OracleResult, i: int, case: Case, casts: list[np.ndarray] | None) -> OpenElements:
    e = np.asarray(exact.values[i], np.float64)
    below, above = exact.ends(i)
    lo, hi = (np.asarray(x, np.float64) for x in (case.lo, case.hi))
    with np.errstate(all="ignore"):
        reach = (above - below) / 2
        c = np.zeros(e.shape) if casts is None else np.minimum(np.nan_to_num(casts[i], nan=np.inf), reach)
        lost = ~np.isfinite(c)
        c, s = np.where(lost, 0.0, c), np.where(lost, np.inf, reach - c)
        if case.fmt is not None and case.fmt.p >= 53:
            slack = np.minimum(s, FP64 * np.abs(e))
            c, s = c + slack, s - slack
        room = _room(case, lo, hi, e)
        least, most = lo - c, hi + c
        meets = (e + s >= least) & (e - s <= most)
        inside = (e - s >= least) & (e + s <= most)
        counts = np.isfinite(e) & np.isfinite(case.value) & ~np.isnan(lo)
        if case.unstored is not None:
            counts &= ~case.unstored
        ratio = np.where(counts & meets & ~inside, s / room, 0.0).ravel()
        outside = ((e < least) | (e > most)).ravel()
        nothing = least_told(case)
        accused = counts & margins.clear(below, above, lo - nothing, hi + nothing)
        if accused.any() and compare(case).outside_ref.any():
            accused &= ~exact.proved(i)
        far = np.where(accused, np.abs(e - lo - (hi - lo) / 2), 0.0)
    places = np.flatnonzero(ratio > PART)
    places = places[np.lexsort((-ratio[places], ~outside[places]))]
    asked = _furthest(far.ravel(), room.ravel())
    places = np.concatenate([asked, places[~np.isin(places, asked)]])
    return OpenElements(i, case, c.ravel(), s.ravel(), room.ravel(), places, lost.ravel())


def _furthest(far: np.ndarray, room: np.ndarray) -> np.ndarray:
    """The places of the largest distances, absolute and in rooms; none where all are 0."""
    with np.errstate(all="ignore"):
        ranked = [np.argsort(-x, kind="stable")[: ASKED // 2] for x in (far, np.nan_to_num(far / room))]
    places = np.unique(np.concatenate(ranked))
    found: np.ndarray = places[far[places] > 0]
    return found


def _evaluated(
    oracle: Oracle, exact: OracleResult, found: list[OpenElements], progress: Progress | None
) -> list[Finer]:
    """Evaluates what is open, puts it into `exact`, and says so."""
    if not found:
        return []
    from render.reference.precise.evaluation import OPERATIONS, Outcome, evaluate, record, refusal

    outcome, why = Outcome(), ""
    try:
        recording = record(oracle, exact.widened)
        wanted = {o.i: o.places for o in found}
        rooms = {o.i: o.room for o in found}

        def enough(i: int, e: Any) -> bool:
            with np.errstate(invalid="ignore"):
                radius, limit = (e.hi - e.lo) / 2, np.maximum(TIGHT * rooms[i][e.places], 2.0**-51 * np.abs(e.value))
                return bool((radius <= limit).all())

        budget = OPERATIONS if any(_unknown(o, exact).size for o in found) else OPERATIONS / FEW
        outcome = evaluate(recording, wanted, enough, _tick(progress), budget)
    except Exception as error:  # a mistake of ours or an operation used in a way that no rule foresees: float64 stays
        why = refusal(error)
        if not why:
            caught(error, "the reference in more bits")
            why = f"{type(error).__name__} in the evaluation in more bits"
    said = [_put(exact, o, outcome, why) for o in found]
    if any(f.evaluated for f in said):
        exact.finer = f"; in {outcome.bits} bits where that is not enough"
    return said


def _tick(progress: Progress | None) -> Callable[[float, float], None]:
    def tick(share: float, seconds: float) -> None:
        if progress is not None and seconds > 1:
            progress(min(int(100 * share), 99), 100, f"the reference in more bits, about {seconds:.0f} s")

    return tick


def _put(exact: OracleResult, o: OpenElements, outcome: Any, why: str) -> Finer:
    at = outcome.found.get(o.i)
    with np.errstate(divide="ignore"):
        worst = int(o.places[np.argmax(o.error[o.places] / o.room[o.places])])
    error, room, done = float(o.error[worst]), float(o.room[worst]), 0
    if at is not None:
        good = np.isfinite(at.value) & np.isfinite(at.lo) & np.isfinite(at.hi) & ~o.lost[at.places]
        p, c = at.places[good], o.casts[at.places[good]]
        exact.refine(o.i, p, at.value[good], at.lo[good] - c, at.hi[good] + c, outcome.rigorous)
        stored = np.spacing(np.abs(at.value[good]))  # ends are float64 numbers: that is no lack of bits
        o.error[p] = np.maximum((at.hi[good] - at.lo[good]) / 2 - stored, 0)
        done = p.size
        if not good.all():
            why = "some are not finite, or not bounded, there"
    if outcome.left:
        why = f"{outcome.left} of them are too much work"
    unknown = int(_unknown(o, exact).size)
    return Finer(o.case.name, int(o.places.size), int(o.error.size), int(done), outcome.bits, outcome.rigorous,
                 error, room, unknown, why)  # fmt: skip


def _unknown(o: OpenElements, exact: OracleResult) -> np.ndarray:
    """Open elements that are known to no better than the room there is, and may lie in the bound or not."""
    p = o.places
    e, s = exact.values[o.i].reshape(-1)[p], o.error[p]
    c, lo, hi = o.casts[p], o.case.lo.reshape(-1)[p], o.case.hi.reshape(-1)[p]
    with np.errstate(all="ignore"):
        meets = (e + s >= lo - c) & (e - s <= hi + c)
        inside = (e - s >= lo - c) & (e + s <= hi + c)
    found: np.ndarray = p[meets & ~inside & (s > np.maximum(o.room[p], ILL * np.abs(e)))]
    return found
