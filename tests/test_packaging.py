"""The wheel, the metadata and the cleanliness of the tree."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TEXT_LIMIT = 1 << 20


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built by the project's own backend, without an isolated environment: no network."""
    pytest.importorskip("hatchling")
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(out.glob("*.whl"))) as archive:
        yield archive


def _shipped(folder: str) -> set[str]:
    """Files below `folder` of the checkout, as posix paths from the root."""
    files = (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in files}


def test_wheel_has_its_packages_and_no_other_top_level_name(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"render", "render_triton", "interval_ops"}


def test_wheel_has_every_module_and_profile(wheel):
    names = set(wheel.namelist())
    assert _shipped("render") <= names
    assert _shipped("interval_ops") <= names
    assert "interval_ops/profiles/any.toml" in names


@pytest.mark.parametrize("folder", ["kernels", "datasets"])
def test_wheel_carries_the_data_folders_inside_render(wheel, folder):
    shipped = {f"render/_data/{name}" for name in _shipped(folder)} if (ROOT / folder).is_dir() else set()
    assert {name for name in wheel.namelist() if name.startswith(f"render/_data/{folder}/")} == shipped


def test_installed_wheel_finds_its_data(wheel, tmp_path):
    wheel.extractall(tmp_path)
    code = "import sys; sys.path.insert(0, sys.argv[1]); from render.result.packaged import folder, find; " + (
        "print(folder('kernels')); print(find('kernels/matmul.py')); print(find('kernels/../../errors.py'))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    data = tmp_path / "render" / "_data" / "kernels"
    assert done.stdout.split() == [str(data), str(data / "matmul.py"), "None"]


def test_wheel_names_the_command(wheel):
    entry = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "render = render.cli:main" in wheel.read(entry).decode()


def test_dependencies_are_ranges():
    """A pin would replace the torch and triton of the environment that RENDER is installed into."""
    wanted = {re.split(r"[<>=~! ]", item)[0]: item for item in PROJECT["dependencies"]}
    assert {"torch", "triton", "numpy"} <= wanted.keys()
    assert not [item for item in wanted.values() if "==" in item or "~=" in item]
    assert "<" not in wanted["torch"]


def test_constraints_pin_every_dependency():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {re.split(r"[<>=]", line)[0].lower() for line in lines if line and not line.startswith("#")}
    extras = PROJECT["optional-dependencies"]
    wanted = PROJECT["dependencies"] + extras["test"]
    assert {re.split(r"[<>=]", item)[0].lower() for item in wanted} <= pinned


# Hygiene of the tree


def _tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def _lines_matching(pattern: str) -> list[str]:
    compiled = re.compile(pattern)
    hits = []
    for path in _tracked():
        if path.suffix == ".npz":  # numbers
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if compiled.search(line):
                hits.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    return hits


def test_no_machine_paths():
    folders = "|".join(("home", "root", "Users", "tmp", "work", "opt", "mnt"))
    assert _lines_matching(rf"""(?:^|[\s"'`(=:])/(?:{folders})/[\w.]""") == []


def test_no_conflict_markers():
    assert _lines_matching(r"^(<{7}|>{7}) ") == []


def test_no_generated_or_large_files():
    endings = (".pyc", ".orig", ".rej", ".swp", ".nbi", ".nbc", ".pt", ".pkl", ".npy", ".whl")
    bad = [str(path.relative_to(ROOT)) for path in _tracked() if path.name.endswith(endings)]
    large = [str(path.relative_to(ROOT)) for path in _tracked() if path.stat().st_size > TEXT_LIMIT]
    assert bad + large == []
