"""Kinds of bad input: a generator of files, references, inputs, options, environments and kernels that must end with a
clear line and the right exit code. Each kind is one thing gone wrong in an otherwise working command."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n\n"
KERNEL = """
@triton.jit
def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(y_ptr + offs, x * 2, mask=offs < n)

"""
ENTRY = """
def entry(x):
    y = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), BLOCK=16)
    return y

"""
INPUTS = "\ndef make_inputs():\n    return (torch.randn(32),)\n"
REFERENCE = "\ndef reference(x):\n    return x * 2\n"
GOOD = IMPORTS + KERNEL + ENTRY + INPUTS + REFERENCE
MODEL = "import torch\nmodel = torch.nn.Linear(3, 3)\nnum = 3\ndef make_inputs():\n    return (torch.randn(2, 3),)\n"
COMPARED = "\nx = torch.randn(32)\nassert torch.allclose(entry(x), reference(x))\n"
FAILURES = (
    "raise ValueError('no')", "raise KeyError('k')", "raise ImportError('i')", "raise NotImplementedError", "1 / 0",
    "undefined_name", "[][1]", "None.shape", "assert False", "raise SystemExit(0)", "raise SystemExit(3)",
    "import sys; sys.exit('bye')", "raise OSError(2, 'gone')", "raise RuntimeError('CUDA error: no kernel image')",
    "raise Exception", "raise StopIteration", "raise UnicodeDecodeError('utf8', b'x', 0, 1, 'bad')",
    "torch.zeros(3) @ torch.zeros(4)", "torch.zeros(2, 2).reshape(3)", "raise RecursionError", "int('x')",
)  # fmt: skip
"""Statements that fail, as users' code does."""
STRANGE = (
    "None", "5", "'text'", "object()", "[]", "{}", "(None,)", "{'zzz': torch.zeros(3)}", "lambda: 0", "torch.float32",
    "(torch.zeros(3), torch.zeros(3), torch.zeros(3))", "(x for x in ())", "{1: torch.zeros(3)}", "b'bytes'", "set()",
    "(torch.zeros(3).to_sparse(),)", "(torch.zeros(3, device='meta'),)", "float('nan')", "[[torch.zeros(2)]]", "type",
)  # fmt: skip
"""Values that are no inputs and no outputs."""


@dataclass(frozen=True)
class Kind:
    """One command: `files` by name, `arguments`, the exit codes that are right, and words that must be told; variables
    (None: not set), `streams` as a shell redirects them, `links` by name with what they lead to, named `pipes` that
    nobody writes to."""

    name: str
    arguments: tuple[str, ...]
    files: dict[str, str | bytes] = field(default_factory=dict)
    codes: tuple[int, ...] = (2,)
    words: tuple[str, ...] = ()
    environment: dict[str, str | None] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    streams: str = ""
    links: dict[str, str] = field(default_factory=dict)
    pipes: tuple[str, ...] = ()


def classify(name: str, text: str | bytes = GOOD, *arguments: str, codes: tuple[int, ...] = (2,), words: tuple[str, ...] = (),
             files: dict[str, str | bytes] | None = None, folders: tuple[str, ...] = ()) -> Kind:  # fmt: skip
    return Kind(name, ("classify", "k.py", *arguments), {"k.py": text, **(files or {})}, codes, words, {}, folders)


def kinds() -> Iterator[Kind]:
    """All of them, in a fixed order."""
    for group in _GROUPS:
        yield from group()


