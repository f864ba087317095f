"""The examples that refute the published rules, by name: the published interval excludes a legal result, ours holds it.

"eps" of the publication is 2^-23 for fp32, eps+ the error it charges per addition; `Algorithm 1` is its dot. Legal
results come from IEEE arithmetic, from the published model of the unit (`block_fma`) or from a legal order.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from block_fma import UNITS, Unit, fractions, in_order
from support import rng

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.arithmetic import selection
from interval_ops.dot.rule import PendingDot
from interval_ops.formats.casting import cast_interval
from interval_ops.formats.model import FP8E4NV, FP8E5, FP16, FP32, Format
from interval_ops.functions import elementary as functions
from interval_ops.profiles.profile import load_profile
from render.interpreter.session import Session

EPS = 2.0**-23
SM80, SM90 = load_profile("sm_80"), load_profile("sm_90")


class Example(NamedTuple):
    """Legal results of some elements, what was published for them and our bounds; `sound`: they hold them too."""

    published: tuple[Any, Any]
    legal: Any
    ours: tuple[Any, Any]
    sound: bool = False


EXAMPLES: dict[str, Callable[[], Example]] = {}


def example(make: Callable[[], Example]) -> Callable[[], Example]:
    EXAMPLES[make.__name__] = make
    return make


def around(x: Any, relative: float) -> tuple[Any, Any]:
    """x (1 +- relative), the right way round."""
    x = np.asarray(x, np.float64)
    return x - np.abs(x) * relative, x + np.abs(x) * relative


def point(*values: float) -> tuple[np.ndarray, np.ndarray]:
    x = np.array(values)
    return x, x


# ------------------------------------------------------------------------------------------------ elementwise


@example
def products_of_normal_numbers_underflow() -> Example:
    x = point(2.0**-75)
    return Example(around(2.0**-150, EPS), 0.0, arithmetic.mul(x, x, FP32, SM80))


@example
def casts_of_subnormals_round_absolutely() -> Example:
    x = np.float32([1e-6, 2e-7, 3.1e-8])
    legal = x.astype(np.float16).astype(np.float64)
    np.testing.assert_allclose(np.abs(legal / x - 1), [0.013, 0.106, 0.92], rtol=0.03)
    return Example(around(x, 2.0**-10), legal, cast_interval(x, x, FP32, FP16, SM80))


@example
def fast_divisions_are_off_by_two_and_a_half() -> Example:
    third = 1 / 3.0
    return Example(around(third, 2 * EPS), third * (1 + 2.4 * EPS), arithmetic.div(point(1.0), point(3.0), FP32, SM80))


@example
def square_roots_of_subnormals_are_flushed() -> Example:
    x = float(np.float32(1e-39))
    return Example(around(np.sqrt(x), EPS), 0.0, functions.unary("sqrt", point(x), FP32, SM80))


@example
def the_argument_of_exp_is_rounded() -> Example:
    x = np.array([-79.96136, -9.99517], np.float32).astype(np.float64)
    legal = np.exp2((x.astype(np.float32) * np.float32(np.log2(np.e))).astype(np.float64))
    assert legal[0] == pytest.approx(1.875968e-35, rel=1e-6)
    return Example(around(np.exp(x), 2 * EPS), legal, functions.unary("exp", (x, x), FP32, SM80))


@example
def conversions_saturate() -> Example:
    x = np.array([1e6], np.float32)
    return Example(around(1e6, 2.0**-2), 57344.0, cast_interval(x, x, FP32, FP8E5, SM90))


@example
def the_lower_end_of_a_negative_number_goes_down() -> Example:
    """Line 7 takes lo (1 - eps), which is above lo."""
    return Example((-1.0 * (1 - EPS), 0.0), -1.0, arithmetic.add(point(-1.0), point(0.0), FP32, SM80))


@example
def sine_at_its_end_points() -> Example:
    return Example((0.0, 1e-16), 1.0, functions.unary("sin", (np.zeros(1), np.array([np.pi])), FP32, SM80))


@example
def the_loser_of_a_maximum_may_reach_higher() -> Example:
    a, b = (np.array([0.99]), np.array([1.01])), (np.array([0.5]), np.array([1.5]))
    return Example((0.99, 1.01), 1.4, selection.maximum(a, b))


# ------------------------------------------------------------------------------------------------------ dots


def row(products: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    a, b = (np.array(side, np.float32) for side in zip(*products, strict=True))
    return a[None, None], b[None, :, None]


def dot(products: list[tuple[float, float]], kind: str, device: str, unit: Unit, fmt: Format, eps: float) -> Example:
    """The unit in order against Algorithm 1 with `eps` per addition (and exact products), over all of K."""
    a, b = row(products)
    pairs = fractions(a[0, 0], b[0, :, 0])
    exact, size = (float(sum((f(x * y) for x, y in pairs), Fraction(0))) for f in (Fraction, abs))
    wide = size * ((1 + eps) ** len(products) - 1)
    legal = float(in_order(Fraction(0), pairs, unit, fmt))
    lo, hi = PendingDot.start(None, (1, 1), kind, load_profile(device)).extend((a, a), (b, b)).interval()
    return Example((exact - wide, exact + wide), [legal, exact], (lo.reshape(-1), hi.reshape(-1)))


def volta(k: int) -> Example:
    """`any` holds Volta's narrow blocks."""
    others = [(2.0**-11, 2.0**-12 * (1 - 2.0**-10))] * (k - 1)
    found = dot([(1.0, 1.0), *others], "fp16", "any", UNITS["sm_70", "fp16"], FP16, 2.0**-24)
    assert found.legal[0] == 1.0
    return found


