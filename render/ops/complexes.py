"""Operations on complex numbers as operations on their real and imaginary parts.

A complex tensor is the view of a real one with a last dimension of two, so that all that is known about its memory is
known about the parts. The formulas are those of c10/util/complex.h and of ATen's kernels, each step rounded; a kernel
that fuses products into sums rounds less often. What divides by complex numbers scales them by rules of its own, and a
Fourier transform adds up in an order of its own: neither is here, and both stay operations without a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from render.ops.aten import ATEN, Form, base_name

Parts = tuple[Any, Any]
"""Real part, and the imaginary one or None where the number is real."""


def _parts(x: Any) -> Parts:
    if isinstance(x, complex):
        return x.real, x.imag
    if not isinstance(x, torch.Tensor) or not x.is_complex():
        return x, None
    if x.is_conj():
        real, imaginary = torch.view_as_real(x.conj()).unbind(-1)
        return real, -imaginary
    real, imaginary = torch.view_as_real(x).unbind(-1)
    return real, imaginary


def _joined(real: torch.Tensor, imaginary: torch.Tensor) -> torch.Tensor:
    pair = torch.broadcast_tensors(real, imaginary)
    return torch.view_as_complex(torch.stack(pair, -1))


def _sum(x: Any, y: Any, *, alpha: Any = 1, sign: int = 1) -> torch.Tensor:
    (a, b), (c, d) = _parts(x), _parts(y)
    factor = alpha * sign
    real = a.add(c, alpha=factor)
    if b is None:
        imaginary = torch.zeros_like(real).add(d, alpha=factor)
    else:
        imaginary = (
            torch.as_tensor(b).expand(real.shape).clone() if d is None else torch.as_tensor(b).add(d, alpha=factor)
        )
    return _joined(real, imaginary)


def _difference(x: Any, y: Any, *, alpha: Any = 1) -> torch.Tensor:
    return _sum(x, y, alpha=alpha, sign=-1)


def _product(x: Any, y: Any, times: Callable[[Any, Any], Any] = lambda a, b: a * b) -> torch.Tensor:
    (a, b), (c, d) = _parts(x), _parts(y)
    if b is None or d is None:
        return _joined(times(a, c), times(b, c) if d is None else times(a, d))
    return _joined(times(a, c) - times(b, d), times(a, d) + times(b, c))


def _quotient(x: Any, y: Any) -> torch.Tensor:
    a, b = _parts(x)
    return _joined(a / y, b / y)


def _power(x: Any, n: Any) -> torch.Tensor:
    """Of 2 or 3, as ATen's `pow` has them."""
    square = _product(x, x)
    return square if n == 2 else _product(square, x)


def _exponential(x: Any) -> torch.Tensor:
    a, b = _parts(x)
    size = torch.exp(a)
    return _joined(size * torch.cos(b), size * torch.sin(b))


