"""Widths of whole models on boxes of inputs, against interval bound propagation in float32 (as auto_LiRPA's IBP).

`python benchmarks/network_ibp.py`. IBP propagates centres and radii of a layer, W c and |W| r, or the ends of a
monotone function, and rounds to nearest in float32: its intervals are not sound, and the second figure counts how many
values of points of the box, in float64, lie outside at a radius of zero. Ours hold every rounding of the target too, so
that widths are compared where the box is what matters.
"""

from __future__ import annotations

import torch
from torch import nn

from render.interpreter.session import Session

Ends = tuple[torch.Tensor, torch.Tensor]


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


def compared(model: nn.Module, x: torch.Tensor, radius: float) -> tuple[float, float, int, int, int]:
    """(median and largest of ours / IBP in width; of how many exact values how many are outside IBP, and ours)."""
    ends = (x - radius, x + radius)
    theirs = ends
    with torch.no_grad():
        for layer in model:
            theirs = propagated(layer, theirs)
    mine = ours(model, ends)
    wide = [(hi.double() - lo.double()) for lo, hi in (mine, theirs)]
    ratio = wide[0] / wide[1].clamp(min=1e-300)
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
    return float(ratio.median()), float(ratio.max()), outside, kept, total


def main() -> None:
    print("| model | radius | width, ours / IBP: median, largest | exact values outside IBP | outside ours |")
    print("|---|---|---|---|---|")
    for name, (model, x) in models().items():
        for radius in (0.0, 1e-6, 1e-4, 1e-2, 1e-1):
            middle, most, outside, kept, total = compared(model, x, radius)
            width = f"{middle:.3g}, {most:.3g}" if radius else "no width"
            print(f"| {name} | {radius:g} | {width} | {outside} of {total} | {kept} |")


if __name__ == "__main__":
    main()
