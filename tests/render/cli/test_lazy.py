"""What starts fast stays fast: which modules a command imports (no wall time is asserted)."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import render
from render.report import saved
from tests.render.report.verdicts import type_ii

HEAVY = ("torch", "triton", "numba", "numpy", "scipy", "mpmath", "flint")
ROOT = Path(render.__file__).resolve().parent.parent
LIST = "import sys; print(*sorted(sys.modules), sep='\\n')"


def modules(code: str) -> set[str]:
    """Names in sys.modules after `code` ran in an interpreter of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\n{LIST}"], capture_output=True, text=True, check=True, env=environment
    )
    return set(run.stdout.split())


def command(*arguments: str) -> str:
    return (
        "import sys, contextlib, io\n"
        f"sys.argv = ['render', *{list(arguments)!r}]\n"
        "from render.cli import app\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    app(prog_name='render')"
    )


@pytest.mark.parametrize(
    "line", [("--help",), ("classify", "--help"), ("--version",), ("explain", "RND101"), ("explain",)]
)
def test_light_commands_import_nothing_heavy(line: tuple[str, ...]) -> None:
    assert not modules(command(*line)) & set(HEAVY)


def test_a_saved_verdict_is_told_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    saved.keep(type_ii())
    for line in (("explain", "last"), *(("report", "--format", f) for f in ("html", "md", "sarif", "junit"))):
        assert not modules(command(*line)) & {"torch", "triton", "numba", "scipy", "mpmath"}


def test_import_render_is_light() -> None:
    loaded = modules("import render; render.__version__; dir(render)")
    assert not loaded & {*HEAVY, "typer", "rich"}


def test_python_dash_m() -> None:
    line = [sys.executable, "-m", "render", "--version"]
    run = subprocess.run(line, capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout == f"render {render.__version__}\n"


def test_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == render.__version__


def test_lazy_names() -> None:
    from render.result.verdict import Verdict

    assert render.Verdict is Verdict
    assert render.load_profile("any").name == "any"
    assert set(render.__all__) <= set(dir(render))
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        render.nothing_of_this_name  # noqa: B018


def test_classify_is_the_function_although_its_module_has_that_name() -> None:
    stand_in = (
        "import render, sys, types\n"
        "module = types.ModuleType('render.classify'); module.classify = len\n"
        "sys.modules['render.classify'] = module\n"
    )
    modules(f"{stand_in}assert render.classify is len")
    # What `import render.classify` does last: it binds the module to the package.
    modules(f"{stand_in}setattr(render, 'classify', module)\nassert render.classify is len")


def test_classify_is_there() -> None:
    from render.classify import classify

    assert render.classify is classify
