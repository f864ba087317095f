"""What Triton refuses of a launch before it compiles anything: keywords that are no option, arguments of no known type.

Triton's own code decides, so that the class and the text of a refusal are its own in every version.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence, Set
from functools import cache
from typing import Any

import torch

_OF_THE_LAUNCHER = {"debug", "instrumentation_mode", "fpsan_homomorphic_casts"}
"""Keywords that `JITFunction.run` adds itself."""
_DEPRECATED = ("device_type", "device", "stream")


@cache
def _backends() -> tuple[Any, ...]:
    from triton.backends import backends

    return tuple(b.compiler for b in backends.values())


@cache
def option_names(backend: str | None = None) -> frozenset[str]:
    """Launch keywords of one backend ("cuda", "hip"), or of all that are installed."""
    found: set[str] = set(_OF_THE_LAUNCHER)
    for compiler in _backends():
        module = __import__(compiler.__module__, fromlist=["_"])
        options = [c for n, c in vars(module).items() if n.endswith("Options") and dataclasses.is_dataclass(c)]
        for cls in options:
            fields = {f.name: f for f in dataclasses.fields(cls)}
            if backend is None or "backend_name" not in fields or fields["backend_name"].default == backend:
                found |= fields.keys()
    return frozenset(found)


@cache
def _compiler(target: Any) -> Any:
    from triton.compiler import make_backend

    return make_backend(target)


def check_options(options: dict[str, Any], names: Set[str], target: Any | None) -> None:
    """Refuses launch keywords as Triton does; `names` are those of parameters, `target` None where nobody named one."""
    for name in _DEPRECATED:
        assert name not in options, f"{name} option is deprecated; the current one will be used"
    backend = None if target is None else target.backend
    known = option_names(backend) if backend in ("cuda", "hip", None) else option_names()
    for name in options:
        if name not in known and name not in names:
            raise KeyError(f"Keyword argument {name} was specified but unrecognised")
    if backend in ("cuda", "hip"):
        with warnings.catch_warnings():  # it announces defaults of versions to come
            warnings.simplefilter("ignore")
            _compiler(target).parse_options({k: v for k, v in options.items() if k in known})


_taken: set[Any] = set()
"""Kinds of arguments that Triton took before."""


def check_arguments(values: Sequence[Any]) -> None:
    """Refuses what a kernel cannot take: TypeError, OverflowError or KeyError, as Triton's binder raises them."""
    with torch._C.DisableTorchFunction():  # no host code asks
        kinds = [_kind(value) for value in values]
    for kind, value in zip(kinds, values, strict=True):
        if kind is None or kind not in _taken:
            _ask(value)
            if kind is not None:
                _taken.add(kind)


def _ask(value: Any) -> None:
    from triton._C import libtriton
    from triton.backends.compiler import BaseBackend

    try:
        libtriton.native_specialize_impl(BaseBackend, value, False, True, True)
    except (TypeError, OverflowError, KeyError) as error:  # the user's argument, said on purpose
        raise error.with_traceback(None) from None


def _kind(value: Any) -> Any:
    """What decides whether an argument is taken; None where it may be anything."""
    cls = type(value)
    if cls is torch.Tensor:
        return value.dtype
    if cls is int:
        return cls if -(1 << 63) <= value < 1 << 63 else None
    return cls if cls is float or cls is bool or value is None else None
