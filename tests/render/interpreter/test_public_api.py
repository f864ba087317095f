"""Every public name of the installed Triton's language runs, is refused with a reason, or is no operation.

A name that a new release adds fails the first test, which names it.
"""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.session import Session
from render.result.errors import UnsupportedOp

# x, y: 16 numbers; i: 0..15; m: 16 x 16; p: pointers to scratch; q: int32 pointers; s: int32 block. One line each.
CALLS: dict[str, str] = {
    "abs": "tl.abs(x)",
    "add": "tl.add(x, y)",
    "advance": "tl.load(tl.advance(tl.make_block_ptr(base, (16,), (1,), (0,), (8,), (0,)), (4,)))",
    "arange": "tl.arange(0, 8)",
    "argmax": "tl.argmax(x, 0)",
    "argmin": "tl.argmin(x, 0)",
    "associative_scan": "tl.associative_scan(x, 0, combine)",
    "assume": "tl.assume(tl.program_id(0) >= 0)",
    "atomic_add": "tl.atomic_add(p, x)",
    "atomic_and": "tl.atomic_and(q, i)",
    "atomic_cas": "tl.atomic_cas(q, i, i)",
    "atomic_load": "tl.atomic_load(q)",
    "atomic_max": "tl.atomic_max(q, i)",
    "atomic_min": "tl.atomic_min(q, i)",
    "atomic_poll": "tl.atomic_poll(q, tl.load(q))",
    "atomic_or": "tl.atomic_or(q, i)",
    "atomic_store": "tl.atomic_store(q, i)",
    "atomic_xchg": "tl.atomic_xchg(q, i)",
    "atomic_xor": "tl.atomic_xor(q, i)",
    "bitonic_merge": "tl.bitonic_merge(x)",
    "broadcast": "tl.broadcast(x[:, None], y[None, :])",
    "broadcast_to": "tl.broadcast_to(x[:, None], [16, 4])",
    "cast": "tl.cast(x, tl.float16)",
    "cat": "tl.cat(x, y, can_reorder=True)",
    "cdiv": "tl.cdiv(i, 3)",
    "ceil": "tl.ceil(x)",
    "clamp": "tl.clamp(x, 0.2, 0.5)",
    "cos": "tl.cos(x)",
    "cumprod": "tl.cumprod(x, 0)",
    "cumsum": "tl.cumsum(x, 0, reverse=True)",
    "debug_barrier": "tl.debug_barrier()",
    "device_assert": "tl.device_assert(i >= 0)",
    "device_print": "tl.device_print('x', x)",
    "div_rn": "tl.div_rn(x, y)",
    "dot": "tl.dot(m, m)",
    "erf": "tl.erf(x)",
    "exp": "tl.exp(x)",
    "exp2": "tl.exp2(x)",
    "expand_dims": "tl.expand_dims(x, 0)",
    "fdiv": "tl.fdiv(x, y)",
    "flip": "tl.flip(x)",
    "floor": "tl.floor(x)",
    "fma": "tl.fma(x, y, x)",
    "full": "tl.full([16], 1.5, tl.float32)",
    "gather": "tl.gather(x, i, 0)",
    "histogram": "tl.histogram(i, 16)",
    "interleave": "tl.interleave(x, y)",
    "join": "tl.join(x, y)",
    "load": "tl.load(p)",
    "load_tensor_descriptor": "tl.load_tensor_descriptor(d, [0, 0])",
    "log": "tl.log(x)",
    "log2": "tl.log2(x)",
    "make_block_ptr": "tl.load(tl.make_block_ptr(base, (16,), (1,), (0,), (16,), (0,)))",
    "make_tensor_descriptor": "d.load([0, 0])",
    "map_elementwise": "tl.map_elementwise(clip, x)",
    "max": "tl.max(x, 0, return_indices=True)",
    "max_constancy": "tl.max_constancy(i, 4)",
    "max_contiguous": "tl.max_contiguous(i, 4)",
    "maximum": "tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)",
    "min": "tl.min(x, 0)",
    "minimum": "tl.minimum(x, y)",
    "mul": "tl.mul(x, y)",
    "multiple_of": "tl.multiple_of(i, 4)",
    "num_programs": "tl.num_programs(0)",
    "pair_uniform_to_normal": "tl.pair_uniform_to_normal(x, y)",
    "permute": "tl.permute(m, (1, 0))",
    "philox": "tl.philox(7, i, i, i, i)",
    "philox_impl": "tl.philox_impl(i.to(tl.uint32), i.to(tl.uint32), i.to(tl.uint32), i.to(tl.uint32), u, u)",
    "program_id": "tl.program_id(1)",
    "rand": "tl.rand(7, i)",
    "rand4x": "tl.rand4x(7, i)",
    "randint": "tl.randint(7, i)",
    "randint4x": "tl.randint4x(7, i)",
    "randn": "tl.randn(7, i)",
    "randn4x": "tl.randn4x(7, i)",
    "ravel": "tl.ravel(m)",
    "reduce": "tl.reduce(x, 0, combine)",
    "reduce_or": "tl.reduce_or(i, 0)",
    "reshape": "tl.reshape(x, [4, 4])",
    "rsqrt": "tl.rsqrt(x)",
    "sigmoid": "tl.sigmoid(x)",
    "sin": "tl.sin(x)",
    "softmax": "tl.softmax(x)",
    "sort": "tl.sort(x)",
    "split": "tl.split(tl.join(x, y))",
    "sqrt": "tl.sqrt(x)",
    "sqrt_rn": "tl.sqrt_rn(x)",
    "squeeze": "tl.squeeze(x[None, :], 0)",
    "store": "tl.store(p, x)",
    "store_tensor_descriptor": "tl.store_tensor_descriptor(d, [0, 0], m)",
    "sub": "tl.sub(x, y)",
    "sum": "tl.sum(x, 0)",
    "swizzle2d": "tl.swizzle2d(i, i, 16, 16, 4)",
    "to_tensor": "tl.to_tensor(3.0)",
    "topk": "tl.topk(x, 4)",
    "trans": "tl.trans(m)",
    "uint_to_uniform_float": "tl.uint_to_uniform_float(i.to(tl.uint32))",
    "umulhi": "tl.umulhi(i, i)",
    "unsqueeze": "tl.unsqueeze(x, 0)",
    "view": "tl.view(x, [4, 4])",
    "where": "tl.where(x > y, x, y)",
    "xor_sum": "tl.xor_sum(i, 0)",
    "zeros": "tl.zeros([16], tl.float32)",
    "zeros_like": "tl.zeros_like(x)",
}

