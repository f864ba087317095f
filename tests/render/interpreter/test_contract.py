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

from render.interpreter.contract import option_names
from render.interpreter.session import Session
from render.interpreter.statements import value_of

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


# What the compiler refuses.
@triton.jit
def inner(x, SIZE: tl.constexpr):
    return x + tl.arange(0, SIZE)


BODIES = {
    "size that is no power of two": "tl.arange(0, 7)",
    "shapes": "tl.zeros((4,), tl.float32) + tl.zeros((8,), tl.float32)",
    "dot of vectors": "tl.dot(tl.zeros((16,), tl.float32), tl.zeros((16,), tl.float32))",
    "pointer to pointer": "out + out",
    "shift of floats": "tl.zeros((4,), tl.float32) >> 1",
    "reshape": "tl.reshape(tl.arange(0, 8), (3, 4))",
    "static assertion": "tl.static_assert(n is None, 'n is there')",
    "name": "not_a_name",
    "attribute": "tl.nonesuch(n)",
    "arguments": "tl.arange(0)",
    "axis": "tl.sum(tl.arange(0, 8), axis=3)",
    "inner": "inner(n, 7)",
}


@pytest.mark.parametrize("name", BODIES)
def test_kernels_are_refused_with_the_class_and_the_line_of_the_compiler(name):
    text = "import triton, triton.language as tl\n@triton.jit\ndef kernel(out, n):\n    i = 0\n"
    kernel = made(f"{text}    {'' if 'assert' in BODIES[name] else 'x = '}{BODIES[name]}\n", inner=inner)["kernel"]
    source = triton.compiler.ASTSource(kernel, {"out": "*fp32", "n": "i32"}, {})
    from triton.backends.compiler import GPUTarget

    with pytest.raises(triton.CompilationError) as stock:
        triton.compile(source, target=GPUTarget("cuda", 80, 32))
    with pytest.raises(triton.CompilationError) as own, Session() as session:
        kernel[(1,)](torch.zeros(8), 9)
    assert type(own.value) is type(stock.value)
    assert own.value.node.lineno == stock.value.node.lineno
    assert own.value.src == stock.value.src == kernel.src
    assert (own.value.__cause__ is None) <= (stock.value.__cause__ is None)
    assert not session.findings


def test_errors_in_a_called_function_name_the_call():
    kernel = made("import triton\n@triton.jit\ndef kernel(n):\n    inner(n, 7)\n", inner=inner)["kernel"]
    with pytest.raises(triton.CompilationError) as caught, Session():
        kernel[(1,)](9)
    assert caught.value.node.lineno == 2 and caught.value.src == kernel.src
    cause = caught.value.__cause__
    assert isinstance(cause, triton.CompilationError) and cause.src == inner.src and "power of 2" in str(cause)


def test_a_source_put_in_place_of_the_file_is_what_runs():
    kernel = made("import triton, triton.language as tl\n@triton.jit\ndef kernel(out):\n    tl.store(out, 1.0)\n")[
        "kernel"
    ]
    out = torch.zeros(1)
    with Session():
        kernel[(1,)](out)
        assert out.item() == 1
        kernel._unsafe_update_src(kernel.src.replace("1.0", "2.0"))
        kernel[(1,)](out)
    assert out.item() == 2


# Constants.
class Mode(enum.Enum):
    ADD = 1
    MUL = 2


ADD, TWO = tl.constexpr(Mode.ADD), tl.constexpr(2)
SIZES = (tl.constexpr(2), tl.constexpr(4))
WIDTH = tl.constexpr(8)


@pytest.mark.parametrize(
    ("x", "parameter", "value"),
    [(Mode.ADD, True, Mode.ADD), (Mode.ADD, False, 1), (ADD, False, Mode.ADD), (TWO, True, 2), (TWO, False, 2),
     (3, True, 3), ("fp32", False, "fp32")],
)  # fmt: skip
def test_the_value_of_a_constant_is_itself_and_of_a_member_what_it_stands_for(x, parameter, value):
    """Of a parameter the constexpr holds the member, whose value is itself; elsewhere the member is asked."""
    found = value_of(x, parameter)
    assert type(found) is type(value) and found == value


@triton.jit
def lowest(dtype: tl.constexpr):
    return 1 if dtype.value == tl.float32 else 2


@triton.jit
def bare(dtype):
    return 1 if dtype.value == tl.float32 else 0


@triton.jit
def constants(out, x, SHAPE: tl.constexpr, B: tl.constexpr, MODE: tl.constexpr, D: tl.constexpr, FLAG: tl.constexpr):
    tl.static_assert(B.value == 8)
    tl.static_assert(SHAPE[0] * SHAPE[1] == B)
    tl.static_assert(MODE.value == MODE)
    tl.static_assert(WIDTH.value == WIDTH)
    tl.static_assert(D.value == tl.float32)
    rows: tl.constexpr = SHAPE[0]
    tl.static_assert(rows.value == 2)
    a = tl.zeros(SHAPE, D.value) + tl.zeros([rows, SHAPE[1]], D)
    b = tl.reshape(tl.load(x + tl.arange(0, B.value)), *SHAPE)
    if MODE.value == ADD.value:
        a += b
    if FLAG.value:
        a += lowest(a.dtype) + bare(a.dtype)
    for i in tl.static_range(TWO):
        a += i
    tl.store(out + tl.arange(0, WIDTH), tl.reshape(a, (WIDTH,)))


