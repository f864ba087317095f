"""What a comparison costs: `python benchmarks/network_cost.py [--width 768 --blocks 12 --length 256]`, one thread.

A decoder against itself with attention written out, so that every layer after the first differs and has to be judged.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

import torch

import render

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


def main() -> None:
    from tests.render.network.models import Decoder

    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("width", 128), ("blocks", 4), ("length", 128), ("vocabulary", 1000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--bounds", choices=("all", "asked"), default="all")
    told = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    heads = max(told.width // 64, 2)
    sides = [Decoder(told.vocabulary, told.width, heads, heads // 2, told.blocks, a).eval() for a in ("plain", "sdpa")]
    sides[0].load_state_dict(sides[1].state_dict())
    tokens = torch.randint(0, told.vocabulary, (1, told.length))
    with torch.no_grad():
        for side in sides:  # kernels are loaded, caches filled
            side(tokens)
        began = time.process_time()
        for side in sides:
            side(tokens)
        eager = (time.process_time() - began) / 2
    small = [Decoder(16, 16, 2, 1, 1, a).eval() for a in ("plain", "sdpa")]
    render.compare_models(*small, tokens[:, :4] % 16, bounds=told.bounds)  # modules are imported, kernels loaded
    began = time.process_time()
    verdict = render.compare_models(*sides, tokens, bounds=told.bounds)
    seconds = time.process_time() - began
    size = sum(p.numel() for p in sides[0].parameters()) / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    moved = sum(r.differing > 0 for r in verdict.leaves)
    print(f"{size:.1f} M parameters, {told.length} tokens, {moved} of {len(verdict.leaves)} borders differ")
    print(f"{verdict.label}: eager {eager:.2f} s, compared in {seconds:.1f} s, {seconds / eager:.0f} x, {peak:.1f} GB")


if __name__ == "__main__":
    main()
