"""Widths of whole models on boxes of inputs, against interval bound propagation in float32 (as auto_LiRPA's IBP).

`python benchmarks/network_ibp.py`. IBP propagates centres and radii of a layer, W c and |W| r, or the ends of a
monotone function, and rounds to nearest in float32: its intervals are not sound, and a figure counts how many values of
points of the box, in float64, lie outside. Ours hold every rounding of the target too. Beside it stands IBP made sound
in the same sense: centres and radii in float64, each layer widened by what float32 may round in it, gamma_n of the sum
of magnitudes (Higham, ASNA, sec. 3.1) or the function's error in the profile.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import nn

from interval_ops.profiles.profile import load_profile
from render.interpreter.session import Session

Ends = tuple[torch.Tensor, torch.Tensor]
U = 2.0**-24


def propagated(layer: nn.Module, ends: Ends) -> Ends:
    """One layer of IBP in float32: Gowal et al., On the effectiveness of interval bound propagation, eq. 6."""
    lo, hi = ends
    if isinstance(layer, (nn.Linear, nn.Conv2d)):
        centre, radius = (lo + hi) / 2, (hi - lo) / 2
        if isinstance(layer, nn.Linear):
            middle, reach = layer(centre), nn.functional.linear(radius, layer.weight.abs())
        else:
            middle = layer(centre)
            reach = nn.functional.conv2d(radius, layer.weight.abs(), None, layer.stride, layer.padding)
        return middle - reach, middle + reach
    return layer(lo), layer(hi)  # monotone: ReLU, sigmoid, tanh, pooling, flattening


def sound(layer: nn.Module, ends: Ends) -> Ends:
    """One layer of IBP in float64 that holds every execution in float32."""
    wide, (lo, hi) = copy.deepcopy(layer).double(), ends
    if isinstance(layer, (nn.Linear, nn.Conv2d)):
        bare = copy.deepcopy(wide)
        bare.weight.data.abs_()
        bare.bias.data.abs_()
        centre, radius = (lo + hi) / 2, (hi - lo) / 2
        size = bare(centre.abs() + radius)
        reach = size - bare(centre.abs())
        count = layer.weight[0].numel() + 1
        room = (count * U / (1 - count * U) + count * 2.0**-50) * size
        middle = wide(centre)
        return middle - reach - room, middle + reach + room
    low, high = wide(lo), wide(hi)
    name = type(layer).__name__.lower()
    if name not in ("tanh", "sigmoid"):
        return low, high
    error = load_profile("torch-cpu").fn(name, "fp32")
    return low - (error.r * low.abs() + error.a), high + (error.r * high.abs() + error.a)


def ours(model: nn.Module, ends: Ends) -> Ends:
    with torch.no_grad(), Session(device="torch-cpu") as session:
        x = (ends[0] + ends[1]) / 2
        session.memory.carry(x, ends[0].double().numpy(), ends[1].double().numpy(), frozenset(), None)
        y = model(x)
    found = session.envelope(y)
    assert found is not None
    return torch.from_numpy(found.lo), torch.from_numpy(found.hi)


def models() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.Tanh(), nn.Linear(64, 10))
    deep = nn.Sequential(*[m for _ in range(5) for m in (nn.Linear(48, 48), nn.Sigmoid())])
    conv = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.ReLU(),
                         nn.Flatten(), nn.Linear(288, 10))  # fmt: skip
    return {
        "MLP, ReLU and tanh": (mlp.eval(), torch.randn(8, 64)),
        "5 layers, sigmoid": (deep.eval(), torch.randn(8, 48)),
        "convolutions": (conv.eval(), torch.randn(4, 3, 16, 16)),
    }


class Compared(NamedTuple):
    """Widths of ours over those of both (median, largest); of how many exact values how many are outside of each."""

    plain: tuple[float, float]
    sound: tuple[float, float]
    outside: int
    kept: int
    total: int


def compared(model: nn.Module, x: torch.Tensor, radius: float) -> Compared:
    ends = (x - radius, x + radius)
    theirs, fair = ends, (ends[0].double(), ends[1].double())
    with torch.no_grad():
        for layer in model:
            theirs, fair = propagated(layer, theirs), sound(layer, fair)
    mine = ours(model, ends)
    wide = [(hi.double() - lo.double()).clamp(min=1e-300) for lo, hi in (mine, theirs, fair)]
    ratios = [wide[0] / w for w in wide[1:]]
    exact, outside, kept, total = model.double(), 0, 0, 0
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for _ in range(50):
            signs = torch.randint(0, 2, x.shape, generator=generator).bool()
            y = exact(torch.where(signs, ends[0], ends[1]).double())
            outside += int(((y < theirs[0].double()) | (y > theirs[1].double())).sum())
            kept += int(((y < mine[0]) | (y > mine[1])).sum())
            total += y.numel()
    model.float()
    plain, fairly = ((float(r.median()), float(r.max())) for r in ratios)
    return Compared(plain, fairly, outside, kept, total)


def main() -> None:
    print(
        "| model | radius | ours / IBP: median, largest | ours / sound IBP | exact values outside IBP | outside ours |"
    )
    print("|---|---|---|---|---|---|")
    for name, (model, x) in models().items():
        for radius in (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-2, 1e-1):
            found = compared(model, x, radius)
            plain = f"{found.plain[0]:.3g}, {found.plain[1]:.3g}" if radius else "no width"
            fair = f"{found.sound[0]:.3g}, {found.sound[1]:.3g}"
            print(f"| {name} | {radius:g} | {plain} | {fair} | {found.outside} of {found.total} | {found.kept} |")


if __name__ == "__main__":
    main()
