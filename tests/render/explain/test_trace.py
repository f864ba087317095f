"""Whatever the language or the vendor library does with numbers, the walk back names what it was computed from.

The oracle is the kernel itself: of inputs that are changed a little, an output may depend only on those that the walk
names. What decides (conditions, masks, addresses) is not followed, and the changes are too small to decide otherwise.
"""

from __future__ import annotations

import linecache
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import triton.language as tl

from render.explain.lines import Widths
from render.explain.masked import Appearances
from render.explain.trace import Programs
from render.interpreter.events import Listener, listened
from render.interpreter.libdevice import forms, modules
from render.interpreter.mapping import Mapping
from render.interpreter.ordering import Ordering
from render.interpreter.session import Session
from render.ops.library import CONVERSIONS, INTEGERS, LIBRARY
from render.trace.dependence import Dependence
from tests.render.interpreter.builder.test_scaled_dots import scaled_kernel
from tests.render.interpreter.test_public_api import BODY, CALLS, HEADER, METHODS, public

SHAPES = {"xs": (16,), "ys": (16,), "ms": (16, 16), "scratch": (16,), "ints": (16,), "out": (8, 512)}
DECIDES = {
    "argmax", "argmin", "atomic_cas", "ceil", "device_print", "floor", "zeros_like",
}  # fmt: skip
"""Operations on x, y or m whose result no small change of them changes."""
_OPERANDS = {"fp32": "{}", "fp64": "{}.to(tl.float64)", "int32": "({} * 97).to(tl.int32)",
             "uint32": "({} * 97).to(tl.int32).to(tl.uint32)", "int64": "({} * 97).to(tl.int64)",
             "uint64": "({} * 97).to(tl.int64).to(tl.uint64)"}  # fmt: skip


def keep(out: Any, found: Any) -> None:
    """Stores every tensor that an expression gave, row by row of `out`."""
    todo, row = [found], 0
    while todo:
        one = todo.pop(0)
        if isinstance(one, tuple | tl.tuple):
            todo += list(one)
        elif isinstance(one, tl.tensor) and one.dtype != tl.void and not one.dtype.is_ptr():
            values = tl.ravel(one) if one.shape else tl.full([1], 0, one.dtype) + one
            tl.store(out + row * 512 + tl.arange(0, values.shape[0]), values.to(tl.float64))
            row += 1


keep.__triton_builtin__ = True  # type: ignore[attr-defined] # Triton lets kernels call no other function of Python


def kernel(*statements: str) -> Any:
    body = "\n    ".join(statements)
    source = (
        HEADER + "from triton.language.extra import libdevice\n" + BODY.replace("ints):", "ints, out):").format(body)
    )
    name = f"<trace {body}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space: dict[str, Any] = {"__name__": "trace", "keep": keep}
    exec(compile(source, name, "exec"), space)
    return space["kernel"]


def inputs() -> dict[str, torch.Tensor]:
    x = torch.linspace(0.1, 0.9, 16)
    ms = torch.randn(16, 16, generator=torch.Generator().manual_seed(3))
    made = {"xs": x, "ys": x.flip(0).contiguous(), "ms": ms}
    return {name: made.get(name, torch.zeros(shape, dtype=torch.int32 if name == "ints" else
                                             torch.float64 if name == "out" else torch.float32))
            for name, shape in SHAPES.items()}  # fmt: skip


def run(made: Any, tensors: dict[str, torch.Tensor], *listeners: Listener, interval: bool = False) -> None:
    options = {"builder": listened(*listeners)} if listeners else {}
    with Session("sm_80", interval=interval, printer=lambda text: None, **options):
        made[(1,)](*tensors.values())


@dataclass(frozen=True)
class Place:
    tensor: str
    offset: int


