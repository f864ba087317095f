"""Source in colours: the same text, and colours that can be read on both grounds."""

from __future__ import annotations

import re
from html import unescape

import pytest

from render.report.colours import _STYLES, coloured

LINES = [
    (3, "@triton.jit"),
    (4, "    acc += tl.dot(a, b)  # a < b & 'c'"),
    (7, '    """half a docstring'),
    (8, "        return x if x is not None else 1.5e-3"),
]


def test_the_text_stays_as_it_is() -> None:
    found = coloured(LINES)
    assert [unescape(re.sub(r"<[^>]*>", "", line)) for line in found] == [text for _, text in LINES]
    assert "# a &lt; b &amp;" in found[1] and "<span" in found[3]


def _luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.1."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("style", [style for _, style in _STYLES])
@pytest.mark.parametrize("ground", ["#ffffff", "#16181c"])
def test_contrast(style: str, ground: str) -> None:
    light, dark = sorted((_luminance(style.split("color:")[1][:7]), _luminance(ground)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 3.0
