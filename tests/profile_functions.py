"""What documents and measurements say of functions, for every profile in full: written from them, not from a profile.

`functions(device)` gives for each function the error that follows from its row here by a named relation: as documented,
rounded up from what docs/library.md or docs/torch_functions.md found, the wider of two documents, or as another target.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from interval_ops.profiles.profile import FnError

DOCS = Path(__file__).parents[1] / "docs"
Errors = dict[str, FnError]

GUIDE = """sin 2 cos 2 erf 2 tan 4 tanh 2 sinh 3 cosh 2 asin 2 acos 2 atan 2 atan2 3 asinh 3 acosh 4 atanh 3 expm1 1
    log10 2 log1p 1 pow 4 erfc 4 hypot 3 tgamma 5 lgamma 6 fmod 0 remainder 0 libdevice_exp 2 libdevice_rsqrt 2
    cyl_bessel_i0 6 cyl_bessel_i1 6"""
"""CUDA C Programming Guide, Mathematical Functions, single precision, ulp; libdevice is compiled with flush-to-zero."""
GUIDE_KEPT = "log 1 log2 1 div_rn 0 sqrt_rn 0 rsqrt_rn 0"
"""The same tables; the PTX keeps subnormal numbers: logarithms scale them, .rn instructions have no .ftz."""
GUIDE64 = """exp 1 log 1 log2 1 log10 1 log1p 1 sin 2 cos 2 tan 2 tanh 1 cosh 1 pow 2 erf 2 erfc 5 cbrt 1 rsqrt 1
    div 0 div_rn 0 sqrt 0 sqrt_rn 0 fmod 0 remainder 0 cyl_bessel_i0 6 cyl_bessel_i1 6"""
"""The same, double precision."""
OPENCL = """sin 4 cos 4 erf 16 tan 5 tanh 5 sinh 4 cosh 4 asin 4 acos 4 atan 5 atan2 6 asinh 4 acosh 4 atanh 5
    exp10 3 expm1 3 log10 3 log1p 2 pow 16 erfc 16 cbrt 2 hypot 4 tgamma 16 sinpi 4 cospi 4 rsqrt 2 exp 3 exp2 3
    log 3 log2 3 sqrt 3 div 2.5"""
"""OpenCL C 3.0, section 7.4, ulp in single precision."""
OPENCL64 = OPENCL.replace("sqrt 3 div 2.5", "sqrt 0")
"""The same, double precision: sqrt and division are correctly rounded."""
SLEEF64 = """exp 1 exp2 1 exp10 1 expm1 1 log 1 log2 1 log10 1 log1p 1 sin 1 cos 1 tan 1 tanh 1 asin 1 acos 1 atan 1
    atan2 1 pow 1 erf 1 cbrt 1 hypot 1 sinpi 1 cospi 1 tgamma 1 rsqrt 2 erfc 2"""
"""SLEEF's u10 functions (u15: erfc), as PyTorch's kernels call them in fp64; rsqrt is a division by a root."""
ROUNDED = "div 0 div_rn 0 sqrt 0 sqrt_rn 0 fmod 0 remainder 0"
"""IEEE 754, correctly rounded."""
ALL = """div div_rn sqrt sqrt_rn rsqrt exp exp2 log log2 sin cos erf tan tanh sinh cosh asin acos atan atan2 asinh acosh
    atanh exp10 expm1 log10 log1p pow erfc cbrt hypot tgamma lgamma j0 j1 y0 y1 jn yn cyl_bessel_i0 cyl_bessel_i1 fmod
    sinpi cospi erfinv erfcinv erfcx normcdf normcdfinv rcbrt rhypot norm3d norm4d rnorm3d rnorm4d remainder"""
FP32_ONLY = """libdevice_exp libdevice_rsqrt fast_expf fast_sinf fast_cosf fast_log2f fast_logf fast_log10f tanh_approx
    rsqrt_rn"""
OWN = "exp10 sinpi cospi erfinv erfcinv erfcx normcdf normcdfinv rcbrt"
OWN64 = "exp2 expm1 sinh asin acos atan atan2 asinh acosh atanh hypot tgamma lgamma"
"""Functions of which no table of the vendor was at hand: of both formats, and of fp64 alone."""
NORMS = ("rhypot", "norm3d", "norm4d", "rnorm3d", "rnorm4d")
FAMILIES = {**dict.fromkeys(NORMS, NORMS), "normcdfinv": ("normcdfinv", "erfcinv")}
FAMILIES["erfcinv"] = FAMILIES["normcdfinv"]
"""Functions of one algorithm; in fp64 the inverses have the error of the worse one."""


def error(k: float, wide: bool, **more: float | bool) -> FnError:
    """k ulp from the correctly rounded result; the same number of units where results are subnormal."""
    unit, tiny = (2.0**-52, 2.0**-1074) if wide else (2.0**-23, 2.0**-149)
    units = math.ceil(k + 0.5) if wide else k + 0.5  # nothing is smaller than the smallest float64
    return FnError((k + 0.5) * unit, units * tiny, **more)  # type: ignore[arg-type]


def ulps(text: str, wide: bool = False, **more: float | bool) -> Errors:
    words = text.split()
    pairs = zip(words[::2], words[1::2], strict=True)
    return {name + "@fp64" * wide: error(float(k), wide, **more) for name, k in pairs}


@cache
def vendor() -> dict[tuple[str, str], list[float]]:
    """docs/library.md: (exact, fused, leaning) found in NVIDIA's own code."""
    row = re.compile(r"\| (\w+) (fp32|fp64) \| [\d.]+ \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|")
    lines = (DOCS / "library.md").read_text().splitlines()
    return {(m[1], m[2]): [float(m[i]) for i in (3, 4, 5)] for line in lines if (m := row.match(line))}


