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
    both beyond, the one by no more than LIMIT times the other: alike, neither is unstable beside the other
    taint, or no finite bound that says anything                                     by E and eta alone: first-order
    otherwise                                                                        Type-I    by cause
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch

from render.interpreter.hosted.call import rounding_of
from render.interpreter.memory import Envelope
from render.network.capture import Key
from render.network.pairs import Pair
from render.network.records import FIRST_ORDER, LeafRecord
from render.network.spill import Spill, rest
from render.network.walks import UNIT, array
from render.reference import figures
from render.result.codes import Label, of_cause

LIMIT = 8.0
"""Half of fp32's digits would be 2^12; stable formulas were measured at 5.5 and less, unstable ones at 500 and more."""
CONSTANTS = 4.0
"""So many rounded constants may stand between two ways to write one function."""
SAME = 2.0**-10
"""Of what rounded constants explain: two functions that differ by no more are one in float64."""
DEEP = 64.0
"""So much of a bound of movements is always believed; in a layer of attention it was 260 times too wide."""
NEAR = 2.0**-6
"""Relative difference up to which both sides move alike; `LIMIT` is not known to that precision."""
_ORDER = ("lowacc", "operand", "accumulation", "function", "arith", "cast")


class WidthSample(NamedTuple):
    """Of a sample: widths of the target's bound, squares of its values, widths in units of what explains them."""

    width: np.ndarray
    squares: np.ndarray
    kappa: np.ndarray | None

    def into(self, record: LeafRecord) -> None:
        if not self.width.size:
            record.width = 0.0
            return
        with np.errstate(all="ignore"):
            size, middle = math.sqrt(float(np.mean(self.squares)) or 0.0), float(np.median(self.width))
            record.width = middle / size if size else middle and math.inf
            if self.kappa is not None:
                record.kappa = float(np.median(np.where(np.isfinite(self.width), self.kappa, np.inf)))


