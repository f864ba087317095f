"""Mutants of the rules, the profiles and the interpreter: would the tests or the adversary notice a wrong line of ours?

    python benchmarks/mutation.py [--count 60] [--seed 1] [--only TEXT] [--json PATH] [--page PATH] [--again]
                                  [--areas interpreter,rules] [--independent] [--by-name]

A mutant is one change of one expression, drawn from the syntax trees of `interval_ops` and `render/interpreter` (a
comparison, an operator, a branch, a number, an end of an interval) or from the figures of the profiles, in equal parts.
It is written into a copy of the tree, and the tests that stand nearest to its file are run, in a fork of this process
that has torch and triton imported, until one fails: those of its name, those of its folder, those that import it, then
the adversaries. A mutant of the interpreter is tried against the tests that run its line (`benchmarks/executed.py`,
which takes some ten minutes once), those of its name first and then the cheapest; `--by-name` asks for the former.
`--independent` leaves out comparisons with results that were kept (`tests/kept_bounds.py`), which see
that a bound moved and not that it is wrong. A test that fails with the mutant is run again without it; only one that
passes then has caught it.
Each mutant has --budget seconds of CPU time; a mutant that no test caught until then has survived. Rows go to --json,
and what stands there is not done again, but for survivors with --again; --page writes docs/mutation.md. Exits with 1 if
less than --least of the mutants were caught.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numba  # noqa: F401  imported once for all mutants, as what follows
import numpy  # noqa: F401
import pytest
import torch  # noqa: F401
import triton  # noqa: F401
from executed import Map, cached, in_python

ROOT = Path(__file__).resolve().parent.parent
AREAS = {"rules": ("interval_ops", "*.py"), "profiles": ("interval_ops/profiles", "*.toml"),
         "interpreter": ("render/interpreter", "*.py")}  # fmt: skip
LAST = ("tests/foreign/test_foreign.py", "tests/interval_ops/test_vectors.py",
        "tests/render/lab/adversary/test_attack.py", "tests/render/test_classify.py")  # fmt: skip
"""Tests for all: the foreign adversary, intervals of all operations, the adversary, whole classifications."""
KEPT = "test_kept.py"
"""Comparisons with kept results."""
GROUPS = (2, 4, 8, 8, 12)
"""Test files of one process: few at first, since the nearest catch most."""
SHARES = (2.0, 4.0, 8.0, 16.0)
"""CPU seconds of the tests of one process, where it is known which tests run a line; the last for compiled functions,
which each process compiles anew."""

_SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_OPPOSITE = ("min", "max"), ("minimum", "maximum"), ("fmin", "fmax"), ("down", "up"), ("rd", "ru"), (
    "slack_down", "slack_up"), ("lower", "upper"), ("any", "all"), ("floor", "ceil")  # fmt: skip
_NAMES = {a: b for pair in _OPPOSITE for a, b in (pair, pair[::-1])}
_UNSEEN = (ast.Raise, ast.JoinedStr, ast.Subscript, ast.arguments, ast.AnnAssign, ast.Import, ast.ImportFrom)
"""Messages, annotations, and places in sequences: a change there is seen by anything or by nothing."""
_TOOLS = ("code_cache", "compiled", "allocator", "mutation", "planted")
"""Modules that hold neither rules nor meaning: caches, memory, and planted faults."""


@dataclass(frozen=True)
class Mutant:
    """`at`: byte offsets in its file; `was` and `now`: the text there."""

    area: str
    path: str
    line: int
    kind: str
    at: tuple[int, int]
    was: str
    now: str
    nth: int = 0
    """Among equal changes of its file."""


def changed(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """(kind, the node with one change)."""
    new: Any = copy.copy(node)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        new.ops = [_SWAPS[type(node.ops[0])]()]
        yield "comparison", new
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in _SWAPS:
        new.op = _SWAPS[type(node.op)]()
        yield "condition" if isinstance(node, ast.BoolOp) else "operator", new
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield "condition" if isinstance(node.op, ast.Not) else "operator", node.operand
    elif isinstance(node, ast.IfExp):
        new.body, new.orelse = node.orelse, node.body
        yield "branch", new
    elif isinstance(node, ast.Call) and (name := getattr(node.func, "attr", getattr(node.func, "id", ""))) in _NAMES:
        new.func = copy.copy(node.func)
        setattr(new.func, "attr" if isinstance(node.func, ast.Attribute) else "id", _NAMES[name])
        yield "end", new
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        value = node.value + 1 if isinstance(node.value, int) else node.value / 2 if node.value else 1.0
        yield "number", ast.Constant(value)


def seen(tree: ast.AST) -> Iterator[ast.AST]:
    """The expressions that compute; a test of an `if` or `while` comes wrapped in it, to be negated."""
    for child in ast.iter_child_nodes(tree):
        if (
            isinstance(child, _UNSEEN)
            or child is getattr(tree, "returns", None)
            or (isinstance(child, ast.Assign) and _listing(child))
        ):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from seen(child)


def _listing(node: ast.Assign) -> bool:
    """A table of names, not of numbers."""
    return any(isinstance(t, ast.Name) and (t.id.startswith("__") or t.id == "TypeVar") for t in node.targets)


def of_source(area: str, path: Path) -> Iterator[Mutant]:
    text = path.read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    name = str(path.relative_to(ROOT))
    for node in seen(ast.parse(text)):
        found = list(changed(node)) if isinstance(node, ast.expr) else []
        if isinstance(node, ast.If | ast.While):
            found, node = [("branch", ast.UnaryOp(ast.Not(), node.test))], node.test
        for kind, new in found:
            a, b = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
            now = ast.unparse(ast.fix_missing_locations(new))
            yield Mutant(area, name, node.lineno, kind, (a, b), text[a:b].decode(), f"({now})")


_FIGURE = re.compile(
    r'(?<![\w^.-])(?:"((?:[\d.]+\*)?2\^-?[\d.]+|[\d.]+e-\d+)"|(\d+)(?=\s*[,}\n])|(true|false)|"(inf|saturate|either)")'
)
"""An error or a count of a profile, a truth value, or what an overflow gives."""


def of_profile(area: str, path: Path) -> Iterator[Mutant]:
    text, section, offset = path.read_text(), "", 0
    for i, line in enumerate(text.splitlines(keepends=True)):
        if line.startswith("["):
            section = line.strip("[]\n")
        if section.split(".")[0] in ("functions", "dots", "cast", "lowering", "library") and "=" in line:
            for m in _FIGURE.finditer(line, line.index("=")):
                a, b = offset + m.start(), offset + m.end()
                yield Mutant(area, str(path.relative_to(ROOT)), i + 1, "figure", (a, b), m[0], _figure(m))
        offset += len(line.encode())


def _figure(m: re.Match[str]) -> str:
    """Half of an error, one less of a count, the other truth value."""
    if m[1]:
        first, _, power = m[1].rpartition("*")
        return f'"{float(m[1]) / 2}"' if "e" in m[1] else f'"{0.5 * float(first or 1)}*{power}"'
    if m[2]:
        return str(max(int(m[2]) - 1, 0)) if int(m[2]) else "1"
    return {"true": "false", "false": "true"}.get(m[0], '"inf"' if m[4] != "inf" else '"saturate"')


def drawn(count: int, seed: int, only: str, kept: list[dict[str, Any]], areas: tuple[str, ...]) -> list[Mutant]:
    """An equal share from each area, in their order; of the interpreter, its branches and conditions.

    What was tried before stays in the sample as long as its expression stands; the rest follows from a hash of seed,
    file and expression, so that a change elsewhere draws no other sample.
    """
    tried, out = {key(r) for r in kept}, list[Mutant]()
    for area, (folder, pattern) in ((a, AREAS[a]) for a in areas):
        of = of_profile if area == "profiles" else of_source
        files = [p for p in sorted((ROOT / folder).rglob(pattern)) if only in str(p.relative_to(ROOT))]
        every, seen_ = list[Mutant](), Counter[tuple[str, str, str]]()
        for m in (m for p in files if p.stem not in _TOOLS for m in of(area, p)):
            if area != "interpreter" or m.kind in ("branch", "comparison", "condition"):
                every.append(replace(m, nth=seen_[m.path, m.was, m.now]))
                seen_[m.path, m.was, m.now] += 1
        every.sort(key=lambda m: hashlib.sha256(f"{seed} {key(asdict(m))}".encode()).digest())
        every.sort(key=lambda m: key(asdict(m)) not in tried)
        out += every[: count // len(areas)]
    return out


def tests_of(path: str, *, independent: bool) -> list[str]:
    """Test files, nearest first: of the same name, in the mirrored folder, that name the module; then `LAST`."""
    name, folder = Path(path).stem, Path("tests") / Path(path).parent
    text = {p: p.read_text() for p in sorted((ROOT / "tests").rglob("test_*.py"))}
    dotted = ".".join(Path(path).with_suffix("").parts)
    home = dotted.rpartition(".")[0]
    pattern = rf"\b{re.escape(dotted)}\b|from {re.escape(home)} import [^\n]*\b{name}\b"
    imports = re.compile(rf"\b{re.escape(name)}\b" if path.endswith(".toml") else pattern)
    own = [p for p in text if p.stem == f"test_{name}" and (ROOT / folder) in p.parents]
    near = [p for p in text if p.parent == ROOT / folder]
    users = sorted((p for p in text if imports.search(text[p])), key=lambda p: -len(imports.findall(text[p])))
    kin = [p for p in text if any(part in p.stem for part in name.split("_") if len(part) > 3)]
    last = [ROOT / t for t in LAST if (ROOT / t).exists()]
    if path.endswith(".toml"):
        own, near = near[::-1], []
    kept = [p for p in text if p.name == KEPT and (ROOT / folder).is_relative_to(p.parent)]
    kept.sort(key=lambda p: -len(p.parts))
    if path.startswith("render/interpreter/"):
        kept = list(dict.fromkeys([*kept, *(p for p in text if p.name == KEPT and "render" in p.parts)]))
    order = [*own[:1], *kept, *own, *users[:6], *last[:1], *near[:10], *kin[:4], *users[6:10], *last[1:], *near[10:]]
    return [str(p.relative_to(ROOT)) for p in dict.fromkeys(order) if not (independent and p.name == KEPT)]


class _Told:
    """A plugin of pytest that writes the whole name of a test that fails, whatever stands in it."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            print(f"\nfailed: {report.nodeid}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            print(f"\nfailed: {report.nodeid}")


