"""The builder has exactly the methods that the rule table promises, on the installed Triton."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import triton

from interval_ops.rules import EXACT, RULES, UNSUPPORTED
from render.interpreter.builder import Builder

# Done by the language layer instead of by a builder method: `reduce` and `scan` are patched whole.
ELSEWHERE = {
    "reduce", "reduce_ret", "scan", "scan_ret", "map_elementwise", "map_elementwise_ret", "block_with_parent",
    "name_loc", "tensor_descriptor_type", "extern_elementwise", "make_block_ptr", "advance", "tensor_pointer_load",
    "tensor_pointer_store",
}  # fmt: skip


def called_by_the_language() -> set[str]:
    root = Path(triton.__file__).parent / "language"
    text = "".join(p.read_text() for p in root.glob("*.py"))
    return set(re.findall(r"builder\.create_([a-zA-Z0-9_]+)", text))


def implemented() -> set[str]:
    return {name.removeprefix("create_") for name in dir(Builder) if name.startswith("create_")}


def test_every_method_of_the_language_is_implemented_or_refused_with_a_reason():
    missing = called_by_the_language() - implemented() - set(UNSUPPORTED) - ELSEWHERE
    assert not missing


def test_no_method_is_both_implemented_and_called_unsupported():
    assert not implemented() & set(UNSUPPORTED)


def test_every_implemented_method_stands_in_the_table():
    assert not implemented() - set(RULES) - set(EXACT)


@pytest.mark.parametrize("op", sorted(UNSUPPORTED))
def test_reasons_are_sentences(op):
    assert len(UNSUPPORTED[op].split()) >= 3
