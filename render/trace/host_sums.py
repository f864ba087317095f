"""Slices through what is linear in its operands: which elements an operation adds or multiplies, asked of itself.

The derivative of one element of a sum by an operand is the factor of each of the operand's elements. Of sums of
products it is the other factors: where these are ones, how often the element takes part; where one of them holds the
numbers of its own elements, the number of the partner. torch knows these derivatives; evaluated in float64 they are
exact but for factors that are quotients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from interval_ops.formats.model import Format
from render.interpreter.hosted.products import SCATTERED, kind_of
from render.ops.aten import base_name
from render.trace.host_nodes import Making, Numbers
from render.trace.model import ABSENT, LEAF

WORK = 1 << 27
"""Derivatives that are looked at for one operation."""
FACTORS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("convolution", "_convolution", "mkldnn_convolution", "linear", "mkldnn_linear"),
                    ("input", "weight")),
    "addbmm": ("batch1", "batch2"),
    "addr": ("vec1", "vec2"),
    "_trilinear": ("i1", "i2", "i3"),
}  # fmt: skip
"""Operands whose products are added up, by their names in the schema."""
_ADDENDS = {"addbmm": "self", "addr": "self"}
_STORED = SCATTERED | {"index_put", "col2im", "segment_reduce", "scatter_reduce", "nll_loss_forward"}
"""Sums that are kept in the type of the result."""
_GIVEN = {"nll_loss_forward": "weight"}
"""Operands that a sum is not linear in."""

Fill = Callable[[str, torch.Tensor], torch.Tensor]


def added(make: Making) -> Numbers:
    """Sums with fixed factors."""
    name = base_name(make.step.name)
    if (how := make.argument("reduce", "sum")) not in ("sum", "mean"):
        raise make.refuse(f"what it takes of each group by {how!r} is not followed")
    operands = {n: t for n, t in make.named.items() if _is_float(t) and n != _GIVEN.get(name)}
    rows = _Slopes(make, operands, list(operands)).rows(lambda _, t: torch.zeros(t.shape, dtype=torch.float64))
    places = [[(k, i) for k, slopes in enumerate(row) for i in np.flatnonzero(slopes)] for row in rows]
    factors = _padded([[rows[w][k][i] for k, i in row] for w, row in enumerate(places)], 0.0)
    terms = np.full(factors.shape, ABSENT)
    for k, t in enumerate(operands.values()):
        at = _padded([[i if j == k else ABSENT for j, i in row] for row in places], ABSENT)
        terms = np.where(at == ABSENT, terms, make.read(t, at.astype(np.int64)))
    fmt = make.fmt if name in _STORED else make.inner
    if not (factors[terms != ABSENT] == 1).all():
        terms = _times(make, factors, or_zero(make, terms), fmt, _off(make, name, factors, fmt))
    return make.cast(make.total(terms, fmt), fmt, make.fmt)


def multiplied(make: Making) -> Numbers:
    """Sums of products of two or three operands, as dots of the target; then the addend, if there is one."""
    name = base_name(make.step.name)
    operands = {n: make.argument(n) for n in FACTORS[name]}
    left, *right = (or_zero(make, make.read(operands[n], at)) for n, at in _partners(make, operands).items())
    fmt, attrs = make.inner, {"fmt": make.inner.name}
    if len(right) == 1:
        found = make.dot(left, right[0], kind_of(make.fmt, convolution="conv" in name))
    else:
        found = make.total(make.node("fmul", attrs, make.node("fmul", attrs, left, right[0]), right[1]), fmt)
    return make.cast(_with_addend(make, found, make.argument(_ADDENDS.get(name, "bias"))), fmt, make.fmt)


def _with_addend(make: Making, found: Numbers, own: torch.Tensor | None) -> Numbers:
    attrs, alpha, beta = {"fmt": make.inner.name}, make.argument("alpha", 1), make.argument("beta", 1)
    if alpha != 1:
        found = make.node("fmul", attrs, found, make.constant(float(alpha), make.inner))
    if own is None or beta == 0:
        return found
    channels = own.dim() == 1 and len(make.shape) > 2 and "conv" in make.step.name
    side = (-1, *(1,) * (len(make.shape) - 2)) if channels else None
    addend = make.elements(own, None, side)
    if beta != 1:
        addend = make.node("fmul", attrs, addend, make.constant(float(beta), make.inner))
    return make.node("fadd", attrs, found, addend)


def _partners(make: Making, operands: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Places (size, n) of what is multiplied: of an operand whose elements take part once each, and of the others."""
    for pivot in operands:
        slopes = _Slopes(make, operands, [pivot])
        counts = [row[0] for row in slopes.rows(lambda _, x: torch.ones(x.shape, dtype=torch.float64))]
        if all(((c == 0) | (c == 1)).all() for c in counts):
            break
    else:
        raise make.refuse("an element takes part in more than one product of each sum")
    found = {pivot: _padded([np.flatnonzero(c).tolist() for c in counts], ABSENT)}
    for other in operands.keys() - {pivot}:
        rows = slopes.rows(partial(_numbered, other))
        found[other] = _padded([(row[0][row[0] != 0] - 1).tolist() for row in rows], ABSENT)
    return {name: at.astype(np.int64) for name, at in found.items()}


