"""Library functions of integers against Python's own integers, at ends, zeros and drawn numbers of every type."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support import rng

from render.interpreter.vendor.integers import VALUES


def signed(x: int, bits: int) -> int:
    x %= 1 << bits
    return x - (1 << bits) if x >> (bits - 1) else x


def as_type(x: int, dtype: np.dtype) -> int:
    bits = 8 * dtype.itemsize
    return signed(x, bits) if dtype.kind == "i" else x % (1 << bits)


def low_24(x: int, dtype: np.dtype) -> int:
    return signed(x, 24) if dtype.kind == "i" else x % (1 << 24)


def permuted(x: int, y: int, s: int) -> int:
    pool = [*(x % 2**32).to_bytes(4, "little"), *(y % 2**32).to_bytes(4, "little")]
    return int.from_bytes(bytes(pool[(s >> 4 * i) & 7] for i in range(4)), "little")


def word(x: int, dtype: np.dtype) -> str:
    return format(x % (1 << 8 * dtype.itemsize), f"0{8 * dtype.itemsize}b")


PLAIN: dict[str, tuple[int, Callable[..., int]]] = {
    "clz": (1, lambda d, x: len(word(x, d)) - len(word(x, d).lstrip("0"))),
    "popc": (1, lambda d, x: word(x, d).count("1")),
    "ffs": (1, lambda d, x: word(x, d)[::-1].find("1") + 1),
    "brev": (1, lambda d, x: as_type(int(word(x, d)[::-1], 2), d)),
    "mulhi": (2, lambda d, x, y: as_type(x * y >> 8 * d.itemsize, d)),
    "mul24": (2, lambda d, x, y: as_type(low_24(x, d) * low_24(y, d), d)),
    "hadd": (2, lambda d, x, y: as_type(x + y >> 1, d)),
    "rhadd": (2, lambda d, x, y: as_type(x + y + 1 >> 1, d)),
    "sad": (3, lambda d, x, y, z: as_type(abs(x - y) + z, d)),
    "byte_perm": (3, lambda d, x, y, s: signed(permuted(x, y, s), 32)),
    "abs": (1, lambda d, x: as_type(abs(x), d)),
}
WIDE = {"clz", "popc", "ffs", "brev", "mulhi", "abs"}
"""Those that there are of 64 bits, too."""


def numbers(dtype: np.dtype) -> list[int]:
    info = np.iinfo(dtype)
    ends = [info.min, info.max, info.max - 1, info.max // 2, 0, 1, 2, 0xFF, 0x800000, 0x7FFFFF, 0xFFFFFF]
    return [*ends, *(-n for n in ends if info.min < 0), *map(int, rng(5).integers(info.min, info.max, 8, dtype=dtype))]


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("name", PLAIN)
def test_every_function_gives_what_python_gives(name: str, dtype: str) -> None:
    kind, (count, plain) = np.dtype(dtype), PLAIN[name]
    if kind.itemsize == 8 and name not in WIDE:
        pytest.skip("there is none of 64 bits")
    some = [n for n in numbers(kind) if np.iinfo(kind).min <= n <= np.iinfo(kind).max]
    if count == 3:
        some = some[::2]
    axes = np.meshgrid(*([np.array(some, kind)] * count), indexing="ij")
    found = VALUES[name](*(a[None] for a in axes))[0]
    wanted = [plain(kind, *map(int, xs)) for xs in zip(*(a.ravel() for a in axes), strict=True)]
    assert found.ravel().tolist() == wanted


def test_no_function_is_left_out() -> None:
    assert set(PLAIN) == set(VALUES)
