"""Modules that are one on both sides: what need be evaluated once only.

One class with equal settings, parameters and buffers computes one function whichever side calls it, so E of the target
is E of the reference.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from render.network.capture import Key, Model, Wrapped, own
from render.network.pairs import Pair


def is_torchs(module: nn.Module) -> bool:
    """One of torch's own modules, without others inside."""
    return type(module).__module__.startswith("torch.nn") and not any(True for _ in module.children())


def twins(target: Model, reference: Model, pairs: Mapping[Key, Pair], all_paired: bool) -> set[Key]:
    """Borders whose region is the code of one module on both sides: E of the target is E of the reference there.

    Leaves always; a container's own code only where every module that either side calls has its counterpart.
    """
    mine, theirs = target.modules(), reference.modules()
    known: dict[tuple[str, str], bool] = {}
    found = set()
    other = {p.key.name: p.other.name for p in pairs.values()}
    for key, pair in pairs.items():
        maker = pair.maker
        names = maker, other.get(maker, maker)
        a, b = mine.get(names[0]), theirs.get(names[1])
        leaf = key.way == "out" and key.name == maker and a is not None and not any(True for _ in a.children())
        if a is None or b is None or key.way == "state" or not (all_paired or leaf):
            continue
        if names not in known:
            known[names] = one_module(a, b)
        if known[names] and [t.dtype for t in pair.target] == [t.dtype for t in pair.reference]:
            found.add(key)
    return found


def one_module(a: nn.Module, b: nn.Module) -> bool:
    """Whether two modules, not counting those inside, are one code with equal settings, parameters and buffers."""
    if type(a) is not type(b) or type(a) is Wrapped or a.training or b.training:
        return False
    if any(m._forward_hooks or m._forward_pre_hooks for m in (a, b)):
        return False
    plain = [{k: v for k, v in vars(m).items() if not k.startswith("_")} for m in (a, b)]
    held = [own(m) for m in (a, b)]
    return plain[0].keys() == plain[1].keys() and len(held[0]) == len(held[1]) and all(
        _same_setting(v, plain[1][k]) for k, v in plain[0].items()
    ) and all(_same_setting(x, y) for x, y in zip(*held, strict=True))  # fmt: skip


def _same_setting(x: object, y: object) -> bool:
    """Equal numbers, words, tensors and tuples of these; of anything else, the same object."""
    if x is y:
        return not isinstance(x, (list, dict, set))
    if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
        return x.dtype == y.dtype and x.shape == y.shape and torch.equal(x, y)
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(_same_setting(a, b) for a, b in zip(x, y, strict=True))
    return type(x) is type(y) and isinstance(x, (int, float, str, torch.dtype)) and x == y


__all__ = ["is_torchs", "one_module", "twins"]
