"""Units of a sweep: one file, test file or case of the corpus, under one device, seed and configuration."""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from render.entry.target import not_python
from render.interpreter.script import source_of
from render.lab.suite.rows import Row, of_error, of_verdict
from render.result.errors import RenderError


@dataclass(frozen=True)
class SweepUnit:
    """`kind`: "file" (as `render classify`), "suite" (a test or case file, `path::test` too) or "case" (of the corpus).

    `source` is the text of a file, for a machine that has no such path; `inputs` names a file of tensors by its path.
    `programs` is the part of each launch that a file's kernels run. `state` is a digest of what the result depends on
    besides: the file, its inputs and RENDER's own code.
    """

    kind: str
    path: str
    device: str = "any"
    seed: int = 0
    configs: str = "first"
    specs: tuple[str, ...] = ()
    entry: str | None = None
    ref: str | None = None
    inputs: str | None = None
    explain: tuple[str, ...] = ()
    small: bool = False
    programs: str = "all"
    source: str = ""
    state: str = ""

    @property
    def told(self) -> dict[str, Any]:
        """What it is, in JSON types, without the source."""
        return {name: value for name, value in asdict(self).items() if name != "source"}

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(json.dumps(self.told, sort_keys=True).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class SweepAxes:
    """What is varied: every combination is a unit. `vary`: values by the name that stands as {name} in input specs."""

    devices: tuple[str, ...] = ("any",)
    seeds: tuple[int, ...] = (0,)
    configs: tuple[str, ...] = ("first",)
    vary: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def shapes(self, specs: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """The input specs under every choice of `vary`."""
        names = [name for name, _ in self.vary]
        for chosen in itertools.product(*(values for _, values in self.vary)):
            given = dict(zip(names, chosen, strict=True))
            try:
                yield tuple(spec.format_map(given) for spec in specs)
            except (KeyError, IndexError, ValueError) as error:
                hint = '--input "x=randn({n},64)" --vary n=32,64'
                raise RenderError("RND902", f"no value for {error} in --input", hint) from None


def of_files(paths: Sequence[str], axes: SweepAxes, like: SweepUnit) -> list[SweepUnit]:
    """The units of files and folders; `like` has what is the same for all."""
    from render.lab.suite.find import SourceKind, find

    found = []
    for file in find(paths):
        single = file.kind is SourceKind.SINGLE or bool(like.entry or like.specs or like.inputs)
        path = str(file.path) if single else file.argument
        text = _text(file.path) if single else ""
        state = _state(file.path, *([Path(like.inputs)] if like.inputs else []))
        one = replace(like, kind="file" if single else "suite", path=path, source=text, state=state)
        for specs, device, seed, configs in itertools.product(
            axes.shapes(like.specs), axes.devices, axes.seeds, axes.configs
        ):
            found.append(replace(one, specs=specs, device=device, seed=seed, configs=configs))
    return found


def of_cases(ids: Sequence[str], small: bool) -> list[SweepUnit]:
    """The units of cases of the corpus, or of its groups (issues, twins, all)."""
    from render.lab.replay.select import select
    from render.lab.replay.store import digest

    return [
        SweepUnit("case", str(folder), small=small, state=digest(folder, ("sweep", small)))
        for folder in select(list(ids))
    ]


def _text(path: Path) -> str:
    try:
        return source_of(path)
    except (SyntaxError, ValueError) as error:
        raise not_python(path, error) from None


def _state(*files: Path) -> str:
    from render.lab.replay.store import code

    state = hashlib.sha256(code().encode())
    for file in files:
        state.update(hashlib.sha256(file.read_bytes()).digest())
    return state.hexdigest()[:24]


def judge(unit: SweepUnit) -> list[dict[str, Any]]:
    """The rows of a unit, in JSON types; what goes wrong in the user's code is a row."""
    import torch

    torch.set_num_threads(1)
    if unit.kind == "case":
        return [_of_case(unit)]
    if unit.kind == "suite":
        from render.lab.suite.find import find
        from render.lab.suite.options import SuiteOptions
        from render.lab.suite.runner import run

        options = SuiteOptions(unit.device, unit.seed, configs=unit.configs)
        return [row.to_dict() for row in run(find([unit.path]), options)]
    return [_of_file(unit)]


def isolated(unit: SweepUnit) -> tuple[list[dict[str, Any]] | None, str, int]:
    """(rows, error, attempts) of a unit in a process of its own: for a worker of a cluster, which lives on."""
    from render.lab import workers

    done = next(iter(workers.run(judge, [unit], 1, per_process=1)))
    return done.result, done.error, done.attempts


def _of_case(unit: SweepUnit) -> dict[str, Any]:
    from render.lab.replay.worker import ReplayPlan, replay

    row = replay(Path(unit.path), ReplayPlan(baselines=False, small=unit.small))
    if row.error:
        raise RuntimeError(row.error)
    return Row(row.id, row.label, row.code, message=row.message, seconds=row.total_s or 0.0).to_dict() | {
        "exit_code": 0 if row.ok else 1, "expected": row.expected_label,
    }  # fmt: skip


def _of_file(unit: SweepUnit) -> dict[str, Any]:
    from render.judgement.question import of_file
    from render.result.options import Options

    began, failure = time.perf_counter(), None
    options = Options(
        device=unit.device, seed=unit.seed, configs=unit.configs, programs=unit.programs, explain=unit.explain
    )
    try:
        verdict = of_file(_path(unit), unit.entry, unit.ref, unit.inputs, unit.specs, None, options)
        seconds = time.perf_counter() - began
        return of_verdict(unit.path, verdict, seconds).to_dict() | _more(verdict, unit)
    except Exception as error:
        failure = error
    return of_error(unit.path, failure, time.perf_counter() - began).to_dict()


def _more(verdict: Any, unit: SweepUnit) -> dict[str, Any]:
    """What the summary asks for besides: how wide, how near to the edge, and the share of planted faults noticed."""
    more: dict[str, Any] = {"usage": max((o.worst_usage for o in verdict.outputs), default=0.0)}
    if "power" in unit.explain and (power := verdict.wait().power) is not None:
        more["power"] = getattr(power, "sentence", str(power))
    return {name: value if not isinstance(value, float) or value == value else None for name, value in more.items()}


def _path(unit: SweepUnit) -> Path:
    """The file, or where this machine has none, its text in a folder of its own."""
    import tempfile

    path = Path(unit.path)
    if path.is_file():
        return path
    here = Path(tempfile.mkdtemp(prefix="render-")) / path.name
    here.write_text(unit.source, encoding="utf-8")
    return here
