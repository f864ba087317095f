"""Finished results on disk, so that an interrupted replay continues where it stopped.

One file per state of the code: its name is a digest of RENDER's own sources, the corpus, the versions of what it runs
on and the plan. A result is therefore never shown for code that did not produce it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from render.lab.replay.rows import ReplayRow, from_dict

FOLDER = Path(".render") / "replay"
_SOURCES = ("render", "interval_ops")
_PACKAGES = ("torch", "triton", "numpy", "numba")


def digest(case_folder: Path, plan: Any) -> str:
    """Identifies a result: the case's files, RENDER's sources, versions and the plan."""
    state = hashlib.sha256(code().encode())
    state.update(repr(plan).encode())
    # A twin may share the kernel file of its issue.
    for file in sorted({*case_folder.glob("*"), *_shared(case_folder)}):
        if file.is_file():
            state.update(file.name.encode() + b"\0" + file.read_bytes())
    return state.hexdigest()[:16]


def _shared(case_folder: Path) -> list[Path]:
    from render.lab.corpus.case import load_case

    return [load_case(case_folder).kernel_file]


def code() -> str:
    """A digest of RENDER's own sources and of the versions of what it runs on."""
    global _known
    if _known is None:
        _known = _digest_of_code()
    return _known


_known: str | None = None


def _digest_of_code() -> str:
    from importlib.metadata import PackageNotFoundError, version

    from render.result.versions import VERSION

    state = hashlib.sha256(VERSION.encode())
    root = Path(__file__).resolve().parents[3]
    for package in _SOURCES:
        for file in sorted(p for p in (root / package).rglob("*") if p.suffix in (".py", ".toml")):
            if "_data" not in file.parts:
                state.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    for package in _PACKAGES:
        try:
            state.update(f"{package} {version(package)}".encode())
        except PackageNotFoundError:
            continue
    return state.hexdigest()


class Store:
    """`.render/replay/<digest>.json`, one per result, under the current folder (or `base`)."""

    def __init__(self, plan: Any, base: Path | None = None) -> None:
        self.folder = (base or Path.cwd()) / FOLDER
        self.plan = plan

    def _file(self, case_folder: Path) -> Path:
        return self.folder / f"{digest(case_folder, self.plan)}.json"

    def known(self, case_folders: Iterable[Path]) -> dict[Path, ReplayRow]:
        """The results that are there already; a file that cannot be read counts as none."""
        found = {}
        for case_folder in case_folders:
            try:
                found[case_folder] = from_dict(json.loads(self._file(case_folder).read_text(encoding="utf-8")))
            except (OSError, ValueError, msgspec.ValidationError):
                continue
        return found

    def put(self, case_folder: Path, row: ReplayRow) -> None:
        """Keeps a result that has a verdict; a crash is tried again next time. A full or read-only disk is no error."""
        if row.error:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = self._file(case_folder)
            partial = file.with_suffix(f".{row.id}.part")
            partial.write_text(json.dumps(row.to_dict()), encoding="utf-8")
            partial.replace(file)
        except OSError:
            return

    def forget(self, case_folders: Iterable[Path]) -> None:
        """Drops what is kept of these cases."""
        for case_folder in case_folders:
            self._file(case_folder).unlink(missing_ok=True)
