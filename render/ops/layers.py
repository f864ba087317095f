"""Layers that torch runs as one operation, as the plain ones that they stand for: what they hide would not be followed.

`mkldnn_rnn_layer`    oneDNN's layer of an LSTM is the recurrence that `torch.nn.LSTM` documents
`bincount`            with weights it is a sum at places
`native_batch_norm`   in training it writes to the running statistics, of which its schema says nothing

Others are few plain operations (`spelled`), interpolations at computed places (`resampled`) and transforms (`fourier`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from render.ops import fourier, resampled, spelled

_LSTM = 2
"""How ATen numbers the kinds of recurrent cells."""


class Layer(NamedTuple):
    """Steps with the layer's arguments and results, and whether they stand for a call with these arguments."""

    name: str
    fits: Callable[..., bool]
    steps: Callable[..., Any]


def _is_lstm(*args: Any) -> bool:
    """Of whole batches, without what its backward pass wants."""
    return len(args) == 16 and args[9] == _LSTM and not args[8] and not args[15] and len(args[0]) > 0


def lstm_layer(*args: Any) -> tuple[torch.Tensor | None, ...]:
    """One direction of one layer, over (time, batch, features).

    All addends of a gate are one sum in no order: oneDNN accumulates the products with the state onto those with the
    input, torch's own layer adds two sums and two biases.
    """
    x, w, u, b, d, h, c, reverse, _, _, size, _, biases = args[:13]
    ones, shape = x.new_ones(x.shape[1], 2), h.shape
    weights = torch.cat([w, u, b[:, None], d[:, None]] if biases else [w, u], 1)
    h, c, found = h.reshape(-1, size), c.reshape(-1, size), []
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        gates = torch.nn.functional.linear(torch.cat([x[t], h, ones] if biases else [x[t], h], 1), weights)
        i, f, g, o = gates.chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        found.append(h)
    y = torch.stack(found[::-1] if reverse else found)
    return y, h.reshape(shape), c.reshape(shape), None


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
    Layer("mkldnn_rnn_layer", _is_lstm, lstm_layer),
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
    Layer("upsample_bicubic2d", resampled.of_planes, resampled.bicubic),
    Layer("_upsample_bilinear2d_aa", resampled.of_planes, resampled.bilinear_smoothed),
    Layer("_upsample_bicubic2d_aa", resampled.of_planes, resampled.bicubic_smoothed),
    Layer("grid_sampler_2d", resampled.of_planes, resampled.grid_sampled),
    Layer("_fft_r2c", fourier.is_followed, fourier.of_real),
    Layer("_fft_c2r", fourier.is_followed, fourier.to_real),
    Layer("_fft_c2c", fourier.is_followed, fourier.of_complex),
)
LAYERS = {f"aten::{layer.name}": layer for layer in _ALL}
