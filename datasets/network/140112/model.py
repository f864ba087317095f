import torch
import torch.nn.functional as F


def target(x):
    return F.batch_norm(x.float(), None, None, training=True, eps=1e-5).bfloat16()


def reference(x):
    return F.batch_norm(x, None, None, training=True, eps=1e-5)


def make_inputs():
    return (torch.tensor([[1.3047], [0.8789]], dtype=torch.bfloat16),)
