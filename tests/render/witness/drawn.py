"""Random documents: leaves that are numbers or intervals, and operations on what there is, with a device's figures."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np

from interval_ops.profiles.profile import load_profile
from render.witness.document import packed, runs
from tests.support import rng

ONE = ("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "precise_sqrt", "rsqrt", "erf", "fneg", "fabs")
TWO = ("fadd", "fsub", "fmul", "fdiv", "precise_divf", "maxnumf", "minnumf")
KEYS = {"precise_sqrt": "sqrt_rn", "fdiv": "div", "precise_divf": "div_rn"}
FORMATS = ("fp32", "fp16", "bf16", "fp64")


@cache
def rules(device: str) -> dict[str, Any]:
    profile = load_profile(device)
    functions = {}
    for name in (*ONE[:-2], "fdiv", "precise_divf"):
        key = KEYS.get(name, name)
        for fmt in FORMATS:
            error = profile.fn(key, fmt)
            functions[f"{key} {fmt}"] = {"r": error.r, "a": error.a, "ftz": error.ftz}
    dots = {kind: {k: v for k, v in asdict(profile.dot(kind)).items() if k != "source"} for kind in ("fp16", "tf32")}
    rest = dict.fromkeys(("trees", "atomic_flush", "library_flush"), False)
    return {"functions": functions, "dots": dots, "overflow": dict.fromkeys(FORMATS, "inf"), "double_rounding": {},
            "exp_via_exp2": profile.exp_via_exp2, **rest}  # fmt: skip


class Drawn:
    """`document` after some steps; `groups` are the numbers of what each made."""

    def __init__(self, device: str, seed: int) -> None:
        self.r, self.device, self.total = rng(seed), device, 0
        self.nodes: list[dict[str, Any]] = []
        self.groups: list[tuple[int, int]] = []

    @property
    def document(self) -> dict[str, Any]:
        return {"rules": rules(self.device), "nodes": self.nodes, "root": self.total - 1}

    def steps(self, count: int) -> Drawn:
        for size in (3, 3, 4):
            self.leaves(size)
        for _ in range(count):
            self.step(str(self.r.choice([*ONE, *TWO, *TWO, *TWO, "cast", "sum", "sum", "max", "min", "dot", "select"])))
        self.step("fadd")
        return self

    def step(self, op: str) -> None:
        fmt = {"fmt": str(self.r.choice(FORMATS, p=[0.7, 0.1, 0.1, 0.1]))}
        if op in ONE or op in TWO:
            self.node(op, 3, [self.some(3) for _ in range(1 + (op in TWO))], fmt)
        elif op == "fma":
            self.node(op, 3, [self.some(3) for _ in range(3)], fmt)
        elif op == "cast":
            dst, mode = str(self.r.choice(FORMATS[:3])), str(self.r.choice(["rtne", "rtz"]))
            self.node("cast", 4, [self.some(4)], {"src": "fp32", "dst": dst, "mode": mode})
        elif op in ("sum", "max", "min"):
            self.node(op, 2, [self.some(2, 5)], {"fmt": str(self.r.choice(["fp32", "fp16"]))})
        elif op == "dot":
            self.node("dot", 2, [self.some(2), self.some(2, 6), self.some(2, 6)],
                      {"kind": str(self.r.choice(["fp16", "tf32"])), "fmt": "fp32"})  # fmt: skip
        else:
            self.node("fcmpOLT", 3, [self.some(3), self.some(3)], {"fmt": "fp32"})
            self.groups.pop()
            self.node("select", 3, [np.arange(self.total - 3, self.total), self.some(3), self.some(3)], {"fmt": "fp32"})

    def node(self, op: str, size: int, operands: list[np.ndarray], attrs: dict[str, Any]) -> None:
        given = [{"runs": runs(o.reshape(-1))} | ({"width": o.shape[1]} if o.ndim > 1 else {}) for o in operands]
        self.nodes.append({"op": op, "size": size, "line": 1, "attrs": attrs, "operands": given})
        self._grown(size)

    def leaves(self, size: int, within: float = 0.7) -> None:
        """Some are intervals, up to a tenth of themselves wide."""
        low = self.r.normal(size=size) * 10.0 ** self.r.integers(-1, 2)
        low = np.abs(low) + 0.1 if self.r.integers(3) else low
        high = low + (self.r.random(size) < within) * np.abs(low) * 10.0 ** -self.r.uniform(1, 6)
        low, high = (x.astype(np.float32).astype(np.float64) for x in (low, high))
        self.nodes.append({"op": "leaf", "size": size, "line": 1, "attrs": {"fmt": "fp32"},
                           "low": packed(low), "high": packed(high)})  # fmt: skip
        self._grown(size)

    def some(self, *shape: int) -> np.ndarray:
        """Of one of the latest groups, so that values meet again."""
        start, size = self.groups[max(0, len(self.groups) - 1 - int(self.r.integers(3)))]
        return np.asarray(start + self.r.integers(size, size=shape))

    def _grown(self, size: int) -> None:
        self.groups.append((self.total, size))
        self.total += size
