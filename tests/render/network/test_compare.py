"""Which module a comparison names: planted faults, and none in models that are right."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

import render
from render.result.errors import RenderError
from tests.render.network.wrapped import Auto, Plain

from .bugs import BUGS, cached
from .models import build, inputs

QUICK = {"eps of a norm", "float16 sums", "heads of the groups", "dropped residual", "momentum", "label smoothing"}


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in BUGS])
def test_a_planted_fault_is_named(name):
    bug = BUGS[name]
    wrong, right, given = bug.models()
    found = render.compare_models(wrong, right, *given)
    assert (found.label, found.first) == ("Type-II", bug.where), found.message
    assert found.exit_code == 1


SIDES = {
    "float32": (lambda m: m, lambda m: m),
    "bfloat16": (lambda m: copy.deepcopy(m).bfloat16(), lambda m: copy.deepcopy(m).bfloat16()),
    "bfloat16 beside float32": (lambda m: copy.deepcopy(m).bfloat16(), lambda m: m),
    "autocast": (Auto, Auto),
    "autocast beside float32": (Auto, Plain),
}
ATTENTION = {"decoder": ("sdpa", "plain", "masked", "einsum"), "vit": ("sdpa", "plain", "einsum"), "resnet": ("-",)}
MATRIX = [(k, a, s, b) for k, ways in ATTENTION.items() for a in ways for s in SIDES for b in (1, 8)]


def _case(kind, attention, sides, batch):
    quick = batch == 1 and attention in ("plain", "-") and sides in ("autocast beside float32", "float32")
    return pytest.param(kind, attention, sides, batch, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize(("kind", "attention", "sides", "batch"), [_case(*m) for m in MATRIX])
def test_nothing_leaves_in_models_that_are_right(kind, attention, sides, batch):
    one, other = build(kind, ATTENTION[kind][0]), build(kind, attention)
    other.load_state_dict(one.state_dict())
    mine, theirs = SIDES[sides][0](other), SIDES[sides][1](one)
    x = inputs(kind, batch)
    dtype = next(mine.parameters()).dtype
    if x.is_floating_point() and dtype == torch.bfloat16 and sides == "bfloat16":
        x = x.bfloat16()
    if x.is_floating_point() and sides == "bfloat16 beside float32":
        pytest.skip("the two take other inputs")
    found = render.compare_models(mine, theirs, x)
    assert (found.label, found.first) == ("Type-I", None), found.message
    for r in found.leaves:  # the bounds hold what the models themselves computed
        assert not r.target_out_target and not r.reference_out_reference, r.at


def test_a_cache_is_round_off_and_its_offset_is_not():
    model, x = build("decoder", "plain"), inputs("decoder")
    assert render.compare_models(cached(model, 5), model, x).label == "Type-I"
    assert render.compare_models(cached(model, 5, diagonal=1), model, x).first == "blocks.1.attn"


def test_equal_models_are_equal():
    model, x = build("vit"), inputs("vit")
    found = render.compare_models(model, copy.deepcopy(model), x)
    assert (found.label, found.code, found.first) == ("Type-I", "RND100", None)
    assert all(r.differing == 0 for r in found.leaves)


class Two(nn.Module):
    """Two products, as one module or as two, under any name."""

    def __init__(self, names: tuple[str, ...], weight: torch.Tensor) -> None:
        super().__init__()
        self.names = names
        for name, part in zip(names, weight.chunk(len(names)), strict=True):
            layer = nn.Linear(part.shape[1], part.shape[0], bias=False)
            layer.weight = nn.Parameter(part.clone())
            setattr(self, name, layer)
        self.last = nn.Linear(weight.shape[0], 3)
        nn.init.constant_(self.last.weight, 0.1), nn.init.zeros_(self.last.bias)

    def forward(self, x):
        return self.last(torch.cat([getattr(self, n)(x) for n in self.names], -1))


def test_another_fusion_grows_the_region():
    torch.manual_seed(0)
    w, x = torch.randn(12, 7), torch.randn(5, 7)
    assert render.compare_models(Two(("qk",), w), Two(("q", "k"), w), x).label == "Type-I"
    swapped = torch.cat([w[6:], w[:6]])
    found = render.compare_models(Two(("qk",), w), Two(("q", "k"), swapped), x)
    assert (found.label, found.first) == ("Type-II", "")  # made between the input and `last`, by the model itself


def test_other_names_match_by_order_or_by_the_users_map():
    torch.manual_seed(0)
    w, x = torch.randn(12, 7), torch.randn(5, 7)
    wrong = Two(("a", "b"), w + torch.cat([torch.zeros(6, 7), torch.full((6, 7), 0.01)]))
    assert render.compare_models(wrong, Two(("q", "k"), w), x).first == "b"
    assert render.compare_models(wrong, Two(("q", "k"), w), x, match={"a": "q", "b": "k"}).first == "b"
    with pytest.raises(RenderError, match="no module 'z'"):
        render.compare_models(wrong, Two(("q", "k"), w), x, match={"z": "q"})


def test_start_and_end_choose_what_is_judged():
    wrong, right, given = BUGS["dropped residual"].models()
    assert render.compare_models(wrong, right, *given, start="blocks.1").label == "Type-I"
    assert render.compare_models(wrong, right, *given, end="blocks.0.act").first is None
    assert render.compare_models(wrong, right, *given, end="blocks.0").first == "blocks.0"
    with pytest.raises(RenderError, match="no module 'nothing'"):
        render.compare_models(wrong, right, *given, start="nothing")


class Twice(nn.Module):
    """One module called several times; a fault between the calls is the container's."""

    def __init__(self, shift: float = 0.0) -> None:
        super().__init__()
        self.layer, self.shift = nn.Linear(6, 6), shift

    def forward(self, x):
        for _ in range(3):
            x = torch.tanh(self.layer(x)) + x
            x = x + self.shift
        return x


