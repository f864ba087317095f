"""What a function holds: closures, bound objects, modules, globals that it or its helpers name."""

import math
from functools import cache, lru_cache, partial
from types import SimpleNamespace

import torch
import triton

from render.entry.held import MOST, held_by, walk

GLOBAL = torch.full((2,), math.pi)
TABLES = {"far": [torch.ones(2)]}


class Turner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("c", torch.ones(2))
        self.s = torch.nn.Parameter(torch.ones(2))


class Holder:
    shared = torch.ones(2)

    def __init__(self):
        self.own = torch.ones(2)

    def read(self):
        return helper()


def helper():
    return TABLES


def names(fn):
    return [name for name, _ in held_by(fn)]


def test_the_tensors_that_a_function_holds():
    inner = {"a": [torch.ones(2)]}

    def fn():
        return inner, GLOBAL

    assert names(fn) == ["GLOBAL", "inner['a'][0]"], "the nearest first"
    assert names(Turner()) == ["c", "s"]
    assert all(isinstance(x, torch.Tensor) for _, x in held_by(triton.jit))


def test_objects_hold_their_attributes_those_of_their_classes_and_what_methods_name():
    assert names(Holder().read) == ["own", "Holder.shared", "helper.TABLES['far'][0]"]
    assert names(partial(Holder.read, Holder()))[:1] == ["[0].own"]
    assert names(lru_cache(helper)) == ["TABLES['far'][0]"]
    space = SimpleNamespace(t=torch.ones(2))
    assert names(lambda: space) == ["space.t"]


def test_what_holds_itself_and_what_has_no_end_are_walked_once_and_in_part():
    ring = []
    ring.append(ring)
    assert [x for _, x in walk([ring])] == [ring]
    assert len([*walk([[[i] for i in range(2 * MOST)]])]) <= MOST + 1


@lru_cache
def table(n):
    return torch.ones(n)


@cache
def tables(n):
    return torch.ones(n), "and a name"


def test_what_caches_of_functions_have_kept_is_held():
    def fn():
        return table(3), tables(4)

    table.cache_clear()
    tables.cache_clear()
    assert names(fn) == []
    fn()
    assert names(fn) == ["table(...)", "tables(...)[0]"]


def test_storages_are_named_once():
    whole = torch.ones(4)
    part = whole[:2]

    def fn():
        return whole, part

    assert len(names(fn)) == 1
