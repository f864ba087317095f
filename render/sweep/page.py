"""One page about a sweep: counts, plots, and every row that is no plain Type-I."""

from __future__ import annotations

import base64
import html
import io
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from render.sweep.store import KeptUnit

LABELS = ("Type-I", "Type-II", "Inconclusive", "skipped", "error")
COLOURS = ("#4c9f70", "#c8423f", "#d9a441", "#9aa5b1", "#5b3a8c")
MOST = 60
"""Rows or columns of the map; more are left out of the picture and stay in the table."""
_STYLE = """table { border-collapse: collapse; display: block; overflow-x: auto; overflow-wrap: normal; }
td, th { border-bottom: 1px solid #8888; padding: .25rem .6rem; text-align: left; }
td:nth-child(6) { min-width: 16rem; }
.n { text-align: right; }
"""


def label_of(row: dict[str, Any]) -> str:
    label = str(row.get("label", "error"))
    return label if label in LABELS else "error"


def rows_of(entries: Sequence[KeptUnit]) -> list[dict[str, Any]]:
    """All rows with what their unit varied; a unit without rows is one row, its error."""
    found = []
    for entry in entries:
        failed = [{"test": entry.unit.get("path", entry.key), "label": "error", "message": entry.error, "exit_code": 4}]
        found += [{**entry.unit, **row} for row in (entry.rows if not entry.error else failed)]
    return found


def page(entries: Sequence[KeptUnit], title: str, pyplot: Any, document: Callable[[str, str, str], str]) -> str:
    """Self-contained HTML; `pyplot` is matplotlib's, `document` makes a page of title, body and style."""
    rows = rows_of(entries)
    counts = Counter(map(label_of, rows))
    told = "".join(f"<tr><td>{label}</td><td class=n>{counts[label]}</td></tr>" for label in LABELS if counts[label])
    again = sum(entry.attempts > 1 for entry in entries)
    note = f"{len(entries)} units, {len(rows)} results; {again} needed more than one attempt."
    figures = "".join(f'<p><img alt="{html.escape(name)}" src="data:image/png;base64,{data}"></p>'
                      for name, data in _figures(rows, pyplot))  # fmt: skip
    other = [row for row in rows if label_of(row) != "Type-I"]
    body = (
        f"<h1>{html.escape(title)}</h1><p>{note}</p><table>{told}</table>{figures}<h2>All that is no Type-I</h2>"
        f"<table><tr><th>what<th>device<th>seed<th>label<th>code<th>message</tr>{''.join(map(_line, other))}</table>"
    )
    return document(title, body, _STYLE)


def _line(row: dict[str, Any]) -> str:
    cells = [row.get(name, "") for name in ("test", "device", "seed", "label", "code", "message")]
    return "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells) + "</tr>"


def _figures(rows: Sequence[dict[str, Any]], plt: Any) -> list[tuple[str, str]]:
    names, devices = _axes(rows)
    counted = _png(plt, lambda axes: _per_device(axes, rows), (9, 0.6 + 0.22 * len(devices)))
    found = [("results per device", counted)]
    if len(devices) > 1 and len(names) > 1:
        picture = _png(plt, lambda axes: _map(axes, rows, names, devices), (9, 0.9 + 0.22 * len(names)))
        found.append(("worst result of each file under each device", picture))
    if any(row.get("seconds") for row in rows):
        found.append(("seconds per result", _png(plt, lambda axes: _seconds(axes, rows), (9, 2.4))))
    return found


def _axes(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[str]]:
    names = list(dict.fromkeys(str(row.get("path", row.get("test"))) for row in rows))
    return names[:MOST], list(dict.fromkeys(str(row.get("device", "")) for row in rows))[:MOST]


def _png(plt: Any, draw: Any, size: tuple[float, float]) -> str:
    figure, axes = plt.subplots(figsize=(size[0], max(size[1], 2.4)), layout="constrained")
    draw(axes)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110)
    plt.close(figure)
    return base64.b64encode(out.getvalue()).decode()


def _per_device(axes: Any, rows: Sequence[dict[str, Any]]) -> None:
    _, devices = _axes(rows)
    left = [0] * len(devices)
    for label, colour in zip(LABELS, COLOURS, strict=True):
        n = [sum(label_of(r) == label and str(r.get("device", "")) == d for r in rows) for d in devices]
        if any(n):
            axes.barh(devices, n, left=left, color=colour, label=label)
        left = [a + b for a, b in zip(left, n, strict=True)]
    axes.invert_yaxis()
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title("results per device", loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _map(axes: Any, rows: Sequence[dict[str, Any]], names: list[str], devices: list[str]) -> None:
    worst = (0, 3, 2, 1, 4)  # Type-I, skipped, Inconclusive, Type-II, error
    order = {LABELS[i]: rank for rank, i in enumerate(worst)}
    cells = [[float("nan")] * len(devices) for _ in names]
    places = {name: i for i, name in enumerate(names)}, {name: i for i, name in enumerate(devices)}
    for row in rows:
        i, j = places[0].get(str(row.get("path", row.get("test")))), places[1].get(str(row.get("device", "")))
        if i is not None and j is not None:
            rank = order[label_of(row)]
            cells[i][j] = rank if cells[i][j] != cells[i][j] else max(rank, cells[i][j])
    from matplotlib.colors import ListedColormap

    axes.imshow(cells, cmap=ListedColormap([COLOURS[i] for i in worst]), vmin=-0.5, vmax=4.5, aspect="auto")
    axes.set_xticks(range(len(devices)), devices, rotation=60, ha="right")
    axes.set_yticks(range(len(names)), [name[-40:] for name in names])
    axes.set_title("worst result of each file under each device", loc="left")


def _seconds(axes: Any, rows: Sequence[dict[str, Any]]) -> None:
    axes.hist([row["seconds"] for row in rows if row.get("seconds")], bins=40, color="#4c6f9f")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="seconds", ylabel="results")
    axes.set_title("seconds per result", loc="left")
