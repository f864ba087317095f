"""What each accumulator of a kernel loses on the terms that it sums, and what would suffice.

Three kinds of statement about one reduction, never mixed: the bound of its result is a proof, the simulated loss a
measurement (of these terms, in this order), the VRR an index (of a model in which terms have zero mean).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from render.entry.execution import Entry, Execution
from render.entry.inputs import of_call
from render.result.errors import RenderError
from render.result.records import Evidence
from render.trace.accumulation.retention import lost, suitable, vrr
from render.trace.accumulation.simulate import simulate_accumulator, suffices
from render.trace.accumulation.terms import MOST, AccumulatorModel, SumChain, chains
from render.trace.element import slices_of
from render.trace.model import NotSliceable, Slice

LOSS = 1e-3
"""Relative root mean square error that an accumulator may have unless told: an fp16 number's spacing. A choice."""
ELEMENTS = 16
"""Output elements whose sums are looked at, spread evenly over each output."""


@dataclass(frozen=True)
class Swamping:
    """One reduction `op` at `file`:`line` in an `accumulator` of that model.

        narrow = [one for one in render.accumulation.swamping(matmul, a, b) if one.wide_enough is False]

    `measured` (loss: rms error over rms sum; `worst`: largest error over rms sum; `swamped`: share of
    the terms that change nothing) on `rows` sums of `length` terms; `proved`: largest relative half width of their
    bounds; `index`: the VRR, None where the terms have one sign or more bits than the formula knows.

    `bits`, `chunk`: fewest mantissa bits, and longest chunk in the present accumulator, that lose at most `allowed`.
    `wide_enough`: whether the paper's rule says so, None where it says nothing.
    """

    file: str
    line: int
    op: str
    accumulator: AccumulatorModel
    length: int
    rows: int
    measured: float
    worst: float
    swamped: float
    proved: float
    index: float | None
    wide_enough: bool | None
    allowed: float
    bits: int | None
    chunk: int | None

    @property
    def short(self) -> bool:
        """Whether the accumulator loses more than is allowed: the field A of the combined verdict."""
        return not self.measured <= self.allowed

    @property
    def sentence(self) -> str:
        """`this fp16 accumulator loses 3.4 % at 4096 terms; 12 bits or chunks of 64 suffice for 1 %`."""
        what = f"this {self.accumulator.title} loses {_percent(self.measured)} at {self.length} terms"
        if not self.short:
            return what
        ways = [f"{self.bits} bits"] if self.bits is not None else []
        ways += [f"chunks of {self.chunk}"] if self.chunk is not None else []
        if not ways:
            return f"{what}; no width or chunk brings that to {_percent(self.allowed)}: the sum cancels"
        return f"{what}; {' or '.join(ways)} suffice for {_percent(self.allowed)}"

    @property
    def evidence(self) -> Iterator[Evidence]:
        """What the simulation measured, and the index beside it."""
        place = f"{Path(self.file).name}:{self.line}"
        yield Evidence("measurement", f"accumulators/{place}/loss", self.measured, f"{place}: {self.sentence}")
        if self.index is not None:
            yield Evidence("index", f"accumulators/{place}/vrr", self.index, f"{place}: VRR {self.index:.6g}")

    def to_dict(self) -> dict[str, Any]:
        """In JSON types.

            [one.to_dict() for one in render.accumulation.swamping(matmul, a, b)]

        Its fields by name.
        """
        return {
            "file": self.file, "line": self.line, "op": self.op, "accumulator": self.accumulator.fmt,
            "mantissa_bits": self.accumulator.bits, "rounding": self.accumulator.rounding,
            "length": self.length, "sums": self.rows, "sentence": self.sentence, "short": self.short,
            "measurement": {"loss": self.measured, "worst": self.worst, "swamped": self.swamped},
            "proof": {"relative_half_width": self.proved},
            "index": {"vrr": self.index, "suitable": self.wide_enough},
            "suffices": {"loss": self.allowed, "mantissa_bits": self.bits, "chunk": self.chunk},
        }  # fmt: skip


