"""Signals between the kernel body, the memory and the grid executor."""

from __future__ import annotations

import numpy as np


class Diverge(BaseException):
    """A scalar that steers control flow differs between the programs of a chunk; `values` has one per program."""

    def __init__(self, values: np.ndarray) -> None:
        super().__init__("programs of this chunk take different branches")
        self.values = values


class OneByOne(BaseException):
    """Turns of a loop that ran at once depend on each other, or on their order: run them one by one."""


class Waits(BaseException):
    """The one program that runs waits for another: undo it, and run the programs in turns from here on."""


class Oversized(BaseException):
    """A block of so many elements is about to be made for more programs at once than there is room for."""

    def __init__(self, elements: int) -> None:
        super().__init__("a block is too large for so many programs at once")
        self.elements = elements


class Abandoned(BaseException):
    """The launch is over for this program, which waited when another one failed."""
