"""What the host decides by numbers that left torch where nobody sees it."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy import ceil

import render.judgement
from render.interpreter.hosted import decisions
from render.interpreter.hosted.carried import ReadingBudget
from render.interpreter.session import Session

LO, HI, VALUE = 0.9, 1.1, 1.03


def ones(number):
    return torch.ones(2, dtype=torch.float64) * number


def clipped(t):
    return min(max(t, -0.5), 1.0)


def over(t, limit=1.0):
    if t > limit:
        return 2.0
    return 3.0


class Held:
    def __init__(self, first):
        self.first = first

    def large(self):
        return self.first > 1


def left_by(function):
    return function()


def counted(x):
    t, n = float(x[0]), 0
    while t > 0.5:
        t, n = t - 0.26, n + 1
    return ones(n)


def kept_best(x):
    best = 0.0
    for v in map(float, x):
        if v > best:
            best = v
    return ones(best)


def by_attribute(x):
    held = Held(float(x[0]))
    return ones(5.0 if held.large() else 7.0)


def nested(x):
    found = [0.0]

    def inner():
        found[0] = float(x[0])

    inner()
    return ones(5.0 if found[0] > 1 else 7.0)


def returned(x):
    def get():
        return float(x[0])

    return ones(5.0 if get() > 1 else 7.0)


def of_array(x):
    a = x.numpy()
    return ones(5.0 if a[0] > 1 else 7.0)


def indices(x):
    return torch.from_numpy(np.argsort(np.abs(x.numpy() - 1.03)))


class Deciding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, number):
        return ones(5.0 if number > 1 else 7.0)


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, number):
        return ones(number * 2)


class Applied:
    """No function of torch's, whatever its methods are called."""

    def apply(self, number):
        return ones(5.0 if number > 1 else 7.0)

    @classmethod
    def doubled(cls, number):
        return ones(number * 2)


class AppliedToo:
    @classmethod
    def apply(cls, number):
        return ones(number * 2)


WAYS = SimpleNamespace(
    decides=lambda number: 5.0 if number > 1 else 7.0,
    doubles=lambda number: number * 2,
)
DECIDED = {
    "applied": lambda x: Deciding.apply(float(x[0])), "applied method": lambda x: Applied().apply(float(x[0])),
    "held lambda": lambda x: ones(WAYS.decides(float(x[0]))),
    "if": lambda x: ones(5.0 if float(x[0]) > 1 else 7.0), "int": lambda x: ones(int(float(x[0]) * 20)),
    "round": lambda x: ones(round(float(x[0]), 1)), "index": lambda x: ones([3.0, 4.0, 5.0][int(float(x[0]) * 2)]),
    "count": lambda x: ones(sum(1 for v in map(float, x) if v > 1)),
    "sorted": lambda x: ones(sorted(map(float, x))[0]), "most": lambda x: ones(max(map(float, x))),
    "digits": lambda x: ones(float(f"{x[0].item():.1f}")), "text": lambda x: ones(float(str(float(x[0]))[:3])),
    "function": lambda x: ones(over(float(x[0]))), "clip": lambda x: ones(clipped(float(x[0]))),
    "attribute": by_attribute, "nested": nested, "returned": returned, "while": counted, "best": kept_best,
    "array": of_array, "indices": indices, "truth": lambda x: ones(1.0 if float(x[0]) - 1.03 else 2.0),
    "not": lambda x: ones(1.0 if not (float(x[0]) > 1) else 2.0),
    "numpy": lambda x: ones(5.0 if np.exp(x[0].item()) > 2.72 else 7.0),
    "alike": lambda x: ones(5.0 if torch.allclose(x, x.new_tensor([1.05, 2.0])) else 7.0),
    "equal": lambda x: ones(5.0 if x.equal(x.new_tensor([1.05, 2.0])) else 7.0),
    "numpy's floor": lambda x: ones(int(np.floor(x[0].item() * 20))),
    "numpy's own name": lambda x: ones(5.0 if ceil(x[0].item()) > 1 else 7.0),
    "dlpack": lambda x: ones(5.0 if np.from_dlpack(x)[0] > 1 else 7.0),
    "asarray": lambda x: ones(5.0 if np.asarray(x)[0] > 1 else 7.0),
    "stripped": lambda x: ones(5.0 if float(x[0].item()) > 1 else 7.0),
    "whole": lambda x: ones(float(x[0].item().is_integer())),
    "exponent": lambda x: ones(math.frexp(x[0].item())[1]),
    "listed": lambda x: ones(5.0 if float(x.tolist()[0]) > 1 else 7.0),
    "handed on": lambda x: ones(left_by(lambda: 5.0 if float(x[0]) > 1 else 7.0)),
}  # fmt: skip


