"""Bodies of kernels in every statement and expression that Python has, and what Triton's own front end says to them."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from itertools import count
from typing import Any

import triton
import triton.language as tl

HEAD = """import math
import triton
import triton.language as tl
PLAIN = 3
TUPLE = (1, 2)
CONST = tl.constexpr(3)
PAIR = (tl.constexpr(1), tl.constexpr(2))
NAMES = {"a": 1}
def python(x):
    return x + 1
class Box:
    width = 4
@triton.jit
def twice(x):
    return x * 2
@triton.jit
def pair(x):
    return x, x + 1
@triton.constexpr_function
def folded(x):
    return x + 1
@triton.jit
def kernel(p, out, n, C: tl.constexpr):
    i = tl.arange(0, 8)
    x = tl.load(p + i)
    s = tl.load(p)
"""
LINES = HEAD.count("\n")
BODIES = {
    # statements
    "try": "try:\n    x = x + 1\nexcept ValueError:\n    x = x",
    "raise": "raise ValueError('no')",
    "import": "import math",
    "from import": "from math import sqrt",
    "global": "global PLAIN\nx = x + 1",
    "delete": "y = x\ndel y",
    "break": "for k in range(n):\n    x = x + 1\n    break",
    "continue": "for k in range(n):\n    continue",
    "break in while": "k = 0\nwhile k < n:\n    k += 1\n    break",
    "class": "class A:\n    pass",
    "nested def": "def f(a):\n    return a\nx = f(x)",
    "match": "match C:\n    case 2:\n        x = x + 1",
    "with": "with open('f') as f:\n    x = x",
    "async": "async def f():\n    pass",
    "assert": "assert n > 0",
    "pass": "pass",
    "docstring": "'text'",
    "bare annotation": "y: tl.constexpr\ny = 3\nx = x + y",
    "constexpr twice": "y: tl.constexpr = 3\ny: tl.constexpr = 4",
    "constexpr of block": "y: tl.constexpr = x",
    "annotated": "y: tl.float32 = 1.0",
    "attribute target": "x.y = 3",
    "subscript target": "x[0] = 3",
    "chained targets": "a = b = x",
    "starred target": "a, *b = pair(x)",
    "unpack": "a, b = pair(x)",
    "unpack too few": "a, b, c = pair(x)",
    "unpack too many": "(a,) = pair(x)",
    "unpack block": "a, b = x",
    "unpack scalar": "a, b = s",
    "swap": "a = x\nb = s\na, b = b, a",
    "for list": "for k in [1, 2]:\n    x += k",
    "for tuple": "for k in (1, 2):\n    x += k",
    "for zip": "for k, m in zip((1, 2), (3, 4)):\n    x += k",
    "for enumerate": "for k, m in enumerate((1, 2)):\n    x += k",
    "for else": "for k in range(n):\n    x += 1\nelse:\n    x += 2",
    "for float": "for k in range(1.5):\n    x += k",
    "for block": "for k in range(i):\n    x += k",
    "for static": "for k in tl.static_range(3):\n    x += k",
    "for static runtime": "for k in tl.static_range(n):\n    x += k",
    "for carried type": "a = 0\nfor k in range(n):\n    a = a + 1.5",
    "for carried shape": "a = s\nfor k in range(n):\n    a = x",
    "while carried type": "a = 0\nk = 0\nwhile k < n:\n    a = a + 1.5\n    k += 1",
    "while constexpr": "while C > 5:\n    x += 1",
    "while block": "while x > 1e9:\n    x += 1",
    "while else": "k = 0\nwhile k < n:\n    k += 1\nelse:\n    k = 3",
    "if block": "if x > 0:\n    x = x + 1",
    "if string": "if 'a':\n    x = x + 1",
    "if tuple": "if (1, 2):\n    x = x + 1",
    "if none": "if None:\n    x = x + 1",
    "if runtime": "if n > 0:\n    x = x + 1",
    "if types": "if n > 0:\n    a = 1\nelse:\n    a = 1.5",
    "if shapes": "if n > 0:\n    a = x\nelse:\n    a = s",
    "if defines": "if n > 0:\n    a = x\nx = a + 1",
    "if return": "if n > 100:\n    return\nx = x + 1",
    "return in for": "for k in range(n):\n    if k > 1:\n        return",
    "return in while": "k = 0\nwhile k < n:\n    k += 1\n    if k > 3:\n        return",
    "return value": "return x",
    "dead": "return\nraise ValueError('no')",
    "dead branch": "if C > 100:\n    try:\n        pass\n    finally:\n        pass",
    # expressions
    "lambda": "f = lambda a: a + 1",
    "yield": "y = yield x",
    "dict": "y = {'a': 1}",
    "set": "y = {1, 2}",
    "list": "y = [x, s]",
    "tuple": "y = (x, s)\nx = y[0] + y[1]",
    "list comprehension": "y = [a + 1 for a in (x, s)]",
    "comprehension if": "y = [a + 1 for a in (1, 2, 3) if a > 1]",
    "comprehension range": "y = [a for a in range(3)]",
    "nested comprehension": "y = [a + b for a in (1, 2) for b in (3, 4)]",
    "generator": "y = tuple(a for a in (1, 2))",
    "dict comprehension": "y = {a: a for a in (1, 2)}",
    "set comprehension": "y = {a for a in (1, 2)}",
    "walrus": "y = (z := x) + z",
    "starred call": "y = tl.maximum(*pair(x))",
    "starred tuple": "y = (*pair(x), s)",
    "starred keywords": "y = tl.sum(x, **{'axis': 0})",
    "format": "tl.static_print(f'{C}')",
    "format runtime": "y = f'{n}'",
    "conditional": "y = x if C > 1 else s",
    "conditional runtime": "y = 1.0 if n > 1 else s",
    "conditional types": "y = 1 if n > 1 else s",
    "conditional block": "y = x if x > 1 else s",
    "chained": "y = 0 < x < 3",
    "in": "y = C in (1, 2)",
    "not in": "y = C not in (1, 2)",
    "is": "y = C is None",
    "is not": "if C is not None:\n    x = x + 1",
    "matmul": "y = x @ x",
    "power": "y = x ** 2",
    "power constant": "y = C ** 2",
    "floor division": "y = i // 2",
    "floor division floats": "y = x // 2.0",
    "shift float": "y = x << 1",
    "bitwise float": "y = x & 1",
    "invert": "y = ~i",
    "invert float": "y = ~x",
    "not": "y = not n",
    "not block": "y = not (x > 0)",
    "positive": "y = +x",
    "negative": "y = -x",
    "and": "y = (n > 0) and (n < 9)",
    "string sum": "y = 'a' + 'b'",
    "block and string": "y = x + 'b'",
    "slice": "y = x[:, None]",
    "slice range": "y = x[0:4]",
    "index": "y = x[0]",
    "none index": "y = x[None, :]",
    "aug": "x += 1\nx *= 2",
    "aug subscript": "x[0] += 1",
    "aug matmul": "x @= x",
    # names and calls
    "undefined": "y = nonesuch + 1",
    "plain global": "y = x + PLAIN",
    "plain tuple": "y = x + TUPLE[0]",
    "plain dict": "y = NAMES['a']",
    "constant global": "y = x + CONST",
    "constant pair": "y = x + PAIR[0]",
    "plain function": "y = python(x)",
    "plain class": "y = Box.width",
    "module function": "y = x + math.sqrt(4.0)",
    "module constant": "y = x * math.pi",
    "jit": "y = twice(x)",
    "jit arguments": "y = twice(x, x)",
    "jit keywords": "y = twice(z=x)",
    "constexpr function": "y = x + folded(C)",
    "constexpr function runtime": "y = folded(x)",
    "isinstance": "if isinstance(x, tl.tensor):\n    x = x + 1",
    "hasattr": "if hasattr(x, 'shape'):\n    x = x + 1",
    "getattr": "y = getattr(x, 'dtype')",
    "len": "y = len(x.shape)",
    "len tuple": "y = x + len((1, 2))",
    "sum builtin": "y = sum((1, 2))",
    "round": "y = round(1.5)",
    "str": "y = str(C)",
    "print": "print('x', n)",
    "sorted": "y = sorted((2, 1))",
    "min": "y = min(n, 3)",
    "max block": "y = max(x, 0.0)",
    "abs": "y = abs(x)",
    "float": "y = float(C)",
    "int block": "y = int(x)",
    "bool": "y = bool(C)",
    "type": "y = type(x)",
    "range call": "y = range(3)",
    "unused result": "tl.sum(x)",
    "atomic unused": "tl.atomic_add(out, s)",
    "attribute missing": "y = x.nonesuch",
    "method": "y = x.to(tl.float16)",
    "call block": "y = x(3)",
    "wrong type": "y = tl.exp('a')",
    "size": "y = tl.arange(0, 7)",
    "shapes": "y = x + tl.arange(0, 16)",
    "static assert": "tl.static_assert(C == 9, 'nine')",
    "static assert runtime": "tl.static_assert(n > 0)",
    "device assert": "tl.device_assert(n > 0, 'some')",
}
TAIL = "tl.store(out + i, x)"
_number = count()


def source(body: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in [*body.split("\n"), TAIL])


def made(body: str) -> Any:
    """The kernel with this body, in a module of its own."""
    text, name = source(body), f"<statement {next(_number)}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    namespace: dict[str, Any] = {"__name__": name}
    exec(compile(text, name, "exec", dont_inherit=True), namespace)
    return namespace["kernel"]


def refusal(error: BaseException) -> tuple[str, int]:
    """(class, line in the kernel) of what a compiler raises, the outermost."""
    return type(error).__name__, getattr(getattr(error, "node", None), "lineno", 0)


def stock(kernel: Any, told: Callable[[BaseException], Any] = refusal) -> Any:
    """What Triton's front end refuses the kernel for; None where it makes code of it. Without a GPU."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import compiler

    constants = {"C": 2}
    signature = {"p": "*fp32", "out": "*fp32", "n": "i32", "C": "constexpr"}
    target = GPUTarget("cuda", 80, 32)
    backend = compiler.make_backend(target)
    options = backend.parse_options({})
    context = triton._C.libtriton.ir.context()
    triton._C.libtriton.ir.load_dialects(context)
    backend.load_dialects(context)
    made = compiler.ASTSource(kernel, signature, constants)
    try:
        arguments = [target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context]
        made.hash()
        made.make_ir(*arguments)
    except Exception as error:
        return told(error)
    return None


def own(kernel: Any, told: Callable[[BaseException], Any] = refusal) -> Any:
    import torch

    from render.interpreter.session import Session

    try:
        with Session(printer=lambda text: None):
            kernel[(1,)](torch.arange(256.0), torch.zeros(256), 5, C=2)
    except Exception as error:
        return told(error)
    return None


__all__ = ["BODIES", "made", "own", "stock", "tl"]
