"""Special functions, windows, least squares and paths in more bits: against mpmath, and all paths one by one."""

from __future__ import annotations

from itertools import product

import mpmath
import numpy as np
import pytest
import torch
from oracle_zoo import oracle
from support import rng

from render.ops.formulas import Refused
from render.reference.precise.evaluation import evaluate, record

S, m = torch.special, mpmath
X = torch.tensor([-2.75, -0.5, 0.25, 1.0, 3.125, 7.5], dtype=torch.float64)
P = torch.tensor([0.125, 0.5, 1.75, 2.5, 6.25], dtype=torch.float64)


def evaluated(fn, *args):
    found = oracle(fn, *args)
    recording = record(found, found.exact().widened)
    wanted = {i: np.arange(x.size) for i, x in enumerate(recording.outputs) if x is not None}
    narrow = lambda i, e: bool((e.hi - e.lo <= 2.0**-50 * np.abs(e.value)).all())  # noqa: E731
    return evaluate(recording, wanted, narrow).found[0]


def holds(found, wanted):
    with m.workdps(60):
        for low, high, exact in zip(found.lo, found.hi, wanted, strict=True):
            assert low <= exact <= high and high - low <= abs(exact) * 2.0**-49 + 2.0**-1060


FUNCTIONS = {
    "i0": (torch.i0, X, lambda x: m.besseli(0, x)),
    "i0e": (S.i0e, X, lambda x: m.besseli(0, x) * m.exp(-abs(x))),
    "i1": (S.i1, X, lambda x: m.besseli(1, x)),
    "i1e": (S.i1e, X, lambda x: m.besseli(1, x) * m.exp(-abs(x))),
    "k0": (S.modified_bessel_k0, P, lambda x: m.besselk(0, x)),
    "k1": (S.modified_bessel_k1, P, lambda x: m.besselk(1, x)),
    "k1e": (S.scaled_modified_bessel_k1, P, lambda x: m.besselk(1, x) * m.exp(x)),
    "j0": (S.bessel_j0, X, lambda x: m.besselj(0, x)),
    "j1": (S.bessel_j1, X, lambda x: m.besselj(1, x)),
    "y0": (S.bessel_y0, P, lambda x: m.bessely(0, x)),
    "airy": (S.airy_ai, X, m.airyai),
    "spherical": (S.spherical_bessel_j0, X, lambda x: m.sin(x) / x),
    "sinc": (torch.sinc, X / 2, lambda x: m.sincpi(x)),
    "entr": (S.entr, P, lambda x: -x * m.log(x)),
    "log_ndtr": (S.log_ndtr, X, lambda x: m.log(m.ncdf(x))),
    "trigamma": (lambda x: torch.polygamma(1, x), P, lambda x: m.polygamma(1, x)),
    "polygamma": (lambda x: torch.polygamma(4, x), P, lambda x: m.polygamma(4, x)),
    "mvlgamma": (lambda x: torch.mvlgamma(x, 3), P + 1.5, lambda x: m.mpf(3) / 2 * m.log(m.pi) + sum(
        m.loggamma(x - m.mpf(j) / 2) for j in range(3))),
    "zeta": (lambda x: S.zeta(torch.full_like(x, 2.5), x), P, lambda x: m.zeta(2.5, x)),
    "gammainc": (lambda x: S.gammainc(torch.full_like(x, 1.5), x), P, lambda x: m.gammainc(1.5, 0, x, True)),
    "gammaincc": (lambda x: S.gammaincc(torch.full_like(x, 1.5), x), P, lambda x: m.gammainc(1.5, x, m.inf, True)),
    "frac": (torch.frac, X, lambda x: x - (m.floor(x) if x > 0 else m.ceil(x))),
    "ldexp": (lambda x: torch.ldexp(x, torch.tensor(-3)), X, lambda x: m.ldexp(x, -3)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    fn, x, definition = FUNCTIONS[name]
    with m.workdps(60):
        holds(evaluated(fn, x), [definition(m.mpf(v)) for v in x.tolist()])


def _cosines(*weights):
    return lambda k, last: sum((-1) ** j * m.mpf(w) * m.cos(2 * j * m.pi * k / last) for j, w in enumerate(weights))


WINDOWS = {
    "hann": (torch.hann_window, {}, _cosines("0.5", "0.5")),
    "hamming": (torch.hamming_window, {}, _cosines(0.54, 0.46)),
    "blackman": (torch.blackman_window, {}, _cosines("0.42", "0.5", "0.08")),
    "bartlett": (torch.bartlett_window, {}, lambda k, last: 1 - abs(2 * m.mpf(k) / last - 1)),
    "kaiser": (torch.kaiser_window, {"beta": 8.5}, lambda k, last: m.besseli(
        0, m.mpf(8.5) * m.sqrt(1 - (2 * m.mpf(k) / last - 1) ** 2)) / m.besseli(0, m.mpf(8.5))),
}  # fmt: skip


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("periodic", [True, False])
def test_windows(name, periodic):
    """Times 1.5, so that the window is a constant on the way and not the result."""
    fn, named, definition = WINDOWS[name]
    x = torch.full((7,), 1.5, dtype=torch.float64)
    found = evaluated(lambda x: x * fn(7, periodic, dtype=x.dtype, **named), x)
    with m.workdps(60):
        wanted = [m.mpf("1.5") * definition(k, 7 if periodic else 6) for k in range(7)]
        for low, high, exact in zip(found.lo, found.hi, wanted, strict=True):
            assert low - 1e-40 <= exact <= high + 1e-40  # an exact 0 is not told by decimal constants


@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (4, 4)])
def test_least_squares(shape):
    g = rng(5)
    a, b = (torch.from_numpy(g.standard_normal(s)) for s in (shape, (shape[0], 2)))
    found = evaluated(lambda a, b: torch.linalg.lstsq(a, b).solution, a, b)
    with m.workdps(60):
        x, y = m.matrix(a.tolist()), m.matrix(b.tolist())
        tall = shape[0] >= shape[1]
        solved = m.inverse(x.T * x) * (x.T * y) if tall else x.T * (m.inverse(x * x.T) * y)
        holds(found, [solved[i, j] for i in range(shape[1]) for j in range(2)])


