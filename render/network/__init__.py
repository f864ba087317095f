"""Whole PyTorch models, layer by layer: which module first differs by more than rounding explains, and which side."""

from __future__ import annotations

from render.network.recorded import record_modules

__all__ = ["record_modules"]
