import torch

SCALE = 0.18033689260482788  # a number of float32


def target(x):
    """As one fused multiply-add would: the product is not rounded before the difference."""
    m = x * SCALE
    return torch.exp((m.double() - x.double() * SCALE).float())


def reference(x):
    m = x * SCALE
    return torch.exp(m - x * SCALE)


def make_inputs():
    return (torch.tensor([1134139801600.0]),)
