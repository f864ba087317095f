"""Code that was run once need not stay mapped, and runs again when it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import torch
from render.lab.replay.pages import _code, forget_code

def mapped():
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith(("Private_Clean", "Shared_Clean")))

a = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
before, found = mapped(), (a @ a).sum().item()
assert any(end - start > 2**20 for start, end in _code())
forget_code()
after = mapped()
assert after < before - 10_000, (before, after)
assert (a @ a).sum().item() == found
print("same")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="maps of a process are Linux")
def test_code_is_unmapped_and_comes_back():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert done.stdout == "same\n", done.stderr
