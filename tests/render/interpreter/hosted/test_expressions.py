"""A float that turns up after others have left is known where the code computes it in plain sight."""

from __future__ import annotations

import linecache
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from render.interpreter.session import Session

LOG2E = 1.4426950408889634


def decay(d, base=500.0):
    return -math.log(base) / d


def ones(s, n=1):
    """A helper that gets the number, as launchers hand it on."""
    return torch.ones(n, dtype=torch.float64) * s


@dataclass
class Config:
    width: int


def of_sizes(x):
    m = x[0].item()
    return ones(m), ones(1.0 / math.sqrt(x.shape[-1]))


def of_constants(x):
    float(x[0])
    rows, d = x.shape[0], x.numel()
    scale = (d + rows) ** -0.5
    scale *= LOG2E
    return ones(scale)


def unpacked(x):
    float(x[0])
    *_, d = x.view(1, -1).shape
    return ones(d**-0.25)


class Anything:
    """Of a logger or a mock: whatever is asked of it is one more, and it is equal to nothing."""

    def __getattr__(self, name):
        return Anything()

    def __call__(self, *args):
        return Anything()

    def __eq__(self, other):
        raise ValueError("ask somebody else")

    __hash__ = None


def logged(x):
    log = Anything()
    m = float(x[0])
    log("scale", m)
    log.of(2.5).info(0.5 * m)
    log(3.25)
    return ones(1.0 / math.sqrt(x.numel()))


def looped(x):
    float(x[0])
    return torch.tensor([10000 ** (-2 * i / 8) for i in range(4)], dtype=torch.float64)[3:]


def conditional(x):
    m = x[0].item()
    return ones(math.exp(-1 / Config(x.numel()).width) if m > 0 else 0.3)


PURE = {
    "called": (lambda x: (float(x[0]), ones(decay(x.numel())))[1], -math.log(500) / 2),
    "sizes": (lambda x: of_sizes(x)[1], 2**-0.5), "constants": (of_constants, 4**-0.5 * LOG2E),
    "unpacked": (unpacked, 2**-0.25), "passed": (lambda x: passed(x), 2**-0.5 * LOG2E / 11),
    "looped": (looped, 10000**-0.75), "logged": (logged, 2**-0.5),
    "numpy": (lambda x: (float(x[0]), ones(np.sqrt(2.0 / x.shape[0] / 3)))[1], math.sqrt(1 / 3)),
    "finfo": (lambda x: (float(x[0]), ones(torch.finfo(torch.float16).max / 7.0))[1], 65504 / 7),
    "names of sizes": (lambda x: sizes_apart(x), 2 / 11 * 2 / 0.3),
    "lambda": (lambda x: (float(x[0]), ones((lambda d: 1 / d)(x.numel() + 1)))[1], 1 / 3),
}  # fmt: skip


def step(x):
    top, low = float(x.max()), float(x[0])
    width = (top - low) / 255
    return ones(1 / width)


def clipped(x):
    norm = float(x[0])
    return ones(min(1.0, 1.0 / (norm + 1e-6)))


def taken_again(x):
    s = float(x[0]) * 3
    z = s + 1
    s = 0.25
    return ones(z) if s else x


def taken_apart(x):
    m = float(x[0])
    a, c = 3 * m, m + 4
    z = c / 7
    a = c = 0.25
    return ones(z) if a + c else x


def grown(x):
    s = float(x[0])
    s *= 2
    s += 1.5
    z = s / 3
    s = 0.25
    return ones(z) if s else x


def annotated(x):
    m = float(x[0])
    s: float = m + 0.5
    if (t := s / 3) > 0:
        z = t * 7
    s = t = 0.25
    return ones(z) if s + t else x


def sizes_apart(x):
    float(x[0])
    (n,) = x.size()
    z = n / 11
    (d,) = x.shape
    y = z * d / 0.3
    n = d = 7
    return ones(y) if n + d else x


