"""Runs the definitions of a user's file and leaves out its script part.

Tutorials and issue reproducers launch their kernel, compare and benchmark at the top level. Statement by statement, a
file is executed as Python would, except that a statement which launches a kernel (or starts a benchmark) ends there.
Statements that use what it would have bound or filled, or a tensor that it mentions (it may be the output), are left
out too.
"""

from __future__ import annotations
import __future__

import ast
import importlib.util
from pathlib import Path
from types import CodeType, ModuleType

LEFT_OUT = "__render_left_out__"
"""Attribute of a loaded module: lines of the statements that were left out."""


class LaunchOnImport(BaseException):
    """A kernel is launched while its file is loaded. Not an Exception, so that no handler of the file swallows it."""


def source_of(path: Path) -> str:
    """The text of a Python file, in the encoding that it declares."""
    return importlib.util.decode_source(path.read_bytes())


def execute(module: ModuleType, path: Path) -> None:
    """Runs the file's statements in the module's namespace; the lines left out become its attribute `LEFT_OUT`.

    Raises SyntaxError, and whatever a statement raises that has nothing to do with a launch.
    """
    file = getattr(module.__spec__, "origin", None) or str(path)
    tree = ast.parse(source_of(path), file)
    module.__doc__ = ast.get_docstring(tree)
    flags = _future_flags(tree)
    stale: set[str] = set()
    lines: list[int] = []
    for statement in tree.body:
        if _defines(statement) or not stale & _names(statement, ast.Load):
            try:
                exec(_compiled(statement, file, flags), module.__dict__)
                continue
            except LaunchOnImport:
                stale |= _outputs(module, statement)
            except NameError as error:
                if error.name not in stale:
                    raise
        lines.append(statement.lineno)
        stale |= _names(statement, ast.Store) | _changed(module, statement)
    setattr(module, LEFT_OUT, tuple(lines))


def _compiled(statement: ast.stmt, file: str, flags: int) -> CodeType:
    found: CodeType = compile(ast.Module([statement], []), file, "exec", flags=flags, dont_inherit=True)
    return found


def _future_flags(tree: ast.Module) -> int:
    """`from __future__` binds the whole file, so each statement is compiled with it."""
    flags = 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                feature = getattr(__future__, alias.name, None)
                flags |= getattr(feature, "compiler_flag", 0)
    return flags


def _defines(statement: ast.stmt) -> bool:
    """Binds a function, a class or a module: nothing is computed from what it mentions."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return isinstance(statement, kinds) or isinstance(getattr(statement, "value", None), ast.Lambda)


def _names(statement: ast.stmt, context: type[ast.expr_context]) -> set[str]:
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, context)}


def _changed(module: ModuleType, statement: ast.stmt) -> set[str]:
    """Names of what the statement fills: `errors.append(e)`, `table[k] = e`."""
    nodes = list(ast.walk(statement))
    calls = (n.value.func for n in nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call))
    filled: list[ast.expr] = [n for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
    roots = set()
    for place in [*(f for f in calls if isinstance(f, ast.Attribute)), *filled]:
        while isinstance(place, ast.Attribute | ast.Subscript):
            place = place.value
        roots.add(getattr(place, "id", ""))
    known = {name: module.__dict__.get(name) for name in roots}
    return {name for name, value in known.items() if value is not None and not isinstance(value, ModuleType | type)}


def _outputs(module: ModuleType, statement: ast.stmt) -> set[str]:
    """Names of tensors that a launch which was left out may have been meant to write: all that the statement mentions.

    A statement that binds its result is taken to return what it makes; its arguments stay what they are.
    """
    import torch

    if isinstance(statement, ast.Assign | ast.AnnAssign):
        return set()
    return {n for n in _names(statement, ast.Load) if isinstance(module.__dict__.get(n), torch.Tensor)}
