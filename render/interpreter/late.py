"""Puts the replacements of vendor and Gluon modules in place for kernels that can reach such a module.

There are dozens of these modules, and replacing a name in each takes as long as a small kernel. A kernel reaches a
module by a global, and by attributes that its code names, of modules that it reaches; what is no module and of no type
known here may lead anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from triton.language import core
from triton.runtime import jit

from render.interpreter.patches import Patches
from render.interpreter.scope import PatchScope

_HOME, _OURS = "triton.language.", "render.interpreter."
_INERT = (
    int, float, complex, str, bytes, type(None), core.dtype, core.tensor, torch.Tensor, torch.dtype, jit.JITFunction,
    *([jit.ConstexprFunction] if hasattr(jit, "ConstexprFunction") else []),
)  # fmt: skip
"""Values by which no module is reached: what jitted functions reach is asked when they are bound, and what runs at
compile time works on Python's numbers."""


class Late:
    """`scope` is that of the launch."""

    scope: PatchScope

    def __init__(self, patches: Patches) -> None:
        self._patches = patches
        self._missing = patches.vendor | patches.of_gluon
        self._describes = False

    def meet(self, names: frozenset[str], values: Iterable[Any]) -> None:
        """Code with these names finds these values in its globals, or is given them."""
        if not self._missing:
            return
        todo, seen = list(values), set[int]()
        while todo and self._missing:
            value = todo.pop()
            if isinstance(value, ModuleType):
                if id(value) not in seen:
                    seen.add(id(value))
                    self._install(value)
                    own = vars(value)
                    todo += [own[name] for name in names if name in own]
            elif isinstance(value, core.constexpr):
                todo.append(value.value)
            elif isinstance(value, tuple | list):
                todo += value
            elif not _is_inert(value):
                self._install(None)

    def describe(self) -> None:
        """A descriptor is made: its methods are ours."""
        if not self._describes:
            self._describes = True
            self.scope.update(core.tensor_descriptor_base, self._patches.names[core.tensor_descriptor_base])

    def _install(self, module: ModuleType | None) -> None:
        """What goes with this module; None: everything."""
        patches = self._patches
        if module is None or module in patches.of_gluon:
            needed = self._missing
        elif module in patches.vendor:
            needed = self._missing & patches.vendor
        else:
            return
        for owner in needed & patches.names.keys():
            self.scope.update(owner, patches.names[owner])
        self._missing -= needed


@cache
def _at_home(module: str) -> bool:
    return module.startswith((_HOME, _OURS))


def _is_inert(value: Any) -> bool:
    if type(value) is FunctionType:  # most of what a kernel names
        return _at_home(value.__module__)
    if isinstance(value, _INERT):
        return True
    if isinstance(value, type):
        return value.__module__.startswith(("builtins", _HOME))
    if isinstance(value, BuiltinFunctionType):
        return True
    return isinstance(value, MethodType) and _at_home(value.__module__)
