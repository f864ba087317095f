"""The replay as text: one line per case as it finishes, then counts per axis and beside simpler rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from render.lab.replay.rows import Output, ReplayRow

_SHORT = {"Type-I": "I", "Type-II": "II", "Inconclusive": "?", "": "-", "unknown": "-"}
_COLUMNS = (
    ("case", 14, "<"), ("label", 12, "<"), ("code", 7, "<"), ("expected", 12, "<"), ("ok", 4, "<"), ("paper", 5, "<"),
    ("device", 9, "<"), ("source", 12, "<"), ("width", 8, ">"), ("published", 9, ">"), ("run s", 6, ">"),
    ("all s", 6, ">"), ("cpu s", 6, ">"), ("MB", 5, ">"),
)  # fmt: skip
_RULES = {
    "paper": "published rule on our bound",
    "high_precision": "one format wider (re-execution)",
    "allclose": "torch.allclose defaults",
    "assert_close": "assert_close defaults",
    "flash_attention": "twice the reference's error",
}


def header() -> str:
    return "  ".join(f"{name:{align}{width}}" for name, width, align in _COLUMNS) + "  operation"


def line(row: ReplayRow) -> str:
    """One case; `operation` comes last because it is the only one without a fixed width."""
    values = (
        row.id, row.label or "none", row.code, row.expected_label, "ok" if row.ok else "NO",
        _SHORT.get(row.paper_rule, row.paper_rule), row.device_axis or "-", row.source_label or "-",
        _number(row.width), _number(row.published_width), _seconds(row.interval_s), _seconds(row.total_s),
        _seconds(row.cpu_s), "-" if row.peak_rss_mb is None else f"{row.peak_rss_mb:.0f}",
    )  # fmt: skip
    cells = (f"{value:{align}{width}}" for value, (_, width, align) in zip(values, _COLUMNS, strict=True))
    return "  ".join(cells) + f"  {row.operation}"


def _number(x: float | None) -> str:
    return "-" if x is None else f"{x:.2e}"


def _seconds(x: float | None) -> str:
    return "-" if x is None else f"{x:.2f}"


def complaints(row: ReplayRow) -> Iterator[str]:
    """Why a case is not ok, one line each, below its own."""
    if row.error:
        yield f"    no verdict: {row.error}"
        return
    for text in row.disagreements:
        yield f"    {text}"


def details(row: ReplayRow) -> Iterator[str]:
    """The verdict in words and what the case rests on, for a replay of a few cases."""
    texts = [row.message, *(f"{o.name}: {_outside(o)}" for o in row.outputs), *row.notes, *row.case_notes]
    for text in dict.fromkeys(filter(None, texts)):
        yield f"    {text}"


def _outside(output: Output) -> str:
    device = "" if output.outside_device is None else f", {output.outside_device} of the device"
    tainted = f", {output.tainted} without a bound" if output.tainted else ""
    return f"{output.elements} elements; outside the bound {output.outside_reference} of the reference{device}{tainted}"


def summary(rows: list[ReplayRow]) -> Iterator[str]:
    """What the table adds up to: issues and twins apart, every axis for itself."""
    for title, group in (("issues", [r for r in rows if not r.twin_of]), ("twins", [r for r in rows if r.twin_of])):
        if group:
            yield f"{title}: {_count(r.ok for r in group)} as expected on every axis"
            yield (
                f"  verdict         {_count(r.label == r.expected_label for r in group)} labels, "
                + _count(r.code in r.expected_codes for r in group)
                + " codes"
            )
            yield f"  published rule  {_count(r.paper_rule == r.expected_paper_rule for r in group)} as expected"
            yield f"  source level    {_count(r.source_label == r.expected_source_label for r in group)} as expected"
            if asked := [r.witness for r in group if r.witness]:
                agreeing = _count(w == "agrees" for w in asked)
                yield f"  second opinion  {agreeing} interval Type-II confirmed by a witness"
            yield from _rules(group)
    times = [r.total_s for r in rows if r.total_s is not None]
    peaks = [r.peak_rss_mb for r in rows if r.peak_rss_mb is not None]
    if times and peaks:
        cpu = sum(r.cpu_s or 0.0 for r in rows)
        work = f"{sum(times):.1f} s ({cpu:.1f} s of processor time)"
        yield f"{work} in {len(times)} processes, the largest {max(peaks):.0f} MB"


def _count(flags: Iterable[bool]) -> str:
    found = list(flags)
    return f"{sum(found)} / {len(found)}"


def _rules(group: list[ReplayRow]) -> Iterator[str]:
    """Right and wrong per rule, against the ground truth; wrong ones split by what was called what."""
    if not any(r.baselines for r in group):
        return
    yield f"  {'against the ground truth':<34}{'right':>6}{'missed':>8}{'false alarm':>13}{'no answer':>11}"
    own = [(r.label, r.truth) for r in group]
    yield _rule("RENDER", own)
    for name, title in _RULES.items():
        yield _rule(title, [(r.baselines[name].label if name in r.baselines else "", r.truth) for r in group])
    for title, quoted in quotations(group).items():
        if any(quoted):
            right, wrong = quoted.count("right"), quoted.count("wrong")
            yield f"  {title:<34}{right:>6}{f'{wrong} wrong':>8}{'':>13}{len(quoted) - right - wrong:>11}"


def quotations(group: list[ReplayRow]) -> dict[str, list[str]]:
    """The paper's own columns: right, wrong or why there is no answer; RENDER's follows from its device output."""
    own = ["" if "inside" not in r.published else _agrees(r.published["inside"], r.truth) for r in group]
    found = {"RENDER, published (quoted)": own}
    for name, title in (("satire", "SATIRE (quoted)"), ("high_precision", "High-Precision (quoted)")):
        found[title] = [r.published.get(name, "") for r in group]
    return found


def _agrees(inside: bool, truth: str) -> str:
    return "right" if inside == (truth == "Type-I") else "wrong"


def _rule(title: str, pairs: list[tuple[str, str]]) -> str:
    right = sum(label == truth for label, truth in pairs)
    missed = sum(label == "Type-I" and truth == "Type-II" for label, truth in pairs)
    alarms = sum(label == "Type-II" and truth == "Type-I" for label, truth in pairs)
    return f"  {title:<34}{right:>6}{missed:>8}{alarms:>13}{len(pairs) - right - missed - alarms:>11}"
