"""What the text of a combine function is taken for, against the function itself: plain Python runs the same text.

Texts are drawn from a grammar of all that is read; the function that they define is run on numbers, and what was read
of them evaluated node by node. How a function moves with its operands is seen by moving them.
"""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support import rng, trials

from interval_ops.formats.model import FP32
from interval_ops.profiles.profile import load_profile
from render.interpreter.combine import parsed, selection
from render.interpreter.mean_forms import Motion, mean_of
from render.interpreter.means import along

OF_TWO = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "/": lambda x, y: x / y,
          "max": max, "min": min, "|": lambda x, y: int(x) | int(y)}  # fmt: skip
OF_ONE = {"exp": math.exp, "exp2": lambda x: 2.0**x, "log": math.log, "log2": math.log2, "sqrt": math.sqrt, "abs": abs,
          "log1p": math.log1p}  # fmt: skip


def cast(x: Any, dtype: Any) -> Any:
    return x


class Real(float):
    """A number with the methods of a tensor."""

    dtype = "own"

    def to(self, dtype: Any) -> Real:
        return self


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "neg", "abs"):
    setattr(Real, f"__{_name}__", (lambda f: lambda *xs: Real(f(*xs)))(getattr(float, f"__{_name}__")))

MATH = SimpleNamespace(fma=lambda x, y, z: x * y + z, **{k: OF_ONE[k] for k in ("exp", "exp2", "log", "log2", "sqrt")})
TL = SimpleNamespace(
    maximum=max, minimum=min, abs=abs, sqrt_rn=math.sqrt, cast=cast, math=MATH, float32="f", float64="d", float16="h",
    bfloat16="b", int32="i", where=lambda c, x, y: x if c else y, **vars(MATH),
)  # fmt: skip
SPACE = {"tl": TL, "libdevice": SimpleNamespace(log1p=math.log1p), "max": max, "min": min, "abs": abs, "float": float}


def function(source: str) -> Any:
    space = dict(SPACE)
    exec(source, space)
    return space["f"]


def value(e: tuple[Any, ...], known: dict[str, float]) -> float:
    """An expression as `combine` writes them."""
    name, *parts = e
    if name == "name":
        return known[parts[0]]
    if name == "number":
        return float(parts[0])
    if name.startswith("where"):
        asked, *rest = parts
        x = value(asked, known)
        tests = {"zero": x == 0, "flag": x == 1, "positive": x > 0, "equal": x == parts[1][1]}
        if name == "where equal":
            rest = rest[1:]
        return value(rest[0] if tests[name.split()[1]] else rest[1], known)
    xs = [value(p, known) for p in parts]
    if name in OF_TWO:
        out = xs[0]
        for x in xs[1:]:
            out = OF_TWO[name](out, x)
        return out
    return xs[0] if name.startswith("to ") else OF_ONE[name](xs[0])


def text(g: np.random.Generator, names: list[str], depth: int) -> str:
    if depth == 0 or g.random() < 0.15:
        return str(g.choice([*names, *names, "0.5", "2.0", "3", "1.0", "float('inf')"][: len(names) * 2 + 4]))
    x, y, z = (text(g, names, depth - 1) for _ in range(3))
    forms = [
        f"({x} + {y})", f"({x} - {y})", f"({x} * {y})", f"({x} / (tl.abs({y}) + 0.75))", f"tl.maximum({x}, {y})",
        f"tl.minimum({x}, {y})", f"max({x}, {y})", f"min({x}, {y})", f"(-{x})", f"tl.abs({x})", f"abs({x})",
        f"tl.exp(tl.minimum({x}, 3.0))", f"tl.exp2(tl.minimum({x}, 3.0))", f"tl.log(abs({x}) + 1.0)",
        f"tl.math.log2(tl.abs({x}) + 0.25)", f"tl.sqrt(abs({x}))", f"tl.sqrt_rn(tl.abs({x}))",
        f"libdevice.log1p(tl.abs({x}))", f"tl.fma({x}, {y}, {z})", f"tl.math.fma({x}, {y}, {z})",
        f"tl.where({x} == 0.0, {y}, {z})", f"tl.where({x} != 0, {y}, {z})", f"tl.where({x} > 0.0, {y}, {z})",
        f"tl.where({x} <= 0.0, {y}, {z})", f"tl.where({x} == 2.0, {y}, {z})", f"tl.where({x} != 2.0, {y}, {z})",
        f"tl.where({x} == -float('inf'), {y}, {z})", f"tl.where({x} <= -float('inf'), {y}, {z})",
        f"tl.where({x} > -float('inf'), {y}, {z})", f"tl.where({x} < float('inf'), {y}, {z})",
        f"tl.where({x} >= float('inf'), {y}, {z})", f"tl.cast({x}, tl.float32)", f"tl.cast({x}, tl.float64)",
    ]  # fmt: skip
    return str(g.choice(forms))


