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
    example = textwrap.dedent("\n".join(line for line in _said(PUBLIC[name]).splitlines() if line.startswith("    ")))
    called = {ast.unparse(node.func) for node in ast.walk(ast.parse(example)) if isinstance(node, ast.Call)}
    assert f"render.{name}" in called
