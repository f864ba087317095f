"""Every operation that PyTorch's own tests know, attacked: error of references, bounds of host code, forward and back.

    pip install expecttest
    python -m benchmarks.torch_operations [reference|host] [--back] [--only NAME ...] [--samples N] [--seed N]

Operands are those of torch's tests (`op_db`). `reference`: they are moved by 2^-30 of themselves, and what torch makes
of that in float64 has to lie within the error beside the float64 value (`render.reference.shadow`); operations whose
error is estimated are left out. `host`: each gets a box, and what torch makes of the box's corners in the operands' own
type has to lie within the bounds (`render.interpreter.hosted`); results with a taint are left out. Nothing here knows
a rule. Prints how much was checked, what could not be, and the operations that left.
"""

from __future__ import annotations

import argparse
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

from render.interpreter.host import HostTracker
from render.interpreter.memory import Memory
from render.reference.local_error import Unit
from render.reference.shadow import ShadowMode

OFF = 2.0**-30
SECONDS = 30
UNIT = {torch.float32: 2.0**-23, torch.bfloat16: 2.0**-7}
WIDE = 0.05
CORNERS = 3
RANDOM = ("rand", "normal", "bernoulli", "multinomial", "dropout", "empty", "cauchy", "exponential", "geometric",
          "uniform", "rrelu", "fractional", "jiterator", "sparse", "nonzero_static")  # fmt: skip
"""Words in the names of operations that draw, leave memory as it is, or have no dense results."""


class TooLong(BaseException):
    """More than `SECONDS` for one operation: it is left out."""


@contextmanager
def limited() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def results(op: Any, given: Any, back: bool) -> list[torch.Tensor]:
    """What it returns, or the gradient of that with respect to its first operand."""
    first, args, kwargs = given
    if not back:
        return [x for x in tree_leaves(op(first, *args, **kwargs)) if isinstance(x, torch.Tensor)]
    leaf = first.detach().clone().requires_grad_()
    made = [x for x in tree_leaves(op(leaf, *args, **kwargs)) if isinstance(x, torch.Tensor) and x.requires_grad]
    if not made:
        return []
    torch.autograd.backward(made, [torch.full_like(x, 1.25) for x in made])
    return [leaf.grad]


def copied(x: Any) -> Any:
    return x.detach().clone() if isinstance(x, torch.Tensor) else x


def of_reference(op: Any, given: Any, back: bool, draw: np.random.Generator) -> tuple[int, int]:
    """(tensors checked, elements outside)."""
    mode = ShadowMode(Unit(native=False, inputs=OFF))
    with mode:
        found = results(op, tree_map(copied, given), back)
    if mode.estimated:
        return 0, 0
    known = [(mode.value(x), mode.error(x)) for x in found if x.is_floating_point()]
    checked = outside = 0
    for corner in range(CORNERS + 1):

        def moved(x: Any, corner: int = corner) -> Any:
            if x is torch.float32:
                return torch.float64
            if not isinstance(x, torch.Tensor) or x.dtype != torch.float32:
                return copied(x)
            signs = torch.from_numpy(np.asarray(draw.integers(-1, 2, tuple(x.shape))))
            return x.detach().double() * (1 + (OFF * signs if corner else 0.0))

        for (value, error), x in zip(
            known, (x for x in results(op, tree_map(moved, given), back) if x.is_floating_point()), strict=False
        ):
            if x.shape != value.shape:
                continue
            x = x.detach().double()
            inside = ((x - value).abs() <= error) | (x == value) | (x.isnan() & value.isnan()) | ~error.isfinite()
            checked, outside = checked + 1, outside + int((~inside).sum())
    return checked, outside


def of_host(op: Any, given: Any, back: bool, draw: np.random.Generator) -> tuple[int, int]:
    """(tensors checked, elements outside), of a narrow and of a wide box."""
    dtype = given[0].dtype
    checked = outside = 0
    for width in (UNIT[dtype], WIDE):
        memory, boxes = Memory(), {}

        def boxed(x: Any, width: float = width, boxes: dict[int, Any] = boxes) -> Any:
            if not isinstance(x, torch.Tensor) or x.dtype != dtype or not x.numel():
                return copied(x)
            x = x.detach().clone().contiguous()
            v = x.double().numpy()
            reach = width * np.abs(v) * draw.integers(0, 2, v.shape)
            lo, hi = (torch.from_numpy(np.asarray(v + s * reach)).to(dtype).double().numpy() for s in (-1, 1))
            boxes[id(x)] = x, np.minimum(lo, v), np.maximum(hi, v)
            return x

        made = tree_map(boxed, given)
        with HostTracker(memory):
            for x, lo, hi in boxes.values():
                memory.carry(x, lo, hi, frozenset())
            found = results(op, made, back)
        bounds = [memory.envelope(x) if x.numel() else None for x in found]
        for _ in range(CORNERS):

            def corner(x: Any, boxes: dict[int, Any] = boxes) -> Any:
                if id(x) not in boxes:
                    return copied(x)
                _, lo, hi = boxes[id(x)]
                chosen = np.asarray(np.where(draw.integers(0, 2, lo.shape) > 0, lo, hi))
                return torch.from_numpy(chosen).to(dtype).reshape(x.shape)

            for bound, x in zip(bounds, results(op, tree_map(corner, made), back), strict=False):
                if bound is None or bound.taints or x.is_complex() or bound.lo.shape != tuple(x.shape):
                    continue
                v = x.detach().double().numpy()
                checked, outside = checked + 1, outside + int(((v < bound.lo) | (v > bound.hi)).sum())
    return checked, outside


def attack(
    one: Callable[..., tuple[int, int]], dtypes: list[torch.dtype], back: bool, only: list[str], samples: int, seed: int
) -> tuple[int, dict[str, int], set[str]]:
    """(tensors checked, elements outside by operation, operations with operands that could not be taken)."""
    from torch.testing._internal.common_methods_invocations import op_db

    checked, left, refused = 0, {}, set()
    for op in op_db:
        if (
            any(word in op.name for word in RANDOM)
            or (back and not op.supports_autograd)
            or (only and op.name not in only)
        ):
            continue
        for dtype in (d for d in dtypes if d in op.dtypes):
            draw = np.random.default_rng(seed)
            torch.manual_seed(seed)
            try:
                with limited():
                    for sample in list(op.sample_inputs("cpu", dtype, requires_grad=False))[:samples]:
                        if not isinstance(sample.input, torch.Tensor):
                            continue
                        try:
                            found = one(op, (sample.input, sample.args, sample.kwargs), back, draw)
                        except Exception as error:  # an operation that does not take what it is given, or is refused
                            refused.add(f"{op.name} ({type(error).__name__})")
                            continue
                        checked += found[0]
                        if found[1]:
                            left[f"{op.name} {dtype}"] = left.get(f"{op.name} {dtype}", 0) + found[1]
            except TooLong:
                refused.add(op.name)
    return checked, left, refused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["reference", "host"], nargs="?", default="reference")
    parser.add_argument("--back", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args()
    torch.set_num_threads(1)
    with warnings.catch_warnings(action="ignore"):
        one, dtypes = (of_host, list(UNIT)) if told.what == "host" else (of_reference, [torch.float32])
        checked, left, refused = attack(one, dtypes, told.back, told.only, told.samples, told.seed)
    print(f"{checked} tensors checked")
    print(f"not taken, in part or whole: {', '.join(sorted(refused)) or 'none'}")
    for name, count in sorted(left.items()):
        print(f"outside: {count} elements of {name}")


if __name__ == "__main__":
    main()
