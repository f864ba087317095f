"""A verdict to hand on: FILE with inputs of its own in a folder, shrunk to the least that keeps label, code and line.

Sizes that occur in the shapes of several inputs, and numbers that equal one of them or a count of elements, change
together. Small sizes come first, so that most trials are cheap; what is kept is what the trials said, never assumed.
Masks (boolean inputs) are emptied half by half afterwards. Work is counted: `TRIALS` classifications at most.
"""

from __future__ import annotations

import ast
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from render.entry.inputs import Inputs
from render.entry.resolve import resolve
from render.entry.target import find_entry, load_module
from render.front.judge import Again
from render.interpreter.script import source_of
from render.judgement.steps import Judgement
from render.result.errors import KernelError, RenderError, UnsupportedOp
from render.result.options import Options
from render.result.verdict import Verdict

TRIALS = 40
_HOME = Path(__file__).resolve().parents[2]
_WRITTEN = "\n\n# Inputs of this reproduction.\ndef make_inputs():\n{body}\n"
Key = tuple[str, str]
"""What a trial has to keep: label and code."""


class Unwritable(Exception):
    """An input cannot be written as Python with tensors from a file; the text says which."""


@dataclass(frozen=True)
class Repro:
    """What was written: files of `folder`, the command to run there, what was shrunk, and what it has to say."""

    folder: Path
    files: tuple[str, ...]
    command: tuple[str, ...]
    told: str
    wanted: Key

    @property
    def line(self) -> str:
        return f"cd {shlex.quote(str(self.folder))} && {shlex.join(self.command)}"

    def again(self) -> Key:
        """Runs the command in a process and a folder of its own; what it says."""
        words = [sys.executable, "-m", "render", *self.command[1:], "--json", "-"]
        paths = os.pathsep.join(filter(None, (str(_HOME), os.environ.get("PYTHONPATH", ""))))
        own = {**os.environ, "PYTHONPATH": paths}
        ran = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, env=own)
        try:
            found = json.loads(ran.stdout)["verdict"]
        except (ValueError, KeyError):
            return "no verdict:", (ran.stderr.strip().splitlines() or [""])[0]
        return found["label"], found["code"]

    @property
    def verified(self) -> str:
        """Runs it, and says whether it is the same verdict."""
        found = self.again()
        said = "the same verdict" if found == self.wanted else f"now {' '.join(found)}"
        return f"run again from the folder: {said}"


