"""Models whose two spellings have other modules of other names: fused projections, folded norms, plain functions."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

Case = tuple[nn.Module, nn.Module, torch.Tensor, dict[str, str]]


class Fused(nn.Module):
    """One layer makes queries, keys and values; `causal` is a fault."""

    def __init__(self, d: int = 16) -> None:
        super().__init__()
        self.qkv, self.out, self.causal = nn.Linear(d, 3 * d), nn.Linear(d, d), False

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))


class Split(nn.Module):
    """All layers are of one shape, which is that of `Fused.out` as well."""

    def __init__(self, d: int = 16) -> None:
        super().__init__()
        self.query, self.key, self.value, self.proj = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (2, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        return self.proj((torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2))


class Layers(nn.Module):
    """Residual attention, normed; two forms and their names."""

    def __init__(self, fused: bool, count: int = 2) -> None:
        super().__init__()
        made: Callable[[], nn.Module] = Fused if fused else Split
        attention, norms = (nn.ModuleList(f() for _ in range(count)) for f in (made, lambda: nn.LayerNorm(16)))
        names = ("attn", "ln") if fused else ("self_attention", "norms")
        setattr(self, names[0], attention)
        setattr(self, names[1], norms)
        self.both = names

    def forward(self, x):
        for attention, norm in zip(*(getattr(self, name) for name in self.both), strict=True):
            x = x + attention(norm(x))
        return x


def attention() -> Case:
    a, b = Layers(True).eval(), Layers(False).eval()
    with torch.no_grad():
        for one, two in zip(a.attn, b.self_attention, strict=True):
            for name in ("weight", "bias"):
                parts = getattr(one.qkv, name).chunk(3)
                for layer, part in zip((two.query, two.key, two.value), parts, strict=True):
                    getattr(layer, name).copy_(part)
            two.proj.load_state_dict(one.out.state_dict())
    b.norms.load_state_dict(a.ln.state_dict())
    match = {f"ln.{i}": f"norms.{i}" for i in range(2)} | {
        f"attn.{i}.out": f"self_attention.{i}.proj" for i in range(2)
    }
    return a, b, torch.randn(2, 5, 16), match


class Normed(nn.Module):
    def __init__(self, i: int, o: int) -> None:
        super().__init__()
        self.conv, self.bn, self.act = nn.Conv2d(i, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU()
        self.bn.running_mean.normal_(0, 0.1)
        self.bn.running_var.uniform_(0.5, 2)
        nn.init.normal_(self.bn.bias)

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


class Pictures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.same, self.fc = Normed(3, 6), Normed(6, 6), nn.Linear(6, 4)

    def forward(self, x):
        x = self.stem(x)
        return self.fc((x + self.same(x)).mean((2, 3)))


class Folded(nn.Module):
    """Norms in the convolutions, no modules beside these."""

    def __init__(self, model: Pictures) -> None:
        super().__init__()
        self.c0, self.c1 = (self._of(m) for m in (model.stem, model.same))
        self.classifier = nn.Linear(6, 4)
        self.classifier.load_state_dict(model.fc.state_dict())

    @staticmethod
    def _of(m: Normed) -> nn.Conv2d:
        return nn.utils.fusion.fuse_conv_bn_eval(m.conv.eval(), m.bn.eval())

    def forward(self, x):
        x = F.relu(self.c0(x))
        return self.classifier((x + F.relu(self.c1(x))).mean((2, 3)))


def folded() -> Case:
    a = Pictures().eval()
    return a, Folded(a).eval(), torch.randn(2, 3, 6, 6), {"stem.bn": "c0", "same.bn": "c1", "fc": "classifier"}


class Attributes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = nn.Linear(8, 12), nn.Linear(12, 8), nn.Linear(8, 5)

    def forward(self, x):
        return self.three(torch.tanh(self.two(F.elu(self.one(x)))))


def sequence() -> Case:
    a = Attributes().eval()
    b = nn.Sequential(nn.Linear(8, 12), nn.ELU(), nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 5)).eval()
    match = {"one": "0", "two": "2", "three": "4"}
    for mine, other in match.items():
        b.get_submodule(other).load_state_dict(a.get_submodule(mine).state_dict())
    return a, b, torch.randn(6, 8), match


CASES = {"attention": attention, "folded": folded, "sequence": sequence}
