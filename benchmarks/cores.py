"""One launch on several cores: wall time, CPU time and the same bits, against one thread.

python benchmarks/cores.py [--case NAME ...] [--threads N] [--repeats N]

Wall time is the least of the repeats, which alternate. On a machine that others use it says little; the time of the
launching thread itself, which works on as many rows as each of the others, is what wall time would be on free cores if
nothing waited.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import cases
import torch
from cases import Case
from measure import interval_run
from threadpoolctl import threadpool_limits

LARGE = {
    case.name: case
    for case in (
        Case("vector add 16M", cases.vector_add, ((1 << 24,),) * 2, torch.float32, 1.7, torch.add),
        Case("gelu 16M", cases.gelu, ((1 << 24,),), torch.float32, 1.7, torch.nn.functional.gelu),
        Case("softmax 4096x4096", cases.softmax, ((4096, 4096),), torch.float32, 1.7, torch.softmax),
        Case("layer norm 4096x2048", cases.layer_norm, ((4096, 2048), (2048,), (2048,)), torch.float32, 1.7,
             torch.nn.functional.layer_norm),
        Case("matmul 2048 float16", cases.matmul, ((2048, 2048),) * 2, torch.float16, 1.7, torch.matmul),
        Case("matmul 2048 float32", cases.matmul, ((2048, 2048),) * 2, torch.float32, 1.7, torch.matmul),
        Case("attention 2x4x2048x64", cases.attention, ((2, 4, 2048, 64),) * 3, torch.float16, 1.7,
             torch.nn.functional.scaled_dot_product_attention),
    )
}  # fmt: skip
"""`target` is the aimed-at wall time of one thread over that of two."""


class Times(NamedTuple):
    wall: float
    cpu: float
    own: float


def timed(run: Callable[[], Any]) -> tuple[Times, Any]:
    start = time.perf_counter(), time.process_time(), time.thread_time()
    found = run()
    stop = time.perf_counter(), time.process_time(), time.thread_time()
    return Times(*(b - a for a, b in zip(start, stop, strict=True))), found


def digest(out: torch.Tensor, envelope: Any) -> str:
    told = hashlib.sha256(out.numpy().tobytes())
    for end in (envelope.lo, envelope.hi):
        told.update(end.tobytes())
    return told.hexdigest()


def measure(case: Case, threads: int, repeats: int) -> tuple[Times, Times, bool]:
    """The least of each time with one thread and with several, and whether all results were the same."""
    inputs = case.inputs()
    interval_run(case.run, inputs)
    samples: dict[int, list[Times]] = {1: [], threads: []}
    seen = set()
    for _ in range(repeats):
        for count, found in samples.items():
            times, result = timed(lambda count=count: interval_run(case.run, inputs, count))
            found.append(times)
            seen.add(digest(*result))
            del result
    one, several = (Times(*(min(column) for column in zip(*found, strict=True))) for found in samples.values())
    return one, several, len(seen) == 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=LARGE, help="only this case; repeatable")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    many = options.threads
    print(f"| case | wall, 1 thread | {many} | ratio | CPU, 1 | {many} | own time, ratio | same bits |")
    print("| --- |" + " ---: |" * 7)
    with threadpool_limits(1):
        for name in options.case or LARGE:
            one, several, same = measure(LARGE[name], many, options.repeats)
            cells = (f"{one.wall:.2f}", f"{several.wall:.2f}", f"{one.wall / several.wall:.2f}", f"{one.cpu:.2f}",
                     f"{several.cpu:.2f}", f"{one.own / several.own:.2f}", "yes" if same else "NO")  # fmt: skip
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
