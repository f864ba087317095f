"""Numbers that leave torch and only show up in a log taint no later float; all others do, whichever way they go."""

from __future__ import annotations

import cmath
import contextlib
import fractions
import functools
import json
import logging
import math
import struct
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from render.interpreter.session import Session

LO, HI, VALUE = 0.9, 1.1, 1.03
KEPT: list[float] = []
LAST = 0.0


@dataclass
class Meter:
    total: float = 0.0
    seen: list[float] = field(default_factory=list)

    def update(self, v):
        self.total += v
        self.seen.append(v)

    @property
    def mean(self):
        return self.total / 3

    def __call__(self, v):
        self.last = v


class Stop(Exception):
    pass


def into(box, v):
    box.append(v)


def into_global(v):
    global LAST
    LAST = v * 1.7


def raised(v):
    raise Stop(v * 1.7)


def yielded(v):
    yield v * 1.7


def caught(v):
    try:
        raised(v)
    except Stop as stop:
        return stop.args[0]
    return 0.0


def enclosed(v):
    out = 0.0

    def inner():
        nonlocal out
        out = v * 1.7

    inner()
    return out


def aliased(v):
    box = other = []
    box.append(v)
    return other[0] * 1.7


def aliased_later(v):
    box: list[float] = []
    other = box
    box.append(v)
    return other[0] * 1.7


def held_before(v):
    box: list[float] = []
    meter = Meter(seen=box)
    box.append(v)
    return meter.seen[0] * 1.7


def by_meter(v):
    meter = Meter()
    meter.update(v)
    return meter.mean


def by_call(v):
    meter = Meter()
    meter(v)
    return meter.last * 1.7


def by_names(v):
    number = v * 1.7
    return locals()["number"]


def by_matching(v):
    match (v, 1):
        case (a, _):
            return a * 1.7


def by_parameter(v):
    box: list[float] = []
    into(box, v)
    return box[0] * 1.7


def by_module(v):
    KEPT.clear()
    KEPT.append(v)
    return KEPT[0] * 1.7


def by_global(v):
    into_global(v)
    return LAST


def by_setting(v):
    meter = Meter()
    setattr(meter, "total", v * 1.7)  # noqa: B010
    return getattr(meter, "total")  # noqa: B009


def by_dict(v):
    meter = Meter()
    meter.__dict__["total"] = v
    return meter.total * 1.7


def by_default(v):
    def inner(w=v):
        return w * 1.7

    return inner()


def by_class(v):
    class Own:
        at = v * 1.7

    return Own.at


def in_place(v):
    wave = 1.7 + 0j
    wave *= v
    return wave.real


def array_in_place(v):
    table = TABLE.copy()
    table *= v
    return table[0]


def put(v):
    table = np.zeros(3)
    table[0] = v * 1.7
    return table[0] * 1.1


def bound_anew(v):
    scale = 0.5
    for _ in range(2):
        out = v * scale
        scale = TABLE
    return out[0]


def one_or_other(v):
    either = v if TABLE[0] < 1 else TABLE
    return (either * v)[1]


def grown(v):
    scale = other = 0.5
    for _ in range(2):
        out = v * scale
        scale = other
        other = other * TABLE
    return (v * other)[0] + 0 * sum(np.ravel(out))


def scaled(v, by=1.0):
    return (v * by)[0]


def by_argument(v):
    return scaled(v, TABLE)


class Odd:
    def __mul__(self, other):
        return 1.7 * float(other)

    __rmul__ = __mul__


