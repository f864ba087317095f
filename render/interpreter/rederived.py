"""What the host computes, a second time and by nothing of ours: torch's own float64 kernels in place of our rules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_map

from render.interpreter.host import HostTracker
from render.interpreter.hosted.call import Bounds, Exact, Known, Result, known_pair
from render.interpreter.hosted.given_numbers import GivenNumbers
from render.interpreter.hosted.numbers import Ends
from render.interpreter.hosted.overloads import HostSite, OverloadRule, draws, is_plain
from render.interpreter.memory import Envelope


class Rederived(HostTracker):
    """For sessions in which every rounding is silent: each result of the host becomes a point, the operation at the
    middles of its operands in float64. What has no float64 form is tainted."""

    lazy = False

    def _bounds_of(
        self, func: Any, op: OverloadRule, args: tuple[Any, ...], kwargs: dict[str, Any], known: dict[int, Envelope],
        site: HostSite | None,
    ) -> tuple[Result, list[torch.Tensor] | None]:  # fmt: skip
        return self._wide_run(func, *tree_map(partial(_wide, known, {}), (args, kwargs))), None

    def _bounds_by_numbers(self, op: OverloadRule, given: GivenNumbers) -> Result:
        return self._wide_run(given.func, *tree_map(partial(_wide, given.known, given.ends), given.plain))

    def _wide_run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Result:
        default = torch.get_default_dtype()
        with self.silent(), torch.random.fork_rng((), enabled=draws(func)):
            try:
                torch.set_default_dtype(torch.float64)  # of tables, and of integers times numbers
                out = tree_flatten(func(*args, **kwargs))[0]
            except (NotImplementedError, RuntimeError, TypeError):
                return None
            finally:
                torch.set_default_dtype(default)
        tensors = [t for t in out if isinstance(t, torch.Tensor)]
        return tuple(_point(t.detach().numpy()) if t.is_floating_point() else Exact() for t in tensors)


def _wide(known: Known, ends: Mapping[float, Ends], x: Any) -> Any:
    """A type as float64, a tensor or a number as its middle."""
    if isinstance(x, torch.dtype) and x.is_floating_point:
        return torch.float64
    if isinstance(x, float):
        return float(x) if x not in ends else ends[x].lo / 2 + ends[x].hi / 2
    if not (is_plain(x) and x.is_floating_point()):
        return x
    lo, hi = known_pair(x, known)
    return torch.tensor(lo.astype(np.float64) / 2 + hi / 2)


def _point(v: np.ndarray) -> Bounds:
    return Bounds(v, v)
