r"""Choices inside a region (experts, maxima, comparisons): did one fall otherwise only because it was that close?

A function that chooses jumps where the choice changes, and no conditioning explains a jump. Where a border was found
to leave, and a side chose there otherwise than float64 does, the border is judged in two parts:

    choices      every one that fell otherwise also does where its operands move by `LIMIT` of their own errors, in
                 the unit of the region: it lay within rounding
    arithmetic   the two functions are one where both choose as float64 does, and each side is stable beside its own
                 function with the choices that it made

Only where both hold does the border stay; what it then rests on is first order. So are kinks: of a region in a
coarse format, operands move by that format's unit here, and a sign that turns within it is no difference. Elsewhere
movements are those by `UNIT`, scaled, which know nothing of a kink that is further away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from render.network.capture import Key
from render.network.judge import LIMIT, Sight
from render.network.records import FIRST_ORDER
from render.network.walks import MOVES, UNIT, ExactWalk
from render.reference.shadow import F64, ShadowMode, default_dtype, is_float

if TYPE_CHECKING:
    from render.network.capture import Tensors
    from render.network.compare import Sights, TwoSides
    from render.network.pairs import Pair

TRIALS = 32
"""Random signs of the errors of a choice's operands; two close ones change places in a quarter of them."""


class Turned(NamedTuple):
    """Choices of a region that fell otherwise than in float64, and how many of them by more than rounding."""

    choices: int = 0
    far: int = 0


