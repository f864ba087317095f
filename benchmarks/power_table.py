"""How much would notice: mutants of every packaged kernel against RENDER's bound, assert_close and the 2x rule.

    python benchmarks/power_table.py [--device any sm_80] [--kernel TEXT] [--rewrites] [--markdown PATH] [--json PATH]

Every automatic mutant (`render/interpreter/mutation.py`) that changes the result beyond rounding (the rule stands in
`mutants.py`; it uses no bound) is judged in two ways: the unchanged kernel with the mutant's result as its device
output (`bound`), and the mutant as a kernel of its own (`source`). Beside it: torch.testing.assert_close with its
defaults, and "at most twice the reference's error against float64". --rewrites adds the same rules' answers to
equivalent rewrites of the kernels, which nobody should call wrong. Exits with 1 if a kernel or rewrite is Type-II.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import power_source
from mutants import Row, Subject
from power_store import Table, restored, stored, updated

ROOT = Path(__file__).resolve().parent.parent


class Progress:
    """One line on stderr, with what is left at the pace so far."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.began = total, 0, time.perf_counter()

    def step(self, what: str) -> None:
        self.done += 1
        spent = time.perf_counter() - self.began
        left = spent / self.done * (self.total - self.done)
        print(f"[{self.done}/{self.total}] {what}, {spent:.0f} s, about {left:.0f} s left", file=sys.stderr, flush=True)


def measure(todo: list[tuple[Path, list[str]]], tell: Callable[[str], None]) -> Iterator[Table]:
    """One table per kernel."""
    for path, devices in todo:
        table, began, cpu = Table(devices), time.perf_counter(), time.process_time()
        wide: dict[Any, Any] = {}
        for device in devices:
            subject = Subject(path, device, wide)
            table.alarms.append(_alarm("kernel", path.stem, device, subject))
            table.smallest.setdefault(path.stem, {})[device] = subject.smallest()
            table.rows += subject.rows()
            tell(f"{path.stem} on {device}: {len(subject.todo)} mutants")
        table.seconds, table.cpu = time.perf_counter() - began, time.process_time() - cpu
        yield table


def rewrites(todo: list[tuple[Any, list[str]]], tell: Callable[[str], None]) -> Iterator[Table]:
    """The rules' answers to kernels that are right, written in another way; one table per rewrite."""
    with tempfile.TemporaryDirectory() as folder:
        for rewrite, devices in todo:
            path = rewrite.write(Path(folder))
            table = Table(devices)
            for device in devices:
                table.alarms.append(_alarm("rewrite", str(rewrite), device, Subject(path, device, faults=False)))
            tell(f"rewrite {rewrite}")
            yield table


def known_rewrites(only: str) -> list[Any]:
    sys.path.insert(0, str(ROOT))
    from tests.kernels.rewrites import REWRITES

    return [r for r in REWRITES if only in r.kernel]


def _alarm(what: str, name: str, device: str, subject: Subject) -> dict[str, Any]:
    verdict = subject.verdict
    return {"what": what, "name": name, "device": device, "label": verdict.label, "code": verdict.code,
            **subject.false_alarms()}  # fmt: skip


# words
PAGE = """# What would be noticed

Made by `python benchmarks/power_table.py --rewrites --markdown docs/power.md` (`make power`; add `--json` for every
mutant). No GPU; results of mutants are those of the interpreter.

A mutant is a packaged kernel with one planted fault (`render/interpreter/mutation.py`): a loop without its last turn
(`trip`), a shifted mask or limit (`boundary`), exchanged strides (`strides`), a forgotten update of a pointer or of a
carried value (`update`), an accumulator rounded to fp16 or bf16 (`narrow`), a load rounded to bf16 or fp8
(`downgrade`), a result times 1 + 2^-3, 2^-6 or 2^-9 (`scale`), zeros (`zero`), a last program that does nothing
(`program`).

**Which mutants count.** Those that change the result beyond rounding, which is decided without any bound: the mutant
runs again with every format one step wider (fp16 -> fp32, fp32 -> fp64), so that of all roundings only a planted one is
left, and some element must differ from the float64 reference E by more than one unit in the last place of the output's
format, 2u|E|, plus twice what the unchanged kernel differs by in such a run. Elements that are not stored any more, and
NaN on one side only, count too. Where float64 is exact to far below 2u, as here, nothing finer is needed.

**Who notices.** `bound`: the unchanged kernel judged with the mutant's result as its device output is not Type-I.
`source`: the mutant judged as a kernel of its own is not Type-I; what becomes of those that are stands in a table of
its own. `assert_close`: torch's default tolerances
fail. `2x reference`: max|y - E| > 2 max|y_ref - E|. The last two are told of elements that were not stored; on a device
they would see what happened to lie there.
"""