def drawn(g: np.random.Generator) -> str:
    lines, names = [], ["a", "b"]
    if g.random() < 0.5:
        lines.append(f"m = {text(g, names, 1)}")
        names = [*names, "m"]
        if g.random() < 0.5:
            lines.append(f"m {g.choice(['+', '-', '*'])}= {text(g, names, 1)}")
    if g.random() < 0.2:
        lines.insert(0, "'''What it is.'''")
    return "def f(a, b):\n" + "".join(f"    {line}\n" for line in [*lines, f"return {text(g, names, 2)}"])


def close(x: float, y: float) -> bool:
    return x == y or (math.isnan(x) and math.isnan(y)) or abs(x - y) <= 1e-9 * max(1.0, abs(x), abs(y))


OPERANDS = [(0.0, 0.0), (1.0, 2.0), (2.0, -1.5), (-0.5, 0.25), (3.0, 3.0), (0.0, 2.0), (-2.0, 0.0)]


def test_what_is_read_computes_what_the_function_does() -> None:
    g, count = rng(5), 0
    for _ in range(trials(600)):
        source = drawn(g)
        found, run = parsed(source), function(source)
        assert found is not None, source
        (a,), (b,), (out,) = found
        assert (a, b) == (("name", "a"), ("name", "b"))
        for x, y in OPERANDS:
            try:
                want = run(Real(x), Real(y))
            except (OverflowError, ValueError):
                continue
            assert close(value(out, {"a": x, "b": y}), float(want)), source
            count += 1
    assert count > trials(600) * 4