def _apart(function: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    """The same operation on both parts; where a dimension counts from the end it counts before that of the parts."""

    def both(x: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        a, b = _parts(x)
        return _joined(function(a, *args, **kwargs), function(b, *args, **kwargs))

    return both


def _listed(function: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    def both(tensors: Sequence[Any], dim: int = 0) -> torch.Tensor:
        pairs = [_parts(x) for x in tensors]
        real = [a for a, _ in pairs]
        return _joined(
            function(real, dim),
            function([torch.zeros_like(a) if b is None else b for a, b in pairs], dim),
        )

    return both


def _copied(x: Any, **named: Any) -> torch.Tensor:
    """From one complex type to another, or of a real number to a complex one."""
    real = _REAL[named.get("dtype") or x.dtype]
    a, b = _parts(x)
    return _joined(a.to(real), torch.zeros_like(a, dtype=real) if b is None else b.to(real))


def _conjugate(x: Any) -> torch.Tensor:
    a, b = _parts(x)
    return _joined(a, -b)


def _of_parts(x: Any, function: Callable[[Any, Any], Any]) -> Any:
    a, b = _parts(x)
    return function(a, b)


_REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}
_PLAIN: dict[str, Callable[..., Any]] = {
    "add": _sum, "sub": _difference, "mul": _product, "div": _quotient, "neg": _apart(torch.neg),
    "clone": lambda x, memory_format=None: _apart(torch.clone)(x), "_to_copy": _copied,
    "conj_physical": _conjugate, "_conj_physical": _conjugate,
    "sum": _apart(torch.sum), "mean": _apart(torch.mean), "stack": _listed(torch.stack), "cat": _listed(torch.cat),
    "mm": lambda x, y: _product(x, y, torch.mm), "bmm": lambda x, y: _product(x, y, torch.bmm),
    "abs": lambda x: _of_parts(x, torch.hypot), "angle": lambda x: _of_parts(x, lambda a, b: torch.atan2(b, a)),
}  # fmt: skip
_COMPOSED: dict[str, Callable[..., Any]] = {"pow": _power, "exp": _exponential}
"""Of several others."""
_MADE: dict[str, Callable[..., Any]] = {
    "complex": _joined,
    "polar": lambda size, angle: _joined(size * torch.cos(angle), size * torch.sin(angle)),
}
"""Complex numbers of real ones."""


def _moved(func: Any) -> Callable[..., torch.Tensor]:
    """What moves elements, on both parts; a real operand or number among them has an imaginary part of zeros."""
    scalars = frozenset(a.name for a in func._schema.arguments if str(a.type) == "number")

    def both(*args: Any, **kwargs: Any) -> torch.Tensor:
        plain = getattr(torch.ops.aten, func._schema.name.removeprefix("aten::").removesuffix("_"))
        given = [(a.name, x) for a, x in zip(func._schema.arguments, args, strict=False)]

        def of(name: str, x: Any, part: int) -> Any:
            if name in scalars and isinstance(x, int | float | complex):
                return complex(x).imag if part else complex(x).real
            if isinstance(x, torch.Tensor) and (x.is_complex() or x.is_floating_point()):
                found = _parts(x)[part]
                return torch.zeros_like(x) if found is None else found
            return x

        parts = [plain(*(of(n, x, p) for n, x in given), **{n: of(n, x, p) for n, x in kwargs.items()}) for p in (0, 1)]
        return _joined(*parts)

    return both


def _moves(func: Any) -> bool:
    """Into memory of the result's own, or in place; a scatter may add, and a copy drop a part."""
    schema, op = func._schema, ATEN.get(base_name(func._schema.name))
    if not schema.name.startswith("aten::") or any(r.alias_info and not r.alias_info.is_write for r in schema.returns):
        return False
    return op is not None and op.form == Form.MOVE and op.name not in ("copy", "scatter")


def _is_known(x: Any) -> bool:
    return not isinstance(x, torch.Tensor) or not x.is_complex() or x.dtype in _REAL


def plain_of(func: Any) -> Callable[..., Any] | None:
    """How an overload is put together from operations on the parts; None where it is not."""
    name = func._schema.name.removeprefix("aten::")
    bare = name if name == "_to_copy" else name.removesuffix("_")
    found = _MADE.get(name) or _PLAIN.get(bare) or _COMPOSED.get(bare)
    return found or (_moved(func) if _moves(func) else None)


def of_parts(
    func: Any, plain: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Callable[[], Any] | None:
    """The operation, put together by `plain` from real ones; None where its operands are real, or not taken apart."""
    name = func._schema.name.removeprefix("aten::")
    if "out" in kwargs or (kwargs.get("dtype") is not None and name != "_to_copy"):
        return None
    if name in _MADE:
        return lambda: plain(*args, **kwargs)
    given = args[0] if isinstance(args[0], list | tuple) else args
    made = name == "_to_copy" and kwargs.get("dtype") in _REAL
    if not (made or any(isinstance(x, torch.Tensor) and x.is_complex() for x in given)) or not all(
        map(_is_known, given)
    ):
        return None
    if name.startswith("div") and (kwargs or _divides(args)):
        return None
    if name.startswith("pow") and (not isinstance(args[1], int | float) or args[1] not in (2, 3)):
        return None
    if name == "_to_copy" and kwargs.get("dtype", args[0].dtype) not in _REAL:
        return None
    if not name.endswith("_"):
        return lambda: plain(*args, **kwargs)
    return None if args[0].is_conj() else lambda: _written(args[0], plain(*args, **kwargs))


def _divides(args: Sequence[Any]) -> bool:
    """By a complex number."""
    return isinstance(args[1], complex) or (isinstance(args[1], torch.Tensor) and args[1].is_complex())


def _written(target: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    torch.view_as_real(target).copy_(torch.view_as_real(value))
    return target
