r"""Modules that are one on both sides: what need be evaluated once only.

One class with equal settings, parameters and buffers computes one function whichever side calls it, so E of the target
is E of the reference. For a linear layer y = W x + b the bound of the target then costs no product of its own beyond
that of the radii: with d = max |x' - x_t| over the hull of both sides' operands,

    W x' + b in E -+ (|W| d),      sum |w x'| <= S + |W| d,      S = |W| |x_t|

E in float64, S and |W| d in float32, rounded up by 1 / (1 - gamma_(K+2)) (Higham, ASNA, sec. 3.1). What the target's
units may round is added by the dot rule (`PendingDot.given`), as if it had made these sums itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn

from render.interpreter.hosted.call import Bounds
from render.interpreter.hosted.products import LinearSums
from render.network.capture import Key, Model, Wrapped
from render.network.pairs import Pair
from render.reference.local_error import TORCH_FORMATS

LONGEST = 1 << 18
"""Sums of so many magnitudes are still bounded in float32."""
UP = 1.0 + 2.0**-22
"""Makes a rounding to float32 an upper bound."""
LITTLE = 2.0**-5
"""Of the bound of a sum's roundings: what a coarser bound of the operands' difference may add to it."""
PART = 1 << 20
"""Weights that are widened at once."""
TINY = 2.0**-54
"""What the root of `LONGEST` squares may lose where these underflow in float32, 2**-63 each."""
LARGEST = 2.0**60
"""Magnitudes up to here have products and sums that float32 holds."""


def is_torchs(module: nn.Module) -> bool:
    """One of torch's own modules, without others inside."""
    return type(module).__module__.startswith("torch.nn") and not any(True for _ in module.children())


def twins(target: Model, reference: Model, pairs: Mapping[Key, Pair], all_paired: bool) -> set[Key]:
    """Borders whose region is the code of one module on both sides: E of the target is E of the reference there.

    Leaves always; a container's own code only where every module that either side calls has its counterpart.
    """
    mine, theirs = target.modules(), reference.modules()
    known: dict[tuple[str, str], bool] = {}
    found = set()
    other = {p.key.name: p.other.name for p in pairs.values()}
    for key, pair in pairs.items():
        maker = pair.maker
        names = maker, other.get(maker, maker)
        a, b = mine.get(names[0]), theirs.get(names[1])
        leaf = key.way == "out" and key.name == maker and a is not None and not any(True for _ in a.children())
        if a is None or b is None or key.way == "state" or not (all_paired or leaf):
            continue
        if names not in known:
            known[names] = one_module(a, b)
        if known[names] and [t.dtype for t in pair.target] == [t.dtype for t in pair.reference]:
            found.add(key)
    return found


def one_module(a: nn.Module, b: nn.Module) -> bool:
    """Whether two modules, not counting those inside, are one code with equal settings, parameters and buffers."""
    if type(a) is not type(b) or type(a) is Wrapped or a.training or b.training:
        return False
    if any(m._forward_hooks or m._forward_pre_hooks for m in (a, b)):
        return False
    plain = [{k: v for k, v in vars(m).items() if not k.startswith("_")} for m in (a, b)]
    held = [[*m.parameters(recurse=False), *m.buffers(recurse=False)] for m in (a, b)]
    return plain[0].keys() == plain[1].keys() and len(held[0]) == len(held[1]) and all(
        _same_setting(v, plain[1][k]) for k, v in plain[0].items()
    ) and all(_same_setting(x, y) for x, y in zip(*held, strict=True))  # fmt: skip


def _same_setting(x: object, y: object) -> bool:
    """Equal numbers, words, tensors and tuples of these; of anything else, the same object."""
    if x is y:
        return not isinstance(x, (list, dict, set))
    if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
        return x.dtype == y.dtype and x.shape == y.shape and torch.equal(x, y)
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(_same_setting(a, b) for a, b in zip(x, y, strict=True))
    return type(x) is type(y) and isinstance(x, (int, float, str, torch.dtype)) and x == y


@dataclass
class LinearPart:
    """Some columns of W x + b in float64, and |W| |x| in float32."""

    twin: LinearTwin
    value: torch.Tensor
    sums: torch.Tensor
    weight: torch.Tensor
    magnitudes: torch.Tensor
    bias: torch.Tensor | None

    def of_other(self) -> torch.Tensor | None:
        """The same of the reference's operand: W x_t + W (x_r - x_t), the second product in float32.

        That product is off by K u |W| |x_r - x_t| (Higham, ASNA, sec. 3.1). None where this is not below u |W| |x_t|,
        half of what the layer moves by.
        """
        apart, size = self.twin.apart, self.magnitudes.shape[1]
        lengths = (torch.linalg.vector_norm(x, dim=-1) for x in (apart, self.magnitudes))
        if not bool((torch.outer(*lengths).mul_(size) <= self.sums).all()):
            return None
        return torch.mm(apart, self.weight.float().t()).double().add_(self.value)

    def moved(self, unit: float) -> torch.Tensor:
        """How far it moves where operand, weights and bias move by `unit` of themselves; float32."""
        found = self.sums * (2 * unit)
        return found if self.bias is None else found.add_(self.bias.abs().float(), alpha=unit)

    def bounds(self, device: Any) -> Bounds | None:
        """What the target may make of the hull of both operands; None where its units read operands otherwise."""
        apart, rows = self.twin.hull
        reach, size = self._reach(apart), self.magnitudes.shape[1]
        columns, own = self.magnitudes.amax(-1).double().numpy(), None if self.bias is None else self.bias.numpy()
        known = LinearSums(self.value.numpy(), (self.sums + reach).numpy(), reach.numpy(), rows, columns, own, size)
        found = known.bounds(self.twin.module.weight.dtype, device)
        return None if found is None else Bounds(*(end.reshape(reach.shape) for end in (found.lo, found.hi)))

    def _reach(self, apart: torch.Tensor) -> torch.Tensor:
        """|W| d, or |w_j| |d_i| by Cauchy and Schwarz where that is little beside what the sums may round."""
        size = self.magnitudes.shape[1]
        up = UP * (1.0 + size * 2.0**-24)  # a root of a sum of squares has half of the sum's error
        lengths = (torch.linalg.vector_norm(x, dim=-1).mul_(up).add_(TINY) for x in (apart, self.magnitudes))
        above = torch.outer(*lengths).mul_(UP)
        if float(above.mean()) <= LITTLE * size * 2.0**-24 * float(self.sums.mean()):
            return above
        return torch.mm(apart, self.magnitudes.t(), out=above)


