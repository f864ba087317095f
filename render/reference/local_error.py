r"""How far one PyTorch operation's result may be from its exact value: the local error of the reference's own steps.

Used in two units: `EXACT` (what float64 itself loses, plus the casts that the reference asks for) for the error bound
of E, and `NATIVE` (what the reference loses at its own dtypes) for R. A local error bounds one operation given its
operands; `render.reference.running_error` carries it on to the end result.

    elementwise + - * / sqrt       u |y|
    other functions                (4 u' + u) |y|        torch CPU measured within 3 ulp, u' the internal precision
    mm, sum, mean, conv, ...       K u' S + u |y|        S = the same operation on magnitudes (Higham, ASNA, sec. 3.1)
    tf32 operands                  + 2**-9 S             both truncated: 1 - (1 - 2**-10)**2
    cast to a narrower format      u |x| + half a subnormal, 0 where the value is representable
    softmax over K elements        (K + 8 + |log y|) u' y + u |y|
    gradients of activations       16 u' S + u |y|       S = the magnitudes of the terms that cancel (`TERMS`)
    anything else                  operands moved by 8 u', then u |y| (an estimate)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import log, log2
from types import MappingProxyType
from typing import Any

import torch

from render.ops import single
from render.ops.aten import ATEN, Form, addends, of_form
from render.ops.aten import base_name as key_of
from render.ops.dtypes import FORMAT_OF
from render.ops.formulas import logit as log_odds
from render.reference import passes

TORCH_FORMATS = FORMAT_OF
EXACT_OPS = of_form(Form.MADE, Form.MOVE, Form.ORDER, Form.EXACT)
ARITHMETIC = of_form(Form.ARITHMETIC)
SUMS = frozenset(["add", "sub", "rsub"])
FACTORS = frozenset(["prod"])
"""Products of elements: of each of them linear, which move together as magnitudes do."""
FUNCTIONS = of_form(Form.FUNCTION) - FACTORS
MULTILINEAR = of_form(Form.SUM, Form.PRODUCT) | FACTORS | {name for name, op in ATEN.items() if op.linear}
PRODUCTS = of_form(Form.PRODUCT) | {"convolution_backward"}
RANDOM = of_form(Form.RANDOM)
# 1 + erf(x) and the like lose relative accuracy in their tails: torch's error is in units of the argument there.
CANCELLING = frozenset(name for name, op in ATEN.items() if op.cancels)
NARROW = {name: op.narrow for name, op in ATEN.items() if op.narrow}
TERMS = {name: op.terms for name, op in ATEN.items() if op.terms is not None}
TERM_FACTOR = 16.0
STEP_ROUNDINGS = 3.0
"""Steps before the last one of an operation whose kernels round each of them to the operands' type."""
WINDOWS = frozenset(["hann_window", "hamming_window", "blackman_window", "bartlett_window"])
WINDOW_ROUNDINGS = 64.0
"""Units roundoff that a window of sums of cosines may be off by (`render.interpreter.hosted.made`)."""
LOSSES = frozenset(["nll_loss_forward", "nll_loss2d_forward"])
"""Linear in their first operand, if no weights are given."""
SOFTMAX = frozenset(("_softmax", "_log_softmax", "_safe_softmax"))
RULES = EXACT_OPS | ARITHMETIC | FUNCTIONS | MULTILINEAR | RANDOM | TERMS.keys() | LOSSES | SOFTMAX | {"_to_copy"}
REFUSED = dict.fromkeys(ATEN.keys() - RULES, "no local error: moved at random, an estimate (`running_error`)")

OPERAND_FACTOR = 8.0
TF32_PRODUCT = 2.0**-9
F64 = 2.0**-53


