import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        y = x - torch.tanh(x)
        return torch.atan2(y, y)


target, reference = Model(), Model()


def make_inputs():
    return (torch.randn(1, 3, 64, 64),)
