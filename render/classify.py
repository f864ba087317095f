"""Is the difference between a kernel and its reference round-off or a bug?

`classify` runs the unedited entry function in the interpreter, the reference as it is and in float64, hands the arrays
to the rules (`render.result.decision`) and asks, for what is round-off, where the width of the bound comes from. The
steps are in `render.judgement`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from render.entry import execution
from render.entry.inputs import gather, of_call
from render.entry.target import find_entry, load_module
from render.explain.asked import SECONDS, of_names
from render.explain.counterfactuals import Progress
from render.interpreter.script import left_out_note
from render.judgement.assumptions import compiler_of
from render.judgement.settings import Settings, choices
from render.judgement.steps import Judgement
from render.reference.resolve import resolve
from render.result.errors import RenderError
from render.result.verdict import Verdict

__all__ = ["Judgement", "Settings", "choices", "classify", "classify_file", "compiler_of"]


def classify(
    fn: Callable[..., Any],
    *inputs: Any,
    ref: str | Callable[..., Any] | None = None,
    device: str = "any",
    output: Any = None,
    seed: int = 0,
    ref_precision: str = "ieee",
    budget: bool = True,
    explain: Iterable[str] = (),
    explain_seconds: float = SECONDS,
    progress: Progress | None = None,
    sum_order: str = "any",
    fp_contraction: str = "any",
    triton_version: str | None = None,
    options: Mapping[str, Any] | None = None,
    **keywords: Any,
) -> Verdict:
    """Judge `fn(*inputs, **keywords)`, which launches Triton kernels, against the reference `ref`.

    `device` names the profile whose legal executions the bound covers; `output` is what a real device returned for
    the same inputs (tensors, or the path of a tensors file). `ref_precision="tf32"` says that the reference multiplied
    with TF32 operands ("tf32-rna": rounded to nearest instead of truncated). `sum_order` "tree" assumes the order of
    additions inside a program that Triton's lowering gives, `fp_contraction` says whether products that are added may
    be contracted ("on", "off"), `triton_version` which version compiles the kernel (default: the installed one).
    `options` go to the interpreter session.
    `explain` names what else to find out ("counterfactuals"), each in at most `explain_seconds` of further runs, with
    `progress(done, total, what)` called before each.
    Raises RenderError for a call that cannot be judged and KernelError for what the user's own code raises.
    """
    if not callable(fn):
        hint = "pass the function that launches the kernel"
        raise RenderError("RND902", f"{type(fn).__name__} is not a function", hint)
    given = of_call(fn, inputs, keywords)
    asked = of_names(explain, explain_seconds, progress)
    chosen = choices(sum_order, fp_contraction, triton_version, options)
    settings = Settings(device, seed, ref_precision, budget, chosen, asked)
    return Judgement(fn, given, resolve(ref), _recorded(output), settings).verdict()


def classify_file(
    path: str | Path,
    entry: str | None = None,
    ref: str | None = None,
    device: str = "any",
    inputs: str | Path | None = None,
    specs: Sequence[str] = (),
    seed: int = 0,
    output: Any = None,
    ref_precision: str = "ieee",
    budget: bool = True,
    explain: Iterable[str] = (),
    explain_seconds: float = SECONDS,
    progress: Progress | None = None,
    sum_order: str = "any",
    fp_contraction: str = "any",
    triton_version: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Verdict:
    """`classify` for a Python file: finds the entry function, the inputs and the reference in it."""
    with execution.on_cpu():
        module = load_module(path)
        fn = find_entry(module, entry, ref if isinstance(ref, str) else None)
        given = gather(fn, module, inputs, specs, seed)
    asked = of_names(explain, explain_seconds, progress)
    chosen = choices(sum_order, fp_contraction, triton_version, options)
    settings = Settings(device, seed, ref_precision, budget, chosen, asked)
    note = left_out_note(module)
    told = () if note is None else (note,)
    return Judgement(fn, given, resolve(ref, module), _recorded(output), settings, told).verdict()


def _recorded(output: Any) -> Any:
    if isinstance(output, str | Path):
        from render.entry.tensors import load

        return load(Path(output))
    return output
