"""What a turn of a loop asks of the builder is written down, and no more than it may be."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import triton.language as tl

from render.interpreter import turn_tape
from render.interpreter.handle import Handle


def test_a_tape_that_nobody_takes_down_stops():
    """A loop that is left by an exception leaves its tape behind; what is run then is not held for ever."""
    made = Handle(np.zeros(1, np.int32), tl.int32, ())
    ctx = SimpleNamespace(
        activity=SimpleNamespace(changes=0), decisions=0, memory=SimpleNamespace(said=0), site=lambda: None
    )
    tape = turn_tape.TurnTape(SimpleNamespace(ctx=ctx, create_and=lambda x, y: made))
    for _ in range(4 * turn_tape.MOST):
        tape.create_and(made, made)
    assert turn_tape.MOST < len(tape.calls) <= turn_tape.MOST + 1
    assert not tape.complete
