"""One operation at a time: no legal execution is further from the value close by than slopes and `away` say."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from render.exact.points import precision
from render.witness.evaluate import Evaluator
from render.witness.slopes import linked
from tests.render.witness.drawn import ONE, TWO, Drawn
from tests.render.witness.legal import Execution
from tests.support import rng, trials


def one_step(op: str, device: str, seed: int, leaves: float) -> dict:
    made = Drawn(device, seed)
    for size in (3, 3, 4):
        made.leaves(size, leaves)
    made.step(op)
    return made.document


@pytest.mark.parametrize("device", ["any", "sm_90", "gfx942"])
@pytest.mark.parametrize("op", [*ONE, *TWO, "fma", "cast", "sum", "max", "min", "dot", "select"])
def test_executions_are_as_close_as_it_says(op, device):
    bounded, r = 0, rng(len(op))
    for seed in range(trials(12)):
        document = one_step(op, device, seed, 0.7 * (seed % 3))
        e = Evaluator(document)
        e.used[:] = True
        with precision(), np.errstate(all="ignore"):
            e._evaluated()
            centre, links = np.full(e.used.size, np.nan), []
            for o in e.ops:
                rows = np.arange(o.size)
                links.append((o, linked(e, o, rows, centre)))
                centre[o.start + rows] = links[-1][1].centre
        o, link = links[-1]
        for _ in range(6):
            execution = Execution(document, r)
            try:
                execution.result()
            except (ZeroDivisionError, ValueError, TypeError):
                continue
            for k in range(o.size):
                value = execution.values[o.start + k]
                if not np.isfinite(link.away[k]) or not mpmath.isfinite(value):
                    continue
                bounded += 1
                allowed = reached(link, k, execution.values, centre)
                assert abs(value - mpmath.mpf(float(link.centre[k])) - allowed[0]) <= allowed[1], (seed, k)
    assert bounded


def reached(link, k: int, values, centre) -> tuple:
    """(middle, radius) of what slopes and `away` allow for the distance from the value close by."""
    middle, radius = mpmath.mpf(0), mpmath.mpf(float(link.away[k]))
    for operand, low, high in link.slopes:
        for n, a, b in zip(*(np.atleast_1d(x[k]) for x in (operand, low, high)), strict=True):
            if n >= 0:
                step = values[int(n)] - mpmath.mpf(float(centre[n]))
                middle += (mpmath.mpf(float(a)) + float(b)) / 2 * step
                radius += (mpmath.mpf(float(b)) - float(a)) / 2 * abs(step)
    return middle, radius
