"""Host code that runs the vendor's command learns what torch says of the device; outside, nothing is left behind."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
import torch

import render
from render.interpreter.cuda_redirect import has_gpu

pytestmark = pytest.mark.skipif(has_gpu(), reason="there is a GPU, whose own command answers")


def said(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("device", ["any", "sm_90", "sm_120"])
def test_the_command_and_torch_agree(device):
    with render.no_gpu(device):
        name, (major, minor) = torch.cuda.get_device_name(), torch.cuda.get_device_capability()
        asked = "--query-gpu=name,compute_cap,index,driver_model.pending"
        assert said("nvidia-smi", asked, "--format=csv,noheader") == f"{name}, {major}.{minor}, 0, [N/A]"
        assert said("nvidia-smi", "-L").startswith(f"GPU 0: {name}")
        total = torch.cuda.get_device_properties(0).total_memory >> 20
        assert said("nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits") == str(total)


def test_each_vendor_has_its_own_and_the_innermost_counts():
    before, stock = os.environ["PATH"], shutil.which("nvidia-smi")
    with render.no_gpu("gfx942"):
        assert shutil.which("rocm-smi") and shutil.which("nvidia-smi") == stock
        with render.no_gpu("sm_90"):
            assert torch.cuda.get_device_name() in said("nvidia-smi")
            os.environ["PATH"] += os.pathsep + "/added"
    assert os.environ["PATH"] == before + os.pathsep + "/added"
    os.environ["PATH"] = before
