"""Upper bounds of sums of products of magnitudes from float32, where float64 has no fast kernel (convolutions).

A sum of n non-negative terms in any order is within gamma_(n + 2) of itself, operands rounded once included (Higham,
ASNA, sec. 3.1); torch asks oneDNN for direct convolutions (ideep, `convolution_direct`), and has no other order of
multiplications for those. Operands are at least the smallest normal number, and a product that vanishes all the same
loses less than that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from render.ops.aten import Aten

LONGEST = 1 << 18
"""Terms."""
LEAST, MOST = 2.0**-126, 2.0**54
_SUMMED = frozenset(["convolution", "_convolution"])


def is_summed(op: Aten | str) -> bool:
    """Whether an operation is worth it."""
    return (op if isinstance(op, str) else op.name) in _SUMMED


def is_plain() -> bool:
    """Whether torch multiplies numbers in float32 as such, and does not cut them as its switches may ask for."""
    one = torch.backends.mkldnn
    told = (torch.backends, one, getattr(one, "conv", None), getattr(one, "matmul", None))
    return all(getattr(x, "fp32_precision", "none") in ("none", "ieee") for x in told)


def above(
    run: Callable[[Sequence[torch.Tensor]], torch.Tensor], operands: Sequence[torch.Tensor], terms: int
) -> torch.Tensor | None:
    """At least what `run` gives of non-negative float64 operands, in float64; None where float32 does not hold it."""
    most = [float(x.max()) if x.numel() else 0.0 for x in operands]
    if not terms < LONGEST or not all(m < MOST for m in most) or not is_plain():  # NaN, too
        return None
    small = [torch.where(x > 0, x.clamp(min=LEAST), 0.0).float() for x in operands]
    grow = 1.0 + (terms + 4) * 2.0**-24 * (1.0 + 2.0**-4)
    return run(small).double().mul_(grow).add_(terms * LEAST * (1.0 + sum(most)))


__all__ = ["above", "is_plain", "is_summed"]
