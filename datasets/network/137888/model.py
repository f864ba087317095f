import torch


def target(x):
    return torch.digamma(x)


def reference(x):
    return torch.digamma(x.double()).float()


def make_inputs():
    return (torch.tensor([0.1]),)