def _files() -> Iterator[Kind]:
    yield Kind("file: missing", ("classify", "nothing.py"), words=("no such file",))
    yield Kind("file: a folder", ("classify", "here"), folders=("here",))
    yield Kind("file: none", ("classify",))
    yield Kind("file: a device", ("classify", "/dev/null"))
    yield Kind("file: a dash", ("classify", "-"))
    yield Kind("file: an empty name", ("classify", ""))
    yield Kind("file: two, one missing", ("classify", "k.py", "l.py"), {"k.py": GOOD})
    texts: dict[str, str | bytes] = {
        "empty": "", "blank": "\n\n  \n", "comment": "# nothing\n", "binary": bytes(range(256)) * 8, "null": b"x = 1\0\n",
        "latin1": b"# \xe9\nx = 1\n", "unclosed": "def f(:\n", "indent": "def f():\nreturn 1\n", "tabs": "if 1:\n\tx = 1\n        y = 2\n",
        "python2": "print 'hello'\n", "json": '{"a": 1}', "only torch": IMPORTS, "kernel without a launcher": IMPORTS + KERNEL,
        "two launchers": IMPORTS + KERNEL + ENTRY + ENTRY.replace("entry", "other") + INPUTS + REFERENCE,
        "no inputs": IMPORTS + KERNEL + ENTRY + REFERENCE, "no reference": IMPORTS + KERNEL + ENTRY + INPUTS,
        "future": "from __future__ import nope\n", "encoding": "# -*- coding: nope -*-\n", "ipynb": '{"cells": []}',
        "missing package": "import a_package_that_is_not_there\n" + GOOD, "relative import": "from . import x\n" + GOOD,
        "missing name": "from torch import a_name_that_is_not_there\n" + GOOD, "star of nothing": "from nope import *\n" + GOOD,
    }  # fmt: skip
    for name, text in texts.items():
        yield classify(f"file: {name}", text)
    for k, failure in enumerate(FAILURES):
        yield classify(
            f"file: fails on import {k}",
            IMPORTS + failure + "\n" + KERNEL + ENTRY + INPUTS + REFERENCE,
            words=("k.py",),
        )


def _entries() -> Iterator[Kind]:
    for name in ("nothing", "scale", "torch", "1", "", "entry.x", "make_inputs", "a b", "__name__"):
        yield classify(f"entry: {name!r}", GOOD, "--entry", name)
    for k, failure in enumerate(FAILURES):
        body = ENTRY.replace("    y =", f"    {failure}\n    y =", 1)
        yield classify(f"launcher: fails {k}", IMPORTS + KERNEL + body + INPUTS + REFERENCE, words=("k.py",))
    yield classify(
        "launcher: launches nothing",
        IMPORTS + KERNEL + ENTRY.replace("    scale[", "    return x\n    scale[") + INPUTS + REFERENCE,
    )
    grids = ("0", "(0,)", "(-1,)", "(1.5,)", "'1'", "None", "(1, 1, 1, 1)", "()", "(1 << 70,)", "(1 << 40,)", "lambda: 1", "lambda m: m['NO']",
             "torch.tensor([])", "object()", "(None,)", "[[1]]")  # fmt: skip
    for grid in grids:
        text = GOOD.replace("(triton.cdiv(x.numel(), 16),)", grid, 1)
        # An empty grid stores nothing, which is a finding; so is a grid that is too small.
        yield classify(f"grid: {grid}", text, codes=(1, 2, 3))
    calls = ("x, y", "x, y, 3, 4, 5, BLOCK=16", "x, y, x.numel(), BLOCK=15", "x, y, x.numel(), BLOCK=0", "x, y, x.numel(), BLOCK=-16",
             "x, y, x.numel(), BLOCK='a'", "x, y, x.numel(), BLOCK=None", "x, y, x.numel(), BLOCK=1 << 40", "x, y, x.numel(), NOPE=1, BLOCK=16",
             "None, y, x.numel(), BLOCK=16", "'x', y, x.numel(), BLOCK=16", "x, y, 'n', BLOCK=16", "x, y, object(), BLOCK=16",
             "x, y, x.numel(), x.numel(), BLOCK=16", "x, y, n=x.numel(), BLOCK=16, block=3", "x.numpy(), y, 32, BLOCK=16", "[1], y, 32, BLOCK=16",
             "x, y, x.numel(), BLOCK=16, num_warps=3", "x, y, x.numel(), BLOCK=16, num_stages='x'", "x, y, x.numel(), BLOCK=16, maxnreg='x'",
             "x, y, x.numel(), BLOCK=torch.tensor(16)", "x, y, float('nan'), BLOCK=16", "x, y, 1 << 100, BLOCK=16")  # fmt: skip
    for call in calls:
        yield classify(f"call: {call}", GOOD.replace("x, y, x.numel(), BLOCK=16", call, 1), codes=(0, 1, 2, 3))


