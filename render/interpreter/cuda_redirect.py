"""Host code written for a GPU, run on a CPU: devices named "cuda" (or "xpu") are the CPU while the scope lasts.

A function mode rewrites device arguments of torch calls and lets tensors of the CPU report the device that the host is
told of; `torch_answers` gives the functions that launchers use an answer. Torch's own code, called by such a function,
sees where tensors really are. Nothing changes where a real GPU is available, and everything is restored on exit, also
after an exception.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
import torch.utils.checkpoint
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from interval_ops.profiles.profile import Profile
from render.interpreter import device, inductor, torch_answers
from render.interpreter.driver import quiet_driver
from render.interpreter.eager import uncompiled
from render.interpreter.listing import listed
from render.interpreter.scope import PatchScope
from render.interpreter.threads import followed
from render.ops.orders import ORDERS

_GPU_NAME = re.compile(r"(cuda|xpu)(:\d+)?")
_GPUS = ("cuda", "xpu")
_CPU = torch.device("cpu")
_NATIVE = {
    "aten",
    "prims",
    "prim",
    "inductor",
    "quantized",
    "profiler",
    "c10d",
    "higher_order",
    "debugprims",
    "rngprims",
}
_active = 0


def is_gpu(where: Any) -> bool:
    """Whether a device argument names a GPU."""
    if isinstance(where, torch.device):
        return where.type in _GPUS
    return isinstance(where, str) and _GPU_NAME.fullmatch(where) is not None


def on_cpu(where: Any) -> Any:
    """A device argument with GPUs (also a bare index) replaced by the CPU."""
    whole = isinstance(where, int) and not isinstance(where, bool)
    return _CPU if whole or is_gpu(where) else where


def has_gpu() -> bool:
    """Whether this machine has a GPU that torch can use, also while the redirect says so."""
    return not _active and torch.cuda.is_available()


def on_host(tensor: torch.Tensor) -> bool:
    """Whether a tensor lies in the memory of this machine, whatever it reports to host code."""
    if type(tensor) is torch.Tensor and not torch._C._is_torch_function_mode_enabled():
        return tensor.is_cpu
    with torch._C.DisableTorchFunction():
        return tensor.device.type == "cpu"


def _told() -> torch.device:
    return torch.device(device.current().facts.torch_type, 0)


def _device_of(real: torch.device) -> torch.device:
    return _told() if real.type == "cpu" else real


def _named_device(*args: Any, **kwargs: Any) -> torch.device:
    first = args[0] if args else kwargs.get("type", kwargs.get("device"))
    if isinstance(first, int) and not isinstance(first, bool):
        return torch.device(_told().type, first)
    return torch.device(*args, **kwargs)  # the user's call


_READ: dict[Any, Callable[[Any], Any]] = {
    torch.Tensor.device.__get__: lambda t: _device_of(t.device),  # type: ignore[attr-defined]
    torch.Tensor.is_cuda.__get__: lambda t: _device_of(t.device).type == "cuda",  # type: ignore[attr-defined]
    torch.Tensor.is_xpu.__get__: lambda t: _device_of(t.device).type == "xpu",  # type: ignore[attr-defined]
    torch.Tensor.is_cpu.__get__: lambda t: _device_of(t.device).type == "cpu",  # type: ignore[attr-defined]
    torch.Tensor.get_device: lambda t: 0 if t.device.type == "cpu" else t.get_device(),
    torch.get_device: lambda t: 0 if t.device.type == "cpu" else t.get_device(),
    torch.Tensor.is_pinned: lambda t, *a, **k: True,
    **{move: lambda t, *a, **k: t for move in (torch.Tensor.cuda, torch.Tensor.xpu, torch.Tensor.pin_memory)},
    torch.device: _named_device,
    **{ask: ask for ask in (
        torch.Tensor.stride, torch.Tensor.size, torch.Tensor.numel, torch.Tensor.dim, torch.Tensor.is_contiguous,
        torch.Tensor.shape.__get__, torch.Tensor.dtype.__get__, torch.Tensor.ndim.__get__,  # type: ignore[attr-defined]
    )},
}  # fmt: skip
"""Questions and moves that are answered without torch, and questions that name no device, which launchers ask most."""


_DEVICES = frozenset([*list(_READ)[:4], torch.Tensor.get_device, torch.get_device])
_TRACERS = tuple(os.path.join(os.path.dirname(torch.__file__), *part.split("/"), "") for part in (
    "_subclasses", "_functorch", "_export", "export", "fx"))  # fmt: skip
"""Packages of torch that make tensors without memory of a tensor's device: of a GPU that torch was not built for they
end the process."""


class RedirectMode(TorchFunctionMode):
    """Rewrites device arguments of torch functions and tensor methods."""

    def __torch_function__(
        self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        own = _READ.get(func) if func.__hash__ is not None else None
        if own is not None:
            if func in _DEVICES and sys._getframe(1).f_code.co_filename.startswith(_TRACERS):
                return func(*args, **kwargs or {})  # torch asks itself where it lies
            return own(*args, **kwargs or {})  # the user's call
        kwargs = dict(kwargs) if kwargs else {}
        if "device" in kwargs:
            kwargs["device"] = on_cpu(kwargs["device"])
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        if any(map(is_gpu, args)):
            args = tuple(_CPU if is_gpu(a) else a for a in args)
        elif func is torch.Tensor.to and len(args) > 1:
            args = (args[0], on_cpu(args[1]), *args[2:])
        if isinstance(func, HigherOrderOperator) and (order := ORDERS.get(func.name())) is not None:
            with type(self)():
                return order(*args, **kwargs)
        if isinstance(func, (OpOverload, OpOverloadPacket)) and _library_of(func) not in _NATIVE:
            return _library_call(func, args, kwargs)
        return func(*args, **kwargs)  # the user's call


class _OfThread(RedirectMode):
    """In a thread that the scope's code started, for as long as the scope lasts."""

    def __torch_function__(
        self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return (
            super().__torch_function__(func, types, args, kwargs) if _active else func(*args, **(kwargs or {}))
        )  # the user's call


def _library_call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A library's operator; one that is only a composition of others is called as what it is written as."""
    overload = getattr(func, "default", None) if isinstance(func, OpOverloadPacket) else func
    if overload is not None and not any(_has(overload, key) for key in _KEYS) and _has(overload, _COMPOSED):
        with RedirectMode():
            return overload.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), *args, **kwargs)
    with LibraryOps():
        return func(*args, **kwargs)  # the user's call


