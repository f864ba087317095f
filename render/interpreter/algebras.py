"""Reads combine functions that are linear in either operand, and those that start anew at a flag."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from interval_ops.reduction.algebra import Algebra
from render.interpreter.combine import Expression, Read, kind_of, parsed, read, source_of

_LARGEST = 7
"""Components: the tables of f have the third power of their number."""

Polynomial = Counter[tuple[int, int]]
"""Coefficients by places in the left and in the right operand, 0 the constant 1."""


class _Unread(Exception):
    """No polynomial, or one that is not linear in either operand."""


def algebra(fn: Any) -> Algebra | None:
    """c and magnitudes of an associative function that is linear in either operand; None for any other."""
    source = source_of(fn)
    return None if source is None else _algebra(source)


@lru_cache(maxsize=256)
def _algebra(source: str) -> Algebra | None:
    found = parsed(source)
    return None if found is None or len(found[2]) > _LARGEST else _built(found)


def _built(found: Read) -> Algebra | None:
    left, right, outputs = found
    places = {x: (k + 1, 0) for k, x in enumerate(left)} | {y: (0, k + 1) for k, y in enumerate(right)}
    size = len(outputs) + 1
    c, magnitudes = np.zeros((2, size, size, size))
    c[0, 0, 0] = magnitudes[0, 0, 0] = 1.0
    try:
        for o, e in enumerate(outputs):
            for table, plain in ((c, False), (magnitudes, True)):
                for (i, j), factor in _polynomial(e, places, plain).items():
                    table[o + 1, i, j] = factor
    except _Unread:
        return None
    made = Algebra(c, magnitudes, max(map(_roundings, outputs)), max(map(_products, outputs)))
    return made if made.associative and (made.used.by_components or made.used.unit is not None) else None


def _polynomial(e: Expression, places: dict[Expression, tuple[int, int]], plain: bool) -> Polynomial:
    """`plain`: with the magnitudes of all terms, so that nothing cancels."""
    if e in places:
        return Counter({places[e]: 1.0})  # type: ignore[dict-item]
    if e[0] == "number" and abs(e[1]) <= 1024 and float(e[1] * 1024).is_integer():
        return Counter({(0, 0): abs(e[1]) if plain else e[1]})
    if e[0] not in ("+", "-", "*"):
        raise _Unread
    parts = [_polynomial(p, places, plain) for p in e[1:]]
    out: Polynomial = Counter(parts[0])
    for k, part in enumerate(parts[1:]):
        if e[0] == "*":
            out = _times(out, part)
            continue
        sign = -1.0 if e[0] == "-" and not plain and k == 0 else 1.0
        for at, factor in part.items():
            out[at] = out[at] + sign * factor  # type: ignore[assignment]
    return out


def _times(x: Polynomial, y: Polynomial) -> Polynomial:
    out: Polynomial = Counter()
    for ((i, j), a), ((p, q), b) in product(x.items(), y.items()):
        if (i and p) or (j and q):
            raise _Unread
        out[i + p, j + q] += a * b
    return out


def _roundings(e: Expression) -> int:
    """The most roundings that a term passes, in any order of the terms of a sum or the factors of a product."""
    if e[0] in ("name", "number"):
        return 0
    each = [_roundings(p) for p in e[1:]]
    return (sum(each) if e[0] == "*" else max(each)) + len(each) - 1


def _products(e: Expression) -> int:
    """How many products it has."""
    if e[0] in ("name", "number"):
        return 0
    return sum(map(_products, e[1:])) + (len(e) - 2 if e[0] == "*" else 0)


class Segmented(NamedTuple):
    """The place of the flag, and what each component does between flags ("" for the flag itself)."""

    flag: int
    kinds: tuple[str, ...]


def segmented(fn: Any) -> Segmented | None:
    """A function that starts anew where the right flag is set: (f1 | f2, where(f2, v2, v1 + v2)) and the like."""
    found = read(fn)
    return None if found is None else _segmented(*found)


def _segmented(left: list[Expression], right: list[Expression], outputs: list[Expression]) -> Segmented | None:
    for flag, (f1, f2) in enumerate(zip(left, right, strict=True)):
        if outputs[flag] not in (("|", *sorted((f1, f2), key=repr)), ("max", *sorted((f1, f2), key=repr))):
            continue
        kinds = tuple("" if k == flag else _between(outputs[k], left[k], right[k], f2) for k in range(len(outputs)))
        if len(kinds) > 1 and None not in kinds:
            return Segmented(flag, kinds)  # type: ignore[arg-type]
    return None


def _between(out: Expression, x: Expression, y: Expression, flag: Expression) -> str | None:
    if out[0] not in ("where zero", "where flag", "where positive") or out[1] != flag:
        return None
    anew, merged = (out[3], out[2]) if out[0] == "where zero" else (out[2], out[3])
    return kind_of(merged, x, y) if anew == y else None
