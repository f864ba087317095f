"""Triton's active driver where there is no GPU: it answers from the device's description."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from render.interpreter import device
from render.interpreter.scope import PatchScope


def _properties(index: int) -> dict[str, int]:
    """As `triton.runtime.driver.active.utils.get_device_properties` gives them; clocks in kHz, sizes in bytes."""
    facts = device.current().ask("properties")
    return {
        "multiprocessor_count": facts.multiprocessors, "max_shared_mem": facts.shared_optin,
        "max_num_regs": facts.registers, "warpSize": facts.warp_size, "sm_clock_rate": facts.clock,
        "mem_clock_rate": facts.memory_clock, "mem_bus_width": facts.bus,
    }  # fmt: skip


class CpuDriver:
    """Answers what launchers ask Triton's active driver."""

    def __init__(self) -> None:
        self.utils = SimpleNamespace(get_device_properties=_properties, unload_module=lambda module: None)
        self.launcher_cls = None

    @staticmethod
    def is_active() -> bool:
        return True

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device(device.current().facts.torch_type, 0)

    def get_current_target(self) -> Any:
        device.current().ask("target")
        return device.target()

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, index: int | None = None) -> int:
        return 0

    def get_device_capability(self, index: int | None = None) -> tuple[int, int]:
        return device.current().ask("capability").capability

    def set_current_device(self, index: int) -> None:
        return None

    def get_device_interface(self) -> Any:
        import torch

        return torch.xpu if device.current().facts.backend == "xpu" else torch.cuda

    def get_empty_cache_for_benchmark(self) -> Any:
        import torch

        return torch.empty(1, dtype=torch.int32)

    def clear_cache(self, cache: Any) -> None:
        return None

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_benchmarker(self) -> Any:
        def bench(call: Any, *, quantiles: Any = None, **_: Any) -> list[float]:
            call()
            return [0.0] * len(quantiles or (0.5,))

        return bench


def _ours(cls: type, *args: Any, **kwargs: Any) -> CpuDriver:
    return CpuDriver()


@contextlib.contextmanager
def quiet_driver() -> Iterator[None]:
    """Makes `triton.runtime.driver.active` usable; for machines without a GPU.

    Who makes a driver of a backend's own class, to set it active, gets ours: theirs need the vendor's libraries.
    """
    from triton.backends import backends
    from triton.runtime import driver as module

    config = module if hasattr(module, "set_active") else module.driver
    old = config.__dict__.get("_active")
    default = config.__dict__.get("_default")
    config.__dict__["_active"] = config.__dict__["_default"] = CpuDriver()
    try:
        with PatchScope() as scope:
            for backend in backends.values():
                scope.set(backend.driver, "__new__", _ours)
            yield
    finally:
        config.__dict__["_active"], config.__dict__["_default"] = old, default
