"""Case files and plain files: every pair gives one row, whatever happens in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from render.lab.suite.find import SourceKind, find
from render.lab.suite.options import SuiteOptions
from render.lab.suite.rows import ERROR, Row, exit_code
from render.lab.suite.runner import run
from render.result.errors import RenderError

CASES = """
import torch
from render.lab.suite.case import SuiteCase, pair
from scaling_library import scale

def half():
    return (torch.randn(100),)

def fails(x):
    scale(x)
    raise ValueError("no such factor")

def spins(x):
    scale(x)
    while True:
        pass

def cases():
    yield from pair("right", scale, lambda x: 3 * x, half, (0,))
    yield from pair("wrong", scale, lambda x: 2 * x, half, (0,))
    yield SuiteCase("raises", fails, lambda x: x, half)
    yield SuiteCase("no kernel", lambda x: x + 1, lambda x: x + 1, half)
    yield SuiteCase("endless", spins, lambda x: x, half)
"""


def rows(suite: Path, **options: object) -> dict[str, Row]:
    return {row.test.split("::")[1]: row for row in run(find([str(suite)]), SuiteOptions(**options))}  # type: ignore[arg-type]


def test_every_case_is_a_row(library: Path) -> None:
    (library / "table.py").write_text(CASES)
    ended = {name: row for part in ("right", "wrong", "raises", "no kernel") for name, row in
             rows(library, expression=part).items()}  # fmt: skip
    found = ended | rows(library, expression="endless", limit=2.0)  # the clock stops nothing else, however slow it is
    assert {name: row.label for name, row in found.items()} == {
        "right": "Type-I", "right backward": "Type-I", "wrong": "Type-II", "wrong backward": "Type-II",
        "raises": ERROR, "no kernel": ERROR, "endless": ERROR,
    }  # fmt: skip
    assert found["no kernel"].code == "RND904"
    assert found["right"].kernel == "scale_kernel" and found["right"].outputs == 1
    assert found["raises"].place.endswith("table.py:11") and "no such factor" in found["raises"].message
    assert "not done after 2 seconds" in found["endless"].message


def test_only_what_was_asked_for(library: Path) -> None:
    (library / "table.py").write_text(CASES)
    assert set(rows(library, expression="right")) == {"right", "right backward"}


def test_a_plain_file_is_one_case(library: Path) -> None:
    (library / "plain.py").write_text(
        "import torch\nfrom scaling_library import scale_kernel\n"
        "def triple(x):\n    out = torch.empty_like(x)\n    scale_kernel[(2,)](x, out, 3.0, 100, BLOCK=64)\n"
        "    return out\n"
        "def make_inputs():\n    return (torch.randn(100),)\n"
        "def reference(x):\n    return x * 3.0\n"
    )
    assert {name: row.label for name, row in rows(library).items()} == {"triple": "Type-I"}


def test_a_file_that_cannot_be_imported_is_a_row(library: Path) -> None:
    (library / "table.py").write_text("import a_library_that_is_not_here\ndef cases():\n    return []\n")
    (row,) = run(find([str(library)]), SuiteOptions())
    assert row.label == ERROR and "a_library_that_is_not_here" in row.message and row.exit_code == 2


def test_what_a_path_holds(library: Path) -> None:
    (library / "test_a.py").write_text("def test_it(): pass\n")
    (library / "table.py").write_text("def cases(): return []\n")
    (library / "helper.py").write_text("x = 1\n")
    (library / ".hidden").mkdir()
    (library / ".hidden" / "test_b.py").write_text("")
    found = find([str(library)])
    assert [(f.path.name, f.kind) for f in found] == [("table.py", SourceKind.CASES), ("test_a.py", SourceKind.TESTS)]
    assert find([f"{library / 'test_a.py'}::test_it"])[0].argument.endswith("test_a.py::test_it")


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_a_path_that_holds_nothing_is_an_error(library: Path, name: str) -> None:
    (library / "empty").mkdir()
    with pytest.raises(RenderError, match=name):
        find([str(library / name)])


@pytest.mark.parametrize(
    ("labels", "code"),
    [
        (("Type-I", "skipped"), 0),
        (("Type-I", "Inconclusive"), 3),
        (("Inconclusive", "Type-II"), 1),
        (("Type-II", "error"), 2),
        ((), 0),
    ],
)
def test_the_exit_code_is_that_of_the_worst(labels: tuple[str, ...], code: int) -> None:
    assert exit_code([Row("t", label) for label in labels]) == code
    allowed = {3: 0}.get(code, code)
    assert exit_code([Row("t", label) for label in labels], allow_inconclusive=True) == allowed


def test_a_defect_of_ours_beats_everything() -> None:
    assert exit_code([Row("t", ERROR, "internal"), Row("t", ERROR, "RND902"), Row("t", "Type-II")]) == 4


HOSTED = """
import torch
from render.lab.suite.case import SuiteCase
from scaling_library import scale

FACTOR = 3 if torch.version.hip else 2  # a library that chooses its path as it is imported

def made():
    return (torch.full((100,), 1.0 if torch.version.hip else 5.0),)

def cases():
    yield SuiteCase("imported", lambda x: (scale(x), x), lambda x: (FACTOR * x, torch.ones(100)), made)
"""


@pytest.mark.parametrize(("device", "label"), [("gfx942", "Type-I"), ("sm_90", "Type-II")])
def test_what_a_suite_imports_and_makes_is_told_of_the_device(library: Path, device: str, label: str) -> None:
    (library / "hosted.py").write_text(HOSTED)
    assert [row.label for row in rows(library / "hosted.py", device=device).values()] == [label]
