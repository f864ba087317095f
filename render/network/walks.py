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

import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any, Self

import numpy as np
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from render.interpreter.deferred import Deferred, Made
from render.interpreter.host import HostTracker
from render.interpreter.hosted.call import Bounds, Result, rounding_of, values
from render.interpreter.hosted.call import narrower as is_narrower
from render.interpreter.hosted.overloads import HostSite, OverloadRule, start_of
from render.interpreter.memory import Envelope
from render.interpreter.memory.shadow import hull_of
from render.interpreter.session import Session
from render.network.capture import PLAIN, Key, Model, Tensors, copied, hooked, leaves, own, unchanged
from render.network.joined import AnchoredMode, JoinTwin
from render.network.layered import LayerTwin, settled
from render.network.pairs import Pair
from render.network.spill import FREE
from render.network.twins import is_torchs
from render.reference.local_error import Unit
from render.reference.shadow import ShadowedKernels, ShadowMode, Unseen

UNIT = 2.0**-24
ROOM = 4 << 20
"""Bytes of activations whose bounds (five times as much) outlive them for a while: to look for them takes time."""
Ends = tuple[np.ndarray, np.ndarray]
See = Callable[[Pair, int, Any], None]


class _AllSeenError(BaseException):
    """Nothing that runs from here on is asked for; no handler of the model's own is meant."""


class RegionWalk:
    """`side` says whose code runs: "target" or "reference". `see(pair, place, found)` gets what is made at a border."""

    whole = False
    """Nothing may be left out: what the inputs leave open goes from end to end."""

    def __init__(
        self, model: Model, side: str, pairs: Mapping[Key, Pair], see: See, wanted: Collection[tuple[Key, int]]
    ) -> None:
        """`wanted`: (border, place) of what `see` is to get; other regions need not be followed."""
        self.model, self.side, self.see, self.wanted = model, side, see, wanted
        self.left: set[tuple[Key, int]] | None = None
        """What `see` has not had yet of all that it is to get, where nothing is to run behind that."""
        self.pairs = {p.key if side == "target" else p.other: p for p in pairs.values()}
        self.calls: Counter[str] = Counter()
        self.stack: list[Key] = []

    def ending(self) -> Self:
        """Nothing runs behind the last border that is asked for."""
        keys = {p.key for p in self.pairs.values()}
        self.left = {at for at in self.wanted if at[0] in keys}
        return self

    def run(self, inputs: Sequence[Any], seed: int = 0) -> None:
        """Once: what it held of both sides goes with it, for whoever sees what it finds holds the walk as well."""
        try:
            self._walk(inputs, seed)
        finally:
            self.pairs, self.see = {}, _blind

    def _walk(self, inputs: Sequence[Any], seed: int) -> None:
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
            with suppress(_AllSeenError):
                self.model.module(*given)
            with Unseen():
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
        with Unseen():
            self._at(key, leaves(arguments))
        self.stack.append(key)
        self.entered(key)

    def _leave(self, name: str, module: nn.Module, result: Any) -> None:
        while self.stack[-1].name != name:
            self.stack.pop()
        key = self.stack.pop()._replace(way="out")
        with Unseen():
            self._at(key, leaves(result))
        if self.stack:
            self.entered(self.stack[-1])

    def _at(self, key: Key, tensors: Tensors) -> None:
        pair = self.pairs.get(key)
        if pair is not None and len(pair.target) == len(tensors):
            self._border(pair, tensors)
            if self.left is not None and not self.left:
                raise _AllSeenError

    def _border(self, pair: Pair, tensors: Tensors) -> None:
        for i, tensor in enumerate(tensors):
            if (pair.key, i) in self.wanted:
                self.see(pair, i, self.found(pair, i, tensor))
                if self.left is not None:
                    self.left.discard((pair.key, i))
            if pair.key.way != "state":
                self.anchor(pair, i, tensor)
        pair.rest()

    @contextmanager
    def _shortcuts(self, modules: Mapping[str, nn.Module]) -> Iterator[None]:
        """torch's own leaves that end in nothing wanted are not followed, most need not even run again."""
        changed = []
        for name, module in modules.items():
            if is_torchs(module) and "forward" not in vars(module):
                vars(module)["forward"] = self._shortcut(name, module.forward, _stateless(module))
                changed.append(module)
        try:
            yield
        finally:
            for module in changed:
                vars(module).pop("forward", None)

    def _shortcut(self, name: str, forward: Callable[..., Any], stateless: bool) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            entry, exit_ = (self.pairs.get(Key(name, self.calls[name] - 1, way)) for way in ("in", "out"))
            if self.whole or entry is None or exit_ is None:
                return forward(*args, **kwargs)
            own = exit_.at(self.side)
            wanted = self.wants(exit_)
            with Unseen():
                if (stateless and len(own) == 1 and not wanted) or (wanted and self.known(exit_.key)):
                    return self.returned(exit_)
                if not wanted:
                    return forward(*args, **kwargs)
            return forward(*args, **kwargs)

        return run

    def known(self, key: Key) -> bool:
        """Whether what is asked of the result of a leaf is known without running it; `found` then gives that."""
        return False

    def returned(self, pair: Pair) -> torch.Tensor:
        """What a leaf that need not run returns."""
        return pair.at(self.side)[0].clone()

    def wants(self, pair: Pair) -> bool:
        return any((pair.key, i) in self.wanted for i in range(len(pair.target)))


