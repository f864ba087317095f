"""Attacks on single entries of the rule table: special values, straight into the rule, no kernel around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton.language as tl

from interval_ops.formats import casting
from interval_ops.formats.model import FORMATS, Format
from interval_ops.profiles.profile import MissingRule, Profile, load_profile
from render.interpreter.context import Context
from render.interpreter.handle import Handle
from render.lab.adversary.attack import Array, AttackTally, Violation
from render.lab.adversary.builder import AdversaryBuilder
from render.lab.adversary.numbers import carrier, to_format
from render.lab.adversary.plan import AttackPlan
from render.ops.rule import Rule, Shape
from render.ops.table import RULES

_TYPES = {"fp64": tl.float64, "fp32": tl.float32, "fp16": tl.float16, "bf16": tl.bfloat16, "fp8e5": tl.float8e5,
          "fp8e4nv": tl.float8e4nv, "fp8e4b15": tl.float8e4b15}  # fmt: skip
_ARITHMETIC = ("fp32", "fp16", "bf16", "fp64")
_FUNCTIONS = ("fp32", "fp64")
_CASTS = (
    ("fp32", "fp16"), ("fp32", "bf16"), ("fp32", "fp8e5"), ("fp32", "fp8e4nv"), ("fp32", "fp8e4b15"),
    ("fp64", "fp32"), ("fp64", "fp16"), ("fp64", "bf16"), ("fp64", "fp8e5"), ("bf16", "fp8e5"), ("bf16", "fp8e4nv"),
    ("fp16", "fp8e5"), ("fp16", "fp8e4nv"), ("bf16", "fp16"), ("fp16", "bf16"),
)  # fmt: skip


def special(fmt: Format) -> Array:
    """Zeros, infinities, powers of two with their neighbours, subnormals, and the ends of the range."""
    top = int(np.frexp(fmt.max)[1]) - 1
    bottom = fmt.emin - fmt.p + 1
    exponents = {bottom, bottom + 1, fmt.emin - 1, fmt.emin, fmt.emin + 1, top - 1, top, *range(-3, 4)}
    exponents |= {bottom // 2, fmt.emin // 2, top // 2, -24, 23, 24, -11, 10, 11, 6, 7}
    found = [0.0, 3.0, 5.0, 0.75, 88.72, 87.3, 103.9, 3.1415927, 1.5707964, fmt.max]
    for e in sorted(x for x in exponents if bottom <= x <= top):
        ulp = np.ldexp(1.0, max(e - fmt.p + 1, bottom))
        below = np.ldexp(1.0, max(e - fmt.p, bottom))
        found += [np.ldexp(1.0, e) - below, np.ldexp(1.0, e), np.ldexp(1.0, e) + ulp]
    x = np.array(found)
    x = to_format(x[x <= fmt.max], fmt, "rtz").astype(np.float64)
    x = np.unique(np.concatenate([x, -x, [np.inf, -np.inf] if fmt.has_inf else []]))
    return np.append(x, -0.0)


def numbers(rng: np.random.Generator, fmt: Format, n: int) -> Array:
    """Special values and random ones of every size, in the carrier."""
    top = int(np.frexp(fmt.max)[1])
    exponents = np.where(rng.random(n) < 0.5, rng.integers(-6, 8, n), rng.integers(fmt.emin - fmt.p, top, n))
    plain = np.ldexp(rng.uniform(-1, 1, n), np.clip(exponents, -1073, 1023))
    x = np.where(rng.random(n) < 0.5, rng.choice(special(fmt), n), np.clip(plain, -fmt.max, fmt.max))
    return to_format(x, fmt, "rtz").astype(carrier(fmt))


@dataclass
class AttackedOperand:
    """Bounds of one operand; a point passes one array for both ends."""

    lo: Array
    hi: Array

    @staticmethod
    def point(x: Array) -> AttackedOperand:
        return AttackedOperand(x, x)

    @staticmethod
    def interval(rng: np.random.Generator, fmt: Format, n: int) -> AttackedOperand:
        """Narrow ones around a number, wide ones between any two, some without width."""
        x = numbers(rng, fmt, n).astype(np.float64)
        with np.errstate(over="ignore"):
            near = np.where(np.isfinite(x), x, 1.0) * (1 + rng.choice([0.0, 2.0**-fmt.p, 0.01, -0.3], n))
        other = np.where(rng.random(n) < 0.3, numbers(rng, fmt, n).astype(np.float64), near)
        other = to_format(other, fmt, "rtz").astype(np.float64)
        return AttackedOperand(np.minimum(x, other)[None], np.maximum(x, other)[None])

    @property
    def pair(self) -> tuple[Array, Array]:
        return self.lo, self.hi

    def member(self, rng: np.random.Generator, fmt: Format) -> Array:
        """Any number of the format between the ends."""
        lo, hi = self.lo.astype(np.float64), self.hi.astype(np.float64)
        where = rng.choice([0.0, 1.0, rng.random()], lo.shape)
        with np.errstate(all="ignore"):
            inner = np.clip(to_format(lo + where * (hi - lo), fmt, "rtz"), lo, hi)
        inner = np.where(np.isfinite(inner), inner, lo)
        return np.where(where == 0, lo, np.where(where == 1, hi, inner)).astype(carrier(fmt))


def context(profile: Profile) -> Context:
    """A launch of nothing."""
    nothing: Any = None
    return Context(profile, False, nothing, (1, 1, 1), frozenset(), lambda *a: 0, lambda text: None)


def execute(op: str, values: list[Array], fmt: Format, profile: Profile, seed: int) -> Array:
    """One legal result per lane of a builder method."""
    builder = AdversaryBuilder(context(profile), AttackPlan(seed))
    shape = values[-1].shape[1:]
    handles = [Handle(v, tl.int1 if v.dtype == np.bool_ else _TYPES[fmt.name], shape) for v in values]
    with np.errstate(all="ignore"):
        found: Array = getattr(builder, f"create_{op}")(*handles).v
        return found


def attackable() -> Iterator[tuple[Rule, str]]:
    """Every entry that computes bounds, in the formats that it is meant for."""
    for rule in RULES.values():
        if rule.apply is not None:
            wide = rule.cause == "function" and rule.shape is not Shape.SPECIAL
            yield from ((rule, fmt) for fmt in (_FUNCTIONS if wide else _ARITHMETIC))


def _profile(target: str | Profile) -> Profile:
    return load_profile(target) if isinstance(target, str) else target


def attack_rule(
    rule: Rule, fmt_name: str, target: str | Profile, seed: int, n: int = 256, rounds: int = 8
) -> AttackTally:
    """Points, then intervals: bounds by the rule, `rounds` legal results each."""
    tally, fmt, profile = AttackTally(), FORMATS[fmt_name], _profile(target)
    rng = np.random.default_rng(seed)
    for points in (True, False):
        operands = [
            AttackedOperand.point(numbers(rng, fmt, n)[None]) if points else AttackedOperand.interval(rng, fmt, n)
            for _ in range(rule.arity - (rule.op == "select"))
        ]
        _one(rule, operands, fmt, profile, tally, rng, rounds)
        if tally.skipped:
            break
    return tally


def _one(
    rule: Rule, operands: list[AttackedOperand], fmt: Format, profile: Profile, tally: AttackTally,
    rng: np.random.Generator, rounds: int,
) -> None:  # fmt: skip
    pairs: list[Any] = [o.pair for o in operands]
    if rule.op == "select":
        surely = rng.random(operands[0].lo.shape) < 0.4
        pairs.insert(0, (surely, surely | (rng.random(surely.shape) < 0.4)))
    try:
        assert rule.apply is not None
        lo, hi = rule.apply(tuple(pairs), fmt, profile)
        for _ in range(rounds):
            seed = int(rng.integers(1 << 31))
            values = [o.member(rng, fmt) for o in operands]
            if rule.op == "select":
                values.insert(0, pairs[0][0] | (pairs[0][1] & (rng.random(pairs[0][1].shape) < 0.5)))
            check(rule.op, execute(rule.op, values, fmt, profile, seed), lo, hi, (profile.name, fmt.name, seed), tally)
    except MissingRule as missing:
        tally.skipped = str(missing)


def check(op: str, value: Array, lo: Array, hi: Array, how: tuple[str, str, int], tally: AttackTally) -> None:
    """Counts results outside; comparisons are true at least where they must be and at most where they may."""
    tally.runs += 1
    tally.checks += value.size
    if value.dtype == np.bool_:
        outside = (lo & ~value) | (value & ~hi)
    else:
        outside = ~((value >= lo) & (value <= hi)) & ~np.isnan(lo)
        low, high = lo.astype(np.longdouble), hi.astype(np.longdouble)
        with np.errstate(all="ignore"):
            half = high / 2 - low / 2
            place = np.abs(value - (low / 2 + high / 2)) / half
        place = place[(half > 0) & np.isfinite(half) & np.isfinite(place)]
        tally.approach = max(tally.approach, float(place.max(initial=0)))
    if outside.any():
        profile, fmt, seed = how
        tally.violated += int(outside.sum())
        at = tuple(int(i) for i in np.argwhere(outside)[0])
        whole = [float(np.broadcast_to(a, value.shape)[at]) for a in (value, lo, hi)]
        tally.violations.append(Violation(f"rule {op} {fmt}", profile, "special", seed, {}, 0, at, *whole))


def attack_cast(src_name: str, dst_name: str, mode: str, target: str | Profile, seed: int, n: int = 512) -> AttackTally:
    """Conversions, whose rule is a function of its own."""
    src, dst, profile = FORMATS[src_name], FORMATS[dst_name], _profile(target)
    tally, rng = AttackTally(), np.random.default_rng(seed)
    for operand in (AttackedOperand.point(_around(rng, src, dst, n)[None]), AttackedOperand.interval(rng, src, n)):
        lo, hi = casting.cast_interval(operand.lo, operand.hi, src, dst, profile, mode)  # type: ignore[arg-type]
        for _ in range(6):
            number = int(rng.integers(1 << 31))
            builder = AdversaryBuilder(context(profile), AttackPlan(number))
            handle = Handle(operand.member(rng, src), _TYPES[src_name], operand.lo.shape[1:])
            with np.errstate(all="ignore"):
                value = builder._cast(handle, _TYPES[dst_name], mode).v
            check("cast", value, lo, hi, (profile.name, f"{src_name}->{dst_name} {mode}", number), tally)
    return tally


def _around(rng: np.random.Generator, src: Format, dst: Format, n: int) -> Array:
    """Numbers of the wide format at, beside and half-way between numbers of the narrow one."""
    x = numbers(rng, dst, n).astype(np.float64)
    ulp = np.ldexp(1.0, np.maximum(np.frexp(x)[1] - 1, dst.emin) - dst.p + 1)
    tiny = np.ldexp(1.0, np.maximum(np.frexp(x)[1] - 1, src.emin) - src.p + 1)
    with np.errstate(all="ignore"):
        x = x + ulp * rng.choice([0.0, 0.5, -0.5, 0.25], n) + tiny * rng.integers(-1, 2, n)
    return to_format(np.clip(x, -src.max, src.max), src, "rtz").astype(carrier(src))


def attack_all(profile: str | Profile, seed: int, n: int = 256, rounds: int = 8) -> Iterator[tuple[str, AttackTally]]:
    """(rule, what was found) for every entry that can be attacked, and for conversions."""
    for rule, fmt in attackable():
        yield rule.op, attack_rule(rule, fmt, profile, seed, n, rounds)
    for src, dst in _CASTS:
        for mode in ("rtne", "rtz"):
            yield "fp_to_fp", attack_cast(src, dst, mode, profile, seed, n)
