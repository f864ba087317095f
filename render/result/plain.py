"""Records in JSON types: fields by name, sentences beside the numbers that they say.

JSON has no infinity and no NaN: they become null, and `lost` collects which was where, by path ("outputs/0/usage"), so
that a saved verdict can be read back as it was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

SENTENCES = ("sentence", "misses")
"""Properties that are written beside the fields of a record; whoever reads the record back computes them again."""


def plain(value: Any, lost: dict[str, str] | None = None, path: str = "") -> Any:
    """`value` in JSON types; arrays and functions of a record are left out."""
    if is_dataclass(value) and not isinstance(value, type):
        return _record(value, {} if lost is None else lost, path)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        if lost is not None:
            lost[path] = str(value)
        return None
    if isinstance(value, Mapping):
        return {str(k): plain(v, lost, f"{path}/{k}") for k, v in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [plain(v, lost, f"{path}/{i}") for i, v in enumerate(value)]
    return value


def _record(record: Any, lost: dict[str, str], path: str) -> dict[str, Any]:
    named = ((f.name, getattr(record, f.name)) for f in fields(record))
    kept = {n: plain(v, lost, f"{path}/{n}") for n, v in named if not isinstance(v, np.ndarray) and not callable(v)}
    return kept | {name: getattr(record, name) for name in SENTENCES if hasattr(type(record), name)}


def put_back(data: Any, lost: Mapping[str, str]) -> None:
    """The inverse: the numbers of `lost` at their paths in `data`, in place."""
    for path, number in lost.items():
        *steps, last = path.removeprefix("/").split("/")
        at = data
        for step in steps:
            at = at[int(step) if isinstance(at, list) else step]
        at[int(last) if isinstance(at, list) else last] = float(number)
