"""What the inputs do to single elements of the reference, to first order and with their signs: its adjoint.

Moved by at most d |x_j| each, the inputs take E_i by sum_j |dE_i/dx_j| d |x_j|: the sum over inputs, of derivatives of
the whole. `render.reference.running_error` adds magnitudes at every operation on the way instead, so that what cancels
between steps counts: x - mean(x), divided by its own deviation, counts x three times, and k normalisations 3^k times,
though a normalisation of what is normalised moves no more than the first did (its derivative is a projection). That is
a bound to first order, too, of all elements at once; this one takes a backward pass per element.

torch's autograd gives the derivatives, of the reference on inputs widened to float64. It is not asked, and nothing is
known, where a derivative does not say what a function does: a comparison, a cast to integers or fp8, a rounding to
whole numbers, a random number, a number that leaves torch, a table from elsewhere. Constants inside, of the kernel and
of the reference, are float32 roundings each: every result on the way moves by one of it and of the numbers that it was
made with. And no derivative is believed unless moved inputs say the same:
with inputs moved at random signs each element has to follow its derivative (a `detach()`, a branch not taken).

Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sec. 1.6 (condition) and 3.3 (running error).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from render.entry.execution import default_dtype
from render.entry.held_state import seeded
from render.entry.inputs import Inputs
from render.ops.aten import Form, base_name, of_form
from render.ops.parts import in_parts
from render.result.defects import caught

if TYPE_CHECKING:
    from render.reference.oracle import Oracle

F64 = torch.float64
PROBES = 4
"""Runs with moved inputs that the derivatives have to predict."""
FAITHFUL = 1 / 8
"""Of an element's reach: how far such a run may be from the prediction (what is of second order)."""
SECOND = 2.0
"""Reaches are taken so many times, for what is of second order."""
CONSTANT = 2.0**-24
"""One float32 rounding."""
PASSES = 6
"""Evaluations of the reference that an element's two backward passes are worth."""
WORK = 1 << 28
"""Elements that may be computed for this."""
PERIODIC = ("remainder", "fmod")
_CHOICES = of_form(Form.CHOICE)
_RANDOM = of_form(Form.RANDOM)
_EXACT = of_form(Form.ORDER, Form.EXACT)


