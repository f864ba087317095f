"""What both benchmarks share: CPU time of a call, alternating repeats, peak memory, the interval run."""

from __future__ import annotations

import gc
import json
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import torch


def cpu_seconds(call: Callable[[], Any]) -> float:
    """CPU time of all threads of this process (time.process_time) for one call."""
    gc.collect()
    start = time.process_time()
    call()
    return time.process_time() - start


def alternate(calls: dict[str, Callable[[], Any]], repeats: int) -> tuple[dict[str, float], dict[str, list[float]]]:
    """(first use, later samples) per call. Repeats alternate, so a drift of the machine's speed meets all calls."""
    first = {name: cpu_seconds(call) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            samples[name].append(cpu_seconds(call))
    return first, samples


def ratio(samples: dict[str, list[float]], over: str, under: str) -> float:
    """Median of the ratios of neighbouring samples."""
    return median(a / b for a, b in zip(samples[over], samples[under], strict=True))


def interval_run(
    run: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...], threads: int = 1
) -> tuple[torch.Tensor, Any]:
    """The output and its envelope under the default profile, in the memory scope of a classification."""
    from interval_ops.allocator import large_blocks_kept
    from render.interpreter.session import Session

    with large_blocks_kept():
        with Session(device="any", threads=threads) as session:
            out = run(*inputs)
        return out, session.envelope(out)


def peak_kilobytes() -> int:
    """Highest resident size of this process so far (Linux)."""
    return _status("VmHWM")


def reset_peak() -> int:
    """Starts the peak anew and returns the present resident size, in kB."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise OSError(f"/proc/self/status has no {field}")


def machine() -> dict[str, Any]:
    """What a figure depends on."""
    packages = ("numpy", "numba", "torch", "triton")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "cpus": os.cpu_count(),
        "processor": _processor(),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def write_json(path: str, rows: list[dict[str, Any]]) -> None:
    text = json.dumps({"machine": machine(), "rows": rows}, indent=2)
    if path == "-":
        print(text)
    else:
        Path(path).write_text(text + "\n")
