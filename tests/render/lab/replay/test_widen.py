"""Host code one step wider: dtypes that it names, and inputs, each storage once."""

from __future__ import annotations

import torch

from render.entry.inputs import of_call
from render.lab.replay.widen import STEP, Widened, widened, wider


def test_every_step_holds_the_numbers_exactly() -> None:
    for narrow, wide in STEP.items():
        info, more = torch.finfo(narrow), torch.finfo(wide)
        assert info.bits < more.bits and more.max >= info.max and more.eps <= info.eps
    assert wider(torch.float64) is torch.float64 and wider("float16") == "float16"


def test_dtypes_that_code_names_are_widened() -> None:
    x = torch.ones(2)
    with Widened():
        named = (x.to(torch.float16), x.half(), x.bfloat16(), torch.zeros(2, dtype=torch.float32), x.float())
    assert [t.dtype for t in named] == [torch.float32] * 3 + [torch.float64] * 2
    assert x.half().dtype == torch.float16, "outside it says what it says"


def test_inputs_keep_what_they_share() -> None:
    def fn(a: torch.Tensor, row: torch.Tensor, n: int) -> None: ...

    a = torch.arange(6, dtype=torch.float16).reshape(2, 3)
    found = widened(of_call(fn, (a, a[1], 5), {}))
    wide, row, n = found.args
    assert wide.dtype == row.dtype == torch.float32 and n == 5 and wide.tolist() == a.tolist()
    assert row.untyped_storage().data_ptr() == wide.untyped_storage().data_ptr()
