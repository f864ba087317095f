"""Where the inputs come from: a tensors file, `--input` specs, or the user's own `make_inputs()`.

Low-precision inputs are made once, in their own format; the float64 reference gets them widened. Rounding float64
inputs down instead would mix the quantisation of the inputs into the comparison.

A spec is `NAME=GENERATOR(ARGUMENTS)[.T][:DTYPE]` or `NAME=SCALAR`, for example `a=randn(512,512):fp16`, `n=512`,
`index=randint(0,10,128):int32`, `w=uniform(-1,1,64,64).T:bf16`.
"""

from __future__ import annotations

import ast
import copy
import inspect
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

from render.entry.held import WHOLE
from render.entry.held_state import HeldState, seeded
from render.entry.target import users_code
from render.entry.tensors import dense, load
from render.result.errors import RenderError, headline

NO_INPUTS = "RND901"

DTYPES: dict[str, torch.dtype] = {
    "fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16,
    "fp8e5": torch.float8_e5m2, "fp8e4nv": torch.float8_e4m3fn, "fp8e4b8": torch.float8_e4m3fnuz,
    "fp8e5b16": torch.float8_e5m2fnuz, "float64": torch.float64, "float32": torch.float32, "float16": torch.float16,
    "bfloat16": torch.bfloat16, "half": torch.float16, "float": torch.float32, "double": torch.float64,
    "float8_e5m2": torch.float8_e5m2, "float8_e4m3fn": torch.float8_e4m3fn, "int8": torch.int8, "int16": torch.int16,
    "int32": torch.int32, "int64": torch.int64, "uint8": torch.uint8, "bool": torch.bool,
}  # fmt: skip


@dataclass(frozen=True)
class Inputs:
    """The entry's arguments: the first `len(args)` parameters by position, the rest by keyword; `names` of `args`.

    `held`: what the functions that take them hold besides; copies of the arguments for a call come with it put back.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    names: tuple[str, ...]
    held: HeldState | None = field(default=None, repr=False, compare=False)

    def beside(self, *functions: Callable[..., Any]) -> Inputs:
        """The same, for calls of these functions alone."""
        if self.held is not None:
            return self
        as_they_are = [
            x for x in tree_leaves((self.args, dict(self.kwargs))) if callable(x) and not isinstance(x, WHOLE)
        ]
        return replace(self, held=HeldState([*functions, *as_they_are]))

    def apart(self, x: torch.Tensor) -> torch.Tensor:
        """What a function has returned, in memory that its next call leaves alone."""
        return x if self.held is None else self.held.apart(x)

    @property
    def values(self) -> dict[str, Any]:
        """All of them by name, in order."""
        return dict(zip(self.names, self.args, strict=True)) | dict(self.kwargs)

    def map(self, change: Callable[[Any], Any]) -> Inputs:
        """The same arguments with `change` applied to every tensor and module inside (containers are rebuilt)."""
        moved = tree_map(change, (list(self.args), dict(self.kwargs)))
        return Inputs(tuple(moved[0]), moved[1], self.names, self.held)

    def clone(self) -> Inputs:
        """Fresh memory with the same strides and aliases: a kernel may write into its arguments."""
        return self._fresh(Cloner())

    def upcast(self) -> Inputs:
        """Fresh memory with every floating-point tensor widened to float64 (exact)."""
        return self._fresh(Cloner(torch.float64))

    def _fresh(self, cloner: Cloner) -> Inputs:
        if self.held is not None:
            self.held.restore()
        return self.map(cloner)


_PLAIN = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
_NOT_OPENED = frozenset(["builtins", "torch", "numpy", "triton", "enum"])
"""Packages whose objects are handed on as they are."""


def opened(x: Any) -> dict[str, Any] | None:
    """What an object of the user's holds by name; None for any other."""
    if callable(x) or type(x).__module__.split(".")[0] in _NOT_OPENED:
        return None
    return getattr(x, "__dict__", None)


