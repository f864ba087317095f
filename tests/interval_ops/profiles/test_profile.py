from __future__ import annotations

import math
from fractions import Fraction

import pytest

from interval_ops.profiles import file as profile_file
from interval_ops.profiles.profile import CAUSES, MissingRule, describe, load_profile, profile_names

FUNCTIONS = ["div", "div_rn", "sqrt", "sqrt_rn", "rsqrt", "exp", "exp2", "log", "log2", "sin", "cos", "erf", "tanh"]
NAMES = [
    "ieee", "any", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121",
    "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "xpu", "torch-cpu", "inductor-cpu", "cuda-eager",
]  # fmt: skip
NVIDIA = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100")
DOTS = ["fp16", "bf16", "tf32", "ieee", "tf32x3", "bf16x3", "bf16x6", "fp8", "fp16acc", "fp64", "int8"]

MINIMAL = """
name = "x"
title = "x"
confidence = "low"
[sources]
here = "a test"
[lowering]
exp_via_exp2 = false
atomic_flush_fp32 = false
default_input_precision = "ieee"
source = "here"
"""


def parse(text: str):
    return profile_file.build(profile_file.parse(text, "x.toml", lambda name: {}), "x.toml")


def test_profiles_are_complete_and_sourced():
    assert sorted(NAMES) == profile_names()
    for name in NAMES:
        profile = load_profile(name)
        assert profile.name == name
        for function in FUNCTIONS:
            for fmt in ("fp32", "fp64"):
                assert profile.fn(function, fmt).source
                assert profile.fn(function, fmt).r > 0
        for kind in DOTS:
            if f"dot {kind}" in profile.refused:
                assert kind not in profile.dots
                continue
            assert profile.dot(kind).source
        for model in profile.dots.values():
            assert model.source
            assert not model.chops or (model.block > 1 and model.rho <= 2**-13)
        assert all(entry.source for entry in profile.functions.values())
        assert profile.cast_overflow["fp16"] == "inf"
        assert profile.default_input_precision in ("ieee", "tf32")


def test_aliases_and_unknown_names():
    assert load_profile("A100") is load_profile("sm_80")
    assert load_profile("rtx3090") is load_profile("a10") is load_profile("sm_86")
    assert load_profile("v100") is load_profile("sm_70")
    assert load_profile("t4") is load_profile("sm_75")
    assert load_profile("h200") is load_profile("sm_90")
    assert load_profile("b200") is load_profile("sm_100")
    assert load_profile("rtx5090") is load_profile("sm_120")
    assert load_profile("mi250") is load_profile("gfx90a")
    assert load_profile("MI300X") is load_profile("gfx942")
    assert load_profile("cpu") is load_profile("torch-cpu")
    assert load_profile("L20") is load_profile("rtx4090") is load_profile("sm_89")
    assert load_profile("h100") is load_profile("sm_90")
    with pytest.raises(ValueError, match=r"nonesuch.*known: any, .*sm_90.*a100"):
        load_profile("nonesuch")


def test_documented_numbers():
    ampere, hopper, unknown = load_profile("sm_80"), load_profile("sm_90"), load_profile("any")
    assert (1 + 2.5 * 2**-23) * (1 + 2**-24) - 1 <= ampere.fn("div").r <= 3.001 * 2**-23  # x / c: 1 / c, product
    assert ampere.fn("tanh").r == 2.5 * 2**-23
    assert ampere.fn("rsqrt").r >= 2**-22.9
    assert ampere.fn("exp", "fp64").r == 1.5 * 2**-52
    assert ampere.fn("div", "fp64").r == 2**-53
    assert ampere.dot("fp16").theta == 8 * 2**-24 + 2**-23
    assert hopper.dot("tf32").theta == 8 * 2**-25 + 2**-23
    assert hopper.dot("fp8").theta == 33 * 2**-13 + 2**-13
    assert unknown.dot("fp16").theta / 4 == 2.5 * 2**-24
    assert load_profile("ieee").dot("fp16").theta == 2**-24


def test_numbers_of_the_other_targets():
    """theta of numerical papers and instruction sets, one by one."""
    theta = {
        ("sm_89", "fp8"): 17 * 2**-13 + 2**-13,
        ("sm_89", "fp16"): 8 * 2**-24 + 2**-23,
        ("sm_86", "tf32"): 4 * 2**-24 + 2**-23,
        ("sm_100", "fp8"): 32 * 2**-25 + 2 * 2**-23,
        ("sm_120", "fp8"): 32 * 2**-25 + 2**-23,
        ("sm_120", "bf16"): 16 * 2**-25 + 2**-23,
        ("sm_100", "mxfp4"): 16 * 2**-25 + 2**-23,
        ("sm_120", "mxfp4"): 64 * 2**-35 + 2**-23,
        ("sm_70", "fp16"): 2**-24,
        ("sm_75", "fp16acc"): 2**-11,
        ("gfx90a", "bf16"): 2**-24,
        ("gfx942", "tf32"): 6 * 2**-24 + 2**-31,
        ("gfx942", "fp16"): 10 * 2**-24 + 2**-31,
        ("gfx942", "fp8e4b8"): 19 * 2**-24,
    }
    for (name, kind), value in theta.items():
        found = load_profile(name).dot(kind).theta
        assert value <= found <= value * (1 + 1e-4), (name, kind)
    amd = load_profile("mi300")
    assert amd.fn("div").r == 2**-24
    assert amd.fn("div", "fp16").r > 2**-19
    assert amd.fn("div", "bf16").r == 2**-24
    assert amd.fn("sqrt").ftz


