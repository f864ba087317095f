"""What the user's code does with a number that left torch as a plain float or an array: does any decision rest on it?

A `Number` sees how it is compared; a plain float (`float(t)`, what numpy makes of a number) and an array do not. So the
function where one leaves is read: names, attributes and elements that it reaches, in any order of the statements, and
the first place where the program goes on by its value - a comparison, a condition, an index, an integer or a rounded
value made of it, a function that may do any of these. Calls of small functions of the user are entered; what a function
returns flows on in its caller.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from types import ModuleType
from typing import Any

from render.interpreter.hosted.mathematics import JOINTLY, MATH
from render.interpreter.hosted.reading import called


class Carried(IntEnum):
    """How a value carries what left; of two that meet in an operation the larger one."""

    NONE = 0
    TEXT = 1
    """Its digits."""
    FLOAT = 2
    NUMBER = 3
    """Sees its comparisons itself."""
    ARRAY = 4

    @property
    def blind(self) -> bool:
        """Whether nobody sees what it decides."""
        return self in (Carried.FLOAT, Carried.ARRAY)


NUMERIC = frozenset(MATH) | (JOINTLY.keys() - {math.copysign.__name__})
"""Functions of `math` that keep the bounds of a number, or say that they do not know them."""
CARRYING = NUMERIC | {"arc" + n[1:] for n in MATH if n[0] == "a"} | frozenset([
    "abs", "sum", "float", "complex", "list", "tuple", "reversed", "enumerate", "zip", "map", "iter", "next",
    "copy", "deepcopy", "asarray", "array", "ascontiguousarray", "mean", "std", "var", "dot", "matmul", "square",
    "tan", "cosh", "arccos", "acos", "erfc", "gamma", "lgamma", "power", "atan2", "absolute", "negative", "add",
    "subtract", "multiply", "divide", "true_divide", "cumsum", "concatenate", "stack", "reshape", "ravel",
    "flatten", "transpose", "squeeze", "expand_dims", "swapaxes", "broadcast_to", "full", "full_like", "tile",
    "repeat", "item", "tolist", "numpy", "astype", "view", "append", "extend", "insert", "pop", "values", "items",
    "get", "keys", "einsum", "outer", "inner", "norm", "float64", "float32", "float16", "double", "sigmoid",
    "average", "conjugate", "setdefault", "update", "fmean", "real", "imag", "take", "nan_to_num", "ldexp",
    "vstack", "hstack", "column_stack", "allclose", "isclose", "array_equal", "equal", "from_dlpack", "frombuffer",
    "tobytes",
])  # fmt: skip
"""Functions and methods by name whose results rise and fall with what they are given: none decides."""
SHOWING = frozenset([
    "print", "debug", "info", "warning", "warn", "error", "exception", "critical", "log_", "write", "writelines",
    "pprint", "display", "isinstance", "type", "len", "id", "assert_allclose", "assert_array_equal",
    "assert_almost_equal", "assert_array_almost_equal", "assert_equal", "assert_array_less", "approx", "raises",
    "skip", "fail", "xfail", "tqdm", "set_description", "set_postfix", "add_scalar", "log_metric",
    "numel", "dim", "stride", "element_size", "is_contiguous", "data_ptr", "nelement", "is_floating_point",
])  # fmt: skip
"""Their results hold nothing of what they are given, or only a test that fails by it."""
TEXTS = frozenset(["str", "repr", "format", "hex", "dumps", "join", "ascii"])
SHAPES = frozenset([
    "shape", "dtype", "ndim", "size", "device", "itemsize", "nbytes", "strides", "flags", "__class__", "__name__",
    "is_cuda", "layout",
])  # fmt: skip
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_ROUNDS = (ast.FloorDiv, ast.Mod)
_DEPTH, _TURNS = 3, 8
_State = tuple[dict[str, Any], set[str], dict[str, Any], Any]


Entered = Callable[[ast.Call], tuple[ast.AST, bool] | None]
"""A function of the user's that a call enters, and whether its first parameter is not among the arguments."""


