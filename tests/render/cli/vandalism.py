"""User code that takes away what RENDER stands on: kinds of bad input of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.render.cli.bad_input_kinds import COMPARED, ENTRY, IMPORTS, INPUTS, KERNEL, REFERENCE, Kind

_VANDALISM = (
    "sys.modules.clear()",
    "torch.manual_seed = None",
    "sys.stdout = None",
    "sys.path = None",
    "del sys.path[:]",
    "builtins.len = None",
    "builtins.isinstance = None",
    "builtins.open = None",
    "builtins.__import__ = None",
    "np.float32 = None",
    "np.seterr(all='raise')",
    "torch.float32 = None",
    "torch.Tensor = None",
    "torch.get_default_dtype = None",
    "torch.set_default_device('meta')",
    "tl.float32 = None",
    "triton.cdiv = None",
    "sys.modules['torch'] = None",
    "sys.exit = None",
    "sys.meta_path.clear()",
    "sys.exc_info = None",
    "sys.flags = None",
    "sys._getframe = None",
    "threading.Thread = None",
    "threading.enumerate = None",
    "time.monotonic = None",
    "time.perf_counter = lambda: 1 / 0",
    "pathlib.Path = None",
    "json.dumps = None",
    "linecache.getlines = None",
    "contextlib.suppress = None",
    "functools.partial = None",
    "dataclasses.replace = None",
    "math.isfinite = None",
    "signal.signal(signal.SIGALRM, signal.SIG_IGN)",
    "sys.setrecursionlimit(60)",
    "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
    "resource.setrlimit(resource.RLIMIT_NOFILE, (12, 1000))",
    "torch.cuda.is_available = lambda: 1 / 0",
    "warnings.simplefilter('error')",
)
"""What user code does to what RENDER stands on, too."""
_NAMED = sorted(
    {name for way in _VANDALISM for name in re.findall(r"(?<![.\w])[a-z]+(?=\.)", way)}
    - {"torch", "triton", "tl", "np"}
)


def vandals() -> Iterator[Kind]:
    """Each before the kernel is there, right before the comparison of a script, and in the inputs of a function: a
    verdict, or a line that says why there is none."""
    head = f"import {', '.join(_NAMED)}\nimport numpy as np\n{IMPORTS}"
    here: dict[str, str | None] = {"COLUMNS": "80"}
    for way in _VANDALISM:
        texts = {
            "script": f"{head}{way}\n{KERNEL}{ENTRY}{REFERENCE}{COMPARED}",
            "comparison": f"{head}{KERNEL}{ENTRY}{REFERENCE}\n{way}{COMPARED}",
            "inputs": head + KERNEL + ENTRY + INPUTS.replace("    return", f"    {way}\n    return") + REFERENCE,
        }
        for place, text in texts.items():
            arguments = ("classify" if place == "inputs" else "run", "--timeout", "60", "k.py")
            yield Kind(f"vandalism: {place}, {way}", arguments, {"k.py": text}, (0, 2), ("RND",), here)
