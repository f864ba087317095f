"""The packaged kernels are judged Type-I and their exact results lie inside the bounds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from render.classify import classify_file
from render.interpreter.session import Session
from tests.kernels.bugs import KERNELS
from tests.kernels.cases import CASES, Case, call, load, upcast

ORACLE_SLACK = 1e-12  # relative to the largest element: rounding of the float64 reference itself


class Run(NamedTuple):
    session: Session
    outputs: list[torch.Tensor]
    exact: list[torch.Tensor]


def test_every_kernel_has_a_case() -> None:
    assert sorted(case.kernel for case in CASES) == sorted(path.stem for path in KERNELS.glob("*.py"))


@pytest.mark.parametrize("device", ["any", "sm_80"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_type_one(case: Case, device: str) -> None:
    verdict = classify_file(str(case.path), device=device)
    assert (verdict.label, verdict.exit_code) == ("Type-I", 0), verdict.to_dict()


@pytest.mark.parametrize(("slope", "label"), [("0.01 * x", "Type-I"), ("0.1 * x", "Type-II")])
def test_activation_of_the_matmul(slope: str, label: str, tmp_path: Path) -> None:
    """The fused activation is a constexpr string that picks a jitted helper."""
    source = (KERNELS / "matmul.py").read_text()
    assert source.count("0.01 * x") == 1
    path = tmp_path / "matmul.py"
    path.write_text(source.replace("0.01 * x", slope).replace('activation: str = ""', 'activation: str = "leaky_relu"'))
    assert classify_file(str(path), device="any").label == label


def run(case: Case, seed: int, sizes: dict[str, Any] | None = None, **options: Any) -> Run:
    """One interpreted run of the launcher and the float64 reference on the same inputs, widened."""
    torch.manual_seed(seed)
    with Session(device="any", **options) as session:
        module = load(case.path)
        inputs = module.make_inputs(**(sizes or {}))
        outputs = call(getattr(module, case.entry), inputs)
    with Session(device="any"):  # for references that name a GPU
        exact = call(module.reference, upcast(inputs))
    assert not session.findings
    return Run(session, outputs, exact)


def assert_inside(done: Run) -> None:
    """The float64 reference is an oracle that shares nothing with the interpreter."""
    for output, expected in zip(done.outputs, done.exact, strict=True):
        envelope, wanted = done.session.envelope(output), expected.numpy()
        assert envelope is not None and (wanted.dtype == np.float64 or output.dtype == expected.dtype == torch.int8)
        assert np.all(envelope.kernel_written) and not envelope.taints
        slack = ORACLE_SLACK * np.abs(wanted).max()
        outside = ~((envelope.lo - slack <= wanted) & (wanted <= envelope.hi + slack))
        assert not outside.any(), f"{outside.sum()} of {wanted.size} outside, first at {np.argwhere(outside)[0]}"


@pytest.mark.parametrize("default_sizes", [True, False], ids=["default", "other"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_exact_result_is_inside(case: Case, default_sizes: bool) -> None:
    assert_inside(run(case, seed=1) if default_sizes else run(case, seed=2, sizes=case.sizes))


@pytest.mark.parametrize("case", [case for case in CASES if case.configs > 1], ids=str)
def test_other_configurations(case: Case) -> None:
    for config in range(1, case.configs):
        assert_inside(run(case, seed=3, config=config))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_chunks_do_not_matter(case: Case) -> None:
    """Programs that run one by one, three at a time or all together give the same bits and the same bounds."""
    together = run(case, seed=4)
    for chunk in (1, 3):
        apart = run(case, seed=4, chunk=chunk)
        for a, b in zip(together.outputs, apart.outputs, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)
            one, other = together.session.envelope(a), apart.session.envelope(b)
            np.testing.assert_array_equal(one.lo, other.lo)
            np.testing.assert_array_equal(one.hi, other.hi)


@pytest.mark.parametrize("kernel", ["vector_add", "fused_softmax"])
def test_command_line(kernel: str) -> None:
    command = [sys.executable, "-m", "render", "classify", str(KERNELS / f"{kernel}.py"), "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=KERNELS.parent, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"]["label"] == "Type-I"
