"""Sums, products and extrema along an axis: exact rationals, many orders of rounding, and numpy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from containment import assert_inside, hard_values, holds, interval, point, rounded, sample, to_format, well_formed
from support import rng, trials

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.formats.model import BF16, FP16, FP32, FP64, Format
from interval_ops.profiles.profile import load_profile
from interval_ops.reduction import rule as reduction

IEEE, SM80 = load_profile("ieee"), load_profile("sm_80")


def random_tree(generator: np.random.Generator, x: np.ndarray, fmt: Format, product: bool = False) -> float:
    """The values combined in a random binary tree, every step rounded to the format."""
    values = [float(v) for v in x]
    while len(values) > 1:
        i, j = sorted(generator.choice(len(values), 2, replace=False))
        b, a = values.pop(j), values.pop(i)
        if fmt.bits == 64 or not (math.isfinite(a) and math.isfinite(b)):
            r = a * b if product else a + b
        else:
            exact = Fraction(a) * Fraction(b) if product else Fraction(a) + Fraction(b)
            r = rounded(exact, fmt)
        values.append(r)
    return values[0]


def sequential(x: np.ndarray, fmt: Format) -> np.ndarray:
    """Left to right along the last axis with numpy's own rounding (fp32 and fp16)."""
    dtype = {32: np.float32, 16: np.float16, 64: np.float64}[fmt.bits]
    total = np.zeros(x.shape[:-1], dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(x.shape[-1]):
            total = total + x[..., k].astype(dtype)
    return total.astype(np.float64)


@pytest.mark.parametrize("fmt", [FP32, FP16, BF16, FP64], ids=lambda f: f.name)
def test_sums_hold_every_tree(fmt: Format) -> None:
    generator = rng(41)
    for _ in range(trials(30)):
        n = int(generator.integers(1, 40))
        x = hard_values(generator, fmt, n) if generator.random() < 0.3 else to_format(generator.standard_normal(n), fmt)
        lo, hi = reduction.sum_axis((x[None], x[None]), 1, (1, n), fmt, IEEE)
        assert holds(lo[0], hi[0], sum(map(Fraction, x), Fraction(0)))
        for _ in range(4):
            result = random_tree(generator, x, fmt)
            assert np.isnan(lo[0]) or lo[0] <= result <= hi[0]


@pytest.mark.parametrize("shape", [(3, 64, 5), (2, 7), (4, 1, 3), (2, 512), (1, 300, 2, 2), (5, 16), (2, 1024, 16)])
def test_interval_sums_along_every_axis(shape: tuple[int, ...]) -> None:
    generator = rng(42)
    x = np.float32(generator.standard_normal(shape)).astype(float)
    w = np.abs(x) * generator.choice([0.0, 1e-7, 0.1], shape)
    for axis in range(1, len(shape)):
        pair = tuple(np.float32(v).astype(float) for v in (x - w, x + w))
        out = reduction.sum_axis(pair, axis, shape, FP32, SM80)  # type: ignore[arg-type]
        assert out[0].shape == shape[:axis] + shape[axis + 1 :]
        for choice in (*pair, sample(generator, pair, FP32), sample(generator, pair, FP32)):  # type: ignore[arg-type]
            y = np.moveaxis(choice, axis, -1)
            assert_inside(out, np.vectorize(math.fsum, signature="(n)->()")(y))
            assert_inside(out, sequential(y, FP32))
            assert_inside(out, y.astype(np.float32).sum(-1).astype(float))


def test_rows_do_not_depend_on_the_batch_or_the_layout() -> None:
    generator = rng(43)
    for shape, axis in (((33, 256), 1), ((33, 48), 1), ((9, 100, 3), 1), ((9, 4, 64), 2)):
        x = generator.standard_normal(shape)
        pair = (x, x + np.abs(x) * 1e-6)
        whole = reduction.sum_axis(pair, axis, shape, FP32, SM80)
        views = tuple(np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 0, -1)), -1, 0) for a in pair)
        moved = reduction.sum_axis(views, axis, shape, FP32, SM80)  # type: ignore[arg-type]
        for k in range(shape[0]):
            one = tuple(a[k : k + 1] for a in pair)
            single = reduction.sum_axis(one, axis, (1, *shape[1:]), FP32, SM80)  # type: ignore[arg-type]
            for end in (0, 1):
                assert np.array_equal(single[end][0], whole[end][k])
                assert np.array_equal(moved[end][k], whole[end][k])


