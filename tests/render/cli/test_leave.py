"""The end of a command: exit handlers, threads and pools have their turn, and the exit code arrives."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import atexit, sys, threading, time
from render.cli.leave import leave

class Late:
    def __del__(self):
        print("taken apart")

late = Late()
threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
atexit.register(print, "handler")
print("unflushed", end=" ")
leave({code!r})
"""


def test_threads_and_handlers_end_first():
    run = subprocess.run([sys.executable, "-c", CODE.format(code=3)], capture_output=True, text=True)
    assert run.returncode == 3
    assert run.stdout.split() == ["unflushed", "thread", "handler"]


def test_what_is_no_number_ends_as_python_ends():
    run = subprocess.run([sys.executable, "-c", CODE.format(code="words")], capture_output=True, text=True)
    assert run.returncode == 1 and "words" in run.stderr


def test_a_closed_pipe_is_no_traceback():
    run = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m render explain | head -1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0 and "Traceback" not in run.stderr and "Exception" not in run.stderr


END = """
import importlib, threading, time
leave = importlib.import_module("render.cli.leave")
leave.PATIENCE = {patience}
{code}
leave.end(7)
"""


def ended(code: str, patience: float = 20.0) -> tuple[int, str, str]:
    text = END.format(code=code, patience=patience)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, timeout=60, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "threading.Thread(target=lambda: (time.sleep(0.3), print('late'))).start()",
        "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)\n"
        "pool.submit(lambda: (time.sleep(0.3), print('late')))",
        "import atexit\natexit.register(print, 'late')",
    ],
)
def test_what_is_still_at_work_ends_first(code: str) -> None:
    assert ended(code) == (7, "late\n", "")


def test_a_thread_that_does_not_end_is_told() -> None:
    code, _, said = ended("threading.Thread(target=lambda: time.sleep(600)).start()", 0.2)
    assert code == 7 and "were not through" in said


def test_a_handler_that_does_not_end_is_told() -> None:
    code, _, said = ended("import atexit\natexit.register(time.sleep, 600)", 0.2)
    assert code == 7 and "exit handlers" in said
