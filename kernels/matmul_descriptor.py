"""fp32 matmul on TF32 tensor cores, tiles loaded through descriptors made on the host."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def descriptor_kernel(a_desc, b_desc, c_desc, K, alpha, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    off_m = tl.program_id(0) * BM
    off_n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=False):
        a = a_desc.load([off_m, k])
        b = b_desc.load([k, off_n])
        acc = tl.dot(a, b, acc, input_precision="tf32")
    c_desc.store([off_m, off_n], acc * alpha)


def matmul_descriptor(a: torch.Tensor, b: torch.Tensor, alpha: float = 0.125) -> torch.Tensor:
    BM, BN, BK = 32, 32, 32
    M, K = a.shape
    K, N = b.shape
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    a_desc = TensorDescriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b_desc = TensorDescriptor.from_tensor(b, [BK, BN])
    c_desc = TensorDescriptor.from_tensor(c, [BM, BN])
    grid = (triton.cdiv(M, BM), triton.cdiv(N, BN))
    descriptor_kernel[grid](a_desc, b_desc, c_desc, K, alpha, BM=BM, BN=BN, BK=BK)
    return c


def make_inputs(m: int = 90, n: int = 68, k: int = 84):
    return torch.randn(m, k), torch.randn(k, n)


def reference(a: torch.Tensor, b: torch.Tensor, alpha: float = 0.125) -> torch.Tensor:
    return alpha * torch.mm(a, b)
