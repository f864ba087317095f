r"""Reductions and scans by a function that is linear in either operand: complex and matrix products, dual numbers, ...

    f(x, y)_o = sum_ij c_oij x_i y_j,   x_0 = y_0 = 1 stands for terms of one operand alone (and then f_0 = x_0 y_0)

f is associative in exact arithmetic, so x_1 .. x_n have one product P, however bracketed. With roundings each merge
gives f(x, y) + E, |E| <= g |f|(|x|, |y|), where |f| has the magnitudes of all terms of the text of f, those that cancel
included, g = (1 + u)^d - 1 and d the most roundings that a term passes. Two bounds follow, and the smaller one counts.

By components, where |f| is associative too: |computed - P| <= ((1 + u)^(d (n-1)) - 1) A, A the product of |x_i| by |f|:
every term of P passes at most d roundings in each of n - 1 merges.

By norms, where f has a unit e: |x|_* = |L_x|_2, L_x the matrix of y -> f(x, y), is submultiplicative, |x|_2 <= |e|_2
|x|_*, and a merge errs by at most k |x|_* |y|_*, k = g |c|_F |C|_F |e|^2 (C: magnitudes of all terms). So in any
bracketing the components are off by at most |e| ((1 + k)^(n-1) - 1) prod |x_i|_*, which for rotations does not grow
beyond n k, where A grows exponentially.

An underflow loses eta per product, which the other factors carry on: in components at most by C_1^2 B^2, C_1 the most
that a row of C sums to and B the product of max(|x_i|, |e|), which no product of some of them exceeds; in the norm by
prod max(1, |x_i|_*). Operands with width: (m + r) as the product of the midpoints, and what |f| or the norm make of r.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., lemma 3.1 and sec. 3.5, 3.6 (error of products
of matrices, norm-wise and by components); the norm is that of the left regular representation.
A common mistake: complex products by interval arithmetic, whose boxes grow by a factor of up to sqrt 2 with each turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from interval_ops.bounds import Array, Pair
from interval_ops.formats.model import Format
from interval_ops.profiles.profile import Profile
from interval_ops.reduction.rule import rounding_unit, sum_cause
from interval_ops.reduction.scan import along, back

_UP = 1.0 + 2.0**-48
_EPS = 2.0**-53


@dataclass(frozen=True, eq=False)
class Algebra:
    """c[o, i, j] of f and the magnitudes of all terms of its text, (k + 1)^3, index 0 the constant 1; `roundings`: d,
    and the most products in one component."""

    c: Array
    magnitudes: Array
    roundings: int
    products: int

    @property
    def associative(self) -> bool:
        return _associative(self.c)

    @cached_property
    def used(self) -> Algebra:
        """Without the constant, where no term is of one operand alone."""
        alone = self.c[1:, 0].any() or self.c[1:, :, 0].any() or len(self.c) == 1
        inner = (slice(1, None),) * 3
        return self if alone else Algebra(self.c[inner], self.magnitudes[inner], self.roundings, self.products)

    @property
    def commutes(self) -> bool:
        return bool((self.c == self.c.swapaxes(1, 2)).all())

    @cached_property
    def by_components(self) -> bool:
        return _associative(self.magnitudes)

    @cached_property
    def unit(self) -> Array | None:
        """e with f(e, y) = y = f(x, e), as numbers that float64 holds; None where there is none."""
        k = len(self.c)
        left, right = self.c.transpose(0, 2, 1).reshape(k * k, k), self.c.reshape(k * k, k)
        found = np.rint(np.linalg.lstsq(np.vstack([left, right]), np.tile(np.eye(k).reshape(-1), 2), rcond=None)[0])
        good = all(np.array_equal((m @ found).reshape(k, k), np.eye(k)) for m in (left, right))
        return found if good else None


def _associative(c: Array) -> bool:
    return bool((np.einsum("oir,ipq->opqr", c, c) == np.einsum("opj,jqr->opqr", c, c)).all())


def prefixes(
    parts: Sequence[Pair], axis: int, reverse: bool, algebra: Algebra, fmt: Format, profile: Profile
) -> list[Pair]:
    """All products of the first elements, of operands of one full shape; NaN where nothing is known (overflow)."""
    ends = [tuple(along(x, axis, reverse) for x in p) for p in parts]
    shape = parts[0][0].shape
    with np.errstate(all="ignore"):
        found = [np.stack(x, axis=2) for x in zip(*_walk(ends, algebra, fmt, profile), strict=True)]  # o, outer, n, in
    both = [[back(np.ascontiguousarray(x), shape, axis, reverse) for x in end] for end in found]
    return list(zip(*both, strict=True))


def _walk(
    ends: Sequence[tuple[Array, ...]], algebra: Algebra, fmt: Format, profile: Profile
) -> Iterator[tuple[Array, Array]]:
    """(lower, upper) ends of each prefix: arrays (components, outer, inner)."""
    rounding, first = _MergeError(algebra.used, fmt, profile), int(algebra.used is algebra)
    state: _State | None = None
    for j in range(ends[0][0].shape[1]):
        ones = [np.ones_like(ends[0][0][:, j])] * first
        low, high = (np.stack([*ones, *(p[e][:, j] for p in ends)]) for e in (0, 1))
        mid = 0.5 * low + 0.5 * high
        rad = np.where(low == high, 0.0, np.maximum(high - mid, mid - low) * _UP)
        leaf = rounding.leaf(mid, rad)
        state = leaf if state is None else rounding.merged(state, leaf)
        half = rounding.half_width(state, j)
        half = np.where(np.isfinite(half), half, np.nan)
        both = (state.mid - half, state.mid + half) if j else (low, high)
        yield both[0][first:], both[1][first:]


@dataclass
class _State:
    """Of a product: midpoint, what the radii make of it, magnitudes of all, B; and in the norm that of the midpoints,
    what the radii add, and the product of max(1, norm)."""

    mid: Array
    rad: Array
    top: Array
    reach: Array
    norm: Array
    spread: Array
    far: Array


class _MergeError:
    def __init__(self, algebra: Algebra, fmt: Format, profile: Profile) -> None:
        self.algebra, self.fmt = algebra, fmt
        muted = profile.muted(sum_cause(fmt)) and profile.muted("arith")
        self.u = 0.0 if muted else rounding_unit(fmt)
        self.eta = 0.0 if muted else max(fmt.half_subnormal, 2.0**-1074)
        self.unit = algebra.unit
        self.size = 0.0 if self.unit is None else float(np.sqrt((self.unit**2).sum())) * _UP
        self.frobenius = [float(np.sqrt((x**2).sum())) * _UP for x in (algebra.c, algebra.magnitudes)]
        self.most = float(algebra.magnitudes.sum((1, 2)).max())
        self.own = int((algebra.c != 0).sum((1, 2)).max()) + 1
        """Roundings of a term in our own float64 product."""

    def leaf(self, mid: Array, rad: Array) -> _State:
        top = (np.abs(mid) + rad) * _UP
        norm = self._norm(mid)
        spread = self.frobenius[0] * np.sqrt((rad**2).sum(0)) * _UP
        if self.unit is None:
            reach = np.maximum(self.most * top.max(0, keepdims=True), 1.0)
        else:
            reach = np.maximum(top, np.abs(self.unit)[:, None, None])
        return _State(mid, rad, top, reach, norm, spread, np.maximum(norm + spread, 1.0))

    def _norm(self, x: Array) -> Array:
        """|L_x|_2 from above: the eighth root of the largest row of (L^T L)^4."""
        if self.unit is None:
            return np.full(x.shape[1:], np.inf)
        left = np.einsum("oij,iab->aboj", self.algebra.c, x)
        scale = np.maximum(np.abs(left).max((2, 3)), 2.0**-500)
        left = left / scale[..., None, None]
        gram = np.swapaxes(left, 2, 3) @ left
        power = np.linalg.matrix_power(gram, 4)
        k = len(self.algebra.c)
        slack = 64 * k**5 * _EPS * np.abs(gram).sum(3).max(2) ** 4  # of seven products of k x k matrices
        found: Array = (np.abs(power).sum(3).max(2) + slack) ** 0.125 * scale * (1.0 + 2.0**-40)
        return found

    def _times(self, c: Array, x: Array, y: Array) -> Array:
        out: Array = np.zeros(np.broadcast_shapes(x.shape, y.shape))
        for o, i, j in np.argwhere(c):
            out[o] += c[o, i, j] * x[i] * y[j]
        return out

    def merged(self, a: _State, b: _State) -> _State:
        c, most = self.algebra.c, self.algebra.magnitudes
        rad = (self._times(most, a.top, b.rad) + self._times(most, a.rad, np.abs(b.mid))) * _UP
        reach = a.reach * b.reach if self.unit is None else self._times(most, a.reach, b.reach)
        return _State(
            self._times(c, a.mid, b.mid), rad, self._times(most, a.top, b.top) * _UP, reach * _UP,
            a.norm * b.norm * _UP, (a.spread * (b.norm + b.spread) + a.norm * b.spread) * _UP, a.far * b.far * _UP,
        )  # fmt: skip

    def half_width(self, s: _State, merges: int) -> Array:
        """Of what j merges may give, around `mid`."""
        return np.fmin(self._by_components(s, merges), self._by_norm(s, merges)) * _UP

    def _by_components(self, s: _State, merges: int) -> Array:
        if not self.algebra.by_components:
            return np.full(s.mid.shape, np.inf)
        grown, own = (np.expm1(k * merges * u) * _UP for k, u in ((self.algebra.roundings, self.u), (self.own, _EPS)))
        reach = np.maximum(s.reach.max(0), 1.0)
        lost = merges * self.algebra.products * self.eta * (self.most * reach) ** 2 * (1.0 + grown)
        limit = reach * self.most * (1.0 + grown) + lost < self.fmt.max
        return np.where(limit, s.rad + (grown + own) * s.top + lost, np.inf)

    def _by_norm(self, s: _State, merges: int) -> Array:
        if self.unit is None:
            return np.full(s.mid.shape, np.inf)
        first, second = self.frobenius
        rate = [np.expm1(k * u) * first * second * self.size**2 * _UP
                for k, u in ((self.algebra.roundings, self.u), (self.own, _EPS))]  # fmt: skip
        grown, own = (np.expm1(merges * np.log1p(k)) * _UP for k in rate)
        inject = first * np.sqrt(len(s.mid)) * self.algebra.products * self.eta
        lost = merges * inject * s.far * (1.0 + grown)
        whole = s.norm + s.spread
        half = self.size * (s.spread + grown * whole + own * s.norm + lost)
        limit = self.size**2 * second * (s.far * (1.0 + grown) + lost) ** 2 < self.fmt.max
        return np.where(limit, np.broadcast_to(half, s.mid.shape), np.inf)