def swamping(
    fn: Callable[..., Any], *inputs: Any, device: str = "any", loss: float = LOSS, elements: int = ELEMENTS,
    seed: int = 0, **keywords: Any,
) -> list[Swamping]:  # fmt: skip
    """Every reduction behind `elements` elements of each output of `fn(*inputs, **keywords)`, in the order of the
    source.

        for found in render.accumulation.swamping(matmul, a, b):
            print(found.line, found.accumulator, found.measured, found.bits)

    `device`: the profile; `seed` of torch's generator; `loss`: what an accumulator may lose and still be wide enough.
    Raises RenderError where no element can be cut out of the run, and what the kernel raises.
    """
    entry = Entry(fn, of_call(fn, inputs, keywords), device, seed)
    return of_run(entry, entry.run(), loss, elements)


def of_run(entry: Entry, run: Execution, loss: float = LOSS, elements: int = ELEMENTS) -> list[Swamping]:
    """`swamping` of a finished `run` of an `entry`.

        render.accumulation.of_run(entry, entry.run())

    `loss` and `elements` as there. Raises RenderError as it does.
    """
    wanted = [(o.name, index) for o in run.outputs if o.tracked for index in spread(o.value.shape, elements)]
    cut = slices_of(entry, run, wanted)
    whole = [one for one in cut if isinstance(one, Slice)]
    if cut and not whole:
        assert isinstance(cut[0], NotSliceable)
        raise RenderError("RND902", f"what the outputs sum cannot be followed: {cut[0]}")
    return of_slices(whole, loss)


def of_slices(slices: Sequence[Slice], loss: float = LOSS, most: int = MOST) -> list[Swamping]:
    """The same of slices, of `most` sums of each operation in them."""
    groups: dict[tuple[Any, ...], list[SumChain]] = defaultdict(list)
    for one in slices:
        for chain in chains(one, most):
            groups[chain.file, chain.line, chain.op, chain.accumulator, len(chain.terms)].append(chain)
    found = [_judged(group, loss) for group in groups.values()]
    longest: dict[tuple[str, int, str], Swamping] = {}
    for each in sorted(found, key=lambda s: (s.length, s.rows)):
        longest[each.file, each.line, each.op] = (
            each  # of one line, the longest sums: shorter ones are prefixes of them
        )
    return sorted(longest.values(), key=lambda s: (s.file, s.line, s.op))


def evidence_of(found: Sequence[Swamping]) -> Iterator[Evidence]:
    """Of each line the reduction that loses most."""
    known: set[tuple[str, int]] = set()
    for each in sorted(found, key=lambda s: -s.measured):
        if (each.file, each.line) not in known:
            known.add((each.file, each.line))
            yield from each.evidence


def spread(shape: Sequence[int], count: int) -> list[tuple[int, ...]]:
    """Places of `count` elements, evenly over an array of this shape."""
    size = int(np.prod(shape))
    places = np.unique(np.linspace(0, size - 1, min(size, count)).astype(int)) if size else np.zeros(0, int)
    return [tuple(int(i) for i in np.unravel_index(p, shape)) for p in places]


def _judged(group: Sequence[SumChain], loss: float) -> Swamping:
    first, taken = group[0], group[:: max(1, len(group) // MOST)][:MOST]
    terms, kind = np.stack([c.terms for c in taken]), first.accumulator
    found = simulate_accumulator(kind.simulated, kind.rounding, None, terms, tree=kind.tree)
    bits, chunk = (None, None)
    if not found.loss <= loss:
        bits, chunk = suffices(terms, loss, kind.simulated, kind.rounding, kind.tree)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.array([c.half for c in group]) / np.abs([c.value for c in group])
    index = _index(kind, terms, first.length)
    return Swamping(
        first.file, first.line, first.op, kind, first.length, len(taken), found.loss, found.worst,
        float(found.swamped.mean()), float(np.nan_to_num(relative, nan=0.0).max()), *index, loss, bits,
        None if chunk is None else chunk * kind.block,
    )  # fmt: skip


def _index(kind: AccumulatorModel, terms: np.ndarray, length: int) -> tuple[float | None, bool | None]:
    """(VRR, whether v < 50); None where the terms are not of zero mean (beyond 5 standard errors)."""
    spread = terms.std(axis=1)
    if not kind.products or (np.abs(terms.mean(axis=1)) > 5 * spread / np.sqrt(terms.shape[1])).mean() > 0.1:
        return None, None
    if lost(kind.bits, kind.products, length) == 0:
        return 1.0, True
    return vrr(kind.bits, kind.products, length), suitable(kind.bits, kind.products, length)


def _percent(x: float) -> str:
    return f"{100 * x:.2g} %" if x < 9.95 else "everything" if x == np.inf else f"{x:.2g} times its sum"
