"""A scope that no mode of torch sees: what `_disable_current_modes` gives, entered hundreds of times a run.

That looks at what kinds of modes there are, and imports their modules each time: 30 microseconds, six of which are the
modes.
"""

from __future__ import annotations

from typing import Any

from torch._C import _len_torch_dispatch_stack, _pop_torch_dispatch_stack, _push_on_torch_dispatch_stack
from torch._ops import _len_torch_dispatch_stack_pre_dispatch
from torch.utils._python_dispatch import _disable_current_modes


class Unseen:
    """Modes before dispatch (torch.export's) are left to torch."""

    def __init__(self) -> None:
        self._modes: list[Any] = []
        self._torchs: Any = None

    def __enter__(self) -> None:
        if _len_torch_dispatch_stack_pre_dispatch():
            self._torchs = _disable_current_modes()
            self._torchs.__enter__()
            return
        self._modes = [_pop_torch_dispatch_stack(None) for _ in range(_len_torch_dispatch_stack())]

    def __exit__(self, *exc: Any) -> None:
        if self._torchs is not None:
            self._torchs.__exit__(*exc)
            return
        for mode in reversed(self._modes):
            _push_on_torch_dispatch_stack(mode)


__all__ = ["Unseen"]
