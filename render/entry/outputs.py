"""Which tensor of the kernel's side is compared with which tensor of the reference's side."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from render.entry.inputs import Inputs, opened
from render.result import blockwise
from render.result.errors import RenderError

UNMATCHED = "RND903"
MOST = 1 << 12
"""Results of an iterator from which on it is taken for one without end."""
Named = list[tuple[str, torch.Tensor]]


@dataclass(frozen=True)
class OutputPair:
    """One output: its name and the places of the two tensors in the flattened results."""

    name: str
    kernel: int
    reference: int


def values(x: torch.Tensor, copy: bool = False) -> np.ndarray:
    """The numbers of a tensor: float64, or float32 where the tensor is large and its format has no more than that.

    `copy`: later changes of x must not show.
    """
    short = x.is_floating_point() and x.itemsize <= 4 and x.numel() > blockwise.BLOCK
    return x.detach().to(torch.float32 if short else torch.float64, copy=copy).numpy()


def outline(x: torch.Tensor) -> torch.Tensor:
    """Shape, strides and dtype of a float tensor, without its memory; integers are looked at again, so they stay."""
    if not x.is_floating_point():
        return x
    return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device="meta")


def flatten(
    result: Any,
    names: Sequence[str] = (),
    default: str = "out",
    made: Callable[[Any, torch.Tensor], None] | None = None,
) -> Named:
    """The tensors in what a function returned, named by their keys, by `names`, or `out`, `out0`, `out1`, ...

    Numbers and numpy arrays become tensors, complex numbers pairs of real ones (another axis); None and other objects
    are passed over. `made` is told of those, with the tensor.
    """
    items = list(_items(settled(result)))
    single = len(items) == 1
    found: Named = []
    for i, (key, value) in enumerate(items):
        tensor = _tensor(value)
        if tensor is not None:
            if made is not None and not isinstance(value, torch.Tensor):
                made(value, tensor)
            fallback = names[i] if len(names) == len(items) else default if single else f"{default}{i}"
            name = key or fallback
            found.append((f"{name}.{i}" if any(name == other for other, _ in found) else name, tensor))
    return found


def settled(result: Any) -> Any:
    """What a function returned, with what is still to run run: an iterator's items, sparse and jagged tensors dense or
    as the numbers that they hold."""
    if isinstance(result, Iterator):
        found = [settled(item) for item in islice(result, MOST)]
        if len(found) == MOST:
            raise RenderError(
                UNMATCHED, f"the function gives {MOST} results or more", "return a list of what to compare"
            )
        return found
    if isinstance(result, torch.Tensor):
        return _laid_out(result)
    if type(result) in (list, tuple):
        return type(result)(map(settled, result))
    return {key: settled(value) for key, value in result.items()} if type(result) is dict else result


def _laid_out(x: torch.Tensor) -> torch.Tensor:
    if x.layout == torch.jagged:
        return x.values()
    return x if x.layout == torch.strided or x.is_meta else x.to_dense()


def _items(result: Any, name: str = "", within: tuple[int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """(name, value), the names of containers in one another joined by dots; "" where only the place says which.

    Of objects of other classes only tensors and arrays count: their numbers may be anything.
    """
    if id(result) in within:
        return
    within = (*within, id(result))
    held = _held(result)
    if held is not None:
        for key, value in held.items():
            yield from _items(value, f"{name}.{key}" if name else str(key), within)
    elif isinstance(result, tuple | list | deque):
        for i, item in enumerate(result):
            yield from _items(item, f"{name}.{i}" if name else "", within)
    elif hasattr(result, "__dict__") and not isinstance(result, torch.Tensor | np.ndarray | type | ModuleType | float):
        if not callable(result):
            found = _items(vars(result), name, within)
            yield from ((key, x) for key, x in found if isinstance(x, torch.Tensor | np.ndarray))
    else:
        yield name, result


def _held(result: Any) -> Mapping[str, Any] | None:
    """What a container holds by name; None for what holds nothing so."""
    if isinstance(result, Mapping):
        return result
    if hasattr(result, "_fields"):
        return dict(zip(result._fields, result, strict=True))
    if isinstance(result, torch.nn.Module):
        return dict([*result.named_parameters(), *result.named_buffers()])
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return {f.name: getattr(result, f.name) for f in dataclasses.fields(result)}
    slots = getattr(type(result), "__slots__", None)
    if slots and type(result).__module__ != "builtins" and not isinstance(result, float):
        named = (slots,) if isinstance(slots, str) else tuple(slots)
        found = {n: getattr(result, n) for n in named if hasattr(result, n)}
        return {n: x for n, x in found.items() if isinstance(x, torch.Tensor | np.ndarray)}
    return None


def _tensor(value: Any) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor):
        plain = value.detach()
        return torch.view_as_real(plain.resolve_conj()) if plain.is_complex() else plain
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiubc":
        shared = value.flags.writeable and all(step >= 0 for step in value.strides)  # what torch takes as it lies
        return _tensor(torch.from_numpy(value if shared else np.ascontiguousarray(value)))
    if isinstance(value, np.complexfloating | complex):
        return _tensor(torch.tensor(value, dtype=torch.complex128))
    if isinstance(value, np.generic | float | int | bool):
        return torch.tensor(value, dtype=torch.float64 if isinstance(value, float | np.floating) else None)
    return None


def stored_arguments(inputs: Inputs, envelope: Callable[[torch.Tensor], Any]) -> Named:
    """The tensor arguments that a kernel wrote, by parameter name: the outputs of an entry that returns nothing."""
    found: Named = []
    for name, value in inputs.values.items():
        if isinstance(value, torch.Tensor):
            written = envelope(value)
            if written is not None and bool(np.any(written.kernel_written)):
                found.append((name, value.detach()))
    return found


def visible(inputs: Inputs) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor that the caller holds by the arguments: inside containers, of modules and objects, and their
    gradients. Sparse ones have no memory of their own."""
    seen = set[int]()
    for name, value in inputs.values.items():
        yield from ((n, t) for n, t in _visible(name, value, seen) if t.layout == torch.strided)