def _has(overload: OpOverload, key: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), key))


def _library_of(func: Any) -> str:
    name = func._qualified_op_name if isinstance(func, OpOverloadPacket) else func.name()
    return str(name).split("::", 1)[0]


_KEYS = ("CUDA", "XPU", "CPU", "CompositeExplicitAutograd")
_COMPOSED = "CompositeImplicitAutograd"


class LibraryOps(TorchDispatchMode):
    """Operators that a library registered: the kernel that it wrote for the GPU runs, with the redirect in place."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if isinstance(func, HigherOrderOperator) or _library_of(func) in _NATIVE:
            return func(*args, **kwargs)  # the user's call
        key = next((k for k in _KEYS if _has(func, k)), None)
        if key is None:
            return func(*args, **kwargs)  # the user's call
        with RedirectMode():
            return func.redispatch(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key)), *args, **kwargs)


class _TakesGpu(type):
    """Of what stands for a class of torch, and is made by `made` where a GPU is named."""

    real: type
    made: Callable[..., Any]

    def __call__(cls, device: Any = None, *args: Any, **kwargs: Any) -> Any:
        if is_gpu(device) or (isinstance(device, int) and not isinstance(device, bool)):
            return cls.made(*args, **kwargs)  # the user's call
        return cls.real(*(() if device is None else (device,)), *args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (cls.real, *(getattr(m, cls.__name__, ()) for m in (torch.cuda, torch.xpu))))


class _Generator(torch.Generator):
    """The generator of a GPU, as it says: random numbers come from the CPU's."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return _told()


@cache
def _taking_gpu(name: str) -> type:
    """What stands for `torch.Generator`, `torch.Stream` or `torch.Event`."""

    def made(*args: Any, **kwargs: Any) -> Any:
        return getattr(torch.get_device_module(_told().type), name)(*args, **kwargs)  # the user's call

    body = {"real": getattr(torch, name), "made": staticmethod(_Generator if name == "Generator" else made)}
    return _TakesGpu(name, (), body)


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


def _patch_engine(scope: PatchScope) -> None:
    """`backward` calls code of the user from inside of torch, where the mode is off."""
    engine = torch.autograd.graph._engine_run_backward

    def run(*args: Any, **kwargs: Any) -> Any:
        with RedirectMode():
            return engine(*args, **kwargs)  # the user's call

    for module in (torch.autograd, torch.autograd.graph):
        if "_engine_run_backward" in vars(module):
            scope.set(module, "_engine_run_backward", run)


