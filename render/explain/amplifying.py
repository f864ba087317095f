"""The line of a kernel that turns small errors into large ones, for one element.

In the element's slice, an operation y = f(x) makes relative errors of its operands kappa = sum_j |df/dx_j x_j| / |y|
times larger (the condition number; for a sum that cancels sum |x_j| / |sum x_j|: Higham, Accuracy and Stability of
Numerical Algorithms, 2nd ed., 1.6 and 4.2). Only operands that carry an error count, and only as far as what comes out
reaches the result: kappa is weighed by the share of the element's width that passes through the operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from render.explain.study import Study
from render.trace.model import ABSENT, LEAF, MISHAPS, NotSliceable, Slice

if TYPE_CHECKING:
    from render.entry.execution import Execution
    from render.trace.adjoint import Sweep

Spot = tuple[str, int, float]
"""File, line, factor."""


def amplifying_line(study: Study, run: Execution, output: str, index: tuple[int, ...]) -> Spot | None:
    """None where the element cannot be cut out, or nothing in it amplifies."""
    from render.trace import slice_of

    try:
        return amplifying(slice_of(study.entry, run, output, index))
    except (NotSliceable, *MISHAPS):
        return None


def amplifying(found: Slice) -> Spot | None:
    from render.trace.adjoint import Sweep

    sweep = Sweep(found)
    sweep.forward()
    weight = np.zeros(found.size)
    weight[found.root] = 1.0
    best: tuple[float, Spot] | None = None
    with np.errstate(all="ignore"):
        for i in range(len(found.nodes) - 1, -1, -1):
            node = found.nodes[i]
            if node.op == LEAF:
                continue
            at = slice(node.start, node.stop)
            passing = np.minimum(weight[at] * sweep.half[at] / sweep.half[found.root], 1.0)
            score = np.nan_to_num(_condition(sweep, i) * passing, posinf=0.0)
            k = int(np.argmax(score)) if score.size else 0
            if score.size and node.file and score[k] > (1.0 if best is None else best[0]):
                best = float(score[k]), (node.file, node.line, float(_condition(sweep, i)[k]))
            for o, slope in zip(node.operands, sweep.slopes[node], strict=True):
                flow = slope * (weight[at][:, None] if o.ndim == 2 else weight[at])
                here = o != ABSENT
                np.add.at(weight, o[here], flow[here])
    return None if best is None else best[1]


def _condition(sweep: Sweep, i: int) -> np.ndarray:
    """kappa of every value of a node, over operands that carry an error; a result near 0 counts as its half width."""
    node = sweep.found.nodes[i]
    total = np.zeros(node.size)
    for o, slope in zip(node.operands, sweep.slopes[node], strict=True):
        part = np.where((o != ABSENT) & (sweep.half[o] > 0), slope * np.abs(sweep.v[o]), 0.0)
        total = total + (part.sum(axis=1) if part.ndim == 2 else part)
    at = slice(node.start, node.stop)
    return np.asarray(total / np.maximum(np.abs(sweep.v[at]), sweep.half[at]))
