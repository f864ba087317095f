"""Twins by the classes of mistakes that issue reports are made of: a right program and one that is wrong beside it.

    python benchmarks/twins.py [--class NAME] [--page PATH]

Each class has ten small programs or more: one kernel over rows, what its wrapper does before and after, a reference.
The wrong twin differs in one expression. Right ones have to be Type-I, wrong ones Type-II; what else comes out is told
by name. `--page` writes docs/twins.md. Exits with 1 where a right one is Type-II or a wrong one Type-I.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))

import twin_cases as c
import twin_items as i
import twin_targets as t
from programs.module import module_of
from twin import TYPE_II, Twin

import render

CLASSES: dict[str, tuple[str, list[Twin]]] = {
    "infinite terms": ("1", c.INFINITIES), "small differences": ("2", c.SMALL),
    "nothing left out": ("3", i.NOTHING_LEFT_OUT), "device outputs": ("4", i.DEVICE_OUTPUTS),
    "undefined lanes, types": ("5", i.UNDEFINED), "host code": ("6", c.HOST),
    "references as written": ("7", i.AS_WRITTEN), "kernels as references": ("7", c.REFERENCES),
    "equal bits": ("8", c.EQUAL), "stability": ("9", c.STABLE), "combine functions": ("10", c.COMBINES),
    "sentinels": ("11", c.SENTINELS),
    "integers and decisions": ("12", t.INTEGERS), "lines": ("13", i.LINES), "headlines": ("14", i.HEADLINES),
    "conversions": ("15", c.CONVERSIONS), "targets": ("15", t.TARGETS), "tensor cores": ("16", t.TENSOR_CORES),
    "places": ("17", t.PLACES), "long sums": ("18", t.SUMS), "joint rules": ("19", t.JOINT), "band": ("20", t.BAND),
}  # fmt: skip
"""Name, the kind of mistake that it stands for (numbers as in the page), and its twins."""
CLASSES = {name: (item, [replace(t, helpers=f"INF_ = tl.constexpr(INF)\n{t.helpers}") for t in twins])
           for name, (item, twins) in CLASSES.items()}  # fmt: skip

TEXT = """import torch, triton, triton.language as tl
F, INF = torch.nn.functional, float("inf")
{helpers}
@triton.jit
def kernel(X, T, O, n, B: tl.constexpr):
    row, j = tl.program_id(0), tl.arange(0, B)
    m = j < n
    x = tl.load(X + row * n + j, mask=m, other={pad}).to(tl.float32)
    t = tl.load(T + j, mask=m, other=0.0).to(tl.float32)
{body}
    tl.store(O + row * n + j, y, mask=m)