def _inputs() -> Iterator[Kind]:
    for k, failure in enumerate(FAILURES):
        yield classify(
            f"make_inputs: fails {k}",
            GOOD.replace("    return (torch.randn(32),)", f"    {failure}"),
            words=("make_inputs",),
        )
    for value in STRANGE:
        yield classify(f"make_inputs: returns {value}", GOOD.replace("(torch.randn(32),)", value))
    yield classify("make_inputs: takes an argument", GOOD.replace("make_inputs()", "make_inputs(n)"))
    yield classify("make_inputs: no function", GOOD.replace(INPUTS, "\nmake_inputs = 3\n"))
    specs = ("x", "x=", "=randn(3)", "x=randn", "x=randn(", "x=randn(3", "x=randn(a)", "x=randn(-1)", "x=randn(1.5)", "x=nope(3)", "x=randn(3):nope",
             "x=randn(3):", "x=randn()x", "y=randn(3)", "x=3.x", "x=[1,2", "x=import os", "x=__import__('os').system('touch canary')",
             "x=eval('1')", "x=randn(3):fp16:fp32", "x=randn(10**20)", "x=randn(3)+1", "x=open('canary','w')", "x y=randn(3)", "x=randn(3)::",
             "x=randint(3)", "x=randint(5,1,(3,))", "x=zeros", "x=(lambda: 1)()", "x='a", "")  # fmt: skip
    for spec in specs:
        yield classify(f"--input {spec!r}", GOOD, "--input", spec)
    yield classify("--input twice", GOOD, "--input", "x=randn(3)", "--input", "x=randn(4)")
    arrays = {"x": np.zeros(32, np.float32)}
    stored = io.BytesIO()
    np.savez(stored, **arrays)
    objects = io.BytesIO()
    np.savez(objects, x=np.array([{"a": 1}], dtype=object))
    evil = pickle.dumps(_Canary())
    contents: dict[str, bytes] = {
        "empty": b"", "text": b"hello", "half": stored.getvalue()[:60], "objects": objects.getvalue(), "pickle": evil,
        "json": json.dumps({"x": 1}).encode(), "zeros": bytes(4096), "header": (2**40).to_bytes(8, "little") + b"{}",
        "bad header": (8).to_bytes(8, "little") + b"notjson!", "wrong name": _saved({"zzz": np.zeros(3)}), "numbers": b"1 2 3\n",
    }  # fmt: skip
    for option in ("--inputs", "--output"):
        yield classify(f"{option}: missing", GOOD, option, "no.npz")
        yield classify(f"{option}: a folder", GOOD, option, "here", folders=("here",))
        for suffix in ("npz", "safetensors", "pt"):
            for name, content in contents.items():
                codes = (
                    (1, 2, 3) if (option, name) == ("--output", "wrong name") else (2,)
                )  # another shape is a finding
                files: dict[str, str | bytes] = {f"data.{suffix}": content}
                yield classify(f"{option}: {name}.{suffix}", GOOD, option, f"data.{suffix}", files=files, codes=codes)
        for suffix in ("npy", "txt", "csv", "pkl", "bin", "", "PY"):
            yield classify(f"{option}: .{suffix}", GOOD, option, f"data.{suffix}", files={f"data.{suffix}": b"x"})


