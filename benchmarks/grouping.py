"""Legal executions of one sum whose plateau is searched as a whole: which terms are added up before they meet it.

On the plateau of `greedy.py`, in one binade, an addition errs by what its addend is away from a multiple of the unit
in the last place, whatever stands there: the error is a sum over groups of terms. The greedy search takes the best
group first and is left with terms that have no good partner. Here all groups improve together: a term moves to another
group, or two change places, and a change for the worse is taken with a chance that falls to nothing. Groups are chains
of additions, each rounded, so every result is that of a legal order and grouping. For a few hundred terms of a format
with few bits; with more of either the greedy search is as good and takes less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from greedy import add, follow, levels, nearest, split

from interval_ops.compiled import compiled

LARGEST = 10
"""Terms of a group."""
HEAT = 0.05
"""Loss, in units in the last place, that is taken with a chance of 1 / e at first."""
TURNS = 1 << 20


@compiled
def chain(p, members, count, bits):  # type: ignore[no-untyped-def]
    """The members one after the other, rounded after each."""
    q = nearest(p[members[0]], bits)
    for i in range(1, count):
        q = add(q, p[members[i]], bits)
    return q


@compiled
def error(p, members, count, ulp, up, bits):  # type: ignore[no-untyped-def]
    """What a group errs by on the plateau, in the wanted direction; an empty one by nothing."""
    if count == 0:
        return 0.0
    true = 0.0
    for i in range(count):
        true += p[members[i]]
    return up * (np.rint(chain(p, members, count, bits) / ulp) * ulp - true)


@compiled
def grouped(p, stay, ulp, up, turns, seed, bits):  # type: ignore[no-untyped-def]
    """(members, count) of groups of the terms that `stay`; at most as many groups as terms, some of them empty."""
    live = np.flatnonzero(stay)
    m = live.size
    groups, size, where, errs = np.zeros((m, LARGEST), np.int64), np.ones(m, np.int64), np.arange(m), np.zeros(m)
    for g in range(m):
        groups[g, 0] = g
    own = p[live]
    for g in range(m):
        errs[g] = error(own, groups[g], 1, ulp, up, bits)
    one, two = np.zeros((2, LARGEST), np.int64)
    np.random.seed(seed)  # noqa: NPY002 (a compiled function has this one)
    for t in range(turns if m > 1 else 0):
        a, b = np.random.randint(m), np.random.randint(m)  # noqa: NPY002
        first, swap = where[a], t % 2 == 0
        second = where[b] if swap or t % 4 == 1 else b
        if first == second or (not swap and size[second] >= LARGEST):
            continue
        one[:], two[:] = groups[first], groups[second]
        na, nb = size[first], size[second]
        place = np.flatnonzero(groups[first, :na] == a)[0]
        if swap:
            one[place] = b
            two[np.flatnonzero(groups[second, :nb] == b)[0]] = a
        else:
            one[place], two[nb] = one[na - 1], a
            na, nb = na - 1, nb + 1
        ea, eb = error(own, one, na, ulp, up, bits), error(own, two, nb, ulp, up, bits)
        gain, heat = ea + eb - errs[first] - errs[second], HEAT * ulp * (1.0 - t / turns)
        if gain >= 0.0 or np.random.random() < math.exp(gain / heat):  # noqa: NPY002
            groups[first], groups[second] = one, two
            errs[first], errs[second], size[first], size[second] = ea, eb, na, nb
            for i in range(na):
                where[one[i]] = first
            for i in range(nb):
                where[two[i]] = second
    return live[groups], size


@compiled
def execution(p, order, level, up, turns, seed, bits):  # type: ignore[no-untyped-def]
    """One execution; arguments as those of `greedy.split` and `grouped`."""
    climb, stay, fall = split(p, order, level)
    s = follow(0.0, p, climb, -math.inf, math.inf, up, -math.inf, bits)
    groups, size = grouped(p, stay, math.ldexp(level, 1 - bits), up, turns, seed, bits)
    q, left = np.zeros(size.size), size > 0
    for g in range(size.size):
        if left[g]:
            q[g] = chain(p, groups[g], size[g], bits)
    s = follow(s, q, left, level, 2.0 * level, up, -math.inf, bits)
    for g in range(size.size):  # groups that would leave the binade come down term by term
        for i in range(size[g] if left[g] else 0):
            fall[groups[g, i]] = True
    return follow(s, p, fall, -math.inf, math.inf, up, -math.inf, bits)


def executions(p: np.ndarray, bits: int, turns: int = TURNS) -> Iterator[float]:
    """Results of orders and groupings that err in one direction; `p` are numbers of a format with so many bits."""
    for sign, terms, order, level, up in levels(p):
        yield sign * execution(terms, order, level, up, turns, 1, bits)
