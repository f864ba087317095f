"""Table 1 of the VRR paper: predicted mantissa bits of accumulators, beside what the formula gives.

The paper states (normal, chunk 64) pairs per layer and GEMM. The lengths are an assumption of ours (batch 128 for
CIFAR, 256 for ImageNet): forward Cin k^2, backward Cout k^2, gradient B H W; sparsity is not published and
taken as none.
"""

from __future__ import annotations

from typing import NamedTuple

from render.companions.accumulation import min_macc

M_P = 5
"""Mantissa bits of products of (1, 5, 2) floats: 2 * 2 + 1."""
CHUNK = 64


class Published(NamedTuple):
    net: str
    gemm: str
    n: int
    normal: int
    chunk: int


_ROWS: dict[tuple[str, str], tuple[tuple[int, ...], tuple[tuple[int, int], ...]]] = {
    ("CIFAR-10 ResNet-32", "FWD"): ((27, 144, 288, 576), ((6, 5), (6, 5), (7, 5), (7, 5))),
    ("CIFAR-10 ResNet-32", "BWD"): ((144, 288, 576), ((6, 5), (7, 5), (8, 5))),
    ("CIFAR-10 ResNet-32", "GRAD"): (
        tuple(128 * s * s for s in (32, 32, 16, 8)), ((11, 8), (11, 8), (10, 6), (9, 6))),
    ("ResNet-18", "FWD"): ((147, 576, 1152, 2304, 4608), ((9, 6), (7, 5), (8, 5), (8, 5), (9, 6))),
    ("ResNet-18", "BWD"): ((576, 1152, 2304, 4608), ((8, 6), (9, 6), (9, 6), (10, 6))),
    ("ResNet-18", "GRAD"): (
        tuple(256 * s * s for s in (112, 56, 28, 14, 7)), ((15, 10), (15, 9), (12, 8), (10, 6), (9, 5))),
    ("AlexNet", "FWD"): ((363, 2400, 2304, 3456, 3456, 9216, 4096),
                         ((7, 5), (9, 5), (9, 5), (8, 5), (8, 5), (9, 6), (8, 5))),
    ("AlexNet", "BWD"): ((6400, 3456, 3456, 2304, 4096, 4096),
                         ((8, 5), (8, 5), (10, 8), (8, 5), (8, 5), (8, 5))),
    ("AlexNet", "GRAD"): (tuple(256 * s * s for s in (55, 27, 13, 13, 13, 1, 1)),
                          ((10, 7), (9, 6), (8, 6), (6, 5), (6, 5), (6, 5), (6, 5))),
}  # fmt: skip

TABLE = [
    Published(net, gemm, n, *pair)
    for (net, gemm), (lengths, pairs) in _ROWS.items()
    for n, pair in zip(lengths, pairs, strict=True)
]


def matches() -> dict[str, tuple[int, int, int]]:
    """Column -> (pairs, exactly as published, within one bit)."""
    found = {}
    for name, chunk in (("normal", None), ("chunk", CHUNK)):
        gaps = [abs(min_macc(M_P, row.n, chunk=chunk) - getattr(row, name)) for row in TABLE]
        found[name] = len(gaps), sum(g == 0 for g in gaps), sum(g <= 1 for g in gaps)
    return found


def main() -> None:
    for row in TABLE:
        ours = min_macc(M_P, row.n), min_macc(M_P, row.n, chunk=CHUNK)
        print(f"{row.net:20} {row.gemm:5} n={row.n:<8} published {row.normal, row.chunk}  formula {ours}")
    for name, (pairs, exact, near) in matches().items():
        print(f"{name}: {exact} of {pairs} exact, {near} within one bit")


if __name__ == "__main__":
    main()