def save(
    folder: Path, file: Path, verdict: Verdict, options: Options, *, entry: str | None, ref: str | None,
    ref_args: Sequence[str], output: Path | None, extra: Sequence[str],
) -> Repro:  # fmt: skip
    """Writes FILE with these inputs, `inputs.safetensors` and `command.sh` into an empty or new folder.

    `extra`: words of the command line that chose the options. Raises RenderError for a folder with something in it.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RenderError("RND901", f"{folder} exists and is not empty: nothing is written there", "name a new folder")
    if verdict.study is None:
        raise RenderError("RND905", "this verdict has no inputs to save", "a script's comparisons run by `render run`")
    if isinstance(verdict.study.entry.fn, Again):
        hint = f"`render run {file}` is the command that shows it"
        raise RenderError("RND905", "what the script itself compares has no inputs of its own", hint)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RenderError("RND901", f"cannot make {folder}: {error.strerror}", "name a new folder") from None
    module = load_module(file)
    fn, reference = find_entry(module, entry, ref), resolve(ref, module, ref_args)
    inputs: Inputs = verdict.study.entry.inputs
    told = "the output of a device belongs to these inputs: they are not shrunk"
    if output is None:
        named = verdict.label == "Type-I"  # its code is the largest cause of the bound
        quick = replace(options, explain=(), progress=None, diagnose=False, budget=named and options.budget)
        question = _Shrinking(fn, reference, quick, (verdict.label, verdict.code))
        inputs, told = question.least(inputs, verdict)
    command = ["render", "classify", file.name, "--entry", entry or fn.__name__, *_reference(ref, ref_args, folder)]
    try:
        body, tensors = written(inputs)
    except Unwritable as why:
        told, body, tensors = f"the file makes its inputs: {why}", "", {}
    source = source_of(file)
    (folder / file.name).write_text(source + (_WRITTEN.format(body=body) if body else ""), encoding="utf-8")
    if tensors:
        from safetensors.torch import save_file

        save_file(tensors, folder / "inputs.safetensors")
    if output is not None:
        shutil.copyfile(output, folder / output.name)
        command += ["--output", output.name]
    for neighbour in _neighbours(module, file):
        target = folder / neighbour.relative_to(file.resolve().parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(neighbour, target)
    command += extra
    (folder / "command.sh").write_text(f"#!/bin/sh\n# {verdict.label} {verdict.code}\n{shlex.join(command)}\n")
    files = tuple(sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()))
    return Repro(folder, files, tuple(command), told, (verdict.label, verdict.code))


def _reference(ref: str | None, arguments: Sequence[str], folder: Path) -> list[str]:
    """Its words, with a file of its own copied."""
    found = [word for spec in arguments for word in ("--ref-args", spec)]
    if ref is None:
        return found
    file, colons, name = ref.partition("::")
    if colons and Path(file).is_file():
        shutil.copyfile(file, folder / Path(file).name)
        ref = f"{Path(file).name}::{name}"
    return ["--ref", ref, *found]


def _neighbours(module: ModuleType, file: Path) -> Iterator[Path]:
    """Files beside FILE that were imported with it."""
    home = file.resolve().parent
    wanted = {name.partition(".")[0] for name in _imported(source_of(file))}
    for known in list(sys.modules.values()):
        path = getattr(known, "__file__", None)
        if path is None or known is module or not path.endswith(".py"):
            continue
        place = Path(path).resolve()
        if not place.is_relative_to(home) or place == file.resolve() or "site-packages" in place.parts:
            continue
        if place.relative_to(home).parts[0].removesuffix(".py") in wanted:
            yield place


def _imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def written(inputs: Inputs) -> tuple[str, dict[str, torch.Tensor]]:
    """The body of a `make_inputs()`, and the tensors that it reads. Raises Unwritable."""
    tensors: dict[str, torch.Tensor] = {}
    pairs = [f"        {name}={_expression(value, name, tensors)}," for name, value in inputs.values.items()]
    lines = ["    from pathlib import Path", "", "    import torch"]
    if tensors:
        lines += ["    from safetensors.torch import load_file", ""]
        lines += ['    t = load_file(Path(__file__).with_name("inputs.safetensors"))']
    body = [*lines, "    return dict(", *pairs, "    )"]
    return "\n".join(body), tensors


def _expression(value: Any, name: str, tensors: dict[str, torch.Tensor]) -> str:
    if isinstance(value, torch.Tensor):
        return _tensor(value, name, tensors)
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        parts = [_expression(v, f"{name}_{i}", tensors) for i, v in enumerate(value)]
        return f"[{', '.join(parts)}]" if isinstance(value, list) else f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    if type(value) is dict and all(isinstance(k, str) for k in value):
        return "{" + ", ".join(f"{k!r}: {_expression(v, f'{name}_{k}', tensors)}" for k, v in value.items()) + "}"
    if isinstance(value, torch.dtype):
        return repr(value)
    if isinstance(value, float) and repr(value) in ("nan", "inf", "-inf"):
        return f'float("{value}")'
    if value is None or (isinstance(value, bool | int | float | str) and type(value) in (bool, int, float, str)):
        return repr(value)
    raise Unwritable(f"{name} is a {type(value).__name__}")


def _tensor(x: torch.Tensor, name: str, tensors: dict[str, torch.Tensor]) -> str:
    """With its strides, and in the memory that it shares."""
    if x.is_contiguous() and x.untyped_storage().nbytes() == x.numel() * x.itemsize:
        shared = next((n for n, t in tensors.items() if t.untyped_storage()._cdata == x.untyped_storage()._cdata), None)
        if shared is None:
            tensors[name] = x.detach()
        text = f"t[{_quoted(shared or name)}]"
        same = shared is None or (tensors[shared].shape == x.shape and tensors[shared].dtype == x.dtype)
        text = text if same else f"{text}.view({x.dtype}).view({tuple(x.shape)})"
    else:
        whole = torch.as_strided(x.detach(), (x.untyped_storage().nbytes() // x.itemsize,), (1,), 0)
        known = (n for n, t in tensors.items() if t.untyped_storage()._cdata == x.untyped_storage()._cdata)
        shared = next(known, None)
        if shared is None:
            tensors[name] = whole
        elif tensors[shared].dtype != x.dtype:
            raise Unwritable(f"{name} shares memory with {shared} in another dtype")
        text = f"t[{_quoted(shared or name)}].as_strided({tuple(x.shape)}, {tuple(x.stride())}, {x.storage_offset()})"
    return f"{text}.requires_grad_(True)" if x.requires_grad else text


def _quoted(name: str) -> str:
    return f'"{name}"'


class _Shrinking:
    """Trials of one question on other inputs."""

    def __init__(self, fn: Callable[..., Any], reference: Any, options: Options, wanted: Key) -> None:
        self.fn, self.reference, self.options, self.wanted = fn, reference, options, wanted
        self.trials = 0

    def least(self, inputs: Inputs, verdict: Verdict) -> tuple[Inputs, str]:
        """The smallest inputs that were found, and what was done in words."""
        before, worst = inputs, {i for o in verdict.outputs for i in o.worst_index}
        for size in sorted(sizes(inputs), reverse=True):
            inputs = self._size(inputs, size, worst) or inputs
        for name, value in inputs.values.items():
            if isinstance(value, torch.Tensor) and value.dtype == torch.bool:
                inputs = self._mask(inputs, name)
        elements = [sum(x.numel() for x in tree_leaves(list(i.values.values())) if isinstance(x, torch.Tensor))
                    for i in (before, inputs)]  # fmt: skip
        if elements[0] == elements[1]:
            return inputs, f"nothing smaller keeps the verdict ({self.trials} tried)"
        return inputs, f"shrunk from {elements[0]} to {elements[1]} numbers ({self.trials} tried)"

    def _size(self, inputs: Inputs, size: int, worst: set[int]) -> Inputs | None:
        """The inputs with one size replaced by the least that keeps the verdict."""
        for other in _smaller(size):
            last = next((i + 1 for i in worst if other < i + 1 <= size), size)
            for end in (other, last):
                trial = resized(inputs, size, end - other, other)
                if self._keeps(trial):
                    return trial
        return None

    def _mask(self, inputs: Inputs, name: str) -> Inputs:
        """Fewer elements of a mask set: halves, then parts of halves."""
        set_ = torch.nonzero(inputs.values[name].reshape(-1)).reshape(-1).tolist()
        parts = 1
        while set_ and parts <= len(set_) and self.trials < TRIALS:
            step = -(-len(set_) // parts)
            for start in range(0, len(set_), step):
                kept = set_[:start] + set_[start + step :]
                trial = inputs.map(partial(_with, mask=inputs.values[name], kept=kept))
                if self._keeps(trial):
                    inputs, set_ = trial, kept
                    break
            else:
                parts *= 2
        return inputs

    def _keeps(self, inputs: Inputs) -> bool:
        if self.trials >= TRIALS:
            return False
        self.trials += 1
        try:
            found = Judgement(self.fn, inputs, self.reference, None, self.options).verdict()
        except (RenderError, KernelError, UnsupportedOp):
            return False
        return (found.label, found.code) == self.wanted


def _with(x: Any, mask: torch.Tensor, kept: Sequence[int]) -> Any:
    if x is not mask:
        return x
    found = torch.zeros(mask.shape, dtype=torch.bool)
    found.view(-1)[list(kept)] = True
    return found


def sizes(inputs: Inputs) -> set[int]:
    """Extents above 1 of the inputs' tensors."""
    leaves = tree_leaves(list(inputs.values.values()))
    return {n for x in leaves if isinstance(x, torch.Tensor) for n in x.shape if n > 1}


def _smaller(size: int) -> list[int]:
    """Powers of two, 3, and what is left of the last power: part of a block."""
    powers = [1 << k for k in range(size.bit_length())]
    return sorted({n for n in (3, *powers, size - powers[-1]) if 0 < n < size})


def resized(inputs: Inputs, size: int, start: int, length: int) -> Inputs:
    """Every extent `size` cut to `length` elements from `start`; numbers that said the old sizes say the new ones.

    Indices into an extent (integer tensors below `size`) are taken modulo the new one.
    """
    numbers: dict[int, int] = {size: length}

    def cut(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or size not in x.shape:
            return x
        found = x.detach()
        for dim in [d for d, n in enumerate(x.shape) if n == size]:
            found = found.narrow(dim, start, length)
        found = torch.empty_like(found, memory_format=torch.preserve_format).copy_(found)
        numbers.setdefault(x.numel(), found.numel())
        if not x.is_floating_point() and x.dtype != torch.bool and x.numel() and x.min() >= 0 and x.max() < size:
            found %= length
        return found.requires_grad_(x.requires_grad)

    changed = inputs.map(cut)
    return changed.map(lambda x: numbers.get(x, x) if type(x) is int else x)
