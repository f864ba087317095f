"""Repairs that reach over several statements: a variance by Welford's update, a difference of products factored out.

Each gives what it is and the places of the source to replace. Whether a change keeps the function and helps is for the
run to say (`promotion`). Sources: B. P. Welford, Technometrics 4(3), 1962; for blocks T. F. Chan, G. H. Golub and
R. J. LeVeque, The American Statistician 37(3), 1983.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from render.companions.demotion.sites import call_name, kernels

Change = tuple[str, list[tuple[ast.expr | ast.stmt, str]]]
DEPTH = 4
"""Assignments that are followed back from a name."""
HALF = ("float16", "bfloat16", "float8e5", "float8e4nv")
WELFORD = "the variance by Welford's update"


def welford(node: ast.BinOp, function: ast.FunctionDef) -> Iterator[Change]:
    """`sums of squares / n - mean * mean` of sums that a loop collects: squares of distances from a running mean."""
    mean = mean_of(node.right)
    left = _resolved(node.left, function)
    if mean is None:
        return
    for name in {n.id for n in ast.walk(left) if isinstance(n, ast.Name)}:
        start, update = _start(name, function), _update(name, function)
        if start is None or update is None or (squares := _squares(update[1])) is None:
            continue
        statement, _ = update
        term, axis = squares
        final = f"({name} + {name}_n * ({name}_m - {mean}) * ({name}_m - {mean}))"
        whole = ast.unparse(_with(left, name, ast.parse(final, mode="eval").body))
        first = f"{ast.unparse(start)}; {name}_m = {name}; {name}_n = {name}"
        step = _lanes(name, term, _weight(term, function)) if axis is None else _block(name, term, axis, function)
        yield WELFORD, [(start, first), (statement, step), (node, f"({whole})")]


def mean_of(node: ast.expr) -> str | None:
    """The mean, of `m * m`, `m ** 2` or `s * s / n`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and (s := _square(node.left)) is not None:
        return f"({ast.unparse(s)} / {ast.unparse(node.right)})"
    square = _square(node)
    return None if square is None else ast.unparse(square)


def _square(node: ast.expr) -> ast.expr | None:
    if not isinstance(node, ast.BinOp):
        return None
    if isinstance(node.op, ast.Mult) and ast.dump(node.left) == ast.dump(node.right):
        return node.left
    twice = isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant) and node.right.value == 2
    return node.left if twice else None


def _squares(term: ast.expr) -> tuple[str, str | None] | None:
    """(x, None) of `x * x`, (x, the arguments behind it) of `tl.sum(x * x, axis=0)`."""
    if isinstance(term, ast.Call) and call_name(term) == "sum" and (x := _square(term.args[0])) is not None:
        rest = [ast.unparse(a) for a in term.args[1:]] + [ast.unparse(k) for k in term.keywords]
        return f"({ast.unparse(x)})", ", ".join(["", *rest])
    square = _square(term)
    return None if square is None else (f"({ast.unparse(square)})", None)


def _lanes(q: str, x: str, weight: str) -> str:
    """One value more in every lane."""
    return (
        f"{q}_n = {q}_n + {weight}; {q}_d = {x} - {q}_m; {q}_m = {q}_m + {weight} * {q}_d / tl.maximum({q}_n, 1.0); "
        f"{q} += {weight} * {q}_d * ({x} - {q}_m)"
    )


def _block(q: str, x: str, axis: str, function: ast.FunctionDef) -> str:
    """A block of values more."""
    weight = _weight(x, function)
    return (
        f"{q}_k = tl.sum({x} * 0.0 + {weight}{axis}); {q}_b = tl.sum({weight} * {x}{axis}) / tl.maximum({q}_k, 1.0); "
        f"{q}_d = {q}_b - {q}_m; {q} += tl.sum({weight} * ({x} - {q}_b) * ({x} - {q}_b){axis}) "
        f"+ {q}_d * {q}_d * {q}_n * {q}_k / tl.maximum({q}_n + {q}_k, 1.0); {q}_n = {q}_n + {q}_k; "
        f"{q}_m = {q}_m + {q}_d * {q}_k / tl.maximum({q}_n, 1.0)"
    )


def _weight(x: str, function: ast.FunctionDef) -> str:
    """1 where a lane has a value: by the mask of the load, or the condition of the `where`, that x comes from."""
    todo: list[ast.expr] = [ast.parse(x, mode="eval").body]
    for _ in range(DEPTH):
        calls = [n for one in todo for n in ast.walk(one) if isinstance(n, ast.Call)]
        masks = [k.value for c in calls if call_name(c) == "load" for k in c.keywords if k.arg == "mask"]
        masks += [c.args[0] for c in calls if call_name(c) == "where"]
        if masks:
            return f"({ast.unparse(masks[0])}).to(tl.float32)"
        names = {n.id for one in todo for n in ast.walk(one) if isinstance(n, ast.Name)}
        todo = [s.value for s in _assigned(function) if isinstance(s.targets[0], ast.Name) and s.targets[0].id in names]
    return "1.0"


def _assigned(function: ast.FunctionDef) -> list[ast.Assign]:
    return [s for s in ast.walk(function) if isinstance(s, ast.Assign) and len(s.targets) == 1]


