"""Inputs from specs, files and make_inputs(), and what a user is told when there are none."""

from __future__ import annotations

import copy
import dataclasses
import random
import types
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from render.entry.inputs import Inputs, from_mapping, gather, of_call, parse_specs
from render.entry.tensors import load
from render.result.errors import RenderError


def entry(a, b, n=4, *, eps=1e-5):
    return a


def only(spec, seed=0):
    return next(iter(parse_specs([spec], seed).values()))


@pytest.mark.parametrize(
    ("spec", "shape", "dtype"),
    [
        ("a=randn(3,4):fp16", (3, 4), torch.float16),
        ("a=randn(3,4)", (3, 4), torch.float32),
        ("a=rand((2,5)):bf16", (2, 5), torch.bfloat16),
        ("a = uniform(-1, 1, 2, 3).T : fp64", (3, 2), torch.float64),
        ("a=randint(0,10,7):int32", (7,), torch.int32),
        ("a=zeros(2):fp8e5", (2,), torch.float8_e5m2),
        ("a=full(0.5,2,2)", (2, 2), torch.float32),
        ("a=arange(4):int64", (4,), torch.int64),
        ("a=ones(0,3)", (0, 3), torch.float32),
        ("a=randn(2,scale=10.0)", (2,), torch.float32),
        ("a=randn()", (), torch.float32),
    ],
)
def test_generators(spec, shape, dtype):
    x = only(spec)
    assert x.shape == shape
    assert x.dtype == dtype


@pytest.mark.parametrize(
    ("spec", "value"), [("n=512", 512), ("eps=1e-5", 1e-5), ("causal=True", True), ("act='relu'", "relu"),
                        ("act=''", ""), ("none=None", None), ("shape=(2,3)", (2, 3)), ("x=-1.5", -1.5)]
)  # fmt: skip
def test_scalars(spec, value):
    assert only(spec) == value


def test_transposed_inputs_keep_their_strides():
    assert only("a=randn(3,4).T").stride() == (1, 4)


def test_numbers_are_seeded_and_made_in_their_own_format():
    both = parse_specs(["a=randn(8):fp16", "b=randn(8):fp16"], 3)
    again = parse_specs(["a=randn(8):fp16", "b=randn(8):fp16"], 3)
    assert torch.equal(both["a"], again["a"])
    assert not torch.equal(both["a"], both["b"])
    assert not torch.equal(both["a"], only("a=randn(8):fp16", 4))


@pytest.mark.parametrize(
    "spec",
    ["randn(3)", "a=randm(3)", "a=randn(3):fp61", "a=randn(-3)", "a=randn(", "a=open('x')", "=randn(3)", "a=randn(x)",
     "2a=randn(3)", "a=[i for i in (1,)]", "a=__import__('os')"],
)  # fmt: skip
def test_bad_specs_are_named(spec):
    with pytest.raises(RenderError, match="cannot read --input") as error:
        parse_specs([spec])
    assert error.value.code == "RND901"
    assert error.value.hint


def test_the_same_name_twice():
    with pytest.raises(RenderError, match="given before"):
        parse_specs(["a=1", "a=2"])


def test_without_inputs_the_error_is_a_make_inputs_to_paste():
    with pytest.raises(RenderError) as error:
        gather(entry)
    assert error.value.code == "RND901"
    code = error.value.hint.split("\n\n", 1)[1]
    scope: dict = {}
    exec(code, scope)
    assert set(scope["make_inputs"]()) == {"a", "b"}
    assert entry(**scope["make_inputs"]()).shape == (64, 64)


def test_the_first_source_wins(tmp_path):
    module = types.SimpleNamespace(make_inputs=lambda: (torch.zeros(1), torch.zeros(1)))
    torch.save({"a": torch.ones(2), "b": torch.ones(2)}, tmp_path / "x.pt")
    assert gather(entry, module, tmp_path / "x.pt", ["a=1", "b=2"]).values["a"].tolist() == [1, 1]
    assert gather(entry, module, None, ["a=1", "b=2"]).values == {"a": 1, "b": 2}
    assert gather(entry, module).values["a"].tolist() == [0]


def test_make_inputs_is_seeded():
    module = types.SimpleNamespace(make_inputs=lambda: {"a": torch.randn(3), "b": torch.tensor(np.random.rand())})  # noqa: NPY002
    one, two = gather(entry, module, seed=5).values, gather(entry, module, seed=5).values
    assert torch.equal(one["a"], two["a"])
    assert one["b"] == two["b"]


