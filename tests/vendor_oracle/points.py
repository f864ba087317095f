"""Arguments for the functions of a math library: every size, and the neighbourhoods where they are hard."""

from __future__ import annotations

import numpy as np

Array = np.ndarray

_UNIT = ("asin", "acos", "atanh", "erfinv")
_POSITIVE = ("log", "log2", "log10", "rsqrt", "erfcinv", "normcdfinv", "lgamma")
_LIMITED = {"exp": 700.0, "exp2": 1020.0, "exp10": 300.0, "expm1": 700.0, "sinh": 700.0, "cosh": 700.0, "erfc": 26.0,
            "erfcx": 26.0, "normcdf": 37.0, "tgamma": 170.0}  # fmt: skip
_LIMITED32 = {"exp": 88.0, "exp2": 126.0, "exp10": 38.0, "expm1": 88.0, "sinh": 88.0, "cosh": 88.0, "erfc": 9.0,
              "erfcx": 9.0, "normcdf": 13.0, "tgamma": 35.0}  # fmt: skip
_PLACES = (1.0, 2.0, 0.5, 1.5, 3.0, np.pi / 2, np.pi, 0.6931471805599453, 1.4616321449683622)


def arguments(name: str, arity: int, bits: int, n: int, rng: np.random.Generator) -> tuple[Array, ...]:
    """`arity` arrays of n numbers of the format, in the domain of `name` where that is simple."""
    dtype = np.float32 if bits == 32 else np.float64
    if name == "pow":
        return _powers(bits, n, rng, dtype)
    if arity > 1:
        scale = np.ldexp(1.0, rng.integers(-20, 20, n))
        spread = [np.ldexp(rng.uniform(-2, 2, n), rng.integers(-8, 1, n) * (rng.random(n) < 0.6)) for _ in range(arity)]
        return tuple((x * scale).astype(dtype) for x in spread)
    return (_one(name, bits, n, rng).astype(dtype),)


def _one(name: str, bits: int, n: int, rng: np.random.Generator) -> Array:
    limit = (_LIMITED32 if bits == 32 else _LIMITED).get(name, np.inf)
    depth = 24 if bits == 32 else 53
    kind = rng.integers(0, 3, n)
    if name in _UNIT:
        near = 1 - np.ldexp(rng.uniform(1, 2, n), -rng.integers(1, depth + 1, n))
        x = np.where(kind == 0, np.ldexp(rng.uniform(0.5, 1, n), -rng.integers(0, 30, n)), near)
        return np.minimum(x, 1 - 2.0**-depth) * rng.choice([-1.0, 1.0], n)
    around = rng.choice(_PLACES, n) * (1 + np.ldexp(rng.uniform(-1, 1, n), -rng.integers(0, depth, n)))
    plain = rng.uniform(0, min(limit, 10.0), n)
    most = 120 if bits == 32 else 1000
    exponents = np.where(rng.random(n) < 0.8, rng.integers(-40, 40, n), rng.integers(-most, most, n))
    wide = np.ldexp(rng.uniform(1, 2, n), exponents)
    x = np.where(kind == 0, around, np.where(kind == 1, plain, np.minimum(wide, limit * rng.uniform(0.5, 1, n))))
    if name == "acosh":
        return 1 + x
    if name == "log1p":
        return np.where(rng.random(n) < 0.5, x, np.maximum(-x, -1 + 2.0**-depth))
    if name in ("erfcinv", "normcdfinv"):
        top = 2.0 if name == "erfcinv" else 1.0
        tail = np.ldexp(rng.uniform(0.5, 1, n), -rng.integers(0, 120 if bits == 32 else 900, n))
        return np.where(kind == 0, rng.uniform(0, top, n), tail)
    return x if name in _POSITIVE else x * rng.choice([-1.0, 1.0], n)


def _powers(bits: int, n: int, rng: np.random.Generator, dtype: type) -> tuple[Array, Array]:
    """Results of every size: x near 1 with a large exponent, and any x with a small one."""
    largest = 120.0 if bits == 32 else 1000.0
    x: Array = np.ldexp(rng.uniform(1, 2, n), rng.integers(-30, 30, n)).astype(dtype)
    near: Array = (1 + np.ldexp(rng.uniform(-1, 1, n), -rng.integers(1, 20, n))).astype(dtype)
    x = np.where(rng.random(n) < 0.5, x, near).astype(dtype)
    log = np.log2(x.astype(np.longdouble)).astype(np.float64)
    y = rng.uniform(-largest, largest, n) / np.where(log == 0, 1.0, log)
    return x, np.clip(y, -1e30, 1e30).astype(dtype)
