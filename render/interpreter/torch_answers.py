"""What torch answers about a GPU where there is none: from the device's description, one object for each name.

A build of torch without CUDA lacks names of `torch._C` that `torch.cuda` is written on. They are supplied, so that
torch's own code runs on them; only classes and what is bound at import are replaced in `torch.cuda` itself. Each name
gets an object of its own and of the original's kind: torch's compiler refuses to import where two names are one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch

from render.interpreter import device
from render.interpreter.graphs import Capture, Graph
from render.interpreter.scope import Names, PatchScope

_QUIET = (
    "init", "setDevice", "synchronize", "emptyCache", "ipc_collect", "sleep", "setStream", "resetPeakMemoryStats",
    "resetAccumulatedMemoryStats", "resetPeakHostMemoryStats", "resetAccumulatedHostMemoryStats", "setMemoryFraction",
    "set_sync_debug_mode", "lock_mutex", "unlock_mutex", "clearCublasWorkspaces", "cudaCachingAllocator_enable",
    "record_memory_history", "setMemoryMetadata", "attach_out_of_memory_observer",
)  # fmt: skip
_ZERO = (
    "getDevice", "exchangeDevice", "maybeExchangeDevice", "getCurrentRawStream", "getCurrentBlasHandle",
    "getCurrentSolverHandle", "get_sync_debug_mode",
)  # fmt: skip
_FALSE = (
    "canDeviceAccessPeer", "isCurrentStreamCapturing", "isHistoryEnabled", "hasPrimaryContext",
    "tunableop_is_enabled", "tunableop_tuning_is_enabled",
)  # fmt: skip
_STATISTICS = (
    "allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes",
    "inactive_split_bytes", "requested_bytes",
)  # fmt: skip


def answer(name: str, give: Callable[..., Any], module: str = "torch._C") -> Any:
    """A function of its own, called as the one that it stands for."""

    def function(*args: Any, **kwargs: Any) -> Any:
        return give(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    return function


def _always(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


def _properties(index: Any = None) -> SimpleNamespace:
    facts = device.current().ask("properties")
    hip = facts.backend == "hip"
    return SimpleNamespace(
        name=facts.part, major=facts.capability[0], minor=facts.capability[1], total_memory=facts.memory,
        multi_processor_count=facts.multiprocessors, warp_size=facts.warp_size,
        shared_memory_per_block=facts.shared_block, shared_memory_per_block_optin=facts.shared_optin,
        shared_memory_per_multiprocessor=facts.shared_multiprocessor, regs_per_multiprocessor=facts.registers,
        max_threads_per_multi_processor=facts.threads, max_threads_per_block=1024, L2_cache_size=facts.l2,
        is_integrated=int(facts.integrated), is_multi_gpu_board=0, gcnArchName=facts.arch if hip else "",
        uuid="00000000-0000-0000-0000-000000000000", pci_bus_id=0, pci_device_id=0, pci_domain_id=0,
        clock_rate=facts.clock, memory_clock_rate=facts.memory_clock, memory_bus_width=facts.bus,
        # what Intel's devices are asked besides
        type="gpu", platform_name="", vendor="Intel(R) Corporation", driver_version="", version="",
        max_compute_units=facts.multiprocessors, gpu_eu_count=8 * facts.multiprocessors, gpu_subslice_count=0,
        max_work_group_size=1024, max_num_sub_groups=64, sub_group_sizes=[16, 32], has_fp16=1, has_fp64=1,
        has_atomic64=1, local_mem_size=facts.shared_optin,
    )  # fmt: skip


def _memory_stats(index: Any = None) -> dict[str, Any]:
    pools = ("all", "small_pool", "large_pool")
    counters = ("current", "peak", "allocated", "freed")
    found: dict[str, Any] = {s: {p: dict.fromkeys(counters, 0) for p in pools} for s in _STATISTICS}
    found |= {name: dict.fromkeys(counters, 0) for name in ("oversize_allocations", "oversize_segments")}
    return found | {"num_alloc_retries": 0, "num_ooms": 0, "num_device_alloc": 0, "num_device_free": 0}


def _c_names() -> dict[str, Callable[..., Any]]:
    """Names of `torch._C` that a CUDA build has."""
    streams = {f"_cuda_{name}": _always((0, 0, 1)) for name in ("getCurrentStream", "getDefaultStream")}
    return {
        **{f"_cuda_{name}": _always(None) for name in _QUIET},
        **{f"_cuda_{name}": _always(0) for name in _ZERO},
        **{f"_cuda_{name}": _always(False) for name in _FALSE},
        **streams,
        "_cuda_getDeviceCount": lambda: int(device.current().facts.backend != "xpu"),
        "_xpu_getDeviceCount": lambda: int(device.current().facts.backend == "xpu"),
        "_cuda_getArchFlags": lambda: device.current().ask("architectures").arch,
        "_cuda_getAllocatorBackend": _always("native"),
        "_cuda_getMemoryFraction": _always(1.0),
        "_cuda_getStreamFromExternal": lambda pointer, index=0: (pointer, 0, 1),
        "_cuda_memoryStats": _memory_stats,
        "_cuda_hostMemoryStats": _always({}),
        "_cuda_memorySnapshot": lambda *a: {"segments": [], "device_traces": []},
        "_cuda_getCompiledVersion": _always(12080),
        "_accelerator_getAccelerator": lambda: torch.device(device.current().facts.torch_type),
        "_accelerator_getDeviceIndex": _always(0),
        "_accelerator_setDeviceIndex": _always(None),
        "_accelerator_exchangeDevice": _always(0),
        "_accelerator_maybeExchangeDevice": _always(0),
        "_accelerator_synchronizeDevice": _always(None),
        "_accelerator_getStream": lambda index=0: torch.cuda.current_stream(),
        "_accelerator_setStream": _always(None),
        "_accelerator_emptyCache": _always(None),
        "_accelerator_emptyHostCache": _always(None),
        "_accelerator_isAllocatorInitialized": _always(True),
        "_accelerator_getDeviceStats": _memory_stats,
        "_accelerator_resetPeakStats": _always(None),
        "_accelerator_resetAccumulatedStats": _always(None),
        "_accelerator_getMemoryInfo": lambda index=0: (device.current().facts.memory,) * 2,
        "_accelerator_getDeviceCapability": lambda index=0: {"supported_dtypes": set()},
    }


def _module_names() -> dict[str, Callable[..., Any]]:
    """Names that `torch.cuda` and `torch.xpu` share, and that hold state or were bound at import."""
    return {
        "device_count": _always(1),
        "current_device": _always(0),
        "synchronize": _always(None),
        "empty_cache": _always(None),
        "set_device": _always(None),
        "_exchange_device": _always(0),
        "_maybe_exchange_device": _always(0),
        "_get_device_properties": _properties,
        "is_current_stream_capturing": _always(False),
        "get_stream_from_external": lambda pointer, index=None: torch.cuda.Stream(stream_ptr=pointer),
        "mem_get_info": lambda index=None: (device.current().facts.memory,) * 2,
        "graph_pool_handle": _always((0, 0)),
        "make_graphed_callables": lambda callables, *args, **kwargs: callables,
        "cudart": lambda: _RUNTIME,
    }


def _cuda_names() -> dict[str, Callable[..., Any]]:
    return {
        "device_count": lambda: int(device.current().facts.backend != "xpu"),
        "get_device_name": lambda index=None: device.current().ask("name").part,
        "get_device_capability": lambda index=None: device.current().ask("capability").capability,
        "is_bf16_supported": lambda including_emulation=True: (
            including_emulation or device.current().ask("capability").capability[0] >= 8
        ),
        **{name: _always(0.0) for name in ("utilization", "temperature", "power_draw", "clock_rate", "memory_usage")},
    }


def _xpu_names() -> dict[str, Callable[..., Any]]:
    here = lambda: device.current().facts.backend == "xpu"  # noqa: E731
    return {
        "is_available": here,
        "device_count": lambda: int(here()),
        "_is_compiled": here,
        "get_device_properties": _properties,
        "get_device_name": lambda index=None: device.current().ask("name").part,
        "get_device_capability": lambda index=None: vars(_properties()),
        "is_bf16_supported": _always(True),
        "get_arch_list": lambda: [device.current().ask("architectures").arch],
        "current_stream": lambda index=None: torch.xpu.Stream(),
        "set_stream": _always(None),
        "memory_stats": _memory_stats,
        **{name: _always(0) for name in ("memory_allocated", "max_memory_allocated", "memory_reserved",
                                         "max_memory_reserved")},
        "reset_peak_memory_stats": _always(None),
        "reset_accumulated_memory_stats": _always(None),
    }  # fmt: skip


_RUNTIME = SimpleNamespace(
    cudaMemGetInfo=lambda index=0: (device.current().facts.memory,) * 2, cudaProfilerStart=_always(0),
    cudaProfilerStop=_always(0), cudaHostRegister=_always(0), cudaHostUnregister=_always(0),
    cudaGetDeviceCount=_always(1), cudaDeviceSynchronize=_always(0),
)  # fmt: skip


class _Nothing:
    """Whatever is asked of it is a function that does nothing."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return _always(0)


