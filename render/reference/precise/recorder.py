"""Records a run of the reference as a graph over cells.

What only moves data runs once more on the cells' numbers. Which way a comparison went is part of the recording, so
every comparison of computed values is kept, to be decided again with many bits, and so are other choices that can be
put as comparisons (`precise.choices`); other integers made of computed values end the recording if used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

from render.ops.aten import ATEN, Form, named, of_form
from render.ops.formulas import Refused
from render.ops.parts import in_parts
from render.reference.local_error import RANDOM, base_name
from render.reference.precise.cells import F64, RecordedCells
from render.reference.precise.choices import ORDERED, followed, integers
from render.reference.precise.composites import COMPOSITES
from render.reference.precise.dense import DENSE
from render.reference.precise.elementwise import ELEMENTWISE
from render.reference.precise.graph import Ids
from render.reference.precise.products import PRODUCTS
from render.reference.precise.rows import ROWS, by_rows
from render.reference.precise.scatter import SCATTER
from render.reference.precise.special import SPECIAL
from render.reference.twins import copies_storage, is_float

RULES = ELEMENTWISE | ROWS | PRODUCTS | DENSE | COMPOSITES | SCATTER | SPECIAL
REFUSED = {
    **dict.fromkeys(
        of_form(Form.COMPOSITE, Form.FUNCTION, Form.SUM, Form.PRODUCT, Form.ARITHMETIC), "no definition here"
    ),
    **dict.fromkeys(of_form(Form.CHOICE), "an integer or a truth value; comparisons are decided again (`choices`)"),
    **dict.fromkeys(of_form(Form.GRADIENT), "no definition of this backward pass here"),
    **dict.fromkeys(of_form(Form.ORDER, Form.EXACT), "its choice is not put as comparisons"),
}
MADE = of_form(Form.MADE)
MOVES = of_form(Form.MOVE, Form.CAST)
"""Operations whose results are elements of their operands, or constants."""
BY_ROWS = {name for name, op in ATEN.items() if op.row is not None}
FOLLOWED = RULES.keys() | BY_ROWS | MADE | RANDOM | MOVES | ORDERED
REFUSED = {name: why for name, why in REFUSED.items() if name not in FOLLOWED}
"""Operations that end a recording, and why."""


@dataclass(frozen=True)
class CellStep:
    """One operation that ran: its operands as cells (integers as they are), results, those of them that are new."""

    func: Any
    name: str
    before: Any
    outs: list[Any]
    changed: list[torch.Tensor]
    loose: str | None

    @property
    def named(self) -> dict[str, Any]:
        """The operands by the names of the operation's schema, defaults included."""
        return named(self.func._schema, *self.before)


_OF_SHAPES = frozenset(["is_same_size", "_has_same_storage_numel"])
"""What they tell is no matter of values."""


