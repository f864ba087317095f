"""A saved verdict read back, by the types of `Verdict`.

A verdict that was read back says what the one that was saved says. What it no longer has are the arrays: the bound of
each element, and the run that answers further questions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from render.result.errors import RenderError, expect
from render.result.plain import put_back
from render.result.verdict import ARRAYS, Outputs, OutputVerdict, Verdict


def read(path: Path) -> dict[str, Any]:
    """The JSON at `path` as it is. Raises RenderError where it holds no verdict."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RenderError("RND901", f"cannot read {path}: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("verdict"), dict):
        raise RenderError("RND901", f"{path} holds no verdict", _AGAIN)
    return data


_AGAIN = "write one with `render classify ... --json PATH`"


def load(path: str | Path) -> Verdict:
    """The verdict that was saved at `path` (`Verdict.save`, `render classify --json`).

    Raises RenderError for a file that is none.

        render.load("v.json").label
    """
    expect("path", path, str, os.PathLike)
    return verdict_of(read(Path(path)), str(path))


def verdict_of(data: Mapping[str, Any], name: str = "the report") -> Verdict:
    """The verdict of a document; RenderError for one of another version, or none."""
    flat = deepcopy({**data, **data["verdict"]})
    try:
        put_back(flat, flat.pop("nonfinite", {}))
        for output in flat.get("outputs", ()):
            output["bound"] |= dict.fromkeys(ARRAYS, ())
        return msgspec.convert(flat, Verdict, dec_hook=_own)
    except (msgspec.ValidationError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise RenderError("RND901", f"{name} holds no verdict of this version: {error}", _AGAIN) from None


def _own(kind: Any, value: Any) -> Any:
    if kind is Outputs:
        return Outputs(msgspec.convert(value, tuple[OutputVerdict, ...], dec_hook=_own))
    return np.zeros(0) if kind is np.ndarray else _nothing


def _nothing() -> np.ndarray:
    return np.zeros(0)
