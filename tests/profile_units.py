"""What documents say of matrix units, for every profile in full; written from them, not from a profile.

Blocks: MMA-Sim, arXiv 2511.10909, and Khattak and Mikaitis, arXiv 2512.07004. Which instruction a dot becomes, and in
which format its operands reach it: PTX and amdgcn of Triton 3.5 to 3.9. Where nothing is published: as wide as `any`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from interval_ops.profiles.profile import DotModel

Units = dict[str, DotModel]

EMIN = {"fp32": -126, "tf32": -126, "bf16": -126, "fp16": -14, "fp8e4nv": -6, "fp8e4b8": -7, "fp8e5b16": -15}
"""Exponents of the smallest normal numbers: IEEE 754, OCP 8-bit and AMD's fnuz formats."""

CUT, NEAREST, HALF, E8M13 = 2.0**-23, 2.0**-24, 2.0**-11, 2.0**-13
"""The last rounding of a block: fp32 cut or to nearest, fp16 to nearest, 14 bits cut."""

SPLITS = {
    "tf32x3": {"terms": 3, "eps": 1.0001 * 2.0**-21, "floor": 2.0**-136, "growth": 2.0**-9},
    "bf16x3": {"terms": 3, "eps": 1.0001 * 2.0**-15, "floor": 2.0**-133, "growth": 2.0**-6 + 2.0**-14},
    "bf16x6": {"terms": 6, "eps": 1.001 * 2.0**-24, "floor": 2.0**-133, "growth": 2.0**-6 + 2.0**-12},
}
"""Products; what is left out, 2^-22 + 2*2^-23, 2^-16 + 2*2^-17, 2*2^-25 + 2^-34, a little more for products of those;
the smallest subnormal number of a part; how much magnitudes of parts exceed those of the product, twice 2^-10 or 2^-7
with 2 or 8 of their squares."""


def unit(length: int, fraction: int, rho: float, operand: str = "fp32", **more: Any) -> DotModel:
    return DotModel(length, fraction, rho, emin=EMIN[operand], **more)


def fma(rho: float = NEAREST, operand: str = "fp32", **more: Any) -> DotModel:
    return unit(1, 0, rho, operand, **more)


EXACT = {"ieee": fma(), "fp64": fma(2.0**-53, acc="fp64")}


def integers(overflow: str) -> Units:
    return {"int8": fma(0.0, acc="int32", overflow=overflow)}


def cores(length: int, fraction: int, tf32: tuple[int, int], part: tuple[int, int] | None = None) -> Units:
    """Tensor cores: blocks of fp16 and bf16, of tf32, and of the products of splits; all cut."""
    bf16, small = unit(length, fraction, CUT, "bf16", chops=True), unit(*tf32, CUT, "tf32", chops=True)
    pair = unit(*(part or (length, fraction)), CUT, "bf16", chops=True)
    return {
        "fp16": unit(length, fraction, CUT, "fp16", chops=True),
        "bf16": bf16,
        "tf32": replace(small, truncate="tf32"),
        "tf32x3": replace(small, **SPLITS["tf32x3"]),
        **{kind: replace(pair, **SPLITS[kind]) for kind in ("bf16x3", "bf16x6")},
        "fp16acc": unit(*(part or (length, fraction)), HALF, "fp16", acc="fp16"),
        **EXACT, "ieee": fma(sequential=True),
    }  # fmt: skip


def eight(length: int, fraction: int, rho: float, operand: str = "fp8e4nv", **more: Any) -> Units:
    """Units of 8-bit operands, with both accumulators."""
    half = unit(length, fraction, HALF, operand, acc="fp16")
    return {"fp8": unit(length, fraction, rho, operand, chops=True, **more), "fp8_fp16acc": half}


def volta() -> Units:
    """Triton 3.5 and later: no tensor cores, fused multiply-adds along k; the parts of bf16 splits in any order."""
    kinds = {"fp16": "fp16", "bf16": "bf16", "tf32": "fp32", "tf32x3": "fp32", "fp8": "fp16", "ieee": "fp32"}
    out = {kind: fma(operand=operand, sequential=True) for kind, operand in kinds.items()}
    out |= {k: fma(HALF, "fp16", sequential=True, acc="fp16") for k in ("fp16acc", "fp8_fp16acc")}
    return {**EXACT, **out, **{k: fma(operand="bf16", **SPLITS[k]) for k in ("bf16x3", "bf16x6")}}


