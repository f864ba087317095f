"""Rounding errors of expressions over boxes of inputs, by two other methods and by ours, on the same expressions.

`python benchmarks/companions/baselines.py`. Baselines of our own, not the published tools:

    Gappa-style     forward: the range of every step, and its error from those of its operands, in intervals
                    e(x + y) = e_x + e_y + h(z),  e(x y) = |x| e_y + |y| e_x + e_x e_y + h(z), ...; h: half of a unit in
                    the last place of the largest value that is computed
    SATIRE-style    first order, backward: sum over all roundings of max |dy/dz_k| u max |z_k|, slopes as intervals
                    over the whole box, so that what cancels in a slope cancels; second-order terms are left out
    render          how far the bound of torch's float32 code reaches from its value, the worst of 4096 points
                    (512 of dots)
    seen            the largest error of that code at these points, against float64

All in float32, operations + - * / sqrt. Boxes and expressions are those of the FPBench collection (fpbench.org), for
which figures published for the tools themselves are in double precision and for other settings. Published for float32
are those of dots of n = 8 .. 128 numbers of [-1, 1], in units of 2^-24: Gappa 25, 92, 348, 1386, 5525, SATIRE 59 for
n = 8 and 8639 for n = 128; SATIRE charges the rounding of the inputs too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from render.interpreter.session import Session

U = 2.0**-24
Box = tuple[float, float]


def _hull(values: Sequence[float]) -> Box:
    """Ends moved out by an ulp of float64 each: the figures are read to three digits."""
    return math.nextafter(min(values), -math.inf), math.nextafter(max(values), math.inf)


def _add(x: Box, y: Box) -> Box:
    return _hull([x[0] + y[0], x[1] + y[1]])


def _mul(x: Box, y: Box) -> Box:
    return _hull([a * b for a in x for b in y])


def _most(x: Box) -> float:
    return max(abs(x[0]), abs(x[1]))


def _half_unit(most: float) -> float:
    """The largest rounding error of float32 results of at most `most`: a power of two is the end of its binade."""
    return 0.0 if most == 0 else math.ldexp(U, math.frexp(most)[1] - (math.frexp(most)[0] == 0.5) - 1)


@dataclass(eq=False)
class Step:
    """A step of an expression: its range, its error by the forward rule, its operands with their slopes, and the range
    of what is computed (`kept`; rounding is monotone)."""

    range: Box
    error: float
    operands: tuple[tuple[Step, Box], ...] = ()
    rounds: bool = True
    kept: Box | None = None

    @property
    def computed(self) -> Box:
        return self.kept or (self.range[0] - self.error, self.range[1] + self.error)

    def _made(self, range_: Box, error: float, *operands: tuple[Step, Box], kept: Box | None = None) -> Step:
        most = kept or (range_[0] - error, range_[1] + error)
        kept = float(np.float32(most[0])), float(np.float32(most[1]))
        return Step(range_, error + _half_unit(_most(kept)), operands, kept=kept)

    def __add__(self, other: Any) -> Step:
        y = lifted(other)
        kept = _add(self.computed, y.computed)
        slopes = (self, (1.0, 1.0)), (y, (1.0, 1.0))
        return self._made(_add(self.range, y.range), self.error + y.error, *slopes, kept=kept)

    __radd__ = __add__

    def __neg__(self) -> Step:
        kept = (-self.computed[1], -self.computed[0])
        return Step((-self.range[1], -self.range[0]), self.error, ((self, (-1.0, -1.0)),), False, kept)

    def __sub__(self, other: Any) -> Step:
        return self + -lifted(other)

    def __rsub__(self, other: Any) -> Step:
        return lifted(other) + -self

    def __mul__(self, other: Any) -> Step:
        y = lifted(other)
        range_ = _mul(self.range, y.range)
        if y is self:
            low = 0.0 if self.range[0] <= 0 <= self.range[1] else min(v * v for v in self.range)
            range_ = (low, range_[1])
        error = _most(self.range) * y.error + _most(y.range) * self.error + self.error * y.error
        kept = None if y is self else _mul(self.computed, y.computed)
        return self._made(range_, error, (self, y.range), (y, self.range), kept=kept)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Step:
        y = lifted(other)
        assert y.range[0] * y.range[1] > 0
        inverse = _hull([1 / v for v in y.range])
        range_, least = _mul(self.range, inverse), min(abs(v) for v in y.range)
        error = (self.error + _most(range_) * y.error) / (least - y.error)
        slope = _mul(range_, inverse)
        return self._made(range_, error, (self, inverse), (y, (-slope[1], -slope[0])))

    def __rtruediv__(self, other: Any) -> Step:
        return lifted(other) / self

    def sqrt(self) -> Step:
        range_ = _hull([math.sqrt(v) for v in self.range])
        slope = _hull([0.5 / v for v in range_])
        return self._made(range_, self.error * 0.5 / math.sqrt(self.range[0] - self.error), (self, slope))


def lifted(x: Any) -> Step:
    return x if isinstance(x, Step) else Step((float(x),) * 2, abs(x - float(torch.tensor(x))), (), float(x) != int(x))


def first_order(y: Step) -> float:
    """Sum over the roundings of max |dy/dz| u max |z|, slopes added up as intervals before they are taken."""
    order: list[Step] = []
    seen: set[int] = set()

    def visit(z: Step) -> None:
        if id(z) not in seen:
            seen.add(id(z))
            for operand, _ in z.operands:
                visit(operand)
            order.append(z)

    visit(y)
    slopes: dict[int, Box] = {id(y): (1.0, 1.0)}
    total = 0.0
    for z in reversed(order):
        slope = slopes[id(z)]
        own = z.error if not z.operands else U * _most(z.range) if z.rounds else 0.0
        total += _most(slope) * own
        for operand, by in z.operands:
            part = _mul(slope, by)
            slopes[id(operand)] = _add(slopes[id(operand)], part) if id(operand) in slopes else part
    return total


Expression = Callable[..., Any]


def root(x: Any) -> Any:
    return x.sqrt()


def jet(a: Any, b: Any) -> Any:
    t = (3 * a * a + 2 * b - a) / (a * a + 1)
    return a + (2 * a * t * (t - 3) + a * a * (4 * t - 6)) * (a * a + 1)


CASES: dict[str, tuple[Expression, tuple[Box, ...]]] = {
    "doppler1": (lambda u, v, t: (-(331.4 + 0.6 * t) * v) / ((331.4 + 0.6 * t + u) * (331.4 + 0.6 * t + u)),
                 ((-100.0, 100.0), (20.0, 20000.0), (-30.0, 50.0))),
    "rigidBody1": (lambda x, y, z: -(x * y) - 2 * y * z - x - z, ((-15.0, 15.0),) * 3),
    "verhulst": (lambda x: 4 * x / (1 + x / 1.11), ((0.1, 0.3),)),
    "predatorPrey": (lambda x: 4 * x * x / (1 + (x / 1.11) * (x / 1.11)), ((0.1, 0.3),)),
    "carbonGas": (lambda v: (35000000.0 + 0.401 * (1000 / v) * (1000 / v)) * (v - 1000 * 0.0000427)
                  - 1.3806503e-23 * 1000 * 300, ((0.1, 0.5),)),
    "turbine1": (lambda v, w, r: 3 + 2 / (r * r) - 0.125 * (3 - 2 * v) * (w * w * r * r) / (1 - v) - 4.5,
                 ((-4.5, -0.3), (0.4, 0.9), (3.8, 7.8))),
    "himmilbeau": (lambda a, b: (a * a + b - 11) * (a * a + b - 11) + (a + b * b - 7) * (a + b * b - 7),
                   ((-5.0, 5.0),) * 2),
    "sineOrder3": (lambda x: 0.954929658551372 * x - 0.12900613773279798 * (x * x * x), ((-2.0, 2.0),)),
    "sqroot": (lambda x: 1 + 0.5 * x - 0.125 * x * x + 0.0625 * x * x * x - 0.0390625 * x * x * x * x, ((0.0, 1.0),)),
    "norm": (lambda x, y: root(x * x + y * y), ((1.0, 100.0),) * 2),
    "jetEngine": (jet, ((-5.0, 5.0), (-20.0, 5.0))),
}  # fmt: skip


def figures(expression: Expression, boxes: Sequence[Box]) -> tuple[float, float, float, float]:
    """(Gappa-style, SATIRE-style, render's reach at points, the largest error seen)."""
    y = expression(*(Step(box, 0.0) for box in boxes))
    generator = torch.Generator().manual_seed(7)
    points = [(torch.rand(4096, generator=generator) * (hi - lo) + lo) for lo, hi in boxes]
    with Session(device="torch-cpu") as session:
        out = expression(*points)
    bound = session.envelope(out)
    assert bound is not None
    value, exact = out.double().numpy(), expression(*(p.double() for p in points)).numpy()
    reach = float(np.maximum(bound.hi - value, value - bound.lo).max())
    return y.error, first_order(y), reach, float(np.abs(value - exact).max())


DOTS = {8: (25, 59), 16: (92, None), 32: (348, None), 64: (1386, None), 128: (5525, 8639)}
"""Published errors of dots over [-1, 1], Gappa's and SATIRE's, in units of 2^-24."""


def in_order(a: Sequence[Any], b: Sequence[Any]) -> Any:
    """A dot, left to right, every product and every sum rounded."""
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = total + x * y
    return total


def dot_figures(n: int) -> tuple[float, float, float, float, float]:
    """(Gappa-style, SATIRE-style, render's reach in this order, in any order, the largest error seen), in 2^-24."""
    exact, rounded = ([[Step((-1.0, 1.0), e) for _ in range(n)] for _ in range(2)] for e in (0.0, U))
    generator = torch.Generator().manual_seed(7)
    a, b = torch.rand(2, 512, n, generator=generator) * 2 - 1
    a[0] = b[0] = 1.0  # the largest sums
    a[1] = b[1] = 1 - 2**-23
    with Session(device="torch-cpu") as session:
        told = in_order(list(a.T.contiguous()), list(b.T.contiguous()))
        free = (a * b).sum(1)
    reaches = []
    for out in (told, free):
        bound = session.envelope(out)
        assert bound is not None
        reaches.append(float(np.maximum(bound.hi - out.double().numpy(), out.double().numpy() - bound.lo).max()))
    seen = float((told.double() - (a.double() * b.double()).sum(1)).abs().max())
    y = in_order(*exact).error, first_order(in_order(*rounded)), *reaches, seen
    return tuple(x / U for x in y)  # type: ignore[return-value]


def main() -> None:
    print("| n | Gappa | Gappa-style | SATIRE | SATIRE-style | render, this order | any order | seen |")
    print("|---|---|---|---|---|---|---|---|")
    for n, (gappa, satire) in DOTS.items():
        forward, backward, told, free, seen = dot_figures(n)
        ours = f"{told:.3g} | {free:.3g} | {seen:.2g}"
        print(f"| {n} | {gappa} | {forward:.4g} | {satire or ''} | {backward:.4g} | {ours} |")
    print()
    print("| expression | Gappa-style | SATIRE-style | render, at points | seen |")
    print("|---|---|---|---|---|")
    for name, (expression, boxes) in CASES.items():
        print(f"| {name} | " + " | ".join(f"{v:.3g}" for v in figures(expression, boxes)) + " |")


if __name__ == "__main__":
    main()
