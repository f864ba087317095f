"""Profiles against their documents: a second copy of the figures, typed from the documents and from no profile.

Function figures are ulp from the correctly rounded result, so a rule must hold (k + 1/2) 2^-23 (fp64: 2^-52).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from interval_ops.formats.model import FORMATS
from interval_ops.profiles.profile import FnError, Profile, load_profile

NVIDIA = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121", "any")
AMD = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")


def table(text: str) -> dict[str, float]:
    words = text.split()
    return {name: float(value) for name, value in zip(words[::2], words[1::2], strict=True)}


GUIDE = table("""log 1 log2 1 sin 2 cos 2 erf 2 tan 4 tanh 2 sinh 3 cosh 2 asin 2 acos 2 atan 2 atan2 3 asinh 3 acosh 4
    atanh 3 expm1 1 log10 2 log1p 1 pow 4 erfc 4 cbrt 1 hypot 3 tgamma 5 lgamma 6 fmod 0 remainder 0 rsqrt_rn 0
    div_rn 0 sqrt_rn 0 libdevice_exp 2 libdevice_rsqrt 2 j0 9 j1 9 y0 9 y1 9 cyl_bessel_i0 6 cyl_bessel_i1 6""")
"""CUDA C Programming Guide, Mathematical Functions, single precision."""
GUIDE64 = table("""exp 1 log 1 log2 1 log10 1 log1p 1 sin 2 cos 2 tan 2 tanh 1 cosh 1 pow 2 erf 2 erfc 5 cbrt 1 rsqrt 1
    div 0 div_rn 0 sqrt 0 sqrt_rn 0 fmod 0 remainder 0 j0 7 j1 7 y0 7 y1 7 cyl_bessel_i0 6 cyl_bessel_i1 6""")
"""The same, double precision."""
OPENCL = table("""sin 4 cos 4 erf 16 tan 5 tanh 5 sinh 4 cosh 4 asin 4 acos 4 atan 5 atan2 6 asinh 4 acosh 4 atanh 5
    exp10 3 expm1 3 log10 3 log1p 2 pow 16 erfc 16 cbrt 2 hypot 4 tgamma 16 libdevice_exp 3 libdevice_rsqrt 2
    sinpi 4 cospi 4""")
"""OpenCL C 3.0, section 7.4, single and double precision alike."""
OPENCL64 = {**OPENCL, **table("rsqrt 2 exp 3 exp2 3 log 3 log2 3 sqrt 0")}
OPENCL64 = {k: v for k, v in OPENCL64.items() if not k.startswith("libdevice")}
SLEEF = table("""exp 1 exp2 1 exp10 1 expm1 1 log 1 log2 1 log10 1 log1p 1 sin 1 cos 1 tan 1 tanh 1 asin 1 acos 1 atan 1
    atan2 1 pow 1 erf 1 cbrt 1 hypot 1 sinpi 1 cospi 1 tgamma 1 div 0 div_rn 0 sqrt 0 sqrt_rn 0 fmod 0""")
"""SLEEF: u10 functions, as PyTorch's vectorised CPU kernels call them in fp64."""
TORCH = table("""exp 0.56 exp2 0.83 log 0.90 log1p 0.59 expm1 1.01 tanh 0.51 sigmoid 3.18 erf 0.73 sin 0.60 cos 0.60
    sqrt 0.75 rsqrt 1.49 pow 1.29 softplus 1.46""")
"""PyTorch eager on a CPU, fp32: the largest errors found in 2.3 million points; a whole ulp of margin is declared.

Of sigmoid that in oneDNN's LSTM, found in 1 million (torch's own: 2.15)."""
PTX = {"div": (1 + 2.5 * 2**-23) * (1 + 2**-24) - 1, "sqrt": 2.0**-23, "rsqrt": 2**-22.9, "exp": 2.5 * 2**-23,
       "exp2": 2.5 * 2**-23, "fast_expf": 2.5 * 2**-23, "tanh_approx": 2.0**-11}  # fmt: skip
