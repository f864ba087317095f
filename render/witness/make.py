"""From a slice to a witness: the document with the target's figures, evaluated and compared with the claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from interval_ops.formats.model import FORMATS
from interval_ops.profiles.profile import FnError, MissingRule, Profile
from render.exact import functions
from render.trace.nodes import NODES
from render.witness import bulk
from render.witness.check import NAMED, Answer, evaluated
from render.witness.document import SCHEMA, digest, packed, runs
from render.witness.formulas import BESSEL, CHAINED, KNOWN, SUMS

if TYPE_CHECKING:
    from render.trace import Node, Slice

LIMIT = 16_000_000
"""Work of the largest slice that is evaluated; a unit is about a microsecond, and counted."""
_OPERAND, _TERM, _TOGETHER = 3.0, 1.5, 0.2
"""Units of an operand; of a term of a sum or a dot; of an operand of an operation that is evaluated as a whole."""
_FUNCTION, _BESSEL = 40, 400
"""Units of a value of an approximate function besides; of a Bessel function of a narrow argument."""

Figures = Callable[[dict[str, Any]], dict[str, Any]]


class CannotMake(Exception):
    """There is no witness for this element; says why."""


@dataclass(frozen=True)
class Claim:
    """`low` .. `high` (of `side`: "reference", the exact value with its error, or "device") cannot be reached."""

    side: str
    low: float
    high: float


def document(found: Slice, claim: Claim) -> dict[str, Any]:
    """Everything that is needed to evaluate the slice again. Raises CannotMake."""
    for node in found.nodes:
        if node.op not in KNOWN and "function" not in _named(node):
            raise CannotMake(f"no second formula for {node.op} ({node.file.rsplit('/', 1)[-1]}:{node.line})")
    if cost(found) > LIMIT:
        raise CannotMake(f"evaluating {found.terms} operands again would take too long")
    try:
        rules = _rules(found, found.profile)
    except MissingRule as missing:
        raise CannotMake(str(missing)) from None
    return {
        "schema": SCHEMA,
        "output": found.output,
        "index": list(found.index),
        "kernel": found.kernel,
        "programs": list(found.programs),
        "profile": found.profile.name,
        "claim": {"side": claim.side, "low": float(claim.low).hex(), "high": float(claim.high).hex()},
        "bound": {"low": float(found.lo).hex(), "high": float(found.hi).hex()},
        "notes": list(found.notes),
        "rules": rules,
        "nodes": [_node(n) for n in found.nodes],
        "root": int(found.root),
    }


def cost(found: Slice) -> int:
    """What evaluating the slice once takes, in units."""
    return int(sum(map(_cost, found.nodes)))


def _cost(node: Node) -> float:
    if node.op in CHAINED or node.op in SUMS:
        return _terms(node) * _TERM
    if bulk.applies(node.op, node.attrs, _terms(node)):
        return _terms(node) * _TOGETHER
    rule = NODES.get(node.op)
    each = 0 if rule is None or not rule.entry else _BESSEL if node.op in BESSEL else _FUNCTION
    return _terms(node) * _OPERAND + node.size * each


def _terms(node: Node) -> int:
    return sum(int(o.size) for o in node.operands)


def make(found: Slice, claim: Claim, figures: Figures | None = None) -> tuple[dict[str, Any], Answer]:
    """(the witness, whether it agrees); `figures` changes the target's figures in it."""
    made = document(found, claim)
    made = made if figures is None else figures(made)
    answer = evaluated(made)
    made["enclosure"] = answer.enclosure
    made["agrees"] = answer.agrees
    made["arithmetic"] = NAMED
    made["digest"] = digest(made)
    return made, answer


def _rules(found: Slice, profile: Profile) -> dict[str, Any]:
    functions, dots, overflow, older = {}, {}, {}, {}
    for node in found.nodes:
        key = NODES[node.op].entry if node.op in NODES else ""
        if key and "error" not in node.attrs:
            fmt = FORMATS[node.attrs["fmt"]]
            error = profile.fn(key.removeprefix("libdevice_") if fmt.bits == 64 else key, fmt.name)
            functions[f"{key} {fmt.name}"] = _error(error)
        elif node.op in ("dot", "fold"):
            kind = node.attrs["kind"]
            dots[kind] = {k: v for k, v in asdict(profile.dot(kind)).items() if k != "source"}
        elif node.op == "cast":
            dst = FORMATS[node.attrs["dst"]]
            before = profile.older_cast(node.attrs["src"], dst.name)
            if before is not None:
                older[f"{node.attrs['src']}->{dst.name}"] = {
                    k: v for k, v in asdict(before).items() if k not in ("source", "below")
                }
            overflow[dst.name] = profile.cast_overflow.get(dst.name, "inf" if dst.has_inf else "either")
    return {
        "functions": functions,
        "dots": dots,
        "overflow": overflow,
        "older": older,
        "double_rounding": dict(profile.cast_double_rounding),
        "exp_via_exp2": profile.exp_via_exp2,
        "atomic_flush": profile.atomic_flush_fp32,
        "trees": profile.trees,
        "in_order": profile.known_order,
        "library_flush": profile.fn("exp2").ftz,
    }


def _error(error: FnError) -> dict[str, Any]:
    found: dict[str, Any] = {"r": error.r, "a": error.a, "ftz": error.ftz}
    if math.isfinite(error.huge):
        found["huge"] = error.huge
    if error.breaks:
        found["breaks"] = True
    if math.isfinite(error.until):
        found["until"] = error.until
        if math.isfinite(error.beyond):
            found["beyond"] = error.beyond
    return found


_ATTRS = (
    "fmt", "kind", "src", "dst", "mode", "imprecise", "source", "name", "scan", "overflow", "part", "guarded", "code",
    "scale", "widen", "type", "error", "any_order", "rounded",
)  # fmt: skip


def _named(node: Node) -> dict[str, str]:
    """Of an operation without a formula of its own name: the exact function that it approximates and its error."""
    rule = NODES.get(node.op)
    if node.op in KNOWN or rule is None or rule.function not in functions.KNOWN:
        return {}
    return {"function": rule.function, "entry": rule.entry}


def _node(node: Node) -> dict[str, Any]:
    attrs = {k: v for k, v in node.attrs.items() if k in _ATTRS and v is not None} | _named(node)
    item: dict[str, Any] = {"op": node.op, "size": node.size, "line": node.line, "attrs": attrs}
    if node.op == "leaf":
        item["low"] = packed(node.lo)
        if not np.array_equal(node.lo, node.hi, equal_nan=True):
            item["high"] = packed(node.hi)
    elif node.operands:
        item["operands"] = [_operand(o) for o in node.operands]
    return item


def _operand(numbers: np.ndarray) -> dict[str, Any]:
    found: dict[str, Any] = {"runs": runs(numbers.reshape(-1))}
    return found if numbers.ndim == 1 else {"width": numbers.shape[1], **found}
