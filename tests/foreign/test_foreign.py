"""Foreign executions of whole programs stay inside the bounds, are the executions they claim to be, and can leave."""

from __future__ import annotations

import ast
import dataclasses
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import triton

import foreign as package
import render
from foreign import attack as module
from foreign import ptx, zoo, zoo_sequences
from foreign.attack import Foreign, attack, executed
from foreign.figures import CHIPS, ulps
from interval_ops.profiles.profile import load_profile

pytestmark = pytest.mark.skipif(
    not triton.__version__.startswith("3.9"), reason="the stock interpreter of Triton 3.9 runs the programs"
)
ZOO = {p.name: p for p in zoo.zoo()}
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def random_programs(seeds: range) -> Iterator[tuple[Foreign, str]]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        from programs.write import program
        from random_programs import module_of
    finally:
        sys.path.pop(0)
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            given = program(seed)
            entry = module_of(given.text, f"foreign_{seed}", Path(folder)).entry
            yield Foreign(f"program {seed}", entry, given.inputs().args), given.device


@pytest.mark.parametrize("name", ZOO)
def test_programs_stay_inside(name: str) -> None:
    found = attack(ZOO[name], "any", runs=4, seed=1)
    assert not found.violated, found.outside
    assert found.checks and found.runs == 4 and not found.taints


@pytest.mark.parametrize("device", ["sm_80", "sm_90"])
def test_divisions_on_one_target(device: str) -> None:
    """x / c is x times 1 / c there, two roundings off."""
    assert not attack(ZOO["divisions float32"], device, runs=4, seed=1).violated


def test_random_programs_stay_inside() -> None:
    checks = 0
    for program, device in random_programs(range(5000, 5006)):
        found = attack(program, device, runs=3, seed=2)
        assert not found.violated, (program.name, found.outside)
        checks += found.checks
    assert checks > 1000


def test_where_no_document_speaks_nothing_is_claimed() -> None:
    found = attack(ZOO["functions float32"], "gfx90a", runs=2)
    assert found.left_out and not found.checks


WORSE = {
    "div": ("divisions float32", {"constant": ulps(6)}),
    "exp": ("functions float32", {"functions": {**CHIPS["sm_80"].functions, "log": (ulps(9), False)}}),
    "unit": ("product torch.float16 fp32 ieee", {"units": {"fp16": CHIPS["sm_89"].units["fp8"]}}),
    "host": ("spread", {"host": {"exp": 2.0**-10}}),
}  # fmt: skip


@pytest.mark.parametrize("what", WORSE)
def test_a_target_that_is_worse_leaves_the_bounds(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, changes = WORSE[what]
    monkeypatch.setitem(CHIPS, "sm_80", dataclasses.replace(CHIPS["sm_80"], **changes))
    assert attack(ZOO[name], "sm_80", runs=4, seed=1).violated


WORSE_INSTRUCTIONS = (
    ("tanh.approx.f32", "inline gelu"), ("sqrt.approx.f32", "inline length"), ("ex2.approx.f16", "inline power f16"),
    ("rcp.approx.f32", "inline sigmoid"), ("rsqrt.approx.f32", "inline norm"),
)  # fmt: skip


@pytest.mark.parametrize(("instruction", "program"), WORSE_INSTRUCTIONS)
def test_an_instruction_that_is_worse_leaves_the_bounds(
    instruction: str, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, error = ptx.APPROXIMATE[instruction]
    monkeypatch.setitem(ptx.APPROXIMATE, instruction, (function, 6 * error))
    assert attack(ZOO[program], "sm_90", runs=4, seed=1).violated


def test_operands_that_are_rounded_leave_the_bounds_of_a_unit_that_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHIPS, "sm_80", dataclasses.replace(CHIPS["sm_80"], operands="nearest"))
    assert attack(ZOO["product torch.float32 fp32 tf32"], "sm_80", runs=4, seed=1).violated


def test_a_foreign_device_output_is_no_bug() -> None:
    """The whole way: what the foreign target returned, judged as a recorded device output."""
    program = ZOO["spread"]

    def reference(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        sums = torch.zeros(8).index_add(0, at, x)
        return torch.nn.functional.silu(x / (sums.abs().max() + 1.0)) + sums[at]

    given = executed(program, "sm_90", 3)[0]
    found = render.classify(program.entry, *program.inputs, ref=reference, output=given, device="sm_90")
    assert found.label == "Type-I", found.message


def test_the_stock_interpreter_is_as_it_was() -> None:
    from triton.runtime import interpreter as stock
    from triton.runtime.jit import JITFunction

    before = stock.interpreter_builder, stock.ReduceOps, JITFunction.run, JITFunction.__call__, triton.language.exp
    with pytest.raises(ZeroDivisionError):
        executed(Foreign("broken", lambda x: 1 / 0, (torch.zeros(1),)), "sm_80", 0)
    executed(ZOO["rows float16"], "sm_80", 0)
    after = stock.interpreter_builder, stock.ReduceOps, JITFunction.run, JITFunction.__call__, triton.language.exp
    assert before == after


def test_it_shares_nothing_with_what_it_attacks() -> None:
    for path in Path(package.__file__).parent.glob("*.py"):
        if path.stem in (
            Path(module.__file__).stem,
            Path(__file__).stem,
            Path(zoo.__file__).stem,
            Path(zoo_sequences.__file__).stem,
        ):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            assert not any(n.startswith(("interval_ops", "render")) for n in names), path


@pytest.mark.parametrize("name", [c for c in CHIPS if c != "rounding"])
def test_profiles_allow_what_the_documents_say(name: str) -> None:
    """Two copies of the figures, written down apart: no profile is below the other, none far above."""
    chip, profile = CHIPS[name], load_profile(name)
    for function, (error, flush) in chip.functions.items():
        ours = profile.fn(function)
        floor = (1 + error) * (1 + 2.0**-24) - 1 if function == "div" and chip.constant else error
        assert floor <= ours.r <= 1.7 * floor, function
        assert ours.ftz or not flush, function
    for function, error in chip.wide.items():
        assert error <= profile.fn(function, "fp64").r <= 6 * error, function
    for kind, unit in chip.units.items():
        if f"dot {kind}" not in profile.refused and kind in profile.dots:
            ours = profile.dot(kind)
            assert (ours.block, ours.fraction) == (unit.length, unit.fraction), kind
            assert ours.rho >= 2.0 ** (-unit.bits + (unit.bits != 11)), kind