@cache
def torch_found(how: str) -> dict[tuple[str, str], float]:
    """docs/torch_functions.md: the largest error found, in eager code (contiguous or strided) or through Inductor."""
    out: dict[tuple[str, str], float] = defaultdict(float)
    row = re.compile(rf"\| (\w+) (fp32|fp64) \| (?:{how}) \| [^|]+ \| ([\d.]+) \|")
    for line in (DOCS / "torch_functions.md").read_text().splitlines():
        if m := row.match(line):
            out[m[1], m[2]] = max(out[m[1], m[2]], float(m[3]))
    return out


def own() -> Errors:
    """No table of the vendor: fp32 what leaning instructions give, rounded up; fp64 twice what was found."""
    out = Errors()
    for name in (*OWN.split(), *NORMS):
        kin = FAMILIES.get(name, (name,)) if name in NORMS else (name,)
        worst = max(vendor()[n, "fp32"][2] for n in kin)
        out[name] = error(math.ceil(worst), False, ftz=True, breaks=name == "rcbrt")
    for name in (*OWN64.split(), *OWN.split(), *NORMS):
        worst = max(max(vendor()[n, "fp64"]) for n in FAMILIES.get(name, (name,)))
        out[f"{name}@fp64"] = error(2 * math.ceil(worst), True)
    return out


def nvidia() -> Errors:
    r = 2.5 * 2.0**-23
    out = ulps(GUIDE, ftz=True) | ulps("cbrt 1", ftz=True, breaks=True) | ulps(GUIDE_KEPT) | ulps(GUIDE64, True) | own()
    for name in ("j0", "j1", "y0", "y1"):  # the guide: 9 (fp64: 7) ulp below 8, an absolute error from there on
        out[name] = error(9, False, ftz=True, until=8.0, beyond=2.2e-6)
        out[f"{name}@fp64"] = error(7, True, until=8.0, beyond=5e-12)
    for name in ("jn", "yn"):  # the same absolute errors, from 0 on: the rule knows below which x yn has another
        out[name] = error(0, False, ftz=True, until=0.0, beyond=2.2e-6)
        out[f"{name}@fp64"] = error(0, True, until=0.0, beyond=5e-12)
    # PTX ISA 8: .approx and .full. A division by a constant: a reciprocal within 2 ulp, the product rounded.
    out["div"] = FnError(3.0001 * 2.0**-23, 2.0**-149)
    out["sqrt"], out["rsqrt"] = FnError(2.0**-23, ftz=True), FnError(2.0**-22.9, ftz=True)
    out["exp"], out["exp2"] = FnError(r, 8 * 2.0**-149), FnError(r, ftz=True)
    out["fast_expf"] = FnError(r, 8 * 2.0**-149, ftz=True)
    out["tanh_approx"] = FnError(2.0**-11)
    out["tanh_approx@fp16"], out["tanh_approx@bf16"] = FnError(0.0, 2.0**-10.987), FnError(0.0, 2.0**-8)
    # their relative errors, and as much of the smallest normal number: 2^-14, and 2^-126 with .ftz
    out["exp2_approx@fp16"], out["exp2_approx@bf16"] = FnError(2**-9.9, 2**-23.9), FnError(2.0**-7, 2.0**-133, ftz=True)
    # CUDA C Programming Guide, intrinsics: __log2f 2 ulp, __logf and __log10f 3, an absolute error in [0.5, 2]; that of
    # __log10f, 2^-24, with as much for the instruction. Sine and cosine: PTX, on the guide's interval [-pi, pi].
    for name, k, a in (("log2", 2, 2.0**-22), ("log", 3, 2.0**-21.41), ("log10", 3, 2 * 2.0**-24)):
        out[f"fast_{name}f"] = FnError((k + 0.5) * 2.0**-23, a, ftz=True)
    for name in ("fast_sinf", "fast_cosf"):
        out[name] = FnError(2.0**-24, 2**-20.5, ftz=True, until=3.1415925, beyond=math.inf)
    return out


