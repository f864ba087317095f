"""The tables and figures of the evaluation, from a replay of the corpus: Markdown, JSON and PNG.

    render replay issues --stock --stock-triton .venv/triton-3.6 --json replay.json
    python benchmarks/paper_tables.py replay.json --out tables/

Without a file the replay is run first (with --stock, and --stock-triton if that is given). Bound figure: how far the
envelope of each kernel reaches to either side of the exact value, against the largest difference seen there, absolute
and relative. Time figure: the interval run against the plain run of the stock interpreter, and their ratio. Figures
need matplotlib (extra `plot`).

Times of the original package were measured on another day with its own hand-edited kernels; they are quoted, as are
the columns of tools that are not run here.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from render.lab.replay.repeats import SHORT_S

Case = dict[str, Any]

RULES = {
    "paper": "published rule, our bound",
    "high_precision": "one format wider",
    "allclose": "allclose",
    "assert_close": "assert_close",
    "flash_attention": "2x the reference's error",
}
MARK = "<!-- tables: written by benchmarks/paper_tables.py -->"
LIMIT, SMALL, SMALL_LIMIT = 0.5, 0.2, 0.1
"""No interval run above LIMIT times the plain run; where that takes less than SMALL seconds, above SMALL_LIMIT."""
SHORT = {"Type-I": "I", "Type-II": "II", "Inconclusive": "?"}


def package(case: Case) -> dict[str, Any]:
    """What the original package gave for this case, measured or published."""
    return case["published"].get("package", {})


def number(x: float | None, form: str = ".2e") -> str:
    return "-" if x is None else format(x, form)


def ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def verdict_table(cases: list[Case]) -> str:
    """Label, code and the axes, never merged; device outputs say of what kind they are."""
    rows = [
        [
            c["id"], c["operation"], SHORT.get(c["truth"], "-"), SHORT.get(c["label"], "-"), c["code"] or "-",
            "yes" if c["ok"] else "NO: " + "; ".join(c["disagreements"] or [c["error"]]),
            SHORT.get(c["paper_rule"], "-"), c["reference_axis"] or "-", c["device_axis"] or "-", c["device_kind"],
            SHORT.get(c["source_label"], "-"),
        ]
        for c in cases
    ]  # fmt: skip
    head = ["case", "operation", "truth", "verdict", "code", "as expected", "published rule", "y_ref", "y_dev",
            "device output", "without it"]  # fmt: skip
    return markdown_table(head, rows)


def width_table(cases: list[Case]) -> str:
    """Median relative widths; a ratio above 1 means that our bound is wider."""
    rows = []
    for c in cases:
        ours, theirs = c["median_relative_width"], c["published_median_relative_width"]
        by_hand = " (hand computation)" if package(c).get("hand_computed") else ""
        unsound = f" (not sound: {package(c)['unsound']})" if "unsound" in package(c) else ""
        rows.append([c["id"], number(ours), number(theirs) + by_hand + unsound, number(ratio(ours, theirs), ".3g")])
    table = markdown_table(["case", "ours", "original package", "ours / theirs"], rows)
    found = [r for c in cases if (r := width_ratio(c)) is not None]
    if not found:
        return table
    wider = [f"{name} ({r:.2f}{', theirs is not sound' if 'unsound' in package(c) else ''})"
             for c in cases for name, r in [(c["id"], width_ratio(c))] if r is not None and r > 1]  # fmt: skip
    mean = geometric_mean(found)
    return (
        f"{table}\n\nGeometric mean of the ratio: {mean:.3g}, so ours are {1 / mean:.1f} times tighter. "
        f"Wider than the original's: {', '.join(wider) or 'none'}."
    )


def width_ratio(case: Case) -> float | None:
    return ratio(case["median_relative_width"], case["published_median_relative_width"])


def time_table(cases: list[Case]) -> str:
    rows = []
    for c in cases:
        fraction = c["stock_fraction"]
        of = [f"Triton {c['stock_triton']}"] if _other_triton(c) else []
        of += [] if fraction in (None, 1.0) else [f"from {100 * fraction:.1f} % of the programs"]
        share = f" ({', '.join(of)})" if of else ""
        size = f" ({package(c)['size']})" if "size" in package(c) else ""
        rows.append(
            [
                c["id"], number(c["interval_cpu_s"], ".3f"), number(c["stock_s"], ".3f") + share,
                number(first_overhead(c), ".3f"), number(c.get("interval_again_s"), ".3f"),
                number(c.get("stock_again_s"), ".3f"), number(overhead(c), ".3f"),
                number(c["total_s"], ".2f"), number(c["cpu_s"], ".2f"),
                number(c["peak_rss_mb"], ".0f"), number(package(c).get("interval_s"), ".3g") + size,
                number(package(c).get("plain_s"), ".3g") + size,
                number(package(c).get("interval_rss_mb"), ".0f") + size,
            ]
        )  # fmt: skip
    head = ["case", "interval run, first", "stock interpreter, plain run, first", "ratio", "interval run, again",
            "stock, again", "ratio", "whole case, wall", "whole case", "MB",
            "original, interval (quoted)", "original, plain (quoted)", "original MB (quoted)"]  # fmt: skip
    note = (
        "Seconds of processor time on one thread, unless it says wall. Again: the median of three further runs in the "
        f"same process, where the first took at most {SHORT_S:.0f} s on that side; of a longer one first use is a "
        "small part. The last ratio takes further runs, or long first ones, on each side.\n\n"
    )
    return note + markdown_table(head, rows) + _means(cases)


def _other_triton(case: Case) -> bool:
    """Whether the plain run is that of another Triton than the one that is installed, which refused the kernel."""
    return bool(case.get("stock_error")) and case["stock_s"] is not None


def first_times(case: Case) -> tuple[float | None, float | None]:
    """Processor time of the first interval run and of the stock interpreter's first plain run, each in its process."""
    return case["interval_cpu_s"], case["stock_s"]


