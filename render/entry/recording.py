"""A call as a device made it: inputs, outputs, versions, device and seed in one file, with hashes.

Random inputs drawn on another device's generator are other numbers, and so is what a device makes of them. A recording
says which inputs an output belongs to:

    import render
    y = render.record("run.safetensors", launch, a, b)      # on the machine with the GPU
    render classify kernel.py --recording run.safetensors   # anywhere
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from render.entry.inputs import Inputs, gather, of_call
from render.entry.outputs import flatten, visible
from render.entry.target import as_kernel_error, find_entry, load_module, returned_names
from render.interpreter.refusals import is_own_failure
from render.result.errors import RenderError, expect, headline, is_users

FORMAT = "render recording 1"
REFUSED = "RND901"
Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class DeviceRecording:
    """`inputs` by parameter in the order of the call (tensors, and numbers as they were), `outputs` by name."""

    path: str
    inputs: dict[str, Any]
    outputs: Tensors
    device: str
    versions: dict[str, str]
    seed: int | None

    @property
    def sentence(self) -> str:
        """Where the device's values come from."""
        built = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return f"recorded with these inputs on {self.device} ({built})"

    def call(self, fn: Callable[..., Any]) -> Inputs:
        """The arguments of the recorded call, for the entry function."""
        return of_call(fn, (), self.inputs)

    def check(self, given: Inputs) -> None:
        """Raises RenderError if these are other inputs than those that were recorded."""
        for name, value in given.values.items():
            known = self.inputs.get(name)
            if not isinstance(value, torch.Tensor) or not isinstance(known, torch.Tensor):
                continue
            if known.shape != value.shape or sha256(known) != sha256(value):
                hint = "leave the inputs out: the recording has its own"
                raise RenderError(REFUSED, f"{self.path} was recorded with another {name}", hint)


def record(path: str | Path, fn: Callable[..., Any], *inputs: Any, seed: int | None = None, **keywords: Any) -> Any:
    """Call `fn(*inputs, **keywords)` and write what went in and came out to `path`; returns what `fn` returned.

    Tensors among the arguments are saved as they were before the call; one that the call changed is an output, too.
    `seed` seeds torch before the call. Raises RenderError for an argument that a file cannot hold.

        render.record("golden.safetensors", matmul, a, b)    # on the machine with the GPU
    """
    expect("path", path, str, os.PathLike)
    path = Path(path)
    if path.suffix != ".safetensors":
        raise RenderError(REFUSED, f"{path}: a recording is one .safetensors file", "name it run.safetensors")
    if seed is not None:
        torch.manual_seed(seed)
    call = of_call(fn, inputs, keywords)
    before = {name: _saved(name, value) for name, value in call.values.items()}
    result = fn(*inputs, **keywords)
    _wait(call)
    outputs = dict(flatten(result, returned_names(fn)))
    for name, value in visible(call):
        kept = before.get(name)
        if isinstance(kept, torch.Tensor) and sha256(kept) != sha256(value):
            outputs.setdefault(name, value)
    if not outputs:
        raise RenderError(REFUSED, "the call returned no tensor and changed none", "record the function that launches")
    _write(path, before, {name: x.detach().cpu() for name, x in outputs.items()}, call, seed)
    return result


def record_file(path: Path, file: Path, entry: str | None, inputs: Path | None, specs: Sequence[str], seed: int) -> str:
    """`record` for the entry function of a file, its inputs on the device; gives the sentence that says so."""
    module = load_module(file)
    fn = find_entry(module, entry, None)
    given = gather(fn, module, inputs, specs, seed)
    if torch.cuda.is_available():
        given = given.map(lambda x: x.cuda() if isinstance(x, torch.Tensor) else x)
    try:
        record(path, fn, *given.args, seed=seed, **given.kwargs)
    except RenderError:
        raise
    except BaseException as error:
        if isinstance(error, RuntimeError) and "active drivers" in str(error):  # Triton's words
            hint = "record on the machine that has it"
            raise RenderError("RND902", "Triton finds no GPU on this machine", hint) from None
        if not is_users(error) or is_own_failure(error):
            raise
        raise as_kernel_error(error) from error
    found = load(path)
    assert found is not None
    return f"{path}: {len(found.outputs)} outputs, {found.sentence}"


