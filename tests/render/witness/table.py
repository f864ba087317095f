"""The table of second evaluations: a small kernel for everything that can make a bound, and the names it stands for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import combine_zoo
import library_zoo
import numpy as np
import torch
import witness_zoo as zoo
import zoo as features
from triton.language.extra.cuda import libdevice

from render.interpreter.libdevice import forms
from render.ops.library import CONVERSIONS, LIBRARY

N = 16


@dataclass(frozen=True)
class Case:
    """`fn` launches kernels on `args()`; `covers` names entries of the tables of rules.

    `room`: how many times wider than the run's bound the second evaluation may be.
    """

    name: str
    fn: Callable[..., Any]
    args: Callable[[], tuple[Any, ...]]
    covers: tuple[str, ...] = ()
    device: str = "any"
    room: float = 1.001


def generator(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 5) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(seed))


def two() -> tuple[torch.Tensor, torch.Tensor]:
    """One number next to 0, where a condition on e^x is open."""
    x, y = normal(N), normal(N, seed=6)
    x[3] = 1e-9
    return x, y


# what the language has

_OPERATIONS = """
    fadd fsub fmul fma fdiv precise_divf frem exp exp2 log log2 sin cos sqrt precise_sqrt rsqrt erf floor ceil fneg
    fabs select maxnumf minnumf maximumf minimumf clampf fcmpOLT fcmpOLE fcmpOGT fcmpOGE fcmpOEQ fcmpUNE and or xor
    icmpEQ icmpNE fp_trunc fp_to_fp fp_ext si_to_fp ui_to_fp fp_to_si fp_to_ui bitcast argmax argmin sum prod max min
    sort topk bitonic_merge flip
