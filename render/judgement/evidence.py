"""The facts of a verdict, each typed by what it rests on: proof, measurement, estimate or index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from render.result.records import Evidence
from render.result.verdict import OutputVerdict, Verdict

Kind = Literal["proof", "measurement", "estimate", "index"]


def evidence_of(v: Verdict, proved: Mapping[str, bool]) -> tuple[Evidence, ...]:
    """`proved`: the outputs whose exact value has a proved margin everywhere."""
    return tuple(_facts(v, proved))


def _facts(v: Verdict, proved: Mapping[str, bool]) -> Iterator[Evidence]:
    for output in v.outputs:
        yield from _of_output(output, proved.get(output.name, False))
    for item in v.budget[:1]:
        kind: Kind = "measurement" if item.confirmed or v.budget_basis.method == "re-run" else "estimate"
        yield Evidence(kind, "budget/0/share", item.share, f"part of the bound that {item.cause} owns")
    if v.differs is not None:
        yield Evidence("estimate", "differs/share", v.differs.share, v.differs.sentence)
    for one in v.unrounded:
        kind = "estimate" if one.estimated else "measurement"
        yield Evidence(kind, f"unrounded/{one.output}/differing", one.differing, one.sentence)
    for finer in v.finer:
        kind = "proof" if finer.rigorous else "estimate"
        yield Evidence(kind, f"finer/{finer.output}/evaluated", finer.evaluated, finer.sentence)
    if v.witness is not None:
        kind = "proof" if v.witness.status == "agrees" else "index"
        yield Evidence(kind, "witness/status", v.witness.status, v.witness.sentence)
    for i, finding in enumerate(v.findings):
        yield Evidence("measurement", f"findings/{i}", finding.count, f"{finding.code}: {finding.message}")
    if v.instability is not None:
        text = "error over what conditioning and one rounding explain"
        yield Evidence("index", "instability/eta", v.instability.eta, text)
    if v.power is not None:
        yield Evidence("measurement", "power/share", v.power.share, "planted faults that leave the bound")
    yield Evidence(
        "measurement", "verdict/paper_rule", v.paper_rule, "the published rule alone: is y_ref in the bound?"
    )


def _of_output(o: OutputVerdict, proved: bool) -> Iterator[Evidence]:
    path = f"outputs/{o.name}"
    if not o.elements:
        yield Evidence("measurement", f"{path}/detail", o.code, o.detail or "it cannot be compared by elements")
        return
    bounded: Kind = "proof" if not o.tainted else "estimate"
    said = "largest half width of the bound, which holds every legal execution"
    if o.tainted:
        said += f" but those behind a taint ({o.tainted} elements)"
    yield Evidence(bounded, f"{path}/bound/max_half_width", o.bound.max_half_width, said)
    exact: Kind = "proof" if proved else "estimate"
    text = "elements whose exact reference lies outside of the bound, beyond its own error"
    yield Evidence(exact, f"{path}/outside_exact", o.outside_exact, text)
    text = "elements of the reference, as it returned them, outside of the bound"
    yield Evidence("measurement", f"{path}/outside_reference", o.outside_reference, text)
    if o.outside_device is not None:
        text = "elements of the device output outside of the bound"
        yield Evidence("measurement", f"{path}/outside_device", o.outside_device, text)
    yield Evidence("measurement", f"{path}/max_abs_diff", o.max_abs_diff, "largest difference to the reference")
    yield Evidence("index", f"{path}/worst_usage", o.worst_usage, "largest part of its bound that an element uses")
    if o.tolerance is not None:
        text = "smallest absolute tolerance that every legal execution passes"
        yield Evidence("proof", f"{path}/tolerance/atol", o.tolerance.atol, text)
