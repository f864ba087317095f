"""Conversions, lowering and data sheets of every profile in full: written from the documents, not from a profile."""

from __future__ import annotations

from functools import cache
from typing import Any

from interval_ops.profiles.profile import OlderCast

NVIDIA = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121")
"""In the order of their instructions."""
AMD = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
FORMATS = ("fp64", "fp32", "fp16", "bf16", "fp8e5", "fp8e4nv", "fp8e4b8", "fp8e5b16", "fp8e4b15")
FP8 = FORMATS[4:]


def ampere_or_older(device: str) -> bool:
    """Without conversions to fp8 in hardware: up to sm_86, and what stands for several devices with one of them."""
    return device in (*NVIDIA[:4], "any", "xpu", "cuda-eager")


def overflow(device: str) -> dict[str, str]:
    """PTX of Triton 3.9: cvt.rn.satfinite to fp8; fp8e4b15 is clamped; nothing known of AMD's, Intel's and OCP's
    software, where saturation is optional. PyTorch: e5m2 infinite, e4m3fn depends on the version."""
    known = device in NVIDIA or device in ("any", "cuda-eager")
    fp8 = dict.fromkeys(("fp8e5", "fp8e4nv"), "saturate" if known else "either")
    out = dict.fromkeys(("fp32", "fp16", "bf16"), "inf") | fp8 | dict.fromkeys(("fp8e4b8", "fp8e5b16"), "either")
    torch = device in ("torch-cpu", "inductor-cpu")
    return out | ({"fp8e5": "inf"} if torch else {"fp8e4b15": "saturate"})


def via(device: str) -> dict[str, str]:
    """PTX of Triton 3.9: bf16 by way of fp16 without hardware (no fp8e4nv on Volta); to fp8e4b15 by cvt.rz.f16."""
    if device not in NVIDIA and device not in ("any", "cuda-eager", "xpu"):
        return {}
    out = dict.fromkeys(("fp32->fp8e4b15", "bf16->fp8e4b15"), "fp16rz")
    if ampere_or_older(device):
        out |= {"bf16->fp8e5": "fp16"} | ({} if device in NVIDIA[:2] else {"bf16->fp8e4nv": "fp16"})
    return out


def older(device: str) -> dict[str, OlderCast]:
    """PTX of Triton 3.6 to 3.8: half of the last kept bit added, the rest cut; bf16 clamped to 2^-15, so that what is
    subnormal may be off by 1.125 * 2^-15. Ada: by way of fp16, saturating. Later ones as now."""
    either = device in ("any", "xpu")
    ada = {k: OlderCast((3, 9), "fp16rz", overflow="saturate") for k in ("fp32->fp8e5", "fp32->fp8e4nv")}
    if device == "sm_89":
        return ada
    if not ampere_or_older(device):
        return {}
    out = {pair: OlderCast((3, 9), how, True, "either" if either else "inf")
           for pair, how in (("fp32->fp8e5", "fp16rz"), ("fp16->fp8e5", ""))}  # fmt: skip
    out["bf16->fp8e5"] = OlderCast((3, 9), "", True, "nan", 1.125 * 2.0**-15, 2.0**-14)
    return ada | out if either else out


def _nvidia_refuses(device: str, src: str, dst: str, rtz: bool) -> bool:
    fnuz, ends = ("fp8e4b8", "fp8e5b16"), (src, dst)
    no_e4 = device in (*NVIDIA[:4], "cuda-eager") and "fp8e4nv" in ends
    doubles = (src == "fp64" and dst in FP8) or (dst == "fp64" and src in ("fp8e5", "fp8e4nv"))
    among = (dst == "fp8e4b15" and src in FP8) or set(ends) == {"fp8e5", "fp8e4nv"}
    narrow = rtz and ((dst == "fp8e5" and src in ("fp16", "bf16")) or dst == "fp8e4nv" or src == "fp64"
                      or set(ends) == {"fp16", "bf16"})  # fmt: skip
    volta = device in NVIDIA[:2] and rtz and ends == ("fp32", "bf16")
    return any(f in ends for f in fnuz) or no_e4 or doubles or among or ends == ("bf16", "fp8e4b15") or narrow or volta


def _amd_refuses(src: str, dst: str, rtz: bool) -> bool:
    wide = "fp64" in (src, dst) and (src in FP8 or dst in FP8)
    narrow = rtz and (dst in ("fp8e4nv", "fp8e4b8") or (src, dst) == ("fp32", "fp8e5b16") or src == "fp64"
                      or (src == "bf16" and dst in FP8) or {src, dst} == {"fp16", "bf16"})  # fmt: skip
    return "fp8e4b15" in (src, dst) or wide or (src in FP8 and dst in FP8) or narrow


def refused(device: str) -> dict[str, set[tuple[int, int]]]:
    """Conversions that Triton 3.6 to 3.9 does not compile (all pairs compiled), with the versions it begins in."""
    out: dict[str, set[tuple[int, int]]] = {}
    for src in FORMATS:
        for dst in FORMATS:
            for mode in ("rtne", "rtz"):
                ends = f"{src}->{dst} {mode}"
                if _refuses(device, src, dst, mode == "rtz"):
                    out.setdefault(ends, set()).add((0, 0))
                if device in NVIDIA[:2] and _needs_ampere(src, dst, mode):
                    out.setdefault(ends, set()).add((3, 9))
    return out


