"""Drives `Memory` as a kernel's loads and stores would, in terms of tensors and element indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from render.interpreter.context import Site
from render.interpreter.memory import Hazard, LaunchInfo, LoadResult, Memory, Request, Retry
from render.interpreter.types import elem_by_name

NAMES = {
    torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16",
    torch.float8_e5m2: "fp8e5", torch.float8_e4m3fn: "fp8e4nv", torch.int32: "int32", torch.int64: "int64",
    torch.uint8: "uint8", torch.int8: "int8", torch.int16: "int16", torch.uint32: "uint32", torch.bool: "int1",
}  # fmt: skip


class Driver:
    """One launch of `programs` programs; indices count elements of the tensor, programs run down axis 0."""

    def __init__(self, programs: int = 1, memory: Memory | None = None) -> None:
        self.memory = memory or Memory()
        self.programs = programs
        self.pids = np.arange(programs, dtype=np.int32)
        self.line = 0

    def __enter__(self) -> Driver:
        self.memory.begin_launch(LaunchInfo("kernel", (self.programs, 1, 1)))
        self.memory.begin_chunk()
        return self

    def __exit__(self, kind: Any, *rest: object) -> None:
        if kind is None:
            self.memory.commit()
        else:
            self.memory.undo()
        self.memory.end_launch()

    def _site(self) -> Site:
        self.line += 1
        return Site("kernel.py", self.line)

    def request(
        self, ptr: np.ndarray, elem: Any, storage: Any, pids: Any, mask: Any = None, possible: Any = None
    ) -> Request:
        programs = self.pids if pids is None else np.asarray(pids, np.int32)
        return Request(ptr, elem, storage, programs, self._site(), mask, possible)

    def pointers(self, tensor: torch.Tensor, index: Any, elem: str | None = None) -> tuple[Any, np.ndarray, Any]:
        e = elem_by_name(elem or NAMES[tensor.dtype])
        index = np.asarray(index, np.int64)
        # Broadcast axes stay broadcast, as in the builder's handles.
        one = index[tuple(slice(0, 1) if st == 0 else slice(None) for st in index.strides)]
        ptr = np.broadcast_to(one * e.itemsize + tensor.data_ptr(), index.shape)
        return e, ptr, self.memory.register(tensor)

    def load(
        self, tensor: torch.Tensor, index: Any, mask: Any = None, possible: Any = None, other: Any = None,
        other_iv: Any = None, elem: str | None = None, pids: Any = None, origin: bool = True,
    ) -> LoadResult:  # fmt: skip
        e, ptr, storage = self.pointers(tensor, index, elem)
        request = self.request(ptr, e, storage if origin else None, pids, mask, possible)
        return self.memory.load(request, other, other_iv)

    def store(
        self, tensor: torch.Tensor, index: Any, v: Any, radius: Any = None, mask: Any = None, possible: Any = None,
        elem: str | None = None, pids: Any = None, origin: bool = True, taint: Any = frozenset(),
    ) -> None:  # fmt: skip
        """`radius` makes the bounds v -+ radius."""
        e, ptr, storage = self.pointers(tensor, index, elem)
        v = np.asarray(v, e.storage if e.fmt is None else np.float64 if e.name == "fp64" else np.float32)
        v = v.reshape((1,) * (ptr.ndim - v.ndim) + v.shape)
        lo = hi = None
        if radius is not None:
            lo, hi = v.astype(np.float64) - radius, v.astype(np.float64) + radius
        self.memory.store(self.request(ptr, e, storage if origin else None, pids, mask, possible), v, lo, hi, taint)

    def atomic(
        self, kind: str, tensor: torch.Tensor, index: Any, v: Any, radius: Any = None, cmp: Any = None,
        mask: Any = None, pids: Any = None, origin: bool = True,
    ) -> LoadResult:  # fmt: skip
        e, ptr, storage = self.pointers(tensor, index)
        dtype = e.storage if e.fmt is None else np.float64 if e.name == "fp64" else np.float32
        v = None if v is None else np.broadcast_to(np.asarray(v, dtype), ptr.shape)
        cmp = None if cmp is None else np.broadcast_to(np.asarray(cmp, dtype), ptr.shape)
        lo = hi = None
        if v is not None and radius is not None:
            lo, hi = v.astype(np.float64) - radius, v.astype(np.float64) + radius
        request = self.request(ptr, e, storage if origin else None, pids, mask)
        return self.memory.atomic(kind, request, v, lo, hi, cmp)


def run_one_by_one(driver: Driver, body: Callable[[Driver, np.ndarray], None]) -> str:
    """Runs `body` for all programs at once; on a hazard, one program at a time. Says which it was."""
    memory = driver.memory
    memory.begin_launch(LaunchInfo("kernel", (driver.programs, 1, 1)))
    how = "together"
    while True:
        memory.begin_chunk()
        driver.line = 0
        try:
            body(driver, driver.pids)
            memory.commit()
            break
        except Retry:
            memory.undo()
        except Hazard:
            memory.undo()
            how = "one by one"
            for pid in driver.pids:
                memory.begin_chunk()
                driver.line = 0
                body(driver, driver.pids[pid : pid + 1])
                memory.commit()
            break
    memory.end_launch()
    return how
