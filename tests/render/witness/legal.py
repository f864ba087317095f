"""Random legal executions of a witness's computation, value by value: another order, other roundings, other errors.

Independent of the evaluator: values are single mpmath numbers, every operation makes one choice that the target allows.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np

from interval_ops.formats.model import FORMATS
from render.witness.document import Operation, operations

FP32 = FORMATS["fp32"]
LOG2E = mpmath.mpf(float(np.float32(1.4426950408889634)))

FUNCTIONS: dict[str, Any] = {
    "exp": mpmath.exp, "exp2": lambda x: mpmath.power(2, x), "log": mpmath.log, "log2": lambda x: mpmath.log(x, 2),
    "sin": mpmath.sin, "cos": mpmath.cos, "sqrt": mpmath.sqrt, "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "erf": mpmath.erf, "library tanh": mpmath.tanh, "precise_sqrt": mpmath.sqrt,
}  # fmt: skip
KEYS = {"precise_sqrt": "sqrt_rn", "library tanh": "tanh", "fdiv": "div", "precise_divf": "div_rn"}


def nearest(x: Any, fmt: Any, cut: bool = False) -> Any:
    """To nearest even (or towards zero) with gradual underflow, from the definition."""
    if not x or not mpmath.isfinite(x):
        return x
    exponent = max(int(mpmath.floor(mpmath.log(abs(x), 2))), fmt.emin)
    step = mpmath.ldexp(1, exponent - fmt.p + 1)
    q = x / step
    return (mpmath.floor(abs(q)) * mpmath.sign(q) if cut else mpmath.nint(q)) * step


class Execution:
    """One run through a document's operations; `rng` makes the choices."""

    def __init__(self, document: dict[str, Any], rng: np.random.Generator) -> None:
        self.document, self.rng = document, rng
        self.ops = operations(document)
        self.owner = {o.start + k: (o, k) for o in self.ops for k in range(o.size)}
        self.values: dict[int, Any] = {}
        self.tf32 = bool(rng.integers(2))

    def result(self) -> Any:
        with mpmath.workprec(300):
            for op in self.ops:
                for k in range(op.size):
                    self.values[op.start + k] = self._value(op, k)
            return self.values[int(self.document["root"])]

    def _round(self, x: Any, fmt: Any) -> Any:
        if fmt.p < FP32.p and self.rng.integers(2):
            x = nearest(x, FP32)
        return nearest(x, fmt)

    def _value(self, op: Operation, k: int) -> Any:
        if op.op == "leaf":
            low, high = (mpmath.mpf(float(side[k])) for side in (op.low, op.high))
            return low if self.rng.integers(2) else high
        if op.op in ("dot", "fold"):
            return self._dot(op, k)
        fmt = FORMATS[op.attrs["fmt"]] if "fmt" in op.attrs else FP32
        if op.op in ("sum", "atomic_sum", "max", "min"):
            return self._reduced(op, [self.values[n] for n in op.operands[0][k] if n >= 0], fmt)
        x = [self.values[o[k]] for o in op.operands]
        if op.op in FUNCTIONS or op.op in KEYS:
            return self._function(op.op, x, fmt)
        return self._elementwise(op, x, fmt)

    def _elementwise(self, op: Operation, x: list[Any], fmt: Any) -> Any:
        exact = {
            "fadd": lambda: x[0] + x[1], "fsub": lambda: x[0] - x[1], "fmul": lambda: x[0] * x[1],
            "fma": lambda: x[0] * x[1] + x[2],
        }.get(op.op)  # fmt: skip
        if exact is not None:
            fused = op.op == "fmul" and self.rng.random() < 0.3  # contracted into what follows
            return exact() if fused else self._round(exact(), fmt)
        return {
            "fneg": lambda: -x[0], "fabs": lambda: abs(x[0]),
            **dict.fromkeys(("maxnumf", "maximumf"), lambda: max(x)),
            **dict.fromkeys(("minnumf", "minimumf"), lambda: min(x)),
            "select": lambda: x[1] if x[0] else x[2],
            "fcmpOLT": lambda: x[0] < x[1], "fcmpOGT": lambda: x[0] > x[1], "fcmpOLE": lambda: x[0] <= x[1],
            "fcmpOGE": lambda: x[0] >= x[1], "fcmpOEQ": lambda: x[0] == x[1], "fcmpUNE": lambda: x[0] != x[1],
            "from_integer": lambda: nearest(x[0], FORMATS[op.attrs.get("dst", "fp32")]),
            "cast": lambda: nearest(x[0], FORMATS[op.attrs["dst"]], op.attrs["mode"] == "rtz"),
        }[op.op]()  # fmt: skip

    def _function(self, name: str, x: list[Any], fmt: Any) -> Any:
        error = self.document["rules"]["functions"][f"{KEYS.get(name, name)} {fmt.name}"]
        wide = fmt if fmt.bits == 64 else FP32
        if name == "exp" and self.document["rules"]["exp_via_exp2"] and wide is FP32:
            y = mpmath.power(2, nearest(x[0] * LOG2E, FP32)) if x[0] != -mpmath.inf else mpmath.mpf(0)
        else:
            y = x[0] / x[1] if name in ("fdiv", "precise_divf") else FUNCTIONS[name](x[0])
        if x[0] in (0, -mpmath.inf, mpmath.inf) and len(x) == 1:
            return y
        if error["r"] <= wide.u:
            y = nearest(y, wide)
        else:
            y *= 1 + error["r"] * (2 * mpmath.mpf(self.rng.random()) - 1)
        return y if fmt.bits >= 32 else nearest(y, fmt)

    def _reduced(self, op: Operation, terms: list[Any], fmt: Any) -> Any:
        if op.op in ("max", "min"):
            return max(terms) if op.op == "max" else min(terms)
        parts = [terms[i] for i in self.rng.permutation(len(terms))]
        while len(parts) > 1:
            at = int(self.rng.integers(len(parts) - 1)) if self.rng.integers(2) else 0
            parts[at : at + 2] = [self._round(parts[at] + parts[at + 1], fmt)]
        return parts[0]

    def _terms(self, op: Operation, k: int) -> tuple[list[tuple[Any, Any]], list[Any]]:
        """Products and addends of the whole chain."""
        products, addends = [], []
        places = (0,) if op.op == "dot" else (0, 1)
        if op.op == "dot":
            products = [
                (self.values[i], self.values[j]) for i, j in zip(op.operands[1][k], op.operands[2][k], strict=True)
            ]
        for place in places:
            n = op.operands[place][k]
            inner, at = self.owner[n]
            if inner.op in ("dot", "fold") and inner.attrs["kind"] == op.attrs["kind"]:
                more = self._terms(inner, at)
                products, addends = products + more[0], addends + more[1]
            else:
                addends.append(self.values[n])
        return products, addends

    def _dot(self, op: Operation, k: int) -> Any:
        model = self.document["rules"]["dots"][op.attrs["kind"]]
        products, addends = self._terms(op, k)
        if model["truncate"] == "tf32" and self.tf32:
            tf32 = FORMATS["tf32"]
            products = [(nearest(x, tf32, True), nearest(y, tf32, True)) for x, y in products]
        order = self.rng.permutation(len(products))
        acc = mpmath.mpf(0)
        for c in addends:
            acc = nearest(acc + c, FP32)
        if model["block"] == 1:
            for i in order:
                acc = nearest(acc + products[i][0] * products[i][1], FORMATS[model["acc"]])
            return acc
        for first in range(0, len(order), model["block"]):
            acc = self._block(acc, [products[i] for i in order[first : first + model["block"]]], model)
        return acc

    def _block(self, acc: Any, pairs: list[tuple[Any, Any]], model: dict[str, Any]) -> Any:
        products = [x * y for x, y in pairs]
        if model.get("apart"):  # the products are added among themselves, then to the accumulator
            return nearest(acc + nearest(_aligned(products, model), FP32), FP32)
        total = _aligned([acc, *products], model)
        if not total:
            return total
        unit = mpmath.ldexp(model["rho"], int(mpmath.floor(mpmath.log(abs(total), 2))))
        return mpmath.floor(abs(total) / unit) * unit * mpmath.sign(total)


def _aligned(terms: list[Any], model: dict[str, Any]) -> Any:
    """Their sum, each cut to the fraction bits below the largest."""
    known = [abs(t) for t in terms if t]
    if not known:
        return mpmath.mpf(0)
    top = max(int(mpmath.floor(mpmath.log(t, 2))) for t in known)
    grid = mpmath.ldexp(1, top - model["fraction"])
    return sum(mpmath.floor(abs(t) / grid) * grid * mpmath.sign(t) for t in terms)
