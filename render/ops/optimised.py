"""Steps of optimisers that are one kernel (`fused=True`), as `torch.optim` documents them, one parameter at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from render.ops.rooms import about


def is_unscaled(params: Any, *_: Any, lr: Any = 0.0, grad_scale: Any = None, found_inf: Any = None, **__: Any) -> bool:
    """Without what scaled gradients bring."""
    return isinstance(lr, (float, torch.Tensor)) and grad_scale is None and found_inf is None


def is_plain(params: Any, *args: Any, **told: Any) -> bool:
    """In no narrow type, either: of 16 elements and more torch's steps of SGD (2.13) are not the documented ones there,
    and those of Adagrad round in between."""
    return is_unscaled(params, *args, **told) and all(t.dtype.itemsize >= 4 for t in params)


def _rate(lr: float | torch.Tensor) -> float | torch.Tensor:
    """The kernels read a tensor as a number of float64."""
    return lr.double() if isinstance(lr, torch.Tensor) else lr


def _room(x: torch.Tensor) -> torch.Tensor:
    """x, with room for products and quotients in another order: that of the rule of `tanh_backward`, at 0."""
    found: torch.Tensor = torch.ops.aten.tanh_backward.default(x, torch.zeros_like(x))
    return found


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype.itemsize < 4 else x


def _or_stored(x: torch.Tensor, stored: torch.Tensor) -> torch.Tensor:
    """Either of the two."""
    if x.dtype == stored.dtype:
        return x
    kind = torch.finfo(stored.dtype)
    return about(x, (x.detach().abs().double() + kind.tiny) * (kind.eps / 2))


def adam(decoupled: bool) -> Callable[..., None]:
    """Source: aten/src/ATen/native/cpu/FusedAdamKernel.cpp. The kernels round in the order of their own.

    Of narrow types in float32, where moments go on as they are before they are stored, or as they are stored.
    """

    def steps(params: Any, grads: Any, means: Any, squares: Any, tops: Any, counts: Any, **told: Any) -> None:
        lr, beta1, beta2, eps = _rate(told["lr"]), *(told[name] for name in ("beta1", "beta2", "eps"))
        weight_decay = told["weight_decay"]
        for i, (param, mean, square) in enumerate(zip(params, means, squares, strict=True)):
            p, m, v, g = (_wide(x) for x in (param, mean, square, grads[i]))
            count, g = float(counts[i]), -g if told["maximize"] else g
            if weight_decay and decoupled:
                p = _room(p * (1 - lr * weight_decay))
            elif weight_decay:
                g = g + p * weight_decay
            m, v = m.lerp(g, 1 - beta1), v * beta2 + _room(g * g * (1 - beta2))
            mean.copy_(m)
            square.copy_(v)
            m, v = _or_stored(m, mean), _or_stored(v, square)
            top = v
            if told["amsgrad"]:
                top = torch.maximum(_wide(tops[i]), v)
                tops[i].copy_(top)
                top = _or_stored(top, tops[i])
            root = _room(top.sqrt() / (1 - beta2**count) ** 0.5) + eps
            param.copy_(p - _room(m / root * (lr / (1 - beta1**count))))

    return steps


def sgd(
    params: Any, grads: Any, buffers: Any, *, weight_decay: float, momentum: float, lr: Any, dampening: float,
    nesterov: bool, maximize: bool, is_first_step: bool, **_: Any,
) -> None:  # fmt: skip
    """Source: aten/src/ATen/native/cpu/FusedSGDKernel.cpp."""
    for i, param in enumerate(params):
        p, g = param, -grads[i] if maximize else grads[i]
        g = g + p * weight_decay if weight_decay else g
        if momentum:
            kept = g.clone() if is_first_step else buffers[i] * momentum + g * (1 - dampening)
            buffers[i].copy_(kept)
            g = g + kept * momentum if nesterov else kept
        param.copy_(p - g * _rate(lr))


def adagrad(
    params: Any, grads: Any, sums: Any, counts: Any, *, lr: Any, lr_decay: float, weight_decay: float, eps: float,
    maximize: bool, **_: Any,
) -> None:  # fmt: skip
    """Source: aten/src/ATen/native/cpu/FusedAdagradKernel.cpp."""
    for i, (param, total) in enumerate(zip(params, sums, strict=True)):
        p, g, s = param, -grads[i] if maximize else grads[i], total
        g = g + p * weight_decay if weight_decay else g
        s = s + g * g
        total.copy_(s)
        rate = _rate(lr) / (1 + (float(counts[i]) - 1) * lr_decay)
        param.copy_(p - _room(g / (s.sqrt() + eps) * rate))


def is_given(*_: Any, **__: Any) -> bool:
    """In all of their forms."""
    return True


def unscaled(grads: Any, found_inf: torch.Tensor, inv_scale: torch.Tensor) -> None:
    """Gradients of a scaled loss, and whether one of them is not finite.

    Source: aten/src/ATen/native/cpu/AmpGradScalerKernels.cpp, products in float32 for narrower types.
    """
    for grad in grads:
        found_inf.copy_(torch.maximum(found_inf, (~torch.isfinite(grad)).any().to(found_inf.dtype)))
        grad.copy_(_wide(grad) * inv_scale.to(_wide(grad).dtype))


def rescaled(
    scale: torch.Tensor, tracker: torch.Tensor, found_inf: torch.Tensor, growth: float, backoff: float, interval: int
) -> torch.Tensor:
    """The next scale: less after a gradient that was not finite, more after `interval` steps without one (as above)."""
    failed, due, more = found_inf > 0, tracker + 1 == interval, scale * growth
    scale.copy_(torch.where(failed, scale * backoff, torch.where(due & torch.isfinite(more), more, scale)))
    tracker.copy_(torch.where(failed | due, torch.zeros_like(tracker), tracker + 1))
    return scale
