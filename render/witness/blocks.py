r"""The error of a sum on a matrix unit, from the block-FMA model.

At most L products and the accumulator per block, cut to F fraction bits at the largest exponent, one rounding rho. The
partial sum after b blocks is at most V_b = min(R, sum |c| + b L max |p|), with R = (S + |T|) / 2 the largest sum of
terms of one sign. Block b loses at most n_t 2^-F times the power of two at the top of its largest term, plus rho times
that of its result, plus omega. Units that round to nearest may exceed V_b by the error so far, for which
(1 + theta)^n - 1 is a first bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpmath import libmp
from mpmath.libmp import fone, from_int, fzero

from interval_ops.formats import FORMATS, Format
from render.witness import balls as b
from render.witness.balls import FP32, PREC, Interval, Raw
from render.witness.sums import growth

if TYPE_CHECKING:
    from render.witness.chains import Chain, Products


def floor_power(x: Raw) -> Raw:
    """The largest power of two that is at most x; 0 for 0."""
    return b.power(b.binary_exponent(x)) if x[1] else fzero


def accumulator(model: dict[str, Any]) -> Format:
    return FORMATS[model["acc"]]


def error(
    chain: Chain, products: Products, model: dict[str, Any], total: Interval, size: Raw, addends: Raw
) -> tuple[Raw, Raw]:
    """(bound of the error of every order, of every partial sum)."""
    fmt = accumulator(model)
    emin = FP32.emin if model["convert"] else fmt.emin
    single = model["block"] == 1
    aligned = 0.0 if single else (model["block"] + (model["fraction"] < 23)) * 2.0 ** -model["fraction"]
    align, rho, u = b.up(b.raw(aligned), b.raw(model["extra"])), b.raw(model["rho"]), b.power(-fmt.p)
    omega = b.up(b.times_up(b.power(emin), rho), b.power(-125) if model["flush"] else fzero)
    omega = libmp.mpf_mul(omega, from_int(2 if single else 1))
    leaf = b.times_up(rho, size) if single else fzero
    peak = b.times_up(products.peak, b.up(fone, b.raw(model["growth"])))
    wide = _widest(products, model, emin, peak)
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
    wrong = b.least((refined, b.up(first, added))) if first != fzero else refined
    if model["promote"] and not chain.through:
        deep = _compound(size, align, rho, u, omega, wide, chain.deepest, chain.adds)
        wrong = b.least((wrong, b.up(deep, added)))
    return wrong, b.up(top, wrong)


def _widest(products: Products, model: dict[str, Any], emin: int, peak: Raw) -> Raw:
    """W: what products of subnormal operands, which the unit does not normalise, may be aligned to."""
    tiny = b.power(int(model["emin"]))
    small = b.times_up(b.times_up(tiny, b.most((tiny, products.largest))), b.up(fone, b.raw(model["growth"])))
    return b.most((b.power(emin), small, b.times_up(b.raw(model["subnormal"]), peak)))


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
