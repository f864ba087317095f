"""What is known of overloads: against torch's own schemas, and against what torch makes of operands."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from interval_ops.formats.model import FP32
from render.interpreter.hosted.overloads import (
    is_coarse,
    is_plain,
    is_sparse_among,
    is_wrapper,
    operation,
    read_arguments,
    rounded_to,
    symbols_of,
    takes_in,
    tensors_of,
    written_arguments,
)  # fmt: skip
from render.ops.dtypes import FORMAT_OF

ATEN = torch.ops.aten
ODD = {"_unsafe_view", "copy", "values"}
"""A view that its schema does not call one; functions of strings and dictionaries that share a name."""


def test_views_and_what_is_written_are_those_of_the_schemas():
    names = {n.removeprefix("aten::").split(".")[0] for n in torch._C._dispatch_get_all_op_names() if n[:6] == "aten::"}
    views = 0
    for packet in (getattr(ATEN, n) for n in sorted(names - ODD) if hasattr(ATEN, n)):
        for func in (getattr(packet, o) for o in packet.overloads()):
            found, arguments = operation(func), func._schema.arguments
            assert found.view == func.is_view, func
            views += found.view
            written = [(i, a.name) for i, a in enumerate(arguments) if a.alias_info and a.alias_info.is_write]
            assert list(found.written) == written and found.out == {a.name for a in arguments if a.is_out}, func
    assert views > 50 and operation(ATEN._unsafe_view.default).view


class Wrapping(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_tensors_that_have_memory_of_their_own():
    x = torch.ones(2, 2)
    wrapper = torch.Tensor._make_wrapper_subclass(Wrapping, (2,))
    assert is_plain(x) and is_plain(torch.nn.Parameter(x)) and is_plain(x.t())
    assert not is_plain(x.to_sparse()) and not is_plain(x.to("meta")) and not is_plain(2.5)
    assert is_wrapper(wrapper) and not is_plain(wrapper)
    assert not is_wrapper(x) and not is_wrapper(torch.nn.Parameter(x))
    assert is_sparse_among((x, x.to_sparse())) and not is_sparse_among((x, 2.5, None))
    for dtype in (torch.float16, torch.float32, torch.complex64):
        assert is_coarse(x.to(dtype))
    for dtype in (torch.float64, torch.complex128, torch.int32, torch.bool):
        assert not is_coarse(x.to(dtype))
    parts = [torch.ones(i + 1) for i in range(4)]
    found = tensors_of((parts[0], [parts[1], (2, "x")], {"a": parts[2], "b": [parts[3]]}, None))
    assert [t.numel() for t in found] == [1, 2, 3, 4]


class Calls(TorchDispatchMode):
    """The calls of operations as a mode gets them."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def call(run):
    with Calls() as calls:
        run()
    func, args, kwargs = calls.seen[-1]
    return func, operation(func), args, kwargs


X, Y, OUT = torch.full((2, 3), 1.5), torch.full((2, 3), 2.5), torch.zeros(2, 3)
HALF, WIDE, WHOLE = X.bfloat16(), X.double(), torch.ones(2, 3, dtype=torch.int64)
ARGUMENTS = {
    "added": (lambda: X.add(Y), [X, Y], []), "in place": (lambda: OUT.add_(Y), [OUT, Y], [OUT]),
    "out": (lambda: torch.add(X, Y, out=OUT), [X, Y], [OUT]), "copied": (lambda: OUT.copy_(X), [X], [OUT]),
    "zeroed": (lambda: OUT.zero_(), [], [OUT]), "filled": (lambda: OUT.fill_(X[0, 0]), [X], [OUT]),
    "alike": (lambda: torch.zeros_like(X), [], []), "new": (lambda: X.new_ones(3), [], []),
    "drawn": (lambda: OUT.uniform_(), [], [OUT]), "several": (lambda: torch.cat([X, Y]), [X, Y], []),
    "sorted": (lambda: torch.max(X, 1, out=(OUT[:, 0], WHOLE[:, 0])), [X], [OUT, WHOLE]),
    "masked": (lambda: OUT.masked_fill_(X > 0, 1.0), [OUT, None], [OUT]),
}  # fmt: skip


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_that_are_read_and_written(name):
    run, read, written = ARGUMENTS[name]
    _, op, args, kwargs = call(run)
    for found, wanted in ((read_arguments(op, args, kwargs), read), (written_arguments(op, args, kwargs), written)):
        assert len(found) == len(wanted)
        assert all(w is None or f.untyped_storage().data_ptr() == w.untyped_storage().data_ptr()
                   for f, w in zip(found, wanted, strict=True))  # fmt: skip