class ChoosingMode(ShadowMode):
    """Watches operations that make integers or truth values of floats; `exact`: they are float64's."""

    def __init__(self, exact: bool, scale: float) -> None:
        super().__init__(replace(MOVES, inputs=UNIT * scale, cancelling=UNIT * scale, constants=UNIT * scale))
        self.exact, self.turned = exact, Turned()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [x for x in tree_leaves((args, kwargs)) if is_float(x)]
        if not given or func._schema.is_mutable or func._schema.name == "aten::_local_scalar_dense":
            return super().__torch_dispatch__(func, types, args, kwargs)
        moves = [(self.value(x), self.error(x)) for x in given]
        out = super().__torch_dispatch__(func, types, args, kwargs)
        chosen = [(i, x) for i, x in enumerate(tree_leaves(out)) if isinstance(x, torch.Tensor) and not is_float(x)]
        if chosen:
            with _disable_current_modes():
                self._look(func, args, kwargs, moves, chosen)
        return out

    def _look(self, func: Any, args: Any, kwargs: Any, moves: list[Any], chosen: list[Any]) -> None:
        def run(step: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> list[Any]:
            queue = iter(moves)
            wide = tree_map(lambda x: step(*next(queue)) if is_float(x) else x, (args, kwargs))
            with default_dtype(F64):
                return tree_leaves(func(*wide[0], **wide[1]))

        best = run(lambda value, error: value)
        open_ = [(i, x, x.ne(best[i]) if x.shape == best[i].shape else None) for i, x in chosen]
        open_ = [(i, x, off) for i, x, off in open_ if off is None or bool(off.any())]
        if not open_:
            return
        generator = torch.Generator().manual_seed(0x5EED)

        def moved(value: torch.Tensor, error: torch.Tensor) -> torch.Tensor:
            signs = torch.randint(0, 2, value.shape, generator=generator).mul_(2).sub_(1)
            return value + signs * LIMIT * error

        tried = [run(moved) for _ in range(TRIALS)]
        for i, x, off in open_:
            near = [t[i] == x for t in tried if t[i].shape == x.shape]
            count = x.numel() if off is None else int(off.sum())
            far = count if off is None or not near else int((off & ~torch.stack(near).any(0)).sum())
            self.turned = Turned(self.turned.choices + count, self.turned.far + far)
            if self.exact and off is not None:
                x.copy_(best[i])


class ChoiceWalk(ExactWalk):
    """E of a side with its own choices, or with those of float64 (`exact`); `turned`: choices by border."""

    def __init__(self, *args: Any, exact: bool, scale: float, own: bool = False) -> None:
        super().__init__(*args, own=own)
        self.mode, self.scale = ChoosingMode(exact, scale), scale
        self.turned: dict[Key, Turned] = {}

    def found(self, pair: Pair, place: int, tensor: torch.Tensor) -> Any:
        """Movements by the region's own unit, in parts of `UNIT` as others are: a kink in their reach is in them."""
        value, moved, estimated = super().found(pair, place, tensor)
        return value, moved / np.float32(self.scale), estimated

    def _border(self, pair: Pair, tensors: Tensors) -> None:
        assert isinstance(self.mode, ChoosingMode)
        self.turned[pair.key], self.mode.turned = self.mode.turned, Turned()
        super()._border(pair, tensors)


def chosen(
    sides: TwoSides, pairs: Mapping[Key, Pair], sights: Sights, declared: Callable[[Key], float]
) -> None:  # fmt: skip
    """Looks again at borders that leave, where a side chose otherwise than float64 does."""
    wanted = {at: s for at, s in sights.items() if s.leaves}
    if not wanted:
        return
    for (key, _), sight in wanted.items():
        sight.declare(declared(key))
    for unit in {s.unit for s in wanted.values()}:
        _in_unit(sides, pairs, {at: s for at, s in wanted.items() if s.unit == unit}, unit / UNIT)


def _in_unit(sides: TwoSides, pairs: Mapping[Key, Pair], wanted: Sights, scale: float) -> None:
    """Of borders that count errors in one unit, `scale` times `UNIT`."""
    found: dict[tuple[str, bool], dict[tuple[Key, int], Any]] = {}
    turned: dict[Key, Turned] = {}
    for side, exact in (("target", False), ("reference", False), ("target", True), ("reference", True)):
        at = found.setdefault((side, exact), {})
        see = lambda pair, place, e, at=at: at.__setitem__((pair.key, place), e)  # noqa: E731
        model = sides.target if side == "target" else sides.reference
        walk = ChoiceWalk(model, side, pairs, see, wanted, exact=exact, scale=scale, own=not exact)
        walk.run(sides.inputs, sides.seed)
        walk.mode.release()
        for key, more in walk.turned.items() if not exact else ():
            old = turned.get(key, Turned())
            turned[key] = Turned(old.choices + more.choices, old.far + more.far)
        turns = any(turned[key].choices for key, _ in wanted) if side == "reference" else True
        if (side, exact) == ("reference", False) and not turns and scale == 1:
            return
    for at_, sight in wanted.items():
        choices, far = turned[at_[0]]
        if (choices or scale > 1) and not far:
            mine, theirs, exact_mine, exact_theirs = (walked[at_] for walked in found.values())
            _again(sight, mine, theirs, exact_mine, exact_theirs, choices)


def _again(sight: Sight, mine: Any, theirs: Any, exact: Any, other: Any, count: int) -> None:
    """`mine`, `theirs`: E of each side with its own choices and operands; `exact`, `other`: with float64's choices."""
    looked = Sight(sight.pair, sight.place, sight.constants, sight.least)
    looked.unit = sight.unit
    looked.of_reference(other)
    looked.of_target(exact)
    if looked.record.apart > 1:
        return
    looked.of_reference(mine)
    looked.of_own(theirs)
    looked.stability(own=True)
    if max(looked.record.eta_target, looked.record.eta_reference) > LIMIT:
        return
    r = sight.record
    r.apart, r.unstable, r.nonfinite, r.exact_out_target, r.disjoint = looked.record.apart, 0, 0, 0, 0
    r.eta_target, r.eta_reference, r.kind = looked.record.eta_target, looked.record.eta_reference, FIRST_ORDER
    r.turned = count


__all__ = ["chosen"]
