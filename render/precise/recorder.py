"""Records a run of the reference as a graph over cells.

Every float storage that the reference touches has a twin that holds the number of each element's cell, in the geometry
of `render.shadow`: views need nothing, in-place operations write the twin in place. What only moves data runs once more
on those numbers, as integers. Which way a comparison went is part of the recording, so every comparison of computed
values is kept, to be decided again with many bits; other integers made of computed values end the recording if used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

from render.noise import EXACT_OPS, RANDOM, base_name
from render.precise.composites import COMPOSITES
from render.precise.elementwise import ELEMENTWISE
from render.precise.graph import Graph, Ids, Leaf, Map, Refused, Rows
from render.precise.numbers import Num, Numbers
from render.precise.products import PRODUCTS
from render.precise.rows import ROWS
from render.shadow import is_float

F64 = torch.float64
RULES = ELEMENTWISE | ROWS | PRODUCTS | COMPOSITES
COMPARISONS = frozenset(["gt", "lt", "ge", "le", "eq", "ne"])
_MADE = """
    zeros ones empty full eye zeros_like ones_like empty_like full_like new_zeros new_ones new_full new_empty
    scalar_tensor empty_strided new_empty_strided arange tril_indices
"""
_VALUES = """
    abs neg relu max min amax amin aminmax maximum minimum fmax fmin clamp clamp_min clamp_max sign floor ceil round
    trunc sort topk kthvalue median mode hardtanh threshold cummax cummin frexp ldexp argsort max_pool2d_with_indices
    nan_to_num leaky_relu_ nonzero
