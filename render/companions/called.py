"""The file, function and inputs that a command names, as `render classify` finds them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from render.entry.execution import on_cpu
from render.entry.inputs import Inputs, from_mapping, gather
from render.entry.target import find_entry, load_module
from render.result.errors import RenderError
from render.result.packaged import find


@dataclass(frozen=True)
class Called:
    """A file's entry function; `inputs(seed)` draws its inputs anew unless they come from a tensors file
    (`make_inputs` may take the seed)."""

    path: Path
    module: ModuleType
    fn: Callable[..., Any]
    file: str | Path | None
    specs: tuple[str, ...]

    def inputs(self, seed: int = 0) -> Inputs:
        make = getattr(self.module, "make_inputs", None)
        own = self.file is None and not self.specs and make is not None
        with on_cpu():
            if own and make is not None and "seed" in inspect.signature(make).parameters:
                return from_mapping(self.fn, make(seed=seed))
            return gather(self.fn, self.module, self.file, self.specs, seed)


def called(
    path: str | Path, entry: str | None = None, file: str | Path | None = None, specs: Sequence[str] = (),
    ref: str | None = None,
) -> Called:  # fmt: skip
    """Loads `path`, or the packaged example of that name. Raises RenderError for what is not there."""
    found = find(Path(path))
    if found is None or not found.is_file():
        raise RenderError("RND902", f"no such file: {path}", "FILE is the Python file that launches the kernel")
    with on_cpu():
        module = load_module(found)
        fn = find_entry(module, entry, ref)
    return Called(found, module, fn, file, tuple(specs))