"""
_MORE = {
    "choice of truths": ("select",), "from truth": ("si_to_fp",), "any truth": ("reduce",), "all truths": ("reduce",),
    "fp8e5": ("fp_to_fp",), "fp8e4nv": ("fp_to_fp",), "fp8e4b15": ("fp_to_fp",), "si_to_fp wide": ("si_to_fp",),
    "scan sum": ("scan",), "scan max": ("scan",), "reload": ("load", "masked_load", "store"),
    "isnan": ("library isnan",),
    "isinf": ("library isinf",), "finitef": ("library finitef", "library isfinited"),
}  # fmt: skip
_REDUCTIONS = ("argmax", "argmin", "sum", "prod", "max", "min")
_MOVES = ("gather", "cat", "join", "split", "trans", "broadcast", "unsplat", "histogram")


def _operation(what: str) -> Callable[..., torch.Tensor]:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty(N)
        zoo.operation[(1,)](x, y, out, N, what)
        return out

    return fn


def _move(what: str) -> Callable[..., torch.Tensor]:
    def fn(x: torch.Tensor, y: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        out = torch.empty(N)
        zoo.move[(1,)](x, y, at, out, N, what)
        return out

    return fn


def _places() -> torch.Tensor:
    return torch.randint(0, N, (N,), dtype=torch.int32, generator=generator())


def language() -> list[Case]:
    found = [Case(what, _operation(what), two, _covered(what)) for what in (*_OPERATIONS.split(), *_MORE)]
    moves = {"broadcast": ("broadcast", "expand_dims", "splat"), "trans": ("trans", "reshape")}
    found += [Case(what, _move(what), lambda: (*two(), _places()), moves.get(what, (what,))) for what in _MOVES]
    return [*found, *_blocks(), *_combinations(), *_memory()]


def _covered(what: str) -> tuple[str, ...]:
    return ("reduce",) if what in _REDUCTIONS else _MORE.get(what, (what,))


def _blocks() -> list[Case]:
    def dot(kind: str) -> Callable[..., torch.Tensor]:
        def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            out = torch.empty(N, N)
            zoo.dots[(1,)](x, y, out, N, kind)
            return out

        return fn

    def selu(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        library_zoo.selu_kernel[(2,)](x, out, N)
        return out

    kinds = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
    found = [Case(f"dot {k}", dot(k), lambda: (normal(N, N), normal(N, N, seed=6)), ("dot",)) for k in kinds]
    found.append(Case("map_elementwise", selu, lambda: (normal(2 * N),), ("map_elementwise",)))
    for left, right, device in (("e4m3", "e5m2", "sm_100"), ("e2m1", "e2m1", "sm_80"), ("e4m3", "bf16", "any")):
        found.append(Case(f"dot_scaled {left} {right} {device}", _scaled_dot, lambda le=left, r=right: _scaled(le, r),
                          ("dot_scaled",), device))  # fmt: skip
    return found


def _scaled_dot(
    a: torch.Tensor, sa: torch.Tensor, b: torch.Tensor, sb: torch.Tensor, left: str, right: str
) -> torch.Tensor:
    from tests.render.interpreter.builder.test_scaled_dots import scaled_kernel

    out = torch.empty(N, N)
    scaled_kernel[(1,)](a, sa, b, sb, out, left, right, N, N, a.shape[1], b.shape[0], sa.shape[1], right != "bf16")
    return out


def _scaled(left: str, right: str, k: int = 64) -> tuple[Any, ...]:
    r = np.random.default_rng(7)
    scales = [torch.from_numpy(r.integers(120, 132, (N, k // 32)).astype(np.uint8)) for _ in range(2)]
    a, b = (
        torch.from_numpy((r.integers(0, 0x70, (N, k)) | r.integers(0, 2, (N, k)) << 7).astype(np.uint8)) for _ in "ab"
    )
    a = a[:, : k // 2].contiguous() if left == "e2m1" else a
    b = b.T.contiguous()
    b = b[: k // 2].contiguous() if right == "e2m1" else b
    b = normal(k, N).bfloat16() if right == "bf16" else b
    return a, scales[0], b, scales[1], left, right


def _combinations() -> list[Case]:
    def moments(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, var, running = torch.empty(1), torch.empty(1), torch.empty(N)
        combine_zoo.welford_kernel[(1,)](x, mean, var, running, N)
        return mean, var

    def components(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, running = torch.empty(3), torch.empty(3 * N)
        combine_zoo.components_kernel[(1,)](x, out, running, N)
        return out, running

    def recurrence(back: bool) -> Callable[..., torch.Tensor]:
        def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            out = torch.empty(N)
            combine_zoo.recurrence_kernel[(1,)](a, b, out, N, back)
            return out

        return fn

    def rows(what: str, axis: int, back: bool) -> Callable[..., torch.Tensor]:
        def fn(x: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(x)
            combine_zoo.scan_kernel[(1,)](x, out, 8, N, what, axis, back)
            return out

        return fn

    return [
        Case("welford", moments, lambda: (normal(N),), ("reduce welford",)),
        Case("components", components, lambda: (normal(N),), ("reduce componentwise",)),
        *(Case(f"recurrence {b}", recurrence(b), two, ("scan linear",)) for b in (False, True)),
        *(Case(f"{w} {a} {b}", rows(w, a, b), lambda: (normal(8, N),), ("scan",)) for w in ("cumsum", "cumprod")
          for a, b in ((0, True), (1, False))),
    ]  # fmt: skip


def _memory() -> list[Case]:
    def atomic(what: str) -> Callable[..., torch.Tensor]:
        def fn(x: torch.Tensor) -> torch.Tensor:
            slots, out = torch.ones(x.numel()), torch.empty_like(x)
            zoo.atomic[(4,)](x, slots, out, 8, what)
            return slots

        return fn

    def descriptor(what: str) -> Callable[..., torch.Tensor]:
        def fn(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
            out = torch.full((16, 16), 0.5)
            zoo.descriptor[(1,)](x, rows, out, 16, 16, what)
            return out

        return fn

    def locked(x: torch.Tensor) -> torch.Tensor:
        out, lock = torch.zeros(1), torch.zeros(1, dtype=torch.int32)
        features.lock_kernel[(4,)](x, out, lock, 8)
        return out

    kinds = ("add", "max", "min", "exchange", "exchange, then add")
    shapes = ("load", "gather", "scatter", "reduce")
    stores = {"load": ("descriptor_load", "descriptor_store")}
    return [
        *(Case(f"atomic {k}", atomic(k), lambda: (normal(32),), ("atomic_rmw",)) for k in kinds),
        *(Case(f"descriptor {k}", descriptor(k), lambda: (normal(16, 16), torch.arange(15, 7, -1, dtype=torch.int32)),
               stores.get(k, (f"descriptor_{k}",))) for k in shapes),
        Case("sum under a lock", locked, lambda: (normal(32),), ("masked_store",), room=1.05),
    ]  # fmt: skip


# host code after the kernel


def _selu(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    library_zoo.selu_kernel[(2,)](x, out, N)
    return out


HOST: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[str, ...]]] = {
    "add": (lambda x: _selu(x) + _selu(-x), ("add",)),
    "sub": (lambda x: _selu(x) - 0.3, ("sub",)),
    "mul": (lambda x: _selu(x) * x, ("mul",)),
    "div": (lambda x: _selu(x) / 3.0, ("div",)),
    "in place": (lambda x: _selu(x).mul_(2.5).add_(x).sub_(1.0).div_(3.0), ("add_", "mul_", "sub_", "div_")),
    "bfloat16": (lambda x: _selu(x).bfloat16() * x.bfloat16(), ("_to_copy",)),
    "float64": (lambda x: _selu(x).double() * 1.1, ("_to_copy",)),
    "half of double": (lambda x: (_selu(x).double() * 1.1).half(), ("_to_copy",)),
    "copy": (lambda x: torch.zeros(2 * N, dtype=torch.float16).copy_(_selu(x)), ("copy_",)),
    "negative": (lambda x: (-_selu(x)).neg_().abs().abs_(), ("neg", "neg_", "abs", "abs_")),
    "rsub": (lambda x: 1.0 - _selu(x), ("rsub",)),
    "reciprocal": (lambda x: 1.0 / (_selu(x) + 3.0), ("reciprocal",)),
    "relu": (lambda x: torch.relu(_selu(x) * 1.1), ("relu", "relu_")),
    "clamp": (lambda x: _selu(x).clamp(-0.3, 0.9).clamp_(-0.2, None), ("clamp", "clamp_")),
    "one-sided": (lambda x: _selu(x).clamp_min(-0.3).clamp_max(0.9), ("clamp_min", "clamp_max")),
    "extrema": (lambda x: torch.maximum(_selu(x), torch.minimum(_selu(-x), x)), ("maximum", "minimum")),
    "integral": (lambda x: (_selu(x) * 9).floor() + (_selu(x) * 9).ceil(), ("floor", "ceil")),
    "rounded": (lambda x: (_selu(x) * 9).trunc() + (_selu(x) * 9).round(), ("trunc", "round")),
    "rows": (lambda x: _selu(x).reshape(4, 8).amax(1) - _selu(x).reshape(4, 8).amin(1), ("amax", "amin")),
    "sum": (lambda x: _selu(x).sum(), ("sum",)),
    "mean": (lambda x: _selu(x).reshape(4, 8).half().mean(1), ("mean",)),
    "moved": (lambda x: torch.cat([_selu(x).reshape(4, 8).T.contiguous().view(-1), x])[torch.arange(60, 0, -3)], ()),
    "chosen": (lambda x: torch.where(x > 0, x, _selu(x)), ()),
    "padded": (lambda x: torch.nn.functional.pad(_selu(x), (2, 3), value=1.5).flip(0), ()),
    "between": (lambda x: _selu(_selu(x) * 1.1), ()),
    "nan_to_num": (lambda x: torch.nan_to_num(_selu(x)), ("nan_to_num",)),
    "sort": (lambda x: _selu(x).reshape(4, 8).sort(1, descending=True)[0], ("sort",)),
    "sort down": (lambda x: _selu(x).reshape(4, 8).sort(0)[0], ("sort",)),
    "topk": (lambda x: _selu(x).reshape(4, 8).topk(3, 1)[0], ("topk",)),
    "ranks": (lambda x: _selu(x).reshape(4, 8).kthvalue(2, 1)[0] + _selu(x).reshape(4, 8).median(1)[0],
              ("kthvalue", "median")),
    "max": (lambda x: _selu(x).reshape(4, 8).max(1)[0] - _selu(x).min(), ("max", "min")),
    "running extrema": (lambda x: _selu(x).cummax(0)[0] + _selu(x).cummin(0)[0], ("cummax", "cummin")),
}  # fmt: skip
"""As close as the run."""


def _matrix(x: torch.Tensor) -> torch.Tensor:
    return _selu(x).reshape(4, 8)


HOST_COMPOSED: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[str, ...]]] = {
    "cumsum": (lambda x: _selu(x).cumsum(0), ("cumsum",)),
    "logcumsumexp": (lambda x: _selu(x).logcumsumexp(0), ("logcumsumexp",)),
    "kaiser_window": (lambda x: _selu(x) * torch.kaiser_window(2 * N), ("kaiser_window",)),
    "cumprod": (lambda x: _selu(x).cumprod(0), ("cumprod",)),
    "prod": (lambda x: _matrix(x).prod(1), ("prod",)),
    "softmax": (lambda x: torch.softmax(_matrix(x), 1), ("_softmax",)),
    "softmax in half": (lambda x: torch.softmax(_matrix(x).half(), 0), ("_softmax",)),
    "log_softmax": (lambda x: torch.log_softmax(_matrix(x), 1), ("_log_softmax",)),
    "logsumexp": (lambda x: torch.logsumexp(_matrix(x), 1), ("logsumexp",)),
    "layer_norm": (lambda x: torch.nn.functional.layer_norm(_matrix(x), (8,), x[:8], x[8:16]), ("native_layer_norm",)),
    "var": (lambda x: _matrix(x).var(1) + _matrix(x).std(1), ("var", "std")),
    "norm": (lambda x: _matrix(x).norm(dim=1) + torch.linalg.vector_norm(_matrix(x), 1, 1), ("linalg_vector_norm",)),
    "norms": (
        lambda x: torch.native_group_norm(_matrix(x).reshape(1, 4, 8), x[:4], x[4:8], 1, 4, 8, 2, 1e-5)[0].sum(0)
        + torch.nn.functional.batch_norm(_matrix(x).T, x[:4] / 8, x[:4].abs() + 1, x[4:8], x[8:12]).T
        + torch.nn.functional.batch_norm(_matrix(x).T, None, None, x[4:8], None, True).T,
        ("native_group_norm", "native_batch_norm"),
    ),
    "safe softmax": (lambda x: torch._safe_softmax(_matrix(x), 1), ("_safe_softmax",)),
    "moments": (lambda x: torch.var_mean(_matrix(x), 1)[0] + torch.std_mean(_matrix(x), 1)[0],
                ("var_mean", "std_mean")),
    "losses": (
        lambda x: torch.nn.functional.mse_loss(_selu(x), x) + torch.nn.functional.huber_loss(_selu(x), x, delta=0.5)
        + torch.nn.functional.smooth_l1_loss(_selu(x), x, reduction="sum"),
        ("mse_loss", "huber_loss", "smooth_l1_loss"),
    ),
    "norm of a power": (lambda x: torch.linalg.vector_norm(_matrix(x), 3, 1), ("norm",)),
    "power": (lambda x: _selu(x) ** 2 + (_selu(x) + 3) ** 2.5 + (_selu(x) + 3) ** 0.5, ("pow",)),
    "angle": (lambda x: torch.atan2(_selu(x) + 3, _selu(x) + 4) + torch.hypot(_selu(x), x), ("atan2", "hypot")),
    "glu": (lambda x: torch.nn.functional.glu(_matrix(x)), ("glu",)),
    "matmul": (lambda x: _matrix(x) @ x.reshape(8, 4), ("mm",)),
    "matmul in half": (lambda x: _matrix(x).half() @ x.half().reshape(8, 4), ("mm",)),
    "batches": (lambda x: torch.bmm(_selu(x).reshape(2, 2, 8), x.reshape(2, 8, 2)), ("bmm",)),
    "vectors": (lambda x: (_matrix(x) @ x[:8]).sum() + _selu(x) @ x, ("mv", "dot", "vdot")),
    "linear": (lambda x: torch.nn.functional.linear(_matrix(x), x.reshape(4, 8), x[:4]), ("addmm",)),
    "added products": (
        lambda x: torch.addmv(_selu(x)[:4], _matrix(x), x[:8], beta=0.5, alpha=2.0).sum()
        + torch.baddbmm(_selu(x).reshape(2, 4, 4), _selu(x).reshape(2, 4, 4), x.reshape(2, 4, 4)), ("addmv", "baddbmm"),
    ),
    "functions": (lambda x: _selu(x).exp() + _selu(x).tanh() + (_selu(x) + 3).sqrt() + (_selu(x) + 3).log(), ()),
    "activations": (lambda x: torch.nn.functional.gelu(torch.nn.functional.silu(_selu(x).sigmoid())), ()),
    "half activations": (lambda x: torch.nn.functional.gelu(torch.nn.functional.silu(_selu(x).half())), ()),
    "shrunk": (lambda x: torch.nn.functional.softshrink(_selu(x), 0.3), ()),
    "tables": (
        lambda x: _selu(x) * torch.linspace(0.5, 1.5, 2 * N) + torch.arange(0.0, 0.3 * N, 0.15).half() * _selu(-x)
        + torch.logspace(-1, 1, 2 * N).bfloat16() * x, ("linspace", "arange", "logspace"),
    ),
    "filled": (
        lambda x: _selu(x) * torch.full_like(x, _selu(x).max().item()).fill_(_selu(x).min().item())
        + torch.full((2 * N,), _selu(x).max().item()) * x.new_full((2 * N,), _selu(x).min().item())
        + torch.scalar_tensor(_selu(x).max().item()), ("full", "full_like", "new_full", "fill", "scalar_tensor"),
    ),
    "windows": (
        lambda x: _selu(x) * torch.hann_window(2 * N) + _selu(-x) * torch.hamming_window(2 * N, False)
        + x * torch.blackman_window(2 * N) * torch.bartlett_window(2 * N),
        ("hann_window", "hamming_window", "blackman_window", "bartlett_window"),
    ),
    "choices": (lambda x: torch.nn.functional.elu(torch.nn.functional.softplus(_selu(x) - 0.3) - 1), ()),
    "of three": (lambda x: torch.lerp(_selu(x), x, 0.75) + torch.addcmul(x, _selu(x), x, value=0.3), ()),
    "double": (lambda x: (_selu(x).double().exp() @ x.double()).float(), ()),
}  # fmt: skip
"""Of many steps: the run bounds the whole more tightly than the steps one by one."""


def host() -> list[Case]:
    """What a launcher may do to a kernel's result."""
    close = [Case(f"host {n}", fn, lambda: (normal(2 * N),), names) for n, (fn, names) in HOST.items()]
    return close + [
        Case(f"host {n}", fn, lambda: (normal(2 * N),), names, room=40.0) for n, (fn, names) in HOST_COMPOSED.items()
    ]