def _blind(pair: Pair, place: int, found: Any) -> None:
    """Sees nothing any more."""


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


MOVES = Unit(native=False, casts=False, inputs=UNIT, cancelling=UNIT, constants=UNIT)
"""What moves: every input and parameter by `UNIT` of itself, and every table that is computed of neither."""


class ExactWalk(RegionWalk):
    """`see` gets (value, movement, whether that is an estimate) in float64; `own`: from this side's own activations.

    `errors` False: no movement (None), which takes a third of the time.
    """

    def __init__(
        self, *args: Any, errors: bool = True, own: bool = False, linear: Mapping[Key, LayerTwin] | None = None,
        joins: Mapping[tuple[Key, int], JoinTwin] | None = None,
    ) -> None:  # fmt: skip
        """`joins`: those of the reference that the target may have, too; None where nobody asks for any."""
        super().__init__(*args)
        self.linear, self.joins = linear or {}, joins
        self._by_key = {p.key: p for p in self.pairs.values()}
        self.errors = errors
        self.own = own
        from_elsewhere = self.model.compiler is not None or (self.side == "reference" and not own)
        self.held = _memory_of(self.model.module) if from_elsewhere else frozenset()
        self.mode: ShadowMode = (ShadowMode if joins is None else AnchoredMode)(MOVES if errors else None)
        self.switched = False
        self._begun: torch.Tensor | None = None
        self.drawn: dict[Key, tuple[torch.dtype, ...]] = {}
        """Types of the random numbers that were drawn up to a border."""

    @contextmanager
    def scope(self) -> Iterator[None]:
        with ShadowedKernels(self.mode), self.mode:
            yield

    def known(self, key: Key) -> bool:
        return key in self.linear

    def entered(self, key: Key) -> None:
        self.switched |= torch.is_autocast_enabled("cpu")

    @property
    def may_declare(self) -> bool:
        """Whether autocast may have declared anything of what ran: it was on at a module, or something is narrow."""
        return self.switched or self.mode.narrow

    def _border(self, pair: Pair, tensors: Tensors) -> None:
        self.drawn[pair.key] = tuple(x.dtype for x in self.mode.drawn)
        super()._border(pair, tensors)

    def found(self, pair: Pair, place: int, tensor: torch.Tensor) -> Any:
        """(value, movement, whether that is an estimate); what could not be followed moves as its largest element.

        Of a layer that both sides have, or of one operation between borders, the `LayerTwin` that makes them.
        """
        if pair.key in self.linear:
            return self.linear[pair.key]
        if (joined := self._joined(pair, place, tensor)) is not None:
            return joined
        value = self.mode.value(tensor).to(torch.float64).numpy().copy()
        estimated, self.mode.estimated = self.mode.estimated, False
        if not self.errors:
            return value, None, estimated
        moved, lost = settled(value, self.mode.error(tensor).numpy(), UNIT)
        with np.errstate(over="ignore"):
            return value, moved.astype(np.float32), estimated or lost  # a scale, not a bound

    def _joined(self, pair: Pair, place: int, tensor: torch.Tensor) -> JoinTwin | None:
        """The region as one operation between borders; the target's where it is the reference's."""
        step = self.mode.made_by(tensor) if isinstance(self.mode, AnchoredMode) else None
        if step is None or self.joins is None:
            return None
        if self.side == "reference":
            return JoinTwin.of(step, (pair, place), self._by_key, MOVES)
        known = self.joins.get((pair.key, place))
        return known if known is not None and known.step == step else None

    def _start(self, pair: Pair, place: int) -> torch.Tensor:
        """What the next region starts from."""
        return (pair.reference if self.own and self.side == "reference" else pair.target)[place]

    def returned(self, pair: Pair) -> torch.Tensor:
        """At once what `anchor` would write there."""
        given, own = self._start(pair, 0), pair.at(self.side)[0]
        alike = given.dtype == own.dtype and given.is_floating_point() and given.stride() == own.stride()
        self._begun = given.clone() if alike else own.clone()
        return self._begun

    def anchor(self, pair: Pair, place: int, tensor: torch.Tensor) -> None:
        given = self._start(pair, place)
        if not tensor.is_floating_point():
            return
        native = pair.at(self.side)[place] if self.model.compiler is None else None
        begun = tensor is self._begun and tensor.dtype == given.dtype and tensor.stride() == given.stride()
        if given is not native and not begun and not pair.equal[place] and self._is_own(tensor):
            tensor.copy_(given)  # what is chosen by numbers (experts, maxima, masks) is chosen by these
        self._begun = None
        if isinstance(self.mode, AnchoredMode):
            self.mode.anchor(tensor, given, (pair.key, place))
        else:
            self.mode.shadows.lend(tensor, given)

    def _is_own(self, tensor: torch.Tensor) -> bool:
        """Whether the run itself made all of this tensor's memory: no parameter, table or part of another tensor."""
        storage = tensor.untyped_storage()
        whole = tensor.is_contiguous() and tensor.nbytes == storage.nbytes() and not tensor.is_inference()
        return whole and storage._cdata not in self.held


