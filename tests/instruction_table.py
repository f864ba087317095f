"""What Triton compiles each operation to, per target, read in PTX and AMDGCN made here without a GPU.

`python tests/instruction_table.py` writes the table of docs/lowering.md; `test_instruction_table.py` holds its rows
that have a documented error against the profiles.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import triton
import triton.language as tl
from lowering import compiled
from triton.language.extra import libdevice

TARGETS: tuple[Any, ...] = (80, 90, 100, "gfx90a", "gfx942")


@triton.jit
def one(x, y, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    to: tl.constexpr = y.dtype.element_ty
    if OP == "x / y":
        r = a / tl.load(x + N + i)
    elif OP == "x / 3.0":
        r = a / 3.0
    elif OP == "x / 4.0":
        r = a / 4.0
    elif OP == "3.0 / x":
        r = 3.0 / a
    elif OP == "div_rn":
        r = tl.div_rn(a, tl.load(x + N + i))
    elif OP == "x * y + z":
        r = a * tl.load(x + N + i) + tl.load(x + 2 * N + i)
    elif OP == "sqrt":
        r = tl.sqrt(a)
    elif OP == "sqrt_rn":
        r = tl.sqrt_rn(a)
    elif OP == "rsqrt":
        r = tl.rsqrt(a)
    elif OP == "exp":
        r = tl.exp(a)
    elif OP == "exp2":
        r = tl.exp2(a)
    elif OP == "log":
        r = tl.log(a)
    elif OP == "log2":
        r = tl.log2(a)
    elif OP == "sin":
        r = tl.sin(a)
    elif OP == "tanh":
        r = libdevice.tanh(a)
    elif OP == "floor":
        r = tl.floor(a)
    elif OP == "maximum":
        r = tl.maximum(a, tl.load(x + N + i))
    elif OP == "maximum, NaN":
        r = tl.maximum(a, tl.load(x + N + i), propagate_nan=tl.PropagateNan.ALL)
    else:
        r = a
    tl.store(y + i, r.to(to))


ROWS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("x / y", "x / 3.0", "x / 4.0", "3.0 / x", "div_rn", "x * y + z", "sqrt", "sqrt_rn", "rsqrt", "exp", "exp2",
         "log", "log2", "sin", "tanh", "floor", "maximum", "maximum, NaN"), ("fp32", "fp32")
    ),
    "fp32 to int8": ("fp32", "i8"), "fp32 to uint8": ("fp32", "u8"), "fp32 to int16": ("fp32", "i16"),
    "fp32 to int32": ("fp32", "i32"), "fp32 to fp16": ("fp32", "fp16"), "fp32 to bf16": ("fp32", "bf16"),
    "fp32 to fp8e5": ("fp32", "fp8e5"), "fp32 to fp8e4nv": ("fp32", "fp8e4nv"), "fp16 to fp8e5": ("fp16", "fp8e5"),
}  # fmt: skip
"""Operation, or cast: types of operand and result."""

MARK = "<!-- written by tests/instruction_table.py -->"
_PTX = re.compile(r"^\s*(?:@!?%p\d+\s+)?([a-z]+[\w.]*\.(?:\w*f\d\w*|f\d+|bf16\w*|e\dm\d\w*)(?:\.\w+)*)\s", re.M)
_ROUTE = re.compile(r"^\s*(cvt\.[\w.]+)\s", re.M)
_GCN = re.compile(r"^\s*(v_(?:\w*_)?(?:f\d+|bf16|fp8|bf8|i32_f32|u32_f32)\w*)\s", re.M)
_MOVES = ("mov.", "ld.", "st.", "selp.", "setp.", "v_cmp", "v_cndmask", "v_mov")


def sequence(name: str, target: Any, **options: Any) -> list[str]:
    """Instructions on floats in order, repetitions joined; what does not compile is an empty list."""
    src, dst = ROWS[name]
    try:
        made = compiled(one, {"x": src, "y": dst}, {"OP": name, "N": 32}, target, num_warps=1, **options)
    except Exception:
        return []
    text = made.asm["ptx"] if "ptx" in made.asm else made.asm["amdgcn"]
    found = (_PTX if "ptx" in made.asm else _GCN).findall(text)
    if "ptx" in made.asm and " to " in name:
        found = _ROUTE.findall(text) or found
    kept: list[str] = []
    for word in found:
        word = re.sub(r"_e(32|64)$|_dpp$|_sdwa$", "", word)
        if not word.startswith(_MOVES) and (not kept or kept[-1] != word):
            kept.append(word)
    return kept


def table() -> str:
    heads = [f"sm_{t}" if isinstance(t, int) else t for t in TARGETS]
    lines = [f"| operation | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name in ROWS:
        cells = []
        for found in (sequence(name, target) for target in TARGETS):
            more = f", ... ({len(found)})" if len(found) > 6 else ""
            cells.append(", ".join(f"`{word}`" for word in found[:6]) + more or "bit operations, or refused")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    page = Path(__file__).parents[1] / "docs" / "lowering.md"
    before, _, after = page.read_text().split(MARK)
    page.write_text(f"{before}{MARK}\n{table()}\n{MARK}{after}")
