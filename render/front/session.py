"""Runs kernels of watched code for their values, and writes every launch on the tape."""

from __future__ import annotations

from typing import Any

import torch

from render.front.repeats import Repeats
from render.front.tape import Tape
from render.interpreter.arguments import KernelCall, grid_of
from render.interpreter.no_gpu import ValueSession
from render.interpreter.scope import PatchScope
from render.interpreter.session import Session


class WatchedSession(ValueSession):
    def __init__(self, device: str, tape: Tape, **options: Any) -> None:
        Session.__init__(self, device, interval=False, tracker=lambda session: tape, **options)
        self.tape = tape
        self._warned: set[str] = set()
        self.told: list[Any] = []
        self.launched = 0
        self._repeats, told = Repeats(lambda: self.memory), self.memory.printer

        def printed(text: str) -> None:
            self._repeats.heard()
            told(text)

        self.memory.printer = printed

    def warned(self, finding: Any) -> None:
        self.told.append(finding)

    def _launch(self, kernel: Any, grid: Any, call: KernelCall) -> None:
        if self._probing:
            super()._launch(kernel, grid, call)
            return
        extents = grid_of(grid, call.arguments)
        self.launched += 1
        step = self.tape.launching(kernel, extents, call)
        if self._repeats.nothing_new(step):
            return
        if (copied := self._repeats.copied(step)) is not None:
            stored, again = copied
            self.tape.wrote(step, stored)
        else:
            super()._launch(kernel, extents, call)
            self.tape.wrote(step, self.memory.stored)
            again = self._repeats.ran(step, self.memory)
        self.tape.equal(again)

    def _watch_addresses(self, scope: PatchScope) -> None:
        super()._watch_addresses(scope)
        watched = torch.Tensor.data_ptr

        def data_ptr(tensor: Any) -> int:
            self.tape.asked(tensor)
            return watched(tensor)

        scope.set(torch.Tensor, "data_ptr", data_ptr)