"""PTX ISA 8, .approx and .full; a division by a constant is a reciprocal within 2 ulp and a product."""
ABSOLUTE = {"fast_sinf": 2**-20.5, "fast_cosf": 2**-20.5, "fast_log2f": 2**-22.0, "fast_logf": 2**-21.41,
            "fast_log10f": 2.0**-24}  # fmt: skip
"""CUDA C Programming Guide, intrinsic functions: absolute errors on their main interval, 3 ulp (log2 2) outside; of sin
and cos PTX ISA 8 states more for the instruction."""


def ulp(k: float, wide: bool = False) -> float:
    return (k + 0.5) * (2.0**-52 if wide else 2.0**-23)


def holds(profile: Profile, name: str, figure: float, fmt: str, room: float) -> None:
    found = profile.fn(name, fmt)
    assert figure <= found.r * (1 + 2.0**-20), (profile.name, name, fmt)
    assert found.r <= figure * room, (profile.name, name, fmt)


@pytest.mark.parametrize("device", NVIDIA)
def test_nvidia(device: str) -> None:
    profile = load_profile(device)
    for name, k in GUIDE.items():
        holds(profile, name, ulp(k), "fp32", 1.001)
    for name, k in GUIDE64.items():
        holds(profile, name, ulp(k, True), "fp64", 1.001)
    for name, figure in PTX.items():
        holds(profile, name, figure, "fp32", 1.01)
    for name, figure in ABSOLUTE.items():
        found = profile.fn(name)
        assert figure <= found.a * 1.001 <= 4 * figure
        assert name in ("fast_sinf", "fast_cosf") or found.r >= ulp(2 if name == "fast_log2f" else 3) / 1.001
    assert profile.exp_via_exp2 and profile.atomic_flush_fp32 and profile.default_input_precision == "tf32"


FLUSHED = {"log", "log2", "div", "div_rn", "sqrt_rn", "rsqrt_rn", "exp", "tanh_approx"}
"""Read in the PTX: these keep subnormals; libdevice is compiled with flush-to-zero, and sqrt, rsqrt, exp2 are .ftz."""


@pytest.mark.parametrize("device", NVIDIA)
def test_what_nvidia_flushes(device: str) -> None:
    functions = load_profile(device).functions
    for name, error in functions.items():
        if "@" not in name:
            assert error.ftz == (name not in FLUSHED), name
        assert not (error.ftz and name.endswith("@fp64")), name


@pytest.mark.parametrize("device", AMD)
def test_amd(device: str) -> None:
    profile = load_profile(device)
    for name, k in OPENCL.items():
        holds(profile, name, ulp(k), "fp32", 1.001)
        assert profile.fn(name).ftz, name
    for name, k in OPENCL64.items():
        holds(profile, name, ulp(k, True), "fp64", 1.001)
    for name, k in {"div": 0, "div_rn": 0, "sqrt_rn": 0, "sqrt": 1, "rsqrt": 1, "exp2": 1, "log2": 1}.items():
        holds(profile, name, ulp(k), "fp32", 1.001)  # LLVM, AMDGPUUsage
    holds(profile, "exp", 1.5 * 2**-23, "fp32", 1.001)
    holds(profile, "log", 3 * 2**-23, "fp32", 1.001)
    assert all(profile.fn(name).ftz for name in ("sqrt", "rsqrt", "exp", "exp2")), "v_exp, v_sqrt, v_rsq flush"
    assert profile.exp_via_exp2 and profile.atomic_flush_fp32 and profile.default_input_precision in ("ieee", "tf32")


def test_intel() -> None:
    profile = load_profile("xpu")
    for name, k in {**OPENCL, "div": 2.5, "sqrt": 3, "rsqrt": 2, "exp2": 3, "log": 3, "log2": 3}.items():
        holds(profile, name, ulp(k), "fp32", 1.4)
    for name, k in OPENCL64.items():
        holds(profile, name, ulp(k, True), "fp64", 1.4)
    assert profile.exp_via_exp2 and profile.atomic_flush_fp32
    assert not [name for name in profile.functions if name.startswith("fast_") or "_approx" in name], "NVIDIA's"
    for name, error in profile.functions.items():
        rounded = name.startswith(("div", "sqrt_rn", "fmod", "remainder"))
        assert error.ftz or "@" in name or rounded, name


