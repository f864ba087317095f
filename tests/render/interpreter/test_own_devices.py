"""Classes of torch that name a device: made for the CPU as torch makes them, for a GPU as a session has one."""

from __future__ import annotations

import pytest
import torch

from render.interpreter.session import Session


@pytest.mark.parametrize("name", ["Generator", "Stream", "Event"])
def test_a_class_that_names_a_gpu_is_made(name: str) -> None:
    plain = getattr(torch, name)
    with Session(device="any"):
        kind = getattr(torch, name)
        gpu = kind("cuda") if name != "Stream" else kind(device="cuda")
        assert isinstance(gpu, kind) and not isinstance(3, kind)
        if name == "Generator":
            cpu, default = kind(device="cpu"), kind()
            assert {type(cpu), type(default)} == {plain} and isinstance(cpu, kind)
            assert (str(cpu.device), gpu.device.type) == ("cpu", "cuda")
            assert kind(0).device.type == "cuda"
            assert (
                torch.rand(2, generator=gpu.manual_seed(3)).tolist()
                == torch.rand(2, generator=cpu.manual_seed(3)).tolist()
            )
    assert getattr(torch, name) is plain
