"""One key set of ATen operations: every lane has a rule for a key, or says why it has none."""

from __future__ import annotations

import pytest
import torch

from render.interpreter.hosted import table as hosted
from render.ops.aten import ATEN, Form, base_name
from render.trace import host_links as sliced

LANES = {"host bounds": hosted, "host slices": sliced}


@pytest.mark.parametrize("lane", LANES)
def test_every_operation_has_a_rule_or_a_reason(lane):
    module = LANES[lane]
    assert not module.RULES.keys() & module.REFUSED.keys()
    assert module.RULES.keys() | module.REFUSED.keys() == ATEN.keys()
    assert all(module.REFUSED.values())


def test_keys_are_operations_of_torch():
    """Names of torch's own schemas, less those of other versions and of in-place forms only."""
    known = {base_name(s.name) for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")}
    assert not ATEN.keys() - known - {"mkldnn_linear", "true_divide", "_fused_rms_norm"}


def test_names_in_place_mean_what_the_plain_ones_do():
    assert [base_name(n) for n in ("aten::add_", "aten::add", "aten::__and__", "aten::_to_copy")] == [
        "add", "add", "__and__", "_to_copy",
    ]  # fmt: skip


@pytest.mark.parametrize("name", [n for n, op in ATEN.items() if op.function])
def test_functions_are_the_engine_s(name):
    from interval_ops.functions.elementary import UNARY

    assert ATEN[name].function in UNARY


def test_forms_with_an_error_have_a_cause():
    from interval_ops.profiles.profile import CAUSES

    assert {op.cause for op in ATEN.values()} <= {*CAUSES, ""}
    assert not any(op.cause for op in ATEN.values() if op.form in (Form.MOVE, Form.ORDER, Form.EXACT, Form.MADE))
