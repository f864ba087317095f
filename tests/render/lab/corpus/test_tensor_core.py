"""The block-FMA emulation against the slow one in exact rationals, and fused multiply-add against exact rounding."""

from __future__ import annotations

from fractions import Fraction

import block_fma
import numpy as np
import pytest
from support import exact, rng, round_fraction, trials

from interval_ops.formats.model import FORMATS
from render.lab.corpus.fused import multiply_add
from render.lab.corpus.model_matmul import fma_chain
from render.lab.corpus.tensor_core import UNITS, OperandFormat, TensorCoreUnit, multiply, truncate_tf32

PAIRS = [
    ("sm_80-tf32", ("sm_80", "tf32"), "tf32"),
    ("sm_90-tf32", ("sm_90", "tf32"), "tf32"),
    ("sm_80-fp16", ("sm_80", "fp16"), "fp16"),
    ("sm_90-fp16", ("sm_90", "fp16"), "fp16"),
    ("sm_89-fp8", ("sm_89", "fp8"), "fp8e5"),
    ("sm_90-fp8", ("sm_90", "fp8"), "fp8e5"),
]


@pytest.mark.parametrize(("unit", "key", "fmt"), PAIRS, ids=[p[0] for p in PAIRS])
@pytest.mark.parametrize("style", block_fma.STYLES)
def test_equals_the_exact_model(unit: str, key: tuple[str, str], fmt: str, style: str):
    generator = rng(len(style))
    for k in (1, 37, 64)[: trials(3)]:
        a, b = block_fma.operand_pair(generator, 1, 3, 4, k, FORMATS[fmt], style)
        got = multiply(a[0], b[0], UNITS[unit])
        for i, j in np.ndindex(got.shape):
            pairs = block_fma.fractions(a[0][i], b[0][:, j])
            want = block_fma.in_order(Fraction(0), pairs, block_fma.UNITS[key], FORMATS[fmt])
            assert exact(got[i, j]) == want, (i, j, k)


@pytest.mark.parametrize(
    ("aligned", "kept", "low", "high"), [(12, 13, 505, 520), (13, 13, 683, 683), (14, 23, 768, 768)]
)
@pytest.mark.parametrize("block", [16, 32])
def test_the_published_683(block: int, aligned: int, kept: int, low: float, high: float):
    a, b = np.full((2, 8192), 1 / 32, np.float32), np.full((8192, 3), 3, np.float32)
    out = multiply(a, b, TensorCoreUnit(block, aligned, OperandFormat(2, -14), kept))
    assert out.shape == (2, 3) and (out >= low).all() and (out <= high).all()


def test_equal_rows_and_columns_are_put_back_in_place():
    generator = rng(1)
    a = truncate_tf32(generator.standard_normal((3, 8)))[[0, 1, 0, 2, 1]]
    b = truncate_tf32(generator.standard_normal((8, 2)))[:, [1, 0, 1]]
    whole = multiply(a, b, UNITS["sm_80-tf32"])
    for i, j in np.ndindex(whole.shape):
        assert whole[i, j] == multiply(a[i : i + 1], b[:, j : j + 1], UNITS["sm_80-tf32"])[0, 0]


def test_operands_of_another_format_are_refused():
    with pytest.raises(ValueError, match="format"):
        multiply(np.full((1, 1), 0.1, np.float32), np.ones((1, 1), np.float32), UNITS["sm_80-tf32"])


def test_truncation_drops_thirteen_bits():
    x = rng(2).standard_normal(1000).astype(np.float32)
    for value, cut in zip(x.tolist(), truncate_tf32(x).tolist(), strict=True):
        assert exact(cut) == round_fraction(exact(value), FORMATS["tf32"], "rtz")


def test_fused_multiply_add_rounds_once():
    generator, fmt = rng(3), FORMATS["fp32"]
    n = trials(400)
    x, y = (generator.standard_normal(n).astype(np.float32) for _ in range(2))
    # a third of the sums cancel to the last bits, a third has an addend too small to matter but for a tie
    z = np.where(np.arange(n) % 3 == 0, -x * y, np.where(np.arange(n) % 3 == 1, 1e-12, generator.standard_normal(n)))
    z = z.astype(np.float32)
    got = multiply_add(x, y, z)
    for i in range(n):
        want = round_fraction(exact(x[i]) * exact(y[i]) + exact(z[i]), fmt)
        assert exact(got[i]) == want


def test_fused_multiply_add_where_two_roundings_would_differ():
    x, y = np.float32(1 + 2**-12), np.float32(1 + 2**-12)  # the product ends in a tie of float32
    for sign in (1, -1):
        z = np.array([sign * 2.0**-60], np.float32)
        want = round_fraction(exact(x) * exact(y) + exact(z[0]), FORMATS["fp32"])
        assert exact(multiply_add(np.array([x]), np.array([y]), z)[0]) == want


def test_fma_chain_follows_k():
    generator, fmt = rng(4), FORMATS["fp32"]
    a, b = generator.standard_normal((2, 9)).astype(np.float32), generator.standard_normal((9, 2)).astype(np.float32)
    got = fma_chain(a, b)
    for i, j in np.ndindex(got.shape):
        acc = Fraction(0)
        for p, q in block_fma.fractions(a[i], b[:, j]):
            acc = round_fraction(acc + p * q, fmt)
        assert exact(got[i, j]) == acc
