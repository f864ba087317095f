"""What Triton's own interpreter computes is one legal execution: it must lie inside the bounds."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from render.interpreter.session import Session
from tests.kernels.bugs import KERNELS
from tests.kernels.cases import CASES, Case, call, load

# Left out, as the stock interpreter is wrong or stops there: blocks under `not` and `and`, bf16, block pointers,
# constexpr annotations that are strings, kernels in closures.
NOT_STOCK = {"mse_loss", "varlen_sum", "matmul_bf16", "block_pointer_matmul", "rms_norm", "gelu"}
# Their exp, sin and cos are numpy's float32 ones there, up to two ulp off by processor; ours are the exact result
# rounded once. It may tip the rounding of the output.
FUNCTIONS = {"cross_entropy", "flash_attention", "fused_softmax", "rotary", "swiglu"}
STOCK = [case for case in CASES if case.kernel not in NOT_STOCK]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[torch.Tensor]]:
    out = tmp_path_factory.mktemp("stock") / "results.pt"
    command = [sys.executable, "-m", "tests.kernels.stock", str(out), *(case.kernel for case in STOCK)]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, cwd=KERNELS.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return torch.load(out, weights_only=True)


@pytest.mark.parametrize("case", STOCK, ids=str)
def test_stock_result_is_inside(case: Case, results: dict[str, list[torch.Tensor]]) -> None:
    torch.manual_seed(3)
    with Session(device="any") as session:
        module = load(case.path)
        outputs = call(getattr(module, case.entry), module.make_inputs())
    for output, stock in zip(outputs, results[case.kernel], strict=True):
        envelope, value = session.envelope(output), stock.double().numpy()
        assert envelope is not None
        outside = ~((envelope.lo <= value) & (value <= envelope.hi))
        assert not outside.any(), f"{outside.sum()} of {value.size} outside, first at {np.argwhere(outside)[0]}"


@pytest.mark.parametrize("case", STOCK, ids=str)
def test_values_equal_the_stock_interpreter(case: Case, results: dict[str, list[torch.Tensor]]) -> None:
    torch.manual_seed(3)
    with Session(device="any"):
        module = load(case.path)
        outputs = call(getattr(module, case.entry), module.make_inputs())
    for output, stock in zip(outputs, results[case.kernel], strict=True):
        if case.kernel in FUNCTIONS:
            torch.testing.assert_close(output, stock, rtol=max(1e-6, torch.finfo(stock.dtype).eps), atol=1e-6)
            continue
        assert torch.equal(output, stock), f"{(output != stock).sum()} of {stock.numel()} elements differ"