def _visible(name: str, value: Any, seen: set[int]) -> Iterator[tuple[str, torch.Tensor]]:
    for leaf in tree_leaves(value):
        if isinstance(leaf, torch.nn.Module):
            yield from ((f"{name}.{n}", t) for n, t in (*leaf.named_parameters(), *leaf.named_buffers()))
            yield from ((f"{name}.{n}.grad", t.grad) for n, t in leaf.named_parameters() if t.grad is not None)
        elif isinstance(leaf, torch.Tensor):
            yield name, leaf
            if leaf.is_leaf and leaf.grad is not None:
                yield f"{name}.grad", leaf.grad
        elif (held := opened(leaf)) and id(leaf) not in seen:
            seen.add(id(leaf))
            for n, x in held.items():
                yield from _visible(f"{name}.{n}", x, seen)


def stored_besides(inputs: Inputs, outputs: Named, envelope: Callable[[torch.Tensor], Any]) -> Named:
    """The tensors of `visible` that a kernel stored to and that share no memory with an output."""
    known = {x.untyped_storage().data_ptr() for _, x in outputs}
    found: Named = []
    for name, x in visible(inputs):
        if x.untyped_storage().data_ptr() in known or (written := envelope(x)) is None:
            continue
        if bool(np.any(written.kernel_written)):
            known.add(x.untyped_storage().data_ptr())
            found.append((name, x.detach()))
    return found


def of_reference(result: Any, values: Mapping[str, Any], kernel: Named) -> Named:
    """What the reference returned; if that is nothing, its own arguments under the names that the kernel wrote."""
    returned = flatten(result, default="ref")
    for name, x in returned:
        if x.is_meta:
            raise RenderError(UNMATCHED, f"the reference returned {name} on the meta device, without values")
        if x.layout != torch.strided or x.is_quantized:
            kind = "a quantized tensor" if x.is_quantized else f"a tensor of layout {x.layout}"
            raise RenderError(UNMATCHED, f"the reference returned {name} as {kind}", "return it dense, by to_dense()")
    if returned:
        return returned
    return [(name, values[name].detach()) for name, _ in kernel if isinstance(values.get(name), torch.Tensor)]


