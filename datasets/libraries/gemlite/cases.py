"""GemLite: packing of few-bit weights, dynamic quantisation, and products with packed weights."""

import torch
from gemlite import bitpack
from gemlite.core import DType, GemLiteLinearTriton
from gemlite.quant_utils import scale_activations_per_token

from render.lab.suite.case import SuiteCase


def digits(bits):
    return lambda: (torch.randint(0, 2**bits, (64, 32), dtype=torch.uint8),)


def packed(x, bits, width, by_rows):
    """`width // bits` neighbours in one word, the first in the lowest bits."""
    x = x.long() if by_rows else x.T.long()
    each = width // bits
    words = sum(x[i::each] << (bits * i) for i in range(each))
    words = torch.where(words >= 2 ** (width - 1), words - 2**width, words) if width > 8 else words
    return (words if by_rows else words.T).to({8: torch.uint8, 32: torch.int32}[width])


def packing():
    for bits in (1, 2, 4):
        for width in (8, 32):
            for by_rows, pack in (
                (True, bitpack.pack_weights_over_rows_triton),
                (False, bitpack.pack_weights_over_cols_triton),
            ):
                name = f"pack_weights_over_{'rows' if by_rows else 'cols'} {bits} of {width}"
                yield SuiteCase(
                    name,
                    lambda x, f=pack, b=bits, w=width: f(x, b, w, False)[0].view(
                        torch.uint8 if w == 8 else torch.int32
                    ),
                    lambda x, b=bits, w=width, r=by_rows: packed(x, b, w, r),
                    digits(bits),
                )


def scaling():
    def scaled(x):
        scale = x.float().abs().amax(1, keepdim=True) / 127
        return scale

    yield SuiteCase(
        "scale_activations_per_token scales",
        lambda x: scale_activations_per_token(x, torch.int8)[1],
        scaled,
        lambda: (torch.randn(8, 256).half(),),
    )


def linear(bits, group, kind, batch):
    def inputs():
        weight = torch.randint(0, 2**bits, (64, 256), dtype=torch.uint8)
        groups = 64 * 256 // group
        return (
            torch.randn(batch, 256).half(),
            weight,
            (0.05 * torch.rand(groups, 1) + 0.01).half(),
            torch.full((groups, 1), float(2 ** (bits - 1))).half(),
        )

    def run(x, w, s, z):
        layer = GemLiteLinearTriton(bits, group, 256, 64, DType.FP16, DType.FP16)
        layer.pack(w, s, z, None)
        return layer.forward_manual(x, matmul_type=kind)

    def reference(x, w, s, z):
        real = ((w.reshape(-1, group).half() - z) * s).reshape(w.shape)
        return (x.float() @ real.float().T).half()

    return SuiteCase(f"{kind} {bits} bits", run, reference, inputs)


def products():
    for bits in (4, 2, 8):
        yield linear(bits, 64, "GEMM", 16)
        yield linear(bits, 64, "GEMM_SPLITK", 8)
        yield linear(bits, 64, "GEMV", 1)
        yield linear(bits, 64, "GEMV_REVSPLITK", 1)


def cases():
    for family in (packing, scaling, products):
        yield from family()