@dataclass
class Flow:
    """Through one function. `thing`: the object that an expression names now, None where nobody knows."""

    scope: ast.AST
    sources: dict[int, Carried]
    """Of expressions by id."""
    thing: Callable[[ast.AST], Any]
    entered: Entered
    is_tensor: Callable[[Any], bool]
    names: dict[str, Carried] = field(default_factory=dict)
    attributes: dict[str, Carried] = field(default_factory=dict)
    tensors: set[str] = field(default_factory=set)
    depth: int = 0
    decides: dict[int, ast.AST] = field(default_factory=dict)
    """Where the program goes on by its value."""
    returns: Carried = Carried.NONE
    _within: set[int] = field(default_factory=set)
    _ordered: bool = False

    def _state(self) -> _State:
        return dict(self.names), set(self.tensors), dict(self.attributes), self.returns

    def _join(self, other: _State) -> None:
        """Either of two ways led here."""
        names, tensors = other[:2]
        self.tensors = {n for n in self.tensors | tensors if all(
            n in t or not k.get(n) for t, k in ((self.tensors, self.names), (tensors, names)))}  # fmt: skip
        for name, kind in names.items():
            self.names[name] = max(self.names.get(name, Carried.NONE), kind)

    def run(self) -> Flow:
        """In the order of the statements; in any order where functions inside share the names."""
        body = self.scope.body if isinstance(self.scope.body, list) else [self.scope.body]  # type: ignore[attr-defined]
        self._ordered = not any(isinstance(n, _SCOPES) for top in body for n in ast.walk(top))
        if self._ordered:
            self._block(body)
            return self._returned()
        for _ in range(_TURNS):
            before = self._state()
            self._block(body)
            if before == self._state():
                break
        return self._returned()

    def _returned(self) -> Flow:
        if isinstance(self.scope, ast.Lambda):
            self.returns = max(self.returns, self.kind(self.scope.body))
        return self

    # --- statements ---

    def _statement(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assert | ast.Raise | ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal):
            return
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is not None:
            method(node)
            return
        if isinstance(node, ast.expr):
            self.kind(node)
            return
        for child in ast.iter_child_nodes(node):
            self._statement(child)

    def _block(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self._statement(node)

    def _functiondef(self, node: Any) -> None:
        self._block(node.body)  # its names are those of the function around it

    _asyncfunctiondef = _functiondef

    def _assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._given(target, node.value)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._given(node.target, node.value)

    def _augassign(self, node: ast.AugAssign) -> None:
        kind = self._met(node, [self.kind(node.target), self.kind(node.value)], node.op)
        self._put(node.target, kind, self.tensor(node.value))

    def _given(self, target: ast.AST, value: ast.expr) -> None:
        several = isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List)
        if several and len(target.elts) == len(value.elts):  # type: ignore[attr-defined]
            for t, v in zip(target.elts, value.elts, strict=True):  # type: ignore[attr-defined]
                self._given(t, v)
            return
        self._put(target, self.kind(value), self.tensor(value))

    def _put(self, target: ast.AST, kind: Carried, tensor: bool) -> None:
        if isinstance(target, ast.Name):
            old = Carried.NONE if self._ordered else self.names.get(target.id, Carried.NONE)
            self.names[target.id] = max(old, Carried.NONE if tensor else kind)
            (self.tensors.add if tensor and not self.names[target.id] else self.tensors.discard)(target.id)
        elif isinstance(target, ast.Attribute):
            self.attributes[target.attr] = max(self.attributes.get(target.attr, Carried.NONE), kind)
        elif isinstance(target, ast.Subscript):
            self.kind(target)
            if not self.tensor(target.value):
                self._more(target.value, kind)
        elif isinstance(target, ast.Starred):
            self._put(target.value, kind, tensor)
        elif isinstance(target, ast.Tuple | ast.List):
            for t in target.elts:
                self._put(t, kind, tensor)

    def _more(self, held: ast.AST, kind: Carried) -> None:
        """A container holds it, too."""
        if isinstance(held, ast.Name):
            kind = max(kind, self.names.get(held.id, Carried.NONE))
        self._put(held, kind, False)

    def _for(self, node: ast.For) -> None:
        def turn() -> None:
            self._taken(node.target, node.iter)
            self._block(node.body)

        self._again(turn)
        self._block(node.orelse)

    def _taken(self, target: ast.AST, turns: ast.expr) -> None:
        """What one turn gives to its names, each its own of several that go along with each other."""
        kind, along = self.kind(turns), turns.args if isinstance(turns, ast.Call) else []
        parts = target.elts if isinstance(target, ast.Tuple) else []
        if parts and called(turns.func if isinstance(turns, ast.Call) else turns) == "enumerate" and len(along) == 1:
            self._put(parts[0], Carried.NONE, False)
            parts = parts[1:]
        elif not parts or called(turns.func if isinstance(turns, ast.Call) else turns) != "zip":
            along = []
        if len(parts) == len(along) > 0:
            for part, one in zip(parts, along, strict=True):
                self._put(part, self.kind(one), self.tensor(one))
        else:
            self._put(target, kind, self.tensor(turns))

    def _again(self, turn: Callable[[], None]) -> None:
        for _ in range(_TURNS if self._ordered else 1):
            before = self._state()
            turn()
            self._join(before)
            if before == self._state():
                break

    def _if(self, node: ast.If) -> None:
        if self._harmless(node):
            before = dict(self.decides)
            self.kind(node.test)
            self.decides = before
        else:
            self._asked(node.test)
        start = self._state()
        self._block(node.body)
        after = self._state()
        if self._ordered:
            self.names, self.tensors = dict(start[0]), set(start[1])
        self._block(node.orelse)
        self._join(after)

    def _while(self, node: ast.While) -> None:
        def turn() -> None:
            self._asked(node.test)
            self._block(node.body)

        self._again(turn)
        self._block(node.orelse)

    def _try(self, node: ast.Try) -> None:
        for part in (node.body, *(h.body for h in node.handlers), node.orelse, node.finalbody):
            before = self._state()
            self._block(part)
            self._join(before)

    def _harmless(self, node: ast.If) -> bool:
        """Whether it only raises, or shows something: no result rests on which way it goes."""
        return all(
            isinstance(s, ast.Raise | ast.Pass)
            or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and called(s.value.func) in SHOWING)
            for s in (*node.body, *node.orelse)
        )

    def _match(self, node: ast.Match) -> None:
        self._asked(node.subject)
        for case in node.cases:
            self._block(case.body)

    def _return(self, node: ast.Return | ast.Yield) -> Carried:
        if node.value is not None:
            kind = self.kind(node.value)
            self.returns = max(self.returns, Carried.NONE if self.tensor(node.value) else kind)
        return Carried.NONE

    _yield = _yieldfrom = _return

    def _asked(self, test: ast.expr) -> None:
        """The truth of an expression."""
        if self.kind(test).blind:
            self.decides[id(test)] = test

    # --- expressions ---

    def kind(self, node: ast.AST) -> Carried:
        if id(node) in self.sources:
            for child in ast.iter_child_nodes(node):
                self.kind(child)
            return self.sources[id(node)]
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is not None:
            found: Carried = method(node)
            return found
        return max(self._parts(node), default=Carried.NONE)

    def _parts(self, node: ast.AST) -> list[Carried]:
        return [self.kind(child) for child in ast.iter_child_nodes(node)]

    def _name(self, node: ast.Name) -> Carried:
        return Carried.NONE if node.id in self.tensors else self.names.get(node.id, Carried.NONE)

    def _attribute(self, node: ast.Attribute) -> Carried:
        own = self.kind(node.value)
        return max(Carried.NONE if node.attr in SHAPES else own, self.attributes.get(node.attr, Carried.NONE))

    def _binop(self, node: ast.BinOp) -> Carried:
        if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            return Carried.TEXT if self.kind(node.right) else Carried.NONE
        kinds = [self.kind(node.left), self.kind(node.right)]
        if self.tensor(node.left) or self.tensor(node.right):
            return Carried.NONE
        return self._met(node, kinds, node.op)

    def _met(self, node: ast.AST, kinds: list[Carried], op: ast.operator) -> Carried:
        found = max(kinds)
        exact = found is Carried.FLOAT and isinstance(op, ast.Mod)  # one of its own, looked for by its value
        if isinstance(op, _ROUNDS) and found.blind and not exact:
            self.decides[id(node)] = node
        return found

    def _unaryop(self, node: ast.UnaryOp) -> Carried:
        if isinstance(node.op, ast.Not):
            self._asked(node.operand)
            return Carried.NONE
        return self.kind(node.operand)

    def _boolop(self, node: ast.BoolOp) -> Carried:
        for value in node.values:
            self._asked(value)
        return max(self.kind(v) for v in node.values)

    def _compare(self, node: ast.Compare) -> Carried:
        kinds = [self.kind(x) for x in (node.left, *node.comparators)]
        tensor = any(self.tensor(x) for x in (node.left, *node.comparators))
        if not tensor and max(kinds).blind and not all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            self.decides[id(node)] = node
        return Carried.NONE

    def _ifexp(self, node: ast.IfExp) -> Carried:
        self._asked(node.test)
        return max(self.kind(node.body), self.kind(node.orelse))

    def _subscript(self, node: ast.Subscript) -> Carried:
        if self.kind(node.slice).blind:
            self.decides[id(node)] = node
        return self.kind(node.value)

    def _joinedstr(self, node: ast.JoinedStr) -> Carried:
        return Carried.TEXT if max(self._parts(node), default=Carried.NONE) else Carried.NONE

    def _lambda(self, node: ast.Lambda) -> Carried:
        return self.kind(node.body)

    def _namedexpr(self, node: ast.NamedExpr) -> Carried:
        self._given(node.target, node.value)
        return self.kind(node.value)

    def _comprehension(self, node: ast.comprehension) -> Carried:
        self._taken(node.target, node.iter)
        for test in node.ifs:
            self._asked(test)
        return Carried.NONE

    def _looped(self, node: Any) -> Carried:
        for turn in node.generators:
            self.kind(turn)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        return max(self.kind(p) for p in parts)

    _listcomp = _setcomp = _generatorexp = _dictcomp = _looped

    def _call(self, node: ast.Call) -> Carried:
        own = self.kind(node.func.value) if isinstance(node.func, ast.Attribute) else Carried.NONE
        arguments: list[ast.expr] = [*node.args, *(k.value for k in node.keywords)]
        given = max((self.kind(a) for a in arguments), default=Carried.NONE)
        name = called(node.func)
        if not (own or given) or name in SHOWING:
            return self.kind(node.func) if not isinstance(node.func, ast.Attribute) else Carried.NONE
        if name == "float" and given is Carried.TEXT:
            self.decides[id(node)] = node
        if name == "float":
            return Carried.FLOAT
        if name in TEXTS or max(own, given) is Carried.TEXT:
            return Carried.TEXT
        return self._of(node, name, own, given)

    def _of(self, node: ast.Call, name: str, own: Carried, given: Carried) -> Carried:
        """Of a call that gets what left, or is one of its methods."""
        if isinstance(node.func, ast.Attribute) and self.tensor(node.func.value):
            return Carried.NONE
        package = self._package(node.func)
        if isinstance(node.func, ast.Subscript) or package in ("torch", "F", "tl"):  # a launch
            return Carried.NONE
        inner = (node.func, False) if isinstance(node.func, ast.Lambda) else self.entered(node)
        if inner is not None:
            return self._inside(node, *inner)
        kind = max(own, given)
        if kind is Carried.NUMBER and package in ("np", "numpy", "scipy"):  # which take it as a plain one
            kind = Carried.FLOAT
        if name in CARRYING:
            if name in ("append", "extend", "insert", "setdefault", "update") and isinstance(node.func, ast.Attribute):
                self._more(node.func.value, given)
            if name == "astype" and not _to_float(node):
                self.decides[id(node)] = node
            return kind if kind is not Carried.NUMBER or name in _KEPT else Carried.FLOAT
        if kind.blind or name not in _SEEN:
            self.decides[id(node)] = node
        return kind

    def _package(self, function: ast.AST) -> str:
        """Where a function comes from: the package of what its name leads to, as far as that is known."""
        root = function
        while isinstance(root, ast.Attribute | ast.Call | ast.Subscript):
            root = root.func if isinstance(root, ast.Call) else root.value
        found = self.thing(root)
        if isinstance(found, ModuleType):
            return found.__name__.split(".")[0]
        if found is not None and root is function:
            return str(getattr(found, "__module__", None) or type(found).__module__).split(".")[0]
        return _root(function)

    def _inside(self, node: ast.Call, function: ast.AST, bound: bool) -> Carried:
        key = id(function)
        if self.depth >= _DEPTH:
            self.decides[id(node)] = node
            return Carried.FLOAT
        if key in self._within:
            return Carried.NONE
        self._within.add(key)
        try:
            kinds, tensors = self._handed(node, function.args, bound)  # type: ignore[attr-defined]
            inner = Flow(
                function, {}, lambda _: None, self.entered, self.is_tensor, kinds, self.attributes, tensors,
                self.depth + 1,
            )  # fmt: skip
            inner._within = self._within
            inner.run()
            self.decides.update(inner.decides)
            return inner.returns
        finally:
            self._within.discard(key)

    def _handed(self, node: ast.Call, parameters: ast.arguments, bound: bool) -> tuple[dict[str, Carried], set[str]]:
        """What the parameters of a function carry, and which are tensors."""
        names = [a.arg for a in (*parameters.posonlyargs, *parameters.args)][int(bound) :]
        given = [*zip(names, node.args, strict=False), *((k.arg or "", k.value) for k in node.keywords)]
        kinds = {name: self.kind(x) for name, x in given}
        rest = max((self.kind(x) for x in (*node.args, *(k.value for k in node.keywords))), default=Carried.NONE)
        kinds |= {more.arg: rest for more in (parameters.vararg, parameters.kwarg) if more is not None}
        return kinds, {name for name, x in given if self.tensor(x)}

    # --- tensors ---

    def tensor(self, node: ast.AST) -> bool:
        """Whether an expression is a tensor, which is followed by itself."""
        if isinstance(node, ast.Name):
            return node.id in self.tensors or (node.id not in self.names and self.is_tensor(self.thing(node)))
        if isinstance(node, ast.BinOp):
            return self.tensor(node.left) or self.tensor(node.right)
        if isinstance(node, ast.UnaryOp):
            return self.tensor(node.operand)
        if isinstance(node, ast.Subscript | ast.Starred):
            return self.tensor(node.value)
        if isinstance(node, ast.Attribute):
            return node.attr not in SHAPES and (self.tensor(node.value) or self.is_tensor(self.thing(node)))
        if isinstance(node, ast.Tuple | ast.List):
            return bool(node.elts) and all(self.tensor(x) for x in node.elts)
        if isinstance(node, ast.Call):
            name = called(node.func)
            if name in ("item", "tolist", "numpy", "size", "dim", "numel", "stride"):
                return False
            if isinstance(node.func, ast.Attribute) and self.tensor(node.func.value):
                return True
            return _root(node.func) in ("torch", "F") and name not in ("allclose", "equal", "is_tensor", "numel")
        return False


_KEPT = NUMERIC | frozenset([
    "abs", "sum", "list", "tuple", "reversed", "enumerate", "zip", "map", "iter", "next", "append", "extend",
    "insert", "pop", "values", "items", "get", "keys", "setdefault", "update", "copy", "deepcopy", "tan", "cosh",
    "acos", "item", "tolist",
])  # fmt: skip
"""Of those the ones that make a number of a number that sees what it decides."""
_SEEN = frozenset(f.__name__ for f in (
    int, round, bool, max, min, sorted, math.floor, math.ceil, math.trunc, divmod, any, all,
    math.isfinite, math.isnan, math.isinf, math.copysign, math.fmod,
))  # fmt: skip
"""Functions that ask the number itself."""


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _to_float(node: ast.Call) -> bool:
    told = [*node.args, *(k.value for k in node.keywords)]
    return bool(told) and any("float" in ast.unparse(x) or "double" in ast.unparse(x) for x in told)
