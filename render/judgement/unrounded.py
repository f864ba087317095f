"""Kernel and reference compared without any rounding: do the two compute the same function?

The kernel runs once more with every cause of error silent (`mute=CAUSES`): what is left is F, the exact value of its
formula in float64. E is the exact value of the reference's. A bound is as wide as all roundings that a target may make,
and a small fault hides in it; F and E have no rounding, and two forms of one function agree to float64's own accuracy.

What is no difference between functions: constants, arguments and tensors that the host prepared are float32 roundings
of what they stand for. So F and E may differ by what `SLACK`, 16 float32 roundings, of each of the reference's inputs
does to E, to first order (`render.reference.running_error` without casts), by as much of E itself, and by what float64
loses in E. F lies in the bound: where all of that is no further from E than SLACK of it, nothing is run again. A
difference above one rounding of the output is no round-off, however wide the bound; nor is a smaller one
that is systematic: roundings of the output hide it in each element, and not in all of them (a divisor n for n - 1, a
gain, an approximation on purpose). Single elements below one rounding (a tie inside that falls the other way) are told
and decide nothing. A second evaluation (`render.witness.unrounded`) has to confirm a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from types import MappingProxyType

import numpy as np

from interval_ops import scans
from interval_ops.profiles.profile import CAUSES, MissingRule
from render.entry.execution import WORTH_WORK, Entry, Execution
from render.explain.study import Study
from render.reference.oracle import Oracle, OracleResult
from render.result import margins
from render.result.blockwise import blocks, flat, part
from render.result.decision import Case, Decision
from render.result.errors import KernelError, RenderError, UnsupportedOp
from render.result.records import Unrounded

SLACK = 2.0**-20
CODE = "RND211"
ASKED = frozenset(["RND301", "RND304", "RND313"])
"""Inconclusive verdicts of which it is asked as well: their bounds say little, this says more. Where the bound is
hollow a difference decides as behind any other bound; where there is none it is told."""
DECIDES = frozenset(["RND301", "RND313"])
"""Of these, where a difference decides: nothing else stands against it."""
NARROW = 1 / 16
"""F is known well enough to compare if its own interval is at most this part of the bound's half width."""
MANY, ONE_WAY, PART = 8, 0.9, 1 / 8
"""Elements that differ below one rounding of the output are no chance from so many on, if so many of them differ to
one side, or if they are such a part of all."""
NOT_KNOWN = "kernel and reference could not be compared without rounding"
SIGNED = 2 * MANY
"""Hidden elements whose slack is computed again by derivatives of the whole reference."""
SAMPLE = 8
"""Elements of each output that are compared by their slices where repeating the run is too much work."""
TOO_MUCH = f"kernel and reference were compared without rounding in {SAMPLE} elements of each output (work)"


NONE_GIVEN: Mapping[str, np.ndarray] = MappingProxyType({})

Ends = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Margin:
    """What the reference's inputs, moved by SLACK, do to each of its outputs; `estimated` where no rule bounds it."""

    reach: list[np.ndarray]
    estimated: bool