class CellRecorder(TorchDispatchMode):
    """`cells` after a run inside. Raises Refused, with the operation's name, at what cannot be followed."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its whole compiler to keep it away from this mode; nothing is compiled here."""
        return False

    def __init__(self) -> None:
        super().__init__()
        self.cells = RecordedCells()

    @in_parts
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if base_name(func) == "set":  # another storage, with the cells that it has
            return func(*args, **kwargs)
        if base_name(func) == "copy" and not is_float(args[0]) and copies_storage(args[0], args[1]):
            self.cells.copy_storage(args[0], args[1])
            return func(*args, **kwargs)
        inputs = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        known = {x.untyped_storage()._cdata for x in inputs}
        mutable = func._schema.is_mutable
        before = tree_map(self._operand(mutable), (args, kwargs))
        loose = next((why for x in inputs if (why := self.cells.loose(x))), None)
        out = func(*args, **kwargs)
        outs = tree_flatten(out)[0]
        changed = [x for x in outs if isinstance(x, torch.Tensor)
                   and (mutable or x.untyped_storage()._cdata not in known)]  # fmt: skip
        step = CellStep(func, base_name(func), before, outs, changed, loose)
        if mutable:
            _refuse_unreturned(func, args, kwargs, outs, step.name)
        self._refuse_leaving(step)
        if any(is_float(x) for x in changed):
            self._follow(step)
        self._note_integers(step)
        return out

    def _operand(self, mutable: bool) -> Callable[[Any], Any]:
        def operand(x: Any) -> Any:
            if is_float(x):
                found = self.cells.cells(x)
                return found.copy() if mutable else found
            return x.clone() if isinstance(x, torch.Tensor) and mutable else x

        return operand

    def _refuse_leaving(self, step: CellStep) -> None:
        """Computed values that become Python numbers, or are read as bits or as parts of complex numbers."""
        if any(isinstance(x, torch.Tensor) and x.is_complex() for x in step.changed):
            raise Refused("complex numbers have no rule")
        number = step.name not in _OF_SHAPES and any(isinstance(x, bool | int | float) for x in step.outs)
        bits = step.name == "view" and any(isinstance(x, torch.dtype) for x in step.before[0])
        if (number or bits) and (step.loose or not self.cells.are_given(step.before)):
            how = "as bits" if bits else "as a Python number"
            raise Refused(f"a computed value is read {how} ({'item' if 'scalar' in step.name else step.name})")

    def _note_integers(self, step: CellStep) -> None:
        """Integers made of computed values: checked with many bits where that can be, else they must not be used."""
        made = [x for x in step.changed if not is_float(x)]
        if not made:
            return
        why = step.loose
        if not why and not self.cells.are_given(step.before) and not integers(self.cells, step):
            why = step.name
        for x in made if why else ():
            self.cells.loosen(x, why or "")

    def _follow(self, step: CellStep) -> None:
        """Set the cells of what was computed."""
        if step.loose:
            raise Refused(f"what {step.loose} gave in float64 decides among computed values")
        found: Any
        if step.name in RANDOM or step.name in MADE:
            found = self._made(step)
        elif step.name in MOVES:
            found = self._moved(step)
        elif step.name in ORDERED:
            found = followed(self.cells, step)
        elif step.name in BY_ROWS and "other" not in step.named:
            found = by_rows(self.cells, ATEN[step.name], step.named)
        elif (rule := RULES.get(step.name)) is not None:
            args, kwargs = step.before
            found = rule(self.cells, *args, **{k: v for k, v in kwargs.items() if k not in _PLACES})
        else:
            raise Refused(f"{step.name} has no rule")
        results = list(found) if isinstance(found, tuple | list) else [found]
        for x, ids in zip(step.outs, results, strict=False):
            if not is_float(x) or not any(x is c for c in step.changed):
                continue
            if ids is None:
                self.cells.loosen(x, f"a by-product of {step.name}")
            else:
                self.cells.put(x, ids)

    def _made(self, step: CellStep) -> list[Ids | None]:
        """Tensors made of nothing, or at random: their values are those that E took."""
        leaves = tree_leaves(step.before)
        if step.name == "arange" and any(isinstance(x, float) and not x.is_integer() for x in leaves):
            raise Refused("arange with fractions has no rule")
        drawn = step.name in RANDOM and not step.name.endswith("_like") and not step.func._schema.is_mutable
        if drawn and any(isinstance(x, np.ndarray) for x in leaves):
            raise Refused(f"{step.name} has no rule")
        value = step.named.get("fill_value", step.named.get("s"))
        if value is not None:  # the number itself, whatever the tensor's dtype makes of it
            return [self.cells.constant(value) for _ in step.outs]
        return [self.cells.given_values(x) if is_float(x) else None for x in step.outs]

    def _moved(self, step: CellStep) -> list[Ids | None]:
        """The operation on the cells' numbers, as float64 tensors; what it fills with zeros is cell 0, zero."""
        args, kwargs = list(step.before[0]), dict(step.before[1])
        if step.name == "_to_copy" and isinstance(args[0], torch.Tensor):  # integers become floats
            return [self.cells.ids(args[0])]
        adding = step.name.endswith("put") or step.name.startswith("_index_put")
        if (adding and any(x is True for x in args[3:])) or kwargs.get("accumulate") or kwargs.get("reduce"):
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
            return float(self.cells.constant(x))
        return self.cells.ids(x) if isinstance(x, torch.Tensor) else x


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
