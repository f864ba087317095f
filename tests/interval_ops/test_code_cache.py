"""Compiled kernels on disk: found again by the same sources, never by others, and read without numba's registries."""

from __future__ import annotations

import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from numba.core.dispatcher import Dispatcher

import interval_ops
import render.interpreter.memory
from interval_ops import code_cache

ROOT = Path(interval_ops.__file__).resolve().parent.parent


def tree(root: Path) -> Path:
    """A package of three modules: `kernel` takes `helper`, and `other` stands aside."""
    home = root / "interval_ops" / "inner"
    home.mkdir(parents=True)
    (home / "helper.py").write_text("X = 1\n")
    (home / "other.py").write_text("Y = 1\n")
    (home / "kernel.py").write_text("from interval_ops.inner import (\n    helper,\n)\n")
    return home


def state(home: Path) -> str:
    for cached in (code_cache.digest, code_cache._named, code_cache._content):
        cached.cache_clear()
    return code_cache.digest(home / "kernel.py", home.parents[1])


def test_the_state_is_that_of_what_a_kernel_is_made_of(tmp_path):
    home = tree(tmp_path / "one")
    first = state(home)
    (home / "other.py").write_text("Y = 2\n")
    assert state(home) == first
    (home / "helper.py").write_text("X = 2\n")
    assert state(home) != first


def test_a_second_installation_has_the_same_state(tmp_path):
    home = tree(tmp_path / "one")
    first = state(home)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    os.utime(tmp_path / "two" / "interval_ops" / "inner" / "kernel.py", (1, 1))
    assert state(tmp_path / "two" / "interval_ops" / "inner") == first


def _modules() -> list[ModuleType]:
    packages = (interval_ops, render.interpreter.memory)
    names = [m.name for p in packages for m in pkgutil.walk_packages(p.__path__, f"{p.__name__}.")]
    return [importlib.import_module(name) for name in names]


def _made_of(file: Path) -> set[Path]:
    seen, left = set(), [file]
    while left:
        one = left.pop()
        if one not in seen:
            seen.add(one)
            named = code_cache._named(one, ROOT)
            left += [p for p in named if p.parent == file.parent or p.is_relative_to(ROOT / "interval_ops")]
    return seen


def test_what_kernels_use_is_in_their_state():
    """Inlined helpers and other kernels come from modules whose change is seen."""
    looked = 0
    for module in _modules():
        own = [x for x in vars(module).values() if isinstance(x, Dispatcher)]
        seen = _made_of(Path(module.__file__ or ""))
        for kernel in (x.py_func for x in own if x.py_func.__module__ == module.__name__):
            for used in map(kernel.__globals__.get, kernel.__code__.co_names):
                if isinstance(used, Dispatcher):
                    looked += 1
                    home = sys.modules[used.py_func.__module__].__file__
                    assert Path(home or "") in seen, f"{module.__name__}: {used} comes from {home}"
    assert looked > 100


RUN = """
import math, sys
from interval_ops.reduction import kernels
plain = math.expm1
math.expm1 = math.sqrt = lambda x: plain(x)  # as a session does
assert abs(kernels.growth(3.0e6, 2.0**-24) - plain(3.0e6 * 2.0**-24)) < 1e-12
print("numba.np.arraymath" in sys.modules, sum(kernels.growth.stats.cache_hits.values()))
"""


FILLED = """
import numpy as np
from interval_ops.reduction import kernels
plain = np.empty
np.empty = lambda *args, **keywords: plain(*args, **keywords)  # as a session does
x, out = np.ones((2, 40, 64)), np.zeros((2, kernels.ROWS, 64))
kernels.accumulate(x, x, out)
np.empty = plain
kernels.accumulate(x.astype(np.float32), x, out)
print(out[0, 0, 0])
"""


def test_a_kernel_is_compiled_with_numpys_own_functions(tmp_path):
    assert run(tmp_path, FILLED) == ["40.0"]


def run(folder: Path, script: str = RUN) -> list[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder), "PYTHONPATH": str(ROOT)}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    return done.stdout.split()


def test_a_kernel_is_compiled_once_and_read_without_registries(tmp_path):
    assert run(tmp_path) == ["True", "0"]
    files = list((tmp_path / "render" / code_cache.FOLDER).glob("*.nbc"))
    assert files
    assert run(tmp_path) == ["False", "1"]
    for file in files:
        file.write_bytes(b"cut off")
    assert run(tmp_path) == ["True", "0"]


def test_a_folder_that_takes_nothing_is_passed_over(tmp_path):
    assert code_cache.writable(tmp_path / "new" / "deep")
    assert not code_cache.writable(Path("/proc/nothing"))
    assert code_cache.folders(tmp_path)[-1] == tmp_path / "__pycache__"


@pytest.mark.parametrize("folder", ["", "/somewhere"])
def test_a_folder_that_numba_was_told_comes_first(monkeypatch, folder):
    monkeypatch.setattr(code_cache.config, "CACHE_DIR", folder)
    assert (code_cache.folders(Path("x"))[0] == Path("/somewhere/render")) == bool(folder)
