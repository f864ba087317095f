"""What a comparison costs: `python benchmarks/network_cost.py [--model decoder|vit|resnet]`, one thread.

    decoder  against itself with attention written out, so that every layer after the first differs and has to be judged
             (`--width 768 --blocks 12 --length 256`)
    vit      the same of a vision transformer of 22 M parameters on `--images` of 224 pixels
    resnet   ResNet-18's shape beside itself with its first convolution in two halves

Processor time, the least of `--times` runs of each in turns: neighbours on a machine slow one down more than the other.
"""

from __future__ import annotations

import argparse
import copy
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

for _name in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
):  # threads of numpy's products wait at full speed
    os.environ[_name] = "1"

import torch  # noqa: E402
from torch import nn  # noqa: E402

import render  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

Sides = tuple[list[nn.Module], torch.Tensor]


class Halves(nn.Conv2d):
    """A convolution of three channels as the sum of two."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = ((x[:, at], self.weight[:, at]) for at in (slice(0, 2), slice(2, 3)))
        first, second = (nn.functional.conv2d(*part, None, self.stride, self.padding) for part in parts)
        return first + second


def decoder(told: Any) -> Sides:
    from tests.render.network.models import Decoder

    heads = max(told.width // 64, 2)
    sides: list[nn.Module] = [
        Decoder(told.vocabulary, told.width, heads, heads // 2, told.blocks, a).eval() for a in ("plain", "sdpa")
    ]
    sides[0].load_state_dict(sides[1].state_dict())
    return sides, torch.randint(0, told.vocabulary, (1, told.length))


def vit(told: Any) -> Sides:
    from tests.render.network.models import Vit

    form = {"size": 224, "patch": 16, "d": 384, "heads": 6, "blocks": 12, "classes": 1000}
    sides: list[nn.Module] = [Vit(attention=a, **form).eval() for a in ("plain", "sdpa")]
    sides[0].load_state_dict(sides[1].state_dict())
    return sides, torch.randn(told.images, 3, 224, 224)


def resnet(told: Any) -> Sides:
    from tests.render.network.models import Basic, ResNet

    model = ResNet(64, 1000)
    model.layers.extend([Basic(256, 512, 2), Basic(512, 512, 1)])
    model.fc = nn.Linear(512, 1000)
    for m in model.layers[-2:].modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
    other = copy.deepcopy(model)
    halves = Halves(3, 64, 7, 2, 3, bias=False)
    halves.load_state_dict(other.stem[0].state_dict())
    other.stem[0] = halves
    return [other.eval(), model.eval()], torch.randn(told.images, 3, 224, 224)


MODELS = {"decoder": decoder, "vit": vit, "resnet": resnet}


def run(sides: list[nn.Module], given: torch.Tensor) -> float:
    """Seconds of one model."""
    began = time.process_time()
    with torch.no_grad():
        for side in sides:
            side(given)
    return (time.process_time() - began) / len(sides)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=tuple(MODELS), default="decoder")
    sizes = {"width": 128, "blocks": 4, "length": 128, "vocabulary": 1000, "images": 1, "times": 1}
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--bounds", choices=("all", "asked"), default="all")
    told = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sides, given = MODELS[told.model](told)
    eager = seconds = float("inf")
    render.compare_models(*_small(told), bounds=told.bounds)  # modules are imported, kernels loaded
    run(sides, given)
    for _ in range(told.times):
        eager = min(eager, run(sides, given))
        began = time.process_time()
        verdict = render.compare_models(*sides, given, bounds=told.bounds)
        seconds = min(seconds, time.process_time() - began)
        eager = min(eager, run(sides, given))
    size = sum(p.numel() for p in sides[0].parameters()) / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    moved = sum(r.differing > 0 for r in verdict.leaves)
    print(
        f"{told.model}: {size:.1f} M parameters, {tuple(given.shape)}, {moved} of {len(verdict.leaves)} borders differ"
    )
    print(f"{verdict.label}: eager {eager:.3f} s, compared in {seconds:.2f} s, {seconds / eager:.1f} x, {peak:.1f} GB")


def _small(told: Any) -> tuple[Any, ...]:
    """A model of the same kind whose size costs nothing."""
    if told.model == "decoder":
        small = argparse.Namespace(**vars(told) | {"width": 16, "blocks": 1, "length": 4, "vocabulary": 16})
        sides, given = decoder(small)
        return (*sides, given)
    from tests.render.network.models import build, inputs

    second = "plain" if told.model == "vit" else "sdpa"
    return build(told.model), build(told.model, second), inputs(told.model)


if __name__ == "__main__":
    main()
