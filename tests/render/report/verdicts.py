"""Hand-made verdicts: what the reports have to show, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from render.judgement.quotes import quoted
from render.result.verdict import Bound, BudgetItem, Finding, Outputs, OutputVerdict, TaintNote, Verdict

SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def test_kernel(X, Y, O):
    x = tl.load(X + offset_x)
    y = tl.load(Y + offset_y)
    o = tl.dot(x, y)  # product
    tl.store(O, o)
"""


def usage(shape: tuple[int, ...] = (64, 64), largest: float = 0.2) -> np.ndarray:
    return np.random.default_rng(0).uniform(0, largest, shape)


def output(used: np.ndarray | None = None, **changes: Any) -> OutputVerdict:
    used = usage() if used is None else used
    middle = np.zeros(used.shape)
    bound = Bound(
        lo=middle - 0.1,
        hi=middle + 0.1,
        used=lambda: used,
        median_relative_width=0.02,
        max_relative_width=3.0,
        median_half_width=0.05,
        max_half_width=0.1,
    )
    fields: dict[str, Any] = {
        "name": "out",
        "shape": used.shape,
        "dtype": "float32",
        "reference_dtype": "float32",
        "elements": used.size,
        "label": "Type-I",
        "code": "RND101",
        "outside_reference": 0,
        "outside_exact": 0,
        "outside_device": None,
        "nonfinite_mismatch": 0,
        "unstored": 0,
        "tainted": 0,
        "allclose_mismatch": 4069,
        "allclose_rtol": 1.3e-6,
        "allclose_atol": 1e-5,
        "max_abs_diff": 9.53e-3,
        "worst_usage": 0.191,
        "worst_index": (25, 44),
        "got": -5.935534,
        "ref": -5.926005,
        "exact": -5.926,
        "low": -5.9886,
        "high": -5.8634,
        "usage": 0.152,
        "covering_atol": 0.07,
        "bound": bound,
    }
    return OutputVerdict(**{**fields, **changes})


def source_file(folder: Path) -> str:
    path = folder / "tl_dot.py"
    path.write_text(SOURCE)
    return str(path)


def type_i(file: str | None = None, **changes: Any) -> Verdict:
    fields: dict[str, Any] = {
        "label": "Type-I",
        "code": "RND101",
        "subtype": "source-level",
        "paper_rule": "Type-I",
        "message": "round-off explains every difference",
        "kernels": ("test_kernel",),
        "grid": (1,),
        "device": "sm_80",
        "reference": "torch.mm",
        "outputs": Outputs((output(),)),
        "budget": (
            BudgetItem("accumulation order", "accumulation", file, 9, 0.004),
            BudgetItem("inputs rounded to TF32", "operand", file, 9, 0.996, 260.0),
        ),
        "assumptions": ("device sm_80 (documented)", "order-free sums"),
        "timing": {"interval_s": 0.9},
        "versions": {"render": "0.1.0", "triton": "3.9.0"},
        "file": file,
        "line": 9 if file else 0,
        "column": 9 if file else 0,
        "end_column": 21 if file else 0,
        "help": ('input_precision="ieee" shrinks this bound about 260x',),
        "notes": ("the first configuration of the autotuner was used",),
    }
    return quoted(Verdict(**{**fields, **changes}))


def type_ii(file: str | None = None, **changes: Any) -> Verdict:
    used = usage()
    used[16:32, 40:] = 7.0
    used[50:, :3] = np.nan
    bad = output(
        used, label="Type-II", code="RND201", outside_reference=384, outside_exact=380, outside_device=10,
        tainted=42, unstored=3, worst_usage=7.0, usage=7.0,
    )  # fmt: skip
    fields: dict[str, Any] = {
        "label": "Type-II",
        "code": "RND201",
        "subtype": "source",
        "paper_rule": "Type-II",
        "message": "the kernel computes something else than the reference",
        "outputs": Outputs((bad,)),
        "budget": (),
        "findings": (Finding("RND207", "read outside a", "a", (3,), (0, 1), file, 8, 261632, "read"),),
        "taints": (TaintNote("RND302", "inline_asm", "inline assembly has no rule", file, 8),),
        "exit_code": 1,
    }
    return type_i(file, **{**fields, **changes})


def inconclusive(**changes: Any) -> Verdict:
    fields = {"label": "Inconclusive", "code": "RND301", "message": "an output of zeros would fit", "exit_code": 3}
    return type_i(**{**fields, **changes})