def _refuses(device: str, src: str, dst: str, rtz: bool) -> bool:
    if device in ("ieee", "torch-cpu", "inductor-cpu"):
        return False
    return _amd_refuses(src, dst, rtz) if device in AMD else _nvidia_refuses(device, src, dst, rtz)


def _needs_ampere(src: str, dst: str, mode: str) -> bool:
    """Triton 3.9: min.f16x2, cvt to f16x2."""
    return (
        dst == "fp8e5" and src in ("fp32", "fp16", "bf16") and mode == "rtne"
    ) or (src == "fp8e4b15" and dst in ("bf16", "fp8e5"))  # fmt: skip


LOWERING: dict[str, tuple[bool, bool, str, tuple[int, int] | None]] = {
    **dict.fromkeys((*NVIDIA, "any", "cuda-eager"), (True, True, "tf32", (3, 8))),
    **dict.fromkeys(("gfx90a", "gfx942"), (True, True, "ieee", (3, 8))),
    **dict.fromkeys(("gfx950", "gfx1100", "gfx1201"), (True, True, "ieee", None)),
    "xpu": (True, True, "tf32", None), "ieee": (False, False, "ieee", (3, 8)),
    **dict.fromkeys(("torch-cpu", "inductor-cpu"), (False, False, "ieee", None)),
}  # fmt: skip
"""exp through exp2, flushing atomics, the default of tl.dot, and since which Triton reductions are balanced trees (its
PTX and amdgcn; None: not read for the target)."""

SHEETS = """
sm_70  cuda Tesla_V100-SXM2-32GB               7.0   80 32GiB    6144KiB 1530    877 4096 32 2048  48  96  96
sm_75  cuda Tesla_T4                          7.5   40 15GiB    4096KiB 1590   5001  256 32 1024  48  64  64
sm_80  cuda NVIDIA_A100-SXM4-80GB             8.0  108 80GiB   40960KiB 1410   1593 5120 32 2048  48 163 164
sm_86  cuda NVIDIA_GeForce_RTX_3090           8.6   82 24GiB    6144KiB 1695   9751  384 32 1536  48  99 100
sm_89  cuda NVIDIA_GeForce_RTX_4090           8.9  128 24GiB   73728KiB 2520  10501  384 32 1536  48  99 100
sm_90  cuda NVIDIA_H100_80GB_HBM3             9.0  132 80GiB   51200KiB 1980   2619 5120 32 2048  48 227 228
sm_100 cuda NVIDIA_B200                      10.0  148 180GiB 129536KiB 1965   3996 8192 32 2048  48 227 228
sm_103 cuda NVIDIA_B300                      10.3  148 288.777830400GB 129536KiB 1920 3996 8192 32 2048 48 227 228
sm_120 cuda NVIDIA_GeForce_RTX_5090          12.0  170 32GiB   98304KiB 2407  14001  512 32 1536  48  99 100
sm_121 cuda NVIDIA_GB10                      12.1   48 128.497745920GB 24576KiB 2418 4266 256 32 1536 48 99 100
gfx90a hip AMD_Instinct_MI250X                9.0  110 64GiB    8192KiB 1700   1600 4096 64 2048  64  64  64
gfx942 hip AMD_Instinct_MI300X                9.4  304 192GiB   4096KiB 2100   1300 8192 64 2048  64  64  64
gfx950 hip AMD_Instinct_MI355X                9.5  256 288GiB   4096KiB 2400   2000 8192 64 2048 160 160 160
gfx1100 hip AMD_Radeon_RX_7900_XTX           11.0   48 24GiB    6144KiB 2499   1249  384 32 2048  64  64  64
gfx1201 hip AMD_Radeon_RX_9070_XT            12.0   32 17.095983104GB 8192KiB 2970 1258 256 32 2048 64 64 64
xpu xpu Intel(R)_Data_Center_GPU_Max_1550   12.60   64 64GiB  208896KiB 1600   1600 8192 32 1024 128 128 128
"""
"""Data sheets and the programming guides' tables: back end, part, capability, multiprocessors, memory, L2, clocks in
MHz, bus, warp, threads, shared memory in KiB (of a block, opted in, of a multiprocessor). 64 Ki registers each."""


def size(text: str) -> int:
    units = {"KiB": 1024, "GiB": 1 << 30, "GB": 10**9}
    unit = next(u for u in units if text.endswith(u))
    return round(float(text.removesuffix(unit)) * units[unit])


@cache
def facts(device: str) -> dict[str, Any] | None:
    row = {line.split()[0]: line.split() for line in SHEETS.strip().splitlines()}
    name = "sm_80" if device in ("any", "cuda-eager") else device
    if name not in row:
        return None
    words = row[name]
    major, minor = words[3].split(".")
    numbers = [int(w) for w in words[7:]]
    return {
        "backend": words[1], "arch": "pvc" if name == "xpu" else name, "part": words[2].replace("_", " "),
        "capability": (int(major), int(minor)), "multiprocessors": int(words[4]), "memory": size(words[5]),
        "l2": size(words[6]), "clock": 1000 * numbers[0], "memory_clock": 1000 * numbers[1], "bus": numbers[2],
        "warp_size": numbers[3], "threads": numbers[4], "registers": 65536, "shared_block": 1024 * numbers[5],
        "shared_optin": 1024 * numbers[6], "shared_multiprocessor": 1024 * numbers[7], "integrated": name == "sm_121",
    }  # fmt: skip
