"""Loading the user's file and finding the function that launches a kernel."""

from __future__ import annotations

import json
import sys
import textwrap
from types import ModuleType

import hypothesis
import pytest
import torch

from render.entry import target
from render.entry.target import (
    as_kernel_error,
    find_entry,
    is_kernel,
    is_tool_file,
    launchers,
    load_module,
    returned_names,
    returning,
    user_frames,
    users_code,
)
from render.interpreter.refusals import is_own_failure
from render.result.errors import KernelError, RenderError

HEAD = """
import torch, triton
import triton.language as tl

@triton.jit
def kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i))
"""
ADD = """
def add(x):
    y = torch.empty_like(x)
    kernel[(1,)](x, y, N=4)
    return y
"""


@pytest.fixture
def load(tmp_path):
    def make(body, name="k.py"):
        path = tmp_path / name
        path.write_text(HEAD + textwrap.dedent(body))
        return load_module(path)

    before = list(sys.path)
    yield make
    sys.path[:] = before


def names(module, **more):
    return [name for name, _ in launchers(module, **more)]


def test_the_one_function_that_launches(load):
    module = load(ADD + "def reference(x):\n    return x\ndef make_inputs():\n    return (torch.zeros(4),)\n")
    assert find_entry(module) is module.add
    assert is_kernel(module.kernel)
    assert not is_kernel(module.add)


def test_script_part_does_not_run(load):
    module = load(ADD + "if __name__ == '__main__':\n    raise SystemExit('ran')\n")
    assert module.add


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # Through a helper: the outer function is the entry.
        (ADD + "def outer(x, flag):\n    return add(x) if flag else x\n", ["outer"]),
        # Autograd: an alias of apply, or a function that calls it.
        ("class Op(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
         "        kernel[(1,)](x, x, N=4)\n        return x\nop = Op.apply\n", ["op"]),
        ("class Op(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
         "        kernel[(1,)](x, x, N=4)\n        return x\ndef op(x):\n    return Op.apply(x)\n", ["op"]),
        # A module whose forward launches, used by a function.
        ("class M(torch.nn.Module):\n    def forward(self, x):\n        kernel[(1,)](x, x, N=4)\n        return x\n"
         "def run(x):\n    return M()(x)\n", ["run"]),
        # Tests, benchmarks and scripts drive the entry; they are not it.
        (ADD + "def test_add(n):\n    assert add(torch.zeros(n)) is not None\n", ["add"]),
        (ADD + "def main():\n    add(torch.zeros(4))\n", ["add"]),
        (ADD + "def benchmark(size, provider):\n    return add(torch.zeros(size))\n", ["add"]),
        (ADD + "def reference(x):\n    return add(x)\n", ["add"]),
        (ADD + "def show():\n    print(add(torch.zeros(4)))\n", ["add"]),
        # A kernel made inside the function; a grid in a variable; .run; a dictionary that is indexed and called.
        ("def f(x):\n    @triton.jit\n    def k(p):\n        pass\n    k[(1,)](x)\n", ["f"]),
        ("def f(x):\n    grid = lambda meta: (1,)\n    kernel[grid](x, x, N=4)\n", ["f"]),
        ("def f(x):\n    kernel.run(x, x, 4, grid=(1,))\n", ["f"]),
        (ADD + "table = {0: abs}\ndef g(x):\n    return table[0](x)\n", ["add"]),
        (ADD + "def other(x):\n    kernel[(2,)](x, x, N=4)\n", ["add", "other"]),
        ("def f(x):\n    return x\n", []),
    ],
)  # fmt: skip
def test_candidates(load, body, expected):
    assert names(load(body)) == expected


def test_the_reference_is_no_candidate(load):
    module = load(ADD + "def slow(x):\n    kernel[(2,)](x, x, N=4)\n")
    assert names(module, exclude={"slow"}) == ["add"]
    assert find_entry(module, reference="slow") is module.add


def test_several_are_listed_with_their_lines(load):
    module = load(ADD + "def other(x):\n    kernel[(2,)](x, x, N=4)\n")
    with pytest.raises(RenderError, match=r"add \(line 10\), other \(line 14\)") as error:
        find_entry(module)
    assert error.value.code == "RND902"
    assert "--entry add" in error.value.hint
    assert find_entry(module, "other") is module.other


def test_none_is_an_error_that_names_the_option(load):
    with pytest.raises(RenderError, match="no function") as error:
        find_entry(load("def f(x):\n    return x\n"))
    assert "--entry" in error.value.hint


@pytest.mark.parametrize(("entry", "text"), [("nothing", "has no nothing"), ("kernel", "is a kernel"), ("X", "not a")])
def test_wrong_entry(load, entry, text):
    with pytest.raises(RenderError, match=text) as error:
        find_entry(load(ADD + "X = 3\n"), entry)
    assert error.value.code == "RND902"
    assert error.value.hint


