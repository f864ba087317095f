"""The variance retention ratio against simulated sums: knees, error at the knee, and what it says past the knee.

    python benchmarks/companions/accumulators.py [--plot PATH]

Gaussian terms of 5 mantissa bits, as in the paper's setting; ratios are paired with the exact sums.
"""

from __future__ import annotations

import argparse

import numpy as np

from render.companions.accumulation import min_macc, safe_length, simulate_accumulator, vrr
from render.companions.widths import curves

M_P = 5


def terms(rows: int, n: int, seed: int = 0, positive: bool = False) -> np.ndarray:
    """Gaussian (or uniform in 0..1) terms rounded to M_P fraction bits."""
    g = np.random.default_rng(seed)
    x = g.random((rows, n)) if positive else g.standard_normal((rows, n))
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.rint(np.ldexp(fraction, M_P + 1)), exponent - M_P - 1)


def past_the_knee(m_acc: int = 5, rows: int = 2000) -> None:
    print(f"m_acc = {m_acc}: variance of the sums over that of the exact sums")
    print("     n  theorem 1  nearest  truncate  stochastic")
    for n in (192, 384, 768, 1536):
        x = terms(rows, n)
        found = [simulate_accumulator(m_acc, r, None, x).variance_ratio for r in ("nearest", "truncate", "stochastic")]
        print(f"{n:6} {vrr(m_acc, M_P, n):10.3f} {found[0]:8.3f} {found[1]:9.3f} {found[2]:11.3f}")


def at_the_knee(rows: int = 400) -> None:
    print("at the knee, to nearest: rms error over rms sum")
    for m in range(5, 10):
        n = safe_length(m, M_P)
        print(f"  {m} bits, n = {n:6}: {simulate_accumulator(m, 'nearest', None, terms(rows, n)).loss:.4f}")


def of_one_sign(rows: int = 15) -> None:
    print("terms in 0..1: first length with a median error of 10 % (knee of the formula beside it)")
    for m in (6, 8, 10):
        lengths = []
        for rounding in ("nearest", "truncate"):
            n = 16
            while True:
                found = simulate_accumulator(m, rounding, None, terms(rows, n, positive=True))
                if np.median(np.abs(found.sums / found.exact - 1)) > 0.1:
                    break
                n = round(n * 1.1)
            lengths.append(n)
        print(f"  {m} bits: nearest {lengths[0]}, truncate {lengths[1]}, knee {safe_length(m, M_P)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot")
    options = parser.parse_args()
    print("knees, no chunks:", [safe_length(m, M_P) for m in range(4, 18)])
    print("knees, chunks of 64:", [safe_length(m, M_P, chunk=64) for m in range(4, 18)])
    print("narrowest (none, 64):", {n: (min_macc(M_P, n), min_macc(M_P, n, chunk=64)) for n in (1024, 4096, 65536)})
    past_the_knee()
    at_the_knee()
    of_one_sign()
    if options.plot:
        curves(options.plot, M_P, (5, 6, 7, 8, 9, 10), 64)


if __name__ == "__main__":
    main()
