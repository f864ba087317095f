"""`render doctor --warm`: compiles what common kernels need, in parallel, before the first of them is judged."""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from pathlib import Path

import typer

KERNELS = ("matmul", "fused_softmax", "layer_norm", "vector_add", "gelu", "flash_attention")
"""Packaged kernels of different kinds. Neighbours have different formats: processes that start together then compile
different things."""


PRELOAD = ("render.classify", "render.interpreter.session")


def command(jobs: int) -> int:
    """Judges each kernel in a process; what it compiled on the way stays in the cache."""
    from interval_ops.code_cache import folders, writable
    from render.lab.replay.pool import cores
    from render.lab.workers import run
    from render.result.packaged import find

    files = [str(found) for name in KERNELS if (found := find(Path("kernels") / f"{name}.py")) is not None]
    where = next((folder for folder in folders(Path(__file__).parent) if writable(folder)), None)
    typer.echo(f"compiling what common kernels need into {where or 'memory: no folder takes it'}")
    failed = 0
    for n, done in enumerate(run(_judge, files, min(jobs or cores(), len(files)), PRELOAD), 1):
        failed += bool(done.error)
        state = f"  {n:>2} of {len(files)}  {Path(files[done.unit]).stem}{f'  {done.error}' if done.error else ''}"
        if sys.stderr.isatty() or done.error or n == len(files):
            end = "\n" if done.error or n == len(files) or not sys.stderr.isatty() else ""
            typer.echo(("\r" if sys.stderr.isatty() else "") + state.ljust(60) + end, err=True, nl=False)
    return int(failed > 0)


def _judge(file: str) -> str:
    import torch

    from render.classify import classify_file

    torch.set_num_threads(1)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return classify_file(file).code
