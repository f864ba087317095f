"""What people launch kernels with, besides functions: autograd functions, layers, a pair of models in one file."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from render.entry.inputs import Inputs
from render.entry.resolve import Reference
from render.entry.target import users_code

Function = Callable[..., Any]


def as_function(owner: Any, module: ModuleType | None = None) -> Function:
    """A function for an autograd function (`Class` or `Class.apply`), a layer, or a layer's class; others as they are.

    A class of layers is made once, after torch was seeded, with what the file's `get_init_inputs()` gives, if any.
    """
    owner = getattr(owner, "__self__", owner) if getattr(owner, "__name__", "") == "apply" else owner
    if isinstance(owner, type) and issubclass(owner, torch.autograd.Function):
        return _applied(owner)
    if isinstance(owner, type) and issubclass(owner, torch.nn.Module):
        owner = _made(owner, module)
    return _forward(owner) if isinstance(owner, torch.nn.Module) else owner


def _named(function: Function, name: str, parameters: list[inspect.Parameter]) -> Function:
    function.__name__ = function.__qualname__ = name
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


def _applied(owner: type[torch.autograd.Function]) -> Function:
    def apply(*args: Any, **kwargs: Any) -> Any:
        bound = inspect.Signature(parameters).bind(*args, **kwargs)
        bound.apply_defaults()
        return owner.apply(*bound.args)

    parameters = list(inspect.signature(owner.forward).parameters.values())
    separate = "setup_context" in vars(owner)
    parameters = [p for p in parameters[0 if separate else 1 :] if p.kind is not p.VAR_KEYWORD]
    return _named(apply, owner.__name__, parameters)


def _made(owner: type[torch.nn.Module], module: ModuleType | None) -> torch.nn.Module:
    torch.manual_seed(0)
    given = getattr(module, "get_init_inputs", tuple)
    hint = "it is made with what get_init_inputs() of the file gives; or name a function with --entry"
    with users_code(f"{owner.__name__}()", hint):
        made: Any = given()
        if isinstance(made, list | tuple) and [type(x) for x in made] in ([list, dict], [tuple, dict]):
            return owner(*made[0], **made[1])  # as KernelBook has them
        return owner(**made) if isinstance(made, dict) else owner(*made)


def _forward(layer: torch.nn.Module) -> Function:
    def forward(*args: Any, **kwargs: Any) -> Any:
        return layer(*args, **kwargs)

    parameters = list(inspect.signature(layer.forward).parameters.values())
    return _named(forward, type(layer).__name__, parameters)


def two_models(module: ModuleType, seed: int) -> tuple[Function, Inputs, Reference] | None:
    """(entry, inputs, reference) of a file with Model, ModelNew and get_inputs(), as KernelBench has them; else None.

    Both models get the weights of Model, as far as they have the same names.
    """
    wanted = [getattr(module, name, None) for name in ("Model", "ModelNew", "get_inputs")]
    if None in wanted:
        return None
    torch.manual_seed(seed)
    old, new = (_made(owner, module) for owner in wanted[:2])  # type: ignore[arg-type]
    with users_code("the weights of ModelNew", "they are those of Model, by name"):
        new.load_state_dict(old.state_dict(), strict=False)
    torch.manual_seed(seed)
    with users_code("get_inputs()", "it takes nothing and returns a list of inputs"):
        given = list(wanted[2]())  # type: ignore[misc]
    names = list(inspect.signature(old.forward).parameters)[: len(given)]
    names += [f"x{i}" for i in range(len(names), len(given))]
    everything = ("model", "reference_model", *names)
    parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in everything]

    def entry(model: Any, reference_model: Any, *inputs: Any) -> Any:
        return model(*inputs)

    def reference(*args: Any, **named: Any) -> Any:
        values = dict(zip(everything, args, strict=False)) | named
        return values["reference_model"](*(values[n] for n in names))

    inputs = Inputs((new, old, *given), {}, everything)
    function = _named(reference, "Model", parameters)
    return _named(entry, "ModelNew", parameters), inputs, Reference(function, "Model")
