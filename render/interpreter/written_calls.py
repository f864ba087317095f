"""What one operation of the language asks of the builder, written down: which calls, on which of its handles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from triton.language import core

Function = Callable[..., Any]
OFTEN = 64
"""Plays after which a recipe is compiled: that takes as long as it saves in about so many."""


class Slot(int):
    """In place of a handle: which one, counted from the operands on, then what each call gave."""


class Listed(tuple[Any, ...]):
    """In place of a list of numbers or types: every call is given one of its own."""


Step = tuple[str, tuple[Any, ...], dict[str, Any]]
"""A call of the builder: method, arguments, arguments by name."""


def _given(x: Any, handles: Sequence[Any]) -> Any:
    if type(x) is Slot:
        return handles[x]
    return list(x) if type(x) is Listed else x


class WrittenCalls:
    """The builder's calls of one operation. `same`: the operand that is the result; otherwise `result` says which
    handle it holds, as `like` does."""

    def __init__(self, operands: int, steps: list[Step], same: int | None, result: Slot | None, like: Any) -> None:
        self._operands, self._steps = operands, steps
        self._same, self._result = same, result
        self._derived = {name: value for name, value in vars(like).items() if name != "handle"}
        self._played = 0
        # What each call is given stands in one list: operands, what the calls give, and constants.
        self._rest: list[Any] = [None] * len(steps)
        self._fetched = [self._fetch(operands + i, step) for i, step in enumerate(steps)]

    def _fetch(self, place: int, step: Step) -> tuple[int, str, Callable[[list[Any]], Any] | None, Step]:
        """Where the result of a call goes, its method, and how its arguments are read (None: none, or not that way)."""
        name, args, named = step
        if named or len(args) < 2 or any(type(a) is Listed for a in args):
            return place, name, None, step
        places = [a if type(a) is Slot else self._constant(a) for a in args]
        return place, name, itemgetter(*places), step

    def _constant(self, value: Any) -> int:
        self._rest.append(value)
        return self._operands + len(self._rest) - 1

    def _tensor(self, handle: Any) -> Any:
        """A tensor's constructor works out from the type what is the same each time."""
        made: Any = object.__new__(core.tensor)
        made.__dict__.update(self._derived)
        made.handle = handle
        return made

    def play(self, builder: Any, tensors: list[Any]) -> Any:
        """The operation on the handles of these tensors."""
        self._played += 1
        handles = [t.handle for t in tensors]
        handles += self._rest
        for place, name, fetch, (_, args, named) in self._fetched:
            if fetch is not None:
                handles[place] = getattr(builder, name)(*fetch(handles))
                continue
            given = [_given(a, handles) for a in args]
            words = {k: _given(a, handles) for k, a in named.items()} if named else {}
            handles[place] = getattr(builder, name)(*given, **words)
        if self._same is not None:
            return tensors[self._same]
        assert self._result is not None
        return self._tensor(handles[self._result])

    @property
    def worth_compiling(self) -> bool:
        return self._played >= OFTEN

    def compiled(self) -> Function:
        """The same as a function of Python's, which takes longer to make than to call."""
        constants: dict[str, Any] = {"tensor": self._tensor}

        def written(x: Any) -> str:
            if type(x) is Slot:
                return f"h{int(x)}"
            name = f"c{len(constants)}"
            constants[name] = x
            return f"list({name})" if type(x) is Listed else name

        names = [f"t{i}" for i in range(self._operands)]
        lines = [f"h{i} = {name}.handle" for i, name in enumerate(names)]
        for i, (name, args, named) in enumerate(self._steps, self._operands):
            given = [written(a) for a in args] + [f"{k}={written(a)}" for k, a in named.items()]
            lines.append(f"h{i} = b.{name}({', '.join(given)})")
        lines.append(f"return t{self._same}" if self._same is not None else f"return tensor(h{self._result})")
        body = "\n    ".join(lines)
        exec(f"def recipe({', '.join(['b', *names])}):\n    {body}", constants)  # names and numbers of ours alone
        found: Function = constants["recipe"]
        return found
