"""The check in real arithmetic knows every operation that it evaluates: an unknown one is no identity."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from interval_ops.profiles.profile import load_profile
from render.ops.library import CONVERSIONS, INTEGERS, REFUSED
from render.ops.rule import NoRule
from render.trace.adjoint import Sweep
from render.trace.check import REAL, value_of
from render.trace.model import LEAF, Node, NotSliceable, Slice


def node(op: str, start: int, operands: tuple[np.ndarray, ...], v: np.ndarray, **attrs: object) -> Node:
    return Node(op, {"fmt": "fp32", **attrs}, "kernel.py", 7, start, operands, v, v - 1, v + 1)


def one_operation(op: str) -> Slice:
    x = np.array([0.25, 0.5])
    leaf = node(LEAF, 0, (), x, source="input")
    return Slice("out", (0,), "k", (0,), (leaf, node(op, 2, (np.array([0, 1]),), x)), 3, 0.5, -0.5, 1.5)


UNKNOWN = ["brand_new", "library brand_new", "library fast_exp10f", "bitcast", "returned", *sorted(REFUSED)]


@pytest.mark.parametrize("op", UNKNOWN)
def test_an_unknown_operation_is_refused(op: str) -> None:
    found = one_operation(op)
    with pytest.raises(NotSliceable, match=re.escape(op)):
        value_of(found.nodes[1], found.nodes[0].v)
    with pytest.raises(NoRule, match=re.escape(op)):
        Sweep(replace(found, profile=load_profile("any"))).forward()


@pytest.mark.parametrize("name", sorted({*CONVERSIONS, *INTEGERS}))
def test_only_conversions_to_floats_keep_the_number(name: str) -> None:
    to_float = "2float" in name or "2double" in name
    kept = REAL.get("cast") is REAL.get(f"library {name}")
    assert kept == (to_float and not name.startswith("hiloint"))


def test_a_conversion_to_another_float_is_the_number_itself() -> None:
    found = one_operation("library double2float_rd")
    assert value_of(found.nodes[1], found.nodes[0].v).tolist() == [0.25, 0.5]
