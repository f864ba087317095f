"""Explanations as plain text: what would change a verdict, and how much its bound would notice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from render.report.text import place

if TYPE_CHECKING:
    from render.result.records import Counterfactual, Power

_DEVICE = "--device "


def what_if_rows(items: tuple[Counterfactual, ...], label: str) -> Iterator[tuple[str, str]]:
    """(what is changed, what that does), devices with the same answer on one row."""
    groups: dict[tuple[str, str], list[str]] = {}
    for item in items:
        effect = item.effect
        if item.label not in ("", label):
            effect += f", and the verdict becomes {item.label} {item.code}".rstrip()
        alone = "" if item.what.startswith(_DEVICE) else item.key
        groups.setdefault((effect, alone), []).append(item.what)
    for (effect, alone), names in groups.items():
        listed = ", ".join(name.removeprefix(_DEVICE) for name in names)
        yield listed if alone else _DEVICE + listed, effect


def power_rows(power: Power) -> Iterator[str]:
    """How many seeded faults the bound notices, what it misses, what others notice, and the smallest one per output."""
    outside, inside = power.count("outside"), power.count("inside")
    noticed = f"{outside} of {outside + inside} seeded faults that change the result would leave this bound"
    yield f"{power.share:.2f}: {noticed}" if not math.isnan(power.share) else "no seeded fault changed the result"
    missed = Counter((m.what, place(m.file, m.line) if m.file else "") for m in power.missed)
    yield from (f"missed: {what}" + (f"  {where}" if where else "") for what, where in missed)
    apart = [(power.count("memory"), "noticed by the memory check"), (power.count("crash"), "did not run to the end"),
             (power.count("same"), "changed nothing"), (power.skipped, "not run for lack of time")]  # fmt: skip
    if any(n for n, _ in apart):
        yield "besides: " + ", ".join(f"{n} {what}" for n, what in apart if n)
    for name, fault in power.smallest_fault.items():
        found = "not even a factor of two" if fault is None else f"a relative error of 2^{round(math.log2(fault))}"
        yield f"smallest fault noticed in {name}: {found}"
    if power.zeros_fit:
        yield f"zeros would fit in {', '.join(power.zeros_fit)}"
