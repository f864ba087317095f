"""Logs of PyTorch's DebugMode as runs: every operation is a border, so that the first one beyond round-off has a name.

The log has to hold tensors: `DebugMode(store_original_args=True)` with `DebugMode.record_outputs()`. Each operation
is then carried out again from its own operands. Random numbers, allocations, and operations that write to operands
(what the log refers to was overwritten since) are no borders. A log with hashes alone says equal or unequal, no more.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from render.network.capture import Model, ModuleRun, leaves, ordered
from render.network.program import Event, Program, written
from render.reference.local_error import RANDOM, base_name
from render.result.errors import RenderError


def is_log(given: Any) -> bool:
    return hasattr(given, "operators") and hasattr(given, "store_original_args")


def of_log(log: Any) -> tuple[Model, ModuleRun]:
    """(the operations as a model, what they had in the run). RenderError for a log without tensors."""
    steps: list[Event] = [["in", "", []]]
    crossings: list[tuple[str, str, list[torch.Tensor]]] = [("", "in", [])]
    kept: dict[int, torch.Tensor] = {}
    counts: Counter[str] = Counter()
    alive: list[torch.Tensor] = []
    out: list[torch.Tensor] = []

    def number(t: torch.Tensor) -> int:
        alive.append(t)
        kept[len(alive) - 1] = t.detach().cpu().clone()
        return len(alive) - 1

    for call in _operations(log):
        if not call.record or "output" not in call.record or call.args is None:
            raise RenderError("RND902", "the log holds no tensors", "use DebugMode(store_original_args=True) and "
                              "DebugMode.record_outputs()")  # fmt: skip
        kind = base_name(call.op)
        name = f"{kind} {counts[kind]}"
        counts[kind] += 1
        given, out = leaves((call.args, call.kwargs or {})), leaves(call.record["output"])
        if not given or not out:
            continue
        args, kwargs = written(list(call.args), number), written(dict(call.kwargs or {}), number)
        operands = list(range(len(alive) - len(given), len(alive)))
        results = [len(alive) + i for i in range(len(out))]
        alive.extend(out)
        steps += [["in", name, operands], ["op", str(call.op), args, kwargs, results], ["out", name, results]]
        crossings += [(name, "in", [kept[i] for i in operands]), (name, "out", [t.detach().cpu() for t in out])]
    last = steps[-1][2] if len(steps) > 1 else []
    run = ordered([*crossings, ("", "out", [t.detach().cpu() for t in out])])
    return Model(Program([*steps, ["out", "", last]], kept, loose=True)), ModuleRun(run, tuple(out))


def _operations(log: Any) -> list[Any]:
    found = [c for c in log.operators if hasattr(getattr(c, "op", None), "_schema")]
    drawn = [c for c in found if base_name(c.op) in RANDOM or "empty" in base_name(c.op)]
    return [c for c in found if c not in drawn and not c.op._schema.is_mutable]


def first_unequal(a: Any, b: Any) -> str | None:
    """Of two logs with hashes: the first operation that differs in its hash or in what it is; None: there is none."""
    calls = _operations(a), _operations(b)
    for i, (x, y) in enumerate(zip(*calls, strict=False)):
        if str(x.op) != str(y.op):
            return f"operation {i} is {x.op} in one run, {y.op} in the other"
        hashes = [(c.log or {}).get("hash") for c in (x, y)]
        if None in hashes:
            raise RenderError("RND902", f"the log holds neither tensors nor hashes of {x.op}")
        if hashes[0] != hashes[1]:
            return f"{x.op} (operation {i}): hashes {hashes[0]} and {hashes[1]}"
    return None if len(calls[0]) == len(calls[1]) else "one run has more operations"


__all__ = ["first_unequal", "is_log", "of_log"]