def checked(x):
    n = float(x[0])
    if not math.isfinite(n):
        raise ValueError(n)
    assert n < 1.05
    return ones(n)


def shown(x):
    n = float(x[0])
    if n > 1:
        print(n)
    return ones(n / 2)


def summed(x):
    total = 0.0
    for v in x.tolist():
        total += v * v
    return ones(math.sqrt(total))


def guarded(x):
    n = float(x[0])
    if n > 1e4 or n < 0.25:
        n = 0.0
    return ones(n)


class Kept:
    def __init__(self, second):
        self.second = second


def along(x):
    norms = [float(v) for v in x]
    return ones(sum(of_one(r, 1 / n) for r, n in zip(x, norms, strict=True)))


def of_one(r, by):
    if r.numel() > 1:
        return 0.0
    return by * by


def through(x):
    held = Kept(float(x[0]))
    return ones(held.second) * 2


def compared(x):
    assert torch.allclose(x, x.new_tensor([1.03, 2.0]))
    print(torch.equal(x, x.new_tensor([1.05, 2.0])))
    if torch.allclose(x, x.new_tensor([1.0, 2.0]), atol=0.5) and not torch.equal(x, x.new_tensor([1.0, 2.5])):
        return ones(x[0].item())
    return ones(7.0)


HARMLESS = {
    "applied": (lambda x: Doubling.apply(float(x[0])), lambda t: t * 2),
    "applied of a class": (lambda x: AppliedToo.apply(float(x[0])), lambda t: t * 2),
    "method of a class": (lambda x: Applied.doubled(float(x[0])), lambda t: t * 2),
    "held lambda": (lambda x: ones(WAYS.doubles(float(x[0]))), lambda t: t * 2),
    "compared": (compared, lambda t: t),
    "floored": (lambda x: ones(float(x[0]) // 0.0017) / 3000, lambda t: t // 0.0017 / 3000),  # 605: few write it
    "scale": (lambda x: ones(float(x[0]) / 127), lambda t: t / 127),
    "alike": (lambda x: ones(float(x[0]) if float(x[0]) > 0.5 else 7.0), lambda t: t),
    "checked": (checked, lambda t: t), "shown": (shown, lambda t: t / 2), "guarded": (guarded, lambda t: t),
    "summed": (summed, lambda t: math.sqrt(t * t + 4)), "attribute": (through, lambda t: 2 * t),
    "root": (lambda x: ones(math.hypot(x[0].item(), 1.0)), lambda t: math.hypot(t, 1)),
    "sum": (lambda x: ones(math.fsum([x[0].item(), 0.5])), lambda t: t + 0.5),
    "product": (lambda x: ones(math.prod([x[0].item(), 0.7])), lambda t: t * 0.7),
    "sign": (lambda x: ones(math.copysign(x[0].item(), -3.0)), lambda t: -t),
    "listed": (lambda x: ones(math.hypot(*x.tolist())), lambda t: math.hypot(t, 2)),
    "plain times number": (lambda x: ones(x[0].item() * float(x[0].item() + 0.5)), lambda t: t * (t + 0.5)),
    "narrow": (lambda x: ones(np.float64(x[0].item()) - 2.0), lambda t: t - 2),
}  # fmt: skip


def followed(function):
    x = torch.tensor([VALUE, 2.0], dtype=torch.float64)
    with Session() as session:
        session.memory.carry(x, np.array([LO, 2.0]), np.array([HI, 2.0]), frozenset())
        out = function(x)
        # what the host decides taints whatever bounds there are, as those of an output that a kernel stored
        found, all_ = session.envelope(out), session.envelope(x)
    return found, {session.taints[i].code for i in (all_.taints if all_ else ())}


@pytest.mark.parametrize("name", DECIDED)
def test_a_decision_that_nobody_sees_is_a_branch(name):
    assert "RND303" in followed(DECIDED[name])[1]


@pytest.mark.parametrize("name", HARMLESS)
def test_what_decides_nothing_keeps_its_bounds(name):
    function, exact = HARMLESS[name]
    found, codes = followed(function)
    assert codes == set()
    assert found is not None and not found.taints
    ends = sorted((exact(LO), exact(HI)))
    assert found.lo.min() <= ends[0] + 1e-15 and found.hi.max() >= ends[1] - 1e-15
    assert found.hi.max() - found.lo.min() < 4 * (HI - LO)


def test_numbers_and_what_goes_along_with_them_are_told_apart():
    assert followed(along)[1] == set()


def test_code_that_is_more_than_is_read_may_decide_anything(monkeypatch):
    assert followed(summed)[1] == set()
    monkeypatch.setattr(decisions, "ReadingBudget", lambda: ReadingBudget(left=3))
    assert "RND303" in followed(summed)[1]


def test_a_function_read_again_after_its_file_has_changed(tmp_path, monkeypatch):
    import importlib
    import linecache

    monkeypatch.syspath_prepend(tmp_path)
    text = "def run(x):\n    return x.new_ones(2) * {}\n"
    codes = []
    for number in ("float(x[0])", "(5. if float(x[0]) > 1 else 7.)"):
        path = tmp_path / "changing.py"
        path.write_text(text.format(number))
        linecache.checkcache()
        spec = importlib.util.spec_from_file_location("changing", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        codes.append(followed(module.run)[1])
    assert codes == [set(), {"RND303"}]


def test_a_number_without_its_bounds_is_a_plain_float():
    import copy
    import pickle
    import statistics

    x = torch.tensor([VALUE, 2.0], dtype=torch.float64)
    with Session() as session:
        session.memory.carry(x, np.array([LO, 2.0]), np.array([HI, 2.0]), frozenset())
        number = x[0].item()
        assert pickle.loads(pickle.dumps(number)) == VALUE and copy.deepcopy(number).ends.lo == LO
        assert type(number)(2.5) == 2.5 and statistics.mean([number, 1.0]) == pytest.approx((VALUE + 1) / 2)
        assert number.as_integer_ratio() == VALUE.as_integer_ratio()


REFERENCES = {
    "array": (lambda x: x * (5.0 if (x * x).sum().numpy() > 2 else 7.0), True),
    "sorted": (lambda x: x * float(np.sort((x / 3).numpy())[0]), True),
    "exact": (lambda x: x * (5.0 if x.numpy()[0] > 1 else 7.0), False),
    "shown": (lambda x: (print((x / 3).numpy()), x * 2)[1], False),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_that_decides_by_an_array_with_an_error_is_estimated(name):
    from render.reference.local_error import Unit
    from render.reference.shadow import ShadowMode

    function, open_ = REFERENCES[name]
    x = torch.tensor([VALUE, 0.9])
    with ShadowMode(Unit(native=True)) as mode:
        function(x)
    assert mode.estimated is open_


def innermost(*files):
    """The frame of the last of these files, each of which runs the next one."""

    text = "import sys; found.append(sys._getframe())"
    for file in files[::-1]:
        text = f"exec(compile({text!r}, {file!r}, 'exec'), {{'found': found}})"
    exec(text, {"found": (found := [])})
    return found[0]


@pytest.mark.parametrize(
    ("files", "users"),
    [(("asks", "numpy"), False), (("asks", "user", "numpy"), True), (("asks", "user"), True),
     (("user", "asks"), False), (("user", "asks", "numpy"), False), (("asks", "start"), False)],
)  # fmt: skip
def test_an_array_that_leaves_is_the_user_s_where_a_function_of_theirs_asks_for_it(files, users):
    """And not where RENDER compares results of its own, by way of numpy or not."""
    where = {"asks": render.judgement.__file__, "numpy": np.__file__, "user": "/somewhere/model.py",
             "start": "/env/bin/pytest"}  # fmt: skip
    assert decisions.is_users(innermost(*(where[f] for f in files))) is users
