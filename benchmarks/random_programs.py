"""Random programs, right and with one planted mistake: is any right one called a bug, is any mistake called round-off?

    python benchmarks/random_programs.py [--seed N] [--count N] [--faults] [--json PATH] [--page PATH]

A program (`programs/`) is a wrapper that launches several kernels with torch in between, in one of three dtypes, and a
reference that says the same in one of five spellings. Without --faults each is judged as it is: right answers are
Type-I. With it, each has one mistake of half a rounding of the output or more, and Type-I is wrong. How large a mistake
is, is measured without any bound: both texts run with every format widened to float64, values only. --json is appended
to, and programs in it are not judged again; --page writes what it holds as tables (docs/programs.md).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))

from programs.faults import Fault, draw
from programs.module import module_of
from programs.write import Program, program, widened

import render
from interval_ops.formats.model import FORMATS
from render.interpreter.session import Session

NEAR = 3
"""Lines that a verdict may be away from the mistake."""
LEAST = 0.5
"""The least fault that counts, in roundings of the output."""
TRIES = 12
_FMT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
SIZES = ((0.5, 1.0), (1.0, 2.0), (2.0, 8.0), (8.0, 64.0), (64.0, np.inf))


def wide(text: str, given: Program, name: str, folder: Path) -> np.ndarray | None:
    """What the text computes without its roundings; None where it does not run, or leaves what is its own."""
    try:
        module = module_of(widened(text), name, folder)
        with warnings.catch_warnings(action="ignore"), Session(interval=False, steps=1 << 14) as session:
            out = module.entry(*given.inputs().wide)
        return None if session.findings else out.detach().numpy().astype(np.float64)
    except Exception:  # whatever a wrong program raises
        return None


def size_of(right: np.ndarray, wrong: np.ndarray, dtype: str) -> float:
    """The largest difference, in roundings of the output: u |y| and half a subnormal spacing."""
    if right.shape != wrong.shape:
        return float("inf")
    fmt = FORMATS[_FMT[dtype]]
    with np.errstate(all="ignore"):
        apart = np.abs(right - wrong) / (fmt.u * np.abs(right) + fmt.half_subnormal)
        apart = np.where((right == wrong) | (np.isnan(right) & np.isnan(wrong)), 0.0, apart)
    return float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0))


def planted(given: Program, folder: Path) -> tuple[Fault, float] | None:
    """A mistake of LEAST or more, with its size: the first of some that are tried."""
    name = f"wide_{given.seed}"
    right = wide(given.text, given, name, folder)
    if right is None or not np.isfinite(right).all():
        return None
    for k, fault in zip(range(TRIES), draw(given.text, random.Random(given.seed)), strict=False):
        wrong = wide(fault.text, given, f"{name}_{k}", folder)
        if wrong is not None and (size := size_of(right, wrong, given.dtype)) >= LEAST:
            return fault, size
    return None


def judged(text: str, given: Program, name: str, folder: Path) -> dict[str, Any]:
    try:
        module = module_of(text, name, folder)
        v = render.classify(module.entry, *given.inputs().args, ref=module.reference, device=given.device)
    except Exception as error:  # a program that does not run has no verdict
        return {"label": "error", "code": type(error).__name__, "message": str(error)[:300], "line": 0}
    return {"label": v.label, "code": v.code, "subtype": v.subtype, "message": v.message, "line": v.line,
            "file": Path(v.file or "").stem, "notes": list(v.notes), "seconds": round(v.timing["total_s"], 2),
            }  # fmt: skip


def row(seed: int, faulty: bool, folder: Path) -> dict[str, Any] | None:
    given = program(seed)
    found: dict[str, Any] = {"seed": seed, "faulty": faulty, "dtype": given.dtype, "style": given.style,
                             "device": given.device, "stages": list(given.stages)}  # fmt: skip
    if not faulty:
        return found | judged(given.text, given, f"program_{seed}", folder)
    mistake = planted(given, folder)
    if mistake is None:
        return None
    fault, size = mistake
    name = f"faulty_{seed}"
    found |= judged(fault.text, given, name, folder)
    near = found["label"] == "Type-II" and found["file"] == name and abs(found["line"] - fault.line) <= NEAR
    return found | {"kind": fault.kind, "size": size, "planted": fault.line, "was": fault.was, "now": fault.now,
                    "near": bool(near)}  # fmt: skip


def rows(seeds: Iterable[int], faulty: bool) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            if (found := row(seed, faulty, Path(folder))) is not None:
                yield found


def summary(found: list[dict[str, Any]]) -> list[str]:
    """What is counted, in lines of text."""
    good = [r for r in found if not r["faulty"]]
    bad = [r for r in found if r["faulty"] and r["label"] != "error"]
    lines = [f"{what}: {dict(Counter(r['label'] for r in rs))} {dict(Counter(r['code'] for r in rs))}"
             for what, rs in (("right", good), ("with a mistake", bad)) if rs]  # fmt: skip
    if bad:
        named = [r for r in bad if r["label"] == "Type-II"]
        lines.append(
            f"not Type-I: {_part(bad, _seen)}; line within {NEAR}: {_part(named, lambda r: r['near'])} of Type-II"
        )
        for low, high in SIZES:
            lines.append(f"  of {low:g} to {high:g} roundings: {_part(_between(bad, low, high), _seen)}")
        for kind in sorted({r["kind"] for r in bad}):
            mine = [r for r in bad if r["kind"] == kind]
            lines.append(
                f"  {kind}: {_part(mine, _seen)}, named {_part([r for r in mine if r in named], lambda r: r['near'])}"
            )
    return lines


def _between(found: list[dict[str, Any]], low: float, high: float) -> list[dict[str, Any]]:
    return [r for r in found if low <= r["size"] < high or (r["size"] == high == np.inf)]


def _seen(r: dict[str, Any]) -> bool:
    return bool(r["label"] != "Type-I")


def _part(found: list[dict[str, Any]], test: Callable[[dict[str, Any]], bool]) -> str:
    hit = sum(map(test, found))
    return f"{hit} of {len(found)}" + (f" ({100 * hit / len(found):.1f} %)" if found else "")


PAGE = """# Random programs, right and with a mistake

