"""Runs on file: the tensors at every module's border as safetensors, so that a run elsewhere can be judged here.

One tensor per border and place, named `order name#call way place`; the header keeps the order of events, from which
calls and callers follow as they do live. Beside them the run's operations (`program`) with what they read from outside,
named `kept number`: with these a recorded run is judged by its own code, so that two files need no source.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from render.network.capture import Model, ModuleRun, capture, ordered
from render.network.logs import is_log, of_log
from render.network.program import Program, record
from render.result.errors import RenderError, expect


def record_modules(model: Any, *inputs: Any, path: str | Path, seed: int = 0) -> Path:
    """Run `model(*inputs)` once and write to `path` what went into and came out of every module; returns the path.

    `seed` seeds torch before the run. Raises RenderError for inputs that a file cannot hold.

        render.record_modules(model, tokens, path="run.safetensors")
        render.compare_models("run.safetensors", reference)
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    expect("path", path, str, os.PathLike)
    try:
        given = Model.of(model)
    except ValueError as error:
        raise RenderError("RND902", str(error), "pass a module or a function") from None
    trace = ran(given, inputs, seed)
    tensors, events = {}, []
    for order, (key, crossing) in enumerate(trace.crossings.items()):
        events.append([key.name, key.way, len(crossing.tensors)])
        for place, tensor in enumerate(crossing.tensors):
            tensors[f"{order:06d} {key.name}#{key.call} {key.way} {place}"] = tensor.cpu().contiguous().clone()
    header = {"render_events": json.dumps(events)}
    program = record(given, inputs, seed)
    if program is not None:
        header["render_program"] = json.dumps(program[0])
        tensors |= {f"kept {number}": t.contiguous() for number, t in program[1].items()}
    try:
        save_file(tensors, str(path), header)
    except (OSError, SafetensorError) as error:
        raise RenderError("RND901", f"cannot write {path}: {error}") from None
    return Path(path)


def ran(model: Model, inputs: Sequence[Any], seed: int) -> ModuleRun:
    """The run of a side. RenderError, with what it raised behind it, where it does not come to its end."""
    try:
        return capture(model, inputs, seed)
    except RenderError:
        raise
    except Exception as error:
        told = str(error).partition("\n")[0]
        what = f"{type(error).__name__}: {told}" if told else type(error).__name__
        raise RenderError("RND902", f"a model does not run on these inputs: {what}",
                          "call it once with them by itself") from error  # fmt: skip


def load_modules(path: str | Path) -> ModuleRun:
    """A recorded run. RenderError for a file that is none."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise RenderError("RND901", f"no such file: {path}")
    try:
        opened = safe_open(str(path), "pt")
    except SafetensorError as error:
        raise RenderError("RND901", f"{path} is no file of tensors: {error}",
                          "write one with `render record --modules`") from None  # fmt: skip
    with opened as file:
        header = (file.metadata() or {}).get("render_events")
        if header is None:
            raise RenderError("RND901", f"{path} holds no run of modules", "write one with `render record --modules`")
        found = {name: file.get_tensor(name) for name in sorted(file.keys()) if not name.startswith("kept ")}
    at, taken = 0, list(found.values())
    events: list[tuple[str, str, list[torch.Tensor]]] = []
    for name, way, count in json.loads(header):
        events.append((name, way, taken[at : at + count]))
        at += count
    crossings = ordered(events)
    last = events[-1][2] if events else []
    return ModuleRun(crossings, tuple(last))


def load_program(path: str | Path) -> Model | None:
    """The code of a recorded run; None for a file that holds activations alone."""
    from safetensors import safe_open

    with safe_open(str(path), "pt") as file:
        text = (file.metadata() or {}).get("render_program")
        kept = {int(n.split()[1]): file.get_tensor(n) for n in file.keys() if n.startswith("kept ")}  # noqa: SIM118
    return None if text is None else Model(Program.of(text, kept))


def side_of(given: Any, other: Any) -> tuple[Model, Callable[[Any, int], ModuleRun]]:
    """(the code of a side, what gives its run): a recorded run has its own code, else that of the other side."""
    if is_log(given):
        code, log = of_log(given)
        return code, lambda inputs, seed: log
    if isinstance(given, (str, Path)):
        run = load_modules(given)
        own = load_program(given)
        if own is None and isinstance(other, (str, Path)):
            own = load_program(other)
        if own is None and isinstance(other, (str, Path)):
            raise RenderError("RND902", "both sides are recorded runs without operations",
                              "record one of them anew, or give one side as the model")  # fmt: skip
        return own or Model.of(other), lambda inputs, seed: run
    model = Model.of(given)
    return model, lambda inputs, seed: ran(model, inputs, seed)


__all__ = ["load_modules", "record_modules", "side_of"]
