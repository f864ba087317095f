"""What `--sum-order tree` assumes, read in the code that the installed Triton makes for a target (no GPU needed)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from math import log2
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl
from lowering import chains, compiled, depth

from interval_ops.formats.model import FORMATS
from interval_ops.profiles.profile import MissingRule, load_profile
from render.result import versions


@triton.jit
def row(x, y, N: tl.constexpr):
    tl.store(y, tl.sum(tl.load(x + tl.arange(0, N)), 0))


@triton.jit
def tile(x, y, M: tl.constexpr, N: tl.constexpr, A: tl.constexpr):
    i = tl.arange(0, M)
    j = tl.arange(0, N)
    s = tl.sum(tl.load(x + i[:, None] * N + j[None, :]), A)
    if A == 0:
        tl.store(y + j, s)
    else:
        tl.store(y + i, s)


@triton.jit
def after_max(x, y, M: tl.constexpr, N: tl.constexpr):
    """A sum over a slice of a tile: its layout is not the one of a contiguous row."""
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(y, tl.sum(tl.max(v, 1), 0))


@triton.jit
def after_dot(x, y, M: tl.constexpr, N: tl.constexpr, A: tl.constexpr):
    i = tl.arange(0, M)
    j = tl.arange(0, N)
    v = tl.load(x + i[:, None] * N + j[None, :])
    s = tl.sum(tl.dot(v, v), A)
    if A == 0:
        tl.store(y + j, s)
    else:
        tl.store(y + i, s)


@triton.jit
def matmul(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, B: tl.constexpr, OUT: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, B)
    acc = tl.zeros((M, N), OUT)
    for start in tl.static_range(0, K, B):
        x = tl.load(a + m[:, None] * K + start + k[None, :])
        y = tl.load(b + (start + k[:, None]) * N + n[None, :])
        acc += tl.dot(x, y, input_precision="ieee", out_dtype=OUT)
    tl.store(c + m[:, None] * N + n[None, :], acc)


REDUCTIONS: dict[str, tuple[Any, dict[str, int], int, str]] = {
    "row of 1024": (row, {"N": 1024}, 1024, "fp32"),
    "row of 2048 halves": (row, {"N": 2048}, 2048, "fp16"),
    "columns of a tile": (tile, {"M": 128, "N": 64, "A": 0}, 128, "fp32"),
    "rows of a tile": (tile, {"M": 4, "N": 1024, "A": 1}, 1024, "fp32"),
    "a slice": (after_max, {"M": 128, "N": 64}, 128, "fp32"),
    "rows of a dot": (after_dot, {"M": 64, "N": 64, "A": 1}, 64, "fp16"),
}
WIDE = {
    "row of 8192": (row, {"N": 8192}, 8192, "fp32"),
    "row of doubles": (row, {"N": 2048}, 2048, "fp64"),
    "row of bf16": (row, {"N": 2048}, 2048, "bf16"),
    "columns of a dot": (after_dot, {"M": 64, "N": 64, "A": 0}, 64, "fp16"),
    "tall tile": (tile, {"M": 512, "N": 4, "A": 0}, 512, "fp32"),
}  # fmt: skip


def additions(what: Any, target: Any, **options: Any) -> tuple[int, int]:
    kernel, constants, n, fmt = what
    code = compiled(kernel, {"x": fmt, "y": "fp32" if kernel is after_dot else fmt}, constants, target, **options)
    products = constants["M"] if kernel is after_dot and target == 75 else 0  # a chain of fma, no matrix unit
    return depth(code.asm["llir"]) - products, n


TRITON = versions.installed_triton()
trees = pytest.mark.skipif(TRITON < (3, 8), reason="Triton 3.6 and 3.7 add the elements of a thread one by one")


@trees
@pytest.mark.parametrize("target", [80, "gfx942"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_are_balanced_trees(name: str, target: Any) -> None:
    found, n = additions(REDUCTIONS[name], target)
    assert 0 < found <= log2(n)


@trees
@pytest.mark.slow
@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize("target", [75, 80, 90, 100, "gfx90a", "gfx942"])
@pytest.mark.parametrize("name", {**REDUCTIONS, **WIDE})
def test_reductions_are_balanced_trees_on_every_target(name: str, target: Any, warps: int) -> None:
    found, n = additions({**REDUCTIONS, **WIDE}[name], target, num_warps=warps)
    assert 0 < found <= log2(n)


@pytest.mark.skipif(TRITON >= (3, 8), reason="balanced trees from Triton 3.8 on")
def test_older_versions_add_the_elements_of_a_thread_one_by_one() -> None:
    """So that nothing less than n - 1 additions is safe there: a thread may hold any number of elements."""
    found, n = additions(REDUCTIONS["columns of a tile"], 80)
    assert found > log2(n)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("target", [75, 80, 90, 100])
def test_fp32_dots_are_chains_of_fma_along_the_whole_k(target: int, fused: bool) -> None:
    constants = {"M": 16, "N": 16, "K": 32, "B": 16, "OUT": tl.float32}
    code = compiled(matmul, dict.fromkeys("abc", "fp32"), constants, target, num_warps=1, enable_fp_fusion=fused)
    count, longest, others = chains(code.asm["llir"])
    assert (count, longest, others) == (16 * 16 * 32 // 32, 32, 0)
    assert "mul.f32" not in code.asm["ptx"] and "mul.rn.f32" not in code.asm["ptx"]


@pytest.mark.parametrize(("fmt", "out"), [("fp16", tl.float32), ("bf16", tl.float32), ("fp16", tl.float16)])
def test_dots_without_a_unit_are_chains_too(fmt: str, out: Any) -> None:
    constants = {"M": 16, "N": 16, "K": 32, "B": 16, "OUT": out}
    types = {"a": fmt, "b": fmt, "c": "fp16" if out == tl.float16 else "fp32"}
    _, longest, others = chains(compiled(matmul, types, constants, 75, num_warps=1).asm["llir"])
    assert (longest, others) == (32, 0)


@triton.jit
def convert(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i).to(y.dtype.element_ty))


@triton.jit
def small_dot(a, b, c, G: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)
    k = tl.arange(0, K)
    if G == 1:
        x = tl.load(a + m[:, None] * K + k[None, :])
        y = tl.load(b + k[:, None] * M + m[None, :])
        tl.store(c + m[:, None] * M + m[None, :], tl.dot(x * 2, y, input_precision="tf32"))
    else:
        g = tl.arange(0, G)[:, None, None]
        x = tl.load(a + (g * M + m[None, :, None]) * K + k[None, None, :])
        y = tl.load(b + (g * K + k[None, :, None]) * M + m[None, None, :])
        tl.store(c + (g * M + m[None, :, None]) * M + m[None, None, :], tl.dot(x, y, input_precision="tf32"))


@pytest.mark.parametrize("target", [80, 90, 100])
@pytest.mark.parametrize(("g", "m"), [(1, 1), (1, 64), (4, 16)])
def test_tf32_dots_reach_the_unit_with_raw_bits(target: int, g: int, m: int) -> None:
    """No fma in place of the unit, and no operand rounded before: all operands are cut by the unit itself."""
    code = compiled(small_dot, dict.fromkeys("abc", "fp32"), {"G": g, "M": m, "K": 32}, target).asm["ptx"]
    assert "mma" in code and "tf32" in code
    assert "cvt.rna" not in code and "fma.rn.f32" not in code


PAIRS = [("fp32", "fp8e5"), ("fp16", "fp8e5"), ("bf16", "fp8e5"), ("fp32", "fp8e4nv")]


def conversions(target: int) -> dict[str, str]:
    """PTX by pair of formats, from a process of its own.

    Triton until 3.8 keeps the conversions of the first target that a process compiles for.
    """
    pairs = [pair for pair in PAIRS if target >= 89 or pair[1] == "fp8e5"]
    script = (
        "import json, sys; sys.path[:0] = json.loads(sys.argv[1]); import lowering; from test_lowering import convert;"
        "print(json.dumps({f'{s}->{d}': lowering.compiled(convert, {'x': s, 'y': d}, {'N': 128}, int(sys.argv[3]),"
        " num_warps=1).asm['ptx'] for s, d in json.loads(sys.argv[2])}))"
    )
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    words = [sys.executable, "-W", "ignore", "-c", script, json.dumps(folders), json.dumps(pairs), str(target)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("target", [80, 89, 90])
def test_profiles_know_how_each_version_converts(target: int) -> None:
    """Half of the last kept bit is added and the rest cut, fp32 goes through fp16, or one instruction does it."""
    profile = load_profile(f"sm_{target}").chosen(triton=TRITON)
    for pair, code in conversions(target).items():
        older = profile.older_cast(*pair.split("->"))
        away, through = older is not None and older.ties_away, older is not None and older.via == "fp16rz"
        assert (("0x00800080" in code) or ("0x00100010" in code)) == away, pair
        assert ("cvt.rz.f16.f32" in code) == through, pair
        assert away or through or target == 80 or f"cvt.rn.satfinite.{'e5m2' if '8e5' in pair else 'e4m3'}x2" in code


FLOATS = ("fp64", "fp32", "fp16", "bf16", "fp8e5", "fp8e4nv", "fp8e4b8", "fp8e5b16", "fp8e4b15")


@triton.jit
def convert_by(x, y, N: tl.constexpr, MODE: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i).to(y.dtype.element_ty, fp_downcast_rounding=MODE))


def compiles(src: str, dst: str, target: Any, mode: str | None) -> bool:
    try:
        compiled(convert_by, {"x": src, "y": dst}, {"N": 128, "MODE": mode}, target, num_warps=1)
    except Exception:
        return False
    return True


def disagreements(target: Any, casts: list[tuple[str, str, str | None]], capfd: Any) -> list[str]:
    """Conversions that the profile refuses and Triton compiles, or the other way round."""
    name = f"sm_{target}" if isinstance(target, int) else target
    profile, found = load_profile(name).chosen(triton=TRITON), []
    for src, dst, mode in casts:
        try:
            profile.check_cast(src, dst, mode or "rtne")
            refused = False
        except MissingRule:
            refused = True
        if refused == compiles(src, dst, target, mode):
            found.append(f"{src}->{dst} {mode} {'refused' if refused else 'allowed'}")
    capfd.readouterr()  # the compiler prints the whole PTX with each error
    return found


TELLING = [
    ("fp32", "fp8e5", None), ("fp16", "fp8e5", None), ("fp32", "fp8e5", "rtz"), ("fp8e5", "fp32", None),
    ("fp32", "fp8e4nv", None), ("fp8e4nv", "fp16", None), ("fp64", "fp8e5", None), ("fp32", "fp8e4b8", None),
    ("fp16", "fp8e4b15", None), ("bf16", "fp8e4b15", None), ("fp8e4b15", "bf16", None), ("fp32", "bf16", None),
]  # fmt: skip


@pytest.mark.parametrize("target", [75, 80, 90])
def test_conversions_that_do_not_compile_are_refused(target: int, capfd: Any) -> None:
    assert not disagreements(target, TELLING, capfd)


def every_cast(target: Any) -> list[tuple[str, str, str | None]]:
    """All pairs; towards zero only where bits are lost, which the language insists on."""
    pairs = [(src, dst) for src in FLOATS for dst in FLOATS if src != dst]
    if target in (70, 75):
        # Two conversions to the language, of which each alone compiles; 3.9 joins them to one that does not assemble.
        pairs.remove(("fp16", "bf16"))
    size = {name: FORMATS[name].bits for name in FLOATS}
    away = {("fp16", "fp8e5b16")}  # towards zero: 3.9 compiles it for AMD, 3.6 does not
    toward = [(s, d, "rtz") for s, d in pairs if size[s] > size[d] and (s, d) not in away]
    return [*((s, d, None) for s, d in pairs), *toward]


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", [70, 75, 80, 86, 89, 90, 100, 103, 120, 121, "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"]
)
def test_every_conversion_that_does_not_compile_is_refused(target: Any, capfd: Any) -> None:
    assert not disagreements(target, every_cast(target), capfd)


@triton.jit
def product(a, b, c, M: tl.constexpr, K: tl.constexpr, OUT: tl.constexpr):
    m = tl.arange(0, M)
    k = tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * M + m[None, :])
    tl.store(c + m[:, None] * M + m[None, :], tl.dot(x, y, out_dtype=OUT))


@triton.jit
def scaled_product(a, b, s, t, c, M: tl.constexpr, K: tl.constexpr, PACK: tl.constexpr, FORMAT: tl.constexpr):
    m = tl.arange(0, M)
    k = tl.arange(0, K // PACK)
    at = m[:, None] * (K // 32) + tl.arange(0, K // 32)[None, :]
    x = tl.load(a + m[:, None] * (K // PACK) + k[None, :])
    y = tl.load(b + k[:, None] * M + m[None, :])
    tl.store(c + m[:, None] * M + m[None, :], tl.dot_scaled(x, tl.load(s + at), FORMAT, y, tl.load(t + at), FORMAT))


def unit(kernel: Any, types: dict[str, str], constants: dict[str, Any], target: int, warps: int = 4) -> set[str]:
    """Instructions of the matrix units in the PTX, without their shapes and layouts."""
    code = compiled(kernel, types, constants, target, num_warps=warps).asm["ptx"]
    return set(re.findall(r"(?:wgmma\.mma_async|mma\.sync|tcgen05\.mma)[\w.:]*", code))


@pytest.mark.parametrize("target", [90, 100, 120])
@pytest.mark.parametrize(("m", "warps"), [(16, 4), (64, 2), (64, 4)])
def test_small_tiles_of_fp8_are_widened(target: int, m: int, warps: int) -> None:
    """What the models of sm_90 and sm_100 hold: the unit of fp8 or that of fp16, by tile and warps."""
    constants = {"M": m, "K": 32, "OUT": tl.float32}
    (found,) = unit(product, {"a": "fp8e4nv", "b": "fp8e4nv", "c": "fp32"}, constants, target, warps)
    small = (m < 64 or warps < 4) and target != 120
    assert found.endswith("f32.f16.f16.f32" if small else ("kind::f8f6f4", "e4m3.e4m3", "e4m3.e4m3.f32"))


@pytest.mark.parametrize("target", [80, 90, 100, 120])
@pytest.mark.parametrize("m", [16, 64])
def test_int8_saturates_or_wraps(target: int, m: int) -> None:
    """Either on sm_90 and sm_100, by tile and version; never a wrap where the profile says saturate."""
    (found,) = unit(product, {"a": "i8", "b": "i8", "c": "i32"}, {"M": m, "K": 32, "OUT": tl.int32}, target)
    profile = load_profile(f"sm_{target}")
    assert profile.dot("int8").overflow in ("either", "saturate" if ".satfinite" in found else "wrap")
    wraps = m == 64 and (target == 90 or (target == 100 and TRITON >= (3, 8)))
    assert (".satfinite" in found) != wraps


@pytest.mark.parametrize(("fmt", "pack"), [("e4m3", 1), ("e2m1", 2)])
@pytest.mark.parametrize(("target", "m"), [(100, 64), (100, 128), (120, 16)])
def test_small_tiles_of_scaled_numbers_are_widened(target: int, m: int, fmt: str, pack: int) -> None:
    constants = {"M": m, "K": 128, "PACK": pack, "FORMAT": fmt}
    (found,) = unit(scaled_product, {**dict.fromkeys("abst", "u8"), "c": "fp32"}, constants, target)
    assert ("block_scale" in found) == (target == 120 or m == 128)
    assert "block_scale" in found or found.endswith("kind::f16")