def test_refusals_say_why():
    for name, kind, reason in (
        ("sm_80", "fp8e4nv", "does not compile"),
        ("sm_86", "fp8e4nv_fp16acc", "does not compile"),
        ("sm_90", "fp8e4b8", "AMD"),
        ("sm_75", "int8", "do not compile"),
        ("gfx90a", "tf32", "refused"),
        ("gfx942", "tf32x3", "refused"),
        ("gfx942", "fp8e4b15", "NVIDIA"),
    ):
        with pytest.raises(MissingRule, match=f"dot {kind}.*{reason}") as caught:
            load_profile(name).dot(kind)
        assert caught.value.reason
    with pytest.raises(MissingRule, match=r"lgamma.*OpenCL"):
        load_profile("mi300").fn("lgamma")


def test_single_fp8_formats_have_the_common_model():
    hopper, ampere = load_profile("sm_90"), load_profile("sm_80")
    assert hopper.dot("fp8e4nv") is hopper.dot("fp8e5") is hopper.dot("fp8")
    assert ampere.dot("fp8e5_fp16acc") is ampere.dot("fp8_fp16acc")
    assert load_profile("any").dot("fp8e4nv") is load_profile("any").dot("fp8")


@pytest.mark.parametrize("kind", ("fp16", "bf16"))
def test_any_covers_volta_tensor_cores(kind):
    assert load_profile("any").dot(kind).theta / 4 >= 2.5 * 2**-24


@pytest.mark.parametrize("kind", DOTS)
def test_any_encloses_the_others(kind):
    """For every K the bound of `any` is at least that of each architecture (terms beyond K are zero padding)."""
    top = load_profile("any").dot(kind)
    for name in NVIDIA:
        model = load_profile(name).dot(kind)
        assert top.eps >= model.eps
        assert top.floor >= model.floor
        assert top.emin >= model.emin
        for k in (16, 32, 64, 4096):
            wide = math.ceil(k / top.block) * math.log1p(top.theta)
            terms = min(k, model.block)
            theta = model.theta - max(0, model.block - terms) * 2.0**-model.fraction * (model.block > 1)
            assert wide >= math.ceil(k / model.block) * math.log1p(theta) * (1 - 2**-40)


def test_causes_of_accumulators():
    assert load_profile("sm_80").dot("fp16").cause == "accumulation"
    assert load_profile("sm_80").dot("fp16acc").cause == "lowacc"
    assert load_profile("sm_90").dot("fp8").cause == "lowacc"
    assert load_profile("ieee").dot("ieee").cause == "accumulation"


def test_mute():
    profile = load_profile("any")
    quiet = profile.mute("cast", "operand")
    assert quiet.muted("cast")
    assert quiet.muted("operand")
    assert not quiet.muted("arith")
    assert not profile.muted("cast")
    assert quiet != profile
    assert len({profile, quiet, profile.mute("operand", "cast")}) == 2
    assert profile.mute(*CAUSES).off == frozenset(CAUSES)
    with pytest.raises(ValueError, match="nonesuch"):
        profile.mute("nonesuch")


def test_missing_rules_are_named():
    with pytest.raises(MissingRule, match="bessel"):
        load_profile("any").fn("bessel")
    with pytest.raises(MissingRule, match="bessel@fp64"):
        load_profile("any").fn("bessel", "fp64")
    with pytest.raises(MissingRule, match="dot fp4"):
        load_profile("any").dot("fp4")


@pytest.mark.parametrize(
    ("text", "value"),
    (
        ("2^-24", Fraction(1, 2**24)),
        ("2.5*2^-23", Fraction(5, 2**24)),
        ("17*2^-13 + 2^-13", Fraction(18, 2**13)),
        ("1.0001*2^-21", Fraction("1.0001") / 2**21),
        ("0.5*2^-1074", Fraction(1, 2**1075)),
        (0, Fraction(0)),
        (1e-3, Fraction(1, 1000)),
    ),
)
def test_numbers_are_rounded_up(text, value):
    near = profile_file.number(text)
    assert Fraction(near) >= value
    assert near == 0 or Fraction(math.nextafter(near, 0.0)) < value


@pytest.mark.parametrize("text", ("2^", "1/3", "__import__('os')", "2**-3", "-1"))
def test_numbers_are_not_code(text):
    with pytest.raises(ValueError, match="not a number"):
        profile_file.number(text)