def test_broadcast_operands() -> None:
    x = rng(44).standard_normal((4, 1, 3)).astype(np.float32)
    out = reduction.sum_axis((x, x), 1, (4, 8, 3), FP32, SM80)
    full = np.ascontiguousarray(np.broadcast_to(x, (4, 8, 3)))
    assert all(np.array_equal(a, b) for a, b in zip(out, reduction.sum_axis((full, full), 1, (4, 8, 3), FP32, SM80),
                                                    strict=True))  # fmt: skip
    lazy = reduction.sum_axis((x, x), 2, (4, 8, 3), FP32, SM80)
    assert lazy[0].shape == (4, 1)


def test_exact_sums_stay_points_and_padding_is_free() -> None:
    counts = np.ones((3, 1024), np.float32)
    lo, hi = reduction.sum_axis((counts, counts), 1, counts.shape, FP32, SM80)
    assert lo is hi and np.all(lo == 1024)
    lo, hi = reduction.sum_axis((counts, counts), 1, counts.shape, FP16, SM80)
    assert lo is hi and np.all(lo == 1024)
    one = np.zeros((1, 1024))
    one[0, 7] = 0.1
    lo, hi = reduction.sum_axis((one, one), 1, one.shape, FP32, SM80)
    assert lo[0] == hi[0] == 0.1
    few = np.zeros((1, 1024))
    few[0, :3] = 0.1
    lo, hi = reduction.sum_axis((few, few), 1, few.shape, FP32, SM80)
    assert hi[0] - lo[0] <= 2 * 2.1 * 2.0**-24 * 0.3


def test_fp16_sum_is_not_fp32() -> None:
    """U11: 2048 + 15 ones in fp16 is 2048; published counter-example: 2048, 1, -2048 with a tree result of 0."""
    x = np.array([[2048.0] + [1.0] * 15])
    out = reduction.sum_axis((x, x), 1, x.shape, FP16, SM80)
    assert_inside(out, np.array([2048.0]))
    assert_inside(out, np.array([2063.0]))
    y = np.zeros((1, 128))
    y[0, [0, 64, 1]] = 2048, 1, -2048
    assert_inside(reduction.sum_axis((y, y), 1, y.shape, FP16, SM80), np.array([0.0]))


def test_a_sum_is_not_free_of_error() -> None:
    """Published rule with m = 1: no error at all for any sum."""
    x = np.float32(rng(45).standard_normal((1, 4096))).astype(float)
    lo, hi = reduction.sum_axis((x, x), 1, x.shape, FP32, SM80)
    assert hi[0] > lo[0]
    assert_inside((lo, hi), sequential(x, FP32))
    quiet = reduction.sum_axis((x, x), 1, x.shape, FP32, SM80.mute("accumulation"))
    assert quiet[1][0] - quiet[0][0] <= 1e-10
    assert_inside(quiet, np.array([math.fsum(x[0])]))


def test_overflowing_partial_sums() -> None:
    big = 3e38
    assert np.isnan(reduction.sum_axis(point([[big, big, -big, -big]]), 1, (1, 4), FP32, SM80)[0][0])
    lo, hi = reduction.sum_axis(point([[big, big]]), 1, (1, 2), FP32, SM80)
    assert 0 <= lo[0] <= 6e38 and hi[0] == math.inf
    lo, hi = reduction.sum_axis(point([[-big, -big]]), 1, (1, 2), FP32, SM80)
    assert hi[0] >= -6e38 and lo[0] == -math.inf
    lo, hi = reduction.sum_axis(interval([[1.0, 1.0]], [[math.inf, 1.0]]), 1, (1, 2), FP32, SM80)
    assert 1.9 < lo[0] <= 2 and hi[0] == math.inf
    for bad in ([math.inf, -math.inf], [math.nan, 1.0]):
        out = reduction.sum_axis(point([bad]), 1, (1, 2), FP32, SM80)
        assert np.isnan(out[0][0]) and np.isnan(out[1][0])
    lo, hi = reduction.sum_axis(point([[1.7e308, 1.7e308]]), 1, (1, 2), FP64, SM80)
    assert holds(lo[0], hi[0], 2 * Fraction(1.7e308))


