"""Against torch's own flattening, on random nestings."""

from __future__ import annotations

import random

import pytest
from torch.utils._pytree import tree_leaves, tree_map

from render.ops.nested import leaves_of, mapped, refilled


def _nesting(generator: random.Random, depth: int) -> object:
    kind = generator.randrange(5 if depth else 2)
    some = range(generator.randrange(4))
    if kind < 2:
        return None if kind else generator.random()
    if kind == 4:
        return {f"k{i}": _nesting(generator, depth - 1) for i in some}
    return (list if kind == 3 else tuple)(_nesting(generator, depth - 1) for _ in some)


@pytest.mark.parametrize("seed", range(40))
def test_as_torch_flattens(seed):
    x = _nesting(random.Random(seed), 4)
    assert leaves_of(x) == tree_leaves(x)
    assert mapped(lambda v: v if v is None else -v, x) == tree_map(lambda v: v if v is None else -v, x)
    numbers = range(len(leaves_of(x)))
    assert leaves_of(refilled(x, iter(numbers))) == list(numbers)