def _memory_of(module: nn.Module) -> frozenset[int]:
    """Storages of what modules hold: parameters, buffers and tensors among their plain attributes."""
    held: Tensors = []
    for m in module.modules():
        held += own(m)
        held += leaves([v for k, v in vars(m).items() if k not in _MODULES and type(v) not in PLAIN])
    return frozenset(t.untyped_storage()._cdata for t in held)


_MODULES = frozenset(vars(nn.Module()))
"""What every module has: parameters and buffers are asked for by name, and the others hold no tensors."""


class BoundedWalk(RegionWalk):
    """`see` gets an `Envelope`. `narrow`: the other side computes in fewer bits, and this side's bounds allow that."""

    def __init__(self, *args: Any, device: str, boxes: Mapping[tuple[Key, int], Ends]) -> None:
        super().__init__(*args)
        self.carried: dict[int, tuple[weakref.ref[torch.Tensor], tuple[int, ...]]] = {}
        self.boxes, self.whole = boxes, bool(boxes)
        self.session = Session(device=device, redirect=False, tracker=self._tracker)
        self.session.memory.registry.room = ROOM
        self.narrow: torch.dtype | None = None
        self.region: set[str] = set()
        self.causes: dict[Key, frozenset[str]] = {}

    def _tracker(self, session: Session) -> RegionTracker:
        self.tracker = RegionTracker(session, self)
        return self.tracker

    def scope(self) -> Any:
        return self.session

    def forget(self) -> None:
        """Release what nobody asked the bounds of, with those that are known."""
        self.tracker.deferred = Deferred()
        self.session.forget(FREE)

    def kernels(self) -> Any:
        return plain_attention(exact=False)

    def entered(self, key: Key) -> None:
        out = self.pairs.get(key._replace(way="out"))
        self.narrow = None if out is None else narrower(out, self.side)

    def found(self, pair: Pair, place: int, tensor: torch.Tensor) -> Any:
        envelope = self.session.envelope(tensor, take=True)
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
        fused = self.model.compiler is not None and tensor.dtype.itemsize < 4
        if not tensor.is_floating_point() or (pair.equal[place] and not fused):
            memory.host_write(tensor)
            return
        given = pair.target[place], pair.reference[place]
        version = -1 if tensor.is_inference() else tensor._version
        mark = (*map(id, given), version)
        known, last = self.carried.get(id(tensor), (None, None))
        if known is None or known() is not tensor or last != mark or version < 0:  # else an operand of several modules
            self.carried[id(tensor)] = weakref.ref(tensor), mark
            self.tracker.anchored(tensor, *given)