@dataclass
class LinearTwin:
    """W x + b of a linear layer that both sides have, some columns at a time: what belongs to these stays in cache."""

    module: nn.Linear
    entry: Pair

    @classmethod
    def of(cls, module: nn.Module | None, entry: Pair | None, out: Pair) -> LinearTwin | None:
        """None where float32 does not hold the magnitudes, or torch may cut it."""
        if (
            type(module) is not nn.Linear
            or "forward" in vars(module)
            or entry is None
            or len(entry.target) != 1
            or len(out.target) != 1
        ):
            return None
        tensors = [*entry.target, *entry.reference, *out.target, *module.parameters()]
        fmt = TORCH_FORMATS.get(module.weight.dtype)
        if (
            not LinearSums.possible()
            or fmt is None
            or not 16 <= fmt.bits <= 32
            or any(t.dtype != module.weight.dtype for t in tensors)
        ):
            return None
        if not 0 < module.in_features < LONGEST or not entry.target[0].numel():
            return None
        most = max(max(-float(low), float(high)) for low, high in (t.detach().aminmax() for t in tensors if t.numel()))
        entry.rest()
        out.rest()
        return cls(module, entry) if most < LARGEST else None

    def columns(self) -> Iterator[slice]:
        """Parts of the results, so many that they and their weights are small."""
        size, rows = self.module.in_features, self.entry.target[0].numel() // self.module.in_features
        step = max(1, min(PART // size, max(PART // (4 * rows), 64)))
        count = self.module.out_features
        return (slice(i, min(i + step, count)) for i in range(0, count, step))

    def parts(self, side: str) -> Iterator[tuple[slice, LinearPart]]:
        """All columns, of one side's operand."""
        x = self._rows(side)
        wide, size = x.double(), x.float().abs()
        weight, bias = self.module.weight.detach(), self.module.bias
        for at in self.columns():
            part = weight[at]
            value, magnitudes = torch.mm(wide, part.double().t()), part.float().abs()
            sums, own = torch.mm(size, magnitudes.t()), None
            if bias is not None:
                own = bias.detach()[at].double()
                value += own
            yield at, LinearPart(self, value, sums, part, magnitudes, own)

    def exact(self, unit: float, side: str = "target") -> tuple[torch.Tensor, torch.Tensor]:
        """(E, how far it moves) of a side's operand, whole."""
        shape = (*self.entry.target[0].shape[:-1], self.module.out_features)
        value, moved = torch.empty(shape, dtype=torch.float64), torch.empty(shape)
        for at, part in self.parts(side):
            for whole, some in ((value, part.value), (moved, part.moved(unit))):
                whole.view(-1, shape[-1])[:, at] = some
        return value, moved

    def _rows(self, side: str) -> torch.Tensor:
        return self.entry.at(side)[0].reshape(-1, self.module.in_features)

    def let_go(self) -> None:
        """What was computed for the parts, as large as the operand."""
        for name in ("apart", "hull"):
            vars(self).pop(name, None)

    @cached_property
    def apart(self) -> torch.Tensor:
        """x_r - x_t in float32."""
        return self._rows("reference").float() - self._rows("target").float()

    @cached_property
    def hull(self) -> tuple[torch.Tensor, np.ndarray]:
        """|x' - x_t| over both operands, and the largest |x'| of each row; rounded up."""
        apart = self.apart.abs().mul_(UP)
        return apart, self._rows("target").abs().float().add_(apart).amax(-1).mul_(UP).double().numpy()


def linear_twins(reference: Model, pairs: Mapping[Key, Pair], keys: Iterable[Key]) -> dict[Key, LinearTwin]:
    """Those results of twins that are one linear layer's."""
    theirs = reference.modules()
    made = {
        key: LinearTwin.of(theirs.get(pairs[key].other.name), pairs.get(key._replace(way="in")), pairs[key])
        for key in keys
    }
    return {key: twin for key, twin in made.items() if twin is not None}


__all__ = ["LinearTwin", "is_torchs", "linear_twins", "one_module", "twins"]
