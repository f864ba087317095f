r"""The two-sided verdict of one border.

For every element: y_t and y_r, what the two sides had; E = f_r(x_t), the reference's function of the target's own
operands without rounding, and E_t the target's; A, how far E moves where every operand moves by u of itself; T and R,
the bounds of target and reference from the hull of both sides' operands.

    B = A + u |E|                what the conditioning and one rounding of the output explain
    eta = |y - E| / B            of each side; > `LIMIT` is unstable where the other side's is not
    |E_t - E| > `CONSTANTS` A    another function: roundings of constants and tables do not explain it

The table, first row that holds:

    NaN or infinity on one side only, where E is finite and the bound holds none     Type-II   RND204 (reference: 110)
    |E_t - E| beyond rounded constants, and E outside T (rigorous)                   Type-II   RND201
    |E_t - E| beyond rounded constants                                               Type-II   RND211
    eta_t > LIMIT, eta_r <= LIMIT; y_t outside T as well                             Type-II   RND202
    eta_t > LIMIT, eta_r <= LIMIT                                                    Type-II   RND206
    T and R disjoint                                                                 Type-II   RND201
    eta_r > LIMIT, eta_t <= LIMIT                                                    Type-I    RND110
    taint, or no finite bound that says anything                                     by E and eta alone: first-order
    otherwise                                                                        Type-I    by cause
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from render.interpreter.hosted.call import rounding_of
from render.interpreter.memory import Envelope
from render.network.capture import Key
from render.network.pairs import Pair
from render.network.records import FIRST_ORDER, LeafRecord
from render.network.walks import UNIT, array
from render.result.codes import Label, of_cause

LIMIT = 8.0
"""Half of fp32's digits would be 2^12; stable formulas were measured at 5.5 and less, unstable ones at 500 and more."""
CONSTANTS = 4.0
"""So many rounded constants may stand between two ways to write one function."""
_ORDER = ("lowacc", "operand", "accumulation", "function", "arith", "cast")


