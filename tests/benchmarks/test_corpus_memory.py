"""Memory of a process tree: shared pages once, children and their children in it, ended processes left out."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux only")
FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "corpus_memory.py"
HOLDS = "import sys, time; x = bytes(range(256)) * {}; print(flush=True); time.sleep(60)"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("corpus_memory", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["corpus_memory"] = module
    spec.loader.exec_module(module)
    return module


def test_shared_pages_count_once(script):
    parts = [script.Memory(100.0, 40.0, 110.0), script.Memory(10.0, 50.0, 20.0)]
    assert script.together(parts)[:2] == (160.0, 130.0)
    assert script.together([]).total == 0.0


def test_the_tree_and_what_it_holds(script):
    """A process with 64 MB that has a child with 32 MB."""
    child = HOLDS.format(1 << 17)
    code = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {child!r}]); " + HOLDS.format(1 << 18)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        try:
            for _ in range(2):  # both say when they have it
                parent.stdout.readline()
            members = list(script.tree(parent.pid))
            assert len(members) == 2 and members[0] == parent.pid
            found = [script.memory_of(pid) for pid in members]
            assert found[0].private > 64 and 32 < found[1].private < 64
            assert 96 < script.together(found).total < 96 + 2 * 40
        finally:
            for pid in reversed(list(script.tree(parent.pid))):
                os.kill(pid, 9)
    assert script.memory_of(parent.pid) is None


def test_a_command_is_watched_until_it_ends(script):
    began = time.perf_counter()
    wall, worst, code = script.watched([sys.executable, "-c", "import time; time.sleep(0.5); raise SystemExit(3)"])
    assert code == 3 and worst.total > 1 and 0.5 <= wall <= time.perf_counter() - began


def test_summary_adds_up_the_rows(script):
    rows = [
        {"id": "1", "ok": True, "cpu_s": 1.5, "peak_rss_mb": 300.0},
        {"id": "2", "ok": False, "cpu_s": None, "peak_rss_mb": None},
    ]
    found = script.summary(rows, 9.0, script.together([script.Memory(7.0, 1.0, 8.0)]), 2)
    assert (found["cases"], found["as_expected"], found["cpu_s"], found["memory_mb"]) == (2, 1, 1.5, 8.0)
    assert found["largest"][0] == (300.0, "1")
