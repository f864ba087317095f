"""Does a format inside the kernel that is coarser than its interface own the bound of an output?

The interface is what the caller sees: the formats of inputs and outputs, and TF32 where a dot asks for it. A coarser
cast, sum or accumulator inside is the author's choice, so that its error is round-off; but nobody who reads the
signature expects it, so that the verdict says where it is and what it costs. An internal format as coarse as the
interface is no downgrade: its cause and line are named by the budget like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from interval_ops import scans
from interval_ops.formats.model import FORMATS, Format
from render.reference.local_error import TORCH_FORMATS
from render.result.records import Downgrade

if TYPE_CHECKING:
    from render.entry.execution import Execution
    from render.explain.budget import Budget
    from render.explain.study import Study

MOST = 0.5


def coarsest_of_interface(study: Study, run: Execution) -> Format:
    found = [TORCH_FORMATS.get(x.dtype) for x in study.entry.inputs.values.values() if isinstance(x, torch.Tensor)]
    found += [f for case in study.cases for f in (case.fmt, case.ref_fmt)]
    if any(cause[0] == "operand" for cause in run.session.causes):
        found.append(FORMATS["tf32"])
    return min((f for f in found if f is not None), key=lambda f: f.p, default=FORMATS["fp32"])


def narrowed(study: Study, run: Execution) -> Downgrade | None:
    """The output of fewer bits than the reference's and than every float input, with the line of its allocation.

    Its share is that of one rounding to it in the bound's half width, of the median element.
    """
    given = [TORCH_FORMATS.get(x.dtype) for x in study.entry.inputs.values.values() if isinstance(x, torch.Tensor)]
    inputs = [f for f in given if f is not None]
    for case in study.cases:
        if case.mismatch or case.fmt is None or case.ref_fmt is None or not case.exact.size:
            continue
        outer = min([case.ref_fmt, *inputs], key=lambda f: f.p)
        if case.fmt.p < outer.p:
            with np.errstate(all="ignore"):
                shares = (case.fmt.u * np.abs(case.exact) + case.fmt.half_subnormal) / ((case.hi - case.lo) / 2)
            share = scans.median(np.nan_to_num(np.minimum(shares, 1.0), nan=1.0).reshape(-1))
            file, line = run.output(case.name).made or (None, 0)
            return Downgrade(case.fmt.name, outer.name, case.name, file, line, share, allocated=True)
    return None


def downgrade(study: Study, run: Execution, found: Budget) -> Downgrade | None:
    """Of the output that coarser formats own most of, its largest such line; None where they own no half of any."""
    if found.gathered is None:
        return None
    outer = coarsest_of_interface(study, run)
    gains = dict(zip((c.name for c in study.cases), found.gains, strict=False))
    best: Downgrade | None = None
    for output in found.gathered.elements:
        lines = found.gathered.rounded(output)
        coarse = {key: share for key, (name, share) in lines.items() if FORMATS[name].p < outer.p}
        total = sum(coarse.values())
        if total > (MOST if best is None else best.share):
            key = max(coarse, key=lambda k: (coarse[k], str(k)))
            gain = gains.get(output, 1.0) if key[0] == found.items[0].key else 1.0
            best = Downgrade(lines[key][0], outer.name, output, key[1] or None, key[2], total, gain)
    return best
