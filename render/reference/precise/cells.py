"""The cells of a run's tensors, by storage, and the nodes that rules make of them.

Every float storage that the reference touches has a twin that holds the number of each element's cell, in the geometry
of `render.reference.shadow`: views need nothing, in-place operations write the twin in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from render.exact.numbers import Num, Numbers
from render.ops.formulas import Refused
from render.reference.precise.graph import CellGraph, Ids, Leaf, Map, RowNode, SumNode

F64 = torch.float64


class RecordedCells:
    """`graph`: what was computed; `checks`: (name, left, right, outcome) of comparisons, as flat cells."""

    def __init__(self) -> None:
        self.graph = CellGraph()
        self.checks: list[tuple[str, Ids, Ids, np.ndarray]] = []
        self._twins: dict[int, tuple[StorageWeakRef, torch.dtype, torch.Tensor]] = {}
        self._loose: dict[int, tuple[StorageWeakRef, str]] = {}
        self._constants: dict[float, Ids] = {}
        self.graph.add(Leaf(np.zeros(1)), (1,))  # cell 0: what operations on cells fill with zeros

    def constant(self, x: float, shape: Sequence[int] = ()) -> Ids:
        key = float(x)
        if isinstance(x, int) and key != x:
            raise Refused(f"the integer {x} is too large for float64")
        if key not in self._constants or key != key or key == 0:
            self._constants[key] = self.graph.add(Leaf(np.array([key])), (1,))
        return np.broadcast_to(self._constants[key][0], tuple(shape))

    def ids(self, x: Any) -> Ids:
        """The cells of an operand: of cells, an integer tensor or a number."""
        if isinstance(x, np.ndarray):
            return x
        if isinstance(x, torch.Tensor):
            if x.is_complex():
                raise Refused("complex numbers have no rule")
            if not x.is_floating_point() and x.numel() and int(x.to(torch.int64).abs().max()) > 2**53:
                raise Refused("integers beyond 2**53")
            return self.given_values(x)
        if isinstance(x, complex):
            raise Refused("complex numbers have no rule")
        return self.constant(x)

    def cells(self, x: torch.Tensor) -> Ids:
        """The cells of a float tensor of the run."""
        return self._view(x).numpy()

    def outcome(self, x: torch.Tensor) -> Ids:
        """The cells of a result. Raises Refused where they were not followed."""
        if why := self.loose(x):
            raise Refused(f"{why} is a result")
        return self.cells(x)

    def loose(self, x: torch.Tensor) -> str | None:
        """What gave this tensor, if it depends on computed values in a way that is not followed."""
        found = self._loose.get(x.untyped_storage()._cdata)
        return found[1] if found and not found[0].expired() else None

    def loosen(self, x: torch.Tensor, why: str) -> None:
        storage = x.untyped_storage()
        self._loose[storage._cdata] = StorageWeakRef(storage), why

    def _twin(self, x: torch.Tensor) -> torch.Tensor | None:
        found = self._twins.get(x.untyped_storage()._cdata)
        return found[2] if found is not None and not found[0].expired() and found[1] == x.dtype else None

    def _keep(self, x: torch.Tensor, twin: torch.Tensor) -> torch.Tensor:
        storage = x.untyped_storage()
        self._twins[storage._cdata] = StorageWeakRef(storage), x.dtype, twin
        return twin

    def _view(self, x: torch.Tensor, unset: bool = False) -> torch.Tensor:
        """The cells' numbers as a tensor that aliases what x aliases; `unset`: a new storage is to be written whole."""
        twin = self._twin(x)
        if twin is None:
            size = x.untyped_storage().nbytes() // x.itemsize
            if unset and x.numel() == size:
                twin = self._keep(x, torch.empty(size, dtype=torch.int64))
            else:
                flat = torch.as_strided(x.detach(), (size,), (1,), 0).to(F64)
                twin = self._keep(x, torch.from_numpy(self.given_values(flat)))
        return torch.as_strided(twin, x.size(), x.stride(), x.storage_offset())

    def copy_storage(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """All bytes of a storage go to another one, and its cells with them."""
        into, of = target.untyped_storage(), source.untyped_storage()
        if (twin := self._twins.get(of._cdata)) is not None:
            self._twins[into._cdata] = StorageWeakRef(into), twin[1], twin[2].clone()
        if (why := self.loose(source)) is not None:
            self.loosen(target, why)

    def given_values(self, x: torch.Tensor) -> Ids:
        """New cells that hold what x holds."""
        return self.graph.add(Leaf(x.detach().to(F64, copy=True).reshape(-1).numpy()), tuple(x.shape))

    def put(self, x: torch.Tensor, ids: Ids) -> None:
        """Set the cells of x: a whole new storage, or part of a known one."""
        self._view(x, unset=True).copy_(torch.from_numpy(np.array(np.broadcast_to(ids, tuple(x.shape)))))

    def are_given(self, operands: Any) -> bool:
        """Do all cells among these operands come from outside?"""
        return all(self.graph.is_given(x) for x in tree_leaves(operands) if isinstance(x, np.ndarray))

    def check(self, name: str, left: Any, right: Any, outcome: Any) -> None:
        """A comparison that must come out the same in many bits."""
        a, b, c = np.broadcast_arrays(self.ids(left), self.ids(right), outcome)
        self.checks.append((name, a.ravel(), b.ravel(), c.ravel()))

    def map(self, name: str, fn: Callable[..., Num], *operands: Any, weight: float = 1.0) -> Ids:
        spread = np.broadcast_arrays(*(self.ids(x) for x in operands))
        return self.graph.add(Map(name, fn, [ids.ravel() for ids in spread], weight), spread[0].shape)

    def rows(
        self, name: str, fn: Callable[..., Sequence[Num]], rows: Sequence[Ids], shape: Sequence[int], width: int,
        weight: float,
    ) -> Ids:  # fmt: skip
        return self.graph.add(RowNode(name, fn, [np.ascontiguousarray(x) for x in rows], width, weight), shape)

    def reduce(
        self, name: str, fn: Callable[[Numbers, list[Num]], Num], x: Any, dim: Any, keepdim: bool, weight: float = 1.0
    ) -> Ids:
        x = self.ids(x)
        dims = list(range(x.ndim)) if dim is None or dim == [] else [dim] if isinstance(dim, int) else list(dim)
        last = sorted(d % x.ndim for d in dims) if x.ndim else []
        kept = [d for d in range(x.ndim) if d not in last]
        shape = tuple(x.shape[d] for d in kept)
        rows = x.transpose(*kept, *last).reshape(int(np.prod(shape, dtype=np.int64)), -1) if x.size else x.reshape(0, 1)
        found = self.rows(name, lambda n, xs: [fn(n, xs)], [rows], shape, 1, weight)
        return found.reshape([1 if d in last else s for d, s in enumerate(x.shape)]) if keepdim else found

    def scan(
        self, name: str, fn: Callable[[Numbers, list[Num]], Sequence[Num]], x: Any, dim: int, weight: float
    ) -> Ids:
        x = self.ids(x)
        if not x.ndim:
            return self.scan(name, fn, x.reshape(1), 0, weight).reshape(())
        moved = np.moveaxis(x, dim, -1)
        k = moved.shape[-1]
        found = self.rows(name, fn, [moved.reshape(-1, k)], moved.shape, k, weight)
        return np.moveaxis(found, -1, dim)

    def sums(self, name: str, ids: Ids, targets: np.ndarray, shape: Sequence[int]) -> Ids:
        """Element t of `shape`, counted flat, is the sum of the `ids` whose target is t."""
        order = np.argsort(targets, kind="stable")
        ends = np.searchsorted(targets[order], np.arange(int(np.prod(shape, dtype=np.int64)) + 1))
        return self.graph.add(SumNode(name, ids[order], ends), shape)