def _numbered(one: str, name: str, x: torch.Tensor) -> torch.Tensor:
    """The numbers of its elements from 1 on for that one operand, ones for others."""
    count = torch.arange(1, x.numel() + 1, dtype=torch.float64).reshape(x.shape)
    return count if name == one else torch.ones_like(count)


def _is_float(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()


class _Slopes:
    """Derivatives of the wanted elements of the result by the arguments `by`, at any `operands` (both by name)."""

    def __init__(self, make: Making, operands: dict[str, torch.Tensor], by: list[str]) -> None:
        self.make, self.operands, self.by = make, operands, by
        if make.size * sum(operands[n].numel() for n in by) > WORK:
            raise make.refuse("too many elements to ask which of them it adds")

    def rows(self, fill: Fill) -> list[list[np.ndarray]]:
        """For each wanted element and each operand of `by`, the derivative by its elements, flat."""
        with torch.enable_grad():
            made = {n: fill(n, t).requires_grad_(n in self.by) for n, t in self.operands.items()}
            out = self._result(made).reshape(-1)
            found = []
            for w in self.make.wanted.tolist():
                grads = torch.autograd.grad(out[w], [made[n] for n in self.by], retain_graph=True, allow_unused=True)
                found.append([np.zeros(self.operands[n].numel()) if g is None else g.reshape(-1).numpy()
                              for n, g in zip(self.by, grads, strict=True)])  # fmt: skip
        return found

    def _result(self, made: dict[str, torch.Tensor]) -> torch.Tensor:
        """Factors in front of a sum of products are not asked for."""
        name, make = base_name(self.make.step.name), self.make
        left = ("out", "alpha", "beta") if name in FACTORS else ("out",)
        args = [made[n] if n in made else self._still(make.named[n]) for n in self._positional()]
        kwargs = {k: made[k] if k in made else self._still(v) for k, v in make.step.kwargs.items() if k not in left}
        found = getattr(torch.ops.aten, name)(*args, **kwargs)
        out: torch.Tensor = found[0] if isinstance(found, (list, tuple)) else found
        return out

    def _positional(self) -> list[str]:
        arguments = self.make.step.func._schema.arguments
        return [a.name for a in arguments[: len(self.make.step.args)]]

    def _still(self, x: Any) -> Any:
        """What is asked nothing: an addend is nothing; what a sum is not linear in is as it is, if that is exact."""
        if not _is_float(x):
            return x
        block = self.make.step.blocks[id(x)]
        if base_name(self.make.step.name) in FACTORS:
            return torch.zeros(x.shape, dtype=torch.float64)
        if not np.array_equal(block.lo, block.hi):
            raise self.make.refuse("its weights have bounds")
        return torch.from_numpy(np.array(block.v, np.float64)).reshape(x.shape)


def _padded(rows: list[list[Any]], with_: float) -> np.ndarray:
    found = np.full((len(rows), max(1, *map(len, rows))), float(with_))
    for k, row in enumerate(rows):
        found[k, : len(row)] = row
    return found


def or_zero(make: Making, numbers: Numbers) -> Numbers:
    """Zeros where there is no element."""
    zero = np.zeros(1)
    nothing = make.cutter.add(LEAF, {"source": "constant"}, make.step, (), zero, zero, zero)
    return np.where(numbers == ABSENT, nothing, numbers)


def _times(make: Making, factors: np.ndarray, terms: Numbers, fmt: Format, off: np.ndarray) -> Numbers:
    """Each term times its factor: that number, or the nearest of fp32, and what is `off`; quotients are off by a
    rounding of float64."""
    near = np.float32(factors).astype(np.float64) if fmt.bits < 64 else factors
    room = np.where(np.float32(factors) == factors, 0.0, 2.0**-52 * np.abs(factors)) + off
    low, high = np.minimum(factors, near) - room, np.maximum(factors, near) + room
    flat = (factors.reshape(-1), low.reshape(-1), high.reshape(-1))
    attrs = {"source": "constant", "rounded": bool(np.any(off)) or None}
    numbers = make.cutter.add(LEAF, attrs, make.step, (), *flat)
    return make.node("fmul", {"fmt": fmt.name}, numbers.reshape(factors.shape), terms)


def _off(make: Making, name: str, factors: np.ndarray, fmt: Format) -> np.ndarray:
    """How far torch's own factors are off.

    Weights of an interpolation: places scale (i + 1/2) - 1/2 up to the extent L have four roundings, and a weight is a
    product of two numbers that are off by so much, and by one more of 1 - w. A weighted mean divides by a sum of
    weights, kept in the type of the result.
    """
    size: np.ndarray = np.abs(factors)
    if name.startswith("upsample"):
        size = max(make.step.args[0].shape[2:]) * np.sign(size)
        return 12 * make.inner.u * size
    return size * (factors.shape[1] + 4) * fmt.u if name == "nll_loss_forward" else 0.0 * size