def _run_tests(folder: Path, tests: list[str], seconds: float) -> NoReturn:
    """Never returns: the tests in a copy of the tree, as a process of their own would run them."""
    code = 3
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
        os.chdir(folder)
        env = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        os.environ.update(env)
        os.environ.setdefault("RENDER_TEST_MULTIPLIER", "0.3")
        sys.dont_write_bytecode = True
        sys.path[:] = [
            str(folder),
            *(p for p in sys.path if Path(p or ".").resolve() not in (ROOT, Path(__file__).parent)),
        ]
        options = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--tb=no"]
        code = int(pytest.main([*options, *tests], plugins=[_Told()]))
        sys.stdout.flush()
    finally:
        os._exit(code)


class Bench:
    """A copy of the tree in which mutants are tried."""

    def __init__(self, folder: Path, budget: float, independent: bool, ran: Map | None) -> None:
        self.folder, self.budget, self.independent, self.ran = folder, budget, independent, ran
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)

    def pytest(self, tests: list[str], seconds: float) -> tuple[int, str, float]:
        """(exit code, the first test that failed, CPU seconds), in a process that has imported what is not ours."""
        report, out = tempfile.mkstemp()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        child = os.fork()
        if child == 0:
            os.dup2(report, 1)
            os.dup2(report, 2)
            _run_tests(self.folder, tests, seconds)
        _, status = os.waitpid(child, 0)
        os.close(report)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        said = Path(out).read_text(errors="replace")
        os.unlink(out)
        failed = re.search(r"^failed: (.+)$", said, re.MULTILINE)
        return os.waitstatus_to_exitcode(status), failed[1] if failed else "", spent

    def groups(self, mutant: Mutant) -> Iterator[list[str]]:
        """The tests of one process after another."""
        ran = [] if self.ran is None else self.ran.tests(mutant.path, mutant.line)
        own = f"test_{Path(mutant.path).stem}.py::"
        ran.sort(key=lambda r: own not in r[0])
        first = SHARES if in_python(ROOT / mutant.path, mutant.line) else ()
        for share in (*first, *[SHARES[-1]] * 20) if ran else ():
            group, left = list[str](), share
            while ran and (not group or ran[0][1] <= left):
                test, seconds = ran.pop(0)
                left -= seconds
                if not (self.independent and f"/{KEPT}::" in test):
                    group.append(test)
            if group:
                yield group
        tests = tests_of(mutant.path, independent=self.independent)
        for size in (*GROUPS, *[12] * 20):
            if group := tests[:size]:
                yield group
            tests = tests[size:]

    def judge(self, mutant: Mutant) -> dict[str, Any]:
        """ "caught" with the test that did, "survived", or "endless": a test that never came to its end."""
        place, left, tried = self.folder / mutant.path, self.budget, 0
        whole = place.read_bytes()
        row = asdict(mutant) | {"result": "survived", "by": "", "tests": 0, "seconds": 0.0}
        for group in self.groups(mutant):
            if left <= 5:
                break
            place.write_bytes(whole[: mutant.at[0]] + mutant.now.encode() + whole[mutant.at[1] :])
            code, failed, spent = self.pytest(group, left)
            place.write_bytes(whole)
            left, tried = left - spent, tried + len(group)
            if code in (0, 5):
                continue
            if code < 0 and left > 5:
                row |= {"result": "caught", "by": f"ends by signal {-code}: {group[0]}"}
                break
            if code < 0:
                break
            again = [failed] if failed else group
            clean = self.pytest(again, 300)[0]
            if clean == 0:
                row |= {"result": "caught", "by": failed or group[0]}
                break
        return row | {"tests": tried, "seconds": round(self.budget - left, 1)}


