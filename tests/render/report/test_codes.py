"""The table of rule codes: complete, and its examples are true."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from render.result import codes
from render.result.verdict import TITLES

PROMISED = (
    *(101, 102, 103, 104, 105, 106, 110),
    *(201, 202, 204, 205, 206, 207, 208, 209, 210),
    *(301, 302, 303, 304, 305),
    *(901, 902, 903, 904),
)


@pytest.mark.parametrize("number", PROMISED)
def test_every_promised_code_has_text(number: int) -> None:
    entry = codes.find(str(number))
    assert entry.code == f"RND{number}"
    assert all((entry.title, entry.prose, entry.maths, entry.example, entry.help, entry.family))
    assert not entry.title.endswith(".")


def test_no_code_twice_and_text_is_ascii() -> None:
    assert len(codes.CODES) == len(codes._TABLE)
    for entry in codes.CODES.values():
        assert (entry.title + entry.prose + entry.maths + entry.example + entry.help).isascii()


def test_every_code_a_verdict_can_have_is_explained() -> None:
    assert set(TITLES) <= set(codes.CODES)


@pytest.mark.parametrize("text", ["RND101", "rnd101", "101", " 101 "])
def test_spellings(text: str) -> None:
    assert codes.find(text).code == "RND101"


@pytest.mark.parametrize("text", ["RND999", "foo", ""])
def test_unknown(text: str) -> None:
    with pytest.raises(codes.UnknownCode, match="no rule code"):
        codes.find(text)


def test_families_partition_the_table() -> None:
    listed = [entry.code for _, entries in codes.by_family() for entry in entries]
    assert listed == list(codes.CODES)


def test_example_of_accumulation_order() -> None:
    a, b, c = np.float32(2**24), np.float32(1), np.float32(-(2**24))
    assert (a + b) + c == 0
    assert (a + c) + b == 1


def test_example_of_low_precision_accumulator() -> None:
    assert np.float16(2048) + np.float16(1) == 2048


def test_example_of_casts() -> None:
    assert float(ml_dtypes.bfloat16(1.01)) == 1.0078125
    assert float(np.float16(1e-6)) == pytest.approx(1.01328e-6, rel=1e-5)


def test_example_of_fma() -> None:
    a, c = Fraction(1) + Fraction(1, 2**12), -(1 + Fraction(1, 2**11))
    assert a * a + c == Fraction(1, 2**24)
    x, z = np.float32(float(a)), np.float32(float(c))
    assert (x * x) + z == 0
