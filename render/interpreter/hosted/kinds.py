"""What expressions carry of a number that left torch as a plain float or an array, and where it decides or is lost."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from render.interpreter.hosted.carried import (
    CARRYING,
    COUNTING,
    KEPT,
    NUMERIC,
    PUTTING,
    SEEN,
    SHAPES,
    SHOWING,
    TEXTS,
    Carried,
    Entering,
    ReadingBudget,
    any_of,
)  # fmt: skip
from render.interpreter.hosted.held import fields_of, is_own, is_shared
from render.interpreter.hosted.reading import called, root_of, takers, tells_float
from render.interpreter.hosted.scopes import bindings, is_result, variables

_ROUNDS = (ast.FloorDiv, ast.Mod)
_ALL_NAMES = frozenset(["locals", "vars", "globals"])
_DEPTH = 3
_Part = tuple[ast.AST, Any, bool]
"""A name, what it carries, and whether it is a tensor."""

Entered = Callable[[ast.Call], tuple[ast.AST, bool] | None]
"""A function of the user's that a call enters, and whether its first parameter is not among the arguments."""


@dataclass
class Kinds:
    """Of the expressions in one function. `thing`: the object that an expression names now, None where nobody knows."""

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
    escapes: dict[int, ast.AST] = field(default_factory=dict)
    """Where it may become a float that nobody knows, in torch or where nobody reads on."""
    returns: Carried = Carried.NONE
    returned: list[list[Carried]] = field(default_factory=list)
    """Of each `return`, its parts; more than one where it is a tuple."""
    parts: dict[int, list[Carried]] = field(default_factory=dict)
    """Of calls by id, what is known of the parts of the tuple that they give."""
    functions: dict[str, list[Carried]] = field(default_factory=dict)
    """The same of functions inside, by name."""
    inside: dict[int, tuple[Carried, list[Carried]]] = field(default_factory=dict)
    """What functions inside give, by id, and the parts of that."""
    methods: dict[str, Carried] = field(default_factory=dict)
    """Of functions by name, what they are known to give."""
    budget: ReadingBudget = field(default_factory=ReadingBudget)
    """Shared by all that is read for one number."""
    _read: dict[int, tuple[tuple[int, int], Carried]] = field(default_factory=dict)
    """Of expressions by id, what they carry, and since when nothing has changed."""
    _changed: int = 0
    _asked_names: dict[str, bool] = field(default_factory=dict)
    strange: bool = False
    """Whether there may be numbers that take part in arithmetic in their own way: arrays, complex ones, of classes."""
    running: ast.AST | None = None
    """The function inside that runs now and keeps nothing: what it gives goes to who called it, which is read apart."""
    _within: dict[int, Entering] = field(default_factory=dict)
    _ordered: bool = False

    def run(self) -> Kinds:
        raise NotImplementedError

    def _return(self, node: ast.Return | ast.Yield) -> Carried:
        raise NotImplementedError

    def variable(self, node: ast.Name | ast.FunctionDef) -> str:
        """What a name stands for, of several functions' names that are the same."""
        found = variables(self.scope).get(id(node))
        return found or (node.name if isinstance(node, ast.FunctionDef) else node.id)

    def _parted(self, target: ast.AST, value: ast.expr) -> list[_Part]:
        """What each name gets of a value, whose parts are all read before any of them is put."""
        several = isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List)
        elements = [*target.elts, *value.elts] if several else []  # type: ignore[attr-defined]
        if several and not any(isinstance(e, ast.Starred) for e in elements):
            pairs = zip(target.elts, value.elts, strict=False)  # type: ignore[attr-defined]
            return [part for t, v in pairs for part in self._parted(t, v)]
        kind, parts = self.kind(value), self.parts.get(id(value), [])
        if isinstance(value, ast.Call) and not parts:
            parts = self.functions.get(called(value.func), [])
        if isinstance(target, ast.Tuple | ast.List) and len(target.elts) == len(parts):
            return [(t, part, False) for t, part in zip(target.elts, parts, strict=True)]
        return [(target, kind, self.tensor(value))]

    def _given(self, parts: Iterable[_Part]) -> None:
        for part in parts:
            self._put(*part)

    def _put(self, target: ast.AST, kind: Carried, tensor: bool) -> None:
        if isinstance(target, ast.Name):
            if kind and is_shared(self.scope, target.id):
                self._lost(target)
            new = Carried.NONE if tensor else kind
            name = self.variable(target)
            before = self.names.get(name), name in self.tensors
            self.names[name] = new if self._ordered else new.either(self.names.get(name, new))
            (self.tensors.add if tensor and not self.names[name] else self.tensors.discard)(name)
            if before != (self.names[name], name in self.tensors):
                self._changed = self.budget.change()
        elif isinstance(target, ast.Attribute):
            if kind and target.attr == "__dict__":
                self._lost(target)
            self._store(target.attr, kind)
        elif isinstance(target, ast.Subscript):
            self.kind(target)
            if not self.tensor(target.value):
                self._more(target.value, kind)
            elif kind.blind:
                self._lost(target)
        elif isinstance(target, ast.Starred):
            self._put(target.value, kind, tensor)
        elif isinstance(target, ast.Tuple | ast.List):
            for t in target.elts:
                self._put(t, kind, tensor)

    def _store(self, attribute: str, kind: Carried) -> None:
        before = self.attributes.get(attribute)
        self.attributes[attribute] = kind.either(before or Carried.NONE)
        if before is not self.attributes[attribute]:
            self.budget.stored = self.budget.change()

    def _more(self, held: ast.AST, kind: Carried) -> None:
        """A container holds it, too."""
        if kind and not (isinstance(held, ast.Attribute | ast.Subscript) or self._is_own(held)):
            self._lost(held)
        if isinstance(held, ast.Name):
            kind = kind.either(self.names.get(self.variable(held), Carried.NONE))
        self._put(held, kind, False)

    def _is_own(self, held: ast.AST) -> bool:
        return isinstance(held, ast.Name) and is_own(self.scope, held.id)

    def _lost(self, node: ast.AST) -> None:
        self.escapes[id(node)] = node

    def _taken(self, target: ast.AST, turns: ast.expr) -> None:
        """What one turn gives to its names, each its own of several that go along with each other."""
        along = turns.args if isinstance(turns, ast.Call) else []
        parts, name = target.elts if isinstance(target, ast.Tuple) else [], called(getattr(turns, "func", turns))
        if len(parts) == 2 and name == "enumerate" and len(along) == 1:
            self._put(parts[0], Carried.NONE, False)
            self._taken(parts[1], along[0])
        elif len(parts) == len(along) > 0 and name == "zip" and not any(isinstance(a, ast.Starred) for a in along):
            self._given([(part, self.kind(one), self.tensor(one)) for part, one in zip(parts, along, strict=True)])
        else:
            self._put(target, self.kind(turns), self.tensor(turns))

    def _asked(self, test: ast.expr) -> None:
        """The truth of an expression."""
        if self.kind(test).blind:
            self.decides[id(test)] = test

    def kind(self, node: ast.AST) -> Carried:
        """What an expression carries. Raises TooMuchCode."""
        state = self._changed, self.budget.stored
        known = self._read.get(id(node))
        if known is not None and known[0] == state:
            return known[1]
        self.budget.step()
        found = self._kind(node)
        self._read[id(node)] = (self._changed, self.budget.stored), found
        return found

    def _kind(self, node: ast.AST) -> Carried:
        if id(node) in self.sources:
            for child in ast.iter_child_nodes(node):
                self.kind(child)
            return self.sources[id(node)]
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is not None:
            return method(node)  # type: ignore[no-any-return]
        return max(self._parts(node), default=Carried.NONE)

    def _parts(self, node: ast.AST) -> list[Carried]:
        return [self.kind(child) for child in ast.iter_child_nodes(node)]

    def _list(self, node: ast.expr) -> Carried:
        return any_of(
            self._parts(node)[: -1 if isinstance(node, ast.List | ast.Tuple) else None]
        )  # without its context

    _tuple = _set = _dict = _list

    def _name(self, node: ast.Name) -> Carried:
        name = self.variable(node)
        return Carried.NONE if name in self.tensors else self.names.get(name, Carried.NONE)

    def _attribute(self, node: ast.Attribute) -> Carried:
        own = self.kind(node.value)
        return max(Carried.NONE if node.attr in SHAPES else own, self.attributes.get(node.attr, Carried.NONE))

    def _binop(self, node: ast.BinOp) -> Carried:
        if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            return Carried.TEXT if self.kind(node.right) else Carried.NONE
        kinds = [self.kind(node.left), self.kind(node.right)]
        if self.tensor(node.left) or self.tensor(node.right):
            if max(kinds).blind:
                self._lost(node)
            return Carried.NONE
        return self._met(node, kinds, node.op)

    def _met(self, node: ast.AST, kinds: list[Carried], op: ast.operator) -> Carried:
        found = max(kinds)
        operands = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)  # type: ignore[attr-defined]
        if found.sees and (any(kind.blind for kind in kinds) or not all(map(self._is_number, operands))):
            self._lost(node)  # a number that knows itself meets one that does not, or that takes it as a plain one
        exact = found is Carried.FLOAT and isinstance(op, ast.Mod)  # one of its own, looked for by its value
        if isinstance(op, _ROUNDS) and found.blind and not exact:
            self.decides[id(node)] = node
        return found

    def _is_number(self, node: ast.AST) -> bool:
        """Whether an operand is one of Python's own numbers, which leaves arithmetic to the number that it meets; where
        nobody knows, whether the file has no others (`strange`)."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, int | float | str)
        if isinstance(node, ast.UnaryOp):
            return self._is_number(node.operand)
        if isinstance(node, ast.BinOp):  # before what it carries is asked, which asks this of its operands
            return self._is_number(node.left) and self._is_number(node.right)
        if self.kind(node) is Carried.NUMBER:
            return True
        if isinstance(node, ast.Call) and called(node.func) in COUNTING:
            return True
        found = self.thing(node)
        if not self.strange:
            return found is None or isinstance(found, int | float | str | list | tuple)
        if isinstance(node, ast.Name) and (bound := bindings(self.scope).get(self.variable(node))):
            return self._only_numbers(self.variable(node), bound)
        return isinstance(found, int | float)

    def _only_numbers(self, name: str, bound: list[ast.AST | None]) -> bool:
        """Whether all that a function binds to a name is such a number, whenever it does; each name is asked once."""
        asking = self._asked_names
        if name in asking:
            return asking[name]
        first, asking[name] = not asking, True  # what it is made of itself adds nothing else
        found = asking[name] = all(map(self._binds_number, bound))
        if first:
            asking.clear()
        return found

    def _binds_number(self, node: ast.AST | None) -> bool:
        if isinstance(node, ast.For):
            return isinstance(node.iter, ast.Call) and called(node.iter.func) == range.__name__
        plain = isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value is not None
        return plain and self._is_number(node.value)  # type: ignore[union-attr,arg-type]

    def _unaryop(self, node: ast.UnaryOp) -> Carried:
        if isinstance(node.op, ast.Not):
            self._asked(node.operand)
            return Carried.NONE
        return self.kind(node.operand)

    def _boolop(self, node: ast.BoolOp) -> Carried:
        for value in node.values:
            self._asked(value)
        return any_of(map(self.kind, node.values))

    def _compare(self, node: ast.Compare) -> Carried:
        kinds = [self.kind(x) for x in (node.left, *node.comparators)]
        tensor = any(self.tensor(x) for x in (node.left, *node.comparators))
        if not tensor and max(kinds).blind and not all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            self.decides[id(node)] = node
        return Carried.NONE

    def _ifexp(self, node: ast.IfExp) -> Carried:
        self._asked(node.test)
        return self.kind(node.body).either(self.kind(node.orelse))

    def _subscript(self, node: ast.Subscript) -> Carried:
        if self.kind(node.slice).blind:
            self.decides[id(node)] = node
        return self.kind(node.value)

    def _joinedstr(self, node: ast.JoinedStr) -> Carried:
        return Carried.TEXT if max(self._parts(node), default=Carried.NONE) else Carried.NONE

    def _lambda(self, node: ast.Lambda) -> Carried:
        found = self.kind(node.body)
        return Carried.NONE if node is self.running else found

    def _namedexpr(self, node: ast.NamedExpr) -> Carried:
        kind = self.kind(node.value)
        self._put(node.target, kind, self.tensor(node.value))
        return kind

    def _comprehension(self, node: ast.comprehension) -> Carried:
        self._taken(node.target, node.iter)
        for test in node.ifs:
            self._asked(test)
        return Carried.NONE

    def _looped(self, node: Any) -> Carried:
        targets = [
            self.variable(n) for turn in node.generators for n in ast.walk(turn.target) if isinstance(n, ast.Name)
        ]
        around = self._changed, dict(self.names), set(self.tensors)
        outer = {name: (self.names.get(name), name in self.tensors) for name in targets}
        for turn in node.generators:
            self.kind(turn)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        found = any_of(map(self.kind, parts))
        for name, (kind, tensor) in outer.items():  # names of its own: those outside are what they were
            self.names.pop(name, None)
            self.names |= {} if kind is None else {name: kind}
            (self.tensors.add if tensor else self.tensors.discard)(name)
        same = around[1:] == (self.names, self.tensors)
        self._changed = around[0] if same else self.budget.change()
        return found

    _listcomp = _setcomp = _generatorexp = _dictcomp = _looped

    def _call(self, node: ast.Call) -> Carried:
        own = self.kind(node.func.value) if isinstance(node.func, ast.Attribute) else Carried.NONE
        arguments: list[ast.expr] = [*node.args, *(k.value for k in node.keywords)]
        kinds = [self.kind(a) for a in arguments]
        given = max(kinds, default=Carried.NONE)
        name = called(node.func)
        if name in _ALL_NAMES and not arguments:
            self._lost(node)
        if not (own or given) or (name in SHOWING and self.entered(node) is None):
            return (
                self.methods.get(name, Carried.NONE) if isinstance(node.func, ast.Attribute) else self.kind(node.func)
            )
        if name == "float" and given is Carried.TEXT:
            self.decides[id(node)] = node
        if name == "float":
            return Carried.FLOAT
        if name in TEXTS or max(own, given) is Carried.TEXT:
            if name in PUTTING and isinstance(node.func, ast.Attribute):
                self._more(node.func.value, Carried.TEXT)
            elif name not in TEXTS and own is not Carried.TEXT:
                self._lost(node)  # a text is read again as a number, perhaps
            return Carried.TEXT
        if name not in NUMERIC or self._package(node.func) == "torch":  # which may give back any of them
            own = given = any_of([*kinds, *([own] if own else [])])
        return self._of(node, name, own, given)

    def _of(self, node: ast.Call, name: str, own: Carried, given: Carried) -> Carried:
        """Of a call that gets what left, or is one of its methods."""
        of_tensor = isinstance(node.func, ast.Attribute) and self.tensor(node.func.value)
        package = "torch" if of_tensor else self._package(node.func)
        if isinstance(node.func, ast.Subscript) or package in ("torch", "F", "tl"):  # a launch
            if max(own, given).blind or (isinstance(node.func, ast.Subscript) and not self._is_launch(node.func)):
                self._lost(node)
            return Carried.NONE
        inner = (node.func, False) if isinstance(node.func, ast.Lambda) else self.entered(node)
        if inner is not None:
            return self._inside(node, *inner)
        if self._keeps(node, name, package):
            return max(own, given)
        kind = max(own, given)
        if kind.sees and package in ("np", "numpy", "scipy"):  # which take it as a plain one
            kind = Carried.FLOAT
        if name in CARRYING:
            if name in PUTTING and isinstance(node.func, ast.Attribute):
                self._more(node.func.value, given)
            if name == "astype" and not tells_float(node):
                self.decides[id(node)] = node
            return kind if not kind.sees or name in KEPT else Carried.FLOAT
        if kind.sees and self._schedules(node.func):
            return Carried.NONE
        if kind.blind or name not in SEEN:
            self.decides[id(node)] = node
        if name not in SEEN:
            self._lost(node)
        return kind

    def _keeps(self, node: ast.Call, name: str, package: str) -> bool:
        """Whether all that it does is to put what it is given into attributes of a new object, which are noted."""
        fields = fields_of(self.thing(node.func))
        if not fields and name != "_replace" and not (name == "replace" and package == "dataclasses"):
            return False
        named = [(k.arg, k.value) for k in node.keywords if k.arg is not None]
        if any(isinstance(a, ast.Starred) for a in node.args) or len(named) < len(node.keywords):
            return False
        for name, x in [*zip(fields, node.args, strict=False), *named]:
            self._store(name, self.kind(x))
        return True

    def _schedules(self, function: ast.AST) -> bool:
        """Whether it is a method of one of torch's schedules, which keep a number that they are given."""
        found = self.thing(function.value) if isinstance(function, ast.Attribute) else None
        return type(found).__module__ == "torch.optim.lr_scheduler"

    def _is_launch(self, function: ast.AST) -> bool:
        """Whether `function[...]` is a kernel's, and none out of a table of them."""
        found = self.thing(function.value) if isinstance(function, ast.Subscript) else None
        return found is not None and not isinstance(found, dict | list | tuple)

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
        return root_of(function)

    def _inside(self, node: ast.Call, function: ast.AST, bound: bool) -> Carried:
        kinds, tensors = self._handed(node, function.args, bound)  # type: ignore[attr-defined]
        running = self._within.get(id(function))
        if running is not None:  # it calls itself, and is read again with this
            running.join(kinds, tensors)
            return running.returns
        if self.depth >= _DEPTH:
            self.decides[id(node)] = node
            self._lost(node)
            return Carried.FLOAT
        running, before = Entering(kinds, tensors), None
        self._within[id(function)] = running
        while running != before:
            before = deepcopy(running)
            inner = type(self)(
                function, {}, lambda _: None, self.entered, self.is_tensor, dict(running.kinds), self.attributes,
                set(running.tensors), self.depth + 1, strange=self.strange, budget=self.budget,
            )  # fmt: skip
            inner._within = self._within
            running.returns = max(running.returns, inner.run().returns)
            self.decides.update(inner.decides)
            self.escapes.update(inner.escapes)
            self.parts[id(node)] = inner.given_back()
        del self._within[id(function)]
        return max(running.returns, self.kind(node.func) if isinstance(node.func, ast.Name) else Carried.NONE)

    def _handed(self, node: ast.Call, parameters: ast.arguments, bound: bool) -> tuple[dict[str, Carried], set[str]]:
        """What the parameters of a function carry, and which are tensors."""
        places = [a.arg for a in (*parameters.posonlyargs, *parameters.args)][int(bound) :]
        rest = max((self.kind(x) for x in (*node.args, *(k.value for k in node.keywords))), default=Carried.NONE)
        if any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            return dict.fromkeys([*places, *(a.arg for a in parameters.kwonlyargs), *takers(parameters)], rest), set()
        given = [*zip(places, node.args, strict=False), *((k.arg or "", k.value) for k in node.keywords)]
        kinds = {name: self.kind(x) for name, x in given} | dict.fromkeys(takers(parameters), rest)
        return kinds, {name for name, x in given if self.tensor(x)}

    def given_back(self) -> list[Carried]:
        """What the parts of the tuple carry that each `return` gives; empty where they give none, or others."""
        if len({len(parts) for parts in self.returned}) != 1 or len(self.returned[0]) < 2:
            return []
        return [any_of(kinds) for kinds in zip(*self.returned, strict=True)]

    # --- tensors ---

    def tensor(self, node: ast.AST) -> bool:
        """Whether an expression is a tensor, which is followed by itself."""
        if isinstance(node, ast.Name):
            name = self.variable(node)
            held = name not in self.names or (not self.names[name] and is_result(self.scope, name))
            return name in self.tensors or (held and self.is_tensor(self.thing(node)))
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
            if name[:1].isupper() and not name.endswith(("Tensor", "Parameter", "Buffer")):
                return False  # an optimiser, a schedule, a module
            return root_of(node.func) in ("torch", "F") and name not in ("allclose", "equal", "is_tensor", "numel")
        return False