def known(path: Path) -> Map:
    """Which tests run which lines: made in a process of its own where nobody asked before."""
    if not path.exists():
        made = path.with_suffix(".part")
        subprocess.run([sys.executable, str(ROOT / "benchmarks" / "executed.py"), "--map", str(made)], check=True)
        made.replace(path)
    return Map(path)


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["path"], row["was"], row["now"], row["nth"]


PAGE = """# Mutants of our own code

Made by `python benchmarks/mutation.py --count {count} --seed {seed} --json PATH --page docs/mutation.md`
(`make mutation`). One expression of a rule, one figure of a profile or one branch of the interpreter is changed, and
tests and adversaries run, nearest first, until one fails that passes without the change. The changes are drawn from the
syntax trees and the profile files, a third from each part: comparisons, operators, branches, numbers, ends of
intervals, figures halved. {tried} of the {count} mutants of this sample have been tried; another run goes on where
this one stopped. Each mutant has 130 seconds of CPU time, so that one that only a test far away would notice counts as
a survivor.

{tables}

## Survivors

{survivors}
"""


def page(rows: list[dict[str, Any]], count: int, seed: int, argued: dict[str, str]) -> str:
    lines = ["| part | mutants | caught | equivalent | survived |", "|---|---:|---:|---:|---:|"]
    for part in (*AREAS, "all"):
        mine = [r for r in rows if part in (r["area"], "all")]
        dead, same = sum(r["result"] == "caught" for r in mine), sum(_why(r, argued) != "" for r in mine)
        lines.append(f"| {part} | {len(mine)} | {dead} | {same} | {len(mine) - dead - same} |")
    by: Callable[[str], int] = lambda text: sum(text in r["by"] for r in rows)  # noqa: E731
    lines += [
        "",
        f"{by('/lab/') + by('/foreign/')} were caught by an adversary first, {by(KEPT)} by kept results, the others by "
        "tests nearer to them.",
    ]
    left = [f"- `{r['path']}:{r['line']}`, {r['kind']}: `{_short(r['was'])}` -> `{_short(r['now'])}`"
            + (f". {why}" if (why := _why(r, argued)) else "") for r in rows if r["result"] != "caught"]  # fmt: skip
    return PAGE.format(
        tried=len(rows), count=count, seed=seed, tables="\n".join(lines), survivors="\n".join(left or ["None."])
    )


