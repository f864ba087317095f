"""What targets may do, from the documents: a second copy, on purpose. Errors are relative unless named otherwise.

PTX: "PTX ISA 8", the section of each instruction; "k ulp" is read as k ulp from the correctly rounded value, that is
(k + 1/2) 2^-23. Guide: "CUDA C Programming Guide", Mathematical Functions, single and double precision tables. LLVM:
"User Guide for AMDGPU Backend", and the amdgcn that Triton compiles. Units: MMA-Sim, arXiv 2511.10909, and Khattak and
Mikaitis, arXiv 2512.07004, which agree wherever both give a figure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace


def ulps(k: float, bits: int = 24) -> float:
    """k ulp and the half of correct rounding."""
    return (k + 0.5) * 2.0 ** (1 - bits)


@dataclass(frozen=True)
class Unit:
    """A matrix unit: `length` products and the accumulator are aligned to the largest exponent, cut to `fraction` bits
    behind it, added exactly and rounded once, by cutting (fp32) or to nearest (fp16). `bits` of the result."""

    length: int
    fraction: int
    bits: int = 24
    fold: bool = True  # acc += dot is one chain


FMA = Unit(0, 0)
"""A chain of correctly rounded fused multiply-adds along k."""


@dataclass(frozen=True)
class Chip:
    """`functions` in fp32: error, and whether subnormals are read and given as zero; `wide` in fp64. `exp` is the error
    of the instruction that takes the product of x and log2 e. `constant`: x / c is x times 1 / c within this error, the
    product rounded once more."""

    name: str
    functions: dict[str, tuple[float, bool]]
    wide: dict[str, float]
    units: dict[str, Unit]
    constant: float | None = None
    flushes_atomics: bool = False
    fp8e4nv: bool = True
    cuda: bool = True
    operands: str = "zero"  # how raw fp32 bits become tf32: cut, or "nearest"
    host: dict[str, float] = field(default_factory=dict)


_CUDA = {
    "div": (ulps(2), False),  # PTX div.full.f32: 2 ulp
    "sqrt": (2.0**-23, True),  # PTX sqrt.approx.ftz.f32
    "rsqrt": (2.0**-22.9, True),  # PTX rsqrt.approx.ftz.f32
    "exp": (ulps(2), False),  # PTX ex2.approx.f32
    "exp2": (ulps(2), True),  # PTX ex2.approx.ftz.f32
    "log": (ulps(1), False),  # Guide: logf
    "log2": (ulps(1), False),  # Guide: log2f
    "sin": (ulps(2), True),  # Guide: sinf
    "cos": (ulps(2), True),  # Guide: cosf
    "erf": (ulps(2), True),  # Guide: erff
    "tanh": (ulps(2), True),  # Guide: tanhf
    "log1p": (ulps(1), True),  # Guide: log1pf
    "expm1": (ulps(1), True),  # Guide: expm1f
}
_CUDA64 = {
    "exp": ulps(1, 53), "log": ulps(1, 53), "log2": ulps(1, 53), "sin": ulps(2, 53), "cos": ulps(2, 53),
    "erf": ulps(2, 53), "tanh": ulps(1, 53), "rsqrt": ulps(1, 53), "sqrt": 2.0**-53, "div": 2.0**-53,
    "log1p": ulps(1, 53), "exp2": ulps(1, 53), "expm1": ulps(1, 53),
}  # fmt: skip
_EAGER = {"exp": 2, "log": 1, "log2": 1, "log1p": 1, "expm1": 1, "tanh": 2, "sin": 2, "cos": 2, "erf": 2, "rsqrt": 2}
"""Guide, single precision table: PyTorch's CUDA kernels call these functions; `/` and sqrt are correctly rounded."""

_AMPERE = {"fp16": Unit(8, 24), "bf16": Unit(8, 24), "tf32": Unit(4, 24), "fp8": Unit(8, 24),
           "fp16acc": Unit(8, 24, 11)}  # fmt: skip
_HOPPER = {"fp16": Unit(16, 25), "bf16": Unit(16, 25), "tf32": Unit(8, 25), "fp8": Unit(32, 13, 14, fold=False),
           "fp16acc": Unit(16, 25, 11)}  # fmt: skip
_A100 = Chip("sm_80", _CUDA, _CUDA64, _AMPERE, ulps(2), True, False, host={k: ulps(v) for k, v in _EAGER.items()})
_MI300 = {
    "div": (2.0**-24, False),  # amdgcn: v_div_scale, v_div_fmas, v_div_fixup
    "sqrt": (ulps(1), True), "rsqrt": (ulps(1), True),  # LLVM: v_sqrt_f32, v_rsq_f32 1 ulp
    "exp": (ulps(1), True), "exp2": (ulps(1), True),  # LLVM: v_exp_f32 1 ulp
    "log": (3 * 2.0**-23, False), "log2": (ulps(1), False),  # LLVM: v_log_f32 1 ulp; amdgcn: times a two-term ln 2
}  # fmt: skip
CHIPS = {
    "sm_80": _A100,
    "sm_89": replace(_A100, name="sm_89", fp8e4nv=True, units={**_AMPERE, "fp8": Unit(16, 13, 14)}),
    "sm_90": replace(_A100, name="sm_90", fp8e4nv=True, units=_HOPPER),
    "sm_100": replace(_A100, name="sm_100", fp8e4nv=True, units={**_HOPPER, "fp8": Unit(32, 25)}),
    "rounding": replace(_A100, name="rounding", operands="nearest"),
    "gfx90a": Chip("gfx90a", _MI300, {"sqrt": 2.0**-53, "div": 2.0**-53}, {}, cuda=False),
}
"""Targets, by the name of the profile that is attacked with them; `rounding` is of `any` alone."""

INSIDE = {"any": ("sm_80", "sm_89", "sm_90", "sm_100", "rounding")}
"""Targets that a profile stands for; `rounding` is an Ampere whose unit rounds tf32 operands, which PTX leaves open."""