@example
def algorithm_1_on_volta_8() -> Example:
    return volta(8)


@example
def algorithm_1_on_volta_32() -> Example:
    return volta(32)


@example
def algorithm_1_on_volta_256() -> Example:
    return volta(256)


def ampere(k: int) -> Example:
    others = [(2.0**-12, 2.0**-12 * ((1 - 2.0**-11) if i % 8 == 7 else (2 - 2.0**-9))) for i in range(1, k)]
    return dot([(1.0, 1.0), *others], "fp16", "sm_80", UNITS["sm_80", "fp16"], FP16, 2.0**-24)


@example
def algorithm_1_on_ampere_64() -> Example:
    return ampere(64)


@example
def algorithm_1_on_ampere_512() -> Example:
    return ampere(512)


@example
def algorithm_1_on_hopper_is_sound_but_loose() -> Example:
    """At most 0.35 of the half-width that the package charges: three operand errors and 2^-23 per addition."""
    k = 256
    products = [(1.0, 1.0), *[(2.0**-12, 2.0**-13 * (1 - 2.0**-10))] * (k - 1)]
    found = dot(products, "fp16", "sm_90", UNITS["sm_90", "fp16"], FP16, EPS)
    charged = found.legal[1] * ((1 + EPS) ** 3 * (1 + (k - 1) * EPS) - 1)
    assert float(found.ours[1][0] - found.ours[0][0]) / 2 <= 0.35 * charged
    return found._replace(sound=True)


@example
def algorithm_1_in_thirteen_bits_on_hopper() -> Example:
    others = [(15 * 2.0**-9, 2.0**-8)] * 255
    found = dot([(1.0, 1.0), *others], "fp8", "sm_90", UNITS["sm_90", "fp8"], FP8E4NV, 2.0**-24)
    assert found.legal[0] == 1.0
    return found


@example
def algorithm_1_in_thirteen_bits_on_ada() -> Example:
    others = [(15 * 2.0**-9, 2.0**-8)] * 63
    return dot([(1.0, 1.0), *others], "fp8", "sm_89", UNITS["sm_89", "fp8"], FP8E4NV, 2.0**-24)


@example
def algorithm_1_with_a_half_accumulator() -> Example:
    a, b = (rng(1601 + i).standard_normal(256).astype(np.float16).astype(float) for i in range(2))
    return dot(list(zip(a, b, strict=True)), "fp16acc", "sm_80", UNITS["sm_80", "fp16acc"], FP16, EPS)


@example
def subnormal_operands_align_at_the_smallest_exponent() -> Example:
    """Any relative rule fails: 382 times what eight terms of 2^-24 allow."""
    products = [(2.0**-24, 2.0**15), *[(2.0**-6 * (1 + 2.0**-10), 2.0**-7 * (2 - 2.0**-10))] * 7]
    found = dot(products, "fp16", "sm_80", UNITS["sm_80", "fp16"], FP16, 2.0**-20)
    assert found.legal[0] == 0.003662109375 and found.legal[1] == pytest.approx(0.0036629430, rel=1e-7)
    return found


@example
def tf32_cuts_both_operands() -> Example:
    x = float(np.float32(1.00097644))
    found = dot([(x, x)], "tf32", "sm_80", UNITS["sm_80", "tf32"], FP32, 0.0)
    assert (x * x - 1) / (x * x) == pytest.approx(1.9968 * 2.0**-10, rel=1e-3)
    return Example(around(x * x, 2.0**-10), [1.0, x * x], found.ours)


