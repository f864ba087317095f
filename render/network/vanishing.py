"""Gradients that vanish: what comes out of a step for them is rounding alone, and no difference of two models.

A bias before a batch norm has such a gradient, the bias of keys in an attention, and every parameter where the loss
depends on none. Seen by their size: in float64 they are smaller by as much as its roundings are. Where some gradient of
the model does not vanish, it is the scale beside which the others' roundings are roundings. Where all vanish, a side
that is off by no more than the other has lost nothing; else the bounds of both say what rounding may do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from render.interpreter.hosted.call import rounding_of
from render.network.records import LeafRecord
from render.network.walks import UNIT

WORSE = 64.0
"""So many times the other side's error, and so many roundings, is unstable."""
NOISE = 2.0**-23
"""Of what a step in float32 is off: so much float64 may be, 2^29 times less with a margin of 2^6."""
Ends = tuple[np.ndarray, np.ndarray]
State = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Vanishing:
    """Names of parameters: of `known` it is sure; `open`: of a `constant` loss, for bounds to decide."""

    known: frozenset[str]
    open: frozenset[str] = frozenset()
    constant: bool = False

    @classmethod
    def of(cls, runs: Sequence[State], exact: Sequence[State]) -> Vanishing:
        names = [n for n in runs[0] if n.endswith(" grad") and all(n in s and s[n].numel() for s in (*runs, *exact))]
        most = max((float(s[n].abs().max()) for s in exact for n in names), default=0.0)
        beside: set[str] = set()
        alike: set[str] = set()
        small: set[str] = set()
        for n in names:
            size = max(float(s[n].abs().max()) for s in exact)
            lost = [float((y[n].double() - e[n]).abs().max()) for y, e in zip(runs, exact, strict=True)]
            room = WORSE * max(UNIT, *(rounding_of(s[n].dtype)[0] for s in runs))
            small.update([n] if size <= NOISE * max(lost) else [])  # False where one is not finite
            beside.update([n] if max(lost) <= room * most else [])
            alike.update([n] if lost[0] <= WORSE * lost[1] else [])
        constant = bool(small) and all(not s[n].any() for n in names if n not in small for s in (*runs, *exact))
        known = small & (beside | alike) if constant else small & beside
        return cls(_owners(known), _owners(small - known) if constant else frozenset(), constant)

    def settle(
        self, path: str, records: Iterable[LeafRecord], bounds: Sequence[Mapping[str, Ends]], exact: Sequence[State]
    ) -> None:
        """An open gradient and the step that it makes: no difference where rounding may make either of both sides."""
        name = f"{path} grad"
        ends = [b[name] for b in bounds if name in b]
        sure = len(ends) == 2 and _meet(*ends) and all(_holds(b, e[name]) for b in ends for e in exact)
        for record in (r for r in records if r.at in (name, f"{path} step")):
            record.label, record.code, record.detail = "Type-I", "RND102" if record.differing else "RND100", ""
            if not sure:
                record.label, record.code = "Inconclusive", "RND302"
                record.detail = "its gradient vanishes on both sides, and not both have a bound"

    def notes(self, told: Callable[[str], bool]) -> list[str]:
        """Of the parameters whose gradients came out otherwise."""
        found = sorted(n for n in self.known | self.open if told(n))
        if not found:
            return []
        some = ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
        why = "the loss depends on no parameter: " if self.constant else ""
        return [f"{why}gradients that are 0 but for rounding, and no difference: {some}"]


SHOWN = 8


def _owners(gradients: Iterable[str]) -> frozenset[str]:
    return frozenset(name.removesuffix(" grad") for name in gradients)


def _meet(a: Ends, b: Ends) -> bool:
    return bool((a[0] <= b[1]).all() and (b[0] <= a[1]).all())


def _holds(ends: Ends, exact: torch.Tensor) -> bool:
    """Whether what float64 gives lies inside, but for as much as it is itself."""
    e = exact.detach().double().numpy()
    slack = float(np.abs(e).max(initial=0.0))
    return bool(((ends[0] - slack <= e) & (e <= ends[1] + slack)).all())


__all__ = ["NOISE", "WORSE", "Ends", "Vanishing"]
