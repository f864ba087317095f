"""The peak of a process, as Linux itself tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from render.judgement import memory

STATUS = Path("/proc/self/status")


@pytest.mark.skipif(not STATUS.exists(), reason="only Linux tells it there")
def test_peak_in_megabytes() -> None:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    assert memory.peak_mb() == pytest.approx(int(line.split()[1]) / 1024, rel=0.2)
