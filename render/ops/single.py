"""Products in float32 as this torch runs them: whether as sums of products, and upper bounds from such sums.

Where float64 has no fast kernel (convolutions), sums of magnitudes are bounded from float32: a sum of n non-negative
terms in any order is within gamma_(n + 2) of itself, operands rounded once included (Higham, ASNA, sec. 3.1). Operands
are at least the smallest normal number, and a product that vanishes all the same loses less than that.

torch asks oneDNN for direct convolutions (ideep, `convolution_direct`). Without it, of 16 images and more, it asks
NNPACK, which transforms its operands (Winograd, Fourier) and leaves the bound of the sum up to tenfold; ARM has a
Winograd kernel of torch itself (aten/src/ATen/native/Convolution.cpp). Operands are cut to bfloat16 or TF32 where
torch's switches or oneDNN's environment allow it, on processors that have such units.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from interval_ops.matrix.product import KernelWindows
from render.ops.aten import Aten

LONGEST = 1 << 18
"""Terms."""
LEAST, MOST = 2.0**-126, 2.0**54
_SUMMED = frozenset(["convolution", "_convolution"])


def is_summed(op: Aten | str) -> bool:
    """Whether an operation is worth it."""
    return (op if isinstance(op, str) else op.name) in _SUMMED


_CONVOLUTIONS = _SUMMED | {"mkldnn_convolution"}
_DIRECT = frozenset(["Empty", "Mkldnn", "MkldnnEmpty", "MkldnnTranspose", "Slow2d", "Slow3d", "SlowDilated2d",
                     "SlowDilated3d", "SlowTranspose2d", "SlowTranspose3d"])  # fmt: skip
"""What torch runs convolutions by on a CPU, and is one sum of products."""
_UNCUT = ("none", "ieee")
_FPMATH = ("ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE")


def _environment() -> bool:
    """Whether oneDNN's environment asks for less than float32; it is read once in a process, at some time."""
    return _AT_FIRST or any(os.environ.get(name, "").lower() not in ("", "strict") for name in _FPMATH)


_AT_FIRST = False
_AT_FIRST = _environment()


def is_plain(*kinds: str) -> bool:
    """Whether torch multiplies numbers in float32 as such in its "conv", "matmul" or "rnn" (all unless named)."""
    return not _environment() and all(_is_uncut(kind) for kind in kinds or ("conv", "matmul", "rnn"))


def _is_uncut(kind: str) -> bool:
    one = torch.backends.mkldnn
    own = getattr(getattr(one, kind, None), "fp32_precision", "none")
    if own != "none":
        return own in _UNCUT
    return all(getattr(x, "fp32_precision", "none") in _UNCUT for x in (torch.backends, one))


def is_direct(args: Sequence[Any], dtype: torch.dtype | None = None) -> bool:
    """Whether torch runs a convolution with these arguments (of type `dtype`, if told) as a sum of products."""
    given = [t if t is None or dtype is None else torch.empty_like(t, dtype=dtype) for t in args[:3]]
    found: Any = torch._C._select_conv_backend(*given, *args[3:9])
    return found.name in _DIRECT


def otherwise(name: str, args: Sequence[Any], on_cpu: bool) -> str | None:
    """Why torch may run a product in float32 as something else than a sum of products of its operands; None if not.

    `on_cpu`: the target is one, and the switches for both are meant for it.
    """
    convolves = name in _CONVOLUTIONS
    if not any(isinstance(t, torch.Tensor) and t.dtype == torch.float32 for t in args):
        return None
    if convolves and name != "mkldnn_convolution" and not is_direct(args):
        return "a convolution that torch runs by Winograd's or a Fourier transform (NNPACK, where oneDNN is off)"
    kinds = ("conv", "matmul") if "convolution" in name else ("matmul",)  # convolutions end in matrix products, too
    if _environment() or (on_cpu and not is_plain(*kinds)):
        return "float32 operands that oneDNN may cut to fewer bits, as its switches allow"
    return None


def above(
    run: Callable[[Sequence[torch.Tensor]], torch.Tensor], operands: Sequence[torch.Tensor], terms: int,
    args: Sequence[Any],
) -> torch.Tensor | None:  # fmt: skip
    """At least what `run` gives of non-negative float64 operands, in float64; None where float32 does not hold it.

    `args`: of the convolution that it runs.
    """
    most = [float(x.max()) if x.numel() else 0.0 for x in operands]
    if not terms < LONGEST or not all(m < MOST for m in most):  # NaN, too
        return None
    if not is_plain() or not is_direct(args, torch.float32):
        return None
    small = [torch.where(x > 0, x.clamp(min=LEAST), 0.0).float() for x in operands]
    grow = 1.0 + (terms + 4) * 2.0**-24 * (1.0 + 2.0**-4)
    return run(small).double().mul_(grow).add_(terms * LEAST * (1.0 + sum(most)))


def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x weight' of two matrices in float32, each element one sum of products, where `is_plain("matmul")`.

    oneDNN's kernel, which torch itself calls for compiled models, where this torch has it: it takes half of the time of
    MKL's on processors that are not Intel's.
    """
    fused = getattr(torch.ops.mkldnn, "_linear_pointwise", None) if torch.backends.mkldnn.is_available() else None
    if fused is None or not torch.backends.mkldnn.enabled or not x.numel() or not weight.numel():
        return torch.mm(x, weight.t())
    found: torch.Tensor = fused(x.contiguous(), weight.contiguous(), None, "none", [], "")
    return found


WORTH = 1 << 14
"""Elements of an image that are worth to be looked at."""


def in_double(name: str, args: Sequence[Any]) -> torch.Tensor | None:
    """A convolution of images in float64 whose operands float32 holds: torch has no fast kernel for it.

    None of other operations and numbers.
    """
    if name != "convolution" or len(args) != 9 or args[6] or args[8] != 1 or args[0].dim() != 4:
        return None
    x, weight, bias, stride, padding, dilation = args[:6]
    given = [t for t in (x, weight, bias) if t is not None]
    if x.numel() < WORTH or any(t.dtype != torch.float64 or t.requires_grad for t in given):
        return None
    small = [t.float() for t in (x, weight)]
    if not all(torch.equal(t.double(), whole) and t.isfinite().all() for t, whole in zip(small, given, strict=False)):
        return None
    windows = KernelWindows(*(tuple(t) for t in (weight.shape[2:], stride, dilation, padding)))
    rows, made = small[1].flatten(1).numpy(), []
    for image in small[0]:
        seen = windows.of(image.numpy())
        made.append(torch.from_numpy(seen.times(rows, 0, seen.rows, magnitudes=False)[0]))
    found = torch.stack(made).view(len(made), len(rows), -1, seen.count)
    return found if bias is None else found.add_(bias.view(-1, 1, 1))


__all__ = ["above", "in_double", "is_direct", "is_plain", "is_summed", "otherwise", "product"]