def _resolved(node: ast.expr, function: ast.FunctionDef) -> ast.expr:
    """What a name was last assigned before, if it is a name that is assigned once."""
    if not isinstance(node, ast.Name):
        return node
    found = [s for s in _assigned(function) if isinstance(s.targets[0], ast.Name) and s.targets[0].id == node.id]
    return found[0].value if len(found) == 1 else node


def _start(name: str, function: ast.FunctionDef) -> ast.Assign | None:
    """The first assignment of an accumulator."""
    found = [s for s in _assigned(function) if isinstance(s.targets[0], ast.Name) and s.targets[0].id == name]
    return min(found, key=lambda s: s.lineno, default=None)


def _update(name: str, function: ast.FunctionDef) -> tuple[ast.stmt, ast.expr] | None:
    """(statement, what it adds) of the accumulator in a loop."""
    for loop in (n for n in ast.walk(function) if isinstance(n, ast.For)):
        for s in loop.body:
            if isinstance(s, ast.AugAssign) and isinstance(s.op, ast.Add) and ast.unparse(s.target) == name:
                return s, s.value
            value = s.value if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == name else None
            if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and ast.unparse(value.left) == name:
                return s, value.right
    return None


def _with(node: ast.expr, name: str, new: ast.expr) -> ast.expr:
    class Put(ast.NodeTransformer):
        def visit_Name(self, one: ast.Name) -> ast.expr:
            return new if one.id == name else one

    found: ast.expr = Put().visit(copy.deepcopy(node))
    return found


def wide_sums(tree: ast.Module) -> Iterator[Change]:
    """A sum that is kept in half precision in fp32: every assignment of it at once (what a loop carries has one type),
    and partial sums or formats that the launcher chooses."""
    jitted = kernels(tree)
    for function in jitted:
        named: dict[str, list[ast.expr]] = {}
        for s in ast.walk(function):
            target = s.targets[0] if isinstance(s, ast.Assign) else s.target if isinstance(s, ast.AugAssign) else None
            if isinstance(target, ast.Name) and isinstance(s, ast.Assign | ast.AugAssign):
                named.setdefault(target.id, []).append(s.value)
        for values in named.values():
            halves = [h for value in values for h in _kept_in(value)]
            if len(values) > 1 and halves:
                yield "fp32 accumulator", [(h, "tl.float32") for h in halves]
    for function in (n for n in tree.body if isinstance(n, ast.FunctionDef) and n not in jitted):
        if function.name in ("make_inputs", "reference"):
            continue
        for call in (n for n in ast.walk(function) if isinstance(n, ast.Call)):
            for h in filter(_half, [*call.args, *(k.value for k in call.keywords)]):
                if isinstance(call.func, ast.Subscript):
                    yield "fp32 instead of half precision", [(h, "tl.float32")]
                elif call_name(call) in ("empty", "zeros", "full"):
                    yield "fp32 partials", [(h, "torch.float32")]


def _half(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in HALF


def _kept_in(value: ast.expr) -> Iterator[ast.expr]:
    """The half formats that decide in what `value` is kept: of the tile that a loop starts with, of a dot's result, of
    a cast of all of it."""
    for call in (n for n in ast.walk(value) if isinstance(n, ast.Call)):
        yield from (k.value for k in call.keywords if k.arg in ("dtype", "out_dtype") and _half(k.value))
        if call_name(call) in ("zeros", "full") or (call is value and call_name(call) == "to"):
            yield from filter(_half, call.args)


def unfused(node: ast.BinOp, function: ast.FunctionDef) -> Iterator[Change]:
    """A product whose sum or difference may be fused or not: its factor taken out, or the product rounded by itself."""
    if isinstance(node.op, ast.Sub):
        left, right = (_resolved(side, function) for side in (node.left, node.right))
        for a, s in _factors(left):
            for b, t in _factors(right):
                if ast.dump(s) == ast.dump(t):
                    yield "the common factor taken out", [(node, f"(({_text(a)} - {_text(b)}) * {_text(s)})")]
            if isinstance(right, ast.Call) and call_name(right) == "max" and _same(right.args[0], left, function):
                rest = [ast.unparse(x) for x in [*right.args[1:], *right.keywords]]
                most = f"tl.max({', '.join([ast.unparse(a), *rest])})"
                yield "the factor taken out of the difference", [(node, f"(({_text(a)} - {most}) * {_text(s)})")]
    for side in (node.left, node.right):
        if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mult):
            text = f"libdevice.mul_rn({ast.unparse(side.left)}, {ast.unparse(side.right)})"
            yield "the product unfused", [(side, text)]


def _factors(node: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """(a, s) and (s, a) of `a * s`."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return []
    return [(node.left, node.right), (node.right, node.left)]


def _same(one: ast.expr, other: ast.expr, function: ast.FunctionDef) -> bool:
    return ast.dump(_resolved(one, function)) == ast.dump(other)


def _text(node: ast.expr) -> str:
    return f"({ast.unparse(node)})" if isinstance(node, ast.BinOp) else ast.unparse(node)


__all__ = ["HALF", "WELFORD", "Change", "mean_of", "unfused", "welford", "wide_sums"]