def times(case: Case) -> tuple[float | None, float | None]:
    """The same without what only a process's first run pays: of further runs, or of a first one that was long.

    First runs on both sides where one of them was short and could not be repeated.
    """
    again = case.get("interval_again_s"), case.get("stock_again_s")
    ours, plain = (_steady(first, more) for first, more in zip(first_times(case), again, strict=True))
    return first_times(case) if None in (ours, plain) else (ours, plain)


def _steady(first: float | None, again: float | None) -> float | None:
    return again if again is not None else first if first and first > SHORT_S else None


def first_overhead(case: Case) -> float | None:
    return ratio(*first_times(case))


def overhead(case: Case) -> float | None:
    """Processor time of the interval run over that of the stock interpreter's plain run."""
    return ratio(*times(case))


def _means(cases: list[Case]) -> str:
    """The summary that the targets are about: mean, and the cases that miss the limit of their size."""
    if all(overhead(c) is None for c in cases):
        return ""
    text = f"{_mean_of(cases, times)} First runs alone: {_mean_of(cases, first_times)}"
    failed = [f"{c['id']}: {c['stock_error']}" for c in cases if c.get("stock_error") and not _other_triton(c)]
    why = f" The stock interpreter does not run {'; '.join(failed)}." if failed else ""
    older = [f"{c['id']} (Triton {c['stock_triton']}; {c['stock_error']})" for c in cases if _other_triton(c)]
    why += f" The plain run of another Triton, because the installed one refuses: {'; '.join(older)}." if older else ""
    return f"\n\n{text}{why}"


def _mean_of(cases: list[Case], pair: Callable[[Case], tuple[float | None, float | None]]) -> str:
    known = [(c["id"], ours, plain) for c in cases for ours, plain in [pair(c)] if ours and plain]
    alone = {c["id"]: c.get("interval_again_s") for c in cases} if pair is times else {}  # needs no second plain run
    late = [
        f"{name} ({ours / plain:.2f}x, {ours:.2f} s)"
        for name, ours, plain in known
        if (ours > LIMIT * plain if plain >= SMALL else (alone.get(name) or ours) > SMALL_LIMIT)
    ]
    mean = geometric_mean([ours / plain for _, ours, plain in known])
    large = [ours / plain for _, ours, plain in known if plain >= SMALL]
    text = f"Geometric mean of the ratio over {len(known)} cases: {mean:.3f}"
    if large:
        text += f"; over the {len(large)} whose plain run takes {SMALL} s or more: {geometric_mean(large):.3f}"
    rule = f"above {LIMIT}x (above {SMALL_LIMIT} s where the plain run takes less than {SMALL} s)"
    return f"{text}. Cases {rule}: {', '.join(late) or 'none'}."


