"""Programs that wait for each other, and loops that never end: results, deadlocks by line, budgets."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from support import rng, trials

from render.classify import classify
from render.interpreter.session import Session
from render.interpreter.turns import Turns
from render.result.errors import Endless


@triton.jit
def after_next(flags, out, n):
    """Each program waits for the one after it, so the last comes first."""
    p = tl.program_id(0)
    if p < n - 1:
        while tl.atomic_add(flags + p + 1, 0) == 0:
            pass
        v = tl.load(out + p + 1)
        tl.store(out + p, v + 1)
    else:
        tl.store(out + p, 1.0)
    tl.atomic_xchg(flags + p, 1)


@triton.jit
def after_next_plain(flags, out, n):
    """As `after_next`, by loads that are no atomics."""
    p = tl.program_id(0)
    if p < n - 1:
        while tl.load(flags + p + 1, volatile=True) == 0:
            pass
        tl.store(out + p, p * 1.0)
    else:
        tl.store(out + p, p * 1.0)
    tl.store(flags + p, 1)


@triton.jit
def barrier(count, x, out, n, B: tl.constexpr):
    """Every program announces itself and waits for all; then each reads what another stored."""
    p = tl.program_id(0)
    i = tl.arange(0, B)
    tl.store(out + p * B + i, tl.load(x + p * B + i) * 2)
    tl.atomic_add(count, 1)
    while tl.atomic_add(count, 0) < n:
        pass
    q = (p + 1) % n
    v = tl.load(out + q * B + i)
    tl.store(x + p * B + i, v)


@triton.jit
def in_order_of(turn, order, out):
    """Program p may go when `turn` is its place in the order; it spins on a compare-and-swap."""
    p = tl.program_id(0)
    mine = tl.load(order + p)
    while tl.atomic_cas(turn, mine, mine) != mine:
        pass
    tl.store(out + mine, p)
    tl.atomic_add(turn, 1)


@triton.jit
def stream_k(partial, flag, x, out, parts, B: tl.constexpr):
    """The first program of a tile adds the parts that the others left, once they have been announced."""
    p = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + p * B + i)
    if p == 0:
        for q in range(1, parts):
            while tl.atomic_cas(flag + q, 1, 1) != 1:
                pass
            v += tl.load(partial + q * B + i)
        tl.store(out + i, v)
    else:
        tl.store(partial + p * B + i, v)
        tl.atomic_xchg(flag + p, 1)


@triton.jit
def exchange_lock(lock, x, out):
    """A spin lock by exchange, taken in two places, with the work of two programs between."""
    p = tl.program_id(0)
    while tl.atomic_xchg(lock, 1) == 1:
        pass
    tl.store(out, tl.load(out) + tl.load(x + p))
    tl.atomic_xchg(lock, 0)


@triton.jit
def polled(flags, out, n):
    """As `after_next`, by the language's own poll."""
    p = tl.program_id(0)
    if p < n - 1:
        tl.store(out + p, tl.atomic_poll(flags + p + 1, 1).to(tl.int32))
    tl.atomic_xchg(flags + p, 1)


@triton.jit
def with_patience(flag, out):
    """A bounded wait: the loop counts its turns."""
    p = tl.program_id(0)
    n = 0
    if p == 0:
        while (tl.atomic_add(flag, 0) == 0) & (n < 500):
            n += 1
        tl.store(out, n)
    else:
        tl.atomic_xchg(flag, 1)


@triton.jit
def bounded_reads(x, out):
    """A loop that reads the same again and again, and ends by itself."""
    p = tl.program_id(0)
    n = 0
    s = 0.0
    while n < 300:
        s += tl.load(x)
        n += 1
    tl.store(out + p, s)


@triton.jit
def crossed(locks, ready, out):
    """Two programs take two locks in opposite order."""
    p = tl.program_id(0)
    while tl.atomic_cas(locks + p, 0, 1) == 1:
        pass
    tl.atomic_add(ready, 1)
    while tl.atomic_add(ready, 0) < 2:
        pass
    while tl.atomic_cas(locks + 1 - p, 0, 1) == 1:
        pass
    tl.store(out + p, 1)


@triton.jit
def never_announced(flag, out):
    while tl.load(flag) == 0:
        pass
    tl.store(out, 1)


