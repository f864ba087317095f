"""Layers that torch runs as one operation, as the plain ones that they stand for: what they hide would not be followed.

`mkldnn_rnn_layer`    oneDNN's layer of an LSTM is the recurrence that `torch.nn.LSTM` documents
`bincount`            with weights it is a sum at places
`native_batch_norm`   in training it writes to the running statistics, of which its schema says nothing

Others are few plain operations (`spelled`), interpolations at computed places (`resampled`), transforms (`fourier`) and
steps of optimisers in one kernel (`optimised`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import _disable_current_modes

from render.ops import fourier, optimised, resampled, spelled
from render.ops.rooms import about, unit
from render.ops.single import is_plain

_LSTM = 2
"""How ATen numbers the kinds of recurrent cells."""


class Layer(NamedTuple):
    """Steps with the layer's arguments and results, and whether they stand for a call with these arguments."""

    name: str
    fits: Callable[..., bool]
    steps: Callable[..., Any]


def _is_lstm(*args: Any) -> bool:
    """Of whole batches, in products that are not cut; in training in float32, whose gates are kept as they are."""
    whole = len(args) == 16 and args[9] == _LSTM and not args[8] and len(args[0]) > 0 and is_plain("rnn")
    return whole and (not args[15] or args[0].dtype == torch.float32)


class _Moment(NamedTuple):
    """One time of an LSTM: input, state and cell before it, its gates, cell after it."""

    x: torch.Tensor
    h: torch.Tensor
    c: torch.Tensor
    gates: tuple[torch.Tensor, ...]
    cell: torch.Tensor


def _lstm(
    x: torch.Tensor, weights: torch.Tensor, h: torch.Tensor, c: torch.Tensor, reverse: bool
) -> Iterator[tuple[_Moment, torch.Tensor]]:
    """Each time in its order, with the state after it.

    All addends of a gate are one sum in no order: oneDNN accumulates the products with the state onto those with the
    input, torch's own layer adds two sums and two biases.
    """
    biases = weights.shape[1] - x.shape[2] - h.shape[1]
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        addends = torch.cat([x[t], h, x.new_ones(x.shape[1], biases)], 1)
        i, f, g, o = torch.nn.functional.linear(addends, weights).chunk(4, 1)
        gates = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        cell = gates[1] * c + gates[0] * gates[2]
        moment = _Moment(x[t], h, c, gates, cell)
        h, c = gates[3] * cell.tanh(), cell
        yield moment, h


def _joined(w: torch.Tensor, u: torch.Tensor, b: torch.Tensor, d: torch.Tensor, biases: bool) -> torch.Tensor:
    """Weights and biases of one sum; ideep adds the biases in their own type first, and rounds."""
    if biases and b.dtype.itemsize < 4:
        b = about(b, (b.double() + d.double()).abs() * unit(b.dtype))
    return torch.cat([w, u, b[:, None], d[:, None]] if biases else [w, u], 1)


def lstm_layer(*args: Any) -> tuple[torch.Tensor | None, ...]:
    """One direction of one layer, over (time, batch, features)."""
    x, w, u, b, d, h, c, reverse, _, _, size, _, biases = args[:13]
    state, cell = (t.reshape(-1, size) for t in (h, c))
    times = list(_lstm(x, _joined(w, u, b, d, biases), state, cell, reverse))
    found = [made for _, made in times]
    y = torch.stack(found[::-1] if reverse else found)
    kept = None
    if args[15]:  # for a backward pass that nobody follows
        with _disable_current_modes():
            kept = torch.ops.aten.mkldnn_rnn_layer.default(*args)[3]
    return y, found[-1].reshape(h.shape), times[-1][0].cell.reshape(c.shape), kept


def _is_lstm_gradient(*args: Any) -> bool:
    whole = len(args) == 23 and args[14] == _LSTM and not args[20] and args[0].dtype == torch.float32
    return whole and is_plain("rnn")


def lstm_gradients(*args: Any) -> tuple[torch.Tensor, ...]:
    """Back through time; sums with weights and over times in any order.

    The slopes of gates are those of tanh, at 2 s - 1 for a sigmoid s, for the rule of `tanh_backward` has room for
    every way to write them: s (1 - s), s - s^2 and with fused multiply-adds.
    """
    x, w, u, b, d, h, c = args[:7]
    grad, last, cell, reverse, _, size, _, biases = args[10:18]
    before = [t.reshape(-1, size) for t in (h, c)]
    times = [moment for moment, _ in _lstm(x, _joined(w, u, b, d, biases), before[0], before[1], reverse)]
    own = torch.eye(size, dtype=x.dtype)
    onto = torch.cat([u.t(), own, own], 1)
    slope = torch.ops.aten.tanh_backward.default
    zero = x.new_zeros(x.shape[1], size)
    given = zero if last is None else last.reshape(-1, size)
    behind = zero if cell is None else cell.reshape(-1, size)
    after, steps = x.new_zeros(x.shape[1], 4 * size), []
    for k, at in enumerate(reversed(times)):
        now = zero if grad is None else grad[k if reverse else len(x) - 1 - k]
        i, f, g, o = at.gates
        moved = torch.nn.functional.linear(torch.cat([after, now, given], 1), onto)
        given, out = zero, at.cell.tanh()
        inner = behind + slope(moved * o, out)
        parts = [slope(inner * g, 2 * i - 1) / 4, slope(inner * at.c, 2 * f - 1) / 4, slope(inner * i, g),
                 slope(moved * out, 2 * o - 1) / 4]  # fmt: skip
        after, behind = torch.cat(parts, 1), inner * f
        steps.append(after)
    slopes = torch.cat(steps)
    to_x = torch.stack([s @ w for s in steps])
    operands = [m.x for m in reversed(times)], [m.h for m in reversed(times)]
    to_weights = [slopes.t() @ torch.cat(each) for each in operands]
    bias = slopes.sum(0) if biases else torch.zeros_like(b)
    state = (after @ u).reshape(h.shape), behind.reshape(c.shape)
    return to_x if reverse else to_x.flip(0), *to_weights, bias, bias.clone(), *state


