"""Where the example kernels and the corpus lie: beside the packages in a checkout, inside this one when installed."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
FOLDERS = ("kernels", "datasets")


def folder(name: str) -> Path | None:
    """The folder `name` ("kernels" or "datasets"), or None if this copy of RENDER has none.

    A wheel carries them as `render/_data/<name>`; in a checkout (and in an editable install) they stand beside the
    package. A checkout is known by its pyproject.toml, so a folder that happens to stand in site-packages never counts.
    """
    if name not in FOLDERS:
        raise ValueError(f"unknown data folder {name!r}; there are {', '.join(FOLDERS)}")
    installed = _PACKAGE / "_data" / name
    if installed.is_dir():
        return installed
    checkout = _PACKAGE.parent
    beside = checkout / name
    return beside if beside.is_dir() and (checkout / "pyproject.toml").is_file() else None


def find(path: str | Path) -> Path | None:
    """An existing file for `path`: as it is, else `kernels/...` or `datasets/...` among the packaged data."""
    given = Path(path)
    if given.exists():
        return given
    if given.is_absolute() or len(given.parts) < 2 or given.parts[0] not in FOLDERS:
        return None
    base = folder(given.parts[0])
    if base is None:
        return None
    packaged = base.joinpath(*given.parts[1:])
    inside = packaged.resolve().is_relative_to(base.resolve())
    return packaged if inside and packaged.exists() else None
