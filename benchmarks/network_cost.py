"""What a comparison costs: `python benchmarks/network_cost.py [--width 768 --blocks 12 --length 256]`, one thread.

A decoder against itself with attention written out, so that every layer after the first differs and has to be judged.
Processor time, the least of `--times` runs of each in turns: neighbours on a machine slow one down more than the other.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from pathlib import Path

for _name in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
):  # threads of numpy's products wait at full speed
    os.environ[_name] = "1"

import torch  # noqa: E402

import render  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


def run(sides: list[torch.nn.Module], tokens: torch.Tensor) -> float:
    """Seconds of one model."""
    began = time.process_time()
    with torch.no_grad():
        for side in sides:
            side(tokens)
    return (time.process_time() - began) / len(sides)


def main() -> None:
    from tests.render.network.models import Decoder

    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("width", 128), ("blocks", 4), ("length", 128), ("vocabulary", 1000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--bounds", choices=("all", "asked"), default="all")
    parser.add_argument("--times", type=int, default=1)
    told = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    heads = max(told.width // 64, 2)
    sides = [Decoder(told.vocabulary, told.width, heads, heads // 2, told.blocks, a).eval() for a in ("plain", "sdpa")]
    sides[0].load_state_dict(sides[1].state_dict())
    tokens = torch.randint(0, told.vocabulary, (1, told.length))
    small = [Decoder(16, 16, 2, 1, 1, a).eval() for a in ("plain", "sdpa")]
    render.compare_models(*small, tokens[:, :4] % 16, bounds=told.bounds)  # modules are imported, kernels loaded
    eager = seconds = float("inf")
    run(sides, tokens)
    for _ in range(told.times):
        eager = min(eager, run(sides, tokens))
        began = time.process_time()
        verdict = render.compare_models(*sides, tokens, bounds=told.bounds)
        seconds = min(seconds, time.process_time() - began)
        eager = min(eager, run(sides, tokens))
    size = sum(p.numel() for p in sides[0].parameters()) / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    moved = sum(r.differing > 0 for r in verdict.leaves)
    print(f"{size:.1f} M parameters, {told.length} tokens, {moved} of {len(verdict.leaves)} borders differ")
    print(f"{verdict.label}: eager {eager:.2f} s, compared in {seconds:.1f} s, {seconds / eager:.0f} x, {peak:.1f} GB")


if __name__ == "__main__":
    main()
