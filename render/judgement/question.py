"""The question: from a call, or a file with its reference, to the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from render.entry import execution, recording
from render.entry.inputs import Inputs, gather, of_call, parameters_of
from render.entry.memo import asks_now
from render.entry.resolve import resolve
from render.entry.target import find_entry, left_out_note, load_module
from render.entry.tensors import dense, load
from render.entry.wrappers import two_models
from render.judgement.steps import Judgement
from render.result.errors import RenderError
from render.result.options import NAMES, Options, split
from render.result.progress import told_in_notebooks
from render.result.verdict import Verdict

Given = str | Callable[..., Any] | None
"""A reference: its name, itself, or None for the one of the file."""


def of_function(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    keywords: Mapping[str, Any],
    ref: Given,
    output: Any,
    options: Options,
) -> Verdict:
    """The verdict on `fn(*inputs, **keywords)`; `output`: what a device returned, or the path of a tensors file."""
    if not callable(fn):
        file = isinstance(fn, str | Path)
        hint = "pass the function that launches the kernel" + f"; for a file: render classify {fn}" * file
        raise RenderError("RND902", f"{type(fn).__name__} is not a function", hint)
    given, device = of_call(fn, tuple(inputs), dict(keywords)), _recorded(output)
    if isinstance(device, recording.DeviceRecording):
        given = given if given.values else device.call(fn)
        device.check(given)
    with told_in_notebooks(f"judging {getattr(fn, '__name__', 'the call')}", options) as seen:
        return Judgement(fn, given, resolve(ref), device, seen).verdict()


def of_call_with(fn: Callable[..., Any], inputs: Sequence[Any], keywords: Mapping[str, Any], ref: Given) -> Verdict:
    """`of_function` where keywords hold options too: all of them under `options`, or each by its name.

    Raises RenderError for a keyword that may be meant for either.
    """
    given = dict(keywords)
    chosen = given.pop("options", None)
    output = given.pop("output", None) if "output" not in parameters_of(fn) or chosen is None else None
    if chosen is not None:
        named = vars(chosen) if isinstance(chosen, Options) else dict(chosen)
        if "ref" in named and "ref" in parameters_of(fn) and ref is not None:
            given["ref"] = ref
        ref, output = named.pop("ref", ref), named.pop("output", output)
        wrong = sorted(named.keys() - NAMES.keys())
        if wrong:
            raise RenderError("RND902", f"no option is called {wrong[0]!r}", f"there are: {', '.join(NAMES)}")
        return of_function(fn, inputs, given, ref, output, Options(**named))
    both = [name for name in parameters_of(fn)[len(inputs) :] if name in given and name in NAMES]
    if both:
        hint = f"options={{{both[0]!r}: ...}} sets the option, {both[0]}=... then goes to the function"
        raise RenderError("RND902", f"{both[0]} is an option and a parameter of the function", hint)
    options, others = split(given)
    return of_function(fn, inputs, others, ref, output, options)


def of_file(
    path: str | Path,
    entry: str | None,
    ref: Given,
    inputs: Any,
    specs: Sequence[str],
    output: Any,
    options: Options,
    ref_args: Sequence[str] = (),
    call: Callable[[Callable[..., Any]], Inputs] | None = None,
) -> Verdict:
    """The verdict on a file, in which the entry function, the inputs and the reference are looked for.

    `call` finds the inputs where the file gives none by itself.
    """
    with execution.described_as(options.device), told_in_notebooks(f"judging {Path(path).name}", options) as seen:
        return _asked(path, entry, ref, inputs, specs, output, seen, ref_args, call).verdict()


def of_file_on(
    path: str | Path,
    devices: Sequence[str],
    options: Options,
    **asked: Any,
) -> Iterator[tuple[str, Verdict]]:
    """The verdicts on a file under several profiles, with one run of the reference for all of them (`of_file`'s other
    arguments by name).

    Ends after the first profile under which host code asked what device it has: what it was told may stay in its
    modules, so each further profile wants a process of its own.
    """
    question: Judgement | None = None
    for device in devices:
        with execution.described_as(device):
            one = replace(options, device=device)
            question = _asked(path, options=one, **asked) if question is None else replace(question, options=one)
            yield device, question.verdict()
            if asks_now():
                return


def _asked(
    path: str | Path,
    entry: str | None,
    ref: Given,
    inputs: Any,
    specs: Sequence[str],
    output: Any,
    options: Options,
    ref_args: Sequence[str] = (),
    call: Callable[[Callable[..., Any]], Inputs] | None = None,
) -> Judgement:
    with execution.on_cpu():
        module = load_module(path)
        models = two_models(module, options.seed) if (entry, ref, inputs, specs) == (None, None, None, ()) else None
        device = _recorded(output)
        own = isinstance(device, recording.DeviceRecording) and inputs is None and not specs
        if models is not None:
            fn, given, reference = models
        else:
            fn = find_entry(module, entry, ref if isinstance(ref, str) else None)
            if call is not None:
                given = call(fn)
            else:
                given = device.call(fn) if own else gather(fn, module, inputs, specs, options.seed)
            reference = resolve(ref, module, ref_args)
        if isinstance(device, recording.DeviceRecording):
            device.check(given)
    note = left_out_note(module)
    return Judgement(fn, given, reference, device, options, () if note is None else (note,))


def _recorded(output: Any) -> Any:
    """What a device returned: tensors, or a file with them, perhaps a recording of the whole call."""
    if isinstance(output, str | Path):
        output = recording.load(output) or load(Path(output))
    dense(output, "the output of the device")
    return output
