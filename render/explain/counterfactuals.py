"""What if: the same classification again under one changed assumption at a time.

shrink = median half width of the bound before / after, of the output that gains least. Every number is the result of a
run; nothing is extrapolated, and what there was no time for is not reported.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from interval_ops.profiles.profile import MissingRule
from render.explain.study import Study, halves, judged
from render.result.errors import KernelError, RenderError, UnsupportedOp
from render.result.options import Progress
from render.result.records import Counterfactual

if TYPE_CHECKING:
    from render.explain.variants import Variant


def counterfactuals(
    study: Study, variants: Iterable[Variant], seconds: float, each: float, progress: Progress | None = None
) -> tuple[list[Counterfactual], int]:
    """(results, how many variants were left out). No run starts that, at the pace so far, ends after `seconds`.

    `each` is what one run is expected to take: the time of the original.
    """
    todo = list(variants)
    end = time.perf_counter() + seconds
    found: list[Counterfactual] = []
    for i, variant in enumerate(todo):
        if time.perf_counter() + each > end:
            return found, len(todo) - i
        if progress is not None:
            progress(i, len(todo), variant.what)
        found.append(_one(study, variant))
        each = found[-1].seconds
    return found, 0


def _one(study: Study, variant: Variant) -> Counterfactual:
    began = time.perf_counter()
    try:
        run = study.run(variant.options)
    except (UnsupportedOp, KernelError, MissingRule, RenderError) as error:
        spent = time.perf_counter() - began
        return Counterfactual(variant.key, variant.what, 1.0, "", "", spent, str(error).splitlines()[0])
    cases = study.with_bounds(run, variant.last_rounding)
    decision = judged(cases)
    shrink = halves(study.cases).shrink(halves(cases))
    code = "" if decision.label == "Type-I" else decision.code  # the cause of the changed width is not asked
    return Counterfactual(variant.key, variant.what, shrink, decision.label, code, time.perf_counter() - began)
