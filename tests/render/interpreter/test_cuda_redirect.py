"""Host code for a GPU on a machine without one; everything is put back afterwards."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from render.interpreter.cuda_redirect import cuda_on_cpu

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="redirection is for machines without a GPU")

MAKERS = {
    "randn": lambda: torch.randn(3, device="cuda"),
    "zeros": lambda: torch.zeros(3, device="cuda:0"),
    "empty": lambda: torch.empty((3,), dtype=torch.float16, device=torch.device("cuda")),
    "full": lambda: torch.full((3,), 1.0, device=torch.device("cuda", 0)),
    "tensor": lambda: torch.tensor([1.0, 2.0, 3.0], device="cuda"),
    "as_tensor": lambda: torch.as_tensor([1.0, 2.0, 3.0], device="cuda"),
    "arange": lambda: torch.arange(3, device="cuda"),
    "index": lambda: torch.randint(0, 5, (3,), device=0),
    "like": lambda: torch.ones_like(torch.ones(3), device="cuda"),
    "new": lambda: torch.ones(2).new_zeros(3, device="cuda"),
    "cuda": lambda: torch.ones(3).cuda(),
    "cuda index": lambda: torch.ones(3).cuda(0),
    "to": lambda: torch.ones(3).to("cuda"),
    "to index": lambda: torch.ones(3).to(0),
    "to dtype": lambda: torch.ones(3).to("cuda:0", torch.float16, non_blocking=True),
    "to keyword": lambda: torch.ones(3).to(device="cuda"),
    "pinned": lambda: torch.ones(3).pin_memory(),
    "pinned factory": lambda: torch.empty(3, pin_memory=True),
    "generator": lambda: torch.randn(3, generator=torch.Generator(device="cuda").manual_seed(1), device="cuda"),
    "module": lambda: torch.nn.Linear(3, 1, device="cuda").weight[0],
    "module to": lambda: torch.nn.Linear(3, 1).to("cuda").weight[0],
    "module cuda": lambda: torch.nn.Linear(3, 1).cuda().weight[0],
    "other's device": lambda: torch.zeros(3, device=torch.ones(1, device="cuda").device),
}


@no_gpu
@pytest.mark.parametrize("name", MAKERS)
def test_tensors_land_on_the_cpu(name):
    with cuda_on_cpu():
        x = MAKERS[name]()
        assert x.is_cuda and x.device == torch.ones(1, device="cuda").device and x.shape == (3,)
        assert str(x.cpu()) and x.data_ptr()
    assert x.device.type == "cpu" and not x.is_cuda


@no_gpu
def test_values_do_not_depend_on_the_device_named():
    with cuda_on_cpu():
        a = torch.randn(5, generator=torch.Generator(device="cuda").manual_seed(3), device="cuda")
    torch.testing.assert_close(a, torch.randn(5, generator=torch.Generator().manual_seed(3)), rtol=0, atol=0)


@no_gpu
def test_named_devices_equal_those_of_tensors():
    x = torch.ones(1)
    with cuda_on_cpu():
        for device in (torch.device("cuda:0"), torch.device("cuda", 0), torch.device(0)):
            assert x.cuda().device == device and torch.zeros(1, device=device).device == device
        assert torch.zeros(1, device=torch.device("cuda")).device.type == torch.device("cuda").type == "cuda"
        assert torch.device("cpu").type == "cpu" and torch.device("meta").type == "meta"


@no_gpu
def test_scopes_of_torch():
    with cuda_on_cpu():
        with torch.device("cuda"):
            assert torch.zeros(2).is_cuda
        torch.set_default_device("cuda")
        try:
            assert torch.zeros(2).sum() == 0
        finally:
            torch.set_default_device(None)
        with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()):
            assert torch.cuda.current_device() == 0


@no_gpu
def test_questions_about_the_device():
    with cuda_on_cpu():
        assert torch.cuda.is_available() and torch.cuda.device_count() == 1
        properties = torch.cuda.get_device_properties("cuda")
        assert properties.multi_processor_count > 0 and properties.total_memory > 0
        assert torch.cuda.get_device_capability() >= (8, 0) and torch.cuda.get_device_name(0)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.manual_seed_all(0)
        torch.manual_seed(0)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        end.record()
        assert start.elapsed_time(end) >= 0 and torch.cuda.current_stream().cuda_stream == 0
        assert torch.cuda.memory_allocated() == 0
        assert isinstance(torch.Generator(device="cuda"), torch.Generator)


@no_gpu
@pytest.mark.parametrize("device", ["cuda", "cuda:0", 0])
def test_what_is_made_for_a_gpu_says_so(device):
    with cuda_on_cpu():
        stream, event = torch.Stream(device=device), torch.Event(device=device)
        assert torch.Generator(device=device).device == stream.device == torch.device("cuda", 0)
        assert isinstance(stream, torch.cuda.Stream) and isinstance(torch.cuda.Stream(), torch.Stream)
        assert isinstance(event, torch.cuda.Event) and isinstance(torch.cuda.Event(), torch.Event)
        assert torch.Generator().device == torch.Generator("cpu").device == torch.device("cpu")
        assert not isinstance(torch.Generator(), torch.Stream) and not isinstance(stream, torch.Generator)
        torch.ones(3, device=device).record_stream(stream)
        assert torch.cuda.Stream.priority_range()[0] == 0


@no_gpu
def test_the_compiler_of_torch_finds_a_stream_and_forgets():
    """Its parts look at what is built when they are imported."""
    script = (
        "import torch, render\nwith render.no_gpu():\n    import torch._dynamo\n"
        "    from torch._dynamo.device_interface import get_interface_for_device\n"
        "    torch.compile(lambda x: x + 1, mode='max-autotune')(torch.ones(3, device='cuda'))\n"
        "    torch._dynamo.reset()\n    print(get_interface_for_device('cuda').get_raw_stream(0))\n"
        "print(get_interface_for_device('cuda').get_raw_stream)\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["0", "None"], done.stderr


@no_gpu
def test_saved_tensors_load_on_the_cpu(tmp_path):
    torch.save(torch.arange(3), tmp_path / "x.pt")
    with cuda_on_cpu():
        assert torch.load(tmp_path / "x.pt", map_location="cuda").tolist() == [0, 1, 2]


def snapshot() -> dict[str, object]:
    return {
        **{f"cuda.{k}": v for k, v in vars(torch.cuda).items()},
        **{f"Tensor.{k}": v for k, v in vars(torch.Tensor).items()},
        **{name: getattr(torch, name) for name in ("Generator", "Stream", "Event", "load", "set_default_device")},
    }  # fmt: skip


@no_gpu
def test_everything_is_restored_also_after_an_exception():
    before = snapshot()
    with cuda_on_cpu():
        torch.zeros(1, device="cuda")
    assert snapshot() == before
    with pytest.raises(KeyError), cuda_on_cpu():
        raise KeyError
    assert snapshot() == before
    assert not torch.cuda.is_available() and not torch.ones(1).is_cuda
    with pytest.raises((RuntimeError, AssertionError)):
        torch.zeros(1, device="cuda")


@no_gpu
def test_scopes_nest():
    before = snapshot()
    with cuda_on_cpu():
        with cuda_on_cpu():
            torch.zeros(1, device="cuda")
        assert torch.zeros(1, device="cuda").is_cuda
    assert snapshot() == before


def test_nothing_is_patched_where_a_gpu_is_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    before = snapshot()
    with cuda_on_cpu():
        assert snapshot() == before


def test_tritons_binding_of_cublas_is_there_and_goes_again():
    nvidia = pytest.importorskip("triton._C.libtriton").nvidia
    if not hasattr(nvidia, "cublas"):
        pytest.skip("this Triton has no binding of cuBLAS")
    real = nvidia.cublas.CublasLt
    with cuda_on_cpu():
        c = torch.empty(2, 3, dtype=torch.float16, device="cuda")
        a, b = torch.full((2, 4), 2.0).half(), torch.ones(3, 4).half()
        nvidia.cublas.CublasLt(torch.empty(1)).matmul(a, b, c)
    assert torch.equal(c, torch.full((2, 3), 8.0).half())
    assert nvidia.cublas.CublasLt is real


TRITON_OF_TORCH = """
from render.interpreter.cuda_redirect import cuda_on_cpu
from torch.utils._triton import has_triton
answers = [has_triton()]
with cuda_on_cpu():
    from torch.sparse import _triton_ops
    answers += [has_triton(), _triton_ops.bsr_dense_mm is not None]
print(*answers, has_triton())
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to be asked")
def test_torch_defines_its_own_triton_kernels_inside_and_forgets_the_answer_outside():
    """In a process of its own: torch remembers its modules, and asks once."""
    done = subprocess.run([sys.executable, "-c", TRITON_OF_TORCH], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True", "False"]