def unrounded(
    entry: Entry,
    run: Execution,
    oracle: Oracle,
    exact: OracleResult,
    places: Sequence[int],
    cases: Sequence[Case],
    given: Mapping[str, np.ndarray] = NONE_GIVEN,
) -> list[Unrounded] | None:
    """One answer per float output that both sides have; None where the kernel cannot be run again so.

    `places` are the outputs' places in what the reference returns, `given` what else F and E may differ by.
    """
    if (known := _by_bound(exact, cases)) is not None:
        return known
    try:
        free = Study(entry, tuple(cases)).run({"mute": CAUSES})
    except (RenderError, UnsupportedOp, KernelError, MissingRule):
        return None
    free.session.forget()
    found = {o.name: o for o in free.outputs}
    answers = []
    margin = cache(partial(_margin, oracle, exact))

    def answered(case: Case, place: int, f: Ends) -> Unrounded | None:
        if (alike := _alike(case, f)) is not None:
            return alike
        gap, counts = _gap(case, f)
        near = SLACK * np.abs(case.exact)
        if not (np.abs(gap) > near).any():
            return _answer(case, f, gap, counts, near, False)
        if (room := margin()) is None:
            return None
        of_e = _of_float64(oracle, exact, place) + given.get(case.name, 0.0)
        slack = near + np.nan_to_num(room.reach[place], nan=np.inf) + of_e
        answer = _answer(case, f, gap, counts, slack, room.estimated)
        if answer.shown or room.estimated:
            return answer
        hidden = _hidden(np.where(counts, np.abs(gap), 0.0), slack, near + of_e)
        slack = _signed(oracle, exact, place, hidden, slack, near + of_e)
        return _answer(case, f, gap, counts, slack, room.estimated)

    for case, place in zip(cases, places, strict=True):
        if not comparable(case) or case.name not in found:
            continue
        if found[case.name].taints:
            continue  # a host operation without a rule gave values that are rounded
        f = found[case.name].lo, found[case.name].hi
        if exact.wider is not None:
            case = as_decided(case, exact.wider[place], f)
        answer = answered(case, place, f)
        if answer is not None and answer.differing and (others := _otherwise(oracle, exact)) is not None:
            answer = answered(as_decided(case, others[place], f, 1.0), place, f)
        if answer is None:
            return None
        answers.append(answer)
    return answers


def _by_bound(exact: OracleResult, cases: Sequence[Case]) -> list[Unrounded] | None:
    """The answers where every bound that holds F leaves it no room to differ from E; None where one does."""
    if exact.wider is not None or any(c.taints or c.unruled for c in cases):
        return None
    found = []
    for case in filter(comparable, cases):
        if (one := _bounded(case)) is None:
            return None
        found.append(one)
    return found


def _bounded(case: Case) -> Unrounded | None:
    """`_alike` with all of the bound for F: what is told of the difference is the most that it can be."""
    told, most, used, largest = 0, 0.0, 0.0, 0.0
    for at in blocks(case.exact.size):
        lo, hi, exact = scans.flats(*(flat(x, at) for x in (case.lo, case.hi, case.exact)))
        near, *found = scans.settled(lo, hi, exact, SLACK)
        if not near:
            return None
        told, most, used = told + int(found[0]), max(most, float(found[1])), max(used, float(found[2]))
        largest = max(largest, float(found[3]))
    return _agreeing(case, (case.lo, case.hi), told, most, used, largest)


def _otherwise(oracle: Oracle, exact: OracleResult) -> list[np.ndarray] | None:
    from render.entry.execution import on_cpu

    with on_cpu():
        return oracle.otherwise(exact)


def as_decided(case: Case, wider: np.ndarray, f: Ends, part: float = PART) -> Case:
    """The case with E as the reference on widened inputs has it, in the few elements where F has that, too.

    E decides as the reference at its own dtype does: which of two codes is nearer, which of two ties comes first. F
    decides without rounding, as the reference on widened inputs. Where the two differ in a `part` of the elements only,
    they differ in decisions that hang on a rounding; a reference whose dtype has a meaning differs everywhere. Where
    they are known to differ in decisions alone (`Oracle.otherwise`), it may be all of them.
    """
    with np.errstate(invalid="ignore"):
        other = np.abs(wider - case.exact) > SLACK * np.abs(case.exact)
        agrees = (f[0] - SLACK * np.abs(wider) <= wider) & (wider <= f[1] + SLACK * np.abs(wider))
    if not 0 < other.sum() <= part * other.size:
        return case
    return replace(case, exact=np.where(other & agrees, wider, case.exact))


def comparable(case: Case) -> bool:
    """Float outputs that both sides have."""
    return not case.mismatch and case.fmt is not None and case.ref_fmt is not None and bool(case.exact.size)


