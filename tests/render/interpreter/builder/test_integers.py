"""Integers against the code that Triton emits for the same expression: every pair of types, every operation.

Where that code gives a lane no value (a shift by the width, a division by zero, a quotient or a float that does not
fit) ours must carry a taint; all other lanes must be equal in every bit and free of taints.
"""

from __future__ import annotations

import linecache
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import triton.language as tl
import ttir

from render.interpreter.session import Session

TYPES = {
    "int1": torch.bool, "int8": torch.int8, "int16": torch.int16, "int32": torch.int32, "int64": torch.int64,
    "uint8": torch.uint8, "uint16": torch.uint16, "uint32": torch.uint32, "uint64": torch.uint64,
}  # fmt: skip
LANES = 64
HEADER = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef kernel(x, y, out, N: tl.constexpr):\n"
BODY = "    i = tl.arange(0, N)\n    a = tl.load(x + i)\n    b = tl.load(y + i)\n    tl.store(out + i, {})\n"

BINARY = (
    "a + b", "a - b", "a * b", "a // b", "a % b", "a & b", "a | b", "a ^ b", "a << b", "a >> b",
    "tl.minimum(a, b)", "tl.maximum(a, b)", "a == b", "a != b", "a + tl.load(y)", "tl.load(x) >> b", "a < b",
    "a <= b", "a > b", "a >= b", "tl.where(a > b, a, b)", "tl.cdiv(a, b)", "tl.umulhi(a, b)", "(a >> 1) - (b << 1)",
    "tl.where((b > 0) & (b < 8), a << b, a)", "tl.where(b != 0, a // tl.where(b != 0, b, 1), 0)",
)  # fmt: skip
UNARY = (
    "-a", "~a", "a + 200", "a - 129", "a & 255", "a > -1", "a < 300", "a + 4294967295", "a >> 40",
    "tl.abs(a)", "a + 1", "a - 1", "1 - a", "a * 3", "a // 3", "a % 5", "7 // a", "a & 6", "a << 3",
    "a >> 2", "a < 2", "2 <= a", "tl.minimum(a, 4)", "a.to(tl.float32)", "a.to(tl.float64)", "a.to(tl.float16)",
    "tl.sum(a, 0)", "tl.max(a, 0)", "tl.min(a, 0)", "tl.xor_sum(a, 0)", "tl.cumsum(a, 0)", "tl.cumprod(a, 0)",
    *(f"a.to(tl.{name})" for name in TYPES),
)  # fmt: skip


@cache
def kernel_of(code: str) -> Any:
    source, name = HEADER + BODY.format(code), f"<integers {code}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict[str, Any] = {"__name__": "integers"}
    exec(compile(source, name, "exec"), space)
    return space["kernel"]


def specials(name: str) -> list[int]:
    """Eight numbers of the type by their bits."""
    if name == "int1":
        return [0, 1] * 4
    bits = getattr(tl, name).primitive_bitwidth
    top = 1 << (bits - 1)
    return [0, 1, 2, bits - 1, bits % (2 * top), top - 1, top, 2 * top - 1]


def operands(a: str, b: str) -> tuple[list[int], list[int]]:
    """Every pair of special numbers, some numbers of no special kind in their place."""
    one, two = np.repeat(np.array(specials(a), object), 8), np.tile(np.array(specials(b), object), 8)
    generator = np.random.default_rng(len(a) * 64 + len(b))
    for column, name in ((one, a), (two, b)):
        bits = getattr(tl, name).primitive_bitwidth
        for lane in generator.choice(LANES, 12, replace=False):
            column[lane] = int(generator.integers(0, 1 << 62)) % (1 << bits)
    return [int(v) for v in one], [int(v) for v in two]


FLOATS = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
EDGES = [
    *(0.0, -0.0, 0.5, -0.5, 0.99, -0.99, 1.0, -1.0, 1.5, 2.5, -2.5, 1e30, -1e30, 300.0, -300.0, 65504.0),
    *(s * 2.0**e + d for e in (7, 8, 15, 16, 31, 32, 63, 64) for s in (1, -1) for d in (0, -1, 0.5)),
]


def numbers(name: str) -> tuple[torch.Tensor, list[Fraction]]:
    """Numbers of a float format around the ends of the integer types, and what they are exactly."""
    values = torch.tensor((EDGES + [3.0] * LANES)[:LANES], dtype=torch.float64).to(FLOATS[name])
    values = torch.where(values.isfinite(), values, torch.ones_like(values))
    return values, [Fraction(float(v)) for v in values]


def tensor(bits: list[int], name: str) -> torch.Tensor:
    if name == "int1":
        return torch.tensor([bool(v) for v in bits])
    width = getattr(tl, name).primitive_bitwidth
    return torch.from_numpy(np.array(bits, np.uint64).astype(f"u{width // 8}")).view(TYPES[name])


