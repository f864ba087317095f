"""E, the reference recomputed in float64, with an error bound; and R, the bound of the reference's own rounding.

E is what the author wrote: the reference run natively with float64 carried beside it (`render.reference.shadow`). The
plain reference on widened inputs is the same computation where it left the same trail (`render.reference.trail`) and
everything inside stays float64; then it stands for that run, at a fraction of the cost. Where the trails differ, the
widened run is told as a cross-check.

The error of E matters only where E misses the kernel's bound. It is carried through the same operations: what float64
loses in each, the casts that the reference asks for, and its constants (0.1 in a float32 program is fl32(0.1)). R is
the same with the errors of the reference's own dtypes. Both are bounds to first order where every operation has a rule,
and verdicts say where they are estimates. Where float64's own error decides, E is evaluated in more bits
(`render.judgement.precision`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from interval_ops.allocator import spare
from render.entry.execution import default_dtype
from render.entry.held_state import seeded
from render.entry.inputs import Inputs
from render.entry.kernels import ReferenceKernels, ShadowedKernels
from render.entry.left_arrays import widened_arrays
from render.entry.outputs import Named
from render.entry.resolve import Reference, ReferencePlan
from render.reference.local_error import Unit
from render.reference.partly import is_much
from render.reference.shadow import F64, FusedAttention, Lost, Made, NarrowWatch, ShadowMode, is_float
from render.reference.trail import Footprint
from render.result.defects import caught
from render.result.errors import UnsupportedOp
from render.result.footing import steadied

ASSUMED = "its error is assumed, not bounded"
BOUNDED = "its error is bounded"
LARGE = 1 << 26
"""Bytes of E from which on what a run of the reference worked in is given back at once."""
FALLBACK = 2.0**-44
"""Error of E relative to the largest element of the output where it could not be carried; always reported."""


def array(x: torch.Tensor) -> np.ndarray:
    """Any tensor as a float64 array."""
    return x.detach().to(F64).numpy()


Ends = tuple[np.ndarray, np.ndarray]
Carried = tuple[list[Ends], str, list[str]]
"""[lo, hi] per output, what the error of E rests on, notes."""


@dataclass
class OracleResult:
    """E per output of the reference, in its order, and the ends of its error interval.

    `carry` computes the ends when they are first asked for: carrying the error takes ten times as long as E itself, and
    an E that lies in the kernel's bound needs none. `widened`: from float64 inputs; `trusted` is False for values that
    are not exact, but the reference's own. `work`: elements that were computed on the way to E. `finer`: what was
    evaluated again in more bits, in words.
    """

    values: list[np.ndarray]
    how: str
    carry: Callable[[], Carried]
    notes: list[str] = field(default_factory=list)
    widened: bool = False
    trusted: bool = True
    work: int = 0
    finer: str = ""
    wider: list[np.ndarray] | None = None
    """What the reference gives on widened inputs, where that is another computation: it may decide otherwise."""
    _found: tuple[list[Ends], str] | None = field(default=None, init=False)
    _proved: dict[int, np.ndarray] = field(default_factory=dict, init=False)
    _confirmed: dict[int, np.ndarray] = field(default_factory=dict, init=False)

    def _carried(self) -> tuple[list[Ends], str]:
        if self._found is None:
            ends, text, notes = self.carry()
            self.notes += notes
            self._found = ends, text
        return self._found

    def ends(self, i: int) -> Ends:
        """(lo, hi) of output i."""
        return self._carried()[0][i]

    @property
    def bounded(self) -> bool:
        """Was the error carried already?"""
        return self._found is not None

    def proved(self, i: int) -> np.ndarray:
        """Where the ends of output i are proved, and not estimated."""
        rigorous = self._carried()[1] == BOUNDED
        return self._proved.get(i, np.broadcast_to(rigorous, self.values[i].shape))

    def confirmed(self, i: int) -> np.ndarray:
        """Where the ends of output i come from other code than E's own evaluation, and are proved."""
        return self._confirmed.get(i, np.broadcast_to(np.False_, self.values[i].shape))

    def refine(
        self, i: int, places: np.ndarray, value: np.ndarray, lo: np.ndarray, hi: np.ndarray, rigorous: bool = True
    ) -> None:
        """Better values and ends of some elements (flat places) of output i; `rigorous`: they are proved."""
        ends, _ = self._carried()
        self._proved[i] = np.array(self.proved(i))
        self._proved[i].reshape(-1)[places] = rigorous
        self._confirmed[i] = np.array(self.confirmed(i))
        self._confirmed[i].reshape(-1)[places] = rigorous
        improved = [np.array(x) for x in (self.values[i], *ends[i])]
        for whole, part in zip(improved, (value, lo, hi), strict=True):
            whole.reshape(-1)[places] = part
        self.values[i] = improved[0]
        ends[i] = improved[1], improved[2]

    @property
    def lo(self) -> list[np.ndarray]:
        return [lo for lo, _ in self._carried()[0]]

    @property
    def hi(self) -> list[np.ndarray]:
        return [hi for _, hi in self._carried()[0]]

    @property
    def assumption(self) -> str:
        error = "its error decides nothing and was not bounded" if self._found is None else self._found[1]
        return f"reference {self.how}; {error}{self.finer}"


