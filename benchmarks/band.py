"""Coverage of the probabilistic band (RND120) on simulated roundings: how many executions lie in it, and how far.

python benchmarks/band.py [--runs R] [--seed S] [--page PATH]

Each subject is a kernel whose element is cut out of a run; its band is that of the verdict. Executions are made by
other code: `executions.py` for matrix units, numpy's float16 and float32 one addition after the other, in the given
order and in random ones, and with roundings that fall at random (to either neighbour, by distance). `inside` counts
errors within the band, `largest` is the largest error in standard deviations (the band has six), `bound` the half
width of the rigorous bound in standard deviations.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import triton
import triton.language as tl
from executions import Unit, execute

from render.entry.execution import Entry
from render.entry.inputs import of_call
from render.result.margins import SIGMA
from render.trace.adjoint import contributions
from render.trace.element import slice_of


@triton.jit
def dotting(X, Y, Out, K: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, 16)
    acc = tl.zeros((16, 16), tl.float16)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        x, y = tl.load(X + i[:, None] * K + k[None, :]), tl.load(Y + k[:, None] * 16 + i[None, :])
        acc = tl.dot(x, y, acc, out_dtype=tl.float16)
    tl.store(Out + i[:, None] * 16 + i[None, :], acc)


def dotted(x, y):
    out = torch.empty(16, 16, dtype=torch.float16)
    dotting[(1,)](x, y, out, x.shape[1], 64)
    return out


@triton.jit
def summing(X, Out, K: tl.constexpr):
    tl.store(Out + tl.program_id(0), tl.sum(tl.load(X + tl.program_id(0) * K + tl.arange(0, K)), 0))


def summed(x):
    out = torch.empty(len(x), dtype=x.dtype)
    summing[(len(x),)](x, out, x.shape[1])
    return out


def in_two(x):
    """Sums of parts in one launch, the sum of those in another."""
    parts = torch.empty(16 * len(x), dtype=x.dtype)
    summing[(len(parts),)](x, parts, x.shape[1] // 16)
    return summed(parts.view(len(x), 16))


@dataclass(frozen=True)
class Subject:
    name: str
    call: Callable[..., torch.Tensor]
    device: str
    dtype: torch.dtype
    unit: Unit | None = None
    parts: int = 1


SUBJECTS = (
    Subject("dot, fp16 accumulator", dotted, "sm_80", torch.float16, Unit(8, 24, 10, nearest=True, emin=-14)),
    Subject("dot, fp16 accumulator", dotted, "sm_90", torch.float16, Unit(16, 25, 10, nearest=True, emin=-14)),
    Subject("sum", summed, "sm_80", torch.float16),
    Subject("sum", summed, "sm_80", torch.float32),
    Subject("sum of 16 sums, two launches", in_two, "sm_80", torch.float16, parts=16),
)
DRAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "positive": lambda rng, shape: rng.random(shape),
}
HEAD = ("kernel", "target", "format", "inputs", "K", "executions", "inside", "largest / sd", "bound / sd")


def rounded(x: np.ndarray, fmt: type, rng: np.random.Generator | None) -> np.ndarray:
    """To nearest, or to either neighbour with the chance that its distance gives."""
    near = x.astype(fmt).astype(np.float64)
    if rng is None:
        return near
    other = np.nextafter(near.astype(fmt), np.where(x > near, np.inf, -np.inf).astype(fmt)).astype(np.float64)
    gap = np.abs(other - near)
    chance = np.divide(np.abs(x - near), gap, out=np.zeros_like(gap), where=gap > 0)
    return np.where(rng.random(x.shape) < chance, other, near)


def added(terms: np.ndarray, fmt: type, rng: np.random.Generator | None) -> np.ndarray:
    """Sums over the last axis, one addition after the other."""
    total = terms[..., 0]
    for k in range(1, terms.shape[-1]):
        total = rounded(total + terms[..., k], fmt, rng)
    return total


def executed(
    subject: Subject, terms: np.ndarray, exponents: np.ndarray, rng: np.random.Generator, i: int
) -> np.ndarray:
    """Results of one execution: of number 0 in the given order, of odd numbers with random roundings."""
    order = np.arange(terms.shape[-1]) if i == 0 else rng.permutation(terms.shape[-1])
    terms, exponents = terms[..., order], exponents[..., order]
    if subject.unit is not None:
        return execute(terms, exponents, subject.unit)
    fmt, chance = (np.float16 if subject.dtype == torch.float16 else np.float32), rng if i % 2 else None
    parts = added(terms.reshape(*terms.shape[:-1], subject.parts, -1), fmt, chance)
    return added(parts, fmt, chance) if subject.parts > 1 else parts[..., 0]


def measured(subject: Subject, draw: str, k: int, runs: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    shapes = [(16, k), (k, 16)] if subject.unit is not None else [(16, k)]
    given = [torch.from_numpy(DRAWS[draw](rng, shape)).to(subject.dtype) for shape in shapes]
    entry = Entry(subject.call, of_call(subject.call, tuple(given), {}), subject.device)
    run = entry.run()
    name, inside, largest, hollow, count = run.outputs[0].name, 0, 0.0, 0.0, 0
    for e in range(16):
        one = contributions(slice_of(entry, run, name, [e, e] if subject.unit is not None else [e]))
        x = given[0][e].double().numpy()
        y = given[1][:, e].double().numpy() if len(given) > 1 else np.ones(k)
        exponents = sum(np.maximum(np.frexp(z)[1] - 1, -14) for z in (x, y))
        sd = one.band / SIGMA
        hollow = max(hollow, one.half / sd)
        for i in range(runs):
            off = abs(float(executed(subject, x * y, exponents, rng, i)) - float((x * y).sum()))
            inside, largest, count = inside + (off <= one.band), max(largest, off / sd), count + 1
    fmt = str(subject.dtype).removeprefix("torch.")
    return [subject.name, subject.device, fmt, draw, str(k), str(count), f"{100 * inside / count:.2f} %",
            f"{largest:.2f}", f"{hollow:.3g}"]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40, help="executions of each of 16 elements")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", metavar="PATH", help="write the table into this Markdown page")
    options = parser.parse_args()
    cells = [measured(s, d, k, options.runs, options.seed) for s in SUBJECTS for d in DRAWS for k in (64, 512, 4096)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in (HEAD, ["---"] * len(HEAD), *cells))
    print(table)
    if options.page:
        path = Path(options.page)
        before, _, rest = path.read_text(encoding="utf-8").partition("<!-- band -->\n")
        _, end, after = rest.partition("<!-- end band -->")
        path.write_text(f"{before}<!-- band -->\n{table}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
