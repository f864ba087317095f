"""Host code between launches: what carries bounds, what makes elements exact, and what must be tainted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from memory_driver import Driver
from support import rng, trials

from render.interpreter.host import HostTracker
from render.interpreter.memory import Memory


class World:
    """A memory with a tracker, and tensors that a kernel wrote with known bounds."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.tracker = HostTracker(self.memory)

    def result(self, v: np.ndarray, radius: float | np.ndarray, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        out = torch.zeros(v.shape, dtype=dtype)
        v = torch.from_numpy(v).to(dtype).double().numpy()
        with Driver(memory=self.memory) as d:
            index = np.arange(v.size).reshape(1, *v.shape)
            d.store(out, index, v[None], np.broadcast_to(radius, v.shape)[None])
        return out

    def ends(self, t: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        env = self.memory.envelope(t)
        assert env is not None and not env.taints
        return env.lo, env.hi

    def codes(self, t: torch.Tensor) -> list[str]:
        env = self.memory.envelope(t)
        assert env is not None
        return [self.memory.taints.get(i).code for i in env.taints]


@pytest.fixture
def world() -> World:
    return World()


BASE = np.arange(12.0).reshape(3, 4)
MOVES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.t().contiguous(),
    "deepcopy": lambda x: torch.clone(x.detach()),
    "cat": lambda x: torch.cat([x, torch.ones(2, 4, dtype=x.dtype), x[:1]]),
    "stack": lambda x: torch.stack([x, x]),
    "index": lambda x: x[torch.tensor([2, 0, 2])],
    "mask": lambda x: x[torch.tensor([True, False, True])],
    "masked_select": lambda x: x.masked_select(torch.arange(12).reshape(3, 4) % 2 == 0),
    "index_select": lambda x: x.index_select(1, torch.tensor([3, 1])),
    "gather": lambda x: x.gather(1, torch.tensor([[0, 3], [1, 1], [2, 0]])),
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, 1),
    "repeat": lambda x: x.repeat(2, 1),
    "pad": lambda x: torch.nn.functional.pad(x, (1, 2), value=3.0),
    "where": lambda x: torch.where(torch.arange(12).reshape(3, 4) > 5, x, torch.zeros_like(x)),
    "masked_fill": lambda x: x.masked_fill(torch.eye(3, 4, dtype=torch.bool), 2.0),
    "tril": lambda x: x.tril(),
    "reshape": lambda x: x.t().reshape(2, 6),
    "slice": lambda x: x[1:, ::2].clone(),
    "select": lambda x: x[1],
    "expand": lambda x: x[0].expand(5, 4).clone(),
    "split": lambda x: torch.split(x, 2, dim=1)[1],
    "permute": lambda x: x.permute(1, 0).clone(),
    "chunk": lambda x: x.chunk(3)[2].clone(),
    "relu": lambda x: torch.relu(x),
    "clamp": lambda x: x.clamp(1, 7),
    "amax": lambda x: x.amax(1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", MOVES)
def test_movements_carry_bounds(world, name, dtype):
    """The oracle: the same movement of the two ends as plain float64 tensors."""
    x = world.result(BASE, 0.25, dtype)
    with world.tracker:
        y = MOVES[name](x)
    low, high = (MOVES[name](torch.from_numpy(BASE + s)).numpy() for s in (-0.25, 0.25))
    lo, hi = world.ends(y)
    np.testing.assert_array_equal(lo, low)
    np.testing.assert_array_equal(hi, high)


def test_parts_of_a_tensor_are_written_in_place(world):
    x = world.result(BASE, 0.25)
    y = torch.zeros(6, 4)
    with world.tracker:
        y[1:4].copy_(x)
        y[2, 1] = 9.0
        y[torch.tensor([5])] = x[:1]
        y[3].zero_()
    lo, hi = world.ends(y)
    expected = np.zeros((6, 4))
    expected[1:4] = BASE
    expected[2, 1] = 9
    expected[5] = BASE[0]
    expected[3] = 0
    width = np.where([[r in (1, 2, 5) and (r, c) != (2, 1) for c in range(4)] for r in range(6)], 0.25, 0)
    np.testing.assert_array_equal(lo, expected - width)
    np.testing.assert_array_equal(hi, expected + width)


def test_out_arguments_are_written(world):
    x, y = world.result(BASE, 0.25), torch.zeros(6, 4)
    with world.tracker:
        torch.cat([x, x], out=y)
    np.testing.assert_array_equal(world.ends(y)[1], np.concatenate([BASE, BASE]) + 0.25)


@pytest.mark.parametrize(
    ("src", "dst", "value", "ends"),
    [
        (torch.float32, torch.float16, 1.0, (0.75, 1.25)),
        (torch.float16, torch.float32, 1.0, (0.75, 1.25)),
        (torch.float32, torch.float64, 1.0, (0.75, 1.25)),
        (torch.float32, torch.float16, 65519.75, (65504.0, np.inf)),
        (torch.float32, torch.bfloat16, 1.0, (0.75, 1.25)),
        (torch.float64, torch.float16, 1.0, (0.75, 1.25)),
    ],
)
def test_casts(world, src, dst, value, ends):
    x = world.result(np.array([value]), 0.25, src)
    with world.tracker:
        y = x.to(dst)
        z = torch.zeros(1, dtype=dst).copy_(x)
    for t in (y, z):
        lo, hi = world.ends(t)
        assert (lo[0], hi[0]) == ends


@pytest.mark.parametrize("dst", [torch.float16, torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("seed", range(trials(3)))
def test_casts_hold_what_torch_makes_of_any_point(world, dst, seed):
    g = rng(seed)
    v = (g.standard_normal(200) * 2.0 ** g.integers(-10, 8, 200)).astype(np.float32)
    radius = np.abs(v) * 2.0**-6
    x = world.result(v, radius)
    with world.tracker:
        y = x.to(dst)
    lo, hi = world.ends(y)
    for _ in range(20):
        point = torch.from_numpy((v + radius * g.uniform(-1, 1, 200)).astype(np.float32))
        cast = point.to(dst).double().numpy()
        inside = (lo <= cast) & (cast <= hi) & (lo <= point.numpy()) & (point.numpy() <= hi)
        assert (inside | np.isnan(lo)).all()
    assert np.isfinite(lo).mean() > 0.9


def test_casts_to_integers_hold_what_both_ends_become(world):
    a, b = world.result(np.array([2.5]), 0.25), world.result(np.array([2.9]), 0.25)
    with world.tracker:
        whole, open_ = a.to(torch.int32), b.int()
        tiny = world.result(np.array([200.0]), 100.0).to(torch.int8)
    assert world.ends(whole) == ([2], [2]) and world.ends(open_) == ([2], [3])
    assert world.codes(tiny) == ["RND302"]


@pytest.mark.parametrize(
    ("middle", "ends"), [(2.9, (1, 1)), (0.4, (1, 1)), (0.1, (0, 1)), (0.0, (0, 1)), (-0.25, (0, 1)), (-0.5, (1, 1))]
)
def test_casts_to_truth_ask_for_zero_not_for_the_whole_part(world, middle, ends):
    x = world.result(np.array([middle]), 0.25)
    with world.tracker:
        whether = x.bool()
    lo, hi = world.ends(whether)
    assert (lo[0], hi[0]) == ends and not world.codes(whether)


INTEGERS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], list[float], list[float]]] = {
    "moved": (lambda n: n.flip(0).clone(), [7, 2], [7, 3]),
    "to float": (lambda n: n.float(), [2, 7], [3, 7]),
    "times a float": (lambda n: n * torch.tensor([2.0, 0.5]), [4, 3.5], [6, 3.5]),
    "into floats": (lambda n: torch.zeros(2).copy_(n), [2, 7], [3, 7]),
}


@pytest.mark.parametrize("case", INTEGERS.values(), ids=INTEGERS)
def test_open_integers_keep_their_ends(world, case):
    operation, low, high = case
    x = world.result(np.array([2.9, 7.5]), 0.25)
    with world.tracker:
        y = operation(x.int())
    lo, hi = world.ends(y)
    assert (lo.tolist(), hi.tolist()) == (low, high)


INDEXED = {
    "index": lambda x, n: x[n],
    "gather": lambda x, n: x.gather(0, n),
    "scatter": lambda x, n: torch.zeros(3).scatter(0, n, x),
    "index_select": lambda x, n: x.index_select(0, n),
}


@pytest.mark.parametrize("operation", INDEXED.values(), ids=INDEXED)
def test_a_kernel_s_exact_integers_index_its_bounded_floats(world, operation):
    x, n = world.result(np.array([2.0, 5.0, 7.0]), 0.25), world.result(np.array([2.0, 0.0, 1.0]), 0.0)
    with world.tracker:
        y = operation(x, n.long())
    lo, hi = world.ends(y)
    np.testing.assert_array_equal(lo, y.numpy() - 0.25)
    np.testing.assert_array_equal(hi, y.numpy() + 0.25)


@pytest.mark.parametrize(
    "operation",
    [lambda n: n % 3, lambda n: n.sum(), lambda n: torch.ones(2)[n > 2], lambda n: n.view(torch.int16)[::2],
     lambda n: torch.zeros(9).index_put((n,), torch.ones(2)), lambda n: n.byte() * 200],
)  # fmt: skip
def test_open_integers_have_no_other_rule(world, operation):
    x = world.result(np.array([2.9, 7.5]), 0.25)
    with world.tracker:
        n = x.int()
        y = operation(n)
    assert "RND302" in world.codes(y)


ARITHMETIC: dict[str, Callable[..., torch.Tensor]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / (y.abs() + 1),
    "scale": lambda x, y: x * 0.1,
    "shift": lambda x, y: x + 0.1,
    "reverse": lambda x, y: 3.0 - x,
    "broadcast": lambda x, y: x + y[0],
    "in place": lambda x, y: x.clone().add_(y).mul_(0.5),
    "negate": lambda x, y: -x,
    "absolute": lambda x, y: x.abs(),
    "sum": lambda x, y: x.sum(),
    "sum rows": lambda x, y: x.sum(1),
    "sum kept": lambda x, y: x.sum(dim=0, keepdim=True),
    "mean": lambda x, y: x.mean(-1),
    "mean all": lambda x, y: x.mean(),
    "reciprocal": lambda x, y: 1 / (x.abs() + 1),
    "maximum": lambda x, y: torch.maximum(x, y),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_holds_every_point(world, name, dtype):
    """Points of the operands' intervals, computed in float64 and in the dtype itself, lie inside."""
    g = rng(7)
    f = ARITHMETIC[name]
    v, w = g.standard_normal((2, 3, 8))
    x, y = world.result(v, 0.125, dtype), world.result(w, 0.0625, dtype)
    with world.tracker:
        out = f(x, y)
    lo, hi = world.ends(out)
    centre = f(x.double(), y.double()).numpy()
    for _ in range(100):
        a, b = (t.double() + r * torch.from_numpy(g.uniform(-1, 1, v.shape)) for t, r in ((x, 0.125), (y, 0.0625)))
        exact = f(a, b).numpy()
        assert (lo <= exact).all() and (exact <= hi).all()
        a, b = a.to(dtype), b.to(dtype)
        inside = ((a.double() - x.double()).abs() <= 0.125) & ((b.double() - y.double()).abs() <= 0.0625)
        a, b = torch.where(inside, a, x.clone()), torch.where(inside, b, y.clone())
        rounded = f(a, b).double().numpy()
        assert (lo <= rounded).all() and (rounded <= hi).all()
    assert (lo <= out.double().numpy()).all() and (out.double().numpy() <= hi).all()
    assert (hi - lo <= 24 * 0.25 + 0.1 * np.abs(centre)).all()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.linalg.inv(x[:2, :2] + torch.eye(2)), lambda x: torch.digamma(x + 1), torch.special.i1,
        lambda x: x.view(torch.int32) + 1, lambda x: torch.special.i0e(x), lambda x: x.unique(),
        lambda x: x.add_(torch.ones(4, dtype=torch.float64)) * torch.digamma(x + 1),
    ],
)  # fmt: skip
def test_operations_without_a_rule_taint(world, function):
    x = world.result(BASE, 0.25)
    with world.tracker:
        y = function(x)
    assert world.codes(y) == ["RND302"] or set(world.codes(y)) == {"RND302"}
    taint = world.memory.taints.get(next(iter(world.memory.envelope(y).taints)))
    assert "host operation aten::" in taint.message or "another type" in taint.message
    assert taint.file == ("<host>" if taint.op == "view" else __file__)


