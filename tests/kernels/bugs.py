"""Planted bugs: one-line defects of the packaged kernels, kept as source snippets instead of whole copies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[2] / "kernels"


@dataclass(frozen=True)
class Bug:
    """`old` occurs exactly once in kernels/`kernel`.py; the verdict must carry one of `codes`."""

    kernel: str
    name: str
    what: str
    old: str
    new: str
    codes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kernel}-{self.name}"

    def write(self, folder: Path) -> Path:
        """The mutated file, a complete module of its own."""
        source = (KERNELS / f"{self.kernel}.py").read_text()
        assert source.count(self.old) == 1, f"{self}: the snippet occurs {source.count(self.old)} times"
        path = folder / f"{self.kernel}_{self.name}.py"
        path.write_text(source.replace(self.old, self.new))
        return path


WRONG, NAN, MISSING, OUTSIDE, UNWRITTEN, CONFLICT = "RND201", "RND204", "RND205", "RND207", "RND208", "RND209"


def _bugs(kernel: str, *rows: tuple[str, str, str, str, str] | tuple[str, str, str, str, str, str]) -> list[Bug]:
    return [Bug(kernel, name, what, old, new, tuple(codes)) for name, what, old, new, *codes in rows]


ELEMENTWISE = [
    *_bugs(
        "vector_add",
        ("store_mask", "the tail of the last block is stored", "x + y, mask=mask)", "x + y)", OUTSIDE),
        (
            "load_mask",
            "y is loaded beyond its end",
            "tl.load(y_ptr + offsets, mask=mask)",
            "tl.load(y_ptr + offsets)",
            OUTSIDE,
        ),
        ("boundary_le", "<= lets one more lane in", "offsets < n_elements", "offsets <= n_elements", OUTSIDE),
        ("boundary_short", "the last element is left out", "offsets < n_elements", "offsets < n_elements - 1", MISSING),
        ("sign", "difference instead of sum", "x + y, mask", "x - y, mask", WRONG),
    ),
    *_bugs(
        "dropout",
        ("seed", "another seed than the caller's", "tl.rand(seed, offsets)", "tl.rand(seed + 1, offsets)", WRONG),
        (
            "offset",
            "all blocks draw the same numbers",
            "tl.rand(seed, offsets)",
            "tl.rand(seed, tl.arange(0, BLOCK_SIZE))",
            WRONG,
        ),
        (
            "scale",
            "kept elements are not scaled up",
            "tl.where(x_keep, x / (1 - p), 0.0)",
            "tl.where(x_keep, x, 0.0)",
            WRONG,
        ),
        ("inverted", "keeps what should be dropped", "random > p", "random < p", WRONG),
    ),
    *_bugs(
        "gelu",
        ("cubic", "square instead of cube", "0.044715 * x * x * x", "0.044715 * x * x", WRONG),
        (
            "erf_scale",
            "erf(x) instead of erf(x / sqrt 2)",
            "tl.math.erf(x * 0.7071067811865476)",
            "tl.math.erf(x)",
            WRONG,
        ),
        ("unroll", "one block of four is left out", "tl.static_range(UNROLL)", "tl.static_range(UNROLL - 1)", MISSING),
    ),
    *_bugs(
        "quantize_int8",
        ("sign", "negative numbers are rounded up", "scaled - 0.5)", "scaled + 0.5)", WRONG),
        ("steps", "one step too few", "127.0 / largest", "126.0 / largest", WRONG),
        (
            "scale",
            "scales of the rows for the columns",
            "a_scale_ptr + offs_m, mask=offs_m < M",
            "a_scale_ptr + offs_n, mask=offs_n < M",
            WRONG,
        ),
        ("blocks", "the last part of K is left out", "range(0, K, BLOCK_K)", "range(0, K - BLOCK_K, BLOCK_K)", WRONG),
    ),
    *_bugs(
        "swiglu",
        ("no_sigmoid", "the gate is not activated", "silu(a).cast(b.dtype)", "a.cast(b.dtype)", WRONG),
        ("derivative", "sign error in the derivative", "sig_a * (1 - sig_a)", "sig_a * (1 + sig_a)", WRONG),
        (
            "swapped_grads",
            "gradient of up stored as gradient of gate",
            "da_ptr + offs, da,",
            "da_ptr + offs, db,",
            WRONG,
        ),
    ),
    *_bugs(
        "rotary",
        (
            "sign",
            "rotates backwards in the first half",
            "first, x1 * cos - x2 * sin",
            "first, x1 * cos + x2 * sin",
            WRONG,
        ),
        (
            "position",
            "positions start at one",
            "positions[:, None].to(tl.float32)",
            "(positions[:, None] + 1).to(tl.float32)",
            WRONG,
        ),
        ("base", "exponent of the frequency halved", "(log2_base / HALF)", "(log2_base / (2 * HALF))", WRONG),
        (
            "load_mask",
            "second half read beyond the end",
            "tl.load(x_ptr + second, mask=mask)",
            "tl.load(x_ptr + second)",
            OUTSIDE,
        ),
    ),
]

ROWS = [
    *_bugs(
        "fused_softmax",
        ("no_max", "exp of the raw logits overflows", "x - tl.max(x, axis=0)", "x", NAN),
        ("denominator", "largest instead of sum", "tl.sum(numerator, axis=0)", "tl.max(numerator, axis=0)", WRONG),
        (
            "row",
            "every turn of the loop reads the first row",
            "in_ptr + row * in_row",
            "in_ptr + row_start * in_row",
            WRONG,
        ),
        (
            "last_row",
            "the last row is left out",
            "tl.range(row_start, n_rows, row",
            "tl.range(row_start, n_rows - 1, row",
            MISSING,
        ),
    ),
    *_bugs(
        "layer_norm",
        ("no_eps", "a constant row divides by zero", "tl.sqrt(var + eps)", "tl.sqrt(var)", NAN),
        ("divisor", "mean over N - 1", "mean = tl.sum(acc, axis=0) / N", "mean = tl.sum(acc, axis=0) / (N - 1)", WRONG),
        (
            "variance_mask",
            "padding counts in the variance",
            "x = tl.where(cols < N, x - mean, 0.0)",
            "x = x - mean",
            WRONG,
        ),
        ("c2", "correction not divided by N", "c2 = tl.sum(w_dy, axis=0) / N", "c2 = tl.sum(w_dy, axis=0)", WRONG),
        ("partial", "only one row of a group counts", "partial_dw += tl.load", "partial_dw = tl.load", WRONG),
        (
            "no_lock",
            "partial buffers are updated without the lock",
            "    while tl.atomic_cas(Lock, 0, 1) == 1:\n        pass\n",
            "",
            CONFLICT,
        ),
    ),
    *_bugs(
        "rms_norm",
        ("no_eps", "an empty row divides by zero", "rsqrt(mean_square + eps)", "rsqrt(mean_square)", NAN),
        ("divisor", "mean over the padded width", "axis=None) / n_cols", "axis=None) / BLOCK_SIZE", WRONG),
        ("offset", "weights taken without the offset", "rstd * (offset + w)", "rstd * w", WRONG),
        ("stride", "rows taken as padded", "X + row_idx * stride_x", "X + row_idx * BLOCK_SIZE", OUTSIDE),
        (
            "store_mask",
            "padding is stored over the next row",
            "y.to(Y.dtype.element_ty), mask=mask",
            "y.to(Y.dtype.element_ty)",
            OUTSIDE,
            CONFLICT,
        ),
    ),
    *_bugs(
        "cross_entropy",
        ("no_max", "exp of the raw logits overflows", "tl.maximum(m, tl.max(block))", "0.0 * tl.max(block)", NAN),
        ("rescale", "older blocks keep the older maximum", "d = d * tl.exp(m - m_new) + ", "d = d + ", WRONG),
        ("label", "class before the label", "tl.load(logits_ptr + label)", "tl.load(logits_ptr + label - 1)", WRONG),
        (
            "one_hot",
            "the label's gradient lacks its -1",
            "probability, probability - 1.0",
            "probability, probability",
            WRONG,
        ),
        ("ignored", "loss of ignored rows is not stored", "        tl.store(loss_ptr + row, 0.0)\n", "", MISSING),
    ),
    *_bugs(
        "batch_cumsum",
        ("carry", "only the last block is carried on", "carry += tl.sum", "carry = tl.sum", WRONG),
        (
            "top",
            "maximum of the last block only",
            "top = tl.maximum(top, tl.max(x, axis=1, keep_dims=True))",
            "top = tl.max(x, axis=1, keep_dims=True)",
            WRONG,
        ),
        (
            "mask",
            "columns are not bounded",
            "mask = (rows < n_rows) & (cols < n_cols)",
            "mask = (rows < n_rows) & (cols >= 0)",
            OUTSIDE,
            CONFLICT,
        ),
    ),
    *_bugs(
        "varlen_sum",
        ("last_row", "a single row in the last block is dropped", "while row < end:", "while row < end - 1:", WRONG),
        (
            "next_row",
            "first row of the next segment counts",
            "(rows < end)[:, None]",
            "(rows < end + 1)[:, None]",
            OUTSIDE,
        ),
        ("accumulate", "only the last block counts", "acc += tl.sum(x", "acc = tl.sum(x", WRONG),
        ("step", "one row between the blocks is skipped", "row += BLOCK_ROWS", "row += BLOCK_ROWS + 1", WRONG),
    ),
    *_bugs(
        "mse_loss",
        (
            "store",
            "programs overwrite each other",
            'tl.atomic_add(loss_ptr, tl.sum(difference * difference, axis=None) * scale, sem="relaxed")',
            "tl.store(loss_ptr, tl.sum(difference * difference, axis=None) * scale)",
            CONFLICT,
        ),
        ("empty", "adds to memory that nobody cleared", "torch.zeros(()", "torch.empty(()", UNWRITTEN),
        ("boundary", "one element too many", "not (offsets >= n)", "not (offsets > n)", OUTSIDE),
        ("scale", "sum instead of mean", "axis=None) * scale", "axis=None)", WRONG),
    ),
]

MATMULS = [
    *_bugs(
        "matmul",
        ("k_block", "the ragged K block is dropped", "range(0, tl.cdiv(K, BLOCK_K))", "range(0, K // BLOCK_K)", WRONG),
        (
            "stride",
            "strides of b exchanged",
            "offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn",
            "offs_k[:, None] * stride_bn + offs_bn[None, :] * stride_bk",
            WRONG,
        ),
        ("advance", "b stays at its first block", "        b_ptrs += BLOCK_K * stride_bk\n", "", WRONG),
        ("accumulate", "only the last K block counts", "tl.dot(a, b, accumulator)", "tl.dot(a, b)", WRONG),
        (
            "k_mask",
            "a is read beyond its last row",
            "tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)",
            "tl.load(a_ptrs)",
            OUTSIDE,
        ),
        ("c_mask", "columns beyond N go to the next row", " & (offs_cn[None, :] < N)", "", OUTSIDE, CONFLICT),
    ),
    *_bugs(
        "matmul_bf16",
        ("trans", "the weight tile is not transposed", "tl.dot(x, tl.trans(w))", "tl.dot(x, w)", WRONG),
        (
            "bias",
            "bias by row",
            "tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)[None, :]",
            "tl.load(bias_ptr + rows, mask=rows < M, other=0.0).to(tl.float32)[:, None]",
            WRONG,
        ),
        ("even_k", "K taken as even when it is not", '% args["BLOCK_K"] == 0', '% args["BLOCK_K"] != 0', OUTSIDE),
        ("accumulate", "only the last K block counts", "acc += tl.dot", "acc = tl.dot", WRONG),
    ),
    *_bugs(
        "matmul_fp8",
        ("scale", "scale of b forgotten", "acc * (scale_a * scale_b)", "acc * scale_a", WRONG),
        ("k_block", "the last K block is dropped", "range(0, K, BLOCK_K)", "range(0, K - BLOCK_K, BLOCK_K)", WRONG),
        (
            "row_mask",
            "rows beyond M are read",
            "mask=(rows[:, None] < M) & (ks[None, :] < K)",
            "mask=ks[None, :] < K",
            OUTSIDE,
        ),
    ),
    *_bugs(
        "matmul_split_k",
        ("store", "the last part wins", "tl.atomic_add(C, acc, mask=mask)", "tl.store(C, acc, mask=mask)", CONFLICT),
        ("empty", "adds to memory that nobody cleared", 'nargs["C"].zero_()', "pass", UNWRITTEN),
        (
            "split",
            "all parts take the same blocks",
            "rk = pid_z * BLOCK_K + tl.arange(0, BLOCK_K)",
            "rk = tl.arange(0, BLOCK_K)",
            WRONG,
        ),
        (
            "k_block",
            "the ragged K block is dropped",
            "tl.cdiv(K, BLOCK_K * SPLIT_K)",
            "K // (BLOCK_K * SPLIT_K)",
            WRONG,
        ),
        ("k_mask", "K mask ignores the split", "K - k * (BLOCK_K * SPLIT_K)", "K - k * BLOCK_K", OUTSIDE),
    ),
    *_bugs(
        "matmul_persistent",
        (
            "step",
            "every other turn of the loop is skipped",
            "tl.num_programs(0), flatten",
            "2 * tl.num_programs(0), flatten",
            MISSING,
        ),
        (
            "swapped",
            "row of the output tile used for b",
            "b_desc.load([off_n, off_k])",
            "b_desc.load([off_m, off_k])",
            WRONG,
        ),
        ("k_block", "the last K block is dropped", "range(k_tiles)", "range(k_tiles - 1)", WRONG),
    ),
    *_bugs(
        "matmul_descriptor",
        ("alpha", "final scale forgotten", "acc * alpha", "acc", WRONG),
        ("stride", "row stride of b used for a", "strides=[K, 1]", "strides=[N, 1]", WRONG),
        ("k_block", "the first K block is dropped", "tl.range(0, K, BK", "tl.range(BK, K, BK", WRONG),
    ),
    *_bugs(
        "grouped_gemm",
        (
            "lda",
            "leading dimension of b used for a",
            "lda = tl.load(g_lds + g * 3)",
            "lda = tl.load(g_lds + g * 3 + 1)",
            OUTSIDE,
        ),
        ("step", "a tile between two turns is skipped", "tile_idx += NUM_SM", "tile_idx += NUM_SM + 1", MISSING),
        ("tile", "tiles counted by rows", "tile_in_gemm // num_n_tiles", "tile_in_gemm // num_m_tiles", MISSING),
        ("accumulate", "only the last K block counts", "accumulator += tl.dot", "accumulator = tl.dot", WRONG),
        (
            "k_mask",
            "a is read beyond its last row",
            "(offs_am[:, None] < gm) & (offs_k[None, :] < k_left)",
            "offs_am[:, None] < gm",
            OUTSIDE,
        ),
    ),
    *_bugs(
        "block_pointer_matmul",
        (
            "advance",
            "b moves along N",
            "tl.advance(b_block_ptr, (BLOCK_K, 0))",
            "tl.advance(b_block_ptr, (0, BLOCK_K))",
            WRONG,
        ),
        (
            "boundary",
            "K of a unchecked",
            "tl.load(a_block_ptr, boundary_check=(0, 1)",
            "tl.load(a_block_ptr, boundary_check=(0,)",
            OUTSIDE,
        ),
        ("strides", "output strides exchanged", "(stride_cm, stride_cn)", "(stride_cn, stride_cm)", CONFLICT),
        ("k_block", "the last K block is dropped", "range(0, K, BLOCK_K)", "range(0, K - BLOCK_K, BLOCK_K)", WRONG),
    ),
    *_bugs(
        "flash_attention",
        (
            "causal",
            "a query does not see its own key",
            "offs_m[:, None] >= offs_n[None, :]",
            "offs_m[:, None] > offs_n[None, :]",
            WRONG,
        ),
        ("rescale", "older blocks keep the older maximum", "        acc = acc * alpha[:, None]\n", "", WRONG),
        ("row_sum", "row sum not rescaled", "l_i = l_i * alpha + tl.sum(p, 1)", "l_i = l_i + tl.sum(p, 1)", WRONG),
        ("base", "exp2 of natural logits", "sm_scale * 1.44269504", "sm_scale", WRONG),
        ("final", "never divided by the row sum", "    acc = acc / l_i[:, None]\n", "", WRONG),
        (
            "first_block",
            "the first key block is skipped",
            "offs_d, 0, diagonal, N_CTX",
            "offs_d, BLOCK_N, diagonal, N_CTX",
            WRONG,
        ),
        (
            "key_mask",
            "keys beyond the sequence are read",
            "stride_kn, mask=offs_n[None, :] < N_CTX, other=0.0)",
            "stride_kn)",
            OUTSIDE,
        ),
    ),
]

# Errors of a percent and below: a bound that hides them has no power.
SUBTLE = [
    Bug("gelu", "coefficient", "a digit is missing", "0.044715 *", "0.0447 *", (WRONG,)),
    Bug(
        "fused_softmax",
        "last_column",
        "the last column is left out",
        "mask=cols < n_cols, other",
        "mask=cols < n_cols - 1, other",
        (WRONG,),
    ),
    Bug(
        "layer_norm",
        "bessel",
        "variance over N - 1",
        "var = tl.sum(acc, axis=0) / N",
        "var = tl.sum(acc, axis=0) / (N - 1)",
        (WRONG,),
    ),
    Bug(
        "cross_entropy",
        "first_class",
        "the first class is left out of the sum",
        "tl.sum(tl.exp(block - m_new))",
        "tl.sum(tl.where(offsets > 0, tl.exp(block - m_new), 0.0))",
        (WRONG,),
    ),
    Bug("flash_attention", "log2e", "1.44 instead of 1 / log 2", "1.44269504", "1.44", (WRONG,)),
    Bug(
        "matmul",
        "last_k",
        "one product of K is left out",
        "a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k",
        "a = tl.load(a_ptrs, mask=offs_k[None, :] < K - 1 - k",
        (WRONG,),
    ),
    Bug(
        "matmul_bf16",
        "last_k",
        "one product of K is left out",
        "k_mask = ks[None, :] < K",
        "k_mask = ks[None, :] < K - 1",
        (WRONG,),
    ),
    Bug(
        "matmul_fp8",
        "last_k",
        "one product of K is left out",
        "(rows[:, None] < M) & (ks[None, :] < K),",
        "(rows[:, None] < M) & (ks[None, :] < K - 1),",
        (WRONG,),
    ),
    Bug("matmul_descriptor", "last_k", "one product of K is left out", "shape=[M, K]", "shape=[M, K - 1]", (WRONG,)),
    Bug(
        "matmul_persistent",
        "last_k",
        "one product of K is left out",
        "(a_ptr, shape=[M, K]",
        "(a_ptr, shape=[M, K - 1]",
        (WRONG,),
    ),
    Bug(
        "matmul_split_k",
        "last_k",
        "one product of K is left out",
        "mask=rk[None, :] < k_remaining",
        "mask=rk[None, :] < k_remaining - 1",
        (WRONG,),
    ),
    Bug("block_pointer_matmul", "last_k", "one product of K is left out", "shape=(M, K)", "shape=(M, K - 1)", (WRONG,)),
    Bug("grouped_gemm", "last_k", "one product of K is left out", "k_left = gk - kk", "k_left = gk - 1 - kk", (WRONG,)),
]

BUGS = [*ELEMENTWISE, *ROWS, *MATMULS, *SUBTLE]
