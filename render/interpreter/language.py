"""Makes `triton.language` run on our builder, for the duration of one launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

from render.interpreter import gluon
from render.interpreter.blockptr import BlockPointers
from render.interpreter.late import Late
from render.interpreter.libdevice import Libdevice
from render.interpreter.lockstep import uniform
from render.interpreter.mapping import Mapping
from render.interpreter.ordering import Ordering
from render.interpreter.patches import RunningLaunch, patches, vendor_modules
from render.interpreter.planted import Helpers
from render.interpreter.recipes import recipes_for
from render.interpreter.reduce import Reductions
from render.interpreter.rewrite import RewrittenKernel, code_of, namespace_of
from render.interpreter.scope import PatchScope
from render.interpreter.statements import Statements


class Language:
    """Everything that must be true of Triton while one kernel runs; `install` puts it in place in a scope."""

    def __init__(self, ctx: Any, semantic: Any) -> None:
        self.ctx = ctx
        self.semantic = semantic
        self.recipes = recipes_for(semantic.builder)
        self.statements = Statements(ctx, semantic, self.recipes)
        self.blocks = BlockPointers(semantic)
        self.reductions = (semantic.builder.reductions or Reductions)(ctx, semantic, self.call)
        self.mapping = Mapping(ctx, semantic, self.call)
        self._natives = Ordering(ctx, semantic).natives()
        self._bound: dict[Any, Callable[..., Any]] = {}
        self._overrides, self._helpers = self.statements.overrides(), self.statements.helpers()
        self.sources: dict[CodeType, RewrittenKernel] = {}
        self.libdevice = Libdevice(semantic)
        self._patches = patches(tuple(vendor_modules()), gluon.modules())
        self._late = Late(self._patches)
        semantic.tensor = self._patches.tensor

    # jitted functions
    def bind(self, jit_fn: Any) -> Callable[..., Any]:
        """The rewritten body of a jitted function over today's globals."""
        fn = jit_fn.fn
        key = fn, getattr(jit_fn, "src", None)
        if key not in self._bound:
            code = code_of(jit_fn, self.ctx.change)
            if code.is_user:
                self.ctx.files.add(code.file)
            self.sources.update(dict.fromkeys(code.codes, code))
            namespace = self._namespace(fn, code.names)
            self._late.meet(code.names, [namespace[name] for name in code.names if name in namespace])
            self._bound[key] = code.bind(namespace)
        return self._bound[key]

    def _namespace(self, fn: Any, names: frozenset[str]) -> dict[str, Any]:
        """Of a module's many names, those that its code has are looked at."""
        live = namespace_of(fn, names)
        for name in names:
            if name in live:
                live[name] = self._patches.for_kernels(live[name])
        planted = {} if self.ctx.change is None else Helpers(self.ctx, self.semantic.builder, uniform).table()
        return {**self._overrides, **live, **self._helpers, **planted}

    def call(self, jit_fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        native = self._natives.get(id(jit_fn))
        return native(*args, **kwargs) if native is not None else self.bind(jit_fn)(*args, **kwargs)

    def install(self, scope: PatchScope) -> None:
        scope.set(RunningLaunch, "language", self)
        for owner, names in self._patches.always:
            scope.update(owner, names)
        self._late.scope = scope

    def descriptors(self) -> None:
        """A kernel has one."""
        self._late.describe()

    def given(self, arguments: Iterable[Any]) -> None:
        """What the kernel is called with may lead to a module as well."""
        self._late.meet(frozenset(), arguments)
