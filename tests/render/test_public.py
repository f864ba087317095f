"""What `import render` offers says what it takes, what it raises, and how it is called."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

import render

OPTIONS = {field.name for field in dataclasses.fields(render.Options)}
PUBLIC: dict[str, Callable[..., Any]] = {
    name: value for name in render.__all__ if inspect.isfunction(value := getattr(render, name))
}
PUBLIC["testing.assert_roundoff"] = render.testing.assert_roundoff
PUBLIC |= {
    f"accumulation.{name}": value
    for name in render.accumulation.__all__
    if inspect.isfunction(value := getattr(render.accumulation, name))
}
CLASSES: dict[str, type] = {
    **{name: value for name in render.__all__ if inspect.isclass(value := getattr(render, name))},
    "accumulation.Simulated": render.accumulation.Simulated,
    "accumulation.Swamping": render.accumulation.Swamping,
}
METHODS = {
    f"{name}.{method}": value
    for name, kind in CLASSES.items()
    for method, value in vars(kind).items()
    if inspect.isfunction(value) and method[0] != "_" and kind is not render.Options
}


def _said(function: Callable[..., Any]) -> str:
    return inspect.getdoc(function) or ""


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_function_names_what_it_takes_and_raises(name: str) -> None:
    said, takes = _said(PUBLIC[name]), inspect.signature(PUBLIC[name]).parameters
    missing = [x for x in takes if x not in OPTIONS - {"seed", "device"} and not re.search(rf"\b{x}\b", said)]
    shared = {"seed", "device"} if takes.keys() >= OPTIONS else set()
    assert not [x for x in missing if x not in shared], missing
    assert "Raises" in said or not takes
    assert inspect.signature(PUBLIC[name]).return_annotation is not inspect.Signature.empty


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_function_has_an_example_that_calls_it(name: str) -> None:
    assert f"render.{name}" in _called(PUBLIC[name])


def _called(documented: object) -> set[str]:
    """What the example in its text calls."""
    said = inspect.getdoc(documented) or ""
    example = textwrap.dedent("\n".join(line for line in said.splitlines() if line.startswith("    ")))
    return {ast.unparse(node.func) for node in ast.walk(ast.parse(example)) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("name", METHODS)
def test_a_public_method_has_an_example_and_names_what_it_takes_and_raises(name: str) -> None:
    said, (_, *takes) = _said(METHODS[name]), inspect.signature(METHODS[name]).parameters
    assert not [x for x in takes if not re.search(rf"\b{x}\b", said)]
    assert "Raises" in said or not takes
    assert name.rpartition(".")[2] in {called.rpartition(".")[2] for called in _called(METHODS[name])}


@pytest.mark.parametrize("name", CLASSES)
def test_a_public_class_has_an_example_and_names_what_it_holds(name: str) -> None:
    said = _said(CLASSES[name])  # type: ignore[arg-type]
    assert any(called.startswith("render.") for called in _called(CLASSES[name]))
    if issubclass(CLASSES[name], Exception):
        takes = set(inspect.signature(CLASSES[name]).parameters)
        assert not [x for x in takes if not re.search(rf"\b{x}\b", said)]
