"""Logs of DebugMode: the first operation beyond round-off has a name, and hashes say equal or unequal."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import render
from render.network.logs import first_unequal
from render.result.errors import RenderError

debug = pytest.importorskip("torch.utils._debug_mode", reason="this torch has no DebugMode")


def logged(model: nn.Module, x: torch.Tensor, tensors: bool = True):
    hashes = debug.DebugMode.log_tensor_hashes(hash_inputs=True)
    with torch.no_grad(), debug.DebugMode(store_original_args=tensors) as log, hashes:
        if tensors:
            with debug.DebugMode.record_outputs():
                model(x)
        else:
            model(x)
    return log


def net(eps: float = 1e-5, approximate: str = "none") -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 16), nn.GELU(approximate), nn.LayerNorm(16, eps), nn.Linear(16, 4)).eval()


def test_two_logs_of_round_off():
    x = torch.randn(6, 16)
    wide = net()
    found = render.compare_models(logged(wide, x), logged(net(), x * (1 + 2.0**-23)))
    assert (found.label, found.first) == ("Type-I", None), found.message
    assert any(r.differing for r in found.leaves)


@pytest.mark.parametrize(
    ("change", "where"), [({"eps": 1e-2}, "native_layer_norm 0"), ({"approximate": "tanh"}, "gelu 0")]
)
def test_the_first_operation_beyond_round_off_has_a_name(change, where):
    x = torch.randn(6, 16)
    found = render.compare_models(logged(net(**change), x), logged(net(), x))
    assert (found.label, found.first) == ("Type-II", where), found.message


def test_hashes_say_equal_or_unequal():
    x = torch.randn(6, 16)
    logs = [logged(m, x, tensors=False) for m in (net(), net(), net(eps=1e-2))]
    assert first_unequal(logs[0], logs[1]) is None
    assert "native_layer_norm" in str(first_unequal(logs[0], logs[2]))
    with pytest.raises(RenderError, match="no tensors"):
        render.compare_models(logs[0], logs[2])
