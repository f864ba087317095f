"""Runs packaged kernels under Triton's own interpreter: `TRITON_INTERPRET=1 python stock.py OUT.pt KERNEL...`.

The stock interpreter needs help with launchers (a GPU's name, the autotuner, grids that are lists); the kernels
themselves run as they are.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import torch
import triton
import triton.runtime.interpreter as interpreter
from torch.overrides import TorchFunctionMode
from triton.runtime.autotuner import Autotuner

from tests.kernels.cases import CASES, call, load

SEED = 3


class OnCpu(TorchFunctionMode):
    """device="cuda" means the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


def patch() -> None:
    triton.runtime.driver.set_active(
        SimpleNamespace(
            get_active_torch_device=lambda: torch.device("cpu"),
            get_benchmarker=lambda: lambda *a, **k: [0.0],
            utils=SimpleNamespace(get_device_properties=lambda index: {"multiprocessor_count": 4}),
        )
    )
    run, build = Autotuner.run, interpreter.GridExecutor.__init__

    def first_config(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.configs = self.configs[:1]
        return run(self, *args, **kwargs)

    def tuple_grid(self: Any, fn: Any, names: Any, grid: Any, *rest: Any) -> None:
        build(self, fn, names, (lambda meta: tuple(grid(meta))) if callable(grid) else tuple(grid), *rest)

    Autotuner.run, interpreter.GridExecutor.__init__ = first_config, tuple_grid


def main(out: str, *kernels: str) -> None:
    patch()
    results = {}
    with OnCpu():
        for case in (case for case in CASES if case.kernel in kernels):
            module = load(case.path)
            torch.manual_seed(SEED)
            results[case.kernel] = [t.clone() for t in call(getattr(module, case.entry), module.make_inputs())]
    torch.save(results, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
