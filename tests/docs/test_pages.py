"""What the pages name exists: links, files and folders; the README stays short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
HAND_MADE = [p for p in PAGES if p.name in ("README.md", "CONTRIBUTING.md", "how-it-works.md", "verdicts.md")]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
FILE = re.compile(r"`((?:render|interval_ops|tests|docs|datasets|kernels|benchmarks)/[\w./-]*)`")
PLACEHOLDER = re.compile(r"/(ID|NAME)\b")
ROOM = re.compile(r"`((?:\w+/)+\w*(?:\.py|\.toml)?)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = [t for t in LINK.findall(page.read_text()) if "://" not in t]
    assert not [t for t in targets if not (page.parent / t).exists()]


@pytest.mark.parametrize("page", HAND_MADE, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    named = set(FILE.findall(text)) | (set(ROOM.findall(text)) if page.name == "how-it-works.md" else set())
    assert not sorted(n for n in named if not PLACEHOLDER.search(n) and not _exists(n))


def _exists(name: str) -> bool:
    """A path from the root or, as the map writes it, from `render/` or `interval_ops/`; modules by their names."""
    name = name.rstrip("/")
    return any((ROOT / top / f"{name}{end}").exists() for top in ("", "render", "interval_ops") for end in ("", ".py"))


def test_the_map_has_every_room() -> None:
    text = (ROOT / "docs" / "how-it-works.md").read_text()
    rooms = [p.name for p in (ROOT / "render").iterdir() if (p / "__init__.py").exists()]
    assert not [name for name in rooms if f"`render/{name}/`" not in text]
    inner = [p.name for p in (ROOT / "interval_ops").iterdir() if (p / "__init__.py").exists()]
    assert not [name for name in inner if f"{name}/" not in text]


def test_the_index_has_every_page() -> None:
    text = (ROOT / "docs" / "README.md").read_text()
    assert not [
        p.name for p in (ROOT / "docs").iterdir() if p.is_file() and p.name != "README.md" and f"({p.name})" not in text
    ]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_commands_that_the_readme_names_exist() -> None:
    from render.cli.app import app

    known = {command.name for command in app.registered_commands}
    assert set(re.findall(r"^\| `render (\w+)", (ROOT / "README.md").read_text(), re.M)) <= known
