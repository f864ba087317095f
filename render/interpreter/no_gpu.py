"""`render.no_gpu()`: GPU-only Python is imported and runs here, on a machine without a GPU; nothing is judged.

Inside, devices called "cuda" are the CPU, torch and Triton's driver answer as for the device of a profile, and launches
are interpreted in the value lane. Where there is a GPU nothing changes. Scopes nest; a session that is open (a
`classify` around it) keeps its launches.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

from render.interpreter.compat import known_keys
from render.interpreter.cuda_redirect import cuda_on_cpu, has_gpu
from render.interpreter.memory import MemoryFinding
from render.interpreter.scope import PatchScope
from render.interpreter.session import Session, innermost
from render.result.errors import RenderError, expect


class Untracked:
    """In place of the host tracker: nothing is followed."""

    rounded: dict[Any, float] = {}  # noqa: RUF012 - never written
    given = False
    followed = 0
    numbers = None

    def __enter__(self) -> Untracked:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        yield

    def launched(self, arguments: Iterable[Any]) -> None:
        """A launch with these arguments has ended."""


class ValueSession(Session):
    """Runs kernels for their values, and keeps no record of them."""

    def __init__(self, device: str, redirect: bool = True, compiling: bool = False) -> None:
        super().__init__(device, interval=False, tracker=lambda session: Untracked(), redirect=redirect)
        self.compiling = compiling
        self._warned: set[str] = set()

    def _launch(self, *launch: Any) -> None:
        super()._launch(*launch)
        self.launches.clear()
        self.writers.clear()
        for finding in self.findings:
            if finding.message not in self._warned:
                self._warned.add(finding.message)
                self.warned(finding)

    def warned(self, finding: MemoryFinding) -> None:
        """A kernel used memory that it must not use; told once."""
        warnings.warn(f"{finding.code}: {finding.message}", RuntimeWarning, stacklevel=3)


class NoGpu(contextlib.ContextDecorator):
    """The scope; may be entered again while it is open, and used as a decorator."""

    def __init__(self, device: str = "any") -> None:
        self._device = device
        self._open: list[contextlib.ExitStack] = []

    def __enter__(self) -> NoGpu:
        with contextlib.ExitStack() as stack:
            if not has_gpu():
                if innermost() is None:
                    stack.enter_context(ValueSession(self._device))
                else:
                    stack.enter_context(cuda_on_cpu(self._device))
                known_keys(stack.enter_context(PatchScope()))
            self._open.append(stack.pop_all())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.pop().close()


@contextlib.contextmanager
def launching(device: str) -> Iterator[None]:
    """Inside, kernels can be launched on tensors of the CPU; nothing else is changed, torch.compile least of all."""
    if has_gpu() or innermost() is not None:
        yield
        return
    with ValueSession(device, redirect=False, compiling=True):
        yield


def no_gpu(device: str = "any") -> NoGpu:
    """A scope in which GPU-only Python is imported and runs here; `device` names the profile that it is told of.

    Raises RenderError for an unknown one.

        with render.no_gpu("sm_90"):
            import liger_kernel.ops.rms_norm
    """
    from interval_ops.profiles.profile import load_profile

    expect("device", device, str)
    try:
        load_profile(device)
    except ValueError as error:
        raise RenderError("RND902", str(error), "`render ops --help` names the profiles") from None
    return NoGpu(device)
