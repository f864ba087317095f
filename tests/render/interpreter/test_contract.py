"""The launch contract is Triton's: what it takes is taken, what it refuses is refused with its own class."""

from __future__ import annotations

import enum
import linecache

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton import knobs

from render.interpreter.session import Session

NAMES = [
    "k", "kernel", "fn", "jit_fn", "args", "kwargs", "session", "tensor", "t", "f", "x", "name", "value", "pointer",
    "call", "options", "names", "out_", "device", "target", "language", "cls", "member", "scope", "num_warps", "meta",
    "config", "key", "code", "body", "ctx", "range_", "launch", "bound", "module", "stream_", "owner", "method",
]  # fmt: skip
KERNEL = """
import triton, triton.language as tl
@triton.jit
def helper({name}, other):
    return {name} * other
@triton.jit
def kernel({name}, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, helper({name}={name}, other=tl.load(out + i)), mask=i < n)
"""


def made(source: str, **names):
    """The module of a source text that has no file, as notebooks have it."""
    file = f"<ipython-input-{abs(hash(source))}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = {"__name__": "made", **names}
    exec(compile(source, file, "exec"), namespace)
    return namespace


@pytest.mark.parametrize("name", NAMES)
def test_a_parameter_may_have_any_name(name):
    kernel, value = made(KERNEL.format(name=name))["kernel"], 4
    for launch in (
        lambda out: kernel[(1,)](**{name: value}, out=out, n=8, B=8),
        lambda out: kernel[(1,)](value, out, 8, B=8),
        lambda out: kernel.run(**{name: value}, out=out, n=8, B=8, grid=(1,), warmup=False),
    ):
        out = torch.ones(8)
        with Session() as session:
            launch(out)
        assert out.tolist() == [value] * 8
        assert len(session.launches) == 1


@triton.jit
def copy(out, x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


class Holder:
    """A class of a library: a pointer, and nothing else that torch knows."""

    def __init__(self, tensor, dtype=torch.float32):
        self.kept, self.dtype = tensor, dtype

    def data_ptr(self):
        return self.kept.data_ptr()


class Wrapper(Holder):
    def __init__(self, tensor):
        super().__init__(tensor)
        self.base = tensor


class Array:
    """numpy memory with a pointer."""

    def __init__(self, tensor):
        self.a = tensor.numpy().copy()
        self.dtype = torch.float32
        self.__array_interface__ = self.a.__array_interface__

    def data_ptr(self):
        return self.a.ctypes.data


class Sub(torch.nn.Parameter):
    pass


POINTERS = {
    "tensor": lambda x: x,
    "parameter": lambda x: torch.nn.Parameter(x),
    "subclass of parameter": lambda x: Sub(x),
    "view": lambda x: torch.cat([x, x])[8:],
    "reinterpreted": lambda x: triton.reinterpret(x.view(torch.int32), tl.float32),
    "own class": Holder,
    "own class around a tensor": Wrapper,
    "name of a dtype": lambda x: Holder(x, "fp32"),
    "numpy": Array,
}


@pytest.mark.parametrize("name", POINTERS)
def test_whatever_has_a_pointer_and_a_dtype_is_one(name):
    x, out = torch.arange(8.0), torch.zeros(8)
    with Session() as session:
        copy[(1,)](out, POINTERS[name](x), 8, B=8)
    assert torch.equal(out, x)
    assert not session.findings


class Colour(enum.Enum):
    RED = 1


REFUSED = {
    "list": [1, 2], "string": "abc", "dictionary": {}, "complex": 1j, "object": object(), "enum": Colour.RED,
    "numpy int": np.int32(3), "numpy float": np.float32(3), "numpy array": np.zeros(8), "torch dtype": torch.float32,
    "too large": 2**64, "too small": -(2**63) - 1, "complex tensor": torch.zeros(8, dtype=torch.complex64),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_are_refused_as_by_triton(name):
    from triton._C.libtriton import native_specialize_impl
    from triton.backends.compiler import BaseBackend

    with pytest.raises(Exception) as expected:  # noqa: PT011 - its class and text are compared
        native_specialize_impl(BaseBackend, REFUSED[name], False, True, True)
    with pytest.raises(expected.type) as found, Session():
        copy[(1,)](torch.zeros(8), torch.zeros(8), REFUSED[name], B=8)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ((1,), {"B": 8}, TypeError),
        ((1, 2, 3, 8, 9), {}, TypeError),
        ((1, 2, 3, 8), {"B": 8}, TypeError),
        ((torch.zeros(8), torch.zeros(8), 8), {"B": 8, "BLOCK": 4}, KeyError),
        ((torch.zeros(8), torch.zeros(8), 8), {"B": 8, "stream": 4}, AssertionError),
        ((torch.zeros(8), torch.zeros(8), 8), {"B": 8, "device": "cuda"}, AssertionError),
    ],
)
def test_calls_are_refused_as_by_triton(arguments, options, error):
    with pytest.raises(error), Session() as session:
        copy[(1,)](*arguments, **options)
    assert not session.launches


@pytest.mark.parametrize(
    "options", [{"num_warps": 8}, {"num_stages": 1, "num_ctas": 1}, {"debug": True}, {"maxnreg": 64}]
)
def test_options_of_triton_are_taken(options):
    out = torch.zeros(8)
    with Session() as session:
        copy[(1,)](out, torch.ones(8), 8, B=8, **options)
    assert out.sum() == 8
    assert session.launches[0].options == options


@triton.jit
def keywords(out, *values, scale, B: tl.constexpr = 8):
    i = tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    for j in tl.static_range(len(values)):
        total += tl.load(values[j] + i)
    tl.store(out + i, total * scale)


def test_keyword_only_parameters_and_any_number_of_them():
    out = torch.zeros(8)
    with Session():
        keywords[(1,)](out, torch.ones(8), torch.arange(8.0), scale=2.0)
    assert torch.equal(out, 2 * (1 + torch.arange(8.0)))


def test_hooks_are_called_as_by_triton():
    seen = []

    @triton.jit(
        launch_metadata=lambda grid, metadata, args: {"grid": grid, "n": args["n"], "warps": metadata.num_warps}
    )
    def kernel(out, n, B: tl.constexpr):
        tl.store(out + tl.arange(0, B), n)

    kernel.add_pre_run_hook(lambda *args, **kwargs: seen.append(("before", len(args), kwargs["B"])))
    enter = lambda metadata: seen.append(("enter", metadata.get()))  # noqa: E731
    leave = lambda metadata: seen.append(("leave", metadata.get()["name"]))  # noqa: E731
    knobs.runtime.launch_enter_hook.add(enter)
    knobs.runtime.launch_exit_hook.add(leave)
    try:
        with Session():
            kernel[lambda meta: (meta["n"],)](torch.zeros(8), 1, B=8)
    finally:
        knobs.runtime.launch_enter_hook.remove(enter)
        knobs.runtime.launch_exit_hook.remove(leave)
    assert [s[0] for s in seen] == ["before", "enter", "leave"]
    data = seen[1][1]
    assert (data["name"], data["grid"], data["n"], data["warps"]) == ("kernel", (1,), 1, 4)