def test_correct_rounding_is_half_an_ulp() -> None:
    for name, error in load_profile("ieee").functions.items():
        wide = name.endswith("@fp64")
        assert (error.r, error.a, error.ftz) == (ulp(0, wide), error.a, False), name
        assert error.a <= 2.0**-149 * 0.5 or (wide and error.a <= 2.0**-1074), name
        assert error.until == math.inf and not error.breaks, name
    profile = load_profile("ieee")
    assert not profile.exp_via_exp2 and not profile.atomic_flush_fp32 and profile.default_input_precision == "ieee"


def test_pytorch_on_a_cpu() -> None:
    profile = load_profile("torch-cpu")
    for name, found in TORCH.items():
        holds(profile, name, (math.ceil(found) + 1) * 2.0**-23, "fp32", 1.001)
    for name, k in SLEEF.items():
        holds(profile, name, ulp(k, True), "fp64", 1.001)
    for name, k in table("exp10 1 cbrt 1 sinpi 1 cospi 1 tgamma 1 div 0 div_rn 0 sqrt_rn 0 fmod 0 remainder 0").items():
        holds(profile, name, ulp(k), "fp32", 1.001)
    for name, k in table("rsqrt 2 erfc 2 remainder 0 erfinv 1.5 normcdfinv 4.5").items():
        holds(profile, name, ulp(k, True), "fp64", 1.001)
    for name, error in profile.functions.items():
        least = 2.0**-1074 if name.endswith("@fp64") else 2.0**-149
        rounded = error.r <= ulp(0, name.endswith("@fp64"))
        assert rounded or error.a >= least / 2, f"{name}: subnormal results round, too"
        assert not error.ftz
    assert not profile.exp_via_exp2 and not profile.atomic_flush_fp32


def test_pytorch_on_cuda() -> None:
    profile = load_profile("cuda-eager")
    for name, k in {"exp": 2, "rsqrt": 2, "div": 0, "div_rn": 0, "sqrt": 0, "sqrt_rn": 0, "log": 1, "tanh": 2}.items():
        holds(profile, name, ulp(k), "fp32", 1.001)


# functions without a table of the vendor
MEASURED = Path(__file__).parents[3] / "docs" / "library.md"
OWN = [
    "exp10",
    "sinpi",
    "cospi",
    "erfinv",
    "erfcinv",
    "erfcx",
    "normcdf",
    "normcdfinv",
    "rcbrt",
    "rhypot",
    "norm3d",
    "norm4d",
    "rnorm3d",
    "rnorm4d",
]


def measured() -> Iterator[tuple[str, str, float, float]]:
    """(function, format, the larger of exact and fused, leaning) of the page."""
    for line in MEASURED.read_text().splitlines():
        if found := re.match(r"\| (\w+) (fp32|fp64) \| [\d.]+ \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", line):
            yield found[1], found[2], max(float(found[3]), float(found[4])), float(found[5])


def test_what_the_vendors_code_does() -> None:
    """fp32: with every instruction leaning, up to a whole ulp beyond rounding; fp64: twice what was found, or more."""
    profile, seen = load_profile("sm_80"), 0
    for name, fmt, found, leaning in measured():
        wide = fmt == "fp64"
        other = {"exp": "libdevice_exp", "rsqrt": "libdevice_rsqrt"}
        error: FnError = profile.fn(name if wide else other.get(name, name), fmt)
        assert found * (2.0**-52 if wide else 2.0**-23) <= error.r, (name, fmt)
        if name in OWN:
            seen += 1
            need = 2 * max(found, leaning) if wide else leaning
            ours = error.r / (2.0**-52 if wide else 2.0**-23)
            assert need - 0.01 <= ours <= math.ceil(need) + 1.5 + 2 * wide, (name, fmt)
    assert seen == 2 * len(OWN)


SWEPT = Path(__file__).parents[3] / "docs" / "torch_functions.md"


