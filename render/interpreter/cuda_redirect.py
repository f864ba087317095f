"""Host code written for a GPU, run on a CPU: devices named "cuda" become the CPU while the scope lasts.

Two mechanisms: a function mode rewrites device arguments of torch calls, and a `PatchScope` gives the `torch.cuda`
functions that launchers use an answer. Nothing changes where a real GPU is available, and everything is restored on
exit, also after an exception.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from render.interpreter.scope import PatchScope

_CUDA_NAME = re.compile(r"cuda(:\d+)?")
_CPU = torch.device("cpu")
_MOVES = {torch.Tensor.cuda, torch.Tensor.pin_memory}
_IGNORED = {torch.Tensor.record_stream}
_active = 0


def is_cuda(device: Any) -> bool:
    """Whether a device argument names a GPU."""
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return isinstance(device, str) and _CUDA_NAME.fullmatch(device) is not None


def on_cpu(device: Any) -> Any:
    """A device argument with GPUs (also a bare index) replaced by the CPU."""
    whole = isinstance(device, int) and not isinstance(device, bool)
    return _CPU if whole or is_cuda(device) else device


class RedirectMode(TorchFunctionMode):
    """Rewrites device arguments of torch functions and tensor methods."""

    def __torch_function__(
        self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in _IGNORED:
            return None
        if func in _MOVES:
            return args[0]
        if func is torch.device:
            # The same device that tensors report, so that comparisons hold.
            named = args[0] if args else kwargs.get("type", kwargs.get("device"))
            return _CPU if on_cpu(named) is _CPU else func(*args, **kwargs)
        if "device" in kwargs:
            kwargs["device"] = on_cpu(kwargs["device"])
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        if any(is_cuda(a) for a in args):
            args = tuple(_CPU if is_cuda(a) else a for a in args)
        elif func is torch.Tensor.to and len(args) > 1:
            args = (args[0], on_cpu(args[1]), *args[2:])
        return func(*args, **kwargs)


class _Placeholder:
    """Stands for a stream, an event or a device scope: everything on it succeeds and does nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.cuda_stream = 0
        self.device = _CPU
        self.idx = 0

    def __enter__(self) -> _Placeholder:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Any) -> float:
        return 0.0

    def _nothing(self, *args: Any, **kwargs: Any) -> None:
        return None

    synchronize = wait = record = wait_event = wait_stream = _nothing

    def record_event(self, event: Any = None) -> Any:
        return event if event is not None else _Placeholder()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function


def _properties(device: Any = None) -> SimpleNamespace:
    return SimpleNamespace(
        name="RENDER CPU (no GPU)", major=8, minor=0, total_memory=80 << 30, multi_processor_count=108, warp_size=32,
        shared_memory_per_block=49152, shared_memory_per_block_optin=166912, shared_memory_per_multiprocessor=167936,
        regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, L2_cache_size=40 << 20,
        is_integrated=False, gcnArchName="", uuid="", clock_rate=1410000,
        memory_clock_rate=1215000, memory_bus_width=5120,
    )  # fmt: skip


def _answers() -> dict[str, Any]:
    """Replacements for attributes of `torch.cuda`."""

    def nothing(*args: Any, **kwargs: Any) -> None:
        return None

    def always(value: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: value

    quiet = (
        "synchronize", "empty_cache", "set_device", "init", "_lazy_init", "manual_seed", "manual_seed_all", "seed",
        "seed_all", "reset_peak_memory_stats", "reset_max_memory_allocated", "ipc_collect", "set_stream", "_sleep",
    )  # fmt: skip
    scopes = ("Stream", "Event", "ExternalStream", "device", "device_of", "stream", "StreamContext")
    zero = ("current_device", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
    return {
        **dict.fromkeys(quiet, nothing),
        **{name: always(0) for name in zero},
        **dict.fromkeys(scopes, _Placeholder),
        "current_stream": _Placeholder,
        "default_stream": _Placeholder,
        "is_available": always(True),
        "is_initialized": always(True),
        "is_bf16_supported": always(True),
        "device_count": always(1),
        "get_device_properties": _properties,
        "get_device_name": always("RENDER CPU (no GPU)"),
        "get_device_capability": always((8, 0)),
        "mem_get_info": always((80 << 30, 80 << 30)),
        "get_arch_list": always(["sm_80"]),
    }


def _generator_class() -> type:
    """`torch.Generator` whose constructor takes a GPU for the CPU; instances are real generators."""
    real = torch.Generator

    class Meta(type):
        def __call__(cls, device: Any = "cpu") -> Any:
            return real(device=on_cpu(device))

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, real)

    class Generator(metaclass=Meta):
        """Created on the CPU while a session redirects GPUs."""

    return Generator


class _Cublas:
    """Stands for Triton's binding of cuBLAS, which tutorials compare with: fp32 sums, rounded once."""

    def __init__(self, workspace: Any = None) -> None:
        """No workspace is needed."""

    def matmul(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        """c = a b^T; a (M, K), b (N, K), c (M, N)."""
        c.copy_((a.float() @ b.float().T).to(c.dtype))


def _patch_cublas(scope: PatchScope) -> None:
    try:
        from triton._C.libtriton import nvidia  # type: ignore[attr-defined]

        scope.set(nvidia.cublas, "CublasLt", _Cublas)
    except (ImportError, AttributeError):
        return  # a Triton without that binding: a file that asks for it gets Triton's own error


def _patch(scope: PatchScope) -> None:
    _patch_cublas(scope)
    for name, answer in _answers().items():
        if hasattr(torch.cuda, name):
            scope.set(torch.cuda, name, answer)
    scope.set(torch.Tensor, "is_cuda", property(lambda self: True))
    scope.set(torch, "Generator", _generator_class())
    default_device, tensor_type, load = torch.set_default_device, torch.set_default_tensor_type, torch.load
    scope.set(torch, "set_default_device", lambda device: default_device(on_cpu(device)))
    scope.set(torch, "set_default_tensor_type", lambda t: tensor_type(_host_type(t)))

    def load_on_cpu(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        return load(f, _CPU if map_location is None else on_cpu(map_location), *args, **kwargs)

    scope.set(torch, "load", load_on_cpu)


def _host_type(t: Any) -> Any:
    return t.replace("torch.cuda.", "torch.") if isinstance(t, str) else t


@contextlib.contextmanager
def cuda_on_cpu() -> Iterator[None]:
    """Redirects GPU devices to the CPU where there is no GPU; nests."""
    global _active
    if _active or torch.cuda.is_available():
        yield
        return
    _active += 1
    try:
        with PatchScope() as scope, RedirectMode():
            _patch(scope)
            yield
    finally:
        _active -= 1
