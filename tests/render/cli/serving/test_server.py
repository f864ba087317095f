"""Commands in a server: the same words and exit codes, the caller's streams, folder, environment and signals, and
nothing of one job in another."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from render.cli import serve
from render.cli.serving import state

ROOT = Path(__file__).resolve().parents[4]
pytestmark = pytest.mark.skipif(not serve.POSSIBLE, reason="needs Linux 5.3")

SAY = """
import os, sys, random
import torch
print(os.getppid(), os.getcwd(), os.environ.get("MARK"), sys.argv[1:], sys.stdin.read(), hasattr(torch, "leftover"))
print("to stderr", file=sys.stderr)
torch.leftover = True
open("made", "w").close()
print(random.random())
"""
KERNEL = """
import torch, triton, triton.language as tl

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * FACTOR, mask=i < n)

def double(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
    return y

def make_inputs():
    return (torch.randn(100),)

def reference(x):
    return x * 2.0
"""


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("PYTEST", "COV", serve.__name__))}
    return {**kept, "XDG_RUNTIME_DIR": str(home), "PYTHONPATH": str(ROOT), **more}


def render(
    home: Path, *words: str, cwd: Path | None = None, input: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "render", *words]
    env = environment(home, **more)
    return subprocess.run(command, cwd=cwd or home, env=env, input=input, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    where = tmp_path_factory.mktemp("runtime")
    started = render(where, "serve", "--idle", "10")
    assert started.returncode == 0, started.stderr
    yield where
    assert "told to end" in render(where, "serve", "--stop").stdout


def pid_of(home: Path) -> int:
    found = re.search(r"process (\d+)", render(home, "serve", "--status").stdout)
    assert found is not None
    return int(found[1])


def test_the_socket_is_for_its_owner_alone(home):
    (socket,) = (home / "render").glob("*.sock")
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700


def test_a_job_has_the_callers_streams_folder_environment_and_arguments(home, tmp_path):
    (tmp_path / "say.py").write_text(SAY)
    seen = []
    for _ in range(2):
        run = render(home, "run", "say.py", "one", "two", cwd=tmp_path, input="typed", MARK="here")
        first, number = run.stdout.splitlines()[:2]
        assert first == f"{pid_of(home)} {tmp_path} here ['one', 'two'] typed False"
        assert "to stderr" in run.stderr and (tmp_path / "made").exists()
        seen.append(number)
    assert seen[0] != seen[1]  # not the same random numbers in every fork


def test_verdicts_and_exit_codes_are_those_without_a_server(home, tmp_path):
    for factor, code in (("2.0", 0), ("3.0", 1)):  # the same file, edited in between
        (tmp_path / "k.py").write_text(KERNEL.replace("FACTOR", factor))
        served = render(home, "classify", "k.py", cwd=tmp_path)
        assert served.returncode == code
    alone = render(home, "classify", "k.py", cwd=tmp_path, RENDER_SERVE="0")
    assert (alone.returncode, alone.stdout) == (served.returncode, served.stdout)
    missing = render(home, "classify", "none.py", cwd=tmp_path)
    assert missing.returncode == 2 and "no such file" in missing.stderr


@pytest.mark.parametrize(("more", "found"), [({}, True), ({"OMP_NUM_THREADS": "7"}, False)])
def test_another_environment_is_not_served(home, more, found):
    code = "from render.cli.serving.client import connect; print(connect() is not None)"
    env = environment(home, **more)
    run = subprocess.run([sys.executable, "-c", code], cwd=home, env=env, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(found)


def begun(home: Path, folder: Path, body: str) -> subprocess.Popen[str]:
    (folder / "wait.py").write_text(f"import os, sys, time\nprint(os.getpid(), flush=True)\n{body}\n")
    command = [sys.executable, "-m", "render", "run", "wait.py"]
    return subprocess.Popen(
        command, cwd=folder, env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_signals_reach_the_job_and_its_end_the_caller(home, tmp_path, number, code):
    job = begun(home, tmp_path, "time.sleep(900)")
    assert job.stdout is not None
    inner = int(job.stdout.readline())
    assert inner != job.pid
    job.send_signal(number)
    assert job.wait(300) == code
    assert not Path(f"/proc/{inner}").exists()


def test_a_caller_that_is_killed_takes_its_job_along(home, tmp_path):
    job = begun(home, tmp_path, "time.sleep(900)")
    assert job.stdout is not None
    inner = int(job.stdout.readline())
    job.kill()
    job.wait()
    for _ in range(3000):
        if not Path(f"/proc/{inner}").exists():
            return
        time.sleep(0.1)
    raise AssertionError("the job goes on")


def test_a_folder_that_others_can_enter_is_not_used(tmp_path):
    assert not state.is_private(tmp_path / "none")
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    assert [state.is_private(tmp_path / name) for name in ("open", "own", "link")] == [False, True, False]


def test_the_state_is_that_of_environment_and_sources(monkeypatch, tmp_path):
    first = state.digest()
    monkeypatch.setenv("SOMETHING_ELSE", "1")
    assert state.digest() == first
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert state.digest() != first
    (tmp_path / "render").mkdir()
    (tmp_path / "render" / "new.py").write_text("")
    before = state.code()
    monkeypatch.setattr(state, "_ROOT", tmp_path)
    changed = state.code()
    (tmp_path / "render" / "new.py").write_text("x = 1")
    assert len({before, changed, state.code()}) == 3


ALONE = """
import sys
from pathlib import Path
from render.cli.serving import server, state
Path(sys.argv[1]).mkdir()
print(state.is_private(Path(sys.argv[1])))
server.TICK = 0.05
where = Path(sys.argv[1]) / "s.sock"
server.Server(where, float(sys.argv[2]), 1, *sys.argv[3:]).run()
print(where.exists())
"""


@pytest.mark.parametrize("how", [("0.2",), ("0", "other code")])
def test_a_server_ends_when_idle_and_when_the_code_is_another(tmp_path, how):
    command = [sys.executable, "-c", ALONE, str(tmp_path / "in"), *how]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment(tmp_path))
    assert run.returncode == 0 and run.stdout.split()[-1] == "False", run.stderr
