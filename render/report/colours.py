"""Python source in colours that can be read on light and on dark ground, as inline styles: code hosts strip sheets.

Lines of a file without those around them are no program, so they are split into tokens by pygments, which comes with
rich and never fails on a fragment.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_STYLES = (
    ("Comment", "color:#7a8087;font-style:italic"),
    ("Keyword", "color:#b0569b;font-weight:600"),
    ("Operator.Word", "color:#b0569b;font-weight:600"),
    ("Name.Decorator", "color:#a8741a"),
    ("Literal.String", "color:#3f8f4f"),
    ("Literal.Number", "color:#a8741a"),
    ("Name.Builtin", "color:#2f86a8"),
)
"""Token types of pygments; each colour has at least 3:1 against white and against #16181c."""


def coloured(lines: Sequence[tuple[int, str]]) -> list[str]:
    """The lines as markup, one for one."""
    from pygments.lexers.python import PythonLexer

    text = "\n".join(source.rstrip() for _, source in lines)
    found = [""]
    for kind, word in PythonLexer(stripnl=False, ensurenl=False).get_tokens(text):
        name = str(kind).removeprefix("Token.")
        style = next((style for known, style in _STYLES if name.startswith(known)), "")
        for i, part in enumerate(word.split("\n")):
            found += [""] if i else []
            markup = escape(part)
            found[-1] += f'<span style="{style}">{markup}</span>' if style and part.strip() else markup
    return found