class _Canary:
    """Leaves a file behind where somebody unpickles it."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return (open, ("canary", "w"))


def _saved(arrays: dict[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _references() -> Iterator[Kind]:
    for k, failure in enumerate(FAILURES):
        yield classify(
            f"reference: fails {k}", GOOD.replace("    return x * 2", f"    {failure}"), words=("reference",)
        )
    for value in STRANGE:
        # A number or an empty output cannot be matched, another shape is a finding.
        yield classify(f"reference: returns {value}", GOOD.replace("return x * 2", f"return {value}"), codes=(1, 2, 3))
    for args in ("", "a, b", "*, zzz", "x, y, z"):
        yield classify(
            f"reference: takes ({args})",
            GOOD.replace("def reference(x)", f"def reference({args})").replace("x * 2", "1"),
        )
    specs = ("nothing", "torch.nothing", "nothing.at.all", "torch", "os.getcwd", "k.py", "other.py::fn", "k.py::nothing", "k.py::", "::fn", ":", "a:b",
             "torch:nothing", "", " ", "torch.", ".torch", "torch..matmul", "torch.matmul()", "lambda", "lambda x", "lambda x:", "lambda: 1",
             "lambda x: nope(x)", "1", "None", "sys.exit", "builtins.exit", "os._exit", "k.py::make_inputs", "k.py::scale", "torch.nn.Linear", "x * ",
             "[]", "../k.py::reference", "k.py::reference::x", "math.pi", "torch.float32", "numpy.ndarray", "subprocess.Popen", "/", "é")  # fmt: skip
    for spec in specs:
        yield classify(
            f"--ref {spec!r}",
            GOOD,
            "--ref",
            spec,
            codes=(1, 2, 3) if spec in ("torch.nn.Linear", "numpy.ndarray", "k.py::scale") else (2,),
        )


def _options() -> Iterator[Kind]:
    values = {
        "--device": (
            "",
            "sm_81x",
            "cuda:0",
            "gpu",
            "SM80!",
            "sm_",
            "a1000",
            "1",
            "any;ieee",
            "../sm_80",
            "None",
            "sm_80.toml",
        ),
        "--sum-order": ("", "random", "Tree ", "1"),
        "--fp-contraction": ("", "maybe", "true"),
        "--triton-version": ("", "2.1", "9.9", "3", "x", "3.x", "-1", "3.9?!", "3.10", "4.0"),
        "--ref-precision": ("", "fp64", "bf16"),
        "--seed": ("", "x", "1.5", "1e3", "-", "0x10"),
        "--assume-exact": ("nothing_like_it", "", "torch.exp"),
        "--timeout": ("", "x", "1s"),
        "--memory-limit": ("", "x", "1GB"),
        "--configs": ("", "some", "-5", "1.5", "99"),
        "--explain-seconds": ("", "x"),
        "--json": ("here", "no/such/folder/x.json", "k.py", "mine.txt"),
        "--html": ("here", "no/such/folder/x.html", "k.py", "mine.txt"),
    }
    for option, given in values.items():
        for value in given:
            kind = classify(
                f"{option} {value!r}", GOOD, option, value, files={"mine.txt": "my notes"}, folders=("here",)
            )
            yield kind
        yield classify(f"{option} without a value", GOOD, option)
    for flag in (
        "--nope",
        "-x",
        "--devise=any",
        "--verbos",
        "--json=",
        "--quiet=yes",
        "--inputs",
        "--entry",
        "---",
        "--power=2",
    ):
        yield classify(f"flag {flag}", GOOD, flag)
    for command in ("nope", "clasify", "run", "report no.json", "explain", "explain RND000", "explain nothing", "explain no.json", "replay 99999999",
                    "replay x y z --nope", "ops --device nope", "report --format nope", "suite no_such_folder", "explain --check no.json"):  # fmt: skip
        yield Kind(f"command {command}", tuple(command.split()), codes=(0, 2) if command == "explain" else (2,))
    for name, text in {"garbage": "x", "array": "[]", "other": '{"schema": 1}', "newer": '{"schema": 99, "verdict": {}}', "null": "null",
                       "half": '{"schema": 1, "verdict": {"label": "Type-I"', "wrong types": '{"schema": 1, "verdict": 3}', "empty": ""}.items():  # fmt: skip
        for command in ("explain", "report", "explain --check"):
            yield Kind(f"{command}: {name}", (*command.split(), "r.json"), {"r.json": text})


def _kernels() -> Iterator[Kind]:
    bodies = {
        "undefined": "x = nope + 1", "string": "x = 'a' + offs", "try": "try:\n        x = 1\n    except Exception:\n        x = 2",
        "with": "with open('canary', 'w') as f:\n        pass", "lambda": "f = lambda a: a", "yield": "yield offs", "class": "class A:\n        pass",
        "import": "import os", "global": "global zz", "del": "del offs", "raise": "raise ValueError('x')", "comprehension": "x = [i for i in range(3)]",
        "dict": "x = {'a': 1}", "while tensor": "while offs < 3:\n        offs += 1", "if tensor": "if offs < 3:\n        offs += 1",
        "shape": "x = offs + tl.arange(0, 8)", "range": "x = tl.arange(0, 3)", "negative range": "x = tl.arange(4, 0)", "dot": "x = tl.dot(offs, offs)",
        "reshape": "x = tl.reshape(offs, (3, 3))", "cast": "x = offs.to(tl.nope)", "attribute": "x = tl.nothing(offs)", "store": "tl.store(3, 4)",
        "load": "x = tl.load(offs)", "float pointer": "x = tl.load(x_ptr + 1.5)", "torch": "x = torch.exp(offs)", "print": "print(offs, file=3)",
        "static_assert": "tl.static_assert(BLOCK == 3, 'no')", "device_assert": "tl.device_assert(offs < 0, 'no')", "asm": "x = tl.inline_asm_elementwise('nope', '=r,r', [offs], tl.int32, True, 1)",
        "axis": "x = tl.sum(offs, axis=7)", "program": "x = tl.program_id(5)", "reduce": "x = tl.reduce(offs, 0, None)", "sort": "x = tl.sort(offs, 4)",
        "too many": "x = tl.zeros((1 << 20, 1 << 20), tl.float32)", "endless": "while True:\n        x = 1", "recursion": "scale(x_ptr, y_ptr, n, BLOCK)",
        "outside": "tl.store(y_ptr + 4096 + offs, offs)", "negative address": "x = tl.load(x_ptr - 100000 + offs)", "never written": "x = tl.load(y_ptr + offs)",
        "division": "x = offs // 0", "shift": "x = offs << 99", "call": "x = n(3)", "subscript": "x = offs[3]", "keyword": "x = tl.exp(x=3, y=4)",
        "integer exp": "x = tl.exp(offs)", "unpack": "a, b = offs", "star": "x = tl.maximum(*offs)", "await": "x = await offs", "walrus": "if (k := 3): pass",
        "join": "x = tl.join(offs, tl.arange(0, 8))", "broadcast": "x = tl.broadcast_to(offs, (7,))", "where": "x = tl.where(offs, 1)", "view": "x = offs.view(7)",
    }  # fmt: skip
    for name, body in bodies.items():
        text = GOOD.replace("    x = tl.load(x_ptr + offs, mask", f"    {body}\n    x = tl.load(x_ptr + offs, mask", 1)
        yield classify(f"kernel: {name}", text, "--timeout", "40", codes=(0, 1, 2, 3))


def _environments() -> Iterator[Kind]:
    for name, value in {
        "HOME": "/no/such/place", "XDG_CACHE_HOME": "/proc/nothing", "TERM": "", "COLUMNS": "1", "NO_COLOR": "1", "LANG": "C", "LC_ALL": "POSIX",
        "TRITON_INTERPRET": "1", "TRITON_CACHE_DIR": "/proc/nothing", "CUDA_VISIBLE_DEVICES": "nope", "PYTHONOPTIMIZE": "2", "TMPDIR": "/no/such/place",
        "NUMBA_CACHE_DIR": "/proc/nothing", "PYTHONIOENCODING": "ascii", "OMP_NUM_THREADS": "0", "RENDER_FULL_TRACEBACK": "1", "TZ": "nope",
    }.items():  # fmt: skip
        yield Kind(f"environment: {name}={value}", ("classify", "k.py"), {"k.py": GOOD}, (0,), (), {name: value})
    bare: dict[str, str | None] = {"HOME": None, "XDG_CACHE_HOME": None, "LC_ALL": "C", "TERM": "dumb"}
    refused: dict[str, str] = {"NUMBA_DISABLE_JIT": "1", "NUMBA_NUM_THREADS": "0"}
    for name, environment in {
        "no home": bare,
        "COLUMNS=0": {"COLUMNS": "0"},
        "warnings": {"PYTHONWARNINGS": "error"},
    }.items():
        for command in (("classify", "k.py"), ("run", "-q", "s.py")):
            files = {"k.py": GOOD, "s.py": GOOD + COMPARED}
            yield Kind(f"environment: {command[0]}, {name}", command, files, (0,), ("RND100",), environment)
    for name, value in refused.items():
        yield Kind(f"environment: {name}={value}", ("classify", "k.py"), {"k.py": GOOD}, (2,), (name,), {name: value})


def _streams() -> Iterator[Kind]:
    """Streams that are closed, full, or whose reader has gone: 0, or 2 where the report cannot be written."""
    for command, reports in ((("classify", "k.py"), 1), (("run", "s.py"), 2)):
        for streams, full in {
            ">&-": 0, "2>&-": 0, ">&- 2>&- <&-": 0, ">/dev/full": 1, "2>/dev/full": 2, "| head -c 5 >/dev/null": 0,
            "2>&1 | head -n 1 >/dev/null": 0,
        }.items():  # fmt: skip
            files = {"k.py": GOOD, "s.py": GOOD + COMPARED}
            code = 2 if full == reports else 0
            yield Kind(f"streams: {command[0]} {streams}", command, files, (code,), (), {"COLUMNS": "80"}, (), streams)


def _paths() -> Iterator[Kind]:
    """Names that lead in circles, are too long, or are already somebody's; outputs of every command that writes any."""
    files: dict[str, str | bytes] = {"k.py": GOOD, "m.py": MODEL, "d.npz": _saved({"x": np.zeros(32, np.float32)})}
    commands = (
        "classify loop.json", "classify gone.json", "classify k.py --inputs loop.json", "classify k.py --json loop.json", "classify k.py --html link.py",
        "classify k.py --inputs d.npz --html d.npz", "classify k.py --json o.x --html o.x", f"classify {'a' * 5000}.py", f"classify k.py --json {'a' * 5000}",
        f"run {'a' * 5000}.py", "classify k.py --plot p.xyz", "classify k.py --save-repro k.py", "classify no\nsuch.py", "classify-model m.py::model --json m.py",
        "classify-model no.py::m", "classify-model m.py::num --ref m.py::model", "classify-model m.py::model.nope", "demote k.py --atol 1 --json k.py",
        "demote k.py --atol 1 --output k.py", "accum k.py --json k.py", "dual-delta k.py --json k.py", "evidence k.py --json k.py", "suite k.py --json k.py",
        "suite k.py --junit k.py", "sweep k.py --html k.py", "replay all --json no/such/x.json", "replay all --json k.py", "record k.py -o k.py", "record k.py -o no/x.safetensors",
        "report k.py -o k.py", "run --json k.py k.py", "run -m no_such_module", "run -m .rel", "classify k.py::entry", "classify https://example.com/k.py",
    )  # fmt: skip
    for command in commands:
        links = {"loop.json": "loop.json", "gone.json": "nowhere", "link.py": "k.py"}
        name = command.replace("a" * 5000, "a...")
        yield Kind(f"paths: {name!r}", tuple(command.split(" ")), files, links=links)


