"""What is known of one overload of an ATen operation whatever it is called with, and where host code called it."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from interval_ops.formats import casting
from interval_ops.formats.model import Format
from render.interpreter.context import TRITON_ROOT
from render.interpreter.cuda_redirect import on_host
from render.interpreter.hosted.call import held_in, narrower, stored
from render.interpreter.hosted.table import MOVES, OF_INTEGERS, ROUNDS, RULES, opaque
from render.interpreter.memory.integers import INTEGERS
from render.interpreter.memory.symbols import marked
from render.ops.aten import Form, base_name, of_form, scalar_arguments
from render.ops.dtypes import BEYOND, FORMAT_OF
from render.ops.parts import dispatches
from render.ops.rooms import ABOUT

OWN_ROOTS = (os.path.dirname(torch.__file__) + os.sep, TRITON_ROOT, str(Path(__file__).parents[2]) + os.sep, "<")
"""Files that begin so are not the user's."""
COPIES = frozenset(["copy", "_to_copy"])
TAKES_IN = of_form(Form.MADE, Form.MOVE, Form.ORDER) | {"threshold"}
"""Operations whose results may hold a number among their arguments."""
_OVERWRITES = frozenset(["zero", "fill", "normal", "uniform", "random", "bernoulli", "exponential"])
"""In place these do not read what they overwrite."""


SHAPE_ONLY = frozenset(
    n for n in of_form(Form.MADE, Form.RANDOM) if n.endswith("_like") or n.lstrip("_").startswith("new_")
)
"""Operations that take a tensor for its shape and dtype."""


@dataclass(frozen=True, slots=True)
class OverloadRule:
    """What is known of an overload whatever it is called with."""

    name: str
    view: bool
    """Its results share their operands' memory, and with it everything that is known about that."""
    written: tuple[tuple[int, str], ...]
    """Place and name of the arguments that it writes."""
    overwrites: bool
    cause: str
    moves: bool
    """Results hold elements of the operands."""
    opaque: bool
    """No rule says what it makes of floats."""
    numbers: tuple[tuple[int, str], ...] = ()
    """Place and name of the numbers that its results take in unchanged."""
    takes_in: bool = False
    """Whether its results may hold such a number, or an operand without dimensions, in another type."""
    out: frozenset[str] = frozenset()
    """Keywords whose tensors take the results and are not read."""


_kept: dict[int, tuple[Any, OverloadRule]] = {}
"""By the identity of the overload, which is kept: its own hash is computed in Python."""


def operation(func: Any) -> OverloadRule:
    found = _kept.get(id(func))
    if found is None:
        found = _kept[id(func)] = func, _read(func)
    return found[1]


_SHARING = frozenset(["_unsafe_view"])
"""Views whose schema does not say so: torch calls them where nobody else holds the operand."""


def _read(func: Any) -> OverloadRule:
    schema = func._schema
    name = base_name(schema.name)
    given = [r.alias_info for r in schema.returns if r.alias_info is not None]
    written = tuple((i, a.name) for i, a in enumerate(schema.arguments) if a.alias_info and a.alias_info.is_write)
    view = (bool(given) and not written and not any(a.is_write for a in given)) or name in _SHARING
    overwrites = bool(written) and (name in _OVERWRITES or name == "copy")
    moves, unknown = name in MOVES or name in COPIES, opaque(name) and not view
    numbers = scalar_arguments(schema) if name in RULES and not view and name in TAKES_IN else ()
    if name == "nan_to_num":
        numbers = tuple((i, a.name) for i, a in enumerate(schema.arguments[1:], 1))
    takes = bool(numbers) or (name in TAKES_IN and name in RULES and not view and len(schema.arguments) > 1)
    out = frozenset(a.name for a in schema.arguments if a.is_out)
    return OverloadRule(name, view, written, overwrites, ROUNDS.get(name, ""), moves, unknown, numbers, takes, out)


