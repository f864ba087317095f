"""What a run of the reference did, as one number: two runs with the same trail are one computation.

Widening its inputs changes a reference whose meaning depends on the dtype: `torch.finfo(x.dtype)`, `eps=None`, a branch
on the dtype, a constant that torch rounds to the default type, a number that left torch. The trail holds the operations
in order, their numbers and shapes, and the values of every tensor that no operation made. Casts between floats are left
out: E rounds nothing there. Where arrays of numpy's left, what comes back is what numpy computed in the type that it
was given: it has to be near, not the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from render.entry.left_arrays import watched
from render.ops.aten import base_name
from render.ops.parts import in_parts
from render.result.errors import UnsupportedOp

_SILENT = frozenset([
    "_to_copy", "detach", "alias", "lift_fresh", "lift", "view", "_unsafe_view", "clone", "_local_scalar_dense",
])  # fmt: skip
BY_DTYPE = frozenset(["_fused_rms_norm", "nan_to_num", "linalg_pinv", "linalg_matrix_rank", "linalg_lstsq"])
"""Arguments that are left out mean something of the operand's dtype."""
NEAR = 2.0**-6
"""Of the largest number: farther apart, numpy was asked for different things."""
SWEEP_BYTES = 1 << 24
"""Storages that are dead are forgotten after so many bytes of new ones: what torch keeps of each, small as it is, lies
between their blocks, so that the allocator can use none of them again for one of the same size."""


@dataclass(frozen=True)
class Footprint:
    """What a run left: `digest` of its operations, and the numbers that came back from numpy, in order."""

    digest: int
    arrived: tuple[np.ndarray, ...] = ()
    left: bool = False
    """Whether arrays left at all."""

    def same(self, other: Footprint) -> bool:
        """Whether the two runs are one computation."""
        if self.digest != other.digest or [x.shape for x in self.arrived] != [x.shape for x in other.arrived]:
            return False
        return all(map(_are_near, self.arrived, other.arrived))

    def check(self, values: Sequence[np.ndarray], native: Sequence[tuple[str, torch.Tensor]]) -> None:
        """Raises UnsupportedOp where numpy gives another function of float64 than of what it is given."""
        if self.left and not all(_are_near(_numbers(x), v) for (_, x), v in zip(native, values, strict=True)):
            raise UnsupportedOp("numpy", "on float64 it is another function")


class Trail(TorchDispatchMode):
    """`digest` of what ran inside."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its whole compiler to keep it away from this mode; nothing is compiled here."""
        return False

    def __init__(self) -> None:
        super().__init__()
        self.restart()

    def restart(self, inputs: Iterable[Any] = ()) -> None:
        """As if nothing had run; `inputs` are the same numbers in every run."""
        self.digest = 0
        self.arrived: list[np.ndarray] = []
        self._left = False
        self._known: dict[int, StorageWeakRef] = {}
        self._grown = 0
        for x in inputs:
            if isinstance(x, torch.Tensor):
                self._remember(x)

    @in_parts
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = base_name(func._schema.name)
        key: list[Any] = [name]
        for x in (*args, *kwargs.values()):
            self._operand(x, key)
        if name in BY_DTYPE and any(a is None for a in (*args, *_left_out(func, args, kwargs))):
            key.append(str(args[0].dtype))
        out = func(*args, **kwargs)
        for x in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(x, torch.Tensor):
                key.append(tuple(x.shape))
                self._remember(x)
        if name not in _SILENT:
            self.digest = hash((self.digest, *key))
        return out

    def _operand(self, x: Any, key: list[Any]) -> None:
        if isinstance(x, torch.Tensor):
            if x.is_floating_point() and x.layout is torch.strided and not self._seen(x):
                self._arrives(x)
                self._remember(x)
        elif isinstance(x, (list, tuple)):
            for item in x:
                self._operand(item, key)
        elif isinstance(x, torch.dtype):
            key.append("float" if x.is_floating_point else str(x))
        elif isinstance(x, (int, float, str)):
            key.append(x)

    def _arrives(self, x: torch.Tensor) -> None:
        """A tensor that no operation made."""
        if self._left and x.numel() > 1:
            self.arrived.append(_numbers(x))
        else:
            self.digest = hash((self.digest, _numbers(x).tobytes()))

    @property
    def footprint(self) -> Footprint:
        return Footprint(self.digest, tuple(self.arrived), self._left)

    def __enter__(self) -> Any:
        self._watch = watched(self._leaves, "numpy")
        self._watch.__enter__()
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self._watch.__exit__(*exc)

    def _leaves(self, x: torch.Tensor) -> None:
        self._left = True

    def _seen(self, x: torch.Tensor) -> bool:
        known = self._known.get(x.untyped_storage()._cdata)
        return known is not None and not known.expired()

    def _remember(self, x: torch.Tensor) -> None:
        if x.layout is not torch.strided:  # what it consists of was made before
            return
        storage = x.untyped_storage()
        if storage._cdata not in self._known or self._known[storage._cdata].expired():
            self._known[storage._cdata] = StorageWeakRef(storage)
            self._grown += storage.nbytes()
            if self._grown > SWEEP_BYTES:
                self._known, self._grown = {k: w for k, w in self._known.items() if not w.expired()}, 0


def _left_out(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """What the arguments that are not given stand for."""
    return [kwargs.get(a.name, a.default_value) for a in func._schema.arguments[len(args) :]]


def _numbers(x: torch.Tensor) -> np.ndarray:
    """Those of a tensor, whatever type holds them."""
    found: np.ndarray = x.detach().to(torch.float64, copy=True).contiguous().numpy()
    return found


def _are_near(x: np.ndarray, y: np.ndarray) -> bool:
    with np.errstate(invalid="ignore"):
        scale = np.abs(x[np.isfinite(x)]).max(initial=0.0)
        return bool(((np.abs(x - y) <= NEAR * scale) | (x == y) | (np.isnan(x) & np.isnan(y))).all())