def amd() -> Errors:
    device = {name: FnError(e.r, e.a, True) for name, e in ulps(OPENCL).items()}
    out = device | ulps(OPENCL64, True) | ulps(ROUNDED, True)
    out |= ulps("fmod 0 remainder 0", ftz=True) | ulps("libdevice_exp 3 libdevice_rsqrt 2", ftz=True)
    # LLVM, AMDGPUUsage: v_exp, v_log, v_sqrt, v_rsq 1 ulp; divisions and refined roots correctly rounded
    out |= ulps("div 0 div_rn 0 sqrt_rn 0 log2 1") | ulps("sqrt 1 rsqrt 1 exp2 1", ftz=True)
    out["exp"] = FnError(1.5 * 2.0**-23, 8 * 2.0**-149, True)
    out["log"] = FnError(3 * 2.0**-23, 3 * 2.0**-149)  # v_log times a two-term ln 2
    out["div@fp16"] = FnError(0.0101 * 2.0**-11, 2.0**-149)  # 1.01 * 2^-11 holds a rounding to fp16, which comes on top
    return out


def intel() -> Errors:
    """The wider of OpenCL and `any`, in whole ulp; without what OpenCL says nothing of."""
    cuda = nvidia()
    rows = ulps(OPENCL.replace("2.5", "3"), ftz=True) | ulps(OPENCL64, True)
    rows |= ulps("libdevice_exp 3 libdevice_rsqrt 2", ftz=True)
    rows |= {n: cuda[n] for n in cuda if n.split("@")[0] in ("div_rn", "sqrt_rn", "fmod", "remainder")}
    rows["div"], rows["div@fp64"] = error(3, False), cuda["div@fp64"]
    rows["exp"] = FnError(3.5 * 2.0**-23, 8 * 2.0**-149, ftz=True)
    wider = ("exp10", "expm1@fp64")  # the code of NVIDIA's library was found to err by more
    return rows | {name: cuda[name] for name in wider}


def ieee() -> Errors:
    return ulps(" ".join(f"{n} 0" for n in (*ALL.split(), *FP32_ONLY.split()))) | ulps(
        " ".join(f"{n} 0" for n in ALL.split()), True
    )


TORCH = """exp 0.56 exp2 0.83 log 0.90 log1p 0.59 expm1 1.01 tanh 0.51 erf 0.73 sin 0.60 cos 0.60 sqrt 0.75 rsqrt 1.49
    pow 1.29 softplus 1.46 log2 0.9 sigmoid 3.18"""
"""PyTorch eager, fp32: the largest errors found in 2.3 million points (of sigmoid: in oneDNN's LSTM, 1 million); pow
that of x^3, log2 as log."""
SWEPT = """atan2 lgamma tan sinh cosh asin acos atan asinh acosh atanh log10 erfc hypot erfinv normcdfinv"""
INDUCTOR = "exp log sin cos erfc erfinv normcdfinv tanh"
SWEPT64 = "sinh cosh asinh acosh atanh erfinv normcdfinv lgamma"


