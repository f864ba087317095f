"""Options of commands, made of the table in `render.result.options`: one spelling and one help line everywhere."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from render.result.errors import RenderError
from render.result.options import EXPLAIN, EXPLANATIONS, INPUTS, NAMES, REPORT, TARGET, Options

if TYPE_CHECKING:
    from interval_ops.profiles.profile import Profile

KernelFile = Annotated[Path, typer.Argument(metavar="FILE", help="Python file with the kernel and its launcher.")]
EntryName = Annotated[str | None, typer.Option(help="Function that launches the kernel.", rich_help_panel=TARGET)]
TargetProfile = Annotated[str, typer.Option(help="Profile of the target.", rich_help_panel=TARGET)]
InputsFile = Annotated[
    Path | None, typer.Option(help="Inputs by argument name: .safetensors, .npz or .pt.", rich_help_panel=INPUTS)
]
InputSpecs = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=SPEC", help='One input, e.g. "a=randn(512,512):fp16". Repeatable.',
                 rich_help_panel=INPUTS),
]  # fmt: skip
Seed = Annotated[int, typer.Option(help="Seed of generated inputs.", rich_help_panel=INPUTS)]
JsonPath = Annotated[
    str | None, typer.Option(metavar="PATH", help="The result as JSON, - for stdout.", rich_help_panel=REPORT)
]


def taking(*names: str, explanations: bool = False) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Gives a command the options `names`, and a flag per explanation; it receives them as keywords."""
    kinds = get_type_hints(Options)

    def with_options(command: Callable[..., int]) -> Callable[..., int]:
        own = inspect.signature(command, eval_str=True)
        parameters = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        parameters += [_parameter(name, kinds[name]) for name in names]
        if explanations:
            parameters += [_flag(name, text) for name, text in EXPLANATIONS.items()]
        command.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": int}
        return command

    return with_options


def _parameter(name: str, kind: Any) -> inspect.Parameter:
    row = NAMES[name]
    default, about = row.default, row.metadata
    flags: tuple[str, ...] = ()
    if default is True:  # on unless told otherwise
        flags = (f"--{name}/--no-{name}",)
    if isinstance(default, tuple):
        kind, default = list[str] | None, None
    told = typer.Option(*flags, help=about["help"], rich_help_panel=about["panel"], metavar=about["metavar"])
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, told])


def _flag(name: str, text: str) -> inspect.Parameter:
    told = typer.Option(f"--{name}", help=text, rich_help_panel=EXPLAIN)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, told])


def given(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """What the user chose, as keywords of `Options`; nothing for what was left at its default."""
    found = {
        name: value for name, value in keywords.items()
        if name in NAMES and value is not None and value != NAMES[name].default
    }  # fmt: skip
    if wanted := tuple(name for name in EXPLANATIONS if keywords.get(name)):
        found["explain"] = wanted
    return found


def words(chosen: Mapping[str, Any]) -> list[str]:
    """What `given` found, as words of a command line again."""
    found: list[str] = []
    for name, value in chosen.items():
        for one in value if isinstance(value, tuple | list) else (value,):
            flag = f"--{(one if name == 'explain' else name).replace('_', '-')}"
            if name == "explain" or one is True:
                found.append(flag)
            else:
                found += [f"--no-{name}"] if one is False else [flag, str(one)]
    return found


def checked(chosen: Mapping[str, str], devices: Iterable[str] = ()) -> list[Profile]:
    """The profiles of `devices` under what was chosen; RND902 for a choice that none or one of them knows.

    Commands that run many kernels ask before the first of them; without devices only the version is looked at.
    """
    from interval_ops.profiles.profile import load_profile
    from render.result.versions import installed_triton, triton_version

    try:
        triton = triton_version(chosen["triton_version"]) if "triton_version" in chosen else installed_triton()
        order, fused = chosen.get("sum_order"), chosen.get("fp_contraction")
        return [load_profile(name).chosen(order, fused, triton) for name in devices]
    except ValueError as error:
        raise RenderError("RND902", str(error), "see `render classify --help`, Target") from None
