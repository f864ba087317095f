"""The other side of the comparison: find the reference, decide which inputs it takes, call it.

A reference is named by `torch.matmul` (dotted path), `module:attr`, `file.py::fn`, the name of a function in the user's
file, or given as a callable. It gets the entry's inputs by name where its parameters have the same names, else by
position; buffers that exist only to be written are left out where it has no place for them.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import importlib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from render.entry.inputs import parse_specs
from render.result.errors import RenderError, expect, is_users

NOT_FOUND = "RND902"


@dataclass(frozen=True)
class Reference:
    """A callable and what to call it in a report.

    `bounds` gives (values, [lo, hi]) of its outputs for inputs, where it is a kernel itself: float64 says nothing of
    it then.
    """

    fn: Callable[..., Any]
    title: str
    bounds: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class ReferencePlan:
    """Which of the entry's inputs the reference takes: positionally, then by keyword."""

    positional: tuple[str, ...]
    keyword: tuple[str, ...] = ()

    def call(self, fn: Callable[..., Any], values: Mapping[str, Any]) -> Any:
        return fn(*(values[n] for n in self.positional), **{n: values[n] for n in self.keyword})


def resolve(
    spec: str | Callable[..., Any] | None, module: ModuleType | None = None, arguments: Sequence[str] = ()
) -> Reference:
    """The reference that `spec` names; None means the user's file's own `reference`.

    An expression is one too: a lambda, or one of the inputs' names (`torch.softmax(x, 1)`). `arguments`: `NAME=VALUE`
    for keywords of the reference.
    """
    found = _resolved(spec, module)
    if not arguments:
        return found
    given = parse_specs(arguments, option="--ref-args")
    shown = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return Reference(partial(found.fn, **given), f"{found.title}(..., {shown})")


def _resolved(spec: str | Callable[..., Any] | None, module: ModuleType | None) -> Reference:
    if callable(spec):
        return Reference(spec, _title(spec))
    if spec is None:
        fn = getattr(module, "reference", None)
        if fn is None:
            hint = "say --ref torch.matmul, or define reference() in the file"
            hint = "pass it by keyword: ref=torch.matmul, or any function" if module is None else hint
            raise RenderError(NOT_FOUND, "no reference given", hint)
        return Reference(fn, "reference")
    expect("ref", spec, str)
    expression = _expression(spec, module)
    if expression is not None:
        return Reference(expression, spec)
    fn = _lookup(spec, module)
    if not callable(fn):
        raise RenderError(NOT_FOUND, f"--ref {spec} is not a function", "name a function, e.g. --ref torch.matmul")
    return Reference(fn, spec)


def _expression(spec: str, module: ModuleType | None) -> Callable[..., Any] | None:
    """The function that an expression is or stands for; None for a name."""
    try:
        tree = ast.parse(spec.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: nested without end
        return None
    if isinstance(tree.body, ast.Name | ast.Attribute):
        return None
    names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "math": math, "np": np, "numpy": np}
    own = vars(module) if module is not None else {}
    names |= {n: v for n, v in own.items() if not isinstance(v, torch.Tensor)}  # tensors are inputs, by their names
    code = compile(tree, "<--ref>", "eval")
    if isinstance(tree.body, ast.Lambda):
        found: Callable[..., Any] = eval(code, names)
        return found
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    loaded = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    wanted = [n for n in dict.fromkeys(loaded) if n not in bound and n not in names and not hasattr(builtins, n)]

    def reference(**inputs: Any) -> Any:
        return eval(code, names, inputs)

    kind = inspect.Parameter.KEYWORD_ONLY
    reference.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in wanted])  # type: ignore[attr-defined]
    return reference


def _title(fn: Callable[..., Any]) -> str:
    name = getattr(fn, "__qualname__", getattr(fn, "__name__", type(fn).__name__))
    home = getattr(fn, "__module__", "") or ""
    if home.startswith("torch") or name.startswith("_VariableFunctions"):
        return f"torch.{name.rsplit('.', 1)[-1]}"
    return name


