"""Small faults: what a packaged kernel takes to its last store, times 1 + s u, from half a rounding of the output up.

    python benchmarks/power_small.py [--device any] [--kernel TEXT] [--size 0.5 1 2 8] [--json PATH] [--page PATH]

u |y| is one rounding of the output's format. The mutant is judged as a kernel of its own, as a user would see it. Rows
go to --json, and what stands there is not measured again; --page puts the table into the page of `power_table.py`.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from mutants import Subject

from render.classify import classify_file
from render.explain.power import plant

ROOT = Path(__file__).resolve().parent.parent
SIZES = (0.5, 1.0, 2.0, 8.0)
HEAD = "## From half a rounding of the output upward\n"


def rows(path: Path, device: str, sizes: list[float]) -> list[dict[str, Any]]:
    """One row per size, at the kernel's last store: those before it hold statistics or steps on the way."""
    subject = Subject(path, device)
    formats = [c.fmt for c in subject.study.cases if c.fmt is not None]
    stores = [(f, fault) for f, fault in subject.todo if fault.kind == "scale"]
    if not formats or not stores:
        return []
    (function, fault), fmt, out = stores[-1], formats[-1], []
    for size in sizes:
        change = plant(function, replace(fault, variant=-math.log2(size * fmt.u)))
        found = classify_file(path, device=device, budget=False, session={"change": change})
        out.append({"kernel": path.stem, "device": device, "format": fmt.name, "size": size, "label": found.label,
                    "code": found.code, "subtype": found.subtype, "before": subject.verdict.code})  # fmt: skip
    return out


SECTION = (
    HEAD
    + """
`python benchmarks/power_small.py --page docs/power.md`, under `any`: the value that the kernel's last store takes,
times 1 + s u, where u |y| is one rounding of the output's format; a verdict that is not Type-I has seen it.

{table}

Not seen at that size, by kernel (the code of the verdict):

{missed}

Why the smallest cannot be seen, in classes:

- **fp32 outputs, below what 16 roundings of every input come to**: constants, scales and tables of hosts and kernels
  are float32 numbers, and 2^-20 of each, carried to the output, is no other function. For sums, products and softmax
  that is more than 2^-20 of the output: the kernels that do not show s = 8 do not show s = 32 either.
- **a constant beside a larger number**: an `eps` of 1.05e-5 for 1e-5 beside a mean square of 1 moves the output by
  2.5e-7 of itself, less than those roundings, and is Type-I; 50 % off, or 5 % off beside 0.01, is Type-II.
- **single elements below one rounding**: a tie that falls the other way looks the same; a fault is told from it by
  many elements to one side, so that outputs of few elements (a loss, a maximum) show none.
- **values that are rounded before the fault**: where a store takes fp16 or bf16 numbers, 1 + u / 2 times one of them
  rounds back to it in every element: the mutant is the kernel.
- **steps without an unrounded form**: casts to integers and fp8 hold the same number on both sides of a small fault.
"""
)


def section(found: list[dict[str, Any]]) -> str:
    sizes = sorted({r["size"] for r in found})
    lines = [
        "| output | kernels | " + " | ".join(f"s = {s:g}" for s in sizes) + " |",
        "|---|" + "---:|" * (1 + len(sizes)),
    ]
    for name in sorted({r["format"] for r in found}):
        mine = [r for r in found if r["format"] == name]
        cells = [sum(r["label"] != "Type-I" for r in mine if r["size"] == s) for s in sizes]
        lines.append(f"| {name} | {len({r['kernel'] for r in mine})} | " + " | ".join(map(str, cells)) + " |")
    missed = [f"- s = {s:g}: " + (", ".join(f"{r['kernel']} ({r['code']})" for r in found if r["size"] == s
              and r["label"] == "Type-I") or "none") for s in sizes]  # fmt: skip
    return SECTION.format(table="\n".join(lines), missed="\n".join(missed))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="any")
    parser.add_argument("--kernel", default="")
    parser.add_argument("--size", type=float, nargs="+", default=SIZES)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    args = parser.parse_args()
    found = [json.loads(line) for line in args.json.open()] if args.json and args.json.exists() else []
    known = {r["kernel"] for r in found}
    for path in sorted((ROOT / "kernels").glob("*.py")):
        if args.kernel not in path.stem or path.stem in known:
            continue
        new = rows(path, args.device, list(args.size))
        found += new
        print(path.stem, [(r["size"], r["label"], r["code"]) for r in new], flush=True)
        if args.json:
            with args.json.open("a") as out:
                out.writelines(json.dumps(r) + "\n" for r in new)
    text = section(found)
    if args.page:
        rest = re.sub(rf"\n{re.escape(HEAD)}.*", "", args.page.read_text(), flags=re.DOTALL)
        args.page.write_text(rest.rstrip() + "\n\n" + text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    raise SystemExit(main())
