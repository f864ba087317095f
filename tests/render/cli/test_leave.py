"""The end of a command: exit handlers and threads have their turn, and the exit code arrives."""

from __future__ import annotations

import subprocess
import sys

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
