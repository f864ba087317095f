"""How values carry what left torch as a number, and what functions make of it by their names."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce

from render.interpreter.hosted.mathematics import JOINTLY, MATH


class Carried(IntEnum):
    """How a value carries what left; of two that meet in an operation the larger one."""

    NONE = 0
    TEXT = 1
    """Its digits."""
    SOMETIMES = 2
    """A number on one way and nothing that left on another: what it meets is not sure to be seen by it."""
    FLOAT = 3
    NUMBER = 4
    """Sees its comparisons itself."""
    ARRAY = 5

    @property
    def blind(self) -> bool:
        """Whether nobody sees what it decides."""
        return self in (Carried.FLOAT, Carried.ARRAY)

    @property
    def sees(self) -> bool:
        """Whether it is a number, if it is anything."""
        return self in (Carried.SOMETIMES, Carried.NUMBER)

    def either(self, other: Carried) -> Carried:
        """What is carried where this or another is, on ways that nobody tells apart."""
        low, high = sorted((self, other))
        if high is Carried.ARRAY or low == high or not high.sees:
            return high
        return Carried.FLOAT if low in (Carried.TEXT, Carried.FLOAT) else Carried.SOMETIMES


def any_of(kinds: Iterable[Carried]) -> Carried:
    """What one of several carries."""
    every = list(kinds)
    return reduce(Carried.either, every) if every else Carried.NONE


@dataclass
class Entering:
    """A function that is entered: what its parameters carry, in all calls of it that it makes itself, too."""

    kinds: dict[str, Carried]
    tensors: set[str]
    returns: Carried = Carried.NONE

    def join(self, kinds: dict[str, Carried], tensors: set[str]) -> None:
        self.kinds |= {name: kind.either(self.kinds.get(name, Carried.NONE)) for name, kind in kinds.items()}
        self.tensors &= tensors


class TooMuchCode(Exception):
    """A function, with those that it calls, is more than is read of it."""


@dataclass
class ReadingBudget:
    """How much is read, counted in expressions, and what has changed on the way."""

    left: int = 200_000
    """Expressions that may still be read: some hundred times what a training loop of a hundred lines takes."""
    changes: int = 0
    """Names and attributes that were given something else."""
    stored: int = 0
    """The last of these that every function sees, in an attribute."""

    def step(self) -> None:
        """Raises TooMuchCode."""
        self.left -= 1
        if self.left < 0:
            raise TooMuchCode

    def change(self) -> int:
        self.changes += 1
        return self.changes


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
    "tobytes", "asdict", "_asdict", "astuple",
])  # fmt: skip
"""Functions and methods by name whose results rise and fall with what they are given: none decides."""
SHOWING = frozenset([
    "print", "debug", "info", "warning", "warn", "error", "exception", "critical", "log_", "write", "writelines",
    "pprint", "display", "isinstance", "type", "len", "id", "assert_allclose", "assert_array_equal",
    "assert_almost_equal", "assert_array_almost_equal", "assert_equal", "assert_array_less", "approx", "raises",
    "skip", "fail", "xfail", "tqdm", "set_description", "set_postfix", "add_scalar", "log_metric",
    "savetxt", "save", "savez", "savez_compressed", "savefig", "plot", "scatter", "imshow", "semilogy", "semilogx",
    "loglog", "errorbar", "fill_between", "axhline", "axvline",
    "numel", "dim", "stride", "element_size", "is_contiguous", "data_ptr", "nelement", "is_floating_point",
])  # fmt: skip
"""Their results hold nothing of what they are given, or only a test that fails by it."""
TEXTS = frozenset(["str", "repr", "format", "hex", "dumps", "join", "ascii"])
COUNTING = frozenset(["len", "int", "float", "round", "size", "numel", "dim", "nelement", "perf_counter", "time"])
"""What they give is one of Python's own numbers."""
PUTTING = frozenset(["append", "extend", "insert", "setdefault", "update"])
"""Methods by which a container gets something more."""
SHAPES = frozenset([
    "shape", "dtype", "ndim", "size", "device", "itemsize", "nbytes", "strides", "flags", "__class__", "__name__",
    "is_cuda", "layout",
])  # fmt: skip
KEPT = NUMERIC | frozenset([
    "abs", "sum", "list", "tuple", "reversed", "enumerate", "zip", "map", "iter", "next", "append", "extend",
    "insert", "pop", "values", "items", "get", "keys", "setdefault", "update", "copy", "deepcopy", "tan", "cosh",
    "acos", "item", "tolist", "asdict", "_asdict", "astuple",
])  # fmt: skip
"""Of those the ones that make a number of a number that sees what it decides."""
SEEN = frozenset(f.__name__ for f in (
    int, round, bool, max, min, sorted, math.floor, math.ceil, math.trunc, divmod, any, all,
    math.isfinite, math.isnan, math.isinf, math.copysign, math.fmod,
))  # fmt: skip
"""Functions that ask the number itself."""
