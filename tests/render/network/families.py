"""Five further families of small models, each in two forms of one function, and faults that people make in them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn


class SelectiveScan(nn.Module):
    """A state-space layer: h = exp(dt A) h + dt B x, y = C h + D x; step by step, or all steps of a row in one sum."""

    def __init__(self, d: int = 16, states: int = 4, form: str = "steps") -> None:
        super().__init__()
        self.inner, self.form, self.states = nn.Linear(d, 2 * d), form, states
        self.dt, self.bc, self.out = nn.Linear(d, d), nn.Linear(d, 2 * states), nn.Linear(d, d)
        self.log_a = nn.Parameter(torch.log(1 + torch.arange(states).float()).repeat(d, 1))
        self.skip = nn.Parameter(torch.ones(d))
        self.sign = -1.0

    def forward(self, x):
        u, gate = self.inner(x).chunk(2, -1)
        dt = F.softplus(self.dt(u))
        b, c = self.bc(u).chunk(2, -1)
        a = self.sign * torch.exp(self.log_a)
        decay, drive = dt[..., None] * a, (dt * u)[..., None] * b[..., None, :]
        y = self.in_steps(decay, drive, c) if self.form == "steps" else self.in_rows(decay, drive, c)
        return self.out((y + u * self.skip) * F.silu(gate))

    def in_steps(self, decay, drive, c):
        h, ys = torch.zeros_like(drive[:, 0]), []
        for t in range(drive.shape[1]):
            h = torch.exp(decay[:, t]) * h + drive[:, t]
            ys.append((h * c[:, t, None]).sum(-1))
        return torch.stack(ys, 1)

    def in_rows(self, decay, drive, c):
        total = decay.cumsum(1)
        ys = []
        for t in range(drive.shape[1]):
            h = (torch.exp(total[:, t, None] - total[:, : t + 1]) * drive[:, : t + 1]).sum(1)
            ys.append(torch.einsum("bds,bs->bd", h, c[:, t]))
        return torch.stack(ys, 1)


class Ssm(nn.Module):
    def __init__(self, d: int = 16, form: str = "steps") -> None:
        super().__init__()
        self.embed, self.norm1, self.norm2 = nn.Linear(6, d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.scan1, self.scan2, self.head = SelectiveScan(d, form=form), SelectiveScan(d, form=form), nn.Linear(d, 5)

    def forward(self, x):
        x = self.embed(x)
        x = x + self.scan1(self.norm1(x))
        return self.head(x + self.scan2(self.norm2(x)))


class Experts(nn.Module):
    """Each token goes to its two best experts, by masks over all, or by gathering the tokens of each."""

    def __init__(self, d: int = 16, count: int = 4, form: str = "dense") -> None:
        super().__init__()
        self.router, self.form, self.best = nn.Linear(d, count, bias=False), form, 2
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d)) for _ in range(count)
        )
        self.normalised = True

    def forward(self, x):
        weights, chosen = torch.topk(torch.softmax(self.router(x), -1), self.best, -1)
        if self.normalised:
            weights = weights / weights.sum(-1, keepdim=True)
        flat, y = x.reshape(-1, x.shape[-1]), torch.zeros_like(x.reshape(-1, x.shape[-1]))
        weights, chosen = weights.reshape(-1, self.best), chosen.reshape(-1, self.best)
        for i, expert in enumerate(self.experts):
            if self.form == "dense":
                share = (weights * (chosen == i)).sum(-1, keepdim=True)
                y = y + share * expert(flat)
            else:
                rows, place = torch.where(chosen == i)
                y = y.index_add(0, rows, (weights[rows, place, None] * expert(flat[rows])).to(y.dtype))
        return y.reshape(x.shape)


class Moe(nn.Module):
    def __init__(self, d: int = 16, form: str = "dense") -> None:
        super().__init__()
        self.embed, self.norm, self.head = nn.Linear(6, d), nn.LayerNorm(d), nn.Linear(d, 5)
        self.moe = Experts(d, form=form)

    def forward(self, x):
        x = self.embed(x)
        return self.head(x + self.moe(self.norm(x)))


class Down(nn.Module):
    def __init__(self, a: int, b: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(a, b, 3, padding=1), nn.Conv2d(b, b, 3, padding=1)
        self.norm = nn.GroupNorm(4, b)

    def forward(self, x):
        return F.silu(self.conv2(F.silu(self.norm(self.conv1(x)))))


class Unet(nn.Module):
    def __init__(self, form: str = "interpolate") -> None:
        super().__init__()
        self.down1, self.down2, self.middle = Down(3, 8), Down(8, 16), Down(16, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.last1, self.last2, self.head = Down(24, 8), Down(16, 8), nn.Conv2d(8, 2, 1)
        self.form, self.mode = form, "bilinear"

    def larger(self, x):
        if self.form == "interpolate":
            return F.interpolate(x, scale_factor=2, mode=self.mode, align_corners=False)
        n = x.shape[-1]
        at = ((torch.arange(2 * n) + 0.5) / 2 - 0.5).clamp(min=0)
        low = at.floor().long()
        part, high = (at - low).to(x.dtype), (low + 1).clamp(max=n - 1)
        x = x[..., low] * (1 - part) + x[..., high] * part
        return x[..., low, :] * (1 - part)[:, None] + x[..., high, :] * part[:, None]

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.avg_pool2d(b, 2))
        d = self.last1(torch.cat([self.larger(c), self.up(c)], 1))
        return self.head(self.last2(torch.cat([self.larger(d), a], 1)))


class Cell(nn.Module):
    """A gated recurrent unit of its equations."""

    def __init__(self, given: nn.GRU) -> None:
        super().__init__()
        self.w, self.u = given.weight_ih_l0, given.weight_hh_l0
        self.b, self.c = given.bias_ih_l0, given.bias_hh_l0
        self.reset_after = True

    def forward(self, x):
        h, ys = torch.zeros(x.shape[0], self.u.shape[1], dtype=x.dtype), []
        for t in range(x.shape[1]):
            r, z, n = F.linear(x[:, t], self.w, self.b).chunk(3, -1)
            hr, hz, hn = F.linear(h, self.u, self.c).chunk(3, -1)
            r, z = torch.sigmoid(r + hr), torch.sigmoid(z + hz)
            new = torch.tanh(n + r * hn if self.reset_after else n + hn)
            h = (1 - z) * new + z * h
            ys.append(h)
        return torch.stack(ys, 1), h


class Gru(nn.Module):
    def __init__(self, form: str = "module") -> None:
        super().__init__()
        self.embed, self.norm, self.head = nn.Linear(6, 12), nn.LayerNorm(16), nn.Linear(16, 5)
        self.rnn: nn.Module = nn.GRU(12, 16, batch_first=True)
        if form != "module":
            self.rnn = Cell(self.rnn)  # type: ignore[arg-type]

    def forward(self, x):
        return self.head(self.norm(self.rnn(self.embed(x))[0]))


class Encoder(nn.Module):
    """Tokens with padding: attention over those that are there, a mean over them, a temperature."""

    def __init__(self, form: str = "module", d: int = 16, heads: int = 4) -> None:
        super().__init__()
        self.embed, self.norm1, self.norm2 = nn.Linear(6, d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.mha = nn.MultiheadAttention(d, heads, batch_first=True)
        self.fc1, self.fc2, self.head = nn.Linear(d, 3 * d), nn.Linear(3 * d, d), nn.Linear(d, 5)
        self.form, self.shift, self.counted = form, 0, True

    def attention(self, x, there):
        if self.form == "module":
            return self.mha(x, x, x, key_padding_mask=~there, need_weights=False)[0]
        q, k, v = F.linear(x, self.mha.in_proj_weight, self.mha.in_proj_bias).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (self.mha.num_heads, -1)).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~there[:, None, None], float("-inf"))
        y = (torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2)
        return F.linear(y, self.mha.out_proj.weight, self.mha.out_proj.bias)

    def forward(self, x):
        length = x.shape[1] - 2 - torch.arange(x.shape[0]) % 2
        there = torch.arange(x.shape[1])[None] < (length + self.shift)[:, None]
        x = self.embed(x)
        x = x + self.attention(self.norm1(x), there)
        x = x + self.fc2(F.gelu(self.fc1(self.norm2(x))))
        kept = (x * there[..., None].to(x.dtype)).sum(1)
        return self.head(kept / (there.sum(1, keepdim=True) if self.counted else x.shape[1]))


FORMS: dict[str, tuple[Callable[..., nn.Module], tuple[str, str]]] = {
    "ssm": (Ssm, ("steps", "rows")),
    "moe": (Moe, ("dense", "gathered")),
    "unet": (Unet, ("interpolate", "indices")),
    "gru": (Gru, ("module", "equations")),
    "encoder": (Encoder, ("module", "equations")),
}


def pair(kind: str) -> tuple[nn.Module, nn.Module]:
    """The two forms with the same parameters."""
    torch.manual_seed(11)
    make, forms = FORMS[kind]
    one = make(form=forms[0]).eval()
    other = copy.deepcopy(one)
    if kind == "gru":
        other.rnn = Cell(other.rnn)
    for m in other.modules():
        if hasattr(m, "form"):
            m.form = forms[1]
    return one, other


def given(kind: str, batch: int = 2) -> torch.Tensor:
    g = torch.Generator().manual_seed(13)
    return torch.randn(batch, 3, 16, 16, generator=g) if kind == "unet" else torch.randn(batch, 7, 6, generator=g)


def _set(name: str, attribute: str, value: object) -> Callable[[nn.Module], None]:
    return lambda model: setattr(model.get_submodule(name), attribute, value)


def _scaled(name: str, attribute: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[nn.Module], None]:
    def plant(model: nn.Module) -> None:
        with torch.no_grad():
            found = getattr(model.get_submodule(name), attribute)
            found.copy_(change(found.clone()))

    return plant


FAULTS: dict[str, tuple[str, str, str, Callable[[nn.Module], None]]] = {
    "skip of a scan": ("ssm", "rows", "scan2", _scaled("scan2", "skip", torch.zeros_like)),
    "growing states": ("ssm", "steps", "scan1", _set("scan1", "sign", -0.9)),
    "weights that do not sum to one": ("moe", "gathered", "moe", _set("moe", "normalised", False)),
    "one expert only": ("moe", "dense", "moe", _set("moe", "best", 1)),
    "an expert's bias": ("moe", "dense", "moe.experts.2.2", _scaled("moe.experts.2.2", "bias", torch.zeros_like)),
    "nearest for bilinear": ("unet", "interpolate", "", lambda m: m.__dict__.update(larger=_nearest)),
    "groups of a norm": ("unet", "indices", "down2.norm", _set("down2.norm", "num_groups", 2)),
    "reset before the product": ("gru", "equations", "rnn", _set("rnn", "reset_after", False)),
    "swapped gates": ("gru", "module", "rnn", _scaled("rnn", "weight_hh_l0", lambda w: w.roll(16, 0))),
    "padding that is seen": ("encoder", "equations", "", _set("", "shift", 1)),
    "mean over the padding": ("encoder", "module", "", _set("", "counted", False)),
}
"""(kind, form that has the fault, where it is, how it is planted)."""


def _nearest(x):
    return F.interpolate(x, scale_factor=2, mode="nearest")


def faulty(name: str, same: bool = True) -> tuple[nn.Module, nn.Module, str]:
    """(with the fault, right and of the same form or of the other, where)."""
    kind, form, where, plant = FAULTS[name]
    one, other = pair(kind)
    wrong, right = (one, other) if form == FORMS[kind][1][0] else (other, one)
    right = copy.deepcopy(wrong) if same else right
    plant(wrong)
    return wrong, right, where
