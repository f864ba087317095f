"""Cases of `kept_bounds`: one program for every statement and feature of the language (`statement_zoo`, `feature_zoo`).

Of a program that runs: the bounds of what it stores, what is unknown, found, printed. Of one that is refused: the class
of the error and its line. Operands have bounds, so that a branch may be open.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import feature_zoo
import kept_hosted
import numpy as np
import statement_zoo
import torch
from kept_bounds import Cases

from render.interpreter.session import Session

Made = Callable[[str], Any]


def _sign(text: str) -> float:
    """Of a text, whatever addresses stand in it: letters alone."""
    return float(sum((k % 97 + 1) * ord(c) for k, c in enumerate(filter(str.isalpha, text))))


def _operand(n: int, width: float) -> torch.Tensor:
    return (torch.arange(float(n)) * 5 % 17 - 3) / 4 + 3 * width


def _ran(make: Made, body: str, width: float) -> object:
    found, said = list[Any](), list[str]()
    x, out = _operand(256, width), torch.zeros(256)
    with warnings.catch_warnings(), Session(device="any", printer=said.append) as session:
        warnings.simplefilter("ignore")
        if width:
            v = x[:8].double().numpy()
            session.memory.carry(x[:8], v - width * np.array([1, 0] * 4), v + width, frozenset())
        try:
            make(body)[(2,)](x, out, 5, C=2)
        except Exception as error:
            kind, line = statement_zoo.refusal(error)
            return [_sign(kind), float(line), _sign(getattr(error, "code", "") or "")]
        found += kept_hosted.told(session, out[:16])
        seen = [int(f.code[3:]) for f in session.findings]
        events = [len(session.causes), sum(map(_sign, said)), len(said)]
    return [*found, *sorted(seen), *map(float, events)]


BODIES: tuple[tuple[str, Made, dict[str, str]], ...] = (
    ("statement", statement_zoo.made, statement_zoo.BODIES),
    ("feature", feature_zoo.made, feature_zoo.FEATURES),
)
CASES: Cases = {
    f"{kind} {name}": (partial(_ran, make, body, 0.0625), 2.0**-36)
    for kind, make, bodies in BODIES
    for name, body in bodies.items()
}
