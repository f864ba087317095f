"""Values that leave torch keep their bounds, or taint what follows."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.hosted.numbers import Ends, LeftNumbers, Number
from render.interpreter.hosted.written import floats_before
from render.interpreter.session import Session

NUMBERS = {
    "sum": lambda a, b: a + b, "difference": lambda a, b: a - b, "product": lambda a, b: a * b,
    "third": lambda a, b: a / 3,
    "quotient": lambda a, b: a / b, "reverse": lambda a, b: 2 / a - b, "square": lambda a, b: a**2,
    "cube": lambda a, b: a**3,
    "abs": lambda a, b: abs(-a) + b, "mixed": lambda a, b: (a + 0.1) * (b - 3) / (1 + a * a),
}  # fmt: skip


def numbers():
    return LeftNumbers(lambda *what: 0, lambda file: True)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", NUMBERS)
def test_arithmetic_encloses_the_exact_result(name, seed):
    own, rng = numbers(), np.random.default_rng(seed)
    for _ in range(40):
        a, b = rng.uniform(-4, 4, 2)
        ra, rb = 2.0 ** rng.uniform(-30, 0, 2)
        if abs(a) <= ra or abs(b) <= rb:  # the quotient has no bounds
            continue
        ends = [Ends(x - r, x + r) for x, r in ((a, ra), (b, rb))]
        found = NUMBERS[name](*(Number(x, e, own) for x, e in zip((a, b), ends, strict=True)))
        for t in (0.0, 0.3, 1.0):
            exact = NUMBERS[name](*(Fraction(e.lo) + Fraction(t) * (Fraction(e.hi) - Fraction(e.lo)) for e in ends))
            if name not in ("mixed", "reverse"):  # 0.1 is the float64 number on both sides
                assert found.ends.lo <= exact <= found.ends.hi


@pytest.mark.parametrize("name", ["sqrt", "exp", "log", "tanh", "sin", "cos", "atan", "log2"])
def test_functions_enclose_both_ends(name):
    import mpmath

    x = torch.tensor([0.7], dtype=torch.float32)
    with Session() as session:
        session.memory.carry(x, np.array([0.69]), np.array([0.71]), frozenset())
        found = getattr(math, name)(x.item())
    exact = mpmath.atan if name == "atan" else (lambda v: mpmath.log(v, 2)) if name == "log2" else getattr(mpmath, name)
    for v in (0.69, 0.7, 0.71):
        assert found.ends.lo <= exact(mpmath.mpf(v)) <= found.ends.hi


def left(function, lo=0.9, hi=1.1, value=1.03):
    """(session, what the function made of an open element) with the tensor x that it is the element of."""
    x = torch.tensor([value, 2.0])
    session = Session()
    with session:
        session.memory.carry(x, np.array([lo, 2.0]), np.array([hi, 2.0]), frozenset())
        result = function(x)
        envelope = session.envelope(result) if isinstance(result, torch.Tensor) else None
    codes = {session.taints[i].code for i in envelope.taints} if envelope else set()
    return session, envelope, codes


RETURNS = {
    "times": (lambda x: torch.ones(2) * x[0].item(), 0.9, 1.1),
    "float": (lambda x: torch.ones(2) * float(x[0]), 0.9, 1.1),
    "inverse": (lambda x: torch.ones(2) * (1 / x[0].item()), 1 / 1.1, 1 / 0.9),
    "full": (lambda x: torch.full((2,), x[0].item()), 0.9, 1.1),
    "list": (lambda x: torch.tensor(x.tolist()), 0.9, 2.0),
    "sum": (lambda x: torch.tensor([sum(x.tolist())]), 2.9, 3.1),
    "root": (lambda x: torch.ones(2) * math.sqrt(x[0].item()), math.sqrt(0.9), math.sqrt(1.1)),
    "less": (lambda x: torch.ones(2) - x[0].item() * 0.5, 0.45, 0.55),
    "fill": (lambda x: torch.empty(2).fill_(x[0].item()), 0.9, 1.1),
    "over": (lambda x: torch.ones(2) / x[0].item(), 1 / 1.1, 1 / 0.9),
    "decided": (lambda x: x * 2 if x[0].item() > 0.5 else x, 1.8, 4.0),
    "decided int": (lambda x: x * int(x[0].item() + 0.5), 0.9, 2.0),
    "decided round": (lambda x: x * round(x[0].item()), 0.9, 2.0),
    "decided floor": (lambda x: x * math.floor(x[0].item() + 1.5), 1.8, 4.0),
}  # fmt: skip


@pytest.mark.parametrize("name", RETURNS)
def test_a_number_that_comes_back_has_its_bounds(name):
    function, lo, hi = RETURNS[name]
    _, envelope, codes = left(function)
    assert not codes
    assert envelope is not None
    assert envelope.lo.min() <= lo * (1 + 1e-9)
    assert envelope.hi.max() >= hi * (1 - 1e-9)
    assert envelope.lo.min() >= lo - 1e-5
    assert envelope.hi.max() <= hi + 1e-5


UNFOLLOWED = {
    "hidden": lambda x: torch.ones(2) * float(str(x[0].item())[:3] + "7"),
    "numpy": lambda x: torch.from_numpy(np.exp(x.numpy())),
    "gamma": lambda x: torch.ones(2) * math.gamma(float(x[0])), "asarray": lambda x: torch.tensor(np.cumsum(x.numpy())),
}  # fmt: skip
GIVEN = {  # numbers among the arguments of operations on exact tensors
    "eps": lambda n: torch.nn.functional.layer_norm(torch.tensor([1.0, 2.0]), (2,), eps=n),
    "nan": lambda n: torch.tensor([math.nan, 1.0]).nan_to_num(n), "alpha": lambda n: torch.add(ONES, ONES, alpha=n),
    "elu": lambda n: torch.nn.functional.elu(torch.tensor([-1.0, 2.0]), alpha=n), "power": lambda n: (ONES * 2) ** n,
    "clamp": lambda n: torch.tensor([0.0, 5.0]).clamp(n, 2.0), "lerp": lambda n: torch.lerp(ONES * 0, ONES, n),
    "leaky": lambda n: torch.nn.functional.leaky_relu(-ONES, n), "fmod": lambda n: torch.fmod(ONES * 2.5, n),
    "softplus": lambda n: torch.nn.functional.softplus(ONES, beta=n), "fill": lambda n: (ONES * 0).fill_(n),
    "huber": lambda n: torch.nn.functional.huber_loss(ONES * 1.5, ONES * 0, reduction="none", delta=n),
    "group norm": lambda n: torch.nn.functional.group_norm(torch.arange(4.0).view(1, 4), 2, eps=n),
    "rms norm": lambda n: torch.nn.functional.rms_norm(torch.tensor([1.0, 2.0]), (2,), eps=n),
    "addcdiv": lambda n: torch.addcdiv(ONES, ONES, ONES * 3, value=n), "celu": lambda n: torch.celu(-ONES, n),
    "hardtanh": lambda n: torch.nn.functional.hardtanh(ONES * 3, -n, n), "xlogy": lambda n: torch.xlogy(ONES, n),
    "threshold": lambda n: torch.nn.functional.threshold(torch.tensor([1.0, 3.0]), n, 0.25),
    "norm": lambda n: (ONES * 3).norm(p=n + 1).reshape(1), "logit": lambda n: torch.logit(ONES * 0.97, eps=n / 30),
    "cosine": lambda n: torch.nn.functional.cosine_similarity(ONES, ONES * 0.1, dim=0, eps=n).reshape(1),
    "addmm": lambda n: torch.addmm(torch.ones(2, 2), torch.ones(2, 2), torch.ones(2, 2), beta=n, alpha=0.5),
}  # fmt: skip
ONES = torch.ones(2)


@pytest.mark.parametrize("name", GIVEN)
def test_a_number_among_arguments_is_known_by_its_bounds_or_tainted(name):
    function = GIVEN[name]
    _, found, codes = left(lambda x: function(x[0].item()))
    for end in (0.9, 0.97, 1.03, 1.1):
        out = function(end).double().numpy()
        assert codes or ((found.lo <= out) & (out <= found.hi)).all()


BRANCHES = {
    "if": lambda x: x * 2 if x[0].item() > 1 else x, "bool": lambda x: x * 2 if x[0] > 1 else x,
    "int": lambda x: x * int(x[0]), "round": lambda x: x * round(x[0].item() + 0.5),
    "equal": lambda x: x if x[0].item() == 1 else x + 1,
    "floor": lambda x: x * math.floor(x[0].item()), "any": lambda x: x if (x > 1.05).any() and x[0] > 1 else -x,
}  # fmt: skip


@pytest.mark.parametrize("name", UNFOLLOWED)
def test_what_is_not_followed_is_a_taint(name):
    read_again = {"RND303"} if name == "hidden" else set()  # digits decide, as a rounding does
    assert left(UNFOLLOWED[name])[2] == {"RND302"} | read_again


@pytest.mark.parametrize("name", BRANCHES)
def test_a_branch_that_the_bounds_leave_open(name):
    assert "RND303" in left(BRANCHES[name])[2]


def test_numbers_of_the_code_are_no_numbers_that_left():
    scale = 0.7071
    _, envelope, codes = left(lambda x: (torch.ones(2) * x[0].item() + 0.123) * scale)
    assert not codes
    assert envelope is not None


COMPILES = """
import math, sys
from render.interpreter.session import Session
{before}
with Session():
    import numba
    {inside}
