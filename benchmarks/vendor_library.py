"""The vendor's math library against its documented errors: NVIDIA's libdevice, compiled for this CPU.

    python benchmarks/vendor_library.py [--stride 61] [--points 20000] [--only NAME ...] [--json PATH] [--page PATH]

fp32 functions of one argument meet every `stride`-th of the 2^32 numbers, in four settings (see `SETTINGS`); other
functions meet random points, compared in ball arithmetic. Exits with 1 where the library, its instructions exact,
exceeds what a profile declares. About ten minutes on one core; --stride 1 takes a day.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from interval_ops.profiles.profile import load_profile

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from vendor_oracle.balls import ARITY, BALLS, worst
from vendor_oracle.bitcode import Library
from vendor_oracle.exact import EXACT, comparison
from vendor_oracle.points import arguments

PROFILE = "sm_80"
SETTINGS = {
    "exact": (False, 0.0),
    "fused": (True, 0.0),
    "high": (False, 1.0),
    "low": (False, -1.0),
}
"""(whether a * b + c of the library's own code fuses, where its approximate instructions lie in their documented
error): all exact; fused; at the upper ends; at the lower ends."""
_CHUNK = 1 << 18
_RENAMED = {"exp": "libdevice_exp", "rsqrt": "libdevice_rsqrt"}


@dataclass
class Row:
    """One function in one precision: ulp declared, from the correctly rounded value, and errors found, from the exact
    one, by setting; where the largest was met."""

    name: str
    bits: int
    declared: float
    source: str
    found: dict[str, float] = field(default_factory=dict)
    at: dict[str, list[float]] = field(default_factory=dict)
    points: int = 0
    odd: int = 0

    @property
    def kept(self) -> bool:
        """Whether the library with exact instructions, fused or not, stays within the declared error."""
        return not self.odd and all(self.found[s] <= self.declared + 0.5 for s in ("exact", "fused"))

    @property
    def leaning(self) -> float:
        return max(self.found["high"], self.found["low"])


def declared(name: str, bits: int) -> tuple[float, str]:
    """(ulp from the correctly rounded value, source) in the profile."""
    profile = load_profile(PROFILE)
    error = profile.functions[_RENAMED.get(name, name) if bits == 32 else f"{name}@fp64"]
    return round(error.r * 2.0 ** (23 if bits == 32 else 52) - 0.5, 3), error.source


def swept(name: str, row: Row, libraries: dict[bool, Library], stride: int) -> None:
    """Every `stride`-th number, then the whole binade of the largest error."""
    compare = comparison(name)
    for i, (setting, (fused, lean)) in enumerate(SETTINGS.items()):
        function = libraries[fused].function(name)
        best, at = 0.0, 0.0
        for bits in chunks(stride, i * (stride // len(SETTINGS))):
            best, at = _try(row, compare, function, lean, bits, name, best, at)
        start = int(np.float32(at).view(np.uint32)) & 0xFF800000
        for first in range(start, start + (1 << 23), _CHUNK):
            bits = np.arange(first, first + _CHUNK, dtype=np.uint32)
            best, at = _try(row, compare, function, lean, bits, name, best, at)
        row.found[setting], row.at[setting] = best, [at]


def _try(
    row: Row, compare: Any, function: Any, lean: float, bits: np.ndarray, name: str, best: float, at: float
) -> tuple[float, float]:
    x = bits.view(np.float32)
    if name == "lgamma":  # documented outside its zeros only
        x = np.abs(x)
    y = function(x, lean_by=lean)
    error, where, odd, first = compare(x, y)
    row.points += x.size
    if odd and lean == 0.0:
        row.odd += odd
        print(f"{name}({float(x[first])}) = {float(y[first])}", flush=True)
    return (error, float(x[where])) if error > best else (best, at)


def chunks(stride: int, offset: int) -> Iterator[np.ndarray]:
    step = _CHUNK * stride
    for first in range(offset, 1 << 32, step):
        yield np.arange(first, min(first + step, 1 << 32), stride, dtype=np.uint64).astype(np.uint32)


def sampled(name: str, bits: int, row: Row, libraries: dict[bool, Library], points: int) -> None:
    """Random points, in ball arithmetic."""
    for i, (setting, (fused, lean)) in enumerate(SETTINGS.items()):
        args = arguments(name, ARITY.get(name, 1), bits, points, np.random.default_rng(1000 + i))
        got = libraries[fused].function(name, bits)(*args, lean_by=lean)
        error, at = worst(name, args, got, bits)
        row.found[setting], row.at[setting] = error, list(at)
        row.points += points


def measure(options: argparse.Namespace) -> list[Row]:
    libraries = {fused: Library(contract=fused) for fused in (False, True)}
    rows = []
    for name in options.only or BALLS:
        for bits in (32, 64):
            row, began = Row(name, bits, *declared(name, bits)), time.perf_counter()
            if bits == 32 and name in EXACT:
                swept(name, row, libraries, options.stride)
            else:
                sampled(name, bits, row, libraries, options.points)
            rows.append(row)
            found = " ".join(f"{s} {v:.3f}" for s, v in row.found.items())
            print(f"{name} fp{bits}: declared {row.declared:g}, {found}"
                  f"{'' if row.kept else '  EXCEEDS'} ({time.perf_counter() - began:.0f} s)", flush=True)  # fmt: skip
    return rows


def known(path: Path) -> list[Row]:
    """Rows of an earlier run, with the errors that the profile declares now."""
    rows = [Row(**entry) for entry in json.loads(path.read_text())]
    for row in rows:
        row.declared, row.source = declared(row.name, row.bits)
    return rows


def page(rows: list[Row], options: argparse.Namespace) -> str:
    """The table as Markdown."""
    head = Path(__file__).with_name("vendor_library.md").read_text()
    lines = ["| function | declared | exact | fused | leaning | where | points |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        at = ", ".join(f"{v:.9g}" for v in row.at[max(("exact", "fused"), key=row.found.__getitem__)])
        lines.append(
            f"| {row.name} fp{row.bits} | {row.declared + 0.5:g} | {row.found['exact']:.3f} | "
            f"{row.found['fused']:.3f} | {row.leaning:.3f} | {at} | {row.points:.2g} |"
        )
    import triton

    command = f"python benchmarks/vendor_library.py --stride {options.stride} --points {options.points}"
    return f"{head}\n## Table\n\nTriton {triton.__version__}, `{command}`\n\n" + "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--stride", type=int, default=61, help="fp32 functions of one argument: every how-manieth number"
    )
    parser.add_argument("--points", type=int, default=20_000, help="random points per setting for the others")
    parser.add_argument("--only", nargs="*", help="these functions")
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--read", type=Path, help="the rows of an earlier run instead of a new one")
    parser.add_argument("--page", type=Path, help="write the table as Markdown here")
    options = parser.parse_args()
    rows = known(options.read) if options.read else measure(options)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if options.page:
        options.page.write_text(page(rows, options))
    exceeding = [f"{row.name} fp{row.bits}" for row in rows if not row.kept]
    print(
        f"{len(rows)} functions, {sum(row.points for row in rows)} points, exceeding: {', '.join(exceeding) or 'none'}"
    )
    return int(bool(exceeding))


if __name__ == "__main__":
    sys.exit(main())
