r"""Sums and dots in no particular order, from the standard error bounds.

A plain sum of n terms, each addition rounded with unit u: |error| <= ((1 + u)^(n-1) - 1) sum |x| (Higham, Accuracy and
Stability of Numerical Algorithms, 2nd ed., 4.2). Sums of multiples of 2^q whose magnitudes stay below 2^(p+q) are
exact.

A dot on a matrix unit (block-FMA model: at most L products and the accumulator per block, cut to F fraction bits at the
largest exponent, one rounding rho). The partial sum after b blocks is at most V_b = min(R, sum |c| + b L max |p|), with
R = (S + |T|) / 2 the largest sum of terms of one sign. Block b loses at most n_t 2^-F times the power of two at the top
of its largest term, plus rho times that of its result, plus omega. Units that round to nearest may exceed V_b by the
error so far, for which (1 + theta)^n - 1 is a first bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from mpmath import libmp
from mpmath.libmp import fone, from_int, fzero

from interval_ops.formats import FORMATS, Format
from render.witness import balls as b
from render.witness.balls import FP32, PREC, Interval, Maybe, Raw


def growth(unit: Raw, count: int) -> Raw:
    """(1 + unit)^count - 1, rounded up."""
    if count <= 0 or unit == fzero:
        return fzero
    base = libmp.mpf_add(fone, unit)
    return libmp.mpf_sub(libmp.mpf_pow_int(base, count, PREC, "c"), fone, PREC, "c")


def unit_of(fmt: Format) -> Raw:
    """Unit roundoff of an addition; below fp32 it may be done in fp32 and rounded once more."""
    u = b.power(-fmt.p)
    return u if fmt.p >= FP32.p else b.up(u, b.power(1 - FP32.p))


def exact_sum(terms: list[Interval]) -> Interval:
    low = high = fzero
    if all(x[0] == x[1] for x in terms) and not any(b.infinite(x) for x in terms):
        for x in terms:
            low = libmp.mpf_add(low, x[0])
        return low, low
    for x in terms:
        low, high = b.down(low, x[0]), b.up(high, x[1])
    return low, high


def magnitudes(terms: list[Interval]) -> Raw:
    out = fzero
    for x in terms:
        out = b.up(out, b.magnitude(x))
    return out


def _no_rounding(terms: list[Interval], size: Raw, fmt: Format) -> bool:
    """Whether every order of the sum is exact: points on a common grid that the format holds up to `size`."""
    if any(x[0] != x[1] for x in terms):
        return False
    step = min((int(x[0][2]) for x in terms if x[0][1]), default=0)
    return step >= fmt.emin - fmt.p + 1 and not b.less(b.power(step + fmt.p), size)


def plain_sum(terms: list[Maybe], fmt: Format, tree: bool = False) -> Maybe:
    """Sum of a block, rounded to `fmt` after every addition; `tree`: a term passes at most log2 of them."""
    known = [x for x in terms if x is not None and x != b.ZERO]
    if any(x is None for x in terms):
        return None
    if not known:
        return b.ZERO
    passed = len(known) - 1
    return _closed(known, fmt, min(passed, (len(terms) - 1).bit_length()) if tree else passed, fzero)


def _closed(terms: list[Interval], fmt: Format, roundings: int, flush: Raw) -> Maybe:
    if any(b.infinite(x) for x in terms):
        return _with_infinities(terms)
    total, size = exact_sum(terms), magnitudes(terms)
    if flush == fzero and _no_rounding(terms, size, fmt):
        return total
    grown = growth(unit_of(fmt), roundings)
    error = b.up(b.times_up(size, grown), b.times_up(flush, b.up(fone, grown)))
    if not b.less(b.up(size, error), b.raw(fmt.max)):
        return None
    return b.spread(total, error)


def _with_infinities(terms: list[Interval]) -> Maybe:
    out: Maybe = b.ZERO
    for x in terms:
        out = b.add(out, x)
    return out


def atomic_sum(terms: list[Maybe], fmt: Format, flushes: bool) -> Maybe:
    """Base (first) plus contributions, one rounding each; fp32 adds of a flushing target lose up to 2^-126 twice."""
    known = [x for x in terms if x is not None]
    if len(known) < len(terms):
        return None
    count = len(terms) - 1
    flush = fzero
    if flushes and fmt.bits == 32:
        flush = libmp.mpf_mul(from_int(2 * count), b.power(fmt.emin))
    return _closed(known, fmt, count, flush)


def product(terms: list[Maybe], fmt: Format) -> Maybe:
    """Product of a block in any order; anything where a partial product may overflow.

    A rounding in the subnormal range loses half a spacing, which at most all other factors enlarge.
    """
    factors = [x for x in terms if x is not None]
    if len(factors) < len(terms):
        return None
    out: Maybe = (fone, fone)
    large = small = fone
    for x in factors:
        out = b.mul(out, x)
        low, high = b.sorted_magnitudes(x)
        large = b.times_up(large, b.most((high, fone)))
        small = libmp.mpf_mul(small, b.least((low, fone)), PREC, "f")
    if out is None or not b.less(large, b.raw(fmt.max / 2)):
        return None
    grown = growth(unit_of(fmt), len(factors) - 1)
    error = b.times_up(b.magnitude(out), grown)
    if b.less(small, b.power(fmt.emin)):
        lost = libmp.mpf_mul(from_int(len(factors)), b.power(fmt.emin - fmt.p))
        error = b.up(error, b.times_up(b.times_up(lost, large), b.up(fone, grown)))
    return b.spread(out, error)


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


def floor_power(x: Raw) -> Raw:
    """The largest power of two that is at most x; 0 for 0."""
    return b.power(b.binary_exponent(x)) if x[1] else fzero


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
    error, top = _error(chain, products, model, total, size, addends)
    if not b.less(top, b.raw(_limit(model))):
        return None
    out = b.spread(total, error)
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


def _accumulator(model: dict[str, Any]) -> Format:
    return FORMATS[model["acc"]]


def _limit(model: dict[str, Any]) -> float:
    fmt = _accumulator(model)
    return fmt.max * (1.0 - 2.0 * model["rho"]) if model["rho"] > fmt.u else fmt.max


def _error(
    chain: Chain, products: list[Interval], model: dict[str, Any], total: Interval, size: Raw, addends: Raw
) -> tuple[Raw, Raw]:
    """(bound of the error of every order, of every partial sum)."""
    fmt = _accumulator(model)
    emin = FP32.emin if model["convert"] else fmt.emin
    single = model["block"] == 1
    aligned = 0.0 if single else (model["block"] + (model["fraction"] < 23)) * 2.0 ** -model["fraction"]
    align, rho, u = b.up(b.raw(aligned), b.raw(model["extra"])), b.raw(model["rho"]), b.power(-fmt.p)
    omega = b.up(b.times_up(b.power(emin), rho), b.power(-125) if model["flush"] else fzero)
    omega = libmp.mpf_mul(omega, from_int(2 if single else 1))
    leaf = b.times_up(rho, size) if single else fzero
    peak = b.times_up(b.most([fzero, *(b.magnitude(p) for p in products)]), b.up(fone, b.raw(model["growth"])))
    wide = _widest(chain, model, emin, peak)
    half = libmp.mpf_shift(b.up(size, b.magnitude(total)), -1)
    reach = b.least((size, half))
    added = b.times_up(b.times_up(from_int(chain.adds), u), b.up(reach, b.power(fmt.emin)))
    first = fzero
    if not model["chops"]:
        first = _compound(reach, align, rho, u, omega, wide, chain.blocks, chain.adds)
        first = b.up(b.times_up(leaf, b.up(fone, growth(b.up(b.up(align, rho), u), chain.blocks + chain.adds))), first)
    grown = b.times_up(reach, growth(u, chain.adds))
    top = b.up(b.up(reach, first), grown)
    refined = b.up(leaf, b.times_up(from_int(chain.adds), b.times_up(u, b.up(floor_power(top), b.power(fmt.emin)))))
    step = b.times_up(from_int(int(model["block"])), peak)
    start = b.up(addends, b.up(first, grown))
    refined = b.up(refined, _blocks(chain.blocks, start, step, top, align, rho, omega, wide))
    error = b.least((refined, b.up(first, added))) if first != fzero else refined
    if model["promote"] and not chain.through:
        deep = _compound(size, align, rho, u, omega, wide, chain.deepest, chain.adds)
        error = b.least((error, b.up(deep, added)))
    return error, b.up(top, error)


def _widest(chain: Chain, model: dict[str, Any], emin: int, peak: Raw) -> Raw:
    """W: what products of subnormal operands, which the unit does not normalise, may be aligned to."""
    tiny = b.power(int(model["emin"]))
    ends = [tiny, *(b.magnitude(x) for pair in chain.products for x in pair)]
    products = b.times_up(b.times_up(tiny, b.most(ends)), b.up(fone, b.raw(model["growth"])))
    return b.most((b.power(emin), products, b.times_up(b.raw(model["subnormal"]), peak)))


def _compound(reach: Raw, align: Raw, rho: Raw, u: Raw, omega: Raw, wide: Raw, blocks: int, adds: int) -> Raw:
    """reach ((1 + theta)^blocks (1 + u)^adds - 1), and what each block loses absolutely."""
    theta = b.up(align, rho)
    whole = b.times_up(b.up(fone, growth(theta, blocks)), b.up(fone, growth(u, adds)))
    beyond = b.most((fzero, libmp.mpf_sub(wide, reach, PREC, "c")))
    eta = b.up(b.times_up(align, beyond), omega)
    local = b.times_up(b.times_up(from_int(blocks), eta), whole)
    return b.up(b.times_up(reach, libmp.mpf_sub(whole, fone, PREC, "c")), local)


def _blocks(blocks: int, start: Raw, step: Raw, top: Raw, align: Raw, rho: Raw, omega: Raw, wide: Raw) -> Raw:
    """Block by block: align g(max(V_b, W)) + rho g(V_b) + omega, V_b = min(top, start + b step)."""
    out = b.times_up(from_int(blocks), omega)
    widest, value = floor_power(wide), start
    for done in range(blocks):
        value = b.up(value, step)
        full = not b.less(value, top)
        here = floor_power(top if full else value)
        one = b.up(b.times_up(align, b.most((here, widest))), b.times_up(rho, here))
        if full:  # from here on all blocks are alike
            return b.up(out, b.times_up(from_int(blocks - done), one))
        out = b.up(out, one)
    return out


def _one_sided(out: Maybe, total: Interval, size: Raw, chain: Chain, model: dict[str, Any]) -> Maybe:
    """Units that only cut cannot leave the sums of the terms of one sign, up to the same sum rounded to nearest."""
    if out is None:
        return None
    count = chain.adds + len(chain.products) * int(model["terms"])
    grown = b.up(fone, growth(b.power(-FP32.p), count))
    room = b.times_up(from_int(chain.adds), b.power(_accumulator(model).emin))
    above = b.up(b.times_up(libmp.mpf_shift(b.up(size, total[1]), -1), grown), room)
    below = b.up(b.times_up(libmp.mpf_shift(b.up(size, libmp.mpf_neg(total[0])), -1), grown), room)
    return b.most((out[0], libmp.mpf_neg(below))), b.least((out[1], above))
