"""The memory of a session: storages, launches, chunks and the reports of what went wrong.

Accesses live next door (`reading`, `writing`, `atomics`); all of them go through the state kept here. Not thread-safe:
one launch at a time, one chunk at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from render.interpreter.memory import atomics, envelope, host_side, places, reading, sums, writing
from render.interpreter.memory.findings import FindingLog, MemoryFinding, TaintLog
from render.interpreter.memory.operands import Since, Who
from render.interpreter.memory.records import NO_TAINT, Envelope, LoadResult, Request, Use
from render.interpreter.memory.registry import PROGRAM, Registry, Storage, address
from render.interpreter.memory.shadow import ElementType, Shadow
from render.interpreter.memory.undo import Arena, UndoLog, snapshot
from render.interpreter.memory.unwritten import notice_writes

if TYPE_CHECKING:
    from interval_ops.profiles.profile import Profile
    from render.interpreter.choices import Choices
    from render.interpreter.context import Site

NEVER_TAG = 1 << 62
"""Above every tag: as start of the chunk it switches hazards off, for a chunk of one program."""

Mark = tuple[int, int, int, int]


class Memory:
    """Everything a kernel may read or write, with bounds, and what was found while it did.

    `interval=False` keeps values, checks and findings but no bounds.
    """

    def __init__(self, interval: bool = True, profile: Profile | None = None) -> None:
        self.interval = interval
        self.registry = Registry()
        self.deferred: Callable[[torch.Tensor], None] | None = None
        """Called before a tensor's bounds are used: what the host has not computed of them yet."""
        self.choices: Choices | None = None
        """How decisions go that bounds leave open; None: every way."""
        self.taints = TaintLog()
        self.taint_sets: list[frozenset[int]] = [NO_TAINT]
        self._taint_index: dict[frozenset[int], int] = {NO_TAINT: 0}
        self._findings = FindingLog()
        self._add_taint: Callable[[str, str, Site, str], int] = self.taints.add
        self._profile: Callable[[], Profile | None] = lambda: profile
        self.printer: Callable[[str], None] = print
        self._said: list[str] = []
        """What programs of the chunk have printed: told once it is sure that they are not run again."""
        self.log = UndoLog()
        self.nowhere = Storage(0, 0, None)
        self.symbols: set[tuple[float, float]] = set()
        """Ends of numbers beyond any data that kernels or the host wrote (`builder.sentinels`)."""
        self.placed: set[int] = set()
        """Addresses of elements of which it is open whether a store went there."""
        self.maybe: list[places.Maybe] = []
        """What stores of this launch may have written elsewhere than in the value lane."""
        self.grid: tuple[int, ...] = (1,)
        self.kernel = ""
        self._events = np.empty(1 << 13, np.int64)
        self._serial = 0
        self._launch = self._chunk = self._epoch = 0
        self._first_program: int | None = None
        self._several = False
        self.turns = 0
        """Turns of a loop of one program that run at once now."""
        self.in_turns = False
        """Whether the programs of the chunk run one at a time, in turns: then there are no hazards between them."""
        self._synced = np.zeros(1, np.bool_)
        self._used: dict[int, Storage] = {}
        self._snapped: dict[int, int] = {}
        self._named: set[int] = set()
        self._both_ways: set[tuple[str, str | None]] = set()
        self._handed = self._stored = False

    def bind(self, add_taint: Callable[[str, str, Site, str], int], profile: Callable[[], Profile]) -> None:
        """Report taints through `add_taint` (code, op, site, message) and close atomics by `profile()`."""
        self._add_taint = add_taint
        self._profile = profile

    # storages
    def register(self, tensor: torch.Tensor, name: str | None = None) -> Storage:
        """Make the tensor's storage addressable; idempotent. The storage is kept alive.

        Reports call it by the first argument of the launch in progress that lies in it.
        """
        if self.deferred is not None:
            self.deferred(tensor)
        storage = self.registry.register(tensor)
        if name is not None and id(storage) not in self._named:
            self._named.add(id(storage))
            self.registry.call(storage, tensor, name)
        return storage

    def settle(self, values: Iterable[Any]) -> None:
        """What the host has not computed yet of the bounds of the tensors among these."""
        if self.deferred is not None:
            for value in values:
                if isinstance(value, torch.Tensor):
                    self.deferred(value)

    @property
    def apart(self) -> bool:
        """Whether neither a kernel nor the host read what a kernel stored, as far as memory is known; it stays known
        once that memory is forgotten."""
        known = self.registry
        return not self._handed and known.complete and all(s.read_in < 0 for s in known if s.stored_in >= 0)

    @property
    def stored_to(self) -> bool:
        """Whether a kernel stored anything, as far as memory is known; it stays known, too."""
        return self._stored or not self.registry.complete or any(s.stored_in >= 0 for s in self.registry)

    def forget(self) -> None:
        """Drop every storage with its bounds; findings and taints stay. For when all results have been read."""
        self._handed, self._stored = not self.apart, self.stored_to
        self.registry, self.deferred = Registry(), None
        self._used.clear()
        self.log.clear()
        self.log.arena = Arena()
        self._events = np.empty(0, np.int64)

    def find(self, address: int) -> Storage | None:
        return self.registry.find(address)

    @property
    def findings(self) -> list[MemoryFinding]:
        """Findings of committed work."""
        return self._findings.all

    @property
    def stored(self) -> list[Storage]:
        """Storages that the launch in progress (or the last one) wrote."""
        return [s for s in self._used.values() if s.stored]

    @property
    def used(self) -> list[Storage]:
        """Storages that the launch in progress (or the last one) accessed."""
        return list(self._used.values())

    # launches and chunks
    def begin_launch(self, launch: Any) -> None:
        """`launch` has `kernel` and `grid` (see `LaunchInfo`)."""
        self.registry.prune()
        self.kernel, self.grid = str(launch.kernel), tuple(launch.grid)
        self._used.clear()
        self._named.clear()
        self._snapped.clear()
        self._synced = np.zeros(max(1, int(np.prod(self.grid))), np.bool_)
        self._launch = self._chunk = self._epoch = (self._serial + 1) << 32
        self.log.clear()
        self._first_program, self._several = None, False

    def end_launch(self) -> None:
        """Close what atomics accumulated and forget the order of this launch's programs."""
        self.commit()
        places.settle(self)
        for storage in self._used.values():
            sums.settle(self, storage)
            self.log.clear()
            if storage.written is not None and storage.stored and storage.written.all():
                storage.written = None
            stored = storage.stored
            storage.forget_launch()
            storage.stored = stored
        self._launch = NEVER_TAG

    def begin_chunk(self) -> None:
        self.turns = 0
        self.log.clear()
        self.taints.commit()  # what was met between launches is not the chunk's to undo
        self._serial += 1
        self._chunk = self._epoch = (self._serial + 1) << 32
        self._first_program, self._several = None, False

    def commit(self) -> None:
        self.log.clear()
        self._findings.commit()
        self.taints.commit()
        self.tell()

    def say(self, text: str) -> None:
        """A program prints."""
        if self.in_turns:  # nothing of them is run again, and one that waits for ever is to be heard
            self.printer(text)
        else:
            self._said.append(text)

    def tell(self) -> None:
        """Hands on what was said so far: the chunk is done, or stops here."""
        said, self._said = self._said, []
        for text in said:
            self.printer(text)

    def undo(self) -> None:
        """Back to the state at `begin_chunk`; a new `begin_chunk` must follow."""
        self.undo_to((0, 0, 0, 0))

    def mark(self) -> Mark:
        """A point within the chunk that `undo_to` can return to."""
        self._epoch = (self._serial + 1) << 32
        return (self.log.mark(), self._findings.mark(), self.taints.mark(), len(self._said))

    @property
    def said(self) -> int:
        """How many lines programs of the chunk have printed."""
        return len(self._said)

    def quiet(self, mark: Mark) -> bool:
        """Whether nothing was found since then."""
        return self._findings.mark() == mark[1] and self.taints.mark() == mark[2]

    def begin_turns(self, turns: int) -> Mark:
        """So many turns of a loop run at once from here to `end_turns`: between them there are hazards."""
        self.turns = turns
        return self.mark()

    def end_turns(self, mark: Mark, program: int) -> bool:
        """Whether the turns since `mark` were strangers to each other; then what they stored is the program's."""
        self.turns = 0
        if not self.quiet(mark):
            return False
        if any(s.reads is not None and (s.reads >= self._epoch).any() for s in self._used.values()):
            return False
        return self.log.retag(mark[0], program)

    def undo_to(self, mark: Mark) -> None:
        self.turns = 0
        self.log.undo_to(mark[0])
        self._findings.undo_to(mark[1])
        self.taints.undo_to(mark[2])
        del self._said[mark[3] :]
        since = self._chunk if mark == (0, 0, 0, 0) else self._epoch
        for storage in self._used.values():
            if storage.acc is not None:
                storage.acc.stale[:] = storage.acc.count > 0
            if storage.reads is not None:
                storage.reads[storage.reads >= since] = 0
        self._snapped.clear()

    # accesses
    def load(self, request: Request, other: Any = None, other_iv: Any = None) -> LoadResult:
        """Gather elements.

        The bounds of an undecided lane hold both outcomes, and the result is tainted (RND303). Lanes masked off give
        `other` (default 0), lanes outside give 0 and no bound.
        """
        return reading.load(self, request, other, other_iv)

    def store(
        self, request: Request, v: np.ndarray, lo: np.ndarray | None = None, hi: np.ndarray | None = None,
        taint: frozenset[int] = NO_TAINT, among: tuple[np.ndarray, ...] | None = None,
    ) -> None:  # fmt: skip
        """Scatter values (representable in the element) with their bounds; lanes outside are dropped and reported.

        `among`: all that open integers may be.
        """
        writing.store(self, request, v, lo, hi, taint, among)

    def note_stored(self, request: Request) -> None:
        """Marks the elements of a store, for `stored_by_kernels`."""
        writing.note_stored(self, request)

    def stored_by_kernels(self, tensor: torch.Tensor) -> np.ndarray:
        """Which of the tensor's elements noted stores went to."""
        return envelope.stored_by_kernels(self, tensor)

    def atomic(
        self, kind: str, request: Request, val: np.ndarray | None, lo: np.ndarray | None = None,
        hi: np.ndarray | None = None, cmp: np.ndarray | None = None, taint: frozenset[int] = NO_TAINT,
    ) -> LoadResult:  # fmt: skip
        """One read-modify-write per active lane of the full shape (programs, *block), in order; gives the old values.

        A float result has the bounds [-inf, inf]: what an atomic returns depends on the order of the programs.
        """
        return atomics.atomic(self, kind, request, val, lo, hi, cmp, taint)

    def envelope(self, tensor: torch.Tensor, take: bool = False) -> Envelope | None:
        """Bounds of a tensor's elements; None if no kernel wrote its memory and nothing was carried into it.

        `take`: they may be the memory's own arrays, for when no kernel and no host code will write there any more.
        """
        if self.deferred is not None:
            self.deferred(tensor)
        return envelope.of_tensor(self, tensor, take)

    # host code between launches
    def mark_unwritten(self, tensor: torch.Tensor) -> None:
        """The tensor's storage was just allocated without contents (torch.empty)."""
        host_side.mark_unwritten(self, tensor)

    def host_write(self, tensor: torch.Tensor) -> None:
        """Host code wrote the tensor's elements: they are exact and written."""
        host_side.host_write(self, tensor)

    def carry(
        self, tensor: torch.Tensor, lo: np.ndarray | None, hi: np.ndarray | None, taint: frozenset[int],
        written: np.ndarray | None = None, void: frozenset[int] = NO_TAINT, fresh: bool = False,
    ) -> None:  # fmt: skip
        """Host code wrote the tensor from kernel results: attach bounds (None: exact), taint and the written flags;
        `void` are taints of those elements alone that come from memory that nothing has written. `fresh`: nobody else
        holds these bounds, contiguous and in the tensor's shape."""
        host_side.carry(self, tensor, lo, hi, taint, written, void, fresh)

    def stored_as(self, tensor: torch.Tensor) -> torch.dtype | None:
        """The one type that numbers with bounds in this tensor's storage have."""
        return host_side.stored_as(self, tensor)

    def may_copy(self, target: torch.Tensor, source: torch.Tensor) -> bool:
        """Whether bounds are all there is to take along when elements are copied to another storage."""
        return host_side.may_copy(self, target, source)

    def copied(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Host code copied elements of the same type: their bounds go along, with the bits that they hold for."""
        host_side.copied(self, target, source)

    def host_envelope(self, tensor: torch.Tensor) -> Envelope | None:
        """What a host operation should know of an operand; None: nothing, all of it is written and exact."""
        return host_side.host_envelope(self, tensor)

    def computed_of_nothing(self, tensor: torch.Tensor, lanes: int, op: str, site: Site) -> int:
        """Host code computes with elements of the tensor that nothing has written; the taint of what comes out."""
        return host_side.computed_of_nothing(self, tensor, lanes, op, site)

    def read_by_host(self, tensor: torch.Tensor) -> None:
        """Host code computes with the tensor's elements."""
        storage = self.find(address(tensor)) if tensor.numel() else None
        if storage is not None:
            storage.read_in = max(storage.read_in, storage.stored_in + 1)  # what is stored later, nobody has read

    def use_of(self, tensor: torch.Tensor) -> Use:
        """What kernels did with the tensor's memory, and whether anybody read what they stored last."""
        storage = self.find(address(tensor)) if tensor.numel() else None
        if storage is None or (storage.name is None and storage.stored_in < 0):  # a table of addresses has no names
            return Use.NONE
        if storage.stored_in < 0 or storage.kernel_range is None:
            return Use.READ if storage.read_in >= 0 or storage.kernel_range is not None else Use.IDLE
        return Use.PASSED_ON if storage.read_in > storage.stored_in else Use.STORED

    def is_known(self, tensor: torch.Tensor) -> bool:
        """Whether `host_envelope` would give anything."""
        return host_side.is_known(self, tensor)

    def knows_bounds(self) -> bool:
        """Whether any storage is known at all."""
        return bool(self.registry)

    # state shared by the access modules
    def next_serial(self) -> int:
        self._serial += 1
        return self._serial << 32

    def events(self, lanes: int) -> np.ndarray:
        """Scratch for event codes: up to two per lane."""
        if len(self._events) < 2 * lanes:
            self._events = np.empty(2 * lanes, np.int64)
        return self._events

    def note_programs(self, pids: np.ndarray) -> None:
        """Programs that access memory now: hazards exist only between programs of one chunk."""
        if not self._several and not self.in_turns:
            if self._first_program is None:
                self._first_program = int(pids[0])
            self._several = len(pids) > 1 or int(pids[0]) != self._first_program

    def enter(self, pids: np.ndarray, rows: int) -> Who:
        """Which program each row of an access belongs to; turns of one program that run at once pass for programs."""
        self.note_programs(pids)
        if self.turns:
            synced = np.full(rows, bool(self._synced[pids[0]]))
            return Who(np.arange(PROGRAM + 1 - rows, PROGRAM + 1), synced, rows < self.turns)
        if len(pids) == rows:
            programs = pids.astype(np.int64)
            return Who(programs & PROGRAM, self._synced[programs], False)
        last = np.full(rows, int(pids[-1]), np.int64)
        return Who(last & PROGRAM, np.full(rows, bool(self._synced[pids].all())), len(pids) > 1)

    def since(self) -> Since:
        """The tags that a new access is compared with, and its own."""
        return Since(*self.tag_bounds, self.next_serial())

    @property
    def several(self) -> bool:
        """Whether more than one program has run in this chunk."""
        return self._several

    @property
    def tag_bounds(self) -> tuple[int, int, int]:
        """Tags from which on an access belongs to the launch, to the chunk, to the part after the last mark."""
        return self._launch, self._chunk if self._several else NEVER_TAG, self._epoch

    def synchronise(self, pids: np.ndarray) -> None:
        """These programs executed an atomic: what they store and load from now on counts as ordered."""
        fresh = pids[~self._synced[pids]]
        if len(fresh):
            self._synced[fresh] = True
            synced = self._synced
            self.log.push(lambda: synced.__setitem__(fresh, False))

    def use(self, storage: Storage) -> None:
        """Note that the launch accesses this storage."""
        key = id(storage)
        if key not in self._used:
            self._used[key] = storage
            storage.stored = storage.noticed = False
            storage.tracked = (self.kernel, storage.name) in self._both_ways

    def before_read(self, storage: Storage) -> None:
        """Once per launch, look for what was written out of sight before it."""
        if storage.written is not None and not storage.noticed:
            # A store of this launch may come first: its bytes are marked as written already.
            storage.noticed = True
            notice_writes(storage)

    def track(self, storage: Storage) -> bool:
        """Start to track readers of a storage that the launch writes; True if it was loaded in this chunk untracked."""
        if storage.tracked:
            return False
        storage.tracked = True
        if storage.loaded_at < self._chunk:
            return False
        self._both_ways.add((self.kernel, storage.name))
        return self._several

    def shadow_of(
        self, storage: Storage, fmt: ElementType, whole: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
        of_host: bool = False,
    ) -> Shadow:  # fmt: skip
        """The storage's shadow for this format, created (undoably, unless by host code, which no chunk repeats) if
        there is none; `whole`: its contents."""
        shadow = storage.shadows.get(fmt.name)
        if shadow is not None and whole is not None:
            shadow.lo, shadow.hi, shadow.stamp = whole
        if shadow is None:
            shadow = Shadow(fmt, *whole) if whole else Shadow.make(fmt, storage.nbytes * 8 // fmt.bits)
            storage.shadows[fmt.name] = shadow
            if not of_host:
                shadow.born = (self._serial + 1) << 32
                self.log.push(lambda: storage.shadows.__delitem__(fmt.name))
        return shadow

    def needs_saving(self, shadow: Shadow) -> bool:
        """False for a shadow made since the last mark: undoing drops it whole."""
        return shadow.born < self._epoch

    def prepare_tags(self, storage: Storage, size: int) -> bool:
        """Tags for a write of `size`-byte elements; True if undo is covered by a snapshot (of another size than the
        finest before)."""
        if storage.tags is None:
            storage.grain = storage.grain or size
            storage.tags = np.zeros(-(-storage.nbytes // storage.grain), np.int64)
        if size == storage.grain:
            return False
        storage.mixed = True
        if self._snapped.get(id(storage), 0) < self._epoch:
            self.log.push(snapshot(storage))
            self._snapped[id(storage)] = self._epoch
        if size < storage.grain:
            fine = storage.grain // size
            storage.tags = np.repeat(storage.tags, fine)
            if storage.reads is not None:
                storage.reads = np.repeat(storage.reads, fine)
            storage.grain = size
        return True

    def taint_index(self, taint: frozenset[int]) -> int:
        index = self._taint_index.get(taint)
        if index is None:
            index = self._taint_index[taint] = len(self.taint_sets)
            self.taint_sets.append(taint)
        return index

    def taint(self, code: str, op: str, site: Site, message: str) -> int:
        return self._add_taint(code, op, site, message)

    def report(self, finding: MemoryFinding, addresses: np.ndarray, settled: bool = False) -> None:
        """`settled`: no chunk is in progress that could be undone."""
        self._findings.add(finding, addresses)
        if settled:
            self._findings.commit()

    @property
    def profile(self) -> Profile:
        """The profile that closes atomic sums."""
        profile = self._profile()
        if profile is None:
            from interval_ops.profiles.profile import load_profile

            profile = load_profile("any")
        return profile