@triton.jit
def counted_spin(lock, out, PATIENT: tl.constexpr):
    """A lock that nobody releases; turns are counted, and with PATIENT the count ends the wait some time."""
    p = tl.program_id(0)
    spins = 0
    k = 0
    if PATIENT:
        while (tl.atomic_cas(lock, 0, 1) != 0) & (spins < 1 << 30):
            spins += 1
    else:
        while tl.atomic_cas(lock, 0, 1) != 0:
            k = 0
            while k < 3:
                k += 1
            spins = spins * 2 + k
            spins += 1
    tl.store(out + p, spins)


@triton.jit
def taken(lock, mine):
    while tl.atomic_cas(lock, 0, mine) != 0:
        pass


@triton.jit
def taken_twice(lock, out):
    p = tl.program_id(0)
    taken(lock, p + 1)
    tl.store(out + p, 1)
    taken(lock, p + 1)


@triton.jit
def long_range(out, n):
    s = 0
    for i in range(tl.program_id(0), n):
        s = s * 3 + i
    tl.store(out, s)


@triton.jit
def for_ever(out):
    x = 1.0
    while x > 0:
        x = x * 1.0
    tl.store(out, x)


@triton.jit
def counts_for_ever(out):
    i = 0
    while i >= 0:
        i += 1
        i = tl.where(i > 1000, i - 999, i)
    tl.store(out, i)


@triton.jit
def long_static(out, N: tl.constexpr):
    s = 0
    for _i in tl.static_range(N):
        s += 1
    tl.store(out, s)


@triton.jit
def one_each(out):
    tl.store(out + tl.program_id(0) * 0, 1)


def line_of(kernel: Any, text: str) -> int:
    """Line of the file where `text` first stands in the kernel."""
    start = kernel.starting_line_number
    return next(start + i for i, line in enumerate(kernel.raw_src) if text in line)


def flags(n: int) -> torch.Tensor:
    return torch.zeros(n, dtype=torch.int32)


CHUNKS = (None, 1, 3)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_the_last_program_comes_first(chunk: int | None) -> None:
    out = torch.zeros(9)
    with Session("ieee", chunk=chunk) as s:
        after_next[(9,)](flags(9), out, 9)
    assert out.tolist() == list(range(9, 0, -1)) and s.launches[0].stats.in_turns


@pytest.mark.parametrize("chunk", CHUNKS)
def test_plain_loads_wait_too(chunk: int | None) -> None:
    out = torch.full((6,), -1.0)
    with Session("ieee", chunk=chunk):
        after_next_plain[(6,)](flags(6), out, 6)
    assert out.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_barrier_of_all_programs(chunk: int | None) -> None:
    n, b = 7, 8
    x, out = torch.randn(n, b), torch.zeros(n, b)
    wanted = torch.roll(x * 2, -1, 0)
    with Session("any", chunk=chunk) as s:
        barrier[(n,)](flags(1), x, out, n, b)
    assert torch.equal(x, wanted)
    env = s.envelope(x)
    assert ((env.lo <= wanted.numpy()) & (wanted.numpy() <= env.hi)).all()


@pytest.mark.parametrize("seed", range(trials(8)))
def test_any_order_that_programs_wait_for(seed: int) -> None:
    generator = rng(seed)
    n = int(generator.integers(2, 24))
    order = generator.permutation(n)
    out = torch.full((n,), -1, dtype=torch.int32)
    with Session("ieee"):
        in_order_of[(n,)](flags(1), torch.from_numpy(order).int(), out)
    assert out.tolist() == np.argsort(order).tolist()


@pytest.mark.parametrize("seed", range(trials(4)))
def test_an_order_with_a_gap_is_a_deadlock(seed: int) -> None:
    """Nobody's turn is the missing one: all that come after it wait, and each of the first is named by its line."""
    generator = rng(seed)
    n = int(generator.integers(3, 10))
    gap = int(generator.integers(1, n - 1))
    order = generator.permutation(np.delete(np.arange(n + 1), gap))
    with pytest.raises(Endless) as met, Session("ieee"):
        in_order_of[(n,)](flags(1), torch.from_numpy(order).int(), flags(n + 1))
    first = int(np.flatnonzero(order > gap)[0]) + 1
    line = line_of(in_order_of, "while") + 1
    assert met.value.code == "RND212" and f"program {first} of {n} at line {line}" in str(met.value).replace(
        f"line {line - 1}", f"line {line}"
    )


