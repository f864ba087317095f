"""Sums, prefix sums and atomic sums: their bounds against the worst order that a search finds.

    python benchmarks/sum_orders.py [--k K ...] [--page docs/tightness.md]

`any`: the greedy search of `greedy.py` (any order, any grouping), for few numbers also that of `grouping.py`.
`tree`: a search over balanced trees: level by level each number gets the partner, among many, whose addition errs most
in the wanted direction. Every addition is evaluated exactly and rounded once. "magnitudes" is the bound by the sum of
magnitudes alone, ((1 + u)^d - 1) sum |x|, d the additions that a term passes at most (Higham 4.2): what stood here
before sums were charged at the size of their partial sums.
"aim" is what ours may be at most, in worst errors found.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import grouping
import numpy as np
from greedy import add, errors
from tightness import between, markdown

from interval_ops.compiled import compiled
from interval_ops.formats.casting import round_value
from interval_ops.formats.model import FORMATS, Format
from interval_ops.profiles.profile import Profile, load_profile
from interval_ops.reduction import atomics, rule, scan

SEARCHED = 96
"""Partners that are tried for each number."""
RESTARTS = 6
GROUPED = 256
"""Numbers for which the groups of the plateau are searched as a whole."""
AIMS = {"any": 8.0, "tree": 4.0}
PROFILE = load_profile("sm_90")
NAMES = ("what", "format", "order", "inputs", "K", "magnitudes", "half-width", "worst found", "ratio before", "ratio",
         "aim", "outside")  # fmt: skip


def _normal(rng: np.random.Generator, k: int) -> np.ndarray:
    return rng.standard_normal(k)


def _positive(rng: np.random.Generator, k: int) -> np.ndarray:
    return rng.random(k)


def _cancelling(rng: np.random.Generator, k: int) -> np.ndarray:
    """Numbers over eight binades, each with one of the other sign that is nearly as large."""
    x = rng.standard_normal(k // 2) * np.exp2(rng.integers(-4, 4, k // 2))
    return np.concatenate([x, -x * (1 + 2.0**-10 * rng.random(k // 2))])


INPUTS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": _normal, "positive": _positive, "cancelling": _cancelling,
}  # fmt: skip


@compiled
def tree(x, up, bits, draws):  # type: ignore[no-untyped-def]
    """A balanced tree of additions whose errors go one way; `draws` numbers in [0, 1), SEARCHED per addition."""
    values, at = x.copy(), 0
    while values.size > 1:
        n = values.size
        out = np.empty(n // 2)
        for i in range(n // 2):
            left = values[n - 1 - 2 * i]
            rest = n - 1 - 2 * i
            best, place = -math.inf, 0
            for j in range(min(rest, SEARCHED)):
                k = int(draws[at % draws.size] * rest) if rest > SEARCHED else j
                at += 1
                e = up * ((add(left, values[k], bits) - left) - values[k])
                if (values[k] > 0.0) == (left > 0.0):
                    e += 2.0 * abs(left)  # of one sign, as long as there are some: partial sums stay large
                if e > best:
                    best, place = e, k
            out[i] = add(left, values[place], bits)
            values[place] = values[rest - 1]
        values = out
    return values[0]


def worst_tree(x: np.ndarray, bits: int, rng: np.random.Generator) -> tuple[float, list[float]]:
    """(largest error of the trees that the search found, their results)."""
    found = []
    for k in range(RESTARTS):
        order = x[np.argsort(x if k else np.abs(x))] if k < 2 else x[rng.permutation(len(x))]
        found += [tree(order, up, bits, rng.random(1 << 17)) for up in (1.0, -1.0)]
    return max(abs(math.fsum((r, *(-x).tolist()))) for r in found), found


@dataclass(frozen=True)
class Bounded:
    what: str
    order: str
    low: float
    high: float


def bounds(x: np.ndarray, fmt: Format, profile: Profile) -> Iterator[Bounded]:
    """Ends of the sum by each rule."""
    n, pair = len(x), (x[None], x[None])
    for order in AIMS:
        lo, hi = rule.sum_axis(pair, 1, (1, n), fmt, profile.chosen(order))
        yield Bounded("tl.sum", order, float(lo[0]), float(hi[0]))
    lo, hi = scan.cumsum(pair, 1, False, fmt, profile)
    yield Bounded("last of tl.cumsum", "any", float(lo[0, -1]), float(hi[0, -1]))
    zero, total, size = np.zeros(1), np.array([math.fsum(x)]), np.array([np.abs(x).sum()])
    lo, hi = atomics.close_sum(zero, total, total, size, np.array([n]), fmt, profile)
    yield Bounded("tl.atomic_add", "any", float(lo[0]), float(hi[0]))


def rows(sizes: list[int]) -> Iterator[list[str]]:
    for name in ("fp32", "fp16", "bf16"):
        fmt = FORMATS[name]
        u = rule.rounding_unit(fmt)
        for inputs, make in INPUTS.items():
            for k in sizes:
                rng = np.random.default_rng(k)
                x = round_value(make(rng, k), fmt).astype(np.float64)
                true, size = math.fsum(x), float(np.abs(x).sum())
                trees, results = worst_tree(x, fmt.p, rng)
                below, above = errors(x, fmt.p, grouping.executions(x, fmt.p) if k <= GROUPED else ())
                for b in bounds(x, fmt, PROFILE):
                    known = b.order == "tree"
                    worst = trees if known else max(below, above)
                    ends = results if known else [true - below, true + above]
                    depth = math.log2(k) if known else k - 1
                    before = size * math.expm1(depth * math.log1p(u))
                    half, slack = (b.high - b.low) / 2, 2.0**-45 * size
                    outside = sum(not b.low - slack <= r <= b.high + slack for r in ends)
                    numbers = (before, half, worst, before / worst, half / worst)
                    yield [b.what, name, b.order, inputs, str(k), *(f"{v:.3g}" for v in numbers),
                           f"{AIMS[b.order]:g}", str(outside)]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--k", type=int, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--page", metavar="PATH", help="write the table into this Markdown page")
    options = parser.parse_args()
    table = markdown(NAMES, list(rows(options.k)))
    print(table)
    if options.page:
        between(options.page, "sums", table)


if __name__ == "__main__":
    main()