def _classes(kind: str) -> Iterator[tuple[str, type]]:
    """Streams, events and graphs, made anew for each scope: subclasses of torch's, which no CPU build can construct."""
    module = getattr(torch, kind)

    class Stream(module.Stream):  # type: ignore[name-defined, misc]
        def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Any:
            return object.__new__(cls)

        def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
            self.stream_id, self.device_index, self.device_type, self.priority = 0, 0, 1, priority
            self.cuda_stream = self.sycl_queue = kwargs.get("stream_ptr", 0)
            self.device = torch.device(kind, 0)

        @staticmethod
        def priority_range() -> tuple[int, int]:
            return 0, -1

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *exc: object) -> None:
            return None

        def query(self) -> bool:
            return True

        def is_capturing(self) -> bool:
            return False

        def synchronize(self) -> None:
            return None

        def wait_event(self, event: Any) -> None:
            return None

        def wait_stream(self, stream: Any) -> None:
            return None

        def record_event(self, event: Any = None) -> Any:
            return Event() if event is None else event

        @property
        def _as_parameter_(self) -> Any:
            return self.cuda_stream

        def __eq__(self, other: object) -> bool:
            return isinstance(other, module.Stream)

        def __hash__(self) -> int:
            return 0

        def __repr__(self) -> str:
            return f"<torch.{kind}.Stream of a device that is not there>"

    class ExternalStream(Stream):
        def __init__(self, stream_ptr: int, device: Any = None, **kwargs: Any) -> None:
            super().__init__(device, stream_ptr=stream_ptr)

    class Event(module.Event):  # type: ignore[name-defined, misc]
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return object.__new__(cls)

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.device = torch.device(kind, 0)
            self.cuda_event = self.sycl_event = 0

        def record(self, stream: Any = None) -> None:
            return None

        def wait(self, stream: Any = None) -> None:
            return None

        def query(self) -> bool:
            return True

        def synchronize(self) -> None:
            return None

        def elapsed_time(self, end_event: Any) -> float:
            return 1e3  # milliseconds: callers divide by it, and repeat until some time is up

        def ipc_handle(self) -> bytes:
            return b""

        def __repr__(self) -> str:
            return f"<torch.{kind}.Event of a device that is not there>"

    yield "Stream", Stream
    yield "Event", Event
    if kind == "cuda":
        yield "ExternalStream", ExternalStream
        yield "CUDAGraph", Graph
        yield "graph", Capture