@pytest.mark.parametrize(
    ("extra", "message"),
    (
        ("[functions]\nexp = { ulp = 1, source = 'here', ulps = 2 }", r"x\.toml \[functions\.exp\].*unknown key ulps"),
        ("[functions]\nexp = { ulp = 1 }", r"functions\.exp.*source None"),
        ("[functions]\nexp = { ulp = 1, r = '2^-3', source = 'here' }", "either ulp, or r"),
        ("[dots]\nfp16 = { block = 8, source = 'here' }", r"dots\.fp16.*missing rho"),
        ("[dots]\nfp16 = { block = 8, rho = 1, blok = 1, source = 'here' }", "unknown key blok"),
        ("[dots]\nfp16 = { block = 8, rho = 1, operand = 'fp17', source = 'here' }", "fp17"),
        ("[cast.overflow]\nfp16 = 'maybe'\nsource = 'here'", "maybe"),
        ("[cast.via]\n'fp32->fp8e5' = 'fp17rz'\nsource = 'here'", "fp17rz"),
        ("[extra]\na = 1", r"x\.toml: unknown key extra"),
        ("[functions", "x.toml"),
    ),
)
def test_mistakes_name_file_and_key(extra, message):
    with pytest.raises(profile_file.ProfileError, match=message):
        parse(MINIMAL + extra)


def test_minimal_file_and_missing_keys():
    assert parse(MINIMAL).functions == {}
    with pytest.raises(profile_file.ProfileError, match="missing confidence"):
        parse(MINIMAL.replace('confidence = "low"', ""))


def test_inheritance_replaces_entries():
    base = profile_file.parse(MINIMAL + "[functions]\nexp = { ulp = 1, source = 'here' }\n", "b.toml", lambda name: {})
    text = 'name = "y"\ntitle = "y"\nconfidence = "low"\ninherit = "x"\n[functions]\nlog = { ulp = 2, source = "here" }'
    child = profile_file.build(profile_file.parse(text, "y.toml", lambda name: base), "y.toml")
    assert set(child.functions) == {"exp", "log"}
    assert child.name == "y"


def test_describe():
    assert describe(2.0**-24) == "2^-24"
    assert describe(2.5 * 2.0**-23) == "1.25*2^-22"
    assert describe(0.0) == "0"


def test_refused_conversions_are_spelt_out():
    profile = load_profile("sm_75")
    with pytest.raises(MissingRule, match="does not assemble"):
        profile.chosen(triton=(3, 9)).check_cast("fp32", "fp8e5")
    profile.chosen(triton=(3, 9)).check_cast("fp32", "fp8e5", "rtz")
    profile.chosen(triton=(3, 8)).check_cast("fp32", "fp8e5")
    with pytest.raises(MissingRule, match="fp32"):
        profile.check_cast("fp64", "fp8e5")
    load_profile("sm_89").check_cast("fp32", "fp8e4nv")  # the inherited entry is taken away
    with pytest.raises(MissingRule):
        load_profile("sm_89").check_cast("fp8e4b8", "fp32")
    for name in ("ieee", "torch-cpu"):
        assert not load_profile(name).refused_casts


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('x = { casts = ["fp32->fp9"], reason = "no" }', "fp9"),
        ('x = { casts = ["fp32->fp16 up"], reason = "no" }', "rtz"),
        ('x = { reason = "no" }', "give casts"),
        ('x = { casts = ["fp32->fp16"] }', "reason"),
        ('x = { casts = ["fp32->fp16"], reason = "no", until = "3" }', "unknown key until"),
    ],
)
def test_wrong_refusals_are_named(entry, message):
    import tomllib

    from interval_ops.profiles.file import ProfileError, _refused_casts

    with pytest.raises(ProfileError, match=message):
        _refused_casts({"refused": tomllib.loads(entry)}, "file.toml")


@pytest.mark.parametrize("name", ["gfx950", "gfx1100", "gfx1201", "xpu"])
def test_targets_without_published_numerics_are_as_wide_as_any(name):
    """What a product loses, and that nothing is assumed of the direction."""
    found, unknown = load_profile(name), load_profile("any")
    assert found.confidence == "low"
    for kind in ("fp16", "bf16", "bf16x3", "bf16x6", "fp16acc", "mxfp8", "mxfp4"):
        if kind not in found.dots:
            continue
        model = found.dot(kind)
        assert model.theta / model.block >= unknown.dot("fp16").theta / unknown.dot("fp16").block
        assert not model.chops and not model.apart and not model.sequential
    fp8 = found.dot("fp8")
    assert "no published numerics" in fp8.source or "widened" in fp8.source
    assert not fp8.chops and (fp8.theta >= unknown.dot("fp8").theta or fp8.theta >= unknown.dot("fp16").theta)
    with pytest.raises(ValueError, match="not known"):
        found.chosen(sum_order="tree")


def test_a_file_takes_an_inherited_function_away_by_refusing_it():
    profile = load_profile("xpu")
    with pytest.raises(MissingRule, match="OpenCL gives no bound"):
        profile.fn("lgamma")
    assert load_profile("any").fn("lgamma").r > 0
