"""Named correct and unstable forms of one function each, judged for stability: what the limits of RND206 rest on.

    python benchmarks/stability_forms.py [--only NAME] [--grade lost] [--dtype fp32] [--json PATH] [--page PATH]

A row of `stability_forms.txt` is a name, the kernel's lines, the reference, and the inputs on which the form shows what
it is worth. Elementwise lines read `x` and `y` and leave `r`; lines of rows read `x` and `y` of one row, `m` (which
lanes are there) and `n`, and leave `r`, one number or a row. Every program is written to a file and judged as a user
would judge it. Correct forms run in three formats, loaded to and computed in float32; unstable ones in float32, where
there are digits to lose.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch

import render
from render.explain import stability

SOUND, LOST = "sound", "lost"
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
HEAD = """import torch, triton
import triton.language as tl
from triton.language.extra import libdevice

@triton.jit
def kernel(X, Y, Out, n, B: tl.constexpr):
"""
FLAT = """    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    x = tl.load(X + i, mask=m, other=1.0).to(tl.float32)
    y = tl.load(Y + i, mask=m, other=1.0).to(tl.float32)
{body}
    tl.store(Out + i, r, mask=m)

def entry(x, y):
    out = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), 128)
    return out
"""
ROWS = """    p = tl.program_id(0)
    i = tl.arange(0, B)
    m = i < n
    x = tl.load(X + p * n + i, mask=m, other=0.0).to(tl.float32)
    y = tl.load(Y + p * n + i, mask=m, other=0.0).to(tl.float32)
{body}
    tl.store(Out + {place}, r{mask})