def test_a_module_that_is_called_several_times():
    torch.manual_seed(0)
    right = Twice()
    wrong = copy.deepcopy(right)
    wrong.shift = 1e-3
    x = torch.randn(4, 6)
    assert render.compare_models(wrong, right, x).first == ""
    wrong = copy.deepcopy(right)
    with torch.no_grad():
        wrong.layer.weight[0, 0] += 1e-3
    assert render.compare_models(wrong, right, x).first == "layer"


def test_nothing_is_left_behind():
    model, x = build("resnet").train(), inputs("resnet")
    other = copy.deepcopy(model)
    other.stem[0].weight.data.mul_(1 + 2**-20)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state = torch.random.get_rng_state()
    render.compare_models(other, model, x)
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in before.items())
    assert torch.equal(state, torch.random.get_rng_state())
    assert not any(m._forward_hooks or m._forward_pre_hooks or "forward" in vars(m) for m in model.modules())


def test_shapes_that_differ_are_a_bug():
    found = render.compare_models(nn.Linear(3, 4), nn.Linear(3, 5), torch.randn(2, 3))
    assert (found.label, found.code) == ("Type-II", "RND205")


def test_functions_are_models_too():
    x = torch.randn(50)
    assert render.compare_models(lambda x: torch.expm1(x), lambda x: torch.expm1(x), x).code == "RND100"
    found = render.compare_models(lambda x: torch.exp(x) - 1, torch.expm1, 1e-4 * x)
    assert (found.label, found.code, found.first) == ("Type-II", "RND206", "")


def test_what_cannot_be_called_is_refused():
    with pytest.raises(RenderError, match="neither a module nor a function"):
        render.compare_models(3, 4)


