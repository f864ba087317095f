"""One row per case: what RENDER answered, what it should answer, what that cost.

Each case is judged on three axes that are never merged into one score: the published rule alone (every y_ref inside the
envelope), the device axis (every y_dev inside it) and RENDER's verdict; and once more without a device output
(`source-level`). `disagreements` names every axis on which the answer is not the expected one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from render.lab.corpus.case import CorpusCase
    from render.lab.replay.judging import SourceLevel
    from render.result.verdict import Verdict

SCHEMA = 1


class RuleAnswer(msgspec.Struct, frozen=True):
    """A label with its code; `code` is empty for rules that have none, `label` where a rule gives no answer.

    `note` says why there is no label, or what else must be known to read it. `right` compares with the ground truth.
    """

    label: str = ""
    code: str = ""
    note: str = ""
    right: bool | None = None
    seconds: float | None = None
    max_abs_diff: float | None = None
    mismatched: int | None = None


class Extreme(msgspec.Struct, frozen=True):
    """The element of one output that lies furthest to one side of E, and how far the bound reaches there.

    `difference` is |y - E| with y the device output, else the value of the re-execution; `bound` is |end - E|.
    """

    output: str
    side: str
    index: list[int]
    difference: float
    bound: float
    exact: float


class Output(msgspec.Struct, frozen=True):
    """Figures of one output tensor."""

    name: str
    elements: int
    outside_reference: int
    outside_device: int | None
    tainted: int
    median_relative_width: float | None
    median_half_width: float | None
    worst_usage: float | None
    max_abs_diff: float | None


class ReplayRow(msgspec.Struct, frozen=True):
    """The result of one case. Times are wall seconds; `interval_s` is the interval run of the kernel alone, `total_s`
    everything up to the verdicts (inputs, device model, reference, its float64 twin, budget) and `cpu_s` the processor
    time of the same, which other work on the machine changes less; `interval_cpu_s` and `stock_s` are processor time on
    one thread, for their ratio. `peak_rss_mb` is the process's peak up to the verdicts, `whole_rss_mb` with the simpler
    rules as well.

    `interval_again_s` and `stock_again_s` are the processor time of further runs in the same process, taken with the
    stock interpreter's where the first run was short (`repeats.again`). `stock_triton` is the version whose interpreter
    ran the kernel; `stock_error` says why the installed one did not.

    `witness` is what the second evaluation of a Type-II says ("" where the verdict does not rest on the bound),
    `top_cause` the largest cause of the budget.

    `error` is set where there is no verdict: the case crashed or could not be run.
    """

    id: str
    operation: str
    expected_label: str
    expected_codes: list[str]
    expected_paper_rule: str
    expected_source_label: str
    truth: str
    device_kind: str
    twin_of: str = ""
    label: str = ""
    code: str = ""
    message: str = ""
    paper_rule: str = ""
    reference_axis: str = ""
    device_axis: str = ""
    source_label: str = ""
    source_code: str = ""
    ok: bool = False
    disagreements: list[str] = []
    interval_s: float | None = None
    interval_cpu_s: float | None = None
    stock_s: float | None = None
    stock_fraction: float | None = None
    stock_error: str = ""
    stock_triton: str = ""
    interval_again_s: float | None = None
    stock_again_s: float | None = None
    model_s: float | None = None
    reference_s: float | None = None
    exact_s: float | None = None
    budget_s: float | None = None
    witness: str = ""
    witness_s: float | None = None
    top_cause: str = ""
    baselines_s: float | None = None
    total_s: float | None = None
    cpu_s: float | None = None
    peak_rss_mb: float | None = None
    whole_rss_mb: float | None = None
    programs: int = 0
    outputs: list[Output] = []
    extremes: list[Extreme] = []
    baselines: dict[str, RuleAnswer] = {}
    published: dict[str, Any] = {}
    notes: list[str] = []
    case_notes: list[str] = []
    error: str = ""

    @property
    def width(self) -> float | None:
        """Median relative width of the first output (the issue's own result)."""
        return self.outputs[0].median_relative_width if self.outputs else None

    @property
    def published_width(self) -> float | None:
        """The original package's, as measured at its own size."""
        found: float | None = self.published.get("package", {}).get("median_relative_width")
        return found

    def to_dict(self) -> dict[str, Any]:
        """JSON types; numbers that are not finite become null."""
        found = msgspec.to_builtins(self)
        return {**found, "median_relative_width": self.width, "published_median_relative_width": self.published_width}


def from_dict(found: dict[str, Any]) -> ReplayRow:
    """The inverse of `to_dict`; raises msgspec.ValidationError for anything else."""
    return msgspec.convert(found, ReplayRow)


def expected_of(case: CorpusCase) -> dict[str, Any]:
    """The part of a row that stands in `case.toml`."""
    facts = case.facts
    return {
        "id": facts.id, "operation": facts.operation, "twin_of": facts.twin_of, "truth": facts.label,
        "expected_label": facts.expected.label, "expected_codes": facts.expected.codes,
        "expected_paper_rule": facts.expected.paper_rule, "expected_source_label": facts.expected.source_level,
        "device_kind": facts.device.kind, "published": facts.published, "case_notes": facts.notes,
    }  # fmt: skip


def failed(case: CorpusCase, error: str, total_s: float | None = None) -> ReplayRow:
    """The row of a case that gave no verdict."""
    return ReplayRow(**expected_of(case), error=error, disagreements=["no verdict"], total_s=total_s)


def axes_of(verdict: Verdict) -> tuple[str, str]:
    """(reference, device): inside, outside, or unbounded where some element has no bound; none without a device."""
    if not verdict.outputs:
        return "unbounded", "unbounded"
    unbounded = any(o.tainted for o in verdict.outputs)

    def axis(outside: int) -> str:
        return "outside" if outside else "unbounded" if unbounded else "inside"

    device = [o.outside_device for o in verdict.outputs if o.outside_device is not None]
    return axis(sum(o.outside_reference for o in verdict.outputs)), axis(sum(device)) if device else "none"


def disagreements(case: CorpusCase, verdict: Verdict, source: SourceLevel) -> list[str]:
    """Every axis on which the answer is not the one that `case.toml` expects."""
    want = case.facts.expected
    reference, device = axes_of(verdict)
    pairs = (
        ("label", verdict.label, (want.label,)),
        ("code", verdict.code, tuple(want.codes) or (verdict.code,)),
        ("paper rule", verdict.paper_rule, (want.paper_rule,)),
        ("reference axis", reference, (want.reference,)),
        ("device axis", device, (want.device,)),
        ("source-level label", source.label, (want.source_level,)),
        ("source-level code", source.code, tuple(want.source_codes) or (source.code,)),
    )
    return [f"{name}: {got}, not {' or '.join(allowed)}" for name, got, allowed in pairs if got not in allowed]
