"""Which side of a comparison is wrong, and by how much: data, computed by `render.judgement.blame`."""

from __future__ import annotations

from dataclasses import dataclass

WORDS = {
    "neither": "neither is wrong, both lie in the bound",
    "kernel": "the kernel is wrong: no legal rounding of it reaches the reference's exact value",
    "device": "the device is wrong: the kernel's source reaches the reference, its output does not",
    "reference": "the reference carries the error: its exact value is in the bound, what it returned is not",
    "formula": "one of them is wrong: without any rounding they differ",
    "memory": "the kernel is wrong: it uses memory that it must not use",
    "unstable": "the kernel is wrong: rounding explains its error, but a stable form would not have it",
    "unknown": "which one is wrong cannot be told",
}


@dataclass(frozen=True)
class Blame:
    """Largest absolute errors against E, where they are, and who is wrong (a key of `WORDS`).

    `kernel_*` is the re-executed kernel, `device_*` the recorded output if there is one; errors are infinite where only
    one side is NaN or infinite, 0 where both are the same infinity or NaN. `exact_error` is what E itself may be off
    by, None where nothing depends on it.
    """

    wrong: str
    kernel_error: float
    kernel_index: tuple[int, ...]
    reference_error: float
    reference_index: tuple[int, ...]
    exact_error: float | None
    device_error: float | None = None

    @property
    def sentence(self) -> str:
        return WORDS[self.wrong]
