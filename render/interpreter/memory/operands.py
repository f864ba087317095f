"""What the compiled loops over lanes take, as records: each names once what belongs together.

Tags are serial << 32 | flags | program (see `registry`); sizes and offsets are in bytes, `limit` is the number of bytes
that hold whole elements. An array that a loop does not use is a dummy of the right type, and a flag beside it says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from render.interpreter.memory.lanes import Plan
    from render.interpreter.memory.registry import Storage
    from render.interpreter.memory.shadow import Shadow
    from render.interpreter.memory.undo import Arena

_NO_NUMBERS = {size: np.zeros(1, np.float64 if size == 8 else np.float32) for size in (1, 2, 4, 8)}
_NO_TABLE = np.zeros(1, np.float32)
_NO_TABLE.setflags(write=False)
NO_BOUNDS = np.zeros(1)
_NO_TAGS = np.zeros(1, np.int64)
_NO_BYTES = {size: np.zeros(1, f"i{size}") for size in (1, 2, 4, 8)}


class Where(NamedTuple):
    """Lanes of an access (`lanes.Plan`; operands: pointers first, masks second), and the bytes of a storage."""

    dims: np.ndarray
    strides: np.ndarray
    ptr: np.ndarray
    mask: np.ndarray
    base: int
    limit: int
    size: int


class Who(NamedTuple):
    """Program of each row, whether it executed an atomic before; `uniform`: one row stands for several programs."""

    programs: np.ndarray
    synced: np.ndarray
    uniform: bool


class Cells(NamedTuple):
    """A storage's elements: bits, the same as numbers (decoded by `table` up to 16 bits), and who touched them.

    `tags` and `reads` (last writer, last reader) have one entry per `grain` bytes; `written` is -1 where every byte of
    the element was ever written.
    """

    bits: np.ndarray
    numbers: np.ndarray
    table: np.ndarray
    tags: np.ndarray
    grain: int
    written: np.ndarray
    use_written: bool
    reads: np.ndarray
    use_reads: bool


class Bounded(NamedTuple):
    """A shadow: bounds that hold while `stamp` equals the bits."""

    lo: np.ndarray
    hi: np.ndarray
    stamp: np.ndarray
    use: bool


class Since(NamedTuple):
    """Tags of the start of the launch, of the chunk, of the undo log's epoch, and of this access."""

    launch: int
    chunk: int
    epoch: int
    serial: int


class Undo(NamedTuple):
    """Columns of the undo log's arena, filled from `used` on; `save` says which parts an entry has."""

    save: int
    elements: np.ndarray
    bits: np.ndarray
    tag: np.ndarray
    written: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    used: int


class Sums(NamedTuple):
    """Open sums of atomic additions by element, and rows for their old values (none where nothing is to be saved)."""

    base_lo: np.ndarray
    base_hi: np.ndarray
    sum_lo: np.ndarray
    sum_hi: np.ndarray
    magnitude: np.ndarray
    adds: np.ndarray
    stale: np.ndarray
    old: np.ndarray


class Update(NamedTuple):
    """A floating-point atomic: its code, and the format (see `interval_ops.formats.model.Format`) that it rounds to."""

    op: int
    gate: tuple[float, float, float, float]
    p: int
    emin: int
    bias: int
    nan: int


class Noted(NamedTuple):
    """What a loop hands back: the old values, and events as lane << `gather.KIND_BITS` | kind."""

    old: np.ndarray
    events: np.ndarray


def where(storage: Storage, p: Plan, flat: list[np.ndarray], size: int) -> Where:
    """`flat` starts with addresses and mask."""
    return Where(p.dims, p.strides, flat[0], flat[1], storage.base, storage.nbytes // size * size, size)


def cells(storage: Storage, size: int, numbers: np.ndarray | None = None, table: np.ndarray | None = None) -> Cells:
    """What is not given or not there is of the type that it has where it is."""
    return Cells(
        storage.view(np.dtype(f"u{size}")), _NO_NUMBERS[size] if numbers is None else numbers,
        _NO_TABLE if table is None else table,
        _NO_TAGS if storage.tags is None else storage.tags, storage.grain or size,
        _NO_BYTES[size] if storage.written is None else storage.written_view(size), storage.written is not None,
        _NO_TAGS if storage.reads is None else storage.reads, storage.reads is not None,
    )  # fmt: skip


def bounded(storage: Storage, shadow: Shadow | None, size: int) -> Bounded:
    if shadow is None:
        return Bounded(NO_BOUNDS, NO_BOUNDS, storage.view(np.dtype(f"u{size}")), False)
    return Bounded(shadow.lo, shadow.hi, shadow.stamp, True)


def undo(arena: Arena, save: int, lanes: int) -> Undo:
    """Room for one entry per lane."""
    arena.reserve(lanes)
    return Undo._make((save, *arena.columns, arena.used))
