"""Sums of products, and sums with fixed coefficients: matrix products, convolutions, pooling, scattered additions.

A matrix product is a chain of dots of the target (`interval_ops.dot`): torch calls the vendor's library, which runs on
the same units, in any order of K. Operands of float32 go through fused multiply-adds, or through TF32 where torch's own
switches allow it. Partial sums of a split K are taken as float32 (`allow_fp16_reduced_precision_reduction = False`).

Everything else that is linear in its operands x = m +- r: |f|(|m|, r) terms of the radii, and K roundings of each term
in any order (Higham, ASNA, sec. 3.1), |f| being the operation on magnitudes. Convolutions are taken as direct sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten

from interval_ops.arithmetic import rule as arithmetic
from interval_ops.bounds import Pair, each, is_point
from interval_ops.dot.rule import PendingDot
from interval_ops.dot.sums import Centred
from interval_ops.formats.model import BF16, FP64, Format
from interval_ops.matrix.product import KernelWindows, of_rows
from interval_ops.profiles.profile import MissingRule, Profile
from render.interpreter.hosted.around import around
from render.interpreter.hosted.call import (
    Bounds,
    Call,
    Missing,
    Result,
    Rule,
    finished,
    inner_of,
    number_pair,
    same_rank,
)
from render.ops import single
from render.ops.aten import Aten, Form, addends, base_name
from render.ops.dtypes import FORMAT_OF
from render.ops.nested import mapped

_UP = 1.0 + 2.0**-40
NARROW = 2.0**-8
"""Of operands: radii so small, whose sums in float32 are wider by less than a few roundings of the results."""


def kind_of(fmt: Format, convolution: bool = False) -> str:
    """The kind of dot that torch's matrix products of this format are."""
    if fmt.bits != 32:
        return fmt.name
    tf32 = torch.backends.cudnn.allow_tf32 if convolution else torch.backends.cuda.matmul.allow_tf32
    return "tf32" if tf32 else "ieee"


def on_cpu(device: Profile) -> bool:
    """Whether the target is torch on a CPU, whose products this machine's torch computes as the target's does."""
    return device.library and not device.dot("tf32").truncate


def summed(rule: Rule) -> Rule:
    """The rule of an operation that is a sum of products, where torch runs it as one."""

    def checked(call: Call) -> Result:
        why = single.otherwise(base_name(call.op._schema.name), call.args, on_cpu(call.device))
        return rule(call) if why is None else Missing(why)

    return checked


def _device(call: Call) -> Profile:
    """The target without assumptions about Triton's order, less what is muted."""
    return call.device.chosen(sum_order="any").mute(*call.profile.off)


def dot(call: Call, a: Pair, b: Pair, fmt: Format, first: Pair | None = None) -> Pair | None:
    """`first` + a @ b over (..., M, K) and (..., K, N), exactly and as the target's units may sum it; not rounded to
    `fmt`."""
    count = a[0].shape[-1]
    if not count:  # the sum of no products is 0
        places = (*np.broadcast_shapes(a[0].shape[:-2], b[0].shape[:-2]), a[0].shape[-2], b[0].shape[-1])
        none = np.zeros(places)
        return (none, none) if first is None else each(first, lambda end: np.broadcast_to(end, places))
    pair = _started(call, first, (a[0].shape[-2], b[0].shape[-1]), kind_of(fmt)).extend(a, b).interval()
    if fmt != BF16:
        return pair
    room = _flushed(fmt, count, max(float(np.abs(end).max(initial=0.0, where=np.isfinite(end))) for end in (*a, *b)))
    return pair[0] - room, pair[1] + room


def _flushed(fmt: Format, count: int, peak: float) -> float:
    """What `count` products of operands up to `peak` lose where subnormal operands, sums and results are taken for 0,
    as x86's instructions for bf16 do (Intel SDM, VDPBF16PS: "DAZ and FTZ are assumed")."""
    return 2.0**-126 * (2 * count * (peak + 1) + 2) if fmt == BF16 else 0.0


def _started(call: Call, first: Pair | None, shape: tuple[int, ...], kind: str) -> PendingDot:
    try:
        return PendingDot.start(first, shape, kind, _device(call))
    except MissingRule:  # the target's compiler refuses it: a library then multiplies in float32
        return PendingDot.start(first, shape, "ieee", _device(call))


