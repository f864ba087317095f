"""`render::about(self, room)`: a copy of a tensor whose elements an implementation may give up to `room` off.

Steps that stand for an operation (`render.ops.layers`) say by it what an algorithm loses that they do not follow. To
every lane it moves elements; host bounds are as wide as it says.
"""

from __future__ import annotations

import torch

ABOUT = "render::about"
_LIBRARY = torch.library.Library("render", "FRAGMENT")
_LIBRARY.define("about(Tensor self, Tensor room) -> Tensor")
_LIBRARY.impl("about", lambda self, room: self.clone(), "CompositeExplicitAutograd")


def about(x: torch.Tensor, room: torch.Tensor | float) -> torch.Tensor:
    """`room` in float64, of a shape that broadcasts to that of x."""
    given = torch.as_tensor(room, dtype=torch.float64)
    found: torch.Tensor = torch.ops.render.about(x, given if given.dim() else given.expand((1,) * x.dim()))
    return found


def unit(dtype: torch.dtype) -> float:
    """Unit roundoff of a type."""
    return torch.finfo(dtype).eps / 2
