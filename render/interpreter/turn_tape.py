"""What one turn of a loop asks of the builder, and what it is asked on: written down while the turn runs.

Recipes (`recipes`) are run on a tape in place of the builder, which calls the builder and keeps the call. What does not
go through recipes leaves traces that a tape knows nothing of, in counters that a turn with such work moves further than
the tape does: then nothing is known of the turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from render.interpreter.handle import METER, Handle

if TYPE_CHECKING:
    from render.interpreter.builder.base import Base
    from render.interpreter.context import Site

MOST = 200
"""Calls of a turn that are written down; no loop with more of them has turns that cost little."""


@dataclass(frozen=True, eq=False)
class BuilderCall:
    """One call of the builder."""

    method: str
    args: tuple[Any, ...]
    named: dict[str, Any]
    out: Any
    site: Site


@dataclass
class TurnTape:
    """The calls of one turn; `complete` once it is over, if there was nothing else."""

    builder: Base
    calls: list[BuilderCall] = field(default_factory=list)
    _made: int = 0

    def __post_init__(self) -> None:
        self._before = self._counters()

    def _counters(self) -> tuple[int, int, int, int]:
        ctx = self.builder.ctx
        return METER.get().made, ctx.activity.changes, ctx.decisions, ctx.memory.said

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.builder, name)
        if not name.startswith(("create_", "get_")):
            return found

        def call(*args: Any, **named: Any) -> Any:
            before = METER.get().made
            out = found(*args, **named)
            self._made += METER.get().made - before
            if len(self.calls) <= MOST and (out is None or isinstance(out, Handle)):
                self.calls.append(BuilderCall(name, args, named, out, self.builder.ctx.site()))
            return out

        return call

    @property
    def complete(self) -> bool:
        """Whether the calls are all that the turn did."""
        made, changes, decisions, said = (new - old for new, old in zip(self._counters(), self._before, strict=True))
        stores = sum(call.method in STORES for call in self.calls)
        return len(self.calls) <= MOST and (made, changes, decisions, said) == (self._made, stores, 0, 0)


STORES = frozenset(["create_store", "create_masked_store"])
