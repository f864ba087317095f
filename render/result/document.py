"""The page around a report: one file, nothing fetched, readable by day, by night and on a narrow screen."""

from __future__ import annotations

from html import escape

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="RENDER">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1c1c1e; background: #ffffff; overflow-wrap: anywhere; }}
h1 {{ font-size: 130%; }}
pre {{ font-size: 85%; overflow-x: auto; }}
img {{ max-width: 100%; background: #ffffff; }}
@media (prefers-color-scheme: dark) {{ body {{ color: #e6e6e6; background: #16181c; }} }}
{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def document(title: str, body: str, style: str = "") -> str:
    """A self-contained HTML document; `body` and `style` are markup, `title` is text."""
    return _PAGE.format(title=escape(title), style=style, body=body)
