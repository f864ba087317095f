"""Rewrites the source of a jitted function so that plain Python executes it with Triton's meaning.

Python and Triton disagree on a few statements; each is turned into a call of a helper in `semantics`:
  x = 0          assigns a tensor, not a Python number (so `x` has a type and can change in a loop)
  a and b, not a elementwise on blocks, no short cut on tensors
  a < b < c      elementwise
  assert c       a device assertion, never a Python one
  while c, for   asks at every turn whether it waits for another program, and who takes part (`lockstep`)
  B.value        what a constexpr stands for: constants are plain values here
Line numbers and columns stay those of the user's file.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from render.interpreter import loops
from render.interpreter.context import Change, is_user_file

ASSIGN, AND, OR, NOT, CHAIN, ASSERT, LOOP, AGAIN, VALUE = (
    "__render_assign__",
    "__render_and__",
    "__render_or__",
    "__render_not__",
    "__render_chain__",
    "__render_assert__",
    "__render_loop__",
    "__render_again__",
    "__render_value__",
)


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _thunk(body: ast.expr) -> ast.Lambda:
    empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(empty, body)


def _call(helper: str, args: list[ast.expr], at: ast.AST) -> ast.expr:
    return ast.copy_location(ast.Call(_name(helper), args, []), at)


def _located(made: ast.stmt, at: ast.expr) -> ast.stmt:
    for part in ast.walk(made):
        ast.copy_location(part, at)
    return made


def _is_constexpr(annotation: ast.expr) -> bool:
    return "constexpr" in ast.unparse(annotation)


class _Rewriter(ast.NodeTransformer):
    def __init__(self) -> None:
        self.parameters: set[str] = set()
        self.function: ast.AST = ast.Pass()

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr != "value" or not isinstance(node.ctx, ast.Load):
            return node
        given = isinstance(node.value, ast.Name) and node.value.id in self.parameters
        return _call(VALUE, [node.value, ast.copy_location(ast.Constant(given), node)], node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        node.value = _call(ASSIGN, [node.value], node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        value = node.value if _is_constexpr(node.annotation) else _call(ASSIGN, [node.value], node.value)
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        value = ast.copy_location(ast.BinOp(_name(node.target.id), node.op, node.value), node)
        ast.copy_location(value.left, node.target)
        return ast.copy_location(ast.Assign([node.target], _call(ASSIGN, [value], value)), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        helper = AND if isinstance(node.op, ast.And) else OR
        return _call(helper, [_thunk(v) for v in node.values], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _call(NOT, [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        compare = []
        for op in node.ops:
            arguments = ast.arguments(
                posonlyargs=[], args=[ast.arg("x"), ast.arg("y")], kwonlyargs=[], kw_defaults=[], defaults=[]
            )
            compare.append(ast.Lambda(arguments, ast.Compare(_name("x"), [op], [_name("y")])))
        operands = ast.Tuple([node.left, *node.comparators], ast.Load())
        return _call(CHAIN, [operands, ast.Tuple(list(compare), ast.Load())], node)

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        """`loop = LOOP(names)` before it, `while AGAIN(loop, c)`; loops of one function have names of their own."""
        return self._loop(node, lambda loop: setattr(node, "test", _call(AGAIN, [loop, node.test], node.test)))

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        """`loop = LOOP(names)` before it, and `for x in loop.over(...)`."""

        def walk(loop: ast.expr) -> None:
            over = ast.Attribute(loop, "over", ast.Load())
            node.iter = ast.copy_location(ast.Call(over, [node.iter], []), node.iter)

        return self._loop(node, walk)

    def _loop(self, node: ast.While | ast.For, ask: Callable[[ast.expr], None]) -> list[ast.stmt]:
        """At the end of the body: `if loop.partial: a, b = loop.merged(locals())`."""
        names = loops.assigned(node)
        free = names is not None and isinstance(node, ast.For) and loops.independent(node, names, self.function)
        idle = ast.Tuple([ast.Constant(name) for name in loops.idle(node)], ast.Load())
        self.generic_visit(node)
        loop, at = f"{LOOP}{node.lineno}_{node.col_offset}", node.test if isinstance(node, ast.While) else node.iter
        given: ast.expr = ast.Constant(None)
        if names is not None:
            given = ast.Tuple([ast.Constant(name) for name in names], ast.Load())
        made = _call(LOOP, [given, ast.Constant(loop if free else ""), idle], at)
        before = ast.copy_location(ast.Assign([ast.Name(loop, ast.Store())], made), at)
        ask(_name(loop))
        if names:
            merged = ast.Call(ast.Attribute(_name(loop), "merged", ast.Load()), [_call("locals", [], at)], [])
            target = ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())
            choice = ast.If(ast.Attribute(_name(loop), "partial", ast.Load()), [ast.Assign([target], merged)], [])
            node.body.append(_located(choice, at))
        return [before, node]

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self.generic_visit(node)
        args = [node.test] + ([node.msg] if node.msg is not None else [])
        return ast.copy_location(ast.Expr(_call(ASSERT, args, node)), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        self.parameters |= {arg.arg for arg in every if arg is not None}
        self.function = node
        self.generic_visit(node)
        node.decorator_list = []
        node.returns = None
        for arg in every:
            if arg is not None:
                arg.annotation = None
        # Defaults come from the live function: evaluating them again here could see other globals.
        node.args.defaults = [ast.copy_location(ast.Constant(None), d) for d in node.args.defaults]
        node.args.kw_defaults = [d and ast.copy_location(ast.Constant(None), d) for d in node.args.kw_defaults]
        return node


_DEFINITION = re.compile(r"^def\s+\w+\s*\(", re.MULTILINE)


def _source(jit_fn: Any) -> tuple[str, int]:
    """Source and first line. A source that was put in the place of the file's (`_unsafe_update_src`) is what runs."""
    raw = getattr(jit_fn, "raw_src", None)
    start = getattr(jit_fn, "starting_line_number", None)
    if raw is None or start is None:
        raw, start = inspect.getsourcelines(jit_fn.fn)
    text = "".join(raw)
    found = _DEFINITION.search(textwrap.dedent(text))
    own, begin = getattr(jit_fn, "src", None), 0 if found is None else found.start()
    if own is None or own == textwrap.dedent(text)[begin:]:
        return text, start
    return own, start + textwrap.dedent(text)[:begin].count("\n")