def ampere() -> Units:
    return cores(8, 24, (4, 24)) | eight(8, 24, CUT, "fp16") | integers("saturate")


def ada() -> Units:
    return ampere() | eight(16, 13, E8M13) | {"fp8e4b15": unit(8, 24, CUT, "fp16", chops=True)}


def hopper() -> Units:
    return cores(16, 25, (8, 25)) | eight(32, 13, E8M13, promote=True) | integers("either")


SUBNORMAL = {"mxfp8": 64.0, "mxfp4": 4.0}
"""4^(p - 1) for p bits: e4m3 has 4, e2m1 has 2."""


def scaled(kind: str, *block: Any, wide: str = "", operand: str = "fp32", chops: bool = True) -> Units:
    return {kind: unit(*block, operand, chops=chops, truncate=wide, subnormal=SUBNORMAL[kind])}


def blackwell() -> Units:
    """Small tiles are widened: to fp16 (fp8) or bf16 (block-scaled), two blocks of 16 for one of 32, two roundings."""
    fp8 = eight(32, 25, 2 * CUT) | {"fp8_fp16acc": eight(16, 25, CUT)["fp8_fp16acc"]}
    e4b15 = {"fp8e4b15": unit(16, 25, CUT, "fp16", chops=True)}
    blocks = scaled("mxfp8", 32, 25, 2 * CUT, wide="bf16") | scaled("mxfp4", 16, 25, CUT, wide="bf16")
    return hopper() | fp8 | e4b15 | blocks


def graphics() -> Units:
    """sm_120: whatever the tile, so that nothing is widened; 4-bit products as 4 exact groups of 16."""
    blocks = scaled("mxfp8", 32, 25, CUT) | scaled("mxfp4", 64, 35, CUT)
    return blackwell() | eight(32, 25, CUT) | blocks | integers("saturate")


def wide_scaled(chops: bool = False) -> Units:
    """As `any`, or widened to bf16; the room of mxfp8 for both kinds."""
    model = unit(4, 23, CUT, "bf16", chops=chops, truncate="bf16", subnormal=SUBNORMAL["mxfp8"])
    return {"mxfp8": model, "mxfp4": model}


def any_cuda() -> Units:
    """sm_80 to sm_100, and Volta's blocks for 16 bits; tf32 operands cut, or rounded, which adds 2^-10."""
    tf32 = unit(4, 24, CUT, "tf32", chops=True, truncate="tf32", rounds=True, growth=1.0001 * 2.0**-10)
    out = cores(4, 23, (4, 24), part=(8, 24)) | eight(16, 13, E8M13) | {"tf32": tf32}
    return out | wide_scaled(chops=True) | integers("either")


def eager() -> Units:
    """cuBLAS sums in any order; products as the Ampere unit multiplies."""
    return ampere() | {"ieee": fma()}


def ieee() -> Units:
    kinds = {"tf32": "fp32", "tf32x3": "fp32", "bf16x3": "fp32", "bf16x6": "fp32", "fp16": "fp16", "bf16": "bf16",
             "fp8": "fp8e4nv"}  # fmt: skip
    half = {f"{k}fp16acc": fma(HALF, o, acc="fp16") for k, o in (("", "fp16"), ("fp8_", "fp8e4nv"))}
    return {**EXACT, **{kind: fma(operand=o) for kind, o in kinds.items()}, **half, **integers("wrap")}


def torch_cpu() -> Units:
    """oneDNN: fp32 sums in any order; a result in fp16 is rounded once."""
    kinds = {"tf32": "fp32", "fp16": "fp16", "bf16": "bf16", "fp8": "fp16"}
    half = {k: fma(operand="fp16", acc="fp16", convert=True) for k in ("fp16acc", "fp8_fp16acc")}
    return {**EXACT, **{kind: fma(operand=o) for kind, o in kinds.items()}, **half, **integers("wrap")}


def flushed_splits(model: DotModel) -> Units:
    """Parts below 2^-126 may be lost: 2^-124 holds those of both operands and what they stand for."""
    return {kind: replace(model, **{**SPLITS[kind], "floor": 2.0**-124}) for kind in ("bf16x3", "bf16x6")}