@pytest.mark.parametrize("fmt", [FP32, FP16, BF16, FP64], ids=lambda f: f.name)
def test_products_hold_every_tree(fmt: Format) -> None:
    generator = rng(46)
    for _ in range(trials(40)):
        n = int(generator.integers(1, 10))
        x = to_format(generator.standard_normal(n) * 2.0 ** generator.integers(-12, 9, n), fmt)
        w = np.abs(x) * generator.choice([0.0, 0.1])
        ends = to_format(x - w, fmt), to_format(x + w, fmt)
        lo, hi = reduction.prod_axis((ends[0][None], ends[1][None]), 1, (1, n), fmt, IEEE)
        well_formed((lo, hi))
        assert holds(lo[0], hi[0], math.prod(map(Fraction, x), start=Fraction(1)))
        for values in (x, ends[0], ends[1]):
            result = random_tree(generator, values, fmt, product=True)
            assert np.isnan(lo[0]) or lo[0] <= result <= hi[0], (values, result, lo, hi)


def test_extrema_hold_every_choice() -> None:
    generator = rng(47)
    for shape in ((3, 64), (2, 700), (5, 8, 9), (2, 256, 4)):
        x = generator.standard_normal(shape)
        w = generator.uniform(0, 0.5, shape)
        for axis in range(1, len(shape)):
            for rule, function in ((reduction.max_axis, np.max), (reduction.min_axis, np.min)):
                lo, hi = rule((x - w, x + w), axis, shape)
                assert np.array_equal(lo, function(x - w, axis)) and np.array_equal(hi, function(x + w, axis))
                top = x.copy()
                top[..., 0] = np.nan
                lo, hi = rule((top, top.copy()), axis, shape)
                assert np.array_equal(np.isnan(lo), np.isnan(top).any(axis))
                assert np.array_equal(np.isnan(hi), np.isnan(lo))
                p, q = rule((top, top), axis, shape)
                ignoring = np.fmax if function is np.max else np.fmin
                assert p is q and np.array_equal(p, ignoring.reduce(top, axis), equal_nan=True)


def test_difference_from_the_row_maximum() -> None:
    """U22: x - max(x, 1, keep_dims) keeps each row's own bounds."""
    x = np.arange(16.0).reshape(1, 4, 4)
    pair = (x - 0.25, x + 0.25)
    peak = tuple(np.expand_dims(end, 2) for end in reduction.max_axis(pair, 2, x.shape))
    out = arithmetic.sub(pair, peak, FP32, SM80)  # type: ignore[arg-type]
    assert_inside(out, x - x.max(2, keepdims=True))
    assert np.all(out[1] - out[0] <= 1.0 + 1e-6)


def test_argmax_is_decided_only_without_rivals() -> None:
    v = np.array([[1.0, 5.0, 5.0, 2.0], [1.0, 5.0, 4.9, 2.0], [5.0, 1.0, 5.0, 0.0], [1.0, 2.0, 3.0, math.nan]])
    index, decided = reduction.argmax_axis((v, v.copy()), v, 1, v.shape)
    assert index[:3].tolist() == [1, 1, 0] and decided.tolist() == [True, True, True, False]
    index, decided = reduction.argmax_axis((v - 0.06, v + 0.06), v, 1, v.shape)
    assert decided.tolist() == [False, False, False, False]
    index, decided = reduction.argmin_axis((v - 0.06, v + 0.06), v, 1, v.shape)
    assert index[:3].tolist() == [0, 0, 3] and decided[:3].all()
    tie = interval([[0.0, 0.0]], [[0.0, 0.5]])
    assert not reduction.argmax_axis(tie, tie[0], 1, (1, 2))[1][0]


