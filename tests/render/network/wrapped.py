"""A model under autocast, and beside it one as deep that is not."""

from __future__ import annotations

import torch
from torch import nn


class Auto(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.model(x)


class Plain(Auto):
    def forward(self, x):
        return self.model(x)
