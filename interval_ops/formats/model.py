"""Floating-point formats that a Triton kernel can name, as plain numbers.

`p` counts significand bits with the hidden bit, `emin` is the exponent of the smallest normal number and `max` the
largest finite value. Sources: IEEE 754-2019 (fp64, fp32, fp16), OCP 8-bit Floating Point Specification 1.0 (e4m3,
e5m2), OCP Microscaling Formats 1.0 (e2m1, e8m0), the fnuz formats of LLVM's APFloat, PTX ISA 8 (tf32, bf16), and
Triton's own conversion code for `fp8e4b15`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Overflow = Literal["inf", "nan", "saturate", "either"]
"""What a conversion does beyond the largest finite value; `either` encloses saturation and inf/NaN."""


@dataclass(frozen=True)
class Format:
    """One binary floating-point format.

    `name` is Triton's name of the type, `bits` the storage width, `bias` the exponent bias, `has_inf` and `has_nan`
    what the encodings hold, `has_neg_zero` whether -0 exists. Units: values are plain real numbers.
    """

    name: str
    bits: int
    p: int
    emin: int
    max: float
    bias: int
    has_inf: bool = True
    has_nan: bool = True
    has_neg_zero: bool = True

    @property
    def u(self) -> float:
        """Unit roundoff of round-to-nearest, 2**-p."""
        return 2.0**-self.p

    @property
    def min_normal(self) -> float:
        return 2.0**self.emin

    @property
    def min_subnormal(self) -> float:
        """Spacing of the subnormal range, 2**(emin - p + 1)."""
        return 2.0 ** (self.emin - self.p + 1)

    @property
    def half_subnormal(self) -> float:
        """Largest absolute error of round-to-nearest in the subnormal range (0 for fp64: below float64's own range)."""
        return 2.0 ** (self.emin - self.p)

    @property
    def overflow_threshold(self) -> float:
        """Smallest magnitude that round-to-nearest takes past `max`, for an unbounded exponent range."""
        top = 2.0 ** (self._emax - self.p + 1)
        return self.max + top / 2

    @property
    def _emax(self) -> int:
        exponent, value = -1, abs(self.max)
        while value >= 1.0 and exponent < 1024:
            value /= 2
            exponent += 1
        return exponent

    @cached_property
    def gate(self) -> tuple[float, float, float, float]:
        """The numbers that `rounding` needs: (2**emin, 1.5 * 2**(53 - p), 2**(1 - p), max)."""
        return (self.min_normal, 1.5 * 2.0 ** (53 - self.p), 2.0 ** (1 - self.p), self.max)


FP64 = Format("fp64", 64, 53, -1022, 1.7976931348623157e308, 1023)
FP32 = Format("fp32", 32, 24, -126, (2.0 - 2.0**-23) * 2.0**127, 127)
TF32 = Format("tf32", 32, 11, -126, (2.0 - 2.0**-10) * 2.0**127, 127)
FP16 = Format("fp16", 16, 11, -14, 65504.0, 15)
BF16 = Format("bf16", 16, 8, -126, (2.0 - 2.0**-7) * 2.0**127, 127)
FP8E5 = Format("fp8e5", 8, 3, -14, 57344.0, 15)
FP8E4NV = Format("fp8e4nv", 8, 4, -6, 448.0, 7, has_inf=False)
FP8E4B8 = Format("fp8e4b8", 8, 4, -7, 240.0, 8, has_inf=False, has_neg_zero=False)
FP8E5B16 = Format("fp8e5b16", 8, 3, -15, 57344.0, 16, has_inf=False, has_neg_zero=False)
# Triton clamps to 0x3F00 of fp16 before it packs, so 1.75 is the largest value a cast produces although the
# encoding 0x7F would read as 1.875 (0x7F is documented as 1.75 too).
FP8E4B15 = Format("fp8e4b15", 8, 4, -14, 1.75, 15, has_inf=False, has_nan=False)
E2M1 = Format("e2m1", 4, 2, 0, 6.0, 1, has_inf=False, has_nan=False)
# A power of two without sign or zero: p = 1, so rounding picks the nearest power of two.
E8M0 = Format("e8m0", 8, 1, -127, 2.0**127, 127, has_inf=False, has_neg_zero=False)

FORMATS: dict[str, Format] = {
    f.name: f for f in (FP64, FP32, TF32, FP16, BF16, FP8E5, FP8E4NV, FP8E4B8, FP8E5B16, FP8E4B15, E2M1, E8M0)
}


def format_of(name: str) -> Format:
    """The format called `name` by Triton; raises KeyError with the known names otherwise."""
    try:
        return FORMATS[name]
    except KeyError:
        raise KeyError(f"unknown floating-point format {name!r}; known: {', '.join(FORMATS)}") from None
