"""Random host programs, attacked: operations with views, in place, `out=`, partial writes and shared buffers.

    python -m benchmarks.host_programs [--programs N] [--seed N] [--steps N] [--dtype float16 ...] [--width W ...]
    python -m benchmarks.host_programs --references [--programs N] [--seed N] [--steps N]

A program is a list of steps on a few matrices. It runs once with a box around each of its two inputs, which the host
code is followed from (`render.interpreter.host`), and again without anything of ours for corners of the boxes and
points in them: what torch makes of these has to lie within the bounds of every matrix. What has a taint is left out,
and what has no bounds has to be the same every time. `--references`: the programs are references, without steps that
jump; their inputs are moved by 2^-28 of themselves, and what torch makes of that in float64 has to lie within the error
beside the float64 value (`render.reference.shadow`), if that is no estimate. Nothing here knows a rule. Prints how much
was checked and the programs that left.
"""

from __future__ import annotations

import argparse
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from render.interpreter.host import HostTracker
from render.interpreter.memory import Memory
from render.reference.local_error import Unit
from render.reference.shadow import ShadowMode

N = 8
SCALES = (0.3, 1.0, 4.0, 1e-4, 60.0)
CORNERS = 4
POOL = 6
F = torch.nn.functional
Matrix = torch.Tensor
AT = torch.arange(N * N).reshape(N, N)
LOWER = torch.ones(N, N).tril() == 0

