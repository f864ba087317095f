"""docs/libraries.md from the results that `benchmarks/libraries.py` has kept."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from render.lab.suite.accept import Accepted, load
from render.lab.suite.rows import Row

Result = dict[str, Any]
HEAD = """# Libraries

Kernels of published Triton libraries, imported as they are, each against a reference of ours in torch
(`datasets/libraries/<library>/cases.py`): {pairs} (kernel, reference) pairs of {libraries} libraries, {backward} of
them backward passes. `make libraries` installs the pinned versions beside the environment, runs everything in one warm
process per library and writes this page. No case is left out: what does not run stands here with its reason.

A *finding* is a Type-II that was looked into and is true; its argument stands below. *Unargued* ones are open
questions. *Time* is the CPU time of the interval run over that of the stock interpreter's plain run of the same case
(second run of both, geometric mean over those that both run, their number in brackets); *start-up* is what a case costs
before its first launch (median).

{scopes} What
flag_gems asks `nvidia-smi`, the described device answers. For unsloth, whose kernels import transformers through
unsloth_zoo, the folder holds that as well, with what it imports; the package that the registry carries as trident
simulates astronomical observations and has no kernels.

{open}
{note}
"""


def rows_of(kept: Path, device: str) -> dict[str, list[Result]]:
    """The rows of each library, by its name."""
    found = (json.loads(path.read_text()) for path in sorted((kept / device).glob("*.json")))
    return {content["library"]: content["rows"] for content in found}


def argument(row: Result, accepted: tuple[Accepted, ...]) -> Accepted | None:
    plain = Row(row["test"], row["label"], row["code"], row["kernel"], row["file"], row["line"])
    return next((entry for entry in accepted if entry.covers(plain)), None)


def ratios(rows: list[Result]) -> list[float]:
    return [row["warm_s"] / row["stock_s"] for row in rows if row.get("stock_s") and row.get("warm_s")]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _line(name: str, rows: list[Result], accepted: tuple[Accepted, ...]) -> str:
    label = Counter(row["label"] for row in rows)
    wrong = [row for row in rows if row["label"] == "Type-II"]
    true = sum(argument(row, accepted) is not None for row in wrong)
    ran = len(rows) - label["error"] - label["skipped"]
    quotients, ready = ratios(rows), [row["startup_s"] for row in rows if row.get("startup_s")]
    speed = f"{geometric_mean(quotients):.2f} ({len(quotients)})" if quotients else "-"
    start = f"{1000 * median(ready):.0f} ms" if ready else "-"
    open_ = f"{label['Inconclusive']} ({_share(label['Inconclusive'], ran)})"
    cells = (
        name,
        len(rows),
        f"{ran} ({_share(ran, len(rows))})",
        label["Type-I"],
        true,
        len(wrong) - true,
        open_,
        speed,
        start,
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def summary(results: dict[str, list[Result]], accepted: tuple[Accepted, ...]) -> list[str]:
    head = "| library | pairs | run | Type-I | findings | unargued Type-II | Inconclusive | time | start-up |"
    lines = [head, "|---|---|---|---|---|---|---|---|---|"]
    lines += [_line(name, rows, accepted) for name, rows in results.items()]
    everything = [row for rows in results.values() for row in rows]
    return [*lines, _line("**all**", everything, accepted)]


def _text(row: Result) -> str:
    """The message in one table cell; of paths, the last three parts."""
    return re.sub(r"/\S*/(?=[^/\s]+/[^/\s]+/[^/\s]+\.py)", "", str(row["message"])).replace("|", "\\|")


def _place(row: Result) -> str:
    parts = Path(row["file"]).parts
    homes = [i + 1 for i, part in enumerate(parts) if part in ("site-packages", "libraries")]
    short = "/".join(parts[homes[-1] if homes else -3 :])
    return f"{short}:{row['line']}" if row["file"] else ""


def findings(results: dict[str, list[Result]], accepted: tuple[Accepted, ...]) -> list[str]:
    """One paragraph for each argument, with the cases that it covers."""
    covered: dict[Accepted, list[str]] = {}
    for name, rows in results.items():
        for row in rows:
            entry = argument(row, accepted) if row["label"] == "Type-II" else None
            if entry is not None:
                covered.setdefault(entry, []).append(f"{name} `{row['test']}` ({_place(row)})")
    return [f"* **{entry.code}** {', '.join(tests)}: {entry.reason}" for entry, tests in covered.items()]


def left(results: dict[str, list[Result]], accepted: tuple[Accepted, ...]) -> list[str]:
    """What is neither a Type-I nor a finding with its argument."""
    lines = ["| library | case | label | code | place | reason |", "|---|---|---|---|---|---|"]
    for name, rows in results.items():
        for row in rows:
            if row["label"] == "Type-I" or (row["label"] == "Type-II" and argument(row, accepted)):
                continue
            lines.append(f"| {name} | {row['test']} | {row['label']} | {row['code']} | {_place(row)} | {_text(row)} |")
    return lines


def table(results: dict[str, list[Result]]) -> list[str]:
    lines = ["| library | case | label | code | CPU s | stock s |", "|---|---|---|---|---|---|"]
    for name, rows in results.items():
        for row in rows:
            ours = f"{row['warm_s']:.3f}" if row.get("warm_s") else "-"
            stock = f"{row['stock_s']:.3f}" if row.get("stock_s") else "-"
            lines.append(f"| {name} | {row['test']} | {row['label']} | {row['code']} | {ours} | {stock} |")
    return lines


def versions(project: Path) -> list[str]:
    pinned = tomllib.loads(project.read_text())["project"]["optional-dependencies"]["libraries"]
    return [", ".join(f"`{name}`" for name in pinned) + "."]


def left_open(rows: list[Result]) -> str:
    """How many are Inconclusive for masked-off lanes alone."""
    told = [row for row in rows if row["label"] == "Inconclusive"]
    lanes = sum(row["code"] == "RND311" for row in told)
    ran = sum(row["label"] not in ("error", "skipped") for row in rows)
    return (
        f"Of the {len(told)} pairs that are Inconclusive, {lanes} rest on what masked-off lanes without `other` hold\n"
        f"(RND311), which a profile of several targets leaves open; under a named NVIDIA or AMD target, which puts\n"
        f"zeros there, that decides nothing, and {_share(len(told) - lanes, ran)} are left."
    )


def scopes(kept: Path) -> str:
    """In which ways each library was imported and its first kernel called (`benchmarks/library_scopes.py`)."""
    told = kept / "scopes.json"
    found = json.loads(told.read_text()) if told.is_file() else {}
    ways = Counter(way for told in found.values() for way, ran in told.items() if ran)
    failed = [f"{name} in {way}" for name, told in found.items() for way, ran in told.items() if not ran]
    lines = (
        "Imported, and the first kernel called, under `render.no_gpu()` (`benchmarks/library_scopes.py`), so many:",
        f"{', '.join(f'{way} {count}' for way, count in ways.items()) or 'none yet'};",
        f"failed: {', '.join(failed) or 'none'}.",
    )
    return "\n".join(lines)


def page(kept: Path, arguments: Path) -> str:
    accepted = load(arguments)
    results = rows_of(kept, "any")
    everything = [row for rows in results.values() for row in rows]
    backward = sum("backward" in row["test"] for row in everything)
    said = kept / "note.md"  # what is to be known of a page that was not measured in one go
    note = f"\n{said.read_text()}" if said.is_file() else ""
    counts = {"pairs": len(everything), "libraries": len(results), "backward": backward}
    head = HEAD.format(**counts, open=left_open(everything), note=note, scopes=scopes(kept))
    parts = [head, *summary(results, accepted)]
    others = sorted(path.name for path in kept.iterdir() if path.is_dir() and path.name != "any")
    for device in others:
        parts += ["", f"## On {device}", "", "The host's path for this device, and its profile.", ""]
        parts += summary(rows_of(kept, device), accepted)
    parts += ["", "## Findings", "", *findings(results, accepted)]
    parts += ["", "## What is open or does not run", "", *left(results, accepted)]
    parts += ["", "## Versions", "", *versions(arguments.resolve().parents[2] / "pyproject.toml")]
    parts += ["", "## All cases", "", *table(results)]
    return "\n".join(parts) + "\n"
