"""What loops, diverging programs and size cost: CPU time of interval runs over another run of the same work.

python benchmarks/loops.py [--case NAME ...] [--repeats N] [--json PATH|-]

Each case names both sides: the stock interpreter's plain run of the same launch, or an interval run of the same work in
another form (a plain grid, full attention, a smaller size), per unit of work.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
import triton
import triton.language as tl
from cases import CASES, attention_kernel, softmax, vector_add
from measure import alternate, interval_run, ratio, write_json
from rich.console import Console
from rich.table import Table
from stock import stock_interpreter


@triton.jit
def recurrence_kernel(x_ptr, out_ptr, n):
    total = 0.0
    for i in range(n):
        total = total * 0.5 + tl.load(x_ptr + i)
    tl.store(out_ptr, total)


def recurrence(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(1)
    recurrence_kernel[(1,)](x, out, x.numel())
    return out


@triton.jit
def triangle_kernel(x_ptr, out_ptr):
    pid = tl.program_id(0)
    total = 0.0
    i = 0
    while i < pid:
        total += tl.load(x_ptr + i)
        i += 1
    tl.store(out_ptr + pid, total)


def triangle(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    triangle_kernel[(x.numel(),)](x, out)
    return out


def one_head(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    out = torch.empty_like(q)
    n_ctx, d = q.shape
    sizes = {"D": d, "BLOCK_M": 64, "BLOCK_N": 64, "CAUSAL": causal}
    attention_kernel[(n_ctx // 64, 1)](q, k, v, out, d**-0.5, 0, n_ctx, **sizes)
    return out


def full_head(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return one_head(q, k, v, False)


def causal_head(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return one_head(q, k, v, True)


@triton.jit
def persistent_add_kernel(x_ptr, y_ptr, out_ptr, n, programs, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK), programs):
        offsets = tile * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask)
        y = tl.load(y_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, x + y, mask=mask)


def persistent_add(x: torch.Tensor, y: torch.Tensor, programs: int = 1) -> torch.Tensor:
    out = torch.empty_like(x)
    persistent_add_kernel[(programs,)](x, y, out, x.numel(), programs, BLOCK=1024)
    return out


@triton.jit
def persistent_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, programs,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(N, BLOCK_N)
    for tile in range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * columns, programs):
        offs_m = tile // columns * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = tile % columns * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            offs_k = k + tl.arange(0, BLOCK_K)
            a = tl.load(a_ptr + offs_m[:, None] * K + offs_k[None, :])
            b = tl.load(b_ptr + offs_k[:, None] * N + offs_n[None, :])
            acc = tl.dot(a, b, acc)
        tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


def persistent_matmul(a: torch.Tensor, b: torch.Tensor, programs: int = 1) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=torch.float16)
    persistent_matmul_kernel[(programs,)](a, b, c, m, n, k, programs, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32)
    return c


@dataclass(frozen=True)
class Pair:
    """`run` on inputs of `shapes` over `other`; `units`: by how much more work `run` does than `other` (a factor)."""

    name: str
    run: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    target: float
    other: Callable[..., torch.Tensor] | None = None
    units: float = 1.0
    dtype: torch.dtype = torch.float32
    other_shapes: tuple[tuple[int, ...], ...] | None = None

    def sides(self) -> dict[str, Callable[[], Any]]:
        inputs = _inputs(self.shapes, self.dtype)
        if self.other is None:

            def stock() -> None:
                with stock_interpreter():
                    self.run(*inputs)

            return {"run": lambda: interval_run(self.run, inputs), "other": stock}
        other, others = self.other, _inputs(self.other_shapes or self.shapes, self.dtype)
        return {"run": lambda: interval_run(self.run, inputs), "other": lambda: interval_run(other, others)}


def _inputs(shapes: tuple[tuple[int, ...], ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(shape, generator=generator).to(dtype) for shape in shapes)


_HEAD = ((4096, 64),) * 3
_SQUARE = ((512, 512),) * 2
PAIRS = {
    pair.name: pair
    for pair in (
        Pair("scalar loop of 100000 / stock", recurrence, ((100_000,),), 0.5),
        Pair("while i < program_id, 256 programs / stock", triangle, ((256,),), 0.5),
        Pair("causal attention, 1 head of 4096 / full, per pair", causal_head, _HEAD, 2.0, full_head, 65 / 128,
             torch.float16),
        Pair("persistent add, 1 program / grid", persistent_add, ((1 << 20,),) * 2, 2.0, vector_add),
        Pair("persistent matmul 512, 1 program / grid", persistent_matmul, _SQUARE, 2.0, CASES["matmul 512"].run, 1.0,
             torch.float16),
        Pair("vector add, 3e7 elements / 1e6, per element", vector_add, ((30_000_000,),) * 2, 1.15, vector_add, 30.0,
             other_shapes=((1_000_000,),) * 2),
        Pair("softmax, 3e7 elements / 1e6, per element", softmax, ((30_000, 1000),), 1.15, softmax, 30.0,
             other_shapes=((1000, 1000),)),
    )
}  # fmt: skip


def measure(pair: Pair, repeats: int) -> dict[str, Any]:
    first, samples = alternate(pair.sides(), repeats)
    found = ratio(samples, "run", "other") / pair.units
    return {"case": pair.name, "target": pair.target, "first_s": first, "samples_s": samples, "ratio": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=PAIRS, help="only this case; repeatable")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", metavar="PATH", help="also write the samples there, - for standard output")
    options = parser.parse_args()
    rows = [measure(PAIRS[name], options.repeats) for name in options.case or PAIRS]
    table = Table("case", "run s", "other s", "ratio", "target", title="CPU time of interval runs over another run")
    for row in rows:
        run, other = (median(row["samples_s"][key]) for key in ("run", "other"))
        table.add_row(row["case"], f"{run:.3f}", f"{other:.3f}", f"{row['ratio']:.2f}", f"{row['target']:g}")
    Console(stderr=options.json == "-", width=120).print(table)
    if options.json:
        write_json(options.json, rows)


if __name__ == "__main__":
    main()