class RegionTracker(HostTracker):
    """Follows the operations of a region; notes what rounds in it, and widens where the other side is narrower."""

    def __init__(self, session: Session, walk: BoundedWalk) -> None:
        super().__init__(session.memory, session.mute, session.causes)
        self.walk = walk
        self.lazy = not any(narrower(p, walk.side) for p in walk.pairs.values())
        self._anchors: set[int] = set()

    def anchored(self, tensor: torch.Tensor, target: torch.Tensor, reference: torch.Tensor) -> None:
        """The tensor holds what lies between both sides': computed where an operation of the region reads it."""
        one, start = Made.of(0, tensor), start_of(tensor)

        def evaluate() -> None:
            self._anchors.discard(start)
            held = one.tensor()
            if held is not None:
                ends = hull_of(*map(values, (target, reference, held)))
                if self.walk.model.compiler is not None:  # what is written in a narrow type may be read before it is
                    ends = _before(ends, held.dtype)
                self.memory.carry(held, *ends, frozenset(), fresh=True)

        self.settle(tensor)
        self.deferred.add((), [one], evaluate)
        self._anchors.add(start)

    def _may_wait(self, op: OverloadRule, args: tuple[Any, ...], reads: dict[int, torch.Tensor], rounds: Any) -> bool:
        for t in reads.values():
            if start_of(t) in self._anchors:
                self.settle(t)
        return super()._may_wait(op, args, reads, rounds)

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
        made = tuple(Bounds(*_cast((r.lo, r.hi), kind, narrow)) if isinstance(r, Bounds) else r for r in results)
        return (made if isinstance(found, tuple) else made[0]), steps


def _rounded(known: Envelope | None, t: torch.Tensor, narrow: torch.dtype) -> Envelope:
    v = values(t).astype(np.float64)
    lo, hi = (v, v) if known is None or known.lo.shape != v.shape else (known.lo, known.hi)
    low, high = _cast((lo, hi), t.dtype, narrow)
    written = np.ones(1, np.bool_) if known is None else known.written
    return Envelope(low, high, written, True, frozenset() if known is None else known.taints)


def _before(ends: Ends, dtype: torch.dtype) -> Ends:
    """All that is rounded to something between the ends: fused loops keep numbers of narrow types in float32."""
    if dtype.itemsize >= 4:
        return ends
    u, floor = rounding_of(dtype)
    up = 1.0 + 2.0 * u  # relative to the rounded number
    low, high = (up * (u * np.abs(end) + floor) for end in ends)
    return ends[0] - low, ends[1] + high


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
