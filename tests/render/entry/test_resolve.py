"""Finding a reference by its name and giving it the entry's inputs."""

from __future__ import annotations

import types

import pytest
import torch

from render.entry.resolve import plans, resolve, run
from render.reference.tf32 import reference_precision, to_tf32
from render.result.errors import RenderError

A, B, OUT = torch.ones(2, 3), torch.ones(3, 2), torch.zeros(2, 2)


def module():
    made = types.ModuleType("user")
    made.reference = lambda a, b: a @ b
    made.other = lambda a: a
    made.scope = types.SimpleNamespace(inner=lambda a: a)
    return made


@pytest.mark.parametrize(
    ("spec", "name"),
    [("torch.matmul", "torch.matmul"), ("torch.nn.functional.softmax", "torch.nn.functional.softmax"),
     ("math:sqrt", "math:sqrt"), ("other", "other"), ("scope.inner", "scope.inner"), ("os.path:join", "os.path:join")],
)  # fmt: skip
def test_specs(spec, name):
    found = resolve(spec, module())
    assert callable(found.fn)
    assert found.title == name


def test_defaults_callables_and_files(tmp_path):
    (tmp_path / "refs.py").write_text("def mine(a):\n    return a\n")
    assert resolve(None, module()).title == "reference"
    assert resolve(torch.matmul).title == "torch.matmul"
    assert resolve(lambda a: a).title.endswith("<lambda>")
    assert resolve(f"{tmp_path}/refs.py::mine").fn(3) == 3


@pytest.mark.parametrize(
    ("spec", "text"),
    [("torch.matmull", "did you mean matmul"), ("othr", "did you mean other"), ("nosuch.module", "no module named no"),
     ("math:sqroot", "math has no sqroot"), ("nosuch:f", "cannot import nosuch"), ("no.py::f", "does not exist"),
     ("torch.pi", "is not a function"), ("zzz", "no function of this name")],
)  # fmt: skip
def test_wrong_specs_say_what_is_near(spec, text):
    with pytest.raises(RenderError) as error:
        resolve(spec, module())
    assert error.value.code == "RND902"
    assert text in str(error.value)


def test_no_reference_at_all():
    for place, text in ((None, "ref=torch.matmul"), (types.ModuleType("m"), "--ref torch.matmul")):
        with pytest.raises(RenderError, match="no reference given") as error:
            resolve(None, place)
        assert text in error.value.hint


def call(fn, values, written=()):
    reference = resolve(fn)
    result, plan, _ = run(reference, plans(fn, list(values), values, set(written)), lambda: dict(values))
    return result, plan


def test_by_name_whatever_the_order():
    def reference(b, a):
        return a.shape, b.shape

    assert call(reference, {"a": A, "b": B, "n": 3})[0] == ((2, 3), (3, 2))


def test_by_position_where_names_differ():
    assert call(lambda x, y: x @ y, {"a": A, "b": B})[0].shape == (2, 2)
    assert call(lambda *xs: len(xs), {"a": A, "b": B})[0] == 2
    assert call(torch.nn.functional.layer_norm, {"x": A, "shape": (3,)})[0].shape == (2, 3)


def test_builtins_get_what_they_take():
    assert call(torch.matmul, {"a": A, "b": B})[0].shape == (2, 2)
    assert call(torch.matmul, {"a": A, "b": B, "c": OUT}, written=["c"])[0].shape == (2, 2)
    assert call(torch.matmul, {"a": A, "b": B, "activation": ""})[0].shape == (2, 2)
    assert call(torch.matmul, {"a": A, "b": B, "c": OUT, "n": 3}, written=["c"])[1].positional == ("a", "b")


def test_output_buffers_are_left_out():
    assert call(lambda x, y: x @ y, {"a": A, "b": B, "c": OUT}, written=["c"])[0].shape == (2, 2)


def test_a_reference_that_takes_something_else():
    with pytest.raises(RenderError, match="cannot take the inputs a") as error:
        call(lambda p, q, r: p, {"a": A})
    assert error.value.code == "RND902"


def test_a_reference_that_raises():
    def reference(a):
        raise ValueError("bad day")

    with pytest.raises(RenderError, match=r"raised ValueError at .*test_resolve\.py:\d+: bad day") as error:
        call(reference, {"a": A})
    assert "float32[2, 3]" in error.value.hint
    with pytest.raises(RenderError, match="raised RuntimeError"):
        call(torch.matmul, {"a": A, "b": A})


@pytest.mark.parametrize("name", ["tf32", "tf32-rna"])
def test_tf32_operands_have_ten_bits(name):
    x = torch.randn(2000, generator=torch.Generator().manual_seed(0)) * 100
    with reference_precision(name):
        got = x[None] @ torch.eye(2000)[:, :1]
    expected = to_tf32(x, name == "tf32-rna")[0]
    assert got.item() == expected.item()
    kept = to_tf32(x, name == "tf32-rna").double()
    step = 2.0 ** (torch.floor(torch.log2(x.double().abs())) - 10)
    assert torch.equal(torch.round(kept / step) * step, kept)
    limit = step / 2 if name == "tf32-rna" else step
    assert bool(((kept - x.double()).abs() <= limit).all())
    if name == "tf32":
        assert bool((kept.abs() <= x.double().abs()).all())


def test_tf32_leaves_the_rest_alone():
    special = torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0, -0.0])
    assert torch.equal(to_tf32(special, True).nan_to_num(7), special.nan_to_num(7))
    bias = torch.tensor([1.0 + 2.0**-20])
    with reference_precision("tf32"):
        assert torch.addmm(bias, torch.zeros(1, 1), torch.zeros(1, 1)).item() == bias.item()
        assert (bias + 0).item() == bias.item()
    with pytest.raises(RenderError, match="unknown reference precision"):
        reference_precision("fp4")
