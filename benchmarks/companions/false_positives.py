"""How often the tests of Dual-Delta reject where there is nothing to find, at a nominal 5 %: a Markdown table.

    python benchmarks/companions/false_positives.py [--repeats 1000]

Pairs of one distribution (errors: normal, Gumbel, lognormal; correlated through a Gaussian copula), `tied`: half of the
pairs equal, and TOST for a ratio at its margin of 1.10. Standard error of 1000 repetitions at 5 %: 0.7 %.
"""

from __future__ import annotations

import argparse

import numpy as np

from render.companions.dual_delta.statistics import ALPHA, MARGIN, analysed, tost
from tests.render.companions.dual_delta.test_statistics import paired

TESTS = {"KS": "Kolmogorov-Smirnov", "sign": "sign", "paired Brown-Forsythe": "paired Brown-Forsythe"}
COLUMNS = ("Wilcoxon", *TESTS, "worse or better", "TOST at the margin")
CASES = [(kind, rho, n, False) for kind in ("normal", "gumbel", "lognormal") for rho in (0.0, 0.9) for n in (20, 200)]
CASES += [("lognormal", 0.5, 5, False), ("lognormal", 0.5, 200, True)]


def rates(kind: str, rho: float, n: int, tied: bool, repeats: int, seed: int = 1) -> dict[str, float]:
    """Share of the repetitions in which each test rejects at `ALPHA`."""
    g, count = np.random.default_rng(seed), dict.fromkeys(COLUMNS, 0)
    for _ in range(repeats):
        a, b = paired(kind, n, g, rho)
        at_margin = tost(a * MARGIN, b, MARGIN).p <= ALPHA
        if tied:
            a[: n // 2] = b[: n // 2]
        found = analysed(a, b)
        sides = [found.test(f"Wilcoxon, {side}").p for side in ("worse", "better")]
        count["Wilcoxon"] += 2 * min(sides) <= ALPHA
        for column, name in TESTS.items():
            count[column] += found.test(name).p <= ALPHA
        count["worse or better"] += found.outcome in ("worse", "better")
        count["TOST at the margin"] += at_margin
    return {name: c / repeats for name, c in count.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1000)
    repeats = parser.parse_args().repeats
    print(f"| errors, correlation, inputs | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}")
    for kind, rho, n, tied in CASES:
        found = rates(kind, rho, n, tied, repeats)
        name = f"{kind}, {rho:g}, {n}{', half of them tied' if tied else ''}"
        print(f"| {name} | {' | '.join(f'{100 * r:.1f} %' for r in found.values())} |", flush=True)


if __name__ == "__main__":
    main()
