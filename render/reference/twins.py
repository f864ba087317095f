"""float64 twins of storages: the numbers, and the bounds of their errors, that stand beside what a reference holds.

A twin has the geometry of its storage, so that a view of the storage is a view of the twin. It is found by the
storage's address, not by the tensor object: autograd replaces the objects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

F64 = torch.float64
SWEEP = 512
SWEEP_BYTES = 1 << 25
"""Shadows of dead storages are dropped after so many new ones, or so many bytes of them."""


def copies_storage(target: Any, source: Any) -> bool:
    """Whether a copy takes all bytes of one storage to another, as `copy.deepcopy` and `UntypedStorage.clone` do it."""
    if not isinstance(source, torch.Tensor) or target.dtype != source.dtype:
        return False
    into, of = target.untyped_storage(), source.untyped_storage()
    plain = into._cdata != of._cdata and target.is_contiguous() and source.is_contiguous()
    return plain and target.nbytes == into.nbytes() == of.nbytes() == source.nbytes


def is_float(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()


@dataclass
class Twin:
    """Shadow of one storage: float64 values, and error bounds where any element has one."""

    storage: StorageWeakRef
    dtype: torch.dtype
    values: torch.Tensor
    errors: torch.Tensor | None = None
    lent: bool = False
    """The values are somebody else's numbers, to be read only: a small part of them is widened where it is used."""


def _like(x: torch.Tensor, flat: torch.Tensor) -> torch.Tensor:
    """The view of a shadow that x is of its storage."""
    return torch.as_strided(flat, x.size(), x.stride(), x.storage_offset())


def _write(x: torch.Tensor, flat: torch.Tensor, value: torch.Tensor) -> None:
    """Puts `value` where x has its elements; those of an expanded tensor are one in memory."""
    target = _like(x, flat)
    for dim in (d for d, (n, step) in enumerate(zip(x.shape, x.stride(), strict=True)) if n > 1 and not step):
        target, value = target.narrow(dim, 0, 1), value.narrow(dim, 0, 1)
    target.copy_(value)


def extent(x: torch.Tensor) -> int:
    """Elements of its storage from the first to the last of x."""
    return 1 + sum((n - 1) * step for n, step in zip(x.size(), x.stride(), strict=True)) if x.numel() else 0


def _widened(x: torch.Tensor, flat: torch.Tensor, copy: bool = False) -> torch.Tensor:
    """`_like` in float64, of this part alone."""
    first = x.storage_offset()
    part = flat[first : first + extent(x)].to(F64, copy=copy)
    return torch.as_strided(part, x.size(), x.stride(), part.storage_offset())