def sampled(
    oracle: Oracle, exact: OracleResult, place: int, case: Case, given: Mapping[str, np.ndarray] = NONE_GIVEN
) -> tuple[list[tuple[tuple[int, ...], float]], bool] | None:
    """([(index, slack)] of the elements that stand for the others, whether the slack is an estimate).

    The largest differences of the two outputs, plain and in half widths, and places spread evenly over the others.
    """
    margin = _margin(oracle, exact)
    if margin is None:
        return None
    least = SLACK * np.abs(case.exact) + _of_float64(oracle, exact, place)
    least = (least + given.get(case.name, 0.0)).reshape(-1)
    slack = least + margin.reach[place].reshape(-1)
    flat = _spread_out(case, slack)
    if not flat:
        return None
    if not margin.estimated:
        slack = _signed(oracle, exact, place, flat, slack, least)
    return _with_slack(case, flat, slack), margin.estimated


def nearby(case: Case) -> list[tuple[tuple[int, ...], float]]:
    """[(index, slack)] of such elements with nothing left open but SLACK of E: that takes no run of the reference."""
    slack = SLACK * np.abs(case.exact).reshape(-1)
    return _with_slack(case, _spread_out(case, slack), slack)


def _spread_out(case: Case, slack: np.ndarray) -> list[int]:
    """The elements of a sample (flat places), of those whose E and slack are known."""
    known, most = np.empty(case.exact.size, bool), [(-np.inf, 0)] * 2
    for at in blocks(known.size):
        value, ref, lo, hi, exact, room = (
            flat(x, at) for x in (case.value, case.ref, case.lo, case.hi, case.exact, slack)
        )
        known[at] = here = np.isfinite(exact) & np.isfinite(room)
        with np.errstate(all="ignore"):
            apart = np.abs(value - ref)
            figures = apart, apart / (hi - lo)
        for k, x in enumerate(figures):
            x = np.where(here, np.nan_to_num(x, nan=-1.0, posinf=-1.0), -np.inf)
            if x.size and x.max() > most[k][0]:
                most[k] = float(x.max()), at.start + int(np.argmax(x))
    if not (many := int(np.count_nonzero(known))):
        return []
    ranks = ((np.arange(SAMPLE - 2) + 0.5) * many / (SAMPLE - 2)).astype(np.int64)
    spread = ranks if many == known.size else np.flatnonzero(known)[ranks]
    return list(dict.fromkeys(int(i) for i in (*(place for _, place in most), *spread)))


def _with_slack(case: Case, flat: Sequence[int], slack: np.ndarray) -> list[tuple[tuple[int, ...], float]]:
    return [(tuple(int(k) for k in np.unravel_index(i, case.exact.shape)), float(slack[i])) for i in flat]


def of_slices(case: Case, at: Sequence[tuple[int, ...]], slack: np.ndarray, f: Ends, estimated: bool) -> Unrounded:
    """The answer of a sample: the elements at these indices, of which f are the ends of F."""
    flat = np.ravel_multi_index(tuple(np.array(at).T), case.exact.shape)
    arrays = {name: np.asarray(getattr(case, name)).reshape(-1)[flat] for name in ("lo", "hi", "exact")}
    one = replace(case, **arrays)
    found = _answer(one, f, *_gap(one, f), slack, estimated)
    return replace(found, elements=int(case.exact.size), index=at[found.index[0]], sampled=len(at))


def _margin(oracle: Oracle, exact: OracleResult) -> Margin | None:
    from render.entry.execution import on_cpu

    with on_cpu():
        found = oracle.sensitivity(exact, SLACK)
    return None if found is None else Margin(*found)


