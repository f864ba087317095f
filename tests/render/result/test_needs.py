"""Optional packages: there, or an error that says what to install."""

from __future__ import annotations

import sys

import pytest

from render.result import needs
from render.result.errors import RenderError


def test_a_missing_package_is_a_line_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, ask, extra in (("scipy.stats", needs.stats, "stats"), ("matplotlib", needs.pyplot, "plot")):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(RenderError) as raised:
            ask()
        assert raised.value.code == "RND902" and f"[{extra}]" in str(raised.value.hint)