READ = {
    "flags": ("tl.where(b == 1.0, b, a + b)", "tl.where(b >= 1.0, b, a + b)", "tl.where(b > 0.5, b, a + b)",
              "tl.where(b != 1.0, a + b, b)", "tl.where(b < 1.0, a + b, b)", "tl.where(b < 0.5, a + b, b)"),
    "truths": ("tl.where(b, a, b)", "tl.where(b != 0.0, a, b)", "tl.where(b == 0, b, a)"),
    "types": ("a.to(tl.float32) + b.to(tl.float32)",), "own": ("(a + b).to(a.dtype)", "(b + a).to(b.dtype)"),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_ways_to_write_one_thing_are_read_as_one(name: str) -> None:
    found = [parsed(f"def f(a, b):\n    return {body}\n") for body in READ[name]]
    assert all(x is not None and x == found[0] for x in found)
    for body in READ[name]:
        out, run = parsed(f"def f(a, b):\n    return {body}\n"), function(f"def f(a, b):\n    return {body}\n")
        for x, y in itertools.product((0.0, 1.0), (0.0, 1.0)):
            assert out is not None and value(out[2][0], {"a": x, "b": y}) == float(run(Real(x), Real(y)))


UNREAD = [
    "return a // b", "return a ** 2 + b", "return a < b", "return tl.where(a < b, a, b)", "return tl.where(a, b)",
    "return tl.sin(a) + b", "return a.to(tl.int32) + b", "return a.to(m.dtype) + b", "return tl.cast(a, tl.int32)",
    "return tl.maximum(a, b, c)", "return tl.maximum(a)", "return tl.fma(a, b)", "return tl.sqrt(a, b)",
    "return a.to(tl.float32, True) + b", "return tl.maximum(a, b, propagate_nan=True)", "return 0.0 < a < b",
    "return tl.where(a == b, a, b)", "return tl.where(a > 3.0, a, b)", "return tl.where(a >= 2.0, a, b)",
    "return tl.where(a > float('inf'), a, b)", "return a, b", "return", "if a > b:\n        return a\n    return b",
    "m, n = a, b\n    return m + n", "a += c\n    return a + b", "m: float = a\n    return m + b", "return 'a'",
    "return +a", "return not a", "return a @ b", "return float('x') + a", "return a.max(b)", "return float(a) + b",
    "m = n = a\n    return m + b", "pass",
]  # fmt: skip


@pytest.mark.parametrize("body", UNREAD)
def test_what_is_not_known_is_not_read(body: str) -> None:
    found = parsed(f"def f(a, b):\n    {body}\n")
    assert found is None or found[2][0][0] in ("zero", "is", "flag", "positive")
    assert mean_of(f"def f(a, b):\n    {body}\n") is None


@pytest.mark.parametrize(
    "source",
    [
        "def f(a):\n    return a",
        "def f(a, b, c):\n    return a",
        "x = 1",
        "class f: pass",
        "def f(a, b):\n    return (",
        "lambda a, b: a + b",
        "async def f(a, b):\n    return a",
    ],
)
def test_what_is_no_function_of_two_is_not_read(source: str) -> None:
    assert parsed(source) is None and mean_of(source) is None


SHIFTS = [
    "m = tl.maximum(a, b)\n    return m + tl.log(tl.exp(a - m) + tl.exp(b - m))",
    "return tl.log2(tl.exp2(a) + tl.exp2(b))",
    "return tl.log(tl.exp(a) + tl.exp(b))",
    "return -tl.log(tl.exp(-a) + tl.exp(-b))",
    "return (a + b) * 0.5",
    "return 0.5 * a + b * 0.5",
    "return (a + b) / 2",
    "return a + (b - a) / 4.0",
    "return max(a, b) + abs(a - b)",
    "return tl.minimum(a, b) - tl.sqrt(tl.abs(a - b))",
    "return a + tl.maximum(b - a, 0.0)",
    "return max(a, b) + 0.3",
    "return tl.where(a == -float('inf'), b, max(a, b) + 1.0)",
    "return tl.log(tl.exp(a) * 2.0 + tl.exp(b) / 3)",
    "return a - 2 * a + b * 2",
    "return tl.log(tl.exp(2 * a) + tl.exp(2 * b)) / 2",
    "return a + b - min(a, b)",
    "return max(a, b) + libdevice.log1p(tl.exp(min(a, b) - max(a, b)))",
    "return (a.to(tl.float32) + b) / 2",
]
SCALES = [
    "return tl.sqrt(a * a + b * b)",
    "return a + b",
    "return a * b / (a + b)",
    "return 1.0 / (1.0 / a + 1.0 / b)",
    "return tl.sqrt(a * b)",
    "return a - 2.0 * b",
    "return max(a, b) * tl.sqrt(1.0 + a / b)",
    "return abs(a) + abs(b)",
    "return tl.sqrt(tl.sqrt(a * a * a * a + b * b * b * b))",
    "return tl.where(b == 0.0, a, a + b * 1.5)",
    "return a * tl.exp(b / a)",
    "return a * a / b",
    "return a * libdevice.log1p(b / a)",
    "return -(a + b) * 0.3",
]
FREE = [
    "return a * b",
    "return a + b + 0.3 * (a * b)",
    "return tl.log(a + b)",
    "return tl.exp(a) + tl.exp(b)",
    "return a + 1.0 / b",
    "return tl.sqrt(a * b * b)",
    "return a * a + b * b",
    "return a + tl.log(b)",
    "return tl.exp(a + b)",
    "return a + tl.sqrt(b)",
    "return abs(a) * b",
    "return tl.where(a == 2.0, b, a + b * b)",
    "return a / b",
    "return 2.0 / (a + b)",
    "return max(a, 1.0) * b",
    "return tl.log2(tl.exp(a) + tl.exp(b))",
    "return tl.log(tl.exp2(a) + tl.exp(b))",
    "return a + b * b",
    "return tl.sqrt(a + 1.0) + b",
    "return min(a, b) * max(a, 0.3)",
    "return tl.exp(a) - b",
]


def moves(run: Any, how: Motion) -> bool:
    """Whether it does, over operands and amounts of both sizes; equals are left out, as in `means`."""
    for (x, y), c in itertools.product([(0.7, 1.9), (2.3, 0.4), (3.7, 2.9)], (0.37, 1.83)):
        if how is Motion.SHIFTS:
            seen, want = run(Real(x + c), Real(y + c)), run(Real(x), Real(y)) + c
        else:
            seen, want = run(Real(x * c), Real(y * c)), run(Real(x), Real(y)) * c
        if not close(float(seen), float(want)):
            return False
    return True


@pytest.mark.parametrize(("kind", "bodies"), [(Motion.SHIFTS, SHIFTS), (Motion.SCALES, SCALES), (Motion.FREE, FREE)])
def test_how_a_function_moves_with_its_operands_is_seen(kind: Motion, bodies: list[str]) -> None:
    for body in bodies:
        source = f"def f(a, b):\n    {body}\n"
        run, found = function(source), mean_of(source)
        assert found is not None and found.kind is kind, body
        assert kind is Motion.FREE or moves(run, kind), body
        assert kind is Motion.SHIFTS or not moves(run, Motion.SHIFTS), body
        assert kind is not Motion.FREE or not moves(run, Motion.SCALES), body


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("tl.where(2.0 == 2.0, 3.0 * a, a + 1.0 + b)", Motion.SCALES),
        ("tl.where(2.0 != 2.0, a * b, a + b)", Motion.SCALES),
        ("tl.where(1.0 == 0.0, a + b, a * b)", Motion.FREE),
        ("tl.where(0.0 == 0.0, (a + b) / 2, a * b)", Motion.SHIFTS),
    ],
)
def test_numbers_are_compared_when_it_is_read(body: str, kind: Motion) -> None:
    source = f"def f(a, b):\n    return {body}\n"
    found, x = mean_of(source), np.array([[1.1, 2.3, 0.7, 3.9]])
    assert found is not None and found.kind is kind
    assert close(found.formula(Plain(), 1.7, 0.3), float(function(source)(Real(1.7), Real(0.3))))
    along(found, (x, x), 1, False, FP32, load_profile("sm_90"))


