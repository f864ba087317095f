"""The foreign adversary on whole programs: several launches, torch in between, references spelled by their authors.

    python benchmarks/foreign_programs.py [--seed 5000] [--count 200] [--runs 6] [--json PATH] [--page docs/foreign.md]

Random programs (`random_programs.py`) and the programs of `tests/foreign/zoo.py` run as a target could run them, by
code that shares no figure, no rounding and no memory with RENDER (`tests/foreign`). Every value is compared with
the bounds of one interval run, and one execution of each random program is judged as a recorded device output against
its reference: Type-II is wrong. Rows go to --json, and what stands there is not done again. Exits with 1 if a value lay
outside or a label was wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from foreign.attack import Foreign, Outcome, attack, executed
from foreign.figures import INSIDE
from foreign.zoo import zoo
from programs.write import program
from random_programs import module_of

import render

DEVICES = ("any", "sm_80", "sm_89", "sm_90", "sm_100", "gfx90a")


def row(given: Foreign, device: str, runs: int, seed: int) -> dict[str, Any]:
    found: Outcome = attack(given, device, runs, seed)
    return {"name": given.name, "device": device, "checks": found.checks, "runs": found.runs, "reach": found.reach,
            "outside": found.violated, "first": found.outside[:2], "taints": list(found.taints),
            "left_out": found.left_out}  # fmt: skip


def random_row(seed: int, runs: int, folder: Path) -> dict[str, Any]:
    """With the label and code of one execution as a device output."""
    drawn = program(seed)
    module = module_of(drawn.text, f"foreign_{seed}", folder)
    given = Foreign(f"program {seed}", module.entry, drawn.inputs().args)
    found = row(given, drawn.device, runs, seed)
    chip = INSIDE.get(drawn.device, (drawn.device,))[seed % len(INSIDE.get(drawn.device, "1"))]
    out = executed(given, chip, seed + 1000)[0]
    verdict = render.classify(module.entry, *drawn.inputs().args, ref=module.reference, output=out, device=drawn.device)
    return found | {"label": verdict.label, "code": verdict.code, "style": drawn.style, "dtype": drawn.dtype}


def rows(args: argparse.Namespace, known: set[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    for given in zoo():
        for device in DEVICES:
            if (given.name, device) not in known:
                yield row(given, device, args.runs, args.seed)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.seed, args.seed + args.count):
            if (f"program {seed}", program(seed).device) not in known:
                yield random_row(seed, args.runs, Path(folder))


PAGE = """# Programs, executed by foreign code

Made by `python benchmarks/foreign_programs.py --seed {seed} --count {count} --runs {runs} --page docs/foreign.md`.

The other adversary ([soundness.md](soundness.md)) attacks single kernels and shares with RENDER the profiles, the
models of matrix units, the memory and the tracker of host code. This one (`tests/foreign`) shares none of them:
figures are written down a second time from the PTX ISA, the CUDA guide, LLVM's AMDGPU guide and the papers on matrix
units; kernels run on Triton's stock interpreter with other arithmetic; what the host computes runs as PyTorch's CUDA
kernels do (a division by a number multiplies by its reciprocal, sums run in any order, functions lie anywhere in their
documented errors). Its subjects are whole programs: several launches with torch in between, tables that the host
makes in other dtypes, `.item()` and `.tolist()`, weights that the host folds, quantisers that saturate, three dtypes,
references in five spellings. Instructions are those of the PTX that Triton 3.9 emits: e^x is 2 to the rounded product
with log2 e, x / c with a constant c is x times 1 / c, products are fused where they are added or not, `acc += dot` is
one chain but for fp8 on sm_90. Kernels with inline PTX (approximate functions of fp32 and of pairs of halves,
directed roundings, fused multiply-adds) run through an interpreter of its text. One chip of `any` rounds the operands
of tf32 products where the others cut them.

{tables}
"""


def page(found: list[dict[str, Any]], args: argparse.Namespace) -> str:
    lines = ["| programs | devices | executions | checks | outside | furthest | left out |", "|---|---|" + "---:|" * 5]
    groups = {"by hand": [r for r in found if "label" not in r], "random": [r for r in found if "label" in r]}
    for name, mine in groups.items():
        devices = ", ".join(sorted({r["device"] for r in mine}))
        lines.append(f"| {len({r['name'] for r in mine})} {name} | {devices} | {sum(r['runs'] for r in mine):,} | "
                     f"{sum(r['checks'] for r in mine):,} | {sum(r['outside'] for r in mine)} | "
                     f"{max((r['reach'] for r in mine), default=0):.3f} | "
                     f"{sum(bool(r['left_out']) for r in mine)} |")  # fmt: skip
    labels = [r["label"] for r in groups["random"]]
    counts = ", ".join(f"{labels.count(x)} {x}" for x in ("Type-I", "Inconclusive", "Type-II"))
    lines += ["", f"One execution of each random program as its device output, judged against its reference: {counts}."]
    lines += [
        "",
        "Left out are operations that a target does not have (tf32 and PTX on AMD, approximate bf16 pairs before "
        "sm_90, fp8e4nv before sm_89), and functions that no document at hand bounds there.",
    ]
    tainted = sorted({t for r in found for t in r["taints"]})
    if tainted:
        lines += ["", f"Outputs behind a taint have no bounds to attack: {', '.join(tainted)}."]
    return PAGE.format(seed=args.seed, count=args.count, runs=args.runs, tables="\n".join(lines))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=5000)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--runs", type=int, default=6, help="executions per program")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    args = parser.parse_args()
    found = [json.loads(line) for line in args.json.open()] if args.json and args.json.exists() else []
    for r in rows(args, {(r["name"], r["device"]) for r in found}):
        found.append(r)
        if args.json:
            with args.json.open("a") as out:
                out.write(json.dumps(r) + "\n")
        if r["outside"] or r.get("label") == "Type-II":
            print(r, flush=True)
    wrong = sum(r["outside"] for r in found), sum(r.get("label") == "Type-II" for r in found)
    print(f"{len(found)} attacks, {sum(r['checks'] for r in found):,} checks, {wrong[0]} outside, {wrong[1]} Type-II")
    if args.page:
        args.page.write_text(page(found, args))
    return int(any(wrong))


if __name__ == "__main__":
    torch.set_num_threads(1)
    raise SystemExit(main())