@dataclass
class Sight:
    """One tensor of a border as the walks saw it.

    `unit` is u of the coarser side (`least` or more), `constants` that of parameters.
    """

    pair: Pair
    place: int
    constants: float
    least: float
    exact: np.ndarray | None = None
    moved: np.ndarray | None = None
    own: tuple[np.ndarray, np.ndarray | None, bool] | None = None
    estimated: bool = False
    beyond: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
    unstable: np.ndarray | None = None
    other: np.ndarray | bool = True
    record: LeafRecord = field(init=False)

    def __post_init__(self) -> None:
        a, b = self.pair.target[self.place], self.pair.reference[self.place]
        key = self.pair.key
        dtypes = " / ".join(dict.fromkeys(str(t.dtype).removeprefix("torch.") for t in (a, b)))
        at = f"{key.name or '(model)'} {key.way}" + (f" call {key.call + 1}" if key.call else "")
        leaf = key.way == "out" and key.name == self.pair.maker
        self.record = LeafRecord(self.pair.maker, at, leaf, a.numel(), dtypes)
        y, z = array(a), array(b)
        with np.errstate(all="ignore"):
            gap = np.where((y == z) | (np.isnan(y) & np.isnan(z)), 0.0, np.abs(y - z))
        size = float(np.nanmax(np.where(np.isfinite(z), np.abs(z), 0.0), initial=0.0))
        most = float(np.nanmax(gap, initial=0.0))
        self.record.differing = int(np.count_nonzero(gap))
        self.record.difference = most / size if size else (math.inf if most else 0.0)
        self.unit = max(self.least, *(rounding_of(t.dtype)[0] for t in (a, b)))
        self.floor = max(rounding_of(a.dtype)[1], 2.0**-149)

    @property
    def target(self) -> np.ndarray:
        return array(self.pair.target[self.place])

    @property
    def reference(self) -> np.ndarray:
        return array(self.pair.reference[self.place])

    # what the walks hand in
    def of_reference(self, found: tuple[np.ndarray, np.ndarray | None, bool]) -> None:
        self.exact, moved, self.estimated = found
        self.moved = None if moved is None else moved.astype(np.float32)  # a scale, not a bound

    def of_target(self, found: tuple[np.ndarray, np.ndarray | None, bool]) -> None:
        if self.exact is None or self.moved is None:
            return
        with np.errstate(all="ignore"):
            gap = np.abs(found[0] - self.exact)
            gap = np.where((found[0] == self.exact) | (np.isnan(found[0]) & np.isnan(self.exact)), 0.0, gap)
            allowed = CONSTANTS * (self.moved * (self.constants / UNIT) + self.constants * np.abs(self.exact))
            allowed = allowed + self._least()
            ratio = np.where(gap == 0, 0.0, np.where(np.isnan(gap), np.inf, gap / allowed))
        self.record.apart = float(np.max(ratio, initial=0.0))
        self.other = ratio > 1

    def of_own(self, found: tuple[np.ndarray, np.ndarray | None, bool]) -> None:
        """The reference's function of its own operands, for its own eta."""
        self.own = found

    def of_bound(self, side: str, envelope: Envelope, taints: Iterable[str]) -> None:
        r = self.record
        r.taints = tuple(dict.fromkeys((*r.taints, *taints)))
        lo, hi = np.broadcast_to(envelope.lo, self.target.shape), np.broadcast_to(envelope.hi, self.target.shape)
        open_ = ~(np.isfinite(lo) & np.isfinite(hi)) & ~((lo == hi) & ~np.isnan(lo))
        r.unbounded = max(r.unbounded, int(np.count_nonzero(open_)))
        target, reference = (_outside(y, lo, hi) for y in (self.target, self.reference))
        if side == "target":
            r.target_out_target, r.reference_out_target = int(target.sum()), int(reference.sum())
            self._against_target(lo, hi, reference)
        else:
            r.target_out_reference, r.reference_out_reference = int(target.sum()), int(reference.sum())
            if self.beyond is not None:
                at, low, high = self.beyond
                flat_lo, flat_hi = lo.reshape(-1)[at], hi.reshape(-1)[at]
                r.disjoint = int(np.count_nonzero((high < flat_lo) | (low > flat_hi)))

    def _against_target(self, lo: np.ndarray, hi: np.ndarray, reference: np.ndarray) -> None:
        r = self.record
        with np.errstate(all="ignore"):
            width = hi - lo
            size = math.sqrt(float(np.mean(np.where(np.isfinite(self.target), self.target, 0.0) ** 2)) or 0.0)
            r.width = float(np.median(width)) / size if size else float(np.median(width)) and math.inf
            if self.exact is not None and not self.estimated:
                room = (self.moved if self.moved is not None else 0.0) * 2.0**-10 + 2.0**-50 * np.abs(self.exact)
                out = (self.exact + room < lo) | (self.exact - room > hi)
                r.exact_out_target = int(np.count_nonzero(out & self.other & np.isfinite(self.exact)))
            if self.moved is not None:
                kappa = np.where(np.isfinite(width), 0.5 * width / self._explained(self.exact, self.moved), np.inf)
                r.kappa = float(np.median(kappa))
        at = np.flatnonzero(reference)
        if len(at):
            self.beyond = at, lo.reshape(-1)[at].copy(), hi.reshape(-1)[at].copy()

    def _least(self) -> float:
        """Below this nothing is a difference: float64's own error of a region, beside its largest element."""
        finite = np.abs(self.exact[np.isfinite(self.exact)]) if self.exact is not None else np.zeros(1)
        return float(finite.max(initial=0.0)) * 2.0**-44 + self.floor

    def _explained(self, exact: np.ndarray | None, moved: np.ndarray | None) -> np.ndarray:
        assert moved is not None and exact is not None
        found: np.ndarray = moved * (self.unit / UNIT) + self.unit * np.abs(exact) + self.floor
        return found

    def stability(self, own: bool) -> bool:
        """Errors of both sides in units of B. True asks for E of the reference's own operands; `own`: it is known."""
        r = self.record
        if self.exact is None or self.moved is None:
            return False
        with np.errstate(all="ignore"):
            target = _ratio(self.target, self.exact, self._explained(self.exact, self.moved))
            exact, moved = (self.exact, self.moved) if self.own is None else self.own[:2]
            reference = _ratio(self.reference, exact, self._explained(exact, moved))
        r.eta_target, r.eta_reference = (float(np.max(x, initial=0.0)) for x in (target, reference))
        if max(r.eta_target, r.eta_reference) <= LIMIT:
            return False
        if not own:
            return True
        bad, weak = (target > LIMIT) & (reference <= LIMIT), (reference > LIMIT) & (target <= LIMIT)
        r.unstable = int(np.count_nonzero(bad)) or -int(np.count_nonzero(weak))
        self.unstable = bad
        r.nonfinite = int(
            np.count_nonzero(~np.isfinite(self.target) & np.isfinite(self.reference) & np.isfinite(self.exact))
        )
        return False


