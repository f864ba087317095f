"""Which code is that of torch's optimisers, whose numbers are followed as tensors are."""

from __future__ import annotations

import os
import sys

import torch

_OPTIMISERS = os.path.join(os.path.dirname(torch.__file__), "optim", "")


def of_optimiser(file: str) -> bool:
    """Whether a file is one of torch's optimisers: these compute with numbers as they get them, so that a float that
    turns up there later comes from others that it had."""
    return file.startswith(_OPTIMISERS)


def asked_by_optimiser() -> bool:
    """Whether one of them runs an operation that takes a tensor as a number (a learning rate): Python never sees it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return of_optimiser(frame.f_code.co_filename)


_OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "")