def test_what_pytorch_was_seen_to_do() -> None:
    """Figures that stand on the sweep are the largest error found and about one ulp more."""
    profile, seen = load_profile("torch-cpu"), 0
    for line in SWEPT.read_text().splitlines():
        found = re.match(r"\| (\w+) (fp32|fp64) \| (?:eager|strided) \| [\d.]+ \| ([\d.]+) \|", line)
        error = profile.fn(found[1], found[2]) if found and found[1] in profile.functions else None
        if found is None or error is None or not error.source.startswith("largest error"):
            continue
        unit, seen = 2.0**-52 if found[2] == "fp64" else 2.0**-23, seen + 1
        assert float(found[3]) + 0.9 <= error.r / unit, line
    assert seen > 20
    assert profile.fn("lgamma", "fp64").r == 3 * 2.0**-52 and profile.fn("erfcx", "fp64").r >= 2**-41  # as SWEPT has it


# matrix units
UNITS = {
    "sm_80": "fp16 8 24 bf16 8 24 tf32 4 24 fp8 8 24 fp16acc 8 24",
    "sm_86": "fp16 8 24 bf16 8 24 tf32 4 24 fp8 8 24 fp16acc 8 24",
    "sm_89": "fp16 8 24 bf16 8 24 tf32 4 24 fp8 16 13 fp16acc 8 24",
    "sm_90": "fp16 16 25 bf16 16 25 tf32 8 25 fp8 32 13 fp16acc 16 25",
    "sm_100": "fp16 16 25 bf16 16 25 tf32 8 25 fp8 32 25 fp16acc 16 25 mxfp8 32 25 mxfp4 16 25",
    "sm_120": "fp16 16 25 bf16 16 25 tf32 8 25 fp8 32 25 fp16acc 16 25 mxfp8 32 25 mxfp4 64 35",
    "any": "fp16 4 23 bf16 4 23 tf32 4 24 fp8 16 13 fp16acc 8 24",
    "gfx942": "fp16 8 24 bf16 8 24 tf32 4 24 fp8 8 24 fp8e4b8 16 24 fp16acc 8 24",
    "gfx1100": "fp16 4 23 bf16 4 23 fp8 4 23 fp16acc 4 23", "gfx1201": "fp16 4 23 bf16 4 23 fp8 16 13 fp16acc 4 23",
    "gfx950": "fp16 4 23 bf16 4 23 fp8 16 13 fp8e5 16 13 fp8e4nv 16 13 fp16acc 4 23",
    "xpu": "fp16 4 23 bf16 4 23 tf32 4 23 fp8 4 23 fp16acc 4 23",
}  # fmt: skip
"""Products and fraction bits of a block (MMA-Sim; Khattak and Mikaitis); where nothing is published, as wide as any."""


@pytest.mark.parametrize("device", UNITS)
def test_blocks(device: str) -> None:
    words, profile = UNITS[device].split(), load_profile(device)
    for kind, length, fraction in zip(words[::3], words[1::3], words[2::3], strict=True):
        dot = profile.dot(kind)
        assert (dot.block, dot.fraction) == (int(length), int(fraction)), kind
        rho = 2.0**-13 if fraction == "13" else 2.0**-11 if kind == "fp16acc" else 2.0**-23
        rho = 2.0**-24 if device == "gfx942" else rho
        assert rho <= dot.rho <= 2 * rho, kind
        assert dot.chops or kind == "fp16acc" or device not in NVIDIA, kind
    for kind, dot in profile.dots.items():
        assert dot.acc != "fp16" or dot.rho >= 2.0**-11 or dot.convert, kind
        assert dot.rho >= 2.0**-24 or dot.acc in ("fp64", "int32"), kind
        assert not dot.convert or dot.acc == "fp16", kind
        assert dot.rho == 2.0**-11 or dot.acc != "fp16" or dot.block == 1 or device == "gfx942", kind
    units = [(profile.dot(kind).block, profile.dot(kind).fraction) for kind in ("fp8_fp16acc", "fp8", "fp16acc")]
    assert units[0] in units[1:]  # that of fp8, or that of fp16 once the operands are widened
    parts = {"tf32x3": (3, 2.0**-22 + 2 * 2.0**-23, 2.0**-9), "bf16x3": (3, 2.0**-16 + 2 * 2.0**-17, 2.0**-6),
             "bf16x6": (6, 2 * 2.0**-8 * 2.0**-17 + 2.0**-34, 2.0**-6)}  # fmt: skip
    for kind, (terms, lost, growth) in parts.items():
        if kind not in profile.dots:
            continue
        dot, base = profile.dot(kind), profile.dot("tf32" if kind == "tf32x3" else "bf16")
        base = load_profile("sm_80").dot("bf16") if device == "any" and kind != "tf32x3" else base  # no Volta
        assert (dot.terms, dot.block, dot.fraction, dot.rho) == (terms, base.block, base.fraction, base.rho), kind
        assert dot.chops == base.chops, kind  # the same unit
        assert lost <= dot.eps <= 2.01 * lost and growth <= dot.growth <= 1.1 * growth, kind
        assert dot.floor >= (2.0**-125 if dot.flush else 2.0**-136 if kind == "tf32x3" else 2.0**-133), kind


