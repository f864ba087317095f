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
class LinearTwin:
    """W x + b of a linear layer that both sides have, evaluated at the target's operand."""

    module: nn.Linear
    entry: Pair
    sums: torch.Tensor | None = None
    columns: torch.Tensor | None = None
    lengths: torch.Tensor | None = None

    @classmethod
    def of(cls, module: nn.Module | None, entry: Pair | None, out: Pair) -> LinearTwin | None:
        """None where float32 does not hold the magnitudes."""
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
        if fmt is None or not 16 <= fmt.bits <= 32 or any(t.dtype != module.weight.dtype for t in tensors):
            return None
        if not 0 < module.in_features < LONGEST or not entry.target[0].numel():
            return None
        most = max(max(-float(low), float(high)) for low, high in (t.detach().aminmax() for t in tensors if t.numel()))
        return cls(module, entry) if most < LARGEST else None

    def exact(self, unit: float) -> tuple[torch.Tensor, torch.Tensor]:
        """(E, how far it moves where operand, weights and bias move by `unit` of themselves), float64 and float32."""
        given, w = self.entry.target[0], self.module.weight.detach()
        x, bias = given.reshape(-1, w.shape[1]), None if self.module.bias is None else self.module.bias.detach()
        wide, size = x.double(), x.float().abs()
        value, sums = torch.empty(len(x), len(w), dtype=torch.float64), torch.empty(len(x), len(w))
        self.columns, self.lengths = torch.empty(len(w), dtype=torch.float64), torch.empty(len(w), dtype=torch.float64)
        for at in self._parts():
            part = w[at].double()
            torch.mm(wide, part.t(), out=value[:, at])
            self.lengths[at] = torch.linalg.vector_norm(part, dim=-1)
            magnitudes = part.abs_().float()
            self.columns[at] = magnitudes.amax(-1).double()
            torch.mm(size, magnitudes.t(), out=sums[:, at])
        shape = (*given.shape[:-1], len(w))
        self.sums, moved = sums, sums * (2 * unit)
        if bias is not None:
            value += bias.double()
            moved.add_(bias.float().abs(), alpha=unit)
        return value.view(shape), moved.view(shape)

    def _parts(self) -> Iterator[slice]:
        """Rows of the weights, so many that their copies are small."""
        rows, step = self.module.out_features, max(1, PART // self.module.in_features)
        return (slice(i, i + step) for i in range(0, rows, step))

    def bounds(self, exact: np.ndarray, device: Any) -> Bounds | None:
        """What the target may make of the hull of both operands; None where its units read operands otherwise."""
        assert self.sums is not None and self.columns is not None
        size = self.module.in_features
        x, other = (t[0].reshape(-1, size).float() for t in (self.entry.target, self.entry.reference))
        apart = (other - x).abs_().mul_(UP)
        reach = self._reach(apart)
        rows = x.abs().add_(apart).amax(-1).mul_(UP).double().numpy()
        own = None if self.module.bias is None else self.module.bias.detach().double().numpy()
        mag = self.sums.add_(reach).numpy()
        known = LinearSums(exact.reshape(mag.shape), mag, reach.numpy(), rows, self.columns.numpy(), own, size)
        found, self.sums = known.bounds(self.module.weight.dtype, device), None
        return None if found is None else Bounds(*(end.reshape(exact.shape) for end in (found.lo, found.hi)))

    def _reach(self, apart: torch.Tensor) -> torch.Tensor:
        """|W| d, or |w_j| |d_i| by Cauchy and Schwarz where that is little beside what the sums may round."""
        assert self.sums is not None and self.lengths is not None
        lengths = (n * UP for n in (torch.linalg.vector_norm(apart.double(), dim=-1), self.lengths))
        above = torch.outer(*(n.float() for n in lengths)).mul_(UP)
        little = LITTLE * self.module.in_features * 2.0**-24
        if float(above.mean()) <= little * float(self.sums.mean()):
            return above
        w = self.module.weight.detach()
        for at in self._parts():
            torch.mm(apart, w[at].abs().float().t(), out=above[:, at])
        return above


def linear_twins(reference: Model, pairs: Mapping[Key, Pair], keys: Iterable[Key]) -> dict[Key, LinearTwin]:
    """Those results of twins that are one linear layer's."""
    theirs = reference.modules()
    made = {
        key: LinearTwin.of(theirs.get(pairs[key].other.name), pairs.get(key._replace(way="in")), pairs[key])
        for key in keys
    }
    return {key: twin for key, twin in made.items() if twin is not None}


__all__ = ["LinearTwin", "is_torchs", "linear_twins", "one_module", "twins"]
