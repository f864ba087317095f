"""The canonical result as JSON: `Verdict.to_dict` with a final newline. Every other format derives from it.

Non-finite numbers are null (JSON has none); arrays (the bound of each element) are left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from render.result.verdict import Verdict


def dumps(verdict: Verdict) -> str:
    """One JSON object, keys in the order of `Verdict.to_dict`, two spaces of indent."""
    return json.dumps(verdict.to_dict(), indent=2, allow_nan=False, default=_plain) + "\n"


def write(verdict: Verdict, path: str | Path) -> None:
    Path(path).write_text(dumps(verdict), encoding="utf-8")


def _plain(value: Any) -> Any:
    """numpy scalars and other sequences as JSON types; anything else is our own mistake."""
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, Sequence | set | frozenset):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
