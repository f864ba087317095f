"""Work that the two sides divide otherwise among their modules: a border inside of it is none.

A batch norm that is folded into the convolution before it leaves a module that computes another function, and one that
does nothing; together they compute what they did. Where a module returns another function, and the one that runs next
is of another class on the other side or has no counterpart there, both are one region: it is judged where it ends. A
fault stays one, since what follows such a region starts from the target's activations as ever. Where nothing after the
module leaves, the rest is one function on both sides: then the module is wrong, and nothing was divided.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import torch
from torch import nn

from render.network.capture import Key, ModuleRun
from render.network.pairs import Pair


def divided(
    pairs: Mapping[Key, Pair], leaving: Collection[Key], mine: ModuleRun, theirs: ModuleRun,
    modules: tuple[Mapping[str, nn.Module], Mapping[str, nn.Module]],
) -> set[Key]:  # fmt: skip
    """Borders within such regions, of those after modules that return another function (`leaving`)."""
    classes = [{name: type(m) for name, m in side.items()} for side in modules]
    across = {p.key.name: p.other.name for p in pairs.values()}
    back = {b: a for a, b in across.items()}

    def otherwise(name: str | None, own: int) -> bool:
        if name is None:
            return False
        other = (across, back)[own].get(name)
        return other is None or classes[own].get(name) is not classes[1 - own].get(other)

    found: set[Key] = set()
    order = list(pairs)
    last = max((order.index(key) for key in leaving), default=0)
    for key in leaving:
        if key.way != "out" or key.name == "" or order.index(key) == last:
            continue
        after = _next(mine, key), _next(theirs, pairs[key].other)
        if otherwise(after[0], 0) or otherwise(after[1], 1):
            found.add(key)
            found |= {k for k, p in pairs.items() if k.way == "in" and _carries(p, pairs[key])}
    return found


def ends(pairs: Mapping[Key, Pair], inside: Iterable[Key]) -> set[Key]:
    """Where the regions of such borders end: the parameters there are other numbers, each rounded."""
    order, gone, found = list(pairs), set(inside), set[Key]()
    for key in gone:
        for after in order[order.index(key) + 1 :]:
            if after not in gone:
                found.add(after)
                if after.way == "out":
                    break
    return found


def other_numbers(
    pairs: Mapping[Key, Pair], modules: tuple[Mapping[str, nn.Module], Mapping[str, nn.Module]]
) -> set[Key]:
    """Results of modules of different classes that hold other parameters, as a layer does that stands for several: each
    of these was rounded."""
    found = set()
    for key, pair in pairs.items():
        a, b = (side.get(k.name) for side, k in zip(modules, (pair.key, pair.other), strict=True))
        if key.way != "out" or a is None or b is None or type(a) is type(b):
            continue
        held, across = (list(m.parameters(recurse=False)) for m in (a, b))
        if held and across and not all(any(torch.equal(x, y) for y in across) for x in held):
            found.add(key)
    return found


def _next(run: ModuleRun, key: Key) -> str | None:
    """The module that is called next after this border."""
    order = list(run.crossings)
    return next((k.name for k in order[order.index(key) + 1 :] if k.way == "in"), None)


def _carries(one: Pair, other: Pair) -> bool:
    """Whether the same tensors cross both borders."""
    return all(
        len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
        for a, b in ((one.target, other.target), (one.reference, other.reference))
    )


__all__ = ["divided", "ends", "other_numbers"]