def tree_of(jit_fn: Any) -> ast.Module:
    """Its definition, at the lines and columns of its file."""
    source, start = _source(jit_fn)
    indent = len(source) - len(source.lstrip(" \t"))
    tree = ast.parse("\n" * (start - 1) + textwrap.dedent(source))
    for node in ast.walk(tree) if indent else ():
        if isinstance(node, ast.expr | ast.stmt | ast.arg | ast.keyword):
            node.col_offset += indent
            node.end_col_offset = (node.end_col_offset or 0) + indent
    return tree


def codes_within(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code and that of the lambdas in it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from codes_within(inner)


class RewrittenKernel:
    """Compiled body of one jitted function, or of a changed `tree` of it; `bind` gives a callable over the given
    globals."""

    __slots__ = ("code", "codes", "file", "fn", "indent", "is_user", "jit_fn", "line", "names")

    def __init__(self, jit_fn: Any, tree: ast.Module) -> None:
        self.jit_fn = jit_fn
        self.fn = jit_fn.fn
        self.file = self.fn.__code__.co_filename
        self.is_user = is_user_file(self.file)
        own = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
        self.line, self.indent = own.lineno, own.col_offset
        tree = ast.fix_missing_locations(_Rewriter().visit(tree))
        module = compile(tree, self.file, "exec")
        self.code = next(c for c in module.co_consts if isinstance(c, types.CodeType))
        self.codes = tuple(codes_within(self.code))
        self.names = frozenset(name for c in self.codes for name in (*c.co_names, *c.co_freevars))

    def bind(self, namespace: dict[str, Any]) -> types.FunctionType:
        fn = types.FunctionType(self.code, namespace, self.fn.__name__, self.fn.__defaults__)
        fn.__kwdefaults__ = self.fn.__kwdefaults__
        return fn


_cache: dict[Any, RewrittenKernel] = {}
_changed: WeakKeyDictionary[Change, dict[Any, RewrittenKernel]] = WeakKeyDictionary()


def code_of(jit_fn: Any, change: Change | None = None) -> RewrittenKernel:
    """Rewritten code of a JITFunction, cached by the Python function that it wraps, its source and the change."""
    key = jit_fn.fn, getattr(jit_fn, "src", None)
    known = _cache if change is None else _changed.setdefault(change, {})
    if key not in known:
        tree = tree_of(jit_fn)
        other = None if change is None else change(jit_fn, tree)
        known[key] = code_of(jit_fn) if change and other is None else RewrittenKernel(jit_fn, other or tree)
    return known[key]


_PYTHONS = frozenset({"__builtins__", "__name__", "__package__", "__spec__", "__path__", "__file__", "__loader__"})
"""What Python itself looks for in the globals of code that runs."""


def namespace_of(fn: types.FunctionType, names: frozenset[str] | None = None) -> dict[str, Any]:
    """Globals and closure of `fn` as they are now. `names`: those of its code, where no others are asked for; a module
    may have thousands."""
    closure = zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False)
    cells = {}
    for name, cell in closure:
        try:
            cells[name] = cell.cell_contents
        except ValueError:
            continue
    known = fn.__globals__
    if names is not None:
        known = {name: known[name] for part in (names, _PYTHONS) for name in part if name in known}
    return {**known, **cells}
