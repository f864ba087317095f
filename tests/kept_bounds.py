"""Results of rules as they stood when they were last proved and attacked: no bound moves unseen.

A case is a function without arguments that gives arrays: the bounds of a rule over operands that meet its branches. Of
each case a digest is kept (`tests/kept/<group>.txt`, a line each), so a change of one bit in one end is seen. That
proves nothing about a rule: containment and tightness are what its own tests are for. It says that a change which was
not meant to move a bound moved none, in either direction.

Cases whose float64 sums go through numpy or the C library differ by some units in the last place from machine to
machine; of these the numbers are kept (`<group>.npz`), to be met within a part of themselves.

    python tests/kept_bounds.py [GROUP ...]               keeps what the rules give now; tests/ is on the path
    python tests/kept_bounds.py --values FILE [GROUP ...] writes all numbers to FILE, before a change
    python tests/kept_bounds.py --against FILE            says which of them moved, and by how much, after it
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from interval_ops.formats.model import Format

FOLDER = Path(__file__).parent / "kept"
GROUPS = (
    "arithmetic",
    "functions",
    "double_words",
    "library",
    "formats",
    "reduction",
    "dot",
    "matrix",
    "scans",
    "hosted",
    "kernels",
    "launches",
    "features",
    "related",
    "combined",
)
Pair = tuple[np.ndarray, np.ndarray]
Case = Callable[[], Any]
Cases = dict[str, tuple[Case, float]]
"""What gives the numbers, and within which part of them they have to be met: 0 to the bit."""
ROUGHLY = 2.0**-50


def flat(found: Any) -> np.ndarray:
    """All numbers of nested tuples of arrays, one after the other, as float64; what is absent counts as NaN."""
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, tuple | list):
        return np.concatenate([flat(x) for x in found]) if found else np.empty(0)
    return np.atleast_1d(np.asarray(np.nan if found is None else found, np.float64)).reshape(-1)


def cases(group: str) -> Cases:
    found: Cases = importlib.import_module(f"kept_{group}").CASES
    return found


@cache
def kept(group: str) -> dict[str, str]:
    """Digests by case."""
    lines = (FOLDER / f"{group}.txt").read_text().splitlines()
    return {name: digest for name, _, digest in (line.rpartition("  ") for line in lines)}


@cache
def kept_numbers(group: str) -> dict[str, np.ndarray]:
    with np.load(FOLDER / f"{group}.npz") as file:
        return dict(file)


def given(case: Case) -> np.ndarray:
    with np.errstate(all="ignore"):
        return flat(case())


def digest(x: np.ndarray) -> str:
    """Of the bits, all NaN alike."""
    return hashlib.sha256(np.where(np.isnan(x), np.nan, x).astype("<f8").tobytes()).hexdigest()[:16]


def moved(group: str, name: str) -> str:
    """What differs from what was kept, in words; empty if nothing does."""
    case, within = cases(group)[name]
    new = given(case)
    if within:
        return difference(kept_numbers(group)[name], new, within)
    return "" if digest(new) == kept(group)[name] else f"{name}: bounds moved; --values and --against tell which"


def difference(old: np.ndarray, new: np.ndarray, within: float) -> str:
    """Where two results differ; empty if nowhere."""
    if old.shape != new.shape:
        return f"{new.size} numbers in place of {old.size}"
    with np.errstate(all="ignore"):
        same = (old == new) & (np.signbit(old) == np.signbit(new)) | (np.isnan(old) & np.isnan(new))
        same |= np.isfinite(old) & (np.abs(old - new) <= within * np.abs(old))
    places = np.flatnonzero(~same)
    shown = ", ".join(f"[{i}] {old[i]!r} is {new[i]!r}" for i in places[:4])
    return f"{places.size} of {old.size} moved: {shown}" if places.size else ""


def rounded(x: np.ndarray, within: float) -> np.ndarray:
    """To a sixteenth of what is asked of them: such numbers compress."""
    with np.errstate(all="ignore"):
        e = np.frexp(np.where(np.isfinite(x), x, 0.0))[1] + int(np.log2(within)) - 4
        near = np.ldexp(np.rint(np.ldexp(x, -e)), e)
    return np.where(np.isfinite(x) & np.isfinite(near) & (e > -1070), near, x)


def keep(groups: Iterable[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    for group in groups:
        found = {name: (given(case), within) for name, (case, within) in cases(group).items()}
        lines = [f"{name}  {digest(x)}\n" for name, (x, within) in found.items() if not within]
        (FOLDER / f"{group}.txt").write_text("".join(lines))
        rough = {name: rounded(x, within) for name, (x, within) in found.items() if within}
        if rough:
            np.savez_compressed(FOLDER / f"{group}.npz", **rough)
        print(f"{group}: {len(found)} cases, {sum(x.size for x, _ in found.values())} numbers")


def on_grid(x: np.ndarray, fmt: Format) -> np.ndarray:
    """The nearest numbers of a format, without its overflow: built from p and emin alone."""
    with np.errstate(all="ignore"):
        e = np.maximum(np.frexp(x)[1] - 1, fmt.emin) - fmt.p + 1
        near = np.clip(np.ldexp(np.rint(np.ldexp(x, -e)), e), -fmt.max, fmt.max)
    return np.where(np.isfinite(x), near, x)


def numbers(fmt: Format, seed: int, n: int = 64, plain: bool = False) -> np.ndarray:
    """Half of usual size, half from all of the format with its edges; `plain`: finite ones of usual size alone."""
    g = np.random.default_rng(seed)
    usual = on_grid(g.choice([-1.0, 1.0], n) * np.exp2(g.uniform(-4, 4, n)), fmt)
    if plain:
        return usual
    top = np.log2(fmt.max)
    wide = on_grid(g.choice([-1.0, 1.0], n) * np.exp2(g.uniform(max(fmt.emin - fmt.p, -1070), top, n)), fmt)
    edges = np.array([0.0, -0.0, fmt.min_subnormal, -fmt.min_subnormal, fmt.min_normal, -fmt.min_normal, fmt.max,
                      -fmt.max, 1.0, -1.0, 2.0, 0.5, np.inf, -np.inf, np.nan, fmt.min_normal / 2, 3.0,
                      -7.0])  # fmt: skip
    return np.where(g.random(n) < 0.5, usual, np.where(g.random(n) < 0.6, wide, g.choice(edges, n)))


def boxes(fmt: Format, seed: int, n: int = 64, plain: bool = False) -> Pair:
    """Intervals: points, one step, some units, half a binade, across and up to zero, to infinity, NaN in both."""
    g = np.random.default_rng(1000 + seed)
    lo = numbers(fmt, seed, n, plain)
    kind = g.integers(0, 6 if plain else 8, n)
    with np.errstate(all="ignore"):
        unit = np.maximum(np.abs(lo) * fmt.u, fmt.min_subnormal)
        steps = np.choose(kind % 5, [0.0 * unit, 2 * unit, 64 * unit, 0.5 * np.abs(lo), 3.0 * np.abs(lo)])
        hi = np.where(np.isfinite(lo), np.minimum(on_grid(lo + steps, fmt), fmt.max), lo)
    hi = np.where(kind == 7, np.inf, hi)
    lo = np.where(kind == 6, -np.inf, lo)
    bad = np.isnan(lo) | np.isnan(hi)
    lo, hi = np.where(bad, np.nan, lo), np.where(bad, np.nan, np.maximum(hi, lo))
    return (lo, hi) if plain else _at_zero(lo, hi, g)


def _at_zero(lo: np.ndarray, hi: np.ndarray, g: np.random.Generator) -> Pair:
    """A third of them up to a zero of either sign, from one, or as far to both of its sides."""
    kind, zero = g.integers(0, 9, lo.size), g.choice([0.0, -0.0], lo.size)
    hi = np.where((kind == 0) & (lo < 0), zero, hi)
    lo = np.where((kind == 1) & (hi > 0), zero, lo)
    hi = np.where((kind == 2) & (lo < 0), -lo, hi)
    return lo, hi


def points(fmt: Format, seed: int, n: int = 64, plain: bool = False) -> Pair:
    x = numbers(fmt, seed, n, plain)
    return x, x


def main(words: list[str]) -> None:
    if words[:1] == ["--values"]:
        every = {f"{g}/{name}": given(case) for g in words[2:] or GROUPS for name, (case, _) in cases(g).items()}
        np.savez_compressed(words[1], **{name.replace("/", "|"): x for name, x in every.items()})
    elif words[:1] == ["--against"]:
        with np.load(words[1]) as file:
            for key in file:
                group, _, name = key.partition("|")
                if text := difference(file[key], given(cases(group)[name][0]), 0.0):
                    print(f"{group}: {name}: {text}")
    else:
        keep(words or GROUPS)


if __name__ == "__main__":
    sys.modules["kept_bounds"] = sys.modules["__main__"]
    main(sys.argv[1:])
