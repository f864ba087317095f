"""The packaged kernels are judged Type-I and their exact results lie inside the bounds."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from render.classify import classify_file
from render.interpreter.session import Session
from tests.kernels.bugs import KERNELS
from tests.kernels.cases import CASES, Case, call, load, upcast

ORACLE_SLACK = 1e-12  # relative to the largest element: rounding of the float64 reference itself


def test_every_kernel_has_a_case() -> None:
    assert sorted(case.kernel for case in CASES) == sorted(path.stem for path in KERNELS.glob("*.py"))


@pytest.mark.parametrize("device", ["any", "sm_80"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_type_one(case: Case, device: str) -> None:
    verdict = classify_file(str(case.path), device=device)
    assert (verdict.label, verdict.exit_code) == ("Type-I", 0), verdict.to_dict()


@pytest.mark.parametrize("default_sizes", [True, False], ids=["default", "other"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_exact_result_is_inside(case: Case, default_sizes: bool) -> None:
    """The float64 reference on widened inputs, an oracle that shares nothing with the interpreter."""
    torch.manual_seed(1 if default_sizes else 2)
    with Session(device="any") as session:
        module = load(case.path)
        inputs = module.make_inputs(**({} if default_sizes else case.sizes))
        outputs = call(getattr(module, case.entry), inputs)
    with Session(device="any"):
        exact = call(module.reference, upcast(inputs))
    assert not session.findings
    for output, expected in zip(outputs, exact, strict=True):
        envelope, wanted = session.envelope(output), expected.numpy()
        assert envelope is not None and wanted.dtype == np.float64
        assert np.all(envelope.kernel_written) and not envelope.taints
        slack = ORACLE_SLACK * np.abs(wanted).max()
        outside = ~((envelope.lo - slack <= wanted) & (wanted <= envelope.hi + slack))
        assert not outside.any(), f"{outside.sum()} of {wanted.size} outside, first at {np.argwhere(outside)[0]}"


@pytest.mark.parametrize("kernel", ["vector_add", "fused_softmax"])
def test_command_line(kernel: str) -> None:
    command = [sys.executable, "-m", "render", "classify", str(KERNELS / f"{kernel}.py"), "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=KERNELS.parent, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"]["label"] == "Type-I"
