"""The computation of one output element, cut out of a run as a graph of single values.

    from render.trace import NotSliceable, slice_of
    found = slice_of(entry, run, "out", (3, 5))      # entry, run: render.entry.execution.Entry and Execution

`slice_of` runs only the programs that wrote the element again, records what they do and walks back from the stored
value. The result is a `Slice`: nodes in an order in which operands come first, each with the operation, its attributes
(formats, kind of dot, rounding mode), the source line, the numbers of its operands, and for each value what the run
computed (`v`) and its bound (`lo`, `hi`). Movements, loads, stores that are loaded again and selects whose condition no
rounding can change leave no node. What comes from outside the launch is a leaf (`model.LEAF`).

Raises `NotSliceable` with the operation and line where an operation is not known; a slice is never silently wrong: its
stored value and bound must be those of the run that was judged, and evaluated in real arithmetic every value must lie
in its bound (`check`; a `Contradiction` otherwise, which is our own defect). Which branch of the kernel ran, addresses
and masks are taken from the run.
"""

from typing import TYPE_CHECKING

from render.trace.model import ABSENT, LEAF, Contradiction, Node, NotSliceable, Slice

if TYPE_CHECKING:
    from render.trace.element import slice_of

__all__ = ["ABSENT", "LEAF", "Contradiction", "Node", "NotSliceable", "Slice", "slice_of"]


def __getattr__(name: str) -> object:
    """`slice_of` imports the interpreter only when it is used."""
    if name == "slice_of":
        from render.trace.element import slice_of

        return slice_of
    raise AttributeError(name)
