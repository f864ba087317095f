"""Cases of `kept_bounds`: matrix products of every model of the profiles, what they are put together from.

Matrix products of magnitudes go through numpy in float32; so of bounds the width and the place of the exact sum in it
are kept, each within 2^-14.
"""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
from kept_bounds import Cases, Pair, boxes, numbers, on_grid

from interval_ops.dot import chain, integer, parameters, replay, rule, scaled, value
from interval_ops.dot.sums import Product
from interval_ops.formats.model import BF16, E8M0, FP8E4NV, FP8E5, FP16, FP32, FP64, Format
from interval_ops.profiles.profile import load_profile, profile_names

MODELS = {(p, kind): m for p in profile_names() for kind, m in load_profile(p).dots.items()}
OPERANDS: dict[str, Format] = {
    "fp16": FP16,
    "bf16": BF16,
    "fp8": FP8E5,
    "mxfp8": FP8E4NV,
    "mxfp4": FP8E4NV,
    "fp64": FP64,
}
CHOSEN = ("any", "sm_70", "sm_80", "sm_90", "sm_100", "gfx90a", "gfx942", "gfx950")
BLOCKS = (1, 3, 4, 5, 16, 17, 33)


def distinct() -> list[tuple[str, str]]:
    """One profile and kind for each model, sources and operand formats apart."""
    found: dict[str, tuple[str, str]] = {}
    for (name, kind), model in MODELS.items():
        said = repr([getattr(model, f) for f in model.__slots__ if f not in ("source", "emin")])
        found.setdefault(said, (name, kind))
    return list(found.values())


def operands(fmt: Format, m: int, k: int, n: int, seed: int) -> list[tuple[Pair, Pair]]:
    """Points, intervals and both: of usual size, of one sign, small ones among large, subnormal, large."""
    g = np.random.default_rng(seed)
    a = on_grid(np.exp2(g.uniform(-3, 3, (m, k))), fmt)
    b = on_grid(np.exp2(g.uniform(-3, 3, (k, n))), fmt)
    a[1:] *= g.choice([-1.0, 1.0], (m - 1, k))
    b *= g.choice([-1.0, 1.0], (k, n)) if m > 1 else 1.0
    a[2] = on_grid(a[2] * np.exp2(g.integers(-8, 3, k)), fmt)
    small, large = on_grid(a * fmt.min_normal, fmt), on_grid(a * min(fmt.max / 64, 2.0**120), fmt)
    wide = (np.minimum(a, a * (1 + 2.0**-6)), np.maximum(a, a * (1 + 2.0**-6)))
    other = (b - 2.0**-9, b + 2.0**-9)
    ints = np.rint(a), np.rint(b)
    return [((a, a), (b, b)), (wide, (b, b)), ((a, a), other), (wide, other), ((small, small), (b, b)),
            ((large, large), (b, b)), ((ints[0], ints[0]), (ints[1], ints[1]))]  # fmt: skip


def placed(bounds: Pair, exact: np.ndarray) -> tuple[np.ndarray, ...]:
    """Width, and where the exact sum lies in it; 3 is added so that a place of 0 has a size."""
    lo, hi = bounds
    exact = np.broadcast_to(exact, lo.shape)
    with np.errstate(all="ignore"):
        width = hi - lo
        place = np.where(width > 2.0**-40 * np.abs(exact), (exact - lo) / width, 0.5)
    small = width < 2.0**-40 * np.abs(exact)
    return np.where(small, 0.0, width), np.where(np.isfinite(place), np.clip(place, -9, 9), 8.0) + 3.0


