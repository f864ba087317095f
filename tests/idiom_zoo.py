"""Scripts drawn from the ways in which people write a kernel, launch it, compare its result and keep their files.

A script is one form of each of four axes (`idioms`); all of them compute `2 x + 1`, its wrong twin `2.5 x + 1`. Lengths
of the axes differ, so that forms meet in ever new pairs; every form is there at least once.
"""

# ruff: noqa: E501
from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from textwrap import dedent, indent

from render.front.script import invocation, run
from render.front.watch import Watch
from render.result.options import Options
from render.result.verdict import Verdict

COUNT = 40
RIGHT, WRONG = "2.0", "2.5"
HEAD = "import torch\nimport triton\nimport triton.language as tl\n"
BODY = """\
i = tl.program_id(0) * B + tl.arange(0, B)
x = tl.load(x_ptr + i, mask=i < n)
y = x * FACTOR + 1.0
tl.store(y_ptr + i, y, mask=i < n)
"""
DEF = "def kernel(x_ptr, y_ptr, n, B: tl.constexpr):\n" + indent(BODY, "    ")
CALL = "KERNEL[(triton.cdiv(n, 64),)](x, y, n, B=64)"


@dataclass(frozen=True)
class Form:
    """One way of doing it: the text of a file, how it is told; `refused`: words of the reason, if it is refused."""

    told: str
    text: str = ""
    refused: str = ""
    tuned: bool = False
    """`B` is chosen by a tuner or a heuristic."""


def _jitted(decorators: str = "@triton.jit", before: str = "", after: str = "KERNEL = kernel\n") -> str:
    return f"{before}{decorators}\n{DEF}\n{after}"


KERNELS = [
    Form("@triton.jit", _jitted()),
    Form("@triton.jit(do_not_specialize=...)", _jitted('@triton.jit(do_not_specialize=["n"])')),
    Form("@triton.autotune", _jitted(
        '@triton.autotune([triton.Config({"B": b}) for b in (64, 128)], key=["n"])\n@triton.jit'), tuned=True),
    Form("autotune with pruning over heuristics", _jitted(
        '@triton.autotune([triton.Config({}, num_warps=w) for w in (2, 4)], key=["n"], '
        'prune_configs_by={"early_config_prune": lambda configs, named, **rest: configs[:1]})\n'
        '@triton.heuristics({"B": lambda args: 64})\n@triton.jit'), tuned=True),
    Form("a static method of a class", "class Ops:\n    @staticmethod\n    @triton.jit\n" + indent(DEF, "    ")
         + "\nKERNEL = Ops.kernel\n"),
    Form("made by a factory", f"def make():\n    @triton.jit\n{indent(DEF, '    ')}\n    return kernel\nKERNEL = make()\n"),
    Form("triton.jit(function), no decorator", f"{DEF}\nKERNEL = triton.jit(kernel)\n"),
    Form("written to a file and imported", dedent('''\
        import importlib.util, pathlib, tempfile
        path = pathlib.Path(tempfile.mkdtemp()) / "generated.py"
        path.write_text("""import triton\\nimport triton.language as tl\\n@triton.jit\\n''') + DEF
         + '""")\nspec = importlib.util.spec_from_file_location("generated", path)\n'
         "module = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(module)\nKERNEL = module.kernel\n"),
    Form("with an activation out of a registry", (
        "ACTS = {}\ndef register(f):\n    ACTS[f.__name__] = triton.jit(f)\n    return ACTS[f.__name__]\n"
        "@register\ndef affine(x):\n    return x * FACTOR + 1.0\n"
        "@triton.jit\ndef inner(x_ptr, y_ptr, n, ACT: tl.constexpr, B: tl.constexpr):\n"
        + indent(BODY.replace("x * FACTOR + 1.0", "ACT(x)"), "    ")
        + "\nclass Bound:\n    def __getitem__(self, grid):\n"
        "        return lambda x, y, n, B: inner[grid](x, y, n, ACTS['affine'], B)\nKERNEL = Bound()\n")),
    Form("a helper with noinline", (
        "@triton.jit(noinline=True)\ndef one(n):\n    return 1.0 + 0 * n\n@triton.jit\n"
        + DEF.replace("+ 1.0", "+ one(n)") + "\nKERNEL = kernel\n")),
    Form("behind a decorator of one's own", _jitted("@counted\n@triton.jit", (
        "import functools\nclass counted:\n    def __init__(self, kernel):\n        self.inner, self.calls = kernel, 0\n"
        "        functools.update_wrapper(self, kernel)\n    def __getitem__(self, grid):\n        self.calls += 1\n"
        "        return self.inner[grid]\n"))),
    Form("block pointers", (
        "@triton.jit\ndef kernel(x_ptr, y_ptr, n, B: tl.constexpr):\n    start = tl.program_id(0) * B\n"
        "    xs = tl.make_block_ptr(x_ptr, (n,), (1,), (start,), (B,), (0,))\n"
        "    ys = tl.make_block_ptr(y_ptr, (n,), (1,), (start,), (B,), (0,))\n    x = tl.load(xs, boundary_check=(0,))\n"
        "    y = x * FACTOR + 1.0\n    tl.store(ys, y, boundary_check=(0,))\nKERNEL = kernel\n")),
    Form("a constexpr of the module", _jitted(before="ONE = tl.constexpr(1.0)\n").replace("+ 1.0", "+ ONE")),
    Form("device functions of libdevice", _jitted(
        before="from triton.language.extra import libdevice\n").replace("x * FACTOR", "libdevice.abs(x) * FACTOR")),
    Form("a while loop over blocks", (
        "@triton.jit\ndef kernel(x_ptr, y_ptr, n, B: tl.constexpr):\n    start = tl.program_id(0) * B\n"
        "    while start < n:\n        i = start + tl.arange(0, B)\n        x = tl.load(x_ptr + i, mask=i < n)\n"
        "        y = x * FACTOR + 1.0\n        tl.store(y_ptr + i, y, mask=i < n)\n"
        "        start += tl.num_programs(0) * B\nKERNEL = kernel\n")),
    Form("single-instruction PTX with a rule", _jitted().replace("x * FACTOR", (
        'tl.inline_asm_elementwise("ex2.approx.f32 $0, $1;", "=f,f", [tl.log2(x)], tl.float32, True, 1) * FACTOR'))),
    Form("PTX without a rule", _jitted().replace("x * FACTOR", (
        'tl.inline_asm_elementwise("lg2.approx.f32 $0, $1; testp.finite.f32 p, $1;", "=f,f", [x], tl.float32, True, 1)'
        " * FACTOR")), refused="inline_asm_elementwise"),
    Form("Gluon", (
        "from triton.experimental import gluon\nfrom triton.experimental.gluon import language as gl\n@gluon.jit\n"
        "def kernel(x_ptr, y_ptr, n, B: gl.constexpr):\n"
        "    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])\n"
        "    i = gl.program_id(0) * B + gl.arange(0, B, layout=layout)\n"
        "    x = gl.load(x_ptr + i, mask=i < n)\n    gl.store(y_ptr + i, x * FACTOR + 1.0, mask=i < n)\nKERNEL = kernel\n")),
]  # fmt: skip


