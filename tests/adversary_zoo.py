"""The kernels of `zoo` as subjects of the adversary: those with floating-point results that no taint reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import zoo

from render.lab.adversary.material import Inputs, values
from render.lab.adversary.subjects import Subject


def subject(name: str, run: Callable[..., Any], *shapes: tuple[int, ...], **more: Any) -> Subject:
    def inputs(rng: np.random.Generator, style: str) -> Inputs:
        return tuple(values(rng, shape, "fp32", style) for shape in shapes)

    return Subject(f"zoo {name}", run, inputs, **{"styles": ("normal", "wide", "cancelling"), **more})


def nested(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    zoo.nested_kernel[(4,)](x, out, 16)
    return out


def tuned(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(1)
    zoo.tuned_kernel[lambda meta: (-(-len(x) // meta["B"]),)](x, out, len(x))
    return out


def multiply(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    zoo.mul_kernel[(2,)](x, w, out, len(x), 64)
    return out


def ragged(x: torch.Tensor) -> torch.Tensor:
    out, offsets = torch.empty(4), torch.tensor([0, 3, 20, 20, 60], dtype=torch.int32)
    zoo.ragged_kernel[(4,)](x, offsets, out, 16)
    return out


def prefix_chain(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    zoo.prefix_chain_kernel[(len(x),)](x, out)
    return out


def in_place_scan(x: torch.Tensor) -> torch.Tensor:
    zoo.in_place_scan_kernel[(4,)](x, 32, 32)
    return x


def locked(x: torch.Tensor) -> torch.Tensor:
    out, lock = torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    zoo.lock_kernel[(8,)](x, out, lock, 16)
    return out


def persistent(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    zoo.persistent_kernel[(3,)](x, out, 8, 16, 3)
    return out


def best(x: torch.Tensor) -> torch.Tensor:
    most, places = torch.empty(4), torch.empty(4, dtype=torch.int32)
    zoo.argmax_kernel[(4,)](x, most, places, 32)
    return most


def dropout(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    zoo.dropout_kernel[(2,)](x, out, len(x), 0.3, 7, 64)
    return out


def block_pointer(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    zoo.block_pointer_kernel[(2,)](x, out, 20, 24, 16, 16)
    return out


def descriptor(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    zoo.descriptor_kernel[(2, 2)](x, out, 20, 24, 16, 16)
    return out


def methods(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(16)
    zoo.method_kernel[(1,)](x, out, 16)
    return out


def biased(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    zoo.none_kernel[(1,)](x, b, out, False, 32)
    return out


_SUMS = ("normal", "wide", "cancelling", "giant", "stagnant")


def zoo_subjects() -> Iterator[Subject]:
    yield subject("nested", nested, (64,))
    yield subject("tuned", tuned, (100,), styles=_SUMS)
    yield subject("multiply", multiply, (100,), (100,))
    yield subject("ragged", ragged, (60,), styles=_SUMS)
    yield subject("prefix chain", prefix_chain, (12,), in_order=True)
    yield subject("in-place scan", in_place_scan, (4, 32))
    yield subject("lock", locked, (128,), locks=True, styles=_SUMS)
    yield subject("persistent", persistent, (128,))
    yield subject("argmax", best, (4, 32))
    yield subject("dropout", dropout, (100,))
    yield subject("block pointer", block_pointer, (20, 24))
    yield subject("descriptor", descriptor, (20, 24))
    yield subject("methods", methods, (16, 16), styles=(*_SUMS, "flat stagnant"))
    yield subject("bias", biased, (32,), (32,))