def place(tensors: dict[str, torch.Tensor], address: int) -> Place:
    for name, t in tensors.items():
        if 0 <= address - t.data_ptr() < t.numel() * t.element_size():
            return Place(name, (address - t.data_ptr()) // t.element_size())
    raise AssertionError("an address outside of every tensor")


def sources(made: Any, decisions: bool = False) -> dict[Place, set[Place]]:
    """What the walk names for every element that was stored."""
    recorder, tensors = Programs({0: 0}), inputs()
    run(made, tensors, recorder)
    stores = [e.attrs for e in Dependence(recorder.of(0)).stores if e.args]
    stored = sorted({int(a) for at in stores for a in at["ptr"][at["active"]]})
    found = {}
    for address in stored[:: max(1, len(stored) // 12)]:
        walk = Dependence(recorder.of(0), decisions)
        reached = walk.behind(address)
        assert reached is not None
        assert walk.complete, "a value that no event made"
        found[place(tensors, address)] = {place(tensors, int(a)) for r in reached for a in r.outside}
    return found


def check(made: Any) -> set[Place]:
    """Asserts that the sources of what changes are named; gives what changes."""
    named = sources(made)
    base = inputs()
    run(made, base)
    generator = torch.Generator().manual_seed(11)
    moved = set()
    for _ in range(3):
        tensors, changed = inputs(), set()
        for name in ("xs", "ys", "ms"):
            some = torch.rand(tensors[name].shape, generator=generator) < 0.5
            tensors[name] *= torch.where(some, 1 + 2.0**-6, 1.0)
            changed |= {Place(name, int(i)) for i in np.flatnonzero(some)}
        run(made, tensors)
        for target, behind in named.items():
            before, after = (t[target.tensor].reshape(-1)[target.offset] for t in (base, tensors))
            if not torch.equal(before, after) and not (before.isnan() and after.isnan()):
                moved.add(target)
                assert behind & changed, f"{target} changes, and comes from {behind}"
    return moved


@pytest.mark.parametrize("name", sorted(set(CALLS) & (public() | {"make_block_ptr", "advance"})))
def test_operations_of_the_language(name: str) -> None:
    changed = check(kernel(f"keep(out, {CALLS[name]})"))
    operands = set(re.findall(r"\b[xymd]\b", CALLS[name].partition("(")[2]))
    assert changed or name in DECIDES or not operands


@pytest.mark.parametrize("name", sorted(n for n in METHODS if hasattr(tl.tensor, n)))
def test_methods_of_tensors(name: str) -> None:
    assert check(kernel(f"keep(out, {METHODS[name]})")) or name.startswith("logical")


def operands_of(name: str) -> list[str] | None:
    """Operands of a vendor function that depend on the inputs; None where no module has it."""
    for module in modules():
        for types in sorted(forms(module, name), key=str):
            found = [_OPERANDS.get(str(ty), "").format("xyxy"[i]) for i, ty in enumerate(types)]
            if name in ("jn", "yn"):  # the one order with a documented error
                found[0] = "(x * 0).to(tl.int32) + 128"
            if "2" in name:  # beyond the integers that all numbers of x become
                found = ["97 * " + operand for operand in found]
            if all(found):
                return found
    return None


NAMES = sorted({*LIBRARY, *CONVERSIONS, *INTEGERS})
CHUNKS = [NAMES[i : i + 8] for i in range(0, len(NAMES), 8)]
SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3e38, -3e38, 1e-44, 700.0, -700.0, 0.5, 88.0, 1.5, -3.0, 7.0])


def together(names: list[str]) -> tuple[Any, dict[str, int]]:
    """A kernel that calls each of these functions on a line of its own, and that line."""
    lines, statements = {}, []
    for name in names:
        operands = operands_of(name)
        assert operands is not None
        given = [f"a{i}" for i in range(len(operands))]
        statements += [f"{a} = {operand}" for a, operand in zip(given, operands, strict=True)]
        lines[name] = len(statements)
        statements.append(f"r_{name} = libdevice.{name}({', '.join(given)})")
    statements.append(f"keep(out, ({', '.join(f'r_{name}' for name in names)},))")
    first = (HEADER + BODY).splitlines().index("    {}") + 2  # one line more: the import
    return kernel(*statements), {name: first + line for name, line in lines.items()}


@pytest.mark.parametrize("names", CHUNKS, ids=lambda names: names[0])
def test_functions_of_the_vendor_library(names: list[str]) -> None:
    made, lines = together(names)
    assert check(made), "a test of functions that never change tests nothing"
    widths, seen, tensors = Widths(), Appearances(), inputs()
    run(made, tensors, widths, interval=True)
    wide = {w.line for w in widths.table()}
    tensors["xs"], tensors["ys"] = SPECIAL, SPECIAL.roll(3)
    run(made, tensors, seen)
    places = {(o.line, o.op) for o in seen.found.values()}
    for row, name in enumerate(names):
        if name in LIBRARY and name != "abs":
            assert lines[name] in wide, f"no width for libdevice.{name}"
        if not tensors["out"][row].isfinite().all():
            assert (lines[name], f"libdevice.{name}") in places, f"no place for what libdevice.{name} makes"


@pytest.mark.parametrize("told", ["Ordering._told", "Mapping._moved"])
def test_an_operation_that_is_not_told_is_noticed(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, method = told.split(".")
    owner: Any = {"Ordering": Ordering, "Mapping": Mapping}[place]
    silent = (lambda *_: None) if place == "Ordering" else (lambda self, op, h, move: h.map(move, ()))
    monkeypatch.setattr(owner, method, silent)
    with pytest.raises(AssertionError, match="no event"):
        sources(kernel(f"keep(out, {CALLS['sort' if place == 'Ordering' else 'map_elementwise']})"))


DECIDED = [
    "tl.where(x > 0.5, 1.0, 0.0)",
    "tl.gather(y, (x * 15).to(tl.int32), 0)",
    "tl.load(p, mask=x > 0.5, other=1.0)",
]


@pytest.mark.parametrize("expression", DECIDED)
def test_what_decides_is_named_where_it_is_asked_for(expression: str) -> None:
    made = kernel(f"keep(out, {expression})")
    named = [{place.tensor for found in sources(made, how).values() for place in found} for how in (False, True)]
    assert "xs" not in named[0] and "xs" in named[1]


def test_a_scaled_dot_reads_numbers_and_their_scales() -> None:
    """A row of the left operand (two numbers in a byte), a column of the right one, and the scales of both."""
    generator = torch.Generator().manual_seed(4)
    a, b, sa, sb = (torch.randint(120, 132, shape, generator=generator).to(torch.uint8)
                    for shape in ((16, 32), (32, 16), (16, 2), (16, 2)))  # fmt: skip
    out = torch.empty(16, 16)
    recorder = Programs({0: 0})
    with Session("sm_80", interval=False, builder=listened(recorder)):
        scaled_kernel[(1,)](a, sa, b, sb, out, "e2m1", "e2m1", 16, 16, 32, 32, 2, True)
    walk = Dependence(recorder.of(0))
    reached = walk.behind(out.data_ptr() + (3 * 16 + 5) * 4)
    assert reached is not None and walk.complete
    read = {int(i) for r in reached for i in r.outside}

    def places(t: torch.Tensor, *index: Any) -> set[int]:
        return {
            t.data_ptr() + int(i) * t.element_size() for i in torch.arange(t.numel()).view(t.shape)[index].flatten()
        }

    assert read == places(a, 3) | places(sa, 3) | places(b, slice(None), 5) | places(sb, 5)


def test_a_bin_counts_numbers_at_every_place() -> None:
    """As many bins as numbers, so that a lane has a neighbour at its place; one number changes its bin's count."""
    made = kernel("keep(out, tl.histogram((y * 15).to(tl.int32), 16))")
    named = sources(made)
    for target, behind in named.items():
        assert {p.offset for p in behind if p.tensor == "ys"} == set(range(16)), target


def test_numbers_that_are_their_own_indices() -> None:
    """n[n[i]]: the number lies at the place that the first one names."""
    made = kernel("n = tl.maximum(15 - (x * 17).to(tl.int32), 0)", "keep(out, tl.gather(n, n, 0))")
    order = (15 - (inputs()["xs"] * 17).to(torch.int32)).clamp(min=0).tolist()
    for target, behind in sources(made).items():
        assert {p.offset for p in behind if p.tensor == "xs"} == {order[target.offset]}