def test_an_operation_without_a_rule_is_named_or_taken_as_exact():
    x = torch.rand(20) + 0.1
    slightly = lambda x: torch.digamma(x.double()).float()  # noqa: E731
    found = render.compare_models(torch.digamma, slightly, x)
    assert any("digamma" in t for r in found.leaves for t in r.taints) and found.leaves[0].kind == "first-order"
    taken = render.compare_models(torch.digamma, slightly, x, assume_exact=("digamma",))
    assert not any(r.taints for r in taken.leaves) and "digamma" in taken.assumptions[0]


def _in_place(model, backend):
    model = copy.deepcopy(model)
    model.compile(backend=backend)
    return model


WAYS = {
    "a module": lambda model, backend: torch.compile(model, backend=backend),
    "in place": _in_place,
    "a function": lambda model, backend: torch.compile(lambda x: model(x), backend=backend),
    "a decorated one": lambda model, backend: torch.compile(backend=backend)(lambda x: model(x)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scale", [1.0, 1.001])
def test_what_a_compiler_makes_of_a_model_is_judged(scale, way):
    """A backend of our own, the user's and no other: the graph as it is, or its results scaled."""
    torch._dynamo.reset()

    def backend(graph, examples):
        return lambda *given: [scale * x if isinstance(x, torch.Tensor) else x for x in graph(*given)]

    model, x = nn.Linear(8, 8), torch.randn(5, 8)
    found = render.compare_models(WAYS[way](model, backend), model, x)
    assert found.label == ("Type-I" if scale == 1.0 else "Type-II"), found.message


@pytest.mark.slow
def test_a_compiled_model_is_judged_with_its_own_activations():
    torch._dynamo.reset()
    model, x = build("vit"), inputs("vit")
    found = render.compare_models(torch.compile(model), model, x)
    assert (found.label, found.first, found.device) == ("Type-I", None, "inductor-cpu"), found.message
    assert any(r.differing for r in found.leaves)


class _Unrecorded(nn.Module):
    """A model that serves: decorated with inference mode, its weights shared by a table that it expands."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.table, self.one, self.two = nn.Parameter(torch.ones(1, 3, 8)), nn.Linear(8, 8), nn.Linear(8, 4)
        self.scale = scale

    def forward(self, x):
        with torch.inference_mode():
            h = self.one(self.table.expand(len(x), -1, -1) * x[:, None]).to(torch.bfloat16).float()
            return self.two(h.reshape(len(x), 3, 8) * self.scale)


@pytest.mark.parametrize(("scale", "first"), [(0.5, None), (0.51, "")])
def test_models_in_inference_mode(scale, first):
    torch.manual_seed(2)
    reference = _Unrecorded(0.5).eval()
    target = _Unrecorded(scale).eval()
    target.load_state_dict(reference.state_dict())
    found = render.compare_models(target.to(torch.float32), reference, torch.randn(5, 8))
    assert found.first == first


def test_expanded_operands_of_a_module():
    torch.manual_seed(2)

    class Latents(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.mix, self.latents = nn.LayerNorm(8), nn.Bilinear(8, 8, 4), nn.Parameter(torch.randn(3, 8))

        def forward(self, x):
            return self.mix(self.norm(self.latents)[None].expand(len(x), -1, -1), x[:, None].expand(-1, 3, -1))

    reference = Latents().eval()
    with torch.no_grad():
        target = Latents().eval()
        target.load_state_dict(reference.state_dict())
    found = render.compare_models(target.to(torch.bfloat16), _Widened(reference), torch.randn(5, 8).bfloat16())
    assert (found.label, found.first) == ("Type-I", None)


class _Widened(nn.Module):
    def __init__(self, inner) -> None:
        super().__init__()
        self.norm, self.mix, self.forward_of = inner.norm, inner.mix, inner.forward

    def forward(self, x):
        return self.forward_of(x.float())


class Times(nn.Module):
    """Sines of whole numbers times frequencies, which nobody handed in: a table that each side rounds."""

    def __init__(self, base: float, powers: bool) -> None:
        super().__init__()
        self.base, self.powers, self.out = base, powers, nn.Linear(8, 4)

    def forward(self, t):
        steps = torch.arange(4) / 4
        rates = self.base**-steps if self.powers else torch.exp(-math.log(self.base) * steps)
        angles = t[:, None].float() * rates
        return self.out(torch.cat([angles.sin(), angles.cos()], -1))


@pytest.mark.parametrize("powers", [False, True])
def test_a_table_of_whole_numbers_is_rounded_like_an_input(powers):
    model, other, t = Times(1e4, powers), Times(1e4, not powers), torch.tensor([3, 250, 999])
    other.load_state_dict(model.state_dict())
    found = render.compare_models(model, other, t)
    assert (found.label, found.first) == ("Type-I", None), found.message
    wrong = Times(1.01e4, powers)
    wrong.load_state_dict(model.state_dict())
    found = render.compare_models(wrong, other, t)
    assert (found.label, found.first) == ("Type-II", ""), found.message


class Sampled(nn.Module):
    def __init__(self, scale: float = 0.5) -> None:
        super().__init__()
        self.mean, self.spread, self.out, self.scale = nn.Linear(12, 6), nn.Linear(12, 6), nn.Linear(6, 12), scale

    def forward(self, x):
        mean = self.mean(x)
        return self.out(mean + torch.randn_like(mean) * torch.exp(self.scale * self.spread(x)))


def test_random_numbers_in_another_type_are_rounded_constants():
    torch.manual_seed(0)
    model, x = Sampled().eval(), torch.randn(5, 12)
    found = render.compare_models(Auto(model), Plain(model), x)
    assert (found.label, found.first) == ("Type-I", None), found.message
    wrong = Sampled(1.0).eval()
    wrong.load_state_dict(model.state_dict())
    found = render.compare_models(Auto(wrong), Plain(model), x)
    assert found.label == "Type-II", found.message


class _Thrice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        y = self.one(x)
        return self.two(y * 3.0 - x * 2.0)


@pytest.mark.parametrize("fault", [0.0, 0.25])
def test_a_fused_loop_keeps_narrow_numbers_in_float32(fault):
    """A compiler that rounds nothing in between, as loops of inductor do: its values lie inside the bounds."""
    torch._dynamo.reset()

    def backend(graph, examples):
        def run(*given):
            found = graph.float()(*(x.float() if isinstance(x, torch.Tensor) else x for x in given))
            return [(y + fault * (i == 1)).bfloat16() for i, y in enumerate(found)]

        return run

    torch.manual_seed(0)
    model, x = _Thrice().bfloat16(), torch.randn(64, 8).bfloat16()
    found = render.compare_models(torch.compile(model, backend=backend), model, x)
    if fault:
        assert found.label == "Type-II", found.message
    else:
        assert (found.label, found.first) == ("Type-I", None), found.message
        assert any(r.differing for r in found.leaves) and not any(r.target_out_target for r in found.leaves)


class Beside(nn.Module):
    """x, by way of a larger number that takes digits away."""

    def __init__(self, size: float) -> None:
        super().__init__()
        self.size = size

    def forward(self, x):
        return (x + self.size) - self.size


@pytest.mark.parametrize(("sizes", "answer"), [
    ((300.0, 100.0), ("Type-I", "RND106")),
    ((100.0, 300.0), ("Type-I", "RND106")),
    ((1e5, 100.0), ("Type-II", "RND206")),
    ((100.0, 1e5), ("Type-I", "RND110")),
    ((100.0, 0.0), ("Type-II", "RND206")),
])  # fmt: skip
def test_sides_that_lose_alike_are_not_unstable_beside_each_other(sizes, answer):
    """Which elements exceed the limit is chance where both sides do; the one that loses far more is named still."""
    torch.manual_seed(0)
    x = torch.randn(64)
    found = render.compare_models(*(Beside(s) for s in sizes), x)
    assert (found.label, found.code) == answer, found.message
    assert max(found.leaves[-1].eta_target, found.leaves[-1].eta_reference) > 8
