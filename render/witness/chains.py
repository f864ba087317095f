r"""A chain of dots on a matrix unit: its terms, how the unit reads them, and everything that it may make of them.

The error of the sum is that of the block-FMA model (`blocks`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from mpmath import libmp
from mpmath.libmp import fone, from_int, fzero

from interval_ops.formats import FORMATS
from render.witness import balls as b
from render.witness import blocks
from render.witness.balls import FP32, Interval, Maybe, Raw
from render.witness.sums import exact_sum, growth, magnitudes


@dataclass
class Chain:
    """All terms of a chain of dots on one unit, and the roundings on the way.

    `deepest` is the longest run of blocks whose result is added elsewhere; `through`: some accumulator passes several.
    """

    products: list[tuple[Interval, Interval]] = field(default_factory=list)
    addends: list[Interval] = field(default_factory=list)
    blocks: int = 0
    adds: int = 0
    deepest: int = 0
    through: bool = False
    known: bool = True

    def dot(self, pairs: list[tuple[Maybe, Maybe]], model: dict[str, Any], imprecise: int | None) -> None:
        """One tl.dot."""
        for x, y in pairs:
            if x is None or y is None or b.infinite(x) or b.infinite(y):
                self.known = False
            else:
                self.products.append((x, y))
        k, parts = len(pairs), int(model["terms"])
        if model["promote"] and imprecise and imprecise < k:
            pieces, inner = math.ceil(k / imprecise), parts * math.ceil(imprecise / model["block"])
            self.blocks, self.adds = self.blocks + pieces * inner, self.adds + pieces
        else:
            inner = parts * math.ceil(k / model["block"])
            self.blocks, self.adds = self.blocks + inner, self.adds + (parts > 1) + bool(model["convert"])
        self.deepest = max(self.deepest, inner)

    def add(self, c: Maybe, model: dict[str, Any], rounded: bool) -> None:
        """A term that enters through the accumulator, or (`rounded`) by an addition of its own."""
        if c is None or b.infinite(c):
            self.known = False
        else:
            self.addends.append(c)
        self.adds += rounded or model["block"] == 1


def cut_tf32(x: Raw) -> Raw:
    """x without its last 13 fraction bits (fp32 numbers are read so), subnormal spacing 2^-136."""
    return b.to_format(x, FORMATS["tf32"], "rtz")


def _read(x: Interval, model: dict[str, Any]) -> Interval:
    """An operand as the unit reads it; monotone."""
    if model["truncate"] == "tf32":
        return cut_tf32(x[0]), cut_tf32(x[1])
    if model["flush"] and model["terms"] == 1:
        tiny = b.power(int(model["emin"]))
        low, high = (fzero if b.less(libmp.mpf_abs(end), tiny) else end for end in x)
        return low, high
    return x


def dot(chain: Chain, model: dict[str, Any]) -> Maybe:
    """Everything that the unit may make of the chain, and its exact value."""
    if not chain.known:
        return None
    exact = [b.mul(x, y) for x, y in chain.products]
    read = [b.mul(_read(x, model), _read(y, model)) for x, y in chain.products]
    products = [p for p in exact if p is not None]
    base = exact_sum(chain.addends)
    total = b.hull(b.add(exact_sum(products), base), b.add(exact_sum([p for p in read if p is not None]), base))
    assert total is not None
    lost, weight = _operands(chain, products, model)
    total = b.spread(total, lost)
    assert total is not None
    addends = magnitudes(chain.addends)
    size = b.up(weight, addends)
    if size == fzero:
        return b.ZERO
    wrong, top = blocks.error(chain, products, model, total, size, addends)
    if not b.less(top, b.raw(_limit(model))):
        return None
    out = b.spread(total, wrong)
    return _one_sided(out, total, size, chain, model) if model["chops"] else out


def _operands(chain: Chain, products: list[Interval], model: dict[str, Any]) -> tuple[Raw, Raw]:
    """(error of operands that are split into parts, sum of the magnitudes of the products of parts)."""
    weight = magnitudes(products)
    eps, floor = b.raw(model["eps"]), b.raw(model["floor"])
    lost = b.times_up(eps, weight)
    if floor != fzero:
        for x, y in chain.products:
            ends = b.up(b.up(b.magnitude(x), b.magnitude(y)), floor)
            lost = b.up(lost, b.times_up(floor, ends))
    return lost, b.times_up(weight, b.up(fone, b.raw(model["growth"])))


def _limit(model: dict[str, Any]) -> float:
    fmt = blocks.accumulator(model)
    return fmt.max * (1.0 - 2.0 * model["rho"]) if model["rho"] > fmt.u else fmt.max


def _one_sided(out: Maybe, total: Interval, size: Raw, chain: Chain, model: dict[str, Any]) -> Maybe:
    """Units that only cut cannot leave the sums of the terms of one sign, up to the same sum rounded to nearest."""
    if out is None:
        return None
    count = chain.adds + len(chain.products) * int(model["terms"])
    grown = b.up(fone, growth(b.power(-FP32.p), count))
    room = b.times_up(from_int(chain.adds), b.power(blocks.accumulator(model).emin))
    above = b.up(b.times_up(libmp.mpf_shift(b.up(size, total[1]), -1), grown), room)
    below = b.up(b.times_up(libmp.mpf_shift(b.up(size, libmp.mpf_neg(total[0])), -1), grown), room)
    return b.most((out[0], libmp.mpf_neg(below))), b.least((out[1], above))
