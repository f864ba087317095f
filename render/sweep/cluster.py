"""Execution on Ray (https://docs.ray.io): units go to the machines of a cluster, or to processes of this one.

Ray gives a unit whose process died to another one (`max_retries`), also where its whole machine is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

RETRIES = 3
AHEAD = 4
"""Units per processor that are handed over ahead of their turn."""


class RayAnswer(NamedTuple):
    """What became of the unit at this index."""

    unit: int
    result: list[dict[str, Any]] | None
    error: str = ""
    attempts: int = 1


def execute(ray: Any, work: Callable[[Any], Any], units: Sequence[Any]) -> Iterator[RayAnswer]:
    """`work(unit)` of each, as they end; `ray` is the module, already connected. An exception is an answer."""
    remote = ray.remote(max_retries=RETRIES, num_cpus=1)(work)
    most = max(1, int(ray.cluster_resources().get("CPU", 1))) * AHEAD
    waiting, running = iter(range(len(units))), {}
    for index in waiting:
        running[remote.remote(units[index])] = index
        if len(running) >= most:
            yield from _some(ray, running)
    while running:
        yield from _some(ray, running)


def _some(ray: Any, running: dict[Any, int]) -> Iterator[RayAnswer]:
    for ready in ray.wait(list(running), num_returns=1)[0]:
        index = running.pop(ready)
        try:
            found = ray.get(ready)
        except ray.exceptions.RayError as error:  # its process died once too often, or it raised
            yield RayAnswer(index, None, f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}", RETRIES + 1)
            continue
        yield RayAnswer(index, *found)
