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

from interval_ops.formats.model import FORMATS, Format
from render.exact import intervals as iv
from render.exact.formats import FP32
from render.exact.intervals import Interval
from render.exact.points import ONE, ZERO, Point, exponent, least, most, number, power, shifted, times_up, up
from render.witness.sums import growth
from render.witness.tally import Tally

if TYPE_CHECKING:
    from render.witness.chains import Chain


def floor_power(x: Point) -> Point:
    """The largest power of two that is at most x; 0 for 0."""
    return power(exponent(x)) if x > 0 else ZERO


def accumulator(model: dict[str, Any]) -> Format:
    return FORMATS[model["acc"]]


def error(chain: Chain, model: dict[str, Any], total: Interval, size: Point, addends: Point) -> tuple[Point, Point]:
    """(bound of the error of every order, of every partial sum)."""
    fmt, q = accumulator(model), _grid(chain, model)
    emin = FP32.emin if model["convert"] else fmt.emin
    single = model["block"] == 1
    aligned = 0.0 if single else (model["block"] + (model["fraction"] < 23)) * 2.0 ** -model["fraction"]
    inner, outer = number(aligned), number(model["extra"])
    align, rho, u = up(inner, outer), number(model["rho"]), power(-fmt.p)
    omega = up(times_up(power(emin), rho), power(-125) if model["flush"] else ZERO)
    omega = shifted(omega, int(single))
    leaf = times_up(rho, size) if single else ZERO
    peak = times_up(chain.exact.largest, up(ONE, number(model["growth"])))
    wide = _widest(chain, model, emin, peak)
    half = shifted(up(size, iv.magnitude(total)), -1)
    reach = least((size, half))
    if q is not None and _fits(q, reach, wide, model):
        return ZERO, reach
    added = times_up(times_up(number(chain.adds), u), up(reach, power(fmt.emin)))
    first = ZERO
    if not model["chops"]:
        first = _compound(reach, align, rho, u, omega, wide, chain.blocks, chain.adds)
        first = up(times_up(leaf, up(ONE, growth(up(up(align, rho), u), chain.blocks + chain.adds))), first)
    grown = times_up(reach, growth(u, chain.adds))
    top = up(up(reach, first), grown)
    refined = up(leaf, times_up(number(chain.adds), times_up(u, up(floor_power(top), power(fmt.emin)))))
    step = times_up(number(int(model["block"])), peak)
    start = up(addends, up(first, grown))
    largest, sums = _blocks(chain.blocks, start, step, top, wide)
    cut = _aligned(largest, chain, model, top, peak, wide)
    if q is not None and q >= _least_kept(most((top, wide)), model):
        cut = ZERO
    refined = up(refined, up(times_up(inner, cut), times_up(outer, largest)))
    refined = up(refined, up(times_up(rho, sums), times_up(number(chain.blocks), omega)))
    wrong = least((refined, up(first, added))) if first != ZERO else refined
    if model["promote"] and not chain.through:
        deep = _compound(size, align, rho, u, omega, wide, chain.deepest, chain.adds)
        wrong = least((wrong, up(deep, added)))
    return wrong, up(top, wrong)


def _widest(chain: Chain, model: dict[str, Any], emin: int, peak: Point) -> Point:
    """W: what products of subnormal operands, which the unit does not normalise, may be aligned to."""
    tiny = power(int(model["emin"]))
    small = times_up(times_up(tiny, most((tiny, chain.operands.largest))), up(ONE, number(model["growth"])))
    return most((power(emin), small, times_up(number(model["subnormal"]), peak)))


def _compound(
    reach: Point, align: Point, rho: Point, u: Point, omega: Point, wide: Point, blocks: int, adds: int
) -> Point:
    """reach ((1 + theta)^blocks (1 + u)^adds - 1), and what each block loses absolutely."""
    theta = up(align, rho)
    whole = times_up(up(ONE, growth(theta, blocks)), up(ONE, growth(u, adds)))
    beyond = most((ZERO, up(wide, -reach)))
    eta = up(times_up(align, beyond), omega)
    local = times_up(times_up(number(blocks), eta), whole)
    return up(times_up(reach, up(whole, -ONE)), local)


def _blocks(blocks: int, start: Point, step: Point, top: Point, wide: Point) -> tuple[Point, Point]:
    """Sums over the blocks of g(max(V_b, W)) and of g(V_b), V_b = min(top, start + b step)."""
    largest = sums = ZERO
    widest, value = floor_power(wide), start
    for done in range(blocks):
        value = up(value, step)
        full = value >= top
        here = floor_power(top if full else value)
        count = number(blocks - done if full else 1)  # from where V_b is full on all blocks are alike
        largest = up(largest, times_up(count, most((here, widest))))
        sums = up(sums, times_up(count, here))
        if full:
            break
    return largest, sums


def _aligned(largest: Point, chain: Chain, model: dict[str, Any], top: Point, peak: Point, wide: Point) -> Point:
    """What the cuts of all blocks are relative to."""
    if not model.get("apart"):
        return largest
    count = number(chain.blocks)
    each = times_up(count, floor_power(most((least((top, peak)), wide))))
    weight = times_up(chain.exact.size, up(ONE, number(model["growth"])))
    return least((largest, each, up(weight, times_up(count, wide))))


# common grids


def _grid(chain: Chain, model: dict[str, Any]) -> Point | None:
    """A power of two of which all terms are multiples; None where none is known."""
    plain = not (model["flush"] or model["eps"] or model["floor"]) and model["terms"] == 1
    if not plain or model["acc"] not in ("fp32", "fp16"):
        return None
    steps = [terms.step for terms in (chain.exact, chain.read, Tally(chain.addends))]
    known = [step for step in steps if step is not None]
    return power(min(known)) if len(known) == len(steps) else None


def _least_kept(largest: Point, model: dict[str, Any]) -> Point:
    """The lowest bit that alignment to this number keeps."""
    return ZERO if model["block"] == 1 else shifted(floor_power(largest), -int(model["fraction"]))


def _fits(q: Point, reach: Point, wide: Point, model: dict[str, Any]) -> bool:
    """Whether every sum of multiples of q up to `reach` is kept as it is."""
    fmt = accumulator(model)
    spacing = most((number(model["rho"] * (1.0 if model["chops"] else 2.0)), power(1 - fmt.p)))
    emin = max(FP32.emin if model["convert"] else fmt.emin, fmt.emin)
    least = most((
        _least_kept(most((reach, wide)), model),
        times_up(shifted(spacing, -1), reach),
        times_up(spacing, power(emin)),
    ))  # fmt: skip
    found: bool = q >= least
    return found