@pytest.mark.parametrize("upper", [False, True])
def test_systems_by_a_factor(upper):
    g = rng(6)
    factor = torch.from_numpy(g.standard_normal((4, 4))).tril() + 3 * torch.eye(4, dtype=torch.float64)
    factor, b = factor.mT if upper else factor, torch.from_numpy(g.standard_normal((4, 2)))
    with m.workdps(60):
        half = m.matrix(factor.tolist())
        whole = half.T * half if upper else half * half.T
        solved, inverse = m.inverse(whole) * m.matrix(b.tolist()), m.inverse(whole)
        holds(evaluated(lambda b, f: torch.cholesky_solve(b, f, upper), b, factor),
              [solved[i, j] for i in range(4) for j in range(2)])  # fmt: skip
        holds(evaluated(lambda f: torch.cholesky_inverse(f, upper), factor),
              [inverse[i, j] for i in range(4) for j in range(4)])  # fmt: skip


def collapsed(path):
    """Repetitions are one, blanks are none."""
    return [c for k, c in enumerate(path) if c != 0 and (k == 0 or path[k - 1] != c)]


@pytest.mark.parametrize("flat", [False, True])
def test_all_paths_of_ctc(flat):
    logits = torch.from_numpy(rng(7).standard_normal((4, 3, 3)))
    lengths, labels = [4, 3, 4], [[1, 1], [2], [2, 1]]
    targets = torch.tensor([1, 1, 2, 2, 1] if flat else [[1, 1], [2, 0], [2, 1]])
    counts = torch.tensor([2, 1, 2])
    found = evaluated(
        lambda x: torch.nn.functional.ctc_loss(x, targets, torch.tensor(lengths), counts, reduction="none"), logits
    )
    with m.workdps(60):
        wanted = []
        for k, (steps, label) in enumerate(zip(lengths, labels, strict=True)):
            p = [[m.exp(m.mpf(v)) for v in row] for row in logits[:, k].tolist()]
            paths = (q for q in product(range(3), repeat=steps) if collapsed(q) == label)
            wanted.append(-m.log(sum(m.fprod(p[t][c] for t, c in enumerate(path)) for path in paths)))
        holds(found, wanted)


def test_what_has_no_rule_is_refused_by_name():
    with pytest.raises(Refused, match="orders beyond 20"):
        evaluated(lambda x: torch.polygamma(21, x), P)
