"""The Dual-Delta paper's tables with our own inputs, and its second case as a real Triton kernel.

    python benchmarks/companions/dual_delta.py [-n 1000] [--kernel 40]

Published (mean, sd with n): table 1, 128^3: 4.570838e-4, 6.079639e-6; table 2, K = 4096: GPU default 3.106403e-2,
5.460945e-3, CPU 4.768127e-4, 3.262880e-6; table 3, reduced precision off: 4.767338e-4, 3.124869e-6.
"""

from __future__ import annotations

import argparse
import resource
import time

import torch

import render
from render.companions.dual_delta import DualDelta
from tests.render.companions import products
from tests.render.companions.dual_delta.test_published import draw, exact, single, split_k


def used() -> float:
    """Processor time of this process and of the workers that have ended."""
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(r.ru_utime + r.ru_stime for r in found)


def told(name: str, found: DualDelta, began: float, cpu: float) -> None:
    print(f"{name}: {found.outcome}, {time.perf_counter() - began:.1f} s, {used() - cpu:.1f} CPU s with workers")
    for side, d in zip(found.names, (found.d1, found.d2), strict=True):
        print(f"  {side:12} mean {d.mean():.6e}  sd {d.std():.3e}")
    e = found.statistics.equivalence[0]
    print(f"  ratio {e.ratio:.7g}, TOST p = {e.p:.3g}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=1000)
    parser.add_argument("--kernel", type=int, default=40, help="inputs of the Triton kernel")
    options = parser.parse_args()
    cases = (
        ("tables 1, 128^3", single, torch.matmul, 128, options.n),
        ("tables 2 and 3, K = 4096", split_k, single, 4096, options.n),
        ("table 2 as a Triton kernel", products.split_half, single, 4096, options.kernel),
    )
    for name, f1, f2, k, n in cases:
        if not n:
            continue
        began, cpu = time.perf_counter(), used()
        told(name, render.dual_delta(f1, f2, exact, draw(k), n=n), began, cpu)


if __name__ == "__main__":
    main()
