"""Operations of the language that are met again, without Triton's semantic layer.

What `a + b` asks of the builder (casts, broadcasts, the addition) depends on the types of its tensors and on its
constants alone: the layer takes a handle for what it is. The first time that an operation is met with these types and
constants, the builder's calls are written down, and from then on these are made, on the handles of the day. Every call
is made each time, in the same order and with the same operands, so results, bounds, events and lines are those of the
layer. What cannot be written down (a handle inside a list, a result that is no tensor, a question to the builder
that is no operation) stays with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from triton.language import core

from render.interpreter.handle import Handle
from render.interpreter.memo import shape_of
from render.interpreter.turn_tape import TurnTape
from render.interpreter.written_calls import Listed, Slot, Step, WrittenCalls

Function = Callable[..., Any]
LIMIT = 1 << 14
"""Recipes from which on all are forgotten: no kernel has that many operations on different types and constants."""
_NUMBERS = (int, bool, str, type(None))
KIND = "_kind_of_type"
"""Where a tensor keeps what its type is called in keys: results of a recipe are all of one type."""


class _Unwritten(Exception):
    """The operation cannot be written down."""


class _Notes:
    """Stands in for the builder once, and writes down what is asked of it."""

    def __init__(self, builder: Any, tensors: list[Any]) -> None:
        self._builder = builder
        self._slots = {id(t.handle): Slot(i) for i, t in reversed(list(enumerate(tensors)))}
        self._operands = len(tensors)
        self._kept: list[Any] = []  # no other object gets the id of one that is named
        self._steps: list[Step] = []
        self.spoilt = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._builder, name)
        if name == "options":
            return found
        if not name.startswith(("create_", "get_")) or not callable(found):
            self.spoilt = True
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            out = found(*args, **kwargs)
            self._note(name, args, kwargs, out)
            return out

        return call

    def _note(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        if name.startswith("get_") and not isinstance(out, Handle):
            return  # a type
        try:
            step = name, tuple([self._written(a) for a in args]), {k: self._written(a) for k, a in kwargs.items()}
        except _Unwritten:
            self.spoilt = True
            return
        if out is not None and not isinstance(out, Handle):
            self.spoilt = True
            return
        self._slots.setdefault(id(out), Slot(self._operands + len(self._steps)))
        self._steps.append(step)
        self._kept += [out, args, kwargs]

    def _written(self, x: Any) -> Any:
        if isinstance(x, Handle):
            if id(x) not in self._slots:
                raise _Unwritten
            return self._slots[id(x)]
        if isinstance(x, list | tuple):
            if any(isinstance(part, Handle | list | tuple | core.tensor) for part in x):
                raise _Unwritten
            return Listed(x) if isinstance(x, list) else tuple(x)
        return x

    def recipe(self, tensors: list[Any], out: Any) -> WrittenCalls | None:
        """What does the same to other handles; None where that is not known."""
        if self.spoilt or type(out) is not core.tensor:
            return None
        same = next((i for i, t in enumerate(tensors) if t is out), None)
        result = self._slots.get(id(out.handle))
        if same is None and result is None:
            return None
        out.__dict__[KIND] = _type(out.type)
        return WrittenCalls(self._operands, self._steps, same, result, out)


class Recipes:
    """All that are known, for builders that answer the layer's questions alike."""

    def __init__(self) -> None:
        self._known: dict[Any, Function | WrittenCalls | Literal[False]] = {}
        self.tape: TurnTape | None = None
        """What writes down the calls of a turn of a loop that runs now."""

    def run(self, member: Function, args: tuple[Any, ...], kwargs: dict[str, Any], semantic: Any) -> Any:
        """`member(*args, **kwargs, _semantic=semantic)`."""
        tensors: list[Any] = []
        key = _key(member, args, kwargs, tensors)
        if key is None or type(semantic.builder) is _Notes:
            return member(*args, **kwargs, _semantic=semantic)
        found = self._known.get(key)
        if found is None:
            return self._learnt(key, member, args, kwargs, semantic, tensors)
        if found is False:
            return member(*args, **kwargs, _semantic=semantic)
        tape = self.tape
        builder = semantic.builder if tape is None or tape.builder is not semantic.builder else tape
        if not isinstance(found, WrittenCalls):
            return found(builder, *tensors)
        if found.worth_compiling:
            self._known[key] = found.compiled()
        return found.play(builder, tensors)

    def _learnt(
        self, key: Any, member: Function, args: tuple[Any, ...], kwargs: dict[str, Any], semantic: Any,
        tensors: list[Any],
    ) -> Any:  # fmt: skip
        builder = semantic.builder
        semantic.builder = notes = _Notes(builder, tensors)
        try:
            out = member(*args, **kwargs, _semantic=semantic)
        finally:
            semantic.builder = builder
        if len(self._known) >= LIMIT:
            self._known.clear()
        self._known[key] = notes.recipe(tensors, out) or False
        return out


_OF: dict[tuple[Any, ...], Recipes] = {}


def recipes_for(builder: Any) -> Recipes:
    """Those of builders of this kind and these options."""
    options = builder.options
    key = type(builder), options.arch, options.default_dot_input_precision, options.num_warps
    return _OF.setdefault(key, Recipes())


def _key(member: Function, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Any]) -> Any:
    """What the builder's calls depend on, and the tensors in the order of the arguments; None where that is not known.

    Tensors count by their type, and by which of them share a handle.
    """
    parts: list[Any] = [member]
    tensor = core.tensor
    for a in args:
        part = _tensor(a, tensors) if type(a) is tensor else _plain(a)
        if part is None:
            return None
        parts.append(part)
    for word, a in kwargs.items():
        part = _tensor(a, tensors) if type(a) is tensor else _plain(a)
        if part is None:
            return None
        parts += (word, part)
    return tuple(parts)


def _tensor(t: Any, tensors: list[Any]) -> Any:
    own, same = t.__dict__, -1
    handle = own["handle"]
    if type(handle) is not Handle:
        return None
    for i, other in enumerate(tensors):
        if other.handle is handle:
            same = i if other is t else ~i - 1
            break
    tensors.append(t)
    kind = own.get(KIND)
    if kind is None:
        kind = own[KIND] = _type(own["type"])
    return None if kind is None else (kind, same)


def _type(ty: Any) -> Any:
    cls = type(ty)
    if cls is core.dtype:
        return ty.name
    if cls is core.block_type:
        element = _type(ty.element_ty)
        return None if element is None else (shape_of(ty), element)
    if cls is core.pointer_type:
        element = _type(ty.element_ty)
        return None if element is None else (element, ty.address_space, ty.const)
    return None


def _plain(x: Any) -> Any:
    """A constant; -0.0 is not 0.0, and 1 not 1.0."""
    cls = type(x)
    if cls in _NUMBERS:
        return cls, x
    if cls is float:
        return cls, x.hex()
    if cls is core.dtype:
        return cls, x.name
    if cls is core.constexpr:
        part = _plain(x.value)
        return None if part is None else (cls, part)
    if cls is slice or cls is core.slice:
        ends = tuple(_plain(end) for end in (x.start, x.stop, x.step))
        return None if None in ends else (cls, ends)
    if cls is tuple or cls is list or cls is core.tuple:
        parts = tuple([_plain(part) for part in x])
        return None if None in parts else (cls, parts)
    return None