ODD, WAVE, TABLE = Odd(), 1.7 + 0.3j, np.ones(3) * 1.7
WAYS = {
    "itself": lambda v: v * 1.7,
    "text": lambda v: float(f"{v:.17g}") * 1.7,
    "json": lambda v: json.loads(json.dumps([v]))[0] * 1.7,
    "bytes": lambda v: struct.unpack("d", struct.pack("d", v))[0] * 1.7,
    "array": lambda v: float(np.array([v])[0] * 1.7),
    "numpy": lambda v: float(np.sqrt(v)),
    "partial": lambda v: functools.partial(lambda a, b: a * b, 1.7)(v),
    "map": lambda v: next(map((1.7).__mul__, [v])),
    "words": lambda v: {"a": v * 1.7}["a"],
    "walrus": lambda v: (w := v * 1.7) + 0 * w,
    "hex": lambda v: float.fromhex(v.hex()) * 1.7,
    "gamma": lambda v: math.gamma(v),
    "next": lambda v: next(yielded(v)),
    "complex": lambda v: ((1.7 + 1j) * v).real,
    "of a complex variable": lambda v: (WAVE * v).imag,
    "size of a complex one": lambda v: abs(WAVE * v),
    "cmath": lambda v: cmath.exp(v * 1j).real,
    "element": lambda v: (v * TABLE)[0],
    "element of a product": lambda v: (TABLE * v)[1] * 1.1,
    "dot": lambda v: TABLE @ (TABLE * v),
    "ufunc": lambda v: np.add(TABLE, v)[0],
    "scalar": lambda v: np.float64(1.7) * v,
    "narrow scalar": lambda v: float(np.float32(1.7) * v),
    "fraction": lambda v: fractions.Fraction(17, 10) * v,
    "class": lambda v: ODD * v,
    "class on the right": lambda v: v * ODD,
    "real part": lambda v: v.real * 1.7,
    "conjugate": lambda v: v.conjugate() * 1.7,
    "objects": lambda v: np.array([v], dtype=object)[0] * 1.7,
    "power": lambda v: 1.7**v,
} | {f.__name__: f for f in (
    caught, enclosed, aliased, aliased_later, held_before, by_meter, by_call, by_names, by_matching, by_parameter,
    in_place, array_in_place, put, bound_anew, one_or_other, grown, by_argument,
    by_module, by_global, by_setting, by_dict, by_default, by_class,
)}  # fmt: skip
LEAVING = {"float": lambda x: float(x[0]), "item": lambda x: x[0].item(), "both": lambda x: x[0].item() + float(x[0])}


@pytest.mark.parametrize("leaving", LEAVING)
@pytest.mark.parametrize("way", WAYS)
def test_what_goes_on_is_bounded_or_tainted(way, leaving):
    def run(x):
        return torch.ones(2, dtype=torch.float64) * WAYS[way](LEAVING[leaving](x))

    at_ends = [run(torch.tensor([end, 2.0])) for end in (LO, HI)]
    session, x = Session(), torch.tensor([VALUE, 2.0])
    with session:
        session.memory.carry(x, np.array([LO, 2.0]), np.array([HI, 2.0]), frozenset())
        out = run(x)
        found = session.envelope(out)
    assert found is not None
    inside = all(
        (found.lo <= end.numpy() * (1 + 1e-6)).all() and (end.numpy() <= found.hi * (1 + 1e-6)).all() for end in at_ends
    )
    assert found.taints or inside


class Quiet:
    def __init__(self):
        self.step = 0

    def log(self, **told):
        self.step += 1
        print(self.step, told)


def logged(x, rate):
    seen = []
    for _ in range(2):
        seen.append(x[0].item())
        print(f"{x[0]:.2f}", float(x[0]), str(x[0].item()), f"{sum(seen) / len(seen)}", end="")
        logging.getLogger("quiet").debug("loss %f", x[0].item())
        with contextlib.suppress(ValueError):
            assert float(x[0]) > 0
        Quiet().log(loss=float(x[0]), mean=x.tolist())
    return torch.ones(2, dtype=torch.float64) * rate(x), seen


def test_what_is_only_shown_taints_nothing(capsys):
    session, x = Session(), torch.tensor([VALUE, 2.0])
    with session:
        session.memory.carry(x, np.array([LO, 2.0]), np.array([HI, 2.0]), frozenset())
        out, seen = logged(x, lambda x: math.gamma(x.numel() + 0.37))
        found = session.envelope(out)
    assert len(seen) == 2
    assert found is None or not found.taints


def save(v):
    return v * 1.7


