r"""The error of a sum on a matrix unit, from the block-FMA model.

At most L products and the accumulator per block, cut to F fraction bits at the largest exponent, one rounding rho. The
partial sum after b blocks is at most V_b = min(R, sum |c| + b L max |p|), with R = (S + |T|) / 2 the largest sum of
terms of one sign. Block b loses at most n_t 2^-F times the power of two at the top of its largest term, plus rho times
that of its result, plus omega. Units that round to nearest may exceed V_b by the error so far, for which
(1 + theta)^n - 1 is a first bound.

Where products are aligned among themselves (`apart`), the n_t cuts are relative to the largest product of their block,
over all blocks to no more than sum |p| + n W; `extra` stays relative to V_b. Where all terms are multiples of q and the
largest power of two in a block is at most q 2^F, nothing is cut; where the sums fit besides, nothing is rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpmath import libmp
from mpmath.libmp import fone, from_int, fzero

from interval_ops.formats.model import FORMATS, Format
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
    fmt, q = accumulator(model), _grid(chain, products, model)
    emin = FP32.emin if model["convert"] else fmt.emin
    single = model["block"] == 1
    aligned = 0.0 if single else (model["block"] + (model["fraction"] < 23)) * 2.0 ** -model["fraction"]
    inner, outer = b.raw(aligned), b.raw(model["extra"])
    align, rho, u = b.up(inner, outer), b.raw(model["rho"]), b.power(-fmt.p)
    omega = b.up(b.times_up(b.power(emin), rho), b.power(-125) if model["flush"] else fzero)
    omega = libmp.mpf_mul(omega, from_int(2 if single else 1))
    leaf = b.times_up(rho, size) if single else fzero
    peak = b.times_up(products.peak, b.up(fone, b.raw(model["growth"])))
    wide = _widest(products, model, emin, peak)
    half = libmp.mpf_shift(b.up(size, b.magnitude(total)), -1)
    reach = b.least((size, half))
    if q is not None and _fits(q, reach, wide, model):
        return fzero, reach
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
    largest, sums = _blocks(chain.blocks, start, step, top, wide)
    cut = _aligned(largest, chain, products, model, top, peak, wide)
    if q is not None and not b.less(q, _least_kept(b.most((top, wide)), model)):
        cut = fzero
    refined = b.up(refined, b.up(b.times_up(inner, cut), b.times_up(outer, largest)))
    refined = b.up(refined, b.up(b.times_up(rho, sums), b.times_up(from_int(chain.blocks), omega)))
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


def _blocks(blocks: int, start: Raw, step: Raw, top: Raw, wide: Raw) -> tuple[Raw, Raw]:
    """Sums over the blocks of g(max(V_b, W)) and of g(V_b), V_b = min(top, start + b step)."""
    largest = sums = fzero
    widest, value = floor_power(wide), start
    for done in range(blocks):
        value = b.up(value, step)
        full = not b.less(value, top)
        here = floor_power(top if full else value)
        count = from_int(blocks - done if full else 1)  # from where V_b is full on all blocks are alike
        largest = b.up(largest, b.times_up(count, b.most((here, widest))))
        sums = b.up(sums, b.times_up(count, here))
        if full:
            break
    return largest, sums


def _aligned(
    largest: Raw, chain: Chain, products: Products, model: dict[str, Any], top: Raw, peak: Raw, wide: Raw
) -> Raw:
    """What the cuts of all blocks are relative to."""
    if not model.get("apart"):
        return largest
    count = from_int(chain.blocks)
    each = b.times_up(count, floor_power(b.most((b.least((top, peak)), wide))))
    weight = b.times_up(products.weight, b.up(fone, b.raw(model["growth"])))
    return b.least((largest, each, b.up(weight, b.times_up(count, wide))))


# common grids


def _grid(chain: Chain, products: Products, model: dict[str, Any]) -> Raw | None:
    """A power of two of which all terms are multiples; None where none is known."""
    plain = not (model["flush"] or model["eps"] or model["floor"]) and model["terms"] == 1
    if not plain or model["acc"] not in ("fp32", "fp16") or products.step is None:
        return None
    if any(x[0] != x[1] for x in chain.addends):
        return None
    return b.power(min([products.step, *(int(x[0][2]) for x in chain.addends if x[0][1])]))


def _least_kept(largest: Raw, model: dict[str, Any]) -> Raw:
    """The lowest bit that alignment to this number keeps."""
    return fzero if model["block"] == 1 else libmp.mpf_shift(floor_power(largest), -int(model["fraction"]))


def _fits(q: Raw, reach: Raw, wide: Raw, model: dict[str, Any]) -> bool:
    """Whether every sum of multiples of q up to `reach` is kept as it is."""
    fmt = accumulator(model)
    spacing = b.most((b.raw(model["rho"] * (1.0 if model["chops"] else 2.0)), b.power(1 - fmt.p)))
    emin = max(FP32.emin if model["convert"] else fmt.emin, fmt.emin)
    least = b.most((
        _least_kept(b.most((reach, wide)), model),
        b.times_up(libmp.mpf_shift(spacing, -1), reach),
        b.times_up(spacing, b.power(emin)),
    ))  # fmt: skip
    return not b.less(q, least)