def _hidden(gap: np.ndarray, slack: np.ndarray, least: np.ndarray) -> list[int]:
    """Elements (flat places) that differ by more than `least`, what no input adds to, and that the slack hides: those
    that use up most of it, and as many spread evenly."""
    hidden = np.flatnonzero(((gap > least) & (gap <= slack)).reshape(-1))
    many = min(hidden.size, SIGNED)
    with np.errstate(all="ignore"):
        used = np.nan_to_num((gap / slack).reshape(-1)[hidden])
    spread = hidden[((np.arange(many) + 0.5) * hidden.size / max(many, 1)).astype(np.int64)]
    most = hidden[np.argsort(-used, kind="stable")[: many // 2]]
    return list(dict.fromkeys(int(i) for i in (*most, *spread)))[:many]


def _signed(
    oracle: Oracle, exact: OracleResult, place: int, where: Sequence[int], slack: np.ndarray, least: np.ndarray
) -> np.ndarray:
    """The slack with that of some elements from derivatives of the whole reference, and not step by step."""
    from render.entry.execution import on_cpu
    from render.reference import adjoint

    at = list(where[: adjoint.affordable(exact.work or exact.values[place].size, len(where))])
    if not at:
        return slack
    with on_cpu():
        reach = adjoint.reaches(oracle, place, exact.values[place], at, SLACK, SLACK)
    if reach is None:
        return slack
    found = np.array(slack)
    found.reshape(-1)[at] = np.fmin(found.reshape(-1)[at], least.reshape(-1)[at] + reach)
    return found


def _of_float64(oracle: Oracle, exact: OracleResult, place: int) -> np.ndarray:
    from render.entry.execution import on_cpu

    with on_cpu():
        return oracle.of_float64(exact, place)


def _alike(case: Case, f: Ends) -> Unrounded | None:
    """`_answer` where no difference exceeds SLACK of E, in one pass; None where one does."""
    told, most, used, largest = 0, 0.0, 0.0, 0.0
    for at in blocks(case.exact.size):
        low, high, lo, hi, exact = scans.flats(*(flat(x, at) for x in (*f, case.lo, case.hi, case.exact)))
        differs, *found = scans.compared(low, high, lo, hi, exact, NARROW, SLACK, margins.SMALL)
        if differs:
            return None
        told, most, used = told + int(found[0]), max(most, float(found[1])), max(used, float(found[2]))
        largest = max(largest, float(found[3]))
    return _agreeing(case, f, told, most, used, largest)


def _agreeing(case: Case, f: Ends, told: int, most: float, used: float, largest: float) -> Unrounded:
    """The answer of an output without a difference, shown at its first element."""
    assert case.fmt is not None and case.ref_fmt is not None
    first = (0,) * case.exact.ndim
    lo, hi, e = float(f[0][first]), float(f[1][first]), float(case.exact[first])
    one = slice(0, 1)
    gap = abs(float(_gap(part(case, one), (flat(f[0], one), flat(f[1], one)))[0][0]))
    fmt = max(case.fmt, case.ref_fmt, key=lambda f: f.u)
    return Unrounded(case.name, told, int(case.exact.size), 0, 0, first, (lo + hi) / 2, e, gap, SLACK * abs(e), used,
                     False, False, 0.0, most / largest if largest else 0.0, fmt.name)  # fmt: skip


def _gap(case: Case, f: Ends) -> tuple[np.ndarray, np.ndarray]:
    """(how far F's interval lies above E, negative below; which elements are compared): F known well enough."""
    (lo, hi), exact = f, case.exact
    with np.errstate(all="ignore"):
        room = np.maximum(NARROW * (case.hi - case.lo) / 2, SLACK * np.abs(exact))
        counts = np.isfinite(lo) & np.isfinite(hi) & np.isfinite(exact) & ((hi - lo <= room) | ~np.isfinite(room))
        gap = np.where(counts, np.where(lo > exact, lo - exact, np.where(hi < exact, hi - exact, 0.0)), 0.0)
    return gap, counts


def _answer(case: Case, f: Ends, gap: np.ndarray, counts: np.ndarray, slack: np.ndarray, estimated: bool) -> Unrounded:
    """Agreement counts where the slack is small beside E or the bound; a difference counts beyond any known slack."""
    assert case.fmt is not None and case.ref_fmt is not None
    above, gap = gap > 0, np.abs(gap)
    with np.errstate(all="ignore"):
        half = (case.hi - case.lo) / 2
        used = np.where(counts & (gap > 0), gap / half, 0.0)
        differs = gap > slack
        told = counts & (margins.small(slack, np.fmax(np.abs(case.exact), half)) | differs)
    fmt = max(case.fmt, case.ref_fmt, key=lambda f: f.u)
    visible = differs & (gap > fmt.u * np.abs(case.exact) + fmt.half_subnormal)
    at, many = _worst(gap, visible if visible.any() else differs), int(differs.sum())
    ways = (int((differs & (above ^ other)).sum()) for other in (np.False_, case.exact < 0))
    one_way = max(max(n, many - n) for n in ways) / max(many, 1)
    largest = float(np.abs(case.exact[np.isfinite(case.exact)]).max(initial=0.0))
    return Unrounded(
        case.name, int(told.sum()), int(counts.size), many, int(visible.sum()), at,
        float((f[0][at] + f[1][at]) / 2), float(case.exact[at]), float(gap[at]), float(slack[at]),
        float(np.nanmax(used, initial=0.0)), estimated, _systematic(many, int(told.sum()), one_way), one_way,
        float(gap.max(initial=0.0)) / largest if largest else 0.0, fmt.name,
    )  # fmt: skip


def _systematic(many: int, compared: int, one_way: float) -> bool:
    """Too many elements for chance (a tie of a rounding inside), or all of a few: `MANY` to one side, or a part."""
    return bool(many) and (many == compared or (many >= MANY and (one_way >= ONE_WAY or many >= PART * compared)))


def _worst(gap: np.ndarray, mask: np.ndarray) -> tuple[int, ...]:
    if not gap.size:
        return (0,) * gap.ndim
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(np.where(mask, gap, -1.0))), gap.shape))


