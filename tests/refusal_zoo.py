"""Wrong calls in kernels, drawn: functions, methods and operators of the language on operands of any kind.

Half a thousand functions, methods and operators times three dozen operands (blocks of several shapes and dtypes,
scalars, pointers, constants, types, tuples, functions), with arguments left out, doubled, and under wrong names: most
are refused by Triton's front end, and what it says of them is the expectation.
"""

from __future__ import annotations

import inspect
import random
from typing import Any

import statement_zoo
import triton.language as tl
from triton.compiler.errors import CompilationError

SETTING = """y = tl.load(p + tl.arange(0, 16))
z = tl.reshape(tl.load(p + tl.arange(0, 256)), (16, 16))
h = x.to(tl.float16)
d = x.to(tl.float64)
b = x > 0
u = i.to(tl.uint32)
q = x.to(tl.float8e5)
g = z.to(tl.float16)
small = i.to(tl.int8)
t = (x, s)
"""
TENSORS = ["x", "i", "s", "y", "z", "h", "d", "b", "u", "q", "g", "small", "n"]
OTHERS = [
    "C", "p", "out", "p + i", "1", "2.5", "0", "-1", "None", "True", "'abc'", "(16, 16)", "(8,)", "[1, 2]",
    "tl.float32", "tl.int32", "t", "7", "tl", "(x, y)", "'ieee'", "1000000000000",
]  # fmt: skip
OPERATORS = (
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "<<",
    ">>",
    "&",
    "|",
    "^",
    "<",
    "<=",
    ">",
    ">=",
    "==",
    "@",
    "**",
    "and",
    "or",
)
INDICES = ("None, :", "0", "None", "x", ":, None, :", "0:4", "..., None", "1, 2", ":, 0")
LAYOUT_OF_THE_COMPILER = {"join", "cat", "assume", "map_elementwise", "expect_zero", "device_assert"}
"""Refused by the verifier of the intermediate code, without a line, or not at all where a value here has no bits."""
FUNCTIONS = sorted(
    name
    for name in tl.__all__
    if callable(getattr(tl, name)) and not inspect.isclass(getattr(tl, name)) and name not in LAYOUT_OF_THE_COMPILER
)
METHODS = sorted(n for n in dir(tl.tensor) if not n.startswith("_") and callable(getattr(tl.tensor, n, None)))


def wrong(g: random.Random) -> str:
    """An expression, wrong as a rule."""
    kind, first, second = g.random(), g.choice(TENSORS + OTHERS), g.choice(TENSORS + OTHERS)
    if kind < 0.15:
        return f"({first}) {g.choice(OPERATORS)} ({second})"
    if kind < 0.18:
        return f"{g.choice(['-', '~', 'not ', '+'])}({first})"
    if kind < 0.25:
        return f"({first})[{g.choice(INDICES)}]"
    if kind < 0.45:
        name = g.choice([m for m in METHODS if m not in LAYOUT_OF_THE_COMPILER])
        return f"({g.choice(TENSORS)}).{name}({_arguments(g, getattr(tl.tensor, name), 1)})"
    name = g.choice(FUNCTIONS)
    return f"tl.{name}({_arguments(g, getattr(tl, name), 0)})"


def _arguments(g: random.Random, function: Any, skipped: int) -> str:
    parameters = inspect.signature(getattr(function, "fn", function)).parameters.values()
    positional, named = [], []
    for p in [p for p in parameters if not p.name.startswith("_")][skipped:]:
        value = g.choice(TENSORS if g.random() < 0.6 else TENSORS + OTHERS)
        if p.kind is p.VAR_POSITIONAL or p.kind is p.VAR_KEYWORD:
            continue
        if p.default is p.empty:
            positional.append(value)
        elif g.random() < 0.4:
            named.append(f"{p.name}={value}")
    if positional and g.random() < 0.1:
        positional.pop(0)
    named += [g.choice(["nope=1", "nope=x"])] if g.random() < 0.08 else []
    positional += ["x"] if g.random() < 0.05 else []
    return ", ".join(positional + named)


def body(expression: str) -> str:
    return f"{SETTING}w = {expression}"


def said(error: BaseException) -> tuple[str, int, str]:
    """(class, line in the kernel, words of the innermost refusal)."""
    inner = error
    while isinstance(inner.__cause__, CompilationError):
        inner = inner.__cause__
    words = getattr(inner, "error_message", None) or str(inner.__cause__ or inner.__context__)
    return *statement_zoo.refusal(error), words.split(" object at 0x")[0]
