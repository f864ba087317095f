"""How two outputs differ, in units of the last place: a single last rounding that falls the other way, or more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from render.result.blockwise import blocks, flat
from render.result.records import Flips

if TYPE_CHECKING:
    from interval_ops.formats.model import Format
    from render.result.decision import Case


def flips(cases: Iterable[Case]) -> Flips | None:
    """All outputs together, in units of the coarsest format that one of their two sides has; None without a difference.

    The device's output is looked at where there is one, else the kernel's.
    """
    known = [c for c in cases if not c.mismatch and c.fmt is not None and c.ref_fmt is not None]
    elements = different = one = 0
    formats: dict[str, Format] = {}
    for case in known:
        assert case.fmt is not None and case.ref_fmt is not None
        fmt = min(case.fmt, case.ref_fmt, key=lambda f: f.p)
        formats[fmt.name] = fmt
        y = case.value if case.device is None else case.device
        elements += y.size
        for at in blocks(y.size):
            a, b = flat(y, at), flat(case.ref, at)
            apart = np.flatnonzero((a != b) & ~(np.isnan(a) & np.isnan(b)))
            different += apart.size
            one += int(np.count_nonzero(_one_unit(a[apart], b[apart], fmt)))
    if not different:
        return None
    coarsest = min(formats.values(), key=lambda f: f.p)
    return Flips(elements, different, one, coarsest.name, all(c.fmt == c.ref_fmt for c in known))


def _one_unit(a: np.ndarray, b: np.ndarray, fmt: Format) -> np.ndarray:
    """|a - b| is at most the spacing of the format at the larger of the two."""
    with np.errstate(invalid="ignore", over="ignore"):
        _, exponent = np.frexp(np.maximum(np.abs(a), np.abs(b)))
        spacing = np.ldexp(1.0, np.maximum(exponent - 1, fmt.emin) - fmt.p + 1)
        return np.asarray(np.abs(a - b) <= spacing)