with Session():
    again = numba.njit(lambda x: math.sqrt(x) + math.log(x))
    assert again(4.0) == 2.0 + math.log(4.0)
assert numba.njit(lambda x: math.exp(x) + math.sqrt(x))(4.0) == math.exp(4.0) + 2.0
"""


@pytest.mark.parametrize("before", ["", "import numba; numba.njit(lambda x: x + 1)(1.0)"], ids=["first", "known"])
@pytest.mark.parametrize("inside", ["pass", "numba.njit(lambda x: math.sqrt(x))(2.0)"], ids=["import", "compile"])
def test_numba_knows_the_functions_whenever_it_is_imported(before, inside):
    """Its tables of types are filled at the first use, which may come while the functions are followed."""
    script = COMPILES.format(before=before, inside=inside)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_number_that_is_written_is_no_number_that_left():
    own = numbers()
    left = Number(1.0, Ends(0.25, 0.5), own)  # without roundings the value itself lies outside of its ends
    assert (left + 1.0).ends.lo == pytest.approx(1.25) and (left + 1.0).ends.hi == pytest.approx(1.5)
    own.leave(1.0, Ends(0.25, 0.5))  # now as a plain float, too: which of the two it is, nobody can tell
    assert own.of(1.0) == Ends(0.25, 1.0)


@triton.jit
def _times(x, y, s):
    tl.store(y, tl.load(x) * s)


def test_a_number_of_a_launch_has_the_line_of_the_launch():
    """And not that of Triton's own launcher, which hands it on."""
    x, y = torch.tensor([1.03]), torch.empty(1)
    with Session() as session:
        session.memory.carry(x, np.array([0.9]), np.array([1.1]), frozenset())
        _times[(1,)](x, y, math.gamma(x.item()))
        told = [t for t in session.taints.values() if t.code == "RND302"]
    assert told and {t.file for t in told} == {__file__}


