"""Formulas of joined operands against legal executions: merges, bracketings, ranks, scaled numbers, old casts."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from interval_ops.formats.model import FORMATS
from interval_ops.profiles.profile import load_profile
from render.exact import intervals as iv
from render.witness import sums
from render.witness.evaluate import Evaluator
from tests.render.exact.oracle import fraction
from tests.support import rng, trials

F = np.float32
FP32 = FORMATS["fp32"]


def holds(x, value):
    if x is None:
        return True
    exact = value if isinstance(value, Fraction) else Fraction(float(value))
    return all(iv.infinite((e, e)) for e in x) or fraction(x[0]) <= exact <= fraction(x[1])


def evaluated(columns, op, attrs, rules, second=None):
    """One node over leaf columns."""
    values = [float(v) for c in columns for v in c]
    highs = values if second is None else [float(v) for c in second for v in c]
    leaf = {"op": "leaf", "size": len(values), "attrs": {"source": "input"},
            "low": " ".join(v.hex() for v in values), "high": " ".join(v.hex() for v in highs)}  # fmt: skip
    operands, first = [], 0
    for c in columns:
        operands.append({"width": len(c), "runs": " ".join(str(first + i) for i in range(len(c)))})
        first += len(c)
    node = {"op": op, "size": 1, "attrs": attrs, "operands": operands}
    return Evaluator({"nodes": [leaf, node], "root": first, "rules": rules}).result()


def merged(x, y, r):
    """One legal merge in fp32, its division up to 2 ulp off."""
    (ma, sa, wa), (mb, sb, wb) = x, y
    w = F(wa + wb)
    share = F(0) if w == 0 else F(F(wb / w) * F(1 + int(r.integers(-2, 3)) * 2.0**-23))
    d = F(mb - ma)
    return F(ma + F(d * share)), F(F(sa + sb) + F(F(F(d * d) * wa) * share)), w


@pytest.mark.parametrize("offset", [0.0, 1000.0, -3e5])
def test_moments_of_any_merges_stay_inside(offset):
    r = rng(31)
    error = load_profile("sm_80").fn("div")
    rules = {"functions": {"div fp32": {"r": max(error.r, 2.6 * 2.0**-23), "a": error.a, "ftz": error.ftz}}}
    for _ in range(trials(25)):
        n = int(r.integers(2, 20))
        x = (r.normal(size=n) + offset).astype(F)
        w = r.integers(0, 3, n).astype(F) if r.random() < 0.5 else np.ones(n, F)
        columns = (x, np.zeros(n, F), w)
        bounds = {
            part: evaluated(columns, "welford", {"part": part, "guarded": True, "fmt": "fp32"}, rules)
            for part in ("mean", "m2", "weight")
        }
        total = sum(map(Fraction, w.tolist()))
        if total:
            mean = sum(Fraction(float(a)) * Fraction(float(c)) for a, c in zip(x, w, strict=True)) / total
            scatter = sum(Fraction(float(c)) * (Fraction(float(a)) - mean) ** 2 for a, c in zip(x, w, strict=True))
            assert holds(bounds["mean"], mean) and holds(bounds["m2"], scatter) and holds(bounds["weight"], total)
        for _ in range(4):
            parts = [(a, F(0), c) for a, c in zip(x, w, strict=True)]
            while len(parts) > 1:
                i = 0 if r.random() < 0.3 else int(r.integers(len(parts) - 1))
                parts[i : i + 2] = [merged(parts[i], parts[i + 1], r)]
            for part, value in zip(("mean", "m2", "weight"), parts[0], strict=True):
                assert holds(bounds[part], value), (part, x, w)


def test_recurrences_of_any_bracketing_stay_inside():
    r = rng(32)
    for _ in range(trials(40)):
        n = int(r.integers(1, 20))
        a, c = (r.normal(size=n) * 1.3).astype(F), (r.normal(size=n) * 10.0 ** r.integers(-3, 3)).astype(F)
        bound = sums.recurrence([iv.point(float(v)) for v in a], [iv.point(float(v)) for v in c], FP32)
        exact = Fraction(float(c[0]))
        for x, y in zip(a[1:], c[1:], strict=True):
            exact = Fraction(float(x)) * exact + Fraction(float(y))
        assert holds(bound, exact)
        for _ in range(4):
            parts = list(zip(a, c, strict=True))
            while len(parts) > 1:
                i = int(r.integers(len(parts) - 1))
                (a1, b1), (a2, b2) = parts[i : i + 2]
                parts[i : i + 2] = [(F(a1 * a2), F(F(b1 * a2) + b2))]
            assert holds(bound, parts[0][1])


def test_a_rank_among_intervals_holds_every_choice():
    r = rng(33)
    for _ in range(trials(30)):
        n = int(r.integers(1, 9))
        low = r.normal(size=n)
        high = low + r.random(n) * (r.random(n) < 0.7)
        rank = int(r.integers(n))
        nodes = [
            {"op": "leaf", "size": n, "attrs": {}, "low": " ".join(map(float.hex, low.tolist())),
             "high": " ".join(map(float.hex, high.tolist()))},
            {"op": "leaf", "size": 1, "attrs": {"source": "integer"}, "low": float(rank).hex()},
            {"op": "ranked", "size": 1, "attrs": {},
             "operands": [{"runs": str(n)}, {"width": n, "runs": " ".join(map(str, range(n)))}]},
        ]  # fmt: skip
        bound = Evaluator({"nodes": nodes, "root": n + 1, "rules": {}}).result()
        for _ in range(10):
            assert holds(bound, np.sort(low + (high - low) * r.random(n))[rank])


@pytest.mark.parametrize("widen", [None, "bf16", "fp16"])
def test_scaled_numbers_are_those_of_ml_dtypes(widen):
    r = rng(34)
    for code in range(16):
        bits = int(r.integers(110, 140))
        attrs = {"code": "e2m1", "scale": "e8m0", "widen": widen}
        nodes = [
            {
                "op": "leaf",
                "size": 2,
                "attrs": {"source": "integer"},
                "low": f"{float(code).hex()} {float(bits).hex()}",
            },
            {"op": "scaled", "size": 1, "attrs": attrs, "operands": [{"runs": "0"}, {"runs": "1"}]},
        ]
        bound = Evaluator({"nodes": nodes, "root": 2, "rules": {}}).result()
        number = float(np.uint8(code).view(ml_dtypes.float4_e2m1fn)) * 2.0 ** (bits - 127)
        assert holds(bound, number)
        if widen is None:
            assert bound == iv.point(number)
        elif widen == "fp16":
            assert holds(bound, np.float16(number)) or np.isinf(np.float16(number))


def _ties_away(x: float, bits: int) -> float:
    """fp16 bits plus half of the last kept one, cut: how earlier versions make fp8e5."""
    raw = int(np.float16(x).view(np.uint16)) + (1 << (15 - bits))
    return float(np.uint16(raw & ~((1 << (16 - bits)) - 1)).view(np.float16))


def test_older_conversions_hold_both_ways_of_rounding():
    rules = {"double_rounding": {}, "overflow": {"fp8e5": "inf"}, "older": {"fp16->fp8e5": {
        "via": "", "ties_away": True, "overflow": "inf", "floor": 0.0, "until": 0.0}}}  # fmt: skip
    attrs = {"src": "fp16", "dst": "fp8e5", "mode": "rtne"}
    for raw in range(0x0400, 0x7B00, 7):
        x = float(np.uint16(raw).view(np.float16))
        nodes = [{"op": "leaf", "size": 1, "attrs": {}, "low": x.hex()},
                 {"op": "cast", "size": 1, "attrs": attrs, "operands": [{"runs": "0"}]}]  # fmt: skip
        bound = Evaluator({"nodes": nodes, "root": 1, "rules": rules}).result()
        assert holds(bound, float(ml_dtypes.float8_e5m2(x))) and holds(bound, _ties_away(x, 8)), x


def test_sums_that_stagnate_are_lost_or_doubled():
    """bf16: addends of a little more than half a unit double, those of a little less are lost; so do blocks of them."""
    fmt = FORMATS["bf16"]
    up = total = F(1)
    terms = [F(1)]
    for _ in range(600):
        unit = F(2.0) ** F(int(np.floor(np.log2(total))) - 7)
        terms += [unit * F(0.5 + 2.0**-8)]
        total, up = total + terms[-1], up + unit
        total = F(ml_dtypes.bfloat16(total))
    assert total == up
    found = sums.plain_sum([iv.point(float(t)) for t in terms], len(terms), fmt)
    exact = sum(map(Fraction, map(float, terms)))
    assert holds(found, total) and holds(found, terms[0]) and holds(found, exact)
    assert fraction(found[1]) - exact <= 2 * (Fraction(float(total)) - exact)


MENU = [-np.inf, -65504.0, -40000.0, -3.0, -0.1, 0.0, 0.1, 1.0, 39296.0, 65504.0, np.inf]


@pytest.mark.parametrize("atomic", [False, True])
def test_infinite_terms_and_overflows_hold_every_order(atomic):
    """Additions of fp16 in numpy, in random trees (one after the other where they are atomic)."""
    generator, fmt = rng(93), FORMATS["fp16"]
    told = 0
    for _ in range(trials(300)):
        n = int(generator.integers(1, 8))
        ends = generator.choice(MENU, (2, n), p=np.array([1, 1, 1, 4, 4, 4, 4, 4, 1, 1, 2]) / 27)
        ends[1] = np.where(generator.random(n) < 0.6, ends[0], ends[1])
        lo, hi = np.sort(np.float16(ends).astype(float), axis=0)
        terms = [iv.interval(*x) for x in zip(lo, hi, strict=True)]
        found = sums.atomic_sum(terms, n, fmt, False) if atomic else sums.plain_sum(terms, n, fmt)
        told += found is not None and bool(found[0] == found[1]) and iv.infinite(found)
        for _ in range(6):
            values = [np.float16(x) for x in np.where(generator.random(n) < 0.5, lo, hi)]
            with np.errstate(all="ignore"):
                while len(values) > 1:
                    i, j = (0, int(generator.integers(1, len(values)))) if atomic else sorted(
                        generator.choice(len(values), 2, replace=False))  # fmt: skip
                    b = values.pop(j)
                    values[i] = values[i] + b
            result = float(values[0])
            assert found is None or (not np.isnan(result) and float(found[0]) <= result <= float(found[1])), (lo, hi)
    assert told > trials(300) / 20
