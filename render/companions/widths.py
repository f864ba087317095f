"""The index for one length, as a table, and its curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from interval_ops.formats.model import FORMATS
from render.result.needs import drawn, pyplot
from render.trace.accumulation.retention import LIMIT, curve, lost, min_macc, safe_length, suitable, vrr

ACCUMULATORS = ("fp8e5", "bf16", "fp16", "fp32")


def product_bits(operands: str) -> int:
    """Mantissa bits of the product of two numbers of a format: 2 m + 1."""
    return 2 * FORMATS[operands].p - 1


def table(
    n: float, m_p: int, chunk: int | None = None, nzr: float = 1.0, widths: tuple[int, ...] = ()
) -> dict[str, Any]:
    """Per width: VRR, ln v(n), whether v(n) < 50, the safe length; and the narrowest width that passes."""
    named = {FORMATS[name].p - 1: name for name in ACCUMULATORS}
    try:
        least: int | None = min_macc(m_p, n, chunk=chunk, nzr=nzr)
    except ValueError:
        least = None
    asked = sorted({*widths, *named, *(() if least is None else (least,))})
    return {
        "kind": "index", "n": n, "m_p": m_p, "chunk": chunk, "nzr": nzr, "min_macc": least,
        "widths": [
            {"m_acc": m, "format": named.get(m, ""), "vrr": vrr(m, m_p, n, chunk=chunk, nzr=nzr),
             "ln_v": lost(m, m_p, n, chunk=chunk, nzr=nzr), "suitable": suitable(m, m_p, n, chunk=chunk, nzr=nzr),
             "safe_length": safe_length(m, m_p, chunk=chunk)}
            for m in asked
        ],
    }  # fmt: skip


def curves(path: str | Path, m_p: int, widths: tuple[int, ...], chunk: int | None = None, longest: float = 1e7) -> None:
    """Draws VRR against the length, without chunks and with, to a .png, .svg or .pdf."""
    plt = pyplot()
    lengths = np.unique(np.geomspace(2, longest, 200).round())
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for m in widths:
        (line,) = axes.semilogx(lengths, curve(m, m_p, lengths), label=f"{m} bits")
        if chunk is not None:
            axes.semilogx(lengths, curve(m, m_p, lengths, chunk=chunk), "--", color=line.get_color())
        axes.axvline(safe_length(m, m_p), color=line.get_color(), lw=0.5, ls=":")
    axes.set(xlim=(10, longest), xlabel="terms", ylabel="VRR (an index)", ylim=(0, 1.02))
    note = "" if chunk is None else f"; dashed: chunks of {chunk}"
    axes.set_title(f"products of {m_p} mantissa bits{note}; dotted: v(n) = {LIMIT:.0f}", fontsize=9)
    axes.legend(fontsize=8)
    drawn(figure, path, 150)
