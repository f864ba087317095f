"""Eager against torch.compile on this CPU, function by function and module by module, in two compilations.

`python benchmarks/eager_inductor.py [--functions | --modules] [--page PATH]`. Every function is a leaf of one model, so
that all are compiled at once; what is flagged must be what is known to be inaccurate (`KNOWN`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import render

KNOWN = {"expm1": "exp(x) - 1", "erf": "Abramowitz and Stegun 7.1.26", "elu": "through expm1", "celu": "through expm1",
         "selu": "through expm1", "atanh": "a logarithm of a quotient"}  # fmt: skip
"""Lowerings of this version that lose digits (torch 2.13: pytorch issues 189803, 198183, 198133)."""
FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    **{n: getattr(torch, n) for n in (
        "exp", "exp2", "expm1", "log1p", "sin", "cos", "tan", "tanh", "sinh", "cosh", "asin", "atan", "asinh", "atanh",
        "erf", "erfc", "erfinv", "sigmoid", "abs", "neg", "square", "floor", "ceil", "round", "trunc", "sign", "frac",
    )},
    **{n: getattr(F, n) for n in (
        "relu", "relu6", "gelu", "silu", "mish", "elu", "celu", "selu", "softplus", "softsign", "hardswish",
        "hardsigmoid", "hardtanh", "leaky_relu", "logsigmoid", "tanhshrink", "softshrink", "hardshrink",
    )},
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"), "log": lambda x: torch.log(x.abs() + 1e-3),
    "log2": lambda x: torch.log2(x.abs() + 1e-3), "sqrt": lambda x: torch.sqrt(x.abs()),
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 1e-3), "reciprocal": lambda x: 1 / (x + 3),
    "pow": lambda x: x.abs() ** 1.5,
    "cube": lambda x: x**3, "atan2": lambda x: torch.atan2(x, x + 2), "softmax": lambda x: torch.softmax(x, -1),
    "log_softmax": lambda x: torch.log_softmax(x, -1), "logsumexp": lambda x: torch.logsumexp(x, -1),
    "sum": lambda x: x.sum(-1), "mean": lambda x: x.mean(-1), "var": lambda x: x.var(-1), "std": lambda x: x.std(-1),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=-1), "cumsum": lambda x: x.cumsum(-1),
    "amax": lambda x: x.amax(-1),
    "clamp": lambda x: x.clamp(-0.1, 0.2), "minimum": lambda x: torch.minimum(x, x.flip(-1)),
    "where": lambda x: torch.where(x > 0, x, 0.1 * x), "lerp": lambda x: torch.lerp(x, x.flip(-1), 0.3),
    "hypot": lambda x: torch.hypot(x, x + 1), "logaddexp": lambda x: torch.logaddexp(x, x.flip(-1)),
}  # fmt: skip


class Leaf(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Many(nn.Module):
    """Leaves side by side, on one input each."""

    def __init__(self, leaves: dict[str, nn.Module], chosen: dict[str, int]) -> None:
        super().__init__()
        self.leaves = nn.ModuleDict({name.replace(" ", "_"): leaf for name, leaf in leaves.items()})
        self.chosen = chosen

    def forward(self, *xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(leaf(xs[self.chosen.get(name, 0)]) for name, leaf in self.leaves.items())


def modules() -> tuple[Many, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    made: dict[str, nn.Module] = {
        "linear": nn.Linear(32, 48), "bilinear": Leaf(lambda x: x @ x.transpose(-1, -2)),
        "layer_norm": nn.LayerNorm(32), "rms_norm": nn.RMSNorm(32), "softmax": nn.Softmax(-1), "gelu": nn.GELU(),
        "silu": nn.SiLU(), "glu": nn.GLU(),
        "mlp": nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)), "dropout": nn.Dropout(),
        "conv1d": nn.Conv1d(4, 6, 3), "conv2d": nn.Conv2d(3, 8, 3, padding=1), "grouped": nn.Conv2d(4, 8, 3, groups=2),
        "transposed": nn.ConvTranspose2d(3, 4, 2), "batch_norm": nn.BatchNorm2d(3), "group_norm": nn.GroupNorm(2, 4),
        "instance_norm": nn.InstanceNorm2d(3), "max_pool": nn.MaxPool2d(2), "avg_pool": nn.AvgPool2d(2),
        "adaptive": nn.AdaptiveAvgPool2d(2), "upsample": nn.Upsample(scale_factor=2, mode="bilinear"),
        "pixel_shuffle": nn.PixelShuffle(2), "prelu": nn.PReLU(),
    }  # fmt: skip
    places = {1: "conv2d transposed batch_norm instance_norm max_pool avg_pool adaptive upsample",
              2: "grouped group_norm pixel_shuffle", 3: "conv1d"}  # fmt: skip
    chosen = {name: place for place, names in places.items() for name in names.split()}
    model = Many(made, chosen).eval()
    return model, (torch.randn(4, 6, 32), torch.randn(2, 3, 8, 8), torch.randn(2, 4, 8, 8), torch.randn(2, 4, 20))


def functions() -> tuple[Many, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    x = torch.cat([torch.randn(8, 64) * 0.3, torch.randn(8, 64) * 1e-6]).clamp(-0.95, 0.95)
    return Many({name: Leaf(f) for name, f in FUNCTIONS.items()}, {}), (x,)


def flagged(model: Many, inputs: tuple[torch.Tensor, ...]) -> dict[str, str]:
    """Leaves called a bug, with the sentence."""
    torch._dynamo.reset()
    verdict = render.compare_models(torch.compile(model), model, *inputs)
    wrong = {r.name: r.detail for r in verdict.leaves if r.label == "Type-II" and r.leaf}
    return {name.removeprefix("leaves."): text for name, text in wrong.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", action="store_true")
    parser.add_argument("--modules", action="store_true")
    parser.add_argument("--page", type=Path)
    told = parser.parse_args()
    lines = []
    for name, wanted, make in (("functions", told.functions, functions), ("modules", told.modules, modules)):
        if wanted or not (told.functions or told.modules):
            model, inputs = make()
            found = flagged(model, inputs)
            known = set(KNOWN) if name == "functions" else set()
            lines.append(
                f"{len(model.leaves)} {name}: {len(found)} flagged, {len(found.keys() - known)} of them not known"
            )
            lines += [f"- {leaf}: {text} ({KNOWN.get(leaf, 'not known')})" for leaf, text in found.items()]
    text = "\n".join(lines) + "\n"
    print(text)
    if told.page is not None:
        told.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