def cdna2() -> Units:
    """Trees of fp32 additions to nearest; 16-bit units flush; fp16 results are converted after each dot."""
    half, narrow = fma(operand="fp16", flush=True), fma(operand="bf16", flush=True)
    converted = replace(half, acc="fp16", convert=True)
    return {**EXACT, "fp16": half, "bf16": narrow, "fp8": half, **flushed_splits(narrow), "fp16acc": converted,
            "fp8_fp16acc": converted, **integers("either")}  # fmt: skip


def cdna3() -> Units:
    """8 products cut to 24 bits, their sum and the accumulator rounded down before they meet: 2^-24 and 2^-31 more."""
    more, one = 1.0001 * 2.0**-24 + 2.0**-31, 2.0001 * 2.0**-24

    def of(operand: str, length: int = 8, extra: float = more, **rest: Any) -> DotModel:
        return unit(length, 24, NEAREST, operand, extra=extra, apart=True, **rest)

    fp8, half = of("fp8e4nv", extra=one + 2.0**-31), of("fp16")
    out = {"fp16": half, "bf16": of("bf16"), "tf32": of("tf32", 4, truncate="tf32"), "fp8": fp8}
    out |= {kind: replace(of("bf16"), **SPLITS[kind]) for kind in ("bf16x3", "bf16x6")}
    out |= {"fp8e5": half, "fp8e4nv": half} | {k: of(k, 16, one) for k in ("fp8e4b8", "fp8e5b16")}
    out |= {"fp16acc": replace(half, acc="fp16", convert=True), "fp8_fp16acc": replace(fp8, acc="fp16", convert=True)}
    return EXACT | out | integers("either")


def unpublished(flush: bool, ocp: bool, fnuz: bool = True) -> Units:
    """As wide as `any`, cut or not; `ocp`: a unit for fp8 as wide as Ada's, else operands are widened to fp16."""
    half, narrow = unit(4, 23, CUT, "fp16", flush=flush), unit(4, 23, CUT, "bf16", flush=flush)
    fp8 = unit(16, 13, E8M13, "fp8e4nv", flush=flush) if ocp else half
    out = {"fp16": half, "bf16": narrow, "fp8": fp8, "fp8e5": fp8, "fp8e4nv": fp8, **flushed_splits(narrow)}
    out |= {"fp8e4b8": half, "fp8e5b16": half} if fnuz else {}
    both = {"fp16acc": half, "fp8_fp16acc": fp8}
    return {**EXACT, **out, **integers("either"),
            **{k: replace(m, rho=HALF, acc="fp16", convert=True) for k, m in both.items()}}  # fmt: skip


def intel() -> Units:
    """Operands of tf32 cut or rounded, in whatever direction: 2^-9 for both, 2^-20 for what a split leaves out."""
    tf32 = unit(4, 23, CUT, "tf32", flush=True, floor=2.0**-125)
    split = replace(tf32, terms=3, eps=1.0001 * 2.0**-20, growth=2.0**-9)
    scaled_ = {kind: replace(model, flush=True) for kind, model in wide_scaled().items()}
    out = unpublished(flush=True, ocp=False, fnuz=False)
    return out | {"tf32": replace(tf32, eps=1.001 * 2.0**-9), "tf32x3": split} | scaled_


BY_NAME = {
    "any": any_cuda, "cuda-eager": eager, "ieee": ieee, "torch-cpu": torch_cpu, "inductor-cpu": torch_cpu,
    "sm_70": volta, "sm_75": volta, "sm_80": ampere, "sm_86": ampere, "sm_89": ada, "sm_90": hopper,
    "sm_100": blackwell, "sm_103": blackwell, "sm_120": graphics, "sm_121": graphics, "gfx90a": cdna2,
    "gfx942": cdna3, "gfx950": lambda: unpublished(flush=False, ocp=True) | wide_scaled(),
    "gfx1100": lambda: unpublished(flush=True, ocp=False), "gfx1201": lambda: unpublished(flush=True, ocp=True),
    "xpu": intel,
}  # fmt: skip


@cache
def units(device: str) -> Units:
    return BY_NAME[device]()
