"""Several fp16 matmuls of different sizes in one launch; the kernel finds their addresses in device memory."""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "NUM_SM": 6}),
        triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "NUM_SM": 84}),
    ],
    key=["group_size"],
)
@triton.jit
def grouped_matmul_kernel(
    group_a_ptrs, group_b_ptrs, group_c_ptrs, group_gemm_sizes, g_lds, group_size,
    NUM_SM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tile_idx = tl.program_id(0)
    last_problem_end = 0
    for g in range(group_size):
        gm = tl.load(group_gemm_sizes + g * 3)
        gn = tl.load(group_gemm_sizes + g * 3 + 1)
        gk = tl.load(group_gemm_sizes + g * 3 + 2)
        num_m_tiles = tl.cdiv(gm, BLOCK_M)
        num_n_tiles = tl.cdiv(gn, BLOCK_N)
        num_tiles = num_m_tiles * num_n_tiles
        while tile_idx >= last_problem_end and tile_idx < last_problem_end + num_tiles:
            lda = tl.load(g_lds + g * 3)
            ldb = tl.load(g_lds + g * 3 + 1)
            ldc = tl.load(g_lds + g * 3 + 2)
            a_ptr = tl.load(group_a_ptrs + g).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(group_b_ptrs + g).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(group_c_ptrs + g).to(tl.pointer_type(tl.float16))
            tile_in_gemm = tile_idx - last_problem_end
            tile_m = tile_in_gemm // num_n_tiles
            tile_n = tile_in_gemm % num_n_tiles

            offs_am = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
            offs_bn = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
            offs_k = tl.arange(0, BLOCK_K)
            a_ptrs = a_ptr + offs_am[:, None] * lda + offs_k[None, :]
            b_ptrs = b_ptr + offs_k[:, None] * ldb + offs_bn[None, :]
            accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for kk in range(0, tl.cdiv(gk, BLOCK_K)):
                k_left = gk - kk * BLOCK_K
                a = tl.load(a_ptrs, mask=(offs_am[:, None] < gm) & (offs_k[None, :] < k_left), other=0.0)
                b = tl.load(b_ptrs, mask=(offs_k[:, None] < k_left) & (offs_bn[None, :] < gn), other=0.0)
                accumulator += tl.dot(a, b)
                a_ptrs += BLOCK_K
                b_ptrs += BLOCK_K * ldb
            c = accumulator.to(tl.float16)
            c_ptrs = c_ptr + ldc * offs_am[:, None] + offs_bn[None, :]
            tl.store(c_ptrs, c, mask=(offs_am[:, None] < gm) & (offs_bn[None, :] < gn))
            tile_idx += NUM_SM
        last_problem_end = last_problem_end + num_tiles


def grouped_gemm(group_a: list, group_b: list) -> list:
    assert len(group_a) == len(group_b)
    a_addrs, b_addrs, c_addrs, sizes, lds, group_c = [], [], [], [], [], []
    for a, b in zip(group_a, group_b):
        assert a.shape[1] == b.shape[0]
        (M, K), N = a.shape, b.shape[1]
        c = torch.empty((M, N), device="cuda", dtype=a.dtype)
        group_c.append(c)
        a_addrs.append(a.data_ptr())
        b_addrs.append(b.data_ptr())
        c_addrs.append(c.data_ptr())
        sizes += [M, N, K]
        lds += [a.stride(0), b.stride(0), c.stride(0)]
    d_a_ptrs = torch.tensor(a_addrs, device="cuda")
    d_b_ptrs = torch.tensor(b_addrs, device="cuda")
    d_c_ptrs = torch.tensor(c_addrs, device="cuda")
    d_sizes = torch.tensor(sizes, dtype=torch.int32, device="cuda")
    d_lds = torch.tensor(lds, dtype=torch.int32, device="cuda")
    grid = lambda META: (META["NUM_SM"],)
    grouped_matmul_kernel[grid](d_a_ptrs, d_b_ptrs, d_c_ptrs, d_sizes, d_lds, len(group_a))
    return group_c


def make_inputs(sizes=((64, 96, 32), (50, 40, 70), (33, 20, 100))):
    group_a = [torch.randn((m, k), device="cuda", dtype=torch.float16) for m, n, k in sizes]
    group_b = [torch.randn((k, n), device="cuda", dtype=torch.float16) for m, n, k in sizes]
    return group_a, group_b


def reference(group_a: list, group_b: list) -> list:
    return [torch.matmul(a, b) for a, b in zip(group_a, group_b)]