@dataclass
class Oracle:
    """Everything needed to run the reference again: `collect` finds its output tensors, `native` are the y_ref."""

    reference: Reference
    plan: ReferencePlan
    inputs: Inputs
    collect: Callable[[Any, Mapping[str, Any]], Named]
    native: Named
    seed: int = 0
    tf32: bool = False
    trail: Footprint | None = None
    """Of the run that gave `native`; None: not known, the widened run is taken for it."""
    launches: str | None = None
    """The target of kernels that the reference launches; None: it launches none."""
    memo: Callable[[Any, Callable[[], Any]], Any] = lambda key, compute: compute()
    """Gives what was computed under a key before, by another oracle of the same reference."""

    def changed(self, what: str, inputs: Inputs) -> Oracle:
        """The same reference on other inputs, or run otherwise: `what` names the change, and what is known under it."""
        return replace(self, inputs=inputs, memo=lambda key, compute: self.memo((what, key), compute))

    def ignores(self, inputs: Inputs) -> bool:
        """Whether the reference, as it is, returns the same bits on these inputs; False where it fails on them."""
        try:
            given = (self.inputs.clone, inputs.clone)
            before, after = ([array(self.inputs.apart(x)) for _, x in self._call(make())] for make in given)
        except Exception as error:  # whatever a reference raises on other numbers
            caught(error, "the reference on other inputs")
            return False
        return len(before) == len(after) and all(map(np.array_equal, before, after, [True] * len(before)))

    def exact(self) -> OracleResult:
        if self.reference.bounds is not None:
            values, ends = self.reference.bounds(self.inputs)
            known: Carried = ends, BOUNDED, []
            return OracleResult(values, "taken with bounds of its own", lambda: known, trusted=False)
        base = None if self.launches else self._counted()
        if base is None:
            return self._beside()
        values, watch = base
        if self.trail is not None and not self.trail.same(watch.footprint):
            return self._checked(self._beside(), values)
        found = OracleResult(values, "recomputed in float64", lambda: self._spread(values), widened=True)
        return replace(found, work=watch.elements)

    def _checked(self, found: OracleResult, widened: list[np.ndarray]) -> OracleResult:
        """E as written, with a note where wider inputs make another function of the reference."""
        if not found.trusted:
            return found
        found.wider, far = widened, 0
        for (_, native), e, w in zip(self.native, found.values, widened, strict=True):
            gap, own = deviation(w, e), deviation(array(native), e)
            far += int(np.count_nonzero(gap > 4 * float(own.max(initial=0.0)) + self._floor(native, e)))
        if far:
            found.notes.append(
                f"on float64 inputs the reference is another function, in {far} elements by more than its rounding: "
                "its meaning depends on the dtype; E is what it means at its own"
            )
        return found

    def _floor(self, native: torch.Tensor, e: np.ndarray) -> np.ndarray:
        u, floor = Unit(native=True).rounding(native.dtype)
        rounding: np.ndarray = 4 * u * np.abs(e) + floor
        return rounding

    def _spread(self, base: list[np.ndarray]) -> Carried:
        """The ends around E = `base`, which the plain reference gave."""
        try:
            spread, mode = self._reach(Unit(native=False), True, base)
        except Exception as error:
            caught(error, "error bound of the reference")
            spread = [np.full(x.shape, FALLBACK * np.abs(x[np.isfinite(x)]).max(initial=0)) for x in base]
            return self._ends(base, spread), ASSUMED, [f"no error bound of the reference: {_why(error)}"]
        return self._ends(base, spread), _quality(mode), list(mode.notes)

    def _beside(self) -> OracleResult:
        """E of a reference that float64 inputs do not keep in float64."""
        try:
            values, spread, mode = self._carried(Unit(native=False), widened=False)
            if self.trail is not None:
                self.trail.check(values, self.native)
        except Exception as error:
            caught(error, "the reference with float64 beside it")
            values = [array(x) for _, x in self.native]
            spread = [self._storage_error(i) for i in range(len(values))]
            found: Carried = self._ends(values, spread), ASSUMED, [f"no error bound of the reference: {_why(error)}"]
            return OracleResult(values, "taken at its own precision", lambda: found, trusted=False)
        known: Carried = self._ends(values, spread), _quality(mode), list(mode.notes)
        return OracleResult(values, "run as written with float64 carried beside it", lambda: known)

    def otherwise(self, exact: OracleResult) -> list[np.ndarray] | None:
        """E with the reference's decisions (casts to integers, comparisons, places of a maximum) made the other way.

        On widened inputs it decides as float64 does; run as written, as its own dtypes do. Both are what it may do
        within its rounding. NaN where both decide alike, which is to say that they differ by no more than float64's own
        error; None where it cannot be had.
        """

        def found() -> list[np.ndarray] | None:
            try:
                values = self._carry(None, False, decides=not exact.widened)[0]
                base, reach = self._float64(exact.widened)
            except Exception as error:  # sizes that hang on decisions, and whatever a reference raises on other ones
                caught(error, "the reference with other decisions")
                return None
            if [x.shape for x in values] != [x.shape for x in base]:
                return None
            parts = zip(values, base, reach, strict=True)
            return [np.where(deviation(v, x) > 2 * e + 2.0**-48 * np.abs(x), v, np.nan) for v, x, e in parts]

        if self.reference.bounds is not None or not exact.trusted:
            return None
        known: list[np.ndarray] | None = self.memo(("otherwise", exact.widened), found)
        return known

    def _float64(self, widened: bool) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """E as float64 has it, and how far that may be off."""
        if not widened:
            return self._carried(Unit(native=False), False)[:2]
        base = self._plain() or []
        return base, self._reach(Unit(native=False), True, base)[0]

    def radius(self, exact: OracleResult) -> list[np.ndarray | None]:
        """R per output: how far the reference's own roundings may take it from E."""
        if self.reference.bounds is not None:
            widths = [hi - lo for lo, hi in (exact.ends(i) for i in range(len(exact.values)))]
            return [width if np.isfinite(width).all() else None for width in widths]
        try:
            values, spread, _ = self._carried(Unit(native=True, tf32=self.tf32), widened=False)
        except Exception as error:  # a bound that cannot be had is reported as unknown
            caught(error, "the reference's own rounding")
            exact.notes.append(f"no bound of the reference's own rounding: {_why(error)}")
            return [None] * len(exact.values)
        return [e + deviation(v, x) for e, v, x in zip(spread, values, exact.values, strict=True)]

    def sensitivity(self, exact: OracleResult, inputs: float) -> tuple[list[np.ndarray], bool] | None:
        """(how far E moves when every input moves by `inputs` |x|, whether that is an estimate); None if not known.

        To first order, per output; casts of the reference round nothing.
        """
        try:
            unit = Unit(native=False, casts=False, inputs=inputs)
            reach, mode = self._reach(unit, exact.widened)
        except Exception as error:  # as with `radius`: not known is an answer
            caught(error, "what the inputs do to the reference")
            exact.notes.append(f"what the inputs do to the reference is not known: {_why(error)}")
            return None
        return reach, mode.estimated

    def attainable(
        self, inputs: float, least: float, scale: float, made: list[Made] | None = None, partly: bool = False
    ) -> list[np.ndarray] | None:
        """`scale` times what a careful implementation of the reference loses in a format of unit roundoff `least`, or
        the reference's own where that is coarser, with inputs that are off by `inputs` of themselves; None: not known.

        To first order, per output; a jump counts where it lies within that reach. `made` gets every float tensor on the
        way, in float64, with its reach. `partly`: a part of it that takes much less work, if there is one.
        """
        known = None if self.launches or not partly else self._counted()
        given = [*self.inputs.values.values(), *(x for _, x in self.native)]
        if partly and (known is None or not is_much(known[1].elements, given)):
            return None
        unit = Unit(native=True, attainable=True, least=least, scale=scale, inputs=scale * inputs, tf32=self.tf32,
                    partly=partly)  # fmt: skip
        try:
            return self._reach(unit, False)[0] if made is None and not partly else self._carry(unit, False, made)[1]
        except Exception as error:  # as with `radius`
            caught(error, "what a careful implementation of the reference loses")
            return None

    def weakest(self) -> Lost | None:
        """The first operation of the reference after which its results are half as wrong as they ever are."""
        lost: list[Lost] = []
        try:
            self._carried(Unit(native=True), False, lost=lost)
        except Exception as error:  # as with `radius`
            caught(error, "where the reference loses digits")
            return None
        known = [step for step in lost if np.isfinite(step[3]) and step[2]]
        most = max((step[3] for step in known), default=0.0)
        return next((step for step in known if step[3] >= most / 2), None) if most else None

    def steps(self) -> list[Made]:
        """Every float tensor on the way, of the reference as it is written, in float64 with its error. May raise."""
        made: list[Made] = []
        self._carried(Unit(native=False), False, made)
        return made

    def run_under(self, mode: TorchDispatchMode) -> None:
        """The reference as it is written, on widened inputs, seen by a mode. May raise, and does where it launches
        kernels, which round inside whatever their inputs are."""
        if self.launches:
            raise UnsupportedOp("a kernel", "in a reference on widened inputs")
        with default_dtype(F64), sdpa_kernel([SDPBackend.MATH]), mode:
            self._call(self.inputs.upcast())

    def run_native(self, mode: TorchDispatchMode) -> None:
        """The reference as it is, seen by a mode. May raise."""
        inputs = self.inputs.clone()
        with mode:
            self._call(inputs)

    def casts(self, exact: OracleResult) -> list[np.ndarray]:
        """How far casts that the reference asks for, and its constants, may take its outputs: no error of float64."""
        return self._reach(Unit(native=False, arithmetic=False), exact.widened)[0]

    def of_float64(self, exact: OracleResult, i: int) -> np.ndarray:
        """How far E's own evaluation may be off in output i, casts and constants of the reference aside."""
        lo, hi = exact.ends(i)
        try:
            casts = self.casts(exact)[i]
        except Exception as error:  # what casts do is not known: then all of it counts
            caught(error, "casts and constants of the reference")
            casts = np.zeros(lo.shape)
        with np.errstate(invalid="ignore"):
            found: np.ndarray = np.maximum(np.nan_to_num((hi - lo) / 2 - casts, nan=np.inf), 0.0)
        return found

    def _storage_error(self, i: int) -> np.ndarray:
        x = self.native[i][1]
        u, floor = Unit(native=True).rounding(x.dtype)
        return 8 * (u * np.abs(array(x)) + floor) if x.is_floating_point() else np.zeros(x.shape)

    def _call(self, inputs: Inputs, kernels: AbstractContextManager[Any] | None = None) -> Named:
        """Its outputs. Kernels that it launches run in `kernels`, or else for their values."""
        seeded(self.seed)
        values = inputs.values
        with steadied(), kernels or (ReferenceKernels(self.launches) if self.launches else nullcontext()):
            return self.collect(self.plan.call(self.reference.fn, values), values)

    def _plain(self) -> list[np.ndarray] | None:
        """The reference on widened inputs; None where it fails, draws numbers, or is narrower than float64 inside."""
        found = self._counted()
        return None if found is None else found[0]

    def _counted(self) -> tuple[list[np.ndarray], NarrowWatch] | None:
        """`_plain` with what counted its work."""
        found: tuple[list[np.ndarray], NarrowWatch] | None = self.memo("counted", self._count)
        return None if found is None else (list(found[0]), found[1])

    def _count(self) -> tuple[list[np.ndarray], NarrowWatch] | None:
        named, watch = self._widened() or ([], None)
        if watch is None:
            return None
        shapes = [(x.shape, x.is_floating_point()) for _, x in named]
        if watch.narrow or watch.drawn or shapes != [(x.shape, x.is_floating_point()) for _, x in self.native]:
            return None
        return [array(self.inputs.apart(x)) for _, x in named], watch

    def cast_to_eight_bits(self) -> list[np.ndarray] | None:
        """The reference on widened inputs, with its casts to 8 bits made; None where it makes none, or other ones."""
        if self.launches or self._counted() is not None:  # nothing narrow is in it
            return None
        if (found := self._widened()) is None:
            return None
        named, watch = found
        eight = {d for d in watch.dtypes if d.itemsize == 1}
        if not eight or watch.drawn or watch.dtypes - eight - {F64, torch.float32}:
            return None
        return [array(self.inputs.apart(x)) for _, x in named]

    def _widened(self) -> tuple[Named, NarrowWatch] | None:
        """What the reference gives on widened inputs, and what watched it; None where it raises."""
        watch, inputs = NarrowWatch(), self.inputs.upcast()
        watch.restart(inputs.values.values())
        try:
            with default_dtype(F64), watch, widened_arrays(bool(self.trail and self.trail.left)):
                return self._call(inputs), watch
        except Exception as error:
            caught(error, "the reference on widened inputs")
            return None

    def _reach(
        self, unit: Unit, widened: bool, base: list[np.ndarray] | None = None
    ) -> tuple[list[np.ndarray], ShadowMode]:
        """(errors, mode) of such a run, around `base` where its own values are others; those are not kept."""

        def found() -> tuple[list[np.ndarray], ShadowMode]:
            values, errors, mode = self._carried(unit, widened, kept=False)
            if base is not None:  # composite operations take theirs from their definition
                errors = [reach + deviation(v, x) for reach, v, x in zip(errors, values, base, strict=True)]
            return errors, mode

        errors, mode = self.memo(("reach", unit, widened), found)
        return list(errors), mode

    def _carried(
        self, unit: Unit, widened: bool, made: list[Made] | None = None, lost: list[Lost] | None = None,
        kept: bool = True,
    ) -> tuple[list[np.ndarray], list[np.ndarray], ShadowMode]:  # fmt: skip
        """(values, errors, mode) of one run with float64 and error bounds beside it."""
        if made is not None or lost is not None or not kept:
            return self._carry(unit, widened, made, lost)
        values, errors, mode = self.memo((unit, widened), lambda: self._carry(unit, widened))
        return list(values), list(errors), mode

    def _carry(
        self, unit: Unit | None, widened: bool, made: list[Made] | None = None, lost: list[Lost] | None = None,
        decides: bool = False,
    ) -> tuple[list[np.ndarray], list[np.ndarray], ShadowMode]:  # fmt: skip
        mode = ShadowMode(unit, any(is_float(x) and x.dtype != F64 for _, x in self.native), decides)
        mode.made, mode.lost = made, lost
        inputs = self.inputs.upcast() if widened else self.inputs.clone()
        for x in inputs.values.values():
            if is_float(x) and x.layout is torch.strided:
                mode.shadows.lend(x, x)
        with default_dtype(F64 if widened else torch.get_default_dtype()):
            # The fused attention kernels have no error rule; their definition consists of operations that have one.
            rounded = unit is not None and unit.native
            fused = FusedAttention(mode) if rounded else nullcontext()
            kernels = ShadowedKernels(mode, self.launches, rounded) if self.launches else nullcontext()
            arrays = nullcontext() if rounded else widened_arrays(bool(self.trail and self.trail.left), mode.value)
            with sdpa_kernel([SDPBackend.MATH]), kernels, mode, fused, arrays:
                found = self._call(inputs, nullcontext())
            values = [array(self.inputs.apart(mode.value(x))) for _, x in found]
            errors = [array(mode.error(x)) for _, x in found]
        mode.release()
        if sum(x.nbytes for x in values) >= LARGE:
            spare()
        return values, errors, mode

    def _ends(self, base: list[np.ndarray], spread: list[np.ndarray]) -> list[Ends]:
        found = []
        for (_, native), x, reach in zip(self.native, base, spread, strict=True):
            if native.is_floating_point():
                reach = reach + 2.0**-52 * np.abs(x)
                with np.errstate(invalid="ignore"):
                    ends = x - reach, x + reach
            else:
                # Rounding may decide an integer either way (argmax, quantisation): hull of what was seen.
                ends = np.minimum(x, array(native)), np.maximum(x, array(native))
            found.append((_point(ends[0], x, -1), _point(ends[1], x, 1)))
        return found


def _quality(mode: ShadowMode) -> str:
    return "its error is an estimate" if mode.estimated else BOUNDED


def deviation(value: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """|value - centre|; 0 where both are the same infinity or NaN, infinite where only one of them is finite."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(value - centre)
    same = (value == centre) | (np.isnan(value) & np.isnan(centre))
    return np.where(same, 0.0, np.where(np.isnan(gap), np.inf, gap))


def _why(error: Exception) -> str:
    """An error in one line; with RENDER_FULL_TRACEBACK set it is raised instead, for it may be a mistake of ours."""
    if os.environ.get("RENDER_FULL_TRACEBACK"):
        raise error
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:160]


def _point(end: np.ndarray, centre: np.ndarray, side: int) -> np.ndarray:
    """The end of E's interval; an E that is not finite is a point, an unknown reach is an infinite one."""
    end = np.where(np.isnan(end), side * np.inf, end)
    return np.where(np.isfinite(centre), end, centre)
