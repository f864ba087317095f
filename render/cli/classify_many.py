"""`render classify FILES... --device all`: several files and profiles in one command, side by side, one table.

A unit of work is one file with some of its profiles, in a process of its own: profiles of one file share the runs of
its reference, and nothing of one file is left for the next. Rows come in the order of the command line.
"""

from __future__ import annotations

import json as jsons
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from render.cli.exits import explained
from render.cli.files import STDOUT
from render.cli.output import put
from render.result.codes import INTERNAL_ERROR, combined
from render.result.errors import RenderError
from render.result.progress import progress

ALL = "all"
FRAMEWORKS = frozenset({"cuda-eager", "inductor-cpu", "torch-cpu"})
"""Profiles of PyTorch's own kernels: no target of a Triton kernel."""


class Asked(NamedTuple):
    """One file under some profiles; `options` are those of `classify_file`. `whole`: the JSON is wanted."""

    file: str
    devices: tuple[str, ...]
    options: dict[str, Any]
    timeout: float
    memory: float
    whole: bool


class FileVerdict(NamedTuple):
    """What one file under one profile gave: a verdict's label and code, or an error in words."""

    file: str
    device: str
    label: str
    code: str
    message: str
    exit_code: int
    scope: tuple[str, ...] = ()
    result: dict[str, Any] | None = None


def devices_of(text: str) -> list[str]:
    """`all`, or names with commas between."""
    from interval_ops.profiles.file import ProfileError
    from interval_ops.profiles.profile import load_profile, profile_names

    if text == ALL:
        return [name for name in profile_names() if name not in FRAMEWORKS]
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise RenderError("RND902", f"--device {text!r} names no profile", "all, or names as sm_80,sm_90")
    for name in names:
        try:
            load_profile(name)
        except ProfileError:
            raise
        except ValueError as error:  # before anything runs, as for one
            raise RenderError("RND902", str(error).strip("'\""), "all, or names as sm_80,sm_90") from None
    return list(dict.fromkeys(names))


def is_many(files: Sequence[Path], device: str) -> bool:
    return len(files) > 1 or device == ALL or "," in device


def command(
    files: Sequence[Path], devices: Sequence[str], options: dict[str, Any], jobs: int, limits: tuple[float, float],
    json: str | None, quiet: bool, allow_inconclusive: bool,
) -> int:  # fmt: skip
    """Judges every file under every profile; the exit code is the worst of all."""
    from render.lab.replay.pool import cores

    jobs, total = jobs or cores(), len(files) * len(devices)
    shares = max(1, min(len(devices), -(-jobs // len(files))))
    units = [
        Asked(str(file), tuple(devices[i::shares]), options, *limits, json is not None)
        for file in files for i in range(shares)
    ]  # fmt: skip
    order = {(str(file), device): n for n, (file, device) in enumerate((f, d) for f in files for d in devices)}
    found: dict[int, FileVerdict] = {}
    width, shown = max(len(str(file)) for file in files), 0
    out = sys.stderr if json == STDOUT else sys.stdout
    with progress(lambda: f"{len(found)} of {total} judged"):
        for row in rows(units, jobs):
            found[order[row.file, row.device]] = row
            while shown in found:
                if not quiet or found[shown].exit_code:
                    print(line(found[shown], width), file=out, flush=True)
                shown += 1
    every = [found[n] for n in sorted(found)]
    code = combined([row.exit_code for row in every], allow_inconclusive)
    counts = ", ".join(f"{sum(row.label == label for row in every)} {label}"
                       for label in ("Type-I", "Type-II", "Inconclusive", "error"))  # fmt: skip
    print(f"{len(files)} files x {len(devices)} profiles: {counts}    exit {code}", file=out)
    if json is not None:
        _write(every, code, json)
    return code


def line(row: FileVerdict, width: int) -> str:
    scope = f"  [{'; '.join(row.scope)}]" if row.scope else ""
    return f"{row.file:<{width}}  {row.device:<8}  {row.label:<12}  {row.code:<6}  {row.message.splitlines()[0]}{scope}"


def rows(units: Sequence[Asked], jobs: int) -> Iterator[FileVerdict]:
    """Rows as they come. What a unit left, because its host code asked for the device, comes as units of one profile
    each."""
    from render.lab import workers

    left: list[Asked] = []
    for done in workers.run(judged, units, jobs, per_process=1):
        unit = units[done.unit]
        got = done.result or []
        yield from got
        missing = unit.devices[len(got) :]
        if done.error:
            yield FileVerdict(unit.file, missing[0], "error", "", done.error, INTERNAL_ERROR)
            missing = missing[1:]
        left += [unit._replace(devices=(device,)) for device in missing]
    if left:
        yield from rows(left, jobs)


def judged(unit: Asked) -> list[FileVerdict]:
    """The rows of one unit, until one of its profiles fails or asks."""
    from render.classify import classify_devices
    from render.cli.limits import limited

    found: list[FileVerdict] = []
    failure: Exception | None = None
    try:
        with limited(unit.timeout, unit.memory):
            for device, verdict in classify_devices(unit.file, unit.devices, **unit.options):
                result = verdict.to_dict() if unit.whole else None
                found.append(_row(unit.file, device, verdict, result))
    except Exception as error:  # told in the row, as the command for one file tells it
        failure = error
    if failure is not None:
        device = unit.devices[len(found)]
        found.append(_scripted(unit, device, failure) or _failed(unit.file, device, failure))
    return found


def _row(file: str, device: str, verdict: Any, result: dict[str, Any] | None) -> FileVerdict:
    return FileVerdict(file, device, verdict.label, verdict.code, verdict.message, verdict.exit_code,
               tuple(verdict.scope.left_out), result)  # fmt: skip


def _scripted(unit: Asked, device: str, error: Exception) -> FileVerdict | None:
    """A file without inputs or reference is a script: what it compares is judged, as for a single file."""
    given = any(unit.options.get(name) for name in ("inputs", "specs", "output"))
    if given or not isinstance(error, RenderError) or error.code not in ("RND901", "RND902"):
        return None
    from render.front.found import in_script

    try:
        verdict = in_script(Path(unit.file), {**unit.options, "device": device}, error)
    except Exception as second:
        failure = second
    else:
        return None if verdict is None else _row(unit.file, device, verdict, verdict.to_dict() if unit.whole else None)
    return _failed(unit.file, device, failure)


def _failed(file: str, device: str, error: Exception) -> FileVerdict:
    lines, code = explained(error)
    return FileVerdict(
        file, device, "error", getattr(error, "code", ""), " ".join(text.strip() for text in lines[:2]), code
    )


def _write(rows: Sequence[FileVerdict], code: int, path: str) -> None:
    told = [
        {"file": row.file, "device": row.device, "label": row.label, "code": row.code, "message": row.message,
         "exit_code": row.exit_code, "result": row.result}
        for row in rows
    ]  # fmt: skip
    text = jsons.dumps({"schema": 1, "results": told, "exit_code": code}, indent=2) + "\n"
    put(text, path)