def rule_table(cases: list[Case]) -> str:
    """Every rule on the same inputs and the same device output; quoted columns are the paper's."""
    rows = []
    for c in cases:
        answers = [c["baselines"].get(name) for name in RULES]
        cells = [_cell(answer, c["truth"]) for answer in answers]
        quoted = [_published(c), *(c["published"].get(name, "-") for name in ("satire", "high_precision"))]
        rows.append([c["id"], SHORT.get(c["truth"], "-"), _mark(c["label"], c["truth"]), *cells, *quoted])
    head = ["case", "truth", "RENDER", *RULES.values(), "RENDER, published (quoted)", "SATIRE (quoted)",
            "High-Precision (quoted)"]  # fmt: skip
    totals = ["right", "", _total(cases, lambda c: c["label"])]
    totals += [_total(cases, lambda c, n=name: c["baselines"].get(n, {}).get("label", "")) for name in RULES]
    totals.append(str(sum(_published(c) == "right" for c in cases)))
    totals += [str(sum(c["published"].get(n) == "right" for c in cases)) for n in ("satire", "high_precision")]
    return markdown_table(head, [*rows, totals]) + _differences(cases)


def _differences(cases: list[Case]) -> str:
    """Every case where re-execution in a wider format and the column published for it do not agree, and why."""
    lines = []
    for c in cases:
        answer, quoted = c["baselines"].get("high_precision"), c["published"].get("high_precision")
        if answer is None or quoted is None:
            continue
        ours = "no answer" if not answer["label"] else "right" if answer["label"] == c["truth"] else "wrong"
        if ours == quoted or (ours == "no answer" and quoted not in ("right", "wrong")):
            continue
        lines.append(f"- {c['id']}: {ours} here, published {quoted!r}. {_why(answer)}")
    if not lines:
        return ""
    return "\n\nRe-execution one format wider and its published column differ in:\n\n" + "\n".join(lines)


def _why(answer: dict[str, Any]) -> str:
    if not answer["label"]:
        return answer["note"][:1].upper() + answer["note"][1:] + "."
    gap = number(answer["max_abs_diff"], ".2g")
    if answer["mismatched"]:
        return f"Run again, {answer['mismatched']} elements still differ by more than the tolerance (largest {gap})."
    return (
        f"Run again, programs one after the other, no element differs by more than the tolerance (largest {gap}): "
        "the mismatch vanishes."
    )


def _published(case: Case) -> str:
    """The paper's answer: its device output inside its bound means Type-I."""
    inside = case["published"].get("inside")
    return "-" if inside is None else "right" if inside == (case["truth"] == "Type-I") else "wrong"


def _mark(label: str, truth: str) -> str:
    return "-" if not label else SHORT.get(label, label) + ("" if label == truth else " (wrong)")


def _cell(answer: dict[str, Any] | None, truth: str) -> str:
    if answer is None:
        return "-"
    if not answer["label"]:
        return answer["note"].split(":")[0] or "-"
    return _mark(answer["label"], truth)


def _total(cases: list[Case], label: Callable[[Case], str]) -> str:
    return f"{sum(label(c) == c['truth'] for c in cases)} / {len(cases)}"


def markdown(document: dict[str, Any]) -> str:
    parts = []
    for title, twins in (("The issues", False), ("Twins", True)):
        cases = [c for c in document["cases"] if bool(c["twin_of"]) == twins]
        if cases:
            notes = [f"- {c['id']}: {note}" for c in cases for note in c["case_notes"]]
            for name, table in (("verdicts", verdict_table), ("simpler rules", rule_table), ("widths", width_table),
                                ("time and memory", time_table)):  # fmt: skip
                parts.append(f"## {title}: {name}\n\n{table(cases)}\n")
            parts.append("\n".join([f"## {title}: notes\n", *notes]) + "\n" if notes else "")
    versions = ", ".join(f"{k} {v}" for k, v in document["versions"].items())
    return "# Replay of the corpus\n\n" + "\n".join(parts) + f"\n{versions}\n"