def test_positions_and_keywords():
    x = torch.zeros(2)
    given = from_mapping(entry, {"b": x, "a": x, "eps": 1.0})
    assert (given.names, list(given.kwargs)) == (("a", "b"), ["eps"])
    assert from_mapping(entry, {"a": x, "b": x, "n": 3}).names == ("a", "b", "n")
    assert of_call(entry, (x, x), {"n": 3}).values.keys() == {"a", "b", "n"}
    assert list(of_call(lambda *xs: 0, (x, x), {}).values) == ["arg0", "arg1"]


@pytest.mark.parametrize("given", [{"a": 1}, {"a": 1, "b": 2, "c": 3}, (1,), (1, 2, 3, 4, 5)])
def test_inputs_that_do_not_fit_the_signature(given):
    with pytest.raises(RenderError) as error:
        from_mapping(entry, given)
    assert error.value.code == "RND901"
    assert "a, b, n=4" in str(error.value)


def test_copies_keep_aliases_strides_and_gradients():
    base = torch.randn(4, 6)
    view = base.t()[1:3]
    leaf = torch.randn(2, requires_grad=True)
    given = Inputs((base, view, [leaf]), {}, ("base", "view", "list"))
    copy, wide = given.clone(), given.upcast()
    for other in (copy, wide):
        assert other.args[1].stride() == view.stride()
        assert other.args[2][0].requires_grad
        other.args[0].zero_()
        assert not other.args[1].any()
    assert base.any()
    assert wide.args[0].dtype == torch.float64
    assert copy.args[0].dtype == torch.float32


def test_widening_is_exact_and_leaves_integers_alone():
    given = Inputs((torch.tensor([0.1]).half(), torch.tensor([1])), {}, ("a", "b")).upcast()
    assert given.args[0].item() == float(np.float16(0.1))
    assert given.args[1].dtype == torch.int64


def test_modules_are_copied():
    linear = torch.nn.Linear(2, 2)
    wide = Inputs((linear,), {}, ("m",)).upcast().args[0]
    assert wide.weight.dtype == torch.float64
    assert linear.weight.dtype == torch.float32


class Cache:
    """What a decoder keeps between steps."""

    def __init__(self, part=True):
        self.rows, self.count, self.part = torch.zeros(3), 0, Cache(False) if part else None


@dataclasses.dataclass(frozen=True)
class Batch:
    x: torch.Tensor
    rate: float = 0.5