# the vendor's library

_KERNELS = {1: library_zoo.one, 2: library_zoo.two, 3: library_zoo.three, 4: library_zoo.four}
_DTYPES = {"fp32": torch.float32, "fp64": torch.float64, "int32": torch.int32, "int64": torch.int64,
           "uint32": torch.uint32, "uint64": torch.uint64}  # fmt: skip
_INTEGRAL = ("llrint", "llround", "ilogb", "signbit", "float_as_int", "float_as_uint", "double_as_longlong",
             "double2loint", "double2hiint", "isnan", "isinf", "finitef", "isfinited")  # fmt: skip


def library(dtype: torch.dtype) -> list[Case]:
    """Every function of floating-point operands."""
    single = dtype == torch.float32
    names = [n for n in LIBRARY if single or not (n in ("saturatef", "rsqrt_rn") or n.startswith("fast_"))]
    return [Case(f"library {n} {dtype}", called(n), lambda n=n: _operands(n, dtype), (f"library {n}",)) for n in names]


def called(name: str) -> Callable[..., torch.Tensor]:
    def fn(*args: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(args[0])
        _KERNELS[len(args)][(1,)](*args, out, name, N)
        return out

    return fn


def _operands(name: str, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    low, high = (1.1, 3.0) if name == "acosh" else (0.1, 0.9)
    arity = LIBRARY[name].arity
    return tuple((torch.rand(N, generator=generator(k)) * (high - low) + low).to(dtype) for k in range(arity))


def conversions() -> list[Case]:
    """Library functions that give a floating-point number and read integers, bits or another format."""
    found = []
    for name in [*CONVERSIONS, "pow"]:
        if name in ("jn", "yn") or name in _INTEGRAL or name.startswith(("float2", "double2i", "double2u", "double2l")):
            continue  # an integer comes out: exact, or tainted
        for types in forms(libdevice, name):
            kinds = [str(t) for t in types]
            if name != "pow" or "int32" in kinds:
                found.append(Case(f"library {name} {kinds}", _converted(name, len(kinds) > 1),
                                  lambda kinds=kinds: _typed(kinds), (f"library {name}",)))  # fmt: skip
    return [*found, *bessel_orders()]


def _converted(name: str, two: bool) -> Callable[..., torch.Tensor]:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty(N)
        zoo.convert[(1,)](x, y, out, N, name, two)
        return out

    return fn


def bessel_orders() -> list[Case]:
    """Functions that take the order first."""
    return [Case(f"library {name} {dtype}", _ordered(name, n), lambda n=n, d=dtype: _near(n, d), (f"library {name}",))
            for name, n in (("jn", 128), ("yn", 3)) for dtype in (torch.float32, torch.float64)]  # fmt: skip


def _ordered(name: str, n: int) -> Callable[..., torch.Tensor]:
    def fn(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        library_zoo.of_order[(1,)](x, out, name, n, N)
        return out

    return fn


def _near(n: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    low = 1.6 if dtype == torch.float64 else 0.6
    return (((torch.rand(N, generator=generator(1)) + low) * n).to(dtype),)


def _typed(kinds: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    found = []
    for k, kind in enumerate(kinds):
        dtype = _DTYPES[kind]
        if dtype.is_floating_point:
            found.append((torch.rand(N, generator=generator(k), dtype=torch.float64) * 3 + 1.5).to(dtype))
        else:
            high = 9 if k else 2**30 if "32" in kind else 2**62
            found.append(torch.randint(1, high, (N,), generator=generator(k)).to(dtype))
    return found[0], found[-1]


EXACT = frozenset(_INTEGRAL) | {n for n in CONVERSIONS if n.startswith(("float2", "double2i", "double2u", "double2l"))}
"""Conversions to integers and truth values: no bound comes out of them by itself."""
