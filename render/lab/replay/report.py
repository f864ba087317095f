"""The replay as one JSON document; keys are only ever added."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from render.lab.replay.rows import SCHEMA, ReplayRow


def document(rows: list[ReplayRow]) -> dict[str, Any]:
    from render.result.versions import versions

    issues = [r for r in rows if not r.twin_of]
    return {
        "schema": SCHEMA,
        "versions": versions(),
        "summary": {
            "cases": len(rows), "ok": sum(r.ok for r in rows), "issues": len(issues),
            "issues_ok": sum(r.ok for r in issues), "failed": [r.id for r in rows if not r.ok],
        },
        "cases": [r.to_dict() for r in rows],
    }  # fmt: skip


def dumps(rows: list[ReplayRow]) -> str:
    return json.dumps(document(rows), indent=2) + "\n"


def write(rows: list[ReplayRow], path: str | Path) -> None:
    Path(path).write_text(dumps(rows), encoding="utf-8")
