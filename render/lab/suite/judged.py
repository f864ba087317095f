"""One test function, judged at its comparisons.

The test runs three times. A look, without bounds, finds its comparisons and which side of each came out of a kernel.
Then a classification as for any other pair: its entry is the test up to the kernel's sides, its reference the same test
up to the other sides, so everything that holds for `render classify` holds here.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from render.entry.execution import on_cpu, open_session
from render.entry.inputs import of_call
from render.entry.resolve import Reference
from render.front.comparisons import NothingToJudge, recording, tensors_of
from render.judgement.steps import Judgement
from render.result.options import Options
from render.result.verdict import Verdict

Test = Callable[..., Any]


@dataclass
class Seen:
    """The comparisons of one run, in order: name, left and right tensor (None where that side is none)."""

    names: list[str] = field(default_factory=list)
    sides: list[tuple[Any, Any]] = field(default_factory=list)

    def take(self, left: Any, right: Any, file: str, line: int) -> None:
        for a, b in zip(tensors_of(left), tensors_of(right), strict=False):
            base = f"line {line}"
            count = sum(name == base or name.startswith(f"{base} #") for name in self.names)
            self.names.append(f"{base} #{count + 1}" if count else base)
            self.sides.append((_kept(a), _kept(b)))


def _kept(side: Any) -> Any:
    """A copy, with everything that is known of it: the test may go on to write into the original."""
    import torch

    return side.detach().clone() if isinstance(side, torch.Tensor) else None


def judge(test: Test, arguments: Mapping[str, Any], options: Options) -> Verdict:
    """The verdict on all comparisons of `test(**arguments)` between a kernel's output and something else.

    Raises NothingToJudge where it has none, and what the test itself raises.
    """
    inputs = of_call(test, (), arguments)
    chosen = _chosen(test, inputs.clone().kwargs, options)

    def entry(**values: Any) -> dict[str, Any]:
        return {name: sides[chosen[name]] for name, sides in _run(test, values, options.seed) if name in chosen}

    def reference(**values: Any) -> dict[str, Any]:
        import torch

        from render.entry.execution import default_dtype

        # The numbers of the entry's run: what the test draws must not change with the precision of its reference.
        with default_dtype(torch.float32), open_session(options.device, interval=False, **options.for_session):
            found = _run(test, values, options.seed)
        return {name: sides[1 - chosen[name]] for name, sides in found if name in chosen}

    reference.__signature__ = inspect.signature(test)  # type: ignore[attr-defined] # inputs are passed by these names
    return Judgement(entry, inputs, Reference(reference, "the test's other side"), None, options).verdict()


def _chosen(test: Test, arguments: Mapping[str, Any], options: Options) -> dict[str, int]:
    """Per comparison that has one: which side came out of a kernel."""
    with on_cpu(options.device), open_session(options.device, interval=False, **options.for_session) as session:
        found = _run(test, arguments, options.seed)
        from_kernel = {name: [session.envelope(x) is not None if x is not None else None for x in sides]
                       for name, sides in found}  # fmt: skip
    if not session.launches:
        raise NothingToJudge("launches no kernel")
    if not found:
        raise NothingToJudge("compares nothing by a function that is known; name its own one with --comparator")
    chosen = {name: sides.index(True) for name, sides in from_kernel.items() if sorted(map(str, sides)) == _ONE_SIDE}
    if not chosen:
        both = any(sides == [True, True] for sides in from_kernel.values())
        raise NothingToJudge("both sides come out of kernels" if both else "no compared tensor comes out of a kernel")
    return chosen


_ONE_SIDE = ["False", "True"]


def _run(test: Test, arguments: Mapping[str, Any], seed: int) -> list[tuple[str, tuple[Any, Any]]]:
    """(name, sides) of every comparison. A test that fails by other means after one of them has been heard."""
    import numpy as np
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - tests draw from it
    seen = Seen()
    with recording(seen.take):
        try:
            test(**arguments)
        except AssertionError:
            if not seen.names:
                raise
    return list(zip(seen.names, seen.sides, strict=True))
