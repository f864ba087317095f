"""RENDER: says whether a Triton kernel and its reference differ by round-off or by a bug.

Names below are imported on first use, so that `import render` (and `render --help`) loads neither torch nor triton,
numba or numpy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from render.result import views
from render.result.versions import VERSION as __version__

_LAZY = {
    "classify": "render.classify",
    "compare_models": "render.network.compare",
    "compare_training": "render.network.training",
    "record": "render.entry.recording",
    "record_modules": "render.network.recorded",
    "hull": "render.interpreter.boxes",
    "interval": "render.interpreter.boxes",
    "no_gpu": "render.interpreter.no_gpu",
    "Options": "render.result.options",
    **dict.fromkeys(("bound", "compare", "cpu", "watch"), "render.front.api"),
    "testing": "render.front.testing",
    "Verdict": "render.result.verdict",
    "load": "render.result.loading",
    "load_profile": "interval_ops.profiles.profile",
    "profile_names": "interval_ops.profiles.profile",
    "RenderError": "render.result.errors",
    "UnsupportedOp": "render.result.errors",
    "KernelError": "render.result.errors",
    "accumulation": "render.companions.accumulation",
    "combined": "render.companions.combined",
    "dual_delta": "render.companions.dual_delta",
}

__all__ = [
    "KernelError",
    "Options",
    "RenderError",
    "UnsupportedOp",
    "Verdict",
    "__version__",
    "accumulation",
    "bound",
    "classify",
    "combined",
    "compare",
    "compare_models",
    "compare_training",
    "cpu",
    "dual_delta",
    "hull",
    "interval",
    "load",
    "load_profile",
    "no_gpu",
    "profile_names",
    "record",
    "record_modules",
    "testing",
    "watch",
]

if TYPE_CHECKING:
    from interval_ops.profiles.profile import load_profile, profile_names
    from render.classify import classify
    from render.front import testing
    from render.front.api import bound, compare, cpu, watch
    from render.interpreter.boxes import hull, interval
    from render.interpreter.no_gpu import no_gpu
    from render.network.compare import compare_models
    from render.network.recorded import record_modules
    from render.network.training import compare_training
    from render.result.errors import KernelError, RenderError, UnsupportedOp
    from render.result.loading import load
    from render.result.options import Options
    from render.result.verdict import Verdict


class _Package(ModuleType):
    """Importing the submodule `render.classify` binds the module to the function's name; this keeps the function."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _LAZY and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    try:
        module = _LAZY[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    found = import_module(module)
    value = found if module.endswith(f".{name}") and not hasattr(found, name) else getattr(found, name)
    globals()[name] = value
    return value


def _late(module: str, name: str) -> Callable[..., Any]:
    return lambda *args: getattr(import_module(module), name)(*args)


views.HTML = _late("render.report.html", "fragment")
views.BRIEF = _late("render.report.terminal", "brief_text")
views.TEXT = _late("render.report.terminal", "plain_text")
views.TERMINAL = _late("render.report.terminal", "render")
views.PLOT = _late("render.report.plot", "figure")
views.PROVENANCE = _late("render.explain.provenance", "provenance")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
