"""Integer instructions against Python's integers, on all bytes or on words at the edges of their type."""

from __future__ import annotations

import numpy as np
import pytest

from render.interpreter.builder import words

EDGES = [0, 1, 2, 3, 7, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0x12345678]


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    every = np.arange(256, dtype=np.uint8).view(dtype)
    return (x.ravel() for x in np.meshgrid(every, every))  # type: ignore[return-value]


def cut(q: int) -> int:
    return q - (q >= 128) * 256


@pytest.mark.parametrize("dtype", ["i1", "u1"])
def test_quotient_and_remainder_go_towards_zero(dtype: str) -> None:
    a, b = pairs(dtype)
    nothing = words.nothing_divided_signed(a, b) if dtype == "i1" else words.nothing_divided(a, b)
    a, b = a[~nothing], b[~nothing]
    q, r = words.quotient(a, b), words.remainder(a, b)
    for x, y, found, rest in zip(a.tolist(), b.tolist(), q.tolist(), r.tolist(), strict=True):
        exact = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        assert (found, rest) == (exact, x - exact * y)


def test_what_divides_to_nothing() -> None:
    a, b = np.array([5, -128, -128, -127], np.int8), np.array([0, -1, 1, -1], np.int8)
    assert words.nothing_divided(a, b).tolist() == [True, False, False, False]
    assert words.nothing_divided_signed(a, b).tolist() == [True, True, False, False]


@pytest.mark.parametrize("dtype", ["i1", "u1"])
def test_shifts_read_the_bits_as_the_instruction_says(dtype: str) -> None:
    a, n = (x[::37].copy() for x in pairs(dtype))
    n = (n.view("u1") % 8).view(dtype)
    logical, signed = words.shift_right_logical(a, n), words.shift_right_arithmetic(a, n)
    left = words.shift_left(a, n)
    assert logical.dtype == signed.dtype == left.dtype == a.dtype
    for x, by, down, kept, up in zip(a.view("u1").tolist(), n.view("u1").tolist(), logical.view("u1").tolist(),
                                     signed.view("i1").tolist(), left.view("u1").tolist(), strict=True):  # fmt: skip
        assert (down, kept, up) == (x >> by, cut(x) >> by, x << by & 255)


def test_shifts_by_the_width_give_nothing() -> None:
    n = np.array([7, 8, -1], np.int8)
    assert words.nothing_shifted(np.zeros(3, np.int8), n).tolist() == [False, True, True]


def test_truth_values_are_words_of_one_bit() -> None:
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    assert words.shift_left(a, b).tolist() == words.shift_right_logical(a, b).tolist() == [False, False, True, False]
    assert words.shift_right_arithmetic(a, b).tolist() == a.tolist(), "the sign bit is all there is"
    assert words.quotient(a[1::2], b[1::2]).tolist() == a[1::2].tolist() and not words.remainder(a, b).any()


@pytest.mark.parametrize(("dtype", "bits"), [("i4", 32), ("u4", 32), ("i8", 64), ("u8", 64)])
def test_upper_halves_of_products(dtype: str, bits: int) -> None:
    unsigned = [v if bits == 32 else v << 32 | w for v in EDGES for w in (EDGES if bits == 64 else EDGES[:1])]
    given = np.array(unsigned, f"u{bits // 8}").view(dtype)
    a, b = given.repeat(len(given)), np.tile(given, len(given))
    found = words.high_product(a, b).view(f"u{bits // 8}").tolist()
    assert found == [x * y >> bits for x in unsigned for y in unsigned]
