"""The precedence rules of the verdict, as pure functions on arrays.

For every output element there are: the bound T = [lo, hi] of the kernel, the value v that the re-execution computed,
the reference y_ref at its own dtype, and E, the reference in float64 with an error bound [exact_lo, exact_hi];
sometimes also y_dev, a recorded device output. `decide` applies the table below and the first row that holds wins.

    NaN/Inf pattern of v or y_dev is not one that E and T allow               Type-II       RND204
    shape or dtype differs, elements never stored                            Type-II       RND205
    taint that voids T (see below)                                           Inconclusive  RND302, 303, 313
    E outside T (proved, by more than `least`; twice, if alone outside)      Type-II       RND201
    y_dev outside T                                                          Type-II       RND202
    E known too badly to say whether it is in T                              Inconclusive  RND307
    y_ref outside T, within its own rounding R of E, and further from E
    than v is; T nowhere anything                                            Type-I        RND110
    another taint reaches the output                                         Inconclusive  RND305
    T unbounded                                                              Inconclusive  RND304
    zeros would fit in every element of T                                    Inconclusive  RND301
    y_ref outside T, and R does not meet T                                   Inconclusive  RND302
    otherwise                                                                Type-I        cause of the width

NaN in lo and hi means "anything", so nothing is outside it; a NaN value is never inside a bound. Where every side is
the same infinity, or NaN, the element is settled: the two programs agree on it.

Three taints say that T does not enclose all legal results: RND302 (an operation without a rule; a host operation on a
kernel's result leaves a mere point) and RND303 (a condition that could go either way; T follows one way). Such a T is
no evidence against anybody, so these are looked at before the rows that use T. RND305 leaves a T that does enclose
the order that was executed, and RND316 one that holds every number of the type; something outside of that is wrong.

A Type-II of RND201, RND202 or RND204 that rests on T is asked for a witness afterwards
(`render.judgement.confirmation`): it stands only if a second evaluation agrees, and is Inconclusive otherwise (RND306:
it contradicts T; RND308: there could be none). What is equal in every bit is RND100 (`equal`), also where T is wide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from interval_ops.formats.model import FP32, Format
from render.result import blockwise, margins, own_rounding
from render.result.blockwise import every, many, some
from render.result.codes import Label, severity

EQUAL = "RND100"
CARRIES = "RND110"
"""The reference carries the error itself."""
VOID = {
    "RND302": "an operation without a sound rule feeds it; the bound proves nothing",
    "RND313": "a combine function without a rule feeds it; the bound holds for one order",
    "RND303": "a condition could go either way within rounding; the bound covers one way",
}
"""Taints with which T encloses too little, so that nothing follows from being outside it."""


@dataclass(frozen=True)
class Case:
    """Everything known about one output, as float64 arrays of one shape (integers are exact in them or taken as such).

    `value`, `ref` and `device` of a large output may be float32 where that is exact; `blockwise.part` widens them.

    `exact_ends` gives [exact_lo, exact_hi], which hold E, `proved` where they are proved (`margins`), `confirmed` where
    by other code than E's own; like `radius` they are called only where it matters.
    `fmt` and `ref_fmt` are None for integers and booleans. `radius` computes R, the bound of the reference's own
    rounding; it is called only when it matters. `mismatch` is the sentence for a shape or dtype that differs. `unknown`
    marks elements whose E is too uncertain to be in T or not, `why` says so, `unproved` what hinders a proof of an E
    outside; E is of `bits` bits where float64's 53 are not enough.
    """

    name: str
    value: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    ref: np.ndarray
    exact: np.ndarray
    exact_ends: Callable[[], tuple[np.ndarray, np.ndarray]]
    fmt: Format | None = None
    ref_fmt: Format | None = None
    device: np.ndarray | None = None
    device_fmt: Format | None = None
    radius: Callable[[], np.ndarray | None] = lambda: None
    unstored: np.ndarray | None = None
    mismatch: str = ""
    taints: frozenset[str] = frozenset()
    unruled: bool = False
    """A host operation without a rule lies behind it: what that makes of a rounding is not known."""
    moved: np.ndarray | None = None
    """Elements that depend on decisions which bounds leave open: a reference that decides otherwise is no worse."""
    unknown: np.ndarray | None = None
    why: str = ""
    bits: int = 53
    left: int = 0
    """Elements that were left out, as NaN on every side: programs that did not run store them."""
    belongs: Callable[[], bool] = lambda: True
    """Whether the device output belongs to these inputs."""
    proved: Callable[[], np.ndarray | bool] = lambda: True
    confirmed: Callable[[], np.ndarray | bool] = lambda: True
    unproved: str = ""


class Decision(NamedTuple):
    label: Label
    code: str
    detail: str


@dataclass(frozen=True)
class Masks:
    """One boolean per element and question; see `compare`."""

    top: np.ndarray
    unbounded: np.ndarray
    settled: np.ndarray
    nonfinite: np.ndarray
    outside_exact: np.ndarray
    outside_ref: np.ndarray
    outside_device: np.ndarray | None
    stored: np.ndarray = field(repr=False)
    beside: np.ndarray = field(repr=False)
    """E is outside of T by less than `least`: that accuses nobody."""


def widen(lo: np.ndarray, hi: np.ndarray, fmt: Format | None) -> tuple[np.ndarray, np.ndarray]:
    """[lo, hi] and every rounding to nearest of one of its numbers to `fmt`.

    |RN(x) - x| <= u |x| + half a subnormal spacing; from the overflow threshold on RN(x) is an infinity. A bound that
    was computed for a wider format than the one a value is stored in must pass here before it judges that value.
    """
    if fmt is None or fmt.p >= 53:
        return lo, hi
    with np.errstate(over="ignore", invalid="ignore"):
        low = lo - (fmt.u * np.abs(lo) + fmt.half_subnormal)
        high = hi + (fmt.u * np.abs(hi) + fmt.half_subnormal)
    low = np.where(lo <= -fmt.overflow_threshold, -np.inf, low)
    high = np.where(hi >= fmt.overflow_threshold, np.inf, high)
    infinite = np.isinf(lo) & (lo == hi)
    return np.where(infinite, lo, low), np.where(infinite, hi, high)


def coarser(fmt: Format | None, than: Format | None) -> Format | None:
    """`fmt` if it has fewer bits of precision or range than `than`, else None: no last rounding to account for."""
    if fmt is None or than is None:
        return None
    narrower = fmt.p < than.p or fmt.max < than.max or fmt.min_subnormal > than.min_subnormal
    return fmt if narrower else None


def _pattern(x: np.ndarray) -> np.ndarray:
    """0 finite, 1 +inf, 2 -inf, 3 NaN."""
    kind = np.isnan(x).astype(np.int8) * 3
    return np.where(np.isinf(x), np.where(x > 0, 1, 2), kind).astype(np.int8)


def _spilling(case: Case, pattern: np.ndarray, odd: np.ndarray) -> np.ndarray:
    """Where E is finite but as large as the narrower output format's range; looked at only where `odd`."""
    thresholds = [f.overflow_threshold for f in (case.fmt, case.ref_fmt) if f is not None and f.p < 53]
    odd = odd & (pattern == 0)
    if not thresholds or not odd.any():
        return np.zeros(pattern.shape, bool)
    lo, hi = case.exact_ends()
    found: np.ndarray = odd & (np.maximum(np.abs(lo), np.abs(hi)) >= min(thresholds))
    return found