def compared(code: str, a: str, b: str, out: str) -> str | None:
    """What is wrong with this expression on these types; None if nothing is."""
    kernel = kernel_of(code)
    if a in FLOATS:
        first, x = numbers(a)
        second, y = numbers(a)
    else:
        x, y = operands(a, b)
        first, second = tensor(x, a), tensor(y, b)
    try:
        text = ttir.emitted(kernel, {"x": a, "y": b, "out": out}, {"N": LANES})
    except Exception:
        text = ""
    result = torch.zeros(LANES, dtype=TYPES[out]) if out in TYPES else torch.zeros(LANES, dtype=torch.float64)
    session = Session("ieee", interval=True)
    try:
        with session:
            kernel[(1,)](first, second, result, LANES)
            got = session.envelope(result)
    except Exception as error:
        return f"refused: {error!r}" if text else None
    if not text:
        return "Triton refuses it"
    wanted = ttir.evaluated(text, {"x": list(x), "y": list(y), "out": [0]})["out"]
    wanted = wanted * LANES if len(wanted) == 1 else wanted
    undefined = [i for i, w in enumerate(wanted) if w is None]
    assert got is not None
    if undefined:
        if not got.taints:
            return f"lanes {undefined[:3]} of {x[undefined[0]]}, {y[undefined[0]]} have no value, and no taint"
    elif got.taints:
        return f"tainted by {[session.taints[t].message for t in got.taints]}"
    if out in TYPES:
        width = 8 if out == "int1" else getattr(tl, out).primitive_bitwidth
        bits = result.view(torch.uint8).numpy().view(f"u{width // 8}").tolist()
    else:
        bits = result.tolist()
    for i, (w, g) in enumerate(zip(wanted, bits, strict=True)):
        if w is not None and w != g:
            return f"{x[i]}, {y[i]} give {g}, not {w}"
    return None


PAIRS = [(a, b) for a in TYPES for b in TYPES]
FEW = {
    ("int32", "uint32"),
    ("int8", "uint8"),
    ("int1", "int1"),
    ("int8", "int64"),
    ("uint16", "int32"),
    ("int64", "int64"),
}


@pytest.mark.parametrize(
    "pair", [pytest.param(p, marks=() if p in FEW else pytest.mark.slow, id=" ".join(p)) for p in PAIRS]
)
def test_two_operands(pair: tuple[str, str]) -> None:
    wrong = {code: compared(code, *pair, "int64") for code in BINARY}
    assert not {code: why for code, why in wrong.items() if why}


@pytest.mark.parametrize("name", TYPES)
def test_one_operand(name: str) -> None:
    wrong = {code: compared(code, name, name, "fp64" if "float" in code else "int64") for code in UNARY}
    assert not {code: why for code, why in wrong.items() if why}


@pytest.mark.parametrize("name", FLOATS)
def test_floats_become_integers(name: str) -> None:
    wrong = {to: compared(f"a.to(tl.{to})", name, name, to) for to in TYPES}
    assert not {code: why for code, why in wrong.items() if why}


LOOKED_AT = {
    "tl.where(n < 32, a >> n, 0)": False, "tl.where(n < 33, a >> n, 0)": True, "(a >> n) & 0": True,
    "tl.where(n < 32, (a << n) + 1, 0)": False, "tl.where(n > 0, a // n, 0)": False, "tl.where(n >= 0, a % n, 0)": True,
    "tl.where(f < 1e9, f.to(tl.int32), 7)": False, "tl.where(f <= 1e10, f.to(tl.int32), 7)": True,
}  # fmt: skip


@pytest.mark.parametrize("code", LOOKED_AT)
def test_a_lane_without_value_matters_where_it_is_chosen(code: str) -> None:
    """Amounts and divisors 0 to 63, of which some have no value; the mask of the store leaves out 60 and above."""
    source = HEADER + BODY.replace("out + i, {}", "out + i, {}, mask=i < 60").format(code)
    source = source.replace("    tl.store", "    n = b\n    f = tl.where(n == 40, 1e10, n * 1.0)\n    tl.store")
    name = f"<chosen {code}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict[str, Any] = {"__name__": "integers"}
    exec(compile(source, name, "exec"), space)
    out = torch.zeros(LANES, dtype=torch.int64)
    with Session("sm_90") as session:
        space["kernel"][(1,)](torch.arange(LANES).int(), torch.arange(LANES).int(), out, LANES)
    assert bool(session.envelope(out).taints) == LOOKED_AT[code]  # type: ignore[union-attr]


def test_lanes_that_are_masked_off_at_the_store_are_not_looked_at() -> None:
    kernel = kernel_of("a // b, mask=b > 0")
    x, y, out = torch.arange(LANES).int(), torch.arange(LANES).int() % 8, torch.zeros(LANES, dtype=torch.int32)
    with Session("any") as session:
        kernel[(1,)](x, y, out, LANES)
    assert not session.envelope(out).taints  # type: ignore[union-attr]


def test_magnitude_of_an_fp8_by_its_bits() -> None:
    """The language clears the sign bit of an fp8e4b15; codes have magnitudes of their own (two may saturate)."""
    codes = torch.arange(256, dtype=torch.uint8).view(torch.int8)
    source = HEADER + BODY.format("tl.abs(a.to(tl.float8e4b15, bitcast=True)).to(tl.float32)")
    name = "<magnitude>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict[str, Any] = {"__name__": "integers"}
    exec(compile(source, name, "exec"), space)
    out = torch.zeros(256)
    with Session("sm_80") as session:
        space["kernel"][(1,)](codes, codes, out, 256)
    assert torch.equal(out[:128], out[128:]) and (out >= 0).all() and len(out.unique()) >= 127
    assert not session.taints
