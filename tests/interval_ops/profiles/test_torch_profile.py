"""The profile torch-cpu against PyTorch itself: the rule's interval of a point holds what torch computes there."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import rng, special_values, trials
from vendor_oracle.points import arguments

from interval_ops.formats.model import FP32, FP64, Format
from interval_ops.profiles.profile import MissingRule, load_profile
from render.ops.library import LIBRARY

OPS = {
    **{
        name: getattr(torch, name)
        for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh",
                     "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "rsqrt",
                     "lgamma", "atan2", "hypot")
    },
    "erfcx": torch.special.erfcx, "normcdf": torch.special.ndtr, "normcdfinv": torch.special.ndtri,
}  # fmt: skip
TORCH = load_profile("torch-cpu")


@pytest.mark.parametrize("strided", [False, True], ids=["vector", "strided"])
@pytest.mark.parametrize("fmt", [FP32, FP64], ids=lambda f: f.name)
@pytest.mark.parametrize("name", OPS)
def test_the_rule_holds_what_torch_computes(name: str, fmt: Format, strided: bool) -> None:
    rule, n, dtype = LIBRARY[name], trials(4000), np.float32 if fmt == FP32 else np.float64
    args = arguments(name, rule.arity, fmt.bits, n, rng(31))
    if rule.arity == 1:
        limit = float(np.finfo(dtype).max)
        args = (np.concatenate([args[0], np.clip(special_values(fmt), -limit, limit).astype(dtype)]),)
    tensors = [torch.from_numpy(a) for a in args]
    if strided:
        tensors = [torch.stack([t, t], -1)[..., 0] for t in tensors]
    got = OPS[name](*tensors).numpy().astype(np.float64)
    wide = [a.astype(np.float64)[None] for a in args]
    lo, hi = (end[0] for end in rule.apply(tuple((a, a) for a in wide), fmt, TORCH))  # type: ignore[misc]
    outside = ~((got >= lo) & (got <= hi)) & ~np.isnan(lo) & ~np.isnan(got)
    assert not outside.any(), [v[outside][:3] for v in (*args, got, lo, hi)]


def test_sinh_may_overflow_early() -> None:
    x = np.array([[88.729065, -88.729065, 88.5]])
    lo, hi = LIBRARY["sinh"].apply(((x, x),), FP32, TORCH)  # type: ignore[misc]
    assert hi[0, 0] == np.inf and lo[0, 0] < np.sinh(88.729065) and lo[0, 1] == -np.inf
    assert hi[0, 2] == np.inf > np.sinh(88.5)
    x = np.array([[87.0]])
    assert LIBRARY["sinh"].apply(((x, x),), FP32, TORCH)[1] < 4e37  # type: ignore[misc]


def test_what_torch_does_not_have_is_said() -> None:
    with pytest.raises(MissingRule, match="PyTorch has no rcbrt"):
        TORCH.fn("rcbrt")
