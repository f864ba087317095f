"""The builder of the adversary: concrete legal choices for every operation of a launch."""

from __future__ import annotations

import numpy as np

from render.interpreter.handle import Handle
from render.interpreter.types import format_of
from render.lab.adversary.dots import LegalDots
from render.lab.adversary.reductions import FreeReductions


class AdversaryBuilder(LegalDots):
    """One execution of a kernel, as its plan chooses."""

    reductions = FreeReductions

    def order(self, programs: int) -> np.ndarray:
        """Programs run in any order; launches whose programs read each other's results say so (`in_order`)."""
        how = self.everywhere("programs", "numbered", "reversed", "shuffled")
        numbered = np.arange(programs, dtype=np.int32)
        if how == "reversed":
            return numbered[::-1].copy()
        return numbered if how == "numbered" else self.rng.permutation(numbered)

    def _atomic(self, kind: str, ptr: Handle, value: Handle | None, cmp: Handle | None, mask: Handle | None) -> Handle:
        if kind != "add" or value is None or format_of(value.dtype) is None:
            return super()._atomic(kind, ptr, value, cmp, mask)
        value = Handle(self._flushed(value.v), value.dtype, value.shape)
        order = self._lanes(ptr, value)
        if order is None:
            return super()._atomic(kind, ptr, value, cmp, mask)
        return self._reordered(ptr, value, mask, order)

    def _flushed(self, v: np.ndarray) -> np.ndarray:
        """fp32 atomics on global memory read subnormals as 0 on some targets."""
        flush = self.ctx.profile.atomic_flush_fp32 and self.everywhere("atomics", "keep", "flush") == "flush"
        return np.where(np.abs(v) < 2.0**-126, v * 0, v) if flush and v.dtype == np.float32 else v

    def _lanes(self, ptr: Handle, value: Handle) -> np.ndarray | None:
        """The order of all lanes of all programs; None: program by program, lane by lane."""
        how = self.pick("atomic", "numbered", "shuffled", "growing", "shrinking", "rising", "falling")
        whole = np.broadcast_to(value.v, (self.ctx.programs, *ptr.shape)).reshape(-1)
        if how == "numbered" or whole.size == 1:
            return None
        if how == "shuffled":
            return self.rng.permutation(whole.size)
        keys = np.abs(whole) if how in ("growing", "shrinking") else whole
        return np.argsort(keys if how in ("growing", "rising") else -keys)

    def _reordered(self, ptr: Handle, value: Handle, mask: Handle | None, order: np.ndarray) -> Handle:
        """One lane after the other, each as a program of its own; what each gets back is put where it belongs."""
        ctx, shape = self.ctx, (self.ctx.programs, *ptr.shape)

        def lanes(h: Handle) -> Handle:
            return Handle(np.broadcast_to(h.v, shape).reshape(-1)[order], h.dtype, (), origin=h.origin)

        programs = ctx.linear
        per_program = len(order) // len(programs)
        ctx.linear = np.repeat(programs, per_program)[order]
        try:
            got = super()._atomic("add", lanes(ptr), lanes(value), None, None if mask is None else lanes(mask))
        finally:
            ctx.linear = programs
        v = np.empty_like(got.v)
        v[order] = np.broadcast_to(got.v, order.shape)
        return Handle(v.reshape(shape), got.dtype, ptr.shape)
