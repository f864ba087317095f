"""Faults that people make, planted in a copy of a correct model, with the module that they are in."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType

import torch
import torch.nn.functional as F
from torch import nn

from .models import RMSNorm, Trained, build, inputs


@dataclass(frozen=True)
class Bug:
    kind: str
    where: str
    plant: Callable[[nn.Module], None]
    trained: bool = False
    training: bool = False
    attention: str = "sdpa"

    def models(self) -> tuple[nn.Module, nn.Module, tuple[torch.Tensor, ...]]:
        """(with the fault, without it, inputs)."""
        right = build(self.kind, self.attention)
        given: tuple[torch.Tensor, ...] = (inputs(self.kind),)
        if self.trained:
            right = Trained(right).eval()
            torch.manual_seed(3)
            given = (*given, torch.randint(0, 10, (24 if self.kind == "decoder" else 2,)))
        wrong = copy.deepcopy(right)
        self.plant(wrong)
        if self.training:
            wrong.train(), right.train()
        return wrong, right, given


def with_forward(name: str, forward: Callable[..., torch.Tensor]) -> Callable[[nn.Module], None]:
    def plant(model: nn.Module) -> None:
        module = model.get_submodule(name)
        module.forward = MethodType(forward, module)

    return plant


def setting(name: str, attribute: str, value: object) -> Callable[[nn.Module], None]:
    return lambda model: setattr(model.get_submodule(name), attribute, value)


def parameter(name: str, attribute: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[nn.Module], None]:
    def plant(model: nn.Module) -> None:
        module = model.get_submodule(name)
        with torch.no_grad():
            setattr(module, attribute, nn.Parameter(change(getattr(module, attribute)).clone()))

    return plant


def without_bias(name: str) -> Callable[[nn.Module], None]:
    return lambda model: setattr(model.get_submodule(name), "bias", None)


def half_sums(self, x):
    """A product accumulated in float16."""
    a, w = x.half(), self.weight.half()
    total = torch.zeros(*x.shape[:-1], w.shape[0], dtype=torch.float16)
    for i in range(x.shape[-1]):
        total = total + a[..., i, None] * w[:, i]
    return total.to(x.dtype) + (0 if self.bias is None else self.bias)


def _frequencies(model: nn.Module) -> None:
    rope = model.blocks[1].attn.rope
    d = 2 * len(rope.frequencies)
    rope.frequencies = 500.0 ** (-torch.arange(0, d, 2) / d)


def _eval_norm(model: nn.Module) -> None:
    model.layers[2].bn1.train()


def _post_norm(self, x):
    x = self.norm1(x + self.attn(x))
    return x + self.mlp(self.norm2(x))


def _dropped(self, x):
    return self.fc2(self.act(self.fc1(self.norm2(x + self.mixed(self.norm1(x))))))


def _gate_swapped(self, x):
    return self.down(F.silu(self.up(x)) * self.gate(x))


BUGS = {
    "scale of attention": Bug("decoder", "blocks.1.attn", setting("blocks.1.attn", "scale", 1 / 16)),
    "mask off by one": Bug("decoder", "blocks.0.attn", setting("blocks.0.attn", "diagonal", 1), attention="masked"),
    "eps of a norm": Bug("decoder", "blocks.1.norm2", setting("blocks.1.norm2", "eps", 1e-6)),
    "transposed weight": Bug("decoder", "blocks.0.attn.o", parameter("blocks.0.attn.o", "weight", torch.t)),
    "float16 sums": Bug("decoder", "blocks.0.mlp.down", with_forward("blocks.0.mlp.down", half_sums)),
    "order of norms": Bug("decoder", "blocks.1", with_forward("blocks.1", _post_norm)),
    "base of rope": Bug("decoder", "blocks.1.attn.rope", _frequencies),
    "position of rope": Bug("decoder", "blocks.0.attn.rope", setting("blocks.0.attn.rope", "offset", 1)),
    "heads of the groups": Bug("decoder", "blocks.1.attn", setting("blocks.1.attn", "repeat", "repeat")),
    "gate and up": Bug("decoder", "blocks.0.mlp", with_forward("blocks.0.mlp", _gate_swapped)),
    "gain of a norm": Bug("decoder", "norm", parameter("norm", "weight", lambda w: w + 1)),
    "label smoothing": Bug("decoder", "loss", setting("loss", "label_smoothing", 0.01), trained=True),
    "missing bias": Bug("vit", "blocks.1.fc1", without_bias("blocks.1.fc1")),
    "dropped residual": Bug("vit", "blocks.0", with_forward("blocks.0", _dropped)),
    "other gelu": Bug("vit", "blocks.1.act", setting("blocks.1.act", "approximate", "tanh")),
    "eps of layer norm": Bug("vit", "blocks.0.norm1", setting("blocks.0.norm1", "eps", 1e-6)),
    "patches": Bug("vit", "patch", parameter("patch", "weight", lambda w: w.transpose(2, 3))),
    "class token": Bug("vit", "", parameter("", "token", lambda t: -t)),
    "statistics of a batch": Bug("resnet", "layers.2.bn1", _eval_norm),
    "momentum": Bug("resnet", "layers.1.bn2", setting("layers.1.bn2", "momentum", 0.01), training=True),
    "eps of batch norm": Bug("resnet", "layers.3.bn1", setting("layers.3.bn1", "eps", 1e-3)),
    "padding": Bug("resnet", "layers.0.conv1", setting("layers.0.conv1", "padding_mode", "reflect")),
    "pooling": Bug("resnet", "pool", with_forward("pool", lambda self, x: x.amax((2, 3), keepdim=True))),
}


def cached(model: nn.Module, n: int, diagonal: int = 0) -> nn.Module:
    """The decoder as it decodes against a cache of n tokens; `diagonal` 1: each token sees the next."""
    model = copy.deepcopy(model)
    for block in model.blocks:
        block.attn.cached = n
    model.blocks[1].attn.diagonal = diagonal
    return model


__all__ = ["BUGS", "Bug", "RMSNorm", "cached"]
