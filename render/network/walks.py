"""A model run again, borders held: what each region between two borders makes of what both sides had at its start.

`RegionWalk` follows one side through its own code and stops at every border that both sides have. There it asks what
the region made (`see`), and puts there what the next region starts from (`anchor`): so each is judged by itself,
whatever the ones before it did.

    ExactWalk     float64 beside the run, from the target's own activations: the region's function without rounding,
                  and how far it moves where every input and parameter moves by `UNIT` of itself
    BoundedWalk   intervals beside the run, from the hull of both sides' activations: all that a legal execution on
                  the profile makes of it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import _disable_current_modes

from render.interpreter.host import HostSite, HostTracker, OverloadRule
from render.interpreter.hosted.call import Bounds, Result, rounding_of, values
from render.interpreter.hosted.call import narrower as is_narrower
from render.interpreter.memory import Envelope
from render.interpreter.session import Session
from render.network.capture import Key, Model, Tensors, copied, hooked, leaves, unchanged
from render.network.pairs import Pair
from render.reference.local_error import Unit
from render.reference.shadow import ShadowMode

UNIT = 2.0**-24
Ends = tuple[np.ndarray, np.ndarray]
See = Callable[[Pair, int, Any], None]


class RegionWalk:
    """`side` says whose code runs: "target" or "reference". `see(pair, place, found)` gets what is made at a border."""

    def __init__(self, model: Model, side: str, pairs: Mapping[Key, Pair], see: See) -> None:
        self.model, self.side, self.see = model, side, see
        self.pairs = {p.key if side == "target" else p.other: p for p in pairs.values()}
        self.calls: Counter[str] = Counter()
        self.stack: list[Key] = []

    def run(self, inputs: Sequence[Any], seed: int = 0) -> None:
        modules = self.model.modules()
        with ExitStack() as stack:
            stack.enter_context(unchanged(self.model.module))
            stack.enter_context(torch.no_grad())
            stack.enter_context(self.kernels())
            stack.enter_context(self._shortcuts(modules))
            stack.enter_context(hooked(modules, self._enter, self._leave))
            torch.manual_seed(seed)
            given = copied(tuple(inputs))
            stack.enter_context(self.scope())
            self.model.module(*given)
            with _disable_current_modes():
                for key, pair in self.pairs.items():
                    if key.way == "state":
                        own = [b for b in modules[key.name].buffers(recurse=False) if b.is_floating_point()]
                        self._border(pair, own)

    def scope(self) -> Any:
        raise NotImplementedError

    def kernels(self) -> Any:
        """Which of torch's kernels the walk wants."""
        return plain_attention(exact=True)

    def anchor(self, pair: Pair, place: int, tensor: torch.Tensor) -> None:
        raise NotImplementedError

    def found(self, pair: Pair, place: int, tensor: torch.Tensor) -> Any:
        raise NotImplementedError

    def entered(self, key: Key) -> None:
        """The code of another module runs from here on."""

    def _enter(self, name: str, module: nn.Module, arguments: Any) -> None:
        key = Key(name, self.calls[name], "in")
        self.calls[name] += 1
        with _disable_current_modes():
            self._at(key, leaves(arguments))
        self.stack.append(key)
        self.entered(key)

    def _leave(self, name: str, module: nn.Module, result: Any) -> None:
        while self.stack[-1].name != name:
            self.stack.pop()
        key = self.stack.pop()._replace(way="out")
        with _disable_current_modes():
            self._at(key, leaves(result))
        if self.stack:
            self.entered(self.stack[-1])

    def _at(self, key: Key, tensors: Tensors) -> None:
        pair = self.pairs.get(key)
        if pair is not None and len(pair.target) == len(tensors):
            self._border(pair, tensors)

    def _border(self, pair: Pair, tensors: Tensors) -> None:
        for i, tensor in enumerate(tensors):
            if not pair.equal[i]:
                self.see(pair, i, self.found(pair, i, tensor))
            if pair.key.way != "state":
                self.anchor(pair, i, tensor)

    @contextmanager
    def _shortcuts(self, modules: Mapping[str, nn.Module]) -> Iterator[None]:
        """torch's own leaves that both sides left with equal results from equal operands need not run again."""
        changed = []
        for name, module in modules.items():
            if type(module).__module__.startswith("torch.nn") and not any(module.children()) and _stateless(module):
                vars(module)["forward"] = self._shortcut(name, module.forward)
                changed.append(module)
        try:
            yield
        finally:
            for module in changed:
                vars(module).pop("forward", None)

    def _shortcut(self, name: str, forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            ends = [self.pairs.get(Key(name, self.calls[name] - 1, way)) for way in ("in", "out")]
            if all(p is not None and p.all_equal for p in ends) and len(ends[1].target) == 1:  # type: ignore[union-attr]
                own = ends[1].target if self.side == "target" else ends[1].reference  # type: ignore[union-attr]
                return own[0].clone()
            return forward(*args, **kwargs)

        return run


def _stateless(module: nn.Module) -> bool:
    active = module.training and (any(True for _ in module.buffers()) or "ropout" in type(module).__name__)
    return not active and not getattr(module, "inplace", False)


@contextmanager
def plain_attention(exact: bool) -> Iterator[None]:
    """Without the fused inference paths of whole layers; `exact`: attention as the operations that define it."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel([SDPBackend.MATH]) if exact else nullcontext():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def array(x: torch.Tensor) -> np.ndarray:
    return x.detach().to(torch.float64).numpy()


class ExactWalk(RegionWalk):
    """`see` gets (value, movement, whether that is an estimate) in float64; `own`: from this side's own activations.

    `errors` False: no movement (None), which takes a third of the time.
    """

    def __init__(self, *args: Any, errors: bool = True, own: bool = False) -> None:
        super().__init__(*args)
        self.errors = errors
        self.own = own
        unit = Unit(native=False, casts=False, inputs=UNIT, cancelling=UNIT)
        self.mode = ShadowMode(unit if errors else None)

    def scope(self) -> Any:
        return self.mode

    def found(self, pair: Pair, place: int, tensor: torch.Tensor) -> Any:
        """(value, movement, whether that is an estimate); what could not be followed moves as its largest element."""
        value = self.mode.value(tensor).to(torch.float64).numpy().copy()
        estimated, self.mode.estimated = self.mode.estimated, False
        if not self.errors:
            return value, None, estimated
        moved = self.mode.error(tensor).numpy().copy()
        lost = ~np.isfinite(moved) & np.isfinite(value)
        size = float(np.abs(value[np.isfinite(value)]).max(initial=0.0))
        return value, np.where(lost, 4 * UNIT * size, moved), estimated or bool(lost.any())

    def anchor(self, pair: Pair, place: int, tensor: torch.Tensor) -> None:
        given = (pair.reference if self.own and self.side == "reference" else pair.target)[place]
        if tensor.is_floating_point():
            value = given.to(torch.float64)
            self.mode.shadows.put(tensor, value, value.abs() * UNIT if self.errors else None)


class BoundedWalk(RegionWalk):
    """`see` gets an `Envelope`. `narrow`: the other side computes in fewer bits, and this side's bounds allow that."""

    def __init__(self, *args: Any, device: str) -> None:
        super().__init__(*args)
        self.boxes: dict[tuple[Key, int], Ends] = {}
        self.session = Session(device=device, tracker=lambda s: RegionTracker(s, self))
        self.narrow: torch.dtype | None = None
        self.region: set[str] = set()
        self.causes: dict[Key, frozenset[str]] = {}

    def scope(self) -> Any:
        return self.session

    def kernels(self) -> Any:
        return plain_attention(exact=False)

    def entered(self, key: Key) -> None:
        out = self.pairs.get(key._replace(way="out"))
        self.narrow = None if out is None else narrower(out, self.side)

    def found(self, pair: Pair, place: int, tensor: torch.Tensor) -> Any:
        envelope = self.session.envelope(tensor)
        if envelope is None:
            v = values(tensor).astype(np.float64)
            envelope = Envelope(v, v, np.ones(1, np.bool_), True, frozenset())
        return envelope

    def _border(self, pair: Pair, tensors: Tensors) -> None:
        self.causes[pair.key] = frozenset(self.region)
        self.region.clear()
        super()._border(pair, tensors)

    def anchor(self, pair: Pair, place: int, tensor: torch.Tensor) -> None:
        memory, box = self.session.memory, self.boxes.get((pair.key, place))
        if box is not None:
            memory.carry(tensor, *box, frozenset(), None)
        if self.boxes:  # what the inputs leave open goes from end to end
            return
        if pair.equal[place] or not tensor.is_floating_point():
            memory.host_write(tensor)
            return
        ends = [array(x) for x in (pair.target[place], pair.reference[place], tensor)]
        memory.carry(tensor, np.minimum.reduce(ends), np.maximum.reduce(ends), frozenset(), None)


class RegionTracker(HostTracker):
    """Follows the operations of a region; notes what rounds in it, and widens where the other side is narrower."""

    def __init__(self, session: Session, walk: BoundedWalk) -> None:
        super().__init__(session.memory, session.mute, session.causes)
        self.walk = walk
        self.lazy = not any(narrower(p, walk.side) for p in walk.pairs.values())

    def _bounds_of(
        self, func: Any, op: OverloadRule, args: tuple[Any, ...], kwargs: dict[str, Any], known: dict[int, Envelope],
        site: HostSite | None,
    ) -> tuple[Result, list[torch.Tensor] | None]:  # fmt: skip
        if op.cause:
            self.walk.region.add(op.cause)
        narrow = self.walk.narrow
        if narrow is None or not op.cause:
            return super()._bounds_of(func, op, args, kwargs, known, site)
        tensors = {id(t): t for t in leaves((args, kwargs)) if t.is_floating_point()}
        wide = {k: _rounded(known.get(k), t, narrow) for k, t in tensors.items()}
        found, steps = super()._bounds_of(func, op, args, kwargs, known | wide, site)
        kind = next((t.dtype for t in tensors.values()), narrow)
        results = found if isinstance(found, tuple) else (found,)
        made = tuple(
            Bounds(*_cast((r.lo, r.hi), kind, narrow), r.written) if isinstance(r, Bounds) else r for r in results
        )
        return (made if isinstance(found, tuple) else made[0]), steps


def _rounded(known: Envelope | None, t: torch.Tensor, narrow: torch.dtype) -> Envelope:
    v = values(t).astype(np.float64)
    lo, hi = (v, v) if known is None or known.lo.shape != v.shape else (known.lo, known.hi)
    low, high = _cast((lo, hi), t.dtype, narrow)
    written = np.ones(1, np.bool_) if known is None else known.written
    return Envelope(low, high, written, True, frozenset() if known is None else known.taints)


def _cast(ends: Ends, dtype: torch.dtype, narrow: torch.dtype) -> Ends:
    """The ends and their roundings to `narrow`."""
    if not is_narrower(narrow, dtype):
        return ends
    u, floor = rounding_of(narrow)
    with np.errstate(all="ignore"):
        low = ends[0] - (u * np.abs(ends[0]) + floor)
        high = ends[1] + (u * np.abs(ends[1]) + floor)
    masked = np.isinf(ends[0]) & (ends[0] == ends[1])
    return np.where(masked, ends[0], low), np.where(masked, ends[1], high)


def narrower(pair: Pair, side: str) -> torch.dtype | None:
    """The other side's type where it has fewer bits than this one's, at the results of one call."""
    own, other = (pair.target, pair.reference) if side == "target" else (pair.reference, pair.target)
    return next((b.dtype for a, b in zip(own, other, strict=True) if is_narrower(b.dtype, a.dtype)), None)


__all__ = ["UNIT", "BoundedWalk", "ExactWalk", "RegionWalk", "array", "narrower"]
