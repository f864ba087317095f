"""Where the NaN or inf of an output element was made: the first operation on its way whose operands had none.

The element is traced back over a tape (`render.explain.trace`). An operation makes a NaN if one of the lanes that the
element depends on is NaN and no operand lane behind it is; likewise an infinity, from operands that are all finite, and
an infinite bound, from operands whose bounds are all finite. A load may bring one in: where an earlier launch stored
it, the walk goes on in that launch, else the tensor is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from render.explain.provenance import SHOWN
from render.explain.study import Study
from render.explain.tape import Node, sources
from render.explain.trace import Hop, Trace, trace
from render.interpreter.handle import Handle
from render.result.records import Origin


@dataclass(frozen=True)
class Kind:
    """What is looked for: lanes of a result (`bad`), and of an operand that explains it (`harmful`)."""

    name: str
    bad: Callable[[Handle], np.ndarray]
    harmful: Callable[[Handle], np.ndarray]


def lane_values(h: Handle) -> np.ndarray:
    """The value lane of the first program, in the block's shape."""
    return np.asarray(h.full(h.v)[0])


def _nan(h: Handle) -> np.ndarray:
    return np.isnan(lane_values(h))


def _inf(h: Handle) -> np.ndarray:
    return np.isinf(lane_values(h))


def _not_finite(h: Handle) -> np.ndarray:
    return ~np.isfinite(lane_values(h))


def _unbounded(h: Handle) -> np.ndarray:
    """Lanes with an infinite or unknown end; an infinity that is a point is a number like any other."""
    if h.is_point:
        return np.zeros(h.shape, bool)
    lo, hi = (h.full(end)[0] for end in h.pair)
    return np.asarray(~(np.isfinite(lo) & np.isfinite(hi)) & ~(lo == hi))


VALUES = (Kind("nan", _nan, _nan), Kind("inf", _inf, _not_finite))
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
    for node, wanted in reversed(hop.reached):
        for kind in kinds:
            for out, bad in _made(node, wanted, kind):
                memory = found.tensor_of(node) if node.op == "load" else ""
                example = _example(node, out, bad, kind)
                yield kind, Origin(kind.name, node.op, node.site.file, node.site.line, hop.pid, example, memory,
                                   hop.record.kernel, hop.launch)  # fmt: skip


def _loaded_from(hop: Hop, kinds: tuple[Kind, ...]) -> int | None:
    """The address of what the first bad lane was loaded from, if nothing in this launch made it."""
    for node, wanted in reversed(hop.reached):
        for kind in kinds:
            for _, bad in _made(node, wanted, kind):
                if node.op != "load":
                    return None
                assert node.ptr is not None
                return int(node.ptr[bad].flat[0])
    return None


def _passed(hop: Hop, kind: Kind) -> Iterator[int]:
    """Lines of results on the way that have it, in the order of execution."""
    for node, wanted in reversed(hop.reached):
        if any((kind.bad(o) & m).any() for o, m in zip(node.outs, wanted, strict=True) if is_float(o)):
            yield node.site.line


def _made(node: Node, wanted: list[np.ndarray], kind: Kind) -> Iterator[tuple[Handle, np.ndarray]]:
    """(result, lanes) of what this operation makes of operands that have none of it."""
    behind = [(h, np.broadcast_to(m, h.shape)) for h, m in sources(node, wanted) if is_float(h)]
    for out, mask in zip(node.outs, wanted, strict=True):
        if is_float(out):
            bad = kind.bad(out) & mask
            if bad.any() and (bad := bad & ~_behind(node, out, behind, kind.harmful)).any():
                yield out, bad


def _behind(
    node: Node, out: Handle, operands: list[tuple[Handle, np.ndarray]], harmful: Callable[[Handle], np.ndarray]
) -> np.ndarray:
    """Lanes of the result with something harmful behind them: lane by lane where the operation works so, else any."""
    found = np.zeros(out.shape, bool)
    for h, needed in operands:
        lanewise = node.axis < 0 and node.op != "dot" and h.shape in (out.shape, ())
        found |= harmful(h) & needed if lanewise else bool(harmful(h)[needed].any())
    return found


def _example(node: Node, out: Handle, bad: np.ndarray, kind: Kind) -> str:
    """`exp(89.3) = inf` for an elementwise operation, else nothing."""
    if node.axis >= 0 or node.op in ("dot", "load"):
        return ""
    lane = tuple(int(i) for i in np.argwhere(bad)[0])
    shown = []
    for h in node.operands[:SHOWN]:
        if h.shape not in (out.shape, ()) or not is_float(h):
            return ""
        shown.append(_number(h, lane if h.shape else (), kind))
    return f"{node.op}({', '.join(shown)}) = {_number(out, lane, kind)}"


def _number(h: Handle, lane: tuple[int, ...], kind: Kind) -> str:
    if kind.name != "bound" or h.is_point:
        return f"{float(lane_values(h)[lane]):.6g}"
    lo, hi = (float(h.full(end)[0][lane]) for end in h.pair)
    return f"[{lo:.6g}, {hi:.6g}]"


def is_float(h: Handle) -> bool:
    scalar = h.dtype.scalar
    return not scalar.is_ptr() and bool(scalar.is_floating())
