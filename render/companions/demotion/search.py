"""Which choice saves most bits and is still certified, in few evaluations.

The bound is monotone in the lattice of choices, up to what one rounding happens to hit. So first every site alone, then
greedily from the least costly one on; then choices that would save more, by predicted error (errors add to first
order), without those that hold a choice which failed. Monotonicity guides the search alone: what is returned was
certified by its own run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from render.companions.demotion.certify import Certified, saved
from render.companions.demotion.sites import BITS, Spot

Evaluate = Callable[[dict[Spot, str]], Certified]
_LISTED = 200_000
"""Choices that are looked through for better ones."""
_HOPE = 3.0
"""Predicted use of the tolerance up to which a choice is tried: predictions charge shared roundings twice."""


def search(evaluate: Evaluate, sites: Sequence[Spot], budget: int) -> Certified:
    """The best choice found within `budget` evaluations (single sites and the greedy pass are always made)."""
    base = evaluate({})
    used = 1
    if not base.passes:
        return base
    single: dict[tuple[Spot, str], Certified] = {}
    for site in sites:
        for fmt in sorted(site.formats, key=lambda f: BITS[f]):
            if any(single[site, f].passes for f in site.formats if (site, f) in single and BITS[f] == BITS[fmt]):
                continue  # another format that saves as much is certified
            single[site, fmt] = evaluate({site: fmt})
            used += 1
    best, current = base, dict[Spot, str]()
    failed: list[dict[Spot, str]] = [{s: f} for (s, f), c in single.items() if not c.passes]
    for site in sorted(sites, key=lambda s: _least(single, s)):
        for fmt in sorted(site.formats, key=lambda f: BITS[f]):
            if (site, fmt) not in single or not single[site, fmt].passes:
                continue
            tried = {**current, site: fmt}
            if any(f.items() <= tried.items() for f in failed):
                continue
            found = evaluate(tried) if current else single[site, fmt]
            used += bool(current)
            if found.passes:
                best, current = found, tried
                break
            failed.append(tried)
    for tried in _better(single, base, sites, best):
        if used >= budget:
            break
        if saved(tried) <= best.saved or any(f.items() <= tried.items() for f in failed):
            continue
        found = evaluate(tried)
        used += 1
        if found.passes:
            best = found
        else:
            failed.append(tried)
    return best


def _least(single: dict[tuple[Spot, str], Certified], site: Spot) -> float:
    return min(single[site, fmt].usage for fmt in site.formats if (site, fmt) in single)


def _better(
    single: dict[tuple[Spot, str], Certified], base: Certified, sites: Sequence[Spot], best: Certified
) -> list[dict[Spot, str]]:
    """Choices that save more than the best one, by predicted error."""
    options = [[None, *(f for f in s.formats if (s, f) in single and single[s, f].passes)] for s in sites]
    total = 1
    for o in options:
        total *= len(o)
    if total > _LISTED:
        return []
    found: list[tuple[float, int, int, dict[Spot, str]]] = []
    for formats in product(*options):
        chosen = {s: f for s, f in zip(sites, formats, strict=True) if f is not None}
        if saved(chosen) > best.saved:
            predicted = base.usage + sum(max(0.0, single[s, f].usage - base.usage) for s, f in chosen.items())
            if predicted <= _HOPE:
                order = (0.0, -saved(chosen)) if predicted <= 1 else (predicted, 0)
                found.append((*order, len(found), chosen))
    return [chosen for *_, chosen in sorted(found, key=lambda x: x[:3])]


_HOPELESS = 2.0
"""Use of the tolerance above which no choice that holds this one is looked at: monotone but for single roundings."""


def exhaustive(evaluate: Evaluate, sites: Sequence[Spot]) -> Certified:
    """The best of all choices, most bits first; only for measurements of the search."""
    failed: list[dict[Spot, str]] = []
    every = [{s: f for s, f in zip(sites, formats, strict=True) if f is not None}
             for formats in product(*([None, *s.formats] for s in sites))]  # fmt: skip
    for site in sites:
        failed += [{site: f} for f in site.formats if evaluate({site: f}).usage > _HOPELESS]
    for tried in sorted(every, key=saved, reverse=True):
        if any(f.items() <= tried.items() for f in failed):
            continue
        found = evaluate(tried)
        if found.passes:
            return found
        if found.usage > _HOPELESS:
            failed.append(tried)
    return evaluate({})
