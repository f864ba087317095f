"""Library functions that convert: rounded in the direction of their name, in bounds and on the value lane alike."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from support import rng
from triton.language.extra import libdevice

from render.interpreter.handle import Handle
from render.interpreter.session import Session
from render.interpreter.vendor.conversions import _conversion

N = 64


@triton.jit
def narrowed(X, Out, WAY: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    if WAY == "rn":
        y = libdevice.double2float_rn(x)
    elif WAY == "rz":
        y = libdevice.double2float_rz(x)
    elif WAY == "rd":
        y = libdevice.double2float_rd(x)
    else:
        y = libdevice.double2float_ru(x)
    tl.store(Out + i, y)


def directed(x: float, way: str) -> np.float32:
    """The float32 number next to x in that direction, from its neighbours."""
    near = np.float32(x)
    at = Fraction(float(near))
    below = near if at <= Fraction(x) else np.nextafter(near, np.float32(-np.inf))
    above = near if at >= Fraction(x) else np.nextafter(near, np.float32(np.inf))
    return {"rn": near, "rd": below, "ru": above, "rz": below if x > 0 else above}[way]


@pytest.mark.parametrize("way", ["rn", "rz", "rd", "ru"])
def test_a_double_is_rounded_in_the_direction_of_the_name(way: str) -> None:
    x = rng(3).standard_normal(N) * 2.0 ** rng(4).integers(-20, 20, N)
    x[:4] = 0.0, 1.0, 1 + 2.0**-24, -(1 + 2.0**-25)
    wanted = np.array([directed(float(v), way) for v in x])
    for options in ({"device": "any"}, {"device": "any", "interval": False}):
        out = torch.zeros(N)
        with Session(**options) as session:
            narrowed[(1,)](torch.from_numpy(x), out, way, N)
        assert np.array_equal(out.numpy(), wanted)
        found = session.envelope(out)
        if found is not None and options.get("interval", True):
            assert not found.taints
            assert (np.minimum(found.lo, found.hi) <= np.minimum(x, wanted)).all()
            assert (found.hi >= np.maximum(x, wanted)).all()
            assert (found.hi - found.lo <= np.abs(x) * 2.0**-22 + 1e-40).all()


@triton.jit
def looked_at(X, S, E, Inf, F, Q, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    tl.store(S + i, libdevice.signbit(x).to(tl.int32))
    tl.store(E + i, libdevice.ilogb(x))
    tl.store(Inf + i, libdevice.isinf(x).to(tl.int32))
    tl.store(F + i, libdevice.finitef(x).to(tl.int32))
    tl.store(Q + i, libdevice.isnan(x).to(tl.int32))


def seen(x: np.ndarray, lo: np.ndarray | None = None, hi: np.ndarray | None = None) -> list[tuple]:
    t = torch.from_numpy(x.astype(np.float32))
    outs = [torch.zeros(len(x), dtype=torch.int32) for _ in range(5)]
    with Session(device="any") as session:
        if lo is not None:
            session.memory.carry(t, lo, hi, frozenset())
        looked_at[(1,)](t, *outs, len(x))
    return [(o.numpy(), session.envelope(o)) for o in outs]


def test_what_is_asked_of_points_is_numpy_s_answer() -> None:
    x = np.array([1.0, -1.0, 0.0, -0.0, 3.99, -1e-30, np.inf, -np.inf])
    (sign, s), (exponent, e), (infinite, _), (finite, _), (nan, _) = seen(x)
    assert np.array_equal(sign != 0, np.signbit(x)) and not s.taints and not e.taints
    assert exponent[[0, 1, 4]].tolist() == [0, 0, 1]
    assert np.array_equal(infinite != 0, np.isinf(x)) and np.array_equal(finite != 0, np.isfinite(x))
    assert not nan.any()


def test_a_sign_that_bounds_leave_open_is_unknown_and_one_that_they_tell_is_not() -> None:
    x = np.array([1.0, -2.0, 5.0, -0.5])
    away = np.full(4, 0.25)
    assert not seen(x, x - away, x + away)[0][1].taints
    for lane in range(4):
        wide = away.copy()
        wide[lane] = 6.0
        assert {1} == {len(seen(x, x - wide, x + wide)[0][1].taints)}
    touching = np.where(x > 0, 0.0, x)
    assert seen(x, touching, np.maximum(x, touching))[0][1].taints  # 0 has either sign


def test_an_end_at_infinity_leaves_open_whether_it_is_reached() -> None:
    x = np.array([1.0, -2.0, 5.0, -0.5])
    hi = np.array([1.0, np.inf, 6.0, -0.5])
    _, _, (_, infinite), (_, finite), (_, nan) = seen(x, np.minimum(x, hi), hi)
    for found in (infinite, finite):
        assert found.taints or (found.lo != found.hi).tolist() == [False, True, False, False]
    assert not nan.taints and (nan.hi == 0).all()


LOUD = SimpleNamespace(muted=lambda cause: False)
SOURCES = {"int": "int32", "uint": "uint32", "ll": "int64", "ull": "uint64"}


def rational(x: int, to: type, way: str) -> np.floating:
    """The number of the type next to an integer in that direction."""
    near = to(x)
    exact = Fraction(x)
    down = near if Fraction(float(near)) <= exact else np.nextafter(near, to(-np.inf))
    up = near if Fraction(float(near)) >= exact else np.nextafter(near, to(np.inf))
    return {"rd": down, "ru": up, "rz": down if x > 0 else up}[way]


@pytest.mark.parametrize("way", ["rd", "ru", "rz"])
@pytest.mark.parametrize("target", ["float", "double"])
@pytest.mark.parametrize("source", SOURCES)
def test_an_integer_is_rounded_in_the_direction_of_the_name(source: str, target: str, way: str) -> None:
    """Value and bounds; no bounds where the number is one of the type, or nobody asks for them."""
    info, g = np.iinfo(SOURCES[source]), rng(9)
    drawn_ = [
        info.min,
        info.max,
        0,
        1,
        2**24 + 1,
        info.max - 63,
        *(int(n) for n in g.integers(0, info.max, 40, dtype=info.dtype)),
    ]
    x = np.array([*drawn_, *(-n for n in drawn_ if info.min < 0 and n > 0)], info.dtype)
    to, ty = (np.float32, tl.float32) if target == "float" else (np.float64, tl.float64)
    wanted = np.array([rational(int(n), to, way) for n in x])
    kind = Handle(x[None], tl.dtype(SOURCES[source]), x.shape)
    for interval in (True, False):
        stub = SimpleNamespace(ctx=SimpleNamespace(interval=interval, model=lambda cause: LOUD))
        out = _conversion(f"{source}2{target}_{way}")(stub, ty, kind)
        assert np.array_equal(out.v[0], wanted) and not out.taint
        if not interval or all(Fraction(float(w)) == int(n) for w, n in zip(wanted, x, strict=True)):
            assert out.is_point
            continue
        lo, hi = (np.broadcast_to(end, out.v.shape)[0] for end in out.pair)
        assert (lo <= wanted).all() and (wanted <= hi).all()
        assert all(hi[k] - lo[k] <= abs(int(n)) * 2.0 ** (-22 if to is np.float32 else -51) for k, n in enumerate(x))


@triton.jit
def to_integers(X, Out, WAY: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i)
    if WAY == "rn":
        y = libdevice.float2int_rn(x)
    elif WAY == "rz":
        y = libdevice.float2int_rz(x)
    elif WAY == "rd":
        y = libdevice.float2int_rd(x)
    else:
        y = libdevice.float2int_ru(x)
    tl.store(Out + i, y)


@pytest.mark.parametrize(("way", "rounds"), [("rn", round), ("rz", math.trunc), ("rd", math.floor), ("ru", math.ceil)])
def test_an_integer_has_all_values_that_the_bounds_of_its_number_round_to(way, rounds) -> None:
    """Bounds on both sides of a step leave an integer open; bounds between two steps do not."""
    x = np.array([0.4, 1.0, 1.4, -0.6, 2.25, -1.0, 1.4, -1.4])
    lo = x - np.array([0.1, 0.25, 0.2, 0.2, 1.5, 0.25, 0.01, 0.01])
    hi = x + np.array([0.05, 0.25, 0.25, 0.2, 0.5, 0.25, 0.01, 0.01])
    for k in range(len(x)):
        given, out = torch.tensor([x[k]], dtype=torch.float32), torch.zeros(1, dtype=torch.int32)
        with Session(device="any") as session:
            session.memory.carry(given, lo[k : k + 1], hi[k : k + 1], frozenset())
            to_integers[(1,)](given, out, way, 1)
        found, least, most = session.envelope(out), rounds(lo[k]), rounds(hi[k])
        assert out.item() == rounds(float(given))
        assert found.taints or (found.lo[0] <= least and most <= found.hi[0])
        assert least < most or (not found.taints and found.lo[0] == found.hi[0] == out.item())
