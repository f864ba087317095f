"""Cases of `kept_bounds`: what the host's operations make of bounds, of every kind of operation, type and operand.

Of each result its bounds, what is written of it, and the codes of what it is called unknown for are kept.
"""

# ruff: noqa: E501
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from kept_bounds import Cases

from render.interpreter.session import Session

SHAPE = (4, 6)
M, AT = torch.arange(24).reshape(SHAPE) % 3 > 0, torch.arange(24).reshape(SHAPE) % 4
ROW, W = torch.tensor([3, 0, 2, 0]), (torch.arange(30.0).reshape(5, 6) % 7 - 3) / 8
KERNEL = (torch.arange(12.0).reshape(2, 1, 2, 3) % 5 - 2) / 4
UNARY = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "deg2rad",
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "frac",
    "i0",
    "isfinite",
    "isinf",
    "isnan",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_not",
    "logit",
    "neg",
    "positive",
    "rad2deg",
    "reciprocal",
    "round",
    "rsqrt",
    "sgn",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "nan_to_num",
]
ACTIVATIONS = [
    "celu",
    "elu",
    "gelu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "relu",
    "relu6",
    "selu",
    "silu",
    "softplus",
    "softshrink",
    "softsign",
    "tanhshrink",
    "threshold1",
]
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "true_divide",
    "floor_divide",
    "remainder",
    "fmod",
    "pow",
    "atan2",
    "hypot",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "copysign",
    "logaddexp",
    "logaddexp2",
    "xlogy",
    "nextafter",
    "heaviside",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
    "ldexp",
    "float_power",
    "isclose",
]
Operation = Callable[[torch.Tensor, torch.Tensor], Any]
REDUCTIONS: dict[str, Operation] = {
    "sum": lambda x, y: (x.sum(), x.sum(0), x.sum(1, keepdim=True), x.sum((0, 1)), x.sum(1, dtype=torch.float64)),
    "mean": lambda x, y: (x.mean(), x.mean(0), x.mean((0, 1), keepdim=True), x.nanmean(), x.nansum(1)),
    "var": lambda x, y: (x.var(), x.var(1), x.std(0), x.var(1, correction=0), x.std(1, unbiased=False), *torch.var_mean(x, 1)),
    "norm": lambda x, y: (x.norm(), x.norm(dim=1), x.norm(p=1), x.norm(float("inf"), 1), torch.linalg.vector_norm(x, 3, 1)),
    "extrema": lambda x, y: (x.amax(1), x.amin(0), x.max(), x.min(), x.max(1).values, x.min(0).values, *x.aminmax()),
    "places": lambda x, y: (x.argmax(1), x.argmin(), x.max(1).indices, x.topk(2, 1).values, x.topk(3).indices),
    "sorted": lambda x, y: (x.sort(1).values, x.argsort(0), x.median(), x.median(1).values, x.kthvalue(2, 1).values),
    "running": lambda x, y: (x.cumsum(0), x.cumsum(1), x.cumprod(1), x.cummax(1).values, x.cummin(0).values, x.logcumsumexp(1)),
    "product": lambda x, y: (x.prod(), x.prod(1), x.abs().prod(0), x.count_nonzero(), x.all(), x.any(1), (x > 0).sum(1)),
    "exponentials": lambda x, y: (x.logsumexp(1), x.softmax(1), x.log_softmax(0), x.softmax(-1, dtype=torch.float32), F.softmin(x, 1)),
    "differences": lambda x, y: (x.diff(), x.diff(dim=0), torch.dist(x, y), torch.cdist(x, y), F.pairwise_distance(x, y), F.cosine_similarity(x, y)),
    "losses": lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y, reduction="sum"), F.smooth_l1_loss(x, y), F.huber_loss(x, y, delta=0.5), F.kl_div(x, y.abs()), F.cross_entropy(x, ROW), F.nll_loss(x, ROW), F.binary_cross_entropy_with_logits(x, y.abs() / 8)),
    "norms": lambda x, y: (F.layer_norm(x, (6,)), F.layer_norm(x, (6,), y[0], y[1], 1e-3), F.rms_norm(x, (6,)), F.group_norm(x, 2), F.batch_norm(x, y[0], y[1].abs() + 1), F.normalize(x, dim=1), F.local_response_norm(x[:, :, None], 2)),
}  # fmt: skip
PRODUCTS: dict[str, Operation] = {
    "matmul": lambda x, y: (x @ y.T, x.T @ y, x[0] @ y[1], x @ y[0], y[0] @ x.T, x.mv(y[0]), x[0].dot(y[0]), torch.outer(x[0], y[1])),
    "added": lambda x, y: (torch.addmm(y[:, :4], x, y.T), torch.addmm(y[:, :4], x, y.T, beta=0.5, alpha=2), torch.addmv(y[:, 0], x, y[0]), torch.addr(x, y[:, 0], y[0]), torch.addcmul(x, x, y, value=0.5), torch.addcdiv(x, y, y.abs() + 1)),
    "batched": lambda x, y: (torch.bmm(x.view(2, 2, 6), y.view(2, 6, 2)), torch.baddbmm(x.view(2, 2, 6)[:, :, :2], x.view(2, 2, 6), y.view(2, 6, 2)), torch.einsum("ij,kj->ik", x, y), torch.einsum("bij,bjk->bk", x.view(2, 2, 6), y.view(2, 6, 2)), torch.tensordot(x, y, 2), torch.kron(x[:1, :2], y[:2, :2])),
    "linear": lambda x, y: (F.linear(x, W.to(x.dtype)), F.linear(x, W.to(x.dtype), y[0, :5]), F.bilinear(x, y, W.to(x.dtype).view(5, 6, 1) @ W.to(x.dtype)[:1].view(1, 1, 6))),
    "convolved": lambda x, y: (F.conv1d(x[None], W[:, :4, None].to(x.dtype)), F.conv1d(x[None], W[:5, :4].to(x.dtype)[:, :, None], y[0, :5], stride=2, padding=1), F.conv2d(x[None, None], KERNEL.to(x.dtype)), F.conv2d(x[None, None], KERNEL.to(x.dtype), padding=1, dilation=2), F.conv_transpose1d(x[None], W[:4, :5, None].to(x.dtype))),
    "attention": lambda x, y: (F.scaled_dot_product_attention(x[None], y[None], x[None]), F.scaled_dot_product_attention(x[None], y[None], y[None], is_causal=True), F.scaled_dot_product_attention(x[None], y[None], x[None], attn_mask=M[:, :4][None], scale=0.5)),
    "pooled": lambda x, y: (F.max_pool1d(x[None], 2), F.avg_pool1d(x[None], 3, 1), F.max_pool2d(x[None, None], 2), F.avg_pool2d(x[None, None], 2, padding=1), F.adaptive_avg_pool1d(x[None], 4), F.adaptive_max_pool1d(x[None], 2), F.lp_pool1d(x[None], 2, 2), F.interpolate(x[None], 9), F.interpolate(x[None], 9, mode="linear"), F.pixel_shuffle(x.view(1, 4, 2, 3), 2)),
}  # fmt: skip
MOVES: dict[str, Operation] = {
    "views": lambda x, y: (x.view(6, 4), x.reshape(-1), x.T, x.t().contiguous(), x[1:3, ::2], x[..., -1], x[None], x.flatten(), x.unfold(1, 3, 2), x.diagonal(), x.narrow(1, 1, 3), x.select(0, 1), x.expand(2, 4, 6), x.movedim(0, 1), x.unsqueeze(1), x[:1].squeeze(0), *x.split(2), *x.chunk(3, 1), *x.unbind(0)),
    "copies": lambda x, y: (x.clone(), torch.cat([x, y]), torch.stack([x, y], 1), x.repeat(2, 1), x.tile(2), x.repeat_interleave(2, 0), x.roll(1, 0), x.flip(0), x.rot90(), torch.hstack([x, y]), x.tril(), x.triu(1), F.pad(x, (1, 2)), F.pad(x, (1, 1), value=2.5), F.pad(x[None], (1, 2), mode="reflect"), torch.diag(x[0]), x.new_zeros(2) + x[0, :2], torch.full_like(x, 3) + x),
    "chosen": lambda x, y: (x[M], x[ROW], x[:, ROW], x[ROW, ROW], x.gather(1, AT), x.index_select(0, ROW), x.take(AT), torch.take_along_dim(x, AT, 1), x.masked_select(M), torch.where(M, x, y), torch.where(x > y, x, y), torch.where(M, x, 0.3), x.masked_fill(M, -1e9), F.embedding(ROW, x), F.one_hot(ROW).to(x.dtype) @ x[:4], torch.meshgrid(x[0], y[0], indexing="ij")[0]),
    "placed": lambda x, y: (x.clone().index_add_(0, ROW, y), x.scatter(1, AT, y), x.scatter_add(1, AT, y), x.scatter_reduce(1, AT, y, "amax"), x.index_copy(0, ROW[:2], y[:2]), x.index_fill(1, ROW[:2], 0.7), x.index_put((ROW,), y, accumulate=True), x.masked_scatter(M, y), x.scatter_reduce(1, AT, y, "mean"), torch.bincount(ROW, x[:, 0].double())),
    "in place": lambda x, y: (x.clone().add_(y), x.clone().mul_(0.3), x.clone().copy_(y), x.clone().zero_() + y, x.clone().fill_(0.1), x.clone().clamp_(-1, 0.7), x.clone().sub_(y, alpha=0.3), x.clone().div_(3), x.clone().exp_(), _stored(x, y), torch.add(x, y, out=torch.empty_like(x)), x.clone().lerp_(y, 0.3)),
    "numbers": lambda x, y: (x + 0.1, 0.1 - x, x * 3, x / 3, 3 / x, x // 2, x % 0.7, x**2, x**3, x**0.5, 2.0**x, x**-1, -x, x + True, x.add(y, alpha=0.1), torch.rsub(x, 2.0), x > 0.1, x.clamp(min=0.1), x.clamp(-0.3, 0.3), torch.lerp(x, y, 0.3), torch.lerp(x, y, x), torch.polygamma(1, x.abs() + 1)),
    "types": lambda x, y: (x.half(), x.bfloat16(), x.float(), x.double(), x.to(torch.float16) * 3, x.int(), x.long(), x.bool(), x.to(torch.uint8), x.half() + x.double(), AT + x, AT * 0.5 * x, x.type_as(y.double()), x.round(decimals=1), x.to(torch.float8_e5m2).float(), torch.finfo(x.dtype).eps * x),
    "left": lambda x, y: (torch.ones(2) * x[0, 0].item(), y * float(x.max()), torch.full((2,), x.sum().item()), torch.tensor([x[0, 1].item() / 3]), torch.tensor(x.tolist()), torch.from_numpy(x.double().numpy()) * 2, y / max(1.0, float(x.norm()))),
}  # fmt: skip
SMALL = 2.0**-16
"""What cancels to less, or is not written, may be another number on another machine."""
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def _stored(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    out[1:] = y[1:] * x[1:]
    out[0, ::2] = x[1, ::2]
    out[M] += 1
    return out * 2


def data(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers of few bits, of both signs, some alike."""
    k = torch.arange(24.0).reshape(SHAPE)
    return ((k * 7 % 23 - 11) / 4).to(dtype), ((k * 5 % 19 - 9) / 8).to(dtype)


def told(session: Session, out: Any) -> list[Any]:
    if not isinstance(out, torch.Tensor):
        return [float(out)] if isinstance(out, int | float) else []
    known = session.envelope(out)
    if known is None:
        return [np.where(np.abs(v := out.double().detach().reshape(-1).numpy()) >= SMALL, v, 0.0), -1.0]
    codes = sorted(int(session.taints[i].code[3:]) for i in known.taints)
    ends = [np.where(known.written & (np.abs(end) >= SMALL), end, 0.0) for end in (known.lo, known.hi)]
    return [*ends, known.written, codes, len(codes)]


def _followed(operation: Operation, device: str = "any") -> object:
    found: list[Any] = []
    for dtype in DTYPES:
        for width in (2.0**-6, 0.75):
            x, y = data(dtype)
            with Session(device=device) as session:
                v = x.double().numpy()
                session.memory.carry(x, v - width * (np.abs(v) > 0.5), v + width, frozenset())
                try:
                    outs = operation(x, y)
                except (RuntimeError, NotImplementedError, TypeError):
                    outs = None
                for out in outs if isinstance(outs, tuple | list) else [outs]:
                    found += told(session, out)
            found += [int(f.code[3:]) for f in session.findings]
    return found


def _each(names: list[str], function: Callable[[str, torch.Tensor, torch.Tensor], Any]) -> Operation:
    """Every one on its own; those that this type has not give nothing."""

    def operation(x: torch.Tensor, y: torch.Tensor) -> list[Any]:
        found: list[Any] = []
        for name in names:
            try:
                found.append(function(name, x, y))
            except (RuntimeError, NotImplementedError, TypeError, AttributeError):
                found.append(None)
        return found

    return operation


def _binary(name: str, x: torch.Tensor, y: torch.Tensor) -> Any:
    return getattr(torch, name)(x, y.abs() + 1 if name in ("pow", "float_power") else y)


GROUPS: dict[str, Operation] = REDUCTIONS | PRODUCTS | MOVES | {
    "one operand": _each(UNARY, lambda name, x, y: getattr(torch, name)(x)),
    "one operand in range": _each(UNARY, lambda name, x, y: getattr(torch, name)(x / 8 + 0.5)),
    "activations": _each(ACTIVATIONS[:-1], lambda name, x, y: getattr(F, name)(x)),
    "two operands": _each(BINARY, _binary),
    "two operands with bounds": _each(BINARY, lambda name, x, y: getattr(torch, name)(x.abs() + 1, x)),
    "a row": _each(BINARY, lambda name, x, y: getattr(torch, name)(y.abs() + 1, x[0])),
}  # fmt: skip
HOSTED = 2.0**-30
"""Where torch's own kernels add up and exponentiate."""
IN_SINGLE = 2.0**-20
"""Where products of float32 are bounded in float32: the order of their sums is the processor's."""
WITHIN = dict.fromkeys(("matmul", "batched"), IN_SINGLE)
CASES: Cases = {name: (partial(_followed, of), WITHIN.get(name, HOSTED)) for name, of in GROUPS.items()}
for _name in ("sum", "mean", "norms", "matmul", "numbers", "types", "placed", "two operands"):
    CASES[f"{_name} on sm_90"] = (partial(_followed, GROUPS[_name], "sm_90"), WITHIN.get(_name, HOSTED))