def _patch_checkpoint(scope: PatchScope) -> None:
    """What is computed again is compared with what was saved where the mode is off: by what the tensors are."""
    checks = torch.utils.checkpoint._allowed_determinism_checks_to_fns

    def metadata(x: torch.Tensor) -> dict[str, Any]:
        with torch._C.DisableTorchFunction():
            return {"shape": x.shape, "dtype": x.dtype, "device": x.device}

    scope.set(torch.utils.checkpoint, "_allowed_determinism_checks_to_fns", {**checks, "default": metadata})


def _patch_autocast(scope: PatchScope) -> None:
    """Under `autocast("cuda")` the CPU casts as well, to the same type."""
    cls = torch.amp.autocast_mode.autocast
    enter, leave = cls.__enter__, cls.__exit__

    def begin(self: Any) -> Any:
        result = enter(self)
        if self.device in _GPUS:
            inner = cls("cpu", dtype=self.fast_dtype, enabled=self._enabled)
            enter(inner)
            self.__dict__.setdefault("_on_host", []).append(inner)
        return result

    def end(self: Any, *exc: Any) -> Any:
        if self.device in _GPUS and self.__dict__.get("_on_host"):
            leave(self._on_host.pop(), *exc)
        return leave(self, *exc)

    scope.set(cls, "__enter__", begin)
    scope.set(cls, "__exit__", end)


def _patch(scope: PatchScope) -> None:
    torch_answers.patch(scope)
    inductor.patch(scope)
    _patch_cublas(scope)
    _patch_engine(scope)
    _patch_checkpoint(scope)
    _patch_autocast(scope)
    for name in ("Generator", "Stream", "Event"):
        scope.set(torch, name, _taking_gpu(name))
    scope.set(torch.Tensor, "record_stream", lambda t, stream: None)  # the stream is none that torch's parser knows
    default_device, tensor_type, load = torch.set_default_device, torch.set_default_tensor_type, torch.load
    scope.set(torch, "set_default_device", lambda where: default_device(on_cpu(where)))
    scope.set(torch, "set_default_tensor_type", lambda t: tensor_type(_host_type(t)))

    def load_on_cpu(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        return load(f, _CPU if map_location is None else on_cpu(map_location), *args, **kwargs)

    scope.set(torch, "load", load_on_cpu)


def _host_type(t: Any) -> Any:
    return t.replace("torch.cuda.", "torch.") if isinstance(t, str) else t


_LIFTED = ("torch._dynamo", "torch._inductor.cudagraph_trees")


class _TorchImports(importlib.abc.MetaPathFinder):
    """Torch's compiler keeps what it sees of `torch.cuda` while it is imported: that happens without the redirect.

    Other parts of torch, which define kernels on import where there is a GPU, are imported with it.
    """

    def __init__(self, scope: PatchScope) -> None:
        self._scope = scope
        self._busy = False

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        lifted = not self._busy and name.startswith(_LIFTED)
        if name not in inductor.LATE and not lifted:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        loader, run = spec.loader, spec.loader.exec_module

        def exec_module(module: Any) -> None:
            if lifted:
                self._busy = True
                try:
                    with self._scope.lifted(), torch._C.DisableTorchFunction():
                        run(module)
                finally:
                    self._busy = False
            else:
                run(module)
            if name in inductor.LATE:
                inductor.LATE[name](module, self._scope)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


@contextlib.contextmanager
def _asked_anew() -> Iterator[None]:
    """Torch remembers for the whole process whether Triton has a device; inside and outside are two answers."""
    from torch.utils import _triton

    kept = [f for f in vars(_triton).values() if hasattr(f, "cache_clear")]
    for ask in kept:
        ask.cache_clear()
    try:
        yield
    finally:
        for ask in kept:
            ask.cache_clear()


@contextlib.contextmanager
def _late_imports(scope: PatchScope) -> Iterator[None]:
    finder = _TorchImports(scope)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # user code has emptied it
            sys.meta_path.remove(finder)


@contextlib.contextmanager
def cuda_on_cpu(profile: Profile | str | None = None) -> Iterator[bool]:
    """Redirects GPU devices to the CPU where there is no GPU; nests. `profile`: the device that the host is told of.

    Gives whether this scope is the one that redirects, and keeps torch's compiler out (`eager.uncompiled`).
    """
    global _active
    with device.described(profile) as told, contextlib.nullcontext() if has_gpu() else listed(told.facts):
        if _active or has_gpu():
            yield False
            return
        _active += 1
        try:
            with (
                quiet_driver(),
                PatchScope() as scope,
                uncompiled(),
                _asked_anew(),
                _late_imports(scope),
                RedirectMode(),
                followed(_OfThread),
            ):
                _patch(scope)
                yield True
        finally:
            _active -= 1
