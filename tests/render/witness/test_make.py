"""Whole computations of the packaged kernels: random legal executions stay inside what the evaluator says."""

from __future__ import annotations

import pytest

from render.entry.execution import Entry, on_cpu
from render.entry.inputs import gather
from render.entry.target import find_entry, load_module
from render.trace import slice_of
from render.witness.evaluate import Evaluator
from render.witness.make import Claim, document
from tests.kernels.bugs import KERNELS
from tests.render.exact.oracle import holds
from tests.render.witness.legal import Execution
from tests.support import rng, trials

SUBJECTS = {
    "cross_entropy": "grad", "flash_attention": "out", "layer_norm": "out0", "matmul_split_k": "c", "rms_norm": "y",
    "rotary": "out", "swiglu": "d_gate", "gelu": "out1", "matmul_fp8": "c", "matmul_descriptor": "c", "matmul": "c",
}  # fmt: skip


@pytest.mark.parametrize("kernel", SUBJECTS)
def test_legal_executions_stay_inside(kernel):
    with on_cpu():
        module = load_module(KERNELS / f"{kernel}.py")
        fn = find_entry(module, None, None)
        call = Entry(fn, gather(fn, module, None, (), 0), "sm_80" if kernel != "matmul_fp8" else "sm_89")
    run = call.run()
    output = next(o for o in run.outputs if o.name == SUBJECTS[kernel])
    found = slice_of(call, run, output.name, tuple(n // 3 for n in output.value.shape))
    made = document(found, Claim("reference", 0.0, 0.0))
    bound = Evaluator(made).result()
    assert bound is not None
    narrow = Evaluator(made).result(bound)
    r = rng(17)
    used = set()
    for _ in range(max(3, trials(8) if found.terms < 2000 else trials(3))):
        execution = Execution(made, r)
        found = execution.result()
        assert holds(bound, found) and holds(narrow, found)
        used.add(tuple(map(float, execution.values.values())))
    assert len(used) > 1, "the choices make a difference"