def markdown(table: Table) -> str:
    kinds = _by(table, "Kind of fault", lambda r: r.kind)
    own = [power_source.section(d, table.counted(d)) for d in table.devices]
    parts = [PAGE.strip(), _totals(table), _summary(table), kinds, *own, _kernels(table), _missed(table)]
    if any(a["what"] == "rewrite" for a in table.alarms):
        parts.append(_rewritten(table))
    return "\n\n".join(parts) + "\n"


def _totals(table: Table) -> str:
    first = [r for r in table.rows if r.device == table.devices[0]]
    counted, crashed = len(table.counted(table.devices[0])), sum(r.bound == "crash" for r in first)
    return (
        f"{len(first)} mutants of {len(table.smallest)} kernels: {counted} change the result beyond rounding, "
        f"{len(first) - counted - crashed} do not, {crashed} do not run to their end. "
        f"{table.cpu:.0f} s of CPU time for {len(table.devices)} profiles."
    )


def _summary(table: Table) -> str:
    lines = ["| | " + " | ".join(table.devices) + " |", "|---" * (len(table.devices) + 1) + "|"]
    counted = [table.counted(d) for d in table.devices]
    lines.append(_line("mutants that change the result beyond rounding", [str(len(rows)) for rows in counted]))
    for title, test in _NOTICED.items():
        lines.append(_line(title, [_share(rows, test) for rows in counted]))
    for what in ("kernel", "rewrite"):
        answers = [[a for a in table.alarms if a["what"] == what and a["device"] == d] for d in table.devices]
        if not answers[0]:
            continue
        for name, key in (("RENDER", "render"), ("assert_close", "assert_close"), ("twice the reference", "twice")):
            cells = [f"{sum(a[key] for a in group)} / {len(group)}" for group in answers]
            lines.append(_line(f"false alarms of {name} on correct {what}s", cells))
    return "\n".join(lines)


_NOTICED: dict[str, Callable[[Row], bool]] = {
    "RENDER, result against the kernel's bound: not Type-I": lambda r: r.bound != "Type-I",
    "RENDER, mutant as a kernel of its own: not Type-I": lambda r: r.source != "Type-I",
    "... or Type-I, with the lost precision and its line named": lambda r: r.source != "Type-I" or bool(r.named),
    "... or inside the unchanged kernel's own bound": lambda r: power_source.outcome(r) != "missed",
    "assert_close defaults": lambda r: r.assert_close,
    "error at most twice the reference's": lambda r: r.twice,
}


def _share(rows: list[Row], test: Callable[[Row], bool]) -> str:
    hit = sum(map(test, rows))
    return f"{hit} ({100 * hit / len(rows):.1f} %)" if rows else "-"


def _line(*cells: Any) -> str:
    flat = [c for cell in cells for c in (cell if isinstance(cell, list) else [cell])]
    return "| " + " | ".join(map(str, flat)) + " |"


_COLUMNS = ("mutants", "bound", "source", "assert_close", "2x reference")


def _cells(rows: list[Row]) -> list[str]:
    tests = [_NOTICED[k] for k in _NOTICED if not k.startswith("...")]
    return [str(len(rows)), *(str(sum(map(t, rows))) for t in tests)]


