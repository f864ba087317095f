"""torchao: blockwise and row-wise fp8 and int8 quantisation, and the products of what was quantised."""

import torch
from torchao.kernel.blockwise_quantization import (
    blockwise_fp8_gemm,
    fp8_blockwise_act_quant,
    fp8_blockwise_weight_dequant,
    fp8_blockwise_weight_quant,
)
from torchao.kernel.bsr_triton_ops import bsr_dense_addmm
from torchao.kernel.intmm_triton import int8_mm_kernel_configs, int_matmul_kernel, int_scaled_matmul_kernel
from torchao.prototype.mx_formats.kernels import triton_mxfp8_dequant_dim0, triton_to_mxfp8_dim0, triton_to_mxfp8_dim1
from torchao.prototype.quantized_training.int8_mm import scaled_int8_mm_cuda

from render.lab.suite.case import SuiteCase

FP8 = torch.float8_e4m3fn


def bytes_of(*shape, low=-128, high=128):
    return torch.randint(low, high, shape, dtype=torch.int8)


def blocks():
    def tokens(x):
        rows = x.float().reshape(-1, 128)
        scale = rows.abs().amax(1, keepdim=True) / 448.0
        return (rows / scale).to(FP8).float().reshape(x.shape), scale.reshape(*x.shape[:-1], -1)

    def act(x):
        codes, scale = fp8_blockwise_act_quant(x)
        return codes.float(), scale

    yield SuiteCase("fp8_blockwise_act_quant", act, tokens, lambda: (torch.randn(8, 256),))
    yield SuiteCase(
        "fp8_blockwise_act_quant scales",
        lambda x: fp8_blockwise_act_quant(x)[1],
        lambda x: tokens(x)[1],
        lambda: (torch.randn(8, 256).bfloat16(),),
    )

    def tiles(x):
        return x.reshape(2, 128, 2, 128).abs().amax((1, 3)) / 448.0

    yield SuiteCase(
        "fp8_blockwise_weight_quant scales",
        lambda x: fp8_blockwise_weight_quant(x)[1],
        tiles,
        lambda: (torch.randn(256, 256),),
    )

    def spread(s):
        return s.repeat_interleave(128, 0).repeat_interleave(128, 1)

    def codes(*shape):
        return torch.randn(shape).to(FP8)

    yield SuiteCase(
        "fp8_blockwise_weight_dequant",
        fp8_blockwise_weight_dequant,
        lambda x, s: (x.float() * spread(s)).to(torch.get_default_dtype()),
        lambda: (codes(256, 256), torch.rand(2, 2) + 0.1),
    )
    yield SuiteCase(
        "blockwise_fp8_gemm",
        blockwise_fp8_gemm,
        lambda a, s, b, t: ((a.float() * s.repeat_interleave(128, 1)) @ (b.float() * spread(t)).T).to(
            torch.get_default_dtype()
        ),
        lambda: (codes(32, 256), torch.rand(32, 2) + 0.1, codes(128, 256), torch.rand(1, 2) + 0.1),
    )


def products():
    first = int8_mm_kernel_configs[0]  # the library's own tuner, in front of these, measures hundreds

    def int_matmul(a, b):
        return int_matmul_kernel(a, b, torch.empty(a.shape[0], b.shape[1], dtype=torch.int32), first)

    def int_scaled_matmul(a, b, s):
        return int_scaled_matmul_kernel(a, b, s, torch.empty(a.shape[0], b.shape[1], dtype=s.dtype), first)

    yield SuiteCase(
        "int_matmul", int_matmul, lambda a, b: a.int() @ b.int(), lambda: (bytes_of(64, 96), bytes_of(96, 32))
    )
    for more, k in (("", 96), (" k=90", 90)):
        yield SuiteCase(
            f"int_scaled_matmul{more}",
            lambda a, b, s: int_scaled_matmul(a, b, s.expand(64, 32)),  # as torchao.kernel.intmm calls it
            lambda a, b, s: ((a.int() @ b.int()) * s).to(s.dtype),
            lambda k=k: (bytes_of(64, k), bytes_of(k, 32), 0.01 * torch.rand(64, 1)),
        )
    yield SuiteCase(
        "scaled_int8_mm",
        scaled_int8_mm_cuda,
        lambda a, b, s, t: (a.int() @ b.int()) * s[:, None] * t[None],
        lambda: (bytes_of(64, 96), bytes_of(96, 32), 0.01 * torch.rand(64), 0.01 * torch.rand(32)),
    )

    def sparse(c, a, b):
        return bsr_dense_addmm(c, a.to_sparse_bsr((16, 16)), b)

    def half_empty():
        kept = (torch.rand(4, 3) < 0.6).repeat_interleave(16, 0).repeat_interleave(16, 1)
        kept[:, :16] = True
        return torch.randn(64, 32).half(), (torch.randn(64, 48) * kept).half(), torch.randn(48, 32).half()

    yield SuiteCase("bsr_dense_addmm", sparse, torch.addmm, half_empty)


def micro():
    """MX formats: one power of two for 32 numbers; the scale of the mode RCEIL is the smallest that overflows nothing."""

    def exponents(x):
        top = x.float().reshape(x.shape[0], -1, 32).abs().amax(-1) / 448.0
        return torch.clamp(torch.ceil(torch.log2(top)) + 127, 0, 254)

    def along(x):
        e = exponents(x)
        return (x.float() / (2.0 ** (e - 127)).repeat_interleave(32, 1)).to(FP8).float(), e

    def rows(x):
        codes, scale = triton_to_mxfp8_dim0(x, 32)
        return codes.float(), scale.view(torch.uint8).float()

    def columns(x):
        codes, scale = triton_to_mxfp8_dim1(x, 32)
        return codes.float(), scale.view(torch.uint8).float().reshape(x.shape[1], -1)

    def down(x):
        codes, e = along(x.T)
        return codes.T, e

    yield SuiteCase("triton_to_mxfp8_dim0", rows, along, lambda: (torch.randn(64, 128).bfloat16(),))
    yield SuiteCase("triton_to_mxfp8_dim1", columns, down, lambda: (torch.randn(128, 128).bfloat16(),))
    yield SuiteCase(
        "triton_mxfp8_dequant_dim0",
        lambda x, e: triton_mxfp8_dequant_dim0(x, e, torch.bfloat16, 32),
        lambda x, e: (x.float() * (2.0 ** (e.float() - 127)).repeat_interleave(32, 1)).bfloat16(),
        lambda: (torch.randn(64, 128).to(FP8), torch.randint(110, 140, (64, 4), dtype=torch.uint8)),
    )


def cases():
    for family in (blocks, products, micro):
        yield from family()
