"""Explanations as plain text: what would change a verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from render.explain.records import Counterfactual

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
