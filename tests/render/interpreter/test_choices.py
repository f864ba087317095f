"""Decisions that bounds leave open, one way at a time."""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl

from interval_ops.profiles.profile import CAUSES
from render.interpreter.choices import BRANCHES, Choices
from render.interpreter.session import Session


class Place:
    file, line = "f.py", 1


def orders(x, width, what):
    found = []
    for turn in range(4):
        session = Session(choice=turn)
        y = x.clone()
        with session:
            session.memory.carry(y, y.double().numpy() - width, y.double().numpy() + width, frozenset(), None)
            found.append(what(y).clone())
    return found


def test_every_order_of_two_that_tie_is_taken_and_no_other():
    x = torch.tensor([1.0, 1.0625, 5.0, 9.0, 9.03125])
    found = [tuple(o.tolist()) for o in orders(x, 0.125, lambda y: y.argsort())]
    assert found[0] == (0, 1, 2, 3, 4) and {o[:2] for o in found} == {(0, 1), (1, 0)}
    assert {o[3:] for o in found} == {(3, 4), (4, 3)} and {o[2] for o in found} == {2}


def test_the_values_go_with_the_places():
    x = torch.tensor([[1.0, 1.0625, 5.0], [7.0, 2.0, 2.03125]])
    for turn in range(4):
        session, y = Session(choice=turn), x.clone()
        with session:
            wide = y.double().numpy()
            session.memory.carry(y, wide - 0.125, wide + 0.125, frozenset(), None)
            best, at = y.topk(2, 1)
            low, place = y.min(1)
            assert torch.equal(best, x.gather(1, at)) and torch.equal(low, x.gather(1, place[:, None])[:, 0])
            bounds = session.envelope(best)
        assert np.array_equal(bounds.lo, best.double().numpy() - 0.125) and not bounds.taints
        assert session.memory.choices.met


def test_a_mask_and_what_it_picks():
    x = torch.tensor([0.0, 0.5, 0.53125, 1.0])
    found = orders(x, 0.125, lambda y: (y > 0.5).nonzero()[:, 0])
    assert found[0].tolist() == [2, 3] and all(o[-1] == 3 and 0 not in o for o in found)
    assert len({tuple(o.tolist()) for o in found}) > 1


def test_a_loop_that_waits_for_an_open_comparison_ends():
    choices = Choices(1)
    answers = [choices.truth(False, Place) for _ in range(2 * BRANCHES)]
    assert answers == [True] * BRANCHES + [False] * BRANCHES and Choices(0).truth(True, Place)


@triton.jit
def nearest(X, C, Out, N: tl.constexpr):
    i, n = tl.program_id(0), tl.arange(0, N)
    away = tl.load(C + n) - tl.load(X + i)
    tl.store(Out + i, tl.load(C + tl.argmin(away * away + 256.0, 0)))


def test_without_rounding_exact_values_decide():
    """In float32 both codes are at the same distance and the first wins; the second is nearer."""
    x, codes = torch.tensor([0.5 + 2.0**-20]), torch.tensor([0.0, 1.0])
    found = []
    for mute in ((), CAUSES):
        session, out = Session(mute=mute), torch.empty(1)
        with session:
            nearest[(1,)](x, codes, out, 2)
            picked = codes[(-(codes - x).square() - 256.0 + 0.0 * out).argmax()[None]]
        ends = session.envelope(out)
        found.append((float(out), float(ends.lo[0]), float(ends.hi[0])))
    assert found[0] == (0.0, 0.0, 1.0) and found[1][1:] == (1.0, 1.0) and float(picked) == 1.0


def test_a_number_within_its_bounds_is_the_value_an_end_or_the_middle():
    value, pair = np.array([1.5, 2.0, 3.0]), (np.array([1.0, 2.0, -np.inf]), np.array([2.0, 2.5, 4.0]))
    lower = np.array([True, False, True])
    assert Choices(0).within(value, pair, lower).tolist() == [1.5, 2.0, 3.0]
    assert Choices(1).within(value, pair, lower).tolist() == [1.0, 2.5, 3.0]
    assert Choices(2).within(value, pair, lower).tolist() == [2.0, 2.0, 4.0]
    assert Choices(-1).within(value, pair, lower).tolist() == [1.5, 2.25, 3.0]
    many, ends = np.zeros(400), (np.full(400, -1.0), np.full(400, 1.0))
    drawn = [Choices(turn).within(many, ends, lower[:1]) for turn in (3, 4)]
    assert all(set(d.tolist()) == {-1.0, 1.0} and abs(d.mean()) < 0.3 for d in drawn)
    assert not np.array_equal(*drawn) and np.array_equal(drawn[0], Choices(3).within(many, ends, lower[:1]))


def test_lanes_of_a_block_take_turns_and_points_stay():
    place = Place()
    value, lo, hi = (np.array([x], np.int32) for x in ([2, 2, 5, 7], [1, 1, 5, 7], [3, 3, 5, 9]))
    for turn, wanted in ((0, [2, 2, 5, 7]), (1, [1, 3, 5, 9]), (2, [3, 1, 5, 7])):
        choices = Choices(turn)
        found = choices.of_lanes(place, value, (lo, hi))
        assert found.tolist() == [wanted] and found.dtype == np.int32
        assert choices.met == {("f.py", 1): 3}
    exact = Choices(-1)
    assert exact.of_lanes(place, np.array([[0, 2, 6, 7]], np.int32), (lo, hi)).tolist() == [[1, 2, 5, 7]]
    assert exact.met == {("f.py", 1): 4}
    floats = Choices(-1).of_lanes(place, value.astype(np.float32), (lo.astype(float), hi.astype(float)))
    assert floats.tolist() == [[2.0, 2.0, 5.0, 8.0]] and floats.dtype == np.float32


def test_an_open_comparison_goes_the_other_way_for_a_while():
    for turn in (-1, 0, 1, 2):
        choices = Choices(turn)
        found = [choices.truth(True, Place()) for _ in range(BRANCHES + 2)]
        assert found == [turn <= 0] * BRANCHES + [True, True]
        assert choices.met == {("f.py", 1): BRANCHES + 2}