@example
def products_of_halves_are_exact() -> Example:
    """Without the error of the accumulator nothing is left; the package charges 2^-23 for the product still."""
    x, y = (np.full((1, 1, 1), v, np.float32) for v in (1 + 2.0**-10, 1 + 2.0**-9))
    exact = float(x.item()) * float(y.item())
    lo, hi = PendingDot.start(None, (1, 1), "fp16", SM90.mute("accumulation")).extend((x, x), (y, y)).interval()
    assert (hi - lo).item() <= 2.0**-40
    return Example(around(exact, EPS), exact, (lo.reshape(-1), hi.reshape(-1)), sound=True)


@example
def the_accumulator_counts_although_one_element_is_zero() -> Example:
    """The package drops c as soon as one of its elements is 0."""
    ones, c = np.ones((2, 2), np.float32), np.array([[5, 5], [0, 5]], np.float32)
    lo, hi = PendingDot.start((c, c), (2, 2), "ieee", SM80).extend((ones, ones), (ones, ones)).interval()
    return Example((2.0, 2.0), [7.0, 7.0, 2.0, 7.0], (lo.reshape(-1), hi.reshape(-1)))


@example
def the_relative_error_of_many_terms_reaches_one() -> Example:
    """(m - 1) eps+ is 1 at m = 2049 in halves: 1 - (m - 1) eps+ falls to 0 there, and below it for more terms."""
    m = 2049
    found = dot([(1.0, 1.0)] * m, "fp16acc", "sm_75", Unit(1, 23, 10, FP16, True), FP16, 0.0)
    assert found.legal[0] == 2048.0
    assert all(1 - (n - 1) * 2.0**-11 <= 0 for n in (m, m + 1))
    assert np.isfinite([found.ours[0][0], found.ours[1][0]]).all()
    return Example((m, m), found.legal, found.ours)  # without the guard: m eps+ / 0


# ----------------------------------------------------------------------------------------- rows and kernels


@triton.jit
def kernel(x, c, out, OP: tl.constexpr, N: tl.constexpr):
    """`c` is x*x rounded, so that x*x - c is 0, or with an fma the residue: a wide legal range times a scale."""
    i = tl.arange(0, N)
    a = tl.load(x + i)
    if OP == "sum":
        tl.store(out, tl.sum(a, 0))
    elif OP == "cumsum":
        tl.store(out + i, tl.cumsum(a, 0))
    else:
        y = tl.load(x + N + i) + (a * a - tl.load(c + i)) * tl.load(x + 2 * N + i)
        if OP == "softmax":
            e = tl.exp(y - tl.max(y, 0))
            y = e / tl.sum(e, 0)
        else:
            mean = tl.sum(y, 0) / N
            centred = y - mean
            y = centred / tl.sqrt_rn(tl.sum(centred * centred, 0) / N + 1e-5)
        tl.store(out + i, y)


def run(op: str, x: torch.Tensor, n: int, c: torch.Tensor | None = None, size: int = 0) -> tuple[Any, Any]:
    out = torch.empty(size or n, dtype=x.dtype)
    with Session("sm_80") as session:
        kernel[(1,)](x, x if c is None else c, out, op, n)
    found = session.envelope(out)
    assert found is not None and not found.taints
    return found.lo, found.hi


