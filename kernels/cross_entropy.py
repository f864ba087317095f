"""Cross entropy over a large vocabulary: loss and gradient of the logits from one online-softmax kernel."""

import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(
    logits_ptr, labels_ptr, loss_ptr, grad_ptr, row_stride, n_classes, ignore_index, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(labels_ptr + row)
    logits_ptr += row * row_stride
    grad_ptr += row * row_stride
    if label == ignore_index or label < 0:
        for start in range(0, n_classes, BLOCK_SIZE):
            offsets = start + tl.arange(0, BLOCK_SIZE)
            tl.store(grad_ptr + offsets, 0.0, mask=offsets < n_classes)
        tl.store(loss_ptr + row, 0.0)
        return

    m = float("-inf")
    d = 0.0
    picked = tl.load(logits_ptr + label)
    for start in range(0, n_classes, BLOCK_SIZE):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        block = tl.load(logits_ptr + offsets, mask=offsets < n_classes, other=float("-inf"))
        m_new = tl.maximum(m, tl.max(block))
        d = d * tl.exp(m - m_new) + tl.sum(tl.exp(block - m_new))
        m = m_new
    tl.store(loss_ptr + row, m + tl.log(d) - picked)

    for start in range(0, n_classes, BLOCK_SIZE):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        block = tl.load(logits_ptr + offsets, mask=offsets < n_classes, other=float("-inf"))
        probability = tl.exp(block - m) / d
        grad = tl.where(offsets != label, probability, probability - 1.0)
        tl.store(grad_ptr + offsets, grad, mask=offsets < n_classes)


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor, ignore_index: int = -100):
    """Loss of every row and its gradient with respect to the logits."""
    n_rows, n_classes = logits.shape
    loss = torch.empty(n_rows, dtype=torch.float32, device=logits.device)
    grad = torch.empty_like(logits)
    cross_entropy_kernel[(n_rows,)](
        logits, labels, loss, grad, logits.stride(0), n_classes, ignore_index, BLOCK_SIZE=64, num_warps=8
    )
    return loss, grad


def make_inputs(rows: int = 29, classes: int = 203):
    logits = 3.0 * torch.randn(rows, classes) + 90.0
    labels = torch.randint(0, classes, (rows,))
    labels[3] = -100
    return logits, labels


def reference(logits: torch.Tensor, labels: torch.Tensor, ignore_index: int = -100):
    log_probs = torch.log_softmax(logits, dim=-1)
    valid = (labels != ignore_index)[:, None]
    one_hot = torch.nn.functional.one_hot(labels.clamp(min=0), logits.shape[-1]).to(logits.dtype)
    loss = -(log_probs * one_hot * valid).sum(dim=-1)
    return loss, (log_probs.exp() - one_hot) * valid
