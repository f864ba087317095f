"""Rows in parts on several threads: every row once, errors as they were raised, the same bits, no thread in a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from interval_ops import threads
from interval_ops.arithmetic import rule
from interval_ops.bounds import exact
from interval_ops.dot.rule import PendingDot
from interval_ops.formats.model import FP16, FP32
from interval_ops.functions.elementary import unary
from interval_ops.profiles.profile import load_profile
from interval_ops.reduction.rule import max_axis, prod_axis, sum_axis


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Small arrays are cut, too."""
    monkeypatch.setattr(threads, "LEAST", 64)
    monkeypatch.setattr(threads, "ALIGNED", 16)


@pytest.mark.parametrize("rows", [0, 1, 5, 127, 128, 1000, 4097])
@pytest.mark.parametrize("weight", [1, 3, 64])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_parts_are_the_rows_in_order(rows, weight, count):
    with threads.using(count):
        parts = threads.ranges(rows, weight)
        assert [i for start, stop in parts for i in range(start, stop)] == list(range(rows))
        assert len(parts) <= count
        assert all(start % threads.ALIGNED == 0 for start, _ in parts) or weight > 1


def test_parts_run_on_threads_of_their_own():
    with threads.using(3):
        meet = threading.Barrier(3, timeout=20)

        def work(start: int, stop: int) -> str:
            meet.wait()
            return threading.current_thread().name

        assert len(set(threads.spread(work, 3000))) == 3


@pytest.mark.parametrize("guilty", [0, 1, 2])
@pytest.mark.parametrize("kind", [ValueError, ZeroDivisionError, KeyboardInterrupt])
def test_what_a_part_raises_arrives_after_all_have_ended(guilty, kind):
    ended = []

    def work(start: int, stop: int) -> None:
        if start == parts[guilty][0]:
            raise kind("of its own")
        time.sleep(0.01)
        ended.append(start)

    with threads.using(3):
        parts = threads.ranges(3000)
        with pytest.raises(kind, match="of its own"):
            threads.each(work, parts)
        assert len(ended) == 2
        assert sum(stop - start for start, stop in threads.spread(lambda *part: part, 3000)) == 3000


def test_a_part_that_has_parts_runs_them_itself():
    with threads.using(2):
        found = threads.spread(lambda start, stop: threads.spread(lambda a, b: b - a, stop - start), 4000)
    assert [sum(part) for part in found] == [2000, 2000]


def test_parts_keep_how_numpy_takes_overflows():
    with threads.using(2), np.errstate(all="raise"):
        with pytest.raises(FloatingPointError):
            threads.spread(lambda start, stop: np.array([1e300]) * (start + 1e300), 4000)
        with np.errstate(all="ignore"):
            assert len(threads.spread(lambda start, stop: np.array([1e300]) * (start + 1e300), 4000)) == 2


FORK = """
import os, sys, warnings
warnings.simplefilter("error")
from interval_ops import threads
threads.LEAST = 64
def whole():
    return threads.spread(lambda start, stop: stop - start, 4000)
with threads.using(3):
    assert len(whole()) == 3
    child = os.fork()
    assert len(whole()) == 3 and sum(whole()) == 4000
    if child == 0:
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""


def test_a_fork_has_threads_of_its_own():
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("said", "found"), [("3", 3), ("4,2", 4), (" 2 ", 2), ("0", None), ("many", None), ("-1", None), ("", None)]
)
def test_the_default_is_what_is_said_or_what_may_be_used(said, found, monkeypatch):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert threads.default.__wrapped__() == (found or len(os.sched_getaffinity(0)))
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw1")
    assert threads.default.__wrapped__() == 1


def test_a_process_beside_others_has_one_thread():
    told = "import multiprocessing as m; from interval_ops import threads\n"
    told += "if __name__ == '__main__':\n with m.get_context('fork').Pool(1) as p: print(p.apply(threads.default))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "OMP_NUM_THREADS": "4"})  # fmt: skip
    assert done.stdout.strip() == "1", done.stderr


def _operands(shape, seed):
    generator = np.random.default_rng(seed)
    lo = generator.standard_normal(shape).astype(np.float32).astype(np.float64)
    lo.reshape(-1)[::97] = [np.inf, -np.inf, np.nan, 0.0][seed % 4]
    return lo, lo + np.abs(generator.standard_normal(shape)) * 1e-3


PROFILE = load_profile("any")


def _dot(kind, point, dtype):
    a, b = _operands((5, 16, 40), 5), _operands((5, 40, 24), 6)
    pair = exact(a[0].astype(np.float32)) if point else a
    start = PendingDot.start(None, (5, 16, 24), kind, PROFILE)
    return start.extend(pair, exact(b[0].astype(dtype))).interval()


X, Y, ROW = _operands((7, 33, 19), 0), _operands((7, 33, 19), 1), _operands((1, 1, 19), 2)
CALLS = {
    "add": lambda p: rule.add(X, Y, FP32, p),
    "add a row": lambda p: rule.add(X, ROW, FP32, p),
    "mul": lambda p: rule.mul(X, Y, FP32, p),
    "mul a point": lambda p: rule.mul(X, exact(ROW[0]), FP16, p),
    "div": lambda p: rule.div(X, Y, FP32, p),
    "exp": lambda p: unary("exp", X, FP32, p),
    "sin": lambda p: unary("sin", X, FP16, p),
    "sum": lambda p: sum_axis(X, 2, (7, 33, 19), FP32, p),
    "sum of columns": lambda p: sum_axis(X, 1, (7, 33, 19), FP32, p),
    "sum of single points": lambda p: sum_axis(exact(X[0].astype(np.float32)), 2, (7, 33, 19), FP32, p),
    "product": lambda p: prod_axis(X, 2, (7, 33, 19), FP32, p),
    "largest": lambda p: max_axis(X, 2, (7, 33, 19)),
    "dot": lambda p: _dot("tf32", True, np.float32),
    "dot of an interval": lambda p: _dot("fp16", False, np.float32),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_number_of_threads_changes_no_bit(name):
    found = []
    for count in (1, 2, 3):
        with threads.using(count), np.errstate(all="ignore"):
            found.append(b"".join(np.ascontiguousarray(end).tobytes() for end in CALLS[name](PROFILE)))
    assert found[0] == found[1] == found[2]
