"""One description of the device answers for torch and for Triton."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import triton
import triton.language as tl

import render
from interval_ops.profiles.profile import load_profile, profile_names
from render.interpreter import device
from render.interpreter.cuda_redirect import cuda_on_cpu
from render.interpreter.session import Session

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="redirection is for machines without a GPU")
GPUS = [name for name in profile_names() if load_profile(name).device is not None]


@pytest.mark.parametrize("name", GPUS)
def test_torch_and_triton_agree(name):
    facts = load_profile(name).device
    with cuda_on_cpu(name):
        module = getattr(torch, facts.torch_type)
        properties = module.get_device_properties(0)
        driver = triton.runtime.driver.active
        target, told = driver.get_current_target(), driver.utils.get_device_properties(0)
        assert module.is_available() and module.device_count() == 1 and module.current_device() == 0
        assert module.get_device_name() == properties.name == facts.part
        assert properties.multi_processor_count == told["multiprocessor_count"] == facts.multiprocessors
        assert properties.warp_size == told["warpSize"] == target.warp_size == facts.warp_size
        assert told["max_shared_mem"] == facts.shared_optin >= facts.shared_block
        assert facts.shared_multiprocessor >= facts.shared_optin
        assert (target.backend, str(target.arch)) == (facts.backend, facts.arch.removeprefix("sm_"))
        assert module.get_arch_list() == [facts.arch]
        x = torch.ones(2, device=driver.get_active_torch_device())
        assert x.device == driver.get_active_torch_device() == torch.device(facts.torch_type, 0)
        assert (x.is_cuda, x.is_xpu, x.is_cpu) == (facts.torch_type == "cuda", facts.torch_type == "xpu", False)
        assert x.get_device() == 0
        assert torch.accelerator.current_accelerator().type == facts.torch_type
        if facts.torch_type == "cuda":
            assert torch.cuda.get_device_capability(x.device) == facts.capability
        assert (torch.version.hip is not None) == (facts.backend == "hip")
        assert (torch.version.cuda is not None) == (facts.backend == "cuda")
    assert not torch.cuda.is_available() and torch.version.hip is None and x.device.type == "cpu"


def test_arch_capability_and_backend_belong_together():
    for name in GPUS:
        facts = load_profile(name).device
        if facts.backend == "cuda":
            assert facts.arch == f"sm_{facts.capability[0]}{facts.capability[1]}" and facts.warp_size == 32
        elif facts.backend == "hip":
            assert facts.arch.startswith("gfx") and facts.warp_size == (64 if facts.arch.startswith("gfx9") else 32)


def test_the_innermost_description_counts():
    with cuda_on_cpu("sm_90"):
        assert torch.cuda.get_device_capability() == (9, 0)
        with cuda_on_cpu("gfx942"):
            assert torch.cuda.get_device_capability() == (9, 4)
        with cuda_on_cpu():
            assert torch.cuda.get_device_capability() == (9, 0)
        with Session("sm_100"):
            assert triton.runtime.driver.active.get_current_target().arch == 100
        assert torch.cuda.get_device_capability() == (9, 0)


def test_what_was_asked_is_remembered():
    with Session("sm_90") as session:
        torch.zeros(2, device="cuda")
        assert session.host_told is None
        torch.cuda.get_device_capability()
    assert session.host_told == "host code asked for the device's capability: told NVIDIA H100 80GB HBM3 (sm_90)"
    with device.described("sm_90"), Session("sm_90") as again:
        torch.cuda.get_device_name()
        assert "name" in device.current().asked
    assert "asked for the device's name" in again.host_told


CALLS = {
    "stream": lambda: torch.cuda.current_stream().cuda_stream,
    "raw stream": lambda: torch._C._cuda_getCurrentRawStream(0),
    "stream of a device": lambda: torch.cuda.current_stream(torch.device("cuda", 0)).wait_stream(torch.cuda.Stream()),
    "stream scope": lambda: torch.cuda.stream(torch.cuda.Stream()).__enter__(),
    "device scopes": lambda: [torch.cuda.device(d).__enter__() for d in (0, "cuda", "cuda:0", torch.device("cuda", 0))],
    "device guard": lambda: torch.cuda._DeviceGuard(0).__enter__(),
    "device of": lambda: torch.cuda.device_of(torch.ones(1)).__enter__(),
    "generators": lambda: torch.cuda.default_generators[0].initial_seed(),
    "random state": lambda: torch.cuda.set_rng_state(torch.cuda.get_rng_state()),
    "statistics": lambda: torch.cuda.memory_stats()["allocated_bytes.all.peak"] + torch.cuda.max_memory_reserved(),
    "summary": lambda: torch.cuda.memory_summary(),
    "memory": lambda: torch.cuda.mem_get_info()[1],
    "reset": lambda: torch.cuda.reset_peak_memory_stats(),
    "event": lambda: torch.cuda.Event(enable_timing=True).elapsed_time(torch.cuda.Event()),
    "capturing": lambda: torch.cuda.is_current_stream_capturing(),
    "ranges": lambda: (torch.cuda.nvtx.range_push("a"), torch.cuda.nvtx.range_pop()),
    "synchronize": lambda: (torch.cuda.synchronize(), torch.accelerator.synchronize()),
    "accelerator": lambda: (torch.accelerator.current_device_index(), torch.accelerator.current_stream()),
    "bf16": lambda: torch.cuda.is_bf16_supported(),
    "built": lambda: torch.backends.cuda.is_built(),
    "peers": lambda: torch.cuda.can_device_access_peer(0, 0),
    "interface": lambda: triton.runtime.driver.active.get_device_interface().current_device(),
}


@pytest.mark.parametrize("name", CALLS)
def test_questions_of_launchers_have_an_answer(name):
    with cuda_on_cpu():
        CALLS[name]()


def test_seeds_of_the_gpu_are_seeds():
    with cuda_on_cpu():
        torch.cuda.manual_seed(5)
        first = torch.randn(4, device="cuda")
        torch.cuda.manual_seed_all(5)
        assert torch.equal(first, torch.randn(4, device="cuda"))


def test_backward_of_the_user_runs_in_the_redirect():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            assert grad.is_cuda and grad.device.type == "cuda"
            return 2 * grad * torch.ones(3, device="cuda")

    with cuda_on_cpu():
        x = torch.ones(3, device="cuda", requires_grad=True)
        Double.apply(x).sum().backward()
        (grad,) = torch.autograd.grad(Double.apply(x).sum(), x)
    assert x.grad.tolist() == grad.tolist() == [2, 2, 2]


def test_autocast_casts():
    with cuda_on_cpu(), torch.autocast("cuda", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("cuda")
        assert (torch.ones(2, 2, device="cuda") @ torch.ones(2, 2)).dtype == torch.bfloat16
        with torch.autocast("cuda", enabled=False):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
    assert not torch.is_autocast_enabled("cpu") and not torch.is_autocast_enabled("cuda")


IMPORTS = """
import torch
from render.interpreter.cuda_redirect import cuda_on_cpu
cuda, c = dict(vars(torch.cuda)), dict(vars(torch._C))
with cuda_on_cpu():
    import torch._dynamo, torch._inductor.utils
    from torch._dynamo.trace_rules import get_torch_obj_rule_map
    assert len(get_torch_obj_rule_map()) > 1000
    assert torch.cuda.is_available()
