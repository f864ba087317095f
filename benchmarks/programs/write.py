"""A random program as text: kernels, a wrapper that launches them with torch in between, and a reference."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

import torch

from programs import stages
from programs.stages import Draft

HEAD = "import torch\nimport torch.nn.functional as F\nimport triton\nimport triton.language as tl\n"
DTYPES = ("float32", "float16", "bfloat16")
STYLES = ("torch", "method", "steps", "float", "double")
"""How a reference is spelled; the last two widen their inputs first and cast the result."""
DEVICES = ("any", "sm_90", "sm_80")
_WIDE = {"tl.float32": "tl.float64", ".float()": ".double()",
         **{f"torch.{t}": "torch.float64" for t in ("float32", "float16", "bfloat16")}}  # fmt: skip


class Inputs(NamedTuple):
    args: tuple[torch.Tensor, ...]
    wide: tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Program:
    """`text` as a user would have written it; `lines`: of its kernels and wrapper, where a mistake may be."""

    seed: int
    text: str
    recipes: tuple[str, ...]
    dtype: str
    style: str
    device: str
    stages: tuple[str, ...]

    def inputs(self) -> Inputs:
        """Fresh tensors; `wide` are the same numbers in float64."""
        torch.manual_seed(self.seed)
        made = [eval(recipe, {"torch": torch}) for recipe in self.recipes]
        given = tuple(x.to(getattr(torch, self.dtype)) if x.is_floating_point() else x for x in made)
        return Inputs(given, tuple(x.double() if x.is_floating_point() else x for x in given))


def widened(text: str) -> str:
    """The program with every format float64: what is left is its formula."""
    for old, new in _WIDE.items():
        text = text.replace(old, new)
    return text


def program(seed: int) -> Program:
    r = random.Random(seed)
    d = Draft(r, r.choice(DTYPES), (r.choice([6, 9, 17]), r.choice([20, 33, 48, 64])))
    x = f"torch.randn{d.shape} * {d.number(0.5, 1.5)} + {d.r.choice([0.0, 0.0, 0.4])}"
    names = []
    for k in range(r.randint(2, 4)):
        stage = r.choice(stages.KERNELS) if k == 0 or r.random() < 0.6 else stages.host
        names.append(stage.__name__)
        stage(d)
    if not d.launches:
        stages.chain(d)
        names.append("chain")
    style = r.choice(STYLES)
    params = ", ".join(["x", *d.inputs])
    text = "\n\n".join([HEAD, *d.kernels, _entry(params, d), _reference(params, d, style)]) + "\n"
    return Program(seed, text, (x, *d.inputs.values()), d.dtype, style, r.choice(DEVICES), tuple(names))


def _entry(params: str, d: Draft) -> str:
    lines = ["h = x.contiguous()"]
    for call in d.calls:
        lines.append(call)
    return f"def entry({params}):\n" + "".join(f"    {line}\n" for line in [*lines, "return h"])


def _reference(params: str, d: Draft, style: str) -> str:
    at = STYLES.index(style)
    lines = [line[at if at < 3 else d.r.randrange(3)] for line in d.ref]
    floats = ["x", *(n for n, recipe in d.inputs.items() if "randint" not in recipe)]
    head = [] if at < 3 else [f"{n} = {n}.{style}()" for n in floats]
    back = "return h" if at < 3 else f"return h.to(torch.{d.dtype})"
    return f"def reference({params}):\n" + "".join(f"    {line}\n" for line in [*head, "h = x", *lines, back])