REFUSED: dict[str, str] = {
    "inline_asm_elementwise": "tl.inline_asm_elementwise('prmt.b32 $0, $1;', '=r,r', [x], tl.float32, True, 1)",
}

TESTED_ELSEWHERE = {"dot_scaled": "tests/render/interpreter/builder/test_scaled_dots.py"}

STATEMENTS = {"range", "static_range", "static_assert", "static_print", "condition"}
TYPES = {
    "bfloat16", "block_type", "const", "constexpr", "constexpr_type", "dtype", "float16", "float32", "float64",
    "float8e4b15", "float8e4b8", "float8e4nv", "float8e5", "float8e5b16", "int1", "int16", "int32", "int64", "int8",
    "pi32_t", "pointer_type", "slice", "tensor", "tensor_descriptor", "tensor_descriptor_type", "tuple", "tuple_type",
    "uint16", "uint32", "uint64", "uint8", "void", "PropagateNan", "TRITON_MAX_TENSOR_NUMEL",
}  # fmt: skip
MODULES = {"core", "extra", "math", "random", "semantic", "standard", "target_info"}
COMPILER = {"str_to_ty", "aggregate_replace", "expect_zero"}
"""Helpers of the compiler's own front end: parsing of types, marks on values."""

NOT_IN_MATH = {"List", "T", "core", "wraps"}

# Methods of tensors that are no function of `tl`.
METHODS: dict[str, str] = {
    "to": "x.to(tl.float16)", "logical_and": "(x > y).logical_and(x < y)", "logical_or": "(x > y).logical_or(x < y)",
    "item": "tl.sum(x[None, :], 1).item()", "T": "m.T", "cast": "x.cast(tl.float16)",
}  # fmt: skip

HEADER = """
import triton
import triton.language as tl


@triton.jit
def combine(a, b):
    return a + b


@triton.jit
def clip(a):
    if a > 0.5:
        return a * 0 + 0.5
    else:
        return a


"""
BODY = """
@triton.jit
def kernel(xs, ys, ms, scratch, ints):
    i = tl.arange(0, 16)
    x = tl.load(xs + i)
    y = tl.load(ys + i)
    base = xs
    p = scratch + i
    q = ints + i
    u = tl.full([16], 3, tl.uint32)
    m = tl.load(ms + i[:, None] * 16 + i[None, :])
    d = tl.make_tensor_descriptor(ms, [16, 16], [16, 1], [16, 16])
    {}
"""