def _allowed(case: Case, pattern: np.ndarray) -> np.ndarray:
    """Does T hold a value of this pattern? Finite: some finite number; inf: that end; NaN: only where T is anything."""
    top = np.isnan(case.lo)
    finite = (case.lo < np.inf) & (case.hi > -np.inf)
    table = (finite, case.hi == np.inf, case.lo == -np.inf, np.zeros(top.shape, bool))
    found: np.ndarray = top | np.choose(pattern, table)
    return found


def _nonfinite(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """(settled, mismatch): where all sides agree on inf or NaN, and where the pattern is one that cannot be.

    An E beyond the output format's range may become an infinity (or, in formats without one, NaN or the largest
    number), so there every non-finite v of the right sign is as good as E.
    """
    if all(bool(np.isfinite(x).all()) for x in (case.value, case.exact, case.device) if x is not None):
        return (none := np.broadcast_to(np.False_, case.lo.shape)), none
    expected, got = _pattern(case.exact), _pattern(case.value)
    seen = got if case.device is None else _pattern(case.device)
    overflows = _spilling(case, expected, (got != 0) | (seen != 0))
    same_sign = np.signbit(case.exact) == np.signbit(case.value)
    spilled = overflows & ((got == 3) | ((got != 0) & same_sign))
    agree = (got == expected) | spilled
    settled = agree & (got != 0)
    bad = ~agree & ((got != 0) | ~_allowed(case, expected))
    if case.device is not None:
        known = (seen == got) | (seen == expected) | (overflows & (seen != 0))
        bad = bad | (~known & ~_allowed(case, seen))
        settled = settled & ((seen == got) | (overflows & (seen != 0)))
    return settled, bad


def _outside(y: np.ndarray, lo: np.ndarray, hi: np.ndarray, agrees: np.ndarray) -> np.ndarray:
    """Elements of y not in [lo, hi]; NaN is never inside, nothing else is outside an end that is NaN."""
    found: np.ndarray = ~agrees & (np.isnan(y) | (y < lo) | (y > hi))
    return found


def compare(case: Case) -> Masks:
    """Answer the table's questions element by element.

    E is outside where [exact_lo, exact_hi] misses T altogether: its own error is never held against the kernel. y_ref
    and y_dev are judged against T widened by the last rounding if their format is coarser than the kernel's.
    """
    if case.value.size <= blockwise.BLOCK:
        return _compare(case)
    return blockwise.joined(
        [_compare(blockwise.part(case, at)) for at in blockwise.blocks(case.value.size)], case.value.shape
    )


def _at_once(case: Case) -> Masks | None:
    """One look at each element where at most references lie outside: all finite and stored, E in bound."""
    from interval_ops import scans

    if case.device is not None or (case.unstored is not None and case.unstored.any()):
        return None
    beyond = np.empty(case.value.size, bool)
    value, lo, hi, ref, exact = scans.flats(case.value, case.lo, case.hi, case.ref, case.exact)
    if not scans.beyond(value, lo, hi, ref, exact, beyond):
        return None
    no, yes = (np.broadcast_to(np.bool_(x), case.lo.shape) for x in (False, True))
    outside = beyond.reshape(case.lo.shape) if beyond.any() else no
    if outside is not no and coarser(case.ref_fmt, case.fmt) is not None:  # another bound is theirs
        return None
    return Masks(no, no, no, no, no, outside, None, yes, no)


def _compare(case: Case) -> Masks:
    if (found := _at_once(case)) is not None:
        return found
    top = np.isnan(case.lo)
    stored = np.ones(top.shape, bool) if case.unstored is None else ~case.unstored
    settled, bad = _nonfinite(case)
    exact, beside = _misses(case, ~settled)
    ref = _outside(case.ref, *ref_bound(case), settled & (_pattern(case.ref) == _pattern(case.value)))
    device = None
    if case.device is not None:
        device = _outside(case.device, *device_bound(case), settled) & stored
    unbounded = (top | np.isinf(case.lo) | np.isinf(case.hi)) & ~settled
    return Masks(
        top, unbounded & stored, settled, bad & stored, exact & stored, ref & stored, device, stored, beside & stored
    )


def least(case: Case) -> np.ndarray:
    """The smallest distance from E that says anything: half a rounding of E to float32, or to a finer output format.

    What is written as a decimal constant, or approximated by a polynomial for this format, is no nearer to what it
    stands for; the nearest number of the format to any value within it is E's own, or the one beside that.
    """
    fmt = case.fmt
    if fmt is None:
        return np.zeros(case.exact.shape)
    fmt = max(fmt, FP32, key=lambda f: f.p)
    found: np.ndarray = (fmt.u * np.abs(case.exact) + fmt.half_subnormal) / 2
    return found


def _misses(case: Case, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Finite E whose whole error interval lies outside T, by more than `least` and by less.

    An E inside needs no such interval.
    """
    missed = counts & np.isfinite(case.exact) & ((case.exact < case.lo) | (case.exact > case.hi))
    if not missed.any():
        return missed, missed
    ends, room = case.exact_ends(), least(case)
    with np.errstate(invalid="ignore"):  # infinite room, beside ends of the other sign
        far = missed & margins.clear(*ends, case.lo - room, case.hi + room)
    return far, missed & ~far & margins.clear(*ends, case.lo, case.hi)


def hardly(case: Case, masks: Masks) -> str:
    """One sentence where E leaves T by less than any result in the output's format could show; else empty."""
    if not some(masks.beside):
        return ""
    with np.errstate(all="ignore"):
        gap = np.maximum(case.lo - case.exact, case.exact - case.hi) / (2 * least(case))
    most = float(np.max(gap[masks.beside]))
    name = max(case.fmt or FP32, FP32, key=lambda f: f.p).name
    return (
        f"the kernel's formula for {case.name} is an approximation: in {_share(masks.beside)} elements the "
        f"reference's exact value lies outside the bound, by at most {most:.2g} of a rounding to {name}, which no "
        "result in that format can show"
    )


def ref_bound(case: Case) -> tuple[np.ndarray, np.ndarray]:
    return widen(case.lo, case.hi, coarser(case.ref_fmt, case.fmt))


def device_bound(case: Case) -> tuple[np.ndarray, np.ndarray]:
    return widen(case.lo, case.hi, coarser(case.device_fmt, case.fmt))


def rests_on_rounding(masks: Masks | None, supposed: Decision) -> bool:
    """Whether a supposed decision is another one where R does not explain a y_ref outside of T."""
    return masks is not None and supposed.label == "Type-I" and some(masks.outside_ref)


def decide(case: Case, masks: Masks | None = None, cause: str = EQUAL, supposed: bool = False) -> Decision:
    """The first row of the table that holds; `cause` is the code of a Type-I without another explanation.

    `supposed`: without R, which takes further runs of the reference: where E is inside, R is supposed to explain y_ref.
    """
    if case.mismatch:
        return Decision("Type-II", "RND205", case.mismatch)
    masks = masks or compare(case)
    for rule in (_pattern_differs, _never_stored, _void, _exact_outside, _device_outside):
        if decision := rule(case, masks):
            return decision
    rules = (_exact_unknown, _reference_errs, _tainted, _infinite, _powerless, _reference_unexplained)
    if supposed and case.unknown is None and some(masks.outside_ref):
        if own_rounding.carried(case, masks):
            return _reference_carries(masks)
        rules = (_tainted, _infinite, _powerless)  # type: ignore[assignment]
    for rule in rules:
        if decision := rule(case, masks):
            return decision
    return Decision("Type-I", cause, "")


def _share(mask: np.ndarray) -> str:
    return f"{many(mask)} / {mask.size}"


def _pattern_differs(case: Case, masks: Masks) -> Decision | None:
    if not some(masks.nonfinite):
        return None
    if case.taints and case.device is None and np.array_equal(case.value, case.ref, equal_nan=True):
        return None  # both sides overflow in an operation of the host that nobody has a rule for
    where = "in the device output alone" if only_device(case) else "on one side only"
    return Decision("Type-II", "RND204", f"NaN or Inf {where}: {_share(masks.nonfinite)} elements")


def only_device(case: Case) -> bool:
    """Whether NaN and infinity are right in what the source computes, so that only a device has them wrong."""
    return case.device is not None and not _nonfinite(replace(case, device=None))[1].any()


def _never_stored(case: Case, masks: Masks) -> Decision | None:
    if every(masks.stored):
        return None
    return Decision("Type-II", "RND205", f"{_share(~masks.stored)} elements are never stored")


def _void(case: Case, masks: Masks) -> Decision | None:
    code = min(case.taints & VOID.keys(), default=None)
    return None if code is None else Decision("Inconclusive", code, VOID[code])


def accused(case: Case, masks: Masks) -> np.ndarray:
    """The elements of which it is proved that E lies outside: an estimate of its error accuses nobody.

    Where all that the reference returned lies in the bound, E stands alone: then other code has to give it, too.
    """
    found: np.ndarray = masks.outside_exact
    if found.any():
        found = found & case.proved()
    return found & case.confirmed() if found.any() and not some(masks.outside_ref) else found


def _exact_outside(case: Case, masks: Masks) -> Decision | None:
    if not some(masks.outside_exact):
        return None
    if not accused(case, masks).any():
        detail = f"the reference in float64 is outside the bound in {_share(masks.outside_exact)} elements, but "
        alone = "what it returned lies inside everywhere, and no other evaluation of its exact value confirms that"
        why = "how far float64 is off there is only estimated" if some(masks.outside_ref) else alone
        return Decision("Inconclusive", "RND307", f"{detail}{why}{case.unproved}")
    subtype = " and so is the device" if masks.outside_device is not None and some(masks.outside_device) else ""
    how = "float64" if case.bits == 53 else f"{case.bits} bits"
    detail = f"the reference in {how} is outside the bound in {_share(masks.outside_exact)} elements{subtype}"
    return Decision("Type-II", "RND201", detail)


def _device_outside(case: Case, masks: Masks) -> Decision | None:
    if masks.outside_device is None:
        return None
    # A NaN is never counted as inside, but where T is "anything" it proves nothing either.
    outside = masks.outside_device & ~masks.top
    if not outside.any():
        return None
    detail = f"the device is outside the bound in {_share(outside)} elements, the reference inside"
    if not case.belongs():
        return Decision("Inconclusive", "RND312", f"{detail}; nothing shows that its output belongs to these inputs")
    return Decision("Type-II", "RND202", detail)


def _exact_unknown(case: Case, masks: Masks) -> Decision | None:
    if case.unknown is None or not (case.unknown & masks.stored & ~masks.settled).any():
        return None
    return Decision("Inconclusive", "RND307", case.why)


def _reference_errs(case: Case, masks: Masks) -> Decision | None:
    if not some(masks.outside_ref) or (some(masks.top) and (masks.top & masks.stored & ~masks.settled).any()):
        return None  # where T is anything nothing is known, whatever explains the other elements
    if not own_rounding.carried(case, masks):
        return None
    known = own_rounding.explained(case, masks)
    if known is None or not known[0].all():
        return None
    return _reference_carries(masks)


def _reference_carries(masks: Masks) -> Decision:
    detail = f"{_share(masks.outside_ref)} reference values are outside the bound, its float64 value is inside"
    return Decision("Type-I", CARRIES, detail)


def _reference_unexplained(case: Case, masks: Masks) -> Decision | None:
    known = own_rounding.explained(case, masks) if some(masks.outside_ref) else None
    if not some(masks.outside_ref) or (known is not None and known[1].all()):
        return None
    lo, hi = case.exact_ends()
    detail = "the reference differs from its own float64 evaluation by more than its rounding explains"
    if not margins.known(hi - lo)[masks.outside_ref].all():
        detail = f"{_share(masks.outside_ref)} reference values are outside the bound, of an error that is not known"
    return Decision("Inconclusive", "RND302", detail)


def _tainted(case: Case, masks: Masks) -> Decision | None:
    if not case.taints:
        return None
    code = min(case.taints)
    return Decision("Inconclusive", code, f"{_share(masks.top)} elements are not bounded because of it")


def _infinite(case: Case, masks: Masks) -> Decision | None:
    if not some(masks.unbounded):
        return None
    return Decision("Inconclusive", "RND304", f"{_share(masks.unbounded)} elements have no finite bound")


def fits_zero(case: Case, masks: Masks) -> bool:
    """Would an output of zeros lie in the bound everywhere? It says nothing where all exact values may be zero."""
    counts = np.broadcast_to(np.True_, case.lo.shape)
    if not every(masks.stored) or some(masks.settled):
        counts = masks.stored & ~masks.settled
    for at in blockwise.blocks(counts.size):  # nearly always the first element tells
        lo, hi, here = (blockwise.flat(x, at) for x in (case.lo, case.hi, counts))
        if not ((lo <= 0) & (hi >= 0))[here].all():
            return False
    lo, hi = case.exact_ends()
    return bool((counts & ((lo > 0) | (hi < 0))).any())


def _powerless(case: Case, masks: Masks) -> Decision | None:
    if not fits_zero(case, masks):
        return None
    return Decision("Inconclusive", "RND301", "the bound is so wide that an output of zeros would fit")


def follows_paper(case: Case, masks: Masks, bad_reads: bool) -> bool:
    """The published rule alone: is every y_ref in T? Elements fed by bad reads use v, which took zeros for them."""
    if case.mismatch:
        return False
    outside = masks.outside_ref
    if bad_reads and some(masks.top):
        value = np.asarray(case.value, np.float64)
        lo, hi = widen(*widen(value, value, case.fmt), case.ref_fmt)
        zeros = _outside(case.ref, lo, hi, np.zeros(lo.shape, bool))
        outside = np.where(masks.top, zeros, outside)
    return not outside.any()


def equal(case: Case) -> bool:
    """Whether kernel, device (if there is one) and reference have the same bits; a NaN is one whatever its payload."""
    if case.mismatch or case.fmt != case.ref_fmt or (case.unstored is not None and case.unstored.any()):
        return False
    return all(_same(y, case.ref) for y in (case.value, case.device) if y is not None)


def _same(x: np.ndarray, y: np.ndarray) -> bool:
    from interval_ops import scans

    pairs = (scans.flats(blockwise.flat(x, at), blockwise.flat(y, at)) for at in blockwise.blocks(x.size))
    return x.shape == y.shape and all(scans.same_bits(*pair) for pair in pairs)


def worst(decisions: list[Decision]) -> Decision:
    """One answer for several outputs: a bug beats a don't-know beats round-off, then the rank of the code."""
    return min(decisions, key=lambda d: severity(d.label, d.code))
