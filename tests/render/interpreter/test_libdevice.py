"""Library functions inside kernels: values against torch, mpmath and Python integers; bounds around them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import library_zoo as zoo
import mpmath
import numpy as np
import pytest
import torch
import triton.language as tl
from support import rng
from triton.compiler.errors import CompilationError

from interval_ops.profiles.profile import load_profile
from render.interpreter.libdevice import forms, modules
from render.interpreter.session import Session
from render.ops.library import CONVERSIONS, INTEGERS, LIBRARY, REFUSED
from render.result.errors import UnsupportedOp

N = 64
SM80 = load_profile("sm_80")
KERNELS = {1: zoo.one, 2: zoo.two, 3: zoo.three, 4: zoo.four}
MP = mpmath.mp.clone()
MP.prec = 100


def run(
    name: str, *args: torch.Tensor, out: torch.dtype | None = None, **options: object
) -> tuple[torch.Tensor, Session]:
    result = torch.empty(N, dtype=out or args[0].dtype)
    with Session(str(options.pop("device", "sm_80")), **options) as s:  # type: ignore[arg-type]
        KERNELS[len(args)][(1,)](*args, result, name, N)
    return result, s


def numbers(dtype: torch.dtype, low: float = 0.1, high: float = 0.9, seed: int = 121) -> torch.Tensor:
    return torch.from_numpy(rng(seed).uniform(low, high, N)).to(dtype)


def cuda() -> ModuleType:
    return next(m for m in modules() if m.__name__.endswith("cuda.libdevice"))


def test_types_are_read_from_the_library() -> None:
    assert len(forms(cuda(), "pow")) == 4 and len(forms(cuda(), "isnan")) == 2
    assert all(forms(cuda(), name) for name in (*LIBRARY, *CONVERSIONS, *INTEGERS))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("name", LIBRARY)
def test_bounds_hold_the_value(name: str, dtype: torch.dtype) -> None:
    if dtype == torch.float64 and not any(tl.float64 in types for types in forms(cuda(), name)):
        pytest.skip("fp32 only")
    low, high = (1.1, 3.0) if name == "acosh" else (0.1, 0.9)
    args = [numbers(dtype, low, high, 130 + k) for k in range(LIBRARY[name].arity)]
    out, s = run(name, *args)
    envelope = s.envelope(out)
    assert envelope is not None and not envelope.taints
    assert np.all((envelope.lo <= out.numpy()) & (out.numpy() <= envelope.hi))
    spread = envelope.hi - envelope.lo
    entry = SM80.functions.get(LIBRARY[name].entry)
    least = 2.0**-37 + (0.0 if entry is None else 3 * entry.a)
    assert np.all(spread <= 2.0**-17 * np.abs(out.numpy()) + least) or LIBRARY[name].shape == "special"


TORCH: dict[str, Callable[..., torch.Tensor]] = {
    "tan": torch.tan, "pow": torch.pow, "atan2": torch.atan2, "hypot": torch.hypot, "erfc": torch.erfc,
    "erfinv": torch.erfinv, "lgamma": torch.lgamma, "cosh": torch.cosh, "expm1": torch.expm1, "log1p": torch.log1p,
    "fmod": torch.fmod, "copysign": torch.copysign, "nextafter": torch.nextafter, "normcdf": torch.special.ndtr,
    "normcdfinv": torch.special.ndtri, "erfcx": torch.special.erfcx, "exp2": torch.exp2, "cbrt": lambda x: x ** (1 / 3),
    "j0": torch.special.bessel_j0, "j1": torch.special.bessel_j1, "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1, "cyl_bessel_i0": torch.special.i0, "cyl_bessel_i1": torch.special.i1,
}  # fmt: skip


@pytest.mark.parametrize("name", TORCH)
def test_values_are_those_of_torch_in_fp64(name: str) -> None:
    args = [numbers(torch.float64, 0.1, 0.9, 140 + k) for k in range(LIBRARY[name].arity)]
    out, s = run(name, *args)
    torch.testing.assert_close(out, TORCH[name](*args), rtol=1e-12, atol=1e-14)
    envelope = s.envelope(out)
    assert envelope is not None
    reference = TORCH[name](*args).numpy()
    slack = 1e-14 * np.abs(reference)
    assert np.all((envelope.lo <= reference + slack) & (reference - slack <= envelope.hi))


@pytest.mark.parametrize("name", ["tgamma", "erfcinv", "sinpi", "cospi", "exp10", "rcbrt"])
def test_values_are_those_of_mpmath(name: str) -> None:
    oracle = {"tgamma": MP.gamma, "erfcinv": lambda x: MP.erfinv(1 - x), "sinpi": MP.sinpi, "cospi": MP.cospi,
              "exp10": lambda x: MP.power(10, x), "rcbrt": lambda x: 1 / MP.cbrt(x)}[name]  # fmt: skip
    x = numbers(torch.float32)
    out, _ = run(name, x)
    want = np.array([float(oracle(MP.mpf(float(v)))) for v in x])
    assert np.allclose(out.numpy(), want, rtol=2.0**-23, atol=0)


def test_directed_rounding_brackets_the_nearest() -> None:
    x, y = numbers(torch.float32, seed=150), numbers(torch.float32, seed=151)
    for name in ("add", "sub", "mul", "div"):
        down, up, near = (run(f"{name}_{d}", x, y)[0] for d in ("rd", "ru", "rn"))
        assert torch.all((down <= near) & (near <= up)) and torch.all(torch.nextafter(down, up) >= up)
        assert torch.any(down < up)


def test_integer_functions_are_pythons() -> None:
    g = rng(152)
    a, b = (torch.from_numpy(g.integers(-(2**31), 2**31, N).astype(np.int32)) for _ in range(2))
    a[:3] = torch.tensor([0, -1, 1])
    u, w = ([int(v) & 0xFFFFFFFF for v in t] for t in (a, b))

    def signed(v: int) -> int:
        return v - 2**32 if v & 0x80000000 else v

    want = {
        "clz": [32 - v.bit_length() for v in u],
        "popc": [v.bit_count() for v in u],
        "ffs": [(v & -v).bit_length() for v in u],
        "brev": [signed(int(f"{v:032b}"[::-1], 2)) for v in u],
    }
    for name, expected in want.items():
        assert run(name, a)[0].tolist() == expected, name
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    assert run("mulhi", a, b)[0].tolist() == [(p * q) >> 32 for p, q in pairs]
    assert run("hadd", a, b)[0].tolist() == [(p + q) >> 1 for p, q in pairs]
    assert run("rhadd", a, b)[0].tolist() == [(p + q + 1) >> 1 for p, q in pairs]
    low = [[((v & 0xFFFFFF) ^ 0x800000) - 0x800000 for v in t] for t in (u, w)]
    assert run("mul24", a, b)[0].tolist() == [signed(p * q & 0xFFFFFFFF) for p, q in zip(*low, strict=True)]
    selector = torch.full((N,), 0x7130, dtype=torch.int32)
    byte = [(p | q << 32) for p, q in zip(u, w, strict=True)]
    got = run("byte_perm", a, b, selector)[0].tolist()
    assert got == [signed(sum(((v >> 8 * k) & 255) << 8 * i for i, k in enumerate((0, 3, 1, 7)))) for v in byte]
    wide = torch.from_numpy(g.integers(-(2**63), 2**63, N))
    other = torch.from_numpy(g.integers(-(2**63), 2**63, N))
    assert run("mulhi", wide, other)[0].tolist() == [
        (p * q) >> 64 for p, q in zip(wide.tolist(), other.tolist(), strict=True)
    ]
    assert run("clz", wide, out=torch.int32)[0].tolist() == [64 - (v & (2**64 - 1)).bit_length() for v in wide.tolist()]
    assert torch.equal(run("abs", b)[0], b.abs())


def test_float_to_integer_in_four_directions() -> None:
    x = torch.linspace(-7.75, 8.0, N)
    for direction, function in (("rn", torch.round), ("rz", torch.trunc), ("rd", torch.floor), ("ru", torch.ceil)):
        out, s = run(f"float2int_{direction}", x, out=torch.int32)
        assert torch.equal(out, function(x).to(torch.int32)) and not s.taints
    assert run("llround", torch.full((N,), 2.5), out=torch.int64)[0][0] == 3
    assert run("llrint", torch.full((N,), 2.5), out=torch.int64)[0][0] == 2
    assert run("float2uint_rz", torch.full((N,), -2.5), out=torch.int32)[0][0] == 0


def test_integer_to_float_in_four_directions() -> None:
    x = torch.from_numpy(rng(153).integers(-(2**62), 2**62, N))
    exact = [int(v) for v in x]
    down, up, near, zero = (run(f"ll2float_{d}", x, out=torch.float32)[0].tolist() for d in ("rd", "ru", "rn", "rz"))
    for i, v in enumerate(exact):
        assert down[i] <= v <= up[i] and near[i] in (down[i], up[i]) and zero[i] == (down[i] if v > 0 else up[i])
        assert up[i] == down[i] or up[i] == float(np.nextafter(np.float32(down[i]), np.float32(np.inf)))


def test_bits_and_halves() -> None:
    x = numbers(torch.float64)
    low, high = run("double2loint", x, out=torch.int32)[0], run("double2hiint", x, out=torch.int32)[0]
    assert torch.equal(run("hiloint2double", high, low, out=torch.float64)[0], x)
    f = numbers(torch.float32)
    assert torch.equal(run("float_as_int", f, out=torch.int32)[0], f.view(torch.int32))


def test_ldexp_ilogb_and_signbit() -> None:
    x, n = numbers(torch.float32, -4, 4), torch.arange(-32, 32, dtype=torch.int32)
    assert torch.equal(run("ldexp", x, n)[0], torch.ldexp(x, n))
    assert run("ilogb", x, out=torch.int32)[0].tolist() == [math.frexp(v)[1] - 1 for v in x.tolist()]
    assert torch.equal(run("signbit", x, out=torch.int32)[0], torch.signbit(x).to(torch.int32))


def test_names_of_every_namespace_and_integer_powers() -> None:
    x, out = numbers(torch.float32), torch.empty(N)
    with Session("sm_80") as s:
        zoo.generic_names[(1,)](x, out, N)
    reference = x.double() ** 2 + x.double() ** 3 + torch.tanh(x.double())
    torch.testing.assert_close(out.double(), reference, rtol=1e-6, atol=0)
    envelope = s.envelope(out)
    assert envelope is not None and np.all((envelope.lo <= reference.numpy()) & (reference.numpy() <= envelope.hi))


def test_three_valued_predicates() -> None:
    """exp of 88.72284 may or may not overflow; exp of 1 is finite and a number for certain."""
    x = torch.tensor([1.0, 88.72284, 200.0, math.nan] * (N // 4))
    out = torch.empty(3 * N)
    with Session("sm_80") as s:
        zoo.isnan_kernel[(1,)](x, out, N)
    envelope = s.envelope(out)
    assert envelope is not None
    lo, hi = envelope.lo.reshape(3, N), envelope.hi.reshape(3, N)
    assert (lo[0, 0], hi[0, 0]) == (2, 2) and (lo[1, 0], hi[1, 0]) == (2, 2) and (lo[2, 0], hi[2, 0]) == (1, 1)
    assert (lo[1, 1], hi[1, 1]) == (1, 2) and (lo[2, 1], hi[2, 1]) == (1, 2)
    assert hi[1, 2] in (1, 2) and lo[1, 2] == 1 and lo[0, 3] == 1


def test_isnan_guards_a_division() -> None:
    x, y = torch.tensor([1.0, 0.0] * (N // 2)), torch.tensor([2.0, 0.0] * (N // 2))
    out = torch.empty(N)
    with Session("sm_80"):
        zoo.guarded_division[(1,)](x, y, out, N)
    assert out[:2].tolist() == [0.5, 0.0]


def test_scalars() -> None:
    out = torch.empty(1)
    with Session("sm_80"):
        zoo.scalar_call[(1,)](out)
    assert abs(out.item() - math.sqrt(2)) < 1e-6


@pytest.mark.parametrize(("name", "dtype"), [("fast_tanf", torch.float32), ("rcp64h", torch.float64)])
def test_refused_names_say_why(name: str, dtype: torch.dtype) -> None:
    with pytest.raises(UnsupportedOp) as caught:
        run(name, numbers(dtype))
    assert name in caught.value.op and caught.value.reason == REFUSED[name]
    assert caught.value.file == zoo.__file__


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize(("name", "n"), [("jn", 128), ("yn", 0), ("yn", 3)])
def test_bessel_functions_of_an_order(name: str, n: int, dtype: torch.dtype) -> None:
    x, out = numbers(dtype, 1.6 * max(n, 1), 3.0 * max(n, 1)), torch.empty(N, dtype=dtype)
    with Session("sm_80") as s:
        zoo.of_order[(1,)](x, out, name, n, N)
    exact = np.array([float((MP.besselj if name == "jn" else MP.bessely)(n, MP.mpf(float(v)))) for v in x])
    np.testing.assert_allclose(out.numpy(), exact, rtol=2.0**-23 if dtype == torch.float32 else 2.0**-52)
    envelope, reach = s.envelope(out), 2.2e-6 if dtype == torch.float32 else 5e-12
    assert envelope is not None and not envelope.taints
    assert np.all((envelope.lo <= exact - reach) & (exact + reach <= envelope.hi))
    assert np.all(envelope.hi - envelope.lo <= 2.2 * reach)


def test_orders_without_a_documented_error_are_refused() -> None:
    x, out = numbers(torch.float32), torch.empty(N)
    with pytest.raises(UnsupportedOp, match="n = 128 only") as caught, Session("sm_80"):
        zoo.of_order[(1,)](x, out, "jn", 2, N)
    assert caught.value.op == "libdevice.jn" and caught.value.file == zoo.__file__


@pytest.mark.parametrize(("name", "dtype", "short"), [("tan", torch.float16, "fp16"), ("tanh", torch.bfloat16, "bf16")])
def test_a_type_without_a_form_is_refused_as_the_compiler_refuses_it(name: str, dtype: torch.dtype, short: str) -> None:
    with pytest.raises(CompilationError) as caught:
        run(name, numbers(dtype))
    assert caught.value.original.__notes__ == [f"tl.libdevice.{name}: libdevice has no form of it for {short}"]


@pytest.mark.parametrize(("name", "device"), [("fast_exp10f", "sm_80"), ("erfinv", "gfx90a"), ("tanh", "sm_80")])
def test_what_is_assumed_exact_is_tainted(name: str, device: str) -> None:
    x = numbers(torch.float32)
    out, s = run(name, x, device=device, assume_exact={name})
    reference = {"fast_exp10f": lambda x: 10**x, "erfinv": torch.erfinv, "tanh": torch.tanh}[name](x.double())
    torch.testing.assert_close(out.double(), reference, rtol=2.0**-22, atol=0)
    envelope = s.envelope(out)
    assert envelope is not None and envelope.taints and np.all(envelope.hi - envelope.lo < 2.0**-22)
    assert [t.code for t in s.taints.values()] == ["RND302"] and "assumed exact" in next(
        iter(s.taints.values())
    ).message


def test_the_command_line_assumes_exact(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from render.cli import app

    file = tmp_path / "fast.py"
    file.write_text(FAST)
    report = tmp_path / "out.json"
    refused = CliRunner().invoke(app, ["classify", str(file), "--json", str(report)])
    assert refused.exit_code == 3 and "fast_exp10f" in report.read_text()
    assumed = CliRunner().invoke(app, ["classify", str(file), "--assume-exact", "fast_exp10f", "--json", str(report)])
    assert "assumed exact" in report.read_text(), assumed.output


FAST = """
import torch, triton, triton.language as tl
from triton.language.extra.cuda import libdevice

@triton.jit
def fast_kernel(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, libdevice.fast_exp10f(tl.load(x + i)))

def fast(x):
    o = torch.empty_like(x)
    fast_kernel[(1,)](x, o, x.numel())
    return o

def reference(x):
    return 10**x

def make_inputs(seed=0):
    return {"x": torch.linspace(-1, 1, 64)}
"""
