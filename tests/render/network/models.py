"""Small models of three families, in the variants in which people write them; `attention` says how it is computed."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, d: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(d))
        self.eps = eps

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype) * self.weight


class Rotary(nn.Module):
    def __init__(self, d: int, base: float = 10000.0, offset: int = 0) -> None:
        super().__init__()
        self.register_buffer("frequencies", base ** (-torch.arange(0, d, 2) / d), persistent=False)
        self.offset = offset

    def forward(self, x):
        angles = (torch.arange(x.shape[-2]) + self.offset)[:, None].float() * self.frequencies
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attend(q, k, v, attention: str, causal: bool, scale: float | None = None, diagonal: int = 0):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if attention == "sdpa":
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(diagonal) if causal else None
    if attention == "masked":
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale)
    scores = (torch.einsum("bhqd,bhkd->bhqk", q, k) if attention == "einsum" else q @ k.transpose(-1, -2)) * scale
    if seen is not None:
        scores = scores.masked_fill(~seen, float("-inf"))
    return torch.softmax(scores, -1) @ v


class Attention(nn.Module):
    def __init__(self, d: int, heads: int, groups: int, attention: str) -> None:
        super().__init__()
        self.size, self.heads, self.groups, self.attention = d // heads, heads, groups, attention
        self.q = nn.Linear(d, d, bias=False)
        self.k, self.v = (nn.Linear(d, groups * self.size, bias=False) for _ in range(2))
        self.o = nn.Linear(d, d, bias=False)
        self.rope = Rotary(self.size)
        self.scale: float | None = None
        self.diagonal = 0
        self.repeat = "interleave"
        self.cached = 0

    def split(self, x, n):
        return x.view(*x.shape[:-1], n, self.size).transpose(-2, -3)

    def forward(self, x):
        q, k, v = (
            self.split(self.q(x), self.heads),
            self.split(self.k(x), self.groups),
            self.split(self.v(x), self.groups),
        )
        q, k = self.rope(q), self.rope(k)
        times = self.heads // self.groups
        if self.repeat == "interleave":
            k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
        else:
            k, v = k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1)
        if self.cached:  # prefill, then the rest against the cache
            n = self.cached
            first = attend(q[..., :n, :], k[..., :n, :], v[..., :n, :], "plain", True, self.scale)
            rest = attend(q[..., n:, :], k, v, "plain", True, self.scale, n + self.diagonal)
            y = torch.cat([first, rest], -2)
        else:
            y = attend(q, k, v, self.attention, True, self.scale, self.diagonal)
        return self.o(y.transpose(-2, -3).reshape(x.shape))


class SwiGLU(nn.Module):
    def __init__(self, d: int, hidden: int) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(d, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, d, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class DecoderBlock(nn.Module):
    def __init__(self, d: int, heads: int, groups: int, attention: str) -> None:
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(d), RMSNorm(d)
        self.attn, self.mlp = Attention(d, heads, groups, attention), SwiGLU(d, 3 * d)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, vocabulary=128, d=64, heads=4, groups=2, blocks=2, attention="sdpa") -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, d)
        self.blocks = nn.ModuleList(DecoderBlock(d, heads, groups, attention) for _ in range(blocks))
        self.norm = RMSNorm(d)
        self.head = nn.Linear(d, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class EncoderBlock(nn.Module):
    def __init__(self, d: int, heads: int, attention: str) -> None:
        super().__init__()
        self.heads, self.attention = heads, attention
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mha = nn.MultiheadAttention(d, heads, batch_first=True) if attention == "mha" else None
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc1, self.act, self.fc2 = nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)

    def mixed(self, x):
        if self.mha is not None:
            return self.mha(x, x, x, need_weights=False)[0]
        q, k, v = (t.view(*x.shape[:2], self.heads, -1).transpose(1, 2) for t in self.qkv(x).split(x.shape[-1], -1))
        return self.proj(attend(q, k, v, self.attention, False).transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = x + self.mixed(self.norm1(x))
        return x + self.fc2(self.act(self.fc1(self.norm2(x))))


class Vit(nn.Module):
    def __init__(self, size=16, patch=4, d=48, heads=4, blocks=2, classes=10, attention="sdpa") -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, d, patch, patch)
        self.token = nn.Parameter(0.1 * torch.randn(1, 1, d))
        self.position = nn.Parameter(0.1 * torch.randn(1, (size // patch) ** 2 + 1, d))
        self.blocks = nn.ModuleList(EncoderBlock(d, heads, attention) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, classes)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


class Basic(nn.Module):
    def __init__(self, i: int, o: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.relu = nn.ReLU(inplace=True)
        narrow = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))
        self.down = narrow if stride != 1 or i != o else None

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.down is None else self.down(x)))


class ResNet(nn.Module):
    """Shaped like ResNet-18, with fewer channels."""

    def __init__(self, width=8, classes=10) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        sizes = [(width, 1), (width, 1), (2 * width, 2), (2 * width, 1), (4 * width, 2), (4 * width, 1)]
        inputs = [width, *(o for o, _ in sizes)]
        self.layers = nn.Sequential(*(Basic(i, o, s) for i, (o, s) in zip(inputs, sizes, strict=False)))
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(4 * width, classes)
        for m in self.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.running_mean.normal_(0, 0.1)
                m.running_var.uniform_(0.5, 1.5)

    def forward(self, images):
        return self.fc(self.pool(self.layers(self.stem(images))).flatten(1))


class Trained(nn.Module):
    """A model with its loss."""

    def __init__(self, model: nn.Module, smoothing: float = 0.0) -> None:
        super().__init__()
        self.model, self.loss = model, nn.CrossEntropyLoss(label_smoothing=smoothing)

    def forward(self, x, target):
        y = self.model(x)
        return self.loss(y.reshape(-1, y.shape[-1]), target.reshape(-1))


def build(kind: str, attention: str = "sdpa", seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    made = {"decoder": lambda: Decoder(attention=attention), "vit": lambda: Vit(attention=attention), "resnet": ResNet}
    return made[kind]().eval()


def inputs(kind: str, batch: int = 2, seed: int = 1) -> torch.Tensor:
    torch.manual_seed(seed)
    if kind == "decoder":
        return torch.randint(0, 128, (batch, 12))
    return torch.randn(batch, 3, 16 if kind == "vit" else 32, 16 if kind == "vit" else 32)