def test_parts_that_others_announce() -> None:
    parts, b = 5, 16
    x, out = torch.randn(parts, b), torch.zeros(b)
    with Session("any") as s:
        stream_k[(parts,)](torch.zeros(parts, b), flags(parts), x, out, parts, b)
    exact, env = x.double().sum(0).numpy(), s.envelope(out)
    torch.testing.assert_close(out, x.sum(0))
    assert env.taints or ((env.lo <= exact) & (exact <= env.hi)).all()


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_lock_by_exchange(chunk: int | None) -> None:
    x, out, lock = torch.arange(12.0), torch.zeros(1), flags(1)
    with Session("ieee", chunk=chunk):
        exchange_lock[(12,)](lock, x, out)
    assert out.item() == 66 and lock.item() == 0


@pytest.mark.skipif(not hasattr(tl, "atomic_poll"), reason="from Triton 3.9 on")
def test_polls_let_others_run() -> None:
    out = flags(5)
    with Session("ieee"):
        polled[(5,)](flags(5), out, 5)
    assert out.tolist() == [1, 1, 1, 1, 0]
    with pytest.raises(Endless, match="program 1 of 4") as met, Session("ieee"):
        polled[(4,)](flags(5), out, 5)
    assert met.value.code == "RND212" and met.value.line == line_of(polled, "atomic_poll")


def test_a_wait_that_gives_up() -> None:
    out = flags(1)
    with Session("ieee"):
        with_patience[(2,)](flags(1), out)
    assert 0 < out.item() < 500
    with Session("ieee"):
        with_patience[(1,)](flags(1), out)
    assert out.item() == 500


def test_reading_the_same_again_is_no_deadlock() -> None:
    out = torch.zeros(5)
    with Session("ieee"):
        bounded_reads[(5,)](torch.ones(1), out)
    assert out.tolist() == [300.0] * 5


def test_a_deadlock_names_both_programs_and_lines() -> None:
    with pytest.raises(Endless) as met, Session("ieee"):
        crossed[(2,)](flags(2), flags(1), flags(2))
    third = line_of(crossed, "locks + 1 - p")
    said = str(met.value)
    assert met.value.code == "RND212" and "wait for each other" in said
    assert all(f"program {p} of 2 at line {third}" in said for p in (1, 2))


def test_turns_that_are_counted_are_no_progress() -> None:
    with pytest.raises(Endless) as met, Session("ieee"):
        counted_spin[(3,)](flags(1), flags(3), PATIENT=False)
    assert met.value.code == "RND212"
    assert all(f"program {p} of 3 at line" in str(met.value) for p in (2, 3))


