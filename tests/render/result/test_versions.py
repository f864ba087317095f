"""Which Triton is supported, by how it writes its version."""

from __future__ import annotations

import pytest

from render.result import versions


@pytest.mark.parametrize(("text", "known"), [
    ("3.6", (3, 6)), ("3.9.0", (3, 9)), ("3.7.1+git1a2b", (3, 7)), ("3.8.0.dev20260101", (3, 8)), ("3.9.0rc1", (3, 9)),
])  # fmt: skip
def test_known_versions(text: str, known: tuple[int, int]) -> None:
    assert versions.triton_version(text) == known


@pytest.mark.parametrize("text", ["3.5", "3.10", "2.9", "4.0", "3", "", "main", "3.9 beta", "3.9;rm"])
def test_what_is_none_is_refused_and_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"3\.6 to 3\.9"):
        versions.triton_version(text)


def test_a_package_that_is_not_there_is_unknown() -> None:
    assert versions._installed("no-such-package-of-anybody") == "unknown"
    assert versions.installed_triton() in {(3, minor) for minor in range(6, 10)}
    assert versions.versions()["triton"] != "unknown"
