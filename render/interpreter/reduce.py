"""`tl.reduce` and `tl.associative_scan`: native rules for the known combine functions, a tree for any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from triton.language import core

from interval_ops.bounds import Pair, each
from interval_ops.profiles.profile import CAUSES
from interval_ops.reduction import recurrence, scan
from interval_ops.reduction import rule as reduction
from interval_ops.reduction import welford as rules
from render.interpreter import any_order
from render.interpreter import bracketing as orders
from render.interpreter import open_integers as opened
from render.interpreter.builder import lost, related
from render.interpreter.builder.integers import bool_handle, decided, truths
from render.interpreter.combine import (
    chooses,
    combine_kind,
    componentwise,
    linear_recurrence,
    returns_at,
    selection,
)
from render.interpreter.context import Site
from render.interpreter.handle import METER, Handle, Meter, metered, taint_of
from render.interpreter.merged_moments import welford
from render.interpreter.types import carrier, format_of
from render.interpreter.values import in_format

_UFUNCS: dict[str, Any] = {
    "sum": np.add, "prod": np.multiply, "max": np.fmax, "min": np.fmin,
    "xor": np.bitwise_xor, "or": np.bitwise_or, "and": np.bitwise_and,
}  # fmt: skip
TRUTHS = {kind: "any" if f in (np.fmax, np.bitwise_or) else "all" for kind, f in _UFUNCS.items()
          if f not in (np.add, np.bitwise_xor)}  # fmt: skip
"""What a reduction of truth values is."""
FLOATS = frozenset(kind for kind, f in _UFUNCS.items() if not f.__name__.startswith("bitwise"))
"""Reductions of numbers."""


class Reductions:
    """Bound to one launch; `call` runs a jitted combine function on tensors."""

    def __init__(self, ctx: Any, semantic: Any, call: Callable[..., Any]) -> None:
        self.ctx = ctx
        self.semantic = semantic
        self.call = call

    # reduce
    def reduce(self, input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **_: Any) -> Any:
        single = isinstance(input, core.tensor)
        tensors = [input] if single else list(input)
        axis, keep = core._unwrap_if_constexpr(axis), bool(core._unwrap_if_constexpr(keep_dims))
        rank = len(tensors[0].shape)
        if axis is None:
            tensors = [self.semantic.reshape(t, [int(t.numel.value)], True) for t in tensors]
            ax = 0
        else:
            ax = core._wrap_axis(int(axis), rank)
        out = self._reduce([t.handle for t in tensors], ax, combine_fn)
        results = [self._tensor(h, t.dtype) for h, t in zip(out, tensors, strict=True)]
        if keep:
            for _i in range(1 if axis is not None else rank):
                results = [self.semantic.expand_dims(r, ax) for r in results]
        return results[0] if single else tuple(results)

    def _tensor(self, h: Handle, dtype: Any) -> Any:
        return core.tensor(h, core.block_type(dtype, list(h.shape)) if h.shape else dtype)

    def _reduce(self, parts: list[Handle], axis: int, fn: Any) -> list[Handle]:
        kind = combine_kind(fn) or self._selection(fn, parts)
        if kind in _UFUNCS and len(parts) == 1:
            return [self._single(parts[0], axis, kind)]
        if kind in ("argmax", "argmin") and len(parts) == 2:
            return self._arg(parts[0], parts[1], axis, kind)
        each = componentwise(fn)
        if each is not None:
            return [self._single(h, axis, kind) for h, kind in zip(parts, each, strict=True)]
        return self._welford(parts, axis, fn) or self._each_order(parts, axis, fn) or self._tree(parts, axis, fn)

    def _selection(self, fn: Any, parts: list[Handle]) -> str | None:
        """The rule of a function that compares and chooses, where it holds: no value may be NaN."""
        return None if any(_has_nan(h) for h in parts) else selection(fn)

    def _chooses(self, fn: Any, parts: list[Handle]) -> bool:
        """Whether nothing that the function rounds reaches a result: it computes for a test of types, say."""
        return chooses(fn) and not any(_has_nan(h) for h in parts)

    def _single(self, x: Handle, axis: int, kind: str) -> Handle:
        out = lost.folded(self._native(x, axis, kind), x, axis)
        self._emit("reduce", (x,), out, kind=kind, axis=axis)
        return out

    def _emit(self, op: str, args: Sequence[Handle], out: Handle, **attrs: Any) -> None:
        self.ctx.unordered.exchanged()
        self.semantic.builder.emit(op, args, (out,), attrs)

    def _native(self, x: Handle, axis: int, kind: str) -> Handle:
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        full = _along(x, x.v, axis)
        fmt = format_of(x.dtype)
        if fmt is None:
            return self._native_truths(x, axis, kind) if x.dtype.scalar.is_int1() else self._native_int(x, axis, kind)
        halved = self.ctx.profile.trees and kind in ("sum", "prod")
        v = self._halved(full, axis + 1, kind, fmt) if halved else _UFUNCS[kind].reduce(full, axis=axis + 1)
        v = in_format(v, fmt)
        if not self.ctx.interval or (x.is_point and kind in ("max", "min")):
            return Handle(v, x.dtype, shape, taint=x.taint)
        lo, hi = self._bounds(x, axis, kind, fmt)
        out = Handle(v, x.dtype, shape, lo, hi, x.taint)
        if kind == "sum":
            related.summed(x, out, axis, fmt, self.ctx.profile)
        elif kind in ("max", "min"):
            related.chosen(x, out, axis, 1 if kind == "max" else -1)
        return out

    def _halved(self, v: np.ndarray, axis: int, kind: str, fmt: Any) -> np.ndarray:
        """The value of a balanced tree, each step rounded: it must lie in bounds that hold for trees only."""
        while v.shape[axis] > 1:
            left, right = np.split(v, 2, axis)
            v = in_format(_UFUNCS[kind](left, right), fmt)
        return v.squeeze(axis)

    def _bounds(self, x: Handle, axis: int, kind: str, fmt: Any) -> Any:
        shape = (x.v.shape[0], *x.shape)
        if kind in ("max", "min"):
            extreme = reduction.max_axis if kind == "max" else reduction.min_axis
            return extreme(x.pair, axis + 1, shape)
        profile = self.ctx.model("lowacc" if fmt.p < 24 else "accumulation")
        rule = reduction.sum_axis if kind == "sum" else reduction.prod_axis
        return rule(x.pair, axis + 1, shape, fmt, profile)

    def _arg(self, x: Handle, index: Handle, axis: int, kind: str) -> list[Handle]:
        given = x
        x = decided(self, x)  # type: ignore[arg-type]
        best = self._native(x, axis, kind[3:]) if format_of(x.dtype) else self._native_int(x, axis, kind[3:])
        self._emit("reduce", (given,), best, kind=kind[3:], axis=axis)
        best.open = None  # the taint of an open integer stays with what it wins
        batch = max(x.v.shape[0], index.v.shape[0])
        values = np.broadcast_to(x.v, (batch, *x.shape))
        places = np.broadcast_to(index.v, (batch, *index.shape))
        winner = np.expand_dims(np.broadcast_to(best.v, (batch, *best.shape)), axis + 1)
        hit = (values == winner) | (np.isnan(values) & np.isnan(winner) if values.dtype.kind == "f" else False)
        last = np.iinfo(places.dtype).max
        chosen = np.where(hit, places, last).min(axis=axis + 1).astype(places.dtype)
        best.taint = best.taint | taint_of(x)
        out = Handle(chosen, index.dtype, best.shape, taint=taint_of(x, index))
        if not x.is_point:
            rule = reduction.argmax_axis if kind == "argmax" else reduction.argmin_axis
            _, certain = rule(x.pair, x.v, axis + 1, (x.v.shape[0], *x.shape))
            if METER.get().muted:  # the value rounds and the bounds do not: these decide
                certain = np.zeros_like(certain)
            if not certain.all():
                out = self._open_index(x, index, axis, kind, out, certain)
        self._emit(kind, (given, index), out, axis=axis)
        return [best, out]

    def _open_index(self, x: Handle, index: Handle, axis: int, kind: str, out: Handle, certain: np.ndarray) -> Handle:
        """The index between those of all elements that the bounds allow to win: all, if one of them may be anything."""
        why = self.ctx.taint("RND302", kind, "the bounds leave open which element wins")
        lo, hi = (np.broadcast_to(end, (end.shape[0], *x.shape)) for end in x.pair)
        if index.taint:
            out.taint = out.taint | why
            return out
        able = np.isnan(lo + hi).any(axis=axis + 1, keepdims=True)
        if kind == "argmax":
            able = able | (hi >= lo.max(axis=axis + 1, keepdims=True))
        else:
            able = able | (lo <= hi.min(axis=axis + 1, keepdims=True))
        places = np.broadcast_to(index.v, (index.v.shape[0], *index.shape))
        info = np.iinfo(places.dtype)
        first = np.where(able, places, info.max).min(axis=axis + 1).astype(places.dtype)
        last = np.where(able, places, info.min).max(axis=axis + 1).astype(places.dtype)
        between = np.where(certain, out.v, first), np.where(certain, out.v, last)
        most = int(np.where(certain, 1, able.sum(axis=axis + 1)).max())
        among = None
        if most <= opened.CANDIDATES:  # the places that may win, the first of them again where a row has fewer
            few = np.sort(np.where(able, places, info.max), axis=axis + 1).take(range(most), axis=axis + 1)
            few = np.where(few == info.max, np.expand_dims(first, axis + 1), few)
            among = [np.where(certain, out.v, one.squeeze(axis + 1)) for one in np.split(few, most, axis + 1)]
        return opened.integer(out.v, out.dtype, out.shape, between, out.taint, why, among)

    def _native_truths(self, x: Handle, axis: int, kind: str) -> Handle:
        """Any, all, or the parity of truth values; open lanes leave the first two open where they decide."""
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        if kind not in TRUTHS:
            x = decided(self, x)  # type: ignore[arg-type]
            v = np.logical_xor.reduce(_along(x, x.v, axis), axis=axis + 1)
            return Handle(v, x.dtype, shape, taint=x.taint)
        function = getattr(np, TRUTHS[kind])
        v, lo, hi = (function(_along(x, a, axis), axis=axis + 1) for a in (x.v, *truths(x)))
        return bool_handle(v, lo, hi, shape, x.taint)

    def _native_int(self, x: Handle, axis: int, kind: str) -> Handle:
        out = _UFUNCS[kind].reduce(_along(x, x.v, axis), axis=axis + 1)
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        v = out.astype(x.v.dtype, copy=False)
        if x.open is not None and kind in FLOATS and kind != "prod":
            return opened.reduced(x, v, shape, lambda a: _UFUNCS[kind].reduce(_along(x, a, axis), axis=axis + 1))
        return Handle(v, x.dtype, shape, taint=x.taint)

    def _welford(self, parts: list[Handle], axis: int, fn: Any) -> list[Handle] | None:
        """Mean, M2 and weight with bounds for every order; None if `fn` is anything else or the rule does not hold."""
        found = welford(fn)
        formats = {format_of(h.dtype) for h in parts}
        fmt = formats.pop()
        if found is None or formats or fmt is None or not self.ctx.interval or not parts[found.weight].is_point:
            return None
        ordered = [parts[k] for k in (found.mean, found.m2, found.weight)]
        shape = (max(h.v.shape[0] for h in parts), *parts[0].shape)
        mean, m2 = ([np.broadcast_to(x, shape) for x in parts[k].pair] for k in (found.mean, found.m2))
        weight = np.broadcast_to(parts[found.weight].v, shape)
        profile = self.ctx.model("accumulation")
        got = rules.reduce_axis(
            (mean[0], mean[1]), (m2[0], m2[1]), weight, axis + 1, fmt, profile, found.guarded, found.weighted, found.raw
        )
        if got is None:
            return None
        values = self._halves(parts, axis, fn)
        bounds = {found.mean: got[0], found.m2: got[1]}
        out = []
        if found.weighted:
            return [self._bounded(h, bounds.get(k)) for k, h in enumerate(values)]
        for k, h in enumerate(values):
            lo, hi = bounds.get(k, (None, None))
            v = h.v if lo is None else np.broadcast_to(h.v, lo.shape)
            out.append(Handle(v, h.dtype, h.shape, lo, hi, taint_of(*parts)))
        for part, k in (("mean", found.mean), ("m2", found.m2), ("weight", found.weight)):
            self._emit("welford", ordered, out[k], part=part, guarded=found.guarded, axis=axis, fmt=fmt.name)
        return out

    def _each_order(self, parts: list[Handle], axis: int, fn: Any) -> list[Handle] | None:
        """The halves of the axis with bounds for every order; None where there is no such rule."""
        found = any_order.reduced(fn, parts, axis, partial(self._model, parts)) if self.ctx.interval else None
        if found is None:
            return None
        return [self._bounded(h, ends) for h, ends in zip(self._halves(parts, axis, fn), found, strict=True)]

    def _model(self, parts: list[Handle]) -> Any:
        """The profile of what a combine function rounds."""
        fmt = any_order.one_format(parts)
        return self.ctx.model("lowacc" if fmt is not None and fmt.p < 24 else "accumulation")

    def _tree(self, parts: list[Handle], axis: int, fn: Any) -> list[Handle]:
        """The halves of the axis; with bounds of every order of the target, or a taint if it rounds."""
        agreed = self._orders_agree(parts, axis, fn)
        before = self.ctx.roundings
        out = self._halves(parts, axis, fn)
        if agreed and (self.ctx.roundings == before or self._chooses(fn, parts)):
            return out
        known = self._every_order(parts, axis, fn) if self.ctx.profile.trees else None
        if known is not None:
            return [self._bounded(h, ends) for h, ends in zip(out, known, strict=True)]
        if agreed is not False and (ends := self._of_means(parts, axis, fn)) is not None:
            return [self._bounded(out[0], each(ends, lambda end: end.take(-1, axis + 1)))]
        return self._order_taint(out, bool(agreed), "reduce")

    def _of_means(self, parts: list[Handle], axis: int, fn: Any, reverse: bool = False) -> Pair | None:
        if not self.ctx.interval:
            return None
        return any_order.of_means(fn, parts, axis, reverse, partial(self._model, parts))

    def _bounded(self, h: Handle, ends: Pair | None) -> Handle:
        """The same number, followed as it was made, between the ends of all orders."""
        if ends is None or not h.dtype.scalar.is_floating():
            return h
        lo, hi = (np.broadcast_to(end, (max(end.shape[0], h.v.shape[0]), *end.shape[1:])) for end in ends)
        out = Handle(h.v, h.dtype, h.shape, lo, hi, h.taint)
        self._emit("slice", (h,), out, move=lambda a: a)
        return out

    def _every_order(self, parts: list[Handle], axis: int, fn: Any) -> list[Pair] | None:
        def take(h: Handle, places: Any) -> Handle:
            if isinstance(places, int):
                return _slice(h, axis, places)
            shape = (*h.shape[:axis], len(places), *h.shape[axis + 1 :])
            return h.map(lambda a: np.take(_along(h, a, axis), places, axis=axis + 1), shape)

        with _unheard(self.semantic.builder):
            return orders.every_order(parts, axis, partial(self._combine, fn), take)

    def _halves(self, parts: list[Handle], axis: int, fn: Any) -> list[Handle]:
        return orders.halves(parts, axis, partial(self._combine, fn), lambda h, part: self._slice(h, axis, part))

    def _order_taint(self, out: list[Handle], agreed: bool, op: str) -> list[Handle]:
        """A taint, but where nothing rounds and the order is known not to matter."""
        if not agreed or not self.ctx.profile.off >= CAUSES.keys():
            what = "that rounds" if agreed else "that makes something else of another order"
            taint = self.ctx.taint("RND313", op, f"a combine function {what}, in an order that is not known")
            for h in out:
                h.taint, h.open = h.taint | taint, None
        return out

    @contextmanager
    def _exactly(self, parts: list[Handle]) -> Iterator[list[Handle]]:
        """These values as points, while nothing rounds and nobody hears of it."""
        with self.ctx.without_rounding(), metered(Meter(muted=True)), _unheard(self.semantic.builder):
            yield [Handle(h.v, h.dtype, h.shape) for h in parts]

    def _orders_agree(self, parts: list[Handle], axis: int, fn: Any) -> bool | None:
        """Whether two whole orders give the same without rounding; reports where they do not (RND213, RND214). None
        where that is not known."""
        if parts[0].shape[axis] < 3 or not self.ctx.interval:
            return True
        if self._check_associative(parts, axis, fn, "reduce"):
            return False
        with self._exactly(parts) as points:
            each = partial(self._combine, fn)
            one, other = (f(points, axis, each, lambda h, part: _slice(h, axis, part))
                          for f in (orders.halves, orders.neighbours))  # fmt: skip
        found = [gap for x, y in zip(one, other, strict=True) if (gap := orders.apart(x, y)) is not None]
        if found:
            self.ctx.defect("RND214", f"reduce gives {found[0][0]:.6g} and {found[0][1]:.6g}, by the order of operands")
        same = [orders.alike(x, y) for x, y in zip(one, other, strict=True)]
        return False if found or False in same else (None if None in same else True)

    def _check_associative(self, parts: list[Handle], axis: int, fn: Any, op: str) -> bool:
        """Whether two groupings of three elements differ without any rounding; reports it (RND213)."""
        n = parts[0].shape[axis]
        if n < 3 or not self.ctx.interval:
            return False
        with self._exactly(parts) as points:
            for places in dict.fromkeys([(0, 1, 2), (0, n // 2, n - 1)]):
                x, y, z = ([_slice(h, axis, slice(i, i + 1)) for h in points] for i in places)
                left = self._combine(fn, self._combine(fn, x, y), z)
                right = self._combine(fn, x, self._combine(fn, y, z))
                for one, other in zip(left, right, strict=True):
                    if (gap := orders.apart(one, other)) is not None:
                        what = f"gives {gap[0]:.6g} and {gap[1]:.6g}, by how they are grouped"
                        told = f"{op} of elements {', '.join(map(str, places))} {what}"
                        self.ctx.defect("RND213", told, _place(fn))
                        return True
        return False

    def _slice(self, h: Handle, axis: int, part: Any) -> Handle:
        out = _slice(h, axis, part)
        self._emit("slice", (h,), out, move=partial(_sliced, axis=axis, part=part))
        return out

    def _concatenate(self, parts: list[Handle], axis: int, like: Handle) -> Handle:
        out = _concatenate(parts, axis, like)

        def move(*arrays: np.ndarray) -> np.ndarray:
            batch = max(a.shape[0] for a in arrays)
            return np.concatenate([np.broadcast_to(a, (batch, *a.shape[1:])) for a in arrays], axis=axis + 1)

        self._emit("concatenate", parts, out, move=move)
        return out

    def _combine(self, fn: Any, left: list[Handle], right: list[Handle]) -> list[Handle]:
        args = [self._tensor(h, h.dtype) for h in (*left, *right)]
        got = self.call(fn, *args)
        results = [self.semantic.to_tensor(r) for r in ([got] if isinstance(got, core.tensor) else got)]
        found, wanted = ([str(x.dtype.scalar) for x in side] for side in (results, left))
        if found != wanted:  # as its verifier asks
            raise AssertionError(f"the combine function returns {', '.join(found)} for {', '.join(wanted)}")
        return [r.handle for r in results]

    # scan
    def scan(self, input: Any, axis: Any, combine_fn: Any, reverse: Any = False, **_: Any) -> Any:
        single = isinstance(input, core.tensor)
        tensors = [input] if single else list(input)
        ax = core._wrap_axis(int(core._unwrap_if_constexpr(axis)), len(tensors[0].shape))
        backwards = bool(core._unwrap_if_constexpr(reverse))
        handles = [t.handle for t in tensors]
        kind = combine_kind(combine_fn) or self._selection(combine_fn, handles)
        each = (kind,) if kind in FLOATS else componentwise(combine_fn)
        if each is not None:
            out = [self._native_scan(h, ax, k, backwards) for h, k in zip(handles, each, strict=True)]
            for h, k, made in zip(handles, each, out, strict=True):
                self._emit("scan", (h,), made, kind=k, axis=ax, reverse=backwards)
        else:
            out = self._generic_scan(handles, ax, combine_fn, backwards)
        results = [self._tensor(h, t.dtype) for h, t in zip(out, tensors, strict=True)]
        return results[0] if single else tuple(results)

    def _native_scan(self, x: Handle, axis: int, kind: str, reverse: bool) -> Handle:
        full = np.broadcast_to(x.v, (x.v.shape[0], *x.shape))
        ordered = np.flip(full, axis + 1) if reverse else full
        v = _UFUNCS[kind].accumulate(ordered, axis=axis + 1, dtype=x.v.dtype)
        v = np.flip(v, axis + 1) if reverse else v
        fmt = format_of(x.dtype)
        x = decided(self, x)  # type: ignore[arg-type]
        if fmt is None or not self.ctx.interval or (x.is_point and kind in ("max", "min")):
            return Handle(v if fmt is None else in_format(v, fmt), x.dtype, x.shape, taint=x.taint)
        low, high = x.pair
        pair = (full, full) if x.is_point else (np.broadcast_to(low, full.shape), np.broadcast_to(high, full.shape))
        if kind in ("max", "min"):
            lo, hi = (scan.cummax if kind == "max" else scan.cummin)(pair, axis + 1, reverse)
        else:
            profile = self.ctx.model("lowacc" if fmt.p < 24 else "accumulation")
            lo, hi = (scan.cumsum if kind == "sum" else scan.cumprod)(pair, axis + 1, reverse, fmt, profile)
        return Handle(in_format(v, fmt), x.dtype, x.shape, lo, hi, x.taint)

    def _generic_scan(self, parts: list[Handle], axis: int, fn: Any, reverse: bool) -> list[Handle]:
        before = self.ctx.roundings
        order = range(parts[0].shape[axis])
        steps: list[list[Handle]] = []
        for i in reversed(order) if reverse else order:
            here = [self._slice(h, axis, slice(i, i + 1)) for h in parts]
            steps.append(self._combine(fn, steps[-1], here) if steps else here)
        if reverse:
            steps.reverse()
        out = [self._concatenate([s[k] for s in steps], axis, parts[k]) for k in range(len(parts))]
        if not self._linear(parts, out, axis, fn, reverse):
            rule = partial(any_order.scanned, fn, parts, axis, reverse, partial(self._model, parts))
            if self.ctx.interval and (found := rule()) is not None:
                for k, met in any_order.meeting(fn, parts, axis, reverse).items():
                    out[k] = out[k].map(lambda a, met=met: np.where(met, np.nan, a).astype(a.dtype), out[k].shape)
                return [self._bounded(h, ends) for h, ends in zip(out, found, strict=True)]
            apart = self._check_associative(parts, axis, fn, "associative_scan")
            if not apart and (ends := self._of_means(parts, axis, fn, reverse)) is not None:
                return [self._bounded(out[0], ends)]
            if self.ctx.roundings > before and (apart or not self._chooses(fn, parts)):
                out = self._order_taint(out, not apart, "associative_scan")
        for h in out:
            self._emit("scan", parts, h, kind="steps", axis=axis, reverse=reverse)
        return out

    def _linear(self, parts: list[Handle], out: list[Handle], axis: int, fn: Any, reverse: bool) -> bool:
        """Gives the results of a linear recurrence the bounds of every bracketing; False if it is none."""
        found = linear_recurrence(fn)
        formats = {format_of(h.dtype) for h in parts}
        fmt = formats.pop()
        if found is None or formats or fmt is None or not self.ctx.interval:
            return False
        profile = self.ctx.model("lowacc" if fmt.p < 24 else "accumulation")
        batch = max(h.v.shape[0] for h in parts)
        shape = (batch, *parts[0].shape)
        a, b = ([np.broadcast_to(x, shape) for x in parts[k].pair] for k in found)
        bounds = {
            found.factor: scan.cumprod((a[0], a[1]), axis + 1, reverse, fmt, profile),
            found.addend: recurrence.linear((a[0], a[1]), (b[0], b[1]), axis + 1, reverse, fmt, profile),
        }
        for k, (lo, hi) in bounds.items():
            h = out[k]
            v = np.broadcast_to(h.v, shape)
            out[k] = Handle(v, h.dtype, h.shape, lo, hi, h.taint)
        factor, addend = parts[found.factor], parts[found.addend]
        self._emit("scan", (factor,), out[found.factor], kind="prod", axis=axis, reverse=reverse)
        self._emit("recurrence", (factor, addend), out[found.addend], axis=axis, reverse=reverse)
        return True


@contextmanager
def _unheard(builder: Any) -> Iterator[None]:
    """Inside, nobody is told what the builder does."""
    emit, builder.emit = builder.emit, lambda *_: None
    try:
        yield
    finally:
        builder.emit = emit


def _place(fn: Any) -> Site | None:
    """Where a jitted function returns: there is what it does wrong, not where it is used."""
    line = returns_at(fn)
    return None if line is None else Site(fn.fn.__code__.co_filename, line)


def _has_nan(h: Handle) -> bool:
    arrays = (h.v,) if h.lo is None or h.hi is None else (h.v, h.lo, h.hi)
    return any(a.dtype.kind == "f" and bool(np.isnan(a).any()) for a in arrays)


def _along(x: Handle, a: np.ndarray, axis: int) -> np.ndarray:
    """The array with `axis` at its logical extent; other axes may stay 1."""
    if a.shape[axis + 1] == x.shape[axis]:
        return a
    return np.broadcast_to(a, (*a.shape[: axis + 1], x.shape[axis], *a.shape[axis + 2 :]))


def _slice(h: Handle, axis: int, part: Any) -> Handle:
    shape = list(h.shape)
    if isinstance(part, slice):
        shape[axis] = len(range(*part.indices(shape[axis])))
    else:
        del shape[axis]
    return h.map(lambda a: _sliced(_along(h, a, axis), axis, part), tuple(shape))


def _sliced(a: np.ndarray, axis: int, part: Any) -> np.ndarray:
    return a[(slice(None),) * (axis + 1) + (part,)]


def _concatenate(parts: list[Handle], axis: int, like: Handle) -> Handle:
    from render.interpreter.builder.shapes import stack_handles

    out = stack_handles(parts, lambda arrays: np.concatenate(arrays, axis=axis + 1), like.shape)
    out.dtype = like.dtype
    if out.v.dtype != carrier(like.dtype):
        out.v, out.open = out.v.astype(carrier(like.dtype)), None
    return out
