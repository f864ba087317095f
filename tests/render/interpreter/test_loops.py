"""Turns of a loop of one program that run at once give what they give one by one."""

import ast
import textwrap

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from render.interpreter import loops
from render.interpreter.events import Listener, listened
from render.interpreter.session import Session


@triton.jit
def tiles(x, out, n, P, W: tl.constexpr):
    for t in range(tl.program_id(0), n, P):
        at = t * W + tl.arange(0, W)
        tl.store(out + at, tl.exp(tl.load(x + at)) / 3)


@triton.jit
def in_place(x, out, n, P, W: tl.constexpr):
    for t in range(tl.program_id(0), n, P):
        at = t * W + tl.arange(0, W)
        tl.store(out + at, tl.load(out + at) * 0.3 + tl.load(x + at))


@triton.jit
def from_the_turn_before(x, out, n, P, W: tl.constexpr):
    for t in range(1, n):
        at = t * W + tl.arange(0, W)
        tl.store(out + at, tl.load(out + at - W) * 0.9 + tl.load(x + at))


@triton.jit
def for_the_turn_after(x, out, n, P, W: tl.constexpr):
    for t in range(n - 1):
        at = t * W + tl.arange(0, W)
        tl.store(out + at, tl.load(out + at + W) + tl.load(x + at))
        tl.store(out + at + W, tl.load(x + at) * 0.1)


@triton.jit
def last_turn_stays(x, out, n, P, W: tl.constexpr):
    for t in range(n):
        tl.store(out + tl.arange(0, W), tl.load(x + t * W + tl.arange(0, W)) / 7)


@triton.jit
def same_place_same_value(x, out, n, P, W: tl.constexpr):
    for _t in range(n):
        tl.store(out + tl.arange(0, W), tl.load(x + tl.arange(0, W)) / 7)


@triton.jit
def scratch(x, out, n, P, W: tl.constexpr):
    for t in range(1, n):
        tl.store(out + tl.arange(0, W), tl.load(x + t * W + tl.arange(0, W)) / 7)
        tl.store(out + t * W + tl.arange(0, W), tl.load(out + tl.arange(0, W)) * 0.7)


@triton.jit
def outside(x, out, n, P, W: tl.constexpr):
    for t in range(n):
        at = t * W + tl.arange(0, W)
        tl.store(out + at, tl.load(x + at * 3))


@triton.jit
def adds(x, out, n, P, W: tl.constexpr):
    for t in range(n):
        tl.atomic_add(out + t % 2 + tl.arange(0, W), tl.load(x + t * W + tl.arange(0, W)))


@triton.jit
def branches_and_inner_loops(x, out, n, P, W: tl.constexpr):
    for t in range(tl.program_id(0), n, P):
        at = t * W + tl.arange(0, W)
        total = tl.load(x + at)
        for i in range(t % 3):
            total = total * 0.3 + i
        if t % 4 == 1:
            total = -total
        tl.store(out + at, total)


@triton.jit
def tainted(x, out, n, P, W: tl.constexpr):
    for t in range(n):
        at = t * W + tl.arange(0, W)
        v = tl.load(x + at) * 1.1
        tl.store(out + at, tl.where(t == 2, (v * 1e20).to(tl.int32).to(tl.float32), v))


KERNELS = [
    tiles, in_place, from_the_turn_before, for_the_turn_after, last_turn_stays, same_place_same_value, scratch, outside,
    adds, branches_and_inner_loops, tainted,
]  # fmt: skip
N, W = 12, 16


def run(kernel, programs, chunk, builder=None):
    x = torch.randn(N * W, generator=torch.Generator().manual_seed(0))
    out = torch.ones(N * W)
    with Session(chunk=chunk, **({} if builder is None else {"builder": builder})) as session:
        kernel[(programs,)](x, out, N, programs, W=W)
        kernel[(programs,)](x, out, N, programs, W=W)  # on bounded numbers
    findings = [(f.code, f.line, f.count, f.program, f.index) for f in session.memory.findings]
    taints = {(t.code, t.line) for t in session.memory.taints.all.values()}
    return out, session.envelope(out), findings, taints, session.launches


