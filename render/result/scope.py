"""What a verdict covers: which inputs, configurations and tensors were judged, and what was left out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InputRecord:
    """One tensor of the call: `sha256` of its elements in row-major order, as bytes of its own dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    sha256: str


@dataclass(frozen=True)
class Configurations:
    """Of the `of` autotune configurations of a kernel (after pruning) `run` were judged."""

    kernel: str
    run: int
    of: int

    @property
    def sentence(self) -> str:
        return f"{self.run} of {self.of} configurations of {self.kernel}"


@dataclass(frozen=True)
class ConfigurationVerdict:
    """What one autotune configuration gave: `settings` by kernel, `kernel: BLOCK=64, num_warps=4`."""

    settings: tuple[str, ...]
    label: str
    code: str

    @property
    def sentence(self) -> str:
        return f"{'; '.join(self.settings)}: {self.label} {self.code}"


@dataclass(frozen=True)
class Scope:
    """The range of one verdict.

    `source`: sha256 of the files that the kernels stand in. `stored`: tensors that a kernel stored to and that the
    caller can see (results, arguments); `compared`: those of them that were held against the reference, `unjudged`:
    those that nothing vouches for. `left_out`:
    each check that was not made or made on a part, in words. `device_output`: where the device's values come from.
    `each`: the verdicts of all configurations, the worst of which is this one, where more than one was judged.
    """

    configurations: tuple[Configurations, ...] = ()
    each: tuple[ConfigurationVerdict, ...] = ()
    inputs: tuple[InputRecord, ...] = ()
    seed: int = 0
    source: str = ""
    stored: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    device_output: str = ""

    @property
    def sentence(self) -> str:
        """What limits the verdict, in one line; "" where nothing does."""
        parts = [c.sentence for c in self.configurations if c.run < c.of]
        if self.unjudged:
            parts.append(f"not compared: {', '.join(self.unjudged)}")
        return "; ".join([*parts, *self.left_out])