@dataclass
class Sight:
    """One tensor of a border as the walks saw it.

    `unit` is u of the coarser side (`least` or more, and what autocast declares), `constants` that of parameters;
    `slopes`: both sides called the module with equal operands, so that slopes at one point serve both.
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
    other: np.ndarray | None = None
    sample: tuple[np.ndarray, np.ndarray] | None = None
    widths: WidthSample | None = None
    slopes: bool = False
    furthest: tuple[int, float] = (0, 0.0)
    followed: bool = False
    drawn: bool = False
    """Whether the sides drew other random numbers before: bounds are of their own ones."""
    record: LeafRecord = field(init=False)

    def __post_init__(self) -> None:
        a, b = self.pair.target[self.place], self.pair.reference[self.place]
        key = self.pair.key
        dtypes = " / ".join(dict.fromkeys(str(t.dtype).removeprefix("torch.") for t in (a, b)))
        at = f"{key.name or '(model)'} {key.way}" + (f" call {key.call + 1}" if key.call else "")
        leaf = key.way == "out" and key.name == self.pair.maker
        self.record = LeafRecord(self.pair.maker, at, leaf, a.numel(), dtypes)
        self.record.differing, most, size = figures.differences(self.y, self.z)
        self.record.difference = most / size if size else (math.inf if most else 0.0)
        self.unit = max(self.least, *(rounding_of(t.dtype)[0] for t in (a, b)))
        self.floor = max(rounding_of(a.dtype)[1], 2.0**-149)

    @property
    def y(self) -> np.ndarray:
        return self._read("target")

    @property
    def z(self) -> np.ndarray:
        return self._read("reference")

    def _read(self, side: str) -> np.ndarray:
        tensor = self.pair.at(side)[self.place]
        rest(tensor.nbytes)
        return figures.flat(tensor)

    @property
    def target(self) -> np.ndarray:
        return array(self.pair.target[self.place])

    @property
    def reference(self) -> np.ndarray:
        return array(self.pair.reference[self.place])

    def part(self, cut: Callable[[torch.Tensor], torch.Tensor]) -> Sight:
        """The same of a part of the elements, as a matrix."""
        found, sides = copy(self), (self.pair.target[self.place], self.pair.reference[self.place])
        own = [[cut(x).contiguous()] for x in sides]
        found.pair, found.place, found.record = (
            Pair(self.pair.key, self.pair.other, self.pair.maker, own[0], own[1]),
            0,
            replace(self.record),
        )
        return found

    # what the walks hand in
    def of_reference(self, found: tuple[np.ndarray, np.ndarray | None, bool]) -> None:
        self.exact, self.moved, self.estimated = found
        self.followed = True

    def let_go(self) -> None:
        """E and what belongs to it, where nothing that is still to be asked can need it; a sample is kept.

        Of where the reference's error from its own E is still open, the movement alone: the target's is known.
        """
        if self.exact is None or self.moved is None:
            return
        if self.leaves or self.suspect or self.record.eta_target > LIMIT or len(self.hollow()):
            return
        self.sample = figures.some(self.exact.reshape(-1)).copy(), figures.some(self.moved.reshape(-1)).copy()
        self.exact = self.other = None
        if self.record.eta_reference <= LIMIT:
            self.moved = None

    def put_away(self, spill: Spill) -> None:
        """What waits for another walk: left in the heap, it would keep holes there from being used again."""
        self.exact, self.moved = (x if x is None else spill.array(x) for x in (self.exact, self.moved))
        self.sample = self.sample and (spill.array(self.sample[0]), spill.array(self.sample[1]))

    @property
    def suspect(self) -> bool:
        """Whether the functions differ by what a bound of movements that is too wide would hide."""
        return 1 / DEEP < self.record.apart <= 1

    def hollow(self) -> np.ndarray:
        """Elements that differ by more than a few roundings, where what explains it is as large as they are; first the
        worst."""
        if self.exact is None or self.moved is None or not self.slopes:
            return np.zeros(0, np.int64)
        y, z = self.y, self.z
        at = figures.hollow(y, z, self.exact.reshape(-1), self.moved.reshape(-1), self.unit, self.unit / UNIT)
        with np.errstate(all="ignore"):
            gap = np.nan_to_num(np.abs(y[at].astype(np.float64) - z[at]), nan=0.0)
        found: np.ndarray = at[np.argsort(-gap)]
        return found

    def of_target(self, found: tuple[np.ndarray, np.ndarray | None, bool]) -> None:
        if self.exact is None or self.moved is None:
            return
        self.other = np.empty(self.exact.size, np.bool_)
        parts = found[0].reshape(-1), self.exact.reshape(-1), self.moved.reshape(-1)
        scale = CONSTANTS * self.constants / UNIT, CONSTANTS * self.constants, self._least()
        most, at = figures.apart(*parts, *scale, self.other)
        self.record.apart, self.furthest = float(most), (int(at), float(abs(parts[0][at] - parts[1][at])))

    def nearer(self, exact: float, conditioning: float) -> None:
        """Where the two functions are furthest apart, by slopes with their signs: E there, and how far it moves.

        Bounds of movements grow with every product that they pass; they are taken for `DEEP` times the movement at
        most, for a constant inside the region may move more than inputs and parameters do where slopes cancel.
        """
        if self.moved is None:
            return
        at, gap = self.furthest
        room = self.constants / UNIT * max(conditioning, float(self.moved.reshape(-1)[at]) / DEEP)
        ratio = gap / (CONSTANTS * (room + self.constants * abs(exact)) + self._least())
        if ratio > 1:
            self.record.apart, self.record.kind, self.other = ratio, FIRST_ORDER, None

    def same_function(self) -> bool:
        """One module on both sides, of equal formats: the target's E is the reference's."""
        if self.exact is None:
            return False
        self.other = None
        return True

    def settled(self) -> bool:
        """Whether no bound can change the answer: one function, with an error of either side that E explains.

        T and R both contain E then, so that they meet; the record is first order, and knows nothing of T.
        """
        r = self.record
        if not self.followed or r.apart > SAME or r.unstable or max(r.eta_target, r.eta_reference) > LIMIT:
            return False
        if not np.isfinite(self.y).all():  # E is finite then, for the errors are
            return False
        self.record.kind = FIRST_ORDER
        return bool(np.isfinite(self.z).all())

    @property
    def leaves(self) -> bool:
        """Whether exact values say that the target leaves."""
        return self.followed and (self.record.apart > 1 or self.record.unstable > 0)

    def declare(self, unit: float) -> None:
        """`unit`: u that autocast declares for this region on either side; errors are counted in the coarser one."""
        if unit > self.unit:
            self.unit, self.record.unstable, self.record.nonfinite = unit, 0, 0
            self.stability(own=True)

    def near(self) -> bool:
        """Whether the two sides are so close that one scale of movements serves both."""
        return self.record.difference < NEAR

    def asks_reference(self) -> bool:
        """Whether the reference's own bound can say anything: one left the target's, is unstable or not finite."""
        finite = (np.isfinite(x).all() for x in (self.y, self.z))
        return self.beyond is not None or bool(self.record.unstable) or not all(finite)

    def of_own(self, found: tuple[np.ndarray, np.ndarray | None, bool]) -> None:
        """The reference's function of its own operands, for its own eta."""
        self.own = found

    def of_bound(self, side: str, envelope: Envelope, taints: Iterable[str]) -> None:
        r = self.record
        r.taints = tuple(dict.fromkeys((*r.taints, *taints)))
        shape = tuple(self.pair.target[self.place].shape)
        lo, hi = (np.ascontiguousarray(np.broadcast_to(e, shape), np.float64).reshape(-1) for e in
                  (envelope.lo, envelope.hi))  # fmt: skip
        target, reference, unbounded = figures.outside(self.y, self.z, lo, hi)
        r.unbounded = max(r.unbounded, unbounded)
        if side == "target":
            r.target_out_target, r.reference_out_target = target, reference
            self._against_target(lo, hi)
            if reference:
                at = np.flatnonzero((self.z < lo) | (self.z > hi))
                self.beyond = at, lo[at], hi[at]
        else:
            r.target_out_reference, r.reference_out_reference = target, reference
            if self.beyond is not None:
                at, low, high = self.beyond
                r.disjoint = int(np.count_nonzero((high < lo[at]) | (low > hi[at])))

    def _against_target(self, lo: np.ndarray, hi: np.ndarray) -> None:
        """WidthSample and kappa are medians of a sample, exact values are all looked at."""
        exact, moved = self.sample or (None, None)
        if self.exact is not None and self.moved is not None:
            exact, moved = self.exact.reshape(-1), self.moved.reshape(-1)
            if not self.estimated and self.other is not None:
                self.record.exact_out_target = figures.exact_outside(exact, lo, hi, moved, self.other)
            exact, moved = figures.some(exact), figures.some(moved)
        self.widths = self.widths_of(figures.some(self.y), exact, moved, figures.some(lo), figures.some(hi))

    def widths_of(
        self, y: np.ndarray, exact: np.ndarray | None, moved: np.ndarray | None, lo: np.ndarray, hi: np.ndarray
    ) -> WidthSample:  # fmt: skip
        """Of some elements."""
        with np.errstate(all="ignore"):
            squares = np.where(np.isfinite(y), y, 0.0).astype(np.float64) ** 2
            width, kappa = hi - lo, None
            if exact is not None and moved is not None:
                kappa = 0.5 * width / (moved * (self.unit / UNIT) + self.unit * np.abs(exact) + self.floor)
        return WidthSample(width, squares, kappa)

    @property
    def units(self) -> tuple[float, float, float]:
        """What errors are counted in: of movements, of E, and besides."""
        return self.unit / UNIT, self.unit, self.floor

    def _least(self) -> float:
        """Below this nothing is a difference: float64's own error of a region, beside its largest element."""
        exact = np.zeros(1) if self.exact is None else self.exact
        with np.errstate(all="ignore"):
            most = float(np.abs(exact).max(initial=0.0))
            most = most if math.isfinite(most) else float(np.abs(exact[np.isfinite(exact)]).max(initial=0.0))
        return most * 2.0**-44 + self.floor

    def stability(self, own: bool) -> bool:
        """Errors of both sides in units of B. True asks for E of the reference's own operands; `own`: it is known."""
        r = self.record
        if self.moved is None:
            return False
        moved = self.moved.reshape(-1)
        exact = None if self.exact is None else self.exact.reshape(-1)
        mine, shift = (exact, moved) if self.own is None else (self.own[0].reshape(-1), moved)
        if self.own is not None and self.own[1] is not None:
            shift = self.own[1].astype(np.float32, copy=False).reshape(-1)
        if mine is None:
            return False
        units, limit = self.units, LIMIT if own else math.inf
        if exact is None:  # what the target is off was found to be little
            found = figures.etas(mine, self.z, mine, shift, mine, shift, units, limit)
        else:
            found = figures.etas(self.y, self.z, exact, moved, mine, shift, units, limit)
            r.eta_target = found.target
        r.eta_reference = found.reference
        if max(r.eta_target, r.eta_reference) <= LIMIT:
            return False
        if not own:
            return True
        least, most = sorted((found.target, found.reference))
        alike = least > LIMIT and most <= LIMIT * least  # which elements it is that exceed the limit is chance then
        r.unstable = 0 if alike else found.bad or -found.weak
        r.nonfinite = found.nonfinite
        return False


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
    sure = (
        rigorous
        and sight.constants == UNIT
        and not sight.drawn
        and not r.target_out_target
        and not r.reference_out_reference
    )
    if r.disjoint and sure:
        return "Type-II", "RND201", f"{r.disjoint} elements have no value that both sides may produce"
    if r.unstable < 0:
        lost, other = _times(r.eta_reference), _times(r.eta_target)
        return "Type-I", "RND110", f"the reference loses {lost} what the conditioning explains, the target {other}"
    if not sight.followed:
        return "Inconclusive", "RND302", r.taints[0] if r.taints else "the region could not be followed"
    turned = f"; {r.turned} choices that lie within rounding fell otherwise" if r.turned else ""
    return "Type-I", _cause(causes, sight), f"round-off{turned}"


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
