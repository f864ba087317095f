"""How a verdict shows itself: functions that the package fills in, so that the data knows none of its readers.

`render/__init__.py` sets them; each imports its reader on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _unset(*_: Any) -> Any:
    raise RuntimeError("the package `render` was not imported as a whole")


HTML: Callable[..., Any] = _unset
"""(verdict) -> an HTML fragment."""
TERMINAL: Callable[..., Any] = _unset
"""(verdict, console, options) -> rich renderables."""
BRIEF: Callable[..., Any] = _unset
"""(verdict) -> the first screen of the report as plain text."""
TEXT: Callable[..., Any] = _unset
"""(verdict) -> the whole report as plain text."""
PLOT: Callable[..., Any] = _unset
"""(verdict, path): a figure of its elements."""
PROVENANCE: Callable[..., Any] = _unset
"""(study, output, index) -> the `Provenance` of one element."""
