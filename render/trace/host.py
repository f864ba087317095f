"""Elements that host code computed from kernel results: the host's operations written down, and the cut through them.

One more run of the whole entry notes every operation that reads elements with bounds: its operands as they were, and
its result. Operands that no such operation made are leaves, which `follow` replaces by what the launch before stored.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from render.entry.execution import Entry as Call
from render.entry.execution import Execution
from render.interpreter.host import HostTracker
from render.interpreter.hosted.call import known_pair, values
from render.interpreter.hosted.overloads import host_site
from render.interpreter.memory import Envelope
from render.interpreter.memory.registry import address
from render.trace.recorder import Enough

LIMIT = 60_000_000
"""Elements that are kept of one run."""


@dataclass(eq=False)
class Block:
    """A tensor as it was at one moment: where its elements lie, and their values and bounds in its own shape."""

    tensor: torch.Tensor
    v: np.ndarray
    lo: np.ndarray
    hi: np.ndarray

    @property
    def start(self) -> int:
        return self.tensor.untyped_storage().data_ptr()

    def addresses(self, flat: np.ndarray) -> np.ndarray:
        """Byte addresses of elements by their flat numbers."""
        at = np.unravel_index(flat, self.v.shape) if self.v.shape else (np.zeros_like(flat),)
        strides = self.tensor.stride() if self.v.shape else (0,)
        offset = sum((i * s for i, s in zip(at, strides, strict=True)), np.zeros_like(flat))
        return address(self.tensor) + offset * self.tensor.element_size()

    def find(self, wanted: np.ndarray) -> np.ndarray:
        """Flat numbers of the elements at these addresses; -1 where there is none."""
        mine = self.addresses(np.arange(self.v.size))
        order = np.argsort(mine, kind="stable")
        at = np.minimum(np.searchsorted(mine[order], wanted), max(mine.size - 1, 0))
        return np.where(mine[order][at] == wanted, order[at], -1) if mine.size else np.full(wanted.shape, -1)

    def ends(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(value, lower, upper) of elements."""
        return tuple(a.reshape(-1)[flat].astype(np.float64) for a in (self.v, self.lo, self.hi))  # type: ignore[return-value]


@dataclass(eq=False)
class HostStep:
    """One result of an operation, its `part`th: `blocks` by the id of each tensor among its arguments, `launches` how
    many had run before it."""

    name: str
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    blocks: dict[int, Block]
    file: str
    line: int
    launches: int
    out: Block | None = None
    part: int = 0


@dataclass(eq=False)
class HostLog:
    """What the recording of one run holds; keeps the tensors alive, so that no address comes twice."""

    steps: list[HostStep] = field(default_factory=list)
    session: Any = None
    elements: int = 0

    @property
    def full(self) -> bool:
        return self.elements > LIMIT


class RecordingHost(HostTracker):
    lazy = False  # an operation is written down with its operands as they are

    def __init__(self, session: Any, log: HostLog) -> None:
        super().__init__(session.memory, session.mute, session.causes)
        self.log, log.session = log, session

    def before(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], known: Mapping[int, Envelope]) -> Any:
        from torch.utils._pytree import tree_flatten, tree_map

        site = self._within or host_site()
        given = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor) and t.is_floating_point()]
        of = {id(t): _block(t, dict(known)) for t in given}
        blocks = {id(b.tensor): b for b in of.values()}
        args, kwargs = tree_map(lambda x: of[id(x)].tensor if id(x) in of else x, (args, kwargs))
        self.log.elements += sum(b.v.size for b in blocks.values())
        if self.log.full:
            raise Enough
        launches = len(self.log.session.writers)
        return HostStep(func._schema.name, func, args, dict(kwargs), blocks, site.file, site.line, launches)

    def after(self, seen: Any, out: Any) -> None:
        for part, result in enumerate(out if isinstance(out, (tuple, list)) else [out]):
            if isinstance(result, torch.Tensor) and result.is_floating_point():  # nothing is traced to another one
                self._add(replace(seen, part=part), result)

    def _overwriting(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], targets: Sequence[torch.Tensor]
    ) -> Any:
        """Written down where a launch stored to these before: its elements are no longer what it stored."""
        stored = any(w.touch(*_reach(t)) for t in targets if t.numel() for w in self.log.session.writers)
        seen = self.before(func, args, kwargs, {}) if stored else None
        out = super()._overwriting(func, args, kwargs, targets)
        if seen is not None:
            self.after(seen, out)
        return out

    def _add(self, step: HostStep, out: torch.Tensor) -> None:
        start = out.untyped_storage().data_ptr()
        if not step.func._schema.is_mutable and any(b.start == start for b in step.blocks.values()):
            return  # a view
        envelope = self.memory.host_envelope(out)
        step.out = _block(out, {} if envelope is None else {id(out): envelope})
        self.log.elements += out.numel()
        self.log.steps.append(step)


def _reach(t: torch.Tensor) -> tuple[int, int]:
    """Addresses of a tensor's first and last element."""
    first = address(t)
    return first, first + sum((n - 1) * step for n, step in zip(t.shape, t.stride(), strict=True)) * t.element_size()


def logged(call: Call) -> tuple[HostLog, Execution | None]:
    """One run of the entry with its host operations written down; no run where there are too many of them."""
    log = HostLog()
    tracker = partial(RecordingHost, log=log)
    options = {**call.options, "printer": lambda text: None, "tracker": tracker}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Enough):
        return log, replace(call, options=options).run()
    return log, None


def _block(t: torch.Tensor, known: dict[int, Envelope]) -> Block:
    """Holds an alias: what squeezes or transposes in place afterwards changes the tensor itself."""
    v = values(t).copy()
    lo, hi = known_pair(t, known) if id(t) in known else (v, v)
    return Block(t.detach(), v, lo if lo is v else np.array(lo), hi if hi is v else np.array(hi))
