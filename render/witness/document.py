"""A witness as a JSON document: the computation, its leaves as exact numbers, the target's figures, and the claim.

Numbers are hexadecimal floats, so nothing is lost; value numbers are written as runs `first:step:count`. What would be
long so stands as the bytes of little-endian float64 or int64 numbers, in base64. Nothing here needs the kernel, torch
or Triton.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SCHEMA = 3
LONGEST = 20_000_000
"""Numbers that one operand may have."""
SHORT = 256
"""Numbers, or runs of them, that are written out."""
_FIELDS: dict[str, type] = {
    "output": str, "index": list, "claim": dict, "bound": dict, "rules": dict, "nodes": list, "root": int,
    "notes": list, "agrees": bool,
}  # fmt: skip


class Malformed(ValueError):
    """The document is not one that this module wrote."""


@dataclass
class Operation:
    """One node: `operands` has one array per operand, of numbers or (sums, dots) of rows of numbers; -1: no term."""

    op: str
    attrs: dict[str, Any]
    start: int
    size: int
    operands: list[np.ndarray] = field(default_factory=list)
    low: np.ndarray = field(default_factory=lambda: np.empty(0))
    high: np.ndarray = field(default_factory=lambda: np.empty(0))
    line: int = 0

    def terms(self, place: int, k: int) -> np.ndarray:
        """The numbers of the terms of value k in this operand, without absent ones."""
        numbers = self.operands[place][k]
        found: np.ndarray = numbers[numbers >= 0]
        return found


def runs(numbers: Iterable[int]) -> str:
    """Numbers as runs: `7` alone, `7:2:5` for the five numbers 7, 9, 11, 13, 15."""
    given = np.asarray(list(numbers) if not isinstance(numbers, np.ndarray) else numbers, np.int64)
    if given.size > SHORT and np.count_nonzero(np.diff(given, 2)) > SHORT:
        return _coded(given, "<i8")
    ends = np.concatenate([np.flatnonzero(np.diff(given, 2)) + 1, [given.size - 1]]) if given.size > 1 else [0]
    out, at = [], 0
    for end in map(int, ends):  # the step changes behind this place
        if at > end or at >= given.size:
            continue
        first, count = int(given[at]), end - at + 1
        out.append(str(first) if count == 1 else f"{first}:{int(given[at + 1]) - first}:{count}")
        at = end + 1
    return " ".join(out)


def unrun(text: str) -> np.ndarray:
    if text.startswith("="):
        return _decoded(text, "<i8")
    out, total = [np.empty(0, np.int64)], 0
    for piece in text.split():
        first, step, count = (int(x) for x in (piece if ":" in piece else f"{piece}:0:1").split(":"))
        if not 0 < count <= LONGEST - total:
            raise Malformed("a run of numbers has no length, or too large a one")
        total += count
        out.append(first + step * np.arange(count, dtype=np.int64))
    return np.concatenate(out)


def packed(values: Iterable[float]) -> str:
    """Hexadecimal numbers, equal neighbours as `number*count`."""
    given = np.asarray(list(values) if not isinstance(values, np.ndarray) else values, np.float64)
    bits = given.view(np.int64)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(bits)) + 1]) if given.size else np.empty(0, np.int64)
    if starts.size > SHORT:
        return _coded(given, "<f8")
    counts = np.diff(np.append(starts, given.size))
    texts = [float(given[at]).hex() for at in starts.tolist()]
    return " ".join(t if count == 1 else f"{t}*{count}" for t, count in zip(texts, counts.tolist(), strict=True))


def unpacked(text: str) -> np.ndarray:
    if text.startswith("="):
        return _decoded(text, "<f8")
    numbers, counts, total = [], [], 0
    for item in text.split():
        number, _, count = item.partition("*")
        if not 0 < int(count or 1) <= LONGEST - total:
            raise Malformed("a number is repeated no times, or too often")
        total += int(count or 1)
        numbers.append(float.fromhex(number))
        counts.append(int(count or 1))
    return np.repeat(np.array(numbers, np.float64), np.array(counts, np.int64))


def _coded(values: np.ndarray, kind: str) -> str:
    return "=" + base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode()


def _decoded(text: str, kind: str) -> np.ndarray:
    try:
        found = np.frombuffer(base64.b64decode(text[1:], validate=True), kind)
    except (binascii.Error, ValueError):
        raise Malformed("its numbers cannot be read") from None
    if found.size > LONGEST:
        raise Malformed("it has too many numbers")
    return found.astype(kind[1:], copy=True)


def shaped(document: Mapping[str, Any]) -> None:
    """Raises Malformed for a document of another schema, or with fields that are missing or of another type."""
    if document.get("schema") != SCHEMA:
        raise Malformed(f"it has schema {document.get('schema')}, this version reads {SCHEMA}")
    for name, kind in _FIELDS.items():
        if not isinstance(document.get(name), kind):
            raise Malformed(f"its field {name!r} is missing or no {kind.__name__}")
    texts = [document[pair].get(end) for pair in ("claim", "bound") for end in ("low", "high")]
    if not all(isinstance(text, str) for text in (document["claim"].get("side"), *texts, *document["notes"])):
        raise Malformed("its claim, bound or notes are no text")
    if not all(isinstance(i, int) for i in document["index"]):
        raise Malformed("its index is no place")


def operations(document: Mapping[str, Any]) -> list[Operation]:
    """The nodes, operands first. Raises Malformed for anything that does not fit together."""
    found: list[Operation] = []
    start = 0
    try:
        for item in document["nodes"]:
            made = _operation(item, start)
            found.append(made)
            start += made.size
        if not 0 <= document["root"] < start:
            raise Malformed("the root is no value")
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        raise error if isinstance(error, Malformed) else Malformed(f"not a witness: {error!r}") from None
    return found


def _operation(item: Mapping[str, Any], start: int) -> Operation:
    size = int(item["size"])
    made = Operation(str(item["op"]), dict(item.get("attrs", {})), start, size, line=int(item.get("line", 0)))
    if "low" in item:
        made.low = unpacked(item["low"])
        made.high = unpacked(item["high"]) if "high" in item else made.low
        if len(made.low) != size or len(made.high) != size:
            raise Malformed("a leaf has too few numbers")
    for operand in item.get("operands", ()):
        numbers = unrun(operand["runs"])
        width = operand.get("width")
        if len(numbers) != size * (1 if width is None else int(width)):
            raise Malformed("an operand has too few terms")
        if numbers.size and not (numbers.min() >= -1 and numbers.max() < start):
            raise Malformed("an operand comes after its use")
        made.operands.append(numbers if width is None else numbers.reshape(size, int(width)))
    return made


def digest(document: Mapping[str, Any]) -> str:
    """Fingerprint of everything but itself."""
    body = {k: v for k, v in document.items() if k != "digest"}
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
