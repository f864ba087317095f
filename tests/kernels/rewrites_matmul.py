"""Rewrites of the matrix products and of attention."""

from __future__ import annotations

from tests.kernels.rewrites import rewrites

TWO_SUMS = """    even = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    odd = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        part = tl.dot(a, b)
        even += tl.where(k % 2 == 0, part, 0.0)
        odd += tl.where(k % 2 == 0, 0.0, part)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    accumulator = even + odd
"""
ONE_SUM = """    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
"""
BACKWARDS = """    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    blocks = tl.cdiv(K, BLOCK_K)
    a_ptrs += (blocks - 1) * BLOCK_K * stride_ak
    b_ptrs += (blocks - 1) * BLOCK_K * stride_bk
    for k in range(0, blocks):
        left = K - (blocks - 1 - k) * BLOCK_K
        a = tl.load(a_ptrs, mask=offs_k[None, :] < left, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < left, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs -= BLOCK_K * stride_ak
        b_ptrs -= BLOCK_K * stride_bk
"""
DOT = "accumulator = tl.dot(a, b, accumulator)"
FIRST_BLOCKS = '"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32'
ZEROS = "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)"
BIAS = "tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)[None, :]"
LATE_BIAS = f"    if bias_ptr is not None:\n        acc += {BIAS}\n"

MATMULS = [
    *rewrites(
        "matmul",
        block_k=(FIRST_BLOCKS, '"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 16'),
        tile=(FIRST_BLOCKS, '"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 64'),
        add_after=(DOT, "accumulator += tl.dot(a, b)"),
        one_block=(FIRST_BLOCKS, '"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 128'),
        backwards=(ONE_SUM, BACKWARDS),
        two_sums=(ONE_SUM, TWO_SUMS),
        products=(DOT, "accumulator += tl.sum(a.to(tl.float32)[:, :, None] * b.to(tl.float32)[None, :, :], axis=1)"),
        transposed=(DOT, "accumulator = tl.trans(tl.dot(tl.trans(b), tl.trans(a), tl.trans(accumulator)))"),
    ),
    *rewrites(
        "matmul_bf16",
        block_k=("BLOCK_K=32", "BLOCK_K=16"),
        bias_first=(
            (ZEROS, f"{ZEROS} + {BIAS}"),
            (LATE_BIAS, ""),
        ),
        add_inside=("acc += tl.dot(x, tl.trans(w))", "acc = tl.dot(x, tl.trans(w), acc)"),
    ),
    *rewrites(
        "matmul_fp8",
        half=("tl.dot(a, b, acc)", "tl.dot(a.to(tl.float16), b.to(tl.float16), acc)"),
        scales_apart=("acc * (scale_a * scale_b)", "(acc * scale_a) * scale_b"),
        block_k=("BLOCK_K=32\n", "BLOCK_K=64\n"),
    ),
    *rewrites(
        "matmul_split_k",
        split_2=('"BLOCK_K": 16, "SPLIT_K": 4', '"BLOCK_K": 16, "SPLIT_K": 2'),
        split_8=('"BLOCK_K": 16, "SPLIT_K": 4', '"BLOCK_K": 16, "SPLIT_K": 8'),
        no_split=('"BLOCK_K": 16, "SPLIT_K": 4', '"BLOCK_K": 16, "SPLIT_K": 1'),
        three_tf32=('input_precision="ieee"', 'input_precision="tf32x3"'),
    ),
    *rewrites(
        "matmul_persistent",
        tile=("BLOCK_M=16, BLOCK_N=16, BLOCK_K=32", "BLOCK_M=32, BLOCK_N=32, BLOCK_K=16"),
        add_after=("tl.dot(a, b.T, accumulator)", "accumulator + tl.dot(a, b.T)"),
    ),
    *rewrites(
        "matmul_descriptor",
        alpha_first=(("tl.dot(a, b, acc", "tl.dot(a * alpha, b, acc"), ("acc * alpha)", "acc)")),
        alpha_before_sum=(
            ("tl.dot(a, b, acc, input_precision", "acc + alpha * tl.dot(a, b, input_precision"),
            ("acc * alpha)", "acc)"),
        ),
        ieee=('input_precision="tf32"', 'input_precision="ieee"'),
        block_k=("BM, BN, BK = 32, 32, 32", "BM, BN, BK = 16, 32, 16"),
    ),
    *rewrites(
        "grouped_gemm",
        programs=('"BLOCK_K": 32, "NUM_SM": 6', '"BLOCK_K": 16, "NUM_SM": 3'),
        add_inside=("accumulator += tl.dot(a, b)", "accumulator = tl.dot(a, b, accumulator)"),
    ),
    *rewrites(
        "block_pointer_matmul",
        block_k=("BLOCK_K=16\n", "BLOCK_K=32\n"),
        add_inside=("accumulator += tl.dot(a, b)", "accumulator = tl.dot(a, b, accumulator)"),
    ),
]

ATTENTION = rewrites(
    "flash_attention",
    block_n=("[(32, 16, 4),", "[(32, 32, 4),"),
    natural=(
        ("sm_scale * 1.44269504  # 1 / log(2)", "sm_scale"),
        ("p = tl.math.exp2(qk)", "p = tl.exp(qk)"),
        ("alpha = tl.math.exp2(m_i - m_ij)", "alpha = tl.exp(m_i - m_ij)"),
        ("m_i + tl.math.log2(l_i)", "(m_i + tl.log(l_i)) * 1.44269504"),
    ),
    scaled_query=(
        (
            "    m_i = tl.zeros([BLOCK_M]",
            "    q = (q * (sm_scale * 1.44269504)).to(tl.float16)\n    m_i = tl.zeros([BLOCK_M]",
        ),
        ("qk_scale = sm_scale * 1.44269504  # 1 / log(2)", "qk_scale = 1.0"),
    ),
    reciprocal=("acc = acc / l_i[:, None]", "acc = acc * (1.0 / l_i)[:, None]"),
    always_masked=("        BLOCK_N, False,\n", "        BLOCK_N, True,\n"),
    wide_probabilities=("tl.dot(p.to(tl.float16), v, acc)", 'tl.dot(p, v.to(tl.float32), acc, input_precision="ieee")'),
    late_rescale=("tl.dot(p.to(tl.float16), v, acc)", "acc + tl.dot(p.to(tl.float16), v)"),
)

REWRITES = [*MATMULS, *ATTENTION]
