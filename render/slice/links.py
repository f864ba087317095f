"""What one recorded operation reads: for each wanted lane of a result, the lanes of its operands.

A step with `op` becomes a node (where `made` says so, if it is given); its other lanes, and all lanes of a step without
one, are those of the first operand that is not ABSENT. A lane without any is a leaf.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from interval_ops.library import LIBRARY
from render.interpreter.builder.floats import VALUES
from render.interpreter.handle import Handle
from render.slice.model import ABSENT, NotSliceable
from render.slice.moves import MOVES, lanes_of, moved
from render.slice.recorder import Entry

if TYPE_CHECKING:
    from render.slice.cut import Cutter

Link = tuple[Handle, np.ndarray]

COMPARISONS = frozenset(f"fcmp{name}" for name in ("OLT", "OLE", "OGT", "OGE", "OEQ", "UNE"))
LOGIC = frozenset(["and", "or", "xor"])
REDUCED = frozenset(["sum", "prod", "max", "min"])


@dataclass(eq=False)
class Step:
    links: list[Link]
    op: str = ""
    attrs: dict[str, Any] = field(default_factory=dict)
    made: np.ndarray | None = None


def step_of(cut: Cutter, entry: Entry, out: int, wanted: np.ndarray) -> Step:
    """Raises NotSliceable for an operation that is not known."""
    op = entry.op
    if op in ("argument", "constant"):
        return Step([])
    if op in MOVES or op in ("slice", "concatenate"):
        return Step(list(zip(_data(entry), moved(entry, out, wanted), strict=True)))
    if op == "fadd":
        return _fadd(cut, entry, out, wanted)
    if op in VALUES or op in COMPARISONS or op in LOGIC:
        return _same(entry, wanted, op)
    if op.startswith("library ") and op.removeprefix("library ") in LIBRARY:
        return _same(entry, wanted, op)
    rule = _RULES.get(op)
    if rule is None:
        raise NotSliceable(op, "it is not known which values its result depends on", entry.site.file, entry.site.line)
    return rule(cut, entry, out, wanted)


def _data(entry: Entry) -> tuple[Handle, ...]:
    return entry.args[:1] if entry.op == "gather" else entry.args


def aligned(h: Handle, out: Handle, lanes: np.ndarray) -> np.ndarray:
    """The same lanes of an operand of the same shape."""
    if h.shape != out.shape:
        raise NotSliceable("an elementwise operation", f"operand {h.shape} of a result {out.shape}")
    return lanes if h.computed.shape[0] == out.computed.shape[0] else lanes % lanes_of(h)


def _same(entry: Entry, wanted: np.ndarray, op: str, **attrs: Any) -> Step:
    out = entry.outs[0]
    return Step([(h, aligned(h, out, wanted)) for h in entry.args], op, {**entry.attrs, **attrs})


def _cast(cut: Cutter, entry: Entry, out: int, wanted: np.ndarray) -> Step:
    from render.slice.cut import exact_cast

    step = _same(entry, wanted, "cast")
    return Step(step.links) if exact_cast(entry.attrs["src"], entry.attrs["dst"]) else step


def _from_integer(cut: Cutter, entry: Entry, out: int, wanted: np.ndarray) -> Step:
    truth = entry.args[0].dtype.scalar.is_int1()
    return _same(entry, wanted, "from_truth" if truth else "from_integer")


def _bits(cut: Cutter, entry: Entry, out: int, wanted: np.ndarray) -> Step:
    """Bits of an exact value are exact; those of a bounded one are tainted anyway."""
    cut.note("bits reinterpreted as a number are taken as the run has them")
    return Step([])


def _select(cut: Cutter, entry: Entry, out: int, wanted: np.ndarray) -> Step:
    from render.slice.cut import at_lanes

    cond, x, y = entry.args
    h = entry.outs[0]
    at, at_x, at_y = (aligned(a, h, wanted) for a in (cond, x, y))
    if id(cond) in cut.recorder.soft:
        return Step([(cond, at), (x, at_x), (y, at_y)], "select", {})
    truth = at_lanes(cond, cond.v, at).astype(bool)
    return Step([(x, np.where(truth, at_x, ABSENT)), (y, np.where(truth, ABSENT, at_y))])


def _load(cut: Cutter, entry: Entry, out: int, wanted: np.ndarray) -> Step:
    from render.slice.cut import at_lanes

    h = entry.outs[0]
    ptr, active = entry.attrs["ptr"], entry.attrs["active"]
    full = np.unravel_index(wanted, (h.computed.shape[0], *h.shape))
    addresses, on = ptr[full], active[full]
    links = [(o, np.where(on, ABSENT, aligned(o, h, wanted))) for o in entry.args]
    bounded = on & (at_lanes(h, h.pair[0], wanted) != at_lanes(h, h.pair[1], wanted))
    if bounded.any():
        links += _earlier(cut, entry, addresses, bounded)
    return Step(links, attrs={"addresses": np.where(on, addresses, 0)})


def _earlier(cut: Cutter, entry: Entry, addresses: np.ndarray, bounded: np.ndarray) -> list[Link]:
    """What recorded stores put at these addresses before, if the last of them was a plain store."""
    links: list[Link] = []
    open_ = bounded.copy()
    before = cut.place[id(entry)]
    for store in reversed([s for s in cut.stores if cut.place[id(s)] < before]):
        if not open_.any():
            break
        ptr, active = store.attrs["ptr"], store.attrs["active"]
        hit = active & np.isin(ptr, addresses[open_])
        if not hit.any():
            continue
        value = store.args[0] if store.args else None
        places = np.flatnonzero(hit.reshape(-1))
        order = np.argsort(ptr.reshape(-1)[places], kind="stable")
        known = ptr.reshape(-1)[places][order]
        at = np.searchsorted(known, addresses, side="right") - 1
        found = open_ & (at >= 0) & (known[np.maximum(at, 0)] == addresses)
        if store.op == "store" and value is not None:
            lanes = places[order][np.maximum(at, 0)]
            lanes = lanes if value.computed.shape[0] == ptr.shape[0] else lanes % lanes_of(value)
            links.append((value, np.where(found, lanes, ABSENT)))
        open_ &= ~found
    return links


def _reduce(cut: Cutter, entry: Entry, out: int, wanted: np.ndarray) -> Step:
    (x,), h = entry.args, entry.outs[0]
    kind, axis = entry.attrs["kind"], entry.attrs["axis"]
    if kind not in REDUCED:
        raise NotSliceable(f"reduce {kind}", "only sums, products and extrema of floats are followed", *_where(entry))
    at = list(np.unravel_index(wanted, (h.computed.shape[0], *h.shape)))
    n = x.shape[axis]
    at[0] = at[0] if x.computed.shape[0] > 1 else np.zeros_like(at[0])
    index: list[Any] = [a[:, None] for a in at]
    index.insert(axis + 1, np.arange(n)[None, :])
    lanes = np.ravel_multi_index(np.broadcast_arrays(*index), (x.computed.shape[0], *x.shape))
    return Step([(x, lanes)], kind, {"fmt": _fmt(x)})


def _scan(cut: Cutter, entry: Entry, out: int, wanted: np.ndarray) -> Step:
    (x,), axis = entry.args, entry.attrs["axis"]
    at = list(np.unravel_index(wanted, (x.computed.shape[0], *x.shape)))
    n = x.shape[axis]
    place = np.arange(n)[None, :]
    here = at[axis + 1][:, None]
    index: list[Any] = [a[:, None] for a in at]
    index[axis + 1] = place
    lanes = np.ravel_multi_index(np.broadcast_arrays(*index), (x.computed.shape[0], *x.shape))
    inside = place >= here if entry.attrs["reverse"] else place <= here
    return Step([(x, np.where(inside, lanes, ABSENT))], entry.attrs["kind"], {"fmt": _fmt(x), "scan": True})


def _dot(cut: Cutter, entry: Entry, out: int, wanted: np.ndarray) -> Step:
    a, b, acc = entry.args[:3]
    h = entry.outs[0]
    at = np.unravel_index(wanted, (h.computed.shape[0], *h.shape))
    lead, row, column = at[:-2], at[-2], at[-1]
    k = np.arange(a.shape[-1])

    def operand(x: Handle, *last: np.ndarray) -> np.ndarray:
        where = [
            np.zeros_like(row)[:, None] if x.computed.shape[0] == 1 else lead[0][:, None],
            *(i[:, None] for i in lead[1:]),
        ]
        return np.ravel_multi_index(np.broadcast_arrays(*where, *last), (x.computed.shape[0], *x.shape))

    left = operand(a, row[:, None], k[None, :])
    right = operand(b, k[None, :], column[:, None])
    return Step([(acc, aligned(acc, h, wanted)), (a, left), (b, right)], "dot", entry.attrs)


def _fadd(cut: Cutter, entry: Entry, out: int, wanted: np.ndarray) -> Step:
    if "fold" not in entry.attrs:
        return _same(entry, wanted, "fadd")
    step = _same(entry, wanted, "fold")
    links = step.links if entry.attrs["fold"] == 1 else step.links[::-1]
    return Step(links, "fold", {k: v for k, v in entry.attrs.items() if k != "fold"})


def _fmt(h: Handle) -> str:
    from render.slice.recorder import _format_name

    return _format_name(h)


def _where(entry: Entry) -> tuple[str, int]:
    return entry.site.file, entry.site.line


def _order(cut: Cutter, entry: Entry, out: int, wanted: np.ndarray) -> Step:
    raise NotSliceable(entry.op, "what it returns depends on the order of the programs", *_where(entry))


_RULES: dict[str, Callable[[Cutter, Entry, int, np.ndarray], Step]] = {
    "fp_trunc": _cast,
    "fp_ext": _cast,
    "fp_to_fp": _cast,
    "si_to_fp": _from_integer,
    "ui_to_fp": _from_integer,
    "bitcast": _bits,
    "select": _select,
    "load": _load,
    "reduce": _reduce,
    "scan": _scan,
    "dot": _dot,
    "returned": _order,
}
