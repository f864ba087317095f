"""A kernel that is right is never called wrong, however it is written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from render.classify import classify_file
from tests.kernels.bugs import KERNELS
from tests.kernels.rewrites import REWRITES, Rewrite

SEEN: set[str] = set()
QUICK = {r for r in REWRITES if r.kernel not in SEEN and not SEEN.add(r.kernel)}  # type: ignore[func-returns-value]
"""The first one of every kernel."""


def test_every_kernel_is_rewritten() -> None:
    count = Counter(r.kernel for r in REWRITES)
    assert all(count[path.stem] >= 2 for path in KERNELS.glob("*.py"))
    assert len(set(map(str, REWRITES))) == len(REWRITES) >= 40


@pytest.mark.parametrize(
    "rewrite", [pytest.param(r, marks=() if r in QUICK else pytest.mark.slow, id=str(r)) for r in REWRITES]
)
@pytest.mark.parametrize("device", ["any", pytest.param("sm_80", marks=pytest.mark.slow)])
def test_never_type_two(rewrite: Rewrite, device: str, tmp_path: Path) -> None:
    verdict = classify_file(rewrite.write(tmp_path), device=device, budget=False)
    assert verdict.label == "Type-I", f"{verdict.label} {verdict.code}: {verdict.message}"
