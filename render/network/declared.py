"""The precision that autocast declares of a region: inside one, results of its type are roundings that were asked for.

The switch is read where torch's functions are called, which is the last place above autocast that can be watched; the
types where their operations end. A region without an operation in autocast's type (autocast off, a type that autocast
does not name, a normalisation that stays in float32) declares nothing, whatever its results are cut to on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from render.interpreter.hosted.call import rounding_of
from render.network.capture import Key, Model, Tensors, leaves
from render.network.walks import RegionWalk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from render.network.pairs import Pair


class AutocastSwitch(TorchFunctionMode):
    """`dtype`: autocast's where the running function of torch was called, None where autocast is off."""

    dtype: torch.dtype | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = self.dtype
        self.dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.dtype = before

    def made(self, func: Any, results: Any) -> torch.dtype | None:
        """Autocast's type where an operation below made something in it."""
        found = self.dtype is not None and not func.is_view and any(t.dtype == self.dtype for t in leaves(results))
        return self.dtype if found else None


class _Watch(TorchDispatchMode):
    def __init__(self, switch: AutocastSwitch) -> None:
        super().__init__()
        self.switch, self.unit = switch, 0.0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        dtype = self.switch.made(func, out)
        if dtype is not None:
            self.unit = max(self.unit, rounding_of(dtype)[0])
        return out


class _AutocastWalk(RegionWalk):
    """`units`: u of autocast's type by the target's border, for regions that have operations in it.

    `whole` False: torch's own leaves do not run; `missed` says whether autocast was on at one, which has to then.
    """

    def __init__(self, model: Model, side: str, pairs: Mapping[Key, Pair], whole: bool) -> None:
        super().__init__(model, side, pairs, lambda *_: None, ())
        self.whole, self.missed = whole, False
        self.switch = AutocastSwitch()
        self.watch = _Watch(self.switch)
        self.units: dict[Key, float] = {}

    @contextmanager
    def scope(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(self.switch)
            stack.enter_context(self.watch)
            yield

    def entered(self, key: Key) -> None:
        self.missed |= not self.whole and torch.is_autocast_enabled("cpu")

    def _border(self, pair: Pair, tensors: Tensors) -> None:
        self.units[pair.key], self.watch.unit = self.watch.unit, 0.0


def declared(
    target: Model, reference: Model, pairs: Mapping[Key, Pair], inputs: Sequence[Any], seed: int
) -> Callable[[Key], float]:
    """u that autocast declares for the region of a border, of the coarser side; 0: none. Runs what may declare it."""
    walks = [_watched(model, side, pairs, inputs, seed) for model, side in
             ((target, "target"), (reference, "reference"))]  # fmt: skip
    return lambda key: max(walk.units.get(key, 0.0) for walk in walks)


def _watched(model: Model, side: str, pairs: Mapping[Key, Pair], inputs: Sequence[Any], seed: int) -> _AutocastWalk:
    """A walk without torch's own leaves, or with them where autocast is on at one: none turns it on by itself."""
    for whole in (False, True):
        walk = _AutocastWalk(model, side, pairs, whole)
        walk.run(inputs, seed)
        if not walk.missed:
            break
    return walk


def in_force(unit: float) -> AbstractContextManager[Any]:
    """Autocast to the type of this u, as it was where the region ran; 0: none."""
    kind = next((d for d in (torch.bfloat16, torch.float16) if rounding_of(d)[0] == unit), None)
    return nullcontext() if kind is None else torch.autocast("cpu", dtype=kind)


__all__ = ["AutocastSwitch", "declared", "in_force"]