def launch(x, t, out=None):
    o = torch.empty_like(x) if out is None else out
    kernel[(x.shape[0],)](x, t, o, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return o


def entry(x, t):
{host}


def output(x, t):
{output}


def reference(x, t):
{reference}


def make_inputs():
    g = torch.Generator().manual_seed(7)
    x, t = torch.randn(6, 40, generator=g), torch.rand(40, generator=g) + 0.5
{inputs}
    return x.to({dtype}), t.to({dtype})
"""


def indented(text: str) -> str:
    return "\n".join("    " + line for line in text.strip().splitlines())


def written(twin: Twin, wrong: bool) -> str:
    """The program's text; the wrong one with one expression changed."""
    blocks = {part: indented(getattr(twin, part)) for part in ("body", "host", "reference", "inputs")}
    blocks["output"] = indented(twin.output or "return None")
    text = TEXT.format(helpers=twin.helpers, pad=twin.pad, dtype=f"torch.{twin.dtype}", **blocks)
    if not wrong:
        return text
    first = "@triton.jit\ndef combine" if twin.was in twin.helpers else "@triton.jit\ndef kernel"
    at, end = text.index(first if first in text else "@triton.jit"), text.index("def reference")
    assert twin.was in text[at:end], (twin.name, twin.was)
    return text[:at] + text[at:end].replace(twin.was, twin.now, 1) + text[end:]


def changed_line(twin: Twin) -> int:
    pairs = zip(*(written(twin, wrong).splitlines() for wrong in (False, True)), strict=False)
    return next(i for i, (one, other) in enumerate(pairs, 1) if one != other)


@dataclass(frozen=True)
class Row:
    name: str
    right: str
    wrong: str
    codes: tuple[str, str]
    near: bool
    wanted: tuple[str, ...] = TYPE_II
    causes: tuple[str, ...] = ()
    said: bool = True

    @property
    def good(self) -> bool:
        caused = not self.causes or self.codes[0] in self.causes
        return self.right == "Type-I" and self.wrong in self.wanted and caused and self.said


def judged(twins: list[Twin], folder: Path) -> Iterator[Row]:
    for twin in twins:
        labels, codes, near, said = [], [], False, True
        for wrong in (False, True):
            text = written(twin, wrong)
            name = f"{twin.name.replace(' ', '_').replace('-', '_')}_{'wrong' if wrong else 'right'}"
            try:
                module = module_of(text, name, folder)
                given = module.make_inputs()
                options = {"device": twin.device, "ref": module.reference, **twin.options}
                if twin.output:
                    options["output"] = module.output(*given)
                v = render.classify(module.entry, *given, options=options)
                label, code = v.label, v.code
                said = twin.told in str(v) if wrong else said
                if wrong and v.line:
                    near = label == "Type-II" and abs(v.line - changed_line(twin)) <= 3
            except Exception as error:  # a program that has no verdict is counted as such
                label, code = "error", f"{type(error).__name__} {str(error)[:80]}"
            labels.append(label)
            codes.append(code)
        yield Row(twin.name, labels[0], labels[1], (codes[0], codes[1]), near, twin.wanted, twin.causes, said)


PAGE = """# Twins

Made by `python benchmarks/twins.py --page docs/twins.md`. Each class is a kind of program that was once answered
wrongly, by ten small siblings or more (`benchmarks/twin_*.py`): the right one has to be Type-I, and its twin, which
differs in one expression, Type-II. Where the twin is no bug of the kernel alone (another device's output, undefined
lanes, a tensor that nobody compared, a wrap that a target decides) it may be Inconclusive, and a narrower output has to
be named as one; "headlines" asks for the cause that the right one is given. "as wanted": both came out so. "line": the
verdict on the wrong one names a line within three of that expression. "item": kinds of mistakes, by number: 1 evidence,
2 small differences, 3 what is left out, 4 device outputs, 5 undefined lanes and narrow types, 6 host code, 7 references
as written, 8 equal bits, 9 stability, 10 combine functions, 11 sentinels, 12 integers and float conditions, 13 the line
named, 14 the headline, 15 what targets decide, 16 TF32, 17 addresses from floats, 18 sums, 19 joint rules, 20 the band.

{table}
{told}
"""


def page(found: dict[str, list[Row]]) -> str:
    head = "| item | class | pairs | right: Type-I | Type-II | Inconclusive | wrong: Type-II | Type-I | Inconclusive "
    lines = [f"{head}| as wanted | line |", "|---:|---|" + "---:|" * 9]
    odd = []
    for name, rows in found.items():
        counts = [sum(getattr(r, side) == label for r in rows) for side, labels in (
            ("right", ("Type-I", "Type-II", "Inconclusive")), ("wrong", ("Type-II", "Type-I", "Inconclusive")))
            for label in labels]  # fmt: skip
        item, good, near = CLASSES.get(name, ("", []))[0], sum(r.good for r in rows), sum(r.near for r in rows)
        lines.append(f"| {item} | {name} | {len(rows)} | {' | '.join(map(str, counts))} | {good} | {near} |")
        odd += [f"- {name}, {r.name}: right {r.right} ({r.codes[0]}), wrong {r.wrong} ({r.codes[1]})"
                for r in rows if not r.good]  # fmt: skip
    told = "\n## What came out otherwise\n\n" + "\n".join(odd) if odd else "\nAll pairs came out so."
    return PAGE.format(table="\n".join(lines), told=told)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--class", dest="only", default="")
    parser.add_argument("--page", type=Path)
    args = parser.parse_args()
    found: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (_, twins) in CLASSES.items():
            if args.only not in name:
                continue
            found[name] = []
            for r in judged(twins, Path(folder)):
                found[name].append(r)
                mark = "" if r.good else "  <<<"
                print(f"{name:24} {r.name:28} {r.right:12} {r.codes[0]:8} {r.wrong:12} {r.codes[1]:8} "
                      f"{'line' if r.near else '    '}{mark}", flush=True)  # fmt: skip
    if args.page:
        args.page.write_text(page(found))
    every = [r for rows in found.values() for r in rows]
    print(f"{sum(r.good for r in every)} of {len(every)} pairs right; line named in {sum(r.near for r in every)}")
    return int(any(r.right == "Type-II" or r.wrong not in r.wanted for r in every if not r.good))


if __name__ == "__main__":
    torch.set_num_threads(1)
    raise SystemExit(main())
