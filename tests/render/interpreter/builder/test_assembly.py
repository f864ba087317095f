"""Inline PTX: instructions with a rule hold the exact value and their documented error; the rest is refused."""

from __future__ import annotations

from collections.abc import Callable

import flint
import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import render
from render.interpreter.builder.assembly import INSTRUCTIONS
from render.interpreter.session import Session


@triton.jit
def one(x_ptr, o_ptr, B: tl.constexpr, TEXT: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, B)
    y = tl.inline_asm_elementwise(TEXT, HOW, [tl.load(x_ptr + i)], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(o_ptr + i, y)


@triton.jit
def two(x_ptr, o_ptr, B: tl.constexpr, TEXT: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    y = tl.inline_asm_elementwise(TEXT, HOW, [x, 3.0 - x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(o_ptr + i, y)


@triton.jit
def cast(x_ptr, o_ptr, B: tl.constexpr, TEXT: tl.constexpr, HOW: tl.constexpr, TO: tl.constexpr):
    i = tl.arange(0, B)
    y = tl.inline_asm_elementwise(TEXT, HOW, [tl.load(x_ptr + i)], dtype=TO, is_pure=True, pack=1)
    tl.store(o_ptr + i, y)


@triton.jit
def of_halves(x_ptr, o_ptr, B: tl.constexpr, TEXT: tl.constexpr, HOW: tl.constexpr, COUNT: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    y = tl.load(x_ptr + (i + 5) % B)
    z = tl.load(x_ptr + (i + 11) % B)
    to: tl.constexpr = o_ptr.dtype.element_ty
    if COUNT == 1:
        r = tl.inline_asm_elementwise(TEXT, HOW, [x], dtype=to, is_pure=True, pack=1)
    elif COUNT == 2:
        r = tl.inline_asm_elementwise(TEXT, HOW, [x, y], dtype=to, is_pure=True, pack=1)
    else:
        r = tl.inline_asm_elementwise(TEXT, HOW, [x, y, z], dtype=to, is_pure=True, pack=1)
    tl.store(o_ptr + i, r)


POINTS = np.array([0.25, 1e-3, 0.1, 0.5, 0.9, 1.0, 1.5, 2.75, -0.3, -1.0, -2.5, 3.0, 7.25, 1e-30, 100.0, 0.125])


def envelope(
    kernel: object, x: torch.Tensor, out: torch.Tensor, device: str, *words: object
) -> tuple[np.ndarray, np.ndarray]:
    with Session(device) as session:
        kernel[(1,)](x, out, x.numel(), *words)  # type: ignore[index]
        found = session.envelope(out)
    return np.broadcast_to(found.lo, x.shape), np.broadcast_to(found.hi, x.shape)


# (instruction, exact function, relative and absolute error of PTX ISA 8)
APPROXIMATE: tuple[tuple[str, Callable[[flint.arb], flint.arb], float, float], ...] = (
    ("tanh.approx.f32", lambda x: x.tanh(), 2.0**-11, 0.0),
    ("ex2.approx.ftz.f32", lambda x: (x * flint.arb.const_log2()).exp(), 2.0**-22, 0.0),
    ("rcp.approx.f32", lambda x: 1 / x, 2.0**-23, 0.0),
    ("rcp.approx.ftz.f32", lambda x: 1 / x, 2.0**-23, 0.0),
    ("rsqrt.approx.f32", lambda x: x.rsqrt(), 2.0**-22.9, 0.0),
    ("lg2.approx.f32", lambda x: x.log() / flint.arb.const_log2(), 0.0, 2.0**-22),
    ("sin.approx.f32", lambda x: x.sin(), 0.0, 2.0**-20.5),
    ("cos.approx.ftz.f32", lambda x: x.cos(), 0.0, 2.0**-20.5),
)


@pytest.mark.parametrize(("text", "exact", "relative", "absolute"), APPROXIMATE, ids=[a[0] for a in APPROXIMATE])
def test_the_bound_holds_what_the_document_allows(
    text: str, exact: Callable[[flint.arb], flint.arb], relative: float, absolute: float
) -> None:
    x = torch.tensor(POINTS, dtype=torch.float32)
    if "sqrt" in text or "lg2" in text or "rcp" in text:
        x = x.abs() + 2.0**-20
    if "sin" in text or "cos" in text:
        x = x.clamp(-3, 3)
    lo, hi = envelope(one, x, torch.empty_like(x), "sm_80", f"{text} $0, $1;", "=f,f")
    for value, low, high in zip(x.tolist(), lo.tolist(), hi.tolist(), strict=True):
        y = exact(flint.arb(value))
        off = abs(float(y.mid())) * relative * (1 - 1e-9) + absolute * (1 - 1e-9)
        assert low <= float(y.mid()) - off and float(y.mid()) + off <= high, value
        assert high - low <= 2 * off + 8 * 2.0**-23 * (abs(float(y.mid())) + 2.0**-20), value


@pytest.mark.parametrize("direction", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_rounding_modes_hold_the_exact_result_rounded(op: str, direction: str) -> None:
    x = torch.tensor(POINTS, dtype=torch.float32)
    y = 3.0 - x
    lo, hi = envelope(two, x, torch.empty_like(x), "sm_80", f"{op}.{direction}.f32 $0, $1, $2;", "=f,f,f")
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op]
    with np.errstate(all="ignore"):
        exact = function(x.double().numpy(), y.double().numpy())  # within half an ulp of float64
        near = exact.astype(np.float32)
        up = np.where(near < exact, np.nextafter(near, np.float32(np.inf)), near)
        down = np.where(near > exact, np.nextafter(near, np.float32(-np.inf)), near)
        rounded = {"rn": near, "rp": up, "rm": down, "rz": np.where(exact > 0, down, up)}[direction]
    finite = np.isfinite(exact)
    assert np.all((lo <= rounded)[finite] & (rounded <= hi)[finite])
    assert np.all((hi - lo)[finite] <= 8 * np.spacing(np.abs(near[finite]) + np.abs(y.numpy()[finite])))


HALVES: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add, "sub.rn": torch.sub, "mul": torch.mul, "fma.rn": lambda x, y, z: x * y + z, "max": torch.fmax,
    "min": torch.fmin, "neg": torch.neg, "abs": torch.abs,
}  # fmt: skip


@pytest.mark.parametrize(("text", "device", "why"), [
    ("add.bf16 $0, $1, $2;", "sm_80", "sm_80 does not have it"),
    ("add.ftz.f16 $0, $1, $2;", "any", "flushed subnormals"),
])  # fmt: skip
def test_halves_that_a_target_lacks_or_flushes_are_refused(text: str, device: str, why: str) -> None:
    x = torch.ones(4, dtype=torch.bfloat16 if "bf16" in text else torch.float16)
    with pytest.raises(render.UnsupportedOp, match=why), Session(device):
        of_halves[(1,)](x, torch.empty_like(x), 4, text, "=h,h,h", 2)


@pytest.mark.parametrize("op", HALVES)
@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_halves_round_once(op: str, half: torch.dtype) -> None:
    """The exact result in float64 (products and sums of a few halves fit), rounded to nearest, in a narrow bound."""
    x = torch.tensor(POINTS).to(half)
    operands = [x, x.roll(-5), x.roll(-11)][: {"fma.rn": 3, "neg": 1, "abs": 1}.get(op, 2)]
    exact = HALVES[op](*(t.double() for t in operands))
    count = len(operands)
    text = f"{op}.{'f16' if half == torch.float16 else 'bf16'} {', '.join(f'${k}' for k in range(count + 1))};"
    how = ",".join(["=h", *["h"] * count])
    lo, hi = envelope(of_halves, x, torch.empty_like(x), "sm_90", text, how, count)
    near = exact.to(half).double().numpy()
    ulp = np.abs(near) * torch.finfo(half).eps + float(torch.finfo(half).smallest_normal)
    scale = (operands[0].double() * operands[1].double()).abs().numpy() * torch.finfo(half).eps if count == 3 else 0.0
    assert np.all((lo <= near) & (near <= hi)) and np.all(hi - lo <= 2 * ulp + 2 * scale)


@pytest.mark.parametrize(("text", "how", "to"), [
    ("cvt.rn.f16.f32 $0, $1;", "=h,f", torch.float16), ("cvt.rn.bf16.f32 $0, $1;", "=h,f", torch.bfloat16),
    ("cvt.rni.s32.f32 $0, $1;", "=r,f", torch.int32), ("cvt.rmi.f32.f32 $0, $1;", "=f,f", torch.float32),
])  # fmt: skip
def test_conversions(text: str, how: str, to: torch.dtype) -> None:
    x = torch.tensor(POINTS, dtype=torch.float32)
    out = torch.empty(x.shape, dtype=to)
    kind = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.int32: tl.int32, torch.float32: tl.float32}[
        to
    ]
    with render.no_gpu("sm_90"):
        cast[(1,)](x, out, x.numel(), text, how, kind)
    expected = torch.round(x).int() if to == torch.int32 else torch.floor(x) if to == torch.float32 else x.to(to)
    assert torch.equal(out, expected)


@pytest.mark.parametrize(("text", "how", "device", "why"), [
    ("prmt.b32 $0, $1;", "=f,f", "any", "prmt.b32 has no rule"),
    ("tanh.approx.bf16 $0, $1;", "=f,f", "any", "it takes bf16"),
    ("tanh.approx.f64 $0, $1;", "=f,f", "any", "of tanh there are tanh.approx.bf16"),
    ("tanh.approx.bf16 $0, $1;", "=f,f", "sm_80", "it takes bf16"),
    ("tanh.approx.f32 $0, $1;", "=f,f", "sm_70", "sm_70 does not have it"),
    ("tanh.approx.ftz.f32 $0, $1;", "=f,f", "any", "flushed subnormals"),
    ("tanh.approx.f32 $0, $1;", "=r,f", "gfx942", "gfx942 has no PTX"),
    ("tanh.approx.f32 $0, $1;", "=h,f", "any", "here fp32, fp32 as =h,f"),
    ("add.rn.f32 $0, $1;", "=f,f", "any", "add.rn.f32 takes f32, f32"),
    ("cvt.rni.s32.f32 $0, $1; neg.f32 $0, $0;", "=f,f", "any", "it takes fp32, .0 is int32"),
    ("setp.lt.f32 p, $1, 1.0; @p mov.f32 $0, $1;", "=f,f", "any", "does not write .0 everywhere"),
    ("setp.lt.f32 p, $1, 1.0; @p mov.f32 a, $1; neg.f32 $0, a;", "=f,f", "any", "nothing has written a where"),
    ("setp.lt.f32 p, $1, 1.0; @p mov.f32 a, $1; @!p neg.f32 $0, a;", "=f,f", "any", "nothing has written a where"),
    ("setp.ne.f32 p, $1, 1.0; selp.f32 $0, $1, $1, p;", "=f,f", "any", "setp.ne.f32 has no rule"),
    ("@q mov.f32 $0, $1;", "=f,f", "any", "nothing has written q"),
    ("neg.f32 $1, $1; mov.f32 $0, $1;", "=f,f", "any", "it writes the operand .1"),
    ("{ mov.f32 $0, $1; bra L; }", "=f,f", "any", "bra has no rule"),
    ("nope", "=f,f", "any", "nope"),
])  # fmt: skip
def test_everything_else_is_refused_by_name(text: str, how: str, device: str, why: str) -> None:
    x = torch.ones(4)
    with pytest.raises(render.UnsupportedOp, match=why) as caught, Session(device):
        one[(1,)](x, torch.empty(4), 4, text, how)
    assert caught.value.line


SOFTPLUS = """{ .reg .pred p; .reg .f32 a, b<2>;
    setp.gt.f32 p, $1, 2.5;
    @p  mov.f32 $0, $1;
    @!p mul.f32 a, $1, 1.4426950408889634;
    @!p ex2.approx.ftz.f32 a, a;
    @!p add.f32 b0, a, 1.0;
    @!p lg2.approx.ftz.f32 b1, b0;
    @!p mul.f32 $0, b1, 0f3F317218; }"""


def test_straight_text_is_run_under_its_guards() -> None:
    x = torch.tensor(POINTS, dtype=torch.float32)
    out = torch.empty_like(x)
    lo, hi = envelope(one, x, out, "sm_80", SOFTPLUS, "=r,r")
    exact = np.where(x > 2.5, x.double(), torch.nn.functional.softplus(x.double()))
    assert np.all((lo <= exact) & (exact <= hi)) and np.all(hi - lo <= 1e-6 * (1 + np.abs(exact)))
    assert np.all((lo == hi) == (x.numpy() > 2.5)) and np.all((lo <= out.numpy()) & (out.numpy() <= hi))


@triton.jit
def clipped(x_ptr, o_ptr, B: tl.constexpr, TEXT: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i) * 0.1
    tl.store(o_ptr + i, tl.inline_asm_elementwise(TEXT, "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1))


@pytest.mark.parametrize("text", [
    "setp.lt.f32 p, $1, 0.1; selp.f32 $0, $1, -7.0, p;",
    "setp.lt.f32 p, $1, 0.1; mov.b32 $0, -7.0; @p mov.b32 $0, $1;",
    "setp.lt.f32 p, $1, 0.1; @!p mov.b32 $0, -7.0; @p mov.b32 $0, $1;",
    "setp.ge.f32 p, $1, 0.1; setp.neu.f32 q, $1, $1; @p mov.f32 a, -7.0; @!p mov.f32 a, $1; @q neg.f32 a, a; "
    "mov.f32 $0, a;",
])  # fmt: skip
def test_an_open_predicate_leaves_both_ways(text: str) -> None:
    """1 * 0.1 is on either side of 0.1 or on it, by how the product is rounded; 0.5 and 2 are not."""
    x = torch.tensor([0.5, 1.0, 2.0, 1.0])
    lo, hi = envelope(clipped, x, torch.empty_like(x), "any", text)
    assert hi[0] < 0.0501 and lo[0] > 0.0499 and lo[2] == hi[2] == -7.0
    assert np.all(lo[1::2] == -7.0) and np.all(hi[1::2] >= np.float32(0.1) - 1e-8)


def test_every_instruction_has_what_it_names() -> None:
    from render.interpreter.builder import Builder
    from render.interpreter.vendor.conversions import METHODS
    from render.ops.library import LIBRARY

    for name, known in INSTRUCTIONS.items():
        assert not known.method or hasattr(Builder, known.method), name
        assert not known.library or known.library in LIBRARY or known.library in METHODS, name


# PTX ISA 8: relative and absolute error of the approximations of halves.
OF_HALVES = (
    ("tanh.approx.f16", torch.float16, lambda x: x.tanh(), 0.0, 2.0**-10.987),
    ("tanh.approx.bf16", torch.bfloat16, lambda x: x.tanh(), 0.0, 2.0**-8),
    ("ex2.approx.f16", torch.float16, lambda x: (x * flint.arb.const_log2()).exp(), 2.0**-9.9, 0.0),
    ("ex2.approx.ftz.bf16", torch.bfloat16, lambda x: (x * flint.arb.const_log2()).exp(), 2.0**-7, 0.0),
)


@triton.jit
def in_pairs(x_ptr, o_ptr, B: tl.constexpr, TEXT: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    to: tl.constexpr = o_ptr.dtype.element_ty
    tl.store(o_ptr + i, tl.inline_asm_elementwise(TEXT, HOW, [x, x], dtype=to, is_pure=True, pack=2))


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize(("text", "half", "exact", "relative", "absolute"), OF_HALVES, ids=[a[0] for a in OF_HALVES])
def test_approximations_of_halves_hold_what_the_document_allows(
    text: str, half: torch.dtype, exact: Callable[[flint.arb], flint.arb], relative: float, absolute: float, pairs: bool
) -> None:
    """Every half within the document's error of the exact value lies inside, and little else.

    Below the smallest normal number, on a grid, the error is at least what the document allows there.
    """
    x = torch.cat([torch.tensor(POINTS).clamp(-12, 12), torch.linspace(-9, 9, 112), torch.linspace(-25, -13, 48)])
    x = torch.cat([x, x[: 128 - x.numel() % 128]]).to(half)
    if pairs:
        lo, hi = envelope(in_pairs, x, torch.empty_like(x), "sm_90", f"{text}x2 $0, $1;", "=r,r,r")
    else:
        lo, hi = envelope(of_halves, x, torch.empty_like(x), "sm_90", f"{text} $0, $1;", "=h,h", 1)
    bits = torch.finfo(half)
    for value, low, high in zip(x.tolist(), lo.tolist(), hi.tolist(), strict=True):
        y = float(exact(flint.arb(value)).mid())
        size = max(abs(y), bits.smallest_normal)
        off = (size * relative + absolute) * (value != 0)  # of zeros the tables of corner cases give the result
        least = y - off * (1 - 1e-9)
        assert low <= (max(least, 0.0) if relative else least) and y + off * (1 - 1e-9) <= high, value
        assert high - low <= 2 * off + 3 * (abs(y) + off) * bits.eps + 4 * bits.smallest_normal, value


@pytest.mark.parametrize(("text", "how", "why"), [
    ("tanh.approx.f16 $0, $1;", "=r,r,r", "two lie in a register"),
    ("tanh.approx.f16x2 $0, $1;", "=h,h,h", "no such operands"),
    ("tanh.approx.ftz.f16x2 $0, $1;", "=r,r,r", "flushed subnormals"),
    ("ex2.approx.bf16x2 $0, $1;", "=r,r,r", "fp16|bf16"),
    ("rsqrt.approx.f16x2 $0, $1;", "=r,r,r", "rsqrt.approx.f16 has no rule|rsqrt.approx.f16x2 has no rule"),
    ("add.f16x2 $0, $1, 1.0;", "=r,r,r", "1.0 is fp32"),
    ("mul.f32 $0, $1, $2;", "=r,r,r", "it takes fp32|two lie in a register"),
])  # fmt: skip
def test_pairs_without_a_rule_are_refused_by_name(text: str, how: str, why: str) -> None:
    x = torch.ones(4, dtype=torch.float16)
    with pytest.raises(render.UnsupportedOp, match=why), Session("sm_90"):
        in_pairs[(1,)](x, torch.empty_like(x), 4, text, how)


@triton.jit
def two_results(x_ptr, o_ptr, q_ptr, B: tl.constexpr, TEXT: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + i)
    y, z = tl.inline_asm_elementwise(
        TEXT, "=&f,=&f,f,f", [x, 3.0 - x], dtype=(tl.float32, tl.float32), is_pure=True, pack=1
    )
    tl.store(o_ptr + i, y)
    tl.store(q_ptr + i, z)


def test_several_results() -> None:
    x, out, other = torch.linspace(0, 2, 16), torch.empty(16), torch.empty(16)
    with Session("sm_90") as s:
        two_results[(1,)](x, out, other, 16, "sub.f32 $1, $2, $3; add.f32 $0, $2, $3; mul.f32 $1, $1, $1;")
    y = 3.0 - x
    for got, exact in ((out, x.double() + y), (other, (x.double() - y) ** 2)):
        env = s.envelope(got)
        assert env is not None and (env.lo <= exact.numpy()).all() and (exact.numpy() <= env.hi).all()
        torch.testing.assert_close(got.double(), exact, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("text", "why"), [
    ("add.f32 $0, $2, $3;", r"does not write \$1"),
    ("add.f32 $0, $2, $3; mov.f32 $2, $0;", r"writes the operand \$2"),
    ("add.f32 $0, $1, $3; mov.f32 $1, $0;", r"nothing has written \$1"),
])  # fmt: skip
def test_results_that_are_not_written_are_refused(text: str, why: str) -> None:
    with pytest.raises(render.UnsupportedOp, match=why), Session("sm_90"):
        two_results[(1,)](torch.ones(16), torch.empty(16), torch.empty(16), 16, text)
