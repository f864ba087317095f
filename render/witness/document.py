"""A witness as a JSON document: the computation, its leaves as exact numbers, the target's figures, and the claim.

Numbers are hexadecimal floats, so nothing is lost; value numbers are written as runs `first:step:count`. Nothing here
needs the kernel, torch or Triton.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA = 2
LONGEST = 10_000_000
"""Numbers that one operand may have."""
_FIELDS: dict[str, type] = {
    "output": str, "index": list, "claim": dict, "bound": dict, "rules": dict, "nodes": list, "root": int,
    "notes": list, "agrees": bool,
}  # fmt: skip


class Malformed(ValueError):
    """The document is not one that this module wrote."""


@dataclass
class Operation:
    """One node: `operands` has one list per operand, of numbers or (sums, dots) of lists of numbers; -1: no term."""

    op: str
    attrs: dict[str, Any]
    start: int
    size: int
    operands: list[list[Any]] = field(default_factory=list)
    low: list[str] = field(default_factory=list)
    high: list[str] = field(default_factory=list)


def runs(numbers: Iterable[int]) -> str:
    """Numbers as runs: `7` alone, `7:2:5` for the five numbers 7, 9, 11, 13, 15."""
    out: list[list[int]] = []
    for n in numbers:
        last = out[-1] if out else None
        if last is not None and last[2] == 1:
            last[1:] = [n - last[0], 2]
        elif last is not None and n == last[0] + last[1] * last[2]:
            last[2] += 1
        else:
            out.append([n, 0, 1])
    return " ".join(str(r[0]) if r[2] == 1 else ":".join(map(str, r)) for r in out)


def unrun(text: str) -> list[int]:
    out: list[int] = []
    for piece in text.split():
        first, step, count = (int(x) for x in (piece if ":" in piece else f"{piece}:0:1").split(":"))
        if not 0 < count <= LONGEST - len(out):
            raise Malformed("a run of numbers has no length, or too large a one")
        out.extend(first + step * i for i in range(count))
    return out


def packed(values: Iterable[float]) -> str:
    """Hexadecimal numbers, equal neighbours as `number*count`."""
    out: list[list[Any]] = []
    for value in values:
        text = float(value).hex()
        if out and out[-1][0] == text:
            out[-1][1] += 1
        else:
            out.append([text, 1])
    return " ".join(text if count == 1 else f"{text}*{count}" for text, count in out)


def unpacked(text: str) -> list[str]:
    out: list[str] = []
    for item in text.split():
        number, _, count = item.partition("*")
        if not 0 < int(count or 1) <= LONGEST - len(out):
            raise Malformed("a number is repeated no times, or too often")
        out.extend([number] * int(count or 1))
    return out


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
    made = Operation(str(item["op"]), dict(item.get("attrs", {})), start, size)
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
        if any(not -1 <= n < start for n in numbers):
            raise Malformed("an operand comes after its use")
        rows = numbers if width is None else [numbers[i * width : (i + 1) * width] for i in range(size)]
        made.operands.append(rows)
    return made


def digest(document: Mapping[str, Any]) -> str:
    """Fingerprint of everything but itself."""
    body = {k: v for k, v in document.items() if k != "digest"}
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