@dataclass(frozen=True)
class Unit:
    """Which precision the local errors are taken at: float64 (`native` False) or the reference's own dtypes.

    `casts` False: casts that the reference asks for round nothing. `inputs`: relative error of tensors from outside.
    `arithmetic` False: nothing rounds but casts and constants. `attainable`: what a careful implementation loses, not
    what any may: sums in a tree, functions without a margin; every operation rounds to `least` at best, and everything
    is taken `scale` times.
    """

    native: bool
    tf32: bool = False
    casts: bool = True
    inputs: float = 0.0
    arithmetic: bool = True
    attainable: bool = False
    least: float = 0.0
    scale: float = 1.0
    partly: bool = False
    """A part of the error, at most all of it (`render.reference.partly`)."""
    cancelling: float = 0.0
    """Error of torch's cancelling functions (gelu) in units of their argument, beside their own."""
    constants: float = 0.0
    """Relative error of what is computed from exact numbers alone, as tables of frequencies are."""

    def terms(self, n: float) -> float:
        """Roundings that one term of a sum of n goes through."""
        return 1 + log2(max(n, 1)) if self.attainable else n

    def rounding(self, dtype: torch.dtype) -> tuple[float, float]:
        """(u, absolute floor) of storing one result of this dtype."""
        if not self.arithmetic:
            return 0.0, 0.0
        fmt = TORCH_FORMATS.get(dtype)
        if not self.native or fmt is None or fmt.p >= 53:
            return max(F64, self.least) * self.scale, 0.0
        return max(fmt.u, self.least) * self.scale, fmt.half_subnormal * self.scale

    def inner(self, dtype: torch.dtype) -> float:
        """u' of the arithmetic inside one operation: torch computes every narrower type in float32."""
        if not self.arithmetic:
            return 0.0
        fmt = TORCH_FORMATS.get(dtype)
        u = F64 if not self.native or fmt is None or fmt.p >= 53 else 2.0**-24
        return max(u, self.least) * self.scale


@cache
def base_name(func: Any) -> str:
    """`aten.add_.Tensor` -> `add`."""
    return key_of(func._schema.name)


def local_error(
    name: str, args: tuple[Any, ...], values: torch.Tensor, dtype: torch.dtype, unit: Unit,
    kwargs: Mapping[str, Any] = MappingProxyType({}),
) -> torch.Tensor | None:  # fmt: skip
    """Bound of |computed - exact| of one elementwise result, None if exact; `dtype` is the reference's own for it."""
    if name in EXACT_OPS:
        return None
    u: float
    floor: Any
    u, floor = unit.rounding(dtype)
    stepwise = name in FUNCTIONS and ATEN[name].stepwise and unit.native and not unit.attainable
    if name in CANCELLING:
        floor = floor + (8 * unit.inner(dtype) + unit.cancelling) * args[0].abs()
    if stepwise and ATEN[name].formula is log_odds:  # relative roundings of what the logarithm is taken of
        floor = floor + STEP_ROUNDINGS * u
    if stepwise:
        floor = floor + STEP_ROUNDINGS * floor * torch.as_tensor(args[0]).abs().clamp(min=1.0)
        u = u + STEP_ROUNDINGS * u
    if name in FUNCTIONS:
        u = u + (1 if unit.attainable else 4) * unit.inner(dtype)
    if name in NARROW and unit.native and not unit.attainable and dtype.itemsize < 4:
        floor = floor + NARROW[name]
    if kwargs.get("alpha", 1) != 1:  # torch's CPU kernels round the product of add and sub to the tensors' own type
        floor = floor + u * abs(kwargs["alpha"]) * torch.as_tensor(args[0 if name == "rsub" else 1]).abs()
    if name in WINDOWS:  # what cancels in 1 - cos(x) is as large as the largest element
        floor = floor + WINDOW_ROUNDINGS * unit.inner(dtype)
    if name == "logspace":  # base^x, x off by 9 units roundoff of its largest
        base = kwargs.get("base", args[3] if len(args) > 3 else 10.0)
        u = u + 9 * max(abs(float(x)) for x in args[:2]) * abs(log(base)) * unit.inner(dtype)
    if name in TERMS:
        lost = STEP_ROUNDINGS * u if ATEN[name].stepwise else 0.0
        floor = floor * (1 + STEP_ROUNDINGS) if ATEN[name].stepwise else floor
        floor = floor + (TERM_FACTOR * unit.inner(dtype) + lost) * TERMS[name](*args, **kwargs)
    return values.abs().mul_(u).add_(floor)