ROUNDED = {
    "sum": (lambda: X + Y, FP32), "sum of doubles": (lambda: WIDE + WIDE, None),
    "by a number": (lambda: HALF * 2.5, torch.bfloat16), "whole by a number": (lambda: WHOLE * 2.5, FP32),
    "mixed": (lambda: HALF * X, FP32), "widest": (lambda: X * WIDE, None), "whole": (lambda: WHOLE * 2, None),
    "quotient of integers": (lambda: WHOLE / 3, FP32),
    "floored": (lambda: torch.div(WHOLE, 3, rounding_mode="floor"), None),
    "cast down": (lambda: X.bfloat16(), torch.bfloat16), "cast up": (lambda: HALF.float(), None),
    "cast from integers": (lambda: WHOLE.float(), FP32),
    "cast of small integers": (lambda: WHOLE.to(torch.int8).float(), None),
    "cast of bytes": (lambda: WHOLE.to(torch.int8).bfloat16(), None),
    "cast of shorts": (lambda: WHOLE.to(torch.int16).bfloat16(), torch.bfloat16),
    "to integers": (lambda: X.int(), None), "copied down": (lambda: HALF.clone().copy_(X), torch.bfloat16),
    "copied": (lambda: OUT.copy_(X), None), "copied up": (lambda: OUT.copy_(HALF), None),
    "complex": (lambda: X.cfloat() + 1, None), "summed as doubles": (lambda: X.sum(dtype=torch.float64), None),
    "summed as floats": (lambda: HALF.sum(dtype=torch.float32), FP32), "root of integers": (lambda: WHOLE.sqrt(), FP32),
    "sparse": (lambda: X.to_sparse() * 2, None),
}  # fmt: skip


@pytest.mark.parametrize("name", ROUNDED)
def test_the_format_that_a_result_is_rounded_to(name):
    run, wanted = ROUNDED[name]
    _, op, args, kwargs = call(run)
    assert rounded_to(op, args, kwargs) == FORMAT_OF.get(wanted, wanted)


TAKEN = {
    "held": (lambda: HALF.clamp(0.5, 2.0), None), "rounded": (lambda: HALF.clamp(0.1, 2.0), torch.bfloat16),
    "the other one": (lambda: HALF.clamp(0.5, 0.3), torch.bfloat16),
    "named": (lambda: HALF.clamp(max=0.1), torch.bfloat16),
    "wide": (lambda: WIDE.clamp(0.1, 2.0), None), "float": (lambda: X.clamp(0.1, 2.0), FP32),
    "beyond": (lambda: X.masked_fill(X > 0, -1e30), None),
    "beyond halves": (lambda: HALF.masked_fill(X > 0, -1e30), torch.bfloat16),
    "infinite": (lambda: HALF.masked_fill(X > 0, -math.inf), None),
    "truth": (lambda: torch.full_like(HALF, True), None),
    "of a tensor": (lambda: HALF.masked_fill(X > 0, torch.tensor(0.5)), torch.bfloat16),
    "of a tensor of halves": (lambda: HALF.masked_fill(X > 0, torch.tensor(0.5).bfloat16()), None),
    "of integers": (lambda: WHOLE.clamp(1, 2), None),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_numbers_that_are_rounded_on_their_way_in(name):
    run, wanted = TAKEN[name]
    func, op, args, kwargs = call(run)
    assert takes_in(func, op, args, kwargs) == FORMAT_OF.get(wanted, wanted)


def test_numbers_beyond_any_data_are_symbols():
    def of(run):
        func, op, args, kwargs = call(run)
        return symbols_of(func, op, args, kwargs)

    ends = of(lambda: X.masked_fill(X > 0, -1e30))
    assert len(ends) == 2 and all((-high, -low) in ends for low, high in ends)
    assert any(low <= -1e30 <= high for low, high in ends)
    for none in (lambda: X.masked_fill(X > 0, -2.5), lambda: X.masked_fill(X > 0, -math.inf),
                 lambda: X.half().masked_fill(X > 0, True)):  # fmt: skip
        assert of(none) == set()
    assert of(lambda: torch.clamp(X, max=1e30)) != set()
