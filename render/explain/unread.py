"""Elements of the inputs on which the reference's value depends and that the kernel's element is computed without.

The reference runs in float64 with derivatives: an element whose derivative is not 0 is one that it depends on. What the
kernel's element is computed from are the loads behind it and behind what decides (`render.trace.dependence`). A tensor
of the launch is an input if its shape, strides and type are those of exactly one of them that holds every loaded value,
bit for bit. Said only where nothing else can have read the inputs: one launch, no host code on its results, one program
that stores.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from render.entry.execution import default_dtype, on_cpu
from render.entry.held_state import seeded
from render.explain.trace import Hop, Trace, named
from render.reference.oracle import Oracle
from render.reference.twins import F64, is_float
from render.result.defects import caught
from render.trace.dependence import Dependence, Reached
from render.trace.moves import at_lanes

LARGEST = 1 << 24
"""Elements of inputs of which derivatives are taken."""


def unread(found: Trace, oracle: Oracle, index: tuple[int, ...]) -> str:
    """The sentence, or "" where there are no such elements or nothing can be said."""
    run, hop = found.run, found.hops[0]
    programs = {(launch, program) for launch, program, _ in found.writers}
    alone = len(run.session.launches) == len(programs) == 1 and not getattr(run.session, "host_steps", 0)
    walk = Dependence(hop.walk.recorder, decisions=True)
    reached = walk.behind(hop.place)
    if not alone or not reached or not walk.complete:
        return ""
    loads = _loads(found, hop, reached, oracle)
    slopes = _slopes(oracle, index)
    if loads is None or slopes is None:
        return ""
    parts = []
    for name, depends in slopes.items():
        there = loads.get(name)
        missing = depends if there is None else depends & ~there
        if there is not None and missing.any():
            parts.append(f"{_shown(name, missing)} ({int(missing.sum())} of {int(depends.sum())} elements)")
    return f"it is computed without {' and '.join(parts)}, on which the reference's value depends" if parts else ""


def _shown(name: str, mask: np.ndarray) -> str:
    """The elements as a box of index ranges, or the first one."""
    at = np.argwhere(mask)
    low, high = at.min(axis=0), at.max(axis=0)
    if int(np.prod(high - low + 1)) != len(at):
        return f"{name}[{', '.join(map(str, at[0]))}], ..."
    return f"{name}[{', '.join(str(a) if a == b else f'{a}..{b}' for a, b in zip(low, high, strict=True))}]"


def _loads(found: Trace, hop: Hop, behind: list[Reached], oracle: Oracle) -> dict[str, np.ndarray] | None:
    """Which elements of each input were loaded; None where a loaded tensor is not known to be one input."""
    memory = found.run.session.memory
    places: dict[str, list[np.ndarray]] = {}
    for reached in behind:
        if reached.outside.size:
            h = reached.out
            values = at_lanes(h, h.v, reached.lanes[reached.read])
            pair = np.array([reached.outside, values], np.float64)
            places.setdefault(named(found.run, int(reached.outside[0])), []).append(pair)
    seen: dict[str, np.ndarray] = {}
    for name, parts in places.items():
        at, values = np.concatenate(parts, axis=1)
        storage, described = memory.find(int(at[0])), hop.record.args.get(name)
        if storage is None or not (isinstance(described, tuple) and len(described) == 3):
            return None
        mask = _input(at - storage.base - storage.start, values, described, oracle)
        if mask is None or mask[0] in seen:
            return None
        seen[mask[0]] = mask[1]
    return seen


def _input(offsets: np.ndarray, values: np.ndarray, described: Any, oracle: Oracle) -> tuple[str, np.ndarray] | None:
    """The only input that these loads can have read, and which of its elements they read."""
    dtype, shape, strides = described
    found = []
    for name, t in oracle.inputs.values.items():
        if not isinstance(t, torch.Tensor) or (str(t.dtype), tuple(t.shape), t.stride()) != (dtype, shape, strides):
            continue
        left = offsets.astype(np.int64) // t.element_size()
        index = [np.zeros_like(left) for _ in shape]
        for d in sorted(range(len(shape)), key=lambda d: -strides[d]):
            if strides[d] > 0:
                index[d] = left // strides[d]
                left = left - index[d] * strides[d]
        inside = all(((i >= 0) & (i < n)).all() for i, n in zip(index, shape, strict=True)) and not left.any()
        if inside and np.array_equal(t.detach().double().numpy()[tuple(index)], values):
            mask = np.zeros(shape, bool)
            mask[tuple(index)] = True
            found.append((name, mask))
    return found[0] if len(found) == 1 else None


def _slopes(oracle: Oracle, index: tuple[int, ...]) -> dict[str, np.ndarray] | None:
    """By input: on which elements the reference's element depends; None where that cannot be had."""
    inputs = oracle.inputs.upcast()
    floats = {n: t for n, t in inputs.values.items() if isinstance(t, torch.Tensor) and t.is_floating_point()}
    if not floats or sum(t.numel() for t in floats.values()) > LARGEST or len(oracle.native) != 1:
        return None
    try:
        # where leaves require derivatives, the user's own may warn; no run of the user's does
        with on_cpu(), default_dtype(F64), torch.enable_grad(), warnings.catch_warnings(action="ignore"):
            for t in floats.values():
                t.requires_grad_(True)
            seeded(oracle.seed)
            (out,) = (x for x in tree_leaves(oracle.plan.call(oracle.reference.fn, inputs.values)) if is_float(x))
            slopes = torch.autograd.grad(out[index], list(floats.values()), allow_unused=True)
    except Exception as error:  # whatever a reference without derivatives raises: nothing is said
        caught(error, "derivatives of the reference")
        return None
    return {n: (g != 0).numpy() for n, g in zip(floats, slopes, strict=True) if g is not None}
