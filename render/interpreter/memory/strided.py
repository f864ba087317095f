"""Arrays per element or per byte of a storage, seen through the shape and strides of a tensor."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from render.interpreter.memory.registry import Storage, address, span


def element_view(array: np.ndarray, storage: Storage, tensor: torch.Tensor) -> np.ndarray:
    """`array`, one entry per element of the storage, in the tensor's shape (writable, shares memory)."""
    return element_views((array,), storage, tensor)[0]


def element_views(arrays: Iterable[np.ndarray], storage: Storage, tensor: torch.Tensor) -> list[np.ndarray]:
    """`element_view` of each."""
    shape, steps = tuple(tensor.shape), tensor.stride()
    first = (address(tensor) - storage.base) // tensor.element_size()
    return [_strided(a, shape, first, tuple(st * a.itemsize for st in steps)) for a in arrays]


def _strided(array: np.ndarray, shape: tuple[int, ...], first: int, strides: tuple[int, ...]) -> np.ndarray:
    """A view of a flat array from entry `first` on; numpy's `as_strided` takes ten times as long."""
    if 0 in shape:
        return np.empty(shape, array.dtype)
    return np.ndarray(shape, array.dtype, array, first * array.itemsize, strides)


def byte_view(array: np.ndarray, storage: Storage, tensor: torch.Tensor) -> np.ndarray:
    """`array`, one entry per byte of the storage, in the tensor's shape with one more axis over an element's bytes."""
    size = tensor.element_size()
    first = address(tensor) - storage.base
    strides = (*(st * size * array.itemsize for st in tensor.stride()), array.itemsize)
    return _strided(array, (*tensor.shape, size), first, strides)


def byte_range(storage: Storage, tensor: torch.Tensor) -> tuple[int, int]:
    """First and one past the last byte of the tensor, relative to the storage."""
    first = address(tensor) - storage.base
    return first, first + span(tensor)


def bits_view(storage: Storage, tensor: torch.Tensor) -> np.ndarray:
    """The tensor's elements as unsigned integers (bools and bytes as uint8)."""
    return element_view(storage.view(np.dtype(f"u{tensor.element_size()}")), storage, tensor)
