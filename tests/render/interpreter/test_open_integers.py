"""Integers that rounding leaves open: every value between the ends is covered, and nothing takes them for exact."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter.builder import Builder
from render.interpreter.builder.integers import truths
from render.interpreter.handle import Handle
from render.interpreter.open_integers import (
    choices,
    compared,
    dot,
    ends,
    integer,
)
from render.interpreter.session import Session
from tests.support import rng, trials

SOFT, NEW = frozenset([1]), frozenset([2])
STUB = Builder.__new__(Builder)
STUB.ctx = SimpleNamespace(taint=lambda *_: NEW, interval=True)
LANES = 300


def opened(v: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> Handle:
    return integer(v[None], tl.dtype(str(v.dtype)), v.shape, (lo[None], hi[None]), frozenset(), SOFT)


def drawn(g: np.random.Generator, dtype: str, width: int, small: bool) -> tuple[Handle, list[np.ndarray]]:
    """A handle and, in the rows of a list, every value that each of its lanes may have."""
    info = np.iinfo(dtype)
    reach = 8 if small else None
    low = max(info.min, -reach) if reach else info.min
    high = (min(info.max, reach) if reach else info.max) - width
    lo = g.integers(low, high, LANES, dtype=dtype, endpoint=True)
    spread = g.integers(0, width, LANES, endpoint=True).astype(dtype)
    between = [np.where(spread >= k, lo + np.asarray(k, dtype), lo) for k in range(width + 1)]
    v = lo + (g.integers(0, 1 << 30, LANES) % (spread.astype(np.int64) + 1)).astype(dtype)
    return opened(v, lo, lo + spread), between


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.array(
        [int(abs(int(x)) // abs(int(y))) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(a, b, strict=True)]
    )


BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "minsi": np.minimum, "maxsi": np.maximum, "sdiv": quotient, "srem": np.fmod,
    "icmpSLT": np.less, "icmpSLE": np.less_equal, "icmpSGT": np.greater, "icmpSGE": np.greater_equal,
    "icmpEQ": np.equal, "icmpNE": np.not_equal,
}  # fmt: skip
SIGNED = {"minsi", "maxsi", "sdiv", "srem", "icmpSLT", "icmpSLE", "icmpSGT", "icmpSGE"}
"""Instructions that read the bits of any operand as a number with a sign."""
MONOTONE = {"add", "sub", "mul", "minsi", "maxsi"}


def covers(out: Handle, values: list[np.ndarray]) -> bool:
    """Whether the ends of a result hold all these; a result that is tainted claims nothing."""
    lo, hi = truths(out) if out.dtype.is_int1() else ends(out)
    assert ((lo <= out.v) & (out.v <= hi)).all()
    return all(bool(((lo[0] <= x) & (x <= hi[0])).all()) for x in values)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("seed", range(trials(2)))
def test_every_combination_is_covered(name, dtype, seed):
    g = rng(seed)
    for width, small in product((1, 4), (True, False)):
        x, of_x = drawn(g, dtype, width, small)
        y, of_y = drawn(g, dtype, width, small)
        if name in ("sdiv", "srem"):
            y, of_y = (opened(*(np.abs(end[0]) // 4 + np.asarray(3, dtype) for end in (y.v, y.v, y.v))), [])
            of_y = [y.v[0]]
            if not small and dtype != "uint8":
                continue  # |min| wraps
        out = getattr(Builder, f"create_{name}")(STUB, x, y)
        hard = out.taint - (out.open.soft if out.open else frozenset())
        if out.dtype.is_int1():
            assert not hard
        elif small and (width == 1 or (name in MONOTONE and dtype not in ("int8", "uint8"))):
            assert not hard, "needlessly given up"
        if not hard:
            with np.errstate(over="ignore"):
                as_read = np.int8 if dtype == "uint8" and name in SIGNED else np.dtype(dtype)
                every = [BINARY[name](a.view(as_read), b.view(as_read)) for a, b in product(of_x, of_y)]
            assert covers(out, [e if e.dtype == bool else e.astype(as_read).astype(dtype) for e in every])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("seed", range(trials(2)))
def test_one_operand(dtype, seed):
    g = rng(seed)
    for width, small in product((1, 4), (True, False)):
        x, of_x = drawn(g, dtype, width, small)
        cases = [(Builder.create_iabs(STUB, x), [np.abs(a) for a in of_x])]
        for to in ("int8", "int32", "uint16", "int64"):
            cases.append((Builder.create_int_cast(STUB, x, tl.dtype(to)), [a.astype(to) for a in of_x]))
        cases.append((Builder.create_int_cast(STUB, x, tl.int1), [a != 0 for a in of_x]))
        by = Handle(np.array([[2]], dtype), x.dtype, x.shape)
        cases.append((Builder.create_shl(STUB, x, by), [np.left_shift(a, by.v[0]) for a in of_x]))
        sign = f"i{np.dtype(dtype).itemsize}"
        arithmetic = [(a.view(sign) >> by.v[0].view(sign)).view(dtype) for a in of_x]
        cases.append((Builder.create_ashr(STUB, x, by), arithmetic))
        unsigned = f"u{np.dtype(dtype).itemsize}"
        logical = [(a.view(unsigned) >> by.v[0].view(unsigned)).view(dtype) for a in of_x]
        cases.append((Builder.create_lshr(STUB, x, by), logical))
        if width == 1:
            assert not any(out.taint - (out.open.soft if out.open else frozenset()) for out, _ in cases[1:])
        for out, every in cases:
            if not out.taint - (out.open.soft if out.open else frozenset()):
                assert covers(out, every)


@pytest.mark.parametrize("condition", ["decided", "open"])
def test_selects(condition):
    g = rng(3)
    (x, of_x), (y, of_y) = drawn(g, "int32", 4, True), drawn(g, "int32", 4, True)
    sure = g.random(LANES) < 0.5
    possible = sure | (g.random(LANES) < 0.5) if condition == "open" else sure
    cond = Handle(sure[None], tl.int1, (LANES,), *((sure[None], possible[None]) if condition == "open" else ()))
    out = Builder.create_select(STUB, cond, x, y)
    lo, hi = ends(out)
    for a, b in product(of_x, of_y):
        one, two = np.where(sure, a, b), np.where(possible, a, b)
        assert ((lo[0] <= one) & (one <= hi[0]) & (lo[0] <= two) & (two <= hi[0])).all()
    assert not out.taint - out.open.soft


def test_a_taint_of_another_origin_stays():
    """What the ends do not account for is not shed with them, not even under the same name."""
    x = opened(np.array([3], np.int32), np.array([3], np.int32), np.array([4], np.int32))
    point = Handle(np.array([[7]], np.int32), tl.int32, (1,), taint=SOFT)
    out = Builder.create_add(STUB, x, point)
    assert out.taint == SOFT and out.open is None


@triton.jit
def quantize(X, Q, S, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(X + i)
    scale = tl.max(tl.abs(x), 0) / 7.0
    q = tl.math.floor(x / scale + 0.5).to(tl.int8)
    tl.store(Q + i, q)
    tl.store(S + tl.program_id(0), scale)


@triton.jit
def dequantize(Q, S, Y, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(Y + i, tl.load(Q + i).to(tl.float32) * tl.load(S + tl.program_id(0)))


def edges() -> torch.Tensor:
    """Two rows whose quotients by the scale hit halves exactly, so that rounding decides which integer they become."""
    row = torch.tensor([7.0, 0.5, 1.5, -2.5, 3.0, 0.25, 6.5, -7.0])
    return torch.stack([row * 0.3, row * 1.1])


def test_quantized_values_have_bounds_and_no_taint():
    x, q, s = edges(), torch.empty(2, 8, dtype=torch.int8), torch.empty(2)
    with Session(device="sm_90") as session:
        quantize[(2,)](x, q, s, N=8)
    env = session.envelope(q)
    assert not env.taints
    halves = np.array([[1, 2, 3, 6]] * 2)
    width = env.hi - env.lo
    assert (np.take_along_axis(width, halves, 1) == 1).all() and width.sum() == 8
    exact = torch.floor(x.double() / (x.double().abs().amax(1, keepdim=True) / 7) + 0.5).numpy()
    assert ((env.lo <= exact) & (exact <= env.hi)).all()


def test_bounds_pass_through_memory_and_host_code():
    x, q, s, y = edges(), torch.empty(2, 8, dtype=torch.int8), torch.empty(2), torch.empty(2, 8)
    with Session(device="sm_90") as session:
        quantize[(2,)](x, q, s, N=8)
        again = torch.flip(q, [1])
        dequantize[(2,)](torch.flip(again, [1]), s, y, N=8)
        on_host = q.float() * s[:, None]
        lost = q.sum()
    for t in (y, on_host):
        env = session.envelope(t)
        assert not env.taints
        assert (
            (env.hi - env.lo > 0.9 * s.numpy()[:, None]) == (session.envelope(q).hi != session.envelope(q).lo)
        ).all()
    assert session.envelope(lost).taints


@triton.jit
def uses(X, Places, Out, Packed, Count, Which, LIMIT, KIND: tl.constexpr):
    i = tl.arange(0, 8)
    x = tl.load(X + i)
    third = x / 3.0
    n = (third * 3.0).to(tl.int32)
    if KIND == "pack":
        tl.store(Packed + i, (n & 15) | ((n + 1) << 4))
    elif KIND == "address":
        tl.store(Out + i, tl.load(X + (n & 7)))
    elif KIND == "atomic":
        tl.atomic_add(Count + i, n)
    elif KIND == "count":
        tl.store(Count, tl.sum((third * 3.0 >= x).to(tl.int32), 0))
    elif KIND == "branch":
        if tl.sum(n, 0) > LIMIT:
            tl.store(Out + i, x)
    elif KIND == "loop":
        for k in range(tl.max(n, 0)):
            tl.store(Out + i, x + k)
    elif KIND == "bits":
        tl.store(Out + i, n.to(tl.float32, bitcast=True))
    elif KIND == "argmax":
        _, at = tl.max(third * 3.0, 0, return_indices=True)
        tl.store(Which, at)
    elif KIND == "exact afterwards":
        tl.store(Packed + i, n)
        tl.store(Packed + i, i)


def used(kind: str, limit: int = 30) -> dict[str, object]:
    x = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 7.0])
    tensors = {"Out": torch.zeros(8), "Packed": torch.zeros(8, dtype=torch.int32),
               "Count": torch.zeros(8, dtype=torch.int32), "Which": torch.zeros(1, dtype=torch.int32)}  # fmt: skip
    with Session(device="any") as session:
        uses[(1,)](x, torch.zeros(8, dtype=torch.int32), *tensors.values(), limit, KIND=kind)
    return {name: session.envelope(t) for name, t in tensors.items()}


def test_packing_by_bits_keeps_every_combination():
    env = used("pack")["Packed"]
    assert not env.taints
    for k, x in enumerate([1, 2, 3, 4, 5, 6, 7, 7]):
        for n in (x - 1, x):
            for m in (x - 1, x):
                assert env.lo[k] <= ((n & 15) | ((m + 1) << 4)) <= env.hi[k]


@pytest.mark.parametrize(
    ("kind", "name"),
    [("atomic", "Count"), ("branch", "Out"), ("loop", "Out"), ("bits", "Out")],
)
def test_what_has_no_rule_for_open_integers_is_tainted(kind, name):
    assert used(kind)[name].taints


def test_a_branch_that_all_values_decide_is_not():
    assert not used("branch", 20)["Out"].taints  # the sum lies in 27 .. 35


def test_truths_that_are_counted():
    env = used("count")["Count"]
    assert not env.taints and env.lo[0] == 0 and env.hi[0] == 8


def test_an_open_index_lies_between_all_that_may_win():
    env = used("argmax")["Which"]
    assert not env.taints and (env.lo[0], env.hi[0]) == (6, 7)


def test_an_exact_store_ends_it():
    env = used("exact afterwards")["Packed"]
    assert not env.taints
    np.testing.assert_array_equal(env.lo, np.arange(8))
    np.testing.assert_array_equal(env.hi, np.arange(8))


@pytest.mark.parametrize("bound", [(-200.0, -100.0), (100.0, 200.0), (0.0, np.nan), (0.0, np.inf)])
def test_a_range_that_the_type_does_not_hold_is_tainted(bound):
    v = np.array([[50.0]], np.float32)
    x = Handle(v, tl.float32, (1,), *(np.array([[end]]) for end in bound))
    out = Builder.create_fp_to_si(STUB, x, tl.int8)
    assert out.open is None and out.taint == NEW


@pytest.mark.parametrize("seed", range(trials(4)))
def test_dots_of_open_integers(seed):
    g = rng(seed)
    lows = [g.integers(-128, 120, shape) for shape in ((3, 5), (5, 4))] + [g.integers(-1000, 1000, (3, 4))]
    widths = [g.integers(0, 4, low.shape) for low in lows]
    pairs = [(low, low + width) for low, width in zip(lows, widths, strict=True)]
    lo, hi = dot(*pairs)
    for k in range(200):
        a, b, c = (low + g.integers(0, 2**20, low.shape) % (width + 1) if k > 8 else low + width * (k >> i & 1)
                   for i, (low, width) in enumerate(zip(lows, widths, strict=True)))  # fmt: skip
        assert ((lo <= c + a @ b) & (c + a @ b <= hi)).all()
    points = dot(*((low, low) for low in lows))
    np.testing.assert_array_equal(points[0], lows[2] + lows[0] @ lows[1])
    np.testing.assert_array_equal(points[1], points[0])


def test_a_dot_that_may_leave_int32_has_no_ends():
    ones = np.full((1, 200_000), 127), np.full((1, 200_000), 128)
    assert dot(ones, tuple(x.T for x in ones), (np.zeros((1, 1)),) * 2) is None


@triton.jit
def places(X, Which, LOW: tl.constexpr):
    row, i = tl.arange(0, 4), tl.arange(0, 8)
    x = tl.exp(tl.load(X + row[:, None] * 8 + i[None, :]))
    x = x / tl.sum(x, 1)[:, None]
    at = tl.argmin(x, 1) if LOW else tl.argmax(x, 1)
    tl.store(Which + row, at)


@pytest.mark.parametrize("low", [False, True])
def test_the_place_of_an_extreme_by_row(low):
    """One winner; two that tie; a row with NaN, where any may win; all equal."""
    x = torch.zeros(4, 8)
    x[0, 3], x[1, [2, 6]], x[2, 4] = 1.0, 1.0, float("nan")
    which = torch.zeros(4, dtype=torch.int32)
    with Session(device="any") as session:
        places[(1,)](-x if low else x, which, LOW=low)
    env = session.envelope(which)
    assert not env.taints
    assert list(zip(env.lo.tolist(), env.hi.tolist(), strict=True)) == [(3, 3), (2, 6), (0, 7), (0, 7)]


@triton.jit
def stored(X, N):
    i = tl.arange(0, 8)
    tl.store(N + i, (tl.load(X + i) / 3.0 * 3.0).to(tl.int32))


@triton.jit
def counted(N, Old, New):
    i = tl.arange(0, 8)
    tl.store(Old + i, tl.atomic_add(N + i, 1))
    tl.store(New + i, tl.load(N + i))


def test_atomics_on_open_integers_taint_what_they_return_and_move_what_they_leave():
    n, old, new = (torch.zeros(8, dtype=torch.int32) for _ in range(3))
    with Session(device="any") as session:
        stored[(1,)](torch.arange(1.0, 9.0), n)
        open_ = session.envelope(n)
        counted[(1,)](n, old, new)
        left = session.envelope(n)
    assert not open_.taints and (open_.lo < open_.hi).any()
    assert session.envelope(old).taints and not left.taints
    assert (left.lo == open_.lo + 1).all() and (left.hi == open_.hi + 1).all()
    assert (session.envelope(new).lo <= left.lo).all() and (session.envelope(new).hi >= left.hi).all()


def test_bytes_of_open_integers_read_as_another_type_are_tainted():
    n, out = torch.zeros(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int16)
    with Session(device="any") as session:
        stored[(1,)](torch.arange(1.0, 9.0), n)
        copied[(1,)](n.view(torch.int16), out)
    assert session.envelope(out).taints


@triton.jit
def copied(X, Y):
    i = tl.arange(0, 8)
    tl.store(Y + i, tl.load(X + i))


@triton.jit
def choose(X, Places, Counts, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(X + i) / 3.0 * 3.0
    tl.store(Places + i, tl.where(x > 1.0, 0, 5))
    tl.store(Counts + i, (x * 1e9).to(tl.int32))


@triton.jit
def look_up(Places, Data, Out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Out + i, tl.load(Data + tl.load(Places + i)))


def test_memory_keeps_the_candidates_of_an_integer_and_the_ends_of_one_that_has_many():
    """1 / 3 * 3 may be greater than 1 or not: the place is 0 or 5, and none between."""
    x = torch.tensor([1.0, 2.0, 0.5, 1.0])
    places, counts, y = torch.empty(4, dtype=torch.int32), torch.empty(4, dtype=torch.int32), torch.empty(4)
    data = torch.tensor([2.0, 1e6, 1e6, 1e6, 1e6, 3.0])
    with Session(device="sm_90") as session:
        choose[(1,)](x, places, counts, N=4)
        look_up[(1,)](places, data, y, N=4)
    env, many = session.envelope(y), session.envelope(counts)
    assert not env.taints
    assert (env.lo.tolist(), env.hi.tolist()) == ([2, 2, 3, 2], [3, 2, 3, 3])
    assert not many.taints
    width = many.hi - many.lo
    assert ((width > 32) & (width < 2048)).all()
    exact = x.double().numpy() * 1e9
    assert ((many.lo <= exact) & (exact <= many.hi)).all()


COMPARISONS = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
               "ne": np.not_equal}  # fmt: skip


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("apart", [False, True])
def test_a_comparison_is_sure_or_possible_as_its_candidates_say(name: str, apart: bool) -> None:
    """`apart`: candidates with gaps between them, of which only equality makes use."""
    g = rng(17)
    for widths in ((0, 3), (3, 0), (2, 2), (40, 1)):
        (x, xs), (y, ys) = (drawn(g, "int32", w, True) if w < 30 else drawn(g, "int32", w, False) for w in widths)
        if apart and 0 < widths[0] < 30:
            x = doubled(x)
            xs = [2 * v for v in xs]
        sure, possible = (np.broadcast_to(e, (1, LANES))[0] for e in compared(name, x, y))
        seen = np.array([COMPARISONS[name](a, b) for a, b in product(xs, ys)])
        assert (sure <= seen.all(0)).all() and (possible >= seen.any(0)).all()
        gaps = apart and 0 < widths[0] < 30
        if not gaps or name in ("eq", "ne"):
            assert np.array_equal(possible, seen.any(0)) and np.array_equal(sure, seen.all(0))


def doubled(x: Handle) -> Handle:
    lo, hi = ends(x)
    among = choices(x)
    assert among is not None
    return integer(2 * x.v, x.dtype, x.shape, (2 * lo, 2 * hi), frozenset(), SOFT, [2 * a for a in among])
