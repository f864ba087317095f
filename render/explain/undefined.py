"""Masked-off lanes of a load without `other`: zero here and on NVIDIA and AMD, undefined by the language.

Whether one reaches an output is found by running again, values only, with NaN in those lanes.
"""

from __future__ import annotations

import os

import numpy as np

from render.entry.execution import WORTH_WORK, Entry, Execution


def undefined_note(entry: Entry, run: Execution) -> str | None:
    """A sentence for the report if an output depends on undefined lanes; None if none does or it was not tried."""
    sites = sorted(run.session.undefined_sites, key=lambda s: (s.file, s.line))
    if not sites or run.work > WORTH_WORK:
        return None
    options = {**entry.options, "undefined": float("nan"), "interval": False}
    again = Entry(entry.fn, entry.inputs, entry.device, entry.seed, options).run()
    changed = [
        before.name
        for before, after in zip(run.outputs, again.outputs, strict=True)
        if not np.array_equal(before.value, after.value, equal_nan=True)
    ]
    if not changed:
        return None
    places = ", ".join(f"{os.path.basename(s.file)}:{s.line}" for s in sites)
    return (
        f"{', '.join(changed)} depends on masked-off lanes of a load without `other` ({places}): "
        "they read 0 here, the language leaves them undefined"
    )