def above(found: float, wide: bool = False, a: float = 0.0, huge: float = math.inf) -> FnError:
    """Rounded up, plus 1 ulp; one unit of subnormal results twice."""
    unit, tiny = (2.0**-52, 2.0**-1073) if wide else (2.0**-23, 2.0**-148)
    return FnError((math.ceil(found) + 1) * unit, a or tiny, huge=huge)


def torch_cpu() -> Errors:
    words, found = TORCH.split(), torch_found("eager|strided")
    out = {name: above(float(k)) for name, k in zip(words[::2], words[1::2], strict=True)}
    out |= {name: above(found[name, "fp32"]) for name in SWEPT.split()}
    out |= {f"{name}@fp64": above(max(1.0, found[name, "fp64"]), True) for name in SWEPT64.split()}
    out |= ulps("div 0 div_rn 0 sqrt_rn 0 fmod 0 remainder 0") | ulps(ROUNDED, True) | ulps(SLEEF64, True)
    out |= ulps("exp10 1 cbrt 1 sinpi 1 cospi 1 tgamma 1")
    out |= {"asin@fp64": error(1, True), "libdevice_exp": out["exp"], "libdevice_rsqrt": out["rsqrt"]}
    out["sigmoid"] = above(3.18, a=2.0**-126)  # what is subnormal becomes 0
    out["gelu.erf"] = FnError(2 * 2.0**-23, 8 * 2.0**-23)  # Abramowitz and Stegun 7.1.26: 10.9 * 2^-24 found
    out["normcdf"] = FnError(2 * 2.0**-23, 2.0**-23)  # (1 + erf) / 2: twice 2^-24, which was found, absolute
    out["normcdf@fp64"] = FnError(2 * 2.0**-52, 2.0**-52)
    # erfcx: 2 exp(x^2) magnifies a rounding by x^2, up to 88 (fp64: 709): powers of two twice as large and more
    out["erfcx"], out["erfcx@fp64"] = above(127.0), FnError(2048 * 2.0**-52, 2.0**-1022)
    out["cosh@fp64"] = out["sinh@fp64"]  # one algorithm
    out["lgamma@fp64"] = above(2.0, True)  # a unit more than found at random points
    early = {"sinh": 2.0**126, "cosh": 2.0**126, "sinh@fp64": 2.0**1022, "cosh@fp64": 2.0**1022,
             "lgamma": 1.9 * 2.0**127, "lgamma@fp64": 2.0**1022}  # fmt: skip
    return out | {name: FnError(out[name].r, out[name].a, huge=h) for name, h in early.items()}


def inductor() -> Errors:
    found = torch_found("inductor")
    out = torch_cpu() | {n: above(found[n, "fp32"]) for n in INDUCTOR.split()}
    out["tanh"] = above(1.01)  # 1.00 found, rounded
    out["atan2"] = above(1.44)
    out["sqrt"] = error(0, False)
    out["expm1"] = FnError(3 * 2.0**-23, 3 * 2.0**-23)  # exp(x) - 1: absolute near 0
    out["erf"] = FnError(2 * 2.0**-23, 4 * 2.0**-23)  # Abramowitz and Stegun 7.1.26, 1.5e-7, and its rounding
    out["acosh"] = FnError(3 * 2.0**-23, 2.0**-148, huge=44.0)  # its square overflows from 1.8e19, the result is 45.05
    out["atanh"] = FnError(3 * 2.0**-23, 4 * 2.0**-24)  # 1.7 * 2^-24 found, absolute: more than twice
    return out


def cuda_eager() -> Errors:
    """No fast-math: divisions and roots correctly rounded, exp and rsqrt of the guide's table, flushing nothing."""
    return nvidia() | ulps("div 0 div_rn 0 sqrt 0 sqrt_rn 0 exp 2 rsqrt 2")


@cache
def functions(device: str) -> Errors:
    special = {"xpu": intel, "ieee": ieee, "torch-cpu": torch_cpu, "inductor-cpu": inductor, "cuda-eager": cuda_eager}
    return special.get(device, amd if device.startswith("gfx") else nvidia)()