class Shadows:
    """float64 twins of storages, found again by the storage's address."""

    def __init__(self, error: float = 0.0) -> None:
        """`error`: relative error of storages that come from outside."""
        self._error = error
        self._twins: dict[int, Twin] = {}
        self._next_sweep = SWEEP
        self._grown = 0

    def of(self, x: torch.Tensor) -> torch.Tensor:
        """The shadow of x, aliasing what x aliases; an unknown storage is taken at its present values, as exact."""
        twin = self._twin(x)
        return _widened(x, twin.values) if twin.lent else _like(x, twin.values)

    def error_of(self, x: torch.Tensor) -> torch.Tensor | None:
        twin = self._twin(x)
        if twin.lent and self._error:
            return _widened(x, twin.values, copy=True).abs_().mul_(self._error)
        return None if twin.errors is None else _like(x, twin.errors)

    def put(self, x: torch.Tensor, value: torch.Tensor, error: torch.Tensor | None) -> None:
        """Set the shadow of x (a whole new storage, or part of a known one)."""
        twin = self._own(x)
        _write(x, twin.values, value)
        if twin.errors is None:
            if error is None:
                return
            twin.errors = torch.zeros_like(twin.values)
        _write(x, twin.errors, torch.zeros_like(value) if error is None else error)

    def adopt(self, x: torch.Tensor, value: torch.Tensor, error: torch.Tensor | None, among: list[Any]) -> None:
        """`put`, without a copy where x is all of a new storage and nobody else holds these numbers.

        `among`: what `value` and `error` were computed from, and may be views of.
        """
        storage, made = x.untyped_storage(), [value] if error is None else [value, error]
        taken = {y.untyped_storage().data_ptr() for y in among if isinstance(y, torch.Tensor)}
        whole = x.is_contiguous() and x.nbytes == storage.nbytes() and storage._cdata not in self._twins
        if not whole or any(
            y.dtype != F64 or y.shape != x.shape or not y.is_contiguous() or y.untyped_storage().nbytes() != y.nbytes
            or y.untyped_storage().data_ptr() in taken for y in made
        ):  # fmt: skip
            self.put(x, value, error)
            return
        flat = [y.detach().reshape(-1) for y in made]
        self._twins[storage._cdata] = Twin(
            StorageWeakRef(storage), x.dtype, flat[0], flat[1] if len(flat) > 1 else None
        )
        self._grown += value.nbytes
        self._sweep()

    def lend(self, x: torch.Tensor, value: torch.Tensor) -> None:
        """The shadow of x is `value` (nobody writes there), with the error of what comes from outside."""
        storage = x.untyped_storage()
        if not x.is_contiguous() or x.nbytes != storage.nbytes() or x.shape != value.shape:
            wide = value.to(F64)
            self.put(x, wide, wide.abs() * self._error if self._error else None)
            return
        twin = Twin(StorageWeakRef(storage), x.dtype, value.detach().reshape(-1), None, True)
        self._twins[storage._cdata] = twin
        self._sweep()

    def drop(self, x: torch.Tensor) -> None:
        """Forget the shadow: the native bits are all that is known."""
        self._twins.pop(x.untyped_storage()._cdata, None)

    def copied(self, target: torch.Tensor, source: torch.Tensor) -> bool:
        """Whether all bytes of a storage are copied to another one: then its shadow goes with them."""
        into, twin = target.untyped_storage(), self._twins.get(source.untyped_storage()._cdata)
        if twin is None or not copies_storage(target, source):
            return False
        errors = None if twin.errors is None else twin.errors.clone()
        copy = replace(twin, storage=StorageWeakRef(into), values=twin.values.clone(), errors=errors)
        self._twins[into._cdata] = copy
        self._grown += copy.values.nbytes
        return True

    def matches(self, x: torch.Tensor) -> bool:
        """Does the shadow of x's storage (if any) hold numbers of x's own dtype?"""
        twin = self._twins.get(x.untyped_storage()._cdata)
        return twin is None or twin.dtype == x.dtype

    def _twin(self, x: torch.Tensor) -> Twin:
        storage = x.untyped_storage()
        twin = self._twins.get(storage._cdata)
        if twin is None or twin.dtype != x.dtype:
            values = torch.as_strided(x.detach(), (storage.nbytes() // x.itemsize,), (1,), 0).to(F64, copy=True)
            errors = values.abs() * self._error if self._error else None
            twin = self._twins[storage._cdata] = Twin(StorageWeakRef(storage), x.dtype, values, errors)
            self._grown += values.nbytes
            self._sweep()
        elif twin.lent and (self._error or twin.values.dtype != F64) and 2 * extent(x) >= twin.values.numel():
            return self._own(x)
        return twin

    def _own(self, x: torch.Tensor) -> Twin:
        """The twin of x with numbers of its own."""
        twin = self._twins.get(x.untyped_storage()._cdata)
        if twin is None or twin.dtype != x.dtype or not twin.lent:
            return self._twin(x)
        twin.values, twin.lent = twin.values.to(F64, copy=True), False
        twin.errors = twin.values.abs().mul_(self._error) if self._error else None
        return twin

    def keep(self, x: torch.Tensor) -> None:
        """The storage of x is going to change; what its shadow was lent of it must not."""
        if x.untyped_storage()._cdata in self._twins:
            self._own(x)

    def _sweep(self) -> None:
        if len(self._twins) > self._next_sweep or self._grown > SWEEP_BYTES:
            self._twins = {key: twin for key, twin in self._twins.items() if not twin.storage.expired()}
            self._next_sweep = 2 * len(self._twins) + SWEEP
            self._grown = 0
