"""What torch computes between launches, as PyTorch's own CUDA kernels compute it.

Elementwise kernels compute in fp32 (fp64) and round once; a division by a Python number multiplies by its reciprocal,
a mean by 1 / n (ATen/native/cuda: BinaryDivTrueKernel.cu, ReduceMomentKernel.cu); sums run over threads in any order in
fp32; softmax is exp(x - max) over its sum; products sum in fp32 in any order. Operations that are not here run as they
are: they move numbers, compare them, or round once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from foreign.executor import Draws, fused
from foreign.numbers import Array

_UNARY = ("exp", "log", "log2", "log1p", "expm1", "tanh", "sin", "cos", "erf", "rsqrt")
_NARROW = (torch.float16, torch.bfloat16)


class Host(TorchDispatchMode):
    """A mode in which every operation of ATen runs as `draws` chooses."""

    def __init__(self, draws: Draws) -> None:
        super().__init__()
        self.draws = draws
        self.rules: dict[str, Callable[..., Array]] = {
            **{name: self._unary(name) for name in _UNARY},
            "div": self._div, "mean": self._mean, "sum": self._sum, "sigmoid": self._sigmoid, "silu": self._silu,
            "gelu": self._gelu, "_softmax": self._softmax, "_log_softmax": self._log_softmax, "mm": self._mm,
            "bmm": self._mm, "addmm": self._addmm, "cumsum": self._cumsum, "add": self._add, "sub": self._sub,
            "native_layer_norm": self._layer_norm, "var": self._var,
        }  # fmt: skip

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = func._schema.name.split("::")[1]
        plain = func(*args, **kwargs)
        rule = self.rules.get(name.removesuffix("_") if not name.startswith("_") else name)
        first = plain[0] if isinstance(plain, tuple) else plain
        known = isinstance(first, torch.Tensor) and first.is_floating_point()
        floats = [a for a in args if isinstance(a, torch.Tensor)]
        if rule is None or not known or not floats or not all(a.is_floating_point() for a in floats):
            return plain
        if (name in ("add", "sub", "div") and "rounding_mode" in kwargs) or not first.numel():
            return plain
        if name.endswith("_") and not name.startswith(
            "_"
        ):  # what it replaced is gone: sums of two are left as they are
            return plain
        made = rule(func, args, kwargs, first.dtype)
        first.copy_(torch.from_numpy(np.ascontiguousarray(made)).to(first.dtype).reshape(first.shape))
        return plain

    # helpers
    @staticmethod
    def _wide(t: Any, dtype: torch.dtype) -> Array:
        """Numbers in the format in which they are computed."""
        to = torch.float64 if dtype == torch.float64 else torch.float32
        found: Array = (t if isinstance(t, torch.Tensor) else torch.tensor(t)).detach().to(to).numpy()
        return found

    def _function(self, name: str, x: Array) -> Array:
        if x.dtype == np.float64:
            return self.draws.at(name, x, self.draws.chip.wide[name], "fp64")
        return self.draws.at(name, x, self.draws.chip.host[name])

    def _unary(self, name: str) -> Callable[..., Array]:
        return lambda func, args, kwargs, dtype: self._function(name, self._wide(args[0], dtype))

    def _total(self, x: Array) -> Array:
        """Along axis 0, in any order: padded with zeros to threads."""
        kind = "fp64" if x.dtype == np.float64 else "fp32"
        size = 1 << max(len(x) - 1, 0).bit_length()
        x = x[self.draws.rng.permutation(len(x))]
        return self.draws.sum(np.concatenate([x, np.zeros((size - len(x), *x.shape[1:]), x.dtype)]), kind)

    def _over(self, x: Array, dims: Any) -> tuple[Array, tuple[int, ...]]:
        axes = tuple(range(x.ndim)) if dims in (None, [], ()) else tuple(d % x.ndim for d in np.atleast_1d(dims))
        moved = np.moveaxis(x, axes, range(len(axes)))
        return moved.reshape(-1, *moved.shape[len(axes) :]), axes

    # operations
    def _div(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> Array:
        x, y = (self._wide(a, dtype) for a in args[:2])
        number = not isinstance(args[1], torch.Tensor) or (args[1].dim() == 0 and self.draws.chance())
        return np.asarray(x * (x.dtype.type(1) / y) if number else x / y)

    def _linear(self, args: Any, kwargs: Any, dtype: Any, sign: int) -> Array:
        x, y = (self._wide(a, dtype) for a in args[:2])
        alpha = x.dtype.type(sign * kwargs.get("alpha", 1))
        if self.draws.chance(self.draws.fuse):
            return fused(y, alpha, x, "fp64" if x.dtype == np.float64 else "fp32")
        return np.asarray(x + alpha * y)

    def _add(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> Array:
        return self._linear(args, kwargs, dtype, 1)

    def _sub(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> Array:
        return self._linear(args, kwargs, dtype, -1)

    def _sum(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> Array:
        x, _ = self._over(self._wide(args[0], dtype), args[1] if len(args) > 1 else None)
        return self._total(x)

    def _mean(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> Array:
        x, _ = self._over(self._wide(args[0], dtype), args[1] if len(args) > 1 else None)
        return np.asarray(self._total(x) * (x.dtype.type(1) / x.dtype.type(len(x))))

    def _var(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> Array:
        x, _ = self._over(self._wide(args[0], dtype), args[1] if len(args) > 1 else None)
        less = kwargs.get("correction", 1)
        return self._spread(x, x.dtype.type(len(x) - (1 if less is None else less)))[1]

    def _spread(self, x: Array, n: Array) -> tuple[Array, Array]:
        """Mean and variance along axis 0 in two passes."""
        mean = self._total(x) / x.dtype.type(len(x))
        d = x - mean
        return mean, self._total(d * d) / n

    def _sigmoid(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> Array:
        x = self._wide(args[0], dtype)
        return np.asarray(1 / (1 + self._function("exp", -x)))

    def _silu(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> Array:
        x = self._wide(args[0], dtype)
        return np.asarray(x / (1 + self._function("exp", -x)))

    def _gelu(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> Array:
        x = self._wide(args[0], dtype)
        one = x.dtype.type
        if kwargs.get("approximate", "none") == "tanh":
            inner = one(0.7978845608028654) * (x + one(0.044715) * x * x * x)
            return np.asarray(one(0.5) * x * (1 + self._function("tanh", inner)))
        return np.asarray(one(0.5) * x * (1 + self._function("erf", x * one(0.7071067811865476))))

    def _softmax(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> Array:
        x = np.moveaxis(self._wide(args[0], dtype), args[1], 0)
        e = self._function("exp", x - x.max(0))
        return np.moveaxis(e / self._total(e), 0, args[1])

    def _log_softmax(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> Array:
        x = np.moveaxis(self._wide(args[0], dtype), args[1], 0)
        z = x - x.max(0)
        return np.moveaxis(z - self._function("log", self._total(self._function("exp", z))), 0, args[1])

    def _cumsum(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> Array:
        x = np.moveaxis(self._wide(args[0], dtype), args[1], 0)
        size = 1 << max(len(x) - 1, 0).bit_length()
        padded = np.concatenate([x, np.zeros((size - len(x), *x.shape[1:]), x.dtype)])
        kind = "fp64" if x.dtype == np.float64 else "fp32"
        return np.moveaxis(self.draws.scan(padded, kind)[: len(x)], 0, args[1])

    def _product(self, a: Array, b: Array) -> Array:
        kind = "fp64" if a.dtype == np.float64 else "fp32"
        total = np.zeros((*a.shape[:-1], b.shape[-1]), a.dtype)
        for k in self.draws.rng.permutation(a.shape[-1]):
            total = fused(a[..., :, k, None], b[..., None, k, :], total, kind)
        return total

    def _mm(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> Array:
        return self._product(*(self._wide(a, dtype) for a in args[:2]))

    def _addmm(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> Array:
        c, a, b = (self._wide(t, dtype) for t in args[:3])
        one = a.dtype.type
        return np.asarray(one(kwargs.get("alpha", 1)) * self._product(a, b) + one(kwargs.get("beta", 1)) * c)

    def _layer_norm(self, func: Any, args: Any, kwargs: Any, dtype: Any) -> Array:
        x, shape, w, b, eps = args[:5]
        axes = tuple(range(x.dim() - len(shape), x.dim()))
        wide = self._wide(x, dtype)
        rows, _ = self._over(wide, axes)
        mean, var = self._spread(rows, rows.dtype.type(len(rows)))
        scale = self._function("rsqrt", var + rows.dtype.type(eps))
        lead = (*x.shape[: axes[0]], *(1,) * len(axes))
        out = (wide - mean.reshape(lead)) * scale.reshape(lead)
        out = out if w is None else out * self._wide(w, dtype)
        return np.asarray(out if b is None else out + self._wide(b, dtype))