def _dots(name: str, kind: str, muted: bool = False, known: bool = False) -> object:
    profile = load_profile(name)
    profile = profile.mute("operand", "accumulation", "lowacc") if muted else profile
    profile = profile.chosen(sum_order="tree") if known else profile
    fmt = OPERANDS.get(kind.split("_")[0].removesuffix("acc"), FP32)
    found: list[object] = []
    for k in BLOCKS if not known else BLOCKS[:6]:
        for a, b in operands(fmt, 3, k, 4, k):
            exact = (0.5 * a[0] + 0.5 * a[1]) @ (0.5 * b[0] + 0.5 * b[1])
            empty = rule.PendingDot.start(None, (3, 4), kind, profile)
            one = empty.extend(a, b)
            found += [placed(one.interval(), exact), one.causes == frozenset()]
            if k not in (4, 17):
                continue
            c = on_grid(numbers(FP32, k, 12, plain=True), FP16).reshape(3, 4)
            near = (c, c + 2.0**-6)
            for acc in ((c, c), near):
                started = rule.PendingDot.start(acc, (3, 4), kind, profile).extend(a, b)
                found += [
                    placed(started.interval(), exact + c),
                    placed(one.add(acc, rounded=True).interval(), exact + c),
                ]
                found += [placed(started.add(acc, rounded=False).interval(), exact + 2 * c)]
            found += [
                placed(one.extend(a, b).interval(), 2 * exact),
                placed(one.extend(a, b, imprecise=8).interval(), 2 * exact),
            ]
            found += [placed(one.join(one, rounded=r).interval(), 2 * exact) for r in (False, True)]
            stacked = tuple(np.stack([e, e, e]) for e in a), tuple(np.stack([e, 2 * e, e]) for e in b)
            found += [placed(empty.extend(*stacked).interval(), np.stack([exact, 2 * exact, exact]))]
            found += [placed(started.extend(*stacked).interval(), np.stack([exact, 2 * exact, exact]) + exact)]
    return found


def _long(name: str, kind: str) -> object:
    """Sums past what is flushed at a time, and many dots onto one accumulator."""
    profile, found = load_profile(name), []
    fmt = OPERANDS.get(kind.split("_")[0].removesuffix("acc"), FP32)
    for k, parts in ((700, 1), (64, 12), (1, 30)):
        a, b = operands(fmt, 3, k, 4, k + 1)[0]
        pending = rule.PendingDot.start(None, (3, 4), kind, profile)
        for _ in range(parts):
            pending = pending.extend(a, b)
        found.append(placed(pending.interval(), parts * (a[0] @ b[0])))
    return found


