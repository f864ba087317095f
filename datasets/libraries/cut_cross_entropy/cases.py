"""Cut cross-entropy: the loss of a linear classifier without its logits in memory, forward and backward."""

import torch
import torch.nn.functional as F
from cut_cross_entropy import linear_cross_entropy
from cut_cross_entropy.cce_lse_forward import cce_lse_forward_kernel
from cut_cross_entropy.indexed_dot import indexed_neg_dot_forward_kernel

from render.lab.suite.case import SuiteCase, pair


def inputs(dtype=torch.bfloat16):
    return lambda: (torch.randn(24, 64).to(dtype), (0.3 * torch.randn(160, 64)).to(dtype), torch.randint(0, 160, (24,)))


def loss(e, c, t, softcap=None, **how):
    logits = e.float() @ c.float().T
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    return F.cross_entropy(logits, t, **how)


def cases():
    for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        make = inputs(dtype)
        yield SuiteCase(
            f"lse {name}",
            lambda e, c, t: cce_lse_forward_kernel(e, c),
            lambda e, c, t: torch.logsumexp(e.float() @ c.float().T, -1),
            make,
        )
        yield SuiteCase(
            f"indexed_neg_dot {name}",
            lambda e, c, t: indexed_neg_dot_forward_kernel(e, c, t),
            lambda e, c, t: -(e.float() * c.float()[t]).sum(-1).to(e.dtype),
            make,
        )
        for reduction in ("mean", "sum", "none"):
            yield from pair(
                f"linear_cross_entropy {name} {reduction}",
                lambda e, c, t, r=reduction: linear_cross_entropy(e, c, t, reduction=r, filter_eps=None, impl="cce"),
                lambda e, c, t, r=reduction: loss(e, c, t, reduction=r),
                make,
                (0, 1),
            )
    yield from pair(
        "linear_cross_entropy softcap",
        lambda e, c, t: linear_cross_entropy(e, c, t, softcap=5.0, filter_eps=None, impl="cce"),
        lambda e, c, t: loss(e, c, t, 5.0),
        inputs(),
        (0, 1),
    )
