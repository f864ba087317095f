"""PyTorch's own Triton kernels: operators on block-sparse matrices, against the same on dense ones."""

import torch
from torch.sparse import _triton_ops as ops

from render.lab.suite.case import SuiteCase

HALF = torch.float16


def blocks(rows, columns, size=16, keep=0.5):
    """A dense matrix of which about half of the blocks are zero."""
    kept = torch.rand(rows // size, columns // size) < keep
    kept[:, 0] = True
    return torch.randn(rows, columns) * kept.repeat_interleave(size, 0).repeat_interleave(size, 1)


def sparse(x, size=16):
    return x.to_sparse_bsr((size, size))


def product(dtype):
    return lambda: (blocks(64, 48).to(dtype), torch.randn(48, 32).to(dtype))


def cases():
    for name, dtype in (("fp16", HALF), ("bf16", torch.bfloat16), ("fp32", torch.float32)):
        yield SuiteCase(
            f"bsr_dense_mm {name}", lambda a, b: ops.bsr_dense_mm(sparse(a), b), torch.matmul, product(dtype)
        )
        yield SuiteCase(
            f"bsr_dense_addmm {name}",
            lambda c, a, b: ops.bsr_dense_addmm(c, sparse(a), b, beta=0.5, alpha=2.0),
            lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2.0),
            lambda dtype=dtype: (torch.randn(64, 32).to(dtype), *product(dtype)()),
        )
        yield SuiteCase(
            f"bsr_scatter_mm {name}", lambda a, b: ops.bsr_scatter_mm(sparse(a), b), torch.matmul, product(dtype)
        )

    def softmax(x):
        return ops.bsr_softmax(sparse(x)).values()

    def dense(x):
        pattern = sparse(x)
        stored = sparse(torch.ones_like(x) * (x != 0)).values() != 0
        full = torch.softmax(x.masked_fill(x == 0, float("-inf")), -1)
        return torch.where(stored, sparse(full.masked_fill(full == 0, 0.0)).values()[: len(pattern.values())], 0.0)

    yield SuiteCase("bsr_softmax", softmax, dense, lambda: (blocks(64, 64),))

    def sampled(m, a, b):
        return ops.sampled_addmm(sparse(m), a, b, beta=0.5, alpha=2.0).values()

    def picked(m, a, b):
        pattern = sparse(m)
        full = (0.5 * m.float() + 2.0 * (a.float() @ b.float())).half()
        crow, col = pattern.crow_indices(), pattern.col_indices()
        row = torch.repeat_interleave(torch.arange(len(crow) - 1), crow[1:] - crow[:-1])
        return torch.stack(
            [full[16 * r : 16 * r + 16, 16 * c : 16 * c + 16] for r, c in zip(row.tolist(), col.tolist(), strict=True)]
        )

    yield SuiteCase(
        "sampled_addmm",
        sampled,
        picked,
        lambda: (blocks(64, 48).half(), torch.randn(64, 32).half(), torch.randn(32, 48).half()),
    )
