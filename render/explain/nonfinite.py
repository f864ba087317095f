"""Where the NaN or inf of an output element was made: the first operation on its way whose operands had none.

The element is traced back over what its program did (`render.explain.trace`). An operation makes a NaN if one of the
lanes that the element depends on is NaN and no operand lane behind it is; likewise an infinity, from operands that are
all finite, and an infinite bound, from operands whose bounds are all finite. A load may bring one in: where an earlier
launch stored it, the walk goes on in that launch, else the tensor is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from render.explain.provenance import SHOWN
from render.explain.study import Study
from render.explain.trace import Hop, Trace, trace
from render.interpreter.events import GIVEN
from render.interpreter.handle import Handle
from render.result.records import Origin
from render.trace.dependence import Reached
from render.trace.model import ABSENT
from render.trace.moves import at_lanes

Test = Callable[[Handle, np.ndarray], np.ndarray]
"""Which of these lanes of a handle have it."""


@dataclass(frozen=True)
class Kind:
    """What is looked for: lanes of a result (`bad`), and of an operand that explains it (`harmful`)."""

    name: str
    bad: Test
    harmful: Test


def _on_values(test: Callable[[np.ndarray], np.ndarray]) -> Test:
    return lambda h, lanes: test(at_lanes(h, h.v, lanes))


def _unbounded(h: Handle, lanes: np.ndarray) -> np.ndarray:
    """Lanes with an infinite or unknown end; an infinity that is a point is a number like any other."""
    if h.is_point:
        return np.zeros(lanes.shape, bool)
    lo, hi = (at_lanes(h, end, lanes) for end in h.pair)
    return np.asarray(~(np.isfinite(lo) & np.isfinite(hi)) & ~(lo == hi))


VALUES = (
    Kind("nan", _on_values(np.isnan), _on_values(np.isnan)),
    Kind("inf", _on_values(np.isinf), _on_values(lambda v: ~np.isfinite(v))),
)
BOUNDS = (Kind("bound", _unbounded, _unbounded),)


def origins(study: Study, output: str, index: tuple[int, ...], bounds: bool = False) -> list[Origin]:
    """The first NaN and the first infinity behind an element, the earlier one first; none where all is finite.

    `bounds`: the first infinite bound instead. Raises RenderError as `trace` does.
    """
    kinds = BOUNDS if bounds else VALUES
    found = trace(study, output, index, lambda hop: _loaded_from(hop, kinds), bounds)
    first: dict[str, Origin] = {}
    for hop in reversed(found.hops):
        for kind, origin in _all_made(found, hop, kinds):
            first.setdefault(kind.name, origin)
        for kind in kinds:
            if kind.name in first:
                passed = tuple(dict.fromkeys((*first[kind.name].lines, *_passed(hop, kind))))
                first[kind.name] = replace(first[kind.name], lines=passed)
    return list(first.values())


def _all_made(found: Trace, hop: Hop, kinds: tuple[Kind, ...]) -> Iterator[tuple[Kind, Origin]]:
    """In the order of execution."""
    for reached in reversed(hop.reached):
        for kind in kinds:
            bad = _made(reached, kind)
            if bad.any():
                site, op = reached.entry.site, reached.title
                yield kind, Origin(kind.name, op, site.file, site.line, hop.pid, _example(reached, bad, kind),
                                   found.tensor_of(reached), hop.record.kernel, hop.launch)  # fmt: skip


def _loaded_from(hop: Hop, kinds: tuple[Kind, ...]) -> int | None:
    """The address of what the first bad lane was loaded from, if nothing in this launch made it."""
    for reached in reversed(hop.reached):
        for kind in kinds:
            bad = _made(reached, kind)
            if bad.any():
                at = reached.lanes[bad & reached.read]
                return int(reached.entry.attrs["ptr"].reshape(-1)[at[0]]) if at.size else None
    return None


def _passed(hop: Hop, kind: Kind) -> Iterator[int]:
    """Lines of results on the way that have it, in the order of execution."""
    for reached in reversed(hop.reached):
        if is_float(reached.out) and reached.entry.op not in GIVEN and kind.bad(reached.out, reached.lanes).any():
            yield reached.entry.site.line


def _made(reached: Reached, kind: Kind) -> np.ndarray:
    """Which of the lanes have it though no lane that they are computed from has any of it."""
    if not is_float(reached.out) or reached.entry.op in GIVEN:
        return np.zeros(reached.lanes.shape, bool)
    bad = kind.bad(reached.out, reached.lanes)
    for h, lanes in reached.links if bad.any() else ():
        if is_float(h):
            there = (lanes != ABSENT) & kind.harmful(h, np.maximum(lanes, 0))
            bad = bad & ~(there.any(axis=1) if there.ndim == 2 else there)
    return bad


def _example(reached: Reached, bad: np.ndarray, kind: Kind) -> str:
    """`exp(89.3) = inf` for an elementwise operation, else nothing."""
    if reached.entry.op == "load":
        return ""
    shown = []
    for h, lanes in reached.links[:SHOWN]:
        if lanes.ndim == 2 or not is_float(h) or (lanes[bad] == ABSENT).any():
            return ""
        shown.append(_number(h, lanes[bad][:1], kind))
    return f"{reached.title}({', '.join(shown)}) = {_number(reached.out, reached.lanes[bad][:1], kind)}"


def _number(h: Handle, lane: np.ndarray, kind: Kind) -> str:
    if kind.name != "bound" or h.is_point:
        return f"{float(at_lanes(h, h.v, lane)[0]):.6g}"
    lo, hi = (float(at_lanes(h, end, lane)[0]) for end in h.pair)
    return f"[{lo:.6g}, {hi:.6g}]"


def is_float(h: Handle) -> bool:
    scalar = h.dtype.scalar
    return not scalar.is_ptr() and bool(scalar.is_floating())
