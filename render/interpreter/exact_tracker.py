"""Which tensors of the host are exact: made, as was seen from the inputs on, by operations that round nothing.

A tensor that no kernel stored to has no bound, and its values alone say nothing: code that nobody sees may have
computed them of a kernel's result. `ExactTracker` follows the host as `HostTracker` does and remembers what was made of
inputs, of numbers in the program and of what it remembers already, without a rounding and without a draw. Once a
kernel's result has left torch as a number or an array, what is made afterwards may depend on it, and nothing more is
remembered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from render.interpreter.host import ALLOCATIONS, HostTracker
from render.interpreter.hosted.overloads import OverloadRule, is_plain, read_arguments, tensors_of, written_arguments
from render.interpreter.memory import Envelope
from render.ops.aten import Form, of_form

_NOT_MADE = ALLOCATIONS | of_form(Form.RANDOM)


class ExactTracker(HostTracker):
    """`given`: tensors whose values hold as they are."""

    def __init__(self, *args: Any, given: Iterable[torch.Tensor] = ()) -> None:
        super().__init__(*args)
        self._exact: dict[int, StorageWeakRef] = {}
        self._left = False
        for tensor in filter(is_plain, given):
            self._remember(tensor)

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether all of its elements are exact."""
        return is_plain(tensor) and tensor.untyped_storage()._cdata in self._exact

    def ends_of(self, tensor: torch.Tensor) -> Envelope | None:
        found = super().ends_of(tensor)
        self._left = self._left or found is not None
        return found

    def _remember(self, tensor: torch.Tensor) -> None:
        """The weak reference keeps the storage's record, so that no other one can stand where it stood."""
        ref = StorageWeakRef(tensor.untyped_storage())
        self._exact[ref.cdata] = ref

    def _dispatched(self, func: Any, op: OverloadRule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._paused:
            return super()._dispatched(func, op, args, kwargs)
        targets = written_arguments(op, args, kwargs)
        known = op.name not in _NOT_MADE and not op.opaque and all(map(self.knows, read_arguments(op, args, kwargs)))
        out = super()._dispatched(func, op, args, kwargs)
        if not op.view:
            for tensor in filter(is_plain, (*tensors_of(out), *targets)):
                self._judge(tensor, known and not self._left)
        return out

    def _judge(self, tensor: torch.Tensor, exact: bool) -> None:
        """Of what an operation made of exact operands, or of others."""
        if not exact or self.ends_beside(tensor) is not None:
            self._exact.pop(tensor.untyped_storage()._cdata, None)
        elif tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes():
            self._remember(tensor)

    def ends_beside(self, tensor: torch.Tensor) -> Envelope | None:
        """What is known of a tensor that stays in torch: a rounding, or a kernel's result, lies behind it."""
        return super().ends_of(tensor)