@dataclass(frozen=True)
class LinearSums:
    """What is known of x w' + bias over `size` products: E of one operand, and float32 sums of magnitudes around it.

    `exact` (M, N) in float64, without `bias`, which is added to the sum; `mag` >= |w| |x| and `reach` >= |w| |x' - x|
    over all x', as float32 sums them; `rows` and `columns`: the largest |x'| of a row and the largest |w| of a column.
    """

    exact: np.ndarray
    mag: np.ndarray
    reach: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    bias: np.ndarray | None
    size: int
    convolves: bool = False

    @staticmethod
    def possible(convolution: Sequence[Any] | None = None) -> bool:
        """Whether torch sums them in float32 as such, those of a convolution with these arguments if there are some."""
        if convolution is None:
            return single.is_plain("matmul")
        return single.otherwise("convolution", convolution, True) is None

    @staticmethod
    def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """x weight' of matrices in float32 as such sums."""
        return single.product(x, weight)

    @staticmethod
    def of_rows(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(x weight', |x| |weight|') of rows of numbers that float32 holds: in float64, and as its sums."""
        first, second = map(torch.from_numpy, of_rows(x.float().numpy(), weight.float().numpy()))
        return first, second

    @staticmethod
    def windows(module: Any) -> KernelWindows:
        """Of a convolution of images in float32, for the same."""
        return KernelWindows(module.kernel_size, module.stride, module.dilation, module.padding)

    def bounds(self, dtype: torch.dtype, device: Profile) -> Bounds | None:
        """None where a unit reads other operands."""
        call, fmt = Call(None, (), {}, {}, device), FORMAT_OF[dtype]
        lost = _flushed(fmt, self.size, max(float(x.max(initial=0.0)) for x in (self.rows, self.columns)))
        grow, tiny = 1.0 + (self.size + 2) * 2.0**-24 * (1.0 + 2.0**-4), np.array([self.size * 2.0**-148 + lost])
        centre = self.exact
        first = None if self.bias is None else same_rank([(centre[None], centre[None]), (self.bias, self.bias)])[1]
        empty, pending = (_started(call, x, centre.shape, kind_of(fmt, self.convolves)) for x in (None, first))
        if not pending.reads_as_given:
            return None
        grids = (np.zeros((1, n)) for n in centre.shape)
        centres, radii = centre[None], self.reach[None]
        sums = Centred(slice(0, 1), (centres, centres), (radii, radii), self.mag[None], grow, tiny, tiny,
                       self.rows[None], self.columns[None], *grids)  # fmt: skip
        shape = (1, *centre.shape)
        found = finished(pending.of_centred(shape, self.size, sums), fmt, call.profile)
        if first is None or inner_of(fmt) == fmt:
            return found
        # torch adds it to the sums, or to the product of another layout after that was rounded to a narrow type
        rounded = finished(empty.of_centred(shape, self.size, sums), fmt, call.profile)
        pair = arithmetic.add((rounded.lo, rounded.hi), first, inner_of(fmt), call.profile)
        other = finished(pair, fmt, call.profile)
        return Bounds(np.minimum(found.lo, other.lo), np.maximum(found.hi, other.hi))


def _matrix(pair: Pair, rank: int) -> Pair:
    """With a leading axis, contiguous float64."""
    lo = np.ascontiguousarray(pair[0], np.float64)
    lo = lo[None] if rank == 2 else lo
    if is_point(pair):
        return lo, lo
    hi = np.ascontiguousarray(pair[1], np.float64)
    return lo, hi[None] if rank == 2 else hi


@dataclass(frozen=True)
class _Product:
    """Matrix, batch of matrices or vector times the same, with leading axes of length 1 where these have none."""

    call: Call
    a: Pair
    b: Pair
    fmt: Format
    shape: tuple[int, ...]

    @staticmethod
    def of(call: Call, a: torch.Tensor, b: torch.Tensor) -> _Product | None:
        fmt = FORMAT_OF.get(a.dtype)
        if fmt is None or a.dtype != b.dtype or fmt.bits < 16 or not a.numel() or not b.numel():
            return None
        first, second = call.pair(a), call.pair(b)
        if a.dim() == 1:
            first = tuple(end[None, :] for end in first)  # type: ignore[assignment]
        if b.dim() == 1:
            second = tuple(end[:, None] for end in second)  # type: ignore[assignment]
        rank = max(first[0].ndim, second[0].ndim)
        batch, m, n = a.shape[:1] if rank == 3 else (), a.shape[-2:-1] if a.dim() > 1 else (), b.shape[-1:]
        shape = (*batch, *m, *(n if b.dim() > 1 else ()))
        return _Product(call, _matrix(first, rank), _matrix(second, rank), fmt, shape)

    @property
    def inner(self) -> Format:
        return inner_of(self.fmt)

    def scaled(self, pair: Pair, by: float) -> Pair:
        pair, factor = same_rank([pair, number_pair(by)])
        return pair if by == 1 else arithmetic.mul(pair, factor, self.inner, self.call.profile)

    def summed(self, onto: Pair | None = None, alpha: float = 1) -> Pair | None:
        """In the format of the sums, which may begin with `onto`; `alpha` then multiplies the first operand."""
        first = None
        if onto is not None:
            full = each(onto, lambda end: np.broadcast_to(end, self.shape))
            first = each(full, lambda end: np.ascontiguousarray(end).reshape(self._of_sums))
        found = dot(self.call, self.a if onto is None else self.scaled(self.a, alpha), self.b, self.fmt, first)
        return None if found is None else each(found, lambda end: end.reshape(self.shape))

    @property
    def _of_sums(self) -> tuple[int, ...]:
        return max(self.a[0].shape[0], self.b[0].shape[0]), self.a[0].shape[-2], self.b[0].shape[-1]


def multiplied(call: Call) -> Result:
    """mm, bmm, mv, dot."""
    found = _Product.of(call, call.args[0], call.args[1])
    pair = None if found is None else found.summed()
    return None if found is None or pair is None else finished(pair, found.fmt, call.profile)


def added(call: Call) -> Result:
    """addmm, baddbmm, addmv: beta c + alpha (a @ b), the sum rounded before, after or not at all, c added behind it or
    the first of its terms."""
    c, a, b = call.args[:3]
    product, alpha, beta = _Product.of(call, a, b), call.get("alpha", 1), call.get("beta", 1)
    if product is None or not all(isinstance(v, (int, float)) for v in (alpha, beta)):
        return None
    behind = product.summed()
    if behind is None:
        return None
    behind, fmt = product.scaled(behind, alpha), product.fmt
    if beta == 0:
        return finished(behind, fmt, call.profile)
    own = call.operand(c, fmt)
    if own is None:
        return None
    own = product.scaled(own, beta)
    before = product.summed(own, alpha)
    assert before is not None
    one, other = same_rank([behind, own])
    sums = arithmetic.add(one, other, product.inner, call.profile)
    return finished((np.minimum(sums[0], before[0]), np.maximum(sums[1], before[1])), fmt, call.profile)


class _Gradient(Call):
    """The one of several results that is asked for.

    Below float32 torch's CPU keeps sums in the type of the result: over the places of the kernel for the input
    (`col2im`), over images for the weight (`slow_conv2d_backward`).
    """

    place = 0

    def stored_sums(self, profile: Profile) -> int:
        """Roundings to the type of the result besides the last."""
        count = self.x.shape[0] if self.place else math.prod(self.args[2].shape[2:])
        return 0 if profile.muted("accumulation") else count

    def run(self, pick: Callable[[Any], Any], op: Any = None) -> Any:
        return super().run(pick, op)[self.place]


def convolution_gradients(product: Aten) -> Rule:
    """Each result is linear in the cotangent and in the weight or the input; the bias' in the cotangent alone."""
    one = linear(replace(product, name="convolution_backward"))

    def rule(call: Call) -> Result:
        found: list[Any] = []
        for place in (i for i, wanted in enumerate(call.get("output_mask")) if wanted):
            part = _Gradient(call.op, call.args, call.kwargs, call.known, call.device)
            part.place = place
            found.append(one(part))
        return tuple(found)

    return rule


def linear(op: Aten) -> Rule:
    """Any operation that is linear in its operands together (sums) or in each (products)."""

    def rule(call: Call) -> Result:
        tensors = [t for t in tree_flatten((call.args, dict(call.kwargs)))[0] if isinstance(t, torch.Tensor)]
        floats = [t for t in tensors if t.is_floating_point()]
        fmt = FORMAT_OF.get(floats[0].dtype) if floats else None
        if fmt is None or any(t.dtype != floats[0].dtype for t in floats) or call.get("dtype") is not None:
            return None
        if call.get("reduce", "sum") not in ("sum", "mean"):
            return None
        with np.errstate(all="ignore"):
            midpoint, radius = _halves(call, floats)
            if any(not np.isfinite(midpoint[id(t)] + radius[id(t)]).all() for t in floats):
                return None
            values = _run(call, midpoint, signed=True)
            size, spread = _magnitudes(call, op, floats, midpoint, radius)
            inner = inner_of(fmt)
            count = _landing(call, floats) if op.name in SCATTERED else addends(op.name, call.args, values.size)
            rate, floor = _rounding(call, op, inner, fmt, count, midpoint, radius)
            pair = around(values, size, spread, (rate, (count + 8) * 2.0**-51, floor), inner.max)
        return finished(pair, fmt, call.profile)

    return rule


def _magnitudes(
    call: Call, op: Aten, floats: list[torch.Tensor], midpoint: dict[int, np.ndarray], radius: dict[int, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """|f|(|m| + r), and how much of that is due to r."""
    most, first = {k: np.abs(m) + radius[k] for k, m in midpoint.items()}, id(floats[0])
    narrow = radius[first].sum() <= NARROW * most[first].sum()  # else what float32 adds to the radii would be seen
    if narrow and single.is_summed(op) and first not in map(id, floats[1:]) and not radius[id(floats[1])].any():
        terms = addends(op.name, call.args, 1)

        def run(small: Sequence[torch.Tensor]) -> torch.Tensor:
            told = {id(t): x for t, x in zip(floats, small, strict=True)}
            found: torch.Tensor = call.run(lambda x: told.get(id(x), x))
            return found

        # Only what is multiplied by the weights, and a bias beside it, is open: linear in that.
        open_ = {**radius, id(floats[1]): np.abs(midpoint[id(floats[1])])}
        sums = [
            single.above(run, [torch.from_numpy(x[id(t)]) for t in floats], terms, call.args) for x in (most, open_)
        ]
        if all(s is not None for s in sums):
            return tuple(s.numpy() for s in sums if s is not None)  # type: ignore[return-value]
    size = _run(call, most, signed=False)
    return size, size - _run(call, {k: np.abs(m) for k, m in midpoint.items()}, signed=False)


def gathered_gradient(sum_: Aten) -> Rule:
    """embedding_dense_backward: rows of the cotangent, added where they were taken from."""
    one = linear(replace(sum_, name="embedding_dense_backward"))
    return lambda call: None if call.get("scale_grad_by_freq") else one(call)


SCATTERED = frozenset(["index_add", "scatter_add", "convolution_backward", "embedding_dense_backward"])
"""How many addends meet is told by the operation itself."""


def _landing(call: Call, floats: list[torch.Tensor]) -> int:
    """The most addends that meet in one element, its own included: the operation on ones."""
    ones = {id(t): np.ones(tuple(t.shape)) for t in floats}
    found = _run(call.with_numbers(lambda x: 1.0), ones, signed=False)
    return int(found.max(initial=0.0)) + 1


def put(moved: Rule, sum_: Aten) -> Rule:
    """index_put, which sets elements or adds to them, in any order."""
    adding = linear(sum_)
    return lambda call: adding(call) if call.get("accumulate", False) else moved(call)


def scatter_reduced(sum_: Aten) -> Rule:
    """scatter_reduce: sums in any order, extrema exact; a mean is its sum over the count."""
    adding = linear(sum_)

    def rule(call: Call) -> Result:
        how, fmt = call.get("reduce"), FORMAT_OF.get(call.x.dtype)
        if fmt is None or how not in ("sum", "mean", "amax", "amin"):
            return None
        if how in ("amax", "amin"):
            ends = [call.end(end).numpy() for end in (0, 1)]
            return Bounds(ends[0], ends[1])
        totals = replace_reduce(call, "sum")
        found = adding(totals)
        if how == "sum" or not isinstance(found, Bounds):
            return found
        ones = {id(t): np.ones(tuple(t.shape)) for t in (call.x, call.get("src"))}
        counts = np.maximum(_run(totals, ones, signed=True), 1.0)
        return finished(arithmetic.div((found.lo, found.hi), (counts, counts), fmt, call.profile, "div_rn"), fmt,
                        call.profile)  # fmt: skip

    return rule


def replace_reduce(call: Call, how: str) -> Call:
    """The same call with another reduction."""
    args = (*call.args[:4], how, *call.args[5:])
    return Call(call.op, args, {k: v for k, v in call.kwargs.items() if k != "reduce"}, call.known, call.device)


def _halves(call: Call, floats: list[torch.Tensor]) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
    midpoint, radius = {}, {}
    for t in floats:
        lo, hi = (np.asarray(end, np.float64) for end in call.pair(t))
        mid = 0.5 * lo + 0.5 * hi
        midpoint[id(t)], radius[id(t)] = mid, np.maximum(hi - mid, mid - lo) * _UP
    return midpoint, radius


def _run(call: Call, operands: dict[int, np.ndarray], signed: bool) -> np.ndarray:
    def pick(x: Any) -> Any:
        return torch.from_numpy(np.array(operands[id(x)])) if id(x) in operands else x

    if (
        signed
        and not call.kwargs
        and (one := single.in_double(base_name(call.op._schema.name), mapped(pick, call.args))) is not None
    ):
        return one.numpy()
    found: np.ndarray = (call if signed else call.with_numbers(abs)).run(pick).numpy()
    return found if signed else np.abs(found)  # a divisor may be negative (avg_pool2d's divisor_override)


def _misplaced(call: Call, inner: Format, midpoint: dict[int, np.ndarray], radius: dict[int, np.ndarray]) -> float:
    """What an interpolation between neighbours loses where it reads a little beside its place.

    The place of an element is scale (i + 1/2) - 1/2 or scale i, computed with at most 4 roundings of numbers up to the
    operand's length, of which the scale has one (UpSample.h): off by 5 u n on an axis of n. Between neighbours, and
    continuously across them, the value changes by at most 2 max |x| for each unit.
    """
    most = max(float((np.abs(m) + radius[k]).max(initial=0.0)) for k, m in midpoint.items())
    return sum(10 * inner.u * (n + 1) * most for n in call.x.shape[2:])


def _stored_sums(call: Call, op: Aten, count: int) -> int:
    """Roundings to the type of the result besides the last: a transposed convolution adds the places of its kernel as
    `col2im` does, products of batches one after the other, and a product of three multiplies and adds in the type."""
    if isinstance(call, _Gradient):
        return call.stored_sums(call.profile)
    if call.profile.muted("accumulation"):
        return 0
    if single.is_summed(op) and call.args[6]:
        return math.prod(call.args[1].shape[2:])
    if op.name == "addbmm":  # one product after the other, onto a result of the type
        return int(call.args[1].shape[0]) + 1
    return count + 2 if op.stepwise else 0


def _rounding(
    call: Call, op: Aten, inner: Format, fmt: Format, count: int, midpoint: dict[int, np.ndarray],
    radius: dict[int, np.ndarray],
) -> tuple[float, float]:  # fmt: skip
    """Of magnitudes and beside them: K roundings of every term; products on the target's units besides, with operands
    cut where these cut them."""
    profile = call.profile
    if op.form is not Form.PRODUCT:
        if profile.muted("accumulation"):
            return 0.0, 0.0
        steps = count + 2
        lost, floor = math.expm1(min(steps * inner.u, 700.0)), steps * inner.half_subnormal
        if op.stepwise and fmt != inner:  # sums, products and factors of the type itself
            lost, floor = lost + math.expm1(min(steps * fmt.u, 700.0)), floor + steps * fmt.half_subnormal
        if op.name.startswith("upsample_"):
            floor += _misplaced(call, inner, midpoint, radius)
        return lost * _UP, floor * _UP
    kind, device = kind_of(fmt, convolution=True), _device(call)
    try:
        model = device.dot(kind)
    except MissingRule:
        model = device.dot("ieee")
    blocks = math.ceil(count / model.block) + 1
    theta = 0.0 if profile.muted(model.cause) else max(model.theta, inner.u)
    reads = model.truncate == "tf32" or model.rounds  # a CPU has no such unit, whatever torch's switches for CUDA say
    cut = 0.0 if profile.muted("operand") or inner == FP64 or not reads else 2.0**-9
    peak = max((float((np.abs(m) + radius[k]).max(initial=0.0)) for k, m in midpoint.items()), default=0.0)
    floor = blocks * theta * 2.0**model.emin * (2 * peak + 1)  # subnormal operands are aligned at the least exponent
    stored = _stored_sums(call, op, count) * fmt.u if fmt != inner else 0.0
    if op.name == "linear" and fmt != inner and call.get("bias") is not None and not profile.muted("cast"):
        # it arrives whole in inference mode, and may add its bias to a product that was rounded (`LinearSums.bounds`)
        stored, floor = fmt.u, floor + fmt.half_subnormal
    floor += _flushed(fmt, count, peak)
    return (math.expm1(min(blocks * theta, 700.0)) + cut + math.expm1(stored)) * _UP, floor * _UP
