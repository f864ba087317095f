"""Tensors from files, without ever running code that they contain: .safetensors, .npz and .npy, .pt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from render.result.errors import RenderError, headline

UNREADABLE = "RND901"
KINDS = ".safetensors, .npz, .npy or .pt"


def load(path: Path) -> Any:
    """A dict by name where the file has names, else a list or one tensor."""
    if not path.is_file():
        raise RenderError(UNREADABLE, f"{path} does not exist", f"give a {KINDS} file")
    readers = {".safetensors": _safetensors, ".npz": _npz, ".npy": _npy, ".pt": _pt, ".pth": _pt}
    reader = readers.get(path.suffix)
    if reader is None:
        raise RenderError(UNREADABLE, f"{path}: cannot tell what {path.suffix or 'this'} holds", f"give a {KINDS} file")
    try:
        return reader(path)
    except Exception as error:
        raise RenderError(
            UNREADABLE, f"{path} cannot be read: {headline(error)}", f"save it again as {KINDS}"
        ) from error


def dense(given: Any, what: str) -> None:
    """Raises RenderError where a tensor in it is none that a kernel reads or writes."""
    for leaf in tree_leaves(given):
        if isinstance(leaf, torch.Tensor) and (leaf.layout != torch.strided or leaf.is_meta or leaf.is_quantized):
            kind = "meta" if leaf.is_meta else "quantized" if leaf.is_quantized else str(leaf.layout)
            raise RenderError(UNREADABLE, f"{what} is a {kind} tensor", "a kernel takes dense tensors with memory")


def _safetensors(path: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    found: dict[str, torch.Tensor] = load_file(path)
    return found


def _npz(path: Path) -> dict[str, torch.Tensor]:
    import numpy as np

    with np.load(path, allow_pickle=False) as arrays:
        return {name: _tensor(arrays[name]) for name in arrays.files}


def _npy(path: Path) -> torch.Tensor:
    import numpy as np

    return _tensor(np.load(path, allow_pickle=False))


def _tensor(array: Any) -> torch.Tensor:
    """A tensor; numpy keeps bfloat16 and fp8 only through ml_dtypes, whose bits torch reads under the same name."""
    import numpy as np

    name = array.dtype.name
    if array.dtype.isbuiltin != 2 and array.dtype.kind in "fiubc":  # 2: registered from outside, as fp8's kind f
        return torch.from_numpy(np.ascontiguousarray(array))
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"dtype {name} has no counterpart in torch")
    bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").view(f"i{array.dtype.itemsize}")
    return torch.from_numpy(bits).view(dtype)


def _pt(path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=True)
