"""triton-kernels: the two kernels of the package; it has no launchers, so they are launched here."""

import torch
import triton
from triton_kernels.add_vectors import add_vectors
from triton_kernels.rotary_embedding import rotary_embedding_kernel

from render.lab.suite.case import SuiteCase


def added(x, y, block):
    out = torch.empty_like(x)
    add_vectors[(triton.cdiv(x.numel(), block),)](x, y, out, x.numel(), BLOCK_SIZE=block)
    return out


def rotated(neox, both):
    def launch(positions, q, k, table):
        rotary_embedding_kernel[(len(q),)](
            positions,
            q,
            k,
            table,
            q.stride(0),
            k.stride(0),
            32,
            4,
            2,
            32,
            32,
            IS_NEOX=neox,
            DO_KEY_ROPE=both,
            BLOCK_SIZE_ROT=64,
        )
        return (q, k) if both else q

    return launch


def reference(neox, both):
    def turn(x, cos, sin):
        x = x.reshape(len(x), -1, 32)
        a, b = x.chunk(2, -1) if neox else (x[..., ::2], x[..., 1::2])
        new = a * cos - b * sin, b * cos + a * sin
        return (torch.cat(new, -1) if neox else torch.stack(new, -1)).reshape(len(x), -1)

    def run(positions, q, k, table):
        cos, sin = table[positions][:, None].chunk(2, -1)
        return (turn(q, cos, sin), turn(k, cos, sin)) if both else turn(q, cos, sin)

    return run


def inputs():
    angle = torch.randn(20, 16)
    return (
        torch.randint(0, 20, (6,)),
        torch.randn(6, 128),
        torch.randn(6, 64),
        torch.cat((angle.cos(), angle.sin()), -1),
    )


def cases():
    for dtype in (torch.float32, torch.float16):
        yield SuiteCase(
            f"add_vectors {dtype}",
            lambda x, y: added(x, y, 256),
            torch.add,
            lambda dtype=dtype: (torch.randn(1000).to(dtype), torch.randn(1000).to(dtype)),
        )
    for neox in (True, False):
        for both in (True, False):
            yield SuiteCase(
                f"rotary_embedding neox={neox} key={both}", rotated(neox, both), reference(neox, both), inputs
            )
