"""Mutants judged as kernels of their own: what a user sees who made the mistake, by kind of fault.

A verdict on a source has no other kernel to compare with. So a lost precision is round-off there, with a wider bound;
what matters is whether the verdict says so: the coarser format, its line, and what it costs.
"""

from __future__ import annotations

from statistics import median

from mutants import Row

OUTCOMES = ("Type-II", "Inconclusive", "downgrade", "cause", "somewhere", "within", "missed")
TITLES = {
    "Type-II": "Type-II",
    "Inconclusive": "Inconclusive",
    "downgrade": "Type-I, precision downgrade named",
    "cause": "Type-I, line named as the cause",
    "somewhere": "Type-I, a downgrade without its line",
    "within": "Type-I, within the kernel's own bound",
    "missed": "missed",
}
WORDS = """Mutants as kernels of their own, `{device}`

*Precision downgrade named*: the verdict says that a format inside is coarser than the interface, which one, and where.
*Line named as the cause*: the format is as coarse as the interface (an fp16 accumulator between fp16 inputs and
output), so that nothing is downgraded; the planted line is named as the largest cause of the bound. *Within the
kernel's own bound*: what the fault changes is less than legal executions of the unchanged kernel differ by on this
profile, so that no test of results can tell. *Missed*: a Type-I that says nothing of the fault. Those that stop with an
error count as Type-II."""


def outcome(row: Row) -> str:
    if row.source == "crash":
        return "Type-II"
    if row.source != "Type-I":
        return row.source
    return row.named or ("within" if row.bound == "Type-I" else "missed")


def section(device: str, rows: list[Row]) -> str:
    """The table, what the prices are, and what is missed, one by one."""
    head = ["", "mutants", *TITLES.values()]
    lines = [WORDS.format(device=device), "", f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    for kind in sorted({r.kind for r in rows}):
        lines.append(_row(kind, [r for r in rows if r.kind == kind]))
    lines.append(_row("all", rows))
    return "\n".join([*lines, "", _prices(rows), "", *_listed(rows)])


def _row(title: str, rows: list[Row]) -> str:
    seen = [outcome(r) for r in rows]
    return f"| {title} | {len(rows)} | {' | '.join(str(seen.count(o)) for o in OUTCOMES)} |"


def _prices(rows: list[Row]) -> str:
    named = [r for r in rows if r.named]
    priced = sorted(r.price for r in named if r.price > 1)
    if not priced:
        return f"{len(named)} verdicts name the lost precision."
    hollow = sum(r.source == "Inconclusive" and r.source_code == "RND301" for r in rows)
    return (
        f"{len(named)} verdicts name the lost precision, {len(priced)} of them with its price, a factor that was"
        " measured (the bound without it, or the error over what conditioning and one rounding explain):"
        f" {priced[0]:.3g} to {priced[-1]:.3g}, median {median(priced):.3g}."
        f" {hollow} are Inconclusive because the bound is hollow (RND301)."
    )


def _listed(rows: list[Row]) -> list[str]:
    missed = [f"- {r.kernel}:{r.line}, {r.kind}: {r.what} ({r.source_code})" for r in rows if outcome(r) == "missed"]
    within = [f"- {r.kernel}:{r.line}, {r.kind}: {r.what}" for r in rows if outcome(r) == "within"]
    return ["Missed:", "", *(missed or ["- none"]), "", "Within the kernel's own bound:", "", *(within or ["- none"])]
