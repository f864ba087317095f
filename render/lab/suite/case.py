"""One (kernel, reference) pair of a suite, and the pair that its gradients make.

A case file defines `cases()`, which yields `SuiteCase`s; what it imports is imported when the file is read, so a file
of a library that is not installed is one clear line in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Function = Callable[..., Any]


@dataclass(frozen=True)
class SuiteCase:
    """`fn` launches the kernel, `reference` says what it should compute; both are called with what `inputs()` makes.

    `inputs` gives a tuple or a dict by parameter name and is called after torch was seeded. `settings` go to `classify`
    (`ref_precision`, `options`, ...). `note` says what a reader of the table should know.
    """

    name: str
    fn: Function
    reference: Function
    inputs: Callable[[], Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


def gradients(fn: Function, of: Sequence[int]) -> Function:
    """The function of (cotangents..., inputs...) that gives the gradients of `fn` for the inputs at the places `of`.

    One cotangent per floating-point output of `fn`, in its order; an output that is no tensor or needs no gradient has
    none. Torch's own autograd differentiates, so a reference of torch operations needs no formula of its own. Leaves
    are copies: what a forward pass writes into its arguments is the forward case's to compare.
    """

    def backward(cotangents: Sequence[Any], *inputs: Any) -> tuple[Any, ...]:
        import torch

        floats = [isinstance(x, torch.Tensor) and x.is_floating_point() for x in inputs]
        leaves = [x.detach().clone().requires_grad_(i in of) if floats[i] else x for i, x in enumerate(inputs)]
        with torch.enable_grad():
            out = fn(*leaves)
        outputs = [y for y in (out if isinstance(out, tuple | list) else (out,)) if _differentiable(y)]
        return torch.autograd.grad(outputs, [leaves[i] for i in of], list(cotangents), allow_unused=True)

    backward.__name__ = f"{getattr(fn, '__name__', 'fn')}_backward"
    return backward


def _differentiable(y: Any) -> bool:
    import torch

    return isinstance(y, torch.Tensor) and y.requires_grad


def pair(
    name: str,
    fn: Function,
    reference: Function,
    inputs: Callable[[], tuple[Any, ...]],
    wrt: Sequence[int] = (),
    **settings: Any,
) -> Iterator[SuiteCase]:
    """The case of `fn` and, with `wrt` (places of the inputs to differentiate for), that of its backward pass.

    Cotangents are standard normal, drawn in the shape and dtype that the reference's outputs have.
    """
    yield SuiteCase(name, fn, reference, inputs, settings)
    if wrt:
        backward = gradients(fn, wrt), gradients(reference, wrt)
        yield SuiteCase(f"{name} backward", *backward, lambda: _with_cotangents(reference, inputs, wrt), settings)


def _with_cotangents(reference: Function, inputs: Callable[[], tuple[Any, ...]], wrt: Sequence[int]) -> tuple[Any, ...]:
    import torch

    given = tuple(inputs())
    leaves = [x.detach().clone().requires_grad_() if i in wrt else x for i, x in enumerate(given)]
    with torch.enable_grad():
        out = reference(*leaves)
    outputs = [y for y in (out if isinstance(out, tuple | list) else (out,)) if _differentiable(y)]
    return ([torch.randn(y.shape).to(y.dtype) for y in outputs], *given)