def _ratio(y: np.ndarray, exact: np.ndarray, explained: np.ndarray) -> np.ndarray:
    settled = (y == exact) | (np.isnan(y) & np.isnan(exact))
    gap = np.where(settled, 0.0, np.abs(y - exact))
    found: np.ndarray = np.where(gap == 0, 0.0, np.where(np.isnan(gap), np.inf, gap / explained))
    return found


def _outside(y: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """An end that is NaN excludes nothing; a NaN that both ends are is inside."""
    found: np.ndarray = (y < lo) | (y > hi)
    return found


def decide(sight: Sight, causes: frozenset[str]) -> tuple[Label, str, str]:
    """(label, code, sentence) by the table of this module."""
    r = sight.record
    rigorous = not r.taints and not r.unbounded
    r.kind = r.kind if rigorous else FIRST_ORDER
    if r.nonfinite and r.apart <= 1 and r.target_out_reference:
        return "Type-II", "RND204", f"{r.nonfinite} elements are NaN or infinite on the target's side only"
    if r.exact_out_target and rigorous:
        return "Type-II", "RND201", f"{r.exact_out_target} exact values of the reference lie outside the target's bound"
    if r.apart > 1:
        return "Type-II", "RND211", f"without rounding the two differ {_times(r.apart)} more than rounded constants do"
    if r.unstable > 0:
        lost, other = _times(r.eta_target), _times(r.eta_reference)
        where = f"{r.unstable} elements lose {lost} what their conditioning explains, the reference {other}"
        if r.target_out_target and rigorous:
            return "Type-II", "RND202", f"{where}; the same code run in the open stays within the bound"
        return "Type-II", "RND206", where
    sure = rigorous and sight.constants == UNIT and not r.target_out_target and not r.reference_out_reference
    if r.disjoint and sure:
        return "Type-II", "RND201", f"{r.disjoint} elements have no value that both sides may produce"
    if r.unstable < 0:
        lost, other = _times(r.eta_reference), _times(r.eta_target)
        return "Type-I", "RND110", f"the reference loses {lost} what the conditioning explains, the target {other}"
    if sight.exact is None:
        return "Inconclusive", "RND302", r.taints[0] if r.taints else "the region could not be followed"
    return "Type-I", _cause(causes, sight), "round-off"


def _cause(causes: frozenset[str], sight: Sight) -> str:
    """What owns the rounding: a coarse format before all, operands that are cut, then what the region does."""
    if sight.least > UNIT and "accumulation" in causes:
        return of_cause("operand")
    if sight.unit > sight.least:
        return of_cause("cast")
    return of_cause(next((c for c in _ORDER if c in causes), "arith"))


def _times(x: float) -> str:
    return f"{x:.3g} times" if math.isfinite(x) else "without limit"


__all__ = ["CONSTANTS", "LIMIT", "Key", "Sight", "decide"]