def test_entry_may_be_a_method(load):
    module = load("class M:\n    @staticmethod\n    def go(x):\n        kernel[(1,)](x, x, N=4)\n")
    assert find_entry(module, "M.go") is module.M.go


def test_missing_broken_and_raising_files(tmp_path, load):
    with pytest.raises(RenderError, match="does not exist"):
        load_module(tmp_path / "no.py")
    with pytest.raises(RenderError, match="folder"):
        load_module(tmp_path)
    with pytest.raises(RenderError, match=r"s\.py:10"):
        load("\ndef f(:\n", "s.py")
    with pytest.raises(RenderError, match=r"ValueError at .*r\.py:10: no") as error:
        load("\nraise ValueError('no')\n", "r.py")
    assert "__main__" in error.value.hint
    with pytest.raises(RenderError, match="SystemExit"):
        load("\nraise SystemExit(3)\n", "e.py")


def test_neighbours_can_be_imported(tmp_path, load):
    (tmp_path / "neighbour_of_k.py").write_text("VALUE = 7\n")
    assert load("from neighbour_of_k import VALUE\n").VALUE == 7


def test_returned_names(load):
    module = load("def one(x):\n    c = x\n    return c\ndef two(x):\n    a, b = x\n    return a, b\n"
                  "def none(x):\n    return x + 1\n")  # fmt: skip
    assert [returned_names(f) for f in (module.one, module.two, module.none, len)] == [["c"], ["a", "b"], [], []]


def test_the_source_is_read_once(load, monkeypatch):
    module = load("\n\ndef one(x):\n    if x:\n        return x\n    c = x\n    return c\n")
    line = module.one.__code__.co_firstlineno + 4
    read, plain = [], target._tree
    monkeypatch.setattr(target, "_tree", lambda code: read.append(code) or plain(code))
    for _ in range(2):
        assert (returned_names(module.one), returning(module.one)) == (["c"], (module.__file__, line))
        assert returning(len) is None
    assert read == [module.one.__code__] * 2


def test_only_the_users_frames_are_kept(load):
    import torch

    module = load("def f(x):\n    return g(x)\n\ndef g(x):\n    return torch.matmul(x, x)\n")
    with pytest.raises(RuntimeError) as caught:
        module.f(torch.zeros(2, 3))
    error = as_kernel_error(caught.value)
    assert isinstance(error, KernelError)
    assert [frame[2] for frame in error.frames if frame[0].endswith("k.py")] == ["f", "g"]
    assert error.frames[-1][3] == "return torch.matmul(x, x)"
    assert as_kernel_error(error) is error
    assert user_frames(ValueError()) == []


def caught(function):
    with pytest.raises(Exception) as info:  # noqa: PT011 - the place matters, not the type
        function()
    return info.value


def test_a_defect_of_render_is_not_blamed_on_the_kernel():
    # An operation that fails inside RENDER, against what RENDER says on purpose and what the user's code raises.
    assert is_own_failure(caught(lambda: user_frames(None)))
    assert not is_own_failure(caught(lambda: load_module("nosuch.py")))
    assert not is_own_failure(caught(lambda: 1 / 0))
    assert not is_own_failure(caught(lambda: __import__("torch").zeros(2) @ __import__("torch").zeros(3)))
    assert not is_own_failure(ValueError())


def test_python_itself_is_a_tool_and_installed_packages_are_the_users():
    assert is_tool_file(json.__file__) and is_tool_file(json.decoder.__file__) and is_tool_file("<string>")
    assert is_tool_file(pytest.__file__)  # whoever raises its signals is the caller
    assert not is_tool_file(hypothesis.__file__) and not is_tool_file(__file__)


@pytest.mark.parametrize("way", ["sys.modules.clear()", "del sys.modules['sys']", "torch.manual_seed = None"])
def test_what_code_of_the_user_takes_away_is_given_back(way: str) -> None:
    modules, seeding = dict(sys.modules), torch.manual_seed
    with users_code("it", "help"):
        exec(way, {"sys": sys, "torch": torch})
    assert torch.manual_seed is seeding and all(sys.modules[name] is module for name, module in modules.items())


def test_a_module_of_the_user_may_be_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "of_the_user", ModuleType("of_the_user"))
    with users_code("it", "help"):
        del sys.modules["of_the_user"]
    assert "of_the_user" not in sys.modules


@pytest.mark.parametrize(("said", "hint"), [("gone.py:fn", "say gone.py::fn"), ("gone.py", "give the Python file")])
def test_a_name_in_a_file_is_written_with_two_colons(said: str, hint: str) -> None:
    with pytest.raises(RenderError) as stop:
        load_module(said)
    assert (stop.value.hint or "").startswith(hint)
