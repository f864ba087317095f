"""The builder has exactly the methods that the rule table promises, on the installed Triton."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import triton

from render.interpreter.builder import Builder
from render.ops.table import EXACT, RULES, UNSUPPORTED

# Done by the language layer instead of by a builder method: `reduce` and `scan` are patched whole.
ELSEWHERE = {
    "reduce", "reduce_ret", "scan", "scan_ret", "map_elementwise", "map_elementwise_ret", "block_with_parent",
    "name_loc", "tensor_descriptor_type", "extern_elementwise", "make_block_ptr", "advance", "tensor_pointer_load",
    "tensor_pointer_store",
}  # fmt: skip


# What the compiler's front end asks of its own builder: types of its IR, and where it writes. No values.
FRONT_END = {
    "codegen_fns", "options", "new_block", "get_insertion_point", "restore_insertion_point",
    "set_insertion_point_to_start", "get_block_ty", "get_ptr_ty",
    *(f"get_{t}_ty" for t in ("bf16", "double", "float", "half", "int1", "int8", "int16", "fp8e4b15", "fp8e4b8",
                              "fp8e4nv", "fp8e5", "fp8e5b16")),
}  # fmt: skip

# Methods of the compiler's builder that the language never calls: its code generator makes control flow of them, which
# here is Python's own; `poison` and the unordered comparisons have no caller.
CODE_GENERATOR = {
    "block", "branch", "cond_branch", "condition_op", "for_op", "if_op", "while_op", "yield_op", "loc", "module",
    "poison", "fcmpONE", "fcmpUEQ", "fcmpUGE", "fcmpUGT", "fcmpULE", "fcmpULT",
}  # fmt: skip


def language_sources() -> str:
    """All of the installed language: core, semantic, standard library and vendor extras."""
    return "".join(p.read_text() for p in (Path(triton.__file__).parent / "language").rglob("*.py"))


def implemented() -> set[str]:
    return {name.removeprefix("create_") for name in dir(Builder) if name.startswith("create_")}


def missing(sources: str) -> set[str]:
    """Methods that the language asks of a builder and that are neither there nor in a table with a reason."""
    called = set(re.findall(r"builder\.create_([a-zA-Z0-9_]+)", sources))
    others = {n for n in re.findall(r"builder\.(\w+)", sources) if not n.startswith("create_")}
    assert len(called) > 60 and len(others) > 20
    return (called - implemented() - set(UNSUPPORTED) - ELSEWHERE) | (others - set(dir(Builder)) - FRONT_END)


def native() -> set[str]:
    from triton._C.libtriton import ir

    return {n.removeprefix("create_") for n in dir(ir.builder) if n.startswith("create_")}


def unaccounted() -> set[str]:
    """Methods of the compiler's own builder that stand nowhere."""
    return native() - implemented() - set(UNSUPPORTED) - ELSEWHERE - CODE_GENERATOR


def test_every_method_that_the_language_calls_is_implemented_or_refused_with_a_reason():
    assert not missing(language_sources())


def test_every_method_of_the_compilers_builder_is_accounted_for():
    assert len(native()) > 120
    assert not unaccounted()


def test_a_new_method_is_noticed(monkeypatch):
    from triton._C.libtriton import ir

    called = "\n    return builder.create_brand_new(x) if builder.brand_new_too() else x\n"
    assert missing(language_sources() + called) == {"brand_new", "brand_new_too"}
    monkeypatch.setattr(ir.builder, "create_brand_new", lambda self: None, raising=False)
    assert unaccounted() == {"brand_new"}


def test_no_method_is_both_implemented_and_called_unsupported():
    assert not implemented() & set(UNSUPPORTED)


def test_every_implemented_method_stands_in_the_table():
    assert not implemented() - set(RULES) - set(EXACT)


@pytest.mark.parametrize("op", sorted(UNSUPPORTED))
def test_reasons_are_sentences(op):
    assert len(UNSUPPORTED[op].split()) >= 3