def fused_or_not(base: list[float], size: list[float]) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Operands that make base or, with an fma, base + size; and these two rows."""
    a = np.full(len(base), 1.1, np.float32)
    square = a * a
    residue = a.astype(np.float64) ** 2 - square
    scale = (np.array(size) / residue).astype(np.float32)
    rows = np.stack([np.array(base), np.array(base) + residue * scale])
    return torch.from_numpy(np.concatenate([a, np.float32(base), scale])), torch.from_numpy(square), rows


@example
def sums_are_algorithm_1_with_one_term() -> Example:
    x = torch.full((64,), 0.1)
    legal = np.cumsum(x.numpy(), dtype=np.float32)[-1]
    exact = 64 * float(np.float32(0.1))
    return Example((exact, exact), float(legal), run("sum", x, 64, size=1))


@example
def halves_are_not_summed_in_singles() -> Example:
    x = torch.zeros(128, dtype=torch.float16)
    x[0], x[64], x[1] = 2048, 1, -2048
    tree = np.float16(np.float16(np.float16(2048) + np.float16(1)) + np.float16(-2048))
    return Example((0.937, 1.063), [float(tree), 1.0], run("sum", x, 128, size=1))


@example
def prefix_sums_round() -> Example:
    x = torch.from_numpy(rng(1611).standard_normal(4096).astype(np.float32))
    legal, exact = np.cumsum(x.numpy(), dtype=np.float32), np.cumsum(x.numpy(), dtype=np.float64)
    assert (legal != exact).sum() > 4000
    keep = legal != exact
    lo, hi = run("cumsum", x, 4096)
    return Example((exact[keep], exact[keep]), legal[keep].astype(np.float64), (lo[keep], hi[keep]))


@example
def softmax_moves_with_the_other_elements() -> Example:
    x, c, _ = fused_or_not([0.0, -1.0], [0.0, 2.0])
    lo, hi = run("softmax", x, 2, c)
    e = np.exp([-1.0, 1.0])
    return Example((0.5, 0.5), 1 / (1 + e), (lo[0], hi[0]))  # p e^(hi_i - lo_i), and element 0 is a point


@example
def layer_norm_is_no_function_of_the_end_points() -> Example:
    """What one execution moves up and down at once, the vectors of lower and of upper ends never do."""
    x, c, rows = fused_or_not([0.0, 0.0, 1.0, 3.0], [1.0, -1.0, 0.0, 0.0])

    def norm(v: np.ndarray) -> np.ndarray:
        return (v - v.mean()) / np.sqrt(v.var() + 1e-5)

    legal, ends = norm(rows[1]), np.stack([norm(rows.min(0)), norm(rows.max(0))])
    outside = (legal < ends.min(0)) | (legal > ends.max(0))
    assert outside.any()
    lo, hi = run("norm", x, 4, c)
    return Example((ends.min(0)[outside], ends.max(0)[outside]), legal[outside], (lo[outside], hi[outside]))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_published_interval_misses_what_ours_holds(name: str) -> None:
    found = EXAMPLES[name]()
    legal, lo, hi = (np.atleast_1d(np.asarray(x, np.float64)) for x in (found.legal, *found.ours))
    assert np.isfinite(legal).all() and not np.isnan(lo).any()
    assert ((lo <= legal) & (legal <= hi)).all(), (lo, legal, hi)
    below, above = (np.broadcast_to(np.asarray(x, np.float64), legal.shape) for x in found.published)
    inside = (below <= legal) & (legal <= above)
    assert inside.all() if found.sound else not inside.all()


ABSENT = {"log": "tl.log", "sin": "tl.sin", "rsqrt": "tl.rsqrt", "erf": "tl.erf", "tanh": "", "sigmoid": "tl.sigmoid",
          "atomics": "tl.atomic_add"}  # fmt: skip
"""Operations without a published rule."""


@triton.jit
def absent(x, out, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    if OP == "log":
        tl.store(out + i, tl.log(a))
    elif OP == "sin":
        tl.store(out + i, tl.sin(a))
    elif OP == "rsqrt":
        tl.store(out + i, tl.rsqrt(a))
    elif OP == "erf":
        tl.store(out + i, tl.erf(a))
    elif OP == "tanh":
        tl.store(out + i, tl.extra.cuda.libdevice.tanh(a))
    elif OP == "sigmoid":
        tl.store(out + i, tl.sigmoid(a))
    elif OP == "atomics":
        tl.atomic_add(out + i // 4, a)


@pytest.mark.parametrize("name", ABSENT)
def test_what_has_no_published_rule_has_one_here(name: str) -> None:
    x = torch.linspace(0.1, 0.9, 32)
    wide = x.double()
    out, exact = torch.zeros(32), {
        "log": wide.log(), "sin": wide.sin(), "rsqrt": wide.rsqrt(), "erf": wide.erf(), "tanh": wide.tanh(),
        "sigmoid": wide.sigmoid(), "atomics": torch.cat([wide.view(8, 4).sum(1), torch.zeros(24)]),
    }[name].numpy()  # fmt: skip
    with Session("sm_80") as session:
        absent[(1,)](x, out, name, 32)
    found = session.envelope(out)
    assert found is not None and not found.taints
    assert ((found.lo <= exact) & (exact <= found.hi)).all()
    assert (found.lo <= out.numpy()).all() and (out.numpy() <= found.hi).all()
    wide_enough = (found.hi - found.lo)[exact != 0] >= 2.0**-25 * np.abs(exact[exact != 0])
    assert wide_enough.all() and ((found.hi - found.lo) <= 2.0**-18 * np.abs(exact) + 1e-30).all()
