"""What a kernel means by the intermediate code that Triton emits for it: an evaluator of its own, lane by lane.

Integers are Python's, by their bits (0 <= x < 2^w); None is a lane without a value: poison, or undefined behaviour
(a shift by the width, a division by zero, a quotient that does not fit). Sources: the MLIR dialects `arith` and `math`,
the LLVM language reference for what they lower to. Floats are exact rationals, rounded once by `support`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from support import round_fraction

from interval_ops.formats.model import FORMATS, Format

Lane = int | float | Fraction | None
SHORT = {"int1": "i1", "fp8e5": "fp8e5", **{f"{s}int{w}": f"{s or 'i'}{w}" for s in ("", "u") for w in (8, 16, 32, 64)}}
_FLOATS = {"f16": "fp16", "bf16": "bf16", "f32": "fp32", "f64": "fp64"}
_OP = re.compile(r'(?:%([\w.-]+)(?::\d+)? = )?"?([\w.-]+)"?(.*)')
_PLACE = re.compile(r" loc\((?:[^()]|\([^()]*\))*\)")
_FUNC = re.compile(r"tt\.func \w+ @([\w.-]+)\((.*)")


def emitted(kernel: Any, types: dict[str, str], constants: dict[str, Any]) -> str:
    """The intermediate code for tensors of Triton types (`int8`, `fp32`), before any pass of the compiler."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler.compiler import make_backend

    target = GPUTarget("cuda", 80, 32)
    backend = make_backend(target)
    options = backend.parse_options({"sanitize_overflow": False})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    signature = {n: "constexpr" if n in constants else f"*{SHORT.get(types[n], types[n])}" for n in kernel.arg_names}
    source = ASTSource(kernel, signature, constants)
    given: list[Any] = [target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context]
    if source.make_ir.__code__.co_argcount < 6:  # Triton 3.6 takes no target
        given = given[1:]
    return str(source.make_ir(*given))


def width(ty: str) -> int:
    """Bits of the element of `tensor<8xi32>`, `i32`, `!tt.ptr<i8>`."""
    return int(re.findall(r"i(\d+)\b", ty)[-1])


def _float(ty: str) -> str | None:
    found = re.search(r"\b(f16|bf16|f32|f64)\b|x(f16|bf16|f32|f64)>", ty)
    return _FLOATS[found[1] or found[2]] if found else None


