import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, squares):
        super().__init__()
        self.squares = squares

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        wide = (
            (x * x).mean(-1, keepdim=True) - mean * mean if self.squares else (x - mean).pow(2).mean(-1, keepdim=True)
        )
        return (x - mean) * torch.rsqrt(wide.clamp(min=0) + 1e-5)


class Model(nn.Module):
    def __init__(self, squares):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.last = nn.Linear(16, 64), Norm(squares), nn.Linear(64, 4)

    def forward(self, x):
        return self.last(self.norm(self.first(x) + 300))


target, reference = Model(True), Model(False)


def make_inputs():
    return (torch.randn(8, 16),)