def _parameters(name: str, kind: str) -> object:
    """Every scalar of a bound, of many counts."""
    profile = load_profile(name)
    model = profile.dot(kind)
    found: list[object] = [model.aligned, model.theta, model.cause == "lowacc", parameters.accumulator(model)]
    for blocks, adds, free in ((0, 0, 0), (1, 0, 0), (1, 1, 1), (16, 3, 2), (300, 0, 0), (70000, 70000, 1)):
        work, depth = parameters.Roundings(blocks, adds), parameters.Roundings(max(blocks // 4, 1), adds)
        for loud in (profile, profile.mute("operand", "accumulation", "lowacc")):
            found += [
                tuple(parameters.parameters(model, loud, blocks * model.block, adds, work, d, free))
                for d in (work, depth)
            ]
        sums_ = work + depth, work.beside(depth)
        found += [(s.blocks, s.adds) for s in sums_]
    return found


def _chains() -> object:
    found: list[object] = []
    for k, (a, b) in ((size, pair) for size in (1, 4, 17) for pair in operands(FP32, 3, size, 4, size)):
        exact = (0.5 * a[0] + 0.5 * a[1]) @ (0.5 * b[0] + 0.5 * b[1])
        c = numbers(FP32, k, 12, plain=True).reshape(3, 4)
        for addends in ([], [(c, c)], [(c, c + 2.0**-5)]):
            products = [Product(a, b, k), Product(a, b, k, (0, 1))]
            args = (products, addends, (3, 4))
            total = 2 * exact + (c if addends else 0)
            for u, adds in ((2.0**-24, 0), (2.0**-24, 2), (2.0**-11, 1)):
                found.append(placed(chain.chain_interval(*args, u, -126, FP32.max, adds, u), total))
            for places in ([0], [1], [2]):
                found.append(replay.replayable(products, addends, places if addends else []))
                if addends or places == [0]:
                    found.append(placed(replay.chain_results(products, addends, places, (3, 4)), total))
            found.append(replay.exact_sum(*args))
        found.append(replay.chain_value(*(np.float32(x)[None] for x in (a[0], b[0], c))))
    return found


def _scaled(name: str) -> object:
    profile = load_profile(name)
    found: list[object] = []
    g = np.random.default_rng(9)
    for one, two, both in itertools.product(scaled.SCALED_FORMATS, scaled.SCALED_FORMATS, (False, True)):
        found.append(
            len(scaled.scaled_kind(one, two, profile, both))
            + sum(map(ord, scaled.scaled_kind(one, two, profile, both)))
        )
    for fmt in scaled.SCALED_FORMATS:
        dtype = np.uint16 if scaled.SCALED_FORMATS[fmt].bits == 16 else np.uint8
        bits = g.integers(0, 256 if dtype is np.uint8 else 65536, (4, 32 if fmt == "e2m1" else 64)).astype(dtype)
        scales = g.choice([0, 1, 90, 120, 127, 128, 130, 160, 254, 255], (4, 2)).astype(np.uint8)
        found += [scaled.unpack(bits, fmt), scaled.unpack(bits.T, fmt, 0), scaled.unpack(bits, fmt, 0)]
        for kind in ("fp16", "bf16", *(k for k in ("mxfp8", "mxfp4") if k in profile.dots)):
            for scale in (None, scales):
                found += [scaled.scaled_operands(bits, scale, fmt, profile, kind=kind)]
                found += [scaled.scaled_operands(bits.T, scale, fmt, profile, kind=kind, axis=-2)]
                values = scaled.unpack(bits, fmt)
                found += [scaled.scaled_values(values, scale, kind)]
                with np.errstate(all="ignore"):
                    found += [scaled.scaled_pair((values, values + np.abs(values)), scale, profile, kind)]
                    found += [scaled.scaled_pair((values, values), scale, profile.mute("operand"), kind)]
        found += [
            scaled.scaled_operands(bits, np.repeat(scales, 2, 1) & 0x7F, fmt, profile, kind="bf16", scale_format=f)
            for f in (E8M0, FP8E4NV)
        ]
    return found


def _values() -> object:
    found: list[object] = []
    g = np.random.default_rng(10)
    for name, (size, top) in itertools.product(("any", "sm_80", "gfx942"), ((3, 127), (70000, 127), (140000, 127))):
        a, b = g.integers(top - 2, top + 1, (2, size)), g.integers(-top, top + 1, (size, 2))
        b[:, 1] = top
        for acc in (None, np.array([[2**31 - 1, -(2**31)], [5, 7]]), np.array([[0, 2**31 - 10], [0, 0]])):
            try:
                found.append(integer.dot_int(a, b, acc, load_profile(name)))
            except LookupError:
                found.append(None)
    for fmt in (FP16, FP32, FP64):
        lo, hi = boxes(fmt, 81, 300)
        v = numbers(fmt, 82, 300).astype(np.float64 if fmt is FP64 else np.float32)
        near = lo + np.abs(lo) * 2.0**-40
        found += [
            value.within(v, lo, hi, fmt),
            value.within(v, near, near * (1 + 2.0**-30), fmt),
            value.within(v[:1], lo, hi, fmt),
        ]
    x = numbers(FP32, 83, 400)
    with np.errstate(all="ignore"):
        found += [
            rule.truncate_tf32(x),
            rule.round_tf32(x),
            rule.flush_small(x, 2.0**-14),
            rule.truncate_tf32(x.astype(np.float32)),
            rule.round_tf32(x.astype(np.float32)),
        ]
    return found


CASES: Cases = {"chains": (_chains, 2.0**-14), "values": (_values, 0.0)}
for _name in CHOSEN:
    CASES[f"scaled {_name}"] = (partial(_scaled, _name), 0.0)
for _name, _kind in distinct():
    CASES[f"parameters {_name} {_kind}"] = (partial(_parameters, _name, _kind), 2.0**-50)
for _name, _kind in distinct():
    if load_profile(_name).dots[_kind].acc != "int32":
        CASES[f"dots {_name} {_kind}"] = (partial(_dots, _name, _kind), 2.0**-14)
for _name, _kind in (("sm_90", "fp16"), ("sm_80", "tf32"), ("gfx942", "fp16"), ("any", "ieee"), ("sm_90", "fp8")):
    CASES[f"muted {_name} {_kind}"] = (partial(_dots, _name, _kind, True), 2.0**-14)
    CASES[f"long {_name} {_kind}"] = (partial(_long, _name, _kind), 2.0**-14)
for _name, _kind in (("sm_90", "ieee"), ("sm_80", "fp64"), ("sm_80", "fp16")):
    CASES[f"in order {_name} {_kind}"] = (partial(_dots, _name, _kind, False, True), 2.0**-14)
