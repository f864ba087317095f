r"""The dot rule: enclosures of chains of `tl.dot` on a target, with one bound over the total K.

A matrix unit that follows the block-FMA model (`profile.DotModel`) puts at most L exact products and the accumulator
into a block, aligns them to the largest exponent e, cuts each below 2^(e-F), adds exactly and rounds with relative
error rho. The terms (products p_i, addends c_j) may come in any order, assigned to blocks in any way. With

    T = sum of all terms,   S = sum of magnitudes,   P = (S + T)/2,   N = (S - T)/2,   R = max(P, N) = (S + |T|)/2,

P and -N are the sums of the positive and of the negative terms, so that every partial sum of any order lies in [-N, P]
and is at most R in magnitude. W = max(2^emin_acc, max_i a^_i b^_i), a^ = max(|a|, 2^emin) of the operand format, bounds
the exponents of products: a subnormal operand is aligned at emin with an unnormalised significand. Products of normal
operands are at most R; the others at most 2^emin max(max|a|, max|b|, 2^emin), which needs only the peaks of row and
column. n_t is the number of terms that alignment may cut, g(x) the largest power of two <= x, n the number of blocks.

*Units that chop* (everything discarded is discarded towards zero, the rounding included). The computed partial sums t_b
stay in [-N_b, P_b], the sums of the terms so far of either sign: a positive accumulator and positive products only
shrink, negative ones are at most 0. Hence 2^e <= max(g(|t_b|), g(W)), each cut loses less than 2^(e-F), and the
rounding less than rho g(|t_b|):

    |t - T| <= sum_b n_t 2^-F max(g(V_b), g(W)) + rho g(V_b) + omega,      -N <= t <= P,
    V_b = min(R, sum |c_j| + b L max |p_i|),

since b blocks hold no more than b L products. No factor (1 + theta)^n: thirteen bits over thousands of blocks have an
error, but not an unbounded one, and sums of one sign are never too large.

*Products aligned among themselves* (CDNA3): the unit cuts the products of a block below the largest of them, adds
them, and brings only this sum together with the accumulator. The n_t cuts of a block are then relative to the largest
power of two in its own products: at most g(max |p_i|), and over all blocks no more than sum |p_i| + n W, as each block
has a largest product of its own. What is lost where sum and accumulator meet (`extra`) stays relative to g(V_b).

*Units that round to nearest, chains of fma.* Local errors e_b <= theta (R + E_{b-1}) + n_t 2^-F max(0, W - R) + omega,
E_b = e_1 + ... + e_b, give |t - T| <= E = R ((1 + theta)^n - 1) + n eta (1 + theta)^(n-1), theta = n_t 2^-F + rho. For
a tree of operations, number the nodes so that operands come first: the same recurrence holds for the n nodes in that
order, a node after b blocks holds at most b L products. With |t_b| <= V_b + E known, the sum above (V_b + E for V_b)
bounds the error again, up to two times tighter. For L = 1 the products themselves may be rounded before they are added:
at most rho S more.

The limits -N and P are taken times (1 + 2^-24)^K, which the same sum in fp32 to nearest keeps: a CPU that interprets
the kernel, or a compiler that leaves the unit out, computes a sum of one sign a little too large.

Separate additions (accumulators added afterwards, promoted partial sums) round to nearest: u g(R (1 + u)^k) each. An
addition that takes the place of a unit's accumulator costs nothing where u <= 2^-F, because a block that starts from
zero has one term less to cut.

Where partial sums are promoted, the path from a term to the result is shorter than the number of all operations; then
S ((1 + theta)^depth - 1) + ... is a bound as well, and the smaller one counts.

Source: MMA-Sim (arXiv 2511.10909), Khattak and Mikaitis (arXiv 2512.07004) for the parameters; the bounds are proved
above. A common mistake is to drop W: with subnormal operands the purely relative bound is wrong by a factor of several
hundred. Another is to use R (or P) of the final sum of one order only: T decides, not the order.

Where the order of a chain is known (`Profile.known_order`), `dot_chain` narrows all this by the running sums, and
`dot_replay`, for points, to the few results that are left.

*Common grids* (`grid`): where all terms are multiples of q and 2^e <= q 2^F, alignment cuts nothing; where all sums
that can occur are representable besides, nothing is rounded in any order, and the bound is the exact sum.

tf32: the unit reads fp32 operands without their last 13 bits. Legal executions cut all of them, of both operands: every
tf32 dot of Triton 3.6 to 3.9 for sm_80 to sm_121 is an mma on raw bits, also for tiny and for batched tiles, never an
fma, and nothing rounds an operand before (PTX; no cvt.rna). The exact result cuts none. The enclosure is the hull of
these two sums, each evaluated exactly: one float64 matrix product more, and several times narrower than 2^-9 sum |a b|.
That units cut is PyTorch's note on numerical accuracy and what bit-true models of measured units do; PTX leaves the
layout of .tf32 to the implementation. A target that nobody named (`any`) may therefore round both operands to nearest
instead (`DotModel.rounds`): a third sum. A unit that read only one operand in another way would need another hull.
Reading is monotone, so interval operands have the same sums, of their ends as they are read. Units that flush subnormal
operands (CDNA2) are treated alike, with the flushed operands in place of the cut ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from interval_ops.bounds import Pair
from interval_ops.dot.chain import LONGEST, chain_interval
from interval_ops.dot.close import close, close_near
from interval_ops.dot.kernels import Parameters
from interval_ops.dot.parameters import EXACT, Roundings, accumulator, parameters
from interval_ops.dot.readings import Readers, flush_small, round_tf32, truncate_tf32
from interval_ops.dot.replay import NOWHERE, chain_results, exact_sum, replayable
from interval_ops.dot.sums import Centred, DotSums, Product, centred, evaluate
from interval_ops.formats.model import FORMATS, Format
from interval_ops.profiles.profile import DotModel, Profile

FLUSH = 512
"""Deferred products are summed as soon as their K reaches this; independent of the batch, so results are too."""
SHORT = 256
"""Chains of fma up to this many products are worth a look at how their partial sums grow."""


@dataclass(frozen=True)
class PendingDot:
    """c + sum of dots whose rounding is not decided yet; immutable, every step returns a new one.

    Shapes: a (..., M, K), b (..., K, N), c and the result (..., M, N); leading axes broadcast, and so does an axis of
    length 1. Operands are kept by reference until they are summed: do not write to them. `work` counts all roundings,
    `depth` those on the longest path from a term to the result, `free` the additions that a block pays for.
    `places` says behind how many products each addend came.
    """

    shape: tuple[int, ...]
    kind: str
    profile: Profile
    queue: list[Product]
    count: int = 0
    queued: int = 0
    base: DotSums | None = None
    parts: int = 0
    addends: tuple[Pair, ...] = ()
    places: tuple[int, ...] = ()
    terms: int = 0
    work: Roundings = EXACT
    depth: Roundings = EXACT
    free: int = 0

    @staticmethod
    def start(acc: Pair | None, shape: Sequence[int], kind: str, profile: Profile) -> PendingDot:
        """The empty sum plus `acc` (None is an exact zero). `shape` is the logical shape, for error messages only."""
        profile.dot(kind)
        empty = PendingDot(tuple(shape), kind, profile, [])
        return empty if acc is None else empty.add(acc, rounded=False)

    @cached_property
    def model(self) -> DotModel:
        return self.profile.dot(self.kind)

    @property
    def accumulator(self) -> Format:
        """Format of the result; a pending sum of integers does not exist."""
        return FORMATS[self.model.acc]

    def extend(self, a: Pair, b: Pair, *, k: int | None = None, imprecise: int | None = None) -> PendingDot:
        """dot(a, b, self). `k` is needed only where both operands are broadcast along K.

        `imprecise` is tl.dot's max_num_imprecise_acc: on a target that promotes partial sums, each `imprecise` products
        are summed by the unit alone and then added in fp32. None leaves the whole K to the unit.
        """
        size = max(a[0].shape[-1], b[0].shape[-2]) if k is None else k
        if a[0].shape[-1] not in (1, size) or b[0].shape[-2] not in (1, size):
            raise ValueError(f"dot: operands {a[0].shape} and {b[0].shape} do not agree on K")
        queue, count = self._append([Product(a, b, size)])
        work, depth = self._roundings(size, imprecise)
        longer = replace(self, queue=queue, count=count, queued=self.queued + size, terms=self.terms + size)
        return replace(longer, work=work, depth=depth)._flushed()

    def of_centred(self, shape: tuple[int, ...], size: int, part: Centred) -> Pair:
        """Bounds of one dot of `size` products, onto what was added so far, whose sums were evaluated elsewhere."""
        work, depth = self._roundings(size, None)
        known = replace(self, terms=self.terms + size, work=work, depth=depth, parts=self.parts + 1)
        with np.errstate(all="ignore"):
            found = close_near(shape, True, [[part]], self.addends, known._parameters, known._ramped)
        assert found is not None
        return found

    @property
    def reads_as_given(self) -> bool:
        """Whether the unit multiplies operands as they are."""
        return not _readers(self.model) and self.model.terms == 1

    def _roundings(self, size: int, imprecise: int | None) -> tuple[Roundings, Roundings]:
        """Totals and longest path after one more dot of `size` products."""
        model = self.model
        if model.promote and imprecise and imprecise < size:
            parts, inner = math.ceil(size / imprecise), model.terms * math.ceil(imprecise / model.block)
            sums = Roundings(0, parts)
            return self.work + sums + Roundings(parts * inner), self.depth.beside(Roundings(inner)) + sums
        # Split operands (tf32x3, ...) are summed from zero, the accumulator is added afterwards.
        one = Roundings(model.terms * math.ceil(size / model.block), (model.terms > 1) + model.convert)
        return self.work + one, self.depth + one

    def _append(self, more: list[Product]) -> tuple[list[Product], int]:
        """The queue with `more` behind this sum's own part, shared with this sum where nobody else appended yet."""
        queue = self.queue if len(self.queue) == self.count else self.queue[: self.count]
        queue.extend(more)
        return queue, len(queue)

    def _behind(self, product: Product) -> Product:
        """A product of another sum that goes on where this one ends, or is summed from where it began before."""
        if not self.in_order:
            return product
        return replace(product, starts=(0, *(start + self.count for start in product.starts)))

    @property
    def in_order(self) -> bool:
        """Whether products are assumed to be added one by one along k."""
        return self.profile.known_order and self.model.sequential

    def _flushed(self) -> PendingDot:
        if self.queued < (LONGEST if self.in_order else FLUSH):
            return self
        return replace(self, queue=[], count=0, queued=0, base=self._sums(), parts=self.parts + 1)

    def add(self, c: Pair, *, rounded: bool) -> PendingDot:
        """c + self, folded into the accumulator or, if `rounded`, possibly added by an instruction of its own."""
        once = Roundings(0, 1 if self.model.block == 1 or rounded else 0)
        free = once.adds if self._add_is_free else 0
        return replace(
            self,
            addends=(*self.addends, c),
            places=(*self.places, self.count),
            work=self.work + once,
            depth=self.depth + once,
            free=self.free + free,
        )

    def join(self, other: PendingDot, *, rounded: bool = True) -> PendingDot:
        """self + other, two sums of the same kind: `acc += tl.dot(a, b)` without finalising either.

        Folded, a term of the accumulator passes the blocks of both; added by its own instruction (one more rounding to
        nearest, which a block's theta covers), only its own. Where the target promotes, the second case is certain.
        """
        if (self.kind, self.profile.name) != (other.kind, other.profile.name):
            raise ValueError(f"cannot join dots of kinds {self.kind} and {other.kind}")
        if self.profile.off != other.profile.off:
            # Causes muted on one side only: each sum gets its own bound, and self still passes the blocks of other.
            closed = self.add(other.interval(), rounded=rounded)
            passed = Roundings(other.work.blocks)
            return replace(closed, work=closed.work + passed, depth=closed.depth + passed)
        queue, count = self._append([self._behind(product) for product in other.queue[: other.count]])
        apart, once = rounded and self.model.promote, Roundings(0, int(rounded))
        free = int(rounded and self._add_is_free and other.work.blocks > 0)
        base = self.base if other.base is None else other.base if self.base is None else self.base.plus(other.base)
        return replace(
            self,
            queue=queue,
            count=count,
            queued=self.queued + other.queued,
            base=base,
            parts=self.parts + other.parts,
            addends=self.addends + other.addends,
            places=self.places + (NOWHERE,) * len(other.places),
            terms=self.terms + other.terms,
            work=self.work + other.work + once,
            depth=(self.depth.beside(other.depth) if apart else self.depth + other.depth) + once,
            free=self.free + other.free + free,
        )._flushed()

    @property
    def _add_is_free(self) -> bool:
        """Whether a separate addition costs no more than the accumulator's place in the block it replaces."""
        model = self.model
        single = not model.promote and model.terms == 1 and model.block > 1 and self.work.blocks > 0
        return single and 2.0**-model.fraction >= accumulator(model)[2]

    @property
    def causes(self) -> frozenset[str]:
        """The causes that widen this sum on this target, muted ones left out."""
        found = {self.model.cause} if self.model.rho else set()
        if self.model.truncate or self.model.flush or self.model.eps or self.model.floor:
            found.add("operand")
        return frozenset(cause for cause in found if not self.profile.muted(cause))

    def _sums(self) -> DotSums:
        """All products so far, evaluated."""
        if not self.count:
            assert self.base is not None
            return self.base
        new = evaluate(self.queue[: self.count], *self._reading)
        return new if self.base is None else self.base.plus(new)

    def _near(self) -> Pair | None:
        """The bounds in fewer passes over memory; None where this form has none."""
        if self.base is not None:
            return None
        found = centred(self.queue[: self.count], *self._reading)
        return None if found is None else close_near(*found, self.addends, self._parameters, self._ramped)

    @property
    def _reading(self) -> tuple[Readers, bool, float, bool]:
        """How products are evaluated: `readers`, `narrow`, `limit` and `integer` of `dot_sums.evaluate`."""
        model = self.model
        integer = model.acc == "int32"
        readers = () if self.profile.muted("operand") else _readers(model)
        # The big part of a split operand is rounded to nearest and would overflow near the end of the range.
        limit = 2.0**127 if model.terms > 1 else math.inf
        return readers, model.acc != "fp64" and not integer, limit, integer

    def interval(self) -> Pair:
        """[lo, hi] in float64: the exact value and every legal result; NaN in both ends where anything may happen."""
        return self._interval

    @cached_property
    def _interval(self) -> Pair:
        with np.errstate(all="ignore"):
            if not self.terms:
                return self._close_addends()
            bounds = self._near() or close(self._sums(), self.addends, self._parameters, self._ramped)
            return self._chain(bounds) if self.in_order and self.base is None else bounds

    def _chain(self, bounds: Pair) -> Pair:
        """Where the order is known: the part of `bounds` that the running sums allow."""
        model = self.model
        if self.profile.muted(model.cause):
            return bounds
        emin, last, adding = accumulator(model)
        products, shape = self.queue[: self.count], bounds[0].shape
        if model.acc == "fp32" and replayable(products, self.addends, self.places):
            ends = (chain_results(products, self.addends, self.places, shape), exact_sum(products, self.addends, shape))
            low, high = np.minimum(ends[0][0], ends[1][0]), np.maximum(ends[0][1], ends[1][1])
            known = np.isfinite(low) & np.isfinite(high) & np.isfinite(ends[1][0])
            low, high = (np.where(known, x, np.nan) for x in (low, high))
        else:
            work = self.work.adds
            low, high = chain_interval(products, self.addends, shape, model.rho, emin, last, work, adding)
        return np.fmax(bounds[0], low), np.fmin(bounds[1], high)

    @property
    def _ramped(self) -> bool:
        """Whether it counts how partial sums grow: for coarse accumulators, and for short chains of fma."""
        return self.model.cause == "lowacc" or (self.model.block == 1 and self.terms <= SHORT)

    @property
    def _parameters(self) -> Parameters:
        parts = self.parts + len(self.addends)
        return parameters(self.model, self.profile, self.terms, parts, self.work, self.depth, self.free)

    def _close_addends(self) -> Pair:
        """No product at all: the addends, with their own roundings."""
        shape = np.broadcast_shapes(*(c[0].shape for c in self.addends), (1,) * (len(self.shape[-2:]) + 1))
        zero = np.zeros(shape)
        rows, columns = np.zeros(shape[:-1]), np.zeros((*shape[:-2], shape[-1]))
        # The sum of no products is zero, a multiple of anything.
        sums = DotSums(zero, zero, zero, zero, zero, rows, columns, rows + np.inf, columns + np.inf)
        return close(sums, self.addends, self._parameters, self._ramped)


def _readers(model: DotModel) -> Readers:
    """What the unit makes of its operands before it multiplies; none if nothing (or if `floor` covers it)."""
    if model.truncate == "tf32":
        return (truncate_tf32, round_tf32) if model.rounds else (truncate_tf32,)
    return (partial(flush_small, least=2.0**model.emin),) if model.flush and model.terms == 1 else ()
