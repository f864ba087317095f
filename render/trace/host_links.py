"""What one host operation does to single elements: the nodes that lead from its operands to its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map

from interval_ops.formats.casting import holds
from interval_ops.formats.model import FP32, Format
from render.interpreter.hosted.call import host_profile
from render.interpreter.memory.strided import FORMAT_OF
from render.ops.aten import ATEN, Form, base_name
from render.trace.host import HostStep
from render.trace.model import NotSliceable


@dataclass(frozen=True)
class Number:
    """A Python number as an operation reads it: the number itself, or the nearest one of fp32."""

    low: float
    high: float


Source = torch.Tensor | Number
Link = tuple[Source, np.ndarray]
"""A tensor or number, and for each wanted element the flat numbers that are read."""


@dataclass
class Plan:
    """Operations one after the other: the first reads `links`, each later one the result before and `extra`."""

    links: list[Link]
    chain: list[tuple[str, dict[str, Any], list[Link]]] = field(default_factory=list)


def plan(step: HostStep, wanted: np.ndarray) -> Plan:
    """Raises NotSliceable for an operation that is not known."""
    name = base_name(step.name)
    if name in ATEN and ATEN[name].form is Form.MOVE and name != "copy":
        return Plan(_moved(step, wanted))
    rule = _RULES.get(name)
    if rule is None:
        raise NotSliceable(step.name, "it is not known which elements its result depends on", step.file, step.line)
    return rule(step, wanted)


def _shape(step: HostStep) -> tuple[int, ...]:
    assert step.out is not None
    return step.out.v.shape


def _same(x: Any, step: HostStep, wanted: np.ndarray, fmt: Format) -> Link:
    """The elements of an operand that broadcasts to the result."""
    if not isinstance(x, torch.Tensor):
        near = float(np.float32(x)) if fmt.bits < 64 else float(x)
        return Number(min(float(x), near), max(float(x), near)), np.zeros(wanted.shape, np.int64)
    numbers = np.arange(x.numel()).reshape(tuple(x.shape))
    return x, np.broadcast_to(numbers, _shape(step)).reshape(-1)[wanted]


def _fmt(step: HostStep) -> Format:
    assert step.out is not None
    return FORMAT_OF[step.out.tensor.dtype]


def _elementwise(op: str, operands: Callable[[HostStep], list[Any]] | None = None) -> Any:
    def rule(step: HostStep, wanted: np.ndarray) -> Plan:
        fmt = _fmt(step)
        args = [a for a in (step.args if operands is None else operands(step)) if a is not None]
        return Plan([_same(a, step, wanted, fmt) for a in args], [(op, {"fmt": fmt.name}, [])])

    return rule


def _clamp(step: HostStep, wanted: np.ndarray) -> Plan:
    names = ("min", "max")
    given = dict(zip(names, step.args[1:3], strict=False)) | {k: step.kwargs[k] for k in names if k in step.kwargs}
    fmt = _fmt(step)
    chain = [(op, {"fmt": fmt.name}, [_same(given[k], step, wanted, fmt)]) for k, op in
             (("min", "maxnumf"), ("max", "minnumf")) if given.get(k) is not None]  # fmt: skip
    return Plan([_same(step.args[0], step, wanted, fmt)], chain)


def _reduced(kind: str, mean: bool = False) -> Any:
    def rule(step: HostStep, wanted: np.ndarray) -> Plan:
        x = step.args[0]
        given = step.args[1] if len(step.args) > 1 else step.kwargs.get("dim")
        dims = [given] if isinstance(given, int) else list(given or [])
        axes = sorted(d % x.dim() for d in dims) or list(range(x.dim()))
        rest = [d for d in range(x.dim()) if d not in axes]
        numbers = np.arange(x.numel()).reshape(tuple(x.shape)).transpose(rest + axes)
        rows = numbers.reshape(int(np.prod([x.shape[d] for d in rest], dtype=np.int64)), -1)[wanted]
        fmt, source = _fmt(step), FORMAT_OF[x.dtype]
        if kind != "sum":
            return Plan([(x, rows)], [(kind, {"fmt": source.name}, [])])
        inner = fmt if fmt.bits >= 32 else FP32
        chain: list[Any] = [("sum", {"fmt": inner.name, "scan": True}, [])]
        if mean:
            count = Number(float(rows.shape[1]), float(rows.shape[1]))
            chain.append(("precise_divf", {"fmt": inner.name}, [(count, np.zeros(wanted.shape, np.int64))]))
        return Plan([(x, rows)], [*chain, *_casts(inner, fmt)])

    return rule


def _casts(src: Format, dst: Format) -> list[Any]:
    """torch's conversion: to nearest even; fp64 reaches narrower formats through fp32."""
    if holds(dst, src):
        return []
    through = [src, FP32, dst] if src.bits == 64 and dst.bits < 32 else [src, dst]
    profile = host_profile()
    return [
        ("cast", {"src": a.name, "dst": b.name, "mode": "rtne",
                  "overflow": profile.cast_overflow.get(b.name, "inf" if b.has_inf else "either")}, [])
        for a, b in pairwise(through)
    ]  # fmt: skip