def _by(table: Table, title: str, key: Callable[[Row], str]) -> str:
    blocks = []
    for device in table.devices:
        rows = table.counted(device)
        lines = [f"{title}, `{device}`", "", _line("", list(_COLUMNS)), "|---|" + "---:|" * len(_COLUMNS)]
        for name in sorted({key(r) for r in rows}):
            lines.append(_line(name, _cells([r for r in rows if key(r) == name])))
        lines.append(_line("all", _cells(rows)))
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _kernels(table: Table) -> str:
    blocks = []
    for device in table.devices:
        lines = [f"Kernel, `{device}`", "", _line("", [*_COLUMNS, "smallest relative fault noticed"]),
                 "|---|" + "---:|" * len(_COLUMNS) + "---|"]  # fmt: skip
        for name in table.smallest:
            rows = [r for r in table.counted(device) if r.kernel == name]
            lines.append(_line(name, _cells(rows), _faults(table.smallest[name][device])))
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _faults(found: dict[str, float | None]) -> str:
    return ", ".join(f"{name} {'none' if x is None else f'2^{round(math.log2(x))}'}" for name, x in found.items())


def _missed(table: Table) -> str:
    lines = ["Called Type-I against the kernel's bound:", ""]
    count = Counter((r.kernel, r.device, r.kind, r.what, r.line) for d in table.devices for r in table.counted(d)
                    if r.bound == "Type-I")  # fmt: skip
    lines += [f"- {kernel}:{line} on {device}, {kind}: {what}" for (kernel, device, kind, what, line) in count]
    return "\n".join(lines if count else [*lines, "- none"])


def _rewritten(table: Table) -> str:
    head = ["Rewrite", *(f"{d}: label" for d in table.devices), "assert_close", "2x reference"]
    lines = [_line(head), "|---" * len(head) + "|"]
    by: dict[str, list[dict[str, Any]]] = {}
    for a in table.alarms:
        if a["what"] == "rewrite":
            by.setdefault(a["name"], []).append(a)
    for name, answers in by.items():
        lines.append(
            _line(
                name,
                [a["label"] for a in answers],
                *("fails" if answers[0][k] else "passes" for k in ("assert_close", "twice")),
            )
        )
    return "\n".join(lines)


def main(argv: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", nargs="+", default=["any", "sm_80"])
    parser.add_argument("--kernel", default="", help="kernels whose name contains this")
    parser.add_argument("--part", default="1/1", help="I/N: every N-th kernel and rewrite, from the I-th on")
    parser.add_argument("--rewrites", action="store_true", help="also judge the equivalent rewrites")
    parser.add_argument("--markdown", type=Path, help="write the tables here instead of to stdout")
    parser.add_argument("--json", type=Path, help="write every mutant here, after each kernel")
    parser.add_argument("--resume", action="store_true", help="what --json holds already is not measured again")
    parser.add_argument("--update", type=Path, nargs="*", default=[], help="results to start from, measured elsewhere")
    options = parser.parse_args(None if argv is None else list(argv))
    table = Table([])
    for path in [*options.update, *([options.json] if options.resume and options.json.exists() else [])]:
        table = updated(table, restored(path))
    done = {(a["name"], a["device"]) for a in table.alarms} if options.resume else set()
    first, step = map(int, options.part.split("/"))

    def left(items: list[Any], name: Callable[[Any], str]) -> list[tuple[Any, list[str]]]:
        mine = [(x, [d for d in options.device if (name(x), d) not in done]) for x in items[first - 1 :: step]]
        return [(x, devices) for x, devices in mine if devices]

    paths = left([p for p in sorted((ROOT / "kernels").glob("*.py")) if options.kernel in p.stem], lambda p: p.stem)
    more = left(known_rewrites(options.kernel), str) if options.rewrites else []
    tell = Progress(sum(len(devices) for _, devices in paths) + len(more)).step
    for new in chain(measure(paths, tell), rewrites(more, tell)):
        table = updated(table, new)
        if options.json:
            stored(table, options.json)
    table = updated(table, Table(options.device))
    text = markdown(table)
    if options.markdown:
        options.markdown.write_text(text)
    else:
        print(text)
    if options.json:
        stored(table, options.json)
    return int(any(a["label"] == "Type-II" for a in table.alarms))


if __name__ == "__main__":
    raise SystemExit(main())
