"""Integer dots against Python's integers, within and past the range of int32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest
from support import rng

from interval_ops.dot.integer import dot_int
from interval_ops.profiles.profile import MissingRule, load_profile, profile_names


def test_within_the_range_it_is_exact() -> None:
    g = rng(2)
    a, b = g.integers(-128, 128, (5, 40)).astype(np.int8), g.integers(-128, 128, (40, 3)).astype(np.int8)
    acc = g.integers(-(2**20), 2**20, (5, 3)).astype(np.int32)
    found, doubtful = dot_int(a, b, acc, load_profile("any"))
    wanted = [[sum(int(x) * int(y) for x, y in zip(row, col, strict=True)) for col in b.T] for row in a]
    assert (found == np.array(wanted) + acc).all() and not doubtful and found.dtype == np.int32


def units() -> Iterator[str]:
    """Targets with a matrix unit for integers."""
    for name in profile_names():
        with suppress(MissingRule):
            load_profile(name).dot("int8")
            yield name


@pytest.mark.parametrize("name", units())
@pytest.mark.parametrize("sign", [1, -1])
def test_past_the_range_it_wraps_or_saturates_and_says_so(name: str, sign: int) -> None:
    profile = load_profile(name)
    acc = np.full((1, 1), sign * (2**31 - 1), np.int32)
    found, doubtful = dot_int(np.full((1, 1), sign * 127, np.int8), np.full((1, 1), 127, np.int8), acc, profile)
    whole = sign * (2**31 - 1 + 127 * 127)
    wrapped = (whole + 2**31) % 2**32 - 2**31
    edge = 2**31 - 1 if sign > 0 else -(2**31)
    assert doubtful and int(found[0, 0]) == (edge if profile.dot("int8").overflow == "saturate" else wrapped)
