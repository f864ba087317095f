"""Bounds that hold for every order and grouping: of reductions by a combine function, and of all prefixes of a scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from interval_ops.bounds import Pair, each
from interval_ops.formats.model import Format
from interval_ops.profiles.profile import Profile
from interval_ops.reduction import algebra, logsumexp, scan
from interval_ops.reduction import welford as moments
from render.interpreter import algebras, means
from render.interpreter.combine import log_sum_exp, source_of
from render.interpreter.handle import Handle
from render.interpreter.mean_forms import mean_of
from render.interpreter.merged_moments import welford
from render.interpreter.types import format_of

Model = Callable[[], Profile]
"""The profile of what the combine function rounds; asked for only where something does."""
Ends = list[Pair | None]
"""Of each component; None: what was computed is exact."""
Along = Callable[[Sequence[Pair], int], Ends | None]
"""A rule that reduces operands of one full shape along an axis."""


def reduced(fn: Any, parts: Sequence[Handle], axis: int, model: Model) -> Ends | None:
    """None where no rule is known, or its conditions do not hold."""
    full = _of_one_batch([whole(h) for h in parts])
    rule = _extremes(fn, parts, model)
    if rule is not None:
        return rule(full, axis + 1)
    fmt, found = one_format(parts), algebras.algebra(fn)
    if fmt is None or found is None or not found.commutes:
        return None
    last = algebra.prefixes(full, axis + 1, False, found, fmt, model())
    return [(lo.take(-1, axis + 1), hi.take(-1, axis + 1)) for lo, hi in last]


def scanned(fn: Any, parts: Sequence[Handle], axis: int, reverse: bool, model: Model) -> Ends | None:
    """As `reduced`, of every prefix. The order of operands is kept, so the function need not commute."""
    full = _of_one_batch([whole(h) for h in parts])
    restarts = algebras.segmented(fn)
    if restarts is not None:
        return _segments(restarts, parts, full, axis, reverse, model)
    rule = _extremes(fn, parts, model, ordered=True) or _moments(fn, parts, model)
    if rule is not None:
        return _prefixes(rule, full, axis + 1, reverse)
    fmt, found = one_format(parts), algebras.algebra(fn)
    if fmt is None or found is None:
        return None
    return list(algebra.prefixes(full, axis + 1, reverse, found, fmt, model()))


def of_means(fn: Any, parts: Sequence[Handle], axis: int, reverse: bool, model: Model) -> Pair | None:
    """Ends of every prefix by a function through which errors do not grow (`means`); its groupings were tested."""
    found, fmt = mean_of(source_of(fn)), one_format(parts)
    if found is None or len(parts) != 1 or fmt is None:
        return None
    return means.along(found, whole(parts[0]), axis + 1, reverse, fmt, model())


def one_format(parts: Sequence[Handle]) -> Format | None:
    """The float format of all components."""
    formats = {format_of(h.dtype) for h in parts}
    return formats.pop() if len(formats) == 1 else None


def whole(h: Handle) -> Pair:
    """Both ends at the full shape."""
    lo, hi = (np.broadcast_to(end, (end.shape[0], *h.shape)) for end in h.pair)
    return (lo, lo) if h.is_point else (lo, hi)


def meeting(fn: Any, parts: Sequence[Handle], axis: int, reverse: bool) -> dict[int, np.ndarray]:
    """Of sums of exponentials: the prefixes in which two empty neighbours (a maximum of -inf) may merge, which makes
    NaN whatever the sums are. By component."""
    found = log_sum_exp(fn)
    if found is None:
        return {}
    empty = whole(parts[found.maximum])[1] == -np.inf
    before, here = (np.take(empty, range(*ends), axis + 1) for ends in ((0, empty.shape[axis + 1] - 1),
                                                                        (1, empty.shape[axis + 1])))  # fmt: skip
    met = np.zeros_like(empty)
    at = (slice(None),) * (axis + 1)
    met[(*at, slice(0, -1) if reverse else slice(1, None))] = before & here
    ordered = np.flip(met, axis + 1) if reverse else met
    ordered = np.logical_or.accumulate(ordered, axis + 1)
    met = np.flip(ordered, axis + 1) if reverse else ordered
    return dict.fromkeys(found.sums, met) if met.any() else {}


def _extremes(fn: Any, parts: Sequence[Handle], model: Model, ordered: bool = False) -> Along | None:
    """A maximum and sums of exponentials."""
    found, fmt = log_sum_exp(fn), one_format(parts)
    if found is None or fmt is None:
        return None
    profile = model()

    def rule(full: Sequence[Pair], axis: int) -> Ends | None:
        sums = [full[k] for k in found.sums]
        got = logsumexp.reduce_axis(full[found.maximum], sums, axis, fmt, profile, found.base, ordered)
        return (
            None
            if got is None
            else _placed(len(full), {found.maximum: got[0], **dict(zip(found.sums, got[1], strict=True))})
        )

    return rule


def _moments(fn: Any, parts: Sequence[Handle], model: Model) -> Along | None:
    """Welford's mean, M2 and weight."""
    found, fmt = welford(fn), one_format(parts)
    if found is None or fmt is None or not parts[found.weight].is_point:
        return None
    profile = model()

    def rule(full: Sequence[Pair], axis: int) -> Ends | None:
        mean, m2, weight = (full[k] for k in (found.mean, found.m2, found.weight))
        got = moments.reduce_axis(mean, m2, weight[0], axis, fmt, profile, found.guarded, found.weighted, found.raw)
        return None if got is None else _placed(len(full), {found.mean: got[0], found.m2: got[1]})

    return rule


def _of_one_batch(full: Sequence[Pair]) -> list[Pair]:
    batch = max(end.shape[0] for p in full for end in p)
    return [each(p, lambda end: np.broadcast_to(end, (batch, *end.shape[1:]))) for p in full]


def _placed(count: int, found: dict[int, Pair]) -> Ends:
    return [found.get(k) for k in range(count)]


def _prefixes(rule: Along, full: Sequence[Pair], axis: int, reverse: bool) -> Ends | None:
    """The rule on every prefix."""
    n, columns = full[0][0].shape[axis], []
    for j in range(n):
        part = slice(n - 1 - j, n) if reverse else slice(0, j + 1)
        at = (slice(None),) * axis + (part,)
        got = rule([(lo[at], hi[at]) for lo, hi in full], axis)
        if got is None:
            return None
        columns.append(got)
    columns = columns[::-1] if reverse else columns
    return [_stacked([c[k] for c in columns], axis) for k in range(len(full))]


def _stacked(column: Sequence[Pair | None], axis: int) -> Pair | None:
    known = [p for p in column if p is not None]
    return (np.stack([p[0] for p in known], axis), np.stack([p[1] for p in known], axis)) if known else None


def _segments(
    found: algebras.Segmented, parts: Sequence[Handle], full: Sequence[Pair], axis: int, reverse: bool, model: Model
) -> Ends | None:
    flag, start = parts[found.flag], full[found.flag][0]
    if not flag.is_point or flag.open is not None or not np.isin(start, (0, 1)).all():
        return None
    profile = model()
    out: Ends = []
    for kind, h, x in zip(found.kinds, parts, full, strict=True):
        fmt = format_of(h.dtype)
        if kind and fmt is None and not h.is_point:
            return None
        if not kind or fmt is None:
            out.append(None)
        elif kind in ("max", "min"):
            out.append(scan.segments(x, axis + 1, reverse, kind == "max", start))
        else:
            out.append((scan.cumsum if kind == "sum" else scan.cumprod)(x, axis + 1, reverse, fmt, profile, start))
    return out
