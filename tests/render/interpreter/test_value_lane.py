"""The value of every floating-point rule: torch's, or the exact result rounded once, on random and special inputs.

The table must name each rule of the rule table that computes numbers; a new rule fails the first test.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import torch
from support import rng, round_fraction, special_values, trials

from interval_ops.formats.model import FORMATS
from render.interpreter.session import Session
from render.interpreter.values import ARITHMETIC
from render.ops.rule import Shape
from render.ops.table import EXACT, RULES

DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
ALL, WIDE = tuple(DTYPES), ("fp64", "fp32")


@dataclass(frozen=True)
class Op:
    """`code` in the language, `reference` on torch tensors; `once`: correctly rounded, so equal bit by bit."""

    code: str
    reference: Callable[..., torch.Tensor]
    formats: tuple[str, ...] = ALL
    once: bool = True
    positive: bool = False


def remainder(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """C's fmod; torch gives NaN for an infinite divisor."""
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    return torch.tensor([math.fmod(x, y) if math.isfinite(x) and y != 0 else math.nan for x, y in pairs], dtype=a.dtype)


def root(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """numpy's square root is correctly rounded, torch's on a CPU is not."""
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.sqrt(a.numpy()))


OPS: dict[str, Op] = {
    "fadd": Op("a + b", lambda a, b: a + b),
    "fsub": Op("a - b", lambda a, b: a - b),
    "fmul": Op("a * b", lambda a, b: a * b),
    "fdiv": Op("a / b", lambda a, b: a / b),
    "precise_divf": Op("tl.div_rn(a, b)", lambda a, b: a / b, ("fp32",)),
    "frem": Op("a % b", remainder, WIDE),
    "fneg": Op("-a", lambda a, b: -a),
    "fabs": Op("tl.abs(a)", lambda a, b: a.abs()),
    "floor": Op("tl.floor(a)", lambda a, b: a.floor(), WIDE),
    "ceil": Op("tl.ceil(a)", lambda a, b: a.ceil(), WIDE),
    "sqrt": Op("tl.sqrt(a)", root, WIDE, positive=True),
    "precise_sqrt": Op("tl.sqrt_rn(a)", root, ("fp32",), positive=True),
    "rsqrt": Op("tl.rsqrt(a)", lambda a, b: a.rsqrt(), WIDE, once=False, positive=True),
    "exp": Op("tl.exp(a)", lambda a, b: a.exp(), WIDE, once=False),
    "exp2": Op("tl.exp2(a)", lambda a, b: a.exp2(), WIDE, once=False),
    "log": Op("tl.log(a)", lambda a, b: a.log(), WIDE, once=False, positive=True),
    "log2": Op("tl.log2(a)", lambda a, b: a.log2(), WIDE, once=False, positive=True),
    "sin": Op("tl.sin(a)", lambda a, b: a.sin(), WIDE, once=False),
    "cos": Op("tl.cos(a)", lambda a, b: a.cos(), WIDE, once=False),
    "erf": Op("tl.erf(a)", lambda a, b: a.erf(), WIDE, once=False),
    "maxnumf": Op("tl.maximum(a, b)", torch.fmax),
    "minnumf": Op("tl.minimum(a, b)", torch.fmin),
    "maximumf": Op("tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)", torch.maximum),
    "minimumf": Op("tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)", torch.minimum),
    "clampf": Op("tl.clamp(a, -b * b, b * b)", lambda a, b: torch.fmin(torch.fmax(a, -b * b), b * b), ("fp32",)),
    "select": Op("tl.where(i % 3 == 0, a, b)", lambda a, b: torch.where(torch.arange(len(a)) % 3 == 0, a, b)),
    **{f"fcmp{name}": Op(f"a {sign} b", torch_op) for name, sign, torch_op in (
        ("OLT", "<", torch.lt), ("OLE", "<=", torch.le), ("OGT", ">", torch.gt), ("OGE", ">=", torch.ge),
        ("OEQ", "==", torch.eq), ("UNE", "!=", torch.ne),
    )},
}  # fmt: skip

ELSEWHERE = {"fma"}
"""Against exact rationals, below: torch has none."""

HEADER = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef kernel(x, y, out, N: tl.constexpr):\n"
BODY = "    i = tl.arange(0, N)\n    a = tl.load(x + i)\n    b = tl.load(y + i)\n    tl.store(out + i, {})\n"


