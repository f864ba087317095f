"""GPU-only Python is imported and runs on a machine without a GPU, in every kind of host."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
import threading

import pytest
import torch
import triton
import triton.language as tl

import render
from render.interpreter.no_gpu import launching
from render.interpreter.session import Session, innermost

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")

LIBRARY = """
import torch, triton
import triton.language as tl

assert torch.cuda.is_available()
DEVICE = triton.runtime.driver.active.get_active_torch_device()
ARCH = torch.cuda.get_device_capability()
SMS = torch.cuda.get_device_properties(DEVICE).multi_processor_count
STREAM = torch._C._cuda_getCurrentRawStream
TABLE = torch.arange(8.0, device=DEVICE)

@triton.autotune([triton.Config({"B": 8})], key=["n", "no_argument"])
@triton.jit
def _double(out, x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

def double(x):
    assert x.is_cuda and x.device == DEVICE, x.device
    out = torch.empty_like(x)
    with torch.cuda.device(x.device.index):
        _double[lambda meta: (triton.cdiv(x.numel(), meta["B"]),)](out, x, x.numel())
    return out

WARM = double(TABLE)
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    (tmp_path / "a_gpu_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda: importlib.import_module("a_gpu_library")
    sys.modules.pop("a_gpu_library", None)


def snapshot():
    owners = (torch, torch.cuda, torch._C, torch.Tensor, torch.version, triton.runtime.JITFunction, triton.testing)
    return {(str(owner), k): v for owner in owners for k, v in vars(owner).items() if k != "_dynamo"}


def test_a_library_is_imported_and_runs(library):
    with render.no_gpu("sm_90"):
        module = library()
        x = torch.arange(5.0, device="cuda")
        y = module.double(x)
        assert y.is_cuda and y.tolist() == [0, 2, 4, 6, 8]
        assert module.ARCH == (9, 0) and module.WARM.tolist() == (2 * module.TABLE).tolist()
    assert torch.equal(y, 2 * x) and not y.is_cuda
    with render.no_gpu(), pytest.raises(AssertionError):
        library().double(torch.zeros(2, device="meta"))


def test_everything_is_restored_also_after_an_exception(library):
    before = snapshot()
    with pytest.raises(KeyError), render.no_gpu():
        library().double(x={}["no argument"])
    after = snapshot()
    assert {k for k in before if before[k] is not after.get(k)} == set()
    assert {k for k in after.keys() - before.keys() if "cuda_" in k[1]} == set()


def test_scopes_nest_and_one_may_be_entered_twice(library):
    scope = render.no_gpu("gfx942")
    with scope:
        with scope:
            assert torch.version.hip
        assert torch.cuda.get_device_capability() == (9, 4)
        with render.no_gpu("sm_80"):
            assert torch.cuda.get_device_capability() == (8, 0)
        assert library().double(torch.ones(3, device="cuda")).tolist() == [2, 2, 2]
    assert not torch.cuda.is_available()


def test_as_a_decorator(library):
    @render.no_gpu()
    def run(n):
        return library().double(torch.ones(n, device="cuda"))

    assert run(2).tolist() == [2, 2] and run(3).tolist() == [2, 2, 2]


def test_an_open_session_keeps_its_launches(library):
    with Session() as session, render.no_gpu():
        library().double(torch.ones(3, device="cuda"))
    assert len(session.launches) == 2
    with render.no_gpu(), Session() as session:
        sys.modules.pop("a_gpu_library")
        library().double(torch.ones(3, device="cuda"))
    assert len(session.launches) == 2


def test_a_session_around_takes_the_launches():
    with launching("any"):
        around = innermost()
        assert around is not None
    assert innermost() is None
    with Session() as session, launching("any"):
        assert innermost() is session


def test_classify_inside(library):
    with render.no_gpu():
        module = library()
        verdict = render.classify(module.double, torch.ones(3, device="cuda"), ref=lambda x: 2 * x)
    assert verdict.label == "Type-I"


def test_a_wild_access_is_told():
    @triton.jit
    def wild(out):
        tl.store(out + 10_000_000, 1.0)

    with render.no_gpu(), pytest.warns(RuntimeWarning, match="RND207"):
        wild[(1,)](torch.zeros(2, device="cuda"))


def test_an_unknown_device_is_refused():
    with pytest.raises(render.RenderError, match="unknown device"):
        render.no_gpu("nonesuch")


def test_it_is_quick_to_name():
    code = "import sys, render; render.no_gpu; assert 'render.classify' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_in_plain_python(tmp_path):
    (tmp_path / "a_gpu_library.py").write_text(LIBRARY)
    script = textwrap.dedent("""
        import render
        with render.no_gpu():
            import a_gpu_library, torch
            print(a_gpu_library.double(torch.ones(2, device="cuda")).tolist())
    """)
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == "[2.0, 2.0]", done.stderr


def test_threads_see_the_driver(library):
    seen = []
    with render.no_gpu("sm_90"):
        thread = threading.Thread(target=lambda: seen.append(triton.runtime.driver.active.get_current_target().arch))
        thread.start()
        thread.join()
    assert seen == [90]