"""
MADE = frozenset(_MADE.split())
MOVES = (EXACT_OPS - MADE - frozenset(_VALUES.split())) | {
    "_to_copy",
    "copy",
    "_index_put_impl",
    "slice_backward",
    "select_backward",
}
"""Operations whose results are elements of their operands, or constants."""


@dataclass(frozen=True)
class Step:
    """One operation that ran: its operands as cells (integers as they are), results, those of them that are new."""

    func: Any
    name: str
    before: Any
    outs: list[Any]
    changed: list[torch.Tensor]
    loose: str | None


class Recorder(TorchDispatchMode):
    """`graph` and `cells(tensor)` after a run inside; `checks`: (name, left, right, outcome) of comparisons.

    Raises Refused, with the operation's name, at what cannot be followed.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its whole compiler to keep it away from this mode; nothing is compiled here."""
        return False

    def __init__(self) -> None:
        super().__init__()
        self.graph = Graph()
        self.checks: list[tuple[str, Ids, Ids, np.ndarray]] = []
        self._twins: dict[int, tuple[StorageWeakRef, torch.dtype, torch.Tensor]] = {}
        self._loose: dict[int, tuple[StorageWeakRef, str]] = {}
        self._constants: dict[float, Ids] = {}
        self.graph.add(Leaf(np.zeros(1)), (1,))  # cell 0: what operations on cells fill with zeros

    # cells
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
            return self.graph.add(Leaf(x.detach().to(F64).reshape(-1).numpy()), tuple(x.shape))
        if isinstance(x, complex):
            raise Refused("complex numbers have no rule")
        return self.constant(x)

    def cells(self, x: torch.Tensor) -> Ids:
        """The cells of a float tensor of the run."""
        return self._view(x).numpy()

    def outcome(self, x: torch.Tensor) -> Ids:
        """The cells of a result. Raises Refused where they were not followed."""
        if why := self._why(x):
            raise Refused(f"{why} is a result")
        return self.cells(x)

    def _view(self, x: torch.Tensor) -> torch.Tensor:
        storage = x.untyped_storage()
        found = self._twins.get(storage._cdata)
        if found is None or found[0].expired() or found[1] != x.dtype:
            flat = torch.as_strided(x.detach(), (storage.nbytes() // x.itemsize,), (1,), 0).to(F64)
            twin = torch.from_numpy(self.graph.add(Leaf(flat.clone().numpy()), tuple(flat.shape)))
            found = self._twins[storage._cdata] = StorageWeakRef(storage), x.dtype, twin
        return torch.as_strided(found[2], x.size(), x.stride(), x.storage_offset())

    def _put(self, x: torch.Tensor, ids: Ids) -> None:
        self._view(x).copy_(torch.from_numpy(np.array(np.broadcast_to(ids, tuple(x.shape)))))

    # nodes
    def map(self, name: str, fn: Callable[..., Num], *operands: Any, weight: float = 1.0) -> Ids:
        spread = np.broadcast_arrays(*(self.ids(x) for x in operands))
        return self.graph.add(Map(name, fn, [ids.ravel() for ids in spread], weight), spread[0].shape)

    def rows(
        self, name: str, fn: Callable[..., Sequence[Num]], rows: Sequence[Ids], shape: Sequence[int], width: int,
        weight: float,
    ) -> Ids:  # fmt: skip
        return self.graph.add(Rows(name, fn, [np.ascontiguousarray(x) for x in rows], width, weight), shape)

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

    # dispatch
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        inputs = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        known = {x.untyped_storage()._cdata for x in inputs}
        mutable = func._schema.is_mutable
        before = tree_map(self._cells(mutable), (args, kwargs))
        loose = next((why for x in inputs if (why := self._why(x))), None)
        out = func(*args, **kwargs)
        outs = tree_flatten(out)[0]
        changed = [x for x in outs if isinstance(x, torch.Tensor)
                   and (mutable or x.untyped_storage()._cdata not in known)]  # fmt: skip
        step = Step(func, base_name(func), before, outs, changed, loose)
        if mutable:
            _refuse_unreturned(func, args, kwargs, outs, step.name)
        self._refuse_bits(step, args)
        if any(is_float(x) for x in changed):
            self._follow(step)
        self._note_integers(step)
        return out

    def _cells(self, mutable: bool) -> Callable[[Any], Any]:
        def cells(x: Any) -> Any:
            if is_float(x):
                found = self.cells(x)
                return found.copy() if mutable else found
            return x.clone() if isinstance(x, torch.Tensor) and mutable else x

        return cells

    def given(self, step: Step) -> bool:
        """Do all float operands come from outside?"""
        return all(self.graph.is_given(x) for x in tree_leaves(step.before) if isinstance(x, np.ndarray))

    def _why(self, x: torch.Tensor) -> str | None:
        found = self._loose.get(x.untyped_storage()._cdata)
        return found[1] if found and not found[0].expired() else None

    def _refuse_bits(self, step: Step, args: Any) -> None:
        """Computed values that are read as Python numbers, or as bits."""
        if step.name == "_local_scalar_dense" and is_float(args[0]) and not self.given(step):
            raise Refused("a computed value is read as a Python number (item)")
        bits = step.name == "view" and any(isinstance(x, torch.dtype) for x in args)
        if bits and not self.given(step):
            raise Refused("computed values are read as bits (view)")

    def _note_integers(self, step: Step) -> None:
        """Comparisons are decided again; other integers made of computed values must not be used."""
        made = [x for x in step.changed if not is_float(x)]
        for x in made:
            if x.is_complex():
                raise Refused("complex numbers have no rule")
        if not made or step.name in ("isnan", "isinf", "isfinite"):
            return
        loose = step.loose
        if not self.given(step):
            if step.name in COMPARISONS:
                left, right = np.broadcast_arrays(*(self.ids(x) for x in step.before[0][:2]))
                self.checks.append((step.name, left.ravel(), right.ravel(), made[0].numpy().ravel().copy()))
            else:
                loose = loose or step.name
        for x in made if loose else ():
            storage = x.untyped_storage()
            self._loose[storage._cdata] = StorageWeakRef(storage), loose or ""

    def _follow(self, step: Step) -> None:
        """Set the cells of what was computed."""
        if step.loose:
            raise Refused(f"what {step.loose} gave in float64 decides among computed values")
        args, kwargs = step.before
        if step.name in RANDOM or step.name in MADE:
            self._made(step)
            return
        rule = RULES.get(step.name)
        found: Any
        if step.name in MOVES:
            found = self._moved(step)
        elif rule is not None:
            found = rule(self, *args, **{k: v for k, v in kwargs.items() if k not in _PLACES})
        else:
            raise Refused(f"{step.name} has no rule")
        results = list(found) if isinstance(found, tuple | list) else [found]
        for x, ids in zip(step.outs, results, strict=False):
            if is_float(x) and any(x is c for c in step.changed):
                self._set(step.name, x, ids)

    def _set(self, name: str, x: torch.Tensor, ids: Ids | None) -> None:
        if ids is None:
            storage = x.untyped_storage()
            self._loose[storage._cdata] = StorageWeakRef(storage), f"a by-product of {name}"
        else:
            self._put(x, ids)

    def _made(self, step: Step) -> None:
        """Tensors made of nothing, or at random: their values are those that E took."""
        leaves = tree_leaves(step.before)
        if step.name == "arange" and any(isinstance(x, float) and not x.is_integer() for x in leaves):
            raise Refused("arange with fractions has no rule")
        for x in step.changed:
            self._twins.pop(x.untyped_storage()._cdata, None)
            if x.dtype != F64 and step.name in ("full", "full_like", "new_full", "scalar_tensor"):
                self._put(x, self.constant(next(v for v in reversed(leaves) if isinstance(v, int | float))))

    def _moved(self, step: Step) -> list[Ids | None]:
        """The operation on the cells' numbers, as float64 tensors; what it fills with zeros is cell 0, zero."""
        args, kwargs = list(step.before[0]), dict(step.before[1])
        if step.name == "_to_copy" and isinstance(args[0], torch.Tensor):  # integers become floats
            return [self.ids(args[0])]
        if (True in args[3:] and "index_put" in step.name) or kwargs.get("accumulate") or kwargs.get("reduce"):
            raise Refused(f"{step.name} that adds has no rule")
        for i, spec in enumerate(step.func._schema.arguments):
            if spec.name in _DATA and i < len(args):
                args[i] = self._data(args[i])
            if spec.name in _DATA and spec.name in kwargs:
                kwargs[spec.name] = self._data(kwargs[spec.name])
        args, kwargs = tree_map(_numbered, (args, kwargs))
        found = tree_flatten(step.func(*args, **kwargs))[0]
        return [x.to(torch.int64).numpy() if is_float(x) else None for x in found]

    def _data(self, x: Any) -> Any:
        """An operand that is data, not an index or a condition, as cells."""
        if isinstance(x, list | tuple):
            return [self._data(v) for v in x]
        if isinstance(x, bool | int | float):
            return float(self.constant(x))
        return self.ids(x) if isinstance(x, torch.Tensor) else x


_DATA = frozenset(["value", "self", "other", "values", "source", "src", "tensors"])
_PLACES = frozenset(["out", "dtype", "layout", "device", "pin_memory"])


def _numbered(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return torch.from_numpy(np.array(x, np.float64))
    return F64 if isinstance(x, torch.dtype) and x.is_floating_point else x


def _refuse_unreturned(func: Any, args: Any, kwargs: Any, outs: list[Any], name: str) -> None:
    """What an operation writes must be among what it returns, else the change would go unseen."""
    given = [*zip(func._schema.arguments, args, strict=False)]
    given += [(s, kwargs[s.name]) for s in func._schema.arguments if s.name in kwargs]
    for spec, value in given:
        if spec.alias_info is None or not spec.alias_info.is_write:
            continue
        if any(is_float(x) and not any(x is o for o in outs) for x in tree_leaves(value)):
            raise Refused(f"{name} in place has no rule")