def test_numbers_that_torchs_own_code_asks_for_are_plain():
    """The user's `.item()` gives a number with its bounds; torch's, which only looks at one, what torch gives."""
    spaces: dict[str, dict] = {file: {} for file in (torch.nn.functional.__file__, __file__)}
    for file, space in spaces.items():
        exec(compile("def ask(x): return x.item()", file, "exec"), space)
    x = torch.tensor([1.03])
    with Session() as session:
        session.memory.carry(x, np.array([0.9]), np.array([1.1]), frozenset())
        plain, known = (space["ask"](x) for space in spaces.values())
    assert type(plain) is float and isinstance(known, Number)
    assert known.ends.lo <= 0.9 and known.ends.hi >= 1.1


MEETING = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32, torch.int64, torch.bool]


@pytest.mark.parametrize("dtype", MEETING, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (2, 1)], ids=str)
def test_numbers_take_the_format_of_what_they_meet(dtype, shape):
    """A number is no tensor: a float16 tensor times it is rounded to float16, whether or not it has dimensions, and an
    integer to float32; it is itself rounded before. Every number within its bounds gives a result within the bounds."""
    rng = np.random.default_rng(3)
    operations = [lambda t, n: t * n, lambda t, n: t + n, lambda t, n: t / n, lambda t, n: n / t, lambda t, n: n * t]
    operations += [] if dtype == torch.bool else [lambda t, n: t - n, lambda t, n: n - t]
    for of in operations:
        for _ in range(4):
            t = torch.full(shape, float(rng.uniform(0.5, 9)) if dtype.is_floating_point else int(rng.integers(1, 9)))
            t, middle, r = t.to(dtype), float(rng.uniform(0.1, 3)), float(10 ** rng.uniform(-9, -2))
            x = torch.tensor([middle], dtype=torch.float64)
            with Session() as session:
                session.memory.carry(x, np.array([middle - r]), np.array([middle + r]), frozenset())
                made = of(t, x.item())
                env = session.envelope(made)
            others = [of(t, float(n)).double().numpy() for n in np.linspace(middle - r, middle + r, 9)]
            assert (env.lo <= np.array(others)).all() and (np.array(others) <= env.hi).all()
            room = 8 * torch.finfo(made.dtype).eps * (np.abs(others).max() + 10)
            assert (env.hi - env.lo <= np.ptp(others) + room).all()