@pytest.mark.parametrize("device", ["sm_70", "sm_75"])
def test_chains_along_k(device: str) -> None:
    """PTX of Triton 3.5 and later: fma.rn.f32, and fma.rn.f16 where the accumulator is fp16, one after the other."""
    for kind in ("fp16", "bf16", "tf32", "tf32x3", "ieee", "fp8", "fp16acc", "fp8_fp16acc"):
        dot = load_profile(device).dot(kind)
        assert (dot.block, dot.sequential) == (1, True), kind
        assert dot.rho == (2.0**-11 if kind.endswith("fp16acc") else 2.0**-24), kind


def test_overflow_of_casts() -> None:
    """PTX of Triton 3.9: cvt.rn.satfinite to fp8, infinities elsewhere; where nothing is known, either."""
    for device in (*NVIDIA, *AMD, "xpu", "ieee", "torch-cpu"):
        overflow = load_profile(device).cast_overflow
        assert {overflow[f] for f in ("fp32", "fp16", "bf16")} == {"inf"}
        fp8 = {"fp8e5": "saturate", "fp8e4nv": "saturate"} if device in NVIDIA else {"fp8e5": "either"}
        fp8 = {"fp8e5": "inf", "fp8e4nv": "either"} if device == "torch-cpu" else fp8
        assert all(overflow[name] == what for name, what in fp8.items()), device
        assert overflow.get("fp8e4b15", "saturate") == "saturate", device


def test_units_that_flush() -> None:
    """MMA-Sim and PyTorch's note for CDNA2: fp16 and bf16 units read subnormals as zero, fp32 and fp64 ones keep them.
    CDNA3 and NVIDIA keep them all; where nothing is published they may be lost."""
    for device in ("gfx90a", "gfx1100", "gfx1201", "xpu"):
        for kind, dot in load_profile(device).dots.items():
            assert dot.flush == (kind not in ("ieee", "fp64", "int8")), (device, kind)
    for device in (*NVIDIA, "gfx942", "gfx950", "ieee", "torch-cpu"):
        assert not any(dot.flush for dot in load_profile(device).dots.values()), device


@pytest.mark.parametrize("device", ["sm_100", "sm_103", "sm_120", "sm_121", "any", "gfx950"])
def test_a_unit_that_does_not_normalise_operands_aligns_to_what_they_might_be(device: str) -> None:
    """A subnormal operand of p bits stands for one of up to 2^(p - 1) times itself, in a product of two its square."""
    for kind, fmt in (("mxfp8", "fp8e4nv"), ("mxfp4", "e2m1")):
        assert load_profile(device).dot(kind).subnormal >= 4.0 ** (FORMATS[fmt].p - 1), kind


@pytest.mark.parametrize("device", NVIDIA)
def test_cube_roots_of_subnormal_numbers_are_no_numbers(device: str) -> None:
    """libdevice flushes them in one place and not in another (PTX of Triton 3.9)."""
    for name in ("cbrt", "rcbrt"):
        found = load_profile(device).fn(name)
        assert found.ftz and found.breaks