def wanted(run: Execution, decision: Decision, exact: OracleResult) -> bool:
    """What is called round-off, or has a bound that says little; not where nothing rounds, or E is no exact value."""
    asked = decision.label == "Type-I" or decision.code in ASKED
    return asked and bool(run.session.causes) and exact.trusted


def too_much(run: Execution) -> bool:
    return run.work > WORTH_WORK


def decided(answers: Sequence[Unrounded], decision: Decision, equal: frozenset[str] = frozenset()) -> Decision:
    """The decision in the light of a difference that outputs show: no round-off, nor a matter of a hollow bound;
    uncertain where E's margin is.

    Where all that differs is of outputs that are `equal` in every bit, E alone says so: that accuses nobody.
    """
    shown = [a for a in answers if a.shown]
    if (decision.label != "Type-I" and decision.code not in DECIDES) or not shown:
        return decision
    worst = max(shown, key=lambda a: a.share)
    if all(a.output in equal for a in shown):
        return Decision("Inconclusive", "RND307", f"{worst.sentence} (what they returned is equal in every bit)")
    if worst.estimated:
        return Decision("Inconclusive", "RND301", f"{worst.sentence} (to an estimate of what rounding before it does)")
    return Decision("Type-II", CODE, worst.sentence)


def unestablished(decision: Decision) -> Decision:
    """That the reference carries the error needs that both compute one function."""
    if decision.code != "RND110":
        return decision
    return Decision("Inconclusive", "RND301", f"{decision.detail}, but {NOT_KNOWN}")


def claims(answers: Sequence[Unrounded]) -> list[tuple[str, tuple[int, ...], float, float]]:
    """(output, index, low, high) that F is claimed not to reach, most of the bound first."""
    shown = sorted((a for a in answers if a.shown), key=lambda a: -a.share)
    return [(a.output, a.index, a.reference - a.slack, a.reference + a.slack) for a in shown]


def notes(answers: Sequence[Unrounded]) -> list[str]:
    """What is worth a line where it decides nothing."""
    return [a.sentence for a in answers if a.differing]
