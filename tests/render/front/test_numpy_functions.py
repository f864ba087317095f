"""Whose functions those of numpy's kind are."""

from __future__ import annotations

import numpy as np
import scipy.special
import torch

from render.front.numpy_functions import function_of


class Strangers:
    """What a library of somebody else's may call like one of scipy's."""

    def __init__(self, name: str) -> None:
        self.__name__ = name


def test_a_function_is_followed_for_what_it_is_and_not_for_its_name() -> None:
    assert function_of(np.exp) is torch.exp
    assert function_of(scipy.special.erf) is torch.special.erf
    for name in ("erf", "exp", "ndtri"):
        assert function_of(Strangers(name)) is None  # type: ignore[arg-type]