def test_taints_travel_on(world):
    x = world.result(BASE, 0.25)
    with world.tracker:
        y = torch.digamma(x)
        z = (y + 1).clone()[0]
        w = torch.zeros(4)
        w[1:3] = y[0, :2]
    assert world.codes(z) == ["RND302"] and world.codes(w) == ["RND302"]
    assert not world.memory.envelope(w[3:])


def test_a_tainted_host_result_taints_the_next_kernel(world):
    x = world.result(BASE, 0.25)
    with world.tracker:
        y = torch.digamma(x)
    with Driver(memory=world.memory) as d:
        got = d.load(y, np.arange(4)[None])
    assert len(got.taint) == 1


def test_exact_results_are_exact_until_an_operation_rounds(world):
    x = world.result(BASE, 0.0)
    with world.tracker:
        kept, y = torch.relu(x).sort()[0], torch.exp(x - 6)
    np.testing.assert_array_equal(*world.ends(kept))
    lo, hi = world.ends(y)
    exact = np.exp(BASE - 6)
    assert (lo <= exact).all() and (exact <= hi).all() and (hi - lo <= 1e-6 * exact).all()


def test_tensors_that_no_kernel_touched_have_no_envelope(world):
    world.result(BASE, 0.25)
    with world.tracker:
        y = torch.randn(5) * 2
        z = torch.empty(3).zero_()
    assert world.memory.envelope(y) is None and world.memory.envelope(z) is None


