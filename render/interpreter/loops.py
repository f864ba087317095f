"""What the source of a loop says of its turns: which variables they assign, whether they leave any to the next, and
which of those decide nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence


def assigned(loop: ast.While | ast.For) -> tuple[str, ...] | None:
    """The names that a turn of the loop assigns; None where it may do more, or may end other than at its end."""
    found: dict[str, None] = {}
    todo: list[ast.AST] = [*loop.body, *([loop.target] if isinstance(loop, ast.For) else [])]
    if loop.orelse or (isinstance(loop, ast.While) and any(isinstance(n, ast.NamedExpr) for n in ast.walk(loop.test))):
        return None
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Break | ast.Continue | ast.Return | ast.Delete | ast.FunctionDef | ast.With | ast.Try):
            return None
        if isinstance(getattr(node, "ctx", None), ast.Store):
            if isinstance(node, ast.Name):
                found[node.id] = None
            elif not isinstance(node, ast.Tuple | ast.List):
                return None
        elif not isinstance(node, ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp):
            todo += ast.iter_child_nodes(node)
            continue
        if isinstance(node, ast.Tuple | ast.List):
            todo += node.elts
    return tuple(sorted(found))


def idle(loop: ast.While | ast.For) -> tuple[str, ...]:
    """The names that turns assign and that decide nothing in the loop: counters, which only such assignments read."""
    own: dict[int, str] = {}
    for node in ast.walk(loop):
        if not isinstance(node, ast.Assign | ast.AugAssign):
            continue
        first, *others = [node.target] if isinstance(node, ast.AugAssign) else node.targets
        calls = any(isinstance(n, ast.Call | ast.NamedExpr) for n in ast.walk(node))
        if isinstance(first, ast.Name) and not others and not calls:
            own |= {id(n): first.id for n in ast.walk(node)}
    found = set(own.values())
    uses = [n for n in ast.walk(loop) if isinstance(n, ast.Name)]
    while lost := {n.id for n in uses if n.id in found and own.get(id(n)) not in found}:
        found -= lost
    return tuple(sorted(found))


def independent(loop: ast.For, names: Sequence[str], function: ast.AST) -> bool:
    """Whether no turn reads what another assigned, and nothing behind the loop does. `function` holds the loop."""
    inside = {id(n) for part in (*loop.body, loop.target) for n in ast.walk(part)}
    if set(names) & _reads(n for n in ast.walk(function) if isinstance(n, ast.Name) and id(n) not in inside):
        return False
    known = _stored(loop.target)
    return _read_after(loop.body, known, set(names))


def _stored(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _reads(nodes: Iterable[ast.AST | None]) -> set[str]:
    return {n.id for node in nodes if node is not None for n in ast.walk(node)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}  # fmt: skip


def _read_after(body: Sequence[ast.stmt], known: set[str], own: set[str]) -> bool:
    """Whether each of the names `own` that the statements read was assigned before; `known` is what was, and grows."""
    for node in body:
        late = own - known
        if isinstance(node, ast.If):
            yes, no = set(known), set(known)
            if (
                _reads([node.test]) & late
                or not _read_after(node.body, yes, own)
                or not _read_after(node.orelse, no, own)
            ):
                return False
            known |= yes & no
        elif isinstance(node, ast.For | ast.While):
            first = node.iter if isinstance(node, ast.For) else node.test
            mine = known | (_stored(node.target) if isinstance(node, ast.For) else set())
            if _reads([first]) & late or not _read_after(node.body, mine, own):
                return False
        else:
            grown = {node.target.id} if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) else set()
            if (_reads([node]) | grown) & late:
                return False
            known |= _stored(node)
    return True