# --- figures -----------------------------------------------------------------------------------------------------


def bounds_of(case: Case) -> dict[str, dict[str, float]]:
    """Per side the extreme of the first output: difference, bound, and both relative to the exact value."""
    name = case["outputs"][0]["name"] if case["outputs"] else ""
    return {e["side"]: e for e in case["extremes"] if e["output"] == name}


def draw_bounds(cases: list[Case], path: Path) -> None:
    """Bound and largest difference, left and right of the exact value, absolute above and relative below.

    Both axes of sizes are logarithmic; a size of zero has no place there and is drawn on the line "0" below the axis.
    """
    import matplotlib.pyplot as plt

    ids = [c["id"] for c in cases]
    figure, grid = plt.subplots(2, 2, figsize=(13, 8), sharex=True, layout="constrained")
    for column, side in enumerate(("left", "right")):
        for row, relative in enumerate((False, True)):
            axis = grid[row][column]
            pairs = [_sizes(bounds_of(c).get(side), relative) for c in cases]
            _lollipops(axis, cases, pairs)
            where = "below" if side == "left" else "above"
            axis.set_title(f"{'relative' if relative else 'absolute'}, {where} the exact value", fontsize=10)
            axis.set_xticks(range(len(ids)), ids, rotation=90)
    grid[0][0].legend(fontsize=8, loc="upper left")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _sizes(extreme: dict[str, Any] | None, relative: bool) -> tuple[float, float] | None:
    """(difference, bound), zero where the output does not reach to that side; None where there is nothing to show."""
    if extreme is None:
        return None
    scale = abs(extreme["exact"]) if relative else 1.0
    return (max(extreme["difference"], 0.0) / scale, max(extreme["bound"], 0.0) / scale) if scale else None


def _lollipops(axis: Any, cases: list[Case], pairs: list[tuple[float, float] | None]) -> None:
    sizes = [x for pair in pairs if pair for x in pair if x > 0]
    if not sizes:
        return
    floor = 10.0 ** (_exponent(min(sizes)) - 1)
    axis.set_yscale("log")
    axis.axhline(floor, color="0.7", linewidth=0.8)
    axis.yaxis.set_major_formatter(lambda y, _: "0" if y == floor else "" if y < floor else f"1e{_exponent(y * 1.01)}")
    axis.set_axisbelow(True)
    for i, (case, pair) in enumerate(zip(cases, pairs, strict=True)):
        if pair is None:
            continue
        difference, bound = (x if x > 0 else floor for x in pair)
        outside = difference > bound
        axis.plot([i, i], sorted((difference, bound)), color="0.8", linewidth=1, zorder=1)
        axis.scatter(i, bound, marker="_", s=120, color="tab:blue", zorder=2, label="bound" if i == 0 else None)
        label = "largest difference" if i == 0 else None
        axis.scatter(i, difference, marker="x" if outside else "o", s=26, zorder=3, label=label,
                     color="tab:red" if case["truth"] == "Type-II" else "tab:green")  # fmt: skip
    axis.set_yticks([floor, *(10.0**e for e in range(_exponent(floor) + 2, _exponent(max(sizes)) + 2, 2))])
    axis.minorticks_off()
    axis.scatter([], [], marker="o", color="tab:red", label="ground truth: bug")
    axis.scatter([], [], marker="x", color="0.3", label="outside the bound")
    axis.grid(axis="y", color="0.92")


def _exponent(x: float) -> int:
    from math import floor, log10

    return floor(log10(x))


_HOLLOW = {"stock": "extrapolated", "original": "part of the size"}


def _partial(case: Case, series: str) -> bool:
    """Was this time not measured at the full size? Such points are hollow."""
    return (
        case["stock_fraction"] not in (None, 1.0)
        if "stock" in series
        else ("original" in series and "size" in package(case))
    )