def is_recording(path: Path) -> bool:
    """Whether it says so; what cannot be read at all is told by `load`."""
    from safetensors import SafetensorError, safe_open

    if path.suffix != ".safetensors":
        return False
    try:
        with safe_open(path, "pt") as file:
            return bool((file.metadata() or {}).get("format") == FORMAT)
    except (OSError, SafetensorError):
        return True


def load(path: str | Path) -> DeviceRecording | None:
    """The recording in a file; None if it is another kind of file. Raises RenderError where a hash does not hold."""
    path = Path(path)
    if path.suffix != ".safetensors" or not path.is_file():
        return None
    from safetensors import safe_open

    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                return None
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return _checked(path, tensors, json.loads(metadata["facts"]))
    except RenderError:
        raise
    except Exception as error:  # whatever a file that was changed can do
        raise RenderError(REFUSED, f"{path} cannot be read: {headline(error)}", "record it again") from error


def _checked(path: Path, tensors: Tensors, facts: Mapping[str, Any]) -> DeviceRecording:
    wrong = sorted(name for name, x in tensors.items() if facts["sha256"].get(name) != sha256(x))
    if wrong or facts["sha256"].keys() != tensors.keys():
        raise RenderError(
            REFUSED, f"{path} was changed: {wrong or 'tensors'} do not have their hash", "record it again"
        )
    inputs = {n: tensors[f"input.{n}"] if f"input.{n}" in tensors else facts["values"][n] for n in facts["order"]}
    outputs = {name.removeprefix("output."): x for name, x in tensors.items() if name.startswith("output.")}
    return DeviceRecording(str(path), inputs, outputs, facts["device"], facts["versions"], facts["seed"])


def sha256(x: torch.Tensor) -> str:
    """Of the elements in row-major order, as bytes of their own type."""
    flat = x.detach().cpu().reshape(-1).clone(memory_format=torch.contiguous_format).view(torch.uint8).numpy()
    return hashlib.sha256(flat.data).hexdigest()


def _saved(name: str, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone().contiguous()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    hint = "record a function of tensors and numbers"
    raise RenderError(REFUSED, f"the argument {name} is a {type(value).__name__}, which a recording cannot hold", hint)


def _write(path: Path, before: Mapping[str, Any], outputs: Tensors, call: Inputs, seed: int | None) -> None:
    from safetensors.torch import save_file

    tensors = {f"input.{n}": x for n, x in before.items() if isinstance(x, torch.Tensor)}
    tensors |= {f"output.{n}": x.clone().contiguous() for n, x in outputs.items()}
    facts = {
        "order": list(before), "values": {n: x for n, x in before.items() if not isinstance(x, torch.Tensor)},
        "sha256": {name: sha256(x) for name, x in tensors.items()}, "device": _device(call), "versions": _versions(),
        "seed": seed,
    }  # fmt: skip
    save_file(tensors, path, {"format": FORMAT, "facts": json.dumps(facts)})


def _wait(call: Inputs) -> None:
    if any(isinstance(x, torch.Tensor) and x.is_cuda for x in call.values.values()) and torch.cuda.is_available():
        torch.cuda.synchronize()


def _device(call: Inputs) -> str:
    where = next((x.device for x in call.values.values() if isinstance(x, torch.Tensor)), torch.device("cpu"))
    if where.type != "cuda" or not torch.cuda.is_available():
        return where.type
    major, minor = torch.cuda.get_device_capability(where)
    return f"{torch.cuda.get_device_name(where)} (sm_{major}{minor})"


def _versions() -> dict[str, str]:
    found = {"torch": torch.__version__, "python": platform.python_version()}
    for name in ("triton", "render"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