# memory that nothing wrote
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(6), lambda: torch.empty_like(torch.ones(6)), lambda: torch.ones(2).new_empty(6),
        lambda: torch.empty_strided((6,), (1,)), lambda: torch.empty((2, 3)).view(6), lambda: torch.empty(6).clone(),
    ],
)  # fmt: skip
def test_fresh_memory_is_unwritten(world, make):
    with world.tracker:
        x = make()
    with Driver(memory=world.memory) as d:
        d.load(x, np.arange(6)[None])
    (finding,) = world.memory.findings
    assert finding.code == "RND208" and finding.count == 6


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.zero_(), lambda x: x.fill_(3), lambda x: x.copy_(torch.ones(6)), lambda x: x.normal_(),
        lambda x: torch.add(torch.ones(6), 1, out=x), lambda x: x.uniform_(), lambda x: x.__setitem__(slice(None), 2.0),
        lambda x: torch.nn.init.ones_(x), lambda x: x.data.fill_(1), lambda x: x.numpy().fill(2.0),
    ],
)  # fmt: skip
def test_host_writes_count(world, write):
    with world.tracker:
        x = torch.empty(6)
        write(x)
    with Driver(memory=world.memory) as d:
        d.load(x, np.arange(6)[None])
    assert not world.memory.findings