def _numbers() -> Iterator[Kind]:
    """Numbers that are none, or that no library takes; expressions that no parser does."""
    for seed in ("nan", "9" * 26, "18446744073709551616", "-9223372036854775809"):
        yield classify(f"--seed {seed} is no seed", GOOD, "--seed", seed)
    yield classify("--seed -1", GOOD, "--seed", "-1", codes=(0,))
    for option in ("--timeout", "--memory-limit"):
        for value in ("nan", "inf", "-inf", "1e400", "0x5"):
            yield classify(f"{option} {value} is no limit", GOOD, option, value)
    yield classify("--timeout 1e30", GOOD, "--timeout", "1e30", codes=(0,))
    for part in ("0", "-1", "101%", "0%", "nan%", "%"):
        yield classify(f"--programs {part}", GOOD, "--programs", part)
    for spec in ("(" * 3000, "-" * 5000 + "1", "9" * 6000, "full((32,),'a')", "ones(2**62)"):
        yield classify(f"--input x={spec[:20]} and so on", GOOD, "--input", f"x={spec}")
        yield classify(f"--ref {spec[:20]} and so on", GOOD, "--ref", spec)


def _tensors() -> Iterator[Kind]:
    """Files of tensors whose header lies, or that hold what no kernel reads."""
    fact = {"dtype": "F32", "shape": [32], "data_offsets": [0, 128]}
    headers: dict[str, tuple[object, int]] = {
        "short": ({"x": fact}, 3), "overlapping": ({"x": fact, "y": fact}, 128), "huge": ({"x": {**fact, "shape": [1 << 40, 1 << 40]}}, 128),
        "negative": ({"x": {**fact, "shape": [-32]}}, 128), "unknown dtype": ({"x": {**fact, "dtype": "Q7"}}, 128), "a list": ([1], 0),
        "backwards": ({"x": {**fact, "data_offsets": [128, 0]}}, 128), "metadata": ({"__metadata__": 3, "x": fact}, 128), "nothing": ({}, 0),
        "no recording": ({"__metadata__": {"format": "x"}, "x": fact}, 128),
    }  # fmt: skip
    for option in ("--inputs", "--output", "--recording"):
        for name, (header, size) in headers.items():
            if name != "no recording" or option == "--recording":
                content = _headed(header, size)
                yield classify(f"{option}: {name}", GOOD, option, "d.safetensors", files={"d.safetensors": content})
    for name, facts in {"no facts": "", "a list": "[]", "no hashes": "{}", "hashes in a list": '{"sha256": []}', "wrong hash": '{"sha256": {"input.x": "beef"}}',
                        "null": "null"}.items():  # fmt: skip
        content = _headed({"__metadata__": {"format": "render recording 1", "facts": facts}, "input.x": fact}, 128)
        yield classify(f"recording: {name}", GOOD, "--recording", "d.safetensors", files={"d.safetensors": content})
    strange = {"sparse": torch.zeros(32).to_sparse(), "meta": torch.zeros(32, device="meta"), "bomb": _Canary(), "a module": torch.nn.Linear(2, 2)}  # fmt: skip
    for name, value in strange.items():
        stored = io.BytesIO()
        torch.save({"x": value}, stored)
        for option in ("--inputs", "--output"):
            yield classify(f"{option}: {name}.pt", GOOD, option, "d.pt", files={"d.pt": stored.getvalue()})


