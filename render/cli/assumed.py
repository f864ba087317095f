"""Options that say what bounds may assume of the compiler: the same three in every command that executes kernels."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from render.result.errors import RenderError

if TYPE_CHECKING:
    from interval_ops.profiles.profile import Profile

PANEL = "Target"


class SumOrder(StrEnum):
    """Order of additions inside a program: any, or as Triton lowers them (reductions as trees, fma dots along k)."""

    any = "any"
    tree = "tree"


class Contraction(StrEnum):
    """Whether the compiler contracts products that are added."""

    any = "any"
    on = "on"
    off = "off"


SumOrderOption = Annotated[
    SumOrder,
    typer.Option(
        help="any: sums in any order; tree: as Triton lowers them (a much narrower bound where it holds).",
        rich_help_panel=PANEL,
    ),
]
ContractionOption = Annotated[
    Contraction, typer.Option(help="Whether products that are added become fma.", rich_help_panel=PANEL)
]
TritonOption = Annotated[
    str | None,
    typer.Option(
        metavar="3.N", help="Triton that compiles the kernel. Default: the installed one.", rich_help_panel=PANEL
    ),
]


def assumed(sum_order: SumOrder, fp_contraction: Contraction, triton_version: str | None) -> dict[str, str]:
    """What was chosen, by the names that sessions and `classify` take; nothing for what was left open."""
    chosen = {"sum_order": sum_order.value, "fp_contraction": fp_contraction.value, "triton_version": triton_version}
    return {name: value for name, value in chosen.items() if value not in (None, "any")}


def checked(chosen: dict[str, str], *devices: str) -> list[Profile]:
    """The profiles of `devices` under what was chosen; RND902 for a choice that none or one of them knows.

    Commands that run many kernels ask before the first of them; without devices only the version is looked at.
    """
    from interval_ops.profiles.profile import load_profile
    from render.interpreter.compat import installed, version

    try:
        triton = version(chosen["triton_version"]) if "triton_version" in chosen else installed()
        order, fused = chosen.get("sum_order"), chosen.get("fp_contraction")
        return [load_profile(name).chosen(order, fused, triton) for name in devices]
    except ValueError as error:
        raise RenderError("RND902", str(error), "see `render classify --help`, Target") from None