def entry(x, y):
    out = torch.empty({shape}, dtype=x.dtype)
    kernel[(x.shape[0],)](x, y, out, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return out
"""


class Form(NamedTuple):
    """`kind`: flat, row (a row comes out) or one (a number per row)."""

    name: str
    grade: str
    kind: str
    body: str
    ref: str
    given: str


def source(form: Form) -> str:
    body = "\n".join("    " + line.removeprefix(" ") for line in form.body.split(";"))
    if form.kind == "flat":
        text = FLAT.format(body=body)
    else:
        row = form.kind == "row"
        shape, place = ("x.shape", "p * n + i") if row else ("x.shape[:1]", "p")
        text = ROWS.format(body=body, place=place, mask=", mask=m" if row else "", shape=shape)
    return f"{HEAD}{text}\n\ndef reference(x, y):\n    F = torch.nn.functional\n    return {form.ref}\n"


def inputs(given: str, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs of tensors by name; seeds are fixed."""
    g = torch.Generator().manual_seed(1)
    near = lambda x, by: x * (1 + by * torch.randn(x.shape, generator=g))  # noqa: E731
    normal = torch.randn(1024, generator=g)
    small = torch.cat([torch.logspace(-5, 0.5, 256), -torch.logspace(-5, 0.5, 256)])
    rows, other = torch.randn(8, 200, generator=g), torch.randn(8, 200, generator=g)
    known = {
        "normal": (normal, torch.randn(1024, generator=g)),
        "small": (small, small.flip(0)),
        "tiny": (torch.logspace(-6, -2, 512), torch.logspace(-2, -6, 512)),
        "positive": (torch.logspace(-4, 1.2, 512), torch.logspace(1.2, -4, 512)),
        "large": (torch.logspace(2, 6, 512), torch.logspace(6, 2, 512)),
        "above": (torch.linspace(4, 16, 512), torch.linspace(16, 4, 512)),
        "below": (-torch.linspace(4, 16, 512), torch.linspace(4, 16, 512)),
        "close": (normal.abs() + 0.5, near(normal.abs() + 0.5, 1e-5)),
        "one": (1 + torch.logspace(-3, -1, 512), torch.logspace(-3, -1, 512)),
        "unit": (torch.rand(1024, generator=g) * 0.98 + 0.01, torch.rand(1024, generator=g)),
        "faint": (normal * 1e-24, torch.randn(1024, generator=g) * 1e-24),
        "rows": (rows, other),
        "positive rows": (rows.abs() + 0.1, other.abs() + 0.1),
        "far rows": (rows + 1000, other - 700),
        "low rows": (rows - 98, other),
        "lower rows": (rows - 100.5, other),
        "close rows": (rows, near(rows, 1e-4)),
        "long rows": (torch.randn(4, 2000, generator=g), torch.randn(4, 2000, generator=g)),
    }
    x, y = known[given]
    return x.to(dtype), y.to(dtype)


def forms() -> Iterator[Form]:
    """Rows of the table beside this file: name | kernel's lines | reference | inputs, under [grade kind]."""
    grade = kind = ""
    for line in Path(__file__).with_suffix(".txt").read_text().splitlines():
        if line.startswith("["):
            grade, kind = line.strip("[]").split()
        elif line:
            name, body, ref, given = (part.strip() for part in line.split("|"))
            yield Form(name, grade, kind, body, ref, given)


FORMS = list(forms())


def judge(form: Form, dtype: torch.dtype, folder: Path, device: str = "sm_90") -> dict[str, Any]:
    """The verdict in short; `eta`: the largest before anything is excused."""
    path = folder / f"form_{FORMS.index(form)}_{str(dtype)[6:]}.py"
    path.write_text(source(form))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    seen = [0.0]

    def measured(self: stability.Careful, *args: Any) -> list[stability.Suspect]:
        found = measure(self, *args)
        seen[0] = max([seen[0], *(float(np.nanmax(at.eta)) for at in found if at.eta.size)])
        return found

    measure = stability.Careful.measured
    with mock.patch.object(stability.Careful, "measured", measured), mock.patch.object(stability, "ASKED_FROM", 0.0):
        v = render.classify(module.entry, *_given(form, dtype), ref=module.reference, device=device)
    return {"name": form.name, "expected": form.grade, "label": v.label, "code": v.code, "subtype": v.subtype,
            "eta": seen[0], "message": v.message, "notes": list(v.notes)}  # fmt: skip


def _given(form: Form, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    if form.given == "large and tiny":
        return inputs("large", dtype)[0].clamp(max=1e4), inputs("unit", dtype)[1][:512] + 0.1
    if form.given == "tiny small":
        return inputs("tiny", dtype)[0] * 1e-2, inputs("tiny", dtype)[1]
    if form.given == "faint and normal":
        x, y = inputs("normal", dtype)
        return torch.cat([inputs("faint", dtype)[0][:64], x[:64]]), y[:128]
    return inputs(form.given, dtype)


def right(row: dict[str, Any]) -> bool:
    """Is it on the side that it belongs to? What is Inconclusive for another reason accuses nobody."""
    lost = row["code"] in ("RND206", "RND111", "RND204")
    return bool(lost == (row["expected"] == LOST))


PAGE = """# Where the limits of RND206 and RND111 come from

{correct} correct forms in three formats and {unstable} unstable ones, each a small kernel with its reference
(`benchmarks/stability_forms.txt`), judged as a user would judge them. eta is the largest error of an element in units
of what a careful implementation of the reference's formula loses (`render/explain/stability.py`), before neighbours,
the launch's numbers and ties excuse any. The limit is 8: {under} of {sound} correct runs stay below it unexcused (their
largest: {largest:.2g}), and the smallest of the unstable ones is {smallest:.3g}. On the wrong side: {wrong}.
Written by `python benchmarks/stability_forms.py --page docs/stability.md`.

| form | format | belongs to | eta | verdict |
|---|---|---|---|---|
"""


def page(rows: list[dict[str, Any]]) -> str:
    sound = [r for r in rows if r["expected"] == SOUND]
    lost = [r for r in rows if r["expected"] == LOST]
    under = [r["eta"] for r in sound if r["eta"] <= stability.LIMIT]
    head = PAGE.format(
        correct=len(sound) // 3, unstable=len(lost), under=len(under), sound=len(sound), largest=max(under),
        smallest=min(r["eta"] for r in lost if r["eta"]), wrong=sum(not right(r) for r in rows),
    )  # fmt: skip
    lines = [
        f"| {r['name']} | {r['dtype']} | {r['expected']} | {r['eta']:.2g} | {r['label']} {r['code']} |" for r in rows
    ]
    return head + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("only", "grade", "dtype", "json", "page"):
        parser.add_argument(f"--{name}", default="")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for form in FORMS:
            if args.only not in form.name or not form.grade.startswith(args.grade):
                continue
            for key in DTYPES if form.grade == SOUND else ("fp32",):
                if key.startswith(args.dtype):
                    row = judge(form, DTYPES[key], Path(folder)) | {"dtype": key}
                    rows.append(row)
                    print(f"{'  ' if right(row) else '! '}{row['expected']:6} {key} {row['name']:40} {row['label']:12} "
                          f"{row['code']} {row['subtype'] or '':10} {row['eta']:.3g}", flush=True)  # fmt: skip
    for grade in (LOST, SOUND):
        mine = [r for r in rows if r["expected"] == grade]
        print(grade, sum(map(right, mine)), "of", len(mine))
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1))
    if args.page:
        Path(args.page).write_text(page(rows))


if __name__ == "__main__":
    main()