def run(code: str, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    source, name = HEADER + BODY.format(code), f"<value of {code}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict[str, object] = {"__name__": "value_lane"}
    exec(compile(source, name, "exec"), space)
    with Session("ieee", interval=False):
        space["kernel"][(1,)](a, b, out, len(a))  # type: ignore[index]
    return out


def operands(fmt: str, positive: bool, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random numbers of many sizes and every pair of some special ones; a power of two of each."""
    generator, dtype = rng(seed), DTYPES[fmt]
    n = 1 << (12 if trials(10) >= 10 else 9)
    spread = 30 if fmt in ("fp64", "fp32", "bf16") else 8
    a, b = (generator.standard_normal(n) * np.exp2(generator.integers(-spread, spread, n)) for _ in range(2))
    special = np.concatenate([special_values(FORMATS[fmt]), [np.inf, -np.inf, np.nan]])
    special = generator.choice(special, 40, replace=False) if len(special) > 40 else special
    pairs = np.stack(np.meshgrid(special, special), -1).reshape(-1, 2)[: n // 2]
    a[: len(pairs)], b[: len(pairs)] = pairs[:, 0], pairs[:, 1]
    with np.errstate(invalid="ignore"):
        x, y = torch.from_numpy(a).to(dtype), torch.from_numpy(b).to(dtype)
    return (x.abs() if positive else x), y


def expected(op: Op, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch in float64, rounded once (2 p + 2 <= 53: innocuous for + - * / and sqrt); narrow formats torch's own."""
    if a.dtype == torch.float32 and op.code not in ("a % b",):
        found = op.reference(a.double(), b.double())
        return found if found.dtype == torch.bool else found.float()
    return op.reference(a, b)


def ulps(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Distance in numbers of the format."""
    kind = torch.int64 if x.dtype == torch.float64 else torch.int32

    def order(t: torch.Tensor) -> torch.Tensor:
        bits = t.view(kind).long()
        return torch.where(bits < 0, -(bits & torch.iinfo(kind).max), bits)

    return (order(x) - order(y)).abs()


def test_every_rule_that_computes_numbers_is_in_the_table() -> None:
    numeric = {Shape.MONOTONE, Shape.LINEAR, Shape.BILINEAR, Shape.UNIMODAL, Shape.SELECTION, Shape.COMPARISON}
    wanted = {rule.op for rule in RULES.values() if rule.shape in numeric} | set(ARITHMETIC)
    assert wanted == set(OPS) | ELSEWHERE


@pytest.mark.parametrize(("name", "fmt"), [(name, fmt) for name, op in OPS.items() for fmt in op.formats])
def test_values_are_torchs(name: str, fmt: str) -> None:
    op = OPS[name]
    a, b = operands(fmt, op.positive, 331)
    wanted = expected(op, a, b)
    got = run(op.code, a, b, torch.empty(len(a), dtype=wanted.dtype))
    if wanted.dtype == torch.bool:
        assert torch.equal(got, wanted)
        return
    assert torch.equal(got.isnan(), wanted.isnan())
    number = ~wanted.isnan()
    got, wanted = got[number], wanted[number]
    if op.once:
        assert torch.equal(got, wanted)
        return
    # float64 libraries are within an ulp of each other; rounded to fp32 that shows in one result of 2^29.
    away = ulps(got, wanted)
    assert away.max() <= (2 if fmt == "fp64" else 1) and (fmt == "fp64" or (away > 0).float().mean() < 1e-3)


@pytest.mark.parametrize("fmt", ALL)
def test_fma_is_rounded_once(fmt: str) -> None:
    a, b = operands(fmt, False, 332)
    if fmt == "fp32":  # exact ties and near ties of the sum, where two roundings go wrong
        a[:64], b[:64] = 1 + 2.0**-12, 1 + 2.0**-12 * (1 + torch.arange(64) * 2.0**-11)
    got = run("tl.fma(a, b, a)", a, b, torch.empty_like(a)).double()
    for x, y, z in zip(a.double().tolist()[-512:] + a.double().tolist()[:512],
                       b.double().tolist()[-512:] + b.double().tolist()[:512],
                       got.tolist()[-512:] + got.tolist()[:512], strict=True):  # fmt: skip
        if not (math.isfinite(x) and math.isfinite(y)):
            continue
        exact = Fraction(x) * Fraction(y) + Fraction(x)
        if abs(exact) < Fraction(FORMATS[fmt].max):
            assert z == float(round_fraction(exact, FORMATS[fmt]))
        else:
            assert abs(z) >= FORMATS[fmt].max


INTEGERS = {"int8": torch.int8, "int16": torch.int16, "int32": torch.int32, "int64": torch.int64, "uint8": torch.uint8}
NUMPY = {name: np.dtype(name) for name in INTEGERS}


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Towards zero, as C and the language divide."""
    rest = remains(a, b)
    return (a - rest) // b


def remains(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.fmod(a, b)


# Operands that are legal: divisors are not 0 (nor -1, whose quotient may overflow), shifts stay inside the width.
WHOLE: dict[str, tuple[str, Callable[..., np.ndarray], tuple[str, ...]]] = {
    "a + b": ("any", np.add, ("add",)), "a - b": ("any", np.subtract, ("sub",)),
    "a * b": ("any", np.multiply, ("mul",)), "a // b": ("divisor", quotient, ("sdiv", "udiv")),
    "a % b": ("divisor", remains, ("srem", "urem")), "a & b": ("any", np.bitwise_and, ("and",)),
    "a | b": ("any", np.bitwise_or, ("or",)), "a ^ b": ("any", np.bitwise_xor, ("xor",)),
    "a << b": ("shift", np.left_shift, ("shl",)), "a >> b": ("shift", np.right_shift, ("ashr", "lshr")),
    "tl.minimum(a, b)": ("any", np.minimum, ("minsi", "minui")),
    "tl.maximum(a, b)": ("any", np.maximum, ("maxsi", "maxui")),
    "tl.abs(a)": ("any", lambda a, b: np.abs(a), ("iabs",)),
    "a == b": ("any", np.equal, ("icmpEQ",)), "a != b": ("any", np.not_equal, ("icmpNE",)),
    "a < b": ("any", np.less, ("icmpSLT", "icmpULT")), "a <= b": ("any", np.less_equal, ("icmpSLE", "icmpULE")),
    "a > b": ("any", np.greater, ("icmpSGT", "icmpUGT")), "a >= b": ("any", np.greater_equal, ("icmpSGE", "icmpUGE")),
    "a.to(tl.int64)": ("any", lambda a, b: a.astype(np.int64), ("int_cast",)),
    "a.to(tl.int8)": ("any", lambda a, b: a.astype(np.int8), ("int_cast",)),
}  # fmt: skip

NO_NUMBERS = {
    "addptr", "advance", "assert", "assume", "barrier", "block_with_parent", "get_num_programs", "get_program_id",
    "grid_dependency_launch_dependents", "grid_dependency_wait", "int_to_ptr", "make_block_ptr", "make_range",
    "make_tensor_descriptor", "name_loc", "print", "ptr_to_int", "reduce_ret", "scan_ret", "map_elementwise",
    "map_elementwise_ret", "tensor_descriptor_type", "tensor_pointer_load", "tensor_pointer_store",
}  # fmt: skip
"""Exact methods that move, address or order; `histogram` and `umulhi` have tests of their own below."""


def test_every_exact_method_that_computes_numbers_is_in_the_table() -> None:
    named = {op for _, _, ops in WHOLE.values() for op in ops} | {"histogram", "umulhi"}
    assert named == set(EXACT) - NO_NUMBERS


def whole(name: str, kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random numbers of the type, its ends, and small ones around zero."""
    info, generator = np.iinfo(NUMPY[name]), rng(seed)
    special = np.array([info.min, info.min + 1, 0, 1, 2, 3, info.max - 1, info.max], NUMPY[name])
    a, b = (generator.integers(info.min, info.max, 512, NUMPY[name], endpoint=True) for _ in range(2))
    a[:64], b[:64] = np.repeat(special, 8), np.tile(special, 8)
    if kind == "divisor":
        b = np.where((b == 0) | (b == -1 if info.min else False), 7, b).astype(NUMPY[name])
    if kind == "shift":
        b = (generator.integers(0, info.bits, 512)).astype(NUMPY[name])
    return a, b


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("code", WHOLE)
def test_integers_are_numpys(code: str, name: str) -> None:
    kind, reference, _ = WHOLE[code]
    a, b = whole(name, kind, 341)
    with np.errstate(over="ignore"):
        wanted = torch.from_numpy(reference(a, b))
    got = run(code, torch.from_numpy(a), torch.from_numpy(b), torch.empty(len(a), dtype=wanted.dtype))
    assert torch.equal(got, wanted)


@pytest.mark.parametrize("name", ["int32", "int64"])
def test_high_halves_of_products(name: str) -> None:
    """Of unsigned numbers, whatever the type: `mul.hi.u32` and `mul.hi.u64` in the PTX for int32 and int64."""
    bits = NUMPY[name].itemsize * 8
    a, b = whole(name, "any", 342)
    x, y = ([int(v) % (1 << bits) for v in part] for part in (a, b))
    got = run("tl.umulhi(a, b)", torch.from_numpy(a), torch.from_numpy(b), torch.empty(len(a), dtype=INTEGERS[name]))
    assert [int(v) % (1 << bits) for v in got] == [p * q >> bits for p, q in zip(x, y, strict=True)]


def test_histograms_count() -> None:
    a = rng(343).integers(0, 512, 512).astype(np.int32)
    got = run("tl.histogram(a, 512)", torch.from_numpy(a), torch.from_numpy(a), torch.empty(512, dtype=torch.int32))
    assert torch.equal(got, torch.bincount(torch.from_numpy(a), minlength=512).int())
