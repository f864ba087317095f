"""Operations of the language that are met again, without Triton's semantic layer.

What `a + b` asks of the builder (casts, broadcasts, the addition) depends on the types of its tensors and on its
constants alone: the layer takes a handle for what it is. The second time that an operation is met with the same types
and constants, the builder's calls are written down, and from then on these are made, on the handles of the day. Every
call is made each time, in the same order and with the same operands, so results, bounds, events and lines are those of
the layer. What cannot be written down (a handle inside a list, a result that is no tensor, a question to the builder
that is no operation) stays with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from triton.language import core

from render.interpreter.handle import Handle
from render.interpreter.turn_tape import TurnTape

Function = Callable[..., Any]
LIMIT = 1 << 14
"""Recipes from which on all are forgotten: no kernel has that many operations on different types and constants."""
_NUMBERS = (int, bool, str, type(None))


class _Unwritten(Exception):
    """The operation cannot be written down."""


class _Notes:
    """Stands in for the builder once, and writes down what is asked of it."""

    def __init__(self, builder: Any, tensors: Iterable[Any]) -> None:
        self._builder = builder
        self._names = {id(t.handle): f"h{i}" for i, t in reversed(list(enumerate(tensors)))}
        self._kept: list[Any] = []  # no other object gets the id of one that is named
        self._lines: list[str] = []
        self._constants: dict[str, Any] = {"tensor": core.tensor}
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
            given = [self._written(a) for a in args] + [f"{k}={self._written(a)}" for k, a in kwargs.items()]
        except _Unwritten:
            self.spoilt = True
            return
        if out is not None and not isinstance(out, Handle):
            self.spoilt = True
            return
        made = f"v{len(self._lines)}"
        self._lines.append(f"{made} = b.{name}({', '.join(given)})")
        self._names.setdefault(id(out), made)
        self._kept += [out, args, kwargs]

    def _written(self, x: Any) -> str:
        if isinstance(x, Handle):
            if id(x) not in self._names:
                raise _Unwritten
            return self._names[id(x)]
        if isinstance(x, list | tuple):
            if any(isinstance(part, Handle | list | tuple | core.tensor) for part in x):
                raise _Unwritten
            name = self._constant(tuple(x))
            return f"list({name})" if isinstance(x, list) else name
        return self._constant(x)

    def _constant(self, x: Any) -> str:
        name = f"c{len(self._constants)}"
        self._constants[name] = x
        return name

    def recipe(self, tensors: list[Any], out: Any) -> Function | None:
        """What does the same to other handles; None where that is not known."""
        if self.spoilt or type(out) is not core.tensor:
            return None
        same = [i for i, t in enumerate(tensors) if t is out]
        if same:
            result = f"t{same[0]}"
        elif id(out.handle) in self._names:
            result = f"tensor({self._names[id(out.handle)]}, {self._constant(out.type)})"
        else:
            return None
        names = [f"t{i}" for i in range(len(tensors))]
        handles = [f"h{i} = t{i}.handle" for i in range(len(tensors))]
        body = "\n    ".join([*handles, *self._lines, f"return {result}"])
        exec(f"def recipe({', '.join(['b', *names])}):\n    {body}", self._constants)  # names and numbers of ours alone
        found: Function = self._constants["recipe"]
        return found


class Recipes:
    """All that are known, for builders that answer the layer's questions alike."""

    def __init__(self) -> None:
        self._known: dict[Any, Function | bool] = {}
        self.tape: TurnTape | None = None
        """What writes down the calls of a turn of a loop that runs now."""

    def run(self, member: Function, args: tuple[Any, ...], kwargs: dict[str, Any], semantic: Any) -> Any:
        """`member(*args, **kwargs, _semantic=semantic)`."""
        tensors: list[Any] = []
        key = _key(member, args, kwargs, tensors)
        if key is None or type(semantic.builder) is _Notes:
            return member(*args, **kwargs, _semantic=semantic)
        found = self._known.get(key)
        if found is True:  # met once
            return self._learnt(key, member, args, kwargs, semantic, tensors)
        if callable(found):
            tape = self.tape
            return found(semantic.builder if tape is None or tape.builder is not semantic.builder else tape, *tensors)
        if found is None:
            if len(self._known) >= LIMIT:
                self._known.clear()
            self._known[key] = True
        return member(*args, **kwargs, _semantic=semantic)

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
    for a in args:
        part = _tensor(a, tensors) if type(a) is core.tensor else _plain(a)
        if part is None:
            return None
        parts.append(part)
    for word, a in kwargs.items():
        part = _tensor(a, tensors) if type(a) is core.tensor else _plain(a)
        if part is None:
            return None
        parts += (word, part)
    return tuple(parts)


def _tensor(t: Any, tensors: list[Any]) -> Any:
    handle, same = t.handle, -1
    if type(handle) is not Handle:
        return None
    for i, other in enumerate(tensors):
        if other.handle is handle:
            same = i if other is t else ~i - 1
            break
    tensors.append(t)
    kind = _type(t.type)
    return None if kind is None else (kind, same)


def _type(ty: Any) -> Any:
    cls = type(ty)
    if cls is core.dtype:
        return ty.name
    if cls is core.block_type:
        element = _type(ty.element_ty)
        return None if element is None else (ty.shape, element)
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
