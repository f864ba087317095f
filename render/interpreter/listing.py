"""The vendor's command that lists GPUs (`nvidia-smi`): libraries run it to find out which vendor's they are on.

Where the device of a profile stands in for a GPU, a command of this name is found first; it says what torch is told.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from interval_ops.profiles.facts import DeviceFacts

COMMANDS = {"cuda": "nvidia-smi", "hip": "rocm-smi", "xpu": "xpu-smi"}
_SCRIPT = r"""#!/bin/sh
# What RENDER tells of the device of a profile, in place of a GPU.
name={name} memory={memory} capability={capability} fields= header=yes unit=' MiB'
for given in "$@"; do
  case "$given" in
    -L | --list-gpus) echo "GPU 0: $name (UUID: GPU-00000000-0000-0000-0000-000000000000)"; exit 0 ;;
    --query-gpu=*) fields=${{given#*=}} ;;
    --format=*) case "$given" in *noheader*) header= ;; esac; case "$given" in *nounits*) unit= ;; esac ;;
  esac
done
[ -n "$fields" ] || {{ echo "0  $name  $memory MiB"; exit 0; }}
[ -z "$header" ] || echo "$fields" | sed 's/,/, /g'
IFS=, row=
for field in $fields; do
  case "$field" in
    name | gpu_name) value=$name ;;
    compute_cap) value=$capability ;;
    memory.total | memory.free) value=$memory$unit ;;
    count) value=1 ;;
    index | memory.used | utilization.gpu) value=0 ;;
    *) value='[N/A]' ;;
  esac
  row="$row${{row:+, }}$value"
done
echo "$row"
"""


@contextlib.contextmanager
def listed(facts: DeviceFacts) -> Iterator[None]:
    """The command of the device's vendor is found before any other; nests, the innermost counts."""
    folder = _folder(facts)
    os.environ["PATH"] = os.pathsep.join([folder, os.environ.get("PATH", os.defpath)])
    try:
        yield
    finally:
        places = os.environ.get("PATH", "").split(os.pathsep)
        if folder in places:  # what else was done to it meanwhile stays
            places.remove(folder)
            os.environ["PATH"] = os.pathsep.join(places)


@cache
def _folder(facts: DeviceFacts) -> str:
    """Made once in a process, and removed with it."""
    folder = tempfile.mkdtemp(prefix="render-device-")
    atexit.register(_remove, folder, os.getpid())
    command = Path(folder, COMMANDS[facts.backend])
    told = {
        "name": shlex.quote(facts.part),
        "memory": facts.memory >> 20,
        "capability": "{}.{}".format(*facts.capability),
    }
    command.write_text(_SCRIPT.format(**told))
    command.chmod(0o755)
    return folder


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # and not a fork of it
        shutil.rmtree(folder, ignore_errors=True)
