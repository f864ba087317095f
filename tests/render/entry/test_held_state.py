"""Calls find the state that functions hold as it was: each kind of place that a call may change."""

import collections
import functools
import itertools
import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from render.entry.held_state import HeldState, drawn, once, seeded
from render.entry.inputs import of_call

COUNT = 0
FIRST_NEEDED = None
TABLE = torch.ones(3)


class Counter:
    made = 0

    def __init__(self):
        self.n = 0

    def __call__(self):
        self.n += 1
        Counter.made += 1
        return self.n, Counter.made


class Slotted:
    __slots__ = ("n",)

    def step(self):
        self.n = getattr(self, "n", 0) + 1
        return self.n


class Trainer:
    def __init__(self):
        self.model = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 1, 0.5)
        self.losses = []

    def step(self):
        loss = self.model(torch.arange(12.0).reshape(4, 3)).square().sum()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        self.losses.append(loss.detach())
        return torch.stack(self.losses), self.model[1].weight, self.model[0].running_mean, self.model[1].weight.grad


def of_closure():
    n = 0

    def step():
        nonlocal n
        n += 1
        return n

    return step


def of_global():
    def step():
        global COUNT
        COUNT += 1
        return COUNT

    return step


def of_tensor():
    t = torch.zeros(4)
    part = t[:2]

    def step():
        part.add_(1)
        t.mul_(3)
        return t, part

    return step


def of_other_memory():
    t = torch.zeros(2)

    def step():
        t.data = torch.cat([t.data, t.data + 1])
        return t

    return step


def of_storage():
    t = torch.zeros(2)

    def step():
        t.resize_(t.numel() + 2).add_(1)[2:] = 0
        return t

    return step


def of_containers():
    held = SimpleNamespace(a=[0], d=collections.OrderedDict(x=1), q=collections.deque([1], 2), s={1}, b=bytearray(b"x"))

    def step():
        held.a.append(len(held.a))
        held.d[len(held.d)] = held.d.pop("x", 0)
        held.q.append(len(held.q) + held.q[-1])
        held.s.add(len(held.s) + 5)
        held.b += b"y"
        held.new = getattr(held, "new", 0) + 1
        return str(held)

    return step


def of_default():
    def step(seen=[], *, named={}):  # noqa: B006 - it is the point
        seen.append(1)
        named[len(named)] = 0
        return len(seen), len(named)

    return step


def of_attribute():
    def step():
        step.n = getattr(step, "n", 0) + 1
        return step.n

    return functools.wraps(step)(lambda: step())


def of_generators():
    gens = torch.Generator().manual_seed(3), np.random.default_rng(3), np.random.RandomState(3), random.Random(3)

    def step():
        t, n, s, p = gens
        return torch.rand(2, generator=t), n.random(), s.rand(), p.random()

    return step


def of_array():
    a = np.zeros((2, 3))

    def step():
        a[::-1] += 1.5
        return torch.from_numpy(a)

    return step


def of_iterators():
    count, turn, batches = itertools.count(), itertools.cycle("ab"), iter([torch.ones(2), torch.zeros(2)])
    both = zip(count, turn, strict=False)

    def step():
        return next(count), next(both), next(batches)

    return step


def of_cache():
    @functools.lru_cache
    def table(n):
        return [n]

    def step():
        table(3).append(1)
        return len(table(3))

    return step


def of_partial():
    return functools.partial(lambda state: state.append(1) or len(state), [])


KINDS = {
    "closure": of_closure, "global": of_global, "tensor": of_tensor, "memory": of_other_memory, "storage": of_storage,
    "containers": of_containers, "default": of_default, "attribute": of_attribute, "generators": of_generators,
    "array": of_array, "iterators": of_iterators, "cache": of_cache, "partial": of_partial, "object": Counter,
    "slots": lambda: Slotted().step, "training": lambda: Trainer().step,
}  # fmt: skip


def told(x):
    return [told(y) for y in x] if isinstance(x, tuple) else x.tolist() if isinstance(x, torch.Tensor) else x


@pytest.mark.parametrize("kind", KINDS)
def test_each_call_finds_what_the_first_found(kind):
    step = KINDS[kind]()
    state = HeldState([step])
    with state.lent():
        state.restore()
        first = told(step())
        state.restore()
        assert told(step()) == first
        assert told(step()) != first, "it has a state"
    assert told(step()) == first, "the user finds it as it was"


