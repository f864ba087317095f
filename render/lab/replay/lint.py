"""Checks the files of a case without running it: facts that contradict each other, files that are not a user's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from render.lab.corpus.case import FOLDERS, CorpusCase, case_folders, load_case
from render.result.errors import RenderError

ALLOWED_IMPORTS = {"torch", "triton", "math"}


def check(folder: Path) -> list[str]:
    """Every problem of one case, in words."""
    try:
        case = load_case(folder)
    except RenderError as error:
        return [str(error)]
    return [*_names(case), *_facts(case), *_device(case), *_kernel(case)]


def _names(case: CorpusCase) -> Iterator[str]:
    facts = case.facts
    if facts.id != case.path.name:
        yield f"id {facts.id} stands in the folder {case.path.name}"
    ids = {folder.name for folder in case_folders(FOLDERS)} | {f.name for f in case.path.parent.parent.glob("*/*")}
    if facts.twin_of and facts.twin_of not in ids:
        yield f"twin of {facts.twin_of}, which does not exist"
    if facts.twin_of and not facts.change:
        yield "a twin must say what was changed"


def _facts(case: CorpusCase) -> Iterator[str]:
    from render.result.codes import UnknownCode, find

    facts = case.facts
    for code in (*facts.expected.codes, *facts.expected.source_codes):
        try:
            find(code)
        except UnknownCode:
            yield f"{code} is no code of RENDER"
    if facts.expected.label != facts.label and facts.expected.label != "Inconclusive":
        yield f"expected label {facts.expected.label}, ground truth {facts.label}"
    given = facts.tolerance.atol is not None or facts.tolerance.rtol is not None
    if facts.tolerance.source == "issue" and not given:
        yield "a tolerance of the issue without numbers"
    if not facts.shapes or not facts.dtypes:
        yield "shapes and dtypes are missing"


def _device(case: CorpusCase) -> Iterator[str]:
    from interval_ops.profiles.profile import load_profile
    from render.lab.corpus.device_models import models

    device, expected = case.facts.device, case.facts.expected
    try:
        load_profile(device.profile)
    except (ValueError, LookupError) as error:
        yield str(error).strip("'\"")
    if device.kind in ("model", "fault") and device.model not in models():
        yield f"unknown device model {device.model!r}"
    if (device.kind == "none") != (expected.device == "none"):
        yield f"device output {device.kind}, expected on the device axis {expected.device}"
    if device.kind == "none" and expected.label != expected.source_level:
        yield "without a device output, the label and the source-level label are the same question"
    if device.kind != "none" and not device.provenance:
        yield "a device output must say where it comes from"


def _kernel(case: CorpusCase) -> Iterator[str]:
    """The file is a user's own: torch and triton only, no hook, no environment variable."""
    file = case.kernel_file
    if not file.is_file():
        yield f"{case.facts.kernel} does not exist"
        return
    source = file.read_text(encoding="utf-8")
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        yield f"{file.name}:{error.lineno}: {error.msg}"
        return
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            if name.split(".")[0] not in ALLOWED_IMPORTS:
                yield f"{file.name}:{getattr(node, 'lineno', 0)} imports {name}"
    for word in ("TRITON_INTERPRET", "render"):
        if word in source:
            yield f"{file.name} mentions {word}"
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assigned = [t for n in tree.body if isinstance(n, ast.Assign) for t in n.targets]
    defined |= {t.id for whole in assigned for t in ast.walk(whole) if isinstance(t, ast.Name)}
    for name in (case.facts.entry, case.facts.reference.fn, "make_inputs"):
        if name not in defined:
            yield f"{file.name} defines no {name}"
