"""Calls of modules that nothing depends on: what a model computes and neither returns, keeps nor decides by.

A probe, a logged head or a result that was left lying differs between two models without any difference in what they
do; and what it was handed is no start for the code after it. Such calls are no borders where both sides leave them
unused. Found backwards from results and state over the operations of one run; numbers that leave torch count as used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from render.network.capture import Key, Model, copied, hooked, leaves, unchanged
from render.network.program import Program
from render.result.defects import caught

if TYPE_CHECKING:
    from torch import nn

    from render.network.pairs import Pair

_READ = frozenset(["numpy", "tolist", "__array__", "item", "data_ptr", "__dlpack__"])
_TOLD = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
"""Operations whose numbers, or how many there are, code may decide by."""


@dataclass
class _Made:
    """An operation (`reads` and `writes` are storages), or the end of a call of a module with its results."""

    reads: list[int]
    writes: list[int]
    inside: tuple[int, ...]
    keeps: bool = False
    ends: Key | None = None


@dataclass
class _Log:
    steps: list[_Made] = field(default_factory=list)
    stack: list[int] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    keys: list[Key] = field(default_factory=list)
    held: list[torch.Tensor] = field(default_factory=list)
    """All tensors, so that no storage's address is used twice."""

    def storages(self, x: Any) -> list[int]:
        found = [t for t in tree_leaves(x) if isinstance(t, torch.Tensor)]
        self.held += found
        return [t.untyped_storage()._cdata for t in found]

    def enter(self, name: str, module: nn.Module, arguments: Any) -> None:
        self.stack.append(len(self.keys))
        self.keys.append(Key(name, self.calls[name], "out"))
        self.calls[name] += 1

    def leave(self, name: str, module: nn.Module, result: Any) -> None:
        while self.keys[self.stack[-1]].name != name:
            self.stack.pop()
        at = self.stack.pop()
        self.held += leaves(result)
        made = [t.untyped_storage()._cdata for t in leaves(result)]
        self.steps.append(_Made([], made, (at,), ends=self.keys[at]))

    def elsewhere(self) -> list[torch.Tensor]:
        """Tensors that somebody else holds as well: code has put them away, wherever that is."""
        self.held.append(torch.empty(0))  # nobody else's: what counting itself holds
        times = Counter(map(id, self.held))
        each = {id(t): t for t in self.held}
        more = {at: getrefcount(t) - times[at] for at, t in each.items()}
        return [t for at, t in each.items() if more[at] > more[id(self.held[-1])]]

    def unused(self, roots: set[int]) -> set[Key]:
        """Calls without an operation, or a result, that the roots come from."""
        used: set[int] = set()
        for step in reversed(self.steps):
            if roots.isdisjoint(step.writes):
                continue
            used.update(step.inside)
            if step.ends is None:
                roots = roots if step.keeps else roots.difference(step.writes)
                roots = roots.union(step.reads)
        return {key for i, key in enumerate(self.keys) if i not in used}


class _Operations(TorchDispatchMode):
    def __init__(self, log: _Log) -> None:
        super().__init__()
        self.log = log

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        log, out = self.log, func(*args, **(kwargs or {}))
        reads = log.storages((args, kwargs or {}))
        writes = log.storages(out)
        seen, changes = not writes or not _TOLD.isdisjoint(func.tags), func._schema.is_mutable
        # What is changed in place stays what it was besides; a view makes nothing.
        writes = [*writes, *reads] if changes else [w for w in writes if w not in reads]
        writes = [*writes, _ROOT] if seen else writes
        log.steps.append(_Made(reads, writes, tuple(log.stack), changes or seen))
        return out


class _Reads(TorchFunctionMode):
    """Numbers that Python takes out of tensors without an operation."""

    def __init__(self, log: _Log) -> None:
        super().__init__()
        self.log = log

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _READ and args and isinstance(args[0], torch.Tensor):
            self.log.held.append(args[0])
            read = [args[0].untyped_storage()._cdata]
            self.log.steps.append(_Made(read, [_ROOT], tuple(self.log.stack), True))
        return func(*args, **(kwargs or {}))


_ROOT = -1
"""Stands for all that is decided outside of torch."""


def _unused(model: Model, inputs: Sequence[Any], seed: int) -> set[Key]:
    log, module = _Log(), model.module
    with ExitStack() as stack:
        for scope in (unchanged(module), torch.no_grad(), hooked(model.modules(), log.enter, log.leave)):
            stack.enter_context(scope)
        torch.manual_seed(seed)
        given = copied(tuple(inputs))
        stack.enter_context(_Reads(log))
        stack.enter_context(_Operations(log))
        results = module(*given)
    state = [t for m in module.modules() for t in tree_leaves(list(vars(m).values())) if isinstance(t, torch.Tensor)]
    kept = [*leaves(results), *leaves(given), *module.buffers(), *module.parameters(), *state, *log.elsewhere()]
    return log.unused({_ROOT, *(t.untyped_storage()._cdata for t in kept)})


def unused(
    target: Model, reference: Model, pairs: Mapping[Key, Pair], inputs: Sequence[Any], seed: int
) -> set[Key]:  # fmt: skip
    """Borders of calls that neither side uses; runs both models once."""
    if isinstance(target.module, Program) or isinstance(reference.module, Program):
        return set()
    try:
        idle = [_unused(model, inputs, seed) for model in (target, reference)]
    except Exception as error:  # what does not run like this is taken as used
        caught(error, "what of a model is used")
        return set()
    ends = {key: pair for key, pair in pairs.items() if key.way != "state"}
    return {k for k, p in ends.items() if k._replace(way="out") in idle[0] and p.other._replace(way="out") in idle[1]}


__all__ = ["unused"]