def balanced_tree(x: np.ndarray, fmt: Format, product: bool = False) -> float:
    """Halves combined with halves until one value is left, every step rounded."""
    values = [Fraction(float(v)) for v in x]
    while len(values) > 1:
        half = len(values) // 2
        both = zip(values[:half], values[half:], strict=True)
        values = [Fraction(rounded(a * b if product else a + b, fmt)) for a, b in both]
    return float(values[0])


@pytest.mark.parametrize("fmt", [FP32, FP16, BF16], ids=lambda f: f.name)
def test_balanced_trees_where_the_order_is_known(fmt: Format) -> None:
    generator, tree = rng(47), SM80.chosen("tree")
    for _ in range(trials(40)):
        n = 2 ** int(generator.integers(0, 9))
        x = to_format(generator.standard_normal(n) * np.exp2(generator.integers(-6, 6, n).astype(float)), fmt)
        wide = reduction.sum_axis((x[None], x[None]), 1, (1, n), fmt, SM80)
        lo, hi = reduction.sum_axis((x[None], x[None]), 1, (1, n), fmt, tree)
        assert wide[0][0] <= lo[0] <= hi[0] <= wide[1][0]
        assert holds(lo[0], hi[0], sum(map(Fraction, x), Fraction(0)))
        for _ in range(4):
            assert lo[0] <= balanced_tree(generator.permutation(x), fmt) <= hi[0]
    x = to_format(generator.standard_normal((1, 512)), fmt)
    sizes = [np.subtract(*reduction.sum_axis((x, x), 1, x.shape, fmt, order)[::-1])[0] for order in (tree, SM80)]
    assert sizes[0] * 4 <= sizes[1]


def test_roundings_are_charged_at_the_size_of_partial_sums() -> None:
    """n - 1 roundings, each of the largest magnitude that a partial sum can have: positive and negative addends do not
    pile up on each other, and the first additions are small."""
    generator = rng(49)
    for n in (256, 4096):
        x = np.float32(generator.standard_normal((1, n))).astype(float)
        lo, hi = reduction.sum_axis((x, x), 1, x.shape, FP32, SM80)
        worst = (n - 1) * FP32.u * np.abs(x).sum()  # Higham (4.4), first order
        assert hi[0] - lo[0] <= 2 * 0.55 * worst
        values = np.concatenate([np.sort(x, axis=1), -np.sort(-x, axis=1), x])
        assert_inside((np.repeat(lo, 3), np.repeat(hi, 3)), sequential(values, FP32))
        y = np.abs(x) / np.abs(x).max()
        lo, hi = reduction.sum_axis((y, y), 1, x.shape, FP32, SM80)
        growing = FP32.u * sum(2.0 ** math.floor(math.log2(min(k + 1.0, y.sum()))) for k in range(1, n))
        assert hi[0] - lo[0] <= 2 * growing * (1 + 1e-3)


@pytest.mark.parametrize("fmt", [FP32, FP16], ids=lambda f: f.name)
def test_one_sign_first_is_the_worst_order(fmt: Format) -> None:
    """All positive addends, then all negative ones: the largest partial sums there are, with exact rationals."""
    generator = rng(50)
    for _ in range(trials(30)):
        n = int(generator.integers(2, 60))
        x = to_format(generator.standard_normal(n) * np.exp2(generator.integers(-3, 4, n).astype(float)), fmt)
        lo, hi = reduction.sum_axis((x[None], x[None]), 1, (1, n), fmt, SM80)
        for order in (np.sort(x), np.sort(x)[::-1], x[np.argsort(np.abs(x))], x[np.argsort(-np.abs(x))]):
            total = float(order[0])
            for v in order[1:]:
                total = rounded(Fraction(total) + Fraction(float(v)), fmt)
            assert lo[0] <= total <= hi[0]