def _converted(source: Callable[[HostStep], torch.Tensor]) -> Any:
    def rule(step: HostStep, wanted: np.ndarray) -> Plan:
        x = source(step)
        if x.dtype not in FORMAT_OF:
            raise NotSliceable(step.name, "it converts from another type", step.file, step.line)
        return Plan([_same(x, step, wanted, _fmt(step))], _casts(FORMAT_OF[x.dtype], _fmt(step)))

    return rule


def _moved(step: HostStep, wanted: np.ndarray) -> list[Link]:
    """The operation on element numbers, twice with other offsets: what does not move with them is a constant."""
    tensors = [b.tensor for b in step.blocks.values()]
    starts, total = {}, 0
    for t in tensors:
        starts[id(t)] = total
        total += t.numel()
    found = [_run(step, starts, offset).reshape(-1)[wanted] for offset in (2.0**40, 2.0**41)]
    moves = found[1] - found[0] == 2.0**40
    number = np.where(moves, found[0] - 2.0**40, -1).astype(np.int64)
    links: list[Link] = []
    for t in tensors:
        mine = (number >= starts[id(t)]) & (number < starts[id(t)] + t.numel())
        links.append((t, np.where(mine, number - starts[id(t)], -1)))
    return links


def _run(step: HostStep, starts: dict[int, int], offset: float) -> np.ndarray:
    def pick(t: Any) -> Any:
        if not isinstance(t, torch.Tensor) or id(t) not in starts:
            return t
        first = starts[id(t)] + offset
        return torch.arange(t.numel(), dtype=torch.float64).reshape(t.shape) + first

    kwargs = {k: v for k, v in step.kwargs.items() if k not in ("out", "memory_format")}
    found: np.ndarray = step.func._overloadpacket(*tree_map(pick, step.args), **tree_map(pick, kwargs)).numpy()
    return found


_INTEGRAL = {"floor": "floor", "ceil": "ceil", "trunc": "library trunc", "round": "library rint"}
_RULES: dict[str, Callable[[HostStep, np.ndarray], Plan]] = {
    "add": _elementwise("fadd", lambda s: list(s.args[:2])),
    "sub": _elementwise("fsub", lambda s: list(s.args[:2])),
    "rsub": _elementwise("fsub", lambda s: [s.args[1], s.args[0]]),
    "mul": _elementwise("fmul", lambda s: list(s.args[:2])),
    "div": _elementwise("precise_divf", lambda s: list(s.args[:2])),
    "reciprocal": _elementwise("precise_divf", lambda s: [1.0, s.args[0]]),
    "neg": _elementwise("fneg", lambda s: [s.args[0]]),
    "abs": _elementwise("fabs", lambda s: [s.args[0]]),
    "relu": _elementwise("maxnumf", lambda s: [s.args[0], 0.0]),
    "maximum": _elementwise("maxnumf", lambda s: list(s.args[:2])),
    "minimum": _elementwise("minnumf", lambda s: list(s.args[:2])),
    "clamp": _clamp,
    "clamp_min": _elementwise("maxnumf", lambda s: list(s.args[:2])),
    "clamp_max": _elementwise("minnumf", lambda s: list(s.args[:2])),
    **{name: _elementwise(op, lambda s: [s.args[0]]) for name, op in _INTEGRAL.items()},
    "amax": _reduced("max"),
    "amin": _reduced("min"),
    "sum": _reduced("sum"),
    "mean": _reduced("sum", mean=True),
    "_to_copy": _converted(lambda s: s.args[0]),
    "copy": _converted(lambda s: s.args[1]),
}
"""By name without `aten::` and without the underscore of an in-place form."""

KNOWN = frozenset(_RULES)
__all__ = ["KNOWN", "Number", "Plan", "plan"]