def _headed(header: object, size: int) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(size)


def _ends() -> Iterator[Kind]:
    """Ways to end a function of the user's that no `except Exception` catches, and messages that nobody can print."""
    ways = {
        "BaseException": "raise BaseException('b')", "GeneratorExit": "raise GeneratorExit", "cancelled": "import asyncio; raise asyncio.CancelledError",
        "skipped": "import pytest; pytest.skip('s')", "a group": "raise ExceptionGroup('g', [ValueError('v')])", "long": "raise ValueError('x' * 1000000)",
        "unprintable": "\n    class E(Exception):\n        def __str__(self): raise ValueError\n    raise E", "surrogate": "raise ValueError('\\udc80')",
    }  # fmt: skip
    for name, way in ways.items():
        yield classify(f"reference: ends by {name}", GOOD.replace("    return x * 2", f"    {way}"), words=("k.py",))
        text = GOOD.replace("    return (torch.randn(32),)", f"    {way}")
        yield classify(f"make_inputs: ends by {name}", text, words=("k.py",))
        text = IMPORTS + KERNEL + ENTRY.replace("    y =", f"    {way}\n    y =", 1) + INPUTS + REFERENCE
        yield classify(f"launcher: ends by {name}", text, words=("k.py",))
    for name in ("reference", "make_inputs", "entry"):
        yield classify(f"{name}: async", GOOD.replace(f"def {name}", f"async def {name}"))