def test_a_balanced_tree_is_not_a_chain() -> None:
    """The bound for trees is for trees: a chain of fp16 additions leaves it, and the one for any order holds it."""
    x = np.concatenate([[2048.0], np.ones(255)])
    chain, tree = sequential(x[None], FP16), SM80.chosen("tree")
    lo, hi = reduction.sum_axis((x[None], x[None]), 1, (1, 256), FP16, tree)
    assert chain[0] == 2048.0 and not lo[0] <= chain[0] <= hi[0]
    assert_inside(reduction.sum_axis((x[None], x[None]), 1, (1, 256), FP16, SM80), chain)
    assert lo[0] <= balanced_tree(x, FP16) <= hi[0]
    older = tree.chosen(triton=(3, 7))
    assert_inside(reduction.sum_axis((x[None], x[None]), 1, (1, 256), FP16, older), chain)


@pytest.mark.parametrize("fmt", [FP32, FP16], ids=lambda f: f.name)
def test_balanced_trees_of_products(fmt: Format) -> None:
    generator, tree = rng(48), SM80.chosen("tree")
    for _ in range(trials(30)):
        x = to_format(np.exp2(generator.uniform(-0.1, 0.1, 64)), fmt)
        lo, hi = reduction.prod_axis((x[None], x[None]), 1, (1, 64), fmt, tree)
        wide = reduction.prod_axis((x[None], x[None]), 1, (1, 64), fmt, SM80)
        assert (lo[0], hi[0]) == (wide[0][0], wide[1][0])  # n - 1 relative errors, in a tree as in a chain
        assert lo[0] <= balanced_tree(generator.permutation(x), fmt, product=True) <= hi[0]


@pytest.mark.parametrize("fmt", [FP16, BF16], ids=lambda f: f.name)
@pytest.mark.parametrize("wide", [False, True])
def test_low_precision_sums_stay_linear_in_their_length(fmt: Format, wide: bool) -> None:
    """However large n u is, the error is at most n u sum |x|; also where additions are rounded twice, through fp32."""
    generator = rng(51)

    def add(a: float, b: float) -> float:
        exact = Fraction(a) + Fraction(b)
        return rounded(Fraction(rounded(exact, FP32)) if wide else exact, fmt)

    for n in (2, 300, 2048):
        x = to_format(generator.standard_normal(n) * np.exp2(generator.integers(-4, 2, n).astype(float)), fmt)
        lo, hi = reduction.sum_axis((x[None], x[None]), 1, (1, n), fmt, SM80)
        size = float(np.abs(x).sum())
        assert holds(lo[0], hi[0], sum(map(Fraction, x), Fraction(0)))
        assert hi[0] - lo[0] <= 2.02 * n * (fmt.u + 2 * FP32.u) * size
        for order in (x, np.sort(x), -np.sort(-x), x[np.argsort(np.abs(x))]):
            total = float(order[0])
            for v in order[1:]:
                total = add(total, float(v))
            assert lo[0] <= total <= hi[0]


@pytest.mark.parametrize("fmt", [FP32, FP16], ids=lambda f: f.name)
def test_trees_are_charged_level_by_level(fmt: Format) -> None:
    """Sums that cancel at the root, sorted so that each half has one sign, and trees whose errors go one way."""
    generator, known = rng(52), SM80.chosen("tree")
    for _ in range(trials(10)):
        n = 2 ** int(generator.integers(1, 8))
        x = to_format(generator.standard_normal(n) * np.exp2(generator.integers(-3, 3, n).astype(float)), fmt)
        lo, hi = reduction.sum_axis((x[None], x[None]), 1, (1, n), fmt, known)
        whole = math.log2(n) * (fmt.u + (fmt.bits < 32) * 2 * FP32.u) * float(np.abs(x).sum())
        assert hi[0] - lo[0] <= 2.1 * whole
        turned = np.ascontiguousarray(np.sort(x).reshape(2, -1).T).reshape(-1) if n > 1 else x
        for order in (np.sort(x), turned, x):
            assert lo[0] <= balanced_tree(order, fmt) <= hi[0]
        values = list(map(float, x))
        while len(values) > 1:  # the partner that errs most upwards
            out = []
            while values:
                a = values.pop()
                sums = [rounded(Fraction(a) + Fraction(b), fmt) for b in values]
                k = max(range(len(values)), key=lambda i: Fraction(sums[i]) - Fraction(values[i]))
                out.append(sums[k])
                values.pop(k)
            values = out
        assert lo[0] <= values[0] <= hi[0]
