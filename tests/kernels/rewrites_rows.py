"""Rewrites of the elementwise kernels and of those that work row by row."""

from __future__ import annotations

from tests.kernels.rewrites import rewrites

LOG2E = "1.4426950408889634"

ONLINE_SOFTMAX = """        top = -float("inf")
        denominator = 0.0
        for start in range(0, n_cols, 64):
            at = start + tl.arange(0, 64)
            block = tl.load(in_ptr + row * in_row_stride + at, mask=at < n_cols, other=-float("inf"))
            higher = tl.maximum(top, tl.max(block, axis=0))
            denominator = denominator * tl.exp(top - higher) + tl.sum(tl.exp(block - higher), axis=0)
            top = higher
        x = tl.load(in_ptr + row * in_row_stride + cols, mask=cols < n_cols, other=-float("inf"))
        numerator = tl.exp(x - top)
"""
THREE_STEPS = """        x = tl.load(in_ptr + row * in_row_stride + cols, mask=cols < n_cols, other=-float("inf"))
        x_minus_max = x - tl.max(x, axis=0)
        numerator = tl.exp(x_minus_max)
        denominator = tl.sum(numerator, axis=0)
"""

WELFORD = """    mean = 0.0
    m2 = 0.0
    seen = 0.0
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        x = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        count = tl.minimum(N - off, BLOCK_SIZE).to(tl.float32)
        block_mean = tl.sum(x, axis=0) / count
        d = tl.where(cols < N, x - block_mean, 0.0)
        delta = block_mean - mean
        total = seen + count
        mean += delta * (count / total)
        m2 += tl.sum(d * d, axis=0) + delta * delta * (seen * count / total)
        seen = total
    var = m2 / N
"""
TWO_PASS = """    acc = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        acc += tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
    mean = tl.sum(acc, axis=0) / N
    acc = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        x = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        acc += x * x
    var = tl.sum(acc, axis=0) / N
"""
SHIFTED = """    shift = tl.load(X).to(tl.float32)
    acc = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    squares = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        x = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - shift, 0.0)
        acc += x
        squares += x * x
    centre = tl.sum(acc, axis=0) / N
    mean = shift + centre
    var = tl.sum(squares, axis=0) / N - centre * centre
"""

ONLINE_LOSS = """    m = float("-inf")
    d = 0.0
    picked = tl.load(logits_ptr + label)
    for start in range(0, n_classes, BLOCK_SIZE):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        block = tl.load(logits_ptr + offsets, mask=offsets < n_classes, other=float("-inf"))
        m_new = tl.maximum(m, tl.max(block))
        d = d * tl.exp(m - m_new) + tl.sum(tl.exp(block - m_new))
        m = m_new
"""
TWO_PASS_LOSS = """    m = float("-inf")
    d = 0.0
    picked = tl.load(logits_ptr + label)
    for start in range(0, n_classes, BLOCK_SIZE):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        block = tl.load(logits_ptr + offsets, mask=offsets < n_classes, other=float("-inf"))
        m = tl.maximum(m, tl.max(block))
    for start in range(0, n_classes, BLOCK_SIZE):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        block = tl.load(logits_ptr + offsets, mask=offsets < n_classes, other=float("-inf"))
        d += tl.sum(tl.exp(block - m))
"""