def public() -> set[str]:
    return {*tl.__all__, *(name for name in dir(tl) if not name.startswith("_"))} if hasattr(tl, "__all__") else set()


def run(expression: str) -> Session:
    source = HEADER + BODY.format(f"r = {expression}")
    name = f"<{expression}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict[str, object] = {"__name__": "public_api"}
    exec(compile(source, name, "exec"), space)
    x = torch.linspace(0.1, 0.9, 16)
    with Session("sm_80", printer=lambda text: None) as s:
        space["kernel"][(1,)](x, x.flip(0).contiguous(), torch.randn(16, 16), torch.zeros(16),  # type: ignore[index]
                              torch.zeros(16, dtype=torch.int32))  # fmt: skip
    return s


def unaccounted() -> set[str]:
    """Public names of the language, of its mathematics and of its tensors that stand in no table above."""
    known = {*CALLS, *REFUSED, *TESTED_ELSEWHERE, *STATEMENTS, *TYPES, *MODULES, *COMPILER}
    functions = {n for n in dir(tl.math) if not n.startswith("_")} - NOT_IN_MATH - set(CALLS)
    members = {n for n in dir(tl.tensor) if not n.startswith("_")} - set(CALLS) - set(REFUSED) - set(METHODS)
    return (public() - known) | functions | members


def test_every_public_name_is_accounted_for() -> None:
    assert len(public()) > 120
    assert not unaccounted(), "new names of triton.language: implement or refuse them, with a call here"


@pytest.mark.parametrize("place", [tl, tl.math, tl.tensor], ids=["tl", "tl.math", "tl.tensor"])
def test_a_new_name_is_noticed(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "brand_new", lambda: None, raising=False)
    assert unaccounted() == {"brand_new"}


@pytest.mark.parametrize("name", sorted(set(CALLS) & (public() | {"make_block_ptr", "advance"})))
def test_operations_run(name: str) -> None:
    assert not run(CALLS[name]).findings


@pytest.mark.parametrize("name", sorted(n for n in dir(tl.math) if n in CALLS))
def test_functions_of_the_math_namespace_run(name: str) -> None:
    run(CALLS[name].replace("tl.", "tl.math.", 1))


@pytest.mark.parametrize("name", sorted(n for n in METHODS if METHODS[n] and hasattr(tl.tensor, n)))
def test_methods_run(name: str) -> None:
    run(METHODS[name])


@pytest.mark.parametrize("name", sorted(set(REFUSED) & public()))
def test_refused_operations_say_why(name: str) -> None:
    with pytest.raises(UnsupportedOp) as caught:
        run(REFUSED[name])
    assert name in caught.value.op and len(caught.value.reason.split()) > 3


VENDOR = {
    "globaltimer": "cuda.globaltimer()", "smid": "cuda.smid()", "num_threads": "cuda.num_threads()",
    "num_warps": "cuda.num_warps()", "gdc_wait": "cuda.gdc_wait()",
    "gdc_launch_dependents": "cuda.gdc_launch_dependents()", "memrealtime": "hip.memrealtime()",
}  # fmt: skip
VENDOR_COMPILER = {"libdevice", "convert_custom_float8_sm70", "convert_custom_float8_sm80", "utils", "gdc"}
"""The library has its own tests; conversions of fp8e4b15 are called by the compiler."""


@pytest.mark.parametrize("module", ["cuda", "hip"])
def test_every_vendor_name_is_accounted_for(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = getattr(tl.extra, module)

    def unknown() -> set[str]:
        return {n for n in dir(place) if not n.startswith("_")} - set(VENDOR) - VENDOR_COMPILER

    assert dir(place) and not unknown()
    monkeypatch.setattr(place, "brand_new", lambda: None, raising=False)
    assert unknown() == {"brand_new"}


@pytest.mark.parametrize("name", sorted(VENDOR))
def test_vendor_names_run_or_say_why_not(name: str) -> None:
    """Clocks and places in the machine have no value on a CPU; waiting for another grid needs none."""
    if name.startswith(("gdc", "num")):
        run(f"tl.extra.{VENDOR[name]}")
        return
    with pytest.raises(UnsupportedOp) as caught:
        run(f"tl.extra.{VENDOR[name]}")
    assert len(caught.value.reason.split()) > 3


def test_the_version_is_one_that_was_looked_at() -> None:
    assert tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 6)