def _pipes() -> Iterator[Kind]:
    """Names of what is no file, where a file is meant: it must not be waited for."""
    commands = (
        "classify p.py", "run p.py", "suite p.py", "sweep p.py", "accum p.py", "classify-model p.py::m", "classify k.py --ref p.py::fn",
        "classify k.py --inputs p.npz", "classify k.py --inputs p.pt", "classify k.py --inputs p.safetensors", "classify k.py --output p.npz",
        "classify k.py --recording p.safetensors", "classify k.py --json p.json", "classify k.py --html p.html", "classify k.py --plot p.png",
        "explain p.json", "report p.json", "explain --check p.json", "record p.py -o x.safetensors", "demote p.py --atol 1",
    )  # fmt: skip
    for command in commands:
        words = tuple(command.split())
        pipe = next(word.partition("::")[0] for word in words if word.startswith("p."))
        yield Kind(f"a pipe: {command}", words, {"k.py": GOOD}, pipes=(pipe,))
    for command in ("classify /dev/zero", "run /dev/zero", "report /dev/zero", "classify k.py --json /dev/full", "classify k.py --html /dev/full",
                    "classify k.py --html -", "classify k.py --plot -", "classify k.py --json - --html -", "suite k.py --junit -",
                    "classify k.py --save-repro /proc/x", "classify k.py --save-repro /dev/full", "classify k.py --device sm_80,nope",
                    "classify k.py --device all,nope", "classify k.py --device ,", "classify k.py --device sm_80;sm_90"):  # fmt: skip
        yield Kind(f"no file: {command}", tuple(command.split()), {"k.py": GOOD})