def _has_statistics(*args: Any) -> bool:
    """In training, with running statistics of one value or more a channel."""
    return bool(args[5]) and args[3] is not None and args[4] is not None and args[0].numel() > args[0].shape[1]


def updating_batch_norm(*args: Any) -> Any:
    """The norm without running statistics, and these moved towards mean and unbiased variance.

    Source: aten/src/ATen/native/Normalization.cpp, in the type of the sums (float32 for narrower ones).
    """
    x, weight, bias, mean, variance, _, momentum, eps = args
    out = torch.ops.aten.native_batch_norm.default(x, weight, bias, None, None, True, momentum, eps)
    wide = x.detach() if x.dtype.itemsize >= 4 else x.detach().float()
    dims = [d for d in range(x.dim()) if d != 1]
    for kept, now in ((mean, wide.mean(dims)), (variance, wide.var(dims))):
        kept.copy_(now * momentum + kept.to(wide.dtype) * (1 - momentum))
    return out


def _is_weighed(x: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0) -> bool:
    return weights is not None and x.numel() > 0


def weighed(x: torch.Tensor, weights: torch.Tensor, minlength: int = 0) -> torch.Tensor:
    """In float32 for weights of that type, in float64 for all others (aten/src/ATen/native/SummaryOps.cpp)."""
    dtype = torch.float32 if weights.dtype == torch.float32 else torch.float64
    places = max(int(x.max()) + 1, minlength)
    return torch.zeros(places, dtype=dtype).index_add(0, x, weights.to(dtype))


def _into(steps: Callable[..., Any]) -> Callable[..., Any]:
    """The form in place."""
    return lambda x, *args, **kwargs: x.copy_(steps(x.clone(), *args, **kwargs))


_ALL = (
    Layer("_fused_adam_", optimised.is_unscaled, optimised.adam(False)),
    Layer("_fused_adamw_", optimised.is_unscaled, optimised.adam(True)),
    Layer("_fused_sgd_", optimised.is_plain, optimised.sgd),
    Layer("_fused_adagrad_", optimised.is_plain, optimised.adagrad),
    Layer("_amp_foreach_non_finite_check_and_unscale_", optimised.is_given, optimised.unscaled),
    Layer("_amp_update_scale_", optimised.is_given, optimised.rescaled),
    Layer("mkldnn_rnn_layer", _is_lstm, lstm_layer),
    Layer("mkldnn_rnn_layer_backward", _is_lstm_gradient, lstm_gradients),
    Layer("native_batch_norm", _has_statistics, updating_batch_norm),
    Layer("bincount", _is_weighed, weighed),
    Layer("_embedding_bag", spelled.is_bag, spelled.embedding_bag),
    Layer("_embedding_bag_forward_only", spelled.is_bag, spelled.embedding_bag),
    Layer("_cdist_forward", spelled.is_distance, spelled.distances),
    Layer("_pdist_forward", spelled.is_self_distance, spelled.self_distances),
    Layer("renorm", spelled.is_renorm, spelled.renorm),
    Layer("renorm_", spelled.is_renorm, _into(spelled.renorm)),
    Layer("scatter_reduce", spelled.is_scattered, spelled.scatter_reduce),
    Layer("scatter_reduce_", spelled.is_scattered, _into(spelled.scatter_reduce)),
    Layer("index_reduce", spelled.is_indexed, spelled.index_reduce),
    Layer("index_reduce_", spelled.is_indexed, _into(spelled.index_reduce)),
    Layer("upsample_bicubic2d", resampled.is_resized, resampled.bicubic),
    Layer("_upsample_bilinear2d_aa", resampled.is_resized, resampled.bilinear_smoothed),
    Layer("_upsample_bicubic2d_aa", resampled.is_resized, resampled.bicubic_smoothed),
    Layer("grid_sampler_2d", resampled.is_sampled, resampled.grid_sampled),
    Layer("_fft_r2c", fourier.is_followed, fourier.of_real),
    Layer("_fft_c2r", fourier.is_followed, fourier.to_real),
    Layer("_fft_c2c", fourier.is_followed, fourier.of_complex),
)
LAYERS = {f"aten::{layer.name}": layer for layer in _ALL}