def affordable(work: int, elements: int) -> int:
    """Of so many elements, those that a reference of this work (computed elements) can be differentiated at."""
    return max(0, min(elements, (WORK // max(work, 1) - PROBES - 2) // PASSES))


def reaches(
    oracle: Oracle, place: int, exact: np.ndarray, where: Sequence[int], inputs: float, near: float
) -> np.ndarray | None:
    """How far each element (flat places `where` of output `place`) moves when every input moves by `inputs` |x|.

    To first order, `SECOND` times. None: not known. `exact` is E of that output; the widened reference has to give the
    same within `near` |E|, or it is another function.
    """
    try:
        return _reaches(oracle, place, exact.reshape(-1)[list(where)], list(where), inputs, near)
    except Exception as error:  # whatever differentiating a user's code raises: not known is an answer
        caught(error, "derivatives of the reference")
        return None


def _reaches(
    oracle: Oracle, place: int, exact: np.ndarray, where: list[int], inputs: float, near: float
) -> np.ndarray | None:
    given = oracle.inputs.upcast()
    leaves = [x.requires_grad_(True) for x in _tensors(given)]
    size = [x.detach().abs() for x in leaves]
    held, made = _held(given), Results()
    watch = Smooth([*leaves, *_tensors(held)])
    with torch.enable_grad(), made:
        out = _output(oracle, held, place, watch)
    if out is None or watch.jumps(out) or not out.requires_grad or out.numel() <= max(where):
        return None
    value = out.detach().reshape(-1)[where].numpy()
    if not (np.abs(value - exact) <= near * np.abs(exact)).all():
        return None
    slopes = [torch.autograd.grad(out.reshape(-1)[i], leaves, retain_graph=True, allow_unused=True) for i in where]
    reach = np.array([_total(gs, size) for gs in slopes])
    inside = [x for x, _ in made.results]
    size_inside = [x.detach().abs() + number for x, number in made.results]
    constants = np.array([
        _total(torch.autograd.grad(out.reshape(-1)[i], inside, retain_graph=True, allow_unused=True), size_inside)
        for i in where
    ]) if inside else np.zeros(len(where))  # fmt: skip
    generator = torch.Generator().manual_seed(0x5EED)
    for _ in range(PROBES):
        moves = [torch.randint(0, 2, x.shape, generator=generator).to(F64).mul_(2).sub_(1) * x * inputs for x in size]
        said = [sum(float((g * m).sum()) for g, m in zip(gs, moves, strict=True) if g is not None) for gs in slopes]
        moved = oracle.inputs.upcast()
        for x, move in zip(_tensors(moved), moves, strict=True):
            x.detach().add_(move)
        with torch.no_grad():
            found = _output(oracle, moved, place, Smooth(None))
        assert found is not None
        seen = found.reshape(-1)[where].numpy() - value
        if not (np.abs(seen - np.array(said)) <= FAITHFUL * inputs * reach + 2.0**-48 * np.abs(value)).all():
            return None
    known: np.ndarray = SECOND * (inputs * reach + CONSTANT * constants)
    return known if np.isfinite(known).all() else None


def _total(slopes: Sequence[torch.Tensor | None], sizes: Sequence[torch.Tensor]) -> float:
    return sum(float((g.abs() * x).sum()) for g, x in zip(slopes, sizes, strict=True) if g is not None)


def _tensors(given: Inputs) -> list[torch.Tensor]:
    """Every float tensor that the inputs hold, parameters of modules included."""
    found: list[torch.Tensor] = []
    for leaf in tree_leaves(list(given.values.values())):
        held = [leaf, *leaf.parameters(), *leaf.buffers()] if isinstance(leaf, torch.nn.Module) else [leaf]
        found += [x for x in held if isinstance(x, torch.Tensor) and x.is_floating_point()]
    return found


def _held(given: Inputs) -> Inputs:
    """The inputs as results of an operation: the reference may write to them."""
    moved = tree_map(
        lambda x: x.clone() if isinstance(x, torch.Tensor) and x.is_floating_point() else x,
        (list(given.args), dict(given.kwargs)),
    )
    return Inputs(tuple(moved[0]), moved[1], given.names)


def _output(oracle: Oracle, given: Inputs, place: int, mode: Smooth) -> torch.Tensor | None:
    """Output `place` of the reference on these inputs, with its graph."""
    seeded(oracle.seed)
    values = given.values
    with default_dtype(F64), sdpa_kernel([SDPBackend.MATH]), mode:
        result = oracle.plan.call(oracle.reference.fn, values)
        found = oracle.collect(result, values)[place][1]
    for x in tree_leaves((result, values)):
        if isinstance(x, torch.Tensor) and x.data_ptr() == found.data_ptr() and x.shape == found.shape:
            return x
    return None


class Results(TorchFunctionMode):
    """`results`: what every function of torch gave that inputs go into, and the sum of the numbers it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.results: list[tuple[torch.Tensor, float]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        number = sum(abs(x) for x in tree_leaves((args, kwargs)) if isinstance(x, float) and abs(x) < 1e30)
        made = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor) and x.is_floating_point()]
        self.results += [(x, number) for x in made if x.requires_grad]
        return out


class Smooth(TorchDispatchMode):
    """Everything in float64, casts between floats included: E rounds nothing there, and a cast's derivative is 1.

    A result `jumps` where it is made of a step at which a function jumps, of a random number or of a table from
    elsewhere: its derivative is 0, or not all that moves it. Once a number has left torch, every result may.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its whole compiler to keep it away from this mode; nothing is compiled here."""
        return False

    def __init__(self, inputs: Sequence[torch.Tensor] | None) -> None:
        """`inputs`: all float tensors that are known before the first operation; None: any are."""
        super().__init__()
        self._left = False
        self._off: set[int] = set()
        """Storages of what jumps."""
        self._known = None if inputs is None else {x.untyped_storage()._cdata: x for x in inputs}

    @in_parts
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = base_name(func._schema.name)
        asked = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.dtype)]
        narrow = any(x.is_floating_point and x.itemsize == 1 for x in asked)
        args, kwargs = tree_map(_wide, (args, kwargs or {}))
        out = func(*args, **kwargs)
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        floats = [x for x in given if x.is_floating_point()]
        made = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
        off = narrow or name in _RANDOM or (bool(floats) and _jumps(name, floats, out))
        off = off or any(_storage(x) in self._off for x in given)
        if self._known is not None:
            off = off or any(_storage(x) not in self._known for x in floats)
            self._known |= {_storage(x): x for x in made}
        self._left = self._left or name == "_local_scalar_dense"
        if off:
            self._off.update(map(_storage, [*made, *given] if func._schema.is_mutable else made))
        return out

    def jumps(self, out: torch.Tensor) -> bool:
        """Whether no derivative says all that moves a result."""
        return self._left or _storage(out) in self._off


def _storage(x: torch.Tensor) -> int:
    found: int = x.untyped_storage()._cdata
    return found


def _wide(x: Any) -> Any:
    return F64 if isinstance(x, torch.dtype) and x.is_floating_point else x


def _jumps(name: str, floats: list[torch.Tensor], out: Any) -> bool:
    if name in _CHOICES or name in PERIODIC or name in ("floor_divide", "frac"):
        return True
    made = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
    if name == "_to_copy":
        return any(not x.is_floating_point() for x in made)
    rounded = [x for x in made if x.is_floating_point() and x.numel() and _whole(x)]
    return name in _EXACT and bool(rounded) and not all(map(_whole, floats))


def _whole(x: torch.Tensor) -> bool:
    return bool((x == x.trunc()).all())
