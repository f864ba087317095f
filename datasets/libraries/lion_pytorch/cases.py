"""lion-pytorch: a step of the optimizer, against its definition; it writes the parameters and the running average."""

import torch
from lion_pytorch.triton import update_fn

from render.lab.suite.case import SuiteCase

RATE, DECAY, FAST, SLOW = 1e-2, 0.1, 0.9, 0.99


def step(p, grad, average):
    update_fn(p, grad, average, RATE, DECAY, FAST, SLOW)
    return p, average


def reference(p, grad, average):
    direction = torch.sign(FAST * average + (1 - FAST) * grad)
    return p * (1 - RATE * DECAY) - RATE * direction, SLOW * average + (1 - SLOW) * grad


def randn(size):
    return lambda: tuple(torch.randn(size) for _ in range(3))


def cases():
    yield SuiteCase("update", step, reference, randn((20, 30)))
    yield SuiteCase("update of one block", step, reference, randn(128))
    yield SuiteCase(
        "update without a gradient", step, reference, lambda: (torch.randn(300), torch.zeros(300), torch.zeros(300))
    )
