"""One pair of programs of `twins.py`: what the right one is made of, and the expression that the wrong one changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TYPE_II = ("Type-II",)
NOT_TYPE_I = ("Type-II", "Inconclusive")
"""What may be no bug of the kernel, but must not pass: other inputs' outputs, undefined lanes, what none compared."""


@dataclass(frozen=True)
class Twin:
    """`was` in the kernel, the wrapper or the helpers is `now` in the wrong twin, which has to get one of `wanted`.

    `output`: a device's output for these inputs, an expression of x and t; `causes`: codes of the right one, where the
    headline is asked for; `options`: of `render.classify`; `told`: what the verdict on the wrong one has to say.
    """

    name: str
    body: str
    reference: str
    was: str
    now: str
    pad: str = "0.0"
    host: str = "return launch(x, t)"
    inputs: str = ""
    helpers: str = ""
    dtype: str = "float32"
    device: str = "any"
    output: str = ""
    told: str = ""
    wanted: tuple[str, ...] = TYPE_II
    causes: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


Row = tuple[str, str, str, str, str, dict[str, Any]]


def of_class(base: dict[str, Any], *rows: Row) -> list[Twin]:
    """Rows of (name, body, reference, was, now, further fields)."""
    return [Twin(name, body, f"return {ref}" if "return" not in ref else ref, was, now, **base | more)
            for name, body, ref, was, now, more in rows]  # fmt: skip
