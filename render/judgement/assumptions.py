"""What a verdict assumes: the device, the compiler, the reference's error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from interval_ops.profiles.profile import CONTRACTIONS, NEWEST, SUM_ORDERS
from render.entry.execution import Execution
from render.result.decision import Decision
from render.result.margins import SIGMA
from render.result.options import Options


def assumptions(run: Execution, options: Options, decision: Decision, exact: str, recorded: bool) -> tuple[str, ...]:
    """One line each. `exact` says what E rests on, `recorded` whether a device output was given."""
    profile = getattr(run.session, "profile", None)
    title = getattr(profile, "title", options.device)
    confidence = getattr(profile, "confidence", "")
    lines = [
        f"device {options.device}: {title}" + (f" ({confidence})" if confidence else ""),
        *_told(run.session),
        *_compiled(profile),
        exact,
    ]
    if options.ref_precision != "ieee":
        lines.append(f"the reference's float32 products take {options.ref_precision} operands (emulated)")
    if decision.code == "RND110":
        lines.append("the rounding of the reference itself: any order, errors of its own dtypes, to first order")
    if decision.code == "RND120":
        lines.append(f"roundings independent of each other, {SIGMA:g} standard deviations of them to first order, sums "
                     "in the order of their terms: an estimate, no bound")  # fmt: skip
    if not recorded:
        lines.append("no device output: nothing is said about compiler or hardware")
    return tuple(lines)


def compiler_of(session: Any) -> dict[str, str]:
    """What bounds assume of the compiler, as the options that say so."""
    profile = getattr(session, "profile", None)
    if profile is None:
        return {}
    version = ".".join(map(str, profile.triton))
    return {"sum_order": profile.sum_order, "fp_contraction": profile.contraction, "triton": version}


def _told(session: Any) -> Iterator[str]:
    """Which path of the host code ran, where it asked what device there is."""
    told = getattr(session, "host_told", None)
    if told is not None:
        yield told


def _compiled(profile: Any) -> Iterator[str]:
    """What is assumed of the compiler: order of additions, contraction, version."""
    if profile is None:
        return
    yield f"{SUM_ORDERS[profile.sum_order]}, {CONTRACTIONS[profile.contraction]}"
    if profile.known_order and not profile.trees:
        since = ".".join(map(str, profile.tree_since))
        yield f"reductions in any order: they are balanced trees from Triton {since} on only"
    if profile.known_order or profile.triton != NEWEST:
        yield f"compiled by Triton {'.'.join(map(str, profile.triton))}"
