"""The result as text and as a document."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from render.companions.dual_delta.gates import GATES
from render.companions.dual_delta.metrics import SAID
from render.companions.dual_delta.statistics import Described

if TYPE_CHECKING:
    from render.companions.dual_delta.experiment import DualDelta

_ROWS = (("mean", "mean"), ("median", "median"), ("sd", "sd (n-1)"), ("cv", "sd / mean"),
         ("p90", "P90"), ("p95", "P95"), ("p99", "P99"), ("largest", "max"))  # fmt: skip
_SENTENCE = {
    "equivalent": "the errors are equivalent within a factor of {margin:g}",
    "worse": "{one} is less accurate: mean error {ratio:.3g} times that of {two}",
    "better": "{one} is more accurate: mean error {ratio:.3g} times that of {two}",
    "undecided": "undecided: neither equivalence nor a difference beyond a factor of {margin:g} is shown",
}


def sentence(found: DualDelta) -> str:
    s = found.statistics
    if found.failures[0] != found.failures[1]:
        return f"{found.failures[0]} failures of {found.names[0]}, {found.failures[1]} of {found.names[1]}"
    one, two = found.names
    said = _SENTENCE[s.outcome].format(margin=s.margin, ratio=s.effects["ratio of means"], one=one, two=two)
    return said if s.needed is None else f"{said}; about {s.needed} inputs would decide"


def text(found: DualDelta) -> str:
    s = found.statistics
    one, two = found.names if found.names[0] != found.names[1] else ("f1", "f2")
    wide, wider = max(14, len(one) + 2), max(14, len(two) + 2)
    separation = "its own error is not known" if found.separation is None else f"{found.separation:.3g} times finer"
    stopped = f", looks {found.looks[0]} of {found.looks[1]}" if found.looks[1] > 1 else ""
    lines = [
        f"Dual-Delta: {sentence(found)}",
        f"  {found.n} of {found.wanted} inputs ({found.generator}, seed {found.seed}){stopped}; {SAID[found.metric]}; "
        f"oracle {found.oracle}, {separation}",
        "",
        f"  {'':12}{one:>{wide}}{two:>{wider}}",
        *(_row(name, key, s.one, s.two, wide, wider) for key, name in _ROWS),
        "",
        f"  pairs       {s.ties} tied, {s.positive} with D1 > D2, {s.negative} with D1 < D2",
    ]
    for t in s.tests:
        note = f"  ({t.note})" if t.note else ""
        p = "not made" if math.isnan(t.p) else f"p = {t.p:.3g}"
        lines.append(f"  {t.name:23}{p:14}null: {t.null}{note}")
    for e in s.equivalence:
        p = "not made" if math.isnan(e.p) else f"p = {e.p:.3g}"
        lines.append(f"  {f'TOST within {e.margin:g}':23}{p:14}ratio {e.ratio:.7g}{f'  ({e.note})' if e.note else ''}")
    held = ", ".join(f"{name} {p:.3g}" for name, p in s.adjusted.items())
    effects = ", ".join(f"{name} {x:.4g}" for name, x in s.effects.items())
    lines += [f"  Holm        {held} (alpha {s.alpha:g})", f"  effects     {effects}"]
    for g in found.gates:
        said = (
            f"p = {g.worst:.3g}"
            if GATES[g.name].check is None
            else f"{g.passed} of {g.count}, worst {g.worst:.3g} of 1"
        )
        lines.append(f"  gate {g.name:14}{'passes' if g.ok else 'FAILS'} ({said}): {GATES[g.name].rule}")
    return "\n".join([*lines, *(f"  note: {note}" for note in found.notes)])


def _row(name: str, key: str, one: Described, two: Described, wide: int, wider: int) -> str:
    return f"  {name:12}{getattr(one, key):>{wide}.6e}{getattr(two, key):>{wider}.6e}"


def document(found: DualDelta) -> dict[str, Any]:
    """Plain data; NaN becomes null."""
    raw = {
        "outcome": found.outcome, "sentence": sentence(found), "kind": "measurement", "names": found.names,
        "metric": found.metric, "n": found.n, "wanted": found.wanted, "seed": found.seed, "generator": found.generator,
        "oracle": found.oracle, "separation": found.separation, "looks": found.looks, "failures": found.failures,
        "statistics": asdict(found.statistics), "gates": [asdict(g) for g in found.gates],
        "d1": found.d1.tolist(), "d2": found.d2.tolist(), "seconds": found.seconds, "notes": found.notes,
    }  # fmt: skip
    plain: dict[str, Any] = _plain(raw)
    return plain


def _plain(x: Any) -> Any:
    if isinstance(x, dict):
        return {k: _plain(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        return [_plain(v) for v in x]
    if isinstance(x, float) and not math.isfinite(x):
        return None
    return x