def _encodings() -> Iterator[Kind]:
    """Texts that are Python in another encoding, or in none; names that a shell has to quote."""
    text = GOOD.encode()
    texts: dict[str, tuple[bytes, tuple[int, ...]]] = {
        "byte order mark": (b"\xef\xbb\xbf" + text, (0,)), "carriage returns": (text.replace(b"\n", b"\r\n"), (0,)),
        "declared latin-1": (b"# -*- coding: latin-1 -*-\n# \xe9\n" + text, (0,)), "no last newline": (text.rstrip(), (0,)),
        "form feed": (b"\f\n" + text, (0,)), "letters": (GOOD.replace("scale", "ské").encode(), (0,)), "utf-16": (GOOD.encode("utf-16"), (2,)),
        "deep": (b"x = " + b"(" * 5000 + b")" * 5000, (2,)), "long number": (b"x = " + b"9" * 10000, (2,)),
        "zero width": (GOOD.replace("def entry", "def\u200bentry").encode(), (2,)), "null": (text.replace(b"return y", b"return \0y"), (2,)),
    }  # fmt: skip
    for name, (content, codes) in texts.items():
        yield classify(f"encoding: {name}", content, codes=codes)
    yield Kind("encoding: sweep of undeclared latin-1", ("sweep", "k.py"), {"k.py": b"# \xe9\n" + text})
    for file in ("a b.py", "-k.py", "a\nb.py", "é.py", "'.py", "$x.py", "*.py"):
        yield Kind(f"name: {file!r}", ("classify", "--", file), {file: GOOD}, (0,))


def _processes() -> Iterator[Kind]:
    """User code that ends the process, closes its streams or takes away what the command stands on: told, or no matter;
    never a green exit without a verdict."""
    here: dict[str, str | None] = {"COLUMNS": "80"}
    ways: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
        "os._exit(0)": ((2,), ("k.py",)), "os._exit(3)": ((2,), ("k.py",)), "sys.exit(0)": ((2,), ("k.py",)), "os.abort()": ((-6,), ("k.py",)),
        "os.kill(os.getpid(), 11)": ((-11,), ("k.py",)), "os.close(1)": ((0,), ()), "os.close(2)": ((0,), ()), "sys.stdout.close()": ((0,), ()),
        "sys.stderr.close()": ((0, 2), ()), "sys.stdout = None": ((0,), ("RND100",)), "sys.stderr = None": ((0,), ("RND100",)),
        "sys.path.clear()": ((0,), ("RND100",)), "sys.setrecursionlimit(90)": ((0, 2), ()), "os.chdir('/')": ((0,), ("RND100",)),
        "os.environ.clear()": ((0,), ("RND100",)), "os.fork() or os._exit(0)": ((0,), ("RND100",)), "raise KeyboardInterrupt": ((130,), ("interrupted",)),
    }  # fmt: skip
    for way, (codes, words) in ways.items():
        first = IMPORTS.replace("import torch\n", "import os\nimport sys\nimport torch\n", 1)
        for place in ("import", "reference"):
            head = f"{first}{way}\n" if place == "import" else first
            body = REFERENCE if place == "import" else REFERENCE.replace("    return", f"    {way}\n    return")
            text = head + KERNEL + ENTRY + INPUTS + body
            yield Kind(f"process: {place}, {way}", ("classify", "k.py"), {"k.py": text}, codes, words, here)
    for name, value in {
        "TORCH_LOGS": "nope",
        "NUMBA_OPT": "x",
        "NUMBA_DISABLE_JIT": "x",
        "TRITON_OVERRIDE_ARCH": "nope",
    }.items():
        yield Kind(f"process: {name}={value}", ("classify", "k.py"), {"k.py": GOOD}, (2,), (), {name: value})
    for name, value in {
        "NUMBA_CPU_NAME": "nope", "NUMBA_THREADING_LAYER": "nope", "NUMBA_BOUNDSCHECK": "1", "NUMBA_NUM_THREADS": "100000", "TRITON_DEFAULT_BACKEND": "nope",
        "TRITON_F32_DEFAULT": "junk", "TRITON_HOME": "/dev/null", "TRITON_INTERPRET": "junk",  "OMP_NUM_THREADS": "abc",
        "MKL_NUM_THREADS": "x", "KMP_AFFINITY": "junk",
    }.items():  # fmt: skip
        yield Kind(f"process: {name}={value}", ("classify", "k.py"), {"k.py": GOOD}, (0,), ("RND100",), {name: value})


_GROUPS = (
    _files, _entries, _inputs, _references, _options, _kernels, _environments, _streams, _paths, _numbers, _tensors, _ends,
    _pipes, _encodings, _processes,
)  # fmt: skip
