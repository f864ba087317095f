"""Complex numbers of a reference: by their parts with proved errors, or at its own precision, which is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from render.reference.local_error import Unit
from render.reference.shadow import ShadowMode

OFF = 2.0**-30
DRAW = torch.Generator().manual_seed(5)
X, T, WEIGHTS = (torch.randn(4, 6, generator=DRAW) for _ in range(3))


def like(x: Tensor) -> Tensor:
    return T.to(x.dtype)


PARTS: dict[str, Callable[[Tensor], Tensor]] = {
    "spectrum": lambda x: torch.fft.fft(x).real,
    "back and forth": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=6),
    "filter": lambda x: torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(like(x)), n=6),
    "product": lambda x: (torch.complex(x, like(x)) * torch.complex(like(x), x)).imag,
    "matrices": lambda x: (torch.complex(x, x) @ torch.complex(x, 2 * x).mT).real,
    "angle": lambda x: torch.complex(x, like(x)).angle(),
    "exponential": lambda x: torch.exp(torch.complex(x, x)).real,
    "cube": lambda x: (torch.complex(x, like(x)) ** 3).imag,
}
NATIVE: dict[str, Callable[[Tensor], Tensor]] = {
    "quotient": lambda x: (torch.complex(x, like(x)) / torch.complex(like(x), x)).real,
    "root": lambda x: torch.complex(x, like(x)).sqrt().real,
    "norm": lambda x: torch.linalg.vector_norm(torch.exp(torch.complex(x, x)), dim=1),
}


def gradient(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def of(x: Tensor) -> Tensor:
        leaf = x.detach().clone().requires_grad_()
        found = f(leaf)
        (made,) = torch.autograd.grad(
            found, leaf, WEIGHTS.reshape(-1)[: found.numel()].reshape(found.shape).to(x.dtype)
        )
        return made

    return of


def attacked(f: Callable[[Tensor], Tensor]) -> ShadowMode:
    mode = ShadowMode(Unit(native=False, inputs=OFF))
    with mode:
        found = f(X)
    value, error = mode.value(found), mode.error(found)
    for _ in range(6):
        signs = torch.randint(0, 2, X.shape, generator=DRAW) * 2 - 1
        moved = f(X.double() * (1 + OFF * signs))
        assert bool(((moved - value).abs() <= error).all()), float(((moved - value).abs() / error).max())
    return mode


@pytest.mark.parametrize("name", PARTS)
def test_what_goes_by_parts_has_a_proved_error(name: str) -> None:
    assert not attacked(PARTS[name]).estimated
    attacked(gradient(PARTS[name]))


@pytest.mark.parametrize("name", NATIVE)
def test_what_does_not_is_an_estimate_and_named(name: str) -> None:
    for f in (NATIVE[name], gradient(NATIVE[name])):
        mode = attacked(f)
        assert mode.estimated and any("complex" in note for note in mode.notes)