def _function(body: str, before: str = "", after: str = "") -> str:
    return f"{before}def run(x):\n    n, y = x.numel(), torch.empty_like(x)\n{indent(dedent(body), '    ')}    return y\n{after}"


LAUNCHES = [
    Form("kernel[grid] (...)", _function(f"{CALL}\n")),
    Form("a grid that is a lambda of META", _function('KERNEL[lambda META: (triton.cdiv(n, META["B"]),)](x, y, n, B=64)\n')),
    Form("nn.Module", _function("Layer()(x, y, n)\n", (
        f"class Layer(torch.nn.Module):\n    def forward(self, x, y, n):\n        {CALL}\n        return y\n"))),
    Form("autograd.Function.apply", (
        f"class Op(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        f"        n, y = x.numel(), torch.empty_like(x)\n        {CALL}\n        return y\n"
        "    @staticmethod\n    def backward(ctx, dy):\n        return 2 * dy\nrun = Op.apply\n")),
    Form("functools.partial", "from functools import partial\n" + _function(f"{CALL}\n").replace("run(x)", "launch(scale, x)")
         + "run = partial(launch, 1.0)\n"),
    Form("an object with __call__", "class Runner:\n" + indent(_function(f"{CALL}\n").replace("run(x)", "__call__(self, x)"), "    ")
         + "run = Runner()\n"),
    Form("torch.library.custom_op", _function(f"{CALL}\n").replace("def run(x)", (
        '@torch.library.custom_op("idioms::affine", mutates_args=())\ndef run(x: torch.Tensor) -> torch.Tensor'))),
    Form("torch.library.triton_op", _function(f"{CALL}\n").replace("KERNEL[", "wrapped[").replace(
        "def run(x)", 'wrapped = torch.library.wrap_triton(KERNEL) if isinstance(KERNEL, triton.KernelInterface) else KERNEL\n'
        '@torch.library.triton_op("idioms::wrapped", mutates_args=())\ndef run(x: torch.Tensor) -> torch.Tensor')),
    Form("torch.compile around it", _function(f"{CALL}\n").replace("def run", "@torch.compile\ndef run")),
    Form("warmup, then the launch", _function(
        f"if hasattr(KERNEL, 'warmup'):\n    KERNEL.warmup(x, y, n, B=64, grid=(1,))\n{CALL}\n")),
    Form("a CUDA graph that is replayed", _function(f"""\
        {CALL}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            {CALL}
        y.zero_()
        graph.replay()
        """)),
    Form("a stream, events and a device context", _function(f"""\
        s, e = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
        with torch.cuda.device(x.device), torch.cuda.stream(s):
            e.record()
            {CALL}
        torch.cuda.current_stream().wait_stream(s)
        torch.cuda.synchronize()
        """)),
    Form("an out= argument", "def into(x, out):\n    n, y = x.numel(), out\n    " + CALL + "\n" + _function("into(x, out=y)\n")),
    Form("a thread pool", "from concurrent.futures import ThreadPoolExecutor\n" + _function(
        f"def work():\n    {CALL}\nwith ThreadPoolExecutor(1) as pool:\n    pool.submit(work).result()\n")),
    Form("chunk by chunk, on views", _function(
        "whole, result = x, y\nfor x, y in zip(whole.split(100), result.split(100)):\n    n = x.numel()\n    "
        f"{CALL}\ny = result\n")),
    Form("a generator", "def launches(x, y, n):\n    yield y\n    " + CALL + "\n    yield y\n"
         + _function("*_, y = launches(x, y, n)\n")),
    Form("under inference_mode and autocast", _function(
        f'with torch.inference_mode(), torch.autocast("cuda", dtype=torch.float16):\n    {CALL}\n')),
    Form("launch options as keywords", _function(
        "KERNEL[(triton.cdiv(n, 64), 1, 1)](x, y, n, B=64, **OPTIONS)\n", "OPTIONS = dict(num_warps=4, num_stages=2)\n")),
    Form("a benchmark around it", _function(f"do = lambda: {CALL}\ntriton.testing.do_bench(do, warmup=1, rep=1)\ndo()\n")),
]  # fmt: skip