OPEN = {  # as a function of the element
    "taken again": (taken_again, lambda t: 3 * t + 1), "taken apart": (taken_apart, lambda t: (t + 4) / 7),
    "grown": (grown, lambda t: (2 * t + 1.5) / 3), "annotated": (annotated, lambda t: (t + 0.5) / 3 * 7),
    "over": (lambda x: ones(float(x[0]) / 127), lambda t: t / 127),
    "step": (step, lambda t: 255 / (2 - t)), "clipped": (clipped, lambda t: min(1.0, 1 / (t + 1e-6))),
    "root": (lambda x: ones(1 / np.sqrt(float(x[0]) + 1e-5)), lambda t: (t + 1e-5) ** -0.5),
    "float32": (lambda x: ones(448.0 / float(np.float32(x[0].item()))), lambda t: 448 / t),
    "power": (lambda x: ones(2.0 ** -math.log2(float(x[0]))), lambda t: 1 / t),
    "largest": (lambda x: ones(max(float(x[0]), 0.25) / 7), lambda t: t / 7),
    "largest of three": (lambda x: ones(max(0.25, 3 * float(x[0]), 0.5) / 7), lambda t: 3 * t / 7),
    "norm": (lambda x: ones(math.hypot(float(x[0]), 1.5) / 7), lambda t: math.hypot(t, 1.5) / 7),
    "raised": (lambda x: ones(pow(float(x[0]), 1.5) / 7), lambda t: t**1.5 / 7),
}  # fmt: skip


def made(function):
    x = torch.tensor([1.03, 2.0])
    with Session() as session:
        session.memory.carry(x, np.array([0.9, 2.0]), np.array([1.1, 2.0]), frozenset())
        found = session.envelope(function(x))
    return found, {session.taints[i].code for i in found.taints} if found else set()


@pytest.mark.parametrize("name", PURE)
def test_what_rests_on_nothing_that_left_is_a_point(name):
    function, value = PURE[name]
    found, codes = made(function)
    assert not codes
    assert found is None or (found.lo == found.hi and found.lo == pytest.approx(value, rel=1e-15))


@pytest.mark.parametrize("name", OPEN)
def test_what_python_made_of_a_number_has_its_bounds(name):
    function, exact = OPEN[name]
    found, codes = made(function)
    assert not codes
    lo, hi = sorted((exact(0.9), exact(1.1)))
    assert found.lo <= lo * (1 + 1e-15) and found.hi >= hi * (1 - 1e-15)
    # where a part of the expression has the same value it may have been that
    assert found.lo >= lo * (1 - 1e-6) and found.hi <= (1 / 0.9 if name == "clipped" else hi) * (1 + 1e-6)


def whole(x):
    k = int(float(x[0]) * 100)
    return ones(k / 7)


def rounded(x):
    share = round(float(x[0]) * 12) / 44  # 3 / 11, which the next line computes of sizes, too
    return ones(share) if (x.numel() + 1) / 11 > 0 else x


def handed(x, scale, n):
    return ones(scale * LOG2E / n)


def passed(x):
    """What a caller computed is an argument here."""
    m = x[0].item()
    return handed(x, x.numel() ** -0.5, x.numel() + 9) if m > 0 else x


def whole_of_number(x):
    k = int(float(x[0].item()) * 100)
    return ones(k / 7)


def whole_handed(x):
    return handed(x, 3 / 7, int(float(x[0].item()) * 1000))


UNKNOWN = {
    "whole of a number": whole_of_number, "whole handed on": whole_handed,
    "whole": whole, "rounded": rounded, "gamma": lambda x: ones(math.gamma(float(x[0]))),
    "text": lambda x: ones(float(f"{float(x[0]):.2f}7")),
    "numpy": lambda x: ones(float(np.cumsum(x.numpy())[1])),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_nobody_followed_is_unknown(name):
    assert "RND302" in made(UNKNOWN[name])[1]


def test_names_that_rest_on_each_other_in_many_ways_end_soon():
    """Each name has three values of names that do: what is asked of one is looked up for the others."""
    lines = ["def run(x):", "    a0 = float(x[0])"]
    for i in range(60):
        lines += [f"    a{i + 1} = a{i} * {k}.5 + a{i}" for k in range(3)]
    text = "\n".join([*lines, "    return ones(a60 * 0 + math.gamma(a0))"])
    name = "/programs/names.py"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    space = {"ones": ones, "math": math}
    exec(compile(text, name, "exec"), space)
    assert made(space["run"])[1] == {"RND302"}
