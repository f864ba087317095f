"""Where the NaN or inf of an output element was made: the first operation on its way whose operands had none.

The element is traced back over a tape (`render.explain.tape`). An operation makes a NaN if one of the lanes that the
element depends on is NaN and no operand lane behind it is; likewise an infinity, from operands that are all finite.
A load may bring one in: then the tensor is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from render.explain.provenance import SHOWN, Trace, trace
from render.explain.records import Origin
from render.explain.study import Study
from render.explain.tape import Node, sources
from render.interpreter.handle import Handle


def origins(study: Study, output: str, index: tuple[int, ...]) -> list[Origin]:
    """The first NaN and the first infinity behind an element, the earlier one first; none where all is finite."""
    found = trace(study, output, index)
    first: dict[str, Origin] = {}
    for node, wanted in reversed(found.reached):
        for kind, lane in _made(node, wanted):
            if kind not in first:
                first[kind] = Origin(
                    kind, node.op, node.site.file, node.site.line, found.pid, lane, _memory(found, node)
                )
    return list(first.values())


def _memory(found: Trace, node: Node) -> str:
    return found.tensor_of(node) if node.op == "load" else ""


def _made(node: Node, wanted: list[np.ndarray]) -> Iterator[tuple[str, str]]:
    """("nan" or "inf", the operation with the values of the first such lane) for what this operation makes."""
    behind = [(h, np.broadcast_to(m, h.shape)) for h, m in sources(node, wanted) if _is_float(h)]
    for out, mask in zip(node.outs, wanted, strict=True):
        if not _is_float(out):
            continue
        values = out.full(out.v)[0]
        for kind, test, harmful in (("nan", np.isnan, np.isnan), ("inf", np.isinf, lambda v: ~np.isfinite(v))):
            bad = test(values) & mask & ~_behind(node, out, behind, harmful)
            if bad.any():
                yield kind, _example(node, out, bad)


def _behind(
    node: Node, out: Handle, operands: list[tuple[Handle, np.ndarray]], harmful: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Lanes of the result with something harmful behind them: lane by lane where the operation works so, else any."""
    found = np.zeros(out.shape, bool)
    for h, needed in operands:
        lanewise = node.axis < 0 and node.op != "dot" and h.shape in (out.shape, ())
        found |= harmful(_values(h)) & needed if lanewise else bool(harmful(_values(h)[needed]).any())
    return found


def _example(node: Node, out: Handle, bad: np.ndarray) -> str:
    """`exp(89.3) = inf` for an elementwise operation, else nothing."""
    if node.axis >= 0 or node.op in ("dot", "load"):
        return ""
    lane = tuple(int(i) for i in np.argwhere(bad)[0])
    shown = []
    for h in node.operands[:SHOWN]:
        if h.shape not in (out.shape, ()) or not _is_float(h):
            return ""
        shown.append(f"{float(_values(h)[lane if h.shape else ()]):.6g}")
    return f"{node.op}({', '.join(shown)}) = {float(_values(out)[lane]):.6g}"


def _values(h: Handle) -> np.ndarray:
    return h.full(h.v)[0]


def _is_float(h: Handle) -> bool:
    scalar = h.dtype.scalar
    return not scalar.is_ptr() and bool(scalar.is_floating())
