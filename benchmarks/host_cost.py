"""What following host code costs beside torch's own work, in CPU time.

Each piece of host code runs as it is, inside a mode of torch's that does nothing (what it costs to be told of each
operation at all), in the scope in which nothing is judged, and inside a tracker: with nothing known (before the first
launch), with inputs that a cast has rounded, and with a kernel's result among its operands. Run it against another
checkout by PYTHONPATH.

    python -m benchmarks.host_cost [ROWS COLUMNS]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from render.interpreter.host import HostTracker
from render.interpreter.memory import Memory
from render.interpreter.no_gpu import no_gpu

ROWS, COLUMNS = (int(n) for n in (sys.argv[1:3] if len(sys.argv) > 2 else ("16", "512")))
Code = Callable[[torch.Tensor], Any]


def pack_columns(x: torch.Tensor) -> torch.Tensor:
    """A packing loop: columns of a weight into another order."""
    out = torch.zeros_like(x)
    for j in range(x.shape[1]):
        out[:, j] = x[:, x.shape[1] - 1 - j]
    return out


def pack_bits(x: torch.Tensor) -> torch.Tensor:
    """Eight numbers of four bits into an integer, for each of many columns."""
    q = (x.reshape(-1) * 0).to(torch.int32).reshape(x.shape)
    out = torch.zeros(x.shape[0], x.shape[1] // 8, dtype=torch.int32)
    for j in range(x.shape[1] // 8):
        for i in range(8):
            out[:, j] |= (q[:, 8 * j + i] & 15) << (4 * i)
    return out


def reference_loop(x: torch.Tensor) -> torch.Tensor:
    """A recurrence over rows, as references of scans have it."""
    h = torch.zeros(x.shape[1])
    rows = []
    for i in range(x.shape[0]):
        h = torch.sigmoid(x[i]) * h + (x[i] * 0.5).exp()
        rows.append(h)
    return torch.stack(rows)


def tokens(x: torch.Tensor) -> int:
    """Plain Python."""
    words: dict[str, int] = {}
    for i in range(20_000):
        word = f"{i * 7919 % 1009:x}"
        words[word] = words.get(word, 0) + 1
    return len(words)


def views(x: torch.Tensor) -> int:
    """Shapes only."""
    return sum(x[i % 7 :].reshape(-1)[: i % 5].t().numel() for i in range(1000))


CODES: dict[str, Code] = {f.__name__: f for f in (pack_columns, pack_bits, reference_loop, tokens, views)}


class Told(TorchDispatchMode):
    """Nothing but being told."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def cpu(run: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def within(scope: Callable[[], Any], code: Code, x: torch.Tensor) -> float:
    with scope():
        return cpu(lambda: code(x))


def tracked(code: Code, kind: str) -> float:
    def run() -> None:
        memory = Memory()
        x = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))
        with HostTracker(memory):
            if kind == "rounded":
                x = x.half().float()
            if kind == "kernel":
                v = x.double().numpy()
                memory.carry(x, v - 1e-6, v + 1e-6, frozenset())
            start.append(time.process_time())
            code(x)
            start.append(time.process_time())

    start: list[float] = []
    for _ in range(3):  # the first one loads compiled loops
        run()
    return min(b - a for a, b in zip(start[::2], start[1::2], strict=True))


def main() -> None:
    kinds = ("told", "no_gpu", "before", "rounded", "kernel")
    print(f"{'host code':16s} {'alone s':>9s} {' '.join(f'{kind:>9s}' for kind in kinds)}   (times its own cost)")
    for name, code in CODES.items():
        x = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))
        alone = cpu(lambda code=code, x=x: code(x))  # type: ignore[misc]
        rest = [within(scope, code, x) / alone for scope in (Told, no_gpu)]
        rest += [tracked(code, kind) / alone for kind in ("plain", "rounded", "kernel")]
        print(f"{name:16s} {alone:9.4f} " + " ".join(f"{r:8.2f}x" for r in rest), flush=True)


if __name__ == "__main__":
    main()
