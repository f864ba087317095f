"""Other ways to write the packaged kernels: the same function in exact arithmetic, other roundings, never a bug.

Each is made from the packaged source by exchanging snippets, so it keeps the launcher, the inputs and the reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.kernels.bugs import KERNELS


@dataclass(frozen=True)
class Rewrite:
    """`pairs` are (old, new); each old occurs exactly once in kernels/`kernel`.py."""

    kernel: str
    name: str
    pairs: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.kernel}-{self.name}"

    def write(self, folder: Path) -> Path:
        """The rewritten file, a complete module of its own."""
        source = (KERNELS / f"{self.kernel}.py").read_text()
        for old, new in self.pairs:
            assert source.count(old) == 1, f"{self}: {old!r} occurs {source.count(old)} times"
            source = source.replace(old, new)
        path = folder / f"{self.kernel}_{self.name}.py"
        path.write_text(source)
        return path


def rewrites(kernel: str, **named: tuple[tuple[str, str], ...] | tuple[str, str]) -> list[Rewrite]:
    """A single pair may stand without the tuple around it."""
    return [
        Rewrite(kernel, name, (pairs,) if isinstance(pairs[0], str) else pairs)  # type: ignore[arg-type]
        for name, pairs in named.items()
    ]


def every() -> list[Rewrite]:
    from tests.kernels import rewrites_matmul, rewrites_rows

    return [*rewrites_rows.REWRITES, *rewrites_matmul.REWRITES]


REWRITES = every()