CHANGED = {
    "object": (Cache, lambda c: c.rows.add_(1), lambda c: c.rows),
    "attribute": (Cache, lambda c: setattr(c, "rows", c.rows + 1), lambda c: c.rows),
    "count": (Cache, lambda c: setattr(c, "count", 7), lambda c: torch.tensor(c.count)),
    "inside": (Cache, lambda c: c.part.rows.add_(1), lambda c: c.part.rows),
    "in a list": (lambda: [Cache()], lambda c: c[0].rows.add_(1), lambda c: c[0].rows),
    "frozen": (lambda: Batch(torch.zeros(2)), lambda b: b.x.add_(1), lambda b: b.x),
    "array": (lambda: np.zeros(2), lambda a: np.add(a, 1, out=a), torch.from_numpy),
    "sparse": (lambda: torch.eye(2).to_sparse(), lambda x: x.mul_(2), torch.Tensor.to_dense),
    "generator": (lambda: torch.Generator().manual_seed(3), lambda g: torch.rand(1, generator=g),
                  lambda g: torch.rand(2, generator=g.clone_state())),
    "numpy's generator": (lambda: np.random.default_rng(3), lambda g: g.random(),
                          lambda g: torch.tensor(copy.deepcopy(g).random())),
    "Python's generator": (lambda: random.Random(3), lambda g: g.random(),
                           lambda g: torch.tensor(copy.deepcopy(g).random())),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_what_a_call_may_change_is_copied(name):
    make, change, look = CHANGED[name]
    given = Inputs((make(),), {}, ("x",))
    before = look(given.args[0]).clone()
    change(given.clone().args[0])
    change(given.upcast().args[0])
    assert torch.equal(look(given.args[0]), before)
    other = given.clone().args[0]
    change(other)
    assert not torch.equal(look(other), before)


class Trainer:
    def __init__(self, model, optimiser):
        self.model, self.optimiser = model, optimiser


def trained(kind):
    model = torch.nn.Linear(3, 1, bias=False)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    weight = model.weight
    return {
        "object": (Trainer(model, optimiser),),
        "model first": (model, optimiser), "optimiser first": (optimiser, model),
        "leaf first": (weight, optimiser), "leaf last": (optimiser, weight), "a part of it": (model, weight, optimiser),
    }[kind]  # fmt: skip


@pytest.mark.parametrize("widened", [False, True])
@pytest.mark.parametrize(
    "kind", ["object", "model first", "optimiser first", "leaf first", "leaf last", "a part of it"]
)
def test_an_optimiser_goes_on_with_what_was_copied_beside_it(kind, widened):
    given = Inputs(trained(kind), {}, tuple("abc"))
    copied = (given.upcast() if widened else given.clone()).args
    parts = [p for x in copied for p in (vars(x).values() if isinstance(x, Trainer) else (x,))]
    optimiser = next(p for p in parts if isinstance(p, torch.optim.Optimizer))
    weights = [p.weight if isinstance(p, torch.nn.Module) else p for p in parts if p is not optimiser]
    own = optimiser.param_groups[0]["params"][0]
    assert all(w is own for w in weights) and own.dtype == (torch.float64 if widened else torch.float32)
    before = own.detach().clone()
    own.sum().backward()
    optimiser.step()
    assert torch.equal(own.detach(), before - 0.5)
    first = given.args[0].model if kind == "object" else given.args[0]
    held = next(iter(first.parameters())) if isinstance(first, torch.nn.Module) else first
    held = held.param_groups[0]["params"][0] if isinstance(held, torch.optim.Optimizer) else held
    assert torch.equal(held.detach().to(before.dtype), before)


def test_what_is_shared_stays_shared_and_other_objects_are_handed_on():
    one, plain = Cache(), SimpleNamespace(rate=0.5)
    copied = Inputs((one, one.rows, [one], plain), {}, ("a", "b", "c", "d")).clone().args
    assert copied[0] is copied[2][0] is not one and copied[3] is plain
    assert copied[0].rows.data_ptr() == copied[1].data_ptr() != one.rows.data_ptr()
    assert Inputs((Batch(torch.ones(2)),), {}, ("x",)).upcast().args[0].x.dtype == torch.float64


@pytest.mark.parametrize("suffix", [".safetensors", ".npz", ".pt"])
def test_files_by_name(tmp_path, suffix):
    tensors = {"a": torch.randn(2, 3), "b": torch.arange(3)}
    path = tmp_path / f"x{suffix}"
    if suffix == ".pt":
        torch.save(tensors, path)
    elif suffix == ".npz":
        np.savez(path, **{k: v.numpy() for k, v in tensors.items()})
    else:
        from safetensors.torch import save_file

        save_file(tensors, path)
    found = load(path)
    assert all(torch.equal(found[k], v) for k, v in tensors.items())
    assert from_mapping(entry, found).names == ("a", "b")


def test_unnamed_arrays_go_by_position(tmp_path):
    np.savez(tmp_path / "x.npz", np.zeros(2), np.ones(3))
    assert from_mapping(entry, load(tmp_path / "x.npz")).values["b"].shape == (3,)
    torch.save([torch.zeros(2), torch.ones(3)], tmp_path / "x.pt")
    assert from_mapping(entry, load(tmp_path / "x.pt")).values["b"].shape == (3,)
    np.save(tmp_path / "x.npy", np.zeros(2))
    assert load(tmp_path / "x.npy").shape == (2,)


class Evil:
    def __reduce__(self):
        return (print, ("ran",))


def test_files_never_run_code(tmp_path, capsys):
    torch.save({"a": Evil()}, tmp_path / "x.pt")
    np.savez(tmp_path / "x.npz", a=np.array([Evil()], dtype=object))
    for name in ("x.pt", "x.npz"):
        with pytest.raises(RenderError, match="cannot be read"):
            load(tmp_path / name)
    assert "ran" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["no.pt", "x.csv", "broken.pt", "broken.npz", "broken.safetensors"])
def test_unreadable_files(tmp_path, name):
    if name != "no.pt":
        (tmp_path / name).write_bytes(b"nonsense")
    with pytest.raises(RenderError) as error:
        load(tmp_path / name)
    assert error.value.code == "RND901"
    assert name in error.value.message
    assert error.value.hint