def test_numbers_that_the_code_around_holds_are_known():
    """Variables of each frame, and once of each module: its variables, and the constants of its functions."""
    text = """
import sys
G, T = 0.37, (1, 0.59)
def other():
    return 0.73
def frame():
    local = 0.19
    return sys._getframe()
"""
    space: dict = {}
    exec(compile(text, "module", "exec"), space)
    found = list(floats_before([space["frame"](), space["frame"]()]))
    assert [found.count(x) for x in (0.37, 0.59, 0.73, 0.19)] == [1, 1, 1, 3]  # 0.19: two frames, one function


OPTIMISERS = {
    "SGD": {"momentum": 0.9, "nesterov": True}, "Adam": {}, "AdamW": {"betas": (0.8, 0.99)},
    "RMSprop": {"momentum": 0.5}, "Adagrad": {}, "NAdam": {}, "Adamax": {}, "Adadelta": {},
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMISERS)
def test_an_optimiser_computes_with_numbers_of_its_own(name):
    """What it makes of its learning rate is none of the loss that a loop logs."""

    def trained(x, rate):
        w = x.detach().clone().requires_grad_()
        optimiser, losses = getattr(torch.optim, name)([w], lr=rate(x), **OPTIMISERS[name]), []
        for _ in range(2):
            optimiser.zero_grad()
            loss = (w * w).sum()
            loss.backward()
            losses.append(loss.item())
            optimiser.step()
        return w.detach()

    share = 0.3
    _, found, codes = left(lambda x: trained(x, lambda _: 0.05 * share))
    assert found is not None and codes == set()
    assert "RND302" in left(lambda x: trained(x, lambda x: math.gamma(float(x[0]))))[2]


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_an_optimiser_is_not_suspected_of_what_left_as_an_array(name):
    """Its numbers are made of a rate that the code computes in sight; unless that is one which left."""

    def trained(x, share):
        rate = 0.05 * share
        w = x.detach().clone().requires_grad_()
        optimiser, logged = getattr(torch.optim, name)([w], lr=rate, **OPTIMISERS[name]), []
        for _ in range(2):
            optimiser.zero_grad()
            loss = (w * w).sum()
            loss.backward()
            logged.append(loss.detach().numpy())
            optimiser.step()
        return w.detach()

    _, found, codes = left(lambda x: trained(x, 0.3))
    assert found is not None and codes == set()
    assert left(lambda x: trained(x, math.gamma(float(x[0]))))[2]


@pytest.mark.parametrize("metric", [lambda loss: loss, lambda loss: loss.item(), float])
def test_a_schedule_by_an_open_metric_is_a_branch(metric):
    def trained(x):
        w = x.detach().clone().requires_grad_()
        optimiser = torch.optim.SGD([w], lr=0.1)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, patience=0, threshold=0.0)
        for i in range(3):
            optimiser.zero_grad()
            loss = (w * w).sum() if i < 1 else (w - 0.5).square().sum() + 3.9
            loss.backward()
            optimiser.step()
            schedule.step(metric(loss))
        return w.detach()

    assert left(trained)[2]


def test_functions_of_math_give_what_they_give():
    """The run is the user's: only the bounds beside its numbers are ours."""
    x = torch.tensor([0.1, 0.7, 1e300])
    cases = [
        lambda m, a, b, c: m.prod([a, b, c, 0.3], start=1.1), lambda m, a, b, c: m.pow(a, b),
        lambda m, a, b, c: m.log(a, 3), lambda m, a, b, c: m.fsum([a, b, 0.25]), lambda m, a, b, c: m.dist([a], [b]),
    ]  # fmt: skip
    plain = [case(math, *x.double().tolist()) for case in cases]
    with Session() as session:
        v = x.double().numpy()
        session.memory.carry(x, v * 0.99, v * 1.01, frozenset())
        assert [float(case(math, *x.tolist())) for case in cases] == plain
        wide = Number(1.0, Ends(-math.inf, math.inf), session._tracker.numbers)
        assert math.fsum([wide, wide]).ends == Ends(-math.inf, math.inf) and math.hypot(wide, 1.0).ends.lo <= 1.0
