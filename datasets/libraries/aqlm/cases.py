"""AQLM: products with weights that are sums of codebook entries; codes are stored as int16, larger ones as negative."""

import torch
from aqlm.inference_kernels.triton_kernel import triton_matmul

from render.lab.suite.case import SuiteCase


def weights(codes, codebooks, scales):
    """(out features, in features) of codes (out groups, in groups, codebooks)."""
    size = codebooks.shape[1]
    which = codes.long() + (codes < 0) * size
    entries = sum(codebooks[i][which[..., i]] for i in range(codebooks.shape[0]))
    groups = entries.permute(0, 2, 1, 3).flatten(2).flatten(0, 1)
    return groups * scales.reshape(-1, 1).repeat_interleave(codebooks.shape[2], 0)


def product(x, codes, codebooks, scales, bias):
    return torch.nn.functional.linear(x, weights(codes, codebooks, scales), bias)


def inputs(books, size, out_group, in_group, dtype=torch.float32, bias=True, groups=8):
    """8 groups of outputs, `groups` of inputs."""

    def make():
        codes = torch.randint(-(size // 2), size // 2, (8, groups, books)).to(torch.int16)
        entries = torch.randn(books, size, out_group, in_group).to(dtype)
        shift = torch.randn(8 * out_group).to(dtype) if bias else None
        scales = torch.rand(8, 1, 1, 1).to(dtype) + 0.5
        return torch.randn(3, groups * in_group).to(dtype), codes, entries, scales, shift

    return make


def cases():
    yield SuiteCase("matmul 1x8", triton_matmul, product, inputs(1, 256, 1, 8))
    yield SuiteCase("matmul 2x8", triton_matmul, product, inputs(2, 256, 1, 8))
    yield SuiteCase("matmul 2x8 without bias", triton_matmul, product, inputs(2, 256, 1, 8, bias=False))
    yield SuiteCase("matmul fp16", triton_matmul, product, inputs(2, 256, 1, 8, torch.float16))
    yield SuiteCase("matmul bf16", triton_matmul, product, inputs(1, 256, 1, 8, torch.bfloat16))
    yield SuiteCase("matmul of 6 groups", triton_matmul, product, inputs(1, 256, 1, 8, groups=6))
    yield SuiteCase("matmul in groups of two outputs", triton_matmul, product, inputs(2, 64, 2, 4, bias=False))
