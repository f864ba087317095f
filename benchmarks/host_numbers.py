"""Random programs of numbers that left torch, attacked: Python's arithmetic, decisions, lists, numpy, small functions.

    python -m benchmarks.host_numbers [--programs N] [--seed N] [--width W ...]

A program takes numbers out of a vector (`.item()`, `float(t)`, `.tolist()`, `.numpy()`), computes with them, decides by
them, and makes a vector of the result. It runs once with a box around the vector, which the host code is followed from
(`render.interpreter.leaving`), and again without anything of ours for corners of the box and points in it: what comes
out has to lie within the bounds. What has a taint is left out. Nothing here knows a rule. Prints how much was checked
and the programs that left.
"""

from __future__ import annotations

import argparse
import linecache
import math
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from render.interpreter.session import Session

N, POINTS = 8, 12
Program = Callable[[torch.Tensor], torch.Tensor]
TAKEN = (
    "a, b, c = x.tolist()[:3]", "a = x[0].item(); b = x[1].item(); c = float(x[2])", "a, b, c = map(float, x[:3])",
    "a, b, c = (float(v) for v in x[:3])", "a = x.sum().item(); b = float(x.max()); c = float(x.mean().item())",
    "n = x.numpy(); a, b, c = float(n[0]), float(n[1]), n[2].item()", "a = float(x.norm()); b = x[0].item(); c = a / 2",
    "self = Held(float(x[0]), x[1].item()); a, b = self.first, self.second; c = self.both()",
)  # fmt: skip
NUMBERS = ("2", "0.5", "3", "1.7", "-0.3", "10", "0.1")
SMOOTH = (
    "abs({})", "-{}", "math.exp(math.tanh({}))", "math.sqrt(abs({}))", "math.sin({})", "math.tanh({})", "({}) ** 2",
    "math.log(abs({}) + 0.1)", "float({})", "np.float32({})", "np.sqrt(abs({}))", "math.degrees({})", "math.erf({})",
    "(1.0 if math.isfinite({}) else 7.0)", "(lambda t: t + 0.25)({})", "math.copysign({}, -1.0)", "shifted({})",
    "({} + {})", "({} - {})", "({} * {})", "({} / (abs({}) + 0.5))", "math.hypot({}, {})", "math.fsum([{}, {}])",
    "math.prod([{}, {}])", "sum([{}, {}])", "pow(abs({}) + 0.1, math.tanh({}))",
)  # fmt: skip
DECIDING = (
    "math.exp(min({}, 3))", "round({}, 1)", "int({} * 3)", "math.floor({})", "(({}) % 1.5)", "(({}) // 0.7)",
    "float(np.exp(min({}, 2.0)))", "math.frexp({})[0]", "clipped({})", "float(str({}))", "math.copysign(2.0, {})",
    "float(format({}, '.2f'))", "halved({})", "[3.0, 5.0][{} > 0.4]", "max({}, {})", "min({}, {})",
    "math.atan2({}, {})", "sorted([{}, {}])[0]", "float(np.maximum({}, {}))", "float(np.mean([{}, {}]))",
    "np.array([{}, {}]).max().item()",
    "divmod({}, abs({}) + 0.3)[1]", "picked({}, {})",
)  # fmt: skip
BACK = (
    "torch.full((4,), float({}))", "torch.ones(4) * ({})", "x[:4] + ({})", "torch.tensor([float({}), 1.0])",
    "x[:4] * ({}) - 1", "torch.from_numpy(np.array([{}]))", "x[:2] / (abs({}) + 1)", "torch.linspace(0, 1, 4) * ({})",
)  # fmt: skip
HEAD = """
def clipped(t):
    return min(max(t, -0.5), 0.5)
def shifted(t, by=0.125):
    s = t + by
    return s
def halved(t):
    if t > 1:
        t = t / 2
    return t
def picked(s, t):
    best = s
    for one in (s, t):
        if one < best:
            best = one
    return best
class Held:
    def __init__(self, first, second):
        self.first, self.second = first, second
    def both(self):
        return self.first if self.first > self.second else self.second
def run(x):
"""


