"""The self-test of `render doctor`: small, and each answer is known from elsewhere.

Rounding is compared with exact rationals, casts with ml_dtypes, and a vector addition is classified end to end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np

from interval_ops.formats import model as formats
from interval_ops.formats.model import Format

_KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)
    y = tl.load(y_ptr + offs, mask=mask, other=0.0)
    tl.store(out_ptr + offs, x {op} y, mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out


def reference(x, y):
    return x + y


def make_inputs():
    return dict(x=torch.randn(1000), y=torch.randn(1000))
"""


def rounding_gate() -> str:
    """rn, rd and ru of the gate against exact rationals, for random numbers and halfway cases."""
    from numba import njit

    from interval_ops.formats import rounding

    @njit(error_model="numpy")
    def gate(x, g, rn, rd, ru):  # type: ignore[no-untyped-def]
        for i in range(x.size):
            rn[i], rd[i], ru[i] = rounding.rn(x[i], g), rounding.rd(x[i], g), rounding.ru(x[i], g)

    total = 0
    for fmt in (formats.FP32, formats.FP16, formats.BF16, formats.FP8E4NV, formats.FP8E5):
        x = _numbers(fmt)
        nearest, down, up = np.empty_like(x), np.empty_like(x), np.empty_like(x)
        gate(x, fmt.gate, nearest, down, up)
        for i, value in enumerate(x):
            want = _round(Fraction(float(value)), fmt)
            got = (float(nearest[i]), float(down[i]), float(up[i]))
            assert tuple(map(Fraction, got)) == want, f"{fmt.name}: {value!r} rounds to {got}, not {want}"
        total += x.size
    return f"{total} numbers in 5 formats equal exact rational rounding"


def _numbers(fmt: Format) -> np.ndarray:
    """Random float64 numbers over the whole range of `fmt`, halfway cases, and neighbours of those."""
    rng = np.random.default_rng(0)
    top = int(np.floor(np.log2(fmt.max)))
    exponents = rng.integers(fmt.emin - fmt.p, top, 150)
    significands = rng.integers(2 ** (fmt.p - 1), 2**fmt.p - 1, 150)
    halfway = (significands + 0.5) * 2.0 ** (exponents - fmt.p + 1)
    free = rng.uniform(1, 2, 150) * 2.0**exponents
    x = np.concatenate([halfway, np.nextafter(halfway, 0), np.nextafter(halfway, np.inf), free])
    return np.concatenate([x, -x, [0.0, fmt.max, -fmt.max]])


def _round(x: Fraction, fmt: Format) -> tuple[Fraction, Fraction, Fraction]:
    """(nearest even, down, up) of x in `fmt`, by exact integer arithmetic."""
    if x == 0:
        return x, x, x
    e = _exponent(abs(x))
    ulp = Fraction(2) ** (max(e, fmt.emin) - fmt.p + 1)
    q = x / ulp
    down = q.numerator // q.denominator
    up = down if q == down else down + 1
    return round(q) * ulp, down * ulp, up * ulp


def _exponent(x: Fraction) -> int:
    """Largest e with 2**e <= x."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def cast_table() -> str:
    """Every finite float16 to bfloat16, e4m3 and e5m2, against ml_dtypes."""
    import ml_dtypes

    from interval_ops.formats.casting import round_value

    bits = np.arange(2**16, dtype=np.uint16)
    x = bits.view(np.float16).astype(np.float32)
    x = x[np.isfinite(x)]
    targets = {
        formats.BF16: ml_dtypes.bfloat16,
        formats.FP8E4NV: ml_dtypes.float8_e4m3fn,
        formats.FP8E5: ml_dtypes.float8_e5m2,
    }
    for fmt, dtype in targets.items():
        inside = x[np.abs(x) < fmt.overflow_threshold] if fmt.has_inf else x[np.abs(x) <= fmt.max]
        want = inside.astype(dtype).astype(np.float32)
        got = np.asarray(round_value(inside, fmt), dtype=np.float32)
        wrong = np.flatnonzero(want != got)
        assert not wrong.size, f"{inside[wrong[0]]!r} to {fmt.name} gives {got[wrong[0]]!r}, not {want[wrong[0]]!r}"
    return f"{x.size} float16 values to {', '.join(f.name for f in targets)} equal ml_dtypes"


def vector_add() -> str:
    """An addition against x + y is round-off, a subtraction against x + y is a bug."""
    return f"x + y is {_classify('+', 'Type-I')}, x - y is {_classify('-', 'Type-II')}"


def _classify(op: str, want: str) -> str:
    from render.classify import classify_file

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "add.py"
        path.write_text(_KERNEL.replace("{op}", op), encoding="utf-8")
        verdict = classify_file(path, budget=False)
    assert verdict.label == want, f"x {op} y against x + y gives {verdict.label} {verdict.code}, not {want}"
    return verdict.label


CHECKS: dict[str, Callable[[], str]] = {
    "rounding gate": rounding_gate,
    "cast table": cast_table,
    "vector add": vector_add,
}