def _why(row: dict[str, Any], argued: dict[str, str]) -> str:
    """Why a survivor changes nothing that could be seen; empty: nobody argued it."""
    return (
        "" if row["result"] == "caught" else argued.get(f"{row['path']} {row['was']} -> {row['now']} {row['nth']}", "")
    )


def _short(text: str) -> str:
    return " ".join(text.split())[:90]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="files whose path contains this")
    parser.add_argument("--areas", default=",".join(AREAS), help="which parts, and in which order")
    parser.add_argument("--budget", type=float, default=130.0, help="CPU seconds of tests per mutant")
    parser.add_argument("--least", type=float, default=0.95)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--again", action="store_true", help="survivors once more, against the tests of now")
    parser.add_argument("--independent", action="store_true", help="without comparisons with kept results")
    parser.add_argument("--by-name", action="store_true", help="never ask which tests run a line")
    parser.add_argument("--map", type=Path, default=cached(), help="of benchmarks/executed.py")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--only-page", action="store_true", help="of what --json holds, without trying more")
    args = parser.parse_args()
    kept = [json.loads(line) for line in args.json.open()] if args.json and args.json.exists() else []
    rows = {key(r): r for r in kept}
    argued: dict[str, str] = json.loads((Path(__file__).parent / "mutation_equivalent.json").read_text())
    mutants = drawn(args.count, args.seed, args.only, kept, tuple(args.areas.split(",")))
    ran = None if args.by_name or "interpreter" not in args.areas else known(args.map)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), args.budget, args.independent, ran)
        for i, m in enumerate(mutants):
            if args.only_page:
                break
            old = rows.get(key(asdict(m)))
            if old is not None and not (args.again and old["result"] == "survived"):
                continue
            row = rows[key(asdict(m))] = bench.judge(m)
            print(f"[{i + 1}/{len(mutants)}] {row['result']:8} {m.path}:{m.line} {m.kind}: {_short(m.was)} -> "
                  f"{_short(m.now)} {row['by']} ({row['seconds']} s)", flush=True)  # fmt: skip
            if args.json:
                args.json.write_text("".join(json.dumps(r) + "\n" for r in rows.values()))
    found = [rows[key(asdict(m))] for m in mutants if key(asdict(m)) in rows]
    fair = [r for r in found if not _why(r, argued)]
    caught = sum(r["result"] == "caught" for r in fair)
    print(f"{caught} of {len(fair)} caught, {len(found) - len(fair)} equivalent")
    if args.page:
        args.page.write_text(page(found, args.count, args.seed, argued))
    return int(caught < args.least * len(fair))


if __name__ == "__main__":
    raise SystemExit(main())
