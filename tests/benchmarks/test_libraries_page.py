"""The page of the libraries: every row is counted, and what is no Type-I is either argued or listed."""

from __future__ import annotations

import ast
import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from libraries_page import argument, findings, left, page, summary  # noqa: E402

from render.lab.suite.accept import load  # noqa: E402

SITE = "/any/site-packages/lib"
ROW = {"test": "exp", "label": "Type-I", "code": "RND105", "kernel": "k", "file": "", "line": 0, "message": "",
       "warm_s": 0.2, "stock_s": 0.1, "startup_s": 0.004}  # fmt: skip
ROWS = [
    ROW,
    ROW | {"test": "exp backward", "stock_s": 0.4},
    ROW | {"test": "expm1", "label": "Type-II", "code": "RND206", "file": f"{SITE}/ops/expm1.py", "line": 9},
    ROW | {"test": "other", "label": "Type-II", "code": "RND201", "file": f"{SITE}/ops/other.py", "line": 3},
    ROW | {"test": "open", "label": "Inconclusive", "code": "RND302", "message": f"no rule at {SITE}/ops/open.py:4"},
    ROW | {"test": "broken", "label": "error", "code": "", "message": "ValueError", "stock_s": None},
]  # fmt: skip


def accepted(tmp_path: Path) -> Path:
    path = tmp_path / "findings.toml"
    path.write_text("[[accept]]\ncode = 'RND206'\ntest = '*expm1'\nreason = 'cancels near 0'\n")
    return path


def test_every_row_is_counted_and_argued_or_listed(tmp_path: Path) -> None:
    known = load(accepted(tmp_path))
    *_, total = summary({"lib": ROWS}, known)
    cells = [cell.strip() for cell in total.strip("|").split("|")]
    assert cells[1:7] == ["6", "5 (83.3 %)", "2", "1", "1", "1 (20.0 %)"]
    assert cells[7] == f"{(2 * 0.5 * 2 * 2 * 2) ** 0.2:.2f} (5)"
    assert [argument(row, known) is not None for row in ROWS] == [False, False, True, False, False, False]
    (finding,) = findings({"lib": ROWS}, known)
    assert "cancels near 0" in finding and "lib/ops/expm1.py:9" in finding
    listed = "\n".join(left({"lib": ROWS}, known))
    assert all(name in listed for name in ("other", "open", "broken")) and "expm1" not in listed
    assert "/any" not in listed


def test_the_page_is_written_from_what_is_kept(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    for device in ("any", "sm_90"):
        (kept / device).mkdir(parents=True)
        (kept / device / "lib.json").write_text(json.dumps({"library": "lib", "device": device, "rows": ROWS}))
    place = tmp_path / "a" / "b"
    place.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    text = page(kept, accepted(place))
    assert "6 (kernel, reference) pairs of 1 libraries, 1 of" in text and "## On sm_90" in text
    assert "liger-kernel==" in text


FILES = sorted((ROOT / "datasets" / "libraries").glob("*/cases.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.parent.name)
def test_case_files_name_what_there_is(path: Path) -> None:
    """The libraries are not installed where the tests run; what the files take from this package is looked at."""
    tree = ast.parse(path.read_text())
    own = [node for node in tree.body if isinstance(node, ast.ImportFrom) and str(node.module).startswith("render")]
    assert own and any(isinstance(node, ast.FunctionDef) and node.name == "cases" for node in tree.body)
    for node in own:
        module = importlib.import_module(str(node.module))
        assert not [alias.name for alias in node.names if not hasattr(module, alias.name)]
