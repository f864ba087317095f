"""Loops over operands of different broadcast shapes reach the same elements as numpy's own broadcasting."""

from __future__ import annotations

import numpy as np
import pytest

from render.interpreter.memory.lanes import cut, plan
from tests.support import rng, trials


def drawn(g: np.random.Generator) -> list[np.ndarray]:
    """Operands whose axes are whole, of length 1, or broadcast by a stride of 0."""
    shape = tuple(int(n) for n in g.integers(1, 5, g.integers(1, 6)))
    found = []
    for k in range(int(g.integers(1, 4))):
        own = tuple(n if g.random() < 0.6 else 1 for n in shape)
        a = np.arange(1, np.prod(own) + 1).reshape(own) * 1000 ** (k + 1)
        found.append(np.broadcast_to(a, shape) if g.random() < 0.5 else a)
    return found


def test_the_loops_read_what_broadcasting_reads() -> None:
    g = rng(8)
    for _ in range(trials(300)):
        operands = drawn(g)
        loops, buffers = plan(operands)
        places = np.indices(loops.dims).reshape(3, -1)
        assert len(loops.dims) == 3 and places.shape[1] == loops.size
        full = np.broadcast_shapes(*(a.shape for a in operands))
        read = [buffer[stride @ places] for buffer, stride in zip(buffers, loops.strides, strict=True)]
        for a, values in zip(operands, read, strict=True):
            seen = np.broadcast_to(values.reshape(loops.shape), full)
            assert (seen == np.broadcast_to(a, full)).all()


def test_what_is_the_same_for_all_is_cut() -> None:
    a = np.broadcast_to(np.arange(3), (5, 4, 3))
    assert cut(a).shape == (1, 1, 3) and plan([a])[0].shape == (1, 1, 3)
    assert plan([a], (5, 4, 3))[0].shape == (5, 4, 3)


def test_buffers_may_be_written_to_and_operands_stay_as_they_are() -> None:
    """So that a compiled loop sees one type of array."""
    kept = np.arange(4)
    kept.setflags(write=False)
    spread = np.broadcast_to(np.arange(3), (5, 4, 3))
    _, buffers = plan([spread, kept.reshape(1, 4, 1)])
    assert all(b.flags.writeable for b in buffers) and not kept.flags.writeable and not spread.flags.writeable
    assert not np.shares_memory(buffers[1], kept)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be broadcast"):
        plan([np.zeros((2, 3)), np.zeros((2, 4))])