def _lookup(spec: str, module: ModuleType | None) -> Any:
    if "::" in spec:
        from render.entry.target import load_module

        file, name = spec.split("::", 1)
        return _attribute(load_module(Path(file)), name, spec)
    if module is not None and hasattr(module, spec.split(".")[0]) and ":" not in spec:
        return _attribute(module, spec, spec)
    if ":" in spec:
        home, name = spec.split(":", 1)
        return _attribute(_import(home, spec), name, spec)
    if "." not in spec:
        known = _functions(module)
        near = difflib.get_close_matches(spec, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "known here: " + ", ".join(known[:8]) if known else None
        raise RenderError(NOT_FOUND, f"--ref {spec}: no function of this name in the file", hint)
    return _dotted(spec)


def _functions(module: ModuleType | None) -> list[str]:
    return [n for n, value in vars(module).items() if inspect.isfunction(value)] if module else []


def _import(home: str, spec: str) -> ModuleType:
    try:
        return importlib.import_module(home)
    except (ImportError, ValueError) as error:  # ValueError: an empty part
        raise RenderError(NOT_FOUND, f"--ref {spec}: cannot import {home} ({error})") from error


def _dotted(spec: str) -> Any:
    """The longest importable prefix of `spec`, then attributes."""
    parts = spec.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        home = ".".join(parts[:cut])
        try:
            module = importlib.import_module(home) if all(parts) else _import(home, spec)
        except ModuleNotFoundError as error:
            if error.name is None or not home.startswith(error.name):
                why = f"{home} needs {error.name}, which is not installed"
                raise RenderError(NOT_FOUND, f"--ref {spec}: {why}") from error
            continue
        return _attribute(module, ".".join(parts[cut:]), spec)
    raise RenderError(NOT_FOUND, f"--ref {spec}: no module named {parts[0]}", "try torch.matmul, or file.py::function")


def _attribute(owner: Any, path: str, spec: str) -> Any:
    for name in path.split("."):
        try:
            owner = getattr(owner, name)
        except AttributeError:
            near = difflib.get_close_matches(name, dir(owner), n=1)
            where = getattr(owner, "__name__", owner)
            hint = f"did you mean {near[0]}?" if near else None
            raise RenderError(NOT_FOUND, f"--ref {spec}: {where} has no {name}", hint) from None
    return owner


def plans(
    fn: Callable[..., Any], names: Sequence[str], values: Mapping[str, Any], written: set[str]
) -> list[ReferencePlan]:
    """Ways to pass the inputs, best first. With a signature they are checked against it, without one (built-in
    functions have none) the caller tries them in turn."""
    signature = _signature(fn)
    if signature is not None:
        by_name = _by_name(signature, names)
        if by_name is not None:
            return [by_name]
    tensors = [n for n in names if isinstance(values[n], torch.Tensor)]
    orders = [list(names), [n for n in names if n not in written], tensors, [n for n in tensors if n not in written]]
    found = [ReferencePlan(tuple(order)) for i, order in enumerate(orders) if order not in orders[:i]]
    if signature is None:
        return found
    return [plan for plan in found if _binds(signature, len(plan.positional))]


def _signature(fn: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):
        return None


def _by_name(signature: inspect.Signature, names: Sequence[str]) -> ReferencePlan | None:
    kinds = inspect.Parameter
    positional: list[str] = []
    keyword: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind is kinds.VAR_POSITIONAL:
            return None
        if parameter.kind is kinds.VAR_KEYWORD:
            continue
        if parameter.name not in names:
            if parameter.default is kinds.empty:
                return None
            continue
        (positional if parameter.kind is kinds.POSITIONAL_ONLY else keyword).append(parameter.name)
    return ReferencePlan(tuple(positional), tuple(keyword)) if positional or keyword else None


def _binds(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def run(
    reference: Reference, options: Sequence[ReferencePlan], make: Callable[[], Mapping[str, Any]]
) -> tuple[Any, ReferencePlan, Any]:
    """(result, the plan that worked, the inputs it ran on); `make` gives fresh copies for each attempt."""
    if not options:
        raise RenderError(
            NOT_FOUND,
            f"{_called(reference)}{_signature(reference.fn)} cannot take the inputs {', '.join(make())}",
            "write a reference() with the entry's parameter names",
        )
    failure: BaseException | None = None
    for plan in options:
        values = make()
        try:
            return plan.call(reference.fn, values), plan, values
        except BaseException as error:
            if not is_users(error):
                raise
            failure = failure or error
            if not isinstance(error, TypeError):
                break
    raise _failed(reference, failure, make()) from failure


def _called(reference: Reference) -> str:
    return "the reference" if reference.title == "reference" else f"the reference {reference.title}"


def _failed(reference: Reference, error: BaseException | None, values: Mapping[str, Any]) -> RenderError:
    from render.entry.target import failed

    shapes = ", ".join(f"{n}: {describe(v)}" for n, v in values.items()) or "no arguments"
    return failed(_called(reference), error, f"it was called with {shapes}")


def describe(value: Any) -> str:
    """`float16[64, 64]` for a tensor, the value itself for a scalar."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    text = repr(value)
    return text if len(text) <= 40 else type(value).__name__