def draw_times(cases: list[Case], path: Path) -> None:
    """Plain and interval time of every kernel (log), and their ratio (log, 1 marked); extrapolated times are hollow."""
    import matplotlib.pyplot as plt

    ids = [c["id"] for c in cases]
    figure, (above, below) = plt.subplots(2, 1, figsize=(11, 8), sharex=True, layout="constrained")
    series = (
        ("ours, interval run", "tab:blue", "o", lambda c: times(c)[0]),
        ("stock interpreter, plain run", "0.35", "s", lambda c: times(c)[1]),
        ("original package, interval run (quoted, wall)", "tab:orange", "^", lambda c: package(c).get("interval_s")),
    )  # fmt: skip
    for title, color, marker, get in series:
        points = [(i, get(c), _partial(c, title)) for i, c in enumerate(cases)]
        for hollow in (False, True):
            chosen = [(i, y) for i, y, h in points if y and h == hollow]
            if chosen:
                above.scatter(*zip(*chosen, strict=True), marker=marker, edgecolors=color,
                              facecolors="none" if hollow else color,
                              label=title + (f", {_HOLLOW[title.split()[0]]}" if hollow else ""))  # fmt: skip
    above.set_yscale("log")
    above.set_ylim(top=above.get_ylim()[1] * 40)  # room for the legend
    above.set_ylabel("seconds of processor time (quoted: wall)")
    above.legend(fontsize=8, loc="upper left", ncols=2)
    ratios = [(i, overhead(c), ratio(package(c).get("interval_s"), package(c).get("plain_s")))
              for i, c in enumerate(cases)]  # fmt: skip
    below.axhline(1.0, color="0.6", linewidth=1)
    below.scatter([i for i, r, _ in ratios if r], [r for _, r, _ in ratios if r], color="tab:blue", label="ours")
    theirs = [(i, r) for i, _, r in ratios if r and not package(cases[i]).get("hand_computed")]
    below.scatter([i for i, _ in theirs], [r for _, r in theirs], marker="^", color="tab:orange",
                  label="original package (quoted; hand computations left out)")  # fmt: skip
    below.set_yscale("log")
    below.set_ylabel("interval run / plain run")
    below.set_xticks(range(len(ids)), ids, rotation=90)
    below.legend(fontsize=8)
    for axis in (above, below):
        axis.set_axisbelow(True)
        axis.grid(axis="y", color="0.92")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def replayed(jobs: int, older: str) -> dict[str, Any]:
    """The document of a replay of the issues with stock times, run now (finished results are reused)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "replay.json"
        command = [sys.executable, "-m", "render", "replay", "all", "--stock", "--jobs", str(jobs), "--json", str(path)]
        done = subprocess.run(command + (["--stock-triton", older] if older else []))
        if not path.exists():
            sys.exit(done.returncode)
        return json.loads(path.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("replay", nargs="?", type=Path, help="JSON of `render replay --json`; none: run it now")
    parser.add_argument("--out", type=Path, default=Path("tables"))
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--stock-triton", default="", help="folder of an older Triton, for the replay that is run now")
    parser.add_argument("--page", type=Path, help="also write the tables into this page, below its mark")
    parser.add_argument("--no-figures", action="store_true")
    options = parser.parse_args()
    document = (
        json.loads(options.replay.read_text()) if options.replay else replayed(options.jobs, options.stock_triton)
    )
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "tables.md").write_text(markdown(document))
    if options.page:
        head = options.page.read_text().split(MARK)[0]
        options.page.write_text(head + MARK + "\n\n" + "\n".join(markdown(document).splitlines()[2:]) + "\n")
    (options.out / "replay.json").write_text(json.dumps(document, indent=2) + "\n")
    if not options.no_figures:
        issues = [c for c in document["cases"] if not c["twin_of"]]
        draw_bounds(issues, options.out / "bounds.png")
        draw_times(issues, options.out / "times.png")
    print(f"wrote {', '.join(sorted(p.name for p in options.out.iterdir()))} to {options.out}")


if __name__ == "__main__":
    main()
