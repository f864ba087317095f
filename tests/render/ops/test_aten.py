"""One key set of ATen operations: every lane has a rule for a key, or says why it has none."""

from __future__ import annotations

import pytest
import torch

from render.interpreter.hosted import table as hosted
from render.ops.aten import ATEN, Form, base_name
from render.ops.rooms import ABOUT
from render.reference import local_error
from render.reference.precise import recorder
from render.trace import host_links as sliced

LANES = {
    "host bounds": (hosted.RULES, hosted.REFUSED),
    "host slices": (sliced.RULES, sliced.REFUSED),
    "running error": (local_error.RULES, local_error.REFUSED),
    "more bits": (recorder.FOLLOWED, recorder.REFUSED),
}


@pytest.mark.parametrize("lane", LANES)
def test_every_operation_has_a_rule_or_a_reason(lane):
    rules, refused = LANES[lane]
    assert not set(rules) & set(refused)
    assert set(rules) | set(refused) == set(ATEN)
    assert all(refused.values())


def test_keys_are_operations_of_torch():
    """Names of torch's own schemas, less those of other versions and of in-place forms only."""
    known = {base_name(s.name) for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")}
    assert not ATEN.keys() - known - {"mkldnn_linear", "true_divide", "_fused_rms_norm", ABOUT}


def test_names_in_place_mean_what_the_plain_ones_do():
    assert [base_name(n) for n in ("aten::add_", "aten::add", "aten::__and__", "aten::_to_copy")] == [
        "add", "add", "__and__", "_to_copy",
    ]  # fmt: skip


def test_functions_are_the_engine_s():
    from interval_ops.functions.tables import FUNCTIONS

    assert {op.function for op in ATEN.values() if op.function} <= FUNCTIONS.keys()


def test_forms_with_an_error_have_a_cause():
    from interval_ops.profiles.profile import CAUSES

    assert {op.cause for op in ATEN.values()} <= {*CAUSES, ""}
    assert not any(op.cause for op in ATEN.values() if op.form in (Form.MOVE, Form.ORDER, Form.EXACT, Form.MADE))
