"""Special functions, windows and paths through probabilities, by what defines them, on numbers of many bits.

Bessel functions as in NIST DLMF 10 (J, Y, I, K; a scaled one times exp(-+x)), the incomplete gamma functions as 8.2.4,
polygamma and Hurwitz zeta as 25.11.12, windows as PyTorch's documentation states them. A periodic window of N is the
symmetric one of N + 1 without its last number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from render.exact.numbers import Num, Numbers
from render.ops.formulas import Refused
from render.reference.precise.elementwise import HEAVY, Rule, truncated
from render.reference.precise.graph import Ids

if TYPE_CHECKING:
    from render.reference.precise.cells import RecordedCells


def _of(x: Num, name: str, *args: Any) -> Num:
    """A method of Arb's balls that others may lack."""
    method = getattr(x, name, None)
    if method is None:
        raise Refused(f"{name} has no rule without python-flint")
    return method(*args)


def _one(name: str, fn: Callable[[Numbers, Num], Num]) -> Rule:
    return lambda r, x, **_: r.map(name, fn, x, weight=4 * HEAVY)


def _two(name: str, fn: Callable[[Numbers, Num, Num], Num]) -> Rule:
    return lambda r, x, y, **_: r.map(name, fn, x, y, weight=8 * HEAVY)


def _bessel(kind: str, order: int, scaled: int = 0) -> Rule:
    """`scaled`: times exp(scaled |x|)."""

    def fn(n: Numbers, x: Num) -> Num:
        found = _of(x, f"bessel_{kind}", order)
        return found * n.call("exp", scaled * abs(x)) if scaled else found

    return _one(f"bessel {kind}{order}", fn)


def _sinc(n: Numbers, x: Num, half_turns: bool = True) -> Num:
    if n.sign(x) == 0:
        return n.number(1.0)
    at = x * n.pi() if half_turns else x
    return n.call("sin", at) / at


def _entropy(n: Numbers, x: Num) -> Num:
    """-x log x, 0 at 0, -inf below."""
    side = n.sign(x)
    if side is None:
        raise Refused("entr of a value that many bits do not tell from 0")
    return -x * n.call("log", x) if side > 0 else n.number(0.0 if side == 0 else -math.inf)


def _polygamma(r: RecordedCells, order: int, x: Ids) -> Ids:
    """(-1)^(n + 1) n! zeta(n + 1, x) for n >= 1."""
    if order == 0:
        return r.map("digamma", lambda n, v: n.call("digamma", v), x)
    factor = float((-1) ** (order + 1) * math.factorial(order))
    if order > 20:
        raise Refused("polygamma of orders beyond 20 has no rule")  # whose factorial float64 does not hold
    return r.map("polygamma", lambda n, v: _of(n.number(order + 1.0), "zeta", v) * factor, x, weight=8 * HEAVY)


def _multigamma(r: RecordedCells, x: Ids, p: int) -> Ids:
    """log of the multivariate gamma function: p (p - 1) / 4 log pi + sum of lgamma(x - j / 2), j < p."""

    def fn(n: Numbers, v: Num) -> Num:
        terms = [n.call("lgamma", v - n.number(j / 2)) for j in range(p)]
        return n.sum(terms) + n.number(p * (p - 1) / 4) * n.call("log", n.pi())

    return r.map("mvlgamma", fn, x, weight=p * HEAVY)


def _window(name: str, fn: Callable[..., Num], *defaults: float) -> Rule:
    """`fn` of (numbers, k, last, parameters), k = 0 .. last of the symmetric window."""

    def rule(r: RecordedCells, size: int, *args: Any, **named: Any) -> Ids:
        periodic = args[0] if args and isinstance(args[0], bool) else True
        given = [float(x) for x in args[1 if args and isinstance(args[0], bool) else 0 :]]
        parameters = (*given, *defaults[len(given) :])
        if size < 2:
            return r.constant(1.0, (size,))
        last = size if periodic else size - 1
        return r.map(name, lambda n, k: fn(n, k, last, *parameters), torch.arange(size), weight=2 * HEAVY)

    return rule


def _hann(n: Numbers, k: Num, last: int) -> Num:
    return (1 - n.call("cos", 2 * k * n.pi() / last)) / 2