def match(kernel: Named, reference: Named) -> tuple[list[OutputPair], list[str]]:
    """(pairs, notes): by name where the names agree, else by position; outputs without a partner are noted."""
    if not kernel or not reference:
        side = "the kernel's side" if not kernel else "the reference"
        hint = "the entry must return a tensor, or a kernel must store to one of its arguments"
        raise RenderError(UNMATCHED, f"{side} gives no tensor to compare", hint if not kernel else "return a tensor")
    names = [n for n, _ in reference]
    if len(set(names)) == len(names) and set(names) <= {n for n, _ in kernel}:
        where = {n: i for i, (n, _) in enumerate(kernel)}
        pairs = [OutputPair(n, where[n], i) for i, n in enumerate(names)]
    else:
        pairs = _by_position(kernel, reference)
    return pairs, _left_over(kernel, reference, pairs)


def _by_position(kernel: Named, reference: Named) -> list[OutputPair]:
    """In order; where the counts differ, each output of the shorter side takes the next of its own shape."""
    if len(kernel) == len(reference):
        return [OutputPair(name, i, i) for i, (name, _) in enumerate(kernel)]
    swapped = len(kernel) > len(reference)
    short, long = (reference, kernel) if swapped else (kernel, reference)
    free = list(range(len(long)))
    pairs: list[OutputPair] = []
    for i, (_, tensor) in enumerate(short):
        same = [j for j in free if long[j][1].shape == tensor.shape]
        if not same:
            listed = " and ".join(", ".join(f"{n}{list(t.shape)}" for n, t in side) for side in (kernel, reference))
            raise RenderError(
                UNMATCHED,
                f"outputs do not match: the kernel gives and the reference gives {listed}",
                "return the same tensors in the same order from both",
            )
        free.remove(same[0])
        k, r = (same[0], i) if swapped else (i, same[0])
        pairs.append(OutputPair(kernel[k][0], k, r))
    return pairs


def _left_over(kernel: Named, reference: Named, pairs: list[OutputPair]) -> list[str]:
    ours = [n for i, (n, _) in enumerate(kernel) if i not in {p.kernel for p in pairs}]
    theirs = [n for i, (n, _) in enumerate(reference) if i not in {p.reference for p in pairs}]
    notes = [f"output {n} has no counterpart in the reference and was not judged" for n in ours]
    return notes + [f"the reference also returns {n}, which the kernel does not give" for n in theirs]


def devices(given: Any, kernel: Named) -> list[torch.Tensor | None]:
    """The recorded device output of each kernel output: by name, else by position."""
    if given is None:
        return [None] * len(kernel)
    found = flatten(given, default="out")
    by_name = dict(found)
    if any(name in by_name for name, _ in kernel):
        return [by_name.get(name) for name, _ in kernel]
    if len(found) != len(kernel) and len(found) != 1:
        listed = ", ".join(n for n, _ in kernel)
        raise RenderError(
            UNMATCHED,
            f"the device output holds {len(found)} tensors, the kernel gives {listed}",
            "name them as the outputs are named",
        )
    tensors: list[torch.Tensor | None] = [t for _, t in found]
    return tensors + [None] * (len(kernel) - len(tensors))


def shape_mismatch(name: str, ours: torch.Tensor, theirs: torch.Tensor, who: str = "the reference") -> str:
    """The sentence for a shape or kind of dtype that differs, or ''. Floats of any width compare as numbers."""
    if ours.shape != theirs.shape:
        return f"{name} is {list(ours.shape)}, {who} is {list(theirs.shape)}"
    if ours.is_floating_point() != theirs.is_floating_point():
        short = str(ours.dtype).removeprefix("torch."), str(theirs.dtype).removeprefix("torch.")
        return f"{name} is {short[0]}, {who} is {short[1]}"
    return ""