def takes_in(func: Any, op: OverloadRule, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Format | None:
    """The narrow type that rounds a number among the arguments on its way into the result; None if none is rounded.

    One without dimensions is a number, too. Numbers beyond any data stay what float32 makes of them: the exact value
    of a reference is known to within that.
    """
    dtype = held_in(func, args, kwargs)
    fmt = FORMAT_OF.get(dtype)
    if fmt is None or fmt.bits == 64:
        return None
    for x in args:
        if isinstance(x, torch.Tensor) and not x.dim() and x.is_floating_point() and narrower(dtype, x.dtype):
            return fmt
    given = [args[i] if i < len(args) else kwargs.get(name) for i, name in op.numbers]
    most = BEYOND if fmt.bits == 32 else math.inf
    found = [float(x) for x in given if isinstance(x, (int, float)) and not isinstance(x, bool) and abs(x) < most]
    return None if all(stored(x, dtype) == x for x in found) else fmt


def symbols_of(
    func: Any, op: OverloadRule, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> set[tuple[float, float]]:
    """Ends of the numbers beyond any data among them, and of their opposites."""
    given = [args[i] if i < len(args) else kwargs.get(name) for i, name in op.numbers]
    far = [float(x) for x in given if isinstance(x, (int, float)) and BEYOND <= abs(x) < math.inf]
    ends = [marked(x, near) for x in far if math.isfinite(near := stored(x, held_in(func, args, kwargs)))]
    return {*ends, *((-high, -low) for low, high in ends)}


@cache
def taking_in(op: OverloadRule) -> OverloadRule:
    """An operation some number of which is rounded to the type of its result."""
    return replace(op, cause="cast")


@cache
def called_so(op: OverloadRule, adds: bool) -> OverloadRule:
    """An operation whose arguments make another one of it: `index_put` that adds, `scatter` that combines."""
    return replace(op, cause="accumulation", moves=False, opaque=not adds)


@dataclass(frozen=True, slots=True)
class HostSite:
    """The line of host code that asked for an operation."""

    file: str
    line: int


def draws(func: Any) -> bool:
    """Whether an operation takes numbers from torch's generator."""
    return torch.Tag.nondeterministic_seeded in func.tags


def host_site() -> HostSite:
    """Innermost frame outside torch, Triton and this package."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(OWN_ROOTS):
            return HostSite(path, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return HostSite("<host>", 0)


def rounded_to(op: OverloadRule, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Format | None:
    """The format that the result is rounded to, if narrower than float64 and (casts) than the operand; else None."""
    if op.name == "copy" and args[0].dtype == args[1].dtype:
        return None
    tensors = [t for t in args if isinstance(t, torch.Tensor)]
    if not all(is_plain(t) for t in tensors) or any(t.is_complex() for t in tensors):
        return None
    if op.cause == "cast":
        source, dtype = (args[1], args[0].dtype) if op.name == "copy" else (args[0], kwargs.get("dtype"))
        dst, src = (None if d is None else FORMAT_OF.get(d) for d in (dtype, source.dtype))
        whole = source.dtype in INTEGERS and dst is not None and 8 * source.itemsize > dst.p
        return None if dst is None or (not whole and (src is None or casting.holds(dst, src))) else dst
    if any(t.is_floating_point() for t in tensors):
        both = len(args) > 1 and is_number(args[1]) and op.name != ABOUT  # whose room is told in float64
        dtype = torch.result_type(*args[:2]) if both else tensors[0].dtype
    elif (op.name in OF_INTEGERS and kwargs.get("rounding_mode") is None) or any(isinstance(a, float) for a in args):
        dtype = torch.get_default_dtype()
    else:
        dtype = torch.int64
    fmt = FORMAT_OF.get(kwargs.get("dtype") or dtype)
    return None if fmt is None or fmt.bits == 64 else fmt


def is_number(x: Any) -> bool:
    return isinstance(x, (int, float, torch.Tensor))


def tensors_of(x: Any) -> list[torch.Tensor]:
    """The tensors among arguments or results, in their order; torch's own flattening takes ten times as long."""
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, (tuple, list)):
        return [t for y in x for t in tensors_of(y)]
    return [t for y in x.values() for t in tensors_of(y)] if isinstance(x, dict) else []


def is_plain(t: Any) -> bool:
    """A dense CPU tensor with memory of its own or of a base."""
    return isinstance(t, torch.Tensor) and t.layout == torch.strided and on_host(t) and not is_wrapper(t)


def is_sparse_among(args: tuple[Any, ...]) -> bool:
    """Whether some operand is a tensor of another layout than the dense one."""
    return any(isinstance(a, torch.Tensor) and a.layout != torch.strided for a in args)


def is_coarse(t: torch.Tensor) -> bool:
    """Floats, or complex numbers, narrower than float64: what an operation without a rule gave is then not exact."""
    return (t.is_floating_point() or t.is_complex()) and t.dtype not in (torch.float64, torch.complex128)


def start_of(t: torch.Tensor) -> int:
    return t.untyped_storage().data_ptr()


def is_wrapper(t: torch.Tensor) -> bool:
    """Whether its class computes with other tensors, so that it may have no memory."""
    return type(t) is not torch.Tensor and dispatches(type(t))


def read_arguments(op: OverloadRule, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """Tensors whose elements it reads: one may be an operand and take the result as well."""
    if op.name in SHAPE_ONLY:
        return []
    over = {i for i, _ in op.written} if op.overwrites else ()
    return [t for t in tensors_of(([a for i, a in enumerate(args) if i not in over],
                                   [v for k, v in kwargs.items() if k not in op.out])) if is_plain(t)]  # fmt: skip


def written_arguments(op: OverloadRule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Tensors that the operation's schema says it writes."""
    if not op.written:
        return []
    found: list[torch.Tensor] = []
    for i, name in op.written:
        value = args[i] if i < len(args) else kwargs.get(name)
        found += [t for t in tensors_of(value) if is_plain(t)]
    return found
