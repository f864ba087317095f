"""Codes of errors that end a command before there is a verdict; `RenderError` carries one of them."""

from __future__ import annotations

from render.result.codes.row import Code

USAGE = (
    Code(
        code="RND901",
        title="inputs are missing, or a file cannot be read or written",
        prose="RENDER found the function to call but does not know with which arguments; or a file of inputs, outputs "
        "or a saved verdict is not there, damaged, or of another kind.",
        maths="first hit wins: --inputs FILE, then --input NAME=..., then make_inputs() in FILE",
        example='render classify kernel.py --input "a=randn(512,512):fp16" --input "b=randn(512,512):fp16"',
        more="Paste the make_inputs() that the message prints into FILE, or give --input once per argument. Files of "
        "tensors are .safetensors, .npz or .pt; a verdict is saved with --json PATH.",
    ),
    Code(
        code="RND902",
        title="kernel, reference or option not found",
        prose="FILE, the function to call, or the reference cannot be found, imported or called, more than one "
        "function launches a kernel, or an option names something that there is not.",
        maths="target: --entry NAME, else the one function in FILE that launches a kernel\n"
        "reference: --ref dotted.path | module:attr | file.py::fn | name in FILE, else reference() in FILE",
        example="render classify kernel.py --entry matmul --ref torch.matmul",
        more="Name the target with --entry and the reference with --ref; the message lists what there is.",
    ),
    Code(
        code="RND903",
        title="outputs cannot be matched",
        prose="The outputs of the kernel, of the reference or of the recorded file do not correspond: another number, "
        "or names that appear on one side only. Or a question names an output or an element that there is not.",
        maths="outputs are what the entry returns, else the tensors that the kernel stored to, by argument name",
        example="the entry returns (out, lse), the reference returns out only",
        more="Return the same outputs from both, or a dict with the same keys.",
    ),
    Code(
        code="RND904",
        title="nothing was launched",
        prose="The function ran to its end without launching a Triton kernel, so there is nothing to judge.",
        maths="number of launches = 0",
        example="def entry(a, b): return torch.matmul(a, b)      # a fallback path was taken",
        more="Check the path that these inputs take through the launcher, or name another function with --entry.",
    ),
    Code(
        code="RND905",
        title="this verdict does not answer the question",
        prose="A verdict was asked for something that it does not have: a tolerance where it is not a bounded Type-I, "
        "the provenance of an element that no kernel stored, or another run after it was saved and loaded.",
        maths="tolerance(): label = Type-I and every element has a finite bound",
        example='verdict.tolerance()      # of a verdict whose label is "Type-II"',
        more="Look at verdict.label first; ask the verdict that classify returned, not one that was loaded.",
    ),
    Code(
        code="RND906",
        title="the limit of time or memory ended the run",
        prose="The command needed more time or memory than it was given, and ended without a verdict: no clock decides "
        "what a verdict says.",
        maths="--timeout SECONDS, --memory-limit GIB; 0 is no limit",
        example="render classify kernel.py --timeout 60     # a launcher that waits for something that never comes",
        more="The message names the user's line that ran last. Give more time, or smaller inputs.",
    ),
    Code(
        code="RND907",
        title="a compared tensor cannot be made again",
        prose="In a script, the steps behind a compared tensor are run again with bounds. Here they give other values: "
        "something beside torch operations and kernels wrote to it (numpy on shared memory, an extension).",
        maths="max |again - before| > 2^-6 max |before|",
        example="x = np.zeros(4); t = torch.from_numpy(x); x += 1      # t changes, and no operation says so",
        more="Compute it with torch, or judge the function by itself: render classify FILE --entry NAME --ref SPEC.",
    ),
    Code(
        code="RND908",
        title="user code has replaced what RENDER stands on",
        prose="The user's code has put something else in the place of functions of Python, torch, numpy or Triton, and "
        "RENDER, which calls them too, could not go on. What nobody can call any more is given back by itself.",
        maths="a name of such a module is bound to another object than before the user's code ran",
        example="time.monotonic = lambda: 1 / 0",
        more="Undo it before a kernel is launched or compared, as `unittest.mock.patch` does at the end of its block.",
    ),
)