ELEMENTWISE = [
    *rewrites(
        "vector_add",
        block=("BLOCK_SIZE=1024", "BLOCK_SIZE=128"),
        other_order=("x + y, mask", "y + x, mask"),
        wide=("x + y, mask", "(x.to(tl.float64) + y.to(tl.float64)).to(tl.float32), mask"),
    ),
    *rewrites(
        "dropout",
        block=("BLOCK_SIZE=512", "BLOCK_SIZE=64"),
        reciprocal=("tl.where(x_keep, x / (1 - p), 0.0)", "tl.where(x_keep, x * (1 / (1 - p)), 0.0)"),
        product=("tl.where(x_keep, x / (1 - p), 0.0)", "x_keep.to(tl.float32) * x / (1 - p)"),
    ),
    *rewrites(
        "gelu",
        distributed=("return 0.5 * x * (1.0 + tl.math.erf", "half = 0.5 * x\n    return half + half * (tl.math.erf"),
        factored=("(x + 0.044715 * x * x * x)", "(x * (1.0 + 0.044715 * (x * x)))"),
        sigmoid=("return 0.5 * x * (1.0 + libdevice.tanh(inner))", "return x * tl.sigmoid(2.0 * inner)"),
        exponential=("libdevice.tanh(inner)", "(1.0 - 2.0 / (tl.exp(2.0 * inner) + 1.0))"),
        blocks=("BLOCK=256, UNROLL=4", "BLOCK=512, UNROLL=2"),
    ),
    *rewrites(
        "rotary",
        natural_base=(
            (
                "tl.exp2(-pairs.to(tl.float32) * (log2_base / HALF))",
                "tl.exp(-pairs.to(tl.float32) * (log2_base / HALF))",
            ),
            ("math.log2(self.base)", "math.log(self.base)"),
        ),
        reciprocal=("tl.exp2(-pairs.to(tl.float32)", "1.0 / tl.exp2(pairs.to(tl.float32)"),
        fma=("first, x1 * cos - x2 * sin", "first, tl.fma(x1, cos, -(x2 * sin))"),
        block=(("grid = (triton.cdiv(n_ctx, 16),)", "grid = (triton.cdiv(n_ctx, 8),)"), ("BLOCK_N=16", "BLOCK_N=8")),
    ),
    *rewrites(
        "quantize_int8",
        quotient=("x * (127.0 / largest)", "x / (largest / 127.0)"),
        floor=(
            "tl.where(scaled >= 0, scaled + 0.5, scaled - 0.5)",
            "tl.where(scaled >= 0, tl.floor(scaled + 0.5), tl.ceil(scaled - 0.5))",
        ),
        wide=("acc = tl.dot(a, b, acc, out_dtype=tl.int32)", "acc += tl.dot(a, b, out_dtype=tl.int32)"),
        one_scale=(
            "acc.to(tl.float32) * a_scale[:, None] * b_scale[None, :]",
            "acc.to(tl.float32) * (a_scale[:, None] * b_scale[None, :])",
        ),
    ),
    *rewrites(
        "swiglu",
        sigmoid=("return x * tl.sigmoid(x)", "return x / (1.0 + tl.exp(-x))"),
        exp2_sigmoid=("return x * tl.sigmoid(x)", f"return x * (1.0 / (1.0 + tl.exp2(x * -{LOG2E})))"),
        factored=("dc * (sig_a + a * sig_a * (1 - sig_a)) * b", "dc * b * sig_a * (1 + a * (1 - sig_a))"),
        late_cast=("silu(a).cast(b.dtype) * b", "silu(a) * b.to(tl.float32)"),
        grouped=("dc * (a * sig_a)", "(dc * a) * sig_a"),
    ),
]

