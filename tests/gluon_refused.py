"""Gluon kernels whose operations mean more than their values: refused, by name and line."""

from __future__ import annotations

from gluon_zoo import HEAD


def _file(kernel: str, launch: str, inputs: str) -> str:
    return f"""{HEAD}{kernel}
def run(x):
    y = torch.empty_like(x)
    {launch}
    return y
def make_inputs(): return ({inputs},)
def reference(x): return x.clone()
"""


REFUSED: dict[str, tuple[str, str, str]] = {}
"""File, the operation that is named, the text of its line."""
REFUSED["smem"] = (
    _file(
        """
@gluon.jit
def k(x_ptr, y_ptr, n, B: gl.constexpr):
    L: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    S: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    i = gl.arange(0, B, L)
    x = gl.load(x_ptr + i, mask=i < n)
    s = gl.allocate_shared_memory(gl.float32, [B], S)
    s.store(x)
    gl.store(y_ptr + i, s.load(L), mask=i < n)""",
        "k[(1,)](x, y, x.numel(), B=128)",
        "torch.randn(100)",
    ),
    "gl.allocate_shared_memory",
    "s = gl.allocate",
)
REFUSED["tma"] = (
    _file(
        """
from triton.experimental.gluon.language.nvidia.hopper import tma, mbarrier, fence_async_shared
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
@gluon.jit
def k(d, y_ptr, B: gl.constexpr):
    s = gl.allocate_shared_memory(d.dtype, [1, 16, 64], d.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, d.block_type.nbytes)
    tma.async_load(d, [0, 0], bar, s.index(0))
    mbarrier.wait(bar, phase=0)""",
        """L = gl.NVMMASharedLayout.get_default_for([16, 64], gl.float32)
    d = TensorDescriptor.from_tensor(x, [16, 64], L)
    k[(1,)](d, y, B=128)""",
        "torch.randn(16, 64)",
    ),
    "gl.allocate_shared_memory",
    "s = gl.allocate",
)
REFUSED["ws"] = (
    _file(
        """
@gluon.jit
def a(x_ptr):
    gl.store(x_ptr, 1.0)
@gluon.jit
def b(x_ptr):
    gl.store(x_ptr + 1, 1.0)
@gluon.jit
def k(x_ptr, y_ptr):
    gl.warp_specialize([(a, (x_ptr,)), (b, (y_ptr,))], [4], [24])""",
        "k[(1,)](x, y)",
        "torch.randn(16)",
    ),
    "gl.warp_specialize",
    "gl.warp_specialize",
)
REFUSED["async"] = (
    _file(
        """
from triton.experimental.gluon.language.nvidia.ampere import async_copy
@gluon.jit
def k(x_ptr, y_ptr, B: gl.constexpr):
    L: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    i = gl.arange(0, B, L)
    async_copy.commit_group()
    async_copy.wait_group(0)
    gl.store(y_ptr + i, gl.load(x_ptr + i))""",
        "k[(1,)](x, y, B=128)",
        "torch.randn(128)",
    ),
    "gl.nvidia.ampere.async_copy.commit_group",
    "commit_group",
)