def counts(op: Any, values: list[Any], dtypes: list[Any]) -> bool:
    """Whether `op` (`Movable`) counts, as steps of an optimiser do: one sum or product of exact whole numbers, all of
    which its type holds. Nothing is rounded."""
    if op.name not in SUMS | {"mul", "square"} or op.kwargs or len(values) != 1 or values[0].numel() != 1:
        return False
    fmt = TORCH_FORMATS.get(dtypes[0])
    most = 2.0 ** min(fmt.p, 53) if fmt is not None else 0.0
    numbers = [*op.leaves, *values]
    if not all(isinstance(x, (int, float)) or (isinstance(x, torch.Tensor) and x.numel() == 1) for x in numbers):
        return False
    exact = all(float(e) == 0 for e in op.errors.values())
    return exact and all(float(x).is_integer() and abs(float(x)) <= most for x in numbers)


def sum_rates(
    name: str, args: tuple[Any, ...], results: int, dtype: torch.dtype, unit: Unit
) -> tuple[float, float, float]:
    """What a multilinear operation may be off, in units of S, the same operation on the magnitudes of its operands, in
    units of its result, and besides."""
    u, floor = unit.rounding(dtype)
    count = unit.terms(addends(name, args, results))
    # some kernels add and multiply in the type itself
    by_step = ATEN[name].stepwise or name in FACTORS
    per_term = count * (u if by_step and unit.native and not unit.attainable else unit.inner(dtype))
    if unit.tf32 and dtype == torch.float32 and name in PRODUCTS:
        per_term += TF32_PRODUCT
    return per_term, u, floor


TRANSFORMED = 16.0
"""Of the largest sum of magnitudes in an image: NNPACK's Winograd was within 3 of its bound. An estimate."""


def is_transformed(name: str, args: tuple[Any, ...], dtype: torch.dtype, unit: Unit) -> bool:
    """Whether the reference's own convolution is none of products: tiles are off by what their largest element is."""
    return unit.native and single.is_summed(name) and dtype == torch.float32 and not single.is_direct(args, dtype)


def tile(sizes: torch.Tensor) -> torch.Tensor:
    most = TRANSFORMED * sizes.amax(tuple(range(2, sizes.dim())), keepdim=True)
    return most.expand_as(sizes).contiguous()


def gradient_sums(name: str, args: tuple[Any, ...]) -> tuple[float, torch.Tensor, torch.Tensor] | None:
    """(addends, sum of |dy xhat|, sum of |dy|) of the gradients of a normalisation's weight and bias; None for others.

    torch's CPU kernels compute in the tensors' own type there: in fp16 and bf16 the error of these sums grows with the
    number of rows (measured with 40 and 400 rows: 4 and 9 units roundoff of a typical gradient).
    """
    if name == "native_layer_norm_backward":
        dy, x, shape, mean, rstd = args[:5]
        products, given = (t.abs().reshape(-1, *shape).sum(0) for t in (dy * (x - mean) * rstd, dy))
        return dy.numel() / max(given.numel(), 1), products, given
    if name == "native_group_norm_backward":
        dy, x, mean, rstd, _, n, c, rest, groups = args[:9]
        wide = [t.reshape(n, groups, -1) for t in (dy, x)]
        xhat = (wide[1] - mean.reshape(n, groups, 1)) * rstd.reshape(n, groups, 1)
        products, given = (t.abs().reshape(n, c, rest).sum((0, 2)) for t in (wide[0] * xhat, dy))
        return float(n * rest), products, given
    return None


def cast_error(x: torch.Tensor, dtype: torch.dtype, error: torch.Tensor | None = None) -> torch.Tensor | None:
    """Bound of the rounding to `dtype` of float64 values that are off by `error`; None if nothing rounds.

    Where x is representable, no number within `error` of it is farther than that from one that is.
    """
    fmt = TORCH_FORMATS.get(dtype)
    if fmt is None or fmt.p >= 53:
        return None
    if error is None:
        return passes.lost_in(x.detach().double(), x.detach().to(dtype).double(), fmt.u, fmt.half_subnormal)
    return passes.lost_beside(x.detach().double(), x.detach().to(dtype).double(), error, fmt.u, fmt.half_subnormal)
