"""What the power table measured, on disk: written after every kernel, so that a run that was cut off goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mutants import Row


@dataclass
class Table:
    """Everything that was measured."""

    devices: list[str]
    rows: list[Row] = field(default_factory=list)
    smallest: dict[str, dict[str, dict[str, float | None]]] = field(default_factory=dict)
    alarms: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    cpu: float = 0.0

    def counted(self, device: str) -> list[Row]:
        return [r for r in self.rows if r.device == device and r.beyond and r.bound != "crash"]


def restored(path: Path) -> Table:
    """What an earlier run wrote with --json."""
    data = json.loads(path.read_text())
    rows = [Row(**row) for row in data["mutants"]]
    return Table(data["devices"], rows, data["smallest_fault"], data["correct"], data["seconds"], data["cpu_seconds"])


def updated(old: Table, new: Table) -> Table:
    """`old` with what `new` measured, on its devices, instead."""
    again, named = {(r.kernel, r.device) for r in new.rows}, {(a["name"], a["device"]) for a in new.alarms}
    names = sorted({*old.smallest, *new.smallest})
    return Table(
        list(dict.fromkeys([*old.devices, *new.devices])),
        [r for r in old.rows if (r.kernel, r.device) not in again] + new.rows,
        {name: {**old.smallest.get(name, {}), **new.smallest.get(name, {})} for name in names},
        [a for a in old.alarms if (a["name"], a["device"]) not in named] + new.alarms,
        old.seconds + new.seconds,
        old.cpu + new.cpu,
    )


def stored(table: Table, path: Path) -> None:
    """Writes everything; `restored` reads it."""
    rows = [r.to_dict() for r in table.rows]
    data = {"devices": table.devices, "seconds": table.seconds, "cpu_seconds": table.cpu, "mutants": rows,
            "smallest_fault": table.smallest, "correct": table.alarms}  # fmt: skip
    part = path.with_suffix(".part")
    part.write_text(json.dumps(data, indent=1))
    part.replace(path)
