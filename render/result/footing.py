"""What RENDER stands on, and user code may take away: functions and modules of Python, torch, numpy and Triton.

A footing remembers what there was before user code ran. What user code has made unusable is given back: nobody can call
it, but RENDER has to. What it has put functions of its own in the place of stays, for it may be meant; where something
fails inside of RENDER afterwards, these names are told (`replaced`): it is no defect then.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from render.result.errors import KernelError, RenderError, UnsupportedOp

TOOLS = ("render", "interval_ops", "triton", "torch", "numpy", "numba", "pytest", "_pytest")
"""Packages that are no user's."""
_CALLED = ("torch", "torch.cuda", "torch.nn.functional", "torch.testing", "numpy", "numba", "triton", "triton.language")
_HERE = str(Path(__file__).parents[1])
_NAMED = 3
_HINT = "put them back before a kernel is launched or compared"
_replaced: dict[str, None] = {}
_standing: list[Footing] = []
Difference = tuple[dict[str, Any], str, Any, Any]
"""The namespace, a name in it, what stood there, and what stands there now."""
_GONE = object()


class Footing:
    """What there is now."""

    def __init__(self) -> None:
        self._builtins = builtins.__dict__.copy()
        self._loaded = dict(sys.modules)
        self._errors = _numpy_errors()
        self._path, self._finders, self._depth = sys.path[:], sys.meta_path[:], sys.getrecursionlimit()
        self._spaces = [
            (name, module.__dict__, module.__dict__.copy())
            for name, module in self._loaded.items()
            if isinstance(module, ModuleType) and (name in _CALLED or name.partition(".")[0] in sys.stdlib_module_names)
        ]

    def mend(self) -> list[Difference]:
        """Gives back what nobody can use any more; what that was."""
        taken = builtins.__dict__.copy()
        builtins.__dict__.update(self._builtins)  # without them not even this could run
        found = [*self._differences(taken)]
        for space, name, before, now in (broken := [one for one in found if _is_broken(*one[2:])]):
            del now
            space[name] = before
        self._imports()
        _numpy_errors(self._errors)
        for space, name, before, now in found:
            if space is builtins.__dict__ and not _is_broken(before, now):
                space[name] = now
        return broken

    def restore(self) -> None:
        """Gives back everything: no code of the user's will run any more."""
        self.mend()
        for space, name, before, _ in [*self._differences(builtins.__dict__)]:
            if callable(before):
                space[name] = before

    @contextmanager
    def restored(self) -> Iterator[None]:
        """After the body everything is as it was."""
        try:
            yield
        finally:
            self.restore()

    @contextmanager
    def mended(self) -> Iterator[None]:
        """In the body, what nobody can use any more is as it was."""
        errors, broken = _numpy_errors(), self.mend()
        try:
            yield
        finally:
            _numpy_errors(errors)
            for space, name, _, now in broken:
                if now is _GONE:
                    space.pop(name, None)
                else:
                    space[name] = now

    def _imports(self) -> None:
        lost = {name for name, module in self._loaded.items() if _is_tool(name) and sys.modules.get(name) is not module}
        if lost:  # all that came with them: the parts of a package know each other
            _replaced.update({f"sys.modules[{name!r}]": None for name in sorted(lost)})
            known = self._loaded.items()
            sys.modules.update({name: m for name, m in known if name in lost or name not in sys.modules})
        sys.path += [folder for folder in self._path if folder not in sys.path]
        sys.meta_path += [finder for finder in self._finders if finder not in sys.meta_path]
        sys.setrecursionlimit(max(self._depth, sys.getrecursionlimit()))

    def _differences(self, taken: dict[str, Any]) -> Iterator[Difference]:
        """`taken`: the names of Python's own, as user code has left them."""
        for module, space, held in self._spaces:
            here = taken if space is builtins.__dict__ else space
            for name, before in held.items():
                now = here.get(name, _GONE)
                if now is before or (name[0] == "_" and module not in ("sys", "builtins")):
                    continue  # libraries change private names as they work
                if (callable(before) or _is_broken(before, now)) and not (_is_ours(now) or _is_its_own(module, now)):
                    _replaced[f"{module}.{name}"] = None
                    yield space, name, before, now


def _numpy_errors(wanted: dict[str, Any] | None = None) -> dict[str, Any]:
    """What numpy does about overflow and its like, where it is loaded; what it does from now on."""
    numpy = sys.modules.get("numpy")
    return {} if numpy is None else numpy.geterr() if wanted is None else numpy.seterr(**wanted)


def _is_broken(before: Any, now: Any) -> bool:
    """Whether nobody can call it any more, or it is not there."""
    return not callable(now) if callable(before) else before is not None and (now is None or now is _GONE)


def _is_ours(now: Any) -> bool:
    """Whether RENDER has put it there, for as long as a scope of it is open."""
    while isinstance(now, partial):
        now = now.func
    code = getattr(now, "__code__", None)
    own = isinstance(code, CodeType) and code.co_filename.startswith(_HERE)
    return own or (now if isinstance(now, type) else type(now)).__module__.startswith("render.")


def _is_its_own(module: str, now: Any) -> bool:
    """Whether a package has put it there itself, as it works: torch wraps some of its functions when they are met."""
    home = getattr(now, "__module__", None)
    return callable(now) and isinstance(home, str) and home.partition(".")[0] == module.partition(".")[0] in TOOLS


def _is_tool(module: str) -> bool:
    home = module.partition(".")[0]
    return home in TOOLS or home in sys.stdlib_module_names


def stand() -> None:
    """From now on, while this command runs, `steady` gives back what is there now."""
    _standing[:] = [Footing()]


def steady() -> None:
    """After a call of the user's code; nothing where no command stands."""
    for footing in _standing:
        footing.mend()


@contextmanager
def steadied() -> Iterator[None]:
    """The body calls the user's code. Behind it what RENDER stands on is there again, and numpy takes overflow and its
    like as it did before."""
    errors = _numpy_errors()
    try:
        yield
    finally:
        steady()
        _numpy_errors(errors)


def blamed(error: Exception) -> Exception:
    """The error, or what the user is told in place of a failure inside of RENDER where user code has replaced what it
    stands on."""
    names = replaced()
    if not names or isinstance(error, RenderError | KernelError | UnsupportedOp):
        return error
    why = f"{type(error).__name__}: {error}"
    told = RenderError("RND908", f"the user's code has replaced {names}, and RENDER cannot go on: {why}", _HINT)
    told.__cause__ = error
    return told


def forget() -> None:
    """Nothing has been replaced yet."""
    _replaced.clear()
    _standing.clear()


def replaced() -> str:
    """Names of what user code has replaced so far; "" if it was nothing."""
    names = [*_replaced]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
