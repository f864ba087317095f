"""Integer instructions on arrays of machine words, as the code that Triton emits has them (MLIR dialect `arith`).

The instruction says how the bits of its operands are read, not their type: `int32 >> uint32` is an arithmetic shift of
what the language calls a uint32. Results wrap around, truth values are words of one bit.
Where an instruction gives nothing (`nothing_*`), LLVM and PTX leave the result to the machine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Words = np.ndarray
Instruction = Callable[[Words, Words], Words]

Read = Callable[[Words], Words]


def as_typed(x: Words) -> Words:
    return x


def unsigned(x: Words) -> Words:
    """The same bits, read as a number without a sign."""
    return x.view(f"u{x.dtype.itemsize}") if x.dtype.kind == "i" else x


def signed(x: Words) -> Words:
    return x.view(f"i{x.dtype.itemsize}") if x.dtype.kind == "u" else x


def reading(read: Read, op: Callable[..., Words]) -> Instruction:
    """`op` on operands read by `read`; the result has the type of the first again."""

    def instruction(a: Words, b: Words) -> Words:
        return op(read(a), read(b)).view(a.dtype)

    return instruction


def shift_left(a: Words, n: Words) -> Words:
    return a & ~unsigned(n).astype(np.bool_) if a.dtype == np.bool_ else np.left_shift(a, n)


def shift_right_logical(a: Words, n: Words) -> Words:
    if a.dtype == np.bool_:
        return shift_left(a, n)
    found: Words = np.right_shift(unsigned(a), unsigned(n)).view(a.dtype)
    return found


def shift_right_arithmetic(a: Words, n: Words) -> Words:
    return a | n & False if a.dtype == np.bool_ else np.right_shift(signed(a), signed(n)).view(a.dtype)


def nothing_shifted(a: Words, n: Words) -> Words:
    """Where the amount is the width or more. LLVM language reference, `shl`, `lshr`, `ashr`: poison."""
    return n if n.dtype == np.bool_ else unsigned(n) >= 8 * a.dtype.itemsize


def quotient(a: Words, b: Words) -> Words:
    """Rounded towards zero, as C and PTX divide; of truth values the dividend."""
    if a.dtype == np.bool_:
        both: Words = a & b
        return both
    q: Words = np.floor_divide(a, b)
    if a.dtype.kind == "u" or (a.min() >= 0 and b.min() >= 0):
        return q
    upward: Words = q + ((q * b != a) & ((a < 0) != (b < 0))).astype(q.dtype)
    return upward


def remainder(a: Words, b: Words) -> Words:
    return np.zeros_like(a & b) if a.dtype == np.bool_ else np.fmod(a, b)


def nothing_divided(a: Words, b: Words) -> Words:
    """Where the divisor is zero: "an unspecified, machine-specific value" (PTX ISA 8, div, rem)."""
    found: Words = b == 0
    return found


def nothing_divided_signed(a: Words, b: Words) -> Words:
    """And where the quotient, the least number by -1, does not fit (LLVM language reference, `sdiv`, `srem`)."""
    found: Words = (b == 0) | ((b == -1) & (a == np.iinfo(a.dtype).min))
    return found


def high_product(a: Words, b: Words) -> Words:
    """Upper half of the product of the bits as unsigned numbers, whatever the type (PTX `mul.hi.u32`)."""
    word = np.dtype(f"u{a.dtype.itemsize}")
    x, y = (np.ascontiguousarray(v).view(word).reshape(v.shape).astype(np.uint64) for v in (a, b))
    if word.itemsize == 4:
        return ((x * y) >> np.uint64(32)).astype(word).view(a.dtype)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    xl, xh, yl, yh = x & mask, x >> half, y & mask, y >> half
    mid = xh * yl + ((xl * yl) >> half)
    low = (mid & mask) + xl * yh
    found: Words = (xh * yh + (mid >> half) + (low >> half)).astype(a.dtype)
    return found