def test_only_the_part_that_the_host_wrote_is_written(world):
    with world.tracker:
        x = torch.empty(4, 4)
        x[1:3, ::2] = 1.0
        y = x.clone()
    for t in (x, y):
        with Driver(memory=world.memory) as d:
            got = d.load(t, np.arange(16).reshape(1, 4, 4))
        expected = np.ones((4, 4), bool)
        expected[1:3, ::2] = False
        np.testing.assert_array_equal(np.isnan(got.lo[0]), expected)


def test_allocations_of_full_tensors_are_written(world):
    with world.tracker:
        tensors = [torch.zeros(4), torch.ones(4), torch.full((4,), 2.0), torch.randn(4), torch.arange(4.0)]
        tensors += [torch.zeros_like(tensors[0]), torch.eye(2), torch.tensor([1.0, 2, 3, 4]), torch.rand(2, 2)]
    with Driver(memory=world.memory) as d:
        for t in tensors:
            d.load(t, np.arange(4)[None])
    assert not world.memory.findings


def test_a_paused_tracker_sees_nothing(world):
    with world.tracker, world.tracker.paused():
        x = torch.empty(4)
    with Driver(memory=world.memory) as d:
        d.load(x, np.arange(4)[None])
    assert not world.memory.findings


def test_autograd_is_followed(world):
    x = world.result(BASE, 0.25)
    with world.tracker:
        w = torch.ones(3, 4, requires_grad=True)
        y = w * x
        y.sum().backward()
    np.testing.assert_array_equal(world.ends(w.grad)[0], BASE - 0.25)


