import math

import torch
from torch import nn

torch.backends.cuda.matmul.allow_tf32 = True
WIDTH, LENGTH = 16, 2


def tf32(x):
    """Rounded to 10 bits of fraction, as the matrix units read their operands; exact in real arithmetic."""
    high = x * 8193.0
    return high - (high - x)


class Attention(nn.Module):
    def __init__(self, rounded):
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.rounded = rounded

    def forward(self, x):
        cut = tf32 if self.rounded else (lambda y: y)
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = cut(q) @ cut(k).transpose(-1, -2) / math.sqrt(WIDTH)
        return self.o(cut(torch.softmax(scores, -1)) @ cut(v))


target, reference = Attention(True), Attention(False)


def make_inputs():
    return (torch.randn(1, LENGTH, WIDTH),)