@pytest.mark.parametrize("shape", [(2, 4), SIZES, tl.constexpr((2, 4)), [2, 4]], ids=str)
@pytest.mark.parametrize("wrapped", [False, True])
def test_constants_have_their_value_in_every_form(shape, wrapped):
    wrap = tl.constexpr if wrapped else lambda x: x
    out, x = torch.zeros(8), torch.arange(8.0)
    with Session() as session:
        constants[(1,)](out, x, shape, B=wrap(8), MODE=wrap(Mode.ADD), D=wrap(tl.float32), FLAG=wrap(True))
    assert torch.equal(out, x + 3)
    assert not session.notes


# Autotuners.
CONFIGS = [triton.Config({"B": b}, num_warps=w) for b, w in ((16, 4), (8, 4), (4, 2))]


class OwnTuner(triton.runtime.Autotuner):
    """Benchmarks by itself, as libraries' tuners do."""

    def run(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        timings = {c: self._bench(*args, config=c, **kwargs) for c in self.configs}
        self.best_config = min(timings, key=timings.get)
        return self.fn.run(*args, **kwargs, **self.best_config.all_kwargs())


def tuned(cls, limit=8, **options):
    @triton.jit
    def count(out, n, LIMIT: tl.constexpr, B: tl.constexpr):
        tl.static_assert(B <= LIMIT)
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(out + i, tl.load(out + i, mask=i < n) + 1, mask=i < n)

    kernel = cls(count, count.arg_names, CONFIGS, ["n"], None, None, **options)
    return lambda out: kernel[lambda meta: (triton.cdiv(8, meta["B"]),)](out, 8, LIMIT=limit), kernel


@pytest.mark.parametrize("cls", [triton.runtime.Autotuner, OwnTuner])
@pytest.mark.parametrize(("limit", "block"), [(16, 16), (8, 8), (4, 4)])
def test_the_first_configuration_that_compiles_runs_once(cls, limit, block):
    launch, kernel = tuned(cls, limit)
    out = torch.zeros(8)
    with Session() as session:
        launch(out)
        launch(out)
    assert out.tolist() == [2.0] * 8
    assert len(session.launches) == 2 and kernel.best_config.kwargs == {"B": block}
    assert not session.findings


@pytest.mark.parametrize("cls", [triton.runtime.Autotuner, OwnTuner])
def test_where_no_configuration_compiles_the_refusal_is_told(cls):
    launch, _ = tuned(cls, limit=2)
    with pytest.raises(triton.CompilationError), Session():
        launch(torch.zeros(8))


def test_an_asked_configuration_is_the_one():
    for cls in (triton.runtime.Autotuner, OwnTuner):
        launch, kernel = tuned(cls, limit=16)
        with Session(config=2):
            launch(torch.zeros(8))
        assert kernel.best_config.kwargs == {"B": 4}


def test_profiles_record_nothing(tmp_path, monkeypatch):
    import triton.profiler as proton
    from triton import knobs

    monkeypatch.chdir(tmp_path)
    with Session():
        assert knobs.proton.disable and proton.start("profile", hook="triton") is None
        proton.activate(0)
        with proton.scope("part", metrics={"flops": 1.0}):
            pass
        proton.deactivate(0)
        proton.finalize()
    assert not knobs.proton.disable and not list(tmp_path.iterdir())


def test_benchmarks_run_once():
    from triton.testing import do_bench

    calls = []
    code = do_bench.__code__
    with Session():
        assert do_bench(lambda: calls.append(1)) > 0
        assert len(do_bench(lambda: calls.append(1), quantiles=[0.5, 0.2, 0.8])) == 3
        assert triton.testing.do_bench(lambda: calls.append(1), return_mode="all")
        assert triton.runtime.driver.active.get_benchmarker()(lambda: calls.append(1), quantiles=(0.5, 0.2))
    assert len(calls) == 4 and do_bench.__code__ is code


def test_arguments_of_a_configuration_given_twice_are_refused():
    _, kernel = tuned(triton.runtime.Autotuner)
    with pytest.raises(TypeError, match="multiple values"), Session():
        kernel[(1,)](torch.zeros(8), 8, LIMIT=16, B=16)


def test_options_are_those_of_the_backend_that_is_named() -> None:
    cuda, hip, both = option_names("cuda"), option_names("hip"), option_names()
    assert "maxnreg" in cuda - hip and "waves_per_eu" in hip - cuda
    assert {"num_warps", "num_stages"} <= cuda & hip and cuda | hip <= both
