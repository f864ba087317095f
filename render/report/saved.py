"""A verdict that was written as JSON, told again: its budget, what would change it, its power, its lines.

Works on the JSON alone (and on the source files it names, if they are still there), so it imports nothing heavy.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from render.report.explained import power_rows, what_if_rows
from render.report.growth import growth
from render.report.text import percent, place
from render.result.elements import Witness
from render.result.errors import RenderError
from render.result.records import BudgetBasis, Counterfactual, LineWidth, Mutant, Power

LAST = "last"


def last_path() -> Path:
    """Where `render classify` keeps its latest result: $XDG_CACHE_HOME/render, or ~/.cache/render."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "render" / "last.json"


def load(path: str | Path) -> dict[str, Any]:
    """The report at `path`, or the latest one for `last`. Raises RenderError where there is none."""
    where = last_path() if str(path) == LAST else Path(path)
    if not where.is_file():
        hint = "run `render classify FILE` first" if str(path) == LAST else "write one with --json PATH"
        raise RenderError("RND901", f"no saved verdict: {where}", hint)
    try:
        data = json.loads(where.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RenderError("RND901", f"cannot read {where}: {error}") from None
    if not isinstance(data, dict) or "verdict" not in data:
        raise RenderError("RND901", f"{where} holds no verdict", "it must come from `render classify --json`")
    return data


def lines(data: Mapping[str, Any]) -> Iterator[str]:
    """The explanation, line by line."""
    verdict = data["verdict"]
    yield f"{verdict['label']}  {verdict['code']}  {verdict['message']}"
    yield f"  kernel {', '.join(data.get('kernels', ()))}   device {data.get('device', '')}"
    yield ""
    yield from _section("error budget", _budget(data))
    yield from _section("what would change it (re-run)", _what_ifs(data))
    yield from _section("power", _power(data))
    yield from _section("where NaN and inf are made", _origins(data))
    yield from _section("second opinion", _second(data))
    yield from growth([LineWidth(**_numbers(item, math.nan)) for item in data.get("lines", ())])
    yield from _section("rests on", (f"  {line}" for line in data.get("assumptions", ())))
    if missing := [flag for key, flag in _FLAGS.items() if not data.get(key)]:
        yield f"more with: render classify ... {' '.join(missing)}"


_FLAGS = {"counterfactuals": "--counterfactuals", "power": "--power", "lines": "--lines"}


def _section(title: str, rows: Iterator[str]) -> Iterator[str]:
    rows_ = list(rows)
    if rows_:
        yield from (title, *rows_, "")


def _numbers(item: Mapping[str, Any], missing: float) -> dict[str, Any]:
    """JSON has no inf and NaN: they were written as null."""
    floats = {"shrink", "relative", "operands", "share"}
    return {k: missing if v is None and k in floats else v for k, v in item.items()}


def _budget(data: Mapping[str, Any]) -> Iterator[str]:
    for item in data.get("budget", ()):
        where = place(item["file"], item["line"] or None)
        gone = item.get("shrink") or math.inf
        without = f"   without it the bound is {gone:.2g}x narrower (re-run)" if 1.05 < gone < math.inf else ""
        yield f"  {percent(item['share']):>7}  {item['cause']}  {where}{_worst_and_median(item)}{without}"
        for line in item.get("lines", ()) if len(item.get("lines", ())) > 1 else ():
            yield f"  {percent(line['share']):>15}  {place(line['file'], line['line'] or None) or 'arguments'}"
    if (why := data.get("differs")) and why["seen"]:
        yield f"  why the outputs differ: {why['sentence']}"
    if basis := data.get("budget_basis", {}):
        said = BudgetBasis(basis["method"], tuple(map(tuple, basis["covered"])), tuple(basis["left_out"])).sentence
        if said:
            yield f"  {said}"
    for output in data.get("outputs", ()):
        width = output["bound"]["median_relative_width"]
        if width is not None:
            yield f"  {output['name']}: median relative width {width:.2g}, worst usage {_share(output['worst_usage'])}"


def _worst_and_median(item: Mapping[str, Any]) -> str:
    """Its shares at the worst and at the median element, and of the typical error, where they differ."""
    worst, median, typical = item.get("worst"), item.get("median"), item.get("typical")
    said = []
    if worst is not None and median is not None and abs(worst - median) >= 0.01:
        said += [f"worst element {percent(worst)}", f"median {percent(median)}"]
    if typical is not None and abs(typical - item["share"]) >= 0.01:
        said.append(f"of the typical error {percent(typical)}")
    return f"   ({', '.join(said)})" if said else ""


def _share(x: float | None) -> str:
    return "n/a" if x is None else percent(x)


def _what_ifs(data: Mapping[str, Any]) -> Iterator[str]:
    items = tuple(Counterfactual(**_numbers(item, math.inf)) for item in data.get("counterfactuals", ()))
    for what, effect in what_if_rows(items, data["verdict"]["label"]):
        yield f"  {effect} with {what}"


def _power(data: Mapping[str, Any]) -> Iterator[str]:
    found = data.get("power")
    if found:
        fields = _numbers(found, math.nan) | {"mutants": tuple(Mutant(**m) for m in found["mutants"])}
        yield from (f"  {row}" for row in power_rows(Power(**fields)))


def _origins(data: Mapping[str, Any]) -> Iterator[str]:
    for item in data.get("origins", ()):
        o = SimpleNamespace(**item)
        what = f"read from {o.memory}" if o.memory else o.operands or o.op
        fate = "" if getattr(o, "reach", "output") == "output" else f", {o.reach}, {o.lanes} lanes"
        yield f"  {o.kind}: {what}  {place(o.file, o.line)}  (program {tuple(o.program)}{fate})"


def _second(data: Mapping[str, Any]) -> Iterator[str]:
    found = data.get("witness")
    if found:
        yield f"  {Witness(found['status'], found['output'], tuple(found['index']), found['why']).sentence}"
        if found.get("document"):
            yield "  evaluate it again with: render explain --check REPORT"


def keep_last(text: str) -> None:
    """Keeps a result for `render explain last`; a read-only home is no reason to fail."""
    import contextlib

    with contextlib.suppress(OSError):
        path = last_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
