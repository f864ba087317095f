"""A compiled walk over turns gives, turn by turn, what the rules give."""

from __future__ import annotations

import numpy as np
import pytest

from interval_ops.arithmetic import recurrence_kernels as kernels
from interval_ops.arithmetic import rule
from interval_ops.arithmetic.hull import rounding_gate
from interval_ops.formats.model import FP32, FP64, Format
from interval_ops.profiles.profile import load_profile

RULES = {kernels.ADD: rule.add, kernels.SUB: rule.sub, kernels.MUL: rule.mul}
VALUES = {kernels.ADD: np.add, kernels.SUB: np.subtract, kernels.MUL: np.multiply}


def numbers(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> np.ndarray:
    """Ordinary numbers, and some at the ends of the range."""
    out = rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 6, shape)
    out.flat[rng.integers(0, out.size, 3)] = [0.0, fmt.max, fmt.min_subnormal]
    return out.astype(np.float32).astype(np.float64) if fmt is FP32 else out


@pytest.mark.parametrize("fmt", [FP32, FP64], ids=lambda f: f.name)
@pytest.mark.parametrize("seed", range(12))
def test_as_the_rules(fmt: Format, seed: int) -> None:
    rng, profile, turns, lanes = np.random.default_rng(seed), load_profile("any"), 5, 4
    v = numbers(rng, fmt, (2, turns, lanes))
    width = np.abs(rng.standard_normal(v.shape)) * 2.0**-20 * (rng.random() < 0.7)
    given = np.stack([v, v - width, v + width], 2)
    points = np.array([not width.any()] * 2)
    # registers: two operands, two variables, four results
    steps = [(int(rng.integers(3)), *(int(k) for k in rng.integers(0, 4 + n, 2)), 4 + n) for n in range(4)]
    moves = [(7, 2), (int(rng.integers(2, 8)), 3)]
    value, low, high = np.zeros((3, 8, lanes))
    point = np.ones(8, np.bool_)
    out = np.empty((1, turns, 3, lanes))
    gates = np.array([rounding_gate(fmt, False)] * 4)
    program = kernels.TurnProgram(np.array(steps), gates, np.array(moves), np.array([6]), fmt is FP32, False)
    kernels.walk(program, given, points, kernels.Registers(value, low, high, point), out)

    zero = np.zeros(lanes)
    state = {2: (zero, (zero, zero)), 3: (zero, (zero, zero))}
    carrier = np.float32 if fmt is FP32 else np.float64
    for turn in range(turns):
        known = dict(state)
        for k in range(2):
            x, lo, hi = given[k, turn]
            known[k] = x, ((x, x) if points[k] else (lo, hi))
        for code, x, y, to in steps:
            (a, p), (b, q) = known[x], known[y]
            with np.errstate(all="ignore"):
                found = VALUES[code](a.astype(carrier), b.astype(carrier)).astype(np.float64)
                ends = (
                    rule.square(p, fmt, profile) if code == kernels.MUL and x == y else RULES[code](p, q, fmt, profile)
                )
            known[to] = found, ends
        np.testing.assert_array_equal(out[0, turn], [known[6][0], *known[6][1]])
        state = {to: known[r] for r, to in moves}
    for r, (found, ends) in state.items():
        np.testing.assert_array_equal([value[r], low[r], high[r]], [found, *ends])
        assert point[r] == (ends[0] is ends[1])
