"""mpmath behind Arb's methods: against Arb, and in its place."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from render.exact import portable
from tests.render.exact.oracle import fraction
from tests.support import rng, trials

flint = pytest.importorskip("flint")
ROOT = Path(__file__).resolve().parents[3]
BITS = 192
CASES: dict[str, tuple[Callable[[Any], Any], tuple[float, float]]] = {
    **{name: ((lambda x, name=name: getattr(x, name)()), (-3.0, 3.0)) for name in (
        "exp", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh", "erf", "erfc", "sin_pi", "cos_pi",
        "floor", "ceil", "__abs__", "__neg__",
    )},
    **{name: ((lambda x, name=name: getattr(x, name)()), (0.1, 0.9)) for name in (
        "log", "log1p", "sqrt", "rsqrt", "asin", "acos", "atanh", "erfinv", "erfcinv", "gamma", "lgamma", "digamma",
    )},
    "acosh": (lambda x: x.acosh(), (1.1, 9.0)), "root": (lambda x: x.root(3), (0.1, 9.0)),
    "log_base": (lambda x: x.log_base(2), (0.1, 9.0)), "bessel_i": (lambda x: x.bessel_i(1), (-3.0, 3.0)),
    "power": (lambda x: x**x, (0.1, 3.0)), "square": (lambda x: x**2, (-3.0, 3.0)),
    "inverse": (lambda x: 1 / x, (0.1, 3.0)), "rational": (lambda x: (x * x - 3) / (x + 7) - x, (-3.0, 3.0)),
}  # fmt: skip


@pytest.fixture(autouse=True)
def bits_of_both(monkeypatch):
    monkeypatch.setattr(portable.ctx, "prec", BITS)
    monkeypatch.setattr(flint.ctx, "prec", BITS)
    yield
    flint.ctx.prec = BITS


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", [0.0, 2.0**-40, 0.05])
def test_balls_hold_those_of_arb_at_every_point(name, width):
    formula, (low, high) = CASES[name]
    r = rng(len(name))
    for x in r.uniform(low, high, trials(10)).tolist():
        found = formula(portable.Ball(x, width) if width else portable.Ball(x))
        for t in (-1.0, -0.3, 0.0, 0.8, 1.0):
            exact = formula(flint.arb(x) + flint.arb(width) * flint.arb(t)) if width else formula(flint.arb(x))
            if found.is_nan() or not exact.is_finite():
                assert width or not exact.is_finite(), x
                continue
            at_least, at_most = fraction(exact.lower()), fraction(exact.upper())
            assert fraction(found.lower()) <= at_most and at_least <= fraction(found.upper()), (x, t)
        if not width:
            assert found.rel_accuracy_bits() >= BITS - 30 or found == 0


@pytest.mark.parametrize("name", ["det", "inv", "solve"])
def test_matrices_hold_those_of_arb(name):
    r = rng(5)
    a, b = r.normal(size=(4, 4)), r.normal(size=(4, 2))
    made = []
    for ball, matrix in ((portable.Ball, portable.Matrix), (flint.arb, flint.arb_mat)):
        left, right = (matrix(*m.shape, [ball(float(x)) for x in m.ravel()]) for m in (a, b))
        found = left.det() if name == "det" else left.inv() if name == "inv" else left.solve(right)
        made.append([found] if name == "det" else found.entries())
    for x, y in zip(*made, strict=True):
        assert fraction(x.lower()) <= fraction(y.upper()) and fraction(y.lower()) <= fraction(x.upper())
        assert x.rel_accuracy_bits() > BITS - 30
    singular = portable.Matrix(2, 2, [portable.Ball(v) for v in (1.0, 2.0, 2.0, 4.0)])
    assert singular.det() == 0 or singular.det().is_nan()
    with pytest.raises(ZeroDivisionError):
        singular.inv()


RUNS = {
    "tests/render/exact/test_points.py": "test_points",
    "tests/render/exact/test_functions.py": "test_functions and not (bessel or y0 or y1 or j0 or j1)",
    "tests/render/witness/test_evaluate.py": "test_evaluate",
    "tests/render/judgement/test_confirmation.py": "test_confirmation and saved",
    "tests/render/judgement/test_precision.py": "test_precision and python_flint",
    "tests/render/reference/precise/test_evaluation.py":
        "test_evaluation and (alternating or one_pass or softmax or budget)",
}  # fmt: skip


@pytest.mark.slow
def test_everything_works_without_python_flint():
    """The same tests once more, in a process where it cannot be imported."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RENDER_TEST_MULTIPLIER": "0.4"}
    chosen = " or ".join(f"({words})" for words in RUNS.values())
    command = [sys.executable, "-m", "pytest", "-vv", "-x", "-p", "tests.render.exact.without_flint", "-p",
               "no:cacheprovider", "-k", chosen, *RUNS]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:]
    assert [path for path in RUNS if f"{path}::" not in done.stdout] == []  # each has tests that ran
