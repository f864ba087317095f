"""bitsandbytes: blockwise quantisation and optimisers of its Triton backend."""

import torch
from bitsandbytes.backends.triton import ops

from render.lab.suite.case import SuiteCase

NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
       0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]  # fmt: skip
BLOCK = 64


def table():
    return torch.linspace(-1.0, 1.0, 256)


def codes(x, table):
    blocks = x.reshape(-1, BLOCK).float()
    scale = blocks.abs().amax(1, keepdim=True)
    return ((blocks / scale)[..., None] - table).abs().argmin(-1), scale


def eight():
    yield SuiteCase(
        "quantize_blockwise scales",
        lambda x: ops.quantize_blockwise(x, table(), BLOCK)[1],
        lambda x: codes(x, table())[1].reshape(-1),
        lambda: (torch.randn(8, 128),),
    )
    yield SuiteCase(
        "quantize_blockwise codes",
        lambda x: ops.quantize_blockwise(x, table(), BLOCK)[0].reshape(-1, BLOCK),
        lambda x: codes(x, table())[0].to(torch.uint8),
        lambda: (torch.randn(8, 128),),
    )
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        yield SuiteCase(
            f"dequantize_blockwise {dtype}",
            lambda c, s, dtype=dtype: ops.dequantize_blockwise(c, s, table(), BLOCK, dtype),
            lambda c, s, dtype=dtype: (table()[c.long()] * s.repeat_interleave(BLOCK).reshape(c.shape)).to(dtype),
            lambda: (torch.randint(0, 256, (8, 128), dtype=torch.uint8), torch.rand(16)),
        )


def four():
    def unpacked(c, s, dtype):
        digits = torch.stack((c >> 4, c & 15), -1).reshape(-1, BLOCK)
        return (torch.tensor(NF4)[digits.long()] * s[:, None]).reshape(8, 128).to(dtype)

    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        yield SuiteCase(
            f"dequantize_4bit nf4 {dtype}",
            lambda c, s, dtype=dtype: ops.dequantize_4bit(c, s, BLOCK, "nf4", (8, 128), dtype),
            lambda c, s, dtype=dtype: unpacked(c, s, dtype),
            lambda: (torch.randint(0, 256, (512, 1), dtype=torch.uint8), torch.rand(16)),
        )

    def nearest(x):
        picked, scale = codes(x, torch.tensor(NF4))
        digits = picked.reshape(-1, 2)
        return ((digits[:, 0] << 4) | digits[:, 1]).to(torch.uint8)[:, None], scale.reshape(-1)

    yield SuiteCase(
        "quantize_4bit nf4",
        lambda x: ops.quantize_4bit(x, BLOCK, "nf4", torch.uint8),
        nearest,
        lambda: (torch.randn(8, 128),),
    )


def optimisers():
    def adam(g, p, m, v):
        ops.optimizer_update_32bit(
            "adam", g, p, m, v, None, 0.0, 0.0, 0.9, 0.99, 0.0, 0.0, 1e-8, 0.01, 3, 1e-2, 1.0, False
        )
        return p, m, v

    def stepped(g, p, m, v):
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        step = 1e-2 * (1 - 0.99**3) ** 0.5 / (1 - 0.9**3)
        return p * (1 - 1e-2 * 0.01) - step * m / (v.sqrt() + 1e-8 * (1 - 0.99**3) ** 0.5), m, v

    yield SuiteCase(
        "adam 32 bit", adam, stepped, lambda: (torch.randn(300), torch.randn(300), torch.randn(300), torch.rand(300))
    )

    def momentum(g, p, m):
        ops.optimizer_update_32bit(
            "momentum", g, p, m, None, None, 0.0, 0.0, 0.9, 0.0, 0.0, 0.0, 1e-8, 0.0, 3, 1e-2, 1.0, False
        )
        return p, m

    yield SuiteCase(
        "momentum 32 bit",
        momentum,
        lambda g, p, m: (p - 1e-2 * (0.9 * m + g), 0.9 * m + g),
        lambda: tuple(torch.randn(300) for _ in range(3)),
    )


def cases():
    for family in (eight, four, optimisers):
        yield from family()