def test_what_functions_inside_give_is_theirs(tmp_path):
    """Two functions inside have the same names, and one that gives another away does not give what that one gives."""

    def made(power):
        def run(x):
            n = x[0].item()
            np.savetxt(tmp_path / "x.txt", np.asarray(x))
            return torch.ones(2, dtype=torch.float64) * n**power

        return run

    def other(x):
        n = len(x)
        return torch.ones(2) if n > 1 else torch.zeros(2)

    def run_beside(function):
        session, x = Session(), torch.tensor([VALUE, 2.0])
        with session:
            session.memory.carry(x, np.array([LO, 2.0]), np.array([HI, 2.0]), frozenset())
            return session.envelope(function(x))

    for function in (made(2), other):
        found = run_beside(function)
        assert found is None or not found.taints
    found = run_beside(lambda x: torch.ones(2) * save(float(x[0])))
    assert found is not None
    assert found.taints or ((found.lo <= LO * 1.7 + 1e-6).all() and (found.hi >= HI * 1.7 - 1e-6).all())


class Trainer:
    def __init__(self, x):
        self.w, self.history, self.largest = x.detach().clone().requires_grad_(), [], None
        self.optimiser = torch.optim.SGD([self.w], lr=0.1)
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimiser, 0.37)

    def turn(self):
        self.optimiser.zero_grad()
        loss = (self.w * self.w).sum()
        loss.backward()
        self.optimiser.step()
        self.schedule.step()
        return loss

    def run(self):
        for _ in range(3):
            self.history.append(self.turn().item())
        return self.w.detach()

    def smallest(self):
        return min(self.history)

    @property
    def newest(self):
        return self.history[-1]


class Using(Trainer):
    def run(self):
        for _ in range(3):
            self.largest = self.turn().item()
        return self.w.detach()

    def half(self):
        return self.largest / 2

    def onward(self):
        return torch.ones(2) * float(self.half())


def test_attributes_are_followed_to_who_reads_them(capsys):
    """Nobody in this file does more than print what the one keeps; the other's goes on as a plain float."""
    for kind in (Trainer, Using):
        session, x = Session(), torch.tensor([VALUE, 2.0])
        with session:
            session.memory.carry(x, np.array([LO, 2.0]), np.array([HI, 2.0]), frozenset())
            trainer = kind(x)
            found = session.envelope(trainer.run())
            print(trainer.smallest() if kind is Trainer else "", trainer.newest if kind is Trainer else "")
        assert found is not None
        assert bool(found.taints) == (kind is Using)


def test_a_schedule_goes_on_beside_a_log():
    def trained(x, schedule):
        w = x.detach().clone().requires_grad_()
        optimiser = torch.optim.SGD([w], lr=0.1, momentum=0.9)
        stepped, losses = schedule(optimiser), []
        for _ in range(3):
            optimiser.zero_grad()
            loss = (w * w).sum()
            loss.backward()
            losses.append(loss.item())
            torch.nn.utils.clip_grad_norm_([w], 0.5)
            optimiser.step()
            stepped.step()
        return w.detach(), losses

    schedules = torch.optim.lr_scheduler
    for schedule in (
        lambda o: schedules.StepLR(o, 1, 0.37),
        lambda o: schedules.CosineAnnealingLR(o, 7),
        lambda o: schedules.LambdaLR(o, lambda e: 0.93**e),
        lambda o: schedules.OneCycleLR(o, 0.1, total_steps=9),
    ):
        session, x = Session(), torch.tensor([VALUE, 2.0])
        with session:
            session.memory.carry(x, np.array([LO, 2.0]), np.array([HI, 2.0]), frozenset())
            out, _ = trained(x, schedule)
            found = session.envelope(out)
        assert found is not None and not found.taints


@pytest.mark.parametrize("metric", [lambda loss: loss, lambda loss: loss.item(), torch.Tensor.detach])
def test_a_schedule_decides_by_a_metric_as_far_as_its_bounds_allow(metric):
    def trained(x, gain):
        w = x.detach().clone().requires_grad_()
        optimiser = torch.optim.SGD([w], lr=0.1)
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, patience=0, threshold=0.0)
        for i in range(3):
            optimiser.zero_grad()
            loss = (w * w).sum() + gain * i
            loss.backward()
            optimiser.step()
            schedule.step(metric(loss))
        return w.detach()

    for gain, is_open in ((0.0, False), (9.0, False), (1.4, True)):
        session, x = Session(), torch.tensor([VALUE, 2.0])
        with session:
            session.memory.carry(x, np.array([LO, 2.0]), np.array([HI, 2.0]), frozenset())
            found = session.envelope(trained(x, gain))
        assert found is not None
        assert {session.taints[i].code for i in found.taints} == ({"RND303"} if is_open else set())
