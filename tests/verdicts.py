"""Verdicts without the search for the line of a bug, which takes many times as long: for tests of what is decided.

Those of the search are in `tests/render/explain`."""

from __future__ import annotations

from functools import partial

from render import classify as front
from render.classify import classify_file as of_file
from render.result.options import Options

DECIDED = Options(diagnose=False)
classify = partial(front, diagnose=False)
classify_file = partial(of_file, diagnose=False)
