"""Output files of torch's compiler (`async_compile.triton`, `triton_heuristics`, `call(args)`), run without a GPU.

Their kernels are Triton's, under a tuner of torch's own: it takes its first configuration and launches, as it does with
TRITON_INTERPRET, and nothing is compiled or timed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

from render.interpreter.scope import PatchScope


def _compile(module: Any, scope: PatchScope) -> None:
    def triton(self: Any, kernel_name: str, source_code: str, device_str: str = "cuda") -> Any:
        from torch._inductor.codecache import PyCodeCache

        return getattr(PyCodeCache.load(source_code), kernel_name)

    scope.set(module.AsyncCompile, "triton", triton)


def _helpers(module: Any, scope: PatchScope) -> None:
    for name in ("set_driver_to_gpu", "set_driver_to_cpu"):
        scope.set(module, name, lambda: None)


def _heuristics(module: Any, scope: PatchScope) -> None:
    def run(tuner: Any, *args: Any, stream: Any = None, benchmark_run: bool = False, **kwargs: Any) -> Any:
        config = tuner.configs[0]
        given, grid = tuner._interpret_args_grid(args, config)
        warps = {"num_warps": config.num_warps} if config.num_warps else {}
        return tuner.fn.run(*given, grid=grid, warmup=False, **kwargs, **config.kwargs, **warps)

    if hasattr(module.CachingAutotuner, "_interpret_args_grid"):  # torch 2.7
        scope.set(module.CachingAutotuner, "run", run)


def _utils(module: Any, scope: PatchScope) -> None:
    def print_performance(model: Callable[..., Any], example_inputs: Any = (), *args: Any, **kwargs: Any) -> float:
        model(*example_inputs)
        return 1.0

    scope.set(module, "print_performance", print_performance)


def _interface(module: Any, scope: PatchScope) -> None:
    """It took the stream's number from what the build lacks."""
    for kind in (module.CudaInterface, module.XpuInterface):
        scope.set(kind, "get_raw_stream", staticmethod(lambda index: 0))


LATE: Mapping[str, Callable[[Any, PatchScope], None]] = {
    "torch._dynamo.device_interface": _interface,
    "torch._inductor.async_compile": _compile,
    "torch._inductor.runtime.triton_helpers": _helpers,
    "torch._inductor.runtime.triton_heuristics": _heuristics,
    "torch._inductor.utils": _utils,
}
"""What is changed in a module of torch once somebody has imported it."""


def patch(scope: PatchScope) -> None:
    """What is there already; the rest when it is imported."""
    guards: Any = torch._C._dynamo.guards
    if hasattr(guards, "_empty_strided_cuda"):
        scope.set(guards, "_empty_strided_cuda", guards._empty_strided_cpu)
    for name, change in LATE.items():
        if name in sys.modules:
            change(sys.modules[name], scope)