@cache
def _answers() -> tuple[tuple[Any, dict[str, Any]], ...]:
    """(owner, its answers by name), made once: each asks for the device when it is called."""
    found: list[tuple[Any, dict[str, Any]]] = [
        (torch._C, Names({name: answer(name, give) for name, give in _c_names().items()}))
    ]
    for module, names in ((torch.cuda, _module_names() | _cuda_names()), (torch.xpu, _module_names() | _xpu_names())):
        given = {name: answer(name, give, module.__name__) for name, give in names.items()
                 if name in vars(module) or name.startswith("_get")}  # fmt: skip
        given |= dict(_classes(module.__name__.rsplit(".", 1)[-1]))
        found.append((module, Names(given | {"_initialized": True, "default_generators": (torch.default_generator,)})))
    built = answer("is_built", _always(True), "torch.backends.cuda")
    return (*found, (torch.cuda.nvtx, {"_nvtx": _Nothing()}), (torch.backends.cuda, {"is_built": built}))


def patch(scope: PatchScope) -> None:
    """Puts the answers in place."""
    for owner, values in _answers():
        scope.update(owner, values)
    facts = device.current().facts
    versions = {"cuda": ("12.8", None, None), "hip": (None, "6.4.43482", None), "xpu": (None, None, "20250101")}
    scope.update(torch.version, dict(zip(("cuda", "hip", "xpu"), versions[facts.backend], strict=True)))