def _blackman(n: Numbers, k: Num, last: int) -> Num:
    cos = [n.call("cos", 2 * j * k * n.pi() / last) for j in (1, 2)]
    return n.number(42.0) / 100 - cos[0] / 2 + 8 * cos[1] / 100


def _hamming(n: Numbers, k: Num, last: int, alpha: float, beta: float) -> Num:
    return n.number(alpha) - n.number(beta) * n.call("cos", 2 * k * n.pi() / last)


def _bartlett(n: Numbers, k: Num, last: int) -> Num:
    return 1 - abs(2 * k / last - 1)


def _kaiser(n: Numbers, k: Num, last: int, beta: float) -> Num:
    """I0(beta sqrt(1 - r^2)) / I0(beta), 1 - r^2 = 4 k (last - k) / last^2."""
    inner = n.call("sqrt", 4 * k * (last - k)) / last
    return _of(n.number(beta) * inner, "bessel_i", 0) / _of(n.number(beta), "bessel_i", 0)


def _cross(r: RecordedCells, a: Ids, b: Ids, *, dim: int = -1) -> Ids:
    a, b = (np.moveaxis(x, dim, 0) for x in np.broadcast_arrays(r.ids(a), r.ids(b)))
    parts = [
        r.map("cross", lambda n, p, q, s, t: p * q - s * t, a[i], b[j], a[j], b[i]) for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return np.stack(parts, dim)


def _least_squares(r: RecordedCells, a: Ids, b: Ids, *_: Any, **__: Any) -> Any:
    """The solution of full rank: A^T A x = A^T b, or the shortest one A^T (A A^T)^-1 b; in many bits the squared
    condition costs nothing but bits."""
    if a.ndim != 2 or b.ndim != 2:
        raise Refused("no rule for this form of lstsq")
    sizes = a.shape, b.shape

    def fn(n: Numbers, flat: list[Num], right: list[Num]) -> Sequence[Num]:
        x, y = (_matrix(values, size) for values, size in zip((flat, right), sizes, strict=True))
        if x.shape[0] >= x.shape[1]:
            found = n.solved("solve", n.matmul(x.T, x), n.matmul(x.T, y))
        else:
            found = n.matmul(x.T, n.solved("solve", n.matmul(x, x.T), y))
        return list(found.ravel())

    shape = (a.shape[1], b.shape[1])
    made = r.rows("lstsq", fn, [a.reshape(1, -1), b.reshape(1, -1)], shape, shape[0] * shape[1], 4.0 * a.shape[0])
    return made, None, None, None


def _by_factor(r: RecordedCells, b: Ids, factor: Ids, upper: bool = False) -> Ids:
    """x of A x = b with A = L L^T, from L (or from its transpose)."""
    return _of_factor(r, "cholesky_solve", factor, upper, b)


def _of_factor(r: RecordedCells, name: str, factor: Ids, upper: bool, b: Ids | None) -> Ids:
    if factor.ndim != 2 or (b is not None and b.ndim != 2):
        raise Refused(f"no rule for this form of {name}")
    size = factor.shape
    zero = r.constant(0.0, size)
    rows, columns = np.indices(size)
    half = np.where(columns <= rows, factor.T if upper else factor, zero)
    shape = size if b is None else b.shape
    operands = [half.reshape(1, -1), *([] if b is None else [b.reshape(1, -1)])]

    def fn(n: Numbers, flat: list[Num], *right: list[Num]) -> Sequence[Num]:
        lower = _matrix(flat, size)
        whole = n.matmul(lower, lower.T)
        found = n.solved("solve", whole, _matrix(right[0], shape)) if right else n.solved("inv", whole)
        return list(found.ravel())

    return r.rows(name, fn, operands, shape, int(np.prod(shape)), 3.0 * size[0])


def _matrix(values: Sequence[Num], shape: tuple[int, ...]) -> np.ndarray:
    found = np.empty(len(values), object)
    found[:] = values
    return found.reshape(shape)


def _ctc(
    r: RecordedCells, log_p: Ids, targets: torch.Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """-log of the probability of all paths that collapse to the targets: Graves et al. 2006, the forward variables
    (6) to (8), as probabilities and not as logarithms."""
    if log_p.ndim != 3:
        raise Refused("no rule for this form of ctc_loss")
    lengths, counts = ([int(v) for v in x] for x in (input_lengths, target_lengths))
    labels = targets.reshape(-1).tolist() if targets.dim() == 1 else []
    losses = []
    for k, (steps, count) in enumerate(zip(lengths, counts, strict=True)):
        mine = labels[sum(counts[:k]) : sum(counts[: k + 1])] if targets.dim() == 1 else targets[k, :count].tolist()
        losses.append(_path(r, log_p[:steps, k], mine, blank, zero_infinity))
    return np.array(losses, np.int64), None


def _path(r: RecordedCells, log_p: Ids, labels: list[int], blank: int, zero_infinity: bool) -> int:
    steps, classes = log_p.shape
    between = [blank, *(x for label in labels for x in (label, blank))]

    def fn(n: Numbers, flat: list[Num]) -> Sequence[Num]:
        zero = n.number(0.0)
        alpha = [n.number(1.0), *[zero] * (len(between) - 1)]  # before the first step: nothing but the first place
        for t in range(steps):
            p = {c: n.call("exp", flat[t * classes + c]) for c in set(between)}
            found = []
            for s, c in enumerate(between):
                terms = [alpha[s], *([alpha[s - 1]] if s and (t or s == 1) else [])]
                if t and s > 1 and c != blank and c != between[s - 2]:
                    terms.append(alpha[s - 2])
                found.append(n.sum(terms) * p[c])
            alpha = found
        whole = n.sum(alpha[-2:])
        if n.sign(whole) == 0:
            return [n.number(0.0 if zero_infinity else math.inf)]
        return [-n.call("log", whole)]

    made = r.rows("ctc_loss", fn, [log_p.reshape(1, -1)], (1,), 1, 4.0 * HEAVY)
    return int(made[0])


SPECIAL: dict[str, Rule] = {
    "i0": _bessel("i", 0),
    "special_i0e": _bessel("i", 0, -1),
    "special_i1": _bessel("i", 1),
    "special_i1e": _bessel("i", 1, -1),
    "special_modified_bessel_i0": _bessel("i", 0),
    "special_modified_bessel_i1": _bessel("i", 1),
    "special_modified_bessel_k0": _bessel("k", 0),
    "special_modified_bessel_k1": _bessel("k", 1),
    "special_scaled_modified_bessel_k0": _bessel("k", 0, 1),
    "special_scaled_modified_bessel_k1": _bessel("k", 1, 1),
    **{f"special_bessel_{kind}{k}": _bessel(kind, k) for kind in "jy" for k in (0, 1)},
    "special_airy_ai": _one("airy_ai", lambda n, x: _of(x, "airy_ai")),
    "special_spherical_bessel_j0": _one("sinc", lambda n, x: _sinc(n, x, half_turns=False)),
    "sinc": _one("sinc", _sinc),
    "special_entr": _one("entr", _entropy),
    "special_log_ndtr": _one("log_ndtr", lambda n, x: n.call("log", n.call("normcdf", x))),
    "special_zeta": _two("zeta", lambda n, s, x: _of(s, "zeta", x)),
    "igamma": _two("igamma", lambda n, a, x: _of(x, "gamma_lower", a, 1)),
    "igammac": _two("igammac", lambda n, a, x: _of(x, "gamma_upper", a, 1)),
    "frac": _one("frac", lambda n, x: x - truncated(n, x)),
    "ldexp": _two("ldexp", lambda n, x, k: x * n.number(2.0) ** k),
    "polygamma": _polygamma,
    "mvlgamma": _multigamma,
    "hann_window": _window("hann_window", _hann),
    "hamming_window": _window("hamming_window", _hamming, 0.54, 0.46),
    "blackman_window": _window("blackman_window", _blackman),
    "bartlett_window": _window("bartlett_window", _bartlett),
    "kaiser_window": _window("kaiser_window", _kaiser, 12.0),
    "linalg_cross": _cross,
    "linalg_lstsq": _least_squares,
    "cholesky_solve": _by_factor,
    "cholesky_inverse": lambda r, factor, upper=False: _of_factor(r, "cholesky_inverse", factor, upper, None),
    "_ctc_loss": _ctc,
}
"""By the base name of PyTorch's operation."""