def test_no_drawn_function_is_said_to_move_where_it_does_not() -> None:
    g, seen = rng(9), 0
    for _ in range(trials(1500)):
        source = f"def f(a, b):\n    return {text(g, ['a', 'b'], 2)}\n"
        found = mean_of(source)
        if found is None or found.kind is Motion.FREE:
            continue
        seen += 1
        try:
            assert moves(function(source), found.kind), source
        except (OverflowError, ValueError, ZeroDivisionError):
            continue
    assert seen > trials(1500) // 40


class Plain:
    """Numbers for the formulas of a mean."""

    constant = staticmethod(float)
    larger, smaller = staticmethod(max), staticmethod(min)

    def equal(self, x: float, number: float, yes: float, no: float) -> float:
        return yes if x == number else no

    def cast(self, name: str, x: float) -> float:
        return x

    def met(self, xs: list[float]) -> list[float]:
        return xs

    def quotient(self, x: float, y: float) -> float:
        return x / y

    def call(self, name: str, x: float) -> float:
        return OF_ONE[name](x)


@pytest.mark.parametrize("body", [*SHIFTS, *SCALES, *FREE])
def test_the_formulas_of_either_order_are_the_function(body: str) -> None:
    """And what is called even has no more than the magnitudes of its operands to do with."""
    source = f"def f(a, b):\n    {body}\n"
    run, found = function(source), mean_of(source)
    assert found is not None
    for x, y in [(0.7, 1.9), (2.3, 0.4), (3.7, 2.9), (1.3, 1.3)]:
        want = float(run(Real(x), Real(y)))
        assert close(found.formula(Plain(), x, y), want)
        for way, holds in enumerate((x >= y, y >= x)):
            if holds:
                assert close(found.ordered[way](Plain(), x, y), want), (body, way)
        if found.even:
            assert all(
                close(float(run(Real(s * x), Real(t * y))), want) for s, t in itertools.product((1, -1), repeat=2)
            )
    assert found.even == (body in EVEN)


