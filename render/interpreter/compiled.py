"""What a launch gives back in place of a compiled kernel.

Launchers ask a compiled kernel for its registers and shared memory, to choose a grid, keep it in a dictionary, and may
launch it directly. Here nothing is compiled: the figures are plain placeholders, and a launch is one of the kernel it
was made of, so that whichever session is innermost then interprets it.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from types import SimpleNamespace
from typing import Any

from triton.runtime.jit import compute_cache_key

from render.interpreter import device
from render.interpreter.arguments import KernelCall, constant_value, constexpr_names

_REGISTERS, _SHARED = 32, 16384


class Assembly(dict[str, Any]):
    """`asm` of a kernel that was not compiled: Triton's own compiler makes it once it is asked for."""

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: str) -> Any:
        self.update(self._make())
        if key not in self:
            raise KeyError(key)
        return self[key]

    def _made(self) -> dict[str, Any]:
        if not super().__len__():
            self.update(self._make())
        return dict(super().items())

    def __contains__(self, key: object) -> bool:
        return key in self._made()

    def __iter__(self) -> Iterator[str]:
        return iter(self._made())

    def __len__(self) -> int:
        return len(self._made())

    def keys(self) -> Any:
        return self._made().keys()

    def values(self) -> Any:
        return self._made().values()

    def items(self) -> Any:
        return self._made().items()


@dataclass(frozen=True)
class Packed:
    """A call as Triton's compiler takes it, for the target that the host is told of."""

    kernel: Any
    target: Any
    backend: Any
    options: Any
    signature: Any
    constants: Any
    attributes: Any
    key: Any

    @classmethod
    def of(cls, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Packed:
        """Raises what Triton raises for arguments that it does not take."""
        _, _, target, backend, binder = kernel.create_binder()
        bound, specialization, options = binder(*args, **{"debug": False, **kwargs})
        key = compute_cache_key({}, specialization, options)
        options, signature, constants, attributes = kernel._pack_args(
            backend, dict(kwargs), bound, specialization, options
        )
        return cls(kernel, target, backend, options, signature, constants, attributes, key)

    @property
    def source(self) -> Any:
        return self.kernel.ASTSource(self.kernel, self.signature, self.constants, self.attributes)

    def call(self, hook: Any, warmup: bool) -> Any:
        """A hook around compilation, told what Triton tells it."""
        told = {
            "hook": hook, "key": self.key, "signature": self.signature, "target": self.target, "device": 0,
            "constants": self.constants, "options": self.options, "configs": [self.attributes], "is_warmup": warmup,
        }  # fmt: skip
        names = inspect.signature(self.kernel._call_hook).parameters
        return self.kernel._call_hook(**{name: told[name] for name in names})


class Compiled:
    """Stands for `triton.compiler.CompiledKernel`: `kernel` was called with `args` and `kwargs`."""

    def __init__(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._kernel, self._args, self._kwargs = kernel, args, kwargs
        self.name = kernel.fn.__name__
        self.function = self.module = 0
        self.n_regs, self.n_spills, self.n_max_threads = _REGISTERS, 0, 1024
        self.packed_metadata = (kwargs.get("num_warps", 4), kwargs.get("num_ctas", 1), _SHARED)

    @cached_property
    def metadata(self) -> SimpleNamespace:
        """The options of the target's compiler, as they were given or by default, and placeholders."""
        told = {"num_warps": 4, "num_stages": 2, "num_ctas": 1} | self._kwargs
        with contextlib.suppress(RuntimeError):  # Triton has no compiler for this target
            told = dict(Packed.of(self._kernel, self._args, self._kwargs).options.__dict__)
        told |= {"name": self.name, "hash": self.hash, "target": device.target(), "shared": _SHARED}
        return SimpleNamespace(**told | {"tmem_size": None, "global_scratch_size": 0})

    def _init_handles(self) -> None:
        """The real one loads the binary."""

    @cached_property
    def src(self) -> Any:
        return SimpleNamespace(fn=self._kernel, name=self.name)

    @cached_property
    def hash(self) -> str:
        return hashlib.sha256(f"{self._kernel.src}{self._args!r}{self._kwargs!r}".encode()).hexdigest()

    @cached_property
    def asm(self) -> Assembly:
        return Assembly(self._compile)

    def _compile(self) -> dict[str, Any]:
        """Assembly by Triton's own compiler for the target that the host is told of; its errors are its own."""
        packed = Packed.of(self._kernel, self._args, self._kwargs)
        return dict(self._kernel.compile(packed.source, target=packed.target, options=packed.options.__dict__).asm)

    def launch_metadata(self, grid: Any, stream: Any, *args: Any) -> Any:
        """What launch hooks are told: name, function, stream, and what the kernel's own `launch_metadata` adds."""
        from triton.compiler.compiler import LazyDict

        told = LazyDict({"name": self.name, "function": self.function, "stream": stream})
        own = getattr(self._kernel, "launch_metadata", None)
        if own is not None:
            told.add(own, (grid, self.metadata, dict(zip(self._kernel.arg_names, args, strict=False))))
        return told

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"RENDER interprets {self.name} and compiles nothing: there is no {name!r}")

    def run(self, *args: Any) -> Any:
        """(grid 0, 1, 2, stream, function, packed metadata, launch metadata, enter hook, exit hook, arguments...)."""
        return self[args[:3]](*args[9:])

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        constant = constexpr_names(self._kernel)
        names = list(self._kernel.arg_names)
        variable = [n for n in names if n not in constant]
        compiled = dict(zip(names, self._args, strict=False)) | self._kwargs
        # Constants are part of a compiled kernel: a call may leave them out (up to Triton 3.2 it had to).
        kept = {n: v for n, v in compiled.items() if n in constant or n not in names}

        def run(*args: Any, stream: Any = None, **kwargs: Any) -> Any:
            taken = names if len(args) > len(variable) else variable
            given = kept | dict(zip(taken, args, strict=False)) | kwargs
            positional = [given.pop(n) for n in takewhile(lambda n: n in given, names)]
            return self._kernel.run(*positional, grid=grid, warmup=False, **given)

        return run


def compiles(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any], warmup: bool, seen: set[Any]) -> bool:
    """Calls `knobs.runtime.jit_cache_hook` and `jit_post_compile_hook` once for each kind of call, `seen`.

    False where the first of them says that nothing is to be compiled; then nothing is launched either.
    """
    from triton import knobs

    hooks = [getattr(knobs.runtime, name, None) for name in ("jit_cache_hook", "jit_post_compile_hook")]
    if not any(hooks):
        return True
    packed = Packed.of(kernel, args, kwargs)
    if (kernel.fn, packed.key) in seen:
        return True
    if packed.call(hooks[0], warmup):
        return False
    seen.add((kernel.fn, packed.key))
    packed.call(hooks[1], warmup)
    return True


@contextlib.contextmanager
def launch_hooks(compiled: Compiled, call: KernelCall, grid: Any) -> Iterator[None]:
    """`knobs.runtime.launch_enter_hook` before a launch and `launch_exit_hook` after it, as Triton calls them."""
    from triton import knobs

    enter, leave = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
    if not _calls(enter) and not _calls(leave):
        yield
        return
    arguments = {k: constant_value(v) for k, v in call.arguments.items()}
    told = compiled.launch_metadata(grid(arguments) if callable(grid) else grid, 0, *arguments.values())
    if _calls(enter):
        enter(told)
    yield
    if _calls(leave):
        leave(told)


def _calls(hook: Any) -> bool:
    return hook is not None and bool(getattr(hook, "calls", True))