class Cloner:
    """Copies tensors once per storage, so that arguments that alias each other still do, and whatever else a call may
    change: arrays, generators of random numbers with their state, and objects of the user's that hold any of these."""

    def __init__(self, dtype: torch.dtype | None = None) -> None:
        self.dtype = dtype
        self._copies: dict[tuple[int, torch.dtype], torch.Tensor] = {}
        self._made: dict[int, tuple[Any, Any]] = {}
        """Other things by id, each with its copy."""
        self._memo: dict[int, Any] = {}
        """Of what is copied as a whole: an optimiser goes on with the parameters of the copied module."""

    def __call__(self, x: Any) -> Any:
        if isinstance(x, WHOLE):
            whole = copy.deepcopy(x, self._memo)
            return whole.to(self.dtype) if self.dtype and isinstance(whole, torch.nn.Module) else whole
        if isinstance(x, torch.Tensor):
            return self._tensor(x)
        if isinstance(x, _PLAIN):
            return x
        if id(x) not in self._made:
            self._made[id(x)] = x, x  # for what holds itself
            self._made[id(x)] = x, self._other(x)
        return self._made[id(x)][1]

    def _tensor(self, x: torch.Tensor) -> torch.Tensor:
        widened = self.dtype is not None and x.is_floating_point()
        copied: torch.Tensor | None = self._memo.get(id(x))
        if copied is not None:  # a module or an optimiser has it
            if widened:
                copied.data = copied.data.to(self.dtype)
            return copied
        if x.layout != torch.strided:
            return x.detach().to(self.dtype, copy=True) if widened else x.detach().clone()
        key = (x.untyped_storage()._cdata, x.dtype)
        if key not in self._copies:
            whole = torch.as_strided(x.detach(), (x.untyped_storage().nbytes() // x.itemsize,), (1,), 0)
            self._copies[key] = whole.to(self.dtype, copy=True) if widened else whole.clone()
        twin = torch.as_strided(self._copies[key], x.size(), x.stride(), x.storage_offset())
        twin = twin.requires_grad_(True) if x.requires_grad else twin
        self._memo[id(x)] = twin
        return twin

    def _other(self, x: Any) -> Any:
        if isinstance(x, torch.Generator):
            return x.clone_state()
        if isinstance(x, np.ndarray | np.random.Generator | np.random.RandomState | random.Random):
            return copy.deepcopy(x)
        if opened(x) is None:
            return x
        held = {name: tree_map(self, value) for name, value in vars(x).items()}
        same = all(a is b for name in held for a, b in zip(*map(tree_leaves, (held[name], vars(x)[name])), strict=True))
        if same:
            return x
        twin = copy.copy(x)
        vars(twin).update(held)
        return twin


def of_call(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Inputs:
    """The arguments of a Python call, named by the signature of `fn`."""
    known = [p for p in parameters_of(fn) if p not in kwargs]
    names = [known[i] if i < len(known) else f"arg{i}" for i in range(len(args))]
    return Inputs(tuple(args), dict(kwargs), tuple(names))


def from_mapping(fn: Callable[..., Any], given: Any) -> Inputs:
    """Inputs given as a dict by parameter name, as a tuple by position, or as one tensor."""
    dense(given, "an input")
    if isinstance(given, Mapping):
        if other := [key for key in given if not isinstance(key, str)]:
            raise RenderError(NO_INPUTS, f"inputs are named by strings, not {other[0]!r}", f"it takes {signature(fn)}")
        named = _rename(fn, dict(given))
        wrong = [n for n in named if n not in parameters_of(fn)] if not _takes_any(fn) else []
        if wrong:
            hint = f"it takes {signature(fn)}"
            raise RenderError(NO_INPUTS, f"{_name(fn)} has no parameter {', '.join(wrong)}", hint)
        return _ordered(fn, named)
    items = tuple(given) if isinstance(given, tuple | list) else (given,)
    try:
        inspect.signature(fn).bind(*items)
    except TypeError as error:
        raise RenderError(NO_INPUTS, f"{len(items)} inputs do not fit {_name(fn)}{signature(fn)}: {error}") from None
    except ValueError:
        pass  # a built-in function without a signature: its call will tell
    return of_call(fn, items, {})


def _rename(fn: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Unnamed arrays (`arr_0` of numpy, plain indices) and sets of other names of the right size go by position."""
    parameters = parameters_of(fn)
    if set(given) & set(parameters) or len(given) > len(parameters):
        return given
    if all(n.startswith("arr_") or n.isdigit() for n in given):
        return dict(zip(parameters, given.values(), strict=False))
    return given


def _ordered(fn: Callable[..., Any], named: dict[str, Any]) -> Inputs:
    missing = [n for n, p in _signature(fn).items() if p.default is p.empty and n not in named and _plain(p)]
    if missing:
        raise RenderError(NO_INPUTS, f"no input for {', '.join(missing)}", f"{_name(fn)} takes {signature(fn)}")
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    given = takewhile(lambda item: item[0] in named and item[1].kind in by_position, _signature(fn).items())
    names = tuple(n for n, _ in given)
    rest = {n: v for n, v in named.items() if n not in names}
    return Inputs(tuple(named[n] for n in names), rest, names)


def _plain(parameter: inspect.Parameter) -> bool:
    return parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


def _signature(fn: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return {}


def parameters_of(fn: Callable[..., Any]) -> list[str]:
    """Names of its parameters, of those that can be named."""
    return [n for n, p in _signature(fn).items() if _plain(p)]


def _takes_any(fn: Callable[..., Any]) -> bool:
    return any(p.kind is p.VAR_KEYWORD for p in _signature(fn).values())


def _takes_nothing(fn: Callable[..., Any]) -> bool:
    try:
        return not inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return False


def _name(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__name__", type(fn).__name__)


def signature(fn: Callable[..., Any]) -> str:
    """`(a, b, activation='')`, without annotations."""
    try:
        found = inspect.signature(fn)
    except (TypeError, ValueError):
        return "(...)"
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    return str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def gather(
    fn: Callable[..., Any],
    module: ModuleType | None = None,
    file: str | Path | None = None,
    specs: Sequence[str] = (),
    seed: int = 0,
) -> Inputs:
    """The first source that is given: a tensors file, specs, `make_inputs()`; else an error that says what to write."""
    if file is not None:
        return from_mapping(fn, load(Path(file)))
    if specs:
        return from_mapping(fn, parse_specs(specs, seed))
    make = getattr(module, "make_inputs", None)
    if make is not None:
        seeded(seed)
        with users_code("make_inputs()", "it takes nothing and returns a tuple or a dict of inputs", NO_INPUTS):
            made = make()
        return from_mapping(fn, made)
    if _takes_nothing(fn):
        return from_mapping(fn, {})  # it makes its inputs itself
    raise RenderError(NO_INPUTS, f"no inputs for {_name(fn)}{signature(fn)}", _recipe(fn))


def _recipe(fn: Callable[..., Any]) -> str:
    """A make_inputs() for this signature, ready to paste."""
    required = [n for n, p in _signature(fn).items() if p.default is p.empty and _plain(p)] or ["x"]
    lines = ",\n".join(f"        {n}={_guess(n)}" for n in required)
    return (
        "add this to the file (or pass --inputs or --input):\n\nimport torch\n\n"
        f"def make_inputs():\n    return dict(\n{lines},\n    )\n"
    )


def _guess(name: str) -> str:
    if name in ("eps", "epsilon"):
        return "1e-5"
    if name in ("scale", "sm_scale", "alpha", "beta"):
        return "0.5"
    if name in ("causal", "training"):
        return "False"
    if (len(name) == 1 and name in "nmkNMK") or name.startswith(("n_", "num_", "BLOCK")):
        return "64"
    return "torch.randn(64, 64)"


def parse_specs(specs: Sequence[str], seed: int = 0, option: str = "--input") -> dict[str, Any]:
    """Values by name; every generator draws from one seeded stream, in the order given. `option`: whose they are."""
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, Any] = {}
    for spec in specs:
        name, equals, text = spec.partition("=")
        name = name.strip()
        if not equals or not name.isidentifier():
            raise _bad(spec, "it has no NAME= in front")
        if name in found:
            raise _bad(spec, f"{name} was given before")
        found[name] = parse_value(spec, text.strip(), generator)
    return found


def parse_value(spec: str, text: str, generator: torch.Generator) -> Any:
    """One right-hand side: a generator call with an optional `.T` and dtype, or a Python literal."""
    head, colon, dtype_name = text.rpartition(":")
    typed = colon and (")" in head or head.rstrip().endswith("]")) and dtype_name.strip().isidentifier()
    body, dtype = (head, _dtype(spec, dtype_name.strip())) if typed else (text, None)
    try:
        node = ast.parse(body, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: nested without end
        raise _bad(spec, f"{_short(body)!r} is not a call or a value") from None
    transposed = isinstance(node, ast.Attribute) and node.attr in ("T", "mT")
    call = node.value if isinstance(node, ast.Attribute) and transposed else node
    if isinstance(node, ast.List | ast.Tuple):
        last = f":{dtype_name}" if typed else ""
        parts = [parse_value(spec, ast.unparse(part) + last, generator) for part in node.elts]
        return parts if isinstance(node, ast.List) else tuple(parts)
    if body.removeprefix("torch.") in DTYPES:
        return DTYPES[body.removeprefix("torch.")]
    if body.lstrip("-+") in ("inf", "nan"):
        return float(body)
    if not isinstance(call, ast.Call):
        try:
            return ast.literal_eval(node)
        except ValueError:
            raise _bad(spec, f"{body!r} is not a generator; known: {', '.join(GENERATORS)}") from None
    tensor = _generate(spec, call, dtype, generator)
    return tensor.mT if transposed else tensor


def _generate(spec: str, call: ast.Call, dtype: torch.dtype | None, generator: torch.Generator) -> torch.Tensor:
    name = call.func.id if isinstance(call.func, ast.Name) else ast.unparse(call.func)
    if name not in GENERATORS:
        raise _bad(spec, f"unknown generator {name}; known: {', '.join(GENERATORS)}")
    try:
        numbers = [ast.literal_eval(a) for a in call.args]
        options = {k.arg or "": ast.literal_eval(k.value) for k in call.keywords}
        tensor = GENERATORS[name](generator, *numbers, **options)
    except (ValueError, TypeError, RuntimeError) as error:
        raise _bad(spec, f"{ast.unparse(call)}: {headline(error)}") from None
    return tensor if dtype is None else tensor.to(dtype)


def _dtype(spec: str, name: str) -> torch.dtype:
    if name not in DTYPES:
        raise _bad(spec, f"unknown dtype {name}; known: {', '.join(list(DTYPES)[:8])}, int32, ...")
    return DTYPES[name]


def _bad(spec: str, why: str) -> RenderError:
    return RenderError(
        NO_INPUTS, f'cannot read --input "{_short(spec)}": {why}', 'write e.g. --input "a=randn(512,512):fp16"'
    )


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:80] + "..."


def _shape(numbers: tuple[Any, ...]) -> tuple[int, ...]:
    shape = numbers[0] if len(numbers) == 1 and isinstance(numbers[0], tuple | list) else numbers
    if not all(isinstance(n, int) and n >= 0 for n in shape):
        raise ValueError(f"sizes must be whole numbers, got {shape}")
    return tuple(shape)


GENERATORS: dict[str, Callable[..., torch.Tensor]] = {
    "randn": lambda g, *n, scale=1.0, mean=0.0: torch.randn(_shape(n), generator=g) * scale + mean,
    "rand": lambda g, *n, scale=1.0: torch.rand(_shape(n), generator=g) * scale,
    "uniform": lambda g, low, high, *n: torch.rand(_shape(n), generator=g) * (high - low) + low,
    "randint": lambda g, low, high, *n: torch.randint(low, high, _shape(n), generator=g),
    "zeros": lambda g, *n: torch.zeros(_shape(n)),
    "ones": lambda g, *n: torch.ones(_shape(n)),
    "empty": lambda g, *n: torch.empty(_shape(n)),
    "full": lambda g, value, *n: torch.full(_shape(n), value),
    "arange": lambda g, *n: torch.arange(*n),
    "randperm": lambda g, n: torch.randperm(n, generator=g),
    "tensor": lambda g, values: torch.tensor(values),
    "linspace": lambda g, low, high, n: torch.linspace(low, high, n),
    "eye": lambda g, *n: torch.eye(*_shape(n)),
}
