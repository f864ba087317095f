"""The table of what Triton compiles, against the profiles: no instruction errs by more than its operation may."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl
from instruction_table import sequence
from lowering import compiled

from interval_ops.profiles.profile import load_profile
from render.result.versions import installed_triton

ULP = 2.0**-23
PTX = {
    "div.full.f32": 2.5 * ULP, "div.approx.f32": 2.5 * ULP, "div.rn.f32": ULP / 2, "sqrt.approx.ftz.f32": ULP,
    "sqrt.rn.f32": ULP / 2, "rsqrt.approx.ftz.f32": 2.0**-22.9, "ex2.approx.ftz.f32": 2.5 * ULP, "mul.f32": ULP / 2,
}  # fmt: skip
"""Largest relative error of each, PTX ISA 8.x, "Floating-Point Instructions" (n ulp: n + 1/2 from the exact value)."""
AMD = {"v_sqrt_f32": 1.5 * ULP, "v_rsq_f32": 1.5 * ULP, "v_exp_f32": 1.5 * ULP}
"""LLVM, AMDGPUUsage: 1 ulp each."""
ENTRY = {"x / y": "div", "x / 3.0": "div", "3.0 / x": "div", "div_rn": "div_rn", "sqrt": "sqrt", "sqrt_rn": "sqrt_rn",
         "rsqrt": "rsqrt", "exp2": "exp2"}  # fmt: skip
QUICK = [(80, name) for name in ENTRY] + [("gfx942", name) for name in ("sqrt", "rsqrt", "exp2")]
current = pytest.mark.skipif(installed_triton() < (3, 9), reason="the table is of Triton 3.9")


@triton.jit
def divided(x, y, C: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i) / C)


def allowed(target: object, name: str) -> float:
    profile = load_profile(f"sm_{target}" if isinstance(target, int) else str(target))
    return profile.functions[ENTRY[name]].r


@current
@pytest.mark.parametrize(("target", "name"), QUICK)
def test_no_instruction_errs_by_more_than_the_profile_allows(target, name):
    known = PTX if isinstance(target, int) else AMD
    found = sequence(name, target)
    assert found and set(found) <= set(known), f"another sequence: {found}"
    error = 1.0
    for word in found:
        error *= 1 + known[word]
    assert error - 1 <= allowed(target, name) * 1.0000001


@current
def test_integers_of_a_byte_go_through_two_on_nvidia():
    """Out of range they wrap there, for points too: `docs/semantics.md`."""
    assert [w for w in sequence("fp32 to int8", 80) if "f32" in w] == ["cvt.rzi.s16.f32"]
    assert [w for w in sequence("fp32 to uint8", 80) if "f32" in w] == ["cvt.rzi.u16.f32"]
    assert sequence("fp32 to int32", 80) == ["cvt.rzi.s32.f32"]


@current
def test_contraction_is_the_default_and_can_be_switched_off():
    assert sequence("x * y + z", 80) == ["fma.rn.f32"]
    assert "fma.rn.f32" not in sequence("x * y + z", 80, enable_fp_fusion=False)


@current
@pytest.mark.parametrize(("c", "word"), [(8e37, "div.approx.f32"), (2e38, "div.full.f32"), (1e-39, "div.full.f32")])
def test_reciprocals_of_constants_stay_within_what_is_documented(c, word):
    """div.approx states an error for divisors from 2^-126 to 2^126 only."""
    code = compiled(divided, {"x": "fp32", "y": "fp32"}, {"C": c, "N": 32}, 80, num_warps=1).asm["ptx"]
    assert word in code and ("div.approx" in code) == (word == "div.approx.f32")


@current
def test_nan_of_a_maximum():
    assert sequence("maximum", 80) == ["max.f32"] and sequence("maximum, NaN", 80) == ["max.NaN.f32"]
