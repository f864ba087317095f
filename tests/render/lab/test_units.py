"""Units of a sweep: every combination once, known by what decides their result."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from render.lab import units
from render.lab.units import SweepAxes, SweepUnit
from render.result.errors import RenderError

KERNEL = """
import torch, triton, triton.language as tl

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2.0, mask=i < n)

def double(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
    return y

def make_inputs():
    return (torch.randn(100),)

def reference(x):
    return x * FACTOR
"""


def written(folder: Path, factor: str = "2.0") -> Path:
    path = folder / "k.py"
    path.write_text(KERNEL.replace("FACTOR", factor))
    return path


def test_every_combination_is_a_unit(tmp_path):
    axes = SweepAxes(("any", "sm_90"), (0, 1, 2), ("first",), (("n", ("8", "16")), ("t", ("fp16",))))
    like = SweepUnit("file", "", specs=("x=randn({n}):{t}",))
    found = units.of_files([str(written(tmp_path))], axes, like)
    assert len(found) == len({unit.key for unit in found}) == 2 * 3 * 2
    assert {unit.specs for unit in found} == {("x=randn(8):fp16",), ("x=randn(16):fp16",)}
    assert all(pickle.loads(pickle.dumps(unit)).key == unit.key for unit in found)


def test_a_key_changes_with_the_file_and_the_settings(tmp_path):
    path = str(written(tmp_path))
    (one,) = units.of_files([path], SweepAxes(), SweepUnit("file", ""))
    (same,) = units.of_files([path], SweepAxes(), SweepUnit("file", ""))
    written(tmp_path, "3.0")
    (other,) = units.of_files([path], SweepAxes(), SweepUnit("file", ""))
    assert one.key == same.key != other.key
    assert replace(one, seed=1).key != one.key


def test_a_name_without_values_is_told():
    with pytest.raises(RenderError, match="no value for 'm'"):
        list(SweepAxes(vary=(("n", ("8",)),)).shapes(["x=randn({m})"]))


def test_a_unit_is_judged_where_its_file_is_not(tmp_path):
    path = written(tmp_path)
    (unit,) = units.of_files([str(path)], SweepAxes(), SweepUnit("file", ""))
    path.unlink()
    (row,) = units.judge(unit)
    assert row["label"] == "Type-I" and row["exit_code"] == 0
    wrong = replace(unit, source=unit.source.replace("* 2.0\n", "* 3.0\n"))
    assert units.judge(wrong)[0]["exit_code"] == 1
    broken = replace(unit, source="import nowhere_at_all")
    assert units.judge(broken)[0]["label"] == "error"