def signed(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> (bits - 1) else x


def _quotient(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _divided(a: int, b: int, bits: int, rest: bool) -> int | None:
    if b == 0 or (a == -(1 << (bits - 1)) and b == -1):
        return None
    return a - _quotient(a, b) * b if rest else _quotient(a, b)


Binary = Callable[[int, int, int], "int | None"]
_BINARY: dict[str, Binary] = {
    "addi": lambda a, b, w: a + b, "subi": lambda a, b, w: a - b, "muli": lambda a, b, w: a * b,
    "andi": lambda a, b, w: a & b, "ori": lambda a, b, w: a | b, "xori": lambda a, b, w: a ^ b,
    "shli": lambda a, b, w: a << b if b < w else None, "shrui": lambda a, b, w: a >> b if b < w else None,
    "shrsi": lambda a, b, w: signed(a, w) >> b if b < w else None,
    "divui": lambda a, b, w: a // b if b else None, "remui": lambda a, b, w: a % b if b else None,
    "divsi": lambda a, b, w: _divided(signed(a, w), signed(b, w), w, False),
    "remsi": lambda a, b, w: _divided(signed(a, w), signed(b, w), w, True),
    "minui": lambda a, b, w: min(a, b), "maxui": lambda a, b, w: max(a, b),
    "minsi": lambda a, b, w: min(signed(a, w), signed(b, w)), "maxsi": lambda a, b, w: max(signed(a, w), signed(b, w)),
    "mulhiui": lambda a, b, w: a * b >> w,
}  # fmt: skip
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


class Module:
    """The functions of a text, by name: (parameters, lines)."""

    def __init__(self, text: str) -> None:
        self.functions: dict[str, tuple[list[str], list[str]]] = {}
        self.entry = ""
        body: list[str] = []
        for raw in text.splitlines():
            line = _PLACE.sub("", raw).strip()
            if found := _FUNC.match(line):
                body = []
                self.functions[found[1]] = (re.findall(r"%([\w.-]+): ", found[2]), body)
                self.entry = self.entry or found[1]
            elif line and not line.startswith("#"):
                body.append(line)


class Run:
    """One program over the memory: argument name -> lanes; what is stored goes there too."""

    def __init__(self, module: Module, memory: dict[str, list[Lane]]) -> None:
        self.module, self.memory = module, memory

    def call(self, name: str, args: list[Any]) -> Any:
        params, lines = self.module.functions[name]
        return self.block(lines, dict(zip(params, args, strict=False)))

    def block(self, lines: list[str], env: dict[str, Any]) -> Any:
        i = 0
        while i < len(lines):
            line = lines[i]
            if line.startswith(("tt.return", "tt.reduce.return", "tt.scan.return")):
                names = re.findall(r"%([\w.-]+)", line)
                return env[names[0]] if names else None
            found = _OP.match(line)
            assert found, line
            out, op, rest = found.groups()
            if op in ("tt.reduce", "tt.scan"):
                end = next(j for j in range(i, len(lines)) if lines[j].startswith("})"))
                operands = env[re.findall(r"%([\w.-]+)", rest)[0]]
                env[out] = self.folded(op, operands, lines[i + 1 : end], env)
                i = end + 1
                continue
            value = self.operation(op, rest, env)
            if out:
                env[out] = value
            i += 1
        return None

    def folded(self, op: str, lanes: list[Lane], region: list[str], env: dict[str, Any]) -> Any:
        one, two = re.findall(r"%([\w.-]+): ", region[0])[:2]
        total, seen = lanes[0], [lanes[0]]
        for lane in lanes[1:]:
            total = self.block(region[1:], {**env, one: [total], two: [lane]})[0]
            seen.append(total)
        return [total] if op == "tt.reduce" else seen

    def operation(self, op: str, rest: str, env: dict[str, Any]) -> Any:
        names = re.findall(r"%([\w.-]+)", rest)
        args = [env.get(n) for n in names]
        if op == "tt.make_range":
            return list(range(int(re.search(r"end = (\d+)", rest)[1])))  # type: ignore[index]
        if op == "tt.splat":
            return args[0]
        if op == "tt.addptr":
            return (args[0] if isinstance(args[0], str) else args[0][0], args[1])
        if op == "tt.load":
            lanes = self.memory[self.pointer(args[0])]
            return list(lanes) if "tensor" in rest else [lanes[0]]
        if op == "tt.store":
            kept = args[1]
            self.memory[self.pointer(args[0])] = kept
            return None
        if op == "tt.bitcast":
            return args[0]
        if op == "tt.call":
            callee = re.search(r"@([\w.-]+)\(", rest)[1]  # type: ignore[index]
            return self.call(callee, args)
        return _numbers(op.split(".")[-1], rest, args)

    @staticmethod
    def pointer(p: Any) -> str:
        return p if isinstance(p, str) else p[0]


def _numbers(op: str, rest: str, args: list[list[Lane]]) -> list[Lane]:
    size = max((len(a) for a in args), default=1)
    lanes = [a * size if len(a) == 1 else a for a in args]
    before, _, after = rest.partition(" to ")
    source = before.rsplit(" : ", 1)[-1]
    if op == "constant":
        text = re.match(r"\s*(?:dense<)?(true|false|-?[\d.]+(?:[eE][+-]?\d+)?)", rest)
        assert text, rest
        if text[1] in ("true", "false"):
            return [int(text[1] == "true")]
        return [Fraction(text[1])] if _float(source) else [int(text[1]) % (1 << width(source))]
    if op == "bitcast":
        return lanes[0]
    if op in ("extui", "extsi", "trunci"):
        return [_resized(op, x, width(source), width(after)) for x in lanes[0]]  # type: ignore[arg-type]
    if op in ("sitofp", "uitofp"):
        fmt = FORMATS[_float(after) or ""]
        ints = [x if op == "uitofp" or x is None else signed(x, width(source)) for x in lanes[0]]  # type: ignore[arg-type]
        return [None if x is None else _rounded(Fraction(x), fmt) for x in ints]
    if op in ("fptosi", "fptoui"):
        return [_whole(x, width(after), op == "fptosi") for x in lanes[0]]  # type: ignore[arg-type]
    if op in ("extf", "truncf"):
        fmt = FORMATS[_float(after) or ""]
        return [None if x is None else _rounded(x, fmt) for x in lanes[0]]  # type: ignore[arg-type]
    if op == "cmpf":
        kind = re.match(r"\s*[ou](\w\w),", rest) or re.match(r"\s*[ou](\w\w)", rest)
        return [int(_COMPARE[kind[1]](a, b)) for a, b in zip(*lanes, strict=True)]  # type: ignore[index,arg-type]
    if op == "select":
        return [(a if c else b) if c is not None else None for c, a, b in zip(*lanes, strict=True)]
    w = width(source)
    if op == "absi":
        return [None if x is None else abs(signed(x, w)) % (1 << w) for x in lanes[0]]  # type: ignore[arg-type]
    if op == "cmpi":
        kind = re.match(r"\s*([su]?)(eq|ne|lt|le|gt|ge)\b", rest)
        assert kind, rest
        as_read = (lambda x: signed(x, w)) if kind[1] == "s" else (lambda x: x)
        return [None if None in (a, b) else int(_COMPARE[kind[2]](as_read(a), as_read(b)))  # type: ignore[no-untyped-call]
                for a, b in zip(*lanes, strict=True)]  # fmt: skip
    rule = _BINARY[op]
    found = [None if None in (a, b) else rule(a, b, w) for a, b in zip(*lanes, strict=True)]  # type: ignore[arg-type]
    return [None if x is None else x % (1 << w) for x in found]


def _rounded(x: Fraction | float, fmt: Format) -> Fraction | float:
    if isinstance(x, float) and math.isinf(x):
        return x
    near = round_fraction(x, fmt)
    return near if abs(near) <= fmt.max else math.copysign(math.inf, x)


def _resized(op: str, x: int | None, before: int, after: int) -> int | None:
    if x is None:
        return None
    return (signed(x, before) if op == "extsi" else x) % (1 << after)


def _whole(x: Fraction | None, bits: int, sign: bool) -> int | None:
    if x is None:
        return None
    cut = int(x)
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if sign else (0, 1 << bits)
    return cut % (1 << bits) if low <= cut < high else None


def evaluated(text: str, memory: dict[str, list[Lane]]) -> dict[str, list[Lane]]:
    """Memory after one program of the code; arguments are the names of the kernel's parameters."""
    module = Module(text)
    run = Run(module, dict(memory))
    params, _ = module.functions[module.entry]
    run.call(module.entry, list(params))
    return run.memory
