import torch


def target(x):
    return torch.cdist(x, x + 1e-3, compute_mode="use_mm_for_euclid_dist")


def reference(x):
    return torch.cdist(x, x + 1e-3, compute_mode="donot_use_mm_for_euclid_dist")


def make_inputs():
    return (100 + torch.randn(32, 8),)
