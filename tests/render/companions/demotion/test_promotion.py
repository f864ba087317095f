"""Repairs are found by shape, carried out, and told only where a run of the changed kernel is better."""

import pytest
import torch

from render.companions.called import called
from render.companions.demotion.promotion import candidates, promotions
from render.entry.inputs import of_call

HEAD = "import torch, triton\nimport triton.language as tl\n\n\n@triton.jit\ndef k(X, Y, n, B: tl.constexpr):\n"
TAIL = "\n\ndef run(x):\n    y = torch.empty_like(x)\n    k[(1,)](x, y, 64.0, 64)\n    return y\n"
LOAD = "    i = tl.arange(0, B)\n    x = tl.load(X + i)\n"

ONE_PASS = (
    "    s = tl.zeros((16,), tl.float32)\n    q = tl.zeros((16,), tl.float32)\n    for k in range(0, B, 16):\n"
    "        j = k + tl.arange(0, 16)\n        x = tl.load(X + j{0})\n        {1}\n        {2}\n"
    "    m = {3} / n\n    v = {4} / n - m * m\n    tl.store(Y + tl.arange(0, B), tl.zeros((B,), tl.float32) + v)\n"
)

BODIES = {
    "variance": (LOAD + "    m = tl.sum(x, axis=0) / n\n    v = tl.sum(x * x, axis=0) / n - m * m\n"
                 "    tl.store(Y + i, x * v)\n",
                 100 + torch.rand(64), "differences from the mean"),
    "expm1": (LOAD + "    tl.store(Y + i, tl.exp(x) - 1.0)\n", torch.rand(64) * 1e-4, "expm1"),
    "log1p": (LOAD + "    tl.store(Y + i, tl.log(1.0 + x))\n", torch.rand(64) * 1e-4, "log1p"),
    "softmax": (LOAD + "    e = tl.exp(x)\n    tl.store(Y + i, e / tl.sum(e, axis=0))\n",
                torch.rand(64) * 100, "maximum"),
    "welford in lanes": (ONE_PASS.format("", "s += x", "q += x * x", "tl.sum(s, 0)", "tl.sum(q, 0)"),
                         100 + torch.rand(64), "Welford"),
    "welford in blocks": (ONE_PASS.format("", "s += tl.sum(x, axis=0)", "q = q + tl.sum(x * x, axis=0)", "s", "q")
                          .replace("tl.zeros((16,), tl.float32)", "0.0"), 100 + torch.rand(64), "Welford"),
    "welford under a mask": (ONE_PASS.format(", mask=j < 50, other=0.0", "s += x", "q += x * x", "tl.sum(s, 0)",
                                             "tl.sum(q, 0)").replace("/ n", "/ 50"), 100 + torch.rand(64), "Welford"),
    "scaled softmax": (LOAD + "    z = x * 0.1803369\n    e = tl.exp(z - tl.max(z, 0))\n    tl.store(Y + i, e)\n",
                       1e6 + torch.rand(64), "factor"),
    "difference of products": (LOAD + "    w = tl.load(X + B - 1 - i)\n    tl.store(Y + i, x * 1.7 - w * 1.7)\n",
                               1e4 + torch.rand(64), "common factor"),
    "half": (LOAD + "    h = x.to(tl.float16)\n    tl.store(Y + i, h.to(tl.float32) * h)\n", torch.rand(64), "fp32"),
}  # fmt: skip


SUM = (
    "    acc = tl.zeros((4,), tl.float16)\n    for k in range(0, B, 4):\n"
    "        x = tl.load(X + k + tl.arange(0, 4)){0}\n        {1}\n    acc = acc {2}\n"
    "    tl.store(Y + tl.arange(0, 4), acc)\n"
)
HALF_TAIL = "\n\ndef run(x):\n    y = torch.empty(4, dtype=x.dtype)\n    k[(1,)](x, y, 64.0, 256)\n    return y\n"
PARTIALS = (
    "    j = tl.arange(0, 4)\n    p = tl.program_id(0)\n    q = X + p * 8 + j\n"
    "    tl.store(Y + p * 4 + j, tl.load(q) + tl.load(q + 4))\n"
    "\n\n@triton.jit\ndef total(W, Y, S: tl.constexpr):\n    j = tl.arange(0, 4)\n"
    "    acc = tl.zeros((4,), tl.float32)\n    for s in range(S):\n"
    "        acc += tl.load(W + s * 4 + j).to(tl.float32)\n    tl.store(Y + j, acc)\n"
)
PARTIALS_TAIL = (
    "\n\ndef run(x):\n    w = torch.empty(8, 4, dtype=torch.float16)\n    y = torch.empty(4)\n"
    "    k[(8,)](x, w, 64.0, 64)\n    total[(1,)](w, y, 8)\n    return y\n"
)
SUMS = {  # body, tail, inputs, what
    "in fp16": (SUM.format("", "acc += x", "* 1.0"), HALF_TAIL, torch.randn(256).half(), "accumulator"),
    "in fp16 through casts": (SUM.format(".to(tl.float32)", "acc = (acc.to(tl.float32) + x).to(tl.float16)", "+ 0.0"),
                              HALF_TAIL, torch.randn(256).half(), "accumulator"),
    "partials of the launcher": (PARTIALS, PARTIALS_TAIL, torch.randn(64), "partials"),
}  # fmt: skip


def written(tmp_path, body, tail=TAIL):
    path = tmp_path / "kernel.py"
    path.write_text(HEAD + body + tail)
    return called(path)


@pytest.mark.parametrize("name", SUMS)
def test_sums_that_are_kept_short_are_widened_as_a_whole(tmp_path, name):
    body, tail, x, word = SUMS[name]
    target = written(tmp_path, body, tail)
    found = promotions(target, of_call(target.fn, (x,), {}))
    assert found and found[0].what == f"fp32 {word}" and found[0].error >= 1.5 and found[0].bound > 1.05


def test_an_output_in_more_bits_is_no_repair(tmp_path):
    target = written(tmp_path, LOAD + "    tl.store(Y + i, x * 3.0)\n",
                     TAIL.replace("empty_like(x)", "empty(64, dtype=torch.float16)"))  # fmt: skip
    assert any(what == "fp32 partials" for what, _, _ in candidates(target.path.read_text()))
    assert promotions(target, of_call(target.fn, (torch.rand(64),), {})) == []


@pytest.mark.parametrize("name", BODIES)
def test_a_single_change_repairs(tmp_path, name):
    body, x, word = BODIES[name]
    target = written(tmp_path, body)
    found = promotions(target, of_call(target.fn, (x,), {}))
    assert found and word in found[0].what and found[0].error >= 1.5 and found[0].bound >= 1.5
    compile(found[0].source, "changed", "exec")


def test_what_does_not_help_or_changes_the_function_is_not_told(tmp_path):
    """A plain exponential is no softmax: without its maximum it is another function. expm1 of 5 gains nothing."""
    target = written(tmp_path, LOAD + "    tl.store(Y + i, tl.exp(x) - 1.0)\n")
    tried = {what for what, _, _ in candidates(target.path.read_text())}
    assert tried == {"expm1", "the maximum taken out of the exponent"}
    assert promotions(target, of_call(target.fn, (5 + torch.rand(64),), {})) == []
