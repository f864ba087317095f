"""What a function holds besides its arguments: what it closes over, what it is bound to, the globals that it names."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import UserDict, UserList, deque
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache, partial
from gc import get_referents
from itertools import islice
from pathlib import Path
from threading import local
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch

from render.result.defects import caught
from render.result.footing import TOOLS

MOST = 1 << 14
"""Objects that are looked at."""
WHOLE = (torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler, torch.amp.GradScaler)
"""Torch's own classes whose objects hold what a call may change."""
CACHED = type(lru_cache(int))
_NAMESPACES = (SimpleNamespace, Namespace, UserDict, UserList, local)
"""Python's own classes whose objects hold what user code puts there."""
_NO_STATE = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
_PLAIN = frozenset(_NO_STATE)


def held_by(fn: Any) -> list[tuple[str, torch.Tensor]]:
    """(name, tensor), each storage once, in the order in which they are met."""
    found: dict[int, tuple[str, torch.Tensor]] = {}
    for name, x in walk([fn]):
        if issubclass(type(x), torch.Tensor) and x.layout is torch.strided and not x.is_meta:
            found.setdefault(x.untyped_storage()._cdata, (name.lstrip("."), x.detach()))
    return list(found.values())


def walk(roots: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """(name, object) of everything that may hold a tensor or change with a call, each once, the nearest first."""
    waiting = deque(("", x) for x in roots)
    seen: dict[int, Any] = {}
    while waiting and len(seen) <= MOST:
        name, x = waiting.popleft()
        if issubclass(type(x), _NO_STATE) or id(x) in seen:  # a proxy says of itself that it is another object
            continue
        seen[id(x)] = x  # which keeps its identity its own
        yield name, x
        try:
            waiting.extend((name + key, inner) for key, inner in _parts(x))
        except Exception as error:  # a proxy, or a container with methods of its own
            caught(error, "what a function holds")


def is_users_own(home: str | None) -> bool:
    """Whether a module of this name is neither Python's own nor installed: what libraries register comes once."""
    if is_of_tools(home):
        return False
    file = getattr(sys.modules.get((home or "").partition(".")[0]), "__file__", None)
    return home == "__main__" or file is None or not _is_installed(file)


def is_of_tools(home: str | None) -> bool:
    """Whether a module of this name is Python's own or one of what RENDER stands on."""
    top = (home or "builtins").partition(".")[0]
    return top in TOOLS or (top in sys.stdlib_module_names and top != "__main__")


@cache
def _is_installed(file: str) -> bool:
    """Whether a module or package lies beside distributions, as pip puts them."""
    folder = Path(file).parents[Path(file).name == "__init__.py"]
    return any(folder.glob("*.dist-info"))


def is_object(x: Any) -> bool:
    """Whether it is an object, and no container, that says by its attributes what it holds."""
    return isinstance(x, WHOLE + _NAMESPACES) or (not isinstance(x, type) and is_users_own(type(x).__module__))


def names_in(fn: FunctionType) -> tuple[str, ...]:
    """Every name that its code, or code inside of it, looks up or sets."""
    found, codes = dict.fromkeys(fn.__code__.co_names), [fn.__code__]
    while codes:
        inner = [c for c in codes.pop().co_consts if isinstance(c, type(fn.__code__))]
        found.update(dict.fromkeys(n for c in inner for n in c.co_names))
        codes += inner
    return tuple(found)


def spaces_of(fn: FunctionType) -> list[tuple[str, dict[str, Any], tuple[str, ...]]]:
    """(how it is called, namespace, names in it): the globals that a function of the user's names, and those of modules
    of the user's that it names."""
    if not is_users_own(fn.__module__):
        return []
    names, given = names_in(fn), fn.__globals__
    modules = [n for n in names if isinstance(given.get(n), ModuleType) and is_users_own(given[n].__name__)]
    return [("", given, names), *((f".{n}", vars(given[n]), names) for n in modules)]


def slots_of(x: Any) -> dict[str, Any]:
    """What an object holds in slots, by name."""
    return {n: getattr(x, n) for n in slot_names(x) if hasattr(x, n)}


def slot_names(x: Any) -> list[str]:
    """Names of the slots that objects of its class have."""
    kinds = [vars(kind).get("__slots__", ()) for kind in type(x).__mro__]
    names = [n for slots in kinds for n in ((slots,) if isinstance(slots, str) else slots)]
    return [n for n in names if not n.startswith("__")]


def _parts(x: Any) -> list[tuple[str, Any]]:
    """What it holds, by what to write behind its name."""
    if isinstance(x, torch.Tensor):
        return [(".grad", x.grad)] if x.is_leaf and x.grad is not None else []
    if isinstance(x, FunctionType):
        return _of_function(x)
    if isinstance(x, MethodType):
        return [("", x.__self__), ("", x.__func__)]
    if isinstance(x, partial):
        return [("", x.func), *((f"[{i}]", v) for i, v in enumerate(x.args)), *_named(x.keywords), *_named(vars(x))]
    if isinstance(x, CACHED):
        return [("", x.__wrapped__), *(("(...)", v) for v in _results(x))]
    if isinstance(x, staticmethod | classmethod):
        return [("", x.__wrapped__)]
    if isinstance(x, property):
        return [("", f) for f in (x.fget, x.fset) if f is not None]
    if isinstance(x, type):
        return _named(dict(vars(x))) if is_users_own(x.__module__) else []
    within: list[tuple[str, Any]] = []
    if isinstance(x, dict):
        held = x.items() if set(map(type, x.values())) - _PLAIN else ()
        within = [(f"[{k!r}]" if isinstance(k, str | int) else "[...]", v) for k, v in held]
    elif isinstance(x, list | tuple | set | frozenset | deque) and set(map(type, x)) - _PLAIN:
        within = [(f"[{i}]", v) for i, v in islice(enumerate(x), MOST) if not issubclass(type(v), _NO_STATE)]
    return within + _of_object(x) if is_object(x) else within


def _results(cached: Any) -> Iterator[Any]:
    """What an `lru_cache` has kept: it holds results itself, or one without a limit a table of them."""
    for x in get_referents(cached):
        if not isinstance(x, dict):
            yield x
        elif x is not vars(cached):
            yield from x.values()


def _of_object(x: Any) -> list[tuple[str, Any]]:
    known: list[tuple[str, Any]] = []
    if isinstance(x, torch.nn.Module):
        own = (x.named_buffers(recurse=False), x.named_parameters(recurse=False), x.named_children())
        known = [(f".{n}", v) for group in own for n, v in group]
    held = _named(getattr(x, "__dict__", {})) + _named(slots_of(x))
    return [*known, *held, *((f".{kind.__name__}", kind) for kind in type(x).__mro__[:-1])]


def _named(values: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(f".{n}", v) for n, v in values.items() if not n.startswith("__")]


def _wrapped(fn: FunctionType) -> list[tuple[str, Any]]:
    return [("", vars(fn)["__wrapped__"])] if "__wrapped__" in vars(fn) else []


def _of_function(fn: FunctionType) -> list[tuple[str, Any]]:
    found = []
    for n, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            found.append((f".{n}", cell.cell_contents))
        except ValueError:  # not bound yet
            continue
    if is_of_tools(fn.__module__):  # its own books are none of a call's state; what it calls may be the user's
        return [*((n, v) for n, v in found if callable(v)), *_wrapped(fn)]
    found += [(".__defaults__", fn.__defaults__), (".__kwdefaults__", fn.__kwdefaults__), *_named(vars(fn))]
    found += _wrapped(fn)
    return found + [(f"{of}.{n}", space[n]) for of, space, names in spaces_of(fn) for n in names if n in space]
