r"""A chain of dots on a matrix unit: its terms, how the unit reads them, and everything that it may make of them.

The error of the sum is that of the block-FMA model (`blocks`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from interval_ops.formats.model import FORMATS
from render.exact import intervals as iv
from render.exact.formats import FP32, to_format
from render.exact.intervals import Interval, Maybe
from render.exact.points import FULL, ONE, ZERO, Point, least, most, number, power, precision, shifted, times_up, up
from render.witness import blocks
from render.witness.sums import growth
from render.witness.tally import Tally


@dataclass
class Chain:
    """All terms of a chain of dots on one unit, and the roundings on the way.

    `deepest` is the longest run of blocks whose result is added elsewhere; `through`: some accumulator passes several.
    `exact` and `read`: the products, of the operands as they are and as the unit reads them; `operands`: their
    magnitudes.
    """

    exact: Tally = field(default_factory=Tally)
    read: Tally = field(default_factory=Tally)
    operands: Tally = field(default_factory=lambda: Tally(grid=False))
    factors: int = 0
    addends: list[Interval] = field(default_factory=list)
    blocks: int = 0
    adds: int = 0
    deepest: int = 0
    through: bool = False
    known: bool = True

    def dot(self, pairs: list[tuple[Maybe, Maybe]], model: dict[str, Any], imprecise: int | None) -> None:
        """One tl.dot."""
        self.take(pairs, model)
        self.passed(len(pairs), model, imprecise)

    def take(self, pairs: list[tuple[Maybe, Maybe]], model: dict[str, Any]) -> None:
        """Factors of products; infinite ones, or such that are anything, leave the chain unknown."""
        self.factors += len(pairs)
        self.operands.take([x for pair in pairs for x in pair])
        if not self.operands.known:
            self.known = False
            return
        with precision(FULL):
            exact = [iv.mul(x, y) for x, y in pairs]
            as_read = [iv.mul(_read(x, model), _read(y, model)) for x, y in pairs] if _reads(model) else exact
        self.exact.take(exact)
        if as_read is not exact:
            self.read.take(as_read)
        else:
            self.read = self.exact

    def passed(self, k: int, model: dict[str, Any], imprecise: int | None) -> None:
        """The roundings of one tl.dot along k."""
        parts = int(model["terms"])
        if model["promote"] and imprecise and imprecise < k:
            pieces, inner = math.ceil(k / imprecise), parts * math.ceil(imprecise / model["block"])
            self.blocks, self.adds = self.blocks + pieces * inner, self.adds + pieces
        else:
            inner = parts * math.ceil(k / model["block"])
            self.blocks, self.adds = self.blocks + inner, self.adds + (parts > 1) + bool(model["convert"])
        self.deepest = max(self.deepest, inner)

    def add(self, c: Maybe, model: dict[str, Any], rounded: bool) -> None:
        """A term that enters through the accumulator, or (`rounded`) by an addition of its own."""
        if c is None or iv.infinite(c):
            self.known = False
        else:
            self.addends.append(c)
        self.adds += rounded or model["block"] == 1


def cut_tf32(x: Point) -> Point:
    """x without its last 13 fraction bits (fp32 numbers are read so), subnormal spacing 2^-136."""
    return to_format(x, FORMATS["tf32"], "rtz")


def _reads(model: dict[str, Any]) -> bool:
    """Whether the unit reads operands otherwise than they are."""
    return model["truncate"] == "tf32" or (bool(model["flush"]) and model["terms"] == 1)


def _read(x: Maybe, model: dict[str, Any]) -> Maybe:
    """An operand as the unit reads it; monotone."""
    if x is None:
        return None
    if model["truncate"] == "tf32":
        return cut_tf32(x[0]), cut_tf32(x[1])
    tiny = power(int(model["emin"]))
    low, high = (ZERO if abs(end) < tiny else end for end in x)
    return low, high


def dot(chain: Chain, model: dict[str, Any]) -> Maybe:
    """Everything that the unit may make of the chain, and its exact value."""
    found = _around(chain, model)
    if found is None or found[1] == ZERO:
        return iv.NOTHING if found else None
    total, size, _, wrong = found
    out = iv.spread(total, wrong)
    return _one_sided(out, total, size, chain.adds + chain.factors * int(model["terms"]), chain, model)


def _around(chain: Chain, model: dict[str, Any]) -> tuple[Interval, Point, Point, Point] | None:
    """(sum of the operands as they are and are read, that of the magnitudes, error of operands, error of the sum)."""
    if not chain.known:
        return None
    base = iv.total(chain.addends)
    lost, weight = _operands(chain, model)
    total = iv.spread(iv.hull(iv.add(chain.exact.total, base), iv.add(chain.read.total, base)), lost)
    assert total is not None
    addends = Tally(chain.addends).size
    size = up(weight, addends)
    if size == ZERO:
        return total, size, ZERO, ZERO
    wrong, top = blocks.error(chain, model, total, size, addends)
    return None if top >= number(_limit(model)) else (total, size, lost, wrong)


def deviation(chain: Chain, model: dict[str, Any]) -> Point | None:
    """How far the unit may be from the exact sum of the operands that there are; None where nothing bounds it."""
    found = _around(chain, model)
    return None if found is None else up(up(found[2], found[3]), _misread(chain, model))


def _misread(chain: Chain, model: dict[str, Any]) -> Point:
    """What the products lose because operands are read otherwise: of fp32 numbers less than 2^-10 each and 2^-136, and
    numbers below the least one that is kept."""
    if not _reads(model):
        return ZERO
    tiny = power(-136) if model["truncate"] == "tf32" else power(int(model["emin"]))
    each = times_up(tiny, up(chain.operands.size, times_up(number(chain.factors), tiny)))
    return up(times_up(power(-9), chain.exact.size), each) if model["truncate"] == "tf32" else each


def exact(chain: Chain, model: dict[str, Any]) -> Maybe:
    """The sum without any rounding."""
    return iv.add(chain.exact.total, iv.total(chain.addends))


def _operands(chain: Chain, model: dict[str, Any]) -> tuple[Point, Point]:
    """(error of operands that are split into parts, sum of the magnitudes of the products of parts)."""
    eps, floor = number(model["eps"]), number(model["floor"])
    lost = times_up(eps, chain.exact.size)
    if floor != ZERO:  # floor (|x| + |y| + floor) of every product
        lost = up(lost, times_up(floor, up(chain.operands.size, times_up(number(chain.factors), floor))))
    return lost, times_up(chain.exact.size, up(ONE, number(model["growth"])))


def _limit(model: dict[str, Any]) -> float:
    fmt = blocks.accumulator(model)
    return fmt.max * (1.0 - 2.0 * model["rho"]) if model["rho"] > fmt.u else fmt.max


def _one_sided(out: Maybe, total: Interval, size: Point, count: int, chain: Chain, model: dict[str, Any]) -> Maybe:
    """Units that only cut cannot leave the sums of the terms of one sign, up to the same sum rounded to nearest."""
    if out is None or not model["chops"]:
        return out
    grown = up(ONE, growth(power(-FP32.p), count))
    room = times_up(number(chain.adds), power(blocks.accumulator(model).emin))
    above = up(times_up(shifted(up(size, total[1]), -1), grown), room)
    below = up(times_up(shifted(up(size, -total[0]), -1), grown), room)
    return most((out[0], -below)), least((out[1], above))
