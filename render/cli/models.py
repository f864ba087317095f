"""Models and inputs from the files that a command names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from render.result.errors import RenderError

if TYPE_CHECKING:
    from render.network.records import NetworkVerdict


def classify_files(
    target: str, reference: str | None = None, inputs: Path | None = None, seed: int = 0, **options: Any
) -> NetworkVerdict:
    """`compare_models` of `file.py::name` each, or of a recorded run and one.

    Inputs come from a tensors file, else from the file's own `make_inputs()`.
    Without `reference`, the name `reference` of the target's file.
    """
    from render.entry.target import load_module
    from render.network.compare import compare_models

    recorded = target.endswith(".safetensors")
    if recorded and (reference or "").endswith(".safetensors"):
        return compare_models(Path(target), Path(reference or ""), seed=seed, **options)
    file, _, name = (reference or "" if recorded else target).partition("::")
    if not file:
        raise RenderError(
            "RND902", "a recorded run needs the code of the other side", "give it with --ref file.py::model"
        )
    module = load_module(file)
    model: Any = Path(target) if recorded else _model(module, name or "model", seed)
    if recorded:
        other = _model(module, name or "model", seed)
    elif reference is None:
        other = _model(module, "reference", seed)
    elif reference.endswith(".safetensors"):
        other = Path(reference)
    else:
        place, _, called = reference.partition("::")
        home = module if Path(place).resolve() == Path(file).resolve() else load_module(place)
        other = _model(home, called or "model", seed)
    return compare_models(model, other, *_inputs(module, inputs, seed), seed=seed, **options)


def record_model(target: str, output: Path, inputs: Path | None, seed: int) -> Path:
    """One run of the model of `file.py::name`, on file."""
    from render.entry.target import load_module
    from render.network import record_modules

    file, _, name = target.partition("::")
    module = load_module(file)
    return record_modules(_model(module, name, seed), *_inputs(module, inputs, seed), path=output, seed=seed)


def _model(module: ModuleType, name: str, seed: int) -> Any:
    """A module, or what a class or a function without parameters makes, drawn after `seed`; else a plain function."""
    import torch
    from torch import nn

    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        known = ", ".join(n for n, v in vars(module).items() if isinstance(v, nn.Module)) or "none"
        raise RenderError("RND902", f"{module.__file__} has no {name}", f"modules in it: {known}")
    if isinstance(found, nn.Module) or not callable(found):
        return found
    torch.manual_seed(seed)
    if isinstance(found, type) or not _needs_arguments(found):
        return found()
    return found


def _needs_arguments(function: Any) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(p.default is p.empty or p.kind is p.VAR_POSITIONAL for p in parameters)


def _inputs(module: ModuleType, path: Path | None, seed: int) -> Sequence[Any]:
    import torch

    if path is not None:
        from render.entry.tensors import load

        found = load(path)
    else:
        make = getattr(module, "make_inputs", None)
        if make is None:
            raise RenderError("RND902", f"{module.__file__} has no make_inputs()", "define it, or give --inputs FILE")
        torch.manual_seed(seed)
        found = make()
    if isinstance(found, Mapping):
        return tuple(found.values())
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)