Made by `benchmarks/random_programs.py` with `--seed {good}`, then `--faults --seed {bad}`,
both into one `--json`, and `--page docs/programs.md`. A program is a wrapper that launches one to four kernels with
torch in between, in float32, float16 or bfloat16, with a reference in one of five spellings (torch functions, methods,
elementary steps, and these in float32 or float64 with a cast at the end). A mistake changes one line of a kernel or of
the wrapper.

**Size.** Both texts run with every format widened to float64, so that no bound and no rounding takes part: the size of
a mistake is the largest difference in units of one rounding of the output, u |y|. Those of half a rounding or more
count; of the constants that are changed, some are changed by 2^-13 only.

{tables}

## What cannot be seen, and why

- Less than 16 float32 roundings of every input and constant, carried to the output: hosts prepare tables and scales in
  float32, and a constant of a half-precision reference is one of its own format.
- Less than one rounding of the output in single elements: a tie inside that falls the other way looks the same. It
  takes eight elements to one side, or an eighth of all, to be no chance.
- What the inputs do not reach: a mask that is off where the shape divides the block, a branch that no value takes.
- What is as wide as its bound where kernel and reference cannot be compared without rounding (a step without a rule, an
  order that matters); where that would take more than the counted work, eight elements of each output stand for all.
"""


def page(found: list[dict[str, Any]]) -> str:
    def span(faulty: bool) -> str:
        seeds = [r["seed"] for r in found if r["faulty"] == faulty]
        return f"{min(seeds)} --count {max(seeds) - min(seeds) + 1}" if seeds else "-"

    good, bad = [r for r in found if not r["faulty"]], [r for r in found if r["faulty"] and r["label"] != "error"]
    bugs = [r for r in bad if r["label"] == "Type-II"]
    lines = ["| right programs | Type-I | Type-II | Inconclusive |", "|---:|---:|---:|---:|"]
    counts = [sum(r["label"] == label for r in good) for label in ("Type-I", "Type-II", "Inconclusive")]
    lines += [f"| {len(good)} | " + " | ".join(map(str, counts)) + " |", ""]
    head = "| programs | not Type-I | Type-II | line within 3 |"
    lines += [f"| size of the mistake, roundings {head}", "|---|" + "---:|" * 4]
    lines += [*(_row(f"{a:g} to {b:g}", _between(bad, a, b)) for a, b in SIZES), _row("all", bad), ""]
    lines += [f"| mistake {head}", "|---|" + "---:|" * 4]
    lines += [_row(kind, [r for r in bad if r["kind"] == kind]) for kind in sorted({r["kind"] for r in bad})]
    lines += ["", f"Of {len(bugs)} Type-II {sum(r['near'] for r in bugs)} name a line within {NEAR} of the mistake."]
    return PAGE.format(good=span(False), bad=span(True), tables="\n".join(lines))


def _row(name: str, rows: list[dict[str, Any]]) -> str:
    bugs = [r for r in rows if r["label"] == "Type-II"]
    return f"| {name} | {len(rows)} | {sum(map(_seen, rows))} | {len(bugs)} | {sum(r['near'] for r in bugs)} |"


def told(r: dict[str, Any]) -> str:
    head = f"{r['seed']:5} {r['dtype']:8} {r['style']:6} {r['device']:5} {r['label']:12} {r['code']}"
    if not r["faulty"]:
        return f"{head} {'+'.join(r['stages'])}"
    mark = "" if r["near"] or r["label"] != "Type-II" else "!"
    named = f"line {r['planted']} named {r['line']}{mark}"
    return f"{head} {r['size']:9.3g} {named} {r['kind']}: {r['was'][:50]} -> {r['now'][:50]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    args = parser.parse_args()
    found = [json.loads(line) for line in args.json.open()] if args.json and args.json.exists() else []
    known = {(r["seed"], r["faulty"]) for r in found}
    todo = [s for s in range(args.seed, args.seed + args.count) if (s, args.faults) not in known]
    for r in rows(todo, args.faults):
        found.append(r)
        print(told(r), flush=True)
        if args.json:
            with args.json.open("a") as out:
                out.write(json.dumps(r) + "\n")
    print("\n".join(summary(found)))
    if args.page:
        args.page.write_text(page(found))
    wrong = [r for r in found if not r["faulty"] and r["label"] == "Type-II"]
    return int(bool(wrong))


if __name__ == "__main__":
    torch.set_num_threads(1)
    raise SystemExit(main())
