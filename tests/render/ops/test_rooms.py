"""What an algorithm loses that its steps do not follow is in the bounds, whatever is known of the operands."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from render.interpreter.session import Session
from render.ops.rooms import about, unit

ROOMS = {
    "a number": lambda x: 0.1,
    "a room each": lambda x: torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64),
    "computed": lambda x: (x.double() + x.double()).abs() * 0.1,
}


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ROOMS)
def test_a_room_is_in_the_bound(name, dtype, known):
    """Of plain operands it was lost: their type, and not that of the room, says whether something is rounded."""
    x = torch.tensor([1.0, 2.0, -3.0]).to(dtype)
    session = Session(device="torch-cpu", redirect=False)
    if known:
        v = x.double().numpy()
        session.memory.carry(x, v - 0.5, v + 0.5, frozenset(), None)
    with session:
        found = session.envelope(about(x, ROOMS[name](x)))
    room = np.abs(np.asarray(ROOMS[name](x), np.float64)) + (0.5 if known else 0.0)
    v = x.double().numpy()
    assert found is not None and not found.taints
    assert (found.lo <= v - room).all() and (found.hi >= v + room).all()


def test_rooms_of_layers_are_seen():
    """One rounding of the sum of an LSTM's biases in bfloat16: all but the room lies in the other two."""
    torch.manual_seed(0)
    layer, x = torch.nn.LSTM(6, 5).to(torch.bfloat16).eval(), torch.randn(1, 2, 6).to(torch.bfloat16)
    with torch.no_grad():
        layer.weight_ih_l0.zero_()
        layer.weight_hh_l0.zero_()
        with (session := Session(device="torch-cpu", redirect=False)):
            found = session.envelope(layer(x)[1][1])
    sums = (layer.bias_ih_l0.double() + layer.bias_hh_l0.double()).detach()
    for way in (sums * (1 - unit(torch.bfloat16)), sums * (1 + unit(torch.bfloat16)), sums.bfloat16().double()):
        i, _, g, _ = way.chunk(4)
        cell = (i.sigmoid() * g.tanh()).numpy()
        assert ((found.lo <= cell) & (cell <= found.hi)).all()
