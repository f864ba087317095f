"""A plugin of pytest: python-flint cannot be imported."""

import sys

sys.modules["flint"] = None  # type: ignore[assignment]