CHECKS = [
    Form("torch.allclose", "print(torch.allclose(out, ref))\n"),
    Form("torch.testing.assert_close", "torch.testing.assert_close(out, ref, rtol=1e-1, atol=10.0)\n"),
    Form("the largest difference printed", "print((out - ref).abs().max())\n"),
    Form("a relative error by item()", "print(((out - ref).norm() / ref.norm()).item() < 1e-3)\n"),
    Form("numpy.testing", "import numpy as np\nnp.testing.assert_allclose(out.cpu().numpy(), ref.cpu().numpy(), atol=10)\n"),
    Form("numbers of both sides", "print(abs(out.sum().item() - ref.sum().item()) < 1e-3)\n"),
    Form("pytest.approx of lists", "import pytest\nprint(out[:9].tolist() == pytest.approx(ref[:9].tolist(), rel=1e-3))\n"),
    Form("unittest", ("import unittest\nclass Test(unittest.TestCase):\n    def test(self):\n"
                      "        self.assertLess((out - ref).abs().max().item(), 10.0)\nunittest.TextTestRunner().run(Test('test'))\n")),
    Form("math.isclose of floats", "import math\nprint(math.isclose(float(out.sum()), float(ref.sum()), rel_tol=1e-3))\n"),
    Form("a cosine similarity", "print(torch.nn.functional.cosine_similarity(out, ref, dim=0))\n"),
    Form("isclose, counted", "print((~torch.isclose(out, ref)).sum())\n"),
    Form("a function of one's own", ("def check(name, a, b):\n    bad = (a - b).abs() > 1e-3\n"
                                     "    print(name, int(bad.sum()), 'wrong')\ncheck('affine', out, ref)\n")),
    Form("an f-string with several statistics", "d = (out - ref).abs()\nprint(f'{d.max():.1e} {d.mean():.1e}')\n"),
]  # fmt: skip

Files = Mapping[str, str]
Laid = tuple[Files, tuple[str, ...], bool]
"""Files by name, the words behind `render run`, whether they begin with -m."""


def _split(source: str) -> tuple[str, str]:
    """A module with kernel and launcher, and the rest that compares."""
    at = source.index("# check\n")
    return source[:at], source[at:]


def _tested(source: str) -> Laid:
    module, check = _split(source)
    return (
        {"test_it.py": module + "def test_it():\n" + indent(check, "    ")},
        ("pytest", "-q", "-p", "no:cacheprovider", "test_it.py"),
        False,
    )


