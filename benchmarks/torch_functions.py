"""PyTorch's functions on this CPU against exact values: the figures of the profiles torch-cpu and inductor-cpu.

    python benchmarks/torch_functions.py [--how eager strided inductor] [--stride 257] [--points 5000] [--page PATH]

`eager` calls them on contiguous tensors, where vector code runs, `strided` on every second element, where the C
library does, `inductor` through torch.compile (needs a C++ compiler). fp32 functions of one argument meet every
`stride`-th number; the others random points, in ball arithmetic. Exits with 1 where a profile admits less than was
found. About five minutes on one core; torch.compile adds as much.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from vendor_library import chunks

from interval_ops.profiles.profile import MissingRule, load_profile

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from vendor_oracle.balls import ARITY, exactly, ulps
from vendor_oracle.exact import EXACT, comparison
from vendor_oracle.points import arguments

OPS: dict[str, Callable[..., torch.Tensor]] = {
    **{
        name: getattr(torch, name)
        for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh",
                     "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "rsqrt",
                     "lgamma", "pow", "atan2", "hypot")
    },
    "erfcx": torch.special.erfcx, "normcdf": torch.special.ndtr, "normcdfinv": torch.special.ndtri,
}  # fmt: skip
PROFILES = {"eager": "torch-cpu", "strided": "torch-cpu", "inductor": "inductor-cpu"}


def prepared(how: str, op: Callable[..., torch.Tensor]) -> Callable[..., np.ndarray]:
    if how == "inductor":
        torch._dynamo.reset()
    compiled = torch.compile(lambda *args: op(*args)) if how == "inductor" else op

    def call(*args: np.ndarray) -> np.ndarray:
        tensors = [torch.from_numpy(a) for a in args]
        if how == "strided":
            tensors = [torch.stack([t, t], -1)[..., 0] for t in tensors]
        return compiled(*tensors).contiguous().numpy()

    return call


POLES = {"erfinv": 1.0, "atanh": 1.0, "normcdfinv": 1.0, "acosh": 1.0}
"""Where a stride is too wide: the last numbers before (acosh: behind) this one, which errors grow towards."""


def near_pole(name: str) -> list[np.ndarray]:
    if name not in POLES:
        return []
    pole, count = int(np.float32(POLES[name]).view(np.uint32)), 1 << 18
    return [np.arange(pole, pole + count) if name == "acosh" else np.arange(pole - count, pole)]


def swept(name: str, call: Callable[..., np.ndarray], stride: int) -> tuple[float, str, int]:
    """(largest error in ulp, where, results of another kind) over every `stride`-th fp32 number, and all near poles."""
    compare, best, where, odd = comparison(name), 0.0, "", 0
    for bits in (*chunks(stride, 0), *(part.astype(np.uint32) for part in near_pole(name))):
        if bits.size < 1 << 18:  # torch.compile would compile again for another size
            continue
        x = np.abs(bits.view(np.float32)) if name == "lgamma" else bits.view(np.float32)
        error, at, others, first = compare(x, call(x))
        if error > best:
            best, where = error, f"{float(x[at]):.9g}"
        if others:
            odd += others
            print(f"    {name}({float(x[first]):.9g}) = {float(call(x)[first])}")
    return best, where, odd


def sampled(name: str, call: Callable[..., np.ndarray], bits: int, points: int) -> tuple[float, str, int]:
    """The same over random points, in ball arithmetic."""
    args = arguments(name, ARITY.get(name, 1), bits, points, np.random.default_rng(7))
    got, best, where, odd = call(*args), 0.0, "", 0
    small, large = (2.0**-126, 3.4028e38) if bits == 32 else (2.0**-1022, 1.79e308)
    for i in range(points):
        at = tuple(float(a[i]) for a in args)
        value = exactly(name, at)
        if value is None or not small < abs(float(value.mid())) < large:
            continue
        if not math.isfinite(got[i]):
            odd += 1
            print(f"    {name}{at} = {float(got[i])}, not {float(value.mid()):.6g}")
            continue
        error = ulps(value, float(got[i]), bits)
        if error > best:
            best, where = error, ", ".join(f"{v:.9g}" for v in at)
    return best, where, odd


def admitted(name: str, bits: int, how: str) -> str:
    try:
        error = load_profile(PROFILES[how]).fn(name, "fp64" if bits == 64 else "fp32")
    except MissingRule:
        return "none"
    absolute = f" + {error.a:.2g}" if error.a > 1e-40 else ""
    return f"{error.r * 2.0 ** (52 if bits == 64 else 23):g}{absolute}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--how", nargs="*", choices=list(PROFILES), default=["eager", "strided"])
    parser.add_argument("--stride", type=int, default=257)
    parser.add_argument("--points", type=int, default=5000)
    parser.add_argument("--only", nargs="*", default=list(OPS))
    parser.add_argument("--page", type=Path, help="write the table as Markdown here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines, worse = ["| function | how | admitted | found | where | not finite |", "|---|---|---|---|---|---|"], []
    for how in options.how:
        for name in options.only:
            for bits in (32, 64) if how != "inductor" else (32,):
                call = prepared(how, OPS[name])
                alone = bits == 32 and name in EXACT
                found, where, odd = (
                    swept(name, call, options.stride) if alone else sampled(name, call, bits, options.points)
                )
                limit = admitted(name, bits, how)
                lines.append(f"| {name} fp{bits} | {how} | {limit} | {found:.3f} | {where} | {odd} |")
                print(lines[-1], flush=True)
                if limit == "none" or ("+" not in limit and found > float(limit)):
                    worse.append(f"{name} fp{bits} {how}")
    if options.page:
        options.page.write_text(Path(__file__).with_name("torch_functions.md").read_text() + "\n".join(lines) + "\n")
    print("more than admitted:", ", ".join(worse) or "none")
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main())
