"""Bounds of one operation over a box: what an execution may return, subnormals read as 0 included, against mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from interval_ops.profiles.profile import load_profile
from render.companions.demotion.boxes import Remembered, bound
from render.companions.demotion.certify import Uncertified
from render.trace.model import LEAF, Node, Slice
from render.trace.nodes import NODES
from tests.support import rng, trials

EXACT = {
    "exp": mpmath.exp, "exp2": lambda v: mpmath.mpf(2) ** v, "log": mpmath.log, "log2": lambda v: mpmath.log(v, 2),
    "sqrt": mpmath.sqrt, "rsqrt": lambda v: 1 / mpmath.sqrt(v), "erf": mpmath.erf, "sin": mpmath.sin,
    "cos": mpmath.cos, "library tanh": mpmath.tanh, "library expm1": mpmath.expm1, "fneg": lambda v: -v, "fabs": abs,
    "fdiv": lambda x, y: x / y, "fmul": lambda x, y: x * y, "fsub": lambda x, y: x - y, "maxnumf": max,
}  # fmt: skip
PROFILE = load_profile("any")
TINY = 2.0**-126


class Known(Remembered):
    """Every address is that of the input with its number."""

    def named(self, addresses: np.ndarray) -> list[str]:
        return [f"x{n}" for n in addresses.tolist()]


def certified(op: str, box: list[tuple[float, float]]) -> float:
    nothing, n = np.zeros(len(box)), len(box)
    leaf = Node(LEAF, {"source": "input", "addresses": np.arange(n)}, "", 1, 0, (), nothing, nothing, nothing)
    made = Node(op, {"fmt": "fp32"}, "", 2, n, tuple(np.array([k]) for k in range(n)), *(np.zeros(1),) * 3)
    found = Slice("out", (0,), "k", (0,), (leaf, made), n, 0.0, 0.0, 0.0, profile=PROFILE)
    return bound(found, {f"x{k}": ends for k, ends in enumerate(box)}, Known((), {}, ()))[0]


@pytest.mark.parametrize("op", EXACT)
def test_legal_results_are_within_the_certificate(op: str) -> None:
    g, exact = rng(9), EXACT[op]
    arity = exact.__code__.co_argcount if op in ("fdiv", "fmul", "fsub") else 2 if op == "maxnumf" else 1
    with mpmath.workprec(200):
        for _ in range(trials(40)):
            size = 2.0 ** g.uniform(-3, 3)
            positive = op in ("log", "log2", "sqrt", "rsqrt", "fdiv")
            low = [0.25 + g.random() if positive else g.normal() for _ in range(arity)]
            box = [(float(v), float(v + size * g.random())) for v in low]
            error = certified(op, box)
            for t in g.random((4, arity)):
                x = [mpmath.mpf(float(np.float32(lo + s * (hi - lo)))) for (lo, hi), s in zip(box, t, strict=True)]
                y = exact(*x)
                assert abs(mpmath.mpf(float(np.float32(float(y)))) - y) <= error, (op, box, x)


@pytest.mark.parametrize("op", ["sqrt", "rsqrt", "sin", "library tanh"])
def test_subnormals_read_as_zero_are_covered_or_refused(op: str) -> None:
    """Of functions that flush under this profile."""
    assert PROFILE.fn(NODES[op].entry, "fp32").ftz
    small = 2.0**-130
    try:
        error = certified(op, [(small, 1.0)])
    except Uncertified:
        assert op in ("sqrt", "rsqrt")
        return
    with mpmath.workprec(200):
        assert abs(EXACT[op](mpmath.mpf(0)) - EXACT[op](mpmath.mpf(small))) <= error


def test_a_divisor_that_may_vanish_has_no_certificate() -> None:
    for divisor in ((-1.0, 1.0), (0.0, 1.0), (TINY / 2, 1.0)):
        with pytest.raises(Uncertified):
            certified("fdiv", [(1.0, 2.0), divisor])