EVEN = {
    "return tl.sqrt(a * a + b * b)",
    "return abs(a) + abs(b)",
    "return tl.sqrt(tl.sqrt(a * a * a * a + b * b * b * b))",
}
CHOICES = [
    ("return tl.where({v} {op} {w}, {v}, {w})", 2),
    ("c = {v} {op} {w}\n    return tl.where(c, {w}, {v})", 2),
    ("c = {v} {op} {w}\n    return tl.where(not c, {v}, {w})", 2),
    (
        "c = ({v} {op} {w}) | (({v} == {w}) & ({i} {pl} {j}))\n    return tl.where(c, {v}, {w}), tl.where(c, {i}, {j})",
        4,
    ),
    (
        "c = {v} {op} {w}\n    c |= {v} == {w} and {i} {pl} {j}\n"
        "    return tl.where(c, {v}, {w}), tl.where(c, {i}, {j})",
        4,
    ),
    ("c = {v} {op} {w}\n    return tl.where(c, {v}, {w}), tl.where(c, {i}, {j})", 4),
    (
        "c = ({v} {op} {w}) ^ (({v} == {w}) & ({i} {pl} {j}))\n    return tl.where(c, {w}, {v}), tl.where(c, {j}, {i})",
        4,
    ),
]


def brute(run: Any, indexed: bool) -> str | None:
    """What the function is, of all small numbers, the lower index of equals."""
    for kind, better in (("max", max), ("min", min)):
        good = True
        for x, y in itertools.product(range(3), repeat=2):
            for i, j in ((0, 1), (1, 0)) if indexed else ((0, 0),):
                got = run(x, i, y, j) if indexed else run(x, y)
                best = better(x, y)
                want = (best, min(k for v, k in ((x, i), (y, j)) if v == best)) if indexed else best
                good = good and got == want
        if good:
            return f"arg{kind}" if indexed else kind
    return None


def test_what_compares_and_chooses_is_what_it_does_for_all_small_numbers() -> None:
    found = set()
    for (form, count), op, place, turned in itertools.product(
        CHOICES, ("<", "<=", ">", ">=", "==", "!="), ("<", ">"), (False, True)
    ):
        if count == 2 and place == ">":
            continue
        names = dict(zip("vwij", ("y", "x", "j", "i") if turned else ("x", "y", "i", "j"), strict=True))
        head = "x, y" if count == 2 else "x, i, y, j"
        source = f"def f({head}):\n    {form.format(op=op, pl=place, **names)}\n"
        kind = brute(function(source), count == 4)
        assert selection(SimpleNamespace(raw_src=source)) == kind, source
        found.add(kind)
    assert found == {"max", "min", "argmax", "argmin", None}
