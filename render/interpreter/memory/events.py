"""From event codes of the kernels to findings and taints, with the first lane named in the user's terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from render.interpreter.memory.findings import MemoryFinding, distinct
from render.interpreter.memory.gather import CONFLICT, KIND_BITS, NEVER, OUTSIDE, OVERWRITE, RACE
from render.interpreter.memory.lanes import Plan
from render.interpreter.memory.records import NO_TAINT, program_of

if TYPE_CHECKING:
    from render.interpreter.context import Site
    from render.interpreter.memory.core import Memory
    from render.interpreter.memory.registry import Storage

_KINDS = (1 << KIND_BITS) - 1


class Access(NamedTuple):
    """What an access looks like to a report; `ptr` is the address operand (operand 0 of `plan`), flat.

    `copies`: identical accesses that one lane stands for; `doubtful`: flat flags of lanes whose mask is undecided.
    """

    storage: Storage
    plan: Plan
    ptr: np.ndarray
    size: int
    pids: np.ndarray
    site: Site
    kind: str
    copies: int
    doubtful: np.ndarray | None

    @property
    def name(self) -> str:
        return self.storage.name or ("an unnamed tensor" if self.storage.nbytes else "every known tensor")


def spread(plan: Plan, buffer: np.ndarray, operand: int) -> np.ndarray:
    """An operand's flat buffer with one entry per lane."""
    steps = [np.arange(n) * s for n, s in zip(plan.dims, plan.strides[operand], strict=True)]
    found: np.ndarray = buffer[(steps[0][:, None, None] + steps[1][:, None] + steps[2]).reshape(-1)]
    return found


def inside_lanes(storage: Storage, plan: Plan, flat: list[np.ndarray], size: int) -> tuple[np.ndarray, np.ndarray]:
    """(flat lane numbers, byte offsets) of the active lanes within the storage; `flat` starts with addresses, mask."""
    lanes = np.flatnonzero(spread(plan, flat[1], 1))
    offsets = spread(plan, flat[0], 0)[lanes] - storage.base
    good = (offsets >= 0) & (offsets < storage.nbytes // size * size) & (offsets % size == 0)
    return lanes[good], offsets[good]


def digest(memory: Memory, access: Access, codes: np.ndarray) -> tuple[frozenset[int], dict[int, np.ndarray]]:
    """Report events; gives the taints that the access earns and the flat lanes by kind."""
    lanes, kinds = codes >> KIND_BITS, codes & _KINDS
    taint = NO_TAINT
    by_kind: dict[int, np.ndarray] = {}
    for kind in np.flatnonzero(np.bincount(kinds)).tolist():
        mine = by_kind[kind] = distinct(lanes[kinds == kind])
        sure = mine if access.doubtful is None else mine[~access.doubtful[mine]]
        if len(sure) < len(mine):
            message = f"a lane that the bounds leave open {_WHAT[kind].format(name=access.name)}"
            taint |= {memory.taint("RND303", access.kind, access.site, message)}
        if len(sure):
            taint |= _REPORTS[kind](memory, access, sure)
    return taint, by_kind


_WHAT = {
    OUTSIDE: "lies outside {name}",
    NEVER: "reads memory of {name} that nothing has written",
    RACE: "depends on what other programs of the launch write to {name}",
    CONFLICT: "stores another value to {name} than a program before it",
    OVERWRITE: "overwrites in {name} what another program of the launch has read",
}


def _outside(memory: Memory, access: Access, lanes: np.ndarray) -> frozenset[int]:
    storage = access.storage
    doing = {"read": "reads", "write": "writes", "atomic": "updates"}[access.kind]
    message = f"{doing} outside {access.name}"
    if storage.nbytes:
        message += f" ({storage.extent} bytes)"
    _report(memory, access, "RND207", message, lanes)
    return NO_TAINT


def _never(memory: Memory, access: Access, lanes: np.ndarray) -> frozenset[int]:
    message = _WHAT[NEVER].format(name=access.name)
    ident = memory.taint("RND208", access.kind, access.site, message)
    _report(memory, access, "RND208", message, lanes, ident)
    return frozenset((ident,))


def _race(memory: Memory, access: Access, lanes: np.ndarray) -> frozenset[int]:
    message = f"{_WHAT[RACE].format(name=access.name)}, without an atomic before"
    return frozenset((memory.taint("RND305", access.kind, access.site, message),))


def _overwrite(memory: Memory, access: Access, lanes: np.ndarray) -> frozenset[int]:
    message = _WHAT[OVERWRITE].format(name=access.name)
    return frozenset((memory.taint("RND305", access.kind, access.site, message),))


def _conflict(memory: Memory, access: Access, lanes: np.ndarray) -> frozenset[int]:
    message = f"several programs or lanes store different values to one address of {access.name} without an atomic"
    _report(memory, access, "RND209", message, lanes)
    return NO_TAINT


_REPORTS = {OUTSIDE: _outside, NEVER: _never, RACE: _race, CONFLICT: _conflict, OVERWRITE: _overwrite}


def _report(
    memory: Memory, access: Access, code: str, message: str, lanes: np.ndarray, taint: int | None = None
) -> None:
    plan, storage = access.plan, access.storage
    addresses = spread(plan, access.ptr, 0)[lanes]
    rows = plan.shape[0]
    per_row = plan.size // rows
    row, lane = divmod(int(lanes[0]), per_row)
    pid = int(access.pids[row if len(access.pids) == rows else 0])
    index = tuple(int(i) for i in np.unravel_index(lane, plan.shape[1:])) if len(plan.shape) > 1 else ()
    offset = int(addresses[0]) - storage.base - storage.start
    finding = MemoryFinding(
        code, message, storage.name, program_of(pid, memory.grid), index, access.site.file, access.site.line,
        len(lanes) * access.copies, access.kind, 0, offset, storage.extent, taint,
    )  # fmt: skip
    memory.report(finding, addresses)
