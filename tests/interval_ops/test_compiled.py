"""Compiling where something else stands in `math`, as it does inside of a session."""

import os
import subprocess
import sys

CODE = """
import math
from interval_ops.reduction.kernels import growth
for name in ("expm1", "sqrt", "exp"):
    setattr(math, name, lambda x, plain=getattr(math, name): plain(x))
assert 0.125 <= growth(1.0, 0.125) < 0.14
"""


def test_functions_of_math_are_known_while_others_stand_in_their_place(tmp_path):
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", CODE], env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