ROWS = [
    *rewrites(
        "fused_softmax",
        exp2=("tl.exp(x_minus_max)", f"tl.exp2(x_minus_max * {LOG2E})"),
        exp2_unfused=("tl.exp(x_minus_max)", f"tl.exp2(x * {LOG2E} - tl.max(x, axis=0) * {LOG2E})"),
        reciprocal=("numerator / denominator", "numerator * (1.0 / denominator)"),
        exact_division=("numerator / denominator", "tl.math.div_rn(numerator, denominator)"),
        pairwise=(
            "tl.sum(numerator, axis=0)",
            "tl.sum(tl.sum(tl.reshape(numerator, (BLOCK_SIZE // 8, 8)), axis=1), axis=0)",
        ),
        logarithm=("numerator / denominator", "tl.exp(x_minus_max - tl.log(denominator))"),
        online=(THREE_STEPS, ONLINE_SOFTMAX),
        programs=("min(8, n_rows)", "n_rows"),
    ),
    *rewrites(
        "layer_norm",
        block=("BLOCK_SIZE=64, num_warps=1", "BLOCK_SIZE=256, num_warps=1"),
        welford=(TWO_PASS, WELFORD),
        shifted_one_pass=(TWO_PASS, SHIFTED),
        rsqrt=("1 / tl.sqrt(var + eps)", "tl.rsqrt(var + eps)"),
        fma=("x_hat * w + b, mask", "tl.fma(x_hat, w, b), mask"),
        folded=("x_hat * w + b, mask", "x * (rstd * w) + (b - mean * (rstd * w)), mask"),
        groups=("GROUP_SIZE_M = 4", "GROUP_SIZE_M = 2"),
        distributed=("(w_dy - (x_hat * c1 + c2)) * rstd", "w_dy * rstd - x_hat * (c1 * rstd) - c2 * rstd"),
        rows=("BLOCK_SIZE_M=32", "BLOCK_SIZE_M=4"),
    ),
    *rewrites(
        "rms_norm",
        divide=(
            ("rsqrt(mean_square + eps)", "tl.sqrt(mean_square + eps)"),
            ("x * rstd * (offset + w)", "x / rstd * (offset + w)"),
        ),
        grouped=("x * rstd * (offset + w)", "x * (rstd * (offset + w))"),
        reciprocal=("tl.sum(x * x, axis=None) / n_cols", "tl.sum(x * x, axis=None) * (1.0 / n_cols)"),
        scaled_first=("tl.sum(x * x, axis=None) / n_cols", "tl.sum(x * x / n_cols, axis=None)"),
        distributed=("x * rstd * (offset + w)", "x * rstd * offset + x * rstd * w"),
    ),
    *rewrites(
        "cross_entropy",
        block=("BLOCK_SIZE=64", "BLOCK_SIZE=256"),
        two_pass=(ONLINE_LOSS, TWO_PASS_LOSS),
        exp2=(
            "tl.exp(m - m_new) + tl.sum(tl.exp(block - m_new))",
            f"tl.exp2((m - m_new) * {LOG2E}) + tl.sum(tl.exp2((block - m_new) * {LOG2E}))",
        ),
        other_order=("m + tl.log(d) - picked", "tl.log(d) - (picked - m)"),
        log_probability=("tl.exp(block - m) / d", "tl.exp((block - m) - tl.log(d))"),
    ),
    *rewrites(
        "batch_cumsum",
        block=("COLS=32", "COLS=16"),
        rows=(("triton.cdiv(n_rows, 4)", "triton.cdiv(n_rows, 2)"), ("ROWS=4", "ROWS=2")),
        pairwise_carry=(
            "carry += tl.sum(x, axis=1, keep_dims=True)",
            "carry += tl.sum(tl.sum(tl.reshape(x, (ROWS, COLS // 4, 4)), axis=2), axis=1, keep_dims=True)",
        ),
    ),
    *rewrites(
        "varlen_sum",
        block=("BLOCK_ROWS=8", "BLOCK_ROWS=4"),
        late_sum=(
            (
                "acc = tl.zeros((BLOCK_COLS,), dtype=tl.float32)",
                "parts = tl.zeros((BLOCK_ROWS, BLOCK_COLS), tl.float32)",
            ),
            ("acc += tl.sum(x, axis=0)", "parts += x"),
            ("    if not steps > empty:", "    acc = tl.sum(parts, axis=0)\n    if not steps > empty:"),
        ),
    ),
    *rewrites(
        "mse_loss",
        block=(("32 * 8", "16 * 4"), ("BLOCK_ROWS=32, BLOCK_COLS=8", "BLOCK_ROWS=16, BLOCK_COLS=4")),
        scaled_first=(
            "tl.sum(difference * difference, axis=None) * scale",
            "tl.sum(difference * (difference * scale), axis=None)",
        ),
        by_axis=(
            "tl.sum(difference * difference, axis=None) * scale",
            "tl.sum(tl.sum(difference * difference, axis=1), axis=0) * scale",
        ),
    ),
]

REWRITES = [*ELEMENTWISE, *ROWS]