def test_a_wait_that_gives_up_after_ages_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its count ends the loop some time, so it is no deadlock; nothing else happens meanwhile."""
    monkeypatch.setattr("render.interpreter.turns.PATIENCE", 300)
    monkeypatch.setattr("render.interpreter.turns.EACH", 100)
    with pytest.raises(Endless, match="changed anything in") as met, Session("ieee"):
        counted_spin[(3,)](flags(1), flags(3), PATIENT=True)
    line = line_of(counted_spin, "1 << 30")
    assert met.value.code == "RND309" and str(met.value).count(f"at line {line}") == 2


def test_a_wait_in_a_called_function_is_told_with_the_line_of_the_call() -> None:
    with pytest.raises(Endless) as met, Session("ieee"):
        taken_twice[(2,)](flags(1), flags(2))
    first = line_of(taken_twice, "taken(lock, p + 1)")
    waits = line_of(taken, "while")
    assert f"program 1 of 2 at line {waits}, called at line {first + 2}" in str(met.value)
    assert f"program 2 of 2 at line {waits}, called at line {first}" in str(met.value)


@pytest.mark.parametrize("programs", [1, 3])
def test_turns_that_are_out_of_reach_are_known_before(programs: int) -> None:
    with pytest.raises(Endless, match="turns of a loop are out of reach") as met, Session("ieee", steps=5000):
        long_range[(programs,)](flags(1), 2**31 - 1)
    assert met.value.code == "RND309"
    with Session("ieee", steps=5000):
        long_range[(programs,)](flags(1), 1000)


@pytest.mark.parametrize("programs", [1, 4])
def test_waiting_for_nobody(programs: int) -> None:
    with pytest.raises(Endless, match=f"program 1 of {programs}") as met, Session("ieee"):
        never_announced[(programs,)](flags(1), flags(1))
    assert met.value.code == "RND212"


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_loop_that_repeats_itself(chunk: int | None) -> None:
    with pytest.raises(Endless, match="repeats itself") as met, Session("ieee", chunk=chunk):
        for_ever[(3,)](torch.zeros(1))
    assert met.value.code == "RND212" and met.value.line in range(
        line_of(for_ever, "while"), line_of(for_ever, "store")
    )


def test_the_budget_ends_what_nothing_else_does() -> None:
    with pytest.raises(Endless, match="still in programs 1 to 3 of 3, line") as met, Session("ieee", steps=2000):
        counts_for_ever[(3,)](flags(1))
    assert met.value.code == "RND309"


def test_long_static_loops() -> None:
    out = flags(1)
    with Session("ieee", interval=False):
        long_static[(1,)](out, 20_000)
    assert out.item() == 20_000
    with pytest.raises(Endless, match="still in program 1 of 1, line"), Session("ieee", steps=5000):
        long_static[(1,)](out, 10**6)


def test_huge_grids_end_by_a_line() -> None:
    with pytest.raises(Endless, match="of 2147483647 programs"), Session("ieee", steps=1 << 10):
        one_each[(2**31 - 1,)](flags(1))
    with pytest.raises(Endless, match="out of reach"), Session("ieee"):
        one_each[(2**31 - 1, 65535, 65535)](flags(1))


def spinning(flag: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(1, dtype=torch.int32)
    never_announced[(2,)](flag, out)
    return out


def test_a_kernel_that_never_ends_is_a_bug() -> None:
    verdict = classify(spinning, flags(1), ref=lambda flag: torch.ones(1, dtype=torch.int32))
    assert (verdict.label, verdict.code, verdict.exit_code) == ("Type-II", "RND212", 1)
    assert verdict.line in range(line_of(never_announced, "while"), line_of(never_announced, "while") + 2)
    assert "program 1 of 2" in verdict.message


def test_threads_end_with_the_launch() -> None:
    before = threading.active_count()
    with pytest.raises(Endless), Session("ieee"):
        crossed[(2,)](flags(2), flags(1), flags(2))
    assert threading.active_count() == before


@triton.jit
def chatty(flag, out):
    """Program 2 waits for program 1, which never lets go; both say that they are still there."""
    p = tl.program_id(0)
    n = 0
    tl.store(out + p, 7)
    while tl.atomic_add(flag + p, 0) < 1:
        n += 1
        tl.device_print("turn", n)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's own handler: what a shell starts in the background ignores the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("turns", [5, 300])
def test_an_interruption_says_where(turns: int, ctrl_c: None) -> None:
    """Ctrl-C in the middle of a loop, and while programs run in turns; memory is as before the launch."""
    out, said = flags(2), 0

    def say(_: str) -> None:
        nonlocal said
        said += 1
        if said == turns:
            signal.raise_signal(signal.SIGINT)

    with (
        pytest.raises(KeyboardInterrupt, match=r"still in program \d of 2, line \d+"),
        Session("ieee", printer=say) as s,
    ):
        chatty[(2,)](flags(2), out)
    assert out.tolist() == [0, 0] and (turns < 100 or s.launches[0].stats.in_turns)


@pytest.mark.parametrize("let_go", ["", "paused", "over"])
def test_an_interrupt_waits_for_the_program_that_runs_and_for_no_other(let_go: str) -> None:
    """One that has let go gave `back` already, and does not do so again."""
    thread = threading.Thread(target=lambda: None)
    thread.start()
    program = SimpleNamespace(
        paused=let_go == "paused", over=let_go == "over", go=threading.Semaphore(0), thread=thread
    )
    ctx: Any = SimpleNamespace(steps=SimpleNamespace(cancelled=None))
    turns = Turns(ctx, lambda *_: None, None, True)
    turns.ring, turns._running = [program], program  # type: ignore[list-item, assignment]
    if not let_go:
        turns.back.release()
    ending = threading.Thread(target=turns._abandon, args=(KeyboardInterrupt("stopped"),), daemon=True)
    ending.start()
    ending.join(60)
    assert not ending.is_alive() and ctx.steps.cancelled is not None
    assert not turns.back.acquire(blocking=False) and program.go.acquire(blocking=False)