ONE: dict[str, Callable[[Matrix], Any]] = {
    **{
        name: getattr(torch, name)
        for name in (
            "neg",
            "abs",
            "floor",
            "ceil",
            "round",
            "trunc",
            "frac",
            "sign",
            "square",
            "relu",
            "exp",
            "sin",
            "cos",
            "tanh",
            "sigmoid",
            "expm1",
            "erf",
            "tril",
            "nan_to_num",
        )
    },
    **{name: getattr(F, name) for name in ("silu", "gelu", "softplus", "hardswish", "elu", "leaky_relu", "mish")},
    "sqrt": lambda x: x.abs().sqrt(),
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 0.5),
    "inverse": lambda x: 1 / (x.abs() + 0.5),
    "log1p": lambda x: x.abs().log1p(),
    "log2": lambda x: (x.abs() + 1).log2(),
    "clamp": lambda x: x.clamp(-1, 1),
    "at least": lambda x: x.clamp(min=0.5),
    "half": lambda x: x.half(),
    "bfloat16": lambda x: x.bfloat16(),
    "double": lambda x: x.double(),
    "integers": lambda x: (x * 4).round().int(),
    "positive": lambda x: (x > 0).float(),
    "scan": lambda x: x.cumsum(-1),
    "scan of columns": lambda x: x.cumsum(0),
    "products": lambda x: x.clamp(-1, 1).cumprod(-1),
    "sorted": lambda x: x.sort(-1)[0],
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(2, -1),
    "transposed": lambda x: x.t().contiguous(),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "logsumexp": lambda x: x - x.logsumexp(-1, keepdim=True),
    "sums": lambda x: x + x.sum(0, keepdim=True),
    "centred": lambda x: x - x.mean(-1, keepdim=True),
    "largest": lambda x: x - x.amax(-1, keepdim=True),
    "least": lambda x: x.amin(0, keepdim=True).repeat(N, 1),
    "product": lambda x: x.clamp(-1, 1).prod(-1, keepdim=True) * torch.ones_like(x),
    "norm": lambda x: x / x.norm(dim=-1, keepdim=True).clamp(min=1e-3),
    "standard": lambda x: (x - x.mean()) / (x.std() + 1e-2),
    "layer norm": lambda x: F.layer_norm(x, (N,)),
    "rms": lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5),
    "where": lambda x: x.argmax(-1)[:, None].expand_as(x).to(x.dtype),
    "topk": lambda x: x.topk(N // 2, -1)[0].repeat(1, 2),
    "diagonal": lambda x: x + x.diagonal().diag(),
    "cummax": lambda x: x.cummax(-1)[0],
    "median": lambda x: x - x.median(-1, keepdim=True)[0],
    "masked": lambda x: x.masked_fill(LOWER, -1.0),
    "padded": lambda x: F.pad(x, (1, 1))[:, 1:-1],
    "first row": lambda x: x[:1].expand(N, N).clone(),
    "rows": lambda x: x[torch.tensor([1, 1, 3, 0, 7, 6, 2, 2])],
    "gather": lambda x: x.gather(1, AT % 5),
    "unfold": lambda x: x.reshape(-1).unfold(0, N, N).clone(),
    "split": lambda x: torch.cat(x.split(3, 1)[::-1], 1),
    "chunks": lambda x: torch.cat([c * 2 for c in x.chunk(2)]),
    "stack": lambda x: torch.stack([x[:, 0], *x.unbind(1)[1:]], 1),
    "logcumsumexp": lambda x: x.logcumsumexp(-1),
    "quantised": lambda x: (x / 0.1).round().clamp(-128, 127) * 0.1,
    "third": lambda x: x / 3,
    "tenth": lambda x: x * 0.1,
    "more": lambda x: x + 0.1,
    "rest": lambda x: 1.3 - x,
    "cube": lambda x: x**3,
    "pool": lambda x: F.avg_pool2d(x[None], 3, 1, 1)[0],
    "conv": lambda x: F.conv1d(x[None], x[:, :3].reshape(N, 1, 3).expand(N, N, 3), padding=1)[0],
}
TWO: dict[str, Callable[[Matrix, Matrix], Any]] = {
    **{
        name: getattr(torch, name)
        for name in ("add", "sub", "mul", "maximum", "minimum", "atan2", "hypot", "copysign", "fmax", "logaddexp")
    },
    "div": lambda x, y: x / (y.abs() + 0.25),
    "fmod": lambda x, y: torch.fmod(x, y.abs() + 0.25),
    "remainder": lambda x, y: torch.remainder(x, y.abs() + 0.25),
    "floor of": lambda x, y: torch.div(x, y.abs() + 0.25, rounding_mode="floor"),
    "cut of": lambda x, y: torch.div(x, y.abs() + 0.25, rounding_mode="trunc"),
    "power": lambda x, y: (x.abs() + 0.1) ** y.clamp(-2, 2),
    "chosen": lambda x, y: torch.where(x > 0.1, x, y),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "addcmul": lambda x, y: torch.addcmul(x, y, y, value=-0.5),
    "addcdiv": lambda x, y: torch.addcdiv(x, y, y.abs() + 1, value=2),
    "mm": torch.mm,
    "addmm": lambda x, y: torch.addmm(x, x, y, beta=0.5, alpha=-1),
    "biased": lambda x, y: torch.addmm(x * 500, x, y),
    "bmm": lambda x, y: torch.bmm(x.reshape(2, 4, N), y.reshape(2, N, 4)).reshape(-1).repeat(2).reshape(N, N),
    "linear": lambda x, y: F.linear(x, y, x[0]),
    "outer": lambda x, y: torch.outer(x[0], y[:, 1]),
    "cat": lambda x, y: torch.cat([x[:3], y[3:]]),
    "equal": lambda x, y: (x == y).float(),
    "less": lambda x, y: (x < y).float(),
    "distances": lambda x, y: torch.cdist(x.float(), y.float()),
    "mse": lambda x, y: F.mse_loss(x, y) * torch.ones_like(x),
    "scatter_add": lambda x, y: x.scatter_add(1, AT % 3, y),
    "index_add": lambda x, y: x.index_add(0, torch.tensor([0, 1, 1, 2, 5, 5, 5, 7]), y),
    "index_put": lambda x, y: x.index_put((torch.tensor([0, 1, 4]),), y[:3], accumulate=True),
    "masked": lambda x, y: x.masked_fill(y > 0.5, 2.0),
    "attention": lambda x, y: F.scaled_dot_product_attention(x[None], y[None], x[None])[0],
}
VIEWS: list[Callable[[Matrix, int], Matrix]] = [
    lambda x, r: x[r % N],
    lambda x, r: x[:, r % N],
    lambda x, r: x[r % 4 : r % 4 + 4],
    lambda x, r: x[:, ::2],
    lambda x, r: x.t(),
    lambda x, r: x.view(-1)[r % N : 40],
    lambda x, r: x.diagonal(),
    lambda x, r: x[1:, 1:],
    lambda x, r: x.view(4, 16),
    lambda x, r: x[None],
]
IN_PLACE: list[Callable[[Matrix, Matrix], Any]] = [
    lambda t, y: t.mul_(y),
    lambda t, y: t.add_(y),
    lambda t, y: t.sub_(y, alpha=0.5),
    lambda t, y: t.div_(y.abs() + 0.5),
    lambda t, y: t.clamp_(-1.5, 1.5),
    lambda t, y: t.clamp_min_(0.1),
    lambda t, y: t.fill_(0.75),
    lambda t, y: t.zero_(),
    lambda t, y: t.copy_(y),
    lambda t, y: t.copy_(t.flip(0)),
    lambda t, y: t.addcmul_(t, y, value=0.3),
    lambda t, y: t.masked_fill_(t > 0.4, -0.5),
    lambda t, y: t.lerp_(y, 0.25),
    lambda t, y: t.abs_().sqrt_(),
    lambda t, y: t.pow_(2),
    lambda t, y: t.mul_(t),
    lambda t, y: t.add_(t, alpha=-0.5),
    lambda t, y: t.neg_(),
    lambda t, y: t.clamp_(max=3).exp_(),
    lambda t, y: t.tanh_(),
    lambda t, y: t.sigmoid_(),
    lambda t, y: t.floor_(),
]
OUT: list[Callable[[Matrix, Matrix, Matrix], Any]] = [
    lambda x, y, o: torch.mul(x, y, out=o),
    lambda x, y, o: torch.add(x, y, out=o),
    lambda x, y, o: torch.sub(y, x, out=o),
    lambda x, y, o: torch.div(x, y.abs() + 1, out=o),
    lambda x, y, o: torch.maximum(x, y, out=o),
    lambda x, y, o: torch.exp(x.clamp(max=3), out=o),
    lambda x, y, o: torch.tanh(x, out=o),
    lambda x, y, o: torch.cumsum(x, 1, out=o),
    lambda x, y, o: torch.clamp(x, -0.5, 0.5, out=o),
    lambda x, y, o: torch.where(x > 0, x, y, out=o),
    lambda x, y, o: torch.mul(x, x, out=o),
    lambda x, y, o: torch.mm(x.clone(), y.clone(), out=o),
    lambda x, y, o: torch.addmm(x.clone(), x.clone(), y.clone(), out=o),
    lambda x, y, o: torch.sort(x.clone(), 1, out=(o, torch.empty(N, N, dtype=torch.int64))),
]
WRITES: list[Callable[[Matrix, Matrix, int], Any]] = [
    lambda x, y, r: x[r % N].copy_(y[r // N % N]),
    lambda x, y, r: x[:, r % N].copy_(y[0]),
    lambda x, y, r: x[2:5, 1:4].copy_(y[:3, :3]),
    lambda x, y, r: x.__setitem__(x > 0.7, 0.5),
    lambda x, y, r: x.__setitem__(torch.tensor([0, 3]), y[:2]),
    lambda x, y, r: x.__setitem__((0, 0), 1.25),
    lambda x, y, r: x[::2].copy_(x[1::2].clone()),
    lambda x, y, r: x.__iadd__(y),
]
JUMPS = frozenset(["floor", "ceil", "round", "trunc", "frac", "sign", "half", "bfloat16", "double", "integers",
                   "positive", "where", "quantised", "copysign", "fmod", "remainder", "floor of", "cut of", "chosen",
                   "equal", "less", "masked", "atan2", "distances"])  # fmt: skip
"""Steps whose results jump, or have other types than the operands."""
OFF = 2.0**-28
KINDS = ("one", "one", "two", "two", "in place", "in place", "out", "view", "write", "buffer")


class Step(NamedTuple):
    kind: str
    one: str
    two: str
    x: int
    y: int
    r: int
    whole: bool


def program(draw: random.Random, steps: int, smooth: bool = False) -> list[Step]:
    """`smooth`: without jumps, and without writes in place, which may be decided by comparisons."""
    ones, twos = ([x for x in names if not smooth or x not in JUMPS] for names in (ONE, TWO))
    kinds = [x for x in KINDS if not smooth or x in ("one", "two", "view", "buffer")]
    return [
        Step(
            draw.choice(kinds), draw.choice(ones), draw.choice(twos), draw.randrange(1 << 30), draw.randrange(1 << 30),
            draw.randrange(1 << 30), draw.random() < 0.5,
        )
        for _ in range(draw.randrange(1, steps))
    ]  # fmt: skip


def _in_place(step: Step, x: Matrix, y: Matrix) -> None:
    """On the matrix or a view of it; the other operand shares no memory with it: torch leaves open what that gives."""
    target = (
        x if step.whole else VIEWS[step.r // 32 % len(VIEWS)](x.contiguous() if not x.is_contiguous() else x, step.r)
    )
    other = y.to(x.dtype).clone().reshape(-1)[: target.numel()].reshape(target.shape)
    IN_PLACE[step.r % len(IN_PLACE)](target, other)


def _made(step: Step, x: Matrix, y: Matrix) -> Matrix | None:
    """The step's result; None where it changes a matrix, or does not take these."""
    if step.kind == "one":
        return ONE[step.one](x)  # type: ignore[no-any-return]
    if step.kind == "two":
        return TWO[step.two](x, y.to(x.dtype))  # type: ignore[no-any-return]
    if step.kind == "view":
        view = VIEWS[step.r % len(VIEWS)](x.contiguous(), step.r)
        return view if view.shape == x.shape else view.reshape(-1).repeat(N * N)[: N * N].reshape(N, N)
    if step.kind == "buffer":
        found = torch.empty(N, N)
        found[:4].copy_(x[:4])
        found[4:] = y[4:]
        return found
    if not x.is_floating_point():
        return None
    if step.kind == "in place":
        _in_place(step, x, y)
    elif step.kind == "write":
        WRITES[step.r % len(WRITES)](x, y.to(x.dtype).clone(), step.r // 64)
    elif x.dtype == y.dtype:
        out = [x, y, torch.empty_like(x), x.clone()][step.r // 64 % 4]
        OUT[step.r % len(OUT)](x, y, out)
        return out
    return None


def run(pool: list[Matrix], steps: list[Step]) -> list[Matrix]:
    for step in steps:
        made = _made(step, pool[step.x % len(pool)], pool[step.y % len(pool)])
        if made is None or made.shape != (N, N):
            continue
        made = made.float() if made.dtype == torch.bool else made
        if len(pool) < POOL:
            pool.append(made)
        else:
            pool[step.r % POOL] = made
    return pool


def _inputs(draw: random.Random, spread: np.random.Generator, dtype: torch.dtype, width: float) -> Iterator[Any]:
    """(values, low ends, high ends)."""
    for _ in range(2):
        x = torch.from_numpy(spread.normal(size=(N, N)) * draw.choice(SCALES)).to(dtype)
        v = x.double().numpy()
        reach = width * np.abs(v) * spread.integers(0, 2, v.shape)
        lo, hi = (torch.from_numpy(v + side * reach).to(dtype).double().numpy() for side in (-1, 1))
        yield x, np.minimum(lo, v), np.maximum(hi, v)


def attacked(seed: int, steps: int, dtype: torch.dtype, width: float) -> tuple[int, list[str]] | None:
    """(matrices checked, what left) of one program; None if torch refuses it."""
    draw, spread = random.Random(seed), np.random.default_rng(seed)
    todo, boxes = program(draw, steps), list(_inputs(draw, spread, dtype, width))
    memory = Memory()
    try:
        with HostTracker(memory):
            for x, lo, hi in boxes:
                memory.carry(x, lo, hi, frozenset())
            pool = run([x for x, _, _ in boxes], todo)
    except (RuntimeError, IndexError):
        return None
    bounds, checked, left = [memory.envelope(x) for x in pool], 0, list[str]()
    for k in range(CORNERS):
        ends = [np.where(spread.integers(0, 2, lo.shape) > 0, lo, hi) if k else spread.uniform(lo, hi)
                for _, lo, hi in boxes]  # fmt: skip
        try:
            found = run([torch.from_numpy(end).to(dtype) for end in ends], todo)
        except (RuntimeError, IndexError):
            continue
        for n, (bound, x) in enumerate(zip(bounds, found, strict=True)):
            if bound is not None and bound.taints:
                continue
            v, first = x.double().numpy(), pool[n].double().numpy()
            lo, hi = (first, first) if bound is None else (bound.lo, bound.hi)
            outside = (v < lo) | (v > hi) | (np.isnan(v) & ~np.isnan(lo))
            checked += 1
            if outside.any():
                at = tuple(np.argwhere(outside)[0])
                left.append(f"program {seed}, matrix {n}: {v[at]} outside [{lo[at]}, {hi[at]}]")
    return checked, left


def attacked_reference(seed: int, steps: int) -> tuple[int, list[str]] | None:
    """(matrices checked, what left) of one program as a reference; None if torch refuses it or its error is a guess."""
    draw, spread = random.Random(seed), np.random.default_rng(seed)
    todo = program(draw, steps, smooth=True)
    given = [torch.from_numpy(spread.normal(size=(N, N)) * draw.choice(SCALES)).float() for _ in range(2)]
    mode = ShadowMode(Unit(native=False, inputs=OFF))
    try:
        with mode:
            pool = run([x.clone() for x in given], todo)
    except (RuntimeError, IndexError):
        return None
    if mode.estimated:
        return None
    checked, left = 0, list[str]()
    for k in range(CORNERS):
        ends = [x.double() * (1 + OFF * (k > 0) * torch.from_numpy(spread.integers(-1, 2, (N, N)))) for x in given]
        torch.set_default_dtype(torch.float64)
        try:
            found = run(ends, todo)
        except (RuntimeError, IndexError):
            continue
        finally:
            torch.set_default_dtype(torch.float32)
        for n, (x, y) in enumerate(zip(pool, found, strict=True)):
            value, error = mode.value(x), mode.error(x) * (1 + 1e-5) + 1e-13 * mode.value(x).abs()  # float64's own
            inside = ((y - value).abs() <= error) | (y == value) | (y.isnan() & value.isnan()) | ~error.isfinite()
            checked += 1
            if not inside.all():
                at = tuple(torch.argwhere(~inside)[0].tolist())
                left.append(f"program {seed}, matrix {n}: {y[at]} is not {value[at]} within {error[at]}")
    return checked, left


def told_of(title: str, found: list[tuple[int, list[str]] | None]) -> None:
    ran = [one for one in found if one is not None]
    print(f"{title}: {len(ran)} programs ran, {sum(n for n, _ in ran)} matrices checked")
    for line in (line for _, left in ran for line in left):
        print("  outside:", line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--dtype", nargs="*", default=["float32", "bfloat16", "float16", "float64"])
    parser.add_argument("--width", nargs="*", type=float, default=[0.002, 0.05])
    parser.add_argument("--references", action="store_true")
    told = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    seeds = range(told.seed, told.seed + told.programs)
    if told.references:
        told_of("references", [attacked_reference(seed, told.steps) for seed in seeds])
        return
    for dtype in told.dtype:
        for width in told.width:
            found = [attacked(seed, told.steps, getattr(torch, dtype), width) for seed in seeds]
            told_of(f"{dtype}, boxes of {width}", found)


if __name__ == "__main__":
    main()