def test_memory_is_let_go_when_nobody_holds_it(world):
    registry = world.memory.registry
    with world.tracker:
        for _ in range(40):
            torch.empty(4 << 20)
        kept = torch.empty(8)
        for _ in range(40):
            torch.empty(4 << 20)
    assert sum(s.nbytes for s in registry) <= 2 * (256 << 20) and world.memory.find(kept.data_ptr()) is not None


def test_an_empty_out_argument_keeps_its_contents(world):
    x = world.result(BASE, 0.25)
    with world.tracker:
        torch.empty(3, 4, out=x)
    np.testing.assert_array_equal(x.numpy(), BASE)


def test_numpy_writes_into_fresh_memory_count(world):
    with world.tracker:
        x = torch.empty(4)
        x.numpy()[:] = [1, 2, 3, 4]
    with Driver(memory=world.memory) as d:
        got = d.load(x, np.arange(4)[None])
    assert got.v[0].tolist() == [1, 2, 3, 4] and not world.memory.findings


VIEWS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: x,
    lambda x: x.t().reshape(4, 3).t() if x.is_contiguous() else x,
    lambda x: x.flatten()[:12].reshape(3, 4),
    lambda x: x[:, :1].expand(3, 4),
    lambda x: x[1:2],
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32], ids=str)
@pytest.mark.parametrize("kind", ["bounded", "tainted", "partly written", "overwritten", "into bounds", "into itself"])
def test_a_copy_takes_the_same_along_in_one_step_as_by_its_rule(kind, dtype):
    """The second world is not lazy: every copy there goes by the rule of casts."""
    for seed, view in enumerate(VIEWS * 2):
        seen = []
        for lazy in (True, False):
            world, r = World(), rng(seed)
            world.tracker.lazy = lazy
            real = torch.float32 if dtype == torch.int32 else dtype
            x, other = (world.result(r.normal(size=(3, 4)) * 8, r.random((3, 4)), real) for _ in range(2))
            with world.tracker:
                x, other = (t if dtype == real else t.to(dtype) for t in (x, other))
                out = torch.zeros(3, 8, dtype=dtype)
                if kind == "tainted":
                    world.memory.carry(x[1], None, None, frozenset([world.memory.taint("RND302", "x", SITE(), "x")]))
                if kind == "partly written":
                    out = torch.empty(3, 8, dtype=dtype)
                    y = torch.empty(3, 4, dtype=dtype)
                    y[0] = x[0]
                    x = y if seed % 2 else x
                if kind == "into bounds":
                    out[:, 2:6] = other
                if kind == "into itself":
                    out = torch.cat([x, x], 1)
                    x = out[:, 4:]
                out[:, 1::2] = view(x)
                if kind == "overwritten":
                    x.zero_()
                    out[0, 3] = 5
            seen.append((world.memory.envelope(out), out))
        (a, one), (b, two) = seen
        assert torch.equal(one, two) or kind == "partly written"
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            for name in ("lo", "hi", "written"):
                assert np.array_equal(getattr(a, name), getattr(b, name), equal_nan=name != "written"), (seed, name)
            assert len(a.taints) == len(b.taints)


class SITE(NamedTuple):
    file: str = "x.py"
    line: int = 1


def test_most_copies_take_one_step(world, monkeypatch):
    x = world.result(BASE, 0.25)
    taken = []
    copied = world.memory.copied
    monkeypatch.setattr(world.memory, "copied", lambda *tensors: (taken.append(1), copied(*tensors)))
    with world.tracker:
        out = torch.zeros_like(x)
        for j in range(4):
            out[:, j] = x[:, 3 - j]
        out[:, 0] = x[:, 0].half()
    assert len(taken) == 4
    lo, hi = world.ends(out[:, 1:])
    assert np.array_equal(lo, BASE[:, 2::-1] - 0.25) and np.array_equal(hi, BASE[:, 2::-1] + 0.25)