assert not torch.cuda.is_available() and not torch._dynamo.device_interface.CudaInterface.is_available()
for before, after in ((cuda, vars(torch.cuda)), (c, vars(torch._C))):
    assert not [k for k in before if before[k] is not after.get(k)]
"""


def test_the_compiler_of_torch_is_imported_and_keeps_nothing():
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


SPARSE = """
import torch
from render.interpreter.cuda_redirect import cuda_on_cpu
with cuda_on_cpu():
    from torch.sparse import _triton_ops
    assert _triton_ops.bsr_dense_mm is not None
    from torch.utils._triton import has_triton
    assert has_triton()
assert not has_triton()
"""


def test_kernels_of_torch_itself_are_defined():
    done = subprocess.run([sys.executable, "-c", SPARSE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_compiled_functions_run_as_eager_with_a_note():
    with Session() as session:
        double = torch.compile(lambda x: 2 * x)
        triple = torch.compile(dynamic=True)(lambda x: 3 * x)
        assert double(torch.ones(1)).item() + triple(torch.ones(1)).item() == 5
    assert any("torch.compile" in note for note in session.notes)


@triton.jit
def times(out, x, FACTOR: tl.constexpr, B: tl.constexpr):
    tl.store(out + tl.arange(0, B), tl.load(x + tl.arange(0, B)) * FACTOR)


def by_device(x):
    """A library with a path for each device, as libraries tell them apart."""
    hip = triton.runtime.driver.active.get_current_target().backend == "hip"
    assert hip == (torch.version.hip is not None)
    major = torch.cuda.get_device_capability(x.device)[0]
    out = torch.empty_like(x)
    times[(1,)](out, x, 3 if hip else major, B=8)
    return out


@pytest.mark.parametrize(("name", "factor"), [("sm_80", 8), ("sm_90", 9), ("gfx942", 3), ("any", 8)])
def test_the_path_of_the_named_device_is_judged_and_told(name, factor):
    verdict = render.classify(by_device, torch.arange(8.0), ref=lambda x: x * factor, device=name)
    assert verdict.label == "Type-I"
    told = [line for line in verdict.assumptions if "host code asked for" in line]
    assert len(told) == 1 and load_profile(name).device.part in told[0]
    assert ("--device" in told[0]) == (name == "any")
    wrong = render.classify(by_device, torch.arange(8.0), ref=lambda x: x * (factor + 1), device=name)
    assert wrong.label == "Type-II"