def _expression(rng: random.Random, depth: int, names: list[str], forms: tuple[str, ...]) -> str:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(names) if rng.random() < 0.85 else rng.choice(NUMBERS)
    form = rng.choice(forms)
    holes = form.count("{")
    return form.format(*(_expression(rng, depth - 1, names, forms) for _ in range(holes)))


def source(seed: int) -> str:
    """The text of a program, a function `run` of a vector."""
    rng, names = random.Random(seed), ["a", "b", "c"]
    lines, forms = [rng.choice(TAKEN)], SMOOTH if seed % 2 else SMOOTH + DECIDING
    for i in range(rng.randrange(3)):
        lines.append(f"v{i} = {_expression(rng, 2, names, forms)}")
        names.append(f"v{i}")
    one = _expression(rng, 1, [*names, "q"], forms)
    turns = (f"for q in x.tolist()[:5]: t += {one}", f"for q in map(float, x): t = t + {one}")
    tests = (f"if {_expression(rng, 1, names, forms)} > 0.4: t = t + 1", f"t = 2 if {rng.choice(names)} < 0.2 else 5",
             f"while t < abs({rng.choice(names)}): t += 0.4")  # fmt: skip
    if rng.random() < 0.5:
        lines += ["t = 0.0", rng.choice(turns if seed % 2 else (*turns, *tests))]
        names.append("t")
    lines.append("return " + rng.choice(BACK).format(_expression(rng, 2, names, forms)))
    return HEAD + "".join(f"    {line}\n" for line in lines)


def program(seed: int) -> Program:
    """The program of a seed; its text can be read, as that of a file can."""
    text, name = source(seed), f"/programs/host_numbers_{seed}.py"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    space: dict[str, Any] = {"torch": torch, "np": np, "math": math}
    exec(compile(text, name, "exec"), space)
    run: Program = space["run"]
    return run


def attacked(seed: int, width: float) -> tuple[int, str] | None:
    """How many vectors lay within the bounds, and what left them; None for a program with a taint, or that fails."""
    run, rng = program(seed), np.random.default_rng(seed)
    middle = rng.normal(size=N) * rng.choice([0.5, 2.0])
    lo, hi = (torch.from_numpy(middle + way * width * np.abs(middle)).float() for way in (-1, 1))
    x = torch.from_numpy(middle).float()
    try:
        with Session() as session:
            session.memory.carry(x, lo.double().numpy(), hi.double().numpy(), frozenset())
            found = session.envelope(run(x))
            if found is None or found.taints:
                return None
    except (ArithmeticError, ValueError, TypeError):
        return None
    checked = 0
    for k in range(POINTS):
        corner = torch.from_numpy(rng.integers(0, 2, N)) > 0
        inner = (lo.double() + (hi.double() - lo.double()) * torch.from_numpy(rng.random(N))).float()
        try:
            made = run(torch.where(corner, lo, hi) if k else inner.clamp(lo, hi)).double().numpy()
        except (ArithmeticError, ValueError, TypeError):
            continue
        checked += 1
        outside = made.shape != found.lo.shape or ((made < found.lo) | (made > found.hi)).any()
        if outside:
            return checked, f"{seed}: {' | '.join(source(seed).split('def run(x):')[1].split(chr(10)))}"
    return checked, ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--width", type=float, nargs="+", default=[0.001, 0.05])
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    checked = followed = 0
    for width in asked.width:
        for seed in range(asked.seed, asked.seed + asked.programs):
            found = attacked(seed, width)
            if found is None:
                continue
            followed += 1
            checked += found[0]
            if found[1]:
                print(f"left at width {width}: {found[1]}")
    print(f"{checked} vectors of {followed} programs checked, {len(asked.width) * asked.programs - followed} tainted")


if __name__ == "__main__":
    main()