@pytest.mark.parametrize(("programs", "chunk"), [(1, None), (3, 1), (3, None)])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.fn.__name__)
def test_at_once_as_one_by_one(kernel, programs, chunk):
    out, envelope, findings, taints, _ = run(kernel, programs, chunk)
    alone, own, its_findings, its_taints, _ = run(kernel, programs, chunk, listened(Listener()))
    assert torch.equal(out, alone)
    assert findings == its_findings
    assert taints == its_taints
    np.testing.assert_array_equal(envelope.lo, own.lo)
    np.testing.assert_array_equal(envelope.hi, own.hi)
    assert envelope.taints == own.taints


def test_tiles_are_few_steps():
    together, apart = (run(tiles, 1, None, b)[-1][0] for b in (None, listened(Listener())))
    assert together.steps < apart.steps and together.rollbacks == 0
    assert together.made < 0.4 * apart.made


def test_what_was_found_to_depend_is_not_tried_again():
    assert run(from_the_turn_before, 3, 1)[-1][0].rollbacks <= 1


LOOPS = {
    "for t in range(9):\n    a = t\n    b = a": True,
    "for t in range(9):\n    b = a\n    a = t": False,
    "for t in range(9):\n    a += t": False,
    "for t in range(9):\n    a = t\nc = a": False,
    "a = 0\nfor t in range(9):\n    a = t\n    b = a": True,
    "for t in range(9):\n    if t:\n        a = t\n    b = a": False,
    "for t in range(9):\n    if t:\n        a = t\n    else:\n        a = 1\n    b = a": True,
    "for t in range(9):\n    for i in range(t):\n        a = i\n    b = a": False,
    "for t in range(9):\n    a = 0\n    for i in range(t):\n        a += i\n    b = a": True,
    "for t in range(9):\n    a = 0\n    while a < t:\n        a, c = a + 1, a": True,
    "for t in range(9):\n    f(lambda: a)\n    a = t": False,
}


@pytest.mark.parametrize("source", LOOPS)
def test_turns_that_leave_nothing_to_each_other(source):
    function = ast.parse("def f():\n" + textwrap.indent(source, "    ")).body[0]
    loop = next(node for node in ast.walk(function) if isinstance(node, ast.For))
    names = loops.assigned(loop)
    assert names is not None
    assert loops.independent(loop, names, function) is LOOPS[source]


@pytest.mark.parametrize("body", ["break", "continue", "return", "x[0] = 1", "with a: pass"])
def test_turns_that_do_more_than_assign(body):
    loop = ast.parse(f"for t in range(9):\n    {body}").body[0]
    assert loops.assigned(loop) is None


@pytest.mark.parametrize(("text", "expected"), [
    ("while f(x):\n    n += 1", ("n",)),
    ("while f(x):\n    n = n * 2 + m\n    m = n", ("m", "n")),
    ("while f(x):\n    n += 1\n    x = n", ()),
    ("while f(x) & (n < 9):\n    n += 1", ()),
    ("while f(x):\n    n += g(x)", ()),
    ("while f(x):\n    if n > 3:\n        m += 1\n    n += 1", ("m",)),
    ("while f(x):\n    while k < n:\n        k += 1\n    n += 1\n    s = k", ("s",)),
    ("while f(x):\n    n += 1\n    n = g(x)", ()),
    ("while f(x):\n    n += 1\n    g(n)", ()),
    ("while f(x):\n    a, b = b, a", ()),
    ("while f(x):\n    for n in range(3):\n        n += 1", ()),
])  # fmt: skip
def test_names_that_decide_nothing(text: str, expected: tuple[str, ...]) -> None:
    (loop,) = ast.parse(text).body
    assert loops.idle(loop) == expected
