"""Is the difference between a kernel and its reference round-off or a bug?

`classify` runs the unedited entry function in the interpreter, the reference as it is and in float64, hands the arrays
to the rules (`render.result.decision`) and asks, for what is round-off, where the width of the bound comes from. The
steps are in `render.judgement`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from render.judgement import question
from render.judgement.assumptions import compiler_of
from render.judgement.steps import Judgement
from render.result.options import Options, listing_options, split
from render.result.verdict import Verdict

__all__ = ["Judgement", "Options", "classify", "classify_devices", "classify_file", "compiler_of"]


@listing_options
def classify(
    fn: Callable[..., Any],
    *inputs: Any,
    ref: str | Callable[..., Any] | None = None,
    **keywords: Any,
) -> Verdict:
    """Judge `fn(*inputs, **keywords)`, which launches Triton kernels, against the reference `ref`.

    `output` is what a real device returned for the same inputs (tensors, or the path of a tensors file). Keywords that
    are fields of `Options` (in `render.result.options`) are options, as `device="sm_90"` or `explain=["power"]`; the
    others go to `fn`. With `options={"device": "sm_90", ...}`, which takes `ref` and `output` too, all of them do: for
    a function that has such parameters itself. Raises RenderError for a call that cannot be judged and KernelError for
    what the user's own code raises.

        v = render.classify(softmax, x, ref=lambda x: torch.softmax(x, 1), device="sm_90")
        v.label, v.code     # "Type-I", "RND102"
    """
    return question.of_call_with(fn, inputs, keywords, ref)


@listing_options
def classify_file(
    path: str | Path,
    entry: str | None = None,
    ref: str | None = None,
    inputs: str | Path | None = None,
    specs: Sequence[str] = (),
    output: Any = None,
    ref_args: Sequence[str] = (),
    **options: Any,
) -> Verdict:
    """`classify` for a Python file: finds the entry function, the inputs and the reference in it."""
    chosen, others = split(options)
    if others:
        raise TypeError(f"classify_file() has no option {next(iter(others))!r}")
    return question.of_file(path, entry, ref, inputs, specs, output, chosen, tuple(ref_args))


def classify_devices(
    path: str | Path,
    devices: Sequence[str],
    entry: str | None = None,
    ref: str | None = None,
    inputs: str | Path | None = None,
    specs: Sequence[str] = (),
    output: Any = None,
    ref_args: Sequence[str] = (),
    **options: Any,
) -> Iterator[tuple[str, Verdict]]:
    """`classify_file` under several profiles, with one run of the reference for all.

    Ends early where host code asked what device it has: the profiles that are left want a process each.
    """
    chosen, others = split(options)
    if others:
        raise TypeError(f"classify_devices() has no option {next(iter(others))!r}")
    return question.of_file_on(path, devices, chosen, entry=entry, ref=ref, inputs=inputs, specs=specs, output=output,
                               ref_args=tuple(ref_args))  # fmt: skip
