"""The data folders of a checkout; those of an installed wheel are tested with the packaging."""

from __future__ import annotations

from pathlib import Path

import pytest

from render.result import packaged as data

ROOT = Path(data.__file__).resolve().parents[2]


def test_a_checkout_uses_its_own_folder():
    assert data.folder("kernels") == ROOT / "kernels"


def test_an_unknown_folder_is_an_error():
    with pytest.raises(ValueError, match="kernels"):
        data.folder("tests")


def test_a_folder_in_site_packages_does_not_count(monkeypatch, tmp_path):
    (tmp_path / "datasets").mkdir()
    monkeypatch.setattr(data, "_PACKAGE", tmp_path / "render")
    assert data.folder("datasets") is None
    (tmp_path / "pyproject.toml").touch()
    assert data.folder("datasets") == tmp_path / "datasets"


def test_find_prefers_what_exists(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert data.find("kernels/matmul.py") == ROOT / "kernels" / "matmul.py"
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "matmul.py").touch()
    assert data.find("kernels/matmul.py") == Path("kernels/matmul.py")


@pytest.mark.parametrize("path", ["kernels/nothing.py", "kernels", "other/matmul.py", "kernels/../pyproject.toml"])
def test_find_stays_inside_the_folders(monkeypatch, tmp_path, path):
    monkeypatch.chdir(tmp_path)
    assert data.find(path) is None
