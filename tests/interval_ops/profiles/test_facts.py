"""The `[device]` table: what is missing, unknown or without a source is an error that names it."""

from __future__ import annotations

from typing import Any

import pytest

from interval_ops.profiles import facts

TABLE: dict[str, Any] = {
    "backend": "cuda", "arch": "sm_90", "part": "H100", "capability": [9, 0], "multiprocessors": 132, "memory": 1 << 36,
    "l2": 50 << 20, "clock": 1_980_000, "memory_clock": 2_619_000, "bus": 5120, "source": "sheet",
}  # fmt: skip


def test_a_table_becomes_facts() -> None:
    found = facts.read(TABLE, {"sheet": "H100 data sheet"}, "x.toml")
    assert found is not None and found.capability == (9, 0) and found.source == "H100 data sheet"
    assert (found.torch_type, found.warp_size) == ("cuda", 32)
    assert facts.read({}, {}, "x.toml") is None


@pytest.mark.parametrize(("change", "said"), [
    ({"bus": None}, "missing keys ['bus']"), ({"colour": "green"}, "unknown keys ['colour']"),
    ({"source": "hearsay"}, "source 'hearsay' is not in [sources]"),
])  # fmt: skip
def test_errors_name_the_key_and_the_file(change: dict[str, Any], said: str) -> None:
    table = {key: value for key, value in (TABLE | change).items() if value is not None}
    with pytest.raises(ValueError, match=r"x\.toml") as caught:
        facts.read(table, {"sheet": ""}, "x.toml")
    assert said in str(caught.value)


def test_pytorch_for_amd_calls_its_devices_cuda() -> None:
    kinds = {kind: facts.read(TABLE | {"backend": kind}, {"sheet": ""}, "x") for kind in ("hip", "xpu")}
    assert {kind: found.torch_type for kind, found in kinds.items() if found} == {"hip": "cuda", "xpu": "xpu"}
