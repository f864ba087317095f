"""What a classification is asked for, apart from the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from render.explain.asked import Asked


@dataclass(frozen=True)
class Settings:
    """What does not depend on the kernel."""

    device: str
    seed: int
    ref_precision: str
    budget: bool
    options: dict[str, Any]
    asked: Asked = field(default_factory=Asked)


def choices(
    sum_order: str, fp_contraction: str, triton_version: str | None, options: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Session options with what the user lets bounds assume of the compiler; nothing for what was left open."""
    asked = {"sum_order": sum_order, "fp_contraction": fp_contraction, "triton_version": triton_version}
    return {**{name: value for name, value in asked.items() if value not in (None, "any")}, **(options or {})}