def test_results_stay_when_the_state_they_lie_in_is_put_back():
    for make in (of_tensor, of_array):
        step = make()
        inputs = of_call(step, (), {}).beside(step)
        out = step()
        out = out[0] if isinstance(out, tuple) else out
        kept, before = inputs.apart(out), out.tolist()
        inputs.clone()
        assert kept.tolist() == before != out.tolist()
        assert inputs.apart(x := torch.ones(2)) is x


def test_an_object_among_the_inputs_that_can_be_called_is_put_back_too():
    counter = Counter()
    inputs = of_call(lambda f: f(), (counter,), {}).beside(lambda f: f())
    counter()
    inputs.clone()
    assert counter.n == 0


def test_what_a_call_drew_to_fill_a_place_can_stay():
    cache, lazy, optimizer = {}, SimpleNamespace(t=None), torch.optim.SGD([torch.zeros(2)], momentum=0.5)

    def step():
        global FIRST_NEEDED
        FIRST_NEEDED = cache["t"] = lazy.t = torch.rand(2)
        optimizer.state["new"] = {"momentum": torch.rand(2)}

    state = HeldState([step])
    step()
    found = cache["t"].tolist()
    state.keep_filled()
    cache["t"].zero_()
    state.restore()
    assert cache["t"].tolist() == lazy.t.tolist() == FIRST_NEEDED.tolist() == found
    assert not optimizer.state, "which begins without"


def test_everybodys_generators_begin_anew_and_tell_whether_they_moved():
    seeded(7)
    before = drawn()
    assert drawn() == before
    for draw in (lambda: torch.rand(1), np.random.rand, random.random):
        seeded(7)
        assert drawn() == before
        draw()
        assert drawn() != before


def test_a_generator_function_has_one_life():
    it = (i for i in range(3))
    state = HeldState([lambda: it])
    assert next(it) == 0
    state.restore()
    assert next(it) == 1


def test_what_a_module_registers_that_a_call_imports_stays(tmp_path, monkeypatch):
    (tmp_path / "registered_late.py").write_text("def fill(found):\n    found.setdefault('kernel', len)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "registered_late", raising=False)
    registry, calls = {}, [0]

    def step():
        calls[0] += 1
        if "registered_late" not in sys.modules:
            __import__("registered_late").fill(registry)
        return registry["kernel"]

    state = HeldState([step])
    for _ in range(3):
        state.restore()
        with once(state):
            step()
        assert calls == [1]
    monkeypatch.delitem(sys.modules, "registered_late")


def test_what_libraries_keep_is_theirs(tmp_path, monkeypatch):
    (tmp_path / "kept_by_library.py").write_text("CACHE = {}\n\ndef fill():\n    CACHE['x'] = 1\n")
    (tmp_path / "some-1.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    library = __import__("kept_by_library")
    state = HeldState([lambda: library.fill(), library.fill])
    library.fill()
    state.restore()
    assert library.CACHE == {"x": 1}
    monkeypatch.delitem(sys.modules, "kept_by_library")


def test_gradients_from_before_are_put_back():
    w = torch.nn.Parameter(torch.ones(3))
    frozen, before = torch.ones(3), torch.full((3,), 5.0)
    w.grad = before

    def step():
        w.grad = None
        (w * frozen.requires_grad_()).sum().backward()
        return w.grad + frozen.grad

    state = HeldState([step])
    with state.lent():
        for _ in range(2):
            state.restore()
            assert step().tolist() == [2.0] * 3
    assert w.grad is before and before.tolist() == [5.0] * 3
    assert not frozen.requires_grad and frozen.grad is None


class Proxy:
    """Says what it is when it is asked, and nobody is there to say it."""

    @property
    def __class__(self):
        raise RuntimeError("outside of a request")


class Odd(dict):
    def items(self):
        raise RuntimeError("not now")

    values = items


def test_what_does_not_let_itself_be_looked_at_stays_as_it_is():
    held, proxy, odd = [0], Proxy(), Odd(a=1)

    def step():
        held.append(len(held))
        return proxy, odd

    state = HeldState([step])
    step()
    state.restore()
    assert held == [0]


def test_books_of_torchs_own_functions_are_not_put_back():
    @torch.no_grad()
    def step():
        seen.append(1)
        return len(seen)

    @functools.singledispatch
    def by_kind(x):
        return step()

    seen = []
    state = HeldState([by_kind])
    by_kind.register(int, lambda x: 7)
    assert by_kind("") == 1
    state.restore()
    assert by_kind("") == 1 and by_kind(3) == 7
