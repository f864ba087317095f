"""Contributions to single elements put together: shares of the bound and of the typical error.

Outputs count by their number of elements, the worst and the median element of an output alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from interval_ops.formats.model import FORMATS
from render.result.records import Differs, LineShare
from render.result.verdict import BudgetItem
from render.trace.nodes import ROUNDED

if TYPE_CHECKING:
    from render.trace.adjoint import Contributions

NEGLIGIBLE = 1e-6
ROUNDINGS = ROUNDED | {"cast"}
"""Operations that round what they are given to a format, and do nothing else that is inexact."""

Cause = tuple[str, str | None, int]
Shares = dict[Cause, float]


@dataclass(frozen=True)
class Element:
    """One element's shares of its bound and of its typical mean square error: of that, `last` is the last rounding's
    share and `before` all the others'."""

    bound: Shares
    typical: Shares
    before: Shares
    last: Shares


def element(found: Contributions) -> Element:
    bound: Shares = {key: amount / found.total for key, amount in found.amounts.items()}
    squares: Shares = {key: square for key, square in found.squares.items()}  # noqa: C416
    total = sum(squares.values())
    if not total:
        return Element(bound, {}, {}, {})
    typical = {key: part / total for key, part in squares.items()}
    if found.end is None or found.end_op not in ROUNDINGS:
        return Element(bound, typical, typical, {})
    last = min(found.last, squares.get(found.end, 0.0)) / total
    before = {key: part - (last if key == found.end else 0.0) for key, part in typical.items()}
    return Element(bound, typical, before, {found.end: last})


@dataclass
class Gathered:
    """The elements that could be cut out: output -> "worst" or "median" -> its shares; `sizes`: elements per output."""

    sizes: Mapping[str, int]
    elements: dict[str, dict[str, Element]] = field(default_factory=dict)
    formats: dict[Cause, str] = field(default_factory=dict)

    def add(self, output: str, role: str, found: Contributions) -> None:
        self.elements.setdefault(output, {})[role] = element(found)
        for key, name in found.formats.items():
            self.formats[key] = min(self.formats.get(key, name), name, key=lambda n: FORMATS[n].p)

    @property
    def enough(self) -> bool:
        """Whether outputs with more than half of the elements are known."""
        return 2 * sum(self.sizes[name] for name in self.elements) > sum(self.sizes.values())

    def mean(self, kind: str, role: str) -> Shares:
        """Mean over the outputs, by size; an output without an element of this role gives its other one."""
        total = sum(self.sizes[name] for name in self.elements)
        out: Shares = {}
        for name, roles in self.elements.items():
            part: Shares = getattr(roles.get(role) or next(iter(roles.values())), kind)
            for key, share in part.items():
                out[key] = out.get(key, 0.0) + share * self.sizes[name] / total
        return out

    def both(self, kind: str) -> Shares:
        worst, median = self.mean(kind, "worst"), self.mean(kind, "median")
        return {key: (worst.get(key, 0.0) + median.get(key, 0.0)) / 2 for key in sorted({*worst, *median}, key=str)}

    def rounded(self, output: str) -> dict[Cause, tuple[str, float]]:
        """Casts and sums of one output: (format, share of its bound), mean over its elements."""
        roles = self.elements[output].values()
        out: dict[Cause, tuple[str, float]] = {}
        for key, name in self.formats.items():
            share = sum(e.bound.get(key, 0.0) for e in roles) / len(roles)
            if share > NEGLIGIBLE:
                out[key] = (name, share)
        return out

    def items(self, titles: Mapping[str, str]) -> list[BudgetItem]:
        """The causes, largest share of the bound first; the shares add up to 1."""
        bound, typical = self.both("bound"), self.both("typical")
        worst, median = self.mean("bound", "worst"), self.mean("bound", "median")
        found = []
        for cause in dict.fromkeys(key[0] for key in bound):
            share = _of(bound, cause)
            if share <= NEGLIGIBLE:
                continue
            lines = tuple(
                replace(x, fmt=self.formats.get((cause, x.file or "", x.line), "")) for x in _lines(bound, cause)
            )
            first = next((x for x in lines if x.file), lines[0])
            found.append(
                BudgetItem(titles.get(cause, cause), cause, first.file, first.line, share, 1.0, _of(worst, cause),
                           _of(median, cause), lines, typical=_of(typical, cause))
            )  # fmt: skip
        total = sum(i.share for i in found) or 1.0
        return sorted((replace(i, share=i.share / total) for i in found), key=lambda i: (-i.share, i.key))

    def differs(self, titles: Mapping[str, str], names: frozenset[str] | None = None) -> Differs | None:
        """The largest cause of the typical error; where that is the last rounding, what decides which way it falls.

        Of the outputs called `names` alone, if any of them could be cut out.
        """
        of = {name: roles for name, roles in self.elements.items() if names is None or name in names}
        if of and len(of) < len(self.elements):
            return replace(self, elements=of).differs(titles)
        typical = self.both("typical")
        if not typical:
            return None
        carrier = _largest(typical)
        first = _lines(typical, carrier)[0]
        found = Differs(titles.get(carrier, carrier), carrier, first.file, first.line, _of(typical, carrier))
        before = {key: share for key, share in self.both("before").items() if share > 0}
        if not before or 2 * sum(self.both("last").values()) <= 1:
            return found
        by = _largest(before)
        at = _lines(before, by)[0]
        return replace(found, last=True, by=titles.get(by, by), by_key=by, by_file=at.file, by_line=at.line)


def _of(shares: Shares, cause: str) -> float:
    return sum(share for key, share in shares.items() if key[0] == cause)


def _largest(shares: Shares) -> str:
    return min({key[0] for key in shares}, key=lambda cause: (-_of(shares, cause), cause))


def _lines(shares: Shares, cause: str) -> tuple[LineShare, ...]:
    """The lines of one cause, largest share first."""
    here = [(key, share) for key, share in shares.items() if key[0] == cause]
    here.sort(key=lambda item: (-item[1], str(item[0])))
    kept = [x for x in here if x[1] > NEGLIGIBLE] or here[:1]
    return tuple(LineShare(key[1] or None, key[2], share) for key, share in kept)