def _packaged(source: str) -> Laid:
    module, check = _split(source)
    files = {
        "idiompkg/__init__.py": "",
        "idiompkg/ops.py": module,
        "idiompkg/check.py": HEAD + "from .ops import run\n" + check,
    }
    return files, ("idiompkg.check",), True


def _notebook(source: str) -> Laid:
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": part}
             for part in _split(source)]  # fmt: skip
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return {"book.ipynb": json.dumps(book)}, ("book.ipynb",), False


def _beside(source: str) -> Laid:
    module, check = _split(source)
    main = (
        "import sys, os\nsys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'lib'))\n"
        + HEAD
        + "from idiomlib import run\n"
    )
    return {"lib/idiomlib.py": module, "main.py": main + check}, ("main.py",), False


def _guarded(source: str) -> Laid:
    module, check = _split(source)
    text = module + ("import argparse\ndef main():\n    p = argparse.ArgumentParser()\n    p.add_argument('--m', type=int, default=9)\n"
                     "    m = p.parse_args().m\n" + indent(check.replace("300", "m"), "    ") + "if __name__ == '__main__':\n    main()\n")  # fmt: skip
    return {"my script.py": text}, ("my script.py", "--m", "130"), False


LOADS: list[tuple[str, Callable[[str], Laid]]] = [
    ("a script", lambda source: ({"script.py": source}, ("script.py",), False)),
    ("pytest", _tested),
    ("python -m package.module", _packaged),
    ("a notebook", _notebook),
    ("a module beside the script", _beside),
    ("main() with arguments", _guarded),
]


@dataclass(frozen=True)
class Idiom:
    """Four forms together."""

    kernel: Form
    launch: Form
    check: Form
    load: tuple[str, Callable[[str], Laid]]

    @property
    def refused(self) -> str:
        return self.kernel.refused

    def __str__(self) -> str:
        return "; ".join((self.kernel.told, self.launch.told, self.check.told, self.load[0]))

    def laid_out(self, factor: str) -> Laid:
        launch = self.launch.text
        if self.kernel.tuned:
            launch = launch.replace(", B=64", "")
        source = f"{HEAD}{self.kernel.text.replace('FACTOR', factor)}\n{launch}\n# check\n"
        source += 'torch.manual_seed(0)\nx = torch.rand(300, device="cuda") + 0.5\nout = run(x)\nref = 2 * x + 1\n'
        return self.load[1](source + self.check.text)


def idioms(count: int = COUNT) -> Iterator[Idiom]:
    """The k-th takes the k-th form of each axis, over and over; longer axes first, so that every form is met.

    Without those that Triton refuses: an autotuned kernel has its number of warps from its configuration.
    """
    axes = [KERNELS, LAUNCHES, CHECKS, LOADS]
    every = (Idiom(*(axis[k % len(axis)] for axis in axes)) for k in range(10**6))  # type: ignore[misc,arg-type]
    possible = (i for i in every if "autotune" not in i.kernel.told or "num_warps" not in i.launch.text)
    yield from islice(possible, count)


@dataclass(frozen=True)
class Ran:
    """What `render run` said of an idiom: labels of its comparisons, the line of code it blames, why it was refused."""

    labels: tuple[str, ...]
    line: str
    refused: str


def ran(one: Idiom, factor: str, folder: Path) -> Ran:
    """Runs it in this process, in an empty folder that is the working one."""
    files, words, module = one.laid_out(factor)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    before = set(sys.modules)
    try:
        with Watch(Options(budget=False)) as watch:
            ended = run(invocation(words, module))
    finally:
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in ("idiompkg", "idiomlib", "test_it", "generated"):
                del sys.modules[name]
    verdicts = [found.verdict for found in watch.comparisons if found.verdict is not None]
    blamed = next((_line(v, files, folder) for v in verdicts if v.label == "Type-II"), "")
    why = [str(found.error) for found in watch.comparisons if found.error is not None]
    why += [str(ended.error)] if ended.error is not None else []
    return Ran(tuple(v.label for v in verdicts), blamed, why[0] if why else "")


def _line(verdict: Verdict, files: Files, folder: Path) -> str:
    file = verdict.file or ""
    if "#cell" in file:
        text = json.loads(files["book.ipynb"])["cells"][int(file.rpartition("#cell")[2]) - 1]["source"]
    else:
        text = (folder / file).read_text()
    return str(text.splitlines()[verdict.line - 1]).strip()


def every_form_is_met() -> bool:
    met = list(idioms())
    fields = zip_longest([KERNELS, LAUNCHES, CHECKS, LOADS], ["kernel", "launch", "check", "load"])
    return all({id(form) for form in axis} == {id(getattr(one, name)) for one in met} for axis, name in fields)
