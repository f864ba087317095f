"""Finished units in one SQLite file. A unit is known by its key: the same work is never done, or counted, twice."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

_TABLE = """CREATE TABLE IF NOT EXISTS done (
    key TEXT PRIMARY KEY, unit TEXT NOT NULL, rows TEXT NOT NULL, error TEXT NOT NULL, attempts INTEGER NOT NULL)"""
_PUT = """INSERT INTO done VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET
    rows = excluded.rows, error = excluded.error, attempts = excluded.attempts WHERE done.error != ''"""
"""A result stays as it was first written; only a failure gives way."""


class KeptUnit(NamedTuple):
    """What became of a unit: its rows, or in words why there are none. `unit` in JSON types."""

    key: str
    unit: dict[str, Any]
    rows: list[dict[str, Any]]
    error: str = ""
    attempts: int = 1


class SweepStore:
    """Several sweeps may write to one file at a time."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, timeout=60, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute(_TABLE)

    def known(self, keys: Iterable[str]) -> dict[str, KeptUnit]:
        """The entries of these keys that have a result."""
        wanted = set(keys)
        found = self._db.execute("SELECT * FROM done WHERE error = ''")
        return {row[0]: _entry(row) for row in found if row[0] in wanted}

    def put(self, entry: KeptUnit) -> None:
        values = entry.key, json.dumps(entry.unit), json.dumps(entry.rows), entry.error, entry.attempts
        self._db.execute(_PUT, values)

    def forget(self, keys: Iterable[str]) -> None:
        self._db.executemany("DELETE FROM done WHERE key = ?", [(key,) for key in keys])

    def close(self) -> None:
        self._db.close()


def _entry(row: tuple[Any, ...]) -> KeptUnit:
    key, unit, rows, error, attempts = row
    return KeptUnit(key, json.loads(unit), json.loads(rows), error, attempts)
