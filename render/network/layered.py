r"""Linear layers and convolutions that both sides have, in parts: E, magnitudes and bounds from the same few products.

For a layer y = W x + b the bound of the target costs no product of its own beyond that of the radii: with
d = max |x' - x_t| over the hull of both sides' operands,

    W x' + b in E -+ (|W| d),      sum |w x'| <= S + |W| d,      S = |W| |x_t|

E in float64, S and |W| d in float32, rounded up by 1 / (1 - gamma_(K+2)) (Higham, ASNA, sec. 3.1). What the target's
units may round is added by the dot rule (`PendingDot.given`), as if it had made these sums itself.

E and magnitudes of both come from `interval_ops.matrix`, whatever kernels torch takes for its own. torch runs a
convolution as one sum, its bias one term of it, where `LinearSums.possible`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from torch import nn

from render.interpreter.hosted.call import Bounds
from render.interpreter.hosted.products import LinearSums
from render.network.operands import UP, Image, Images, Operands, windowed
from render.network.pairs import Pair
from render.reference.local_error import TORCH_FORMATS

LONGEST = 1 << 18
"""Sums of so many magnitudes are still bounded in float32."""
LITTLE = 2.0**-5
"""Of the bound of a sum's roundings: what a coarser bound of the operands' difference may add to it."""
PART = 1 << 20
"""Weights that are widened at once, and half of the elements of windows."""
TINY = 2.0**-54
"""What the root of `LONGEST` squares may lose where these underflow in float32, 2**-63 each."""
LARGEST = 2.0**60
"""Magnitudes up to here have products and sums that float32 holds."""
At = tuple[slice, ...]
"""A part of a result: its columns, or an image and its rows."""


@dataclass
class Weights:
    """Rows of weights."""

    given: torch.Tensor

    @cached_property
    def magnitudes(self) -> torch.Tensor:
        return self.given.float().abs()

    @cached_property
    def lengths(self) -> torch.Tensor:
        found: torch.Tensor = torch.linalg.vector_norm(self.given.float(), dim=-1)
        return found

    @cached_property
    def largest(self) -> np.ndarray:
        return self.magnitudes.amax(-1).double().numpy()


@dataclass
class LinearPart:
    """Some columns of W x in float64, and |W| |x| in float32."""

    products: torch.Tensor
    sums: torch.Tensor
    weights: Weights
    bias: torch.Tensor | None
    operands: Callable[[], Operands]

    @cached_property
    def value(self) -> torch.Tensor:
        """W x + b."""
        return self.products if self.bias is None else self.products + self.bias

    @property
    def size(self) -> int:
        """Products of one sum."""
        return self.weights.given.shape[1]

    @staticmethod
    def outer(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Of one number for each operand, and for each result."""
        return torch.outer(x, weight)

    def times(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return LinearSums.product(x, weight)

    @property
    def _lengths(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.operands().lengths, self.weights.lengths

    def of_other(self) -> torch.Tensor | None:
        """The same of the reference's operand: W x_t + W (x_r - x_t), the second product in float32.

        That product is off by K u |W| |x_r - x_t| (Higham, ASNA, sec. 3.1). None where this is not below u |W| |x_t|,
        half of what the layer moves by.
        """
        if not bool((self.outer(*self._lengths).mul_(self.size) <= self.sums).all()):
            return None
        return self.times(self.operands().apart, self.weights.given.float()).double().add_(self.value)

    def other_moved(self) -> torch.Tensor | None:
        """How far that moves; None: as far as E of the target's operand."""
        return None

    def moved(self, unit: float) -> torch.Tensor:
        """How far it moves where operand, weights and bias move by `unit` of themselves; float32."""
        found = self.sums * (2 * unit)
        return found if self.bias is None else found.add_(self.bias.abs().float(), alpha=unit)

    def bounds(self, device: Any) -> Bounds | None:
        """What the target may make of the hull of both operands; None where its units read operands otherwise."""
        reach = self._reach()
        found = self._sums(reach).bounds(self.weights.given.dtype, device)
        return None if found is None else Bounds(*(end.reshape(reach.shape) for end in (found.lo, found.hi)))

    def _sums(self, reach: torch.Tensor) -> LinearSums:
        rows = self.operands().largest
        columns, own = self.weights.largest, None if self.bias is None else self.bias.numpy()
        sums, size = (self.sums + reach).numpy(), self.size
        return LinearSums(self.products.numpy(), sums, reach.numpy(), rows, columns, own, size)

    def _reach(self) -> torch.Tensor:
        """|W| d, or |w_j| |d_i| by Cauchy and Schwarz where that is little beside what the sums may round."""
        size = self.size
        up = UP * (1.0 + size * 2.0**-24)  # a root of a sum of squares has half of the sum's error
        first, second = (x.mul(up).add_(TINY) for x in self._lengths)
        mean = float(first.mean()) * float(second.mean())  # of their outer product
        if mean * UP <= LITTLE * size * 2.0**-24 * float(self.sums.mean()):
            return self.outer(first, second).mul_(UP)
        return self.times(self.operands().reach, self.weights.magnitudes)


@dataclass
class ConvolutionPart(LinearPart):
    """Some rows of one image, channels first; the bias is one of the terms of the sum, whichever comes first."""

    module: Any

    def times(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return windowed(self.module, x, weight.view(self.module.weight.shape))

    @staticmethod
    def outer(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.outer(weight, x)

    def _sums(self, reach: torch.Tensor) -> LinearSums:
        columns = self.operands().largest
        rows, most = self.weights.largest, self.sums + reach
        size = self.size
        if self.bias is not None:
            own = self.bias.abs().mul(UP)
            most, size = most.add_(own.float()).mul_(UP), size + 1
            rows, columns = np.maximum(rows, own.numpy()[:, 0]), np.maximum(columns, 1.0)
        return LinearSums(self.value.numpy(), most.numpy(), reach.numpy(), rows, columns, None, size, True)


class CarriedPart:
    """Some elements of which E is carried from the target's operands, with how far it moves."""

    @cached_property
    def _carried(self) -> tuple[torch.Tensor, torch.Tensor]:
        raise NotImplementedError

    @property
    def value(self) -> torch.Tensor:
        return self._carried[0]

    def moved(self, unit: float) -> torch.Tensor:
        """How far it moves where every operand moves by a roundoff of itself."""
        return self._carried[1].float()


@dataclass
class LayerTwin:
    """A layer that both sides have, a part at a time: what belongs to it stays in cache."""

    module: Any
    entry: Pair

    @property
    def cause(self) -> str:
        """What its bounds are wide of; empty where it rounds nothing."""
        return "accumulation"

    def parts(self, side: str) -> Iterator[tuple[At, Any]]:
        """All parts, of one side's operand."""
        raise NotImplementedError

    def possible(self) -> bool:
        """Whether torch runs it, as its switches are now, as a sum of products in float32 as such."""
        return LinearSums.possible()

    def cut(self, whole: torch.Tensor, at: At) -> torch.Tensor:
        """A part of a result as a matrix."""
        raise NotImplementedError

    def put(self, whole: torch.Tensor, at: At, part: torch.Tensor) -> None:
        raise NotImplementedError

    def shape(self) -> tuple[int, ...]:
        """Of the result."""
        raise NotImplementedError

    def let_go(self) -> None:
        """What was computed for the parts, as large as the operand."""
        vars(self).pop("operands", None)

    def exact(self, unit: float, side: str = "target") -> tuple[torch.Tensor, torch.Tensor]:
        """(E, how far it moves) of a side's operand, whole."""
        value, moved = torch.empty(self.shape(), dtype=torch.float64), torch.empty(self.shape())
        for at, part in self.parts(side):
            self.put(value, at, part.value)
            self.put(moved, at, part.moved(unit))
        return value, moved

    def whole(self, unit: float) -> tuple[np.ndarray, np.ndarray, bool]:
        """The target's, as walks say it."""
        value, moved = self.exact(unit)
        return value.numpy(), moved.numpy(), False


@dataclass
class LinearTwin(LayerTwin):
    """W x + b of a linear layer, some columns at a time, with their weights."""

    @classmethod
    def of(cls, module: nn.Module | None, entry: Pair | None, out: Pair) -> LinearTwin | None:
        """None where float32 does not hold the magnitudes, or torch may cut it."""
        if type(module) is not nn.Linear or entry is None or not _fits(module, entry, out, (16, 32)):
            return None
        if not 0 < module.in_features < LONGEST or not LinearSums.possible():
            return None
        return cls(module, entry) if _most(module, entry, out) < LARGEST else None

    def columns(self) -> Iterator[slice]:
        """Parts of the results, so many that they and their weights are small."""
        size, rows = self.module.in_features, self.entry.target[0].numel() // self.module.in_features
        step = max(1, min(PART // size, max(PART // (4 * rows), 64)))
        count = self.module.out_features
        return (slice(i, min(i + step, count)) for i in range(0, count, step))

    def parts(self, side: str) -> Iterator[tuple[At, LinearPart]]:
        x = self._rows(side).float()
        weight, bias = self.module.weight.detach(), self.module.bias
        for at in self.columns():
            part = weight[at]
            value, sums = LinearSums.of_rows(x, part)
            own = None if bias is None else bias.detach()[at].double()
            yield (at,), LinearPart(value, sums, Weights(part), own, lambda: self.operands)

    def cut(self, whole: torch.Tensor, at: At) -> torch.Tensor:
        return whole[..., at[0]].reshape(-1, at[0].stop - at[0].start)

    def put(self, whole: torch.Tensor, at: At, part: torch.Tensor) -> None:
        whole.view(-1, whole.shape[-1])[:, at[0]] = part

    def shape(self) -> tuple[int, ...]:
        return (*self.entry.target[0].shape[:-1], self.module.out_features)

    def _rows(self, side: str) -> torch.Tensor:
        return self.entry.at(side)[0].reshape(-1, self.module.in_features)

    @cached_property
    def operands(self) -> Operands:
        return Operands(self._rows("target"), self._rows("reference"))


@dataclass
class ConvolutionTwin(LayerTwin):
    """A convolution of images in float32, some rows of one image at a time."""

    @classmethod
    def of(cls, module: nn.Module | None, entry: Pair | None, out: Pair) -> ConvolutionTwin | None:
        if type(module) is not nn.Conv2d or entry is None or not _fits(module, entry, out, (32,)):
            return None
        plain = module.groups == 1 and module.padding_mode == "zeros" and isinstance(module.padding, tuple)
        if not plain or entry.target[0].dim() != 4 or not module.weight[0].numel() < LONGEST:
            return None
        found = cls(module, entry)
        return found if found.possible() and _most(module, entry, out) < LARGEST else None

    def possible(self) -> bool:
        m = self.module
        args = self.entry.target[0], m.weight.detach(), m.bias, m.stride, m.padding, m.dilation, False, (0, 0), 1
        return LinearSums.possible(args)

    def shape(self) -> tuple[int, ...]:
        x, m = self.entry.target[0], self.module
        sizes = (
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, p, d, k, s in zip(x.shape[2:], m.padding, m.dilation, m.kernel_size, m.stride, strict=True)
        )
        return (x.shape[0], m.out_channels, *sizes)

    def parts(self, side: str) -> Iterator[tuple[At, LinearPart]]:
        weight = self.module.weight.detach().flatten(1)
        weights, bias = Weights(weight), self.module.bias
        own = None if bias is None else bias.detach().double()[:, None]
        count, _, height, width = self.shape()
        step = max(1, 2 * PART // (weight.shape[1] * width))
        windows = LinearSums.windows(self.module)
        for image in range(count):
            seen = windows.of(self.entry.at(side)[0][image].numpy())
            both = Image(*(self.entry.at(each)[0][image] for each in ("target", "reference")))
            for row in range(0, height, step):
                at = slice(image, image + 1), slice(row, min(row + step, height))
                value, sums = map(torch.from_numpy, seen.times(weight.numpy(), row, at[1].stop))
                yield at, ConvolutionPart(value, sums, weights, own, self._operands(both, at[1]), self.module)

    def cut(self, whole: torch.Tensor, at: At) -> torch.Tensor:
        return whole[at[0], :, at[1]].reshape(whole.shape[1], -1)

    def put(self, whole: torch.Tensor, at: At, part: torch.Tensor) -> None:
        whole[at[0], :, at[1]] = part.reshape(1, whole.shape[1], -1, whole.shape[3])

    def _operands(self, image: Image, rows: slice) -> Callable[[], Operands]:
        """Of both sides, made once and only if they are asked for."""
        return cache(lambda: Images.of(image, self.module, rows))


def settled(value: np.ndarray, moved: np.ndarray, unit: float) -> tuple[np.ndarray, bool]:
    """Movements, and whether some are an estimate: of what could not be followed, that of the largest element."""
    if np.isfinite(moved).all():
        return moved, False
    lost = ~np.isfinite(moved) & np.isfinite(value)
    size = float(np.abs(value[np.isfinite(value)]).max(initial=0.0))
    return np.where(lost, 4 * unit * size, moved), bool(lost.any())


def _fits(module: Any, entry: Pair, out: Pair, bits: tuple[int, ...]) -> bool:
    """Whether a layer has one operand and one result, of its own type, and nothing else in its place."""
    if "forward" in vars(module) or len(entry.target) != 1 or len(out.target) != 1 or not entry.target[0].numel():
        return False
    fmt = TORCH_FORMATS.get(module.weight.dtype)
    tensors = [*entry.target, *entry.reference, *out.target, *module.parameters()]
    return fmt is not None and fmt.bits in bits and all(t.dtype == module.weight.dtype for t in tensors)


def _most(module: Any, entry: Pair, out: Pair) -> float:
    """The largest magnitude of all that it has to do with."""
    tensors = [*entry.target, *entry.reference, *out.target, *module.parameters()]
    found = max(max(-float(low), float(high)) for low, high in (t.detach().aminmax() for t in tensors if t.numel()))
    entry.rest()
    out.rest()
    return found


__all__ = ["ConvolutionTwin", "LayerTwin", "LinearTwin", "settled"]
