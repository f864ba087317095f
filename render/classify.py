"""Is the difference between a kernel and its reference round-off or a bug?

`classify` runs the unedited entry function in the interpreter, the reference as it is and in float64, hands the arrays
to the rules (`render.result.decision`) and asks, for what is round-off, where the width of the bound comes from. The
steps are in `render.judgement`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from render.entry import execution
from render.entry.inputs import gather, of_call
from render.entry.target import find_entry, load_module
from render.interpreter.script import left_out_note
from render.judgement.assumptions import compiler_of
from render.judgement.steps import Judgement
from render.reference.resolve import resolve
from render.result.errors import RenderError
from render.result.options import Options, listing_options, split
from render.result.verdict import Verdict

if TYPE_CHECKING:
    from render.interpreter.no_gpu import no_gpu as no_gpu

__all__ = ["Judgement", "Options", "classify", "classify_file", "compiler_of"]


@listing_options
def classify(
    fn: Callable[..., Any],
    *inputs: Any,
    ref: str | Callable[..., Any] | None = None,
    output: Any = None,
    **keywords: Any,
) -> Verdict:
    """Judge `fn(*inputs, **keywords)`, which launches Triton kernels, against the reference `ref`.

    `output` is what a real device returned for the same inputs (tensors, or the path of a tensors file). Keywords that
    are fields of `Options` (in `render.result.options`) are options, as `device="sm_90"` or `explain=["power"]`; the
    others go to `fn`. Raises RenderError for a call that cannot be judged and KernelError for what the user's own code
    raises.
    """
    if not callable(fn):
        hint = "pass the function that launches the kernel"
        raise RenderError("RND902", f"{type(fn).__name__} is not a function", hint)
    options, others = split(keywords)
    return Judgement(fn, of_call(fn, inputs, others), resolve(ref), _recorded(output), options).verdict()


@listing_options
def classify_file(
    path: str | Path,
    entry: str | None = None,
    ref: str | None = None,
    inputs: str | Path | None = None,
    specs: Sequence[str] = (),
    output: Any = None,
    **options: Any,
) -> Verdict:
    """`classify` for a Python file: finds the entry function, the inputs and the reference in it."""
    chosen, others = split(options)
    if others:
        raise TypeError(f"classify_file() has no option {next(iter(others))!r}")
    with execution.described_as(chosen.device):
        return _classified(path, entry, ref, inputs, specs, output, chosen)


def _classified(
    path: str | Path,
    entry: str | None,
    ref: str | None,
    inputs: Any,
    specs: Sequence[str],
    output: Any,
    chosen: Options,
) -> Verdict:
    with execution.on_cpu():
        module = load_module(path)
        fn = find_entry(module, entry, ref if isinstance(ref, str) else None)
        given = gather(fn, module, inputs, specs, chosen.seed)
    note = left_out_note(module)
    told = () if note is None else (note,)
    return Judgement(fn, given, resolve(ref, module), _recorded(output), chosen, told).verdict()


def _recorded(output: Any) -> Any:
    if isinstance(output, str | Path):
        from render.entry.tensors import load

        return load(Path(output))
    return output
